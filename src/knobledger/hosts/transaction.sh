#!/bin/sh
# shellcheck shell=sh disable=SC3013,SC3028,SC2154,SC2034
# The only code of knobledger that runs on a host. wire.py sends it, after a header of assignments, in one
# exec; see docs/transaction.md for what each step promises. -ef (SC3013) is not POSIX, but every shell has it;
# EPOCHREALTIME (SC3028) is used where there is one.
#
# From the header (SC2154):
#   nonce     begins every frame of the reply; mode: read | replace | rehearse | list | tidy | prune
#   path      as asked for; search: appended to PATH; wait: tenths of a second to wait for the lock
#   read:     who, `yes`: find the interpreters too
#   replace:  size base result bdir bname holder check matches leads inplace,
#             and "$@": strings to grep for, each after `+` (must be there) or `-` (must be gone)
#   list:     bdir
#   prune:    bdir holder, and "$@": digests and names of backups, in turn
#
# Frames are "NONCE TAG LENGTH\n", LENGTH bytes, "\n"; wire.py words them for people. Lines that begin with
# a hash are not sent.

umask 077
unset BASH_ENV ENV CDPATH GREP_OPTIONS
unset -f awk cat chmod chown cmp cp cut date dd df diff flock getfacl getfattr grep kill ln ls mkdir mv openssl \
    printf readlink rm rmdir sed setfacl sha256sum shasum sleep sort stat sync touch test
PATH=${PATH:-/usr/bin:/bin}$search
export PATH
nl='
'
stage='' bstage='' scratch='' lockfile='' heldby='' stat_tool='' selinux='' bmade='' unneeded='' bare='' frames='' bdir_mode='' bdir_inode='' mount=0
[ -e /sys/fs/selinux/enforce ] && selinux=yes

# What a program says of its failure is asked for by running it again where that does no harm: with its output caught, each
# run would cost a fork of this shell.
have() { command -v "$1" >/dev/null 2>&1; }
# Frames are gathered: each write becomes a packet, which costs both sides more than what is in it.
frame() { frames="$frames$nonce $1 ${#2}$nl$2$nl"; }
say() {
    printf %s "$frames"
    frames=''
}
step() { frame step "$1 $2 ${3-}"; }

# Sets left to something that could not be removed, such as on a disk that is read-only by now.
clean() {
    left=''
    # Nothing was changed: neither a backup of it, nor an empty directory for backups, should stay.
    for file in "$stage" "$bstage" "$heldby" "$unneeded"; do
        [ -z "$file" ] || rm -f -- "$file" 2>/dev/null || left=$file
    done
    [ -n "$scratch" ] && rm -rf -- "$scratch"
    [ -n "$bmade" ] && rmdir -- "$bdir" 2>/dev/null
    [ -n "$lockfile" ] && rm -f -- "$lockfile"
    stage='' bstage='' scratch='' heldby='' lockfile='' unneeded='' bmade=''
}

# finish KIND MESSAGE: the last frame, and the end of the script.
finish() {
    clean
    [ -z "$left" ] || step clean no "left behind: $left"
    frame end "$1 ${2-}"
    say
    exit 0
}

# fail STEP KIND MESSAGE
fail() {
    step "$1" no "$3"
    finish "$2" "$3"
}

# Which tools are here, each in its dialect.
probe() {
    digest_tool=''
    for tool in sha256sum shasum openssl sha256 busybox; do
        have "$tool" && digest_tool=$tool && break
    done
    case $digest_tool in
    '') fail probe notwritten "no tool for SHA-256 here (sha256sum, shasum, openssl)" ;;
    shasum) digest_tool='shasum -a 256' ;;
    openssl) digest_tool='openssl dgst -sha256 -r' ;;
    sha256) digest_tool='sha256 -q' ;;
    busybox) digest_tool='busybox sha256sum' ;;
    esac
    for tool in "$@"; do
        have "$tool" || fail probe notwritten "the command $tool is not here"
    done
    # bash knows the time by itself.
    now=${EPOCHREALTIME-}
    case $now in *[!0-9.]* | '') now=$(date +%s.%N) ;; esac
    case $now in *[!0-9.]* | '') now=$(date +%s) ;; esac
    frame clock "$now"
    frame tool "$digest_tool"
}

