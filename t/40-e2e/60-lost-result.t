#!/usr/bin/perl

# Workers that are killed after, or before, they did their work: a kind whose
# on_lost is check looks whether the result is there before it runs again, by
# a look-up over HTTP or by another worker.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Answers;
use Interlock::Test;

my $s = Interlock::Answers->new;
my $i = Interlock::Test->instance(conf => [ 'recover_interval = 100ms',
    'check_hosts = 127.0.0.1:' . $s->port, 'check_private = 127.0.0.1:' . $s->port ]);
my $runs = "$i->{dir}/runs";

sub put_kind {
    my ($name, $check, %more) = @_;

    my $res = $i->http(PUT => "/v1/kinds/$name", { token => 'operator', body => {
        overlap => 'skip', on_lost => 'check', lease_seconds => 1, max_attempts => 3,
        key_template => "$name:{n}", result_check => $check, %more } });
    is($res->{status}, 200, "kind $name") or diag($res->{body});
}

# A worker that is killed in the middle of its job.
sub lose {
    my ($kind, $n) = @_;

    my $before = runs("$kind:$n");
    my $res = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => $kind, work_key => "$kind:$n" } });
    my $pid = $i->spawn_cli({ token => 'worker' }, 'work', '--kind', $kind, '--once', '--',
        'sh', '-c', "echo $kind:$n >> $runs; exec sleep 60");
    $i->wait_for(sub { runs("$kind:$n") > $before }, 15, "$kind:$n to run");
    kill 'KILL', $pid;
    return $res->{json}{job_id};
}

sub status {
    my ($id) = @_;

    return $i->http(GET => "/v1/jobs/$id", { token => 'auditor' })->{json}{status};
}

sub runs { my ($key) = @_; return scalar grep { $_ eq $key }
    split /\n/, Interlock::Test::slurp($runs) // '' }

put_kind('report', { type => 'http', url => $s->url . '/set/{n}',
    found => { status => [200], pointer => '/state', equals => ['done'] },
    not_found => { status => [404] }, result_pointer => '/out', backoff => 0,
    max_checks => 2 });

# There already: it succeeds and is not run again.
my $id = lose('report', 1);
$i->wait_for(sub { status($id) eq 'succeeded' }, 15, 'the result to be found');
is(runs('report:1'), 1, 'its result was there: run once');
is_deeply($i->http(GET => '/v1/works/report:1/result', { token => 'auditor' })->{json}{result},
    { rows => 1.1 }, 'with the result that was found');

# Not there: it runs again.
$s->set('404 Not Found', '{}');
$id = lose('report', 2);
$i->wait_for(sub { status($id) eq 'queued' }, 15, 'the look-up');
my $ran = $i->cli({ token => 'worker' }, 'work', '--kind', 'report', '--once', '--', 'sh', '-c',
    "echo report:2 >> $runs; echo '{\"rows\":2}'");
is($ran->{code}, 0, 'another worker') or diag($ran->{err});
is(status($id), 'succeeded', 'not there: run again');
is(runs('report:2'), 2, 'twice in all');

# No clear answer: held, until somebody decides.
$s->set('500 Trouble', '{}');
$id = lose('report', 3);
$i->wait_for(sub { status($id) eq 'held' }, 15, 'the last look-up');
is($i->psql("select count(*) from interlock.check_answers where target = '$id'"), 2,
    'looked at twice');
my $job = $i->http(GET => "/v1/jobs/$id", { token => 'auditor' })->{json};
like($job->{error}, qr/its result could not be checked: status 500/, 'held, and why');
my $res = $i->http(POST => "/v1/jobs/$id/decide", { token => 'operator', body => {
    action => 'succeed', requested_by => 'ann', reason => 'I saw it' } });
is($res->{status}, 200, 'decided') or diag($res->{body});
is(status($id), 'succeeded', 'and over');

# By another worker.
put_kind('parcel', { type => 'worker', delay => 0 });
$id = lose('parcel', 1);
$ran = $i->cli({ token => 'worker' }, 'work', '--kind', 'result-check', '--once', '--', 'sh', '-c',
    'grep -q "\"n\" : \"1\"" && echo \'{"answer":"found","detail":"in the ledger"}\'');
is($ran->{code}, 0, 'a worker looks') or diag($ran->{err});
is(status($id), 'succeeded', 'found: it succeeds, when that worker completes');
is(runs('parcel:1'), 1, 'run once');
$id = lose('parcel', 2);
$ran = $i->cli({ token => 'worker' }, 'work', '--kind', 'result-check', '--once', '--', 'sh', '-c',
    'cat > /dev/null; echo \'{"answer":"not_found"}\'');
is(status($id), 'queued', 'not found: it runs again');

$i->check_sql;

done_testing;
