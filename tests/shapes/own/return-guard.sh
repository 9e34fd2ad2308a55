#!/bin/bash
main() {
  export KA=1
  [ -z "$STOP" ] || { export KA=2; return 1; }
  srv
}
main
