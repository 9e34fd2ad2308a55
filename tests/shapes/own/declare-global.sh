#!/bin/bash
f() { declare -gx KA=1; }
f
export KB=2
srv
