#!/bin/bash
export KA=1
env -i PATH="$PATH" KB=2 srv
