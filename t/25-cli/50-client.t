# interlock submit, job, result, show, kind, doctor against a server.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

my $i = Interlock::Test->instance;
my $tmp = tempdir(CLEANUP => 1);

sub cli { my ($role, @args) = @_; $i->cli({ token => $role }, @args) }

sub one_line {
    my ($r, $code, $re, $what) = @_;

    is($r->{code}, $code, "$what: exit code $code") or diag $r->{err};
    is(() = $r->{err} =~ /\n/g, 1, "$what: one line");
    like($r->{err}, $re, "$what: says it");
}

sub work {
    my ($kind, @command) = @_;

    my $r = $i->cli({ token => 'worker' }, 'work', '--kind', $kind, '--once',
        '--wait', 20, '--', @command);
    is($r->{code}, 0, '(worked on)') or diag $r->{err};
}

# submit

Interlock::Test::spew("$tmp/payload", "{\"price\": 1.10}\n");
my @sub = ('submit', '--kind', 'free', '--key', 'org:a:1', '--payload',
    "$tmp/payload");
my $r = cli('submit', @sub, '--idempotency-key', 'first', '--json');
is($r->{code}, 0, 'submit') or diag $r->{err};
is($r->{json}{decision}, 'accepted', 'accepted');
my $id = $r->{json}{job_id};

my $again = cli('submit', @sub, '--idempotency-key', '"first"', '--json');
is($again->{code}, 0, 'the same key, quoted');
is($again->{out}, $r->{out}, 'gets the first answer');
$again = cli('submit', @sub, '--idempotency-key', 'first');
like($again->{out}, qr/^job_id +\Q$id\E$/m, 'for people: the job');
like($again->{out}, qr/^replayed +true$/m, 'and that it is a replay');

one_line(cli('submit', 'submit', '--kind', 'free', '--key', 'org:a:2',
    '--idempotency-key', 'first'), 65, qr/HTTP 422/,
    'the key of another request');
one_line(cli('submit', 'submit', '--kind', 'none', '--key', 'a:b'), 66,
    qr/\(HTTP 404\)$/, 'a kind that is not there');
one_line(cli('submit', 'submit', '--kind', 'free', '--key', 'a:'), 65,
    qr/HTTP 400/, 'an empty part');
one_line(cli('auditor', 'submit', '--kind', 'free', '--key', 'a:b'), 77,
    qr/HTTP 403/, 'a role that may not');
is(cli('submit', 'submit', '--kind', 'free', '--key', 'a:b',
    '--idempotency-key', "a\nInjected: b")->{code}, 64,
    'a newline in a key is no header');
Interlock::Test::spew("$tmp/bad", '{"a":');
is(cli('submit', 'submit', '--kind', 'free', '--key', 'a:b', '--payload',
    "$tmp/bad")->{code}, 65, 'a payload that is not JSON');
is(cli('submit', 'submit', '--kind', 'free', '--key', 'a:b', '--payload',
    "$tmp/none")->{code}, 66, 'a payload that is not there');
{
    my $bad = $i->cli({ env => { INTERLOCK_TOKEN_FILE => "$tmp/payload" } },
        'job', $id);
    one_line($bad, 77, qr/HTTP 401/, 'a token that is none');
}

# job

$r = cli('auditor', 'job', $id);
is($r->{code}, 0, 'job');
like($r->{out}, qr/^status +queued$/m, 'for people');
$r = cli('auditor', 'job', uc $id, '--json');
is($r->{json}{job_id}, $id, 'for programs');
one_line(cli('auditor', 'job', '00000000-0000-0000-0000-000000000000'), 66,
    qr/404/, 'a job that is not there');

my $start = time;
$r = cli('auditor', 'job', $id, '--wait', 1);
is($r->{code}, 75, '--wait: not ended in time');
cmp_ok(time - $start, '>=', 0.9, 'it did wait');

one_line(cli('auditor', 'result', 'org:a:1'), 66, qr/404/, 'no result yet');

my $pid = $i->spawn_cli({ token => 'auditor', out => "$tmp/wait" }, 'job', $id,
    '--wait', 60, '--json');
work('free', 'sh', '-c', 'echo "{\"sum\":2.50}"');
waitpid $pid, 0;
is($? >> 8, 0, 'a job that succeeds while it is waited for');
is(decode_json(Interlock::Test::slurp("$tmp/wait"))->{status}, 'succeeded',
    'is shown');

# result, show

$r = cli('auditor', 'result', 'org:a:1');
like($r->{out}, qr/^result +\{"sum":2\.50\}$/m, 'the result, as written');
is(cli('auditor', 'result', 'org:a:1', '--revision', 1)->{code}, 0,
    'by its revision');
