#!/bin/bash
for i in 1 2; do
  export KA=1
  break
  export KA=2
done
srv