# digest FILE: sets sum. By stdin, because the tools escape odd names in what they print.
digest() {
    sum=''
    # shellcheck disable=SC2086
    { sum=$($digest_tool <"$1"); } 2>/dev/null || return 1
    sum=${sum%% *}
    [ ${#sum} -eq 64 ]
}

# digests FILE OTHER [THIRD]: sets sum, other and third, by one program where no name can be escaped.
digests() {
    third=''
    case $1$2${3-} in
    *[!A-Za-z0-9/._-]*) ;;
    *)
        # shellcheck disable=SC2086
        if all=$($digest_tool "$@" 2>/dev/null); then
            sum=${all%%[ "$nl"]*} all=${all#*"$nl"}
            other=${all%%[ "$nl"]*}
            if [ $# = 3 ]; then all=${all#*"$nl"} third=${all%%[ "$nl"]*}; fi
            case $#:${#sum}:${#other}:${#third}:$all in
            *:*:*:*:*"$nl"*) ;;
            2:64:64:0:* | 3:64:64:64:*) return ;;
            esac
        fi
        ;;
    esac
    [ $# = 2 ] || { digest "$3" && third=$sum; }
    digest "$2"
    other=$sum
    digest "$1"
}

# look FILE ...: sets uid gid mode bytes mtime links inode names of the last one, and seen to a line for each.
look() {
    if [ "$stat_tool" != f ] && seen=$(stat -c '%u %g %a %s %Y %h %d:%i %U/%G' -- "$@" 2>/dev/null); then
        stat_tool=c
    elif seen=$(stat -f '%u %g %Mp%Lp %z %m %l %d:%i %Su/%Sg' -- "$@" 2>/dev/null); then
        stat_tool=f
    else
        return 1
    fi
    take "${seen##*"$nl"}"
}

# take LINE: sets the same from one line of look's.
take() {
    # shellcheck disable=SC2086
    set -- $1
    [ $# -ge 8 ] || return 1
    uid=$1 gid=$2 mode=$3 bytes=$4 mtime=$5 links=$6 inode=$7
    shift 7
    names=$*
}

# extras FILE: sets acl xattrs label, as far as there are tools that show them.
extras() {
    acl='' xattrs='' label='' visible=no
    have getfattr && xattrs=$(getfattr -d -m - --absolute-names -- "$1" 2>/dev/null) && visible=yes
    # Where xattrs can be seen, an ACL is one of them; asking again only if there is one saves time.
    case $visible$xattrs in
    no* | *system.posix_acl_access=*)
        if have getfacl; then acl=$(getfacl -csEp -- "$1" 2>/dev/null) || acl=''; fi
        ;;
    esac
    if [ -n "$xattrs" ]; then
        # The kernel keeps no order; ima and evm are about the content, and change with it.
        xattrs=$(printf '%s\n' "${xattrs#*"$nl"}" | grep -v -e '^security\.ima=' -e '^security\.evm=' | sort)
    fi
    if [ -n "$selinux" ]; then label=$(stat -c %C -- "$1" 2>/dev/null) || label=''; fi
}

# keep FILE ...: sets b_acl b_xattrs b_label to the target's; bare, if one look finds none at all on it and on these.
keep() {
    bare=''
    acl='' xattrs='' label=''
    if [ -z "$selinux" ] && have getfattr && [ -z "$(getfattr -d -m - --absolute-names -- "$target" "$@" 2>&1)" ]; then
        bare=yes
    else
        extras "$target"
    fi
    b_acl=$acl b_xattrs=$xattrs b_label=$label
}

manifest() {
    frame stat "$uid $gid $mode $bytes $mtime $links"
    frame names "$names"
    frame acl "$acl"
    frame xattrs "$xattrs"
    frame label "$label"
}

# started PID: sets start to the process's start time, 0 where there is no /proc; fails if it is gone.
started() {
    start=0
    if [ -r /proc/self/stat ]; then
        { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
        # shellcheck disable=SC2086
        set -- ${line##*") "}
        shift 19
        start=$1
    else
        kill -0 "$1" 2>/dev/null
    fi
}

# alive PID START
alive() {
    case "$1$2" in *[!0-9]* | '') return 1 ;; esac
    if started "$1"; then
        [ "$start" = "$2" ]
    else
        # A /proc that hides other users' processes (hidepid).
        case $(kill -0 "$1" 2>&1) in *ermitted*) ;; *) false ;; esac
    fi
}

