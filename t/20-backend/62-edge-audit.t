#!/usr/bin/perl

# What nginx answers alone is on record within five seconds: with its keys,
# beside the first request; and what was lost on the way is counted, whoever
# was away: nginx's lines, interlockd, the database.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::UNIX;
use JSON::PP;
use Socket qw(SOCK_DGRAM);
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

my $i = Interlock::Test->instance(conf => [ 'queue_max = 50' ],
    nginx_http => 'interlock_zone zone=own:1m;', nginx_server => <<'END');
        location = /in/own {
            interlock zone=own;
            interlock_tenant demo;
            interlock_source own;
            interlock_kind press;
            interlock_idempotency_key $http_idempotency_key;
            interlock_work_key own $arg_work;
            fastcgi_pass interlockd;
        }
        location = /in/press {
            interlock zone=interlock;
            interlock_tenant demo;
            interlock_source button;
            interlock_kind press;
            interlock_idempotency_key $http_idempotency_key optional;
            interlock_work_key press $arg_work;
            fastcgi_pass interlockd;
        }
END

sub push_event {
    my ($ref, $delivery) = @_;
    return $i->github(qq({"ref":"refs/heads/$ref",)
        . '"repository":{"full_name":"acme/shop"}}',
        { delivery => $delivery });
}

sub rows { $i->psql('select count(*) from interlock.requests') }

sub segment { $_[0] =~ s/([^A-Za-z0-9:._-])/sprintf '%%%02X', ord $1/ger }

sub told {
    my $m = $i->metrics;
    return map { $m->{"interlock_edge_audit_${_}_total"} } qw(received missing);
}

sub zone { $i->http('GET', '/edge/status')->{json}{zones}[0] }


# --- a duplicate -----------------------------------------------------------

# a quote, a backslash and a letter of two bytes go through all of it
my $ref = "a\\\"\\\\\xc3\xa9";
my $first = push_event($ref, 'edge-1');
is($first->{status}, 202, 'a delivery is accepted');
my $work_key = $first->{json}{work_key};
utf8::encode(my $bytes = $work_key);

my $before = time;
my $again = push_event($ref, 'edge-1');
is($again->{headers}{'idempotency-replayed'}, 'true', 'again: replayed');
ok($i->wait_for(sub { $i->log('access') =~
    / 202 decision=duplicate upstream=- / }, 5, 'the access log'),
    'nginx answered it alone');

my $sql = "select q.decision, q.code, q.job_id, q.idempotency_key, q.source,
    q.kind, q.work_key, q.fingerprint = f.fingerprint, f.decision,
    extract(epoch from q.arrived_at)
    from interlock.requests q
    join interlock.requests f on f.id = q.first_request
    where q.decision = 'duplicate'";
my $row = $i->wait_for(sub { ($i->sql($sql))[0] }, 5,
    'the duplicate is on record');
is(join('|', @$row[ 0 .. 8 ]), join('|', 'duplicate', 202,
    $first->{json}{job_id}, 'edge-1', 'github', 'github-push', $bytes, 't',
    'accepted'), 'with its keys, beside the first one');
cmp_ok(abs($row->[9] - $before), '<', 5, 'at the time when it came');

my $w = $i->http(GET => '/v1/works/' . segment($bytes),
    { token => 'operator' });
is_deeply($w->{json}{decisions}, { accepted => 1, duplicate => 1 },
    'the work shows it');
my $a = $i->http(GET => '/v1/audit?work_key=' . segment($bytes),
    { token => 'auditor' });
is_deeply([ map { [ @$_{qw(decision idempotency_key)} ] }
    grep { $_->{what} eq 'request' } @{ $a->{json}{timeline} } ],
    [ [ 'accepted', 'edge-1' ], [ 'duplicate', 'edge-1' ] ],
    'so does the audit');


# --- a double click --------------------------------------------------------

is($i->http(PUT => '/v1/kinds/press', { token => 'operator', body =>
    { overlap => 'skip', hold => 2 } })->{status}, 200, '(a kind with a hold)');

sub press {
    my ($key) = @_;
    return $i->http(POST => '/in/press?work=w', { token => 'submit',
        body => '{"page":1}', headers => {
            defined $key ? ('Idempotency-Key' => $key) : () } });
}

my $press = press('p1');
is($press->{status}, 202, 'a press of a button');
is(press($_)->{headers}{'interlock-decision'}, 'skipped',
    'another one is skipped, ' . ($_ // 'without a key'))
    for 'p2', undef;
my $replay = press('p2');
is($replay->{headers}{'interlock-decision'}, 'duplicate', 'and is a duplicate');
is(zone()->{answered_alone}, 4, 'nginx answered three of these alone');
my $stored = "select string_agg(coalesce(q.idempotency_key, '-') || ' '
    || q.decision || ' ' || q.code || ' ' || coalesce(q.reason, '-') || ' '
    || coalesce(f.idempotency_key, '-'), ', '
    order by q.idempotency_key, q.decision desc)
    from interlock.requests q
    left join interlock.requests f on f.id = q.first_request
    where q.work_key = 'press:w' and q.job_id = '$press->{json}{job_id}'";
my $want = 'p1 accepted 202 - -, p2 skipped 200 same_work -, '
    . 'p2 duplicate 200 - p2, - skipped 200 same_work -';
is($i->wait_for(sub { my $s = $i->psql($stored);
    ($s =~ tr/,//) == 3 && $s }, 5, 'all four are on record'), $want,
    'with the job of the first, and a duplicate of the second');
my $w2 = $i->http(GET => '/v1/works/press:w', { token => 'operator' });
is_deeply($w2->{json}{decisions}, { accepted => 1, skipped => 2,
    duplicate => 1 }, 'the work shows them');


# --- refused ones are no rows ----------------------------------------------

my $forged = $i->http(POST => '/in/github', { body => '{}', headers => {
    'X-GitHub-Event' => 'push', 'X-GitHub-Delivery' => 'edge-2',
    'X-Hub-Signature-256' => 'sha256=' . '0' x 64 } });
is($forged->{status}, 401, 'a forged request is refused');
is(zone()->{answered_alone}, 4, 'and is no number of the zone');
my $refusal = zone()->{refusals}[0];
is(join(' ', @$refusal{qw(location reason address)}),
    '/in/github signature-invalid 127.0.0.1', 'the status shows why');
like($refusal->{time}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/, 'and when');
is(join(' ', sort keys %$refusal), 'address location reason time',
    'and nothing else');
is($i->psql("select count(*) from interlock.requests
             where idempotency_key = 'edge-2'"), 0, 'and no row');


# --- lines that are none ---------------------------------------------------

my $path = Interlock::Test::slurp($i->dir . '/interlockd.conf')
    =~ /^edge_socket = (.*)$/m ? $1 : die 'no edge_socket';
is(sprintf('%o', (stat $path)[2] & 07777), '660', 'the socket is 0660');

my $good = { zone => 'ab' x 16, seq => '1', at => '1700000000.123',
    tenant => 'demo', source => 'github', kind => 'github-push',
    work_key => $work_key, key => 'edge-1', fingerprint => 'cd' x 32,
    decision => 'duplicate', answer => "1;202;accepted;queued;-;1;"
        . "$first->{json}{job_id};-;-" };
my $line = JSON::PP->new->utf8->canonical;
my $sock = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Peer => $path)
    or die "$path: $!";
my @bad = (
    '', '{', 'no brace', '<190>Jan 1 00:00:00 interlock: []',
    '<190>Jan 1 00:00:00 interlock: {}', "{\"zone\":\"\xff\"}",
    '{"a":' x 100 . '1' . '}' x 100, '{' . ' ' x 20000 . '}',
    map({ $line->encode({ %$good, @$_ }) }
        [ zone => 'x' ], [ zone => 'ab' x 17 ], [ seq => '0' ],
        [ seq => '-1' ], [ seq => '1' x 19 ], [ seq => 1 ], [ at => '1' ],
        [ at => 'x.123' ], [ tenant => '' ], [ tenant => 'A B' ],
        [ source => 'x' x 65 ], [ kind => "k\n" ], [ work_key => '' ],
        [ work_key => 'x' x 2049 ], [ key => '' ], [ key => 'x' x 256 ],
        [ key => "a\0b" ], [ fingerprint => 'zz' ],
        [ decision => 'accepted' ], [ decision => 'rejected' ],
        [ decision => '' ], [ answer => '' ], [ answer => '1;999' ],
        [ decision => 'skipped' ]),
    $line->encode($good) =~ s/\}$/,"seq":"2"}/r,
    (map { my %part = %$good; delete $part{$_}; $line->encode(\%part) }
        sort keys %$good));
for my $text (@bad) {
    $i->wait_for(sub { defined $sock->send($text) || !$!{EAGAIN} }, 5,
        'room for a datagram');
}
my $malformed = 'interlock_edge_audit_datagrams_total{outcome="malformed"}';
is($i->wait_for(sub { ($i->metrics->{$malformed} // 0) >= @bad
    && $i->metrics->{$malformed} }, 10, 'all of them were read'), @bad,
    scalar(@bad) . ' lines that are none are counted');
$sock->send('<1>x: ' . $line->encode($good));
$i->wait_for(sub { rows() == 7 }, 5, 'a line that is one is recorded');
is($i->psql("select count(*) from interlock.edge_zones"), 2,
    'of a zone of its own');
$i->wait_for(sub { join(' ', told()) eq '5 0' }, 5, 'five of five');


# --- interlockd is away ----------------------------------------------------

my $repeat = sub { push_event($ref, 'edge-1') };
kill 'STOP', $i->pid('keeper.interlockd');
kill 'KILL', $i->backend_pid;
$i->wait_for(sub { $i->http(GET => '/livez')->{status} != 200 }, 10,
    'interlockd is away');
is($repeat->()->{status}, 202, 'nginx goes on to answer') for 1 .. 3;
kill 'CONT', $i->pid('keeper.interlockd');
$i->wait_for(sub { $i->http(GET => '/readyz')->{status} == 200 }, 15,
    'interlockd is back');
is($i->wait_for(sub { my ($r, $m) = told(); $m && "$r $m" }, 15,
    'a gap shows'), '5 3', 'the three are missing, without another one');
is($repeat->()->{status}, 202, 'and again');
$i->wait_for(sub { $repeat->(); (told())[0] > 5 }, 5,
    'the next ones are on record');


# --- the database is away --------------------------------------------------

my $from = zone()->{answered_alone};
$i->wait_for(sub { my ($r, $m) = told(); $r + $m == $from + 1 }, 15,
    'all of it is settled');
my ($received, $missing) = told();
sub without_database {
    my ($what) = @_;
    kill 'STOP', $i->pid('keeper.postgres');
    kill 'INT', $i->pid('postgres');
    $i->wait_for(sub { !eval { $i->psql('select 1'); 1 } }, 15,
        'the database is away');
    $what->();
    kill 'CONT', $i->pid('keeper.postgres');
    $i->wait_for(sub { $i->http(GET => '/readyz')->{status} == 200 }, 20,
        'the database is back');
}

without_database(sub {
    # no more than the kernel surely holds
    is($repeat->()->{status}, 202, 'nginx does not need it') for 1 .. 9;
});
$i->wait_for(sub { ((told())[0] // 0) == $received + 9 }, 15,
    'what was told meanwhile is on record');

$i->psql("select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'interlockd edge'", 'admin');
$repeat->() for 1 .. 5;
$i->wait_for(sub { my ($r, $m) = told(); $r == $received + 14 }, 10,
    'a lost connection loses nothing');


# --- more than there is room for -------------------------------------------

without_database(sub {
    is($repeat->()->{status}, 202, 'a long line') for 1 .. 200;
});
my $dropped = 'interlock_edge_audit_datagrams_total{outcome="dropped"}';
cmp_ok($i->metrics->{$dropped} // 0, '>', 0, 'is cut off');
$i->wait_for(sub { my ($r, $m) = told();
    defined $r && $r + $m == zone()->{answered_alone} + 1 }, 20,
    'what was cut off is missing, without another line');
($received, $missing) = told();
cmp_ok($missing, '>', 3, 'and counted');


# --- an orderly end --------------------------------------------------------

$repeat->() for 1 .. 9;
$i->restart_backend;
$i->wait_for(sub { my ($r, $m) = told();
    $r + $m == zone()->{answered_alone} + 1 }, 15,
    'rows and gap are what the zone counted');
is((told())[1], $missing, 'none was lost by an orderly end');


# --- a zone that is there no more ------------------------------------------

sub own {
    my ($key) = @_;
    return $i->http(POST => "/in/own?work=$key", { token => 'submit',
        body => '{}', headers => { 'Idempotency-Key' => $key } });
}

# all that was answered alone so far
my $alone = do { my ($r, $m) = told(); $r + $m };

sub settled {
    my ($n, $what) = @_;
    $alone += $n;
    my $sum = eval { $i->wait_for(sub { my ($r, $m) = told();
        $r + $m >= $alone && $r + $m }, 20, $what) };
    is($sum // join('+', told()), $alone, $what);
}

is(own('o1')->{status}, 202, 'a zone of its own');
kill 'STOP', $i->backend_pid;
is(own('o1')->{headers}{'interlock-decision'}, 'duplicate',
    'while interlockd hangs') for 1 .. 40;
$i->local_conf('nginx-http' => "interlock_zone zone=own:2m;\n");
$i->reload;
kill 'CONT', $i->backend_pid;
is(own('o2')->{status}, 202, 'the zone is another one');
settled(40, 'what the one before had counted is on record or missing');
own('o2') for 1 .. 3;
settled(3, 'it counts from the beginning');

$i->local_conf('nginx-http' => "interlock_zone zone=own:2m;\n"
    . "interlock_zone zone=more:1m;\n");
$i->reload;
own('o2') for 1 .. 2;
settled(2, 'goes on over a reload');


# --- nginx is there no more ------------------------------------------------

my $old = $i->nginx_pid;
kill 'STOP', $i->pid('keeper.interlockd');
kill 'KILL', $i->backend_pid;
$i->wait_for(sub { $i->http(GET => '/livez')->{status} != 200 }, 10,
    'interlockd is away');
is(own('o2')->{headers}{'interlock-decision'}, 'duplicate',
    'while interlockd is away') for 1 .. 20;
kill 'TERM', $old;
$i->wait_for(sub { my $new = eval { $i->nginx_pid };
    $new && $new != $old && $i->http(GET => '/edge/status')->{status} == 200 },
    20, 'another nginx');
is(zone()->{answered_alone}, 0, 'which knows nothing');
kill 'CONT', $i->pid('keeper.interlockd');
$i->wait_for(sub { $i->http(GET => '/readyz')->{status} == 200 }, 15,
    'interlockd is back');
is(own('o3')->{status}, 202, 'a request');
settled(20, 'tells how far the zones before had come');

# and again, with nothing new
$old = $i->nginx_pid;
kill 'TERM', $old;
$i->wait_for(sub { my $new = eval { $i->nginx_pid };
    $new && $new != $old && $i->http(GET => '/edge/status')->{status} == 200 },
    20, 'another nginx');
own('o4') for 1 .. 2;
settled(1, 'which is counted once');

$i->check_sql;

done_testing();
