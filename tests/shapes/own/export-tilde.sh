#!/bin/bash
export KA='~/x' KB=~/y
srv
