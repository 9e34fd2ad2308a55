# shellcheck shell=sh disable=SC2154,SC2034
# Commit-confirm on a host: arm, confirm, cancel, look, clear. It is sent before transaction.sh, whose functions it
# uses; docs/transaction.md tells what each step promises. Lines that begin with a hash are not sent.
#
# From the header (SC2154):
#   path bdir     as in transaction.sh; mode: arm | confirm | cancel | state | clear
#   arm:     base result token window id holder; fire, supervise: the two programs that stay in the folder while it is
#            armed; restart: lines of sh, empty for none
#   confirm: secret, whose SHA-256 is the token
#   confirm, cancel, state, clear: token
#
# The folder BDIR/NAME.armed is the arming: `mkdir` lets one in. Its file `state.armed` is renamed once, to
# state.confirmed, state.cancelled or state.expired: rename(2) of one name succeeds for one only, so confirm and
# expiry can't both win.

armed_folder() {
    place_backup_dir
    adir=$bdir/$base_name.armed
}

# text NAME: what a small file of the arming holds.
text() { cat -- "$adir/$1" 2>/dev/null; }

# Says how things stand; `none` where nothing is armed.
report() {
    found=none
    for word in armed confirmed cancelled expired; do
        [ -e "$adir/state.$word" ] && found=$word
    done
    frame armed.state "$found"
    for word in token deadline window scheduler holder outcome started fired; do
        [ -f "$adir/$word" ] && frame "armed.$word" "$(text $word)"
    done
    now=$(date +%s)
    frame armed.now "$now"
    watched=no
    if [ "$found" = armed ]; then
        case $(text scheduler) in
        timer*) systemctl is-active --quiet "$(text unit).timer" 2>/dev/null && watched=yes ;;
        *)
            { read -r pid pid_start <"$adir/pid"; } 2>/dev/null && alive "$pid" "$pid_start" && watched=yes
            ;;
        esac
    fi
    frame armed.watched "$watched"
}

# disarm: takes away what would fire; the folder stays.
disarm() {
    if [ -f "$adir/unit" ]; then
        unit=$(text unit)
        systemctl stop "$unit.timer" >/dev/null 2>&1
        systemctl disable "$unit.timer" >/dev/null 2>&1
        rm -f -- "/etc/systemd/system/$unit.timer" "/etc/systemd/system/$unit.service" \
            "/run/systemd/system/$unit.timer" "/run/systemd/system/$unit.service"
        systemctl daemon-reload >/dev/null 2>&1
    elif { read -r pid pid_start <"$adir/pid"; } 2>/dev/null && alive "$pid" "$pid_start"; then
        kill "$pid" 2>/dev/null
    fi
}

drop() { rm -rf -- "$adir"; }

# The outcome of the rehearsal and of the arming is reported as steps; a failure leaves nothing behind.
give_up_arming() {
    disarm
    drop
    fail "$1" notwritten "$2"
}

# Which of two ways fires it: a timer of systemd, which outlives a reboot, or a process of its own.
schedule() {
    units=''
    if [ -d /run/systemd/system ] && have systemctl && [ "$(id -u)" = 0 ]; then
        case $adir in *"$nl"*) ;; *)
            for units in /etc/systemd/system /run/systemd/system ''; do
                [ -n "$units" ] && [ -w "$units" ] && break
            done
            ;;
        esac
    fi
    [ -n "$units" ] && schedule_timer && return
    schedule_process
}