is(cli('auditor', 'result', 'org:a:1', '--revision', 7)->{code}, 66,
    'a revision that is not there');
$r = cli('auditor', 'show', 'org:a:1', '--json');
is($r->{json}{work_key}, 'org:a:1', 'show');
is($r->{json}{decisions}{accepted}, 1, 'counts decisions');

# a key that needs encoding, there and back

{
    my $key = 'file:a%20b%3Ac/d?e:ü';
    is(cli('submit', 'submit', '--kind', 'free', '--key', $key)->{code}, 0,
        'an odd key');
    work('free', 'true');
    $r = cli('auditor', 'result', $key, '--json');
    is($r->{code}, 0, 'is found again') or diag $r->{err};
}

# submit --wait

$pid = $i->spawn_cli({ token => 'submit', out => "$tmp/wait2" }, 'submit',
    '--kind', 'free', '--key', 'org:a:3', '--wait', '--json');
work('free', 'true');
waitpid $pid, 0;
is($? >> 8, 0, 'submit --wait');
is(decode_json(Interlock::Test::slurp("$tmp/wait2"))->{status}, 'succeeded',
    'shows the job');

$pid = $i->spawn_cli({ token => 'submit', out => "$tmp/wait3" }, 'submit',
    '--kind', 'free', '--key', 'org:a:4', '--wait=60');
$i->cli({ token => 'worker' }, 'work', '--kind', 'free', '--once', '--wait',
    20, '--', 'sh', '-c', 'exit 65');
waitpid $pid, 0;
is($? >> 8, 1, 'submit --wait of a job that fails: 1');

# the backend goes and comes while a job is waited for

{
    my $job = cli('submit', 'submit', '--kind', 'free', '--key', 'org:a:5',
        '--json')->{json}{job_id};
    my $wait = $i->spawn_cli({ token => 'auditor', out => "$tmp/wait4" },
        'job', $job, '--wait', 60);
    $i->restart_backend;
    work('free', 'true');
    waitpid $wait, 0;
    is($? >> 8, 0, 'a restart of the backend does not end the wait');
}

# options of a submission reach the server

{
    my $s = cli('submit', 'submit', '--kind', 'free', '--key', 'opt:1',
        '--version', 7, '--priority', 3, '--requested-by', 'Ann "x"',
        '--reason', "it's due", '--json');
    is($s->{code}, 0, 'options') or diag $s->{err};
    my $j = $i->http(GET => "/v1/jobs/$s->{json}{job_id}",
        { token => 'auditor' })->{json};
    is($j->{version}, 7, '--version');
    is($j->{priority}, 3, '--priority');
    is($j->{requested_by}, 'Ann "x"', '--requested-by');
    is($j->{reason}, "it's due", '--reason');
    one_line(cli('submit', 'submit', '--kind', 'free', '--key', 'opt:2',
        '--fresh'), 65, qr/fresh|HTTP 400/i, '--fresh where it may not be');
}

# kind

$r = cli('operator', 'kind', 'list', '--json');
is($r->{code}, 0, 'kind list') or diag $r->{err};
ok((grep { $_->{name} eq 'free' } @{ $r->{json}{items} }), 'has free');
$i->psql(q{select interlock.kind_put(t.id, 'many-' || n, '{}')
    from interlock.tenants t, generate_series(1, 205) n where name = 'demo'});
$r = cli('operator', 'kind', 'list', '--json');
is(scalar(grep { $_->{name} =~ /^many-/ } @{ $r->{json}{items} }), 205,
    'and all others, however many');
$r = $i->cli({ token => 'operator', stdin => '{"lease_seconds":12}' }, 'kind',
    'put', 'new-kind', '-', '--json');
is($r->{code}, 0, 'kind put') or diag $r->{err};
$r = cli('operator', 'kind', 'get', 'new-kind', '--json');
is($r->{json}{lease_seconds}, 12, 'kind get');
is(cli('operator', 'kind', 'delete', 'new-kind')->{code}, 0, 'kind delete');
one_line(cli('operator', 'kind', 'get', 'new-kind'), 66, qr/404/, 'is gone');
$r = $i->cli({ token => 'operator', stdin => '{"nonsense":1}' }, 'kind', 'put',
    'new-kind', '-');
one_line($r, 65, qr/nonsense/, 'an unknown field');
one_line(cli('worker', 'kind', 'get', 'free'), 77, qr/403/, 'not an operator');

# limit

$r = cli('operator', 'limit', 'put', 'crm:{site}', '--capacity', 3,
    '--start-rate', '0.5', '--json');
