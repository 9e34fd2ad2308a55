#!/bin/bash
export KA="${KA:-a\}b}"
srv
