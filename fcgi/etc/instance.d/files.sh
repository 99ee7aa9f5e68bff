# A part of `instance`: making it, and the configuration.

create()
{
    umask 077
    mkdir -p "$DIR" || die "cannot make $DIR"
    for dir in tokens secrets senders check-secrets alert-secrets keys log tmp local \
        pids kinds effect-kinds schedules
    do
        mkdir -p "$DIR/$dir" || die "cannot make $DIR/$dir"
    done

    # one secret a line, in each provider's own form
    lacks github && secret github "$(random_hex 20)"
    lacks stripe && secret stripe "whsec_$(random_base64 24)"
    lacks standard && secret standard "whsec_$(random_base64 24)"
    lacks token && secret token "$(random_hex 20)"
    lacks hmac && secret hmac "$(random_hex 20)"
    lacks cloudevents && secret cloudevents "$(random_hex 20)"
    lacks slack && secret slack "$(random_hex 16)"
    lacks shopify && secret shopify "shpss_$(random_hex 16)"
    lacks meta && secret meta "$(random_hex 16)"
    lacks meta-verify-token && secret meta-verify-token "$(random_hex 16)"
    lacks square && secret square "$(random_text 22)"
    lacks paddle && secret paddle "pdl_ntfset_$(random_text 26)_$(random_text 32)"
    lacks linear && secret linear "lin_wh_$(random_text 40)"
    lacks zoom && secret zoom "$(random_text 22)"
    lacks hubspot && secret hubspot "$(cat /proc/sys/kernel/random/uuid)"
    lacks twilio && secret twilio "$(random_hex 16)"
    lacks intercom && secret intercom "$(cat /proc/sys/kernel/random/uuid)"
    lacks mailgun && secret mailgun "$(random_hex 16)"
    lacks adyen && secret adyen "$(random_hex 32 | tr a-f A-F)"
    lacks gitlab && secret gitlab "$(random_text 20)"
    lacks x && secret x "$(random_text 50)"
    public_key discord ed25519

    # no secrets: a key of the sender, the ID of a webhook, the ARN of a topic
    public_key sendgrid p256
    lacks paypal && secret paypal "$(random_text 17 | tr a-z A-Z)"
    lacks sns && secret sns "arn:aws:sns:us-east-1:$(random_digits 12):interlock"

    if [ ! -d "$DIR/pg" ]; then
        rm -rf "$DIR/pg.new"
        "$pg_bindir/initdb" -D "$DIR/pg.new" -U interlock_admin -A peer \
            -E UTF8 --locale=C --data-checksums >"$DIR/log/initdb.log" 2>&1 \
            || { cat "$DIR/log/initdb.log" >&2; die "initdb failed"; }
        echo "include '../postgresql.conf'" >>"$DIR/pg.new/postgresql.conf"
        sync -f "$DIR/pg.new"
        mv "$DIR/pg.new" "$DIR/pg" || exit 1
    fi
}

random_hex()
{
    od -A n -N "$1" -t x1 /dev/urandom | tr -d ' \n'
}

random_base64()
{
    head -c "$1" /dev/urandom | base64
}

# random_text N: that many letters and digits
random_text()
{
    head -c $(($1 * 4 + 64)) /dev/urandom | base64 -w 0 | tr -d '+/=' \
        | head -c "$1"
}

random_digits()
{
    # (one byte in 26 is a digit: too few of them about never)
    head -c $(($1 * 64 + 4096)) /dev/urandom | tr -dc 0-9 | head -c "$1"
}

# public_key NAME KIND: for providers that sign with a key of their own.  The
# public half, in the provider's form, is what nginx knows; the other one is in
# senders/, to sign with here until the provider's takes its place.
public_key()
{
    lacks "$1" || return 0
    key=$DIR/senders/$1.pem

    case $2 in
    ed25519)
        openssl genpkey -algorithm ed25519 -out "$key" 2>/dev/null \
            && public=$(openssl pkey -in "$key" -pubout -outform DER \
                | tail -c 32 | od -A n -t x1 | tr -d ' \n') ;;
    p256)
        openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 \
            -out "$key" 2>/dev/null \
            && public=$(openssl pkey -in "$key" -pubout -outform DER \
                | base64 -w 0) ;;
    esac || die "cannot make a key for $1"

    secret "$1" "$public"
}

lacks()
{
    [ ! -s "$DIR/secrets/$1" ]
}

secret()
{
    printf '%s\n' "$2" >"$DIR/secrets/$1"
}

