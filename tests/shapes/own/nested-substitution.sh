#!/bin/bash
export KA=1
X=$(KA=2 cat; export KA=3)
srv
