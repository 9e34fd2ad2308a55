#!/bin/bash
export KA=1
python3 prepare.py --kb 1
export KA=2
exec python3 engine.py --ka 3
