#!/usr/bin/perl

# Alerts, at a real receiver: what begins to hold is told once, and once that
# it is over, signed as a Standard Webhook; a receiver that is down, redirects
# or refuses; interlockd killed in the middle; two interlockd.  And what stands
# still: kinds that are paused, or stopped by the age of their queue, and
# sources.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use MIME::Base64 qw(encode_base64);
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

use Interlock::Answers;
use Interlock::Test;

my $json = JSON::PP->new->canonical;
my $s = Interlock::Answers->new(other => 'http://localhost:1');
my $port = $s->port;
$s->set('204 No Content', '');

my $i = Interlock::Test->instance(conf => [
    'recover_interval = 50ms',
    "alert_hosts = 127.0.0.1:$port localhost:$port 169.254.169.254:80",
    "alert_private = 127.0.0.1:$port 169.254.169.254:80",
    "check_hosts = 127.0.0.1:$port", "check_private = 127.0.0.1:$port",
    'log_level = info',
]);

my $KEY = 'a key that nobody may see, ever!';
my $SECRET = 'whsec_' . encode_base64($KEY, '');
my $file = "$i->{dir}/alert-secrets/ops";
Interlock::Test::spew($file, "$SECRET\n");
my $short = "$i->{dir}/alert-secrets/short";
my $empty = "$i->{dir}/alert-secrets/empty";
Interlock::Test::spew($empty, "whsec_\n");
Interlock::Test::spew($short, 'whsec_' . encode_base64('x' x 23, '') . "\n");
chmod 0600, $file, $short, $empty;
chown +(stat "$i->{dir}/alert-secrets")[4], -1, $file, $short, $empty
    if $> == 0;

sub call {
    my ($method, $path, $body, $token) = @_;

    return $i->http($method, $path, { token => $token // 'operator',
        defined $body ? (body => $body) : () });
}

sub good {
    my ($what, $res) = @_;

    ok($res->{status} =~ /^2/, $what) or diag("$res->{status} $res->{body}");
    return $res->{json};
}

sub put_alert {
    my ($name, %doc) = @_;

    return call(PUT => "/v1/alerts/$name", { url => $s->url . "/set/$name",
        secret => $SECRET, %doc });
}

my %who = (requested_by => 'dana', reason => 'the books');

# What reached the receiver for this alert, each event once; dies on one that
# came twice under different bodies.
sub told {
    my ($name, $all) = @_;

    my (%body, @events);
    for my $req (grep { $_->{path} eq "/set/$name" } $s->seen) {
        my $id = $req->{headers}{'webhook-id'};
        die "$id has two bodies" if defined $body{$id} && $body{$id} ne $req->{body};
        next if defined $body{$id} && !$all;
        $body{$id} = $req->{body};
        push @events, { id => $id, %{ $json->decode($req->{body}) }, req => $req };
    }
    return @events;
}

sub names { map { "$_->{data}{state} $_->{data}{condition}" } @_ }

