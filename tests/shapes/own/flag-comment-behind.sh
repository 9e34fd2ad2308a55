#!/bin/bash
srv --ka 1 # --ka 2 --kb 3
