#!/bin/bash
export KA="one \
two"
srv