# Waits until just these were told.
sub wait_told {
    my ($name, @want) = @_;

    my @got;
    eval { $i->wait_for(sub { @got = told($name); @got >= @want }, 60, 'events') };
    is_deeply([ names(@got) ], \@want, "$name: " . ($want[-1] // 'nothing'));
    return @got;
}

sub submit {
    my ($kind, $key) = @_;

    return good("submitted $key", call(POST => '/v1/jobs',
        { kind => $kind, work_key => $key }, 'submit'))->{job_id};
}

sub claim {
    my ($kind, $wait) = @_;

    return call(POST => '/v1/leases', { worker => 'w', kinds => [$kind],
        wait => $wait // 10 }, 'worker')->{json}{leases}[0];
}

sub fail_job {
    my ($kind, $key) = @_;

    my $id = submit($kind, $key);
    my $l = claim($kind);
    my $res = $i->http(POST => '/v1/lease/fail', { body => { error => 'no paper',
        retryable => JSON::PP::false }, headers => { authorization =>
        "Bearer $l->{owner_token}" } });
    is($res->{json}{status}, 'failed', "$key failed") or diag($res->{body});
    return $id;
}

sub decide {
    my ($id, $action) = @_;

    good("$action", call(POST => "/v1/jobs/$id/decide",
        { action => $action, %who }));
}

# --- what may be told to whom ----------------------------------------------

my $address = 'may not be called from here (private, link-local or reserved)';
for ([ 'http://169.254.169.254/', $address ], [ 'http://127.0.0.2/', $address ],
    [ "http://[::1]:$port/", $address ],
    [ 'http://hooks.example/', 'not among alert_hosts of the configuration' ],
    [ 'ftp://hooks.example/', 'does not begin with https:// or http://' ],
    [ "http://u:p\@127.0.0.1:$port/", 'has a user or password' ],
    [ 'http://127.0.0.1:0/', 'has a port that is none' ],
    [ 'http://127.0.0.1:99999/', 'has a port that is none' ],
    [ 'http://0x7f.1/', 'has an address that is not in its usual form' ])
{
    my ($url, $why) = @$_;
    my $res = put_alert('bad', url => $url);
    is($res->{status}, 400, "$url: refused");
    like($res->{json}{detail}, qr/^"url" .*\Q$why\E/, '... and why');
}
for ([ { secret => 'plain' }, qr/"secret" must be "whsec_"/ ],
    [ { secret => '@nofile' }, qr/"secret": .*"nofile" cannot be read/ ],
    [ { secret => '@empty' }, qr/"secret": .*"empty" is not "whsec_"/ ],
    [ { secret => '@short' }, qr/"secret": .*"short" is not .* 24 to 64 bytes/ ],
    [ { conditions => ['rain'] }, qr/"conditions" must be some of gap, / ],
    [ { schedules => ['nosuch'] }, qr/there is no schedule "nosuch"/ ],
    [ { name => 'ops' }, qr/"name" must be the name in the path/ ],
    [ { colour => 'red' }, qr/no field "colour"/ ])
{
    my ($doc, $why) = @$_;
    my $res = put_alert('bad', %$doc);
    is($res->{status}, 400, join ',', keys %$doc);
    like($res->{json}{detail}, $why, '... and why');
}
my $unknown = put_alert('bad', kinds => ['nosuch']);
is($unknown->{status}, 404, 'a kind that is not there');
like($unknown->{json}{type}, qr{/kind-unknown$}, '... and what is wrong');
is(call(PUT => '/v1/alerts/bad', { url => $s->url }, $_)->{status}, 403,
    "not by $_") for qw(submit worker auditor);
is(call(GET => '/v1/alerts/bad')->{status}, 404, 'there is none');

my $doc = good('an alert', put_alert('ops'));
is($doc->{secret}, undef, 'whose secret is not shown');
good('one of a secret in a file', put_alert('file', secret => '@ops',
    conditions => ['stopped']));
is(call(GET => '/v1/alerts/file')->{json}{secret}, '@ops', 'shows its name');
is_deeply([ map { $_->{name} } @{ call(GET => '/v1/alerts', undef, 'auditor')
    ->{json}{items} } ], [qw(file ops)], 'both are listed');
unlike(call(GET => '/v1/alerts/ops')->{body}, qr/whsec|never/, 'nor here');

# --- each condition opens once and recovers once ---------------------------

for (qw(k hold)) {
    good("kind $_", call(PUT => "/v1/kinds/$_", { overlap => 'skip',
        on_lost => $_ eq 'hold' ? 'hold' : 'retry' }));
}
my @want;

my $id = fail_job('k', 'k:1');
my $t0 = time;
my @got = wait_told('ops', @want = ('opened failed'));
cmp_ok(time - $t0, '<', 60, sprintf 'after %.1f s', time - $t0);
is($got[-1]{data}{job_id}, $id, 'which job');
is($got[-1]{type}, 'alert.opened', 'its type');
like($got[-1]{data}{summary}, qr/kind k failed \(k:1\): no paper/, 'in words');
my $opened = $got[-1]{id};
decide($id, 'retry');
@got = wait_told('ops', @want = (@want, 'recovered failed'));
is($got[-1]{data}{opened_event}, $opened, 'it names the first one');
good('completed', $i->http(POST => '/v1/lease/complete', { body => {},
    headers => { authorization => 'Bearer ' . claim('k')->{owner_token} } }));

$id = submit('hold', 'hold:1');
claim('hold');
$i->psql("update interlock.leases set expires_at = clock_timestamp() - interval '1 s'");
wait_told('ops', @want = (@want, 'opened held'));
decide($id, 'succeed');
wait_told('ops', @want = (@want, 'recovered held'));

good('a kind with bounds', call(PUT => '/v1/kinds/old', { overlap => 'allow',
    alert_at => 60, stop_at => 600 }));
submit('old', 'old:1');
$i->psql("update interlock.jobs set run_at = run_at - interval '61 s' where work_key = 'old:1'");
wait_told('ops', @want = (@want, 'opened queue_age'));
$i->psql("update interlock.jobs set run_at = run_at - interval '600 s' where work_key = 'old:1'");
wait_told('ops', @want = (@want, 'opened stopped'));
is(claim('old', 1), undef, 'a stopped kind: nothing is claimed');
is(call(GET => '/v1/kinds/old')->{json}{paused}{requested_by}, 'interlock',
    'it says so');
like($i->http(GET => '/metrics')->{body},
    qr/^interlock_kind_paused\{kind="old",tenant="demo"\} 1$/m, 'a metric too');
good('resumed', call(POST => '/v1/kinds/old/resume', { %who }));
wait_told('ops', @want = (@want, 'recovered stopped'));
ok(claim('old'), 'and claimed');
wait_told('ops', @want = (@want, 'recovered queue_age'));
wait_told('file', 'opened stopped', 'recovered stopped');

# --- what nobody could look up ----------------------------------------------

good('a kind whose results are looked up', call(PUT => '/v1/kinds/look', {
    overlap => 'skip', on_lost => 'check', result_check => { type => 'http',
        url => $s->url . '/error/look', found => { status => [200] },
        delay => 0, max_checks => 1 } }));
$id = submit('look', 'look:1');
claim('look');
$i->psql("update interlock.leases set expires_at = clock_timestamp() - interval '1 s'");
@got = wait_told('ops', @want = (@want, 'opened held', 'opened check_exhausted'));
is($got[-1]{data}{job_id}, $id, 'which job');
ok((grep { $_->{path} eq '/error/look' } $s->seen), 'it was looked for');
decide($id, 'succeed');
wait_told('ops', @want = (@want, 'recovered held', 'recovered check_exhausted'));

# --- schedules: gaps, and skips in a row ------------------------------------

# As if nobody had scanned it for so long; its slots stay to be looked at then.
sub behind {
    my ($name, $ago) = @_;

    $i->psql("set session_replication_role = replica;
        update interlock.schedules s
        set since = least(s.since, x.at), scanned_to = x.at,
            next_at = interlock.schedule_next(v, x.at)
        from interlock.schedule_versions v, lateral (
            select clock_timestamp() - interval '$ago' as at) x
        where s.name = '$name' and v.tenant = s.tenant and v.name = s.name
            and v.version = s.version");
}

sub look {
    $i->psql('update interlock.slots set check_at = clock_timestamp()'
        . ' where check_at is not null');
}

sub schedule {
    my ($name, %doc) = @_;

    good("schedule $name", call(PUT => "/v1/schedules/$name", { zone => 'UTC',
        kind => $name, work_key => "$name:{slot}", %doc }));
}

good("kind $_", call(PUT => "/v1/kinds/$_", { overlap => 'skip' }))
    for qw(daily hourly);
my $hour = $i->psql("select to_char((clock_timestamp() - interval '1 hour')"
    . " at time zone 'UTC', 'FMMI FMHH24')");
schedule('daily', cron => "$hour * * *", grace => 60);
behind('daily', '2 hours');
$i->wait_for(sub { $i->psql("select count(*) from interlock.slots where"
    . " schedule = 'daily' and state = 'admitted'") }, 10, 'its slot');
look();
@got = wait_told('ops', @want = (@want, 'opened gap'));
my $gap = call(GET => '/v1/gaps?schedule=daily')->{json}{items}[0];
is($got[-1]{data}{gap_id}, $gap->{gap_id}, 'which gap');
is($got[-1]{data}{schedule}, 'daily', 'of which schedule');
is($got[-1]{data}{work_key}, $gap->{work_key}, 'of which work');
good('its work is done', $i->http(POST => '/v1/lease/complete', { body => {},
    headers => { authorization => 'Bearer ' . claim('daily')->{owner_token} } }));
look();
@got = wait_told('ops', @want = (@want, 'recovered gap'));
is($got[-1]{data}{gap_state}, 'closed', 'and so it is over');

my $minute = $i->psql("select to_char(clock_timestamp() - interval"
    . " '30 minutes', 'FMMI')");
schedule('hourly', cron => "$minute * * * *", catch_up => 'skip',
    skip_alarm => 200);
behind('hourly', '150 hours');
$i->wait_for(sub { call(GET => '/v1/schedules/hourly')->{json}{skips_in_row}
    == 150 }, 10, 'slots that are skipped');
is(scalar(told('ops')), @want, 'not enough of them');
schedule('hourly', skip_alarm => 100);
@got = wait_told('ops', @want = (@want, 'opened skips'));
is($got[-1]{data}{schedule}, 'hourly', 'of which schedule');
schedule('hourly', catch_up => 'latest');
behind('hourly', '45 minutes');
wait_told('ops', @want = (@want, 'recovered skips'));
is(call(DELETE => '/v1/schedules/hourly')->{status}, 204, 'it ends');

# --- who verifies it -------------------------------------------------------

my @seen = map { $_->{req} } told('ops', 1);
is(scalar @seen, scalar @want, 'each was sent once');
Interlock::Test::spew("$i->{dir}/verify.secret", "$SECRET\n");
my $n = 0;
for my $req (@seen) {
    Interlock::Test::spew("$i->{dir}/verify.body", $req->{body});
    my ($code, $out, $err) = Interlock::Test::run([ "$i->{build}/interlock", 'verify',
        '--scheme', 'standard', '--secret-file', "$i->{dir}/verify.secret",
        '--body', "$i->{dir}/verify.body", map { ('--header',
            "$_: $req->{headers}{$_}") } grep { /^webhook-/ } sort keys %{ $req->{headers} } ]);
    $n++ if $code == 0;
    diag("$out$err") if $code;
}
is($n, scalar @seen, 'interlock verify takes all of them');

SKIP: {
    skip 'the npm packages of t/package.json are not installed', 2
        unless -d "$FindBin::Bin/../node_modules/standardwebhooks";
    my $lines = join "\n", map { $json->encode({ secret => $SECRET,
        headers => $_->{headers}, body => $_->{body} }) } @seen;
    my ($code, $out, $err) = Interlock::Test::run([ 'node',
        "$FindBin::Bin/../js/webhooks.mjs" ], stdin => "$lines\n");
    is($out, "ok\n" x @seen, 'so does the Standard Webhooks library') or diag($err);
    (undef, $out) = Interlock::Test::run([ 'node', "$FindBin::Bin/../js/webhooks.mjs" ],
        stdin => $json->encode({ secret => $SECRET, headers => $seen[0]{headers},
            body => $seen[0]{body} . ' ' }) . "\n");
    like($out, qr/^WebhookVerificationError/, 'which refuses a byte more');
}
is($seen[0]{method}, 'POST', 'a POST');
is($seen[0]{headers}{'content-type'}, 'application/json', 'of JSON');
is(scalar(grep { /cookie|proxy|authorization|expect/ } map { keys %{ $_->{headers} } }
    @seen), 0, 'and nothing beside');

# --- a receiver that is down, refuses, redirects ---------------------------

$s->set('503 Service Unavailable', '{}');
$id = fail_job('k', 'k:down');
decide($id, 'succeed');
$i->wait_for(sub { told('ops', 1) > @seen + 1 }, 30, 'two tries');
is(scalar(told('ops')), @want + 1, 'the second one waits for the first');
$s->set('302 Found', '');
my $tries = told('ops', 1);
$i->wait_for(sub { told('ops', 1) > $tries }, 60, 'a try that is redirected');
$i->wait_for(sub { (call(GET => '/v1/alerts/ops')->{json}{last_error} // '')
    =~ /^status 302/ }, 10, 'what came of it');
is(call(GET => '/v1/alerts/ops')->{json}{pending}, 2, 'nothing is lost');
$s->set('200 OK', '{}');
@got = wait_told('ops', @want = (@want, 'opened failed', 'recovered failed'));
is(scalar(keys %{{ map { $_->{id} => 1 } told('ops', 1) }}), scalar @want,
    'however often, under one id each');
$i->wait_for(sub { call(GET => '/v1/alerts/ops')->{json}{pending} == 0 }, 60,
    'all delivered');

# --- killed in between -----------------------------------------------------

good('to a receiver that hangs', put_alert('ops', url => $s->url . '/gate/ops'));
my $gate = sub { grep { $_->{path} eq '/gate/ops' } $s->seen };
$id = fail_job('k', 'k:gate');
$i->wait_for(sub { $gate->() }, 30, 'sent');
$i->kill_backend('KILL');
$s->open_gate;
$i->psql('update interlock.alerts set busy_until = null; '
    . 'update interlock.alert_deliveries set due_at = clock_timestamp()');
$i->wait_for(sub { call(GET => '/v1/alerts/ops')->{json}{pending} == 0 }, 60,
    'sent again by another');
is(scalar(keys %{{ map { $_->{headers}{'webhook-id'} => 1 } $gate->() }}), 1,
    'under the same id');
is(scalar $gate->(), 2, 'twice');
decide($id, 'succeed');
$i->wait_for(sub { $gate->() == 3 }, 30, 'its end');
good('back', put_alert('ops'));

# --- two interlockd --------------------------------------------------------

$i->another_backend('second', 'recover-interval' => '20ms');
my @jobs = map { fail_job('k', "k:two:$_") } 1 .. 20;
decide($_, 'succeed') for @jobs;
$i->wait_for(sub { told('ops') == @want + 40 }, 60, 'all of them');
@got = told('ops', 1);
my %ids;
$ids{"$_->{data}{state} $_->{data}{subject}"}{ $_->{id} }++ for grep {
    ($_->{data}{work_key} // '') =~ /^k:two/ } @got;
is(scalar(keys %ids), 40, 'two events a job');
is(scalar(grep { keys %$_ != 1 } values %ids), 0, 'each under one id');
is($i->psql('select count(*) from interlock.alert_states'), 0, 'nothing is open');

# --- what stands still -----------------------------------------------------

good('a kind is paused', call(POST => '/v1/kinds/k/pause', { %who }));
$id = submit('k', 'k:paused');
is(claim('k', 1), undef, 'nothing is claimed');
is(call(GET => "/v1/jobs/$id")->{json}{waits_for}, 'resumption of its kind',
    'the job says why');
my $before = time;
my $pid = fork() // die $!;
if (!$pid) {
    my $res = eval { claim('k', 20) };
    POSIX::_exit($res && $res->{job_id} eq $id ? 0 : 1);
}
$i->wait_for(sub { $i->http(GET => '/metrics')->{body}
    =~ /^interlock_parked_requests 1$/m }, 10, 'a claim that waits');
good('resumed', call(POST => '/v1/kinds/k/resume', { %who }));
waitpid $pid, 0;
is($?, 0, 'what waits for a job gets it then');
cmp_ok(time - $before, '<', 10, 'at once');

my @push = ('{"ref":"r","repository":{"full_name":"a/b"}}', { delivery => 'd-1' });
good('a source is paused', call(POST => '/v1/sources/github/pause', { %who }));
my $rows = sub { $i->psql('select (select count(*) from interlock.requests), '
    . '(select count(*) from interlock.jobs), (select count(*) from interlock.works)') };
$before = $rows->();
my $res = $i->github(@push);
is($res->{status}, 503, 'its requests are refused');
is($res->{headers}{'retry-after'}, 60, 'for how long');
like($res->{json}{type}, qr{/source-paused$}, 'and why');
is($rows->(), $before, 'nothing of it is stored');
is_deeply([ map { $_->{name} } @{ call(GET => '/v1/sources')->{json}{items} } ],
    ['github'], 'it is listed');
good('resumed', call(POST => '/v1/sources/github/resume', { %who }));
$res = $i->github(@push);
is($res->{status}, 202, 'the same again is taken');

# --- and nothing secret is seen --------------------------------------------

unlike($i->log('interlockd'), qr/whsec_|nobody may see/, 'no log has the secret');
like($i->log('interlockd'), qr/event \S+ to alert ops: delivered/, '... but the deliveries');
unlike($i->log('postgres'), qr/nobody may see|whsec_/, 'nor PostgreSQL\'s');
like($i->http(GET => '/metrics')->{body},
    qr/^interlock_alert_deliveries_total\{alert="ops",outcome="delivered"\} \d+$/m,
    'a metric counts them');
is(call(DELETE => "/v1/alerts/$_")->{status}, 204, "$_ goes") for qw(ops file);
is(call(DELETE => '/v1/alerts/ops')->{status}, 404, 'once');

$i->check_sql;
done_testing;
