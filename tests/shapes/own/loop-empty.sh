#!/bin/bash
export KA=1
for host in $HOSTS; do
  export KA=2
done
srv
