#!/bin/bash
export KA=1;[ -n "$X" ]&&export KA=2;{ export KB=3;};(export KB=4);srv --ka 5;export KA=6
