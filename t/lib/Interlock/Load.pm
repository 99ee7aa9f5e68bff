package Interlock::Load;

# Many clients at once, each a process of its own, each with kept-alive
# connections.  The order of the requests of one client is kept; the clients
# start together, released by one pipe.

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256_hex hmac_sha256);
use Exporter 'import';
use File::Temp ();
use HTTP::Tiny;
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64 qw(encode_base64 decode_base64);
use Time::HiRes qw(time);

use Interlock::HTTP;

our @EXPORT_OK = qw(run_clients run_at_once percentile secret
    github_request stripe_request standard_request);

# run_clients(clients => N, url => 'http://…', requests => [ … ],
#             until => sub { $response → true if final }, tries => N)
#
# A request is { id, method, path, headers, body }.  Answers one record for
# each: { id, status, headers, body, ms, tries }, in no order.  With `until`,
# a client repeats a request, pausing 10 ms after an answer that is not final,
# as a provider would that delivers again.

sub run_clients {
    my (%arg) = @_;

    my $n = $arg{clients};
    my $dir = File::Temp->newdir;
    pipe(my $gate_r, my $gate_w) or die "pipe: $!";
    my @pids;

    for my $c (0 .. $n - 1) {
        my $pid = fork() // die "fork: $!";
        if ($pid) { push @pids, $pid; next; }

        close $gate_w;
        my $wait = <$gate_r>;          # returns when the parent closes
        my $ok = eval { client($c, $dir, \%arg); 1 };
        print STDERR "client $c: $@" unless $ok;
        POSIX::_exit($ok ? 0 : 1);
    }

    close $gate_r;
    close $gate_w;

    my $bad = 0;
    for my $pid (@pids) {
        waitpid($pid, 0);
        $bad++ if $?;
    }
    die "$bad clients failed\n" if $bad;

    my @results;
    for my $c (0 .. $n - 1) {
        open my $fh, '<', "$dir/$c" or die "client $c left nothing: $!";
        while (<$fh>) { push @results, decode_json($_); }
    }

    return \@results;
}

