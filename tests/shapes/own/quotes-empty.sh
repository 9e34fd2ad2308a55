#!/bin/bash
export KA= KB='' KC=""
srv --ka '' --kb= --kc ""
