#!/usr/bin/perl

# How work stands at a glance and over time, what waits for a person, and what
# this installation is: whoever may not see it sees nothing, no secret is in
# it, and two interlockd sample a minute once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance(conf => ['recover_interval = 50ms']);
$i->another_backend('second', recover_interval => '50ms');

my $false = JSON::PP::false;
my %who = (requested_by => 'dana', reason => 'the books');

sub call {
    my ($method, $path, $body, $token) = @_;

    return $i->http($method, $path, { token => $token // 'operator',
        defined $body ? (body => $body) : () });
}

sub good {
    my $res = call(@_);

    $res->{status} =~ /^2/ or die "@_[0, 1]: $res->{status} $res->{body}";
    return $res->{json};
}

sub refused {
    my ($what, $res, $status, $problem, $detail) = @_;

    is("$res->{status} " . ($res->{json}{type} // '') =~ s{.*/}{}r,
        "$status $problem", $what) or diag($res->{body});
    like($res->{json}{detail}, $detail, '... and why') if defined $detail;
}

sub inbox { good(GET => '/v1/inbox' . ($_[0] // ''))->{items} }

sub overview {
    my $o = good(GET => '/v1/overview');
    return { %$o, attention => { map { $_->{what} => $_ }
        @{ $o->{attention} } }, kinds => { map { $_->{kind} => $_ }
        @{ $o->{kinds} } } };
}

# --- who may ---------------------------------------------------------------

for my $path ('/v1/overview', '/v1/config', '/v1/inbox',
    '/v1/series?what=queue')
{
    is(join(' ', map { $i->http(GET => $path,
        { $_ ? (token => $_) : () })->{status} } '', qw(submit worker auditor
        operator)), '401 403 403 200 200', "$path: operators and auditors");
}
refused('an auditor assigns nothing', call(POST => '/v1/inbox/kind:free/assign',
    { requested_by => 'eve', assignee => 'eve' }, 'auditor'), 403, 'forbidden');

# --- one of each -----------------------------------------------------------

good(PUT => '/v1/kinds/hold', { overlap => 'buffer_all', max_waiting => 1,
    overflow => 'park', on_lost => 'hold', lease_seconds => 1 });
good(PUT => '/v1/kinds/many', { overlap => 'allow', max_queued => 2000 });
good(PUT => '/v1/kinds/full', { overlap => 'allow', max_queued => 1 });
good(PUT => '/v1/kinds/sad', { overlap => 'buffer_one' });

my $empty = overview();
is($empty->{attention}{$_}{count}, 0, "$_: nothing")
    for sort keys %{ $empty->{attention} };
is_deeply(inbox(), [], 'nothing waits for a person');

my @hold = map { good(POST => '/v1/jobs', { kind => 'hold', work_key => 'h:1',
    payload => $_ }, 'submit')->{job_id} } 1 .. 3;
my $lease = good(POST => '/v1/leases', { worker => 'w', kinds => ['hold'],
    wait => 10 }, 'worker')->{leases}[0];

for my $n (0 .. 2) {
    good(POST => '/v1/jobs:batch', { jobs => [ map { { kind => 'many',
        work_key => "m:$_" } } $n * 400 + 1 .. $n * 400 + 400 ] }, 'submit');
}
good(POST => '/v1/jobs', { kind => 'full', work_key => 'f:1' }, 'submit');
good(POST => '/v1/jobs', { kind => 'sad', work_key => 's:1' }, 'submit');
my $sad = good(POST => '/v1/leases', { worker => 'w', kinds => ['sad'],
    wait => 10 }, 'worker')->{leases}[0];
$i->http(POST => '/v1/lease/fail', { body => { error => 'no paper',
    retryable => $false }, headers => { authorization =>
    "Bearer $sad->{owner_token}" } })->{json}{status} eq 'failed' or die;
good(POST => '/v1/kinds/many/pause', \%who);

$i->wait_for(sub { @{ inbox('?state=held') } == 1 }, 30, 'the lease to be lost');

my $o = overview();
is($o->{kinds}{many}{queued}, 1000, 'a count goes up to the cap');
is($o->{cap}, 1000, 'which it names');
ok($o->{kinds}{many}{paused}, 'paused');
is_deeply([ map { $o->{kinds}{hold}{$_} } qw(queued running waiting parked) ],
    [ 0, 0, 1, 1 ], 'what waits behind, what is parked');
is($o->{kinds}{full}{queued}, 1, 'one of one');
cmp_ok($o->{kinds}{full}{oldest_age_seconds}, '>=', 0, 'its age');
is($o->{kinds}{sad}{oldest_age_seconds}, undef, 'nothing waits: no age');
is_deeply({ map { $_ => $o->{attention}{$_}{count} } qw(held parked failed
    lost_24h full_queues paused) }, { held => 1, parked => 1, failed => 1,
    lost_24h => 1, full_queues => 1, paused => 1 }, 'what needs attention');
is($o->{attention}{held}{oldest_id}, $hold[0], 'which job is held');
is($o->{attention}{full_queues}{oldest_id}, 'full', 'which queue is full');
is($o->{attention}{lost_24h}{oldest_id}, $hold[0], 'whose lease was lost');
cmp_ok($o->{attention}{oldest_waiting}{count}, '>=', 1000, 'what waits');

# --- the inbox -------------------------------------------------------------

is(join(' ', sort map { $_->{state} } @{ inbox() }),
    'failed held kind_paused parked', 'all that waits for a person');
my @pages;
my $next = '?limit=1';
while (defined $next) {
    my $page = good(GET => "/v1/inbox$next");
    push @pages, map { $_->{id} } @{ $page->{items} };
    $next = defined $page->{next} ? "?limit=1&cursor=$page->{next}" : undef;
}
is_deeply(\@pages, [ map { $_->{id} } @{ inbox() } ], 'page by page');
refused($_->[0], call(GET => "/v1/inbox?$_->[1]"), 400, 'field-invalid', $_->[2])
    for [ 'no such sort', 'what=x', qr/must be one of job, effect/ ],
        [ 'no such state', 'state=x', qr/must be one of held, parked/ ],
        [ 'no kind', 'kind=A', qr/must be the name of a kind/ ],
        [ 'no cursor', 'cursor=x', qr/is not one that this list gave/ ],
        [ 'no limit', 'limit=0', qr/./ ];

my ($held) = @{ inbox('?state=held') };
is($held->{id}, "job:$hold[0]", 'an id');
is($held->{why}, 'it cannot go on by itself: lease expired', 'why');
my $res = call(POST => "/v1/inbox/$held->{id}/assign", { assignee => 'kim',
    due => '2030-01-01T12:00:00+01:00', requested_by => 'dana' });
is("$res->{status} $res->{json}{assignee} $res->{json}{due}",
    '200 kim 2030-01-01T11:00:00.000Z', 'assigned, with its time');
is($i->psql("select assignee from interlock.jobs where id = '$hold[0]'"),
    'kim', 'which is the job\'s own');
is(join(' ', map { $_->{id} } @{ inbox('?assignee=kim') }), $held->{id},
    'and found by it');
refused('nobody says so', call(POST => "/v1/inbox/$held->{id}/assign",
    { assignee => 'kim' }), 400, 'field-invalid', qr/"requested_by"/);
refused('no time', call(POST => "/v1/inbox/$held->{id}/assign",
    { due => 'soon', requested_by => 'dana' }), 400, 'field-invalid', qr/"due"/);
refused('what there is not', call(POST => '/v1/inbox/job%3Ax/assign',
    { requested_by => 'dana' }), 404, 'not-found');

# Every action but those that end it is a call that the server takes.
for my $item (@{ inbox() }) {
    for my $a (@{ $item->{actions} }) {
        $res = call($a->{method}, $a->{path}, { %{ $a->{body} }, reason => 'x' });
        refused("$item->{state}, $a->{name}: a person must say so", $res, 400,
            'field-invalid', qr/"requested_by"/);
    }
}
my ($retry) = grep { $_->{name} eq 'retry' } @{ $held->{actions} };
good(POST => $retry->{path}, { %{ $retry->{body} }, %who });
refused('settled meanwhile', call(POST => "/v1/inbox/$held->{id}/assign",
    { requested_by => 'dana' }), 409, 'inbox-settled', qr/the job is queued/);

my ($failed) = @{ inbox('?kind=sad') };
is($failed->{why}, 'it failed after 1 attempt: no paper', 'a failed one');
refused('a parked job is not left', call(POST => '/v1/inbox/job:' . $hold[2]
    . '/dismiss', \%who), 409, 'decision-not-possible');
refused('nor anything without a reason', call(POST =>
    "/v1/inbox/$failed->{id}/dismiss", { requested_by => 'dana' }), 400,
    'field-invalid');
is(call(POST => "/v1/inbox/$failed->{id}/dismiss", \%who)->{status}, 204,
    'a failed one may be');
is_deeply(inbox('?kind=sad'), [], 'nobody need see to it any more');
good(POST => '/v1/kinds/many/resume', \%who);
is(join(' ', map { $_->{state} } @{ inbox() }), 'parked', 'one is left');

# --- over time -------------------------------------------------------------

# The minute is sampled anew, by whichever comes first.
for my $round (1 .. 6) {
    $i->psql('begin; delete from interlock.series_queue;'
        . ' delete from interlock.series_minutes; commit');
    $i->wait_for(sub { $i->psql('select count(*) from interlock.series_queue')
        > 0 }, 20, 'a sample');
}
is($i->psql('select count(*) from interlock.series_queue where kind = '
    . '\'many\' and minute = (select max(minute) from '
    . 'interlock.series_minutes)'), 1, 'a minute is sampled once');
my $q = good(GET => '/v1/series?what=queue&kind=many&hours=1');
is($q->{step_seconds}, 60, 'a minute a step');
is($q->{points}[-1]{queued}, 1200, 'all that is queued, without a cap');
is(good(GET => '/v1/series?what=queue&hours=336')->{step_seconds}, 3360,
    'two weeks have longer steps');
cmp_ok(good(GET => '/v1/series?what=queue')->{points}[-1]{queued}, '>=', 1201,
    'all kinds together');
my $none = good(GET => '/v1/series?what=queue&kind=nosuch&hours=1')->{points}[-1];
delete $none->{at};
is_deeply($none, { map({ $_ => 0 } qw(queued running waiting parked)),
    oldest_age_seconds => undef }, 'none of another kind');
refused("series$_->[0]", call(GET => "/v1/series$_->[0]"), 400, 'field-invalid',
    $_->[1]) for [ '', qr/"what"/ ], [ '?what=x', qr/"what"/ ],
    [ '?what=queue&hours=337', qr/"hours"/ ], [ '?what=queue&kind=A', qr/"kind"/ ];

# What nginx answered alone is counted as that, in the minute that it came.
my $body = '{"ref":"r","repository":{"full_name":"a/b"}}';
$i->github($body, { delivery => 'once' })->{status} == 202 or die;
is($i->github($body, { delivery => 'once' })->{headers}{'interlock-decision'},
    'duplicate', 'nginx answers a repeat');
$i->wait_for(sub { $i->psql('select count(*) from interlock.requests where '
    . 'source = \'github\'') == 2 }, 20, 'the record of it');
$i->psql('select interlock.series_sample_decisions(date_trunc(\'minute\', '
    . 'clock_timestamp()) + interval \'1 minute\')') for 1, 2;
my $d = good(GET => '/v1/series?what=decisions&kind=github-push&hours=1');
my %sum;
for my $point (@{ $d->{points} }) {
    $sum{$_} += $point->{$_} for grep { $_ ne 'at' } keys %$point;
}
is_deeply(\%sum, { accepted => 1, duplicate => 1, alone => 1 },
    'what was decided, counted twice over and once');
my $edge = overview()->{edge};
is($edge->{alone}, 1, 'alone, in the last hour');
cmp_ok($edge->{decisions}{accepted}, '>=', 1203, 'beside all others');
is("$edge->{received} $edge->{missing}", '1 0', 'and none is missing');

# --- what this is ----------------------------------------------------------

good(POST => '/v1/sources/shop/pause', \%who);
my $c = good(GET => '/v1/config');
my %source = map { $_->{name} => $_ } @{ $c->{sources} };
is($source{github}{requests_24h}, 2, 'a source, and what came from it');
is($source{shop}{paused}{reason}, 'the books', 'one that is paused');
is_deeply([ $c->{database}{ok} ? 1 : 0, $c->{database}{epoch},
    $c->{database}{schema_version} ],
    [ 1, @{ good(GET => '/readyz') }{qw(epoch schema_version)} ],
    'the database, as readiness knows it');
is($c->{migrations}[-1]{id}, $c->{database}{schema_version}, 'its migrations');
is($c->{settings}{recover_interval}, '50ms', 'a setting, as it is written');
is_deeply([ grep { /dsn|dir|secret|listen|socket|pid|^log$/ }
    keys %{ $c->{settings} } ], [], 'none with a path or a secret');
is_deeply([ map { $_->{kid} } @{ $c->{keys} } ],
    [ map { $_->{kid} } @{ good(GET => '/v1/keys')->{keys} } ], 'its keys');
is($c->{edges}{received}, 1, 'the edge');

my $text = call(GET => '/v1/config')->{body};
my @secrets = map { grep { length > 7 } split /\s+/, Interlock::Test::slurp($_) }
    grep { -f } glob "$i->{dir}/{tokens,secrets,keys,alert-secrets}/*";
cmp_ok(scalar @secrets, '>', 10, 'secrets there are');
is(scalar(grep { index($text, $_) >= 0 } @secrets), 0, 'none is in it');
unlike($text, qr/\Q$i->{dir}\E|host=|password|user=/,
    'nor a path, nor a connection string');

$i->check_sql;
done_testing;
