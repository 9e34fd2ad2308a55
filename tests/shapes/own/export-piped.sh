#!/bin/bash
export KA=1
{ export KA=2; } | cat
srv
