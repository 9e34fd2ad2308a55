#!/bin/bash
srv --ka 1 2>&1 | tee out.log
