#!/bin/bash
A=(--kb 2)
srv --ka "${A[@]}"
