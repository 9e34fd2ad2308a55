#!/bin/bash
A="KA=1 srv"
B="--ka 2"
eval "$A $B"
