#!/bin/bash
run() { srv --ka 1; }
KA=2 run
