#!/bin/bash
export KA=1
coproc export KA=2
wait
srv
