#!/usr/bin/perl

# An effect whose outcome is not known is looked up: against a provider that
# keeps its own record of what it did, over HTTP and by a worker.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Provider;
use Interlock::Test;

# A provider that does not honour keys: sent twice is done twice.
my ($i, $p) = Interlock::Provider->beside(conf => 'recover_interval = 100ms',
    provider => { honours => 0 });
my %SETTLED = (confirmed => 1, failed => 1, needs_human => 1);

sub put {
    my ($path, $body) = @_;

    my $res = $i->http(PUT => $path, { token => 'operator', body => $body });
    is($res->{status}, 200, "PUT $path") or diag($res->{body});
}

my %look = (type => 'http', url => $p->url . '/charges/{target}', timeout => 2,
    found => { status => [200], pointer => '/reference' },
    not_found => { status => [404] }, ref_pointer => '/id');

put('/v1/kinds/order', { overlap => 'skip', lease_seconds => 20 });
put('/v1/kinds/brief', { overlap => 'skip', lease_seconds => 3 });
put('/v1/effect-kinds/sure', { lookup => \%look, authoritative => \1, settle_after => 2,
    send_deadline => 1, check_delay => 0, check_backoff => 1, max_checks => 3 });
put('/v1/effect-kinds/ask', { lookup => \%look, send_deadline => 1, check_delay => 0,
    check_backoff => 0, max_checks => 2 });
put('/v1/effect-kinds/by-hand', { lookup => { type => 'worker' }, send_deadline => 1,
    check_delay => 0 });

# A job and its lease.
sub lease {
    my ($kind, $key) = @_;

    my $res = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => $kind, work_key => $key } });
    die $res->{body} unless $res->{status} == 202;
    return claim($kind);
}

sub claim {
    my ($kind) = @_;

    my $res = $i->http(POST => '/v1/leases', { token => 'worker',
        body => { worker => 'w', kinds => [ $kind ], max => 1, wait => 10 } });
    return $res->{json}{leases}[0] // die "no lease: $res->{body}";
}

sub owner {
    my ($lease, $path, $body) = @_;

    return $i->http(POST => $path, { body => $body,
        headers => { Authorization => "Bearer $lease->{owner_token}" } });
}

sub begin {
    my ($lease, $kind, $target) = @_;

    my $res = owner($lease, '/v1/effects',
        { name => 'charge', kind => $kind, target => $target });
    die $res->{body} unless $res->{status} == 200;
    return $res->{json};
}

sub unknown {
    my ($lease, $begun) = @_;

    my $res = owner($lease, "/v1/effects/$begun->{effect_id}/outcome",
        { send_id => $begun->{send_id}, state => 'unknown', detail => 'timeout' });
    is($res->{json}{state}, 'unknown', 'its outcome is not known') or diag($res->{body});
}

# What the worker sends to the provider, or does not get there.
sub send_it {
    my ($target) = @_;

    return Interlock::HTTP::raw($p->port, "POST /charges HTTP/1.1\r\nHost: p\r\n"
        . "Connection: close\r\nContent-Type: application/json\r\nContent-Length: "
        . (16 + length $target) . "\r\n\r\n{\"reference\":\"$target\"}");
}

sub settled {
    my ($begun, $state) = @_;

    return $i->wait_for(sub {
        my $e = $i->http(GET => "/v1/effects/$begun->{effect_id}", { token => 'auditor' })
            ->{json};
        $e->{state} eq $state ? $e : undef;
    }, 20, "effect $state");
}

sub looks { scalar grep { $_->{method} eq 'GET' && $_->{path} =~ m{/\Q$_[0]\E$} } $p->heard }

# It acted, and its answer was lost: found, not sent again.
my $lease = lease('order', 'order:1');
my $begun = begin($lease, 'sure', 'acted');
$p->next('act_drop');
send_it('acted');
is($p->done('acted'), 1, 'the provider acted');
unknown($lease, $begun);
my $effect = settled($begun, 'confirmed');
is($effect->{provider_ref}, ($p->record)[0]{id}, 'found, and how it is called there');
is(begin($lease, 'sure', 'acted')->{decision}, 'already_confirmed', 'not sent again');
is($p->done('acted'), 1, 'done once');

