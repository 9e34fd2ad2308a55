#!/bin/bash
> out.log srv --ka 1 2>&1 --kb 2 < /dev/null --kc=3