schedule_timer() {
    unit=knob-confirm-$id
    quoted=$(printf %s "$adir" | sed 's/[\\"]/\\&/g; s/%/%%/g; s/\$/$$/g')
    printf '%s\n' "$unit" >"$adir/unit"
    {
        printf '%s\n' '[Unit]' 'Description=knobledger puts a change back that was not confirmed' '[Service]' \
            Type=oneshot "ExecStart=/bin/sh \"$quoted/supervise\" fire \"$quoted\""
    } >"$units/$unit.service" || return 1
    # OnBootSec: a host that was down at the deadline, or went down while the change was being put back.
    {
        printf '%s\n' '[Unit]' 'Description=knobledger: the deadline of a change that must be confirmed' '[Timer]' \
            "OnCalendar=@$deadline" OnBootSec=1s AccuracySec=200ms '[Install]' WantedBy=timers.target
    } >"$units/$unit.timer" || return 1
    systemctl daemon-reload >/dev/null 2>&1
    case $units in
    /etc/*) why=$(systemctl enable --now "$unit.timer" 2>&1) && scheduler='timer persistent' ;;
    *) why=$(systemctl start "$unit.timer" 2>&1) && scheduler='timer transient' ;;
    esac
    if ! systemctl is-active --quiet "$unit.timer" 2>/dev/null; then
        disarm
        rm -f -- "$adir/unit"
        return 1
    fi
    printf '%s\n' "$scheduler" >"$adir/scheduler"
}

schedule_process() {
    printf 'process\n' >"$adir/scheduler"
    detach=''
    have setsid && detach=setsid
    # shellcheck disable=SC2086
    $detach /bin/sh "$adir/supervise" wait "$adir" </dev/null >/dev/null 2>&1 9>&- &
    tries=0
    until [ -s "$adir/pid" ]; do
        tries=$((tries + 1))
        [ $tries -le 50 ] || return 1
        sleep 0.1 2>/dev/null || sleep 1
    done
}

arm() {
    probe cat cp mv rm mkdir
    resolve
    armed_folder
    [ -d "$bdir" ] || { mkdir -p -- "$bdir" && bmade=yes; } || fail arm notwritten "can't make the backup directory"
    case ${bdir##*/} in .knobledger) chmod 700 -- "$bdir" 2>/dev/null ;; esac
    # One that has ended and is not in its ledger yet makes room, and stays to be found.
    [ -e "$adir/outcome" ] && mv -- "$adir" "$adir.ended-$(text token)" 2>/dev/null
    if ! mkdir -- "$adir" 2>/dev/null; then
        [ -d "$adir" ] || fail arm notwritten "can't make $adir"
        report
        fail arm armed "a change of it waits for its confirmation already"
    fi
    bmade=''
    digest "$target"
    frame live "$sum"
    if [ "$sum" != "$base" ]; then
        drop
        step arm no
        finish drifted
    fi
    { new_file "$adir/content" && copy_whole "$target" "$adir/content"; } || give_up_arming arm "can't keep the content: $why"
    digest "$adir/content"
    [ "$sum" = "$base" ] || give_up_arming arm "the content that was kept does not have the digest of the original"
    if ! { printf '%s\n' "$fire" >"$adir/fire" && printf '%s\n' "$supervise" >"$adir/supervise" &&
        printf '%s\n' "$restart" >"$adir/restart" && printf '%s\n' "$token" >"$adir/token" &&
        printf '%s\n' "$window" >"$adir/window" && printf '%s\n' "$holder" >"$adir/holder" &&
        printf '%s\n' "$base" >"$adir/base"; }; then
        give_up_arming arm "can't write into $adir"
    fi
    rehearse
    flush "$adir/content" "$adir" 2>/dev/null
    now=$(date +%s) deadline=$(($(date +%s) + window))
    printf '%s\n' "$now" >"$adir/started"
    printf '%s\n' "$deadline" >"$adir/deadline"
    : >"$adir/state.armed" || give_up_arming arm "can't write into $adir"
    schedule || give_up_arming arm "nothing can be started that would put it back: ${why-}"
    report
    [ "$watched" = yes ] || give_up_arming arm "what was to put it back does not run"
    step arm ok "$(text scheduler)"
    finish ok
}

# The very program that would put it back, up to the moment before the swap; and the words of the restart.
rehearse() {
    /bin/sh "$adir/supervise" rehearse "$adir" </dev/null >/dev/null 2>&1 || give_up_arming rehearse "$(text rehearsal)"
    step rehearse ok "$(text rehearsal)"
}

# The file itself may be gone by now: its folder is enough.
find_armed() {
    probe cat mv rm
    base_name=${path##*/} folder=${path%/*}
    [ -f "$path" ] && resolve
    armed_folder
    [ "$(text token)" != "$token" ] && [ -d "$adir.ended-$token" ] && adir=$adir.ended-$token
}

# won WORD: was it ours to end?
won() { mv -- "$adir/state.armed" "$adir/state.$1" 2>/dev/null && [ -e "$adir/state.$1" ]; }

# end_it WORD: ends the arming as that, if the deadline was not first.
end_it() {
    if won "$1"; then
        disarm
        report
        drop
        finish ok
    fi
    report
    finish late
}

confirm() {
    find_armed
    printf %s "$secret" >"$adir/.asked.$$" 2>/dev/null
    digest "$adir/.asked.$$"
    rm -f -- "$adir/.asked.$$"
    if [ ! -d "$adir" ] || [ "$sum" != "$(text token)" ]; then
        report
        [ "$found" = none ] && finish none
        finish token
    fi
    end_it confirmed
}

cancel() {
    find_armed
    [ "$token" = "$(text token)" ] && end_it cancelled
    report
    finish none
}

state() {
    find_armed
    report
    finish ok
}

# What has ended, once it is in the ledger.
clear() {
    find_armed
    if [ "$token" = "$(text token)" ] && [ ! -e "$adir/state.armed" ] && [ -e "$adir/outcome" ]; then
        disarm
        drop
    fi
    report
    finish ok
}