# It did not act, and can be believed: failed after the settling time, then a
# new round.
$lease = lease('order', 'order:2');
$begun = begin($lease, 'sure', 'silent');
unknown($lease, $begun);
is(begin($lease, 'sure', 'silent')->{decision}, 'check_first', 'not sent blindly');
$effect = settled($begun, 'failed');
cmp_ok(looks('silent'), '>=', 2, 'looked up before that time, which proved nothing, and after');
my $second = begin($lease, 'sure', 'silent');
is($second->{decision}, 'send', 'sent in another round');
isnt($second->{idempotency_key}, $begun->{idempotency_key}, 'under another key');
send_it('silent');
owner($lease, "/v1/effects/$begun->{effect_id}/outcome",
    { send_id => $second->{send_id}, state => 'confirmed' });
is($p->done('silent'), 1, 'done once');

# It did not act, and cannot be believed: a human, and never sent again.
$lease = lease('order', 'order:3');
$begun = begin($lease, 'ask', 'doubt');
unknown($lease, $begun);
settled($begun, 'needs_human');
is(looks('doubt'), 2, 'looked up as often as its kind says');
is(begin($lease, 'ask', 'doubt')->{decision}, 'needs_human', 'not sent');
is($p->done('doubt'), 0, 'not done');

# No clear answer.
$lease = lease('order', 'order:4');
$begun = begin($lease, 'sure', 'cloudy');
send_it('cloudy');
$p->look(500, 'drop', 503);
unknown($lease, $begun);
$effect = settled($begun, 'needs_human');
is(looks('cloudy'), 3, 'no clear answer three times: a human');
is(begin($lease, 'sure', 'cloudy')->{decision}, 'needs_human', 'not sent again');
is($p->done('cloudy'), 1, 'done once');

# Its owner is lost between the send and the record: the job waits, and goes on
# once that is found out.
$lease = lease('brief', 'brief:1');
$begun = begin($lease, 'ask', 'lost');
send_it('lost');
my $next = claim('brief');
is($next->{job_id}, $lease->{job_id}, 'the lost job goes on');
is(begin($next, 'ask', 'lost')->{decision}, 'already_confirmed', 'knowing that it is sent');
is(owner($next, '/v1/lease/complete', {})->{status}, 200, 'and completes');
is($p->done('lost'), 1, 'done once');
my $audit = $i->http(GET => '/v1/audit?work_key=brief:1', { token => 'auditor' })->{json};
is(scalar(@{ $audit->{final}{confirmed_effects} }), 1, 'the audit shows it confirmed');
is_deeply($audit->{final}{open}, [], 'and nothing open');

# By a worker.
$lease = lease('order', 'order:5');
$begun = begin($lease, 'by-hand', 'seen');
send_it('seen');
unknown($lease, $begun);
my $ran = $i->cli({ token => 'worker' }, 'work', '--kind', 'effect-check', '--once', '--',
    'sh', '-c', 'grep -q "\"target\" : \"seen\"" && '
    . 'echo \'{"answer":"found","provider_ref":"seen-1","detail":"on the statement"}\'');
is($ran->{code}, 0, 'a worker looks') or diag($ran->{err});
$effect = settled($begun, 'confirmed');
is($effect->{provider_ref}, 'seen-1', 'and says how it is called there');
like($i->psql("select detail from interlock.check_answers order by id desc limit 1"),
    qr/on the statement/, 'and why');

# What may not be called is refused at once.
for my $url ('http://169.254.169.254/latest/{target}', 'http://localhost/{target}',
    'file:///etc/passwd', $p->url . '/{nobody}')
{
    my $res = $i->http(PUT => '/v1/effect-kinds/bad', { token => 'operator',
        body => { lookup => { %look, url => $url } } });
    is($res->{status}, 400, "$url: refused");
    like($res->{json}{detail}, qr/"url" /, '... and why') or diag($res->{body});
}

$i->check_sql;

done_testing;
