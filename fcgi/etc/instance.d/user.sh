# A part of `instance`: who runs it.

# become_user ARG...: as root, makes DIR and goes on as an unprivileged user.
become_user()
{
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    group=$(id -gn "$user")

    case $command in
    create|start|run)
        if [ ! -e "$DIR" ]; then
            mkdir -p "$DIR" || die "cannot make $DIR"
        fi
        # an empty one is taken over, whoever made it
        if [ -z "$(ls -A "$DIR")" ]; then
            chown "$user:$group" "$DIR" && chmod 700 "$DIR" \
                || die "cannot give $DIR to $user"
        fi
        ;;
    *)
        [ -d "$DIR" ] || { say "is not running"; [ "$command" = stop ]; exit; }
        ;;
    esac

    owner=$(stat -c %U "$DIR")
    if [ "$owner" != "$user" ]; then
        [ "$owner" != root ] && id "$owner" >/dev/null 2>&1 \
            || die "$DIR is not empty and belongs to $owner"
        user=$owner
        group=$(id -gn "$user")
    fi

    drop="setpriv --reuid $user --regid $group --clear-groups"

    # A parent directory that is root's alone (/root): keep the right to look
    # and to read, nothing else.  A port below 1024 needs its right, too.
    # (Tried through env: setpriv itself could still reach everything.)
    caps=
    reaches $drop || caps=+dac_read_search
    [ "$PORT" -ge 1024 ] || caps=${caps:+$caps,}+net_bind_service
    if [ -n "$caps" ]; then
        drop="$drop --inh-caps=-all,$caps --ambient-caps=-all,$caps"
        reaches $drop 2>/dev/null || die "user $user cannot get at $tree and" \
            "$DIR, and there is no CAP_DAC_READ_SEARCH to give to it"
    fi

    # Programs that only root may execute (umask 077) are copied.  (The
    # shell's test asks for the effective user; coreutils' leaves out caps.)
    if [ -f "$build/interlock" ] \
        && ! $drop sh -c 'test -x "$1"' sh "$build/interlock"
    then
        case $command in
        create|start|run)
            rm -rf "$DIR/bin" && mkdir "$DIR/bin" || exit 1
            cp "$build/interlock" "$build/interlockd" \
                "$build/ngx_http_interlock_module.so" "$DIR/bin/" \
                && chmod -R a+rX "$DIR/bin" || exit 1 ;;
        esac
        build=$DIR/bin
    fi

    cd / || exit 1
    PORT=$PORT DIR=$DIR INTERLOCK_BUILD=$build HOME=/nonexistent \
        exec $drop sh "$self" "$@"
}

# reaches SETPRIV...: whether that user gets at the tree, the programs and DIR.
reaches()
{
    "$@" env sh -c 'test -r "$1" && test -r "$2" && cd "$3" && test -w .' \
        sh "$self" "$tree/README.md" "$DIR" 2>/dev/null
}

need_programs()
{
    for program in "$interlockd" "$interlock" "$nginx" "$pg_bindir/initdb" \
        "$pg_bindir/postgres"
    do
        [ -x "$program" ] || die "no ${program:-nginx} (make builds interlock;" \
            "Debian has nginx and postgresql-15)"
    done
    [ -f "$build/ngx_http_interlock_module.so" ] \
        || die "no $build/ngx_http_interlock_module.so (make builds it)"
}
