#!/bin/bash
nohup env \
  KA=1 \
  KB=2 \
  srv --ka 3 > log 2>&1 &
wait
