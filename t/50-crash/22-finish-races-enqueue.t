#!/usr/bin/perl

# The end of the job that runs and the arrival of the next one, at the same
# moment, 10,000 times: whichever comes first, the next one starts within a
# second, for its worker was waiting all the time.  On one key each for
# buffer_one and buffer_all, through one interlockd, and through two where the
# submissions go to one and the worker waits at the other.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use IO::Select;
use JSON::PP ();
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Load qw(percentile);
use Interlock::Test;

my $full = $ENV{INTERLOCK_FULL};
my $rounds = $full ? 25_000 : 2_500;        # of each of the four
my $seed = $ENV{SEED} // time;
note("SEED=$seed");

my $i = Interlock::Test->instance;
my %token = map { $_ => $i->token($_) } qw(submit worker operator);
my $mine = Interlock::FastCGI::socket_path($i);
my $other = $i->another_backend('second')->{socket};
my $dir = tempdir('interlock-race-XXXXXX', TMPDIR => 1, CLEANUP => 1);

my @races = map { my $overlap = $_; map { { overlap => $overlap,
    two => $_, kind => "$overlap-$_" =~ tr/_/-/r } } 0, 1 }
    qw(buffer_one buffer_all);

for my $race (@races) {
    my $res = $i->http(PUT => "/v1/kinds/$race->{kind}", {
        token => 'operator', body => { overlap => $race->{overlap},
            lease_seconds => 60 } });
    die $res->{body} if $res->{status} != 200;
}

# --- one race: a process ----------------------------------------------------

sub race {
    my ($race) = @_;

    my ($kind, $key) = ($race->{kind}, "$race->{kind}:key");
    my $there = $race->{two} ? $other : $mine;
    my %c = (submit => Interlock::FastCGI->new($mine),
        claim => Interlock::FastCGI->new($there),
        end => Interlock::FastCGI->new(rand() < 0.5 ? $mine : $there));
    my $select = IO::Select->new(map { $_->sock } values %c);
    my (%busy, %bad, %decided);
    my ($submitted, $ended, $bias) = (0, 0, 0);

    my $send = sub {
        my ($what, @request) = @_;
        $busy{$what} = time;
        $c{$what}->send(@request) or die "$what: $!";
    };
    my $submit = sub {
        $submitted++;
        $send->(submit => POST => '/v1/jobs', { token => $token{submit},
            body => { kind => $kind, work_key => $key,
                payload => $submitted } });
    };
    my $claim = sub { $send->(claim => POST => '/v1/leases', {
        token => $token{worker}, body => { kinds => [$kind], wait => 30 } }) };

    $claim->();
    $submit->();
    while ($ended < $rounds) {
        my ($lease, $before) = (undef, $busy{claim});
        while (%busy) {
            my @ready = $select->can_read(10) or last;
            for my $what (grep { my $w = $_;
                grep { $_ == $c{$w}->sock } @ready } keys %busy)
            {
                my $res = $c{$what}->response(5);
                delete $busy{$what};
                $bad{"$what: $res->{status} $res->{body}"}++
                    if $res->{status} !~ /^20/;
                if ($what eq 'claim') {
                    ($lease) = @{ $res->{json}{leases} // [] };
                    $bad{'a claim got nothing'}++ if !$lease;
                } elsif ($what eq 'submit') {
                    my $d = $res->{json}{decision} // '';
                    $decided{$d}++;
                    # aim at the moment at which it may be either
                    $bias += $d eq 'accepted' ? 0.0001 : -0.0001;
                    $bias = $bias < -0.01 ? -0.01 : $bias > 0.01 ? 0.01
                        : $bias;
                }
            }
        }
        if (%busy || !$lease) {
            $bad{'nothing came: ' . join ' ', sort keys %busy}++;
            last;
        }

        # The next round: the worker waits, then both at once, a little
        # before or after each other
        $claim->();
        my $gap = $bias + rand(0.002) - 0.001;
        my $end = sub { $send->(end => POST => '/v1/lease/complete',
            { token => $lease->{owner_token}, body => {} }) };
        my ($first, $second) = $gap < 0 ? ($end, $submit) : ($submit, $end);
        $first->();
        sleep(abs $gap);
        $second->();
        $ended++;
    }
    return { submitted => $submitted, ended => $ended, bad => \%bad,
        decided => \%decided };
}

my $t0 = time;
my %pids;
for my $race (@races) {
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
        srand($seed + length $race->{kind});
        my $r = eval { race($race) } // { died => $@ };
        open my $fh, '>', "$dir/$race->{kind}" or POSIX::_exit(1);
        print $fh JSON::PP::encode_json($r);
        close $fh;
        POSIX::_exit(0);
    }
    $pids{$pid} = $race;
}
waitpid $_, 0 for keys %pids;
my $took = time - $t0;

# --- what came of it --------------------------------------------------------

# By the database's clock: from the moment at which nothing stood before a job
# any more (its arrival, or the end of the one before it) to its start.
my $lags = q{
    select round(extract(epoch from t.granted_at
        - greatest(j.created_at, t.before)) * 1000, 3)
    from (select a.*, lag(a.ended_at) over (order by a.fence) as before
          from (select job_id, fence, granted_at, ended_at
                from interlock.attempts where kind = '%1$s'
                union all
                select job_id, fence, granted_at, null
                from interlock.leases where kind = '%1$s') a) t
    join interlock.jobs j on j.id = t.job_id
    where t.before is not null
};

for my $race (@races) {
    my $name = "$race->{overlap}, " . ($race->{two} ? 'two' : 'one')
        . ' interlockd';
    my $r = JSON::PP::decode_json(Interlock::Test::slurp(
        "$dir/$race->{kind}") // '{}');
    is(join('; ', map { "$_ ($r->{bad}{$_})" } sort keys %{ $r->{bad} })
        . ($r->{died} // ''), '', "$name: every call was answered as it"
        . ' should be');
    is($r->{ended}, $rounds, "$rounds races");
    my %d = (accepted => 0, buffered => 0, %{ $r->{decided} // {} });
    cmp_ok($d{accepted}, '>', $rounds / 50, "the end came first: "
        . "$d{accepted} times");
    cmp_ok($d{buffered}, '>', $rounds / 50, "the arrival came first: "
        . "$d{buffered} times");

    my @ms = map { $_->[0] } $i->sql(sprintf $lags, $race->{kind});
    cmp_ok(scalar @ms, '>=', $rounds - 1, 'every next one started');
    my $max = percentile(1, @ms);
    cmp_ok($max, '<', 1000, sprintf('from then on it started within %.1f ms '
        . '(median %.1f, p99 %.1f)', $max, percentile(0.5, @ms),
        percentile(0.99, @ms)));
}
note(sprintf '%.1f s', $took);
$i->check_sql;

done_testing();
