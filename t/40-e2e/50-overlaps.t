#!/usr/bin/perl

# 500 clients at once, in 32 processes, on one work key, for each overlap:
# once while a job of the key runs, and once while workers take and end its
# jobs.  Decisions add up to requests, wherever they are counted; nothing is
# left open; of buffer_one the payload that was accepted last runs last.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use POSIX ();
use Test::More;

use Interlock::FastCGI;
use Interlock::Load qw(run_at_once);
use Interlock::Test;

my $clients = 500;
my $i = Interlock::Test->instance;
my $c = Interlock::FastCGI->of_instance($i);
my %token = map { $_ => $i->token($_) } qw(submit worker operator);

sub api {
    my ($role, $method, $uri, $body) = @_;
    return $c->request($method, $uri, { token => $token{$role},
        defined $body ? (body => $body) : () });
}

sub storm {
    my ($kind, $key) = @_;
    return run_at_once(processes => 32, url => $i->url, requests => [
        map { { id => $_, path => '/v1/jobs', headers => {
                authorization => "Bearer $token{submit}",
                'content-type' => 'application/json' },
            body => qq({"kind":"$kind","work_key":"$key","payload":$_}) } }
        1 .. $clients ]);
}

# decisions($answers): "buffered=500", what clients were told
sub decisions {
    my ($answers) = @_;
    my %n;
    $n{ $_->{headers}{'interlock-decision'} // "status $_->{status}" }++
        for @$answers;
    return join ' ', map { "$_=$n{$_}" } sort keys %n;
}

sub counted {
    my ($kind) = @_;
    my %n;
    my $m = $i->metrics;
    /^interlock_overlap_attempt_total\{kind="\Q$kind\E",.*decision="(\w+)"/
        and $n{$1} += $m->{$_} for keys %$m;
    return join ' ', map { "$_=$n{$_}" } sort keys %n;
}

sub stored {
    my ($kind) = @_;
    return $i->psql("select coalesce(string_agg(decision || '=' || n, ' ' "
        . 'order by decision), $$$$) from (select decision, count(*) as n '
        . "from interlock.requests where kind = '$kind' group by 1) x");
}

# Takes jobs of a kind one by one and ends each well: their payloads in order.
sub drain {
    my ($kind) = @_;
    my @ran;
    while (1) {
        my ($l) = @{ api(worker => POST => '/v1/leases',
            { kinds => [$kind] })->{json}{leases} } or last;
        push @ran, $l->{payload} // 'none';
        $c->request(POST => '/v1/lease/complete',
            { token => $l->{owner_token} });
    }
    return @ran;
}

# The payload of the one that is last in the chain of those that gave way.
sub last_of_chain {
    my ($answers) = @_;
    my (%gone, %id);
    for my $a (@$answers) {
        my $b = decode_json($a->{body});
        $id{ $b->{job_id} } = $a->{id};
        $gone{ $b->{superseded_job_id} }++ if $b->{superseded_job_id};
    }
    my @twice = grep { $gone{$_} > 1 } keys %gone;
    is("@twice", '', 'none gave way twice');
    my @last = grep { !$gone{$_} } keys %id;
    is(scalar @last, 1, 'one is the last');
    return $id{ $last[0] };
}


# --- while a job of the key runs -------------------------------------------

# overlap => policy, what the 500 get, how many of them run afterwards
my @table = (
    [ allow        => {}, 'accepted=500', 500 ],
    [ skip         => {}, 'skipped=500', 0 ],
    [ buffer_one   => {}, 'buffered=500', 1 ],
    [ buffer_first => {}, 'buffered=1 skipped=499', 1 ],
    [ buffer_all   => { max_waiting => 100, overflow => 'reject' },
      'buffered=100 rejected=400', 100 ],
    [ buffer_all   => { max_waiting => 100, overflow => 'park' },
      'buffered=100 parked=400', 500 ],
    [ replace      => {}, 'replaced=500', 1 ]);

my $n = 0;
for my $row (@table) {
    my ($overlap, $policy, $expected, $runs) = @$row;
    my $kind = 'busy.' . ++$n;
    my $what = "$overlap" . ($policy->{overflow} ? " $policy->{overflow}" : '');

    subtest "500 at once while a job runs: $what" => sub {
        is(api(operator => PUT => "/v1/kinds/$kind", { overlap => $overlap,
            cancel_grace => 60, lease_seconds => 60, %$policy })->{status},
            200, '(the kind)');
        api(submit => POST => '/v1/jobs', { kind => $kind,
            work_key => "$kind:k", payload => 0 });
        my ($l) = @{ api(worker => POST => '/v1/leases',
            { kinds => [$kind] })->{json}{leases} };
        is($l->{payload}, 0, '(the first runs)');

        my $answers = storm($kind, "$kind:k");
        is(scalar @$answers, $clients, 'each was answered');
        is(decisions($answers), $expected, $expected);
        my ($first, @more) = ('accepted=1', split ' ', $expected);
        my %sum = map { split /=/ } @more;
        $sum{accepted}++;
        my $sum = join ' ', map { "$_=$sum{$_}" } sort keys %sum;
        is(stored($kind), $sum, 'the same in the database');
        is(counted($kind), $sum, 'the same in the metrics');

        my $last = $overlap =~ /buffer_one|replace/
            ? last_of_chain($answers) : undef;
        my $end = $overlap eq 'replace' ? 'release' : 'complete';
        is($c->request(POST => "/v1/lease/$end",
            { token => $l->{owner_token} })->{status}, 200,
            "the first ends: $end");
        my @ran = drain($kind);
        is(scalar @ran, $runs, "$runs of them run");
        is($ran[-1], $last, "the one accepted last ($last) runs last")
            if defined $last;
        is_deeply([ @ran ], [ map { $_->[0] } $i->sql("select "
            . "convert_from(p.payload, 'UTF8') from interlock.jobs j join "
            . 'interlock.payloads p on p.tenant = j.tenant and p.job_id = '
            . "j.id where j.kind = '$kind' order by j.created_at "
            . 'offset 1') ], 'in the order in which they arrived')
            if $overlap eq 'buffer_all';
        is($i->psql("select count(*) from interlock.jobs where "
            . "kind = '$kind' and finished_at is null"), 0,
            'nothing is left open');
    };
}


# --- while workers take and end its jobs -----------------------------------

for my $overlap (qw(allow skip buffer_one buffer_first buffer_all replace)) {
    my $kind = "live.$overlap" =~ tr/_/-/r;

    subtest "500 at once while workers work: $overlap" => sub {
        is(api(operator => PUT => "/v1/kinds/$kind", { overlap => $overlap,
            max_waiting => 1000, cancel_grace => 1, lease_seconds => 10 })
            ->{status}, 200, '(the kind)');
        my @workers = map { worker($kind) } 1 .. 3;
        my $answers = storm($kind, "$kind:k");
        is(scalar @$answers, $clients, 'each was answered');
        my @odd = grep { $_->{status} !~ /^20[02]$/ } @$answers;
        is(scalar @odd, 0, 'each well') or diag explain $odd[0];

        my $told = decisions($answers);
        is(stored($kind), $told, "clients and database agree: $told");
        is(counted($kind), $told, 'and the metrics');
        my $sum = 0;
        $sum += $_ for $told =~ /=(\d+)/g;
        is($sum, $clients, 'they add up to the requests');

        $i->wait_for(sub { !$i->psql("select count(*) from interlock.jobs "
            . "where kind = '$kind' and finished_at is null") }, 60,
            'the end of all jobs');
        kill 'TERM', @workers;
        waitpid $_, 0 for @workers;

        my ($accepted) = map { $_->[0] } $i->sql('select id from '
            . "interlock.jobs where kind = '$kind' order by created_at desc "
            . 'limit 1');
        my ($last) = map { $_->[0] } $i->sql('select job_id from '
            . "interlock.attempts where kind = '$kind' order by fence desc "
            . 'limit 1');
        is($last, $accepted, 'what was accepted last ran last')
            if $overlap =~ /buffer_one|replace/;
        my $apart = $i->psql('select count(*) from interlock.attempts a '
            . 'join interlock.attempts b on b.tenant = a.tenant and '
            . 'b.work_key = a.work_key and b.fence > a.fence and '
            . "b.granted_at < a.ended_at where a.kind = '$kind'");
        if ($overlap eq 'allow') { note("$apart pairs ran side by side") }
        else { is($apart, 0, 'no two of them ran at once') }
        my ($by) = $i->psql("select string_agg(status || '=' || n, ' ' "
            . 'order by status) from (select status, count(*) as n from '
            . "interlock.jobs where kind = '$kind' group by 1) x");
        note("$told; jobs: $by");
        is($i->psql("select count(*) from interlock.jobs where kind = "
            . "'$kind' and status = 'superseded' and superseded_by is null"),
            0, 'who gave way knows to whom');
    };
}

sub worker {
    my ($kind) = @_;

    my $pid = fork() // die "fork: $!";
    return $pid if $pid;

    my $end = 0;
    $SIG{TERM} = sub { $end = 1 };
    my $w = Interlock::FastCGI->of_instance($i);
    while (!$end) {
        my $r = $w->request(POST => '/v1/leases', { token => $token{worker},
            body => { kinds => [$kind], wait => 1 } });
        for my $l (@{ $r->{json}{leases} // [] }) {
            my $done = $w->request(POST => '/v1/lease/complete',
                { token => $l->{owner_token} });
            # it was replaced meanwhile: it yields
            $w->request(POST => '/v1/lease/release',
                { token => $l->{owner_token} }) if $done->{status} == 409;
        }
    }
    POSIX::_exit(0);
}

$i->check_sql;
done_testing();
