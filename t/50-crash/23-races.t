#!/usr/bin/perl

# Two calls about one job at the same moment, many times each: one of them
# wins, the other is refused as it should be, and nothing is done twice.
#
#   complete, recovery   an owner completes as his lease ends
#   complete, cancel     an owner completes as an operator cancels
#   decide, recovery     an operator decides about a job as its owner is lost
#   redrive, submit      a dead letter is sent again as its key is asked for

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

# --- a decision races the recovery ------------------------------------------
#
# A lost job of this kind is held.  Before that nothing can be decided about
# it; from then on what is decided stands.

kind('held', overlap => 'skip', on_lost => 'hold');
@wrong = ();
%won = ();
for my $batch (1 .. $batches / 2) {
    my @jobs = jobs('held', $at_once);
    my @leases = leases('held', $at_once);
    my %end = map { $_->{job_id} => 0.05 + rand 0.4 } @leases;
    $db->do('update interlock.leases l set expires_at = clock_timestamp() '
        . "+ make_interval(secs => v.s) from (values "
        . join(',', map { "('$_'::uuid, $end{$_})" } keys %end)
        . ') v (job, s) where l.job_id = v.job');
    my $decide = sub {
        my ($job, $action) = @_;
        return [ POST => "/v1/jobs/$job/decide", { token =>
            $token{operator}, body => { action => $action, reason => 'a race',
                requested_by => 'me' } } ];
    };
    # (the owner completes, too, so that some are never lost)
    my @res = volley(map { my $at = $end{ $_->{job_id} };
        ([ $at + rand(0.03) - 0.015, $decide->($_->{job_id}, 'fail') ],
        [ $at + rand(0.04) - 0.02, owner(complete => $_) ]) } @leases);

    my (%said, @open);
    for my $k (0 .. $#leases) {
        my ($decided, $complete) = @res[ 2 * $k, 2 * $k + 1 ];
        my $said = join ' ', $decided->{status} == 200 ? 'decided'
            : problem($decided), $complete->{status} == 200 ? 'complete'
            : problem($complete);
        $won{$said}++;
        $said{ $leases[$k]{job_id} } = $said;
        push @open, $leases[$k]
            if $said eq 'decision-not-possible lease-lost';
    }
    $i->wait_for(sub { !($db->do('select count(*) from interlock.leases '
        . "where kind = 'held'"))[0][0] }, 10, 'all to be recovered');
    my @later = volley(map { [ 0, $decide->($_->{job_id}, 'succeed') ] }
        @open);
    push @wrong, map { "later: $_->{body}" }
        grep { $_->{status} != 200 } @later;

    my %want = ('decided lease-lost' => 'lost failed 0',
        'decision-not-possible complete' => 'complete succeeded 1',
        'decision-not-possible lease-lost' => 'lost succeeded 1');
    my %ends = ends('held');
    for my $row ($db->do('select j.id, j.status, count(r) from '
        . 'interlock.jobs j left join interlock.results r on r.job_id = j.id '
        . "where j.kind = 'held' group by j.tenant, j.id, j.status"))
    {
        my ($job, $status, $results) = @$row;
        next if !$said{$job};
        push @wrong, "$job: $said{$job}, and is $ends{$job} $status $results"
            if "$ends{$job} $status $results" ne ($want{ $said{$job} } // '');
    }
}
note(join ', ', map { "$_: $won{$_}" } sort keys %won);
none_wrong("$all decisions raced the recovery and the owner: each job as the "
    . 'one that was told so wants it', @wrong);
cmp_ok($won{$_} // 0, '>', 0, "it happened: $_") for 'decided lease-lost',
    'decision-not-possible complete', 'decision-not-possible lease-lost';

# --- a redrive races a submission of the same key ----------------------------

my %want = (
    # overlap => { "redrive submission" => "statuses of the old and the new" }
    skip => { 'redriven skipped' => 'queued -',
        'work-active accepted' => 'failed queued' },
    buffer_all => { 'redriven buffered' => 'queued queued',
        'redriven accepted' => 'queued queued' },
    buffer_one => { 'redriven buffered' => 'queued queued',
        'work-active accepted' => 'failed queued' },
);
for my $overlap (sort keys %want) {
    my $kind = "again-$overlap" =~ tr/_/-/r;
    kind($kind, overlap => $overlap);
    @wrong = ();
    %won = ();
    for my $batch (1 .. ($batches / 5)) {
        my @jobs = jobs($kind, $at_once);
        my @leases = leases($kind, $at_once);
        volley(map { [ 0, owner(fail => $_, { error => 'x',
            retryable => JSON::PP::false }) ] } @leases);
        my %who = (requested_by => 'me', reason => 'a race');
        my @plan = map { $_->{json}{plan_id} // die $_->{body} } volley(
            map { [ 0, [ POST => '/v1/redrive', { token => $token{operator},
                body => { filter => { job_ids => [ $_->{job_id} ] } } } ] ] }
            @leases);
        my @res = volley(map { my $at = rand 0.5;
            ([ $at, [ POST => '/v1/redrive', { token => $token{operator},
                body => { plan_id => $plan[$_], %who } } ] ],
            [ $at + rand(0.012) - 0.002, [ POST => '/v1/jobs', {
                token => $token{submit}, body => { kind => $kind,
                    work_key => $leases[$_]{work_key} } } ] ]) }
            0 .. $#leases);

        my %status = map { $_->[0] => $_->[1] } $db->do('select id, status '
            . "from interlock.jobs where kind = '$kind'");
        for my $k (0 .. $#leases) {
            my ($redrive, $submit) = @res[ 2 * $k, 2 * $k + 1 ];
            my ($old, $r) = ($leases[$k]{job_id}, $redrive->{json});
            my $said = $r->{redriven} ? 'redriven'
                : ($r->{skipped}[0]{reason} // problem($redrive))
                    =~ s/:.*//sr;
            $said .= ' ' . ($submit->{json}{decision} // problem($submit));
            $won{$said}++;
            my $new = $submit->{json}{decision} eq 'skipped' ? undef
                : $submit->{json}{job_id};
            my $is = "$status{$old} " . ($new ? $status{$new} : '-');
            push @wrong, "$old: $said, and they are $is"
                if $is ne ($want{$overlap}{$said} // '');
        }

        # Whatever came first: all of them run, one after the other.
        while (1) {
            my $res = $c->request(POST => '/v1/leases', { token =>
                $token{worker}, body => { kinds => [$kind], max => 100 } });
            my @got = @{ $res->{json}{leases} } or last;
            push @wrong, map { "at the end: $_->{body}" }
                grep { $_->{status} != 200 }
                volley(map { [ 0, owner(complete => $_) ] } @got);
        }
    }
    note("$overlap: " . join ', ', map { "$_: $won{$_}" } sort keys %won);
    none_wrong("$overlap: " . $batches / 5 * $at_once . ' redrives raced a '
        . 'submission', @wrong);
    cmp_ok($won{$_} // 0, '>', 0, "it happened: $_")
        for sort keys %{ $want{$overlap} };
    is(($db->do('select count(*) from interlock.jobs where kind = '
        . "'$kind' and status not in ('succeeded', 'failed')"))[0][0], 0,
        'nothing is left');
    is(($db->do('select count(*) from (select job_id from '
        . "interlock.attempts where kind = '$kind' and call = 'complete' "
        . 'group by job_id having count(*) > 1) x'))[0][0], 0,
        'none was completed twice');
}

$i->check_sql;

done_testing();
