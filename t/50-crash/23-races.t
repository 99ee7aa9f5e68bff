#!/usr/bin/perl

# Two calls about one job at the same moment, many times each: one of them
# wins, the other is refused as it should be, and nothing is done twice.
#
#   complete, recovery   an owner completes as his lease ends
#   complete, cancel     an owner completes as an operator cancels

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Select;
use List::Util qw(shuffle sum0);
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Session;
use Interlock::Test;

my $full = $ENV{INTERLOCK_FULL};
my $seed = $ENV{SEED} // time;
srand($seed);
note("SEED=$seed");

my $i = Interlock::Test->instance(conf => [ 'recover_interval = 10ms' ]);
my %token = map { $_ => $i->token($_) } qw(submit worker operator);
$i->another_backend('second');         # which recovers, too
my $db = Interlock::Session->new($i->dsn('admin'));
my $c = Interlock::FastCGI->of_instance($i);
my @pool = map { Interlock::FastCGI->of_instance($i) } 1 .. 200;
my $at_once = 100;
my $batches = $full ? 100 : 10;
my $n = 0;

sub kind {
    my ($name, %policy) = @_;

    my $res = $c->request(PUT => "/v1/kinds/$name", {
        token => $token{operator}, body => { lease_seconds => 60,
            max_attempts => 1000, %policy } });
    die $res->{body} if $res->{status} != 200;
}

sub jobs {
    my ($kind, $count) = @_;

    my $res = $c->request(POST => '/v1/jobs:batch', { token =>
        $token{submit}, body => { jobs => [ map { {
            kind => $kind, work_key => "$kind:" . ++$n } } 1 .. $count ] } });
    my @ids = map { $_->{job_id} } @{ $res->{json}{items} };
    die $res->{body} if grep { !defined } @ids;
    return @ids;
}

