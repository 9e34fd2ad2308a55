#!/bin/bash
tune() { export KA=1; }
export KA=2
srv
