# A part of `instance`: keepers, and how they and their services end.

# A pid file holds the pid and the time the process started (in ticks since
# boot), so that another process that got the same number is never signalled.
# (By the shell's own means: the supervisor asks three times a second.)
started_at()
{
    fields_of "$1" && echo "$ticks"
}

# fields_of PID: sets state and ticks; false if there is no such process
fields_of()
{
    { read -r fields <"/proc/$1/stat"; } 2>/dev/null || return 1
    # behind the name, which may hold anything
    set -- ${fields##*) }
    [ $# -ge 20 ] || return 1
    state=$1
    ticks=${20}
}

note_pid()
{
    echo "$2 $(started_at "$2")" >"$DIR/pids/$1.new"
    mv -f "$DIR/pids/$1.new" "$DIR/pids/$1"
}

pid_of()
{
    { read -r pid rest <"$DIR/pids/$1"; } 2>/dev/null && echo "$pid"
}

alive()
{
    { read -r pid began <"$DIR/pids/$1"; } 2>/dev/null || return 1
    [ -n "$began" ] && fields_of "$pid" && [ "$ticks" = "$began" ] \
        && [ "$state" != Z ]
}

# wait_gone PID SECONDS
wait_gone()
{
    late=$(($(uptime_s) + $2))
    while fields_of "$1" && [ "$state" != Z ]; do
        [ "$(uptime_s)" -le "$late" ] || return 1
        sleep 0.05
    done
}

# Seconds that nobody sets.
uptime_s()
{
    read -r up rest </proc/uptime
    echo "${up%.*}"
}

# The pids of all that work in DIR/pg: PostgreSQL's processes stay there.
in_cluster()
{
    find /proc/[0-9]*/cwd -maxdepth 0 -printf '%p %l\n' 2>/dev/null \
        | AT=$DIR/pg awk '{
            split($1, part, "/")
            sub(/^[^ ]* /, "")
            if ($0 == ENVIRON["AT"]) {
                print part[3]
            }
        }'
}

# What a killed supervisor left: its services have been told to end by their
# parents' death; wait a little, then kill them.
clear_left_over()
{
    for name in keeper.nginx keeper.interlockd keeper.postgres \
        nginx interlockd postgres
    do
        if alive "$name"; then
            pid=$(pid_of "$name")
            case $name in
            *postgres) wait_gone "$pid" 10 ;;
            *) wait_gone "$pid" 2 ;;
            esac
        fi
        if alive "$name"; then
            pid=$(pid_of "$name")
            kill -s KILL -- "-$pid" 2>/dev/null
            kill -s KILL "$pid" 2>/dev/null
            wait_gone "$pid" 5
        fi
    done

    # nginx's workers outlive a killed master and keep its port
    if [ -s "$DIR/pids/nginx" ]; then
        kill_group "$(pid_of nginx)"
    fi

    tries=100
    while pids=$(in_cluster) && [ -n "$pids" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || die "PostgreSQL's processes do not end:" $pids
        [ "$tries" -gt 20 ] || kill -s KILL $pids 2>/dev/null
        sleep 0.05
    done
    # Nobody works in the cluster, so its lock file is a stale one, even if
    # some other process has got that pid by now.
    # (Nor has PostgreSQL to be asked about the socket's: it takes a zombie
    # for a live owner.)
    for dir in "$DIR" "$(cat "$DIR/sockdir" 2>/dev/null)"; do
        [ -z "$dir" ] || rm -f "$dir/interlockd.sock" "$dir"/sock/.s.PGSQL.*
    done
    rm -f "$DIR/pg/postmaster.pid" "$DIR/nginx.pid" "$DIR"/pids/*
}

# kill_group PGID: what is left of a service's own process group, if its
# processes are nginx's (the number may belong to others by now).
kill_group()
{
    for pid in $(ps -e -o pgid=,pid=,comm= \
        | awk -v g="$1" '$1 == g && $3 == "nginx" { print $2 }')
    do
        kill -s KILL "$pid" 2>/dev/null
        wait_gone "$pid" 5
    done
}

# keep NAME SIGNAL COMMAND...: runs it, and runs it again when it ends, until
# TERM.  Before the instance was ready once, an end is the end.
keep()
{
    name=$1 signal=$2
    shift 2
    child= stopping=
    # INT and HUP reach the whole foreground group; the supervisor decides
    trap : INT HUP
    trap 'stopping=1
        [ -z "$child" ] || kill -s "$signal" "$child" 2>/dev/null' TERM
    pause=0.02 soon=100

    while [ -z "$stopping" ]; do
        since=$(date +%s%3N)
        # a session of its own: no signal of the terminal's reaches it
        setsid setpriv --pdeathsig "$signal" "$@" &
        child=$!
        note_pid "$name" "$child"
        [ -z "$stopping" ] || kill -s "$signal" "$child" 2>/dev/null
        # Waited for even if it is gone already, or an older end's code would
        # count; and again after a signal of ours.
        wait "$child"
        code=$?
        while kill -0 "$child" 2>/dev/null; do
            wait "$child"
            code=$?
        done
        # a killed master's workers
        kill -s KILL -- "-$child" 2>/dev/null
        [ -z "$stopping" ] || break
        [ -e "$DIR/pids/ready" ] || exit 1

        # One that was killed, or had run for a while, is back at once; one
        # that ends by itself, or is killed again and again, must wait.
        if [ $(($(date +%s%3N) - since)) -gt 1000 ]; then
            soon=100
            pause=0.02
        elif [ "$code" -gt 128 ] && [ "$soon" -gt 0 ]; then
            soon=$((soon - 1))
            pause=0.02
        else
            case $pause in
            0.02) pause=0.1 ;;
            0.1) pause=0.3 ;;
            *) pause=1 ;;
            esac
        fi
        echo "$(date -Is) $name (pid $child) ended, status $code;" \
            "again in $pause s" >>"$DIR/log/instance.log"
        sleep "$pause" &
        wait $!
    done
    rm -f "$DIR/pids/$name"
}

# keeper NAME SIGNAL COMMAND...: starts a keeper with its log.
keeper()
{
    # the lock (fd 9) is the supervisor's alone
    setpriv --pdeathsig TERM sh "$self" _keep "$@" \
        </dev/null >>"$DIR/log/$1.log" 2>&1 9>&- &
    note_pid "keeper.$1" $!
}

keeper_postgres()
{
    keeper postgres INT "$pg_bindir/postgres" -D "$DIR/pg"
}

keeper_interlockd()
{
    keeper interlockd TERM "$interlockd" -c "$DIR/interlockd.conf"
}

keeper_nginx()
{
    keeper nginx QUIT sh "$self" _nginx
}

# run_nginx ARG...: in place of this shell.  A module that was built with a
# sanitizer needs its library before everything else.
run_nginx()
{
    preload=
    for library in libasan libubsan; do
        ! grep -q "$library\.so" "$build/ngx_http_interlock_module.so" \
            || preload="$preload $(gcc -print-file-name=$library.so)"
    done
    if [ -n "$preload" ]; then
        export LD_PRELOAD="${preload# }"
        export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
    fi
    exec "$nginx" -p "$DIR" -c "$DIR/nginx.conf" -e "$DIR/log/error.log" "$@"
}

# halt NAME: tells a keeper to stop its service; done WAITS for it and makes
# sure of it.
halt()
{
    ! alive "keeper.$1" || kill -s TERM "$(pid_of "keeper.$1")" 2>/dev/null
}

halted()
{
    name=$1 patience=$2 harder=$3
    alive "keeper.$name" || return 0
    keeper=$(pid_of "keeper.$name")
    wait_gone "$keeper" "$patience" && return 0
    ! alive "$name" || kill -s "$harder" "$(pid_of "$name")" 2>/dev/null
    wait_gone "$keeper" 5 && return 0
    ! alive "$name" || kill -s KILL -- "-$(pid_of "$name")" 2>/dev/null
    wait_gone "$keeper" 5 || kill -s KILL "$keeper" 2>/dev/null
}

stop_all()
{
    trap : INT TERM HUP
    rm -f "$DIR/pids/ready"
    # interlockd answers its parked requests, so that nginx's graceful end
    # does not have to wait for them
    halt nginx
    halt interlockd
    halted interlockd 15 KILL
    halted nginx 3 TERM
    halt postgres
    halted postgres 60 QUIT
    clear_left_over
    [ "$sock" = "$DIR" ] || rm -rf "$sock" "$DIR/sockdir"
}
