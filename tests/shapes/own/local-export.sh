#!/bin/bash
f() { local -x KA=1; srv --ka 2; }
KB=3
export KB
f
