#!/bin/bash
# don't
export KA=1 # it's
srv