is($r->{code}, 0, 'limit put') or diag $r->{err};
is("$r->{json}{capacity} $r->{json}{start_rate} $r->{json}{active}",
    '3 0.5 0', 'shows it');
$r = cli('operator', 'limit', 'put', 'crm:{site}', '--start-rate', 'none',
    '--json');
is($r->{json}{capacity} . ($r->{json}{start_rate} // ' none'), '3 none',
    'what is left out stays');
like(cli('auditor', 'limit', 'get', 'crm:{site}')->{out},
    qr/^capacity +3$/m, 'limit get');
$r = cli('auditor', 'limit', 'list', '--json');
is(join(' ', map { $_->{name} } @{ $r->{json}{items} }), 'crm:{site}',
    'limit list');
one_line(cli('operator', 'limit', 'put', 'new', '--start-rate', 1), 65,
    qr/capacity/, 'a new one without a capacity');
one_line(cli('operator', 'limit', 'put', 'crm:{site}', '--start-rate', -1),
    65, qr/start_rate/, 'a rate below 0');
one_line(cli('operator', 'limit', 'put', 'a b', '--capacity', 1), 65,
    qr/name/, 'a name with a space');
one_line(cli('auditor', 'limit', 'delete', 'crm:{site}'), 77, qr/403/,
    'not an operator');
is(cli('operator', 'limit', 'delete', 'crm:{site}')->{code}, 0,
    'limit delete');
one_line(cli('operator', 'limit', 'get', 'crm:{site}'), 66, qr/404/,
    'is gone');
one_line(cli('operator', 'limit', 'delete', 'crm:{site}'), 66, qr/404/,
    'cannot go twice');

# cancel

$i->cli({ token => 'operator', stdin => '{"overlap":"buffer_all"}' }, 'kind',
    'put', 'line', '-');
my @line = map { cli('submit', 'submit', '--kind', 'line', '--key', 'line:1',
    '--json')->{json}{job_id} } 1 .. 3;
$r = cli('operator', 'cancel', $line[1], '--requested-by', 'Ann "x"',
    '--reason', 'no need', '--json');
is($r->{code}, 0, 'cancel') or diag $r->{err};
is("$r->{json}{job_id} $r->{json}{status}", "$line[1] canceled", 'a job');
is($i->psql("select requested_by || '/' || reason from interlock.actions "
    . "where target = '$line[1]'"), 'Ann "x"/no need', 'who and why');
one_line(cli('operator', 'cancel', $line[1]), 75, qr/ended already/,
    'one that has ended');
one_line(cli('submit', 'cancel', $line[0]), 77, qr/403/, 'not an operator');
one_line(cli('operator', 'cancel', '00000000-0000-0000-0000-000000000000'),
    66, qr/404/, 'a job that is not there');
$r = cli('operator', 'cancel', '--key', 'line:1', '--json');
is($r->{code}, 0, 'cancel --key') or diag $r->{err};
is(join(' ', map { "$_->{job_id}:$_->{status}" } @{ $r->{json}{items} }),
    "$line[2]:canceled $line[0]:canceled",
    'every job of a key, those that wait first');
one_line(cli('operator', 'cancel', '--key', 'line:1'), 66, qr/line:1/,
    'nothing is left of it');
my @many = map { { kind => 'line', work_key => 'line:2' } } 1 .. 250;
$i->http(POST => '/v1/jobs:batch', { token => 'submit',
    body => { jobs => \@many } });
$r = cli('operator', 'cancel', '--key', 'line:2', '--json');
is(scalar @{ $r->{json}{items} }, 250, 'more than a page of them');
is($i->psql("select count(*) from interlock.jobs where status <> 'canceled' "
    . "and work_key like 'line:%'"), 0, 'all canceled');

# doctor --kind

$r = cli('auditor', 'doctor', '--kind', 'line', '--json');
is($r->{code}, 0, 'doctor --kind') or diag $r->{err};
my %said;
push @{ $said{ $_->{check} } }, "$_->{level} $_->{text}"
    for @{ $r->{json}{items} };
is(join(' ', sort keys %said), 'bounds cancel check key lease policy '
    . 'recovery', 'looks at each');
like("@{ $said{key} }", qr/^warn key_template is not set/, 'no key');
like("@{ $said{policy} }", qr/^ok overlap is buffer_all warn when/, 'policy');
like("@{ $said{lease} }", qr/^warn lease_seconds is 30/, 'a default');
$i->cli({ token => 'operator', stdin => encode_json({ overlap => 'replace',
    when_completed => 'return', key_template => 'site:{site}:{n}',
    protects => 'the index', examples => [ 'site:1:a' ], max_waiting => 5,
    max_queued => 50, max_wait => 60, lease_seconds => 10,
    max_runtime => 60, cancel_grace => 5, max_attempts => 2,
    retry_for => 600, limits => [ 'crm:{site}', 'smtp' ] }) }, 'kind', 'put',
    'line2', '-');
cli('operator', 'limit', 'put', 'smtp', '--capacity', 3);
$r = cli('operator', 'doctor', '--kind', 'line2');
is($r->{code}, 0, 'of another kind') or diag $r->{err};
is(join("\n", map { s/ +/ /gr } grep { /^warn/ } split /\n/, $r->{out}),
    "warn recovery on_lost is retry, as for any kind\n"
    . "warn check result_check is not set\n"
    . "warn limits crm:{site} is named, but there is no such limit",
    'just what is undecided');
like($r->{out}, qr/^ok +limits +smtp has capacity 3$/m, 'a limit that is');
one_line(cli('operator', 'doctor', '--kind', 'nosuch'), 66, qr/404/,
    'a kind that is not there');
one_line(cli('submit', 'doctor', '--kind', 'line'), 77, qr/403/,
    'a role that may not');

# common options before the command

$r = $i->cli('--url', $i->url, '--token-file', $i->dir . '/tokens/auditor',
    'job', $id);
is($r->{code}, 0, 'options before the command');

# a problem as JSON, with --json

$r = cli('auditor', '--json', 'job', '00000000-0000-0000-0000-000000000000');
is($r->{json}{status}, 404, '--json shows the problem on standard output');

# doctor

my @doctor = ('doctor', '--dir', $i->dir);
$r = $i->cli(@doctor);
is($r->{code}, 0, 'doctor: all well') or diag $r->{out};
unlike($r->{out}, qr/^(?:fail|warn|skip)/m, 'nothing else');
$r = $i->cli(@doctor, '--json');
my %level = map { $_->{check} => $_->{level} } @{ $r->{json}{items} };
is($level{$_}, 'ok', "checks $_") for qw(config keys tokens secrets sources database
    schema clock functions server edge token);

chmod 0644, $i->dir . '/secrets/github';
$r = $i->cli(@doctor);
is($r->{code}, 1, 'a secret that others may read');
like($r->{out}, qr{^fail +secrets +\S+/secrets/github has mode 0644}m,
    'is named');
chmod 0600, $i->dir . '/secrets/github';

my $file = $i->dir . '/secrets/standard';
my $good = Interlock::Test::slurp($file);
Interlock::Test::spew($file, "v1,$good");
$r = $i->cli(@doctor);
is($r->{code}, 1, 'a secret that is not in its provider\'s form');
like($r->{out}, qr{^fail +sources +\S+/secrets/standard: line 1: .*\n.*nginx}m,
    'is named with the line');
unlike($r->{out}, qr/\Q$good\E/, 'and not shown');
Interlock::Test::spew($file, $good);

Interlock::Test::spew($i->dir . '/tokens/old', "ilk_old\n");
chmod 0600, $i->dir . '/tokens/old';
$r = $i->cli(@doctor);
is($r->{code}, 1, 'a token that the server does not know');
like($r->{out}, qr/^fail +token +old:.*\n.*token create/m, 'and what to do');
unlink $i->dir . '/tokens/old';

rename $i->dir . '/keys', $i->dir . '/keys.away';
mkdir $i->dir . '/keys', 0700;
$r = $i->cli(@doctor);
is($r->{code}, 1, 'no signing key');
like($r->{out}, qr/^fail +keys .*\n.*keys init/m, 'and what to do');
rmdir $i->dir . '/keys';
rename $i->dir . '/keys.away', $i->dir . '/keys';

Interlock::Test::spew("$tmp/bad.conf", "listen = /x\nnonsense = 1\n");
$r = $i->cli('doctor', '--config', "$tmp/bad.conf");
is($r->{code}, 1, 'a configuration with an unknown name');
like($r->{out}, qr/^fail +config .*2.*nonsense/m, 'file, line and name');

$r = $i->cli({ env => { INTERLOCK_URL => 'http://127.0.0.1:1' } }, @doctor);
is($r->{code}, 1, 'no server');
like($r->{out}, qr/^fail +server .*\n.*nginx/m, 'and what to do');

$i->psql('delete from interlock.sources where name = \'views.sql\'');
$r = $i->cli(@doctor);
is($r->{code}, 1, 'a function that is not as its file');
like($r->{out}, qr/^fail +functions .*\n.*interlock migrate/m,
    'and what to do');
is($i->cli('migrate', '--dsn-file', $i->dir . '/dsn')->{code}, 0,
    '(migrated)');
is($i->cli(@doctor)->{code}, 0, 'well again');

$i->check_sql;
done_testing;
