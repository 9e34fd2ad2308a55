#!/bin/bash
setup() {
  if [ -z "$FAST" ]; then
    export KA=1
    return
  fi
  export KA=2
}
setup
srv
