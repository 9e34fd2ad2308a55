#!/bin/bash
export KA=1 && export KB=2
srv
