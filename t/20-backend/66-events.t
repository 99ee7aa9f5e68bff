#!/usr/bin/perl

# GET /v1/events: what changes is seen at once, through whichever interlockd;
# a reader that comes back misses nothing; a stream costs no thread and little
# memory, whatever its reader does.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Events;
use Interlock::FastCGI;
use Interlock::Test;

# a second interlockd, behind a port of its own
my $i = Interlock::Test->instance(conf => [ 'events_max = 300' ], start => 0);
my $port = Interlock::Test::free_port();
$i->local_conf('nginx-http', "server { listen 127.0.0.1:$port; location / {"
    . ' fastcgi_pass "unix:' . $i->dir . '/other.sock"; } }');
$i->start;
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $c = Interlock::FastCGI->of_instance($i);
my $other = $i->another_backend('other');
chmod 0666, $other->{socket};           # nginx may be somebody else
my $o = Interlock::FastCGI->new($other->{socket});

sub stream {
    my ($query, %opt) = @_;
    return Interlock::Events->open($i, $query, { token => 'auditor', %opt });
}

sub submit {
    my ($d, $kind, $key, %more) = @_;
    my $res = $d->request(POST => '/v1/jobs', { token => $token{submit},
        body => { kind => $kind, work_key => $key, %more } });
    die "submit: $res->{status} $res->{body}" if $res->{status} != 202;
    return $res->{json}{job_id};
}

sub claim {
    my ($d, $kind) = @_;
    my $res = $d->request(POST => '/v1/leases', { token => $token{worker},
        body => { kinds => [$kind], wait => 5 } });
    return $res->{json}{leases}[0] // die "claim: $res->{body}";
}

