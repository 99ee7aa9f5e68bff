#!/usr/bin/perl

# POST /v1/lease/batch: each call its own owner token, its own answer, its own
# refusal, as if it had come alone; all of them one call of the database.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $c = Interlock::FastCGI->of_instance($i);
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $key = 0;

for my $role (qw(submit worker operator)) {
    my $file = $i->dir . "/tokens/other-$role";
    my $r = $i->cli('token', 'create', '--dsn-file', $i->dir . '/dsn',
        '--tenant', 'other', '--name', $role, '--role', $role, '--out', $file);
    die $r->{err} if $r->{code};
    $token{"other-$role"} = Interlock::Test::slurp($file) =~ s/\s+\z//r;
}
for my $kind ([ '', 'calls' ], [ 'other-', 'calls' ], [ '', 'waits' ]) {
    my ($whose, $name) = @$kind;
    is($c->request(PUT => "/v1/kinds/$name", { token =>
        $token{"${whose}operator"}, body => { overlap => 'allow',
        lease_seconds => 600, max_attempts => 9 } })->{status}, 200,
        '(a kind)');
}

sub batch {
    my ($calls, $token) = @_;
    return $c->request(POST => '/v1/lease/batch', { token => $token
        // $token{worker}, body => ref $calls eq 'ARRAY'
            ? { calls => $calls } : $calls });
}

