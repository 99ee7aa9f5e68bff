package Interlock::Nginx;

# A private nginx with the module, in front of a FastCGI responder that a
# test can make fail: the fault injector for what the edge does with a
# backend's answers.  (The real backend is tested elsewhere.)
#
#     my $t = Interlock::Nginx->new(http => $text, server => $text);
#     $t->start;
#     my $res = $t->http(POST => '/in/x', { headers => [...], body => '...' });
#     is(scalar $t->seen, 1, 'one request reached the backend');
#     done_testing();
#
# At the end nginx is stopped and its error log is looked through: an alert,
# an emergency, a crash or a sanitizer's report fails the test.
#
# The responder does what the request header X-Backend says, words separated
# by ";":
#
#     status=500          the status line (default 202)
#     posted=500          the same, for a POST only
#     hold=NAME           answers only when $t->let_go(NAME) was called
#     close               closes the connection instead of answering
#     close-mid           closes it in the middle of the header
#     garbage             sends what is not FastCGI
#     body=N              an answer body of N bytes
#     plain               no Interlock-... headers at all
#     answer=TEXT         Interlock-Answer (default: built)
#     done=TEXT           Interlock-Done-For (default 86400; "no": none)
#     epoch=TEXT          Interlock-Epoch (default none)
#     grant=MS            Interlock-Hold (default none)
#     decision=NAME, reason=NAME
#     accel=URI           X-Accel-Redirect

use strict;
use warnings;

use Cwd qw(abs_path);
use Digest::SHA qw(hmac_sha256_hex);
use Fcntl qw(:flock O_APPEND O_CREAT O_WRONLY);
use File::Basename qw(dirname);
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use JSON::PP ();
use POSIX ();
use Socket qw(SOCK_STREAM);
use Test::More ();
use Time::HiRes qw(sleep time);

our $TOP = abs_path(dirname(__FILE__) . '/../../..');

my $json = JSON::PP->new->canonical;
my %live;


# new(%opt):
#   main, http, server  configuration text for that level
#   workers             1
#   module              path of another build of the module
#   env                 { NAME => value } for nginx
#   servers             further text behind the server block
#   patience            seconds that the responder holds an answer (30)
#   answer              sub(self, parameters, body): what the responder says,
#                       [status, [Name => value, ...], body], or undef to
#                       close the connection
sub new {
    my ($class, %opt) = @_;

    my $build = abs_path($ENV{INTERLOCK_BUILD} // "$TOP/build");

    my $self = bless {
        dir    => tempdir('interlock-nginx-XXXXXX', TMPDIR => 1),
        port   => free_port(),
        module => $opt{module} // "$build/ngx_http_interlock_module.so",
        owner  => $$,
        allow  => [],
        %opt,
    }, $class;

    chmod 0755, $self->{dir};
    make_path(map { "$self->{dir}/$_" } qw(logs tmp gate secrets html));

    Test::More::BAIL_OUT("no module at $self->{module}: run make")
        unless -f $self->{module};

    $live{$self} = $self;

    return $self;
}

sub free_port {
    my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1',
        Proto => 'tcp') or die "no free port: $!";
    return $s->sockport;
}

sub dir { $_[0]{dir} }
sub port { $_[0]{port} }

sub write_file {
    my ($self, $name, $text, $mode) = @_;

    my $path = $name =~ m{^/} ? $name : "$self->{dir}/$name";
    open my $f, '>', "$path.new" or die "$path: $!";
    binmode $f;
    print $f $text;
    close $f or die "$path: $!";
    chmod $mode // 0644, "$path.new";
    rename "$path.new", $path or die "$path: $!";
    return $path;
}

sub secret {
    my ($self, $name, $text) = @_;
    return $self->write_file("secrets/$name", $text, 0600);
}

