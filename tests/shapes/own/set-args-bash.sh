#!/bin/bash
set -- --ka 1
set -- "$@" --kb 2
srv "$@"
