#!/usr/bin/perl

# The README's three things to try, its schedule and its button, run as they
# stand: the shell blocks are taken from the README and only the instance's
# place and port are its own.

use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Test;

my $top = abs_path("$FindBin::Bin/../..");

open my $fh, '<', "$top/README.md" or die "README.md: $!";
my @blocks = do { local $/; <$fh> } =~ /^```sh\n(.*?)^```$/msg;
is(scalar @blocks, 5,
    'the README has three things to try, a schedule and a button');

my $i = Interlock::Test->instance(fresh => 1);
my $dir = $i->dir;
my $url = $i->url;
my $env = '';

# A block that sets the environment sets it for those that follow, as in one
# terminal.

sub try {
    my ($block) = @_;

    $block =~ s{http://127\.0\.0\.1:8080}{$url}g;
    $block =~ s{(?<![\w./])run/}{$dir/}g;
    $block =~ s{build/interlock}{$ENV{INTERLOCK_BUILD}/interlock}g
        if $ENV{INTERLOCK_BUILD};
    my $out = qx{cd '$top' && { $env\n$block\n} 2>&1};
    my $code = $? >> 8;
    $env .= join "\n", $block =~ /^(export .*)$/mg;
    note($out);
    return ($out, $code);
}

my ($out, $code) = try($blocks[0]);
is($code, 0, 'first: exit 0');
my @ids = $out =~ /"job_id":\s?"([0-9a-f-]{36})"/g;
is(scalar @ids, 2, 'two answers');
is($ids[0], $ids[1], 'with one job');
is(scalar(() = $out =~ /^Idempotency-Replayed: true/mig), 1,
    'the second is a replay');
is(scalar(() = $out =~ /^Cache-Control: no-store/mig), 2,
    'neither may be cached on the way');
my @log = grep { /upstream=/ } split /\n/, $out;
is(scalar @log, 2, 'two lines in the access log');
like($log[0], qr/upstream=unix:/, 'the first reached FastCGI');
like($log[1], qr/upstream=-/, 'the second did not');
is($i->psql('select count(*) from interlock.jobs'), 1, 'one job is stored');

($out, $code) = try($blocks[1]);
is($code, 0, 'second: exit 0');
my $bytes = -s "$top/fcgi/etc/samples/github-push.json";
$bytes--;                  # the line's end is behind the JSON text, not in it
like($out, qr/"bytes":\s?$bytes/, 'the worker saw the payload, byte for byte');
like($out, qr/work_key\s+github:acme\/shop:refs\/heads\/main/,
    'and the result is there by work key');

($out, $code) = try($blocks[2]);
is($code, 0, 'third: exit 0');
my ($fence) = $out =~ /"fence":\s?(\d+)/;
cmp_ok($fence // 0, '>', 1, 'another worker took over with a higher fence');
like($out, qr{problems/lease-lost}, "the killed one's token is refused");
is($i->psql("select string_agg(call, ',' order by attempt)"
    . " from interlock.attempts where work_key = 'nap:monday'"),
    'lost,complete', 'one attempt lost, the next completed');

# The mail as an effect: the kind is loaded, then a command of interlock work
# hands a message to a sendmail, which here writes it down.

my ($put, $run) = do { local (@ARGV, $/) = "$top/README.md"; <> =~
    /^    (build\S+ .* effect-kind put mail \S+)\n    (interlock effect run .*)/m };
ok(defined $run, 'the README has a mail, too');
($out, $code) = try($put);
is($code, 0, 'its kind is loaded') or diag $out;

my $build = $ENV{INTERLOCK_BUILD} // 'build';
$build = "$top/$build" unless $build =~ m{^/};
mkdir "$dir/mail" or die $!;
Interlock::Test::spew("$dir/mail/sendmail", "#!/bin/sh\ncat >>'$dir/mail/out'\n");
chmod 0755, "$dir/mail/sendmail";
Interlock::Test::spew("$dir/mail/receipt.eml", "To: ann\@example.com\n\nThanks\n");
Interlock::Test::spew("$dir/mail/command",
    "PATH='$dir/mail:$build':\$PATH; cd '$dir/mail'; $run\n");
($out, $code) = try("build/interlock --token-file run/tokens/submit submit "
    . "--kind free --key mail:1 && build/interlock work --kind free --once "
    . "-- sh '$dir/mail/command'");
is($code, 0, '... and the mail is sent') or diag $out;
like(Interlock::Test::slurp("$dir/mail/out"), qr/\AMessage-ID: <\S+>\nTo: ann.*Thanks\n\z/s,
    '... with a Message-ID, once');
is($i->psql("select string_agg(name || ' ' || state, ',')"
    . ' from interlock.effects'), 'receipt confirmed', '... and is on record');

# A schedule that fires, one of its jobs fails and runs again.

($out, $code) = try($blocks[3]);
is($code, 0, 'the schedule: exit 0');
my $day = qr/^\d{4}-\d\d-\d\d\s+/m;
like($out, qr/$day(?:north|south) admitted /, 'its slot is shown when it fires');
like($out, qr/^\S{36} naps \d{4}\S+ (?:north|south) \S+ open its job is failed/m,
    'what failed is a gap');
like($out, qr/^succeeded +1\nfailed +1\nmissing +0\n/m, 'the impact');
like($out, qr/^impact_id .*^admitted +1$/ms, 'one runs again');
is(scalar(() = $out =~ /$day(?:north|south) run .* true -$/mg), 2,
    'and in the end both slots are shown as run');
is($i->psql("select string_agg(subject || ' ' || state, ', ' order by subject)"
    . " from interlock.slots where schedule = 'naps'"), 'north run, south run',
    'so that all is done');
is($i->psql("select string_agg(state, ' ') from interlock.gaps"), 'closed',
    'and the gap is closed');
is($i->psql("select requested_by || ' ' || reason from interlock.actions"
    . " where what = 'schedule_rerun'") =~ s/^\S+ //r, 'the CRM is back',
    'who wanted it and why is on record');

my ($sample) = do { local (@ARGV, $/) = "$top/README.md"; <> =~
    /^((?:    build\S+ [^\n]* daily-sales-9am [^\n]*\n)+)/m };
($out, $code) = try($sample);
is($code, 0, 'the sample is run for one date') or diag $out;
like($out, qr/^admitted +3$/m, 'for its three subjects');
like($out, qr/^active +3$/m, 'the impact shows them');

# A button, pressed twice.

($out, $code) = try($blocks[4]);
is($code, 0, 'the button: exit 0');
is(scalar(() = $out =~ m{^HTTP/1\.1 202}mg), 2, 'pressed twice') or diag $out;
is(scalar(() = $out =~ /^Idempotency-Replayed: true/mig), 1,
    'of which one is a replay');
is($i->psql("select count(*) || ' ' || min(source) from interlock.jobs"
    . " where work_key = 'org:acme:daily-sales:2026-07-23'"), '1 button',
    'and one job is stored');

$i->check_sql;

done_testing();