# From the path to the regular file, step by step: `readlink -f` is not everywhere.
resolve() {
    case $path in /*) ;; *) fail resolve refused "not an absolute path" ;; esac
    target=$path hops=0
    while [ -L "$target" ]; do
        hops=$((hops + 1))
        [ $hops -le 40 ] || fail resolve refused "the symbolic links go round in a circle"
        # The x keeps a newline at the end of the name.
        link=$(readlink -- "$target" && printf x) || fail resolve refused "can't read the symbolic link"
        link=${link%"${nl}x"}
        case $link in
        /*) target=$link ;;
        *) target=${target%/*}/$link ;;
        esac
    done
    if [ ! -e "$target" ]; then
        [ $hops -gt 0 ] && fail resolve refused "a symbolic link that leads nowhere ($target)"
        # -e is also false where a folder on the way is closed to us.
        fail resolve refused "no such file, or a folder on the way can't be searched"
    fi
    [ -d "$target" ] && fail resolve refused "a folder, not a file"
    [ -p "$target" ] && fail resolve refused "a named pipe (FIFO), not a regular file"
    [ -f "$target" ] || fail resolve refused "not a regular file"
    [ -r "$target" ] || fail resolve refused "permission denied: can't read it"
    folder=${target%/*}/
    base_name=${target##*/}
    cd -P -- "$folder" 2>/dev/null || fail resolve refused "can't enter the folder $folder"
    case $PWD in
    /) folder='' ;;
    *) folder=$PWD ;;
    esac
    [ "$folder/$base_name" -ef "$target" ] || fail resolve refused "can't find out where it really is"
    target=$folder/$base_name
    frame resolved "$target"
    if [ -n "${bdir-}" ]; then place_backup_dir; fi
    if [ -d "${bdir-}" ]; then
        look "$bdir" "$target" && take "${seen%%"$nl"*}" && bdir_mode=$mode bdir_inode=$inode && take "${seen##*"$nl"}"
    else
        look "$target"
    fi || fail resolve refused "no stat command that works here"
}

# mount_id FILE: sets mounted_as to the number of the mount that it lies on; fails where the kernel does not tell.
mount_id() {
    key=''
    { while read -r key mounted_as && [ "$key" != mnt_id: ]; do :; done </proc/self/fdinfo/8; } 2>/dev/null 8<"$1"
    [ "$key" = mnt_id: ]
}

# Is the file itself a mount point? Then it lies on another mount than its folder.
find_mount() {
    mount=0
    if mount_id "$target" && lies_on=$mounted_as && mount_id "${folder:-/}"; then
        [ "$mounted_as" = "$lies_on" ] || mount=1
    elif [ -r /proc/self/mountinfo ]; then
        point=$target
        case $target in
        *[\\\ \	]* | *"$nl"*) point=$(printf %s "$target" | sed 's/\\/\\134/g; s/ /\\040/g; s/	/\\011/g' | tr '\n' '\001' |
            sed "s/$(printf '\001')/\\\\012/g") ;;
        esac
        # The mount point is the path that its options, rw or ro, follow.
        grep -qF -e " $point rw" -e " $point ro" /proc/self/mountinfo && mount=1
    fi
    frame mount $mount
}

