#!/bin/bash
export KA= KB=
export KA=${KA:-2} KB=${KB-3}
srv
