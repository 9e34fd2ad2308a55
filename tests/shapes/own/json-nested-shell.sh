#!/bin/bash
eval 'srv --ka "{}"'
