#!/bin/bash
while true; do
  export KA=1
  if [ -z "$WAIT" ]; then
    break
  fi
  export KA=2
done
srv