# find_running [all]: shells keep the script that they run open at 255, or at the first free from 10 on. With `all`, a
# process that names the file on its command line is asked for all its descriptors; every one of every process would
# take too long.
find_running() {
    running=''
    for process in /proc/[0-9]*; do
        fds=255
        [ -e "$process/fd/10" ] && fds='10 11 12 255'
        for fd in $fds; do
            [ "$process/fd/$fd" -ef "$target" ] && note_running "$process"
        done
    done
    if [ "${1-}" = all ]; then
        # shellcheck disable=SC2013
        for cmdline in $(grep -lF -e "$base_name" /proc/[0-9]*/cmdline 2>/dev/null); do
            for fd in "${cmdline%cmdline}"fd/*; do
                [ "$fd" -ef "$target" ] && note_running "${cmdline%/cmdline}" && break
            done
        done
    fi
    frame running "$running"
}

note_running() {
    pid=${1#/proc/}
    [ "$pid" = $$ ] && return
    case " $running " in *" $pid "*) ;; *) running="$running${running:+ }$pid" ;; esac
}

# From the backup directory as configured to where it is.
place_backup_dir() {
    case $bdir in
    /*) ;;
    .) bdir=$folder ;;
    *) bdir=$folder/${bdir#./} ;;
    esac
    bdir=${bdir%/}
}

# From here on until read_file is what a mere look at files is sent without.

# The lock is on the target's folder, so that workspaces with different backup directories exclude each other.
lock() {
    tries=0
    if have flock && { exec 9<"${folder:-/}"; } 2>/dev/null; then
        while :; do
            flock -n 9 2>/dev/null
            case $? in
            0) lock_kind=flock && return ;;
            1) wait_or_busy "$bdir/.holder" ;;
            # No flock on this file system.
            *) break ;;
            esac
        done
    fi
    # A hard link appears at once and with its text, or not at all.
    lock_kind=hardlink denied=0
    mine=$folder/.knobledger.stage.$$.$me.$nonce.lock
    printf '%s %s %s\n%s\n' $$ "$me" "${now%%.*}" "$holder" >"$mine" || fail lock notwritten "can't make a lock in $folder"
    while ! ln -- "$mine" "$folder/.knobledger.lock" 2>/dev/null; do
        if [ ! -e "$folder/.knobledger.lock" ]; then
            # Let go just now, or no hard links here: the second says no again and again.
            denied=$((denied + 1))
            [ $denied -lt 20 ] && continue
            rm -f -- "$mine"
            fail lock notwritten "neither flock nor a hard link works in $folder"
        fi
        denied=0
        { read -r pid pid_start _ <"$folder/.knobledger.lock"; } 2>/dev/null || continue
        if alive "$pid" "$pid_start"; then
            wait_or_busy "$folder/.knobledger.lock"
        elif mv -f -- "$folder/.knobledger.lock" "$mine.stale" 2>/dev/null; then
            # Somebody may have taken the stale lock, and put a fresh one, between our look and our move.
            { read -r pid2 start2 _ <"$mine.stale"; } 2>/dev/null
            [ "$pid2 $start2" = "$pid $pid_start" ] || ln -- "$mine.stale" "$folder/.knobledger.lock" 2>/dev/null
            rm -f -- "$mine.stale"
        fi
    done
    rm -f -- "$mine"
    lockfile=$folder/.knobledger.lock
}

# wait_or_busy FILE: FILE says who holds the lock.
wait_or_busy() {
    tries=$((tries + 1))
    if [ $tries -gt "$wait" ]; then
        [ "${lock_kind-}" = hardlink ] && rm -f -- "$mine"
        if { read -r pid pid_start since <"$1"; } 2>/dev/null && alive "$pid" "$pid_start"; then
            frame since "$since"
            frame holder "$(sed 1d "$1")"
        fi
        fail lock busy
    fi
    sleep 0.1 2>/dev/null || sleep 1
}

# Who and since when, for whoever finds the lock held.
sign_lock() {
    [ "$lock_kind" = flock ] || return
    heldby=$bdir/.holder
    { printf '%s %s %s\n%s\n' $$ "$me" "${now%%.*}" "$holder" >"$heldby"; } 2>/dev/null || heldby=''
}

# What transactions that died have left beside the target and among its backups. Under the lock.
sweep() {
    for stray in "$folder"/.knobledger.stage.* "$bdir"/.stage.*; do
        pid=${stray##*.stage.}
        pid_start=${pid#*.} pid=${pid%%.*} pid_start=${pid_start%%.*}
        if [ -f "$stray" ] && ! alive "$pid" "$pid_start"; then
            rm -f -- "$stray" && frame swept "$stray"
        fi
    done
}

# room FOLDER BYTES: fails if the disk has less. Where df says nothing usable, writing will tell.
room() {
    free='' needed=$(($2 / 1024 + 16))
    line=$(df -Pk -- "$1" 2>/dev/null)
    set -f
    # shellcheck disable=SC2086
    set -- ${line##*"$nl"}
    set +f
    # Size, used, available, percentage: behind the name of the disk, which may hold blanks.
    while [ $# -ge 5 ]; do
        case $2$3$4:$5 in
        *[!0-9]*:*) ;;
        # File systems that report a size of 0 know nothing about their room.
        *%) [ "$2" -gt 0 ] && free=$4 && break ;;
        esac
        shift
    done
    [ -z "$free" ] || [ "$free" -gt "$needed" ]
}

# room_why: what `why` says of a full disk or a quota, as the end of a message; nothing else of it.
room_why() { case $why in *'quota exceeded'* | *'No space left'*) printf ': %s' "${why##*: }" ;; esac; }

# The attributes of FROM, on TO that exists: owner first, since chown takes setuid and capabilities away.
dress() {
    why=''
    cp --attributes-only --preserve=mode,ownership,xattr${selinux:+,context} -- "$1" "$2" 2>/dev/null && return
    why=$(cp --attributes-only --preserve=mode,ownership,xattr${selinux:+,context} -- "$1" "$2" 2>&1) && return
    chown "$b_uid:$b_gid" "$2" 2>/dev/null
    chmod "$b_mode" "$2" || return 1
    extras "$1"
    if [ -n "$acl" ]; then getfacl -cEp -- "$1" | setfacl --set-file=- -- "$2" || return 1; fi
}

# same FILE [LINE]: has it the attributes that the target had? LINE is look's, if that has looked already.
same() {
    differs="it can't be looked at"
    if [ -n "${2-}" ]; then take "$2"; else look "$1"; fi || return 1
    [ -n "$bare" ] || extras "$1"
    differs=''
    [ "$uid:$gid" = "$b_uid:$b_gid" ] || differs="owner is $uid:$gid, not $b_uid:$b_gid"
    [ "$mode" = "$b_mode" ] || differs="$differs${differs:+; }mode is $mode, not $b_mode"
    [ "$acl" = "$b_acl" ] || differs="$differs${differs:+; }the ACL differs"
    [ "$xattrs" = "$b_xattrs" ] || differs="$differs${differs:+; }extended attributes differ"
    [ "$label" = "$b_label" ] || differs="$differs${differs:+; }the SELinux label differs"
    [ -z "$differs" ]
}

flush() {
    if have sync; then sync -- "$@"; else for f in "$@"; do dd if=/dev/null of="$f" conv=notrunc,fsync; done; fi
}

# new_file FILE: makes it, private and empty, unless it is there; else sets why.
new_file() {
    set -C
    { true >"$1"; } 2>/dev/null || why=$( (true >"$1") 2>&1)
    made=$?
    set +C
    return $made
}

# copy_whole FROM TO: content, attributes and times, into TO that exists. GNU's -p leaves xattrs out.
copy_whole() {
    cp --preserve=all -- "$1" "$2" 2>/dev/null && return
    why=$(cp -p -- "$1" "$2" 2>&1)
}

# complaints TOOL FILE: sets found to the number of lines that the tool has to say about the file.
complaints() {
    case $1 in
    unit)
        scratch=$bdir/.verify.$$.$me
        mkdir -p -- "$scratch" && cat -- "$2" >"$scratch/$base_name" || return 1
        said=$(systemd-analyze verify --man=no "$scratch/$base_name" 2>&1)
        rm -rf -- "$scratch"
        scratch=''
        ;;
    *) said=$("$1" -n "$2" 2>&1) ;;
    esac
    found=0
    [ -z "$said" ] || found=$(printf '%s\n' "$said" | grep -c .)
}

syntax() {
    case $check in
    none) return ;;
    unit) tool=systemd-analyze shown='systemd-analyze verify' ;;
    *) tool=$check shown="$check -n" ;;
    esac
    have "$tool" || { checked="; $tool is not here, syntax not checked" && return; }
    complaints "$check" "$stage" || fail stage notwritten "can't check the syntax"
    # Only where there is something to say of the new content is the old one asked for the same.
    if [ "$found" -gt 0 ]; then
        after=$found complaint=$said
        complaints "$check" "$target" || fail stage notwritten "can't check the syntax"
        if [ "$after" -gt "$found" ]; then
            frame complaint "$complaint"
            fail stage notwritten "$shown has new complaints about the new content"
        fi
    fi
    checked="; $shown has no new complaints"
}

make_backup_dir() {
    [ -d "$bdir" ] && return
    [ -L "$bdir" ] && fail backup notwritten "the backup directory $bdir is a symbolic link that leads nowhere"
    why=$(mkdir -p -- "$bdir" 2>&1) || fail backup notwritten "can't make the backup directory: $why"
    bmade=yes
}

# claim FILE NAME: gives FILE the name, if nobody has it. The second way is for disks without hard links.
claim() {
    [ ! -e "$2" ] || return 1
    ln -- "$1" "$2" 2>/dev/null || why=$(ln -- "$1" "$2" 2>&1) || { new_file "$2" 2>/dev/null && mv -f -- "$1" "$2"; }
}

# The live file into bstage, a new file among the backups. Sets trouble and why, and leaves nothing, if it can't.
copy_target() {
    bstage=$bdir/.stage.$$.$me.$nonce
    if ! new_file "$bstage"; then
        bstage='' trouble="can't create a file in $bdir"
        return 1
    fi
    copy_whole "$target" "$bstage" && return
    trouble="can't copy into $bdir"
    rm -f -- "$bstage" 2>/dev/null && bstage=''
    return 1
}

# Sets backup to a name that nobody had: NAME.bak, NAME.2.bak, ... It gets its name when it is whole and proven.
backup_file() {
    case $bmade${bdir##*/}:$bdir_mode in
    .knobledger:700) ;;
    .knobledger:*)
        chmod 700 -- "$bdir" 2>/dev/null ||
            fail backup notwritten "the backup directory $bdir belongs to somebody else and is open to others (mode $bdir_mode)"
        ;;
    esac
    if [ -z "$copied" ]; then
        copy_target || fail backup notwritten "$trouble: ${why##*: }"
        digest "$bstage" && third=$sum
    fi
    [ "$third" = "$base" ] || fail backup notwritten "the copy does not have the digest of the original"
    # The new content gets its attributes here already, so that one look proves those of both.
    dress "$target" "$stage"
    undressed=$why
    keep "$bstage" "$stage"
    look "$stage" "$bstage"
    staged=${seen%%"$nl"*}
    if ! same "$bstage" "${seen##*"$nl"}" || [ "$mtime" != "$b_mtime" ]; then
        fail backup notwritten "the copy can't have the attributes of the original${differs:+ ($differs)}"
    fi
    case $bname in
    *.bak) stem=${bname%.bak} tail=.bak ;;
    *) stem=$bname tail='' ;;
    esac
    backup=$bdir/$bname number=1
    until claim "$bstage" "$backup"; do
        [ -e "$backup" ] || [ -L "$backup" ] || fail backup notwritten "can't create a file in $bdir: ${why##*: }"
        number=$((number + 1))
        backup=$bdir/$stem.$number$tail
    done
    unneeded=$backup
    rm -f -- "$bstage"
    bstage=''
    frame backup "$backup"
    step backup ok
}