# leases(kind, count): as many; asks until it has them
sub leases {
    my ($kind, $count) = @_;

    my @all;
    while (@all < $count) {
        my $res = $c->request(POST => '/v1/leases', { token =>
            $token{worker}, body => { kinds => [$kind], wait => 2,
            max => $count - @all > 100 ? 100 : $count - @all } });
        my @new = @{ $res->{json}{leases} // [] };
        die "no leases: $res->{status} $res->{body}" if !@new;
        push @all, @new;
    }
    return @all;
}

# volley([ at, request ]…): sends each at its time (seconds from now), each
# over a connection of its own; the answers in the order of the arguments.
sub volley {
    my @shots = @_;

    my (@answer, %of);
    my $select = IO::Select->new;
    my $t0 = time;
    for my $k (sort { $shots[$a][0] <=> $shots[$b][0] } 0 .. $#shots) {
        my $wait = $t0 + $shots[$k][0] - time;
        sleep($wait) if $wait > 0;
        my $conn = $pool[$k];
        $conn->send(@{ $shots[$k][1] }) or die "send: $!";
        $of{ fileno $conn->sock } = $k;
        $select->add($conn->sock);
    }
    while ($select->count) {
        my @ready = $select->can_read(20) or die 'no answer';
        for my $sock (@ready) {
            my $k = $of{ fileno $sock };
            $answer[$k] = $pool[$k]->response(5);
            $select->remove($sock);
        }
    }
    return @answer;
}

sub owner {
    my ($verb, $lease, $body) = @_;

    return [ POST => "/v1/lease/$verb", { token => $lease->{owner_token},
        body => $body // {} } ];
}

sub problem {
    my ($res) = @_;

    my ($name) = ($res->{json}{type} // '') =~ m{problems/(.+)};
    return $name // $res->{status};
}

# the calls that ended a job's attempts, { job => 'lost complete' }
sub ends {
    my ($kind) = @_;

    return map { $_->[0] => $_->[1] } $db->do('select job_id, '
        . "string_agg(call, ' ' order by fence) from interlock.attempts "
        . "where kind = '$kind' group by job_id");
}

sub none_wrong {
    my ($what, @wrong) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is(scalar @wrong, 0, $what)
        or diag(map { "  $_\n" } @wrong[ 0 .. ($#wrong < 9 ? $#wrong : 9) ]);
}

# --- a completion races the recovery ----------------------------------------

kind('lost', overlap => 'skip');
my (%won, @wrong);
for my $batch (1 .. $batches) {
    my @jobs = jobs('lost', $at_once);
    my @leases = leases('lost', $at_once);

    # Their ends are spread over some time, and each completes around its
    # own end.
    my $spread = 0.25;
    my %end = map { $_->{job_id} => 0.05 + rand $spread } @leases;
    $db->do('update interlock.leases l set expires_at = clock_timestamp() '
        . "+ make_interval(secs => v.s) from (values "
        . join(',', map { "('$_'::uuid, $end{$_})" } keys %end)
        . ') v (job, s) where l.job_id = v.job');
    my @body = map { { result => { first => $_->{fence} } } } @leases;
    my @res = volley(map { [ $end{ $leases[$_]{job_id} } + rand(0.03) - 0.015,
        owner(complete => $leases[$_], $body[$_]) ] } 0 .. $#leases);

    # Asked again, each gets its first answer.
    my @again = volley(map { [ 0, owner(complete => $leases[$_],
        $body[$_]) ] } 0 .. $#leases);
    my %first;
    for my $k (0 .. $#leases) {
        my $job = $leases[$k]{job_id};
        if ($res[$k]{status} == 200) {
            $won{complete}++;
            $first{$job} = 'complete';
            push @wrong, "$job: the answer again: $again[$k]{body}, first "
                . $res[$k]{body} if $again[$k]{body} ne $res[$k]{body};
        } else {
            $won{recovery}++;
            $first{$job} = 'lost';
            push @wrong, "$job: $_->{body}"
                for grep { problem($_) ne 'lease-lost' } $res[$k], $again[$k];
        }
    }

    # Those that were lost run again, and their second owner completes.
    my @lost = grep { $first{ $_->{job_id} } eq 'lost' } @leases;
    my @second = @lost ? leases('lost', scalar @lost) : ();
    my @done = volley(map { [ 0, owner(complete => $_,
        { result => { second => $_->{fence} } }) ] } @second);
    push @wrong, map { "the second: $_->{body}" }
        grep { $_->{status} != 200 } @done;

    my %ends = ends('lost');
    for my $job (@jobs) {
        my $want = $first{$job} eq 'lost' ? 'lost complete' : 'complete';
        push @wrong, "$job: ended by $ends{$job}, not $want"
            if $ends{$job} ne $want;
    }
}
my $all = $batches * $at_once;
note("the owner won $won{complete}, the recovery $won{recovery} of $all");
none_wrong("$all completions raced the recovery: one end each, the loser refused "
    . 'as lease-lost', @wrong);
cmp_ok($won{$_} // 0, '>=', $all / 50, "the $_ won some of them")
    for qw(complete recovery);
is(($db->do('select count(*), count(distinct job_id) from interlock.results '
    . "where work_key like 'lost:%'"))[0][0], $all, "$all results");
is(($db->do('select count(distinct job_id) from interlock.results where '
    . "work_key like 'lost:%'"))[0][0], $all, 'one for each job');

# --- a completion races a cancel --------------------------------------------

kind('canceled', overlap => 'skip');
@wrong = ();
%won = ();
for my $batch (1 .. $batches / 2) {
    my @jobs = jobs('canceled', $at_once);
    my @leases = leases('canceled', $at_once);
    my (@shots, @who);
    for my $l (@leases) {
        my $at = rand 0.4;
        push @shots, [ $at + rand 0.006, owner(complete => $l,
            { result => 1 }) ], [ $at, [ POST =>
                "/v1/jobs/$l->{job_id}/cancel", { token => $token{operator},
                body => { requested_by => 'me', reason => 'a race' } } ] ];
    }
    my @res = volley(@shots);

    my @yield;
    for my $k (0 .. $#leases) {
        my ($complete, $cancel) = @res[ 2 * $k, 2 * $k + 1 ];
        my $said = join ' ', $complete->{status} == 200
            ? 'complete' : problem($complete), $cancel->{status} == 202
            ? 'cancel' : problem($cancel);
        $won{$said}++;
        push @yield, $leases[$k] if $said eq 'job-canceled cancel';
    }
    my @gone = volley(map { [ 0, owner(release => $_) ] } @yield);
    push @wrong, map { "yielding: $_->{body}" }
        grep { ($_->{json}{status} // '') ne 'canceled' } @gone;

    my %yield = map { $_->{job_id} => 1 } @yield;
    my %ends = ends('canceled');
    my %status = map { $_->[0] => $_->[1] } $db->do(
        "select id, status from interlock.jobs where kind = 'canceled'");
    for my $job (@jobs) {
        my $want = $yield{$job} ? 'release canceled' : 'complete succeeded';
        push @wrong, "$job: $ends{$job} $status{$job}, not $want"
            if "$ends{$job} $status{$job}" ne $want;
    }
}
$all = $batches / 2 * $at_once;
note(join ', ', map { "$_: $won{$_}" } sort keys %won);
none_wrong("$all completions raced a cancel: each job as the winner wants it",
    @wrong);
is(join(', ', sort keys %won), 'complete job-final, job-canceled cancel',
    'the loser is refused as job-final or job-canceled, and each wins some');
is(($db->do('select count(*) from interlock.results where work_key like '
    . "'canceled:%'"))[0][0], $won{'complete job-final'},
    'no result of a canceled one');

$i->check_sql;

done_testing();
