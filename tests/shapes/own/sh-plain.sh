#!/bin/sh
KA=1
KB="two words"
export KA KB
exec srv --ka "$KB" --kb 3
