#!/bin/bash
export KA=1
if [ -n "$STOP" ]; then
  export KA=2
  exit 1
fi
srv