sub client {
    my ($c, $dir, $arg) = @_;

    require POSIX;
    my $http = HTTP::Tiny->new(timeout => $arg->{timeout} // 40,
        max_redirect => 0);
    open my $out, '>', "$dir/$c" or die "open: $!";

    my $reqs = $arg->{requests};

    for (my $i = $c; $i < @$reqs; $i += $arg->{clients}) {
        my $req = $reqs->[$i];
        my ($res, $tries) = (undef, 0);
        my $t0 = time;

        while (1) {
            $tries++;
            $res = $http->request($req->{method} // 'POST',
                $arg->{url} . $req->{path},
                { headers => { %{ $req->{headers} // {} } },
                  defined $req->{body} ? (content => $req->{body}) : () });
            last if !$arg->{until} || $arg->{until}->($res);
            die "request $req->{id}: no final answer in $tries tries, last"
                . " $res->{status} $res->{content}\n"
                if $tries >= ($arg->{tries} // 3000);
            select undef, undef, undef, 0.01;
        }

        print $out encode_json({
            id => $req->{id}, status => $res->{status} + 0,
            headers => $res->{headers}, body => $res->{content},
            ms => (time - $t0) * 1000, tries => $tries
        }), "\n";
    }

    close $out or die "close: $!";
}

# run_at_once(processes => N, url => 'http://…', requests => [ … ],
#             timeout => seconds)
#
# As many clients as requests, each with a connection of its own that is open
# before the first one sends: then all of them send.  Answers one record for
# each: { id, status, headers, body, ms }, in no order.

sub run_at_once {
    my (%arg) = @_;

    my $n = $arg{processes} // 32;
    my $dir = File::Temp->newdir;
    pipe(my $gate_r, my $gate_w) or die "pipe: $!";
    pipe(my $open_r, my $open_w) or die "pipe: $!";
    my @pids;

    for my $p (0 .. $n - 1) {
        my $pid = fork() // die "fork: $!";
        if ($pid) { push @pids, $pid; next; }

        close $gate_w;
        close $open_r;
        my $ok = eval { at_once($p, $dir, \%arg, $open_w, $gate_r); 1 };
        print STDERR "process $p: $@" unless $ok;
        POSIX::_exit($ok ? 0 : 1);
    }

    close $gate_r;
    close $open_w;
    1 while <$open_r>;             # ends when each has its connections
    close $gate_w;

    my $bad = 0;
    for my $pid (@pids) {
        waitpid($pid, 0);
        $bad++ if $?;
    }
    die "$bad processes failed\n" if $bad;

    my @results;
    for my $p (0 .. $n - 1) {
        open my $fh, '<', "$dir/$p" or die "process $p left nothing: $!";
        while (<$fh>) { push @results, decode_json($_); }
    }
    return \@results;
}

sub at_once {
    my ($p, $dir, $arg, $open, $gate) = @_;

    require POSIX;
    my ($host, $port) = $arg->{url} =~ m{^http://([^:/]+):(\d+)};
    my $reqs = $arg->{requests};
    my $select = IO::Select->new;
    my (%of, @out);

    for (my $i = $p; $i < @$reqs; $i += $arg->{processes} // 32) {
        my $r = $reqs->[$i];
        my $sock = IO::Socket::INET->new(PeerAddr => $host,
            PeerPort => $port, Timeout => 30) or die "connect: $!";
        my $body = $r->{body} // '';
        my $head = join '', map { "$_: $r->{headers}{$_}\r\n" }
            sort keys %{ $r->{headers} // {} };
        push @out, [ $sock, ($r->{method} // 'POST') . " $r->{path} "
            . "HTTP/1.1\r\nHost: $host\r\nConnection: close\r\n"
            . $head . 'Content-Length: ' . length($body) . "\r\n\r\n"
            . $body ];
        $of{ fileno $sock } = { id => $r->{id}, text => '' };
        $select->add($sock);
    }

    close $open;
    my $wait = <$gate>;            # returns when the parent closes

    for (@out) {
        my ($sock, $bytes) = @$_;
        $of{ fileno $sock }{t0} = time;
        syswrite($sock, $bytes) == length $bytes or die "write: $!";
    }

    open my $fh, '>', "$dir/$p" or die "open: $!";
    my $end = time + ($arg->{timeout} // 60);
    while ($select->count) {
        my @ready = $select->can_read($end - time);
        die $select->count . " requests without an answer\n" unless @ready;
        for my $sock (@ready) {
            my $r = $of{ fileno $sock };
            next if sysread $sock, $r->{text}, 65536, length $r->{text};
            my ($a) = @{ Interlock::HTTP::parse_responses($r->{text}, 1) };
            print $fh encode_json({ id => $r->{id},
                status => $a ? $a->{status} : 599,
                headers => $a ? $a->{headers} : {},
                body => $a ? $a->{body} : '',
                ms => (time - $r->{t0}) * 1000 }), "\n";
            $select->remove($sock);
            close $sock;
        }
    }
    close $fh or die "close: $!";
}

# percentile(0.99, @numbers)

sub percentile {
    my ($p, @v) = @_;

    @v = sort { $a <=> $b } @v;
    my $i = int($p * @v + 0.999999) - 1;
    $i = 0 if $i < 0;
    return $v[ $i > $#v ? $#v : $i ];
}

sub secret {
    my ($dir, $scheme) = @_;

    open my $fh, '<', "$dir/secrets/$scheme" or die "secret of $scheme: $!";
    chomp(my $line = <$fh>);
    return $line;
}

# The three providers' own forms (documented by each; see ngx_module/README.md)

sub github_request {
    my ($dir, $delivery, $event, $body) = @_;

    return {
        id => $delivery, path => '/in/github', body => $body,
        headers => {
            'content-type'        => 'application/json',
            'x-github-event'      => $event,
            'x-github-delivery'   => $delivery,
            'x-hub-signature-256' =>
                'sha256=' . hmac_sha256_hex($body, secret($dir, 'github')),
        },
    };
}

sub stripe_request {
    my ($dir, $id, $body, $at) = @_;

    $at //= int time;
    my $mac = hmac_sha256_hex("$at.$body", secret($dir, 'stripe'));
    return {
        id => $id, path => '/in/stripe', body => $body,
        headers => {
            'content-type'     => 'application/json',
            'stripe-signature' => "t=$at,v1=$mac",
        },
    };
}

sub standard_request {
    my ($dir, $id, $body, $at) = @_;

    $at //= int time;
    (my $key = secret($dir, 'standard')) =~ s/^whsec_//;
    my $mac = encode_base64(
        hmac_sha256("$id.$at.$body", decode_base64($key)), '');
    return {
        id => $id, path => '/in/standard', body => $body,
        headers => {
            'content-type'      => 'application/json',
            'webhook-id'        => $id,
            'webhook-timestamp' => $at,
            'webhook-signature' => "v1,$mac",
        },
    };
}

1;
