#!/bin/bash
KA=1 true
export KA=2
srv
