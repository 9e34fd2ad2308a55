#!/bin/bash
export KA=a#b KB="c"#d
srv --ka x#y # --ka z
