#!/bin/bash
RANKS=(0 1)
for rank in "${RANKS[@]}"; do
  export KA=2
done
srv
