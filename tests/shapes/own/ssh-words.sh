#!/bin/bash
ssh host KB=2 srv --ka 3
