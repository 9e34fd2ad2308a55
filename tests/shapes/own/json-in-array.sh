#!/bin/bash
A=(--ka '{"x": [1, 2]}')
srv "${A[@]}"
