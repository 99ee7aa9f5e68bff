#!/usr/bin/perl

# A button that is pressed twice, over two connections, each press with an
# idempotency key of its own: one job, and the second press does not get
# beyond nginx.  Another content decides for itself; the end of the job ends
# the hold, whoever ends it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

my $i = Interlock::Test->instance(nginx_server => <<'END');
        location = /in/press {
            interlock zone=interlock;
            interlock_tenant demo;
            interlock_source button;
            interlock_kind $arg_kind;
            interlock_idempotency_key $http_idempotency_key required;
            interlock_work_key press $arg_work;
            fastcgi_read_timeout 20s;
            fastcgi_pass interlockd;
        }
        location = /edge { interlock_status; }
END

sub op {
    my ($method, $path, $body) = @_;
    return $i->http($method, $path, { token => 'operator', body => $body });
}

my %kind = (
    'press-skip'   => { overlap => 'skip' },
    'press-two'    => { overlap => 'skip', hold => 2 },
    'press-none'   => { overlap => 'skip', hold => 0 },
    'press-allow'  => { overlap => 'allow' },
    'press-latest' => { overlap => 'buffer_one' },
    'press-same'   => { overlap => 'buffer_one', when_completed => 'return',
                        hold => 2 },
    'press-all'    => { overlap => 'buffer_all', when_completed => 'return' },
);
for my $k (sort keys %kind) {
    is(op(PUT => "/v1/kinds/$k", $kind{$k})->{status}, 200, $k);
}
is(op(PUT => '/v1/kinds/press-long', { hold => 3 })->{status}, 400,
    'three seconds are refused');

my $n = 0;

