#!/bin/bash
for i in 1 2; do
  export KA=3
done
srv
