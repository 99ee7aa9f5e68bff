package Interlock::Test;

# A private interlock for a test: made by fcgi/etc/instance in a directory of
# its own on a free port, stopped and removed at the end.
#
#     my $i = Interlock::Test->instance;
#     my $res = $i->http(POST => '/v1/jobs', { token => 'submit',
#         body => { kind => 'free', work_key => 'a:b' } });
#     is($res->{status}, 202);
#
# At the end the logs are looked through: an alert of nginx's, a crash or a
# sanitizer's report fails the test, whatever it had asserted.

use strict;
use warnings;

use Cwd qw(abs_path);
use Digest::SHA qw(hmac_sha256 hmac_sha256_hex);
use File::Basename qw(dirname);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir tempfile);
use IO::Socket::INET;
use IO::Socket::UNIX;
use JSON::PP ();
use MIME::Base64 qw(decode_base64 encode_base64);
use POSIX ();
use Test::More ();
use Time::HiRes qw(sleep time);

use Interlock::HTTP;
use Interlock::Psql;
use Interlock::Template;

our $TOP = abs_path(dirname(__FILE__) . '/../../..');

my %live;                   # dir => instance, those of this process
my $json = JSON::PP->new->utf8->canonical->allow_nonref;


# --- an instance -----------------------------------------------------------

# instance(%opt): options, all optional
#   dir, port          where (a new directory below /tmp; a free port)
#   conf               text or [lines] for interlockd.conf; a name given here
#                      takes the place of the default
#   nginx_main, nginx_http, nginx_server   text for that level of nginx.conf
#   postgresql         text for postgresql.conf
#   env                { NAME => value } for the instance
#   start => 0         only make it
#   fresh => 1         makes everything itself.  Else it begins as a copy
#                      (Interlock::Template) of what the script had made before
#                      interlockd ran for the first time: instances have the
#                      same secrets, keys, tokens and system identifier
#   keep => 1          leave the directory there
sub instance {
    my ($class, %opt) = @_;

    my $self = bless {
        dir   => $opt{dir} // tempdir('interlock-test-XXXXXX', TMPDIR => 1),
        port  => $opt{port} // free_port(),
        build => abs_path($ENV{INTERLOCK_BUILD} // "$TOP/build"),
        env   => $opt{env} // {},
        keep  => $opt{keep} // $ENV{INTERLOCK_TEST_KEEP},
        owner => $$,
    }, $class;

    $live{ $self->{dir} } = $self;

    $self->from_template unless $opt{fresh} || glob "'$self->{dir}'/*"
        or grep { $self->{env}{$_} } qw(INTERLOCKD INTERLOCK_PG_BINDIR);
    my ($code, $out) = $self->script('create');
    Test::More::BAIL_OUT("instance create failed:\n$out") if $code;

    my %local = (conf => 'interlockd', nginx_main => 'nginx-main',
        nginx_http => 'nginx-http', nginx_server => 'nginx-server',
        postgresql => 'postgresql');
    for my $name (sort keys %local) {
        next unless defined $opt{$name};
        $self->local_conf($local{$name},
            ref $opt{$name} ? join("\n", @{ $opt{$name} }) : $opt{$name});
    }

    $self->start unless defined $opt{start} && !$opt{start};
    return $self;
}

# An instance that cannot go on without its interlockd has made its database by
# then, and stops it in good order.
sub from_template {
    my ($self) = @_;

    Interlock::Template::copy('instance', $self->{dir},
        [ map { /^\// ? $_ : "$TOP/$_" } qw(sql fcgi/etc/instance
            fcgi/etc/instance.d), "$self->{build}/interlock" ],
        sub {
            my ($to) = @_;
            my $dir = tempdir('interlock-template-XXXXXX', TMPDIR => 1);
            my $made = bless { %$self, dir => $dir, env =>
                { INTERLOCKD => '/bin/false' } }, ref $self;
            $made->start_fails(qr/interlockd ended at once/);
            my $state = slurp("$dir/log/postgres.log") // '';
            die "no clean end:\n$state\n"
                unless $state =~ /database system is shut down\s*\z/;
            remove_tree($_) for "$dir/log", "$dir/pids", "$dir/lock",
                "$dir/bin", glob "'$dir'/*.conf";
            system('mv', $dir, $to) == 0 or die "mv $dir $to failed\n";
        });
}

sub start_fails {
    my ($self, $how) = @_;

    for my $try (1 .. 3) {
        my ($code, $out) = $self->script('start');
        die "started\n" unless $code;
        return if $out =~ $how;
        $self->{port} = free_port();
        die "the template cannot be made:\n$out" if $try == 3;
    }
}

# local_conf(FILE, text): what goes to DIR/local/FILE.conf
sub local_conf {
    my ($self, $file, $text) = @_;

    my $path = "$self->{dir}/local/$file.conf";
    open my $fh, '>', $path or die "$path: $!";
    print $fh "$text\n";
    close $fh or die "$path: $!";
    # the instance runs as its directory's owner
    my ($uid, $gid) = (stat $self->{dir})[ 4, 5 ];
    chown $uid, $gid, $path if $> == 0;
}

sub dir   { $_[0]{dir} }
sub port  { $_[0]{port} }
sub build { $_[0]{build} }
sub url   { "http://127.0.0.1:$_[0]{port}" }

# script(COMMAND): runs fcgi/etc/instance; (exit code, output)
sub script {
    my ($self, @args) = @_;

    my ($out, $path) = tempfile('interlock-out-XXXXXX', TMPDIR => 1,
        UNLINK => 0);
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        %ENV = (%ENV, %{ $self->{env} }, PORT => $self->{port},
            DIR => $self->{dir}, INTERLOCK_BUILD => $self->{build});
        open STDIN, '<', '/dev/null';
        open STDOUT, '>&', $out;
        open STDERR, '>&', $out;
        chdir $TOP;
        exec 'sh', 'fcgi/etc/instance', @args or POSIX::_exit(127);
    }
    waitpid($pid, 0);
    my $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    my $text = slurp($path);
    unlink $path;
    return wantarray ? ($code, $text) : $code;
}

