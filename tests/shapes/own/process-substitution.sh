#!/bin/bash
srv --ka 1 > >(cat > log) 2>&1
