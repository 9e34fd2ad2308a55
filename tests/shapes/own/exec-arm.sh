#!/bin/bash
export KA=1
if [ -n "$ONE" ]; then
  export KB=1
  exec srv --ka 1
fi
export KB=2
exec srv --ka 2