sub start {
    my ($self) = @_;

    for my $try (1 .. 3) {
        my ($code, $out) = $self->script('start');
        return $self unless $code;
        # somebody took the port since it was found to be free
        if ($out =~ /port \d+ is taken|Address already in use/ && $try < 3) {
            $self->{port} = free_port();
            next;
        }
        Test::More::diag($out);
        die "the instance does not start\n";
    }
}

sub stop {
    my ($self) = @_;

    my ($code, $out) = $self->script('stop');
    Test::More::diag("instance stop: $code\n$out") if $code;
    return !$code;
}

# reload: nginx reads its configuration again; returns when no old worker
# takes connections any more.
sub reload {
    my ($self) = @_;

    my ($code, $out) = $self->script('reload');
    die "reload: $out" if $code;
    return $self;
}

# pid('interlockd' | 'nginx' | 'postgres' | 'supervisor'): the running one's,
# else it dies.
sub pid {
    my ($self, $name) = @_;

    my ($pid) = split ' ', slurp("$self->{dir}/pids/$name") // '';
    die "no $name runs\n" unless $pid && kill 0, $pid;
    return $pid;
}

sub backend_pid { $_[0]->pid('interlockd') }
sub nginx_pid   { $_[0]->pid('nginx') }

# processes: every process that has to do with this instance: by its
# command line, its working directory or an open file, and all that descend
# from those; { pid => command line }.
sub processes {
    my ($self) = @_;

    my $dir = $self->{dir};
    my (%found, %parent);
    for my $pid (map { m{(\d+)$} } glob '/proc/[0-9]*') {
        next if $pid == $$;
        my $stat = slurp("/proc/$pid/stat") or next;
        next unless $stat =~ /.*\) (\S) (\d+)/s && $1 ne 'Z';
        $parent{$pid} = $2;
        my $text = slurp("/proc/$pid/cmdline") // '';
        $text =~ tr/\0/ /;
        my @links = map { readlink($_) // () } "/proc/$pid/cwd",
            glob "/proc/$pid/fd/*";
        $found{$pid} = $text
            if grep { index("$_/", "$dir/") >= 0 } split(/ (?=\/)/, $text),
                @links;
    }
    my $more = 1;
    while ($more) {
        $more = 0;
        for my $pid (keys %parent) {
            next if $found{$pid} || !$found{ $parent{$pid} };
            $found{$pid} = slurp("/proc/$pid/cmdline") // '?';
            $more = 1;
        }
    }
    return \%found;
}

