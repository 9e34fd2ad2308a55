#!/bin/bash
mpirun --allow-run-as-root -np 2 -x KA=1 -x KB="a b" --bind-to none srv --ka 3
