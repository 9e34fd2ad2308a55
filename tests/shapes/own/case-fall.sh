#!/bin/bash
case a in
  a) export KA=1 ;;&
  *) export KB=2 ;;
esac
export KC=3
srv