# A unix socket's path has room for 107 bytes, and some readers of it know no
# quoting: elsewhere, then, if DIR's own is too long or too odd.
socket_dir()
{
    case $DIR in
    *[!A-Za-z0-9/._+-]*) ;;
    *) [ ${#DIR} -gt 80 ] || { sock=$DIR; return; } ;;
    esac

    sock=$(cat "$DIR/sockdir" 2>/dev/null)
    if [ -z "$sock" ] || [ -L "$sock" ] || [ ! -O "$sock" ] \
        || [ "$(stat -c %a "$sock")" != 700 ]
    then
        sock=$(mktemp -d /tmp/interlock.XXXXXX) || die "cannot write to /tmp"
        echo "$sock" >"$DIR/sockdir"
    fi
}

# Writes the configuration of all three; what is the user's own stands in
# DIR/local and is kept.
render()
{
    socket_dir
    pgsock=$sock/sock
    mkdir -p "$pgsock" && chmod 700 "$pgsock" || exit 1

    files=$(ulimit -H -n)
    [ "$files" != unlimited ] && [ "$files" -le 20000 ] || files=20000
    connections=$((files - 500))
    [ "$connections" -le 12288 ] || connections=12288

    cat >"$DIR/postgresql.conf" <<END
# Made at each start; your own settings go to local/postgresql.conf.
listen_addresses = ''
unix_socket_directories = '$pgsock'
unix_socket_permissions = 0700
max_connections = 100
fsync = on
full_page_writes = on
synchronous_commit = on
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
log_destination = 'stderr'
logging_collector = off
log_line_prefix = '%m [%p] %q%u '
include '$DIR/local/postgresql.conf'
END
    echo "local all all peer map=interlock" >"$DIR/pg/pg_hba.conf"
    for os_user in $(id -un) root; do
        for role in interlock_admin interlock_owner interlock_service \
            interlock_audit
        do
            echo "interlock $os_user $role"
        done
    done | sort -u >"$DIR/pg/pg_ident.conf"

    echo "host=$pgsock dbname=interlock user=interlock_owner" >"$DIR/dsn"
    echo "host=$pgsock dbname=interlock user=interlock_service" \
        >"$DIR/dsn.service"
    echo "host=$pgsock dbname=interlock user=interlock_admin" >"$DIR/dsn.admin"

    # Where the egress samples lead, look-ups may look.
    outside=
    [ "$PORT" -ge 65535 ] || outside=127.0.0.1:$((PORT + 1))

    # A line in local/interlockd.conf takes the place of the one made here.
    touch "$DIR/local/interlockd.conf" "$DIR/local/postgresql.conf"
    {
        echo "# Made at each start; your own lines go to local/interlockd.conf."
        awk -F '[ \t]*=' '
            { gsub(/^[ \t]+/, "", $1) }
            local { if ($0 !~ /^[ \t]*#/) { own[$1] = 1 } next }
            !($1 in own)' local=1 "$DIR/local/interlockd.conf" local=0 - <<END
listen = $sock/interlockd.sock
edge_socket = $sock/edge.sock
dsn = $(cat "$DIR/dsn.service")
keys_dir = $DIR/keys
log = stderr
db_deadline = 10s
check_hosts = $outside
check_private = $outside
check_secrets_dir = $DIR/check-secrets
alert_hosts = 127.0.0.1:* localhost:* [::1]:*
alert_private = 127.0.0.1:* localhost:* [::1]:*
alert_secrets_dir = $DIR/alert-secrets
END
        cat "$DIR/local/interlockd.conf"
    } >"$DIR/interlockd.conf"

    for file in nginx-main nginx-http nginx-server; do
        touch "$DIR/local/$file.conf"
    done
    render_nginx sources.conf
    sample_token
    render_nginx sample.conf
    render_nginx nginx.conf
}

# What the sample page makes its tickets with: the submit token as a header.
# (A token is one word of letters, digits, dots, dashes and underscores.)
sample_token()
{
    ( umask 077
      {
          echo "# Made at each start from tokens/submit."
          [ ! -s "$DIR/tokens/submit" ] || sed \
              's/^\([A-Za-z0-9._-]*\)$/proxy_set_header Authorization "Bearer \1";/' \
              "$DIR/tokens/submit"
      } >"$DIR/sample-token.conf" )
}

# render_nginx NAME: fcgi/etc/NAME.in with its @VARIABLES@ filled in.
render_nginx()
{
    PORT=$PORT PROVIDER=$((PORT + 1)) DIR=$DIR BUILD=$build TREE=$tree SOCK=$sock FILES=$files \
        CONNECTIONS=$connections awk '
        {
            out = ""
            while (match($0, /@[A-Z]+@/)) {
                name = substr($0, RSTART + 1, RLENGTH - 2)
                out = out substr($0, 1, RSTART - 1) ENVIRON[name]
                $0 = substr($0, RSTART + RLENGTH)
            }
            print out $0
        }' "$tree/fcgi/etc/$1.in" >"$DIR/$1.new"
    mv -f "$DIR/$1.new" "$DIR/$1"
}
