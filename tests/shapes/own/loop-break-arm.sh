#!/bin/bash
export KA=1
for i in 1 2; do
  [ -n "$GO_ON" ] || break
  export KA=2
done
srv
