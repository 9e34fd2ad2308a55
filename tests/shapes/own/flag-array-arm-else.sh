#!/bin/bash
A=()
if [ -n "$X" ]; then A+=(--ka 1); else A+=(--ka 2); fi
srv "${A[@]}" --kb 3
