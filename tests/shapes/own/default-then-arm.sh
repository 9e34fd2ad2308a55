#!/bin/bash
export KA=${KA:-1}
if [ -n "$FAST" ]; then
  export KA=2
fi
export KB=3
srv
