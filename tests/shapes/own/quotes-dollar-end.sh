#!/bin/bash
export KA="a$" KB=5$
srv
