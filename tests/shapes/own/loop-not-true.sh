#!/bin/bash
export KA=1
while ! true; do
  export KA=2
done
srv
