#!/usr/bin/perl

# What is known of a work key, and what is measured of a kind: GET /v1/audit
# and /v1/kinds/{name}/advice, well and badly, by each role.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance(conf => [ 'recover_interval = 100ms' ]);
my $c = Interlock::FastCGI->of_instance($i);
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $r = $i->cli('token', 'create', '--dsn-file', $i->dir . '/dsn',
    '--tenant', 'other', '--name', 'a', '--role', 'auditor', '--out',
    $i->dir . '/tokens/other-auditor');
die $r->{err} if $r->{code};
$token{'other-auditor'} = Interlock::Test::slurp(
    $i->dir . '/tokens/other-auditor') =~ s/\s+\z//r;

sub call {
    my ($method, $uri, $role, $body, %headers) = @_;
    return $c->request($method, $uri, {
        defined $role ? (token => $token{$role} // $role) : (),
        headers => \%headers, defined $body ? (body => $body) : () });
}

sub problem_is {
    my ($res, $status, $name, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is("$res->{status} " . ($res->{json}{type} // $res->{body}),
        "$status https://interlock.invalid/problems/$name", $what);
    cmp_ok(length($res->{json}{detail} // ''), '>', 5, 'with a detail');
}

sub roles_are {
    my ($uri) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(call(GET => $uri, $_)->{status}, 403, "$uri: not for $_")
        for qw(submit worker);
    is(call(GET => $uri, $_)->{status}, 200, "for $_")
        for qw(operator auditor);
    is(call(GET => $uri)->{status}, 401, 'not without a token');
}

my %why = (requested_by => 'kim', reason => 'looked myself');
is(call(PUT => '/v1/kinds/aud', 'operator', { overlap => 'skip',
    lease_seconds => 1, on_lost => 'hold' })->{status}, 200, '(a kind)');


# --- one key's story -------------------------------------------------------

my $key = 'aud:a%2Fb';
my %job = (kind => 'aud', work_key => $key);
my $id = call(POST => '/v1/jobs', 'submit', { %job, requested_by => 'dana',
    reason => 'month end' }, 'idempotency-key' => 'a-1')->{json}{job_id};
call(POST => '/v1/jobs', 'submit', { %job, requested_by => 'dana',
    reason => 'month end' }, 'idempotency-key' => 'a-1');      # duplicate
call(POST => '/v1/jobs', 'submit', \%job);                     # skipped
my $lease = call(POST => '/v1/leases', 'worker', { worker => 'w-1',
    kinds => ['aud'] })->{json}{leases}[0];
$i->wait_for(sub { call(GET => "/v1/jobs/$id", 'auditor')->{json}{status}
    eq 'held' }, 10, 'the job to be held');
is(call(POST => '/v1/lease/complete', $lease->{owner_token},
    { result => { late => 1 } })->{status}, 409, '(a late result is refused)');

my $uri = "/v1/audit?work_key=" . $key =~ s/%/%25/gr;
my $res = call(GET => $uri, 'auditor');
is($res->{status}, 200, 'audit') or diag $res->{body};
is((keys %{ $res->{json} }) && $res->{body} =~ /^\{[^{]*"final"/ ? 1 : 0, 1,
    'which begins with what stands');
my $open = $res->{json}{final}{open};
is(@$open, 1, 'one thing is open');
is("$open->[0]{what} $open->[0]{id} $open->[0]{state}", "job $id held",
    'the job that is held');
ok($open->[0]{since} && $open->[0]{why} =~ /decision/, 'since when and why');
is($res->{json}{final}{result}, undef, 'no result stands');

is(call(POST => "/v1/jobs/$id/decide", 'operator', { action => 'retry', %why })
    ->{status}, 200, '(a person decides)');
$lease = call(POST => '/v1/leases', 'worker', { worker => 'w-2',
    kinds => ['aud'], wait => 5 })->{json}{leases}[0];
call(POST => '/v1/lease/complete', $lease->{owner_token},
    { result => { total => 7 } });
is(call(POST => '/v1/works/' . $key =~ s/%/%25/gr . '/publish', 'operator',
    { revision => 1, %why })->{status}, 200, '(and publishes it again)');

$res = call(GET => $uri, 'operator');
my $audit = $res->{json};
is($audit->{work_key}, $key, 'of this key');
is($audit->{final}{result}{result}{total}, 7, 'its result stands');
is_deeply($audit->{final}{open}, [], 'nothing is open');
is_deeply($audit->{final}{confirmed_effects}, [], 'no effect was made');
is($audit->{next}, undef, 'all on one page');

my @line = @{ $audit->{timeline} };
is(join(' ', grep { !/^(?:refused)$/ } map { $_->{what} } @line),
    'request request request claimed ended action claimed ended published '
    . 'published action', 'its time line')
    or diag explain [ map { $_->{what} } @line ];
is(join("\n", map { $_->{at} } @line), join("\n", sort map { $_->{at} } @line),
    'in order');
my @requests = grep { $_->{what} eq 'request' } @line;
is(join(' ', map { $_->{decision} } @requests), 'accepted duplicate skipped',
    'requests with the decision of each');
is($requests[0]{requested_by}, 'dana', 'and who asked');
my ($refused) = grep { $_->{what} eq 'refused' } @line;
ok($refused, 'what was refused');
my ($first, $last) = grep { $_->{what} eq 'ended' } @line;
is("$first->{call} $last->{call}", 'lost complete', 'how attempts ended');
my ($claimed) = grep { $_->{what} eq 'claimed' } @line;
is("$claimed->{worker} $claimed->{attempt}", 'w-1 1', 'and whose they were');
for my $action (grep { $_->{what} eq 'action' } @line) {
    is("$action->{requested_by}: $action->{reason}", 'kim: looked myself',
        'who acted and why');
    is($action->{token_name}, 'operator', 'beside the token');
    ok($action->{token_id}, 'and its id');
}

# page by page
for my $limit (1, 2, 3, 200) {
    my (@got, $next);
    do {
        my $page = call(GET => "$uri&limit=$limit"
            . (defined $next ? "&cursor=$next" : ''), 'auditor');
        is($page->{status}, 200, "a page of $limit") or last;
        cmp_ok(scalar @{ $page->{json}{timeline} }, '<=', $limit, 'no more')
            if @got == 0;
        push @got, @{ $page->{json}{timeline} };
        $next = $page->{json}{next};
    } while (defined $next && @got < 100);
    is_deeply(\@got, \@line, "in pages of $limit: the same, each once");
}

roles_are($uri);
problem_is(call(GET => $uri, 'other-auditor'), 404, 'not-found',
    "another tenant's key");
problem_is(call(GET => '/v1/audit?work_key=nosuch', 'auditor'), 404,
    'not-found', 'a key that is not known');
for my $row ([ '', 'field-invalid' ], [ 'work_key=', 'field-invalid' ],
    [ 'work_key=a::b', 'work-key-incomplete' ],
    [ 'work_key=a%20b', 'work-key-invalid' ],
    [ 'work_key=a%00', 'field-invalid' ],
    [ "work_key=a&work_key=b", 'field-invalid' ],
    [ 'work_key=a&colour=red', 'unknown-field' ],
    [ 'work_key=a&limit=0', 'field-invalid' ],
    [ 'work_key=a&limit=201', 'field-invalid' ],
    (map { [ "work_key=a&cursor=$_", 'field-invalid' ] } 'x', '1', '1.1',
        '1.1.', '1.11.a', '.1.a', '-.1.a', '1.1.A', '1.1.%27', '1.1.a%0a',
        '1234567890123456789.1.a', '1.1.' . 'a' x 81, '--1.1.a'))
{
    my ($query, $name) = @$row;
    problem_is(call(GET => "/v1/audit?$query", 'auditor'), 400, $name,
        "?$query");
}
is(call(GET => "$uri&cursor=$_", 'auditor')->{status}, 200, "cursor $_: as "
    . 'good as any') for '-1.0.a', '999999999999999999.9.zz', '0.0.-.';
is(call(POST => '/v1/audit', 'operator', {})->{status}, 405, 'POST: 405');


# --- advice ----------------------------------------------------------------

$uri = '/v1/kinds/aud/advice';
roles_are($uri);
$res = call(GET => $uri, 'operator')->{json};
is("$res->{kind} $res->{samples} $res->{lost}", 'aud 2 1',
    'advice: of two attempts, one of them lost');
is($res->{current}{lease_seconds}, 1, 'the present lease');
ok($res->{proposed}{why}, 'and a reason for the one that is proposed');
is($res->{recovery_goal_seconds}, undef, 'without a goal');
ok(exists $res->{$_}{p99}, "$_ has percentiles")
    for qw(run_seconds renewal_gap_seconds wait_seconds);
is(call(GET => "$uri?recovery=20", 'auditor')->{json}{recovery_goal_seconds},
    20, 'with one');
problem_is(call(GET => '/v1/kinds/nosuch/advice', 'operator'), 404,
    'not-found', 'no such kind');
problem_is(call(GET => '/v1/kinds/No%20Name/advice', 'operator'), 404,
    'kind-unknown', 'no kind at all');
problem_is(call(GET => $uri, 'other-auditor'), 404, 'not-found',
    "another tenant's kind");
problem_is(call(GET => "$uri?$_->[0]", 'operator'), 400, $_->[1], $_->[0])
    for [ 'recovery=0', 'field-invalid' ],
        [ 'recovery=86401', 'field-invalid' ],
        [ 'recovery=-5', 'field-invalid' ],
        [ 'recovery=soon', 'field-invalid' ], [ 'goal=5', 'unknown-field' ];

$i->check_sql;
done_testing();
