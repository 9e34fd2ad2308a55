#!/bin/bash
timeout -k 5 60 env KA=1 srv --ka 2
