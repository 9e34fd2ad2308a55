#!/bin/bash
export KA=1
( KB=2; export KB; exec srv --ka 3 )
