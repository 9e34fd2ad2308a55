#!/bin/bash
export KA=1 KB=${KA:-2}
srv
