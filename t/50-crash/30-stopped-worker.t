#!/usr/bin/perl

# Workers are stopped (SIGSTOP) past the end of their lease; others take over;
# then the first go on (SIGCONT) with each call that there is.  All are
# refused with the right reason, and no row is changed by it.  The rightful
# owner, whose answer was lost, gets its first answer again.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use POSIX ();
use Socket qw(AF_UNIX SOCK_STREAM PF_UNSPEC);
use IO::Handle;
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

my $lease = 8;
my $json  = JSON::PP->new->canonical;

my $i = Interlock::Test->instance;

my %call = (
    renew    => [ '/v1/lease/renew', {} ],
    progress => [ '/v1/lease/progress',
        { progress => { done => 1, total => 2 }, step => 'late' } ],
    begin    => [ '/v1/effects', { name => 'mail', kind => 'stop-mail' } ],
    complete => [ '/v1/lease/complete', { result => { by => 'the first' } } ],
    fail     => [ '/v1/lease/fail', { error => 'late', retryable => \1 } ],
    release  => [ '/v1/lease/release', {} ],
);
my @calls = sort keys %call;


# --- a worker: a process that makes one call when told ----------------------

package Worker;

# new(owner token): it waits, and can be stopped
sub new {
    my ($class, $token) = @_;

    socketpair(my $here, my $there, Socket::AF_UNIX, Socket::SOCK_STREAM,
        Socket::PF_UNSPEC) or die "socketpair: $!";
    $_->autoflush(1) for $here, $there;
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        close $here;
        serve($there, $token);
        POSIX::_exit(0);
    }
    close $there;
    return bless { pid => $pid, sock => $here, token => $token }, $class;
}

sub serve {
    my ($sock, $token) = @_;

    while (my $line = <$sock>) {
        my ($path, $body) = @{ $json->decode($line) };
        my $res = $i->http(POST => $path, { body => $body,
            headers => { Authorization => "Bearer $token" } });
        print $sock $json->encode([ $res->{status}, $res->{body} ]), "\n";
    }
}

# call(name): what it is to do next; done even if it is stopped just now
sub call {
    my ($self, $name) = @_;

    my $sock = $self->{sock};
    print $sock $json->encode($call{$name}), "\n";
}

