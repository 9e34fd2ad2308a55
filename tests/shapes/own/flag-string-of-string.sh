#!/bin/bash
PORT=1
BASE="--ka 2 --kp $PORT"
ALL="$BASE --kb=3"
srv $ALL
