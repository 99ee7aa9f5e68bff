# schedule, gaps, impact, rerun: from a shell.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use JSON::PP;
use POSIX qw(strftime);
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance;
my $tmp = tempdir('interlock-cli-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $me = getpwuid($<);
my $nobody = '01a228ad-2d74-7e92-b90e-1356e44be0ea';
my @why = ('--reason', 'the "books"');

sub cli { return $i->cli({ token => 'operator' }, @_) }

sub work {
    my ($kind, $script) = @_;

    return $i->cli({ token => 'worker' }, 'work', '--kind', $kind, '--once',
        '--wait', 20, '--', 'sh', '-c', $script)->{code};
}

is($i->cli({ token => 'operator', stdin => encode_json({ overlap =>
    'buffer_one', when_completed => 'return', max_attempts => 1 }) }, 'kind',
    'put', 'sums', '-')->{code}, 0, 'a kind');
my $doc = encode_json({ cron => '0 9 * * *', zone => 'Europe/Berlin',
    kind => 'sums', work_key => 'sum:{subject}:{date}',
    payload => { day => '{date}' }, subjects => [qw(north south west)],
    grace => 0 });
Interlock::Test::spew("$tmp/sums.json", $doc);
Interlock::Test::spew("$tmp/bad.json", $doc =~ s/Berlin/Berlyn/r);
Interlock::Test::spew("$tmp/none.json", '{');

# One slot, at the next minute, for the end of this.
my $at = (int(time / 60) + 1) * 60;
$at += 60 if $at - time < 5;
my ($from, $to) = map { strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $_) } $at,
    $at + 1;
is($i->cli({ token => 'operator', stdin => encode_json({
    %{ decode_json($doc) }, cron => '* * * * *', zone => 'UTC',
    work_key => 'tick:{subject}:{date}', start => $from, end => $to }) },
    'schedule', 'put', 'tick', '-')->{code}, 0, 'put from standard input');


# --- schedule ----------------------------------------------------------------

my $r = cli('schedule', 'put', 'sums', "$tmp/sums.json");
is($r->{code}, 0, 'put') or diag $r->{err};
like($r->{out}, qr/^next_at +20\d\d-/m, 'shows when it is due');
is(cli('schedule', 'put', 'sums', "$tmp/none.json")->{code}, 65,
    'what is no JSON: 65');
$r = cli('schedule', 'put', 'sums', "$tmp/bad.json");
is($r->{code}, 65, 'what is refused: 65');
like($r->{err}, qr{Europe/Berlyn}, 'and why');
is(cli('schedule', 'put', 'Sums', "$tmp/sums.json")->{code}, 64,
    'no name of a schedule: 64');

$r = cli('schedule', 'list');
like($r->{out}, qr/^  daily-sales-9am 0 9 \* \* \* Asia\/Seoul daily-sales true -$/m,
    'the list has the sample, paused');
like($r->{out}, qr/^  sums 0 9 \* \* \* Europe\/Berlin sums false 20/m,
    'and this one');
is(cli('schedule', 'get', 'sums', '--json')->{json}{subject_count}, 3, 'get');
is(cli('schedule', 'get', 'nosuch')->{code}, 66, 'no such schedule: 66');

is(cli('schedule', 'pause', 'sums')->{code}, 64, 'no pause without a reason');
$r = cli('schedule', 'pause', 'sums', @why);
is($r->{code}, 0, 'pause') or diag $r->{err};
like($r->{out}, qr/^paused +true$/m, 'it is paused');
is($i->psql("select requested_by || '/' || reason from interlock.actions"
    . " where target = 'sums'"), "$me/the \"books\"", 'by whom, and why');
$r = cli('schedule', 'resume', 'sums', @why, '--json');
is($r->{json}{paused}, JSON::PP::false, 'resume');

is(cli('schedule', 'run', 'sums', @why)->{code}, 64, 'no run without a date');
is(cli('schedule', 'run', 'sums', '--date', 'today', @why)->{code}, 65,
    'nor of one that is none');
