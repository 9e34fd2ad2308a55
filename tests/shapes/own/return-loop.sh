#!/bin/bash
pick() {
  for i in 1 2; do
    export KA=$i-first
    [ -n "$GO_ON" ] || return
  done
  export KB=late
}
export KB=early
pick
srv
