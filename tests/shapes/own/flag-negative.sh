#!/bin/bash
srv --ka -1 --kb -v
