#!/bin/bash
export KA=1
ssh -t host "KB=2 srv --ka 3"