# The configuration; %%DIR%%, %%PORT%%, %%BACKEND%% are filled in.
sub conf_text {
    my ($self) = @_;

    my %part = map { $_ => $self->{$_} // '' } qw(main http server servers);
    my $user = $> == 0 ? 'user root root;' : '';
    my $workers = $self->{workers} // 1;
    my $listen = $self->{listen} // '127.0.0.1:%%PORT%%';

    # nginx gives a new binary (USR2) no other variables of its environment
    my %env = $self->sanitizer_env;
    my $env = join '', map { "env $_;\n" } sort keys %env;

    my $text = <<"END";
daemon off;
$user
pid logs/nginx.pid;
error_log logs/error.log info;
worker_processes $workers;
load_module $self->{module};
$env$part{main}
events { worker_connections 2048; }
http {
    access_log off;
    client_body_temp_path tmp/body;
    proxy_temp_path tmp/proxy;
    fastcgi_temp_path tmp/fastcgi;
    uwsgi_temp_path tmp/uwsgi;
    scgi_temp_path tmp/scgi;
    root html;
    client_max_body_size 8m;
    upstream backend { server unix:%%BACKEND%%; keepalive 8; }
    fastcgi_keep_conn on;
    fastcgi_read_timeout 20s;
    include $TOP/ngx_module/interlock_params;
    $part{http}
    server {
        listen $listen;
        server_name localhost;
        $part{server}
    }
    $part{servers}
}
END
    $text =~ s/%%DIR%%/$self->{dir}/g;
    $text =~ s/%%PORT%%/$self->{port}/g;
    $text =~ s/%%BACKEND%%/$self->{dir}\/backend.sock/g;
    return $text;
}

sub nginx_command {
    my ($self, @args) = @_;

    my @cmd = (($self->{binary} // $ENV{INTERLOCK_NGINX} // 'nginx'),
        '-p', "$self->{dir}/", '-c', 'nginx.conf', '-e',
        @args ? 'logs/test.log' : 'logs/error.log', @args);

    # e.g. "valgrind --log-file=…"
    unshift @cmd, split ' ', $ENV{INTERLOCK_NGINX_WRAPPER}
        if $ENV{INTERLOCK_NGINX_WRAPPER} && !@args;

    return @cmd;
}

# A module built with sanitizers needs their library before everything else.
sub sanitizer_env {
    my ($self) = @_;
    our %preload;

    $preload{ $self->{module} } //= do {
        my $needed = `readelf -d '$self->{module}' 2>/dev/null`;
        my @libs;
        for my $lib (qw(libasan libubsan)) {
            next unless $needed =~ /NEEDED.*\[(\Q$lib\E\.so\.\d+)\]/;
            chomp(my $path = `gcc -print-file-name=$1`);
            push @libs, $path;
        }
        \@libs;
    };

    my @libs = @{ $preload{ $self->{module} } } or return;

    return (LD_PRELOAD => join(' ', @libs),
        ASAN_OPTIONS => 'detect_leaks=0:abort_on_error=0:log_path='
            . "$self->{dir}/logs/sanitizer",
        UBSAN_OPTIONS => 'print_stacktrace=1:halt_on_error=1:log_path='
            . "$self->{dir}/logs/sanitizer");
}

# test_config([text]): what `nginx -t` says; (exit code, output)
sub test_config {
    my ($self, $text) = @_;

    $self->write_file('nginx.conf', $text // $self->conf_text);

    my %env = ($self->sanitizer_env, %{ $self->{env} // {} });
    local @ENV{keys %env} = values %env;

    my $pid = open my $out, '-|';
    die "fork: $!" unless defined $pid;
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        exec $self->nginx_command('-t') or POSIX::_exit(127);
    }
    my $said = do { local $/; <$out> };
    close $out;
    return ($? >> 8, $said // '');
}

sub start {
    my ($self) = @_;

    $self->write_file('nginx.conf', $self->conf_text);
    $self->start_backend unless $self->{backend};

    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        my %env = ($self->sanitizer_env, %{ $self->{env} // {} });
        @ENV{keys %env} = values %env;
        open STDOUT, '>', '/dev/null';
        open STDERR, '>>', "$self->{dir}/logs/stderr";
        exec $self->nginx_command or POSIX::_exit(127);
    }
    $self->{nginx} = $pid;

    $self->wait_for(sub {
        if (waitpid($pid, POSIX::WNOHANG()) == $pid) {
            Test::More::diag($self->error_log, $self->slurp('logs/stderr'));
            Test::More::BAIL_OUT('nginx did not start');
        }
        return $self->workers >= ($self->{workers} // 1)
            && IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                PeerPort => $self->{port}, Proto => 'tcp');
    }, 30, 'nginx to listen');

    return $self;
}

# Reloads, and waits until only new workers are there.
sub reload {
    my ($self, %opt) = @_;

    $self->{$_} = $opt{$_} for keys %opt;
    $self->write_file('nginx.conf', $self->conf_text);

    my %old = map { $_ => 1 } $self->workers;
    kill HUP => $self->{nginx};
    return if $opt{nowait};

    $self->wait_for(sub {
        my @now = $self->workers;
        return @now && !grep { $old{$_} } @now;
    }, 30, 'new workers');
}

# Worker processes, not those of the master that are ending.
sub workers {
    my ($self) = @_;

    my @pids;
    for my $path (glob "/proc/[0-9]*/stat") {
        open my $f, '<', $path or next;
        my $line = <$f> // next;
        my ($pid, $state, $ppid) = $line =~ /^(\d+) \(.*\) (\S) (\d+)/ or next;
        push @pids, $pid if $ppid == $self->{nginx} && $state ne 'Z';
    }
    return @pids;
}

sub stop {
    my ($self) = @_;

    return unless $self->{nginx};
    kill QUIT => $self->{nginx};
    my $end = time + 20;
    while (waitpid($self->{nginx}, POSIX::WNOHANG()) == 0) {
        if (time > $end) {
            kill KILL => $self->{nginx};
            Test::More::fail('nginx stops when told to');
        }
        sleep 0.02;
    }
    delete $self->{nginx};
}

sub slurp {
    my ($self, $name) = @_;
    open my $f, '<', "$self->{dir}/$name" or return '';
    local $/;
    return <$f> // '';
}

sub error_log { $_[0]->slurp('logs/error.log') }

# wait_for(sub, seconds, what): until the sub is true; dies if it never is
sub wait_for {
    my ($self, $sub, $seconds, $what) = @_;

    my $end = time + ($seconds // 10);
    while (1) {
        my $r = $sub->();
        return $r if $r;
        die "timed out waiting for $what\n" . $self->error_log if time > $end;
        sleep 0.01;
    }
}

# Alerts that a test itself provokes.
sub allow_log { my ($self, @re) = @_; push @{ $self->{allow} }, @re }

sub check_logs {
    my ($self) = @_;

    my @bad = grep { /\[(?:alert|emerg|crit)\]|exited on signal|AddressSan/ }
        split /\n/, $self->error_log;
    for my $re (@{ $self->{allow} }) {
        @bad = grep { $_ !~ $re } @bad;
    }
    Test::More::is(join("\n", @bad), '', 'no alerts in the error log');

    my $said = join '', map { my $n = $_; $n =~ s{.*/}{};
        $self->slurp("logs/$n") } glob "$self->{dir}/logs/sanitizer*";
    Test::More::is($said, '', 'no sanitizer errors');
}


# --- the client ------------------------------------------------------------

sub connect {
    my ($self) = @_;
    return Interlock::Nginx::Connection->new($self->{port});
}

# http(method, path, {headers => [Name => value, …], body, version}):
# {status, headers => {lower => [values]}, body, json}
sub http {
    my ($self, $method, $path, $opt) = @_;

    my $c = $self->connect;
    $c->request($method, $path, { %{ $opt // {} }, close => 1 });
    return $c->response($method);
}

# Several at once: the requests are sent first, then the answers read.
sub parallel {
    my ($self, @requests) = @_;

    my @c = map { my $c = $self->connect;
        $c->request(@$_[0, 1], { %{ $_->[2] // {} }, close => 1 }); $c }
        @requests;
    return map { $_->response('POST') } @c;
}

sub header { my ($res, $name) = @_; return $res->{headers}{ lc $name }[0] }

sub problem {
    my ($res) = @_;
    return '' unless (header($res, 'content-type') // '')
        eq 'application/problem+json';
    my $doc = $res->{json} or return 'not JSON';
    return 'wrong status in the body' if $doc->{status} != $res->{status};
    return $doc->{type} =~ s{^https://interlock\.invalid/problems/}{}r;
}

# A POST signed as the scheme github does, with a delivery id.
sub github {
    my ($self, $path, $id, $body, $opt) = @_;
    $opt //= {};
    my $sig = 'sha256=' . hmac_sha256_hex($body, $opt->{secret} // 's3cret');
    return $self->http(POST => $path, { %$opt, body => $body, headers => [
        'X-Hub-Signature-256' => $sig, 'X-GitHub-Delivery' => $id,
        @{ $opt->{headers} // [] } ] });
}

# The zone's numbers, by way of `location = /status { interlock_status; }`.
sub status {
    my ($self, $location) = @_;

    my $res = $self->http(GET => '/status');
    my $doc = $res->{json} or die "no status: $res->{status} $res->{body}";
    my ($zone) = @{ $doc->{zones} };
    return $zone unless defined $location;
    my ($l) = grep { $_->{location} eq $location } @{ $zone->{locations} };
    return $l;
}


# --- the backend -----------------------------------------------------------

sub let_go {
    my ($self, $name) = @_;
    $self->write_file("gate/$name", '');
}

# What reached the backend: a list of {params, body, t}.
sub seen {
    my ($self) = @_;
    my @seen = map { $json->decode($_) } split /\n/,
        $self->slurp('backend.log');
    return @seen;
}

sub wait_seen {
    my ($self, $n) = @_;
    $self->wait_for(sub { $self->seen >= $n }, 10, "$n requests at the backend");
}

sub forget_seen { unlink "$_[0]{dir}/backend.log" }

sub start_backend {
    my ($self) = @_;

    my $path = "$self->{dir}/backend.sock";
    unlink $path;
    my $l = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $path,
        Listen => 1024) or die "$path: $!";
    chmod 0666, $path;

    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        %live = ();
        setpgrp;
        open STDOUT, '>', '/dev/null';
        $SIG{CHLD} = 'IGNORE';
        $SIG{PIPE} = 'IGNORE';
        while (1) {
            my $c = $l->accept or next;
            my $child = fork // next;
            if ($child == 0) {
                close $l;
                srand;          # else all children give the same ids
                eval { $self->serve($c) };
                POSIX::_exit(0);
            }
            close $c;
        }
    }
    close $l;
    $self->{backend} = $pid;
}

sub stop_backend {
    my ($self) = @_;
    my $pid = delete $self->{backend} or return;
    kill KILL => $pid, -$pid;       # with those that hold an answer back
    waitpid $pid, 0;
    unlink "$self->{dir}/backend.sock";
}

sub read_bytes {
    my ($c, $n) = @_;
    my $buf = '';
    while (length $buf < $n) {
        my $got = sysread $c, $buf, $n - length $buf, length $buf;
        return undef unless $got;
    }
    return $buf;
}

# One connection, as many requests as come (FCGI_KEEP_CONN).
sub serve {
    my ($self, $c) = @_;

    while (1) {
        my ($params, $body, $keep) = ('', '', 0);

        while (1) {
            my $head = read_bytes($c, 8) // return;
            my ($type, $id, $len, $pad) = (unpack 'CCnnCC', $head)[1 .. 4];
            my $data = $len ? read_bytes($c, $len) // return : '';
            read_bytes($c, $pad) if $pad;

            if ($type == 1) {
                $keep = ord(substr $data, 2, 1) & 1;
            } elsif ($type == 4) {
                $params .= $data;
            } elsif ($type == 5) {
                last unless $len;
                $body .= $data;
            }
        }

        my %p = fcgi_params($params);
        return unless $self->answer($c, \%p, $body) && $keep;
    }
}

sub fcgi_params {
    my ($data) = @_;
    my (%p, $pos);

    $pos = 0;
    my $len = sub {
        my $n = ord substr $data, $pos, 1;
        if ($n & 0x80) {
            $n = unpack('N', substr $data, $pos, 4) & 0x7fffffff;
            $pos += 4;
        } else {
            $pos++;
        }
        return $n;
    };
    while ($pos < length $data) {
        my ($n, $v) = ($len->(), $len->());
        $p{ substr $data, $pos, $n } = substr $data, $pos + $n, $v;
        $pos += $n + $v;
    }
    return %p;
}

sub record {
    my ($type, $data) = @_;
    return pack('CCnnCC', 1, $type, 1, length $data, 0, 0) . $data;
}

sub answer {
    my ($self, $c, $p, $body) = @_;

    my %do = map { my ($k, $v) = split /=/, $_, 2; ($k => $v // 1) }
        split /;/, $p->{HTTP_X_BACKEND} // '';

    # long bodies are told by length and digest
    my $line = $json->encode({ params => $p, t => time,
        length => length $body, digest => Digest::SHA::sha256_hex($body),
        body => length $body <= 4096 ? $body : undef }) . "\n";
    sysopen my $log, "$self->{dir}/backend.log", O_WRONLY|O_APPEND|O_CREAT
        or die;
    syswrite $log, $line;
    close $log;

    $self->held($do{hold}) if defined $do{hold};

    if ($self->{answer}) {
        my $a = $self->{answer}->($self, $p, $body) or return 0;
        my ($status, $h, $text) = @$a;
        my @lines = ("Status: $status");
        push @lines, "$h->[$_]: $h->[$_ + 1]"
            for grep { $_ % 2 == 0 } 0 .. $#$h;
        return write_answer($c, join("\r\n", @lines) . "\r\n\r\n"
            . ($text // ''));
    }

    return 0 if $do{close};
    if ($do{garbage}) {
        syswrite $c, "HTTP/1.1 200 OK\r\n\r\nthis is not FastCGI";
        return 0;
    }

    my $status = $do{status} // 202;
    $status = $do{posted} if $do{posted} && $p->{REQUEST_METHOD} eq 'POST';
    my $decision = $do{decision} // 'accepted';
    my $id = sprintf '0198%04x-%04x-7%03x-8%03x-%08x%04x', map { int rand $_ }
        65536, 65536, 4096, 4096, 2 ** 32, 65536;
    my $reason = $do{reason};

    my $doc = qq({"decision":"$decision","job_id":"$id",)
        . qq("work_key":"$p->{INTERLOCK_WORK_KEY}",)
        . qq("kind":"$p->{INTERLOCK_KIND}","status":"queued",)
        . qq("status_url":"/v1/jobs/$id")
        . (defined $reason ? qq(,"reason":"$reason") : '') . '}';

    my @h = ("Status: $status", 'Content-Type: application/json');
    if ($status >= 400) {
        $doc = qq({"status":$status});
        push @h, "Interlock-Decision: $do{decision}" if $do{decision};
    } elsif (!$do{plain}) {
        push @h, "Interlock-Decision: $decision";
        push @h, 'Interlock-Answer: ' . ($do{answer}
            // join ';', 1, $status, $decision, 'queued', $reason // '-', 1,
                $id, '-', '-') unless ($do{answer} // '') eq 'no';
        push @h, "Location: /v1/jobs/$id" if $status == 202;
    }
    push @h, 'Interlock-Done-For: ' . ($do{done} // 86400)
        unless $do{plain} || ($do{done} // '') eq 'no';
    push @h, "Interlock-Epoch: $do{epoch}" if defined $do{epoch};
    push @h, "Interlock-Hold: $do{grant}" if defined $do{grant};
    push @h, "X-Accel-Redirect: $do{accel}" if defined $do{accel};
    $doc = 'x' x $do{body} if defined $do{body};
    push @h, 'Content-Length: ' . length $doc;

    my $out = join("\r\n", @h) . "\r\n\r\n" . $doc;

    if ($do{'close-mid'}) {
        syswrite $c, record(6, substr $out, 0, 30);
        return 0;
    }

    return write_answer($c, $out);
}

# held(NAME): until let_go(NAME)
sub held {
    my ($self, $name) = @_;

    my $end = time + ($self->{patience} // 30);
    sleep 0.005 until -e "$self->{dir}/gate/$name" || time > $end;
}

sub write_answer {
    my ($c, $out) = @_;

    my $data = '';
    while (length $out) {
        $data .= record(6, substr $out, 0, 32768, '');
    }
    $data .= record(6, '') . record(3, pack 'NCx3', 0, 0);
    while (length $data) {
        my $n = syswrite $c, $data or return 0;
        substr $data, 0, $n, '';
    }
    return 1;
}


# --- the end ---------------------------------------------------------------

sub finish {
    my ($self) = @_;

    return if $self->{finished}++;
    $self->stop;
    $self->stop_backend;
    $self->check_logs if -e "$self->{dir}/logs/error.log";
    delete $live{$self};
    remove_tree($self->{dir}) unless $ENV{INTERLOCK_TEST_KEEP};
}

END {
    my $code = $?;
    for my $t (values %live) {
        next unless $t->{owner} == $$;
        eval { $t->stop; $t->stop_backend };
        if ($ENV{INTERLOCK_TEST_KEEP} || $code) {
            Test::More::diag("left for inspection: $t->{dir}");
        } else {
            remove_tree($t->{dir});
        }
    }
    $? = $code;
}


package Interlock::Nginx::Connection;

use strict;
use warnings;

use Time::HiRes qw(time);

sub new {
    my ($class, $port) = @_;
    my $s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port,
        Proto => 'tcp') or die "connect: $!";
    binmode $s;
    return bless { s => $s, buf => '' }, $class;
}

sub request {
    my ($self, $method, $path, $opt) = @_;
    $self->{last} = 1 if $opt->{close};
    $self->send(request_text($method, $path, $opt));
}

sub request_text {
    my ($method, $path, $opt) = @_;

    my @h = @{ $opt->{headers} // [] };
    my $text = "$method $path HTTP/" . ($opt->{version} // '1.1') . "\r\n"
        . "Host: localhost\r\n";
    $text .= "Connection: close\r\n" if $opt->{close};
    while (my ($n, $v) = splice @h, 0, 2) {
        $text .= "$n: $v\r\n";
    }
    my $body = $opt->{body};
    if ($opt->{chunked}) {
        $text .= "Transfer-Encoding: chunked\r\n\r\n";
        while (length $body) {
            my $piece = substr $body, 0, $opt->{chunked}, '';
            $text .= sprintf "%x\r\n%s\r\n", length $piece, $piece;
        }
        return $text . "0\r\n\r\n";
    }
    $text .= 'Content-Length: ' . length($body) . "\r\n" if defined $body;
    return $text . "\r\n" . ($body // '');
}

sub send {
    my ($self, $text) = @_;
    local $SIG{PIPE} = 'IGNORE';
    while (length $text) {
        my $n = syswrite $self->{s}, $text, 65536;
        return 0 unless $n;
        substr $text, 0, $n, '';
    }
    return 1;
}

sub more {
    my ($self) = @_;
    return 0 unless IO::Select->new($self->{s})->can_read($self->{timeout}
        // 30);
    my $n = sysread $self->{s}, $self->{buf}, 65536, length $self->{buf};
    return $n ? 1 : 0;
}

# The next answer; status 0 if the connection was closed instead.
sub response {
    my ($self, $method) = @_;

    my $res = { status => 0, headers => {}, body => '' };

    until ($self->{buf} =~ /\r\n\r\n/) {
        return $res unless $self->more;
    }
    $self->{buf} =~ s/^(.*?\r\n)\r\n//s or return $res;
    my ($line, @lines) = split /\r\n/, $1;
    ($res->{status}) = $line =~ m{^HTTP/\S+ (\d+)};
    $res->{raw_headers} = join "\n", @lines;
    for (@lines) {
        my ($n, $v) = /^([^:]+):\s*(.*)$/ or next;
        push @{ $res->{headers}{ lc $n } }, $v;
    }

    return $self->response($method) if $res->{status} == 100
        && !$self->{want_continue};
    return $res if $res->{status} == 100;

    my $len = $res->{headers}{'content-length'}[0];
    if (($method // '') eq 'HEAD' || $res->{status} == 204) {
        # no body
    } elsif (defined $len) {
        while (length $self->{buf} < $len) {
            last unless $self->more;
        }
        $res->{body} = substr $self->{buf}, 0, $len, '';
    } elsif (($res->{headers}{'transfer-encoding'}[0] // '') eq 'chunked') {
        while (1) {
            my $size;
            until (($size) = $self->{buf} =~ /^([0-9a-fA-F]+)\r\n/) {
                return $res unless $self->more;
            }
            my ($n, $skip) = (hex $size, length($size) + 2);
            while (length $self->{buf} < $skip + $n + 2) {
                return $res unless $self->more;
            }
            $res->{body} .= substr $self->{buf}, $skip, $n;
            substr $self->{buf}, 0, $skip + $n + 2, '';
            last unless $n;
        }
    } else {
        1 while $self->more;
        $res->{body} = $self->{buf};
        $self->{buf} = '';
    }

    $res->{json} = eval { JSON::PP->new->utf8->decode($res->{body}) };
    CORE::close($self->{s}) if $self->{last};   # else nginx lingers
    return $res;
}

# 1 if the peer closed and nothing is left
sub closed {
    my ($self) = @_;
    return !length $self->{buf} && !$self->more;
}

sub close { CORE::close($_[0]{s}) }

1;
