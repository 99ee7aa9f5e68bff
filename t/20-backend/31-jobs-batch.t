#!/usr/bin/perl

# POST /v1/jobs:batch: each job its own decision, its own failure, its own
# idempotency key; one that raises an error inside the database among fifty.

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
my %token = map { $_ => $i->token($_) }
    qw(submit worker operator auditor);

sub batch {
    my ($jobs, $opt) = @_;
    return $c->request(POST => '/v1/jobs:batch', { token => $token{submit},
        body => ref $jobs eq 'ARRAY' ? { jobs => $jobs } : $jobs,
        %{ $opt // {} } });
}

sub problem_is {
    my ($item, $status, $name, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(($item->{type} // 'no problem') . " $item->{status}",
        "https://interlock.invalid/problems/$name $status", $what)
        or diag explain $item;
    cmp_ok(length($item->{detail} // ''), '>', 10, 'with a detail');
}

sub requests { $i->psql('select count(*) from interlock.requests') }


# --- decisions, in order ---------------------------------------------------

my $res = batch([
    { kind => 'free', work_key => 'a:1', idempotency_key => 'k-1',
      payload => { n => 1 }, requested_by => 'kim', reason => 'a test' },
    { kind => 'free', work_key => [ 'a', 'b:c' ], priority => -100 },
    { kind => 'tally', work_key => 'a:2' },
    { kind => 'tally', work_key => 'a:2' },
    { kind => 'tally', work_key => 'a:2' },
    { kind => 'free', work_key => 'a:1' } ]);
is($res->{status}, 200, 'a batch');
my $items = $res->{json}{items};
is(join(' ', map { "$_->{decision}:$_->{code}" } @$items), 'accepted:202 '
    . 'accepted:202 accepted:202 skipped:200 skipped:200 accepted:202',
    'each has its decision, in order');
is($items->[1]{work_key}, 'a:b%3Ac', 'parts of a work key are joined');
is($items->[3]{active_job_id}, $items->[2]{job_id},
    'a later one of the same key sees the earlier');
is($items->[0]{status}, 'queued', 'status is the job\'s');
is($items->[0]{status_url}, "/v1/jobs/$items->[0]{job_id}", 'status_url');
ok(!$res->{headers}{'interlock-decision'}, 'no decision of the whole');
is($c->request(GET => $items->[0]{status_url}, { token => $token{auditor} })
    ->{json}{reason}, 'a test', 'what it says is stored');

my $lease = $c->request(POST => '/v1/leases', { token => $token{worker},
    body => { kinds => ['free'], max => 10 } });
like($lease->{body}, qr/"payload":\{"n":1\}/, 'the payload as it is written');

# the same bytes as an object of the list are the same request
my $same = '{"kind":"free","work_key":"s:1","idempotency_key":"k-2"}';
$res = batch("{\"jobs\":[$same, $same]}");
my @both = @{ $res->{json}{items} };
is($both[0]{job_id}, $both[1]{job_id}, 'a repeat in one batch: one job');
ok(!$both[0]{replayed} && $both[1]{replayed}, 'the second is a replay');
$res = batch("{\"jobs\":[{\"kind\":\"free\",\"work_key\":\"s:2\"},$same]}");
is($res->{json}{items}[1]{job_id}, $both[0]{job_id},
    'a repeat in another batch, in another place');
is($res->{json}{items}[1]{code}, 202, 'with the first code');
problem_is(batch([ { kind => 'free', work_key => 's:3',
    idempotency_key => 'k-2' } ])->{json}{items}[0], 422,
    'idempotency-key-reused', 'the key for another job');
$res = $c->request(POST => '/v1/jobs', { token => $token{submit},
    headers => { 'idempotency-key' => 'k-1' },
    body => { kind => 'free', work_key => 'x' } });
is($res->{status}, 422, 'keys of a batch are those of the API');


# --- bad rows --------------------------------------------------------------

my %ok = (kind => 'free', work_key => 'ok');
my @rows = (
    [ 5, 400, 'field-invalid', 'a number' ],
    [ 'text', 400, 'field-invalid', 'a string' ],
    [ [], 400, 'field-invalid', 'a list' ],
    [ undef, 400, 'field-invalid', 'null' ],
    [ {}, 400, 'field-invalid', 'an empty object' ],
    [ { kind => 'free' }, 400, 'work-key-incomplete', 'no work key' ],
    [ { %ok, work_key => 'a b' }, 400, 'work-key-invalid', 'a space' ],
    [ { %ok, colour => 'red' }, 400, 'unknown-field', 'an unknown field' ],
    [ { %ok, priority => 101 }, 400, 'field-invalid', 'priority 101' ],
    [ { %ok, version => 1.5 }, 400, 'field-invalid', 'version 1.5' ],
    [ { %ok, run_after => 'soon' }, 400, 'field-invalid', 'run_after' ],
    [ { %ok, idempotency_key => '' }, 400, 'idempotency-key-invalid',
      'an empty idempotency key' ],
    [ { %ok, idempotency_key => 'x' x 256 }, 400, 'field-invalid',
      'an idempotency key of 256' ],
    [ { %ok, idempotency_key => "a\nb" }, 400, 'idempotency-key-invalid',
      'a newline in it' ],
    [ { %ok, kind => 'nosuch' }, 404, 'kind-unknown', 'an unknown kind' ],
    [ { %ok, fresh => JSON::PP::true }, 400, 'fresh-not-allowed', 'fresh' ],
    [ { %ok, kind => 'tally' }, 409, 'work-kind', 'one key, two kinds' ]);
my $before = requests();
$res = batch([ \%ok, (map { $_->[0] } @rows), \%ok ]);
is($res->{status}, 200, 'bad rows do not fail the batch');
$items = $res->{json}{items};
is(scalar @$items, @rows + 2, 'an item for each');
is($items->[0]{decision}, 'accepted', 'the good one before them');
is($items->[-1]{decision}, 'accepted', 'the good one behind them');
problem_is($items->[ $_ + 1 ], @{ $rows[$_] }[ 1 .. 3 ]) for 0 .. $#rows;
like($items->[8]{detail}, qr/jobs\[8\]\.colour/, 'which row and field');
is(requests() - $before, 2, 'nothing else was stored');

$res = batch('{"jobs":[{"kind":"free","kind":"free","work_key":"a"}]}');
problem_is($res->{json}{items}[0], 400, 'json-invalid', 'a field twice');


# --- a bad whole -----------------------------------------------------------

$before = requests();
for my $row (
    [ 'no jobs', '{}', 'field-invalid' ],
    [ 'jobs null', '{"jobs":null}', 'field-invalid' ],
    [ 'jobs as an object', '{"jobs":{}}', 'field-invalid' ],
    [ 'an unknown field', '{"jobs":[],"kind":"free"}', 'unknown-field' ],
    [ 'jobs twice', '{"jobs":[],"jobs":[]}', 'json-invalid' ],
    [ 'no JSON', '{"jobs":[', 'json-invalid' ],
    [ 'nothing', '', 'json-invalid' ],
    [ 'a list', '[]', 'json-invalid' ],
    [ '501 jobs', { jobs => [ (\%ok) x 501 ] }, 'field-invalid' ])
{
    my ($what, $body, $name) = @$row;
    $res = batch($body);
    is($res->{status}, 400, $what);
    problem_is($res->{json}, 400, $name, "$what: $name");
}
$res = batch([ \%ok ], { headers => { 'idempotency-key' => 'k' } });
is($res->{status}, 400, 'the header');
problem_is($res->{json}, 400, 'idempotency-key-invalid', 'is refused');
$res = batch([ \%ok ], { headers => { 'idempotency-key' => '' } });
is($res->{status}, 400, 'the header, empty');
is(requests(), $before, 'nothing was stored');
is_deeply(batch([])->{json}, { items => [] }, 'no jobs, no items');

for my $role (qw(worker operator auditor)) {
    is(batch([ \%ok ], { token => $token{$role} })->{status}, 403,
        "$role may not");
}
is(batch([ \%ok ], { token => undef })->{status}, 401, 'nor nobody');
is($c->request(GET => '/v1/jobs:batch', { token => $token{submit} })
    ->{status}, 405, 'GET');


# --- 500, and several at once ----------------------------------------------

$res = batch([ map { { kind => 'free', work_key => "many:$_" } } 1 .. 500 ]);
is($res->{status}, 200, '500 jobs');
is(scalar(grep { $_->{decision} eq 'accepted' } @{ $res->{json}{items} }),
    500, 'each is accepted');
is(join(' ', map { $_->{work_key} } @{ $res->{json}{items} }),
    join(' ', map { "many:$_" } 1 .. 500), 'the answers are in order');

my @c = map { Interlock::FastCGI->of_instance($i) } 1 .. 8;
for my $n (0 .. $#c) {
    $c[$n]->send(POST => '/v1/jobs:batch', { token => $token{submit},
        body => { jobs => [ map { { kind => 'tally', work_key => "one:$_" } }
            1 .. 100 ] } });
}
my %got;
for my $client (@c) {
    my $r = $client->response;
    $got{ $_->{decision} }++ for @{ $r->{json}{items} };
}
is_deeply(\%got, { accepted => 100, skipped => 700 },
    'eight batches over the same keys: one job a key');


# many jobs of one key keep their order, while others ask for that key, too
$c->request(PUT => '/v1/kinds/line', { token => $token{operator},
    body => { overlap => 'buffer_all', max_waiting => 10_000 } });
for my $n (0 .. $#c) {
    $c[$n]->send(POST => '/v1/jobs:batch', { token => $token{submit},
        body => { jobs => [ map { { kind => 'line', payload => "$n $_",
            work_key => $_ % 5 ? 'line:1' : "line:$n:$_" } } 1 .. 60 ] } });
}
is(scalar(grep { $_->{code} == 202 } map { @{ $_->response->{json}{items} } }
    @c), 60 * @c, 'batches with many jobs of one key');
my (%at, $wrong);
while (1) {
    my ($l) = @{ $c->request(POST => '/v1/leases', { token => $token{worker},
        body => { kinds => ['line'] } })->{json}{leases} } or last;
    my ($n, $k) = split ' ', $l->{payload};
    $wrong++ if $l->{work_key} eq 'line:1' && $k < ($at{$n} // 0);
    $at{$n} = $k if $l->{work_key} eq 'line:1';
    $c->request(POST => '/v1/lease/complete',
        { token => $l->{owner_token} });
}
is(join(' ', map { $at{$_} } sort keys %at), join(' ', (59) x @c),
    'all of them run');
is($wrong, undef, 'those of one batch in its order');


# --- one row that the database cannot store --------------------------------

$i->psql(q{
create function public.poison() returns trigger language plpgsql as $$
begin
    if new.work_key like 'poison:%' then
        raise exception 'poisoned';
    end if;
    return new;
end $$;
create trigger poison before insert on interlock.jobs
    for each row execute function public.poison();
});
$before = requests();
$res = batch([ map { { kind => 'free',
    work_key => $_ == 21 ? 'poison:21' : "well:$_" } } 0 .. 49 ]);
$i->psql('drop trigger poison on interlock.jobs; '
    . 'drop function public.poison()');
is($res->{status}, 200, 'fifty jobs, one poisoned');
$items = $res->{json}{items};
is(scalar(grep { ($_->{decision} // '') eq 'accepted' } @$items), 49,
    '49 answers');
problem_is($items->[21], 500, 'internal', 'and one problem');
unlike($res->{body}, qr/poisoned/, 'that tells nothing of the inside');
is(requests() - $before, 49, 'the 49 are stored');

my $xids = $i->psql('select count(distinct xmin::text) from interlock.jobs '
    . "where work_key like 'well:%'");
cmp_ok($xids, '<=', 12, "in $xids transactions: halves, and no "
    . 'subtransaction a row');

$i->check_sql;
done_testing();
