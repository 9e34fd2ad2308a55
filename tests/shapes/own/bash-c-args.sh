#!/bin/bash
env KA=1 sh -c 'exec srv --ka 2'