# kill_backend(SIGNAL): kills interlockd and waits until another is ready
sub kill_backend {
    my ($self, $signal) = @_;

    my $old = $self->backend_pid;
    kill $signal // 'KILL', $old or die "kill $old: $!";
    $self->wait_for(sub {
        my $new = eval { $self->backend_pid };
        $new && $new != $old
            && $self->http(GET => '/readyz')->{status} == 200;
    }, 30, 'another interlockd');
    return $self;
}

sub restart_backend { $_[0]->kill_backend('TERM') }

# another_backend(NAME, setting => value…): one more interlockd of the same
# database, as the instance's own but for these settings, its socket and its
# log (log/NAME.log); answers { pid, socket } once it takes connections.  It is
# killed at the end of the test.
sub another_backend {
    my ($self, $name, %set) = @_;

    # the instance's user may write here
    my $socket = "$self->{dir}/$name.sock";
    unlink $socket;
    my @args = ('-c', "$self->{dir}/interlockd.conf", "--listen=$socket",
        '--pid=', '--edge_socket=', "--log=$self->{dir}/log/$name.log",
        map { "--$_=$set{$_}" } sort keys %set);
    my $program = $ENV{INTERLOCKD} // "$self->{build}/interlockd";
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        setpgrp 0, 0;
        open STDIN, '<', '/dev/null';
        exec $program, @args or POSIX::_exit(127);
    }
    push @{ $self->{spawned} }, $pid;
    push @{ $self->{logs} }, $name;
    $self->wait_for(sub { IO::Socket::UNIX->new(Peer => $socket) }, 15,
        "interlockd $name");
    return { pid => $pid, socket => $socket };
}

