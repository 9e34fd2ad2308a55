# only once
export KB=2
[ -n "$AGAIN" ] || return 0
export KA=3
