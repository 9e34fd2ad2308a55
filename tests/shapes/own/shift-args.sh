#!/bin/bash
set -- x --ka 1
shift
srv "$@" --kb 2
