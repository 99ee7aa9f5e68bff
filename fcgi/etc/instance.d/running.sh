# A part of `instance`: starting it, and what it says.

port_free()
{
    hex=$(printf '%04X' "$PORT")
    if cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$hex" '
        $4 == "0A" && $2 ~ (":" port "$") { taken = 1 }
        END { exit !taken }'
    then
        die "port $PORT is taken; choose another: make run PORT=..."
    fi
}

ready()
{
    [ "$(curl -s -o /dev/null -w '%{http_code}' --noproxy '*' --max-time 5 \
        "$url/readyz" 2>/dev/null)" = 200 ]
}

# give_up TEXT [LOG]: the start failed; nothing of it stays.
give_up()
{
    {
        say "$1"
        if [ -n "${2:-}" ] && [ -s "$DIR/log/$2.log" ]; then
            echo "the end of $DIR/log/$2.log:"
            tail -n 15 "$DIR/log/$2.log" | sed 's/^/    /'
        fi
    } >"$DIR/failed.new"
    cat "$DIR/failed.new" >&2
    stop_all
    mv -f "$DIR/failed.new" "$DIR/pids/failed"
    exit 1
}

# step TEXT COMMAND...: one step of the preparation, with its own log.
step()
{
    text=$1
    shift
    "$@" >>"$DIR/log/setup.log" 2>&1 </dev/null 9>&- && [ -z "$asked" ] \
        && return
    [ -z "$asked" ] || { stop_all; exit 0; }
    give_up "$text failed" setup
}

# await NAME SECONDS TEST...: until the test holds; the keeper must live.
await()
{
    name=$1 late=$(($(uptime_s) + $2))
    shift 2
    until "$@"; do
        [ -z "$asked" ] || { stop_all; exit 0; }
        alive "keeper.$name" || give_up "$name ended at once" "$name"
        [ "$(uptime_s)" -le "$late" ] || give_up "$name does not get ready$(curl -s \
            --noproxy '*' --max-time 2 "$url/readyz" | sed 's/^/: /')" "$name"
        sleep 0.05
    done
}

pg_up()
{
    "$pg_bindir/pg_isready" -q -h "$pgsock" -d postgres -U interlock_admin
}

nginx_up()
{
    [ -s "$DIR/nginx.pid" ] \
        && [ "$(cat "$DIR/nginx.pid")" = "$(pid_of nginx)" ]
}

admin()
{
    database=$1
    shift
    "$pg_bindir/psql" -X -q -v ON_ERROR_STOP=1 -h "$pgsock" \
        -U interlock_admin -d "$database" "$@"
}

make_database()
{
    [ "$(admin postgres -A -t -c \
        "select 1 from pg_database where datname = 'interlock'")" = 1 ] \
        || admin postgres -c "create database interlock owner interlock_owner"
}

prepare_database()
{
    step "creating the roles" admin postgres -f "$tree/sql/roles.sql"
    step "creating the database" make_database
    step "migrating the database" "$interlock" migrate \
        --dsn-file "$DIR/dsn" --sql-dir "$tree/sql"

    ls "$DIR"/keys/*.seed >/dev/null 2>&1 \
        || step "making a signing key" "$interlock" keys init "$DIR/keys"
    for role in submit worker operator auditor; do
        [ -s "$DIR/tokens/$role" ] || step "making the $role token" \
            "$interlock" token create --dsn-file "$DIR/dsn" --tenant demo \
            --name "$role" --role "$role" --out "$DIR/tokens/$role"
    done
    sample_token
}

# Each sample is put once; what the user made of it later stays.
put_kinds()
{
    for what in effect-kind kind schedule; do
        for file in "$tree/fcgi/etc/${what}s"/*.json; do
            kind=${file##*/}
            kind=${kind%.json}
            [ ! -e "$DIR/${what}s/$kind" ] || continue
            step "putting $what $kind" "$interlock" --url "$url" \
                --token-file "$DIR/tokens/operator" "$what" put "$kind" "$file"
            touch "$DIR/${what}s/$kind"
        done
    done
}