$r = cli('schedule', 'run', 'sums', '--date', '2026-07-24', '--subject',
    'north', '--subject', 'south', @why, '--json');
is($r->{code}, 0, 'run') or diag $r->{err};
is($r->{json}{admitted}, 2, 'two subjects');
is(work('sums', 'echo 1'), 0, 'one is done');
is(work('sums', 'exit 65'), 1, 'one fails');


# --- impact, rerun -------------------------------------------------------------

my @date = ('--schedule', 'sums', '--date', '2026-07-24');
$r = cli('impact', @date);
is($r->{code}, 0, 'impact') or diag $r->{err};
like($r->{out}, qr/^succeeded +1$/m, 'one is done');
like($r->{out}, qr/^failed +1$/m, 'one failed');
like($r->{out}, qr/^missing +1$/m, 'one is missing');
my ($id) = $r->{out} =~ /^impact_id +(\S+)$/m;
is(cli('impact', @date, 'x')->{code}, 64, 'a key and a date: 64');
is(cli('impact')->{code}, 64, 'neither: 64');
is(cli('impact', '--schedule', 'sums', '--date', 'x')->{code}, 65,
    'no date: 65');
is(cli('impact', 'nosuch:key')->{code}, 66, 'no such work: 66');

is(cli('rerun', @date, @why)->{code}, 64, 'no rerun without a look');
is(cli('rerun', @date, '--impact', $id)->{code}, 64, 'nor without a reason');
is(cli('rerun', @date, '--impact', $id, '--only', 'some', @why)->{code}, 64,
    'nor of some');
is(cli('rerun', @date, '--impact', $id, '--payload', "$tmp/sums.json", @why)
    ->{code}, 64, 'nor all with one payload');
$r = cli('rerun', @date, '--impact', $id, '--only', 'missing', '--json', @why);
is($r->{code}, 0, 'rerun of what is missing') or diag $r->{err};
is($r->{json}{jobs}[0]{work_key}, 'sum:west:2026-07-24', 'that one');
$r = cli('rerun', @date, '--impact', $id, @why);
is($r->{code}, 75, 'the impact has changed: 75');
like($r->{err}, qr/impact/, 'which is said');
is(work('sums', 'echo 1'), 0, 'done');

$r = cli('rerun', @date, '--yes', @why);
is($r->{code}, 0, 'look and run at once') or diag $r->{err};
like($r->{out}, qr/^impact_id .*^admitted +1$/ms, 'shows both');
is(work('sums', 'echo 1'), 0, 'done');

$r = cli('impact', 'sum:north:2026-07-24', '--json');
is($r->{json}{active}, 0, 'impact of one work key') or diag $r->{err};
Interlock::Test::spew("$tmp/payload.json", '{"day": 1.10}');
$r = cli('rerun', 'sum:north:2026-07-24', '--impact', $r->{json}{impact_id},
    '--payload', "$tmp/payload.json", @why, '--json');
is($r->{code}, 0, 'it runs again') or diag $r->{err};
is(cli('rerun', 'sum:north:2026-07-24', '--yes', @why)->{code}, 75,
    'while it is active it does not: 75');
is(work('sums', 'cat'), 0, 'done');
like($i->http(GET => '/v1/works/sum:north:2026-07-24/result', { token =>
    'auditor' })->{body}, qr/\{"day": 1\.10\}/,
    'with another payload, to the byte');


# --- backfill -------------------------------------------------------------------

my @range = ('--from', '2026-07-20', '--to', '2026-07-24');
$r = cli('schedule', 'backfill', 'sums', @range);
is($r->{code}, 0, 'a plan') or diag $r->{err};
like($r->{out}, qr/^count +12$/m, 'of what is not done: four dates, three'
    . ' subjects');
my ($plan) = $r->{out} =~ /^plan_id +(\S+)$/m;
like($r->{err}, qr/--plan \Q$plan\E/, 'says how to run it');
my $count = "select count(*) from interlock.jobs where status = 'queued'";
is($i->psql($count), 0, 'and has run nothing');
is(cli('schedule', 'backfill', 'sums', '--plan', $plan)->{code}, 64,
    'no plan is run without a reason');
