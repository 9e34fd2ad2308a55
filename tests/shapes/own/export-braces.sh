#!/bin/bash
KA={1,2}
export KA
srv