# The new content goes into a private file beside the target before the lock is taken: while we wait for the network
# nobody else has to. Attributes come after the content, since writing takes setuid and capabilities away.
receive() {
    stage=$folder/.knobledger.stage.$$.$me.$nonce
    new_file "$stage" || {
        stage=''
        fail stage notwritten "can't create a file in ${folder:-/}: ${why##*: }"
    }
    why=$(cat 2>&1 >"$stage") || fail stage notwritten "can't write the new content: $why"
}

# Is what was received what was sent? sum is its digest.
arrived() {
    [ "$sum" = "$result" ] && return
    look "$stage"
    [ "$bytes" = "$size" ] || fail stage notwritten "$bytes bytes of $size arrived"
    fail stage notwritten "the content that arrived does not have the plan's digest"
}

swap_rename() {
    [ -f "$target" ] && [ ! -L "$target" ] || return 1
    mv -fT -- "$1" "$target" 2>/dev/null && return
    why=$(mv -fT -- "$1" "$target" 2>&1) && return
    # A mv without -T.
    [ -f "$1" ] && [ -f "$target" ] && why=$(mv -f -- "$1" "$target" 2>&1)
}

swap_in_place() { why=$(cat -- "$1" 2>&1 >"$target"); }

# The live file against everything that was asked for. Sets wrong.
verify() {
    wrong=''
    digests "$target" "$backup"
    backup_sum=$other
    frame digest.after "$sum"
    [ "$sum" = "$result" ] || wrong="the live file has the digest ${sum:-(unreadable)}, not the plan's"
    for text in "$@"; do
        if lines=$(grep -a -n -F -e "${text#?}" -- "$target" 2>/dev/null); then found=+; else found=-; fi
        case $found$text in
        ++* | --*) ;;
        -*) wrong="$wrong${wrong:+; }grep does not find one of the strings" ;;
        +*) wrong="$wrong${wrong:+; }grep still finds a string that was to go" ;;
        esac
        frame grep "$lines"
    done
    if [ -n "$matches" ]; then
        if compare_files "$matches" "$target"; then
            frame matches yes
        else
            frame matches no
            wrong="$wrong${wrong:+; }the live file is not equal to $matches"
        fi
    fi
    same "$target" || wrong="$wrong${wrong:+; }$differs"
    [ "$way" = rename ] || [ "$links" = "$b_links" ] || wrong="$wrong${wrong:+; }a hard link is lost"
    [ -z "$wrong" ]
}

