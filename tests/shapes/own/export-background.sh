#!/bin/bash
export KA=1
{ export KA=2; } &
wait
srv
