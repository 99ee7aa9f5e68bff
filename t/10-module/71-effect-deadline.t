# The send deadline: once it is over nothing of a call leaves any more, and the
# worker is told, whatever the provider does meanwhile.  nginx's own timeouts
# start anew with every byte, so that a provider that reads or answers slowly
# never runs into them; here they are long.  And the record's time: a backend
# that hangs is not waited for longer than one that is away.
#
# All calls are made at once, each to a provider of its own: sockets of this
# process, which do what the case says.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Time::HiRes qw(sleep time);

use Interlock::Nginx;
use Interlock::OwnerToken;
use Test::More;

my $DEADLINE = 4;                       # s
my $HELD = 16_384;                       # at most, in a provider's kernel
my $SMALL = 40_000;                     # the kernel takes it at once
my $LARGE = 12_000_000;

my $json = JSON::PP->new->canonical->utf8;
my $head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";

# each: how fast it reads (bytes a time; 0: not before the end), what it says
# byte by byte once it has all, the failure and the answer that this becomes
my %case = (
    reader  => { size => $LARGE, read => 4096, is => 'timeout' },
    later   => { size => $SMALL, read => 0, is => 'timeout' },
    silent  => { size => 10, read => 65536, is => 'timeout' },
    header  => { size => 10, read => 65536, say => $head, is => 'timeout' },
    body    => { size => 10, read => 65536, say => '1' x 1000, first => $head,
        is => 'timeout' },
    plain   => { size => 10, read => 65536, say => '1' x 1000, first => $head,
        is => 'timeout' },
    early   => { size => $LARGE, read => 4096, say => '1' x 1000,
        first => $head, early => 1, is => 'timeout' },
    tls     => { size => 10, read => 65536, is => 'connect', tls => 1 },
    backlog => { size => 10, is => 'connect' },
    name    => { size => 10, is => 'connect' },
    good    => { size => 10, read => 65536, is => undef,
        first => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" },
    hangs   => { size => 10, read => 65536, is => undef, hangs => 1,
        first => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" },
);

# nobody answers there
my $dns = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1')
    or die $!;
my $server = '';
for my $name (sort keys %case) {
    my $c = $case{$name};
    $c->{listen} = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        Listen => $name eq 'backlog' ? 1 : 10) or die $!;
    setsockopt $c->{listen}, SOL_SOCKET, SO_RCVBUF, 4096;
    my $at = '127.0.0.1:' . $c->{listen}->sockport;
    my $scheme = $c->{tls} ? 'https' : 'http';
    my $more = $name eq 'plain' ? 'proxy_buffering off;' : '';
    $more .= 'resolver 127.0.0.1:' . $dns->sockport . ' ipv6=off; '
        . 'resolver_timeout 30s; set $at nowhere.example;' if $name eq 'name';
    $at = '$at' if $name eq 'name';
    $server .= "location = /out/$name { interlock_effect name=$name;
        $more proxy_pass $scheme://$at/x; }\n";
}

# a connection waits in the kernel, and no more are taken
my @full;
for (1 .. 10) {
    my $s = IO::Socket::INET->new(Proto => 'tcp', Blocking => 0) or die $!;
    connect $s, pack_sockaddr($case{backlog}{listen}->sockport);
    push @full, $s;
}

sub pack_sockaddr { Socket::pack_sockaddr_in($_[0], Socket::INADDR_LOOPBACK()) }

my $t = Interlock::Nginx->new(
    http => 'proxy_connect_timeout 30s; proxy_read_timeout 30s; '
        . 'proxy_send_timeout 30s;',
    server => <<"END",
        client_max_body_size 20m;
        interlock_keys keys;
        interlock_effect_uri /_effect;
        location = /_effect { internal; fastcgi_read_timeout 30s;
            include $Interlock::Nginx::TOP/ngx_module/interlock_effect_params;
            fastcgi_pass backend; }
        $server
END
    answer => \&backend);
my $keys = Interlock::OwnerToken->new($t->dir . '/keys');
my $token = $keys->token;
system('chmod', '-R', 'a+rX', $t->dir . '/keys');
$t->start;

sub backend {
    my ($self, $params, $body) = @_;

    my $call = $json->decode($params->{INTERLOCK_EFFECT});
    my $name = $call->{name} // $call->{effect};
    return [ 200, [ 'Content-Type' => 'application/json',
        'Interlock-Effect-Decision' => 'send' ], $json->encode({
        effect_id => $name, send_id => "send.$name",
        deadline_ms => 1000 * $DEADLINE }) ] if $call->{call} eq 'begin';
    $self->held('never') if $name eq 'hangs';
    return [ 200, [ 'Interlock-Effect-State' => $call->{failure} ? 'unknown'
        : 'confirmed' ], '{}' ];
}

sub call {
    my ($name, $what) = @_;
    my ($c) = grep { $_->{call}{call} eq $what
        && ($_->{call}{name} // $_->{call}{effect}) eq $name }
        map { { %$_, call => $json->decode($_->{params}{INTERLOCK_EFFECT}) } }
        grep { $_->{params}{INTERLOCK_EFFECT} } $t->seen;
    return $c;
}


# --- all of them -----------------------------------------------------------

for my $name (sort keys %case) {
    my $c = $case{$name};
    $c->{conn} = $t->connect;
    $c->{conn}->request(POST => "/out/$name", { body => 'x' x $c->{size},
        headers => [ 'Interlock-Owner-Token' => $token ] });
    $c->{asked} = time;
    $c->{got} = '';
}

sub provide {
    my ($c) = @_;

    if (!$c->{s}) {
        return if !$c->{read} && !defined $c->{read};
        return unless IO::Select->new($c->{listen})->can_read(0);
        $c->{s} = $c->{listen}->accept;
        $c->{s}->blocking(0);
    }
    return if $c->{ended} || !$c->{read};
    my $n = sysread $c->{s}, $c->{got}, $c->{read}, length $c->{got};
    push @{ $c->{reads} }, [ time, $n ] if $n;
    if (defined $n ? $n == 0 : !$!{EAGAIN}) {
        $c->{ended} = $n // "$!";
        return;
    }
    my $all = $c->{got} =~ /\r\n\r\n/
        && length($c->{got}) >= $+[0] + $c->{size};
    return unless $all || ($c->{early} && length $c->{got});
    syswrite $c->{s}, delete $c->{first} if defined $c->{first};
    return unless defined $c->{say} && time >= ($c->{next} // 0);
    syswrite $c->{s}, substr $c->{say}, 0, 1, '';
    $c->{next} = time + 0.4;
}

my $end = time + 30;
while ((grep { !$_->{res} } values %case) && time < $end) {
    provide($_) for values %case;
    for my $c (grep { !$_->{res} } values %case) {
        next unless IO::Select->new($c->{conn}{s})->can_read(0);
        $c->{res} = $c->{conn}->response;
        $c->{answered} = time;
    }
    sleep 0.01;
}
# what the slowest of them finds now that it looks
for my $c ($case{later}) {
    $c->{read} = 65536;
    until ($c->{ended} || time > $end) {
        provide($c);
        sleep 0.01;
    }
}

my %problem = (timeout => 504, connect => 502);
for my $name (sort grep { $case{$_}{is} } keys %case) {
    my $c = $case{$name};
    is($c->{res}{status}, $problem{ $c->{is} }, "$name: its answer");
    is($c->{res}{json}{state}, 'unknown', '... unknown');
    my ($begin, $outcome) = (call($name, 'begin'), call($name, 'outcome'));
    is($outcome->{call}{failure}, $c->{is}, "... on record as $c->{is}");
    cmp_ok($outcome->{t} - $c->{asked}, '>', $DEADLINE - 0.3,
        '... not before its time');
    cmp_ok($outcome->{t} - $begin->{t}, '<', $DEADLINE + 2,
        '... nor much later');
    next unless $c->{s};
    my $late = 0;
    $late += $_->[1] for grep { $_->[0] > $begin->{t} + $DEADLINE }
        @{ $c->{reads} };
    cmp_ok($late, '<=', $HELD, '... then nothing came but what was there');
    ok(defined $c->{ended}, '... and the connection is closed')
        or provide($c);
}
for my $name (qw(reader later early)) {
    my $c = $case{$name};
    cmp_ok(length $c->{got}, '>', 0, "$name: got something");
    cmp_ok(length $c->{got}, '<', $c->{size}, '... but not all of it');
    like($c->{ended}, qr/reset/, '... and then a reset');
}
is($case{good}{res}{status}, 200, 'one that answers in time');
is($case{good}{res}{body}, 'ok', '... with what it says');

my $c = $case{hangs};
is($c->{res}{status}, 503, 'a record that hangs');
like($c->{res}{json}{type}, qr{/outcome-unrecorded$}, '... is not made');
cmp_ok($c->{answered} - $c->{asked}, '<', 13, '... in some ten seconds');
cmp_ok($c->{answered} - $c->{asked}, '>', 9, '... and not much less');

$t->allow_log(qr/upstream timed out/, qr/was not recorded after/);
$t->finish;
done_testing();
