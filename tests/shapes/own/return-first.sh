#!/bin/bash
main() {
  export KA=1
  srv
  return
  export KA=2
  srv --late
}
main
