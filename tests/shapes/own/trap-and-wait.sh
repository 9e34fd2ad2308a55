#!/bin/bash
trap 'kill $PID; export KA=9' TERM
export KA=1
srv --ka 2 &
PID=$!
wait $PID
