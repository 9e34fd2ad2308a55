#!/bin/bash
readonly KA=1
export KA
srv