sub owner {
    my ($d, $verb, $lease, $body) = @_;
    my $res = $d->request(POST => "/v1/lease/$verb",
        { token => $lease->{owner_token}, body => $body // {} });
    die "$verb: $res->{body}" if $res->{status} != 200;
}

sub streams { return $i->metrics->{interlock_event_streams} }

sub wait_streams {
    my ($n) = @_;
    $i->wait_for(sub { streams() == $n }, 15, "$n streams");
}

for my $kind (qw(w x)) {
    $c->request(PUT => "/v1/kinds/$kind", { token => $token{operator},
        body => { overlap => 'allow' } });
}

# Streams whose time is to pass: of a token that is revoked, and one without
# news.
my @owner = ('--dsn-file', $i->dir . '/dsn', '--tenant', 'demo');
my $made = $i->cli(qw(token create), @owner, qw(--name brief --role auditor
    --json --out), $i->dir . '/tokens/brief');
my $r = stream('', token => 'brief', port => $port);
is($r->status, 200, 'a stream by a token of its own');
my $p = stream('kind=none', port => $port);
$p->next(0.3);
my $at = $p->id;
$i->cli(qw(token revoke), @owner, $made->{json}{id});
my $here = { origin => $i->url };
my $login = $i->http(POST => '/ui/login', { headers => $here,
    body => { token => $i->token('auditor') } });
($here->{cookie}) = ($login->{headers}{'set-cookie'} // '') =~ /^([^;]+)/;
my ($q, $q2) = map { Interlock::Events->open($i, '', { port => $port,
    headers => { Cookie => $here->{cookie} } }) } 1, 2;
is($q->status, 200, 'a stream by a session');
$q2->close;
my $q3 = Interlock::Events->open($i, '', { headers =>
    { Cookie => $here->{cookie} } });
is($q3->status, 200, 'and one at the interlockd of the logout');
$i->http(POST => '/ui/logout', { headers => $here });
my $revoked = time;
ok($q3->wait_end(2), 'which ends at once');

# --- what is seen ------------------------------------------------------------

my $s = stream('');
is($s->status, 200, 'a stream is open');
is($s->headers->{'content-type'}, 'text/event-stream', 'of events');
is($s->headers->{'cache-control'}, 'no-store', 'that nobody keeps');
is($s->next(0.3), undef, 'nothing has changed');
is($s->retry, 2000, 'when to come back is said');
like($s->id, qr/^\S{20,}$/, 'and where it stands');

my $t0 = time;
my $job = submit($c, 'w', 'a');
my $e = $s->job($job, 'queued');
ok($e, 'a submission is seen');
cmp_ok(time - $t0, '<', 0.9, 'sooner than the next poll');
my $doc = $c->request(GET => "/v1/jobs/$job", { token => $token{auditor} })
    ->{json};
is_deeply($e->{json}, { map { $_ => $doc->{$_} }
    grep { !/^(?:attempts|lease)$/ } keys %$doc }, 'with the job as it is shown');
my $lease = claim($c, 'w');
ok($s->job($job, 'running'), 'so is the claim');
owner($c, 'progress', $lease, { progress => { done => 1, total => 3,
    note => "line\nbreak \x{2028} \r data: x" }, step => 'first' });
$e = $s->until(sub { ($_[0]{json}{step} // '') eq 'first' });
is($e->{json}{progress}{note}, "line\nbreak \x{2028} \r data: x",
    'progress, whatever is in it');
owner($c, 'renew', $lease);
is($s->next(1.3), undef, 'a renewal is no change');
owner($c, 'complete', $lease, { result => { ok => 1 } });
$e = $s->job($job, 'succeeded');
is($e->{json}{result_url}, '/v1/works/a/result', 'and the end');

# --- through another interlockd ----------------------------------------------

my $there = stream('kind=w', port => $port);
my $far = submit($c, 'w', 'near');
ok($there->job($far, 'queued'), 'what goes through another one is seen');
owner($c, 'complete', claim($c, 'w'));
$there->close;
$far = submit($o, 'w', 'far');
ok($s->job($far, 'queued'), 'and the other way round');
$lease = claim($o, 'w');
owner($o, 'complete', $lease);
ok($s->job($far, 'succeeded'), 'to its end');

# --- a database that goes away -----------------------------------------------

my $lost = $i->sql(q{select count(pg_terminate_backend(pid))
    from pg_stat_activity where application_name = 'interlockd events'});
my $again = submit($c, 'w', 'again');
ok($s->job($again, 'queued'), 'a lost connection to the database loses nothing');
ok(!$s->ended, 'nor the stream');
$i->expect_log(qr/interlockd events/);
$c->request(POST => "/v1/jobs/$again/cancel", { token => $token{operator},
    body => { requested_by => 'me', reason => 'enough' } });
$s->job($again, 'canceled');

# --- filters -----------------------------------------------------------------

my $first = submit($c, 'w', 'k:1');
my %by = (kind => stream('kind=x'), key => stream('work_key=k%3A1'),
    job => stream("job_id=$first"), both => stream('kind=x&work_key=k%3A1'));
$s->job($first, 'queued');
my $second = submit($c, 'x', 'k:2');
my $third = submit($c, 'w', 'k:1');
is($by{kind}->next->{json}{job_id}, $second, 'by kind');
ok($by{key}->job($third, 'queued'), 'by work key');
is(scalar(grep { $_->{json}{work_key} ne 'k:1' } @{ $by{key}{passed} }), 0,
    'and nothing else');
$c->request(POST => "/v1/jobs/$first/cancel", { token => $token{operator},
    body => { requested_by => 'me', reason => 'enough' } });
ok($by{job}->job($first, 'canceled'), 'by job');
is(scalar(grep { $_->{json}{job_id} ne $first } @{ $by{job}{passed} }), 0,
    'and nothing else');
is($by{both}->next(0.2), undef, 'all that are given have to hold');
for my $bad ('job_id=x', 'what=1', 'kind=a&kind=b') {
    is(stream($bad)->status, 400, "refused: $bad");
}
is(Interlock::Events->open($i, '', {})->status, 401, 'not without a token');
is($i->http(HEAD => '/v1/events', { token => 'worker' })->{headers}
    {'content-type'}, 'text/event-stream', 'HEAD has no stream');
$_->close for values %by;
wait_streams(1);
pass('a reader that goes frees its place');

# --- coming back -------------------------------------------------------------

$s->until(sub { $_[0]{json}{job_id} eq $first
    && $_[0]{json}{status} eq 'canceled' });
1 while $s->next(0.3);
my $id = $s->id;
$s->close;
wait_streams(0);
my %away = map { $_ => submit($c, 'x', "away:$_") } 1 .. 450;
$lease = claim($c, 'x');
owner($c, 'complete', $lease);
for my $how ('header', 'query') {
    my $b = $how eq 'header'
        ? stream('', headers => { 'Last-Event-ID' => $id })
        : stream("last_event_id=$id");
    my (%seen, $n);
    while (keys %seen < 451 && (my $e = $b->next)) {
        $n++;
        $seen{ $e->{json}{job_id} } = $e->{json}{status};
    }
    is(scalar(grep { defined $seen{$_} } values %away), 450,
        "$how: what has changed meanwhile is sent first");
    is($seen{ $lease->{job_id} }, 'succeeded', 'in its newest state');
    is($n, 451, 'each job once, of whatever became of it');
    $b->close;
}

# from the middle of a page
my $b = stream('', headers => { 'Last-Event-ID' => $id });
$b->next for 1 .. 130;
my ($middle, %rest) = ($b->id);
$b->close;
$b = stream('', headers => { 'Last-Event-ID' => $middle });
my $live = submit($c, 'w', 'live');
while (my $e = $b->next) {
    last if $e->{json}{job_id} eq $live;
    $rest{ $e->{json}{job_id} }++;
}
cmp_ok(scalar(keys %rest), '>=', 451 - 130 - 1, 'it goes on where it was');
cmp_ok(scalar(keys %rest), '<=', 451 - 130 + 25, 'and does not begin anew');
$b->close;

for my $bad ('nonsense', '0' x 16 . '-1.1:1:', 'x' x 4000, "$id.9") {
    my $y = stream('', headers => { 'Last-Event-ID' => $bad });
    $e = $y->next;
    is($e->{event}, 'reset', 'reset: ' . substr $bad, 0, 30);
    is($e->{data}, '{}', 'with no data');
    isnt($y->id, $bad, 'and a new place to go on from');
    $y->close;
}

# --- many, and what they cost ------------------------------------------------

wait_streams(0);
sub rss {
    open my $fh, '<', '/proc/' . $i->backend_pid . '/smaps_rollup' or die $!;
    my ($kb) = join('', <$fh>) =~ /^Pss_Anon:\s*(\d+)/m;
    return $kb;
}
my @warm = map { stream('') } 1 .. 20;
$_->close for @warm;
wait_streams(0);
my $before = rss();
my @many = map { stream('') } 1 .. 300;
wait_streams(300);
my $each = (rss() - $before) / 300;
SKIP: {
    skip 'a sanitizer needs memory of its own', 1
        if ($ENV{INTERLOCKD} // $i->build) =~ /san\b/;
    cmp_ok($each, '<', 16, sprintf 'an idle stream costs %.1f KB', $each);
}
my $full = stream('');
is($full->status, 503, 'no more than events_max');
ok($full->headers->{'retry-after'}, 'and when to try again');
$i->cli(qw(token create --dsn-file), $i->dir . '/dsn', qw(--tenant elsewhere
    --name guest --role auditor --out), $i->dir . '/tokens/guest');
my $guest = stream('', token => 'guest');
is($guest->status, 200, 'but for a tenant that has fewer there is room');
ok((pop @many)->wait_end(5), 'which the newest of the others made');
$guest->close;
wait_streams(299);
$t0 = time;
$job = submit($c, 'w', 'many');
is(scalar(grep { $_->job($job, 'queued') } @many), 299, 'all see it');
note(sprintf '299 readers: %.0f ms', 1000 * (time - $t0));
$_->close for @many[ 1 .. 298 ];
wait_streams(1);

# --- a reader that does not read ---------------------------------------------

my $slow = stream('', rcvbuf => 4096);
wait_streams(2);
my %last;
for my $n (1 .. 12) {
    my $res = $c->request(POST => '/v1/jobs:batch', {
        token => $token{submit}, body => { jobs => [ map { {
            kind => 'x', work_key => "slow:$n:$_", reason => 'r' x 900,
        } } 1 .. 150 ] } });
    $last{$_} = 1 for map { $_->{job_id} } @{ $res->{json}{items} };
}
is(scalar(keys %last), 1800, 'much has changed');
$job = submit($c, 'w', 'after');
ok($many[0]->job($job, 'queued', 20), 'others are not kept from it');
$c->request(POST => '/v1/jobs/' . (sort keys %last)[0] . '/cancel',
    { token => $token{operator},
      body => { requested_by => 'me', reason => 'enough' } });
my (%got, $events);
while (my $e = $slow->next(5)) {
    $events++;
    $got{ $e->{json}{job_id} } = $e->{json}{status};
    last if keys(%got) == 1801 && $got{ (sort keys %last)[0] } eq 'canceled';
}
is(scalar(grep { $got{$_} } keys %last), 1800,
    'the slow one learns all of it, once it reads');
is($got{ (sort keys %last)[0] }, 'canceled', 'in the newest state');
$_->close for $slow, $many[0];
wait_streams(0);

# --- the end of a token ------------------------------------------------------

my $left = 8 - (time - $revoked);
ok($r->wait_end($left < 1 ? 1 : $left), 'a stream ends within seconds when '
    . 'its token is revoked');
$left = 8 - (time - $revoked);
ok($q->wait_end($left < 1 ? 1 : $left), 'or its session over, elsewhere');
is($p->wait_end(0.1), undef, 'and no other one');

# --- heartbeats, and the end -------------------------------------------------

$i->wait_for(sub { $p->next(0.1); $p->comments }, 25, 'a heartbeat');
isnt($p->id, $at, 'a heartbeat says where a stream without news stands');

my $z = stream('');
kill 'TERM', $i->backend_pid;
ok($z->wait_end(10), 'streams end with interlockd');
$z->next(0);
like($z->{text}, qr/\A\n*\z/, 'and not in the middle of an event');
ok($i->wait_for(sub { $i->http(GET => '/readyz')->{status} == 200 }, 20,
    'a successor'), 'which does not wait for them');
my $next = submit(Interlock::FastCGI->of_instance($i), 'w', 'next');
$z = stream('', headers => { 'Last-Event-ID' => $z->id });
ok($z->job($next, 'queued'), 'the successor goes on');

$i->end;
done_testing;
