#!/bin/bash
A=(
  --ka
    1
  --kb=2)
srv "${A[@]}"
