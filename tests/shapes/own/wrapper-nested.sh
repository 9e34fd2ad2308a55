#!/bin/bash
KA=1 nohup bash -c 'srv --ka 2' > out.log 2>&1 &
wait
