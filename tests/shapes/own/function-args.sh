#!/bin/bash
start() {
  srv --ka 1 "$@"
}
start --kb 2
