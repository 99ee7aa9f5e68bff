package Interlock::Crew;

# Clients that submit and workers that work, over HTTP, while something is
# being broken underneath; and the comparison of what each of them was told
# with what the database holds.
#
#     my $crew = Interlock::Crew->new($i, workers => 8, hold => 30);
#     … break something, a few times …
#     $crew->finish(60);          # no more submissions; all jobs end
#     $crew->verify;              # tests: all that was said is true
#
# Each is a process of its own.  A call that got no final answer is repeated
# as it was, as every client of interlock does.  A worker holds many jobs at
# once, renews them at a third of their lease, and now and then fails one,
# hands one back, or forgets one as if it had died.

use strict;
use warnings;

use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use HTTP::Tiny;
use JSON::PP ();
use POSIX ();
use Test::More ();
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# new(instance, options):
#   workers, clients   how many processes of each (8, 2)
#   hold               jobs that a worker holds at once (30)
#   run                [ seconds from, to ] that a job takes ([ 1, 6 ]; at the
#                      end they take no time)
#   pause              seconds between two submissions of a client (0.02)
#   kinds              { name => { policy, keys => N, share => S } }: that
#                      share of the jobs goes to it; keys => 0 gives each job
#                      a key of its own
#   odd                share of jobs that are failed, handed back or
#                      forgotten, each (0.02)
#   seed
sub new {
    my ($class, $i, %opt) = @_;

    my $self = bless { workers => 8, clients => 2, hold => 30,
        run => [ 1, 6 ], pause => 0.01, odd => 0.02, seed => time,
        kinds => {
            crash => { overlap => 'skip', keys => 0, share => 0.96 },
            crashline => { overlap => 'buffer_all', keys => 12,
                share => 0.04 },
        }, %opt, i => $i, owner => $$,
        dir => tempdir('interlock-crew-XXXXXX', TMPDIR => 1) }, $class;

    for my $name (sort keys %{ $self->{kinds} }) {
        my %policy = %{ $self->{kinds}{$name} };
        $self->{keys}{$name} = delete $policy{keys};
        $self->{share}{$name} = delete $policy{share} // 1;
        my $res = $i->http(PUT => "/v1/kinds/$name", { token => 'operator',
            body => { lease_seconds => 4, backoff => 1, max_backoff => 1,
                max_attempts => 1000, %policy } });
        die "kind $name: $res->{body}" if $res->{status} != 200;
    }
    $self->{token} = { map { $_ => $i->token($_) } qw(submit worker) };
    $self->launch("c$_", 'client') for 1 .. $self->{clients};
    $self->launch("w$_", 'worker') for 1 .. $self->{workers};
    return $self;
}

sub launch {
    my ($self, $name, $role) = @_;

    my $pid = fork() // die "fork: $!";
    if ($pid) {
        $self->{pids}{$name} = $pid;
        return;
    }
    $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
    srand($self->{seed} + unpack '%32C*', $name);
    open my $log, '>', "$self->{dir}/$name" or POSIX::_exit(1);
    $self->{log} = $log;
    $self->{http} = HTTP::Tiny->new(timeout => 20, max_redirect => 0);
    $self->{me} = $name;
    my $ok = eval { $self->$role; 1 };
    print STDERR "$name: $@" unless $ok;
    close $log;
    POSIX::_exit($ok ? 0 : 1);
}

sub told { my ($self, $word) = @_; return -e "$self->{dir}/$word" }

sub tell {
    my ($self, $word) = @_;

    open my $fh, '>', "$self->{dir}/$word" or die "$self->{dir}: $!";
    close $fh;
}

sub note_down {
    my ($self, %what) = @_;

    print { $self->{log} } $json->encode(\%what), "\n";
}