# answer: (status, body, type)
sub answer {
    my ($self) = @_;

    my $sock = $self->{sock};
    my ($status, $body) = @{ $json->decode(scalar <$sock> // '[0,""]') };
    my ($type) = (eval { $json->decode($body)->{type} } // '')
        =~ m{/problems/(.*)};
    return ($status, $body, $type // '');
}

sub now { $_[0]->call($_[1]); return $_[0]->answer }

sub signal {
    my ($self, $name) = @_;

    kill $name, $self->{pid} or die "kill $self->{pid}: $!";
    return if $name ne 'STOP';
    $i->wait_for(sub { Interlock::Test::slurp("/proc/$self->{pid}/stat")
        =~ /\) T/ }, 5, 'the worker to stop');
}

sub DESTROY {
    my ($self) = @_;

    local $?;
    return unless $self->{pid};
    kill 'KILL', $self->{pid};
    waitpid($self->{pid}, 0);
}

package main;


# --- helpers ---------------------------------------------------------------

sub put_kind {
    my ($name, %doc) = @_;

    my $res = $i->http(PUT => "/v1/kinds/$name", { token => 'operator',
        body => { overlap => 'buffer_all', lease_seconds => $lease,
            max_attempts => 5, %doc } });
    is($res->{status}, 200, "kind $name") or diag $res->{body};
}

sub submit {
    my ($kind, $key) = @_;

    my $res = $i->http(POST => '/v1/jobs', { token => 'submit',
        body => { kind => $kind, work_key => $key } });
    die $res->{body} if $res->{status} != 202;
    return $res->{json}{job_id};
}

# claim(kind, n): all n leases of that kind, by work key
sub claim {
    my ($kind, $n, $who) = @_;

    my %got;
    my $end = time + 20;
    while (keys %got < $n && time < $end) {
        my $res = $i->http(POST => '/v1/leases', { token => 'worker',
            body => { worker => $who, kinds => [$kind], max => $n,
                wait => 2 } });
        die $res->{body} if $res->{status} != 200;
        $got{ $_->{work_key} } = $_ for @{ $res->{json}{leases} };
    }
    is(scalar keys %got, $n, "$who has $n leases of $kind");
    return %got;
}

# Everything that a refused call might have changed.  (What a refused
# complete brought may be kept, as evidence, in refused_results.)
sub rows {
    my @tables = map { $_->[0] } $i->sql(q{
        select c.relname from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'interlock' and c.relkind = 'r'
            and c.relname not in ('refused_results', 'kind_pace')
        order by 1});
    cmp_ok(scalar @tables, '>', 10, 'the tables are found');
    my %rows;
    for my $table (@tables) {
        $rows{"$table: $_->[0]"} = 1
            for $i->sql("select x::text from interlock.$table x");
    }
    return \%rows;
}

sub same_rows {
    my ($before, $after, $what) = @_;

    my @gone = map { "- $_" } grep { !$after->{$_} } sort keys %$before;
    my @new = map { "+ $_" } grep { !$before->{$_} } sort keys %$after;
    is(join("\n", @gone, @new), '', $what);
}

sub refused {
    my ($worker, $type, $what) = @_;

    my ($status, $body, $got) = $worker->answer;
    is("$status $got", "409 $type", "$what: 409 $type") or diag $body;
}


# --- the matrix ------------------------------------------------------------

{
    my $res = $i->http(PUT => '/v1/effect-kinds/stop-mail', {
        token => 'operator', body => { send_deadline => 1 } });
    is($res->{status}, 200, 'effect kind stop-mail') or diag $res->{body};
}

# What becomes of the job while its first worker stands still:
#   canceled   an operator cancels it; the lease goes on
#   expired    the lease is over, but nobody has recovered it yet
#   queued     recovered; nobody has it
#   running    recovered, and another worker has it
#   finished   recovered, and another worker completed it
my %expect = (
    canceled => { map { $_ => 'job-canceled' } qw(progress begin complete) },
    expired  => { map { $_ => 'lease-expired' } qw(renew progress begin) },
    map { $_ => { map { $_ => 'lease-lost' } @calls } }
        qw(queued running finished),
);

my %worker;                             # case => call => Worker
my %cases = map { $_ => [ sort keys %{ $expect{$_} } ] } keys %expect;

# (those of canceled jobs must last until all of it was tried)
put_kind("stop-$_", $_ eq 'canceled' ? (lease_seconds => 300) : ())
    for sort keys %cases;
for my $case (sort keys %cases) {
    submit("stop-$case", "$case:$_") for @{ $cases{$case} };
}

for my $case (sort keys %cases) {
    my %got = claim("stop-$case", scalar @{ $cases{$case} }, 'first');
    $worker{$case}{$_} = Worker->new($got{"$case:$_"}{owner_token})
        for @{ $cases{$case} };
}
# Recovery passes by what somebody has locked.
open my $psql, '|-', 'psql', '-XAtq', '-d', $i->dsn('admin'), '-f', '-'
    or die "psql: $!";
$psql->autoflush(1);
print $psql "begin; update interlock.works set kind = kind"
    . " where work_key like 'expired:%';\n";
$i->wait_for(sub { @{ $cases{expired} } == $i->psql("select count(*) from"
    . " interlock.works where work_key like 'expired:%'") - $i->psql(
    "select count(*) from (select from interlock.works"
    . " where work_key like 'expired:%' for update skip locked) x") }, 10,
    'these works to be locked');

my ($status) = $worker{running}{renew}->now('renew');
is($status, 200, 'the first worker renews while it has the lease');
my $since = time;

for my $case (sort keys %cases) {
    for my $call (@{ $cases{$case} }) {
        my $w = $worker{$case}{$call};
        $w->signal('STOP');
        $w->call($call);                # it will do that, however late
    }
}

# canceled: the lease goes on, so these may not wait
for my $call (@{ $cases{canceled} }) {
    my ($job) = $i->psql("select id from interlock.jobs"
        . " where work_key = 'canceled:$call'");
    my $res = $i->http(POST => "/v1/jobs/$job/cancel", { token => 'operator',
        body => { requested_by => 'operator', reason => 'test' } });
    is($res->{status}, 202, "the job of $call is canceled");
}
{
    my $before = rows();
    for my $call (@{ $cases{canceled} }) {
        $worker{canceled}{$call}->signal('CONT');
        refused($worker{canceled}{$call}, 'job-canceled',
            "canceled: $call");
    }
    same_rows($before, rows(), 'canceled: nothing changed by these');
    is($i->psql("select count(*) from interlock.refused_results"), 1,
        'what the refused complete brought is kept');
    my ($code, $body) = $worker{canceled}{complete}->now('renew');
    is($code, 200, 'renew is answered');
    ok(eval { $json->decode($body)->{cancel_requested} },
        'and says that the job is to end') or diag $body;
    ($code) = $worker{canceled}{$_}->now('release') for @{ $cases{canceled} };
    is($code, 200, 'the worker yields');
}

$i->wait_for(sub { !$i->psql("select count(*) from interlock.leases"
    . " where work_key !~ '^expired:'") }, $lease + 20,
    'the leases to end and be recovered');
cmp_ok(time - $since, '>=', $lease - 1, 'the leases lasted that long');

my %other = claim('stop-running', scalar @calls, 'other');
my %done = claim('stop-finished', scalar @calls, 'other');
for my $lease (values %done) {
    my $res = $i->http(POST => '/v1/lease/complete', {
        headers => { Authorization => "Bearer $lease->{owner_token}" },
        body => { result => { by => 'the other' } } });
    die $res->{body} if $res->{status} != 200;
}

my $before = rows();
my @late = map { my $case = $_; map { [ $case, $_ ] } @{ $cases{$case} } }
    qw(expired queued running finished);
$worker{ $_->[0] }{ $_->[1] }->signal('CONT') for @late;
refused($worker{ $_->[0] }{ $_->[1] }, $expect{ $_->[0] }{ $_->[1] },
    "$_->[0]: $_->[1]") for @late;
same_rows($before, rows(), 'nothing changed by any of them');

# Each of them may go on trying.
refused2($_) for map { $worker{finished}{$_} } @calls;
sub refused2 {
    my ($w) = @_;
    my ($status, $body, $type) = $w->now('complete');
    is("$status $type", '409 lease-lost', 'and again') or diag $body;
}

for my $lease (values %other) {
    my $res = $i->http(POST => '/v1/lease/complete', {
        headers => { Authorization => "Bearer $lease->{owner_token}" },
        body => { result => { by => 'the other' } } });
    is($res->{status}, 200, "the owner of $lease->{work_key} completes");
}
for my $case (qw(running finished)) {
    is($i->psql("select count(*) || ' ' || count(distinct job_id) || ' ' ||"
        . " min(result ->> 'by') || ' ' || max(result ->> 'by')"
        . " from interlock.results where work_key like '$case:%'"),
        @calls . ' ' . @calls . ' the other the other',
        "$case: one result a job, the other's");
}
is($i->psql(q{select count(*) from (
    select work_key, fence, lag(fence) over (partition by work_key
        order by granted_at) as prev from interlock.attempts) x
    where fence <= prev}), 0, 'each fence is above the one before');

close $psql;                            # rolls back; now these are recovered
$i->wait_for(sub { !$i->psql('select count(*) from interlock.leases') }, 20,
    'the rest to be recovered');


# --- an answer that is lost ------------------------------------------------

# The worker has sent its complete and is killed before it reads the answer;
# another process with the same token repeats the call.
my $deaf;
END { if ($deaf) { local $?; kill 'KILL', $deaf; waitpid($deaf, 0) } }

for my $call (qw(complete fail release)) {
    put_kind("answer-$call");
    my $job = submit("answer-$call", "answer:$call");
    my %got = claim("answer-$call", 1, 'owner');
    my $token = $got{"answer:$call"}{owner_token};
    $deaf = fork() // die "fork: $!";
    if (!$deaf) {
        my $body = $json->encode($call{$call}[1]);
        my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
            PeerPort => $i->port) or POSIX::_exit(1);
        print $sock "POST $call{$call}[0] HTTP/1.1\r\nHost: x\r\n"
            . "Authorization: Bearer $token\r\n"
            . 'Content-Length: ' . length($body) . "\r\n\r\n$body";
        $sock->flush;
        kill 'STOP', $$;                # the answer comes, nobody reads it
        POSIX::_exit(0);
    }
    $i->wait_for(sub { $i->psql("select count(*) from interlock.attempts"
        . " where job_id = '$job' and call = '$call'") }, 10,
        "the $call to be done");
    kill 'KILL', $deaf;
    waitpid($deaf, 0);
    $deaf = undef;

    my $before = rows();
    my $again = Worker->new($token);
    my ($status, $body) = $again->now($call);
    is($status, 200, "a repeated $call gets its answer") or diag $body;
    my ($status2, $body2) = $again->now($call);
    is("$status2 $body2", "200 $body", 'the same each time');
    is($json->decode($body)->{job_id}, $job, 'about that job');
    same_rows($before, rows(), 'and does nothing');

    my ($code, $text, $type) = $again->now($call eq 'fail' ? 'complete'
        : 'fail');
    is("$code $type", '409 lease-lost', 'another call does not get it')
        or diag $text;
}
is($i->psql("select count(*) from interlock.results"
    . " where work_key = 'answer:complete'"), 1, 'one result');

# The body is on its way while the worker is stopped: what counts is when it
# is there.
{
    put_kind('slow', lease_seconds => 1);
    my $job = submit('slow', 'slow:body');
    my %got = claim('slow', 1, 'first');
    my $body = $json->encode($call{complete}[1]);
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $i->port) or die "connect: $!";
    print $sock "POST /v1/lease/complete HTTP/1.1\r\nHost: x\r\n"
        . "Authorization: Bearer $got{'slow:body'}{owner_token}\r\n"
        . "Connection: close\r\n"
        . 'Content-Length: ' . length($body) . "\r\n\r\n"
        . substr($body, 0, 5);
    $sock->flush;
    my %other = claim('slow', 1, 'other');
    print $sock substr($body, 5);
    $sock->flush;
    my $answer = do { local $/; <$sock> };
    like($answer, qr{^HTTP/1.1 409 .*/problems/lease-lost}s,
        'a complete that was half sent before the lease ended: lease-lost');
    is($i->http(POST => '/v1/lease/complete', { headers => {
        Authorization => "Bearer $other{'slow:body'}{owner_token}" },
        body => {} })->{status}, 200, 'the other one completes');
}

%worker = ();
$i->check_sql;

done_testing();
