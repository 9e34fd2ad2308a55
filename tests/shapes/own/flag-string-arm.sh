#!/bin/bash
A="--ka 1"
if [ -n "$X" ]; then A="$A --kb 2"; fi
srv $A