compare_files() { if have diff; then diff -q -- "$1" "$2"; else cmp -s -- "$1" "$2"; fi >/dev/null 2>&1; }

# Puts the backup back by the same means, and proves that too.
roll_back() {
    digest "$backup"
    [ "$sum" = "$base" ] || { why="the backup does not have its digest any more" && return 1; }
    if [ "$way" = rename ]; then
        [ -n "$stage" ] && rm -f -- "$stage"
        stage=$folder/.knobledger.stage.$$.$me.$nonce.back
        new_file "$stage" || { why="can't create a file in ${folder:-/}: ${why##*: }" && return 1; }
        copy_whole "$backup" "$stage" || return 1
        flush "$stage" 2>/dev/null
        swap_rename "$stage" || return 1
        stage=''
    else
        swap_in_place "$backup" || return 1
        dress "$backup" "$target"
        touch -r "$backup" -- "$target"
    fi
    flush "$target" "${folder:-/}" 2>/dev/null
    digest "$target"
    [ "$sum" = "$base" ] || { why="the live file has the digest ${sum:-(unreadable)} after the roll-back" && return 1; }
    same "$target" || { why="after the roll-back $differs$(room_why)" && return 1; }
}

give_up() {
    unneeded=''
    step "$1" no "$2"
    if roll_back; then
        step rollback ok
        finish rolledback "$2"
    fi
    step rollback no "$why"
    finish unknown "$2; and the backup could not be put back: $why"
}