sub call {
    my ($self, $path, $token, $body, $headers) = @_;

    my $res = $self->{http}->request(POST => $self->{i}->url . $path, {
        headers => { 'content-type' => 'application/json',
            authorization => "Bearer $token", %{ $headers // {} } },
        content => $json->encode($body) });
    $res->{json} = eval { $json->decode($res->{content}) };
    $self->{unanswered}++ if $res->{status} >= 500;
    return $res;
}

sub client {
    my ($self) = @_;

    my @kinds = sort keys %{ $self->{keys} };
    for (my $n = 1; !$self->told('enough'); $n++) {
        my ($x, $kind) = (rand);
        for (@kinds) {
            $kind = $_;
            last if ($x -= $self->{share}{$_}) < 0;
        }
        my $keys = $self->{keys}{$kind};
        my $key = "$kind:" . ($keys ? int rand $keys : "$self->{me}-$n");
        my ($res, $tries) = (undef, 0);
        do {
            sleep(0.01) if $tries++;
            $res = $self->call('/v1/jobs', $self->{token}{submit},
                { kind => $kind, work_key => $key, payload => { n => $n } },
                { 'idempotency-key' => "$self->{me}-$n" });
        } while $res->{status} >= 500;
        $self->note_down(what => 'submit', idem => "$self->{me}-$n",
            status => $res->{status}, tries => $tries,
            job => $res->{json}{job_id}, decision => $res->{json}{decision},
            body => $res->{content});
        sleep($self->{pause} * (0.5 + rand));
    }
    $self->note_down(what => 'unanswered', n => $self->{unanswered} // 0);
}

sub worker {
    my ($self) = @_;

    my @kinds = sort keys %{ $self->{keys} };
    my @held;
    while (1) {
        my $want = $self->{hold} - @held;
        if ($want > 0 && !$self->told('over')) {
            my $res = $self->call('/v1/leases', $self->{token}{worker},
                { worker => $self->{me}, kinds => \@kinds, max => $want,
                    wait => @held ? 0 : 1 });
            for my $l (@{ ($res->{json} // {})->{leases} // [] }) {
                next if $res->{status} != 200;
                $self->note_down(what => 'claim', job => $l->{job_id},
                    fence => $l->{fence}, attempt => $l->{attempt},
                    key => $l->{work_key});
                my ($from, $to) = @{ $self->{run} };
                push @held, { lease => $l, n => 0,
                    due => time + $from + rand($to - $from),
                    renew => time + $l->{lease_seconds} / 3,
                    end => $self->plan };
            }
        }
        last if !@held && $self->told('over');
        @held = grep { $self->tend($_) } @held;
        sleep(0.02);
    }
    $self->note_down(what => 'unanswered', n => $self->{unanswered} // 0);
}

# What will become of a job: mostly complete
sub plan {
    my ($self) = @_;

    my $x = rand;
    return $x < $self->{odd} ? [ forget => {} ]
        : $x < 2 * $self->{odd} ? [ release => {} ]
        : $x < 3 * $self->{odd} ? [ fail => { error => 'as planned' } ]
        : [ complete => { result => { x => rand } } ];
}

# tend(job): what is due of it; true if it is still held
sub tend {
    my ($self, $h) = @_;

    my $now = time;
    $h->{due} = $now if $self->told('enough');
    my ($call, $body) = $now >= $h->{due} ? @{ $h->{end} }
        : $now >= $h->{renew} ? ('progress',
            { progress => { done => $h->{n} + 1 }, step => 's' })
        : return 1;
    if ($call eq 'forget') {
        $self->note_down(what => 'forget', job => $h->{lease}{job_id},
            fence => $h->{lease}{fence});
        return 0;
    }
    my $res = $self->call("/v1/lease/$call", $h->{lease}{owner_token},
        $body);
    return 1 if $res->{status} >= 500;     # again, as it was
    $self->note_down(what => $call, job => $h->{lease}{job_id},
        fence => $h->{lease}{fence}, status => $res->{status},
        n => $h->{n} + 1, body => $res->{content},
        revision => ($res->{json} // {})->{revision});
    return 0 if $res->{status} != 200 || $call ne 'progress';
    $h->{n}++;
    $h->{renew} = time + $h->{lease}{lease_seconds} / 3;
    return 1;
}

# finish(seconds): the clients stop, the workers go on until every job has
# ended, then they stop too.
sub finish {
    my ($self, $seconds) = @_;

    $self->tell('enough');
    $self->gone('c');
    my $ok = eval { $self->{i}->wait_for(sub { !$self->{i}->psql(
        'select count(*) from interlock.jobs where finished_at is null') },
        $seconds // 60, 'all jobs to end'); 1 };
    Test::More::ok($ok, 'every job ends') or Test::More::diag($@ . join "\n",
        map { join '|', map { $_ // '' } @$_ } $self->{i}->sql(
        'select id, status, place, attempts, error from interlock.jobs '
        . 'where finished_at is null limit 20'));
    $self->tell('over');
    $self->gone('w');
    return $ok;
}

sub gone {
    my ($self, $letter) = @_;

    my $bad = 0;
    for my $name (grep { /^$letter/ } keys %{ $self->{pids} }) {
        waitpid delete $self->{pids}{$name}, 0;
        $bad++ if $?;
    }
    die "$bad processes failed\n" if $bad;
}

# said: what each was told, in order
sub said {
    my ($self) = @_;

    my @all;
    for my $path (sort glob "$self->{dir}/[cw][0-9]*") {
        open my $fh, '<', $path or die "$path: $!";
        push @all, map { $json->decode($_) } <$fh>;
    }
    return @all;
}

# verify: some tests; answers { unanswered, submitted, ended, refused, lost }
sub verify {
    my ($self) = @_;

    my $i = $self->{i};
    my @said = $self->said;
    my %by;
    push @{ $by{ $_->{what} } }, $_ for @said;
    my $unanswered = 0;
    $unanswered += $_->{n} for @{ $by{unanswered} };

    # Submissions
    my %job = map { $_->[0] => { status => $_->[1], revision => $_->[2] } }
        $i->sql('select id, status, revision from interlock.jobs');
    my @submits = @{ $by{submit} // [] };
    my @wrong = grep { $_->{status} !~ /^2/ } @submits;
    tell_wrong('each submission got a 2xx in the end', @wrong);
    my %named = map { ($_->{job} // '') => 1 } @submits;
    tell_wrong('each job that a client was told of is stored',
        grep { !$job{ $_->{job} // '' } } @submits);
    Test::More::is(scalar keys %named, scalar @submits,
        'no two submissions were told the same job');
    Test::More::is(scalar keys %job, scalar @submits,
        scalar(@submits) . ' jobs: as many as were submitted');
    tell_wrong('each ended as succeeded', map { { job => $_,
        status => $job{$_}{status} } } grep {
        $job{$_}{status} ne 'succeeded' } sort keys %job);

    # Ends
    my %end;
    for ($i->sql('select job_id, fence, call, status, revision, renewals, '
        . "progress->>'done' from interlock.attempts"))
    {
        my ($job, $fence, @rest) = @$_;
        @{ $end{"$job $fence"} }{qw(call status revision renewals done)}
            = @rest;
    }
    tell_wrong('each lease that a worker was given is an attempt',
        grep { !$end{"$_->{job} $_->{fence}"} } @{ $by{claim} });
    my (%claimed, @twice);
    for (@{ $by{claim} }) {
        push @twice, $_ if $claimed{"$_->{job} $_->{fence}"}++;
    }
    tell_wrong('no lease was given to two', @twice);

    my (@untrue, @refused, $ended);
    for my $call (qw(complete fail release progress)) {
        for my $s (@{ $by{$call} // [] }) {
            my $e = $end{"$s->{job} $s->{fence}"} // {};
            if ($s->{status} == 200 && $call eq 'progress') {
                push @untrue, { %$s, db => $e }
                    if ($e->{done} // 0) < $s->{n};
            } elsif ($s->{status} == 200) {
                $ended++;
                push @untrue, { %$s, db => $e } if ($e->{call} // '') ne $call
                    || ($call eq 'complete'
                        && $e->{revision} != $s->{revision});
            } else {
                push @refused, $s;
                push @untrue, { %$s, db => $e } if $s->{status} != 409
                    || $s->{body} !~ /lease-(?:lost|expired)/
                    || ($e->{call} // '') ne 'lost';
            }
        }
    }
    tell_wrong('each call that was answered with 200 is what the database '
        . 'has, each that was refused lost its lease', @untrue);

    my $lost = grep { $_->{call} eq 'lost' } values %end;
    Test::More::is($i->psql('select count(*) from (select job_id from '
        . "interlock.attempts where call = 'complete' group by tenant, "
        . 'job_id having count(*) = 1) x'), scalar keys %job,
        'each job was completed once');
    Test::More::is($i->psql('select count(*) || chr(32) || count(distinct '
        . 'job_id) from interlock.results'), join(' ', (scalar keys %job)
        x 2), 'and has one result');
    $i->check_sql;
    return { unanswered => $unanswered, submitted => scalar @submits,
        ended => $ended // 0, refused => scalar @refused, lost => $lost };
}

sub tell_wrong {
    my ($name, @wrong) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;
    Test::More::is(scalar @wrong, 0, $name) or Test::More::diag(join "\n",
        map { $json->encode($_) } @wrong[ 0 .. ($#wrong < 9 ? $#wrong : 9) ]);
}

sub DESTROY {
    my ($self) = @_;

    return unless $self->{owner} == $$;
    local ($?, $@);
    for my $pid (values %{ $self->{pids} // {} }) {
        kill 'KILL', $pid;
        waitpid $pid, 0;
    }
    remove_tree($self->{dir});
}

1;
