#!/bin/bash
N=KB
export KB=2
export KA=${!N} KC=${KB:0:1} KD=${#KB}
srv
