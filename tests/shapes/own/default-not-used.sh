#!/bin/bash
export KA=1
export KA=${KA:-2}
srv
