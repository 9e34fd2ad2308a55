#!/bin/bash
A=(--ka 2)
srv --ka 1 "${A[@]}"
