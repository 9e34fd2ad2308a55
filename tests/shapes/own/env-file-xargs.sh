#!/bin/bash
printf 'KZ=1\n' > f.env
export $(grep -v '^#' f.env | xargs)
export KA=1
srv
