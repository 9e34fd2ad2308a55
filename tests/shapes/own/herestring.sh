#!/bin/bash
srv --ka 1 <<< "in --ka 3"
