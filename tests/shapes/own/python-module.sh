#!/bin/bash
export KA=1
python3 -u -m pkg.server --ka 3 --kb=4 &
wait
