#!/bin/bash
export KA=1 KB=2
((KA=5))
srv --ka $((1+1))