sub leases {
    my ($n, $whose, $kind) = @_;
    $whose //= '';
    $kind //= 'calls';
    my $res = $c->request(POST => '/v1/jobs:batch', { token =>
        $token{"${whose}submit"}, body => { jobs => [ map { { kind => $kind,
            work_key => 'c:' . ++$key } } 1 .. $n ] } });
    die $res->{body} unless $res->{status} == 200;
    my @all;
    while (@all < $n) {
        my $got = $c->request(POST => '/v1/leases', { token =>
            $token{"${whose}worker"}, body => { kinds => [$kind],
            max => $n - @all > 100 ? 100 : $n - @all, wait => 5 } });
        my @some = @{ $got->{json}{leases} // [] } or die $got->{body};
        push @all, @some;
    }
    return @all;
}

sub lease { return (leases(1))[0] }

sub call {
    my ($lease, $call, %more) = @_;
    return { owner_token => ref $lease ? $lease->{owner_token} : $lease,
        call => $call, %more };
}

sub problem_is {
    my ($item, $status, $name, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(($item->{type} // 'no problem') . " $item->{status}",
        "https://interlock.invalid/problems/$name $status", $what)
        or diag explain $item;
    cmp_ok(length($item->{detail} // ''), '>', 10, 'with a detail');
}

sub status_of { $i->psql("select status from interlock.jobs where id = "
    . "'$_[0]{job_id}'") }
sub calls_of { $i->metrics->{qq(interlock_batch_size_count{lane="$_[0]"})}
    // 0 }


# --- one of each -----------------------------------------------------------

my @l = leases(6);
my $res = batch([
    call($l[0], 'complete', result => { n => 1 }, result_url => '/r',
        counts => { processed => 3, failed => 1 }),
    call($l[1], 'fail', error => 'no', retryable => JSON::PP::true,
        retry_after => 60),
    call($l[2], 'fail', error => 'never', retryable => JSON::PP::false,
        user_message => 'sorry', log_url => '/log'),
    call($l[3], 'release'),
    call($l[4], 'renew'),
    call($l[5], 'progress', progress => { done => 1, total => 2 },
        step => 'half', checkpoint => { at => 1 }) ]);
is($res->{status}, 200, 'one of each');
my @item = @{ $res->{json}{items} };
is(join(' ', map { "$_->{code}:" . ($_->{status} // 'renewed') } @item),
    '200:succeeded 200:queued 200:failed 200:queued 200:renewed 200:renewed',
    'each has its answer, in order');
is($item[0]{job_id}, $l[0]{job_id}, 'of its job');
is($item[0]{revision}, 1, 'a result is published');
like($item[1]{retry_at}, qr/^20.*Z$/, 'when the next attempt is');
like($item[4]{expires_at}, qr/^20.*Z$/, 'a new end of the lease');
ok(exists $item[5]{cancel_requested}, 'and whether it is asked to end');
ok(!grep({ exists $_->{replayed} } @item), 'none is a replay');
is($i->psql("select step from interlock.leases where job_id = "
    . "'$l[5]{job_id}'"), 'half', 'progress is stored');
is($c->request(GET => "/v1/jobs/$l[2]{job_id}", { token => $token{auditor} })
    ->{json}{user_message}, 'sorry', 'a failure with what it says');

# the same as each of them says alone
my ($one, $two) = leases(2);
my $alone = $c->request(POST => '/v1/lease/complete', {
    token => $one->{owner_token}, body => { result => [1] } });
$res = batch([ call($two, 'complete', result => [1]) ]);
my %theirs = (%{ $alone->{json} }, code => 200,
    map { $_ => $two->{$_} } qw(job_id work_key));
is_deeply($res->{json}{items}[0], \%theirs, 'as alone, and its code');
$alone = $c->request(POST => '/v1/lease/renew', {
    token => $one->{owner_token}, body => {} });
is_deeply(batch([ call($one, 'renew') ])->{json}{items}[0], $alone->{json},
    'a refusal too');
is(batch([])->{body}, '{"items":[]}', 'none at all');


# --- one call of the database ----------------------------------------------

my @many = leases(500);
my ($finish, $renew) = (calls_of('finish'), calls_of('lease'));
$res = batch([ map { call($_, 'renew') } @many ]);
is(scalar(grep { $_->{code} // 0 == 200 } @{ $res->{json}{items} }), 500,
    'five hundred renewals');
is(calls_of('lease') - $renew, 1, 'in one call');
$res = batch([ map { (call($_, 'complete', result => 1)) } @many ]);
is(scalar(grep { $_->{status} eq 'succeeded' } @{ $res->{json}{items} }),
    500, 'five hundred completions');
is(calls_of('finish') - $finish, 1, 'in one call');
is(join(' ', map { $_->{job_id} } @{ $res->{json}{items} }),
    join(' ', map { $_->{job_id} } @many), 'in order');

# a last word about progress and the end, in one request
my $last = lease();
$res = batch([ call($last, 'complete', result => 1),
    call($last, 'progress', step => 'last') ]);
is(join(' ', map { $_->{code} // $_->{title} } @{ $res->{json}{items} }),
    '200 200', 'progress is heard before the completion beside it');


# --- refused, each by itself -----------------------------------------------

my ($good, $gone, $foreign, @rest) = (lease(), lease(), leases(1, 'other-'),
    leases(24));
is($c->request(POST => '/v1/lease/fail', { token => $gone->{owner_token},
    body => {} })->{status}, 200, '(an attempt that has ended)');
my ($v4, $public, $body, $foot) = split /\./, $good->{owner_token};
my $other = substr($body, 5, 1) eq 'A' ? 'B' : 'A';
my @bad = (
    [ call(join('.', $v4, $public, substr($body, 0, 5) . $other
        . substr($body, 6), $foot), 'complete'), 401, 'owner-token-invalid',
      'a forged token' ],
    [ call(substr($good->{owner_token}, 0, -1), 'complete'), 401,
      'owner-token-invalid', 'one that is cut' ],
    [ call($foreign, 'complete'), 401, 'owner-token-invalid',
      "another tenant's" ],
    [ call($foreign, 'renew'), 401, 'owner-token-invalid',
      "another tenant's, to renew" ],
    [ call($token{worker}, 'complete'), 401, 'owner-token-invalid',
      'an API token' ],
    [ { call => 'complete' }, 401, 'owner-token-invalid', 'no token' ],
    [ call('', 'renew'), 401, 'owner-token-invalid', 'an empty one' ],
    [ { call => 'complete', owner_token => [1] }, 401, 'owner-token-invalid',
      'a token that is a list' ],
    [ call($gone, 'complete', result => 1), 409, 'lease-lost',
      'of an attempt that has ended' ],
    [ call($gone, 'renew'), 409, 'lease-lost', 'the same, to renew' ],
    [ call($good, 'claim'), 400, 'field-invalid', 'an unknown call' ],
    [ { owner_token => $good->{owner_token} }, 400, 'field-invalid',
      'no call' ],
    [ call($good, 'complete', colour => 'red'), 400, 'unknown-field',
      'an unknown field' ],
    [ call($good, 'renew', result => 1), 400, 'unknown-field',
      "another call's field" ],
    [ call($good, 'complete', result_url => 'javascript:1'), 400,
      'field-invalid', 'a URL that runs' ],
    [ call($good, 'progress', progress => { x => 1 }), 400, 'unknown-field',
      'unknown progress' ],
    [ call($good, 'fail', retry_after => -1), 400, 'field-invalid',
      'a negative number' ],
    [ 5, 400, 'field-invalid', 'a number' ],
    [ [], 400, 'field-invalid', 'a list' ],
    [ undef, 400, 'field-invalid', 'null' ],
);
my @mixed = map { ($_ < @bad ? $bad[$_][0] : (),
    $_ < @rest ? call($rest[$_], 'complete', result => $_) : ()) }
    0 .. (@bad > @rest ? $#bad : $#rest);
$res = batch(\@mixed);
is($res->{status}, 200, 'half of them are refused, and the batch is not');
@item = @{ $res->{json}{items} };
is(scalar @item, @mixed, 'an item for each');
problem_is($item[ 2 * $_ ], @{ $bad[$_] }[ 1 .. 3 ]) for 0 .. $#bad;
is(scalar(grep { ($_->{status} // '') eq 'succeeded' } @item),
    scalar @rest, 'the others have ended');
is($i->psql("select count(*) from interlock.jobs where status = 'succeeded' "
    . 'and id in (' . join(',', map { "'$_->{job_id}'" } @rest) . ')'),
    scalar @rest, 'on record');
is(status_of($good), 'running', 'whose token was bent goes on');
is(status_of($foreign), 'running', "the other tenant's does, too");
$res = batch("{\"calls\":[{\"call\":\"renew\",\"call\":\"complete\","
    . "\"owner_token\":\"$good->{owner_token}\"}]}");
problem_is($res->{json}{items}[0], 400, 'json-invalid', 'a call twice');
is(status_of($good), 'running', 'does nothing');
is(batch([ call($foreign, 'complete') ], $token{'other-worker'})->{json}
    {items}[0]{status}, 'succeeded', 'whose own worker completes it');


# --- doubled ---------------------------------------------------------------

my ($twice, $differ, $before) = leases(3);
$res = batch([ (call($twice, 'complete', result => 1)) x 3 ]);
@item = @{ $res->{json}{items} };
is(join(' ', map { $_->{status} } @item), 'succeeded succeeded succeeded',
    'the same completion three times');
is(scalar(grep { $_->{replayed} } @item), 2, 'is done once');
is($i->psql('select count(*) from interlock.results where job_id = '
    . "'$twice->{job_id}'"), 1, 'with one result');
$res = batch([ call($differ, 'complete', result => 1),
    call($differ, 'complete', result => 2), call($differ, 'fail') ]);
@item = @{ $res->{json}{items} };
is(join(' ', sort map { $_->{status} } @item), '409 409 succeeded',
    'three different ends: one holds');
is($c->request(POST => '/v1/lease/complete', { token =>
    $before->{owner_token}, body => { result => 7 } })->{status}, 200,
    '(completed alone)');
$item[0] = batch([ call($before, 'complete', result => 7) ])->{json}{items}[0];
is("$item[0]{status} $item[0]{replayed}", 'succeeded 1',
    'the same again in a batch gets the first answer');


# --- who may, and what it is -----------------------------------------------

for my $p ([ undef, 401 ], [ $token{submit}, 403 ], [ $token{operator}, 403 ],
    [ $token{auditor}, 403 ], [ $good->{owner_token}, 401 ])
{
    is($c->request(POST => '/v1/lease/batch', { defined $p->[0] ? (token =>
        $p->[0]) : (), body => { calls => [ call($good, 'complete') ] } })
        ->{status}, $p->[1], 'who may not: ' . $p->[1]);
}
is(status_of($good), 'running', 'and nothing was done');
for my $p ([ '', 'json-invalid' ], [ '{', 'json-invalid' ],
    [ '[]', 'json-invalid' ], [ '{}', 'field-invalid' ],
    [ '{"calls":{}}', 'field-invalid' ], [ '{"calls":null}',
      'field-invalid' ], [ '{"calls":[],"x":1}', 'unknown-field' ])
{
    problem_is(batch($p->[0])->{json}, 400, $p->[1], "a body: $p->[0]");
}
problem_is(batch([ map { call($good, 'renew') } 1 .. 501 ])->{json}, 400,
    'field-invalid', '501 calls');


# --- what others are told --------------------------------------------------

# a parked worker gets what a batch hands back, a look-up what it ends
my ($back, $end) = leases(2, '', 'waits');
my ($d, $e) = map { Interlock::FastCGI->of_instance($i) } 1 .. 2;
$d->send(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['waits'], wait => 20 } });
$e->send(GET => "/v1/jobs/$end->{job_id}", { token => $token{auditor},
    headers => { prefer => 'wait=20' } });
$i->wait_for(sub { ($i->metrics->{interlock_parked_requests} // 0) >= 2 }, 10,
    'two to be parked');
batch([ call($back, 'release'), call($end, 'complete') ]);
is($d->response(10)->{json}{leases}[0]{job_id}, $back->{job_id},
    'a worker that waits gets what was handed back');
is($e->response(10)->{json}{status}, 'succeeded',
    'a look-up that waits hears of the end');

# the edge is told of a few works, in one header that its buffer takes
@l = leases(30);
$res = batch([ map { call($_, 'complete') } @l ]);
my @done = split /,/, $res->{headers}{'interlock-work-done'};
is(scalar @done, 24, 'of no more than a response\'s head has room for');
is((split /;/, $done[0])[1], $l[0]{job_id}, 'work and job');
is($i->http(POST => '/v1/lease/batch', { token => 'worker', body => {
    calls => [ map { call($_, 'complete') } leases(50) ] } })->{status}, 200,
    'through nginx');

$i->check_sql;
done_testing();
