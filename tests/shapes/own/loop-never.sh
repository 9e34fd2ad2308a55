#!/bin/bash
export KA=1
while [ -n "$MORE" ]; do
  export KA=2
  MORE=
done
srv
