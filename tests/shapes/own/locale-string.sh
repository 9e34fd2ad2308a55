#!/bin/bash
export KA=$"text"
srv
