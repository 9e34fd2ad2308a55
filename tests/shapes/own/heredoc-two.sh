#!/bin/bash
cat > a.txt <<A; cat > b.txt <<B
export KA=1
A
export KA=2
B
export KA=3
srv