# press(kind, work, {key, body}): each over a connection of its own
sub press {
    my ($kind, $work, $opt) = @_;
    return $i->http(POST => "/in/press?kind=$kind&work=$work", {
        token => 'submit', body => $opt->{body} // { page => 1 },
        headers => { 'Idempotency-Key' => $opt->{key} // 'k' . ++$n } });
}

sub coalesced {
    my ($l) = grep { $_->{location} eq '/in/press' } map { @{ $_->{locations} } }
        @{ $i->http(GET => '/edge', {})->{json}{zones} };
    return $l->{decisions}{coalesced};
}

sub jobs {
    my ($work) = @_;
    return $i->psql("select count(*) from interlock.jobs"
        . " where work_key = 'press:$work'");
}

sub claim {
    my ($kind) = @_;
    return $i->http(POST => '/v1/leases', { token => 'worker', body =>
        { worker => 'w', kinds => [$kind], wait => 5 } })->{json}{leases}[0];
}

sub finish {
    my ($lease, $call, $body) = @_;
    return $i->http(POST => "/v1/lease/$call", {
        headers => { Authorization => "Bearer $lease->{owner_token}" },
        body => $body // {} });
}


# the double click

my $one = press('press-two', 'a');
my $two = press('press-two', 'a', { key => 'mine' });
is($one->{status}, 202, 'the first press');
is($one->{headers}{'interlock-hold'}, undef, 'nginx keeps the grant');
is($two->{status}, 200, 'the second press');
is($two->{headers}{'interlock-decision'}, 'skipped', 'is skipped');
is($two->{json}{reason}, 'same_work', 'because it is the same work');
is($two->{json}{job_id}, $one->{json}{job_id}, 'with the job of the first');
is(coalesced(), 1, 'by nginx');
my $other = press('press-two', 'a', { body => { page => 2 } });
is($other->{json}{reason}, 'work_active', 'another content: the database says');
is(coalesced(), 1, 'and not nginx');
is(jobs('a'), 1, 'one job');

# It is what the database says without nginx's help, but for the reason,
# which there is by the overlap.
my $none = press('press-none', 'b');
my $direct = press('press-none', 'b');
is(coalesced(), 1, 'hold 0: nginx says nothing');
my %a = (%{ $two->{json} }, reason => 'x');
my %b = (%{ $direct->{json} }, reason => 'x');
$_ =~ s/$one->{json}{job_id}|$none->{json}{job_id}/JOB/g for values %a,
    values %b;
delete @{$_}{qw(kind work_key)} for \%a, \%b;
is_deeply(\%a, \%b, 'the same answer');

my $again = press('press-two', 'a', { key => 'mine' });
is($again->{body}, $two->{body}, 'the key of the second press has its answer');
is($again->{headers}{'idempotency-replayed'}, 'true', 'as a replay');

# what nginx said by itself is put on record, and outlives it
$i->wait_for(sub { $i->psql("select count(*) from interlock.requests"
    . " where work_key = 'press:a' and idempotency_key = 'mine'") == 2 }, 10,
    'what nginx answered to be on record');
is($i->psql("select decision, reason, job_id = '$one->{json}{job_id}'"
    . " from interlock.requests where work_key = 'press:a'"
    . " and idempotency_key = 'mine' order by arrived_at, decision desc"),
    "skipped|same_work|t\nduplicate||t", 'the second press, and its repeat');
my $nginx = $i->nginx_pid;
kill TERM => $nginx;
$i->wait_for(sub { my $pid = eval { $i->nginx_pid };
    $pid && $pid != $nginx && eval { $i->http(GET => '/readyz', {})->{status}
    == 200 } }, 30, 'another nginx');
is(coalesced(), 0, 'an nginx that knows nothing');
$again = press('press-two', 'a', { key => 'mine' });
is($again->{body}, $two->{body}, 'the key has its answer from the database');
is($again->{headers}{'idempotency-replayed'}, 'true', 'as a replay, too');
is(coalesced(), 0, 'and not from nginx');


# where each request is to be heard

for my $kind (qw(press-allow press-latest press-all)) {
    my $before = coalesced();
    press($kind, $kind) for 1 .. 3;
    is(coalesced(), $before, "$kind: the database decides each time");
}
is(jobs('press-allow'), 3, 'allow: three jobs');
press('press-same', 'c') for 1, 2;
is(coalesced(), 1, 'buffer_one with return: the same work is held');
is(press('press-same', 'c', { body => { page => 2 } })->{json}{decision},
    'buffered', 'another content waits');
is(press('press-same', 'c')->{json}{decision}, 'buffered',
    'and then the first one is not the newest any more');


# the end of the job

for my $end (
    [ 'complete', sub { finish($_[0], 'complete', { result => { ok => 1 } }) } ],
    [ 'fail', sub { finish($_[0], 'fail', { error => 'no', retryable => \0 }) } ],
    [ 'cancel', sub { op(POST => "/v1/jobs/$_[0]{job_id}/cancel",
        { requested_by => 'somebody', reason => 'because' }) } ],
) {
    my ($what, $do) = @$end;
    my $kind = "press-end-$what";
    op(PUT => "/v1/kinds/$kind", { overlap => 'skip', hold => 2 });
    my $first = press($kind, $what);
    my $lease = claim($kind);
    is($lease->{job_id}, $first->{json}{job_id}, "$what: claimed");
    my $begun = time;
    my $held = press($kind, $what);
    my $res = $do->($lease);
    cmp_ok($res->{status}, '<', 300, "$what: done");
    is($res->{headers}{'interlock-work-done'}, undef, "$what: nginx keeps it");
    my $next = press($kind, $what);
    SKIP: {
        skip 'the machine is too slow to tell', 2 if time - $begun > 1.8;
        is($held->{json}{reason}, 'same_work', "$what: held before");
        is($next->{status}, 202, "$what: and a new job after");
    }
}

# Released, and failed for now: the job is active still.
op(PUT => '/v1/kinds/press-back', { overlap => 'skip', hold => 2 });
my $first = press('press-back', 'r');
finish(claim('press-back'), 'release');
is(press('press-back', 'r')->{json}{job_id}, $first->{json}{job_id},
    'released: the work is still that job');


# two at the very same time, a hundred times

my $before = coalesced();
for my $k (1 .. 50) {
    my @pid;
    for (1, 2) {
        my $pid = fork // die;
        if (!$pid) {
            my $res = press('press-two', "t$k", { key => "t$k-$$" });
            POSIX::_exit($res->{status} =~ /^20[02]$/ ? 0 : 1);
        }
        push @pid, $pid;
    }
    my $bad = 0;
    for (@pid) { waitpid $_, 0; $bad ||= $? }
    $bad and fail("pair $k");
}
is($i->psql("select count(*) from interlock.jobs where work_key like"
    . " 'press:t%'"), 50, 'fifty pairs at once: fifty jobs');

$i->check_sql;
done_testing;
