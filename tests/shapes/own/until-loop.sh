#!/bin/bash
until [ 1 = 1 ]; do :; done
export KA=1
srv
