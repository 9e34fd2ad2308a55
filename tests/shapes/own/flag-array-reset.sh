#!/bin/bash
A=(--ka 1)
A=(--kb 2)
srv "${A[@]}"
