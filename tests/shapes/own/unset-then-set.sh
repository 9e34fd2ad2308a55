#!/bin/bash
export KA=1
unset KA
export KA=2
srv
