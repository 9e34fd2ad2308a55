#!/bin/bash
for i in 1 2; do
  for j in 1 2; do
    export KA=1
    break 2
  done
  export KA=2
done
srv
