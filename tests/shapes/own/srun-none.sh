#!/bin/bash
export KA=1
srun --export=NONE srv --ka 3
