#!/bin/bash
export KA=1 KB=2
[ -n "$NO" ] && unset KA
srv
