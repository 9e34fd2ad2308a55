#!/bin/bash
KA=1
KA=2 srv --ka "$KA" --kb 3