# wait_for(sub, seconds, what): until the sub says true, whose value it
# answers; dies when the time is over.
sub wait_for {
    my ($self, $sub, $seconds, $what) = @_;

    my $began = time;
    my $end = $began + ($seconds //= 10);
    while (1) {
        my $value = $sub->();
        return $value if $value;
        last if time >= $end;
        # one that waits for long need not know to the hundredth of a second
        my $pause = (time - $began) / 10;
        sleep($pause < 0.01 ? 0.01 : $pause > 0.05 ? 0.05 : $pause);
    }
    my $text = 'waited ' . $seconds . ' s for ' . ($what // 'something');
    $self->show_logs if ref $self;
    die "$text\n";
}


# --- HTTP ------------------------------------------------------------------

# token(role): the API token of that role
sub token {
    my ($self, $role) = @_;

    my $text = slurp("$self->{dir}/tokens/$role") // die "no token $role\n";
    $text =~ s/\s+\z//;
    return $text;
}

sub secret {
    my ($self, $source) = @_;

    return (split /\n/, slurp("$self->{dir}/secrets/$source")
        // die "no secret $source\n")[0];
}

# http(METHOD, path, { headers, body, token, timeout }): { status, reason,
# headers (names in lower case; repeated ones joined by ", "), body, json }.
#
# headers: { name => value or [values] } or [ [name, value] … ] (order kept).
# body: bytes; a reference to a hash or array goes as JSON; a sub goes chunked,
# what it answers until ''.  token: a role's name.  The status is 599 if there
# was no answer; reason says why.
sub http {
    my ($self, $method, $path, $opt) = @_;

    $opt //= {};
    my @headers;
    my $h = $opt->{headers} // {};
    if (ref $h eq 'ARRAY') {
        @headers = map { [@$_] } @$h;
    } else {
        for my $name (sort keys %$h) {
            push @headers, [ $name, $_ ]
                for ref $h->{$name} ? @{ $h->{$name} } : $h->{$name};
        }
    }
    my %has = map { lc $_->[0] => 1 } @headers;

    push @headers, [ 'Host', "127.0.0.1:$self->{port}" ] unless $has{host};
    push @headers, [ 'Connection', 'close' ] unless $has{connection};
    push @headers, [ 'Authorization', 'Bearer ' . $self->token($opt->{token}) ]
        if defined $opt->{token} && !$has{authorization};

    my $body = $opt->{body};
    my $next;
    if (ref $body eq 'CODE') {
        push @headers, [ 'Transfer-Encoding', 'chunked' ];
        my ($done, $source) = (0, $body);
        $next = sub {
            return undef if $done;
            my $piece = $source->();
            $done = 1 unless defined $piece && length $piece;
            return $done ? "0\r\n\r\n"
                : sprintf("%x\r\n", length $piece) . $piece . "\r\n";
        };
        $body = undef;
    } elsif (ref $body) {
        $body = $json->encode($body);
        push @headers, [ 'Content-Type', 'application/json' ]
            unless $has{'content-type'};
    }
    push @headers, [ 'Content-Length', length $body ]
        if (defined $body || (!$next && $method =~ /^(?:POST|PUT|PATCH)$/))
            && !$has{'content-length'} && !$has{'transfer-encoding'}
            && (($body //= ''), 1);

    my $text = "$method $path HTTP/1.1\r\n"
        . join('', map { "$_->[0]: $_->[1]\r\n" } @headers) . "\r\n"
        . ($body // '');
    my $raw = $self->raw($text, { timeout => $opt->{timeout},
        more => $next, method => $method });

    return $raw->{responses}[0] // { status => 599, reason => $raw->{error},
        headers => {}, body => '' };
}

# raw(bytes, options): a request as it stands, see Interlock::HTTP
sub raw { my $self = shift; return Interlock::HTTP::raw($self->{port}, @_) }

# Signatures with the instance's own secrets

sub sign_github {
    my ($self, $body) = @_;

    return 'sha256=' . hmac_sha256_hex($body, $self->secret('github'));
}

sub sign_stripe {
    my ($self, $body, $at) = @_;

    $at //= int time;
    return "t=$at,v1="
        . hmac_sha256_hex("$at.$body", $self->secret('stripe'));
}

sub sign_standard {
    my ($self, $id, $body, $at) = @_;

    $at //= int time;
    my ($key) = $self->secret('standard') =~ /^whsec_(.+)$/;
    return 'v1,' . encode_base64(
        hmac_sha256("$id.$at.$body", decode_base64($key)), '');
}

# By the sender's half of a key pair, which the instance has, too.

sub sign_discord {
    my ($self, $body, $at) = @_;

    return unpack 'H*', $self->_sign_as('discord', "$at$body",
        'pkeyutl -sign -rawin -inkey', '-in');
}

sub sign_sendgrid {
    my ($self, $body, $at) = @_;

    return encode_base64($self->_sign_as('sendgrid', "$at$body",
        'dgst -sha256 -sign', ''), '');
}

sub _sign_as {
    my ($self, $source, $text, $how, $in) = @_;

    my $file = File::Temp->new;
    spew("$file", $text);
    my $sig = `openssl $how '$self->{dir}/senders/$source.pem' $in '$file'`;
    die "openssl $how\n" if $? || !length $sig;
    return $sig;
}

# github(body, { event, delivery, headers }): posts a signed delivery
sub github {
    my ($self, $body, $opt) = @_;

    $body = $json->encode($body) if ref $body;
    return $self->http(POST => '/in/github', { body => $body, headers => {
        'Content-Type'        => 'application/json',
        'X-GitHub-Event'      => $opt->{event} // 'push',
        'X-GitHub-Delivery'   => $opt->{delivery} // random_id(),
        'X-Hub-Signature-256' => $self->sign_github($body),
        %{ $opt->{headers} // {} },
    } });
}

# metrics: { 'name{labels}' => value }
sub metrics {
    my ($self) = @_;

    my %m;
    for (split /\n/, $self->http(GET => '/metrics')->{body}) {
        $m{$1} = $2 if /^([a-zA-Z_:][^ ]*(?:\{.*\})?) (\S+)$/;
    }
    return \%m;
}


# --- database --------------------------------------------------------------

# dsn('owner' | 'service' | 'admin'): libpq's connection string
sub dsn {
    my ($self, $role) = @_;

    my $file = !defined $role || $role eq 'owner' ? 'dsn' : "dsn.$role";
    my $text = slurp("$self->{dir}/$file") // die "no $file\n";
    chomp $text;
    return $text;
}

# psql(sql, role): what psql prints (columns parted by |), without the last
# newline; dies on an error.  The role is the superuser unless said.  See
# Interlock::Psql: the session may be an older one's.
sub psql {
    my ($self, $sql, $role) = @_;

    my ($code, $out, $err) = $self->_psql($role)->run($sql);
    die "psql: $err" if $code;
    chomp $out;
    return $out;
}

# sql(query, role): a list of rows, each an array of its columns (null is
# undef).
sub sql {
    my ($self, $sql, $role) = @_;

    my ($code, $out, $err) = $self->_psql($role)->run($sql, split => 1);
    die "psql: $err" if $code;
    chomp $out;
    return map { [ map { $_ eq "\x01" ? undef : $_ } split /\x1f/, $_, -1 ] }
        split /\x1e/, $out;
}

sub _psql {
    my ($self, $role) = @_;

    $role //= 'admin';
    return $self->{psql}{$role} //= Interlock::Psql->new(
        Interlock::Psql::environment($self->dsn($role)));
}

# check_sql: the invariants of sql/check.sql hold (one test).
sub check_sql {
    my ($self, $name) = @_;

    my ($code, $out, $err) = $self->_psql->run(slurp("$TOP/sql/check.sql"));
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $ok = Test::More::is("$out$err", '',
        $name // 'the invariants of sql/check.sql hold');
    return $ok && !$code;
}


# --- programs --------------------------------------------------------------

# cli({ token, stdin, env, timeout }, args…): runs build/interlock with
# this instance's address; { code, out, err }.  The hash may be left out.
sub cli {
    my $self = shift;
    my $opt = ref $_[0] ? shift : {};

    my ($code, $out, $err) = run([ "$self->{build}/interlock", @_ ],
        stdin => $opt->{stdin}, env => $self->cli_env($opt),
        timeout => $opt->{timeout} // 60);
    return { code => $code, out => $out, err => $err,
        json => scalar eval { $json->decode($out) } };
}

sub cli_env {
    my ($self, $opt) = @_;

    return { INTERLOCK_URL => $self->url, defined $opt->{token}
        ? (INTERLOCK_TOKEN_FILE => "$self->{dir}/tokens/$opt->{token}") : (),
        %{ $opt->{env} // {} } };
}

# spawn_cli({ token, env, out }, args…): the same in the background, its pid.
# out: a file for what it prints.  It is killed at the end of the test.
sub spawn_cli {
    my $self = shift;
    my $opt = ref $_[0] ? shift : {};
    my @args = @_;

    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        setpgrp 0, 0;
        %ENV = (%ENV, %{ $self->cli_env($opt) });
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', $opt->{out} // '/dev/null';
        open STDERR, '>&', \*STDOUT;
        exec "$self->{build}/interlock", @args or POSIX::_exit(127);
    }
    push @{ $self->{spawned} }, $pid;
    return $pid;
}

# run([command], stdin =>, env =>, timeout =>): (code, out, err)
sub run {
    my ($cmd, %opt) = @_;

    my @file = map { (tempfile('interlock-run-XXXXXX', TMPDIR => 1,
        UNLINK => 0))[1] } 1 .. 3;
    spew($file[0], $opt{stdin} // '');
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        %ENV = (%ENV, %{ $opt{env} // {} });
        open STDIN, '<', $file[0];
        open STDOUT, '>', $file[1];
        open STDERR, '>', $file[2];
        exec { $cmd->[0] } @$cmd or POSIX::_exit(127);
    }
    my $code;
    eval {
        local $SIG{ALRM} = sub { die "late\n" };
        alarm($opt{timeout} // 60);
        waitpid($pid, 0);
        $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
        alarm 0;
    };
    if ($@) {
        kill 'KILL', $pid;
        waitpid($pid, 0);
        $code = 124;
    }
    my @text = map { slurp($_) } @file[ 1, 2 ];
    unlink @file;
    return ($code, @text);
}

sub slurp {
    my ($path) = @_;

    open my $fh, '<:raw', $path or return undef;
    local $/;
    return scalar(<$fh>) // '';
}

sub spew {
    my ($path, $text) = @_;

    open my $fh, '>:raw', $path or die "$path: $!";
    print $fh $text;
    close $fh or die "$path: $!";
}

sub random_id { join '', map { sprintf '%04x', rand 65536 } 1 .. 8 }

# free_port: below the range that the kernel gives to clients
sub free_port {
    for (1 .. 200) {
        my $port = 12000 + int rand 18000;
        my $sock = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
            LocalPort => $port, Listen => 1, ReuseAddr => 1) or next;
        close $sock;
        return $port;
    }
    die "no free port\n";
}


# --- the end ---------------------------------------------------------------

sub log {
    my ($self, $name) = @_;

    return slurp("$self->{dir}/log/$name.log") // '';
}

sub show_logs {
    my ($self) = @_;

    for my $name (qw(instance setup interlockd error postgres)) {
        my @lines = split /\n/, $self->log($name);
        @lines = @lines[ -15 .. -1 ] if @lines > 15;
        $_ = substr($_, 0, 240) for @lines;
        Test::More::diag("$name.log:\n" . join("\n", @lines)) if @lines;
    }
}

# What the logs must not hold.  A test that provokes one on purpose says so:
# $i->expect_log(qr/…/).  (That interlockd's socket is away for a moment when
# it is started again is no alert, neither for a request nor for a line of the
# audit.)
sub expect_log {
    my ($self, $re) = @_;

    push @{ $self->{expected} }, $re;
}

sub log_complaints {
    my ($self) = @_;

    my @bad;
    for my $name (qw(error nginx interlockd postgres),
        @{ $self->{logs} // [] })
    {
        my $kept = 0;
        for my $line (split /\n/, $self->log($name)) {
            # a sanitizer's report goes on for some lines
            my $report = $line =~
                /(?:Address|Thread|Leak)Sanitizer|runtime error:/;
            $kept = 40 if $report;
            next unless $kept-- > 0
                || $line =~ /\[(?:alert|emerg|crit)\]/
                || $line =~ /exited on signal (?:4|6|7|8|11)\b/
                || $line =~ /terminated by signal (?:4|6|7|8|11)\b/
                || $line =~ /\b(?:PANIC|assert(?:ion)?\b.*fail)/i;
            next if grep { $line =~ $_ }
                qr/connect\(\) to unix:\S+ failed \(2:/,
                qr/: connect\(\) failed \((?:2|111): [^)]*\)(?: while logging to syslog.*)?$/,
                @{ $self->{expected} // [] };
            push @bad, "$name.log: $line";
        }
    }
    return @bad;
}

# end: stops it, looks through the logs, removes it; whether all was well
sub end {
    my ($self) = @_;

    return 1 unless delete $live{ $self->{dir} };
    for my $pid (@{ $self->{spawned} // [] }) {
        kill 'KILL', -$pid;
        waitpid($pid, 0);
    }
    $_->close for values %{ delete $self->{psql} // {} };
    my $fine = $self->stop;
    my @bad = $self->log_complaints;
    Test::More::diag(join "\n", 'in the logs:', @bad[ 0 .. ($#bad > 60
        ? 60 : $#bad) ]) if @bad;
    remove_tree($self->{dir}, { safe => 0 }) unless $self->{keep};
    Test::More::diag("kept: $self->{dir}") if $self->{keep};
    return $fine && !@bad;
}

$SIG{$_} //= sub { exit 1 } for qw(INT TERM HUP);

END {
    my $code = $?;
    my $failed = !Test::More->builder->is_passing;
    for my $self (values %live) {
        next unless $self->{owner} == $$;
        $self->show_logs if $failed || $code;
        $self->end or $code ||= 1;
    }
    $? = $code;
}

1;