supervise()
{
    asked=

    # A terminal that is closed tells its session's leader only; that may be
    # a make, which waits for us.
    terminal=
    [ ! -t 0 ] || terminal=yes

    cd "$DIR" || exit 1
    umask 077
    exec 9>"$DIR/lock"
    flock -n 9 || die "runs already; make stop ends it"
    trap 'asked=1' INT TERM HUP
    clear_left_over
    note_pid supervisor $$
    echo "$PORT" >"$DIR/pids/port"
    ulimit -n "$(ulimit -H -n)" 2>/dev/null
    render
    : >"$DIR/log/setup.log"

    say "starting PostgreSQL, interlockd and nginx below $DIR"
    keeper_postgres
    await postgres 120 pg_up
    prepare_database
    keeper_interlockd
    await interlockd 30 test -S "$sock/interlockd.sock"
    keeper_nginx
    await nginx 30 nginx_up
    await interlockd 15 ready
    put_kinds
    touch "$DIR/pids/ready"
    welcome

    while [ -z "$asked" ]; do
        if [ -n "$terminal" ] && [ ! -t 0 ]; then
            break
        fi
        sleep 1 9>&- &
        sleeper=$!
        wait "$sleeper"
        for name in postgres interlockd nginx; do
            [ -n "$asked" ] || alive "keeper.$name" || keeper_$name
        done
    done
    kill "$sleeper" 2>/dev/null
    trap '' PIPE
    say "stopping"
    stop_all
    say "stopped"
}

# reload: returns when no old worker takes connections any more.
reload()
{
    master=$(pid_of nginx)
    old=$(workers "$master")
    kill -s HUP "$master"
    tries=200
    while ! renewed; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || die "nginx's old workers do not go"
        sleep 0.05
    done
    say "nginx has read its configuration again"
}

renewed()
{
    now=$(workers "$master")
    [ -n "$now" ] || return 1
    for pid in $old; do
        case " $now " in *" $pid "*) return 1 ;; esac
    done
}

# The pids of a master's workers, but for those that are shutting down.
workers()
{
    echo $(ps -e -o ppid=,pid=,args= | awk -v m="$1" \
        '$1 == m && /nginx: worker process *$/ { print $2 }')
}

status()
{
    all=0
    for name in postgres interlockd nginx; do
        if alive "$name"; then
            echo "$name: running, pid $(pid_of "$name")"
        else
            echo "$name: not running"
            all=3
        fi
    done
    PORT=$(cat "$DIR/pids/port" 2>/dev/null || echo "$PORT")
    url=http://127.0.0.1:$PORT
    if [ "$all" = 0 ] && ready; then
        echo "ready at $url"
    else
        echo "not ready"
        all=3
    fi
    exit $all
}

# The three things to try are README.md's own, with this PORT and DIR.
welcome()
{
    cat <<END

interlock runs at $url (log: $DIR/log)

    $url/in/github       webhooks of GitHub; all others are in $DIR/sources.conf
    $url/v1/jobs         the API; tokens are in $DIR/tokens
    $url/ui/             the operators' pages; the token is $DIR/tokens/operator
    $url/sample/         a page with a button
    $url/edge/status     what nginx answered by itself
    $url/metrics         also /livez, /readyz

Three things to try, in another terminal, in $tree:
END
    quoted=$(printf '%s' "$DIR" | sed 's/[^A-Za-z0-9/._+-]/\\&/g')
    [ "$DIR" != "$tree/run" ] || quoted=run
    sed -n '/^## Three things to try/,/^## [^T]/p' "$tree/README.md" \
        | QUOTED=$quoted URL=$url awk '
        /^\*\*[0-9]/ {
            match($0, /\*\*[^*]*\*\*/)
            print "\n# " substr($0, RSTART + 2, RLENGTH - 4)
        }
        /^```/ { code = !code; next }
        code {
            gsub(/http:\/\/127\.0\.0\.1:8080/, ENVIRON["URL"])
            out = ""
            while (match($0, /(^|[^A-Za-z0-9_\/.])run\//)) {
                out = out substr($0, 1, RSTART + RLENGTH - 5) ENVIRON["QUOTED"] "/"
                $0 = substr($0, RSTART + RLENGTH)
            }
            print "    " out $0
        }'
    echo
    echo "Ctrl-C (or make stop) ends it; the data stays."
}
