#!/usr/bin/perl

# Tickets and buttons, through nginx and behind it: what a press becomes, who
# may look at it, what a browser sees, and the page of a form without a
# script.

use strict;
use warnings;
use utf8;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Encode qw(encode_utf8);
use JSON::PP;
use MIME::Base64 qw(decode_base64url);
use Test::More;
use Time::HiRes qw(time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance(conf => [ 'parked_max = 8' ]);
my $c = Interlock::FastCGI->of_instance($i);
my $json = JSON::PP->new->utf8->canonical;

$i->cli({ token => 'operator', stdin => '{"overlap":"skip",'
    . '"key_template":"look:{what}"}' }, qw(kind put look -));
$i->cli({ token => 'operator', stdin => '{"overlap":"buffer_one",'
    . '"max_queued":1}' }, qw(kind put narrow -));

sub ticket_res {
    my ($opt, %body) = @_;
    return $i->http(POST => '/v1/tickets', { token => 'submit',
        body => { kind => 'tally', work_key => 'tally:1', user => 'kim',
                  %body }, %$opt });
}

sub ticket { return ticket_res({}, @_)->{json}{ticket} // die 'no ticket' }

my $n = 0;

# press(kind, ticket, headers): a script's
sub press {
    my ($kind, $ticket, %h) = @_;
    return $i->http(POST => "/button/$kind", { headers => {
        'Interlock-Ticket' => $ticket, 'Idempotency-Key' => 'k' . ++$n,
        %h } });
}

sub look {
    my ($ticket, $job, %h) = @_;
    return $i->http(GET => "/button/jobs/$job",
        { headers => { 'Interlock-Ticket' => $ticket, %h } });
}

sub problem {
    my ($res) = @_;
    my ($name) = ($res->{json}{type} // '') =~ m{/problems/(.+)};
    return "$res->{status} " . ($name // '-');
}

sub claim {
    my (@kinds) = @_;
    return $i->http(POST => '/v1/leases', { token => 'worker',
        body => { kinds => \@kinds, wait => 5 } })->{json}{leases}[0];
}

sub owner {
    my ($lease, $verb, $body) = @_;
    return $i->http(POST => "/v1/lease/$verb", { body => $body // {},
        headers => { Authorization => "Bearer $lease->{owner_token}" } });
}


# --- tickets ---------------------------------------------------------------

my $res = ticket_res({});
is($res->{status}, 201, 'a ticket');
is_deeply([ sort keys %{ $res->{json} } ], [qw(expires_at ticket)],
    'and its end');
my $bytes = decode_base64url((split /\./, $res->{json}{ticket})[2]);
my $claims = $json->decode(substr $bytes, 0, -64);
is_deeply({ map { $_ => $claims->{$_} }
    qw(iss aud tenant kind work_key user exp) },
    { iss => 'interlock', aud => 'button', tenant => 'demo',
      kind => 'tally', work_key => 'tally:1', user => 'kim',
      exp => $res->{json}{expires_at} }, 'its claims');

sub seconds {
    my ($from, $to) = map { $claims->{$_} =~ /T(\d\d):(\d\d):(\d\d)/
        ? $1 * 3600 + $2 * 60 + $3 : die } qw(iat exp);
    return ($to - $from) % 86400;
}
is(seconds(), 900, 'good for a quarter of an hour');

for (
    [ '400 field-invalid', 'no kind', kind => undef ],
    [ '404 kind-unknown', 'an unknown kind', kind => 'nosuch' ],
    [ '400 field-invalid', 'no name of a kind', kind => '../x' ],
    [ '400 field-invalid', 'a kind of look-ups', kind => 'result-check' ],
    [ '400 work-key-incomplete', 'no work key', work_key => undef ],
    [ '400 work-key-incomplete', 'an empty part', work_key => [ 'a', '' ] ],
    [ '400 work-key-invalid', 'a blank in it', work_key => 'a b' ],
    [ '400 work-key-mismatch', 'not the kind\'s template', kind => 'look',
      work_key => 'a:b:c' ],
    [ '400 field-invalid', 'no user', user => undef ],
    [ '400 field-invalid', 'an empty one', user => '' ],
    [ '400 field-invalid', 'one with a new line', user => "a\nb" ],
    [ '400 field-invalid', 'too long a one', user => 'x' x 256 ],
    [ '400 field-invalid', 'no time', seconds => 0 ],
    [ '400 field-invalid', 'too much', seconds => 86401 ],
    [ '400 field-invalid', 'no number', seconds => '60' ],
    [ '400 unknown-field', 'another field', payload => {} ],
) {
    my ($want, $name, @body) = @$_;
    is(problem(ticket_res({}, @body)), $want, "refused: $name");
}
is(problem(ticket_res({ token => $_ })), '403 forbidden', "by role $_")
    for qw(worker operator auditor);
is(problem(ticket_res({ token => undef })), '401 token-invalid',
    'without a token');
$res = ticket_res({}, work_key => [ 'tally', 'a:b', '<é>' ],
    seconds => 86400);
is($res->{status}, 201, 'parts, and a day');


# --- presses ---------------------------------------------------------------

my $t = ticket();
$res = press('tally', $t, 'Idempotency-Key' => 'first');
is("$res->{status} $res->{json}{decision}", '202 accepted', 'pressed');
my $job = $res->{json}{job_id};
is($res->{headers}{location}, "/button/jobs/$job", 'where it leads');
is($res->{json}{status_url}, "/button/jobs/$job", 'in the body, too');
is_deeply([ $i->sql("select source, requested_by, kind, work_key
    from interlock.jobs where id = '$job'") ],
    [ [ 'button', 'kim', 'tally', 'tally:1' ] ],
    'the job: whose, and of what');

my $again = press('tally', ticket(seconds => 60),
    'Idempotency-Key' => '"first"');
is($again->{body}, $res->{body}, 'pressed again: the same answer');
is($again->{headers}{'interlock-decision'}, 'duplicate', 'a duplicate');
like(`tail -n 1 '${\ $i->dir }/log/access.log'`, qr/upstream=- /,
    'of which the backend has not heard');
is(problem(press('tally', ticket(user => 'lee'),
    'Idempotency-Key' => 'first')), '422 idempotency-key-reused',
    'another user\'s press under that key is refused');
is(problem(press('tally', ticket(work_key => 'tally:2'),
    'Idempotency-Key' => 'first')), '422 idempotency-key-reused',
    'and one for other work');

my $double = press('tally', $t);
is("$double->{status} $double->{json}{decision} $double->{json}{job_id}",
    "200 skipped $job", 'under another key: the work is under way');
my $lee = press('tally', ticket(user => 'lee'));
is("$lee->{json}{decision} $lee->{json}{job_id}", "skipped $job",
    'so for somebody else');
$i->wait_for(sub { my ($row) = $i->sql("select count(*) from
    interlock.requests where source = 'button'"); $row->[0] >= 6 }, 10,
    'the edge\'s own answers on record');
is($i->psql("select string_agg(distinct requested_by, ',') from
    interlock.requests where work_key = 'tally:1' and requested_by is not null"),
    'kim,lee', 'who pressed is on record');

is(problem(press('look', $t)), '401 ticket-invalid', 'another kind\'s button');
is(problem(press('tally', $t, 'Interlock-Fresh' => 'true')),
    '400 fresh-not-allowed', 'a fresh run, if the kind permits');
is(problem(press('nosuch', $t)), '401 ticket-invalid', 'no button at all');
my $odd = ticket(work_key => [ 'tally', 'a:b', '<b>"é' ]);
$res = press('tally', $odd);
is($res->{json}{work_key}, 'tally:a%3Ab:<b>"é', 'an odd work key');
my $odd_key = encode_utf8($res->{json}{work_key});

# each sort of token is good for itself alone
my $lease = claim('tally');
is($lease->{job_id}, $job, 'a worker has it');
is(problem(press('tally', $lease->{owner_token})), '401 ticket-invalid',
    'an owner token is no ticket');
is(problem(owner({ owner_token => $t }, 'renew')), '401 owner-token-invalid',
    'a ticket is no owner token');
is(problem($i->http(POST => '/out/sample/x', { headers => {
    'Interlock-Owner-Token' => $t, 'Interlock-Effect' => 'x' } })),
    '401 owner-token-invalid', 'nor is it for the fencing proxy');
is(problem($i->http(GET => '/v1/jobs', { headers =>
    { Authorization => "Bearer $t" } })), '401 token-invalid',
    'nor an API token');
is(problem(press('tally', $i->token('submit'))), '401 ticket-invalid',
    'an API token is no ticket');

# another tenant's, by the same keys
$i->cli({}, qw(token create --tenant other --name web --role submit --out),
    $i->dir . '/other', '--dsn-file', $i->dir . '/dsn');
open my $fh, '<', $i->dir . '/other' or die;
chomp(my $other = <$fh>);
$i->psql(q{select interlock.kind_put((select id from interlock.tenants
    where name = 'other'), 'tally', '{"overlap":"skip"}')});
my $foreign = $i->http(POST => '/v1/tickets', { headers =>
    { Authorization => "Bearer $other" }, body => { kind => 'tally',
      work_key => 'tally:1', user => 'kim' } })->{json}{ticket};
ok($foreign, 'another tenant has tickets, too');
is(problem(press('tally', $foreign)), '401 ticket-invalid',
    '... which are not for this location');
is(problem(look($foreign, $job)), '401 ticket-invalid', '... nor to look');


# --- without the edge ------------------------------------------------------

my %edge = (INTERLOCK_TENANT => 'demo', INTERLOCK_SOURCE => 'button',
    INTERLOCK_KIND => 'tally', INTERLOCK_WORK_KEY => 'tally:1',
    INTERLOCK_VERIFIED => 'ticket');

sub direct {
    my ($method, $path, $headers, %params) = @_;
    return problem($c->request($method, $path,
        { headers => $headers, params => \%params }));
}
my %h = ('interlock-ticket' => $t, 'idempotency-key' => 'direct');
is(direct(POST => '/button/tally', \%h), '401 ticket-invalid',
    'a good ticket that the edge has not verified');
is(direct(POST => '/button/tally', { 'idempotency-key' => 'x' }, %edge),
    '401 ticket-invalid', 'the edge\'s word without a ticket');
is(direct(POST => '/button/tally', { %h,
    'interlock-ticket' => $lease->{owner_token} }, %edge),
    '401 ticket-invalid', 'or with an owner token');
is(direct(POST => '/button/look', \%h, %edge, INTERLOCK_KIND => 'look'),
    '401 ticket-invalid', 'an edge with another kind in its configuration');
is(direct(POST => '/button/tally', \%h, %edge,
    INTERLOCK_TENANT => 'other'), '401 ticket-invalid', 'or another tenant');
is(direct(POST => '/button/tally', \%h, %edge,
    INTERLOCK_WORK_KEY => 'tally:9'), '401 ticket-invalid',
    'or another work key');
is(direct(POST => '/button/look', \%h, %edge), '401 ticket-invalid',
    'or another path');
is(direct(GET => "/button/jobs/$job", \%h), '401 ticket-invalid',
    'the same for a look');
is(direct(POST => '/button/tally', { 'interlock-ticket' => $t }, %edge),
    '400 idempotency-key-missing', 'a press without a key');
is(direct(DELETE => '/button/tally', \%h, %edge), '405 method-not-allowed',
    'DELETE');
is($c->request(POST => '/button/tally', { headers => \%h,
    params => \%edge })->{json}{decision}, 'skipped', 'with all of it');


# --- what a browser sees ---------------------------------------------------

my $evil = '"\'><script>alert(1)</script><img src=x onerror=alert(2)>';

is(owner($lease, 'progress', { progress => { done => 3, total => 40,
    note => $evil } })->{status}, 200, 'progress');
$res = look($t, $job);
is_deeply([ sort keys %{ $res->{json} } ], [ sort qw(job_id status decision
    progress result_url user_message retry_at created_at started_at
    finished_at superseded_by) ], 'a job as a browser sees it: nothing else');
is("$res->{json}{status} $res->{json}{progress}{done}", 'running 3',
    'how far it is');
$res = $i->http(GET => '/button/tally',
    { headers => { 'Interlock-Ticket' => $t } });
is($res->{json}{active}{job_id}, $job, 'a page that was loaded again');
is($res->{json}{last}, undef, '... nothing has ended yet');

is(problem(look($odd, $job)), '404 not-found', 'a job of another work key');
is(problem(look(ticket(kind => 'free', work_key => 'free:1'), $job)),
    '404 not-found', 'of another kind');
is(problem(look($t, '01980000-0000-7000-8000-000000000001')),
    '404 not-found', 'none');
is(problem(look($t, 'x')), '404 not-found', 'no id');

is(problem(owner($lease, 'complete', { result_url => $_ })),
    '400 field-invalid', "no result at $_") for 'javascript:alert(1)',
    "java\tscript:alert(1)", 'data:text/html,x', ' /x', 'JAVASCRIPT://x';

# parked until it ends
my $parked = Interlock::FastCGI->of_instance($i);
$parked->send(GET => "/button/jobs/$job", { params => \%edge,
    headers => { 'interlock-ticket' => $t, prefer => 'wait=20' } });
my $stranger = Interlock::FastCGI->of_instance($i);
$stranger->send(GET => "/button/jobs/$job", { params => { %edge,
    INTERLOCK_WORK_KEY => $odd_key },
    headers => { 'interlock-ticket' => $odd, prefer => 'wait=20' } });
my $started = time;
is($stranger->response(5)->{status}, 404, 'who may not see it waits not');
ok(!$parked->response(0.2), 'who may, does');
is(owner($lease, 'complete', { result_url => '/reports/1?a="b"' })
    ->{status}, 200, 'it is done');
$res = $parked->response(10);
is("$res->{json}{status} $res->{json}{result_url}",
    'succeeded /reports/1?a="b"', 'and told at once');
cmp_ok(time - $started, '<', 15, '... not at the end of the wait');

$res = $i->http(GET => '/button/tally',
    { headers => { 'Interlock-Ticket' => $t } });
is($res->{json}{active}, undef, 'nothing is under way now');
is($res->{json}{last}{result_url}, '/reports/1?a="b"', 'the last result');

# what was stored before addresses were looked at
for my $url ('javascript:alert(1)', 'data:text/html,x', "/a b") {
    $i->psql("update interlock.jobs set result_url = '$url'
        where id = '$job'");
    is(look($t, $job)->{json}{result_url}, undef, "$url never leaves");
}
$i->psql("update interlock.jobs set result_url = null where id = '$job'");
is(look($t, $job)->{json}{result_url}, undef,
    'nor does the API\'s own address');

owner(claim('tally'), 'complete');                      # the odd one
$res = press('tally', $t);
$lease = claim('tally');
is($lease->{job_id}, $res->{json}{job_id}, 'pressed when it is done: anew');
is(problem(owner($lease, 'fail', { error => 'x',
    log_url => 'javascript:alert(1)' })), '400 field-invalid',
    'logs are looked at, too');
owner($lease, 'fail', { error => 'secret of the inside', retryable =>
    JSON::PP::false, user_message => $evil,
    log_url => 'https://logs.example/1' });


# --- pages -----------------------------------------------------------------

sub page {
    my ($path, $ticket, %field) = @_;
    my $body = join '&', map { my $v = $field{$_};
        $v =~ s/([^A-Za-z0-9._-])/sprintf '%%%02X', ord $1/ge; "$_=$v" }
        sort keys %field;
    my $r = $i->http(POST => $path, { body => "ticket=$ticket&$body",
        headers => { 'Content-Type' => 'application/x-www-form-urlencoded',
            Accept => 'text/html,application/xhtml+xml,*/*;q=0.8',
            Origin => $i->url } });
    my ($title) = $r->{body} =~ m{<h1>(.*?)</h1>};
    $r->{title} = $title // '';
    return $r;
}

my $failed = $res->{json}{job_id};
$res = page("/button/jobs/$failed", $t);
is("$res->{status} $res->{title}", '200 Failed', 'a page about a failure');
is($res->{headers}{'content-type'}, 'text/html; charset=utf-8', 'HTML');
like($res->{headers}{'content-security-policy'},
    qr/default-src 'none';.*form-action 'self'; frame-ancestors 'none'/,
    'with a policy');
is($res->{headers}{'cache-control'}, 'no-store', 'kept nowhere');
unlike($res->{body}, qr/<script|<img|onerror=alert\(2\)>/,
    'nothing of it is executed');
like($res->{body}, qr/&lt;script&gt;alert\(1\)/, 'but shown');
unlike($res->{body}, qr/secret of the inside|logs\.example/,
    'what is not for users is not');
unlike($res->{body}, qr/<form/, 'there is nothing to wait for');

my $w = ticket(kind => 'daily-sales', work_key => 'sales:7');
$res = page('/button/daily-sales', $w, idempotency_key => 'p1');
is("$res->{status} $res->{title}", '200 Waiting', 'pressed without a script');
my ($action, $again_ticket) = $res->{body} =~
    m{action="(/button/jobs/[0-9a-f-]{36})">\s*<input type="hidden" name="ticket" value="([^"]+)">};
ok($action, 'with a way to look again');
is($again_ticket, $w, '... by the ticket, in the form');
unlike($action, qr/v4\.public/, '... not in its address');
page('/button/daily-sales', $w, idempotency_key => 'p1');
is($i->psql("select count(*) from interlock.jobs where kind = 'daily-sales'"),
    1, 'sent again: one job');

$lease = claim('daily-sales');
owner($lease, 'progress', { progress => { done => 3, total => 40,
    note => $evil } });
$res = page($action, $w);
is($res->{title}, 'Under way', 'looked at again');
like($res->{body}, qr/It is being done: 3 of 40\./, 'how far');
unlike($res->{body}, qr/<script|<img/, 'whatever the worker says');
is(page($action, $odd)->{status}, 404, 'with another\'s ticket');

$parked = Interlock::FastCGI->of_instance($i);
owner($lease, 'complete', { result_url => 'https://x.example/?a=<"\'&b' });
$res = page('/button/daily-sales', $w, idempotency_key => 'p1');
is($res->{title}, 'Done', 'a reload shows the end');
like($res->{body}, qr{<a href="https://x\.example/\?a=&lt;&quot;&#39;&amp;b"},
    'with the result');
is(page('/button/daily-sales', $w, idempotency_key => 'p2')->{title}, 'Done',
    'pressed again: it is done already');

# pages never take the last places of workers that wait
my @waiting = map { Interlock::FastCGI->of_instance($i) } 1 .. 4;
$_->send(POST => '/v1/leases', { token => $i->token('worker'),
    body => { kinds => ['free'], wait => 20 } }) for @waiting;
$i->wait_for(sub { ($i->metrics->{interlock_parked_requests} // 0) >= 4 }, 5,
    'waiting workers');
$parked = Interlock::FastCGI->of_instance($i);
my $open = press('tally', ticket(work_key => 'tally:open'))->{json}{job_id};
$parked->send(GET => "/button/jobs/$open", { params => { %edge,
    INTERLOCK_WORK_KEY => 'tally:open' }, headers => {
    'interlock-ticket' => ticket(work_key => 'tally:open'),
    prefer => 'wait=20' } });
$res = $parked->response(10);
is($res && $res->{json}{status}, 'queued',
    'where half of them are taken a page is answered at once');
$_->close for @waiting;

# a later press takes the place of one that waits
my $line = ticket(kind => 'daily-sales', work_key => 'sales:line');
press('daily-sales', $line);
claim('daily-sales');
my ($waits, $later) = map { press('daily-sales', $line,
    'Interlock-Fresh' => 'true')->{json}{job_id} } 1, 2;
isnt($waits, $later, 'two presses for a fresh run behind one that runs');
is(look($line, $waits)->{json}{superseded_by}, $later,
    '... the later in the place of the other');
$res = page("/button/jobs/$waits", $line);
is($res->{title}, 'Replaced', '... in words');
like($res->{body}, qr{action="/button/jobs/$later"}, '... and which');

$i->http(POST => '/v1/jobs', { token => 'submit',
    body => { kind => 'narrow', work_key => 'n:0' } });
my $narrow = ticket(kind => 'narrow', work_key => 'n:1');
$res = page('/button/narrow', $narrow, idempotency_key => 'busy-"1"');
is("$res->{status} $res->{title}", '429 Too busy', 'too busy');
like($res->{body}, qr/Try again in \d+ (?:second|minute|hour)/, 'when again');
cmp_ok($res->{headers}{'retry-after'}, '>', 0, 'for machines, too');
like($res->{body}, qr/name="idempotency_key" value="busy-&quot;1&quot;"/,
    'the same press again');
$res = press('narrow', $narrow);
is(problem($res), '429 queue-full', 'a script is told so');
ok($res->{headers}{'retry-after'}, '... and when');

$res = page('/button/daily-sales', substr($w, 0, -1),
    idempotency_key => 'x');
is("$res->{status} $res->{title}", '401 This page is too old',
    'a bad ticket, in words');
$res = page('/button/daily-sales', $w, x => 1);
is($res->{status}, 400, 'no key');
$res = page('/button/tally', $t, idempotency_key => 'f', fresh => 'on');
is("$res->{status} $res->{title}", '400 Not started', 'no fresh run');
$res = page('/button/tally', $t, idempotency_key => 'first');
is($res->{title}, 'Done', 'one that was pressed by a script');
$res = page('/button/tally', ticket(user => 'lee'),
    idempotency_key => 'first');
is($res->{status}, 422, '... but by another');

# the command makes tickets, too
my $cli = $i->cli({ token => 'submit' }, qw(ticket --kind tally --key tally:c
    --user), 'kim "k"', qw(--seconds 30));
like($cli->{out}, qr/^v4\.public\.\S+\n\z/, 'interlock ticket') or diag $cli->{err};
chomp(my $made = $cli->{out});
is(press('tally', $made)->{json}{work_key}, 'tally:c', '... which is good');
$cli = $i->cli({ token => 'submit' }, qw(ticket --kind tally --key tally:c
    --user kim --json));
ok($cli->{json}{expires_at}, '... with its end, for programs');
isnt($i->cli({ token => 'worker' }, qw(ticket --kind tally --key a))->{code},
    0, '... not for every role');

# interlockd is away: in words, or as a problem
my $sock = Interlock::FastCGI::socket_path($i);
rename $sock, "$sock.away" or die "$sock: $!";
$i->reload;                             # its kept-alive connections end
$i->wait_for(sub { press('tally', $t)->{status} == 503 }, 10,
    'nginx without interlockd');
$res = page('/button/tally', $t, idempotency_key => 'away');
is("$res->{status} $res->{title}", '503 Not available', 'the backend is away');
like($res->{headers}{'content-security-policy'}, qr/default-src 'none'/,
    '... with a policy');
$res = press('tally', $t, 'Idempotency-Key' => 'away');
is(problem($res), '503 unavailable', '... a script is told as always');
rename "$sock.away", $sock or die "$sock: $!";
is(press('tally', $t, 'Idempotency-Key' => 'away')->{status}, 202,
    '... and the same press goes through afterwards');

my $huge = $i->http(POST => '/button/tally', { headers =>
    { 'Interlock-Ticket' => $t, 'Idempotency-Key' => 'h' },
    body => 'x' x 100_000 });
is($huge->{status}, 413, 'a huge body');

# nothing of tickets is written down
my $dir = $i->dir;
is(`grep -rlF v4.public '$dir/log' 2>/dev/null`, '', 'no ticket in a log');
is($i->psql("select count(*) from interlock.payloads p
    join interlock.jobs j on j.tenant = p.tenant and j.id = p.job_id
    where j.source = 'button'
        and (p.payload is not null or p.headers is not null)"), 0,
    'nor anything of the request in the database');
$i->check_sql;

done_testing();
