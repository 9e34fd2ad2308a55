#!/bin/bash
BASE=(--ka 1)
ALL=("${BASE[@]}" --kb "two words")
srv "${ALL[@]}"
