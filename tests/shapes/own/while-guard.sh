#!/bin/bash
export KA=1
while true; do
  srv --ka 2
  break
done
