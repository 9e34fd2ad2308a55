#!/bin/bash
srv --ka="${1:-7}" --kb=${2:-x}
