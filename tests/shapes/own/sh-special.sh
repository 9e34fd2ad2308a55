#!/bin/sh
export KA=1
KA=2 :
srv
