#!/bin/bash
for i in 1 2; do
  export KA=1
  continue
  export KA=2
done
srv
