#!/bin/bash
export KA=1
case "${1:-a}" in
  a) srv --ka 2 ;;
  *) srv --ka 3 --kb 4 ;;
esac
