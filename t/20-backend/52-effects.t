#!/usr/bin/perl

# Effects over HTTP: begin, outcome, lists, what people do about them, effect
# kinds; lost COMMITs; and the edge's own calls, which nobody else can make.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use MIME::Base64 ();
use Test::More;

use Interlock::FastCGI;
use Interlock::PgProxy;
use Interlock::Test;

my $json = JSON::PP->new->canonical->utf8;
my $i = Interlock::Test->instance(start => 0);
my ($real) = $i->dsn('service') =~ /host=(\S+)/;
my $proxy = Interlock::PgProxy->new($real);
(my $dsn = $i->dsn('service')) =~ s/host=\S+/'host=' . $proxy->dir/e;
$i->local_conf('interlockd', "dsn = $dsn\ncheck_threads = 0");
$i->start;

my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $c = Interlock::FastCGI->of_instance($i);
my $n = 0;

sub call {
    my ($method, $path, $token, $body, %headers) = @_;
    return $c->request($method => $path, { token => $token{$token} // $token,
        headers => \%headers, defined $body ? (body => $body) : () });
}

sub lease {
    my ($kind) = @_;
    call(POST => '/v1/jobs', 'submit',
        { kind => $kind // 'free', work_key => 'e:' . ++$n });
    my $l = call(POST => '/v1/leases', 'worker', { kinds => [ $kind // 'free' ],
        wait => 5 })->{json}{leases}[0];
    my $claims = MIME::Base64::decode_base64url(
        (split /\./, $l->{owner_token})[2]);
    $l->{claims} = $json->decode(substr $claims, 0, -64);
    return $l;
}

sub begin {
    my ($l, $name, %more) = @_;
    return call(POST => '/v1/effects', $l->{owner_token},
        { name => $name, kind => 'sample-payment', %more });
}

sub outcome {
    my ($l, $b, %say) = @_;
    return call(POST => "/v1/effects/$b->{json}{effect_id}/outcome",
        $l->{owner_token}, { send_id => $b->{json}{send_id}, %say });
}

sub problem {
    my ($res) = @_;
    my ($name) = ($res->{json}{type} // '') =~ m{([^/]+)\z};
    return "$res->{status} " . ($name // '-');
}

sub state_of {
    return call(GET => "/v1/effects/$_[0]{json}{effect_id}", 'auditor')
        ->{json}{state};
}


# --- begin and outcome -----------------------------------------------------

my $l = lease();
my $b = begin($l, 'charge', target => 'x', request_digest => 'one');
is($b->{status}, 200, 'a begin');
is($b->{json}{decision}, 'send', '... may be sent');
is($b->{json}{state}, 'intended', '... is intended');
like($b->{json}{idempotency_key}, qr/^\Q$b->{json}{effect_id}\E/,
    '... has a key');
is($b->{json}{key_header}, 'Idempotency-Key', '... and its header');
cmp_ok($b->{json}{deadline_ms}, '<=', 5000, '... and a deadline');
my $again = begin($l, 'charge', request_digest => 'one');
is($again->{json}{send_id}, $b->{json}{send_id},
    'a repeated begin of the same owner gets the same send');

# ... as the provider honours keys; but then a refusal may be the second one's
{
    my $b = begin($l, 'repeated');
    begin($l, 'repeated');
    my $o = outcome($l, $b, state => 'failed');
    is($o->{json}{state}, 'unknown', '... a refusal is no definite no then');
    is(begin($l, 'letter', kind => 'sample-mute')->{json}{decision}, 'send',
        'a begin where no keys are honoured');
    is(begin($l, 'letter', kind => 'sample-mute')->{json}{decision},
        'in_progress', '... is not repeated by a call that is not the same');
}

# a begin that names its call: that call alone gets the send again
{
    my @call = map { "01890000-0000-7000-8000-00000000000$_" } 1, 2;
    my @got = map { begin($l, 'named', call => $_)->{json} }
        @call[ 0, 0, 1 ], undef;
    is("@{[ map { $_->{decision} } @got ]}",
        'send send in_progress in_progress', 'begins with a call id');
    is($got[1]{send_id}, $got[0]{send_id}, '... the same gets the same send');
    is($got[2]{send_id}, undef, '... another one gets none');
    is(problem(begin($l, 'named', call => 'x')), '400 field-invalid',
        '... it is a UUID');
}
is(problem(begin($l, 'charge', request_digest => 'two')),
    '409 effect-mismatch', 'another request is refused');

for my $bad ('', 'x' x 257, "a\nb", "a\x{7f}", undef, 5, []) {
    is(problem(begin($l, $bad)), '400 effect-name-invalid',
        'a name that is none');
}
is(begin($l, 'x' x 256)->{status}, 200, '256 bytes are a name');
is(problem(begin($l, 'n', kind => 'nosuch')), '404 effect-kind-unknown',
    'an unknown kind');
is(problem(begin($l, 'n', kind => 'No Such')), '404 effect-kind-unknown',
    '... whatever its name');
is(problem(begin($l, 'n', kind => undef)), '400 field-invalid', 'no kind');
is(problem(begin($l, 'n', compensates => 'x')), '404 compensates-unknown',
    'compensating what is no id');
is(problem(begin($l, 'n', target => 'x' x 1025)), '400 field-invalid',
    'a target that is too long');
is(problem(begin($l, 'n', nosuch => 1)), '400 unknown-field',
    'an unknown field');
is(problem(call(POST => '/v1/effects', 'worker', { name => 'a',
    kind => 'sample-mute' })), '401 owner-token-invalid', 'an API token');
is(problem(call(POST => '/v1/effects', $l->{owner_token}, '{')),
    '400 json-invalid', 'no JSON');

is(problem(outcome($l, $b, state => 'done')), '400 field-invalid',
    'an unknown state');
is(problem(outcome($l, $b)), '400 field-invalid', 'no state');
is(problem(outcome($l, $b, state => 'failed', send_id => undef)),
    '400 field-invalid', 'no send');
is(problem(outcome($l, $b, state => 'failed', send_id => 'x')),
    '400 send-unknown', 'a send that is none');
is(problem(outcome($l, $b, state => 'failed',
    send_id => '00000000-0000-7000-8000-000000000000')), '400 send-unknown',
    'a send of another effect');
is(problem(call(POST => '/v1/effects/x/outcome', $l->{owner_token},
    { send_id => $b->{json}{send_id}, state => 'failed' })), '404 not-found',
    'an effect that is none');
is(problem(call(POST => "/v1/effects/$b->{json}{effect_id}/outcome",
    $l->{owner_token}, '{"send_id":"x","state":"failed","response":{]}')),
    '400 json-invalid', 'a response that is not JSON');
my $other = lease();
is(problem(outcome($other, $b, state => 'confirmed')), '409 send-not-yours',
    'another attempt\'s send');
is(state_of($b), 'intended', 'nothing of this changed it');

my %yes = (state => 'confirmed', provider_ref => 'ch_1',
    response => { id => 'ch_1', sum => 1.10 });
my $o = outcome($l, $b, %yes);
is($o->{status}, 200, 'an outcome');
is($o->{json}{state}, 'confirmed', '... is confirmed');
is($o->{headers}{'idempotency-replayed'}, undef, '... the first time');
$o = outcome($l, $b, %yes);
is($o->{headers}{'idempotency-replayed'}, 'true', 'the same again');
is($o->{json}{state}, 'confirmed', '... gets the same answer');
is(problem(outcome($l, $b, state => 'failed')), '409 effect-conflict',
    'the opposite');
my $charged = begin($l, 'charged');
outcome($l, $charged, state => 'failed');
$o = outcome($l, $charged, state => 'confirmed', provider_ref => 'ch_9');
is("$o->{status} $o->{json}{state}", '200 confirmed',
    'failed, and then it did happen');
is(call(GET => "/v1/effects/$charged->{json}{effect_id}", 'auditor')
    ->{json}{duplicates}, 1, '... which is counted');
$again = begin($l, 'charge', request_digest => 'one');
is($again->{json}{decision}, 'already_confirmed', 'begun again: it happened');
is($again->{json}{provider_ref}, 'ch_1', '... with its reference');
is($again->{json}{response}{id}, 'ch_1', '... and the answer');
is($again->{json}{send_id}, undef, '... and no send');

my $big = begin($l, 'big');
is(outcome($l, $big, state => 'confirmed', provider_ref => 'b',
    response => 'x' x 70_000)->{status}, 200, 'a long response is heard');
is(begin($l, 'big')->{json}{response}, undef, '... and not kept');

my $mute = begin($l, 'mute', kind => 'sample-mute');
is(outcome($l, $mute, state => 'unknown', detail => 'dead line')
    ->{json}{state}, 'unknown', 'nobody knows');
$i->wait_for(sub { state_of($mute) eq 'needs_human' }, 10, 'a human');
is(begin($l, 'mute', kind => 'sample-mute')->{json}{decision}, 'needs_human',
    'nobody can look: a human decides');
my $keyed = begin($l, 'keyed');
outcome($l, $keyed, state => 'unknown');
$again = begin($l, 'keyed');
is($again->{json}{decision}, 'send', 'with keys: sent again');
is($again->{json}{idempotency_key}, $keyed->{json}{idempotency_key},
    '... under the same key');
isnt($again->{json}{send_id}, $keyed->{json}{send_id}, '... as another send');
is(outcome($l, $again, state => 'failed')->{json}{state}, 'unknown',
    'a refusal after an unclear end proves nothing');

my $ended = lease();
my $late = begin($ended, 'late');
call(POST => '/v1/lease/complete', $ended->{owner_token}, {});
is(problem(begin($ended, 'more')), '409 lease-lost', 'an ended owner');
is(outcome($ended, $late, state => 'confirmed', provider_ref => 'l')
    ->{json}{state}, 'confirmed', '... whose late word is heard');
cmp_ok($i->metrics->{'interlock_fence_refusals_total{kind="free",'
    . 'call="effect"}'} // 0, '>=', 1, '... and whose begin is counted');


# --- a lost COMMIT ---------------------------------------------------------

$proxy->drop('interlock.effect_begin', 2);
my $lost = begin($l, 'lost');
is($proxy->dropped, 2, 'the answer to a begin\'s COMMIT is lost, twice');
is($lost->{json}{decision}, 'send', '... the begin is answered');
is($i->psql("select count(*) from interlock.sends where effect_id = "
    . "'$lost->{json}{effect_id}'"), 1, '... with one send');
$proxy->drop('interlock.effect_outcome', 1);
$o = outcome($l, $lost, state => 'confirmed', provider_ref => 'x');
is($proxy->dropped, 3, 'the answer to an outcome\'s COMMIT is lost');
is($o->{json}{state}, 'confirmed', '... the outcome is answered');
is($o->{headers}{'idempotency-replayed'}, undef, '... as the first');
my $human = begin($l, 'human', kind => 'sample-mute');
outcome($l, $human, state => 'unknown');
$proxy->drop('interlock.effect_resolve', 1);
my $r = call(POST => "/v1/effects/$human->{json}{effect_id}/resolve",
    'operator', { outcome => 'happened', requested_by => 'dana',
    reason => 'she saw it' });
is($proxy->dropped, 4, 'the answer to a decision\'s COMMIT is lost');
is($r->{status}, 200, '... it is answered');
is($r->{json}{state}, 'confirmed', '... as done');


# --- what people see and do ------------------------------------------------

my %by = map { $_->{name} => $_ }
    @{ call(GET => "/v1/effects?work_key=$l->{work_key}", 'auditor')
    ->{json}{items} };
is($by{charge}{state}, 'confirmed', 'the list');
is_deeply([ map { $_->{name} } @{ call(GET => "/v1/effects?work_key="
    . "$l->{work_key}&state=confirmed", 'operator')->{json}{items} } ],
    [ qw(human lost big charged charge) ], '... by state, newest first');
is(scalar @{ call(GET => '/v1/effects?kind=sample-mute', 'auditor')
    ->{json}{items} }, 3, '... by kind');
is(scalar @{ call(GET => '/v1/effects?until=2020-01-01T00:00:00Z', 'auditor')
    ->{json}{items} }, 0, '... by time');
my ($next, @pages) = '';
do {
    my $page = call(GET => '/v1/effects?limit=3' . ($next ? "&cursor=$next"
        : ''), 'auditor')->{json};
    push @pages, map { $_->{effect_id} } @{ $page->{items} };
    $next = $page->{next};
} while ($next);
is_deeply(\@pages, [ map { $_->{effect_id} } @{ call(GET => '/v1/effects',
    'auditor')->{json}{items} } ], '... page by page');
for ('state=lost', 'limit=0', 'limit=201', 'cursor=x', 'kind=A', 'nosuch=1',
    'since=yesterday', 'work_key=%20')
{
    is(call(GET => "/v1/effects?$_", 'auditor')->{status}, 400,
        "?$_ is refused");
}

begin($l, $_) for '=cmd|x', 'a "quoted", one';
my $csv = call(GET => "/v1/effects?work_key=$l->{work_key}&limit=3",
    'auditor', undef, Accept => 'text/html, text/csv;q=0.9');
like($csv->{headers}{'content-type'}, qr{^text/csv}, 'CSV');
my @rows = split /\r\n/, $csv->{body};
is(scalar @rows, 4, '... a head and rows');
like($rows[0], qr/^effect_id,name,kind,scope,state,work_key/, '... the head');
like($rows[1], qr/^"[^"]+","a ""quoted"", one",/, '... quoted');
like($rows[2], qr/^"[^"]+","'=cmd\|x",/, '... no formula');
like($csv->{headers}{'interlock-next'}, qr/^\d+_/, '... and the next page');
$csv = call(GET => "/v1/effects?limit=3&cursor="
    . $csv->{headers}{'interlock-next'}, 'auditor', undef,
    Accept => 'text/csv');
is(scalar(split /\r\n/, $csv->{body}), 4, '... which is there');
for ([ 'text/csv;q=0', 'json' ], [ 'application/json, text/csv;q=0.5', 'json' ],
    [ 'application/json;q=0.5, text/csv', 'csv' ], [ '*/*', 'json' ],
    [ 'text/csv, */*;q=0.1', 'csv' ], [ undef, 'json' ])
{
    my ($accept, $is) = @$_;
    like(call(GET => '/v1/effects?limit=1', 'auditor', undef, defined $accept
        ? (Accept => $accept) : ())->{headers}{'content-type'},
        qr{^(?:text|application)/$is\b}, ($accept // 'no Accept') . ": $is");
}

my $doc = call(GET => "/v1/effects/$b->{json}{effect_id}", 'operator')->{json};
is(scalar @{ $doc->{sends} }, 1, 'one effect: its sends');
cmp_ok(scalar @{ $doc->{history} }, '>=', 2, '... and history');
is(call(GET => "/v1/effects/$_", 'auditor')->{status}, 404, "no effect \"$_\"")
    for 'x', '00000000-0000-7000-8000-000000000000';
is(call(GET => '/v1/effects', $_)->{status}, 403, "not for a $_")
    for qw(submit worker);

my $at = "/v1/effects/$mute->{json}{effect_id}/resolve";
my %who = (requested_by => 'dana', reason => 'asked them');
is(problem(call(POST => $at, 'operator', $_)), '400 field-invalid',
    'never without all of it') for { %who }, { %who, outcome => 'maybe' },
    { outcome => 'happened', reason => 'x' },
    { outcome => 'happened', requested_by => 'x' },
    { outcome => 'happened', %who, requested_by => '   ' },
    { outcome => 'happened', %who, reason => " \t\n" },
    { outcome => 'happened', %who, reason => "\x{a0}\x{200b}" };
is(call(POST => $at, 'auditor', { %who, outcome => 'happened' })->{status},
    403, 'an auditor changes nothing');
$r = call(POST => $at, 'operator', { %who, outcome => 'not_happened' });
is($r->{json}{state}, 'failed', 'a human says no');
my ($entry) = grep { ($_->{requested_by} // '') eq 'dana' }
    @{ $r->{json}{history} };
is($entry->{reason}, 'asked them', '... with a reason');
is($entry->{token_name}, 'operator', '... and the token\'s name');
is(begin($l, 'mute', kind => 'sample-mute')->{json}{decision}, 'send',
    '... then it may be sent');
is(problem(call(POST => "/v1/effects/$b->{json}{effect_id}/resolve",
    'operator', { %who, outcome => 'send_again' })), '409 effect-settled',
    'what happened stays');
is(problem(call(POST => "/v1/effects/$keyed->{json}{effect_id}/check",
    'operator', \%who)), '409 check-not-possible', 'nothing to look up with');

my $quick = lease();
my $silent = begin($quick, 'silent', kind => 'sample-mute');
is(call(POST => '/v1/lease/release', $quick->{owner_token}, {})
    ->{json}{status}, 'checking', 'released without a word of its send');
$at = "/v1/effects/$silent->{json}{effect_id}/resolve";
$r = call(POST => $at, 'operator', { %who, outcome => 'not_happened' });
is(problem($r), '409 effect-in-progress',
    'not before the deadline of one who said nothing');
like($r->{json}{detail}, qr/until 20\d\d-/, '... until when');
is(state_of($silent), 'unknown', '... it is as it was');
is(call(POST => $at, 'operator', { %who, outcome => 'happened' })->{status},
    200, 'that it happened may be said at any time');


# --- another tenant --------------------------------------------------------

my $file = $i->dir . '/tokens/other';
$i->cli({}, qw(token create --tenant other --name op --role operator --out),
    $file, '--dsn-file', $i->dir . '/dsn');
my $theirs = Interlock::Test::slurp($file);
chomp $theirs;
for my $path ("/v1/effects/$b->{json}{effect_id}") {
    is(call(GET => $path, $theirs)->{status}, 404, 'another tenant: none');
    is(call(POST => "$path/$_", $theirs, { %who, $_ eq 'resolve'
        ? (outcome => 'happened') : () })->{status}, 404, "... $_")
        for qw(check resolve);
}
is(scalar @{ call(GET => '/v1/effects', $theirs)->{json}{items} }, 0,
    '... an empty list');


# --- effect kinds ----------------------------------------------------------

is($json->encode([ map { $_->{name} } @{ call(GET => '/v1/effect-kinds',
    'operator')->{json}{items} } ]), '["sample-mute","sample-payment"]',
    'the samples');
is(problem(call(PUT => '/v1/effect-kinds/x', 'operator', $_)),
    '400 field-invalid', 'a bad effect kind') for { send_deadline => 0 },
    { key_header => 'Host' }, { outcome_map => { 99 => 'failed' } },
    { outcome_map => { timeout => 'maybe' } }, { key_window => -1 },
    { idempotent => 1 };
is(problem(call(PUT => '/v1/effect-kinds/x', 'operator', { nosuch => 1 })),
    '400 unknown-field', 'an unknown field');
is(call(PUT => '/v1/effect-kinds/x', 'operator', { idempotent =>
    JSON::PP::true, outcome_map => { connect => 'failed', '5xx' => 'retry',
    truncated => 'unknown', reset => 'unknown' } })->{status}, 200,
    'a good one');
is(problem(call(GET => '/v1/effect-kinds/y', 'operator')),
    '404 effect-kind-unknown', 'one that is not there');
is(call(DELETE => '/v1/effect-kinds/x', 'operator')->{status}, 204, 'deleted');
is(problem(begin($l, 'gone', kind => 'x')), '404 effect-kind-unknown',
    '... nothing of it begins');


# --- the edge's calls ------------------------------------------------------

sub edge {
    my ($call, $body) = @_;
    return $c->request(POST => '/internal/effect', { body => $body // '',
        params => { INTERLOCK_EFFECT => ref $call ? $json->encode($call)
        : $call } });
}

my %own = (tenant => 'demo', job => $l->{claims}{sub}, job_kind => 'free',
    attempt => $l->{claims}{jti}, fence => $l->{fence});
my $id = sub { sprintf '01980000-0000-7000-8000-%012d', ++$n };
my %call = (%own, call => 'begin', send => $id->(), name => 'edge',
    kind => 'sample-payment', digest => 'ab' x 32, target => 'POST /x');
$r = edge(\%call);
is($r->{status}, 200, 'the edge begins');
is($r->{headers}{'interlock-effect-decision'}, 'send', '... and may send');
is($r->{headers}{'interlock-effect-id'}, $r->{json}{effect_id}, '... an id');
my $first = $r->{json};
is(edge(\%call)->{json}{send_id}, $first->{send_id},
    'the same call again is the same send');
my $r2 = edge({ %call, send => $id->() });
is(problem($r2), '409 effect-in-progress', 'another one is in progress');
is($r2->{json}{state}, 'intended', '... says its state');
is($r2->{headers}{'retry-after'}, 1, '... later perhaps');

my %told = (%own, call => 'outcome', effect => $first->{effect_id},
    send => $first->{send_id}, status => 201, type => 'application/json',
    whole => JSON::PP::true);
$proxy->drop('interlock.effect_outcome', 1);
$r = edge(\%told, '{"id":"ch_9","ok":true}');
is($r->{status}, 200, 'the edge tells the outcome');
is($r->{headers}{'interlock-effect-state'}, 'confirmed', '... confirmed');
$doc = call(GET => "/v1/effects/$first->{effect_id}", 'operator')->{json};
is($doc->{provider_ref}, 'ch_9', 'the answer\'s id is the reference');
$r = edge({ %call, send => $id->() });
is($r->{status}, 201, 'then the ledger answers');
is($r->{body}, '{"id":"ch_9","ok":true}', '... with what was said');
is($r->{headers}{'interlock-effect-replayed'}, 'true', '... as a replay');
is($r->{headers}{'interlock-effect-decision'}, undef, '... and no leave');

# an answer without a body is an answer
for my $status (200, 204) {
    my %call = (%call, name => "empty $status", send => $id->());
    my $b = edge(\%call)->{json};
    $r = edge({ %own, call => 'outcome', effect => $b->{effect_id}, send =>
        $b->{send_id}, status => $status, whole => JSON::PP::true });
    is($r->{headers}{'interlock-effect-state'}, 'confirmed', "an empty $status");
    $r = edge({ %call, send => $id->() });
    is($r->{status}, $status, '... is what the ledger answers');
    is($r->{body}, '', '... without a body');
    is($r->{headers}{'interlock-effect-replayed'}, 'true', '... as a replay');
    is($r->{headers}{'interlock-effect-id'}, $b->{effect_id}, '... its id');
    $r = begin($l, "empty $status");
    is($r->{json}{decision} // problem($r), 'already_confirmed',
        '... and says so to whoever asks by itself') or diag $r->{body};
    is($r->{json}{response_status}, $status, '... with the status');
}

for ([ 500 => 'unknown', undef ], [ 422 => 'failed', undef ],
    [ 202 => 'unknown', 'E-500' ])
{
    my ($status, $state, $ref) = @$_;
    my $mine = edge({ %call, send => $id->(), name => "id$status" })->{json};
    $r = edge({ %told, effect => $mine->{effect_id}, send => $mine->{send_id},
        status => $status }, '{"id":"E-500"}');
    is($r->{headers}{'interlock-effect-state'}, $state, "a $status: $state");
    $doc = call(GET => "/v1/effects/$mine->{effect_id}", 'operator')->{json};
    is($doc->{provider_ref}, $ref, '... ' . ($ref ? 'its id is the reference'
        : 'the id in it is no reference'));
    is($doc->{sends}[0]{provider_ref}, $ref, '... as the send says');
}

for ([ 'not JSON', '{' ], [ 'no job', { %call, job => 'x' } ],
    [ 'no digest', { %call, digest => 'x' } ], [ 'no name', { %call,
    name => undef } ], [ 'no call', { %call, call => 'x' } ],
    [ 'neither status nor failure', { %told, status => undef } ],
    [ 'both', { %told, failure => 'timeout' } ], [ 'no send', { %told,
    send => undef } ])
{
    is(problem(edge($_->[1])), '400 bad-request', "the edge's call: $_->[0]");
}
is(problem(edge({ %call, tenant => 'nosuch' })), '401 owner-token-invalid',
    'an unknown tenant');
is(problem(edge({ %call, tenant => 'other', send => $id->() })),
    '409 lease-lost', 'another tenant');
is(problem(edge({ %call, fence => 99, send => $id->() })), '409 fence-stale',
    'another fence');
is(problem(edge('')), '404 not-found', 'not without the edge\'s word');
is(problem($c->request(POST => '/internal/effect', { headers => {
    'Interlock-Effect' => $json->encode(\%call) }, body => '' })),
    '404 not-found', '... which no header can say');


# --- metrics ---------------------------------------------------------------

begin($l, 'twice');
my $twice = begin($l, 'twice');
outcome($l, $twice, state => 'unknown');
my $second = begin($l, 'twice');
outcome($l, $second, state => 'confirmed', provider_ref => 'p2');
outcome($l, $twice, state => 'confirmed', provider_ref => 'p1');
my $dup = 'interlock_duplicate_side_effect_total{effect_kind='
    . '"sample-payment",tenant="demo"}';
# (the other one is the charge that was confirmed after it had failed)
$i->wait_for(sub { ($i->metrics->{$dup} // 0) == 2 }, 10, 'the duplicate');
my %m = %{ $i->metrics };
cmp_ok($m{'interlock_effects{effect_kind="sample-payment",state="confirmed",'
    . 'tenant="demo"}'} // 0, '>=', 4, 'effects by kind and state');
cmp_ok($m{'interlock_effect_oldest_unknown_age_seconds{effect_kind='
    . '"sample-payment",tenant="demo"}'} // 0, '>', 0, 'the oldest unknown');
like(scalar($c->request(GET => '/metrics')->{body}),
    qr/^# TYPE interlock_duplicate_side_effect_total counter$/m,
    'what only grows is a counter');

$i->check_sql;
done_testing();
