#!/bin/bash
KA=1
bash -c "KB=$KA srv --ka 2 --kb 'x y'"
