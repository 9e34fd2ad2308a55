#!/bin/bash
export KA=1
. ./site.sh
srv
