#!/bin/sh
set -a
KA=1
: "${KB:=2}"
set +a
KC=3
srv