replace() {
    # look sets mode to a file's.
    rehearsal=$mode
    probe cat cp mv rm mkdir grep ln
    step probe ok
    resolve
    # A symbolic link that was turned meanwhile would lead to another file, perhaps with the same bytes.
    if [ -n "$leads" ] && [ "$target" != "$leads" ]; then
        step resolve no
        finish moved "$target"
    fi
    b_uid=$uid b_gid=$gid b_mode=$mode b_mtime=$mtime b_links=$links b_inode=$inode b_bytes=$bytes
    find_mount
    way=rename
    [ "$mount" = 1 ] && way="a mount point: it can't be renamed over, and"
    [ "$links" -gt 1 ] && way="$links hard links lead to it: a rename would leave the others on the old content, and"
    if [ "$way" = rename ]; then
        # Whoever reads it goes on with what is open; who that is, is told.
        find_running
    else
        find_running all
        [ "$inplace" = yes ] || fail resolve inplace "$way writing in place was not allowed"
        [ -z "$running" ] || fail resolve refused "$way it can't be written in place while running interpreters read it (pid $running)"
        [ -w "$target" ] || fail resolve notwritten "permission denied: can't write it in place"
        way=inplace
    fi
    frame way "$way"
    step resolve ok
    # One disk is asked once: they are on the same device, or the backups will be below the folder.
    room=$bdir
    case $bdir:$bdir_inode in "$folder"/*: | *:"${b_inode%%:*}":*) room=$folder ;; esac
    while [ ! -d "${room:-/}" ]; do room=${room%/*}; done
    if ! room "${folder:-/}" $((size + bytes)) || { [ "$room" != "$folder" ] && ! room "$room/" "$bytes"; }; then
        fail probe notwritten "the disk is full: not enough room for the new content and the backup"
    fi
    receive
    lock
    sweep
    sign_lock
    step lock ok "$lock_kind"
    # A backup directory that is there already has the copy at once: one program takes all three digests.
    copied=''
    [ "$bdir_mode" != 700 ] || { copy_target && copied=yes; }
    if [ -n "$copied" ]; then digests "$stage" "$target" "$bstage"; else digests "$stage" "$target"; fi
    arrived
    frame live "$other"
    if [ "$other" != "$base" ]; then
        step compare no
        finish drifted
    fi
    step compare ok
    make_backup_dir
    sign_lock
    backup_file
    why=$undressed
    same "$stage" "$staged" || fail stage notwritten "the new file can't have the attributes of the old one ($differs)$(room_why)"
    bare=''
    if [ -n "$matches" ]; then
        compare_files "$matches" "$stage" || fail stage notwritten "the new content is not equal to $matches"
    fi
    checked=''
    syntax
    why=$(flush "$backup" "$bdir" "$stage" 2>&1) || fail stage notwritten "can't flush backup and new content: $why"
    frame stage "$stage"
    step stage ok "$checked"
    [ "$rehearsal" = rehearse ] && finish ok
    # All this took its time; a writer who does not know our lock may have come in between. Times are in whole
    # seconds, so they tell nothing of a file that was fresh already.
    sum=$base
    [ "$b_mtime" -lt $((${now%%.*} - 1)) ] || digest "$target"
    look "$target"
    if [ "$sum $inode $mtime $bytes" != "$base $b_inode $b_mtime $b_bytes" ]; then
        digest "$target"
        frame live "$sum"
        step swap no
        finish drifted
    fi
    # A connection that is closed by now ends it here.
    say
    # From here on we finish, whatever happens to the connection.
    trap '' INT TERM HUP PIPE
    frame swapping ''
    say
    if [ "$way" = rename ]; then
        if ! swap_rename "$stage"; then
            problem=$why
            digest "$target"
            look "$target"
            [ "$sum $inode" = "$base $b_inode" ] && fail swap notwritten "can't rename over the target: $problem"
            give_up swap "can't rename over the target: $problem"
        fi
        stage=''
    else
        swap_in_place "$stage" || give_up swap "can't write into the target: $why"
        dress "$backup" "$target"
    fi
    unneeded='' bmade=''
    flush "$target" "${folder:-/}" 2>/dev/null || frame note "the folder could not be flushed"
    step swap ok
    say
    verify "$@" || give_up verify "$wrong"
    step verify ok
    manifest
    frame backup.digest "$backup_sum"
    finish ok
}

# Until here.

read_file() {
    probe cat
    resolve
    [ "$who" = no ] || find_running all
    find_mount
    extras "$target"
    manifest
    was="$inode $mtime $bytes"
    digest "$target"
    frame live "$sum"
    frames="$frames$nonce content -$nl"
    say
    cat -- "$target"
    frames=$nl
    look "$target"
    frame size "$bytes"
    [ "$inode $mtime $bytes" = "$was" ] || frame moved ''
    finish ok
}

list() {
    probe
    resolve
    for file in "$bdir/$base_name"*; do
        if [ -f "$file" ] && [ ! -L "$file" ] && [ ! "$file" -ef "$target" ] && look "$file" && digest "$file"; then
            frame b.path "$file"
            frame b.stat "$sum $bytes $mtime $mode $uid $gid"
        fi
    done
    finish ok
}

tidy() {
    probe ln
    resolve
    lock
    sweep
    for stray in "$bdir/.holder" "$bdir"/.verify.*; do
        [ -e "$stray" ] && rm -rf -- "$stray" && frame swept "$stray"
    done
    finish ok
}

# prune DIGEST NAME ...: takes backups away that hold exactly the bytes that are meant.
prune() {
    probe ln rm
    resolve
    lock
    sign_lock
    while [ $# -ge 2 ]; do
        file=$bdir/${2##*/}
        if [ -f "$file" ] && [ ! -L "$file" ] && [ ! "$file" -ef "$target" ] && digest "$file" && [ "$sum" = "$1" ]; then
            rm -f -- "$file" 2>/dev/null && frame pruned "$file"
        fi
        shift 2
    done
    finish ok
}

frame hello 1
# At once: a script that was killed is none that never ran.
say
trap 'clean; exit 143' INT TERM HUP PIPE
started $$ || start=0
me=$start
case $mode in
replace) replace "$@" ;;
read) read_file ;;
list) list ;;
tidy) tidy ;;
prune) prune "$@" ;;
rehearse) replace "$@" ;;
# In arming.sh, which is sent along for these.
arm | confirm | cancel | state | clear) "$mode" ;;
esac
finish bug "no such mode"
