#!/usr/bin/perl

# What /metrics says, and that Prometheus can read it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;
my %token = map { $_ => $i->token($_) } qw(submit worker operator);
my $c = Interlock::FastCGI->of_instance($i);

sub submit {
    my ($kind, $key, $idem) = @_;
    return $c->request(POST => '/v1/jobs', { token => $token{submit},
        headers => { $idem ? ('idempotency-key' => $idem) : () },
        body => { kind => $kind, work_key => $key } });
}

sub owner {
    my ($verb, $token, $body) = @_;
    return $c->request(POST => "/v1/lease/$verb",
        { token => $token, body => $body // {} });
}

my $res = $c->request(GET => '/metrics');
is($res->{headers}{'content-type'},
    'text/plain; version=0.0.4; charset=utf-8', 'content type');

submit('free', 'm:1', 'i-1');
submit('free', 'm:1', 'i-1');
submit('free', 'm:2', 'i-1');               # 422
submit('tally', 't:1');
submit('tally', 't:1');                     # skipped
submit('nosuch', 'n:1');                    # no request
submit('free', 'm:3');
$c->request(POST => '/in/x', { body => '{}', params => {
    INTERLOCK_TENANT => 'demo', INTERLOCK_SOURCE => 'github',
    INTERLOCK_KIND => 'webhook', INTERLOCK_WORK_KEY => 'g:1',
    INTERLOCK_VERIFIED => 'github' } });

my ($one, $two) = map { $_->{owner_token} } @{ $c->request(
    POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['free'], max => 2 } })->{json}{leases} };
owner('complete', $one);
owner('renew', $one);                       # lease-lost
owner('complete', $one, { result => 2 });   # lease-lost

$c->request(GET => '/v1/works/m:1', { token => $token{submit} });

# one that waits behind another
submit('daily-sales', 'd:1');
my $lease = $c->request(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['daily-sales'] } })->{json}{leases}[0];
$res = $c->request(POST => '/v1/jobs', { token => $token{submit}, body => {
    kind => 'daily-sales', work_key => 'd:1', payload => 2 } });
is($res->{json}{decision}, 'buffered', 'one waits behind another');
owner('complete', $lease->{owner_token});

# the database's gauges are counted every two seconds at most
$i->wait_for(sub {
    $i->metrics->{'interlock_queue_depth{kind="daily-sales",state="ready",'
        . 'tenant="demo"}'};
}, 5, 'fresh gauges');
my %m = %{ $i->metrics };

my %want = (
    'requests_total{kind="free",source="api",decision="accepted"}' => 2,
    'requests_total{kind="free",source="api",decision="duplicate"}' => 1,
    'requests_total{kind="free",source="api",decision="rejected"}' => 1,
    'requests_total{kind="tally",source="api",decision="skipped"}' => 1,
    'requests_total{kind="webhook",source="github",decision="accepted"}' => 1,
    'overlap_attempt_total{kind="free",policy="allow",decision="accepted"}'
        => 2,
    'overlap_attempt_total{kind="tally",policy="skip",decision="accepted"}'
        => 1,
    'overlap_attempt_total{kind="tally",policy="skip",decision="skipped"}'
        => 1,
    'acquisition_failed_total{kind="tally",reason="key_busy"}' => 1,
    'acquisition_failed_total{kind="free",reason="fence_lost"}' => 1,
    'lease_renew_failed_total{kind="",reason="lease-lost"}' => 1,
    'fence_refusals_total{kind="",call="renew"}' => 1,
    'fence_refusals_total{kind="free",call="complete"}' => 1,
    'job_duration_seconds_count{kind="free"}' => 1,
    'claim_latency_seconds_count{kind="free"}' => 2,
    'lock_wait_duration_seconds_count{kind="daily-sales"}' => 1,
    'http_requests_total{route="/v1/works/{}",code="200"}' => 1,
    'http_requests_total{route="/v1/jobs",code="422"}' => 1,
    'active_concurrency{kind="free",tenant="demo"}' => 1,
    'queue_depth{kind="tally",state="ready",tenant="demo"}' => 1,
    'queue_depth{kind="free",state="running",tenant="demo"}' => 1,
    'db_up' => 1,
    'parked_requests' => 0,
    'spool_depth' => 0,
);
for my $name (sort keys %want) {
    is($m{"interlock_$name"}, $want{$name}, $name);
}
my ($all, $rows) = (0, $i->psql('select count(*) from interlock.requests'));
$all += $m{$_} for grep { /^interlock_requests_total/ } keys %m;
is($all, $rows, 'the decisions add up to the requests stored');
ok((grep { /^interlock_oldest_item_age_seconds\{kind="tally"/ } keys %m),
    'the age of the oldest');
ok((grep { /^interlock_build_info\{version="/ } keys %m), 'build_info');

# Histograms: cumulative, and the last bucket is the count.

my $text = $c->request(GET => '/metrics')->{body};
my ($last, $bad) = (-1, 0);
for (grep { /^interlock_claim_latency_seconds_bucket\{kind="free"/ }
    split /\n/, $text)
{
    my ($n) = / (\d+)$/;
    $bad++ if $n < $last;
    $last = $n;
}
is($bad, 0, 'buckets are cumulative');
is($last, 2, 'up to the count');
like($text, qr/_bucket\{kind="free",le="\+Inf"\} 2\n/, '+Inf');

# Every family once, with HELP and TYPE, its samples together.

my (%seen, $now, @odd);
for (split /\n/, $text) {
    if (/^# HELP (\S+) \S/) {
        push @odd, "$1 twice" if $seen{$1}++;
        $now = $1;
    } elsif (/^# TYPE (\S+) (?:counter|gauge|histogram)$/) {
        push @odd, "TYPE $1 under $now" if $1 ne $now;
    } elsif (!/^\Q$now\E(?:_bucket|_sum|_count)?(?:\{.*\})? \S+$/) {
        push @odd, "under $now: $_";
    }
}
is("@odd", '', 'families stand together, each with HELP and TYPE');

SKIP: {
    my ($code) = Interlock::Test::run([ 'sh', '-c',
        'command -v promtool' ]);
    skip 'promtool is not installed (Debian package prometheus)', 2 if $code;

    # "non-histogram … should not have _count suffix" and the like are errors
    my %pages = (backend => $text,
        edge => $i->http(GET => '/edge/metrics')->{body});
    for my $side (sort keys %pages) {
        my ($rc, $out, $err) = Interlock::Test::run(
            [ 'promtool', 'check', 'metrics' ], stdin => $pages{$side});
        is("$rc $out$err", '0 ', "promtool has nothing to say of the $side")
            or diag($pages{$side});
    }
}

done_testing();
