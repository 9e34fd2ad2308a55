# shellcheck shell=sh
# Stays in the folder of an arming while a change waits for its confirmation: puts the file back when nobody confirms.
# supervise rehearse|wait|fire FOLDER. The file `fire` is transaction.sh with the revert in its header, so what is
# put back goes through the same transaction and the same proofs as the change. Lines that begin with a hash are
# not sent.

umask 077
trap '' HUP
do=$1
cd -- "$2" || exit 1

text() { cat -- "$1" 2>/dev/null; }

# Seconds that no clock change moves, where there is a /proc.
seconds() {
    if { read -r up _ </proc/uptime; } 2>/dev/null; then echo "${up%%.*}"; else date +%s; fi
}

# put MODE: runs the transaction; sets ended to the kind of its last frame, said to the message.
put() {
    PUT=$1 /bin/sh ./fire <content >reply.$$ 2>/dev/null
    last=$(sed -n '/^knob-supervisor end /{n;p;}' reply.$$)
    live=$(sed -n '/^knob-supervisor live /{n;p;}' reply.$$ | tail -n 1)
    rm -f -- reply.$$
    ended=${last%% *} said=${last#* }
    [ -n "$ended" ] || ended=died
    # The file holds the old content: nothing was ever written, or an earlier try got through and could not say so.
    [ "$ended" = drifted ] && [ "$live" = "$(text base)" ] && ended=same
}

rehearse() {
    put rehearse
    if [ "$ended" != ok ]; then
        echo "putting it back would fail: $said" >rehearsal
        return 1
    fi
    if ! said=$(sh -n ./restart 2>&1); then
        echo "the restart is no shell command: $said" >rehearsal
        return 1
    fi
    # Each line begins with a program, or sets a variable.
    while read -r word rest; do
        case $word in
        '' | *=*) continue ;;
        esac
        command -v "$word" >/dev/null 2>&1 || {
            echo "the restart needs $word, which is not here" >rehearsal
            return 1
        }
        case "$word $rest" in
        'systemctl restart '*)
            systemctl cat -- "${rest#restart }" >/dev/null 2>&1 || {
                echo "the restart needs ${rest#restart }, which systemd does not know" >rehearsal
                return 1
            }
            ;;
        esac
    done <restart
    echo "the old content was staged beside the file with its attributes, and taken away again" >rehearsal
}

# An end that was begun before a reboot is carried on.
fire() {
    [ "$(date +%s)" -ge "$(text deadline)" ] || [ "$do" = wait ] || exit 0
    if ! mv -- state.armed state.expired 2>/dev/null; then
        [ -e state.expired ] && [ ! -e outcome ] || exit 0
    fi
    [ -e fired ] || date +%s >fired
    tries=0 died=no
    while :; do
        put replace
        case $ended in
        died) died=yes ;;
        busy | notwritten) ;;
        *) break ;;
        esac
        tries=$((tries + 1))
        [ $tries -lt 30 ] || break
        sleep 1
    done
    restarted='-'
    [ $ended$died = sameyes ] && ended=ok
    case $ended in
    ok)
        what=reverted
        if [ -s restart ] && grep -q . restart; then
            if said=$(/bin/sh -e ./restart 2>&1); then restarted=ok; else restarted=failed; fi
        fi
        ;;
    same) what=unchanged ;;
    drifted) what=failed said="the file was changed by somebody else meanwhile; it was left alone" ;;
    *) what=failed ;;
    esac
    printf '%s %s %s\n%s\n' "$what" "$(date +%s)" "$restarted" "$said" >outcome.new
    mv -f -- outcome.new outcome
    if [ -f unit ]; then
        unit=$(text unit)
        systemctl disable "$unit.timer" >/dev/null 2>&1
        rm -f -- "/etc/systemd/system/$unit.timer" "/etc/systemd/system/$unit.service" \
            "/run/systemd/system/$unit.timer" "/run/systemd/system/$unit.service"
        systemctl daemon-reload >/dev/null 2>&1
        systemctl --no-block stop "$unit.timer" >/dev/null 2>&1
    fi
    exit 0
}

wait_for_it() {
    # The process's start time, so that a later process of the same number is not taken for it.
    start=0
    if { read -r line <"/proc/$$/stat"; } 2>/dev/null; then
        # shellcheck disable=SC2086
        set -- ${line##*") "}
        shift 19
        start=$1
    fi
    begun=$(seconds)
    echo "$$ $start" >pid.new && mv -f -- pid.new pid
    window=$(text window)
    while [ -e state.armed ]; do
        [ $(($(seconds) - begun)) -ge "$window" ] && fire
        sleep 1
    done
}

case $do in
rehearse) rehearse ;;
wait) wait_for_it ;;
fire) fire ;;
esac