for (1, 2) {
    $r = cli('schedule', 'backfill', 'sums', '--plan', $plan, @why, '--json');
    is($r->{code}, 0, 'the plan') or diag $r->{err};
    is($i->psql($count), 12, 'runs once');
}
is(cli('schedule', 'backfill', 'sums', '--from', '2026-07-24', '--to',
    '2026-07-24')->{code}, 66, 'nothing left to run: 66');
is(cli('schedule', 'backfill', 'sums', '--plan', $nobody, @why)->{code}, 66,
    'no such plan: 66');
is(cli('schedule', 'backfill', 'sums', '--from', '2026-07-24')->{code}, 64,
    'half a range: 64');
$r = cli('schedule', 'backfill', 'sums', '--from', '2026-06-01', '--to',
    '2026-06-02', '--subject', 'west', '--yes', @why, '--json');
is($r->{json}{admitted}, 2, 'planned and run at once') or diag $r->{err};


# --- slots, gaps ------------------------------------------------------------------

$i->wait_for(sub {
    cli('schedule', 'slots', 'tick', '--json')->{json}{items}[2];
}, 140, 'the slot');
$r = cli('schedule', 'slots', 'tick', '--limit', 2);
like($r->{out}, qr/^\d{4}-\d\d-\d\d (north|south|west) admitted - - /,
    'slots: a line each');
like($r->{out}, qr/^\(there is more\)$/m, 'at most so many');
is(scalar @{ cli('schedule', 'slots', 'tick', '--from', '2030-01-01',
    '--json')->{json}{items} }, 0, 'none of another date');
is(cli('schedule', 'slots', 'nosuch')->{code}, 66, 'no such schedule: 66');

my $gaps = $i->wait_for(sub {
    my $items = cli('gaps', 'list', '--schedule', 'tick', '--json')->{json}
        {items};
    @$items == 3 && $items;
}, 60, 'the gaps');
$r = cli('gaps', 'list');
is($r->{code}, 0, 'gaps list') or diag $r->{err};
like($r->{out}, qr/^$gaps->[0]{gap_id} tick \d{4}-\d\d-\d\d $gaps->[0]{subject} /m,
    'a line each');
is(cli('gaps', 'list', '--state', 'closed')->{out}, '', 'none is closed');
is(cli('gaps', 'list', '--state', 'x')->{code}, 65, 'no such state: 65');

is(cli('gaps', 'dismiss', $gaps->[0]{gap_id})->{code}, 64,
    'none is dismissed without a reason');
is(cli('gaps', 'dismiss', $gaps->[0]{gap_id}, @why)->{code}, 0, 'dismiss');
is(cli('gaps', 'dismiss', $gaps->[0]{gap_id}, @why)->{code}, 75,
    'it is not open any more: 75');
is(cli('gaps', 'approve', $nobody, @why)->{code}, 66, 'no such gap: 66');
is(cli('gaps', 'approve', 'x', @why)->{code}, 64, 'not an id: 64');
$i->psql("select interlock.job_cancel(tenant, id, 'a', 'b', 1, 'c')"
    . " from interlock.jobs where work_key = '$gaps->[1]{work_key}'");
$r = cli('gaps', 'approve', $gaps->[1]{gap_id}, @why);
is($r->{code}, 0, 'approve') or diag $r->{err};
like($r->{out}, qr/^state +approved$/m, 'shows the gap');
like(cli('gaps', 'list', '--state', 'approved')->{out},
    qr/^$gaps->[1]{gap_id} /m, 'and is listed so');

for my $role (qw(submit worker auditor)) {
    is($i->cli({ token => $role }, 'schedule', 'delete', 'sums')->{code}, 77,
        "$role may not delete it");
}
is(cli('schedule', 'delete', 'sums')->{code}, 0, 'delete');
is(cli('schedule', 'get', 'sums')->{code}, 66, 'it is gone');
is(cli('schedule', 'slots', 'sums')->{code}, 0, 'its slots are not');

$i->check_sql;

done_testing();
