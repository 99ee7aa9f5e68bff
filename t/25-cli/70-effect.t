# interlock effect: begin and outcome from within a worker's command, run as a
# wrapper, and what people look at and say.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use JSON::PP ();
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

my $json = JSON::PP->new->canonical->utf8;
my $i = Interlock::Test->instance;
my $tool = ($ENV{INTERLOCK_BUILD} // "$Interlock::Test::TOP/build")
    . '/interlock';
$tool = "$Interlock::Test::TOP/$tool" unless $tool =~ m{^/};
my ($n, $tmp) = (0, $i->dir . '/effect');
mkdir $tmp or die $!;

sub lease {
    my $key = 'cli:' . ++$n;
    $i->http(POST => '/v1/jobs', { token => 'submit', body =>
        { kind => 'free', work_key => $key } });
    return $i->http(POST => '/v1/leases', { token => 'worker', body =>
        { kinds => ['free'], wait => 5 } })->{json}{leases}[0];
}

my $l = lease();

# effect('word', args…): (exit code, stdout, stderr), as the lease's owner
sub effect {
    my @args = @_;
    my $opt = ref $args[0] ? shift @args : {};
    return Interlock::Test::run([ $tool, 'effect', @args ], %$opt,
        env => { INTERLOCK_URL => $i->url, INTERLOCK_TOKEN_FILE => '',
        INTERLOCK_OWNER_TOKEN => ($opt->{lease} // $l)->{owner_token},
        %{ $opt->{env} // {} } });
}

sub people {
    my $r = $i->cli({ token => shift }, 'effect', @_);
    return @$r{qw(code out err)};
}
sub the { $i->http(GET => "/v1/effects/$_[0]", { token => 'auditor' })->{json} }

sub named {
    my ($name) = @_;
    my ($e) = grep { $_->{name} eq $name } @{ $i->http(GET =>
        '/v1/effects?limit=200', { token => 'auditor' })->{json}{items} };
    return the($e->{effect_id});
}

my @pay = ('--kind', 'sample-payment');
my @mute = ('--kind', 'sample-mute');

# --- begin, confirm, fail, unknown -----------------------------------------

my ($code, $out, $err) = effect('begin', '--name', 'a', @pay, '--json');
is($code, 0, 'begin: may be sent');
my $b = $json->decode($out);
is($b->{decision}, 'send', '... says so');
($code, $out) = effect('confirm', $b->{effect_id}, '--send', $b->{send_id},
    '--ref', 'ch_1', '--detail', 'fine');
is($code, 0, 'confirm');
like($out, qr/^state +confirmed$/m, '... is confirmed');
is(the($b->{effect_id})->{provider_ref}, 'ch_1', '... with its reference');
is((effect('begin', '--name', 'a', @pay))[0], 1, 'begin: it has happened');

for ([ fail => 'failed' ], [ unknown => 'unknown' ]) {
    my ($word, $state) = @$_;
    my $b = $json->decode((effect('begin', '--name', $word, @mute, '--json',
        '--target', 't', '--digest', 'd'))[1]);
    is((effect($word, $b->{effect_id}, '--send', $b->{send_id}))[0], 0, $word);
    like(the($b->{effect_id})->{state}, $state eq 'failed' ? qr/^failed$/
        : qr/^(?:unknown|needs_human)$/, '... is that');
    is(the($b->{effect_id})->{target}, 't', '... of its target');
}
($code, $out, $err) = effect('begin', '--name', 'unknown', @mute, '--digest',
    'd');
is($code, 75, 'begin: nobody knows whether it happened');
like($err, qr/human/, '... says who would');
is((effect('begin', '--name', 'fail', @mute, '--digest', 'other'))[0], 0,
    'begin: after a definite no');
is((effect('begin', '--name', 'a', @pay, '--digest', 'x'))[0], 1,
    '... a digest where there was none');
for ([ 64, 'begin', '--name', 'x' ], [ 64, 'begin', @pay ],
    [ 66, 'begin', '--name', 'x', '--kind', 'nosuch' ],
    [ 64, 'confirm', $b->{effect_id} ], [ 64, 'fail', 'x', '--send', 'y' ])
{
    my ($want, @args) = @$_;
    is((effect(@args))[0], $want, "@args: $want");
}
is((effect({ env => { INTERLOCK_OWNER_TOKEN => '' } }, 'begin', '--name', 'x',
    @pay))[0], 64, 'begin outside of a worker');
my $gone = lease();
$i->http(POST => '/v1/lease/complete', { headers => { Authorization =>
    "Bearer $gone->{owner_token}" }, body => {} });
is((effect({ lease => $gone }, 'begin', '--name', 'x', @pay))[0], 75,
    'begin after the end');

# two begins are two calls: the first may have sent already
for my $kind (\@mute, \@pay) {
    my $name = "twice $kind->[1]";
    $b = $json->decode((effect('begin', '--name', $name, @$kind, '--json'))[1]);
    is($b->{decision}, 'send', "$name: a begin");
    ($code, $out, $err) = effect('begin', '--name', $name, @$kind, '--json');
    is($code, 75, '... another one is not told to send');
    is($json->decode($out)->{decision}, 'in_progress', '... it is in progress');
    like($err, qr/somebody else is sending/, '... and says so');
    my ($x, $y) = map { "01980000-0000-7000-8000-00000000000$_" } 1, 2;
    my @named = ('begin', '--name', "named $kind->[1]", @$kind, '--json',
        '--call');
    $b = $json->decode((effect(@named, $x))[1]);
    is($b->{decision}, 'send', '... one with a call of its own');
    is($json->decode((effect(@named, $x))[1])->{send_id}, $b->{send_id},
        '... which is the same send again');
    is((effect(@named, $y))[0], 75, '... and no other\'s');
    is((effect(@named, 'x'))[0], 64, '... what is no call');
}

# --- run -------------------------------------------------------------------

my @run = ('run', '--name');
($code, $out) = effect(@run, 'r1', @pay, '--', 'sh', '-c',
    'echo "{\"id\":\"$INTERLOCK_IDEMPOTENCY_KEY\"}"; echo x >>' . "$tmp/r1");
is($code, 0, 'run: exit 0');
my $e = named('r1');
is($e->{state}, 'confirmed', '... is confirmed');
is($out, qq({"id":"$e->{idempotency_key}"}\n), '... its output is passed on');
is($e->{provider_ref}, $e->{idempotency_key}, '... its id the reference');
($code, my $again) = effect(@run, 'r1', @pay, '--', 'sh', '-c',
    "echo x >>$tmp/r1");
is($code, 0, 'run again: 0');
is($again, $out, '... prints the same');
is(Interlock::Test::slurp("$tmp/r1"), "x\n", '... and runs nothing');

for ([ 65, 'failed' ], [ 77, 'failed' ], [ 1, 'unknown' ], [ 75, 'unknown' ],
    [ 0, 'confirmed' ])
{
    my ($exit, $state) = @$_;
    ($code) = effect(@run, "exit $exit", @pay, '--', 'sh', '-c', "exit $exit");
    is($code, $exit, "exit $exit: its own exit code");
    is(named("exit $exit")->{state}, $state, "... is $state");
}
effect(@run, 'own codes', @pay, '--failed', '1,2', '--', 'sh', '-c', 'exit 2');
is(named('own codes')->{state}, 'failed', 'codes of one\'s own');
for my $codes ('300,abc', '', '1,', ',1', '0', '256', '1 ', '-1', '1;2') {
    ($code, $out, $err) = effect(@run, 'no codes', @pay, '--failed', $codes,
        '--', 'sh', '-c', "echo x >>$tmp/codes");
    is($code, 64, "--failed '$codes': refused");
    like($err, qr/--failed/, '... says why');
}
ok(!-e "$tmp/codes", '... and nothing is run');

# what cannot be printed has happened all the same
for my $to ('>/dev/full', '>&-') {
    my $name = "unprinted $to";
    my @sh = ('sh', '-c', "exec \"\$@\" $to", 'sh', $tool, 'effect');
    my %env = (INTERLOCK_URL => $i->url, INTERLOCK_TOKEN_FILE => '',
        INTERLOCK_OWNER_TOKEN => $l->{owner_token});
    for my $what ('the first time', 'again') {
        ($code, $out, $err) = Interlock::Test::run([ @sh, @run, $name, @pay,
            '--', 'sh', '-c', "echo '{\"id\":\"$to\"}'; echo x >>$tmp/un" ],
            env => \%env);
        is($code, 0, "$to: run $what");
        like($err, qr/cannot write to standard output/, '... says so');
    }
    my $e = named($name);
    is($e->{state}, 'confirmed', '... is confirmed');
    is($e->{provider_ref}, $to, '... with what it printed');
    is(Interlock::Test::slurp("$tmp/un"), "x\n", '... and ran once');
    unlink "$tmp/un";
    my $b = $json->decode((effect('begin', '--name', "told $to", @pay,
        '--json'))[1]);
    ($code) = Interlock::Test::run([ @sh, 'confirm', $b->{effect_id}, '--send',
        $b->{send_id} ], env => \%env);
    is($code, 0, "$to: confirm");
    is(named("told $to")->{state}, 'confirmed', '... is told');
    ($code) = Interlock::Test::run([ @sh, 'begin', '--name', "begun $to", @pay ],
        env => \%env);
    is($code, 74, "$to: a begin whose send nobody can read is none");
}

($code) = effect(@run, 'signal', @pay, '--', 'sh', '-c', 'kill -9 $$');
is($code, 137, 'a signal: 128 and more');
is(named('signal')->{state}, 'unknown', '... is unknown');
($code, $out, $err) = effect(@run, 'none', @pay, '--', "$tmp/no-such-command");
is($code, 127, 'a command that is not there');
is(named('none')->{state}, 'failed', '... has certainly not run');
like($err, qr/no-such-command/, '... says so');
is((effect(@run, 'x', @pay))[0], 64, 'no command');

effect(@run, 'mute', @mute, '--', 'sh', '-c', "echo x >>$tmp/mute; exit 1");
($code) = effect(@run, 'mute', @mute, '--', 'sh', '-c', "echo x >>$tmp/mute");
is($code, 75, 'of which nobody knows: not run');
is(Interlock::Test::slurp("$tmp/mute"), "x\n", '... again');

# Killed after the command had done its work, and run again by the same
# owner within the send's deadline: nobody heard an outcome, but it happened.
effect(@run, 'killed', @mute, '--', 'sh', '-c',
    "echo x >>$tmp/killed; kill -9 \$PPID; sleep 5");
is(Interlock::Test::slurp("$tmp/killed"), "x\n", 'killed when it had run');
($code) = effect(@run, 'killed', @mute, '--', 'sh', '-c',
    "echo x >>$tmp/killed");
is($code, 75, '... another run of it is refused');
is(Interlock::Test::slurp("$tmp/killed"), "x\n", '... and does nothing');

$i->http(PUT => '/v1/effect-kinds/quick', { token => 'operator', body =>
    { send_deadline => 1 } });
my $t0 = time;
($code) = effect(@run, 'slow', '--kind', 'quick', '--', 'sh', '-c',
    'trap "" TERM; sleep 60 & wait; sleep 60');
cmp_ok(time - $t0, '<', 10, 'a command beyond the send deadline is ended');
is($code, 137, '... for certain');
like(named('slow')->{state}, qr/^(?:unknown|needs_human)$/, '... unknown');

# a backend that comes back while the outcome is told
my $pid = fork // die;
if (!$pid) {
    my ($c) = effect(@run, 'away', @pay, '--', 'sh', '-c',
        "until [ -e $tmp/go ]; do sleep 0.05; done");
    POSIX::_exit($c);
}
$i->wait_for(sub { eval { named('away') } }, 10, 'the begin');
$i->kill_backend;
Interlock::Test::spew("$tmp/go", '');
waitpid $pid, 0;
is($?, 0, 'an outcome told while the backend was away');
is(named('away')->{state}, 'confirmed', '... is heard');

# --- mail ------------------------------------------------------------------

my $mail = "From: a\@example.org\nMessage-Id: <mine\n @ x>\nTo: b\@x\n"
    . "Subject: hi\n\nMessage-ID: in the text stays\n";
($code, $out, $err) = effect({ stdin => $mail }, @run, 'mail', @mute, '--mail',
    '--mail-domain', 'example.org', '--', 'sh', '-c', "cat >$tmp/mail");
is($code, 0, 'a mail') or diag $err;
$e = named('mail');
my $id = "<$e->{idempotency_key}\@example.org>";
is(Interlock::Test::slurp("$tmp/mail"), "Message-ID: $id\n"
    . "From: a\@example.org\nTo: b\@x\nSubject: hi\n\n"
    . "Message-ID: in the text stays\n", '... has the effect\'s Message-ID');
is($e->{provider_ref}, $id, '... which is its reference');
for my $old ("Message-Id : <old\@x>\n", "MESSAGE-ID\t :\n <old\@x>\n",
    "Message-ID:<old\@x>\nMessage-ID \t: <old\@x>\n")
{
    my $name = 'old ' . ++$n;
    ($code, $out, $err) = effect({ stdin => $old . "Message-IDs: stay\n"
        . "Resent-Message-ID: stays\nMessage stays\n\nMessage-ID : stays\n" },
        @run, $name, @mute, '--mail', '--', 'sh', '-c', "cat >$tmp/old");
    is($code, 0, 'a mail with an old Message-ID') or diag $err;
    is(Interlock::Test::slurp("$tmp/old"), 'Message-ID: <' . named($name)
        ->{idempotency_key} . "\@interlock.invalid>\nMessage-IDs: stay\n"
        . "Resent-Message-ID: stays\nMessage stays\n\nMessage-ID : stays\n",
        '... has the effect\'s alone');
}
effect({ stdin => "A: b\r\n\r\nx" }, @run, 'crlf', @mute, '--mail', '--', 'sh',
    '-c', "cat >$tmp/crlf");
like(Interlock::Test::slurp("$tmp/crlf"),
    qr/\AMessage-ID: <\S+\@interlock\.invalid>\r\nA: b\r\n\r\nx\z/,
    'a mail with CRLF');
my $big = "A: b\n\n" . "x" x 3_000_000;
effect({ stdin => $big }, @run, 'big', @mute, '--mail', '--', 'sh', '-c',
    "cat >$tmp/big");
is(-s "$tmp/big", length($big) + length 'Message-ID: <' . named('big')
    ->{idempotency_key} . "\@interlock.invalid>\n", 'a big mail');
is((effect({ stdin => $big }, @run, 'deaf', @mute, '--mail', '--', 'true'))[0],
    0, 'a command that does not read it');
is((effect({ stdin => 'hello' }, @run, 'x', @mute, '--mail', '--', 'cat'))[0],
    65, 'what is no mail');
is((effect({ stdin => $mail }, @run, 'x', @mute, '--mail', '--mail-domain',
    'a b', '--', 'cat'))[0], 64, 'what is no domain');

# --- what people see and say -----------------------------------------------

($code, $out) = people('auditor', 'list', '--state', 'confirmed');
is($code, 0, 'list');
like($out, qr/ confirmed  cli:1  r1  sample-payment  \Q@{[ named('r1')
    ->{effect_id} ]}\E$/m, '... a line for each');
($code, $out) = people('auditor', 'list', '--json');
my $all = $json->decode($out)->{items};
cmp_ok(scalar @$all, '>', 15, '... as JSON');
is(scalar @{ $json->decode((people('auditor', 'list', '--json', '--limit',
    2))[1])->{items} }, 2, '... the newest');
($code, $out) = people('auditor', 'list', '--csv', '--work-key', 'cli:1');
my @rows = split /\r\n/, $out;
is(scalar @rows, @$all + 1, '... as CSV');
($code, $out) = people('operator', 'show', $e->{effect_id});
is($code, 0, 'show');
like($out, qr/^state +confirmed$/m, '... the state');
is((people('operator', 'show', 'x'))[0], 64, 'show: no id');
is((people('operator', 'show', '00000000-0000-7000-8000-000000000000'))[0], 66,
    'show: no such effect');
is((people('worker', 'list'))[0], 77, 'list: not for workers');

my $mute = named('mute')->{effect_id};
is((people('operator', 'resolve', $mute, '--outcome', 'happened'))[0], 64,
    'resolve: never without a reason');
is((people('operator', 'resolve', $mute, '--reason', 'x'))[0], 64,
    '... or an outcome');
($code, $out) = people('operator', 'resolve', $mute, '--outcome', 'happened',
    '--reason', 'we asked', '--requested-by', 'dana');
is($code, 0, 'resolve');
is(named('mute')->{state}, 'confirmed', '... settles it');
is((people('operator', 'resolve', $mute, '--outcome', 'happened', '--reason',
    'x'))[0], 75, '... once');
is((people('operator', 'check', $mute, '--reason', 'x'))[0], 75,
    'check: settled');
is((effect(@run, 'mute', @mute, '--', 'false'))[0], 0,
    'what a human said has happened is not run');

$i->check_sql;
done_testing();
