#!/bin/bash
KA=1 torchrun --nproc_per_node 2 --kb=1 srv --ka 3
