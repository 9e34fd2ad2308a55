#!/bin/bash
{
  export KA=1
  KB=2
}
export KB
srv
