#!/bin/bash
KA=1 \
  KB=2 \
  env KC=3 srv \
  --ka 4
