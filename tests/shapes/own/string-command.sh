#!/bin/bash
CMD="srv --ka 2"
$CMD --kb 3
