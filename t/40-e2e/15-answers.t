#!/usr/bin/perl

# Answers that somebody has to rely on when things are not as they should be,
# and what is not in them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

my $i = Interlock::Test->instance;

# A shared secret that a header carries itself stays at the edge: whoever
# works on the job must not be able to send in the source's name.

my $secret = $i->secret('token');
my $res = $i->http(POST => '/in/token', { body => '{"n":1}', headers => {
    'content-type' => 'application/json', 'x-webhook-token' => $secret,
    'x-api-key' => 'key-of-the-sender', 'x-request-id' => 'r-1',
    'idempotency-key' => 'k-1' } });
is($res->{status}, 202, 'a delivery with the shared secret is accepted');

my $lease = $i->http(POST => '/v1/leases', { token => 'worker',
    body => { kinds => ['webhook'] } });
is($lease->{json}{leases}[0]{headers}{'x-request-id'}, 'r-1',
    "the worker gets the delivery's headers");
unlike($lease->{body}, qr/\Q$secret\E/, 'but not the secret');
unlike($lease->{body}, qr/key-of-the-sender/, 'nor an API key');
is($i->psql("select count(*) from interlock.payloads where headers like '%"
    . $secret . "%'"), 0, 'which is not stored either');

# A refused signature has the same words whatever was wrong.

my %said;
for my $given ('wrong', substr($secret, 0, -1), $secret . 'x', undef) {
    my $r = $i->http(POST => '/in/token', { body => '{}', headers => {
        'idempotency-key' => 'k-2',
        defined $given ? ('x-webhook-token' => $given) : () } });
    is($r->{status}, 401, 'refused');
    $said{ $r->{body} }++;
    cmp_ok(length $r->{json}{detail}, '>', 10, 'with a detail');
}
is(scalar keys %said, 1, 'all in the same words');

# Every work key that is accepted can be looked up by its path.

for my $key ('a/b', 'a//b', '/a/', 'a:..', '%2E%2E/x', 'a%252Fb', 'a?b#c',
    'caf\x{e9}', [ '..' ], [ '.', 'x' ], [ '../../x' ], [ 'a/./b' ])
{
    my $r = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => 'free', work_key => $key } });
    my $text = ref $key ? "[@$key]" : $key;
    is($r->{status}, 202, "accepted: $text") or next;

    my $path = $r->{json}{work_key};
    utf8::encode($path);
    $path =~ s/([^A-Za-z0-9_~.:-])/sprintf '%%%02X', ord $1/ge;
    my $w = $i->http(GET => "/v1/works/$path", { token => 'auditor' });
    is($w->{status}, 200, "found at $path");
    is($w->{json}{work_key}, $r->{json}{work_key}, 'and it is that one');

    my $shown = $i->cli({ token => 'auditor' }, 'show', '--json', '--',
        do { my $k = $r->{json}{work_key}; utf8::encode($k); $k });
    is($shown->{code}, 0, 'by the command, too') or diag($shown->{err});
}

for my $key ('..', 'a/../b', './a', '../../../x') {
    my $r = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => 'free', work_key => $key } });
    is($r->{status}, 400, "refused: $key");
    like($r->{json}{type}, qr{/work-key-invalid\z}, 'as invalid');
    like($r->{json}{detail}, qr/%2E/, 'saying how to write it');
}

# Prefer: wait, as RFC 7240 lets people write it.

my $job = $i->http(POST => '/v1/jobs', { token => 'submit',
    body => { kind => 'tally', work_key => 'prefer' } })->{json}{job_id};
for my $prefer ('wait=1', 'WAIT=1', 'wait = 1', 'respond-async,Wait=1 ; x=y')
{
    my $t0 = time;
    my $r = $i->http(GET => "/v1/jobs/$job", { token => 'auditor',
        headers => { prefer => $prefer } });
    is($r->{status}, 200, "Prefer: $prefer");
    cmp_ok(time - $t0, '>', 0.9, 'waits');
}
for my $prefer ('wait', 'wait=', 'wait=-1', 'await=9', 'x=wait=9') {
    my $t0 = time;
    $i->http(GET => "/v1/jobs/$job", { token => 'auditor',
        headers => { prefer => $prefer } });
    cmp_ok(time - $t0, '<', 0.9, "Prefer: $prefer does not");
}

# The backend is away: a problem, and when to ask again.

my $keeper = $i->pid('keeper.interlockd');     # it would start another one
kill 'STOP', $keeper;
kill 'KILL', $i->backend_pid;
$i->expect_log(qr/connect\(\) to unix|prematurely closed/);

my $away = $i->http(GET => '/v1/keys');
is($away->{status}, 503, 'no interlockd: 503');
is($away->{headers}{'content-type'}, 'application/problem+json',
    'a problem');
like($away->{json}{type}, qr{/problems/unavailable\z}, 'unavailable');
is($away->{headers}{'retry-after'}, 1, 'with Retry-After');

$away = $i->http(POST => '/in/token', { body => '{"n":3}', headers => {
    'content-type' => 'application/json', 'x-webhook-token' => $secret,
    'idempotency-key' => 'k-3' } });
is($away->{status}, 503, 'webhook: 503');
is($away->{headers}{'retry-after'}, 1, 'with Retry-After');
is($i->http(GET => '/edge/status')->{json}{zones}[0]{in_flight}, 0,
    'and the edge has forgotten it');

kill 'CONT', $keeper;
$i->wait_for(sub { $i->http(GET => '/readyz')->{status} == 200 }, 20,
    'interlockd to be back');
$res = $i->http(POST => '/in/token', { body => '{"n":3}', headers => {
    'content-type' => 'application/json', 'x-webhook-token' => $secret,
    'idempotency-key' => 'k-3' } });
is($res->{headers}{'interlock-decision'}, 'accepted',
    'sent again, it is accepted');

$i->check_sql;

done_testing();
