#!/bin/bash
if [ -n "$ALL" ]; then set -a; fi
KA=1
export KB=2
srv
