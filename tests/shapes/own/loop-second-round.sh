#!/bin/bash
export KA=1
for i in 1 2; do
  srv --id $i
  export KA=2
done
