package Interlock::Cut;

# Cuts connections to the database by pg_terminate_backend under one call of
# interlockd at one moment: a cell of a table that a test has.
#
#     my $cut = Interlock::Cut->new(%options_of_the_instance);
#     my $i = $cut->i;
#     $cut->cells($call…);        # a test for each cell; how many there were
#
# The moments:
#
#   idle          between two calls
#   at TABLE      inside the call, where it first needs that table
#   written       all is written, nothing committed
#   committed     the COMMIT is durable here, its answer is not on its way yet
#   answer        the answer is lost on its way back; answer x3: three times
#
# A call is a hash:
#
#   name     in the names of its cells
#   call     its SQL function;  app: the session that makes it
#   at       tables at which it is held
#   trigger  [ table, operation ] whose deferred trigger holds it when written
#   not      { moment => 1 }: what it does not have
#   given    makes the state; answers anything
#   start    ($state) makes the call; answers what `then` gets
#   then     ($state, $got) judges: a list of [ what, got, wanted ]

use strict;
use warnings;

use Exporter 'import';
use Test::More ();
use Time::HiRes qw(time);

use Interlock::FastCGI;
use Interlock::PgProxy;
use Interlock::Session;
use Interlock::Standby;
use Interlock::Test;

our @EXPORT_OK = qw(api);

# new(%opt): the instance's options, and tables => [ … ] beside the usual ones
# whose writing may be held.
sub new {
    my ($class, %opt) = @_;

    my @conf = ('recover_interval = 100ms', 'read_connections = 1',
        @{ delete $opt{conf} // [] });
    my @tables = (qw(requests leases jobs works actions kinds limits),
        @{ delete $opt{tables} // [] });
    my $i = Interlock::Test->instance(%opt, start => 0);
    my ($real) = $i->dsn('service') =~ /host=(\S+)/;
    my $proxy = Interlock::PgProxy->new($real);
    (my $dsn = $i->dsn('service')) =~ s/host=\S+/'host=' . $proxy->dir/e;
    $i->local_conf('interlockd', join "\n", "dsn = $dsn", @conf);
    $i->start;

    my $self = bless { i => $i, proxy => $proxy,
        token => { map { $_ => $i->token($_) }
            qw(submit worker operator auditor) },
        standby => Interlock::Standby->new($i),
        holder => Interlock::Session->new($i->dsn('admin')),
        db => Interlock::Session->new($i->dsn('admin')) }, $class;

    # A deferred trigger waits, at COMMIT, for whoever holds its lock; only
    # for interlockd's own sessions.  A job that an update moves to another
    # part of its table is deleted in the first one.
    $self->{db}->do(q{
create function public.held() returns trigger language plpgsql as $$
begin
    if session_user = 'interlock_service' then
        perform pg_advisory_xact_lock_shared(7707, hashtext(c.relname
            || case when c.relname = 'jobs' and tg_op = 'DELETE'
                then 'update' else lower(tg_op) end))
        from pg_class c
        where c.oid = coalesce(pg_partition_root(tg_relid), tg_relid);
    end if;
    return null;
end $$});
    $self->{db}->do('create constraint trigger held after insert or update '
        . "or delete on interlock.$_ deferrable initially deferred for each "
        . 'row execute function public.held()') for @tables;
    return $self;
}

sub i  { $_[0]{i} }
sub db { $_[0]{db} }

# one(sql): the first column of the first row
sub one { my ($self, $sql) = @_; return ($self->{db}->do($sql))[0][0] }

# api(role or token, METHOD, path, body, headers): a request
sub api {
    my ($role, $method, $path, $body, $headers) = @_;

    return [ $method => $path, { token => $role, headers => $headers // {},
        defined $body ? (body => $body) : () } ];
}

sub connection { return Interlock::FastCGI->of_instance($_[0]{i}) }

# begin(request): a connection on which its answer will come; ask(request):
# its answer
sub begin {
    my ($self, $request) = @_;

    my ($method, $path, $opt) = @$request;
    my $c = $self->connection;
    $c->send($method, $path, { %$opt,
        token => $self->{token}{ $opt->{token} } // $opt->{token} });
    return $c;
}

sub ask { my $self = shift; return $self->begin(@_)->response(15) }

# job(key, kind): its id; claim(kind, more…): a request; lease(key, kind)
sub job {
    my ($self, $key, $kind) = @_;

    my $res = $self->ask(api(submit => POST => '/v1/jobs', {
        kind => $kind // 'cut', work_key => $key }));
    die "submit $key: $res->{status} $res->{body}" if $res->{status} != 202;
    return $res->{json}{job_id};
}

sub claim {
    my ($self, $kind, %more) = @_;

    return api(worker => POST => '/v1/leases',
        { kinds => [ $kind // 'cut' ], worker => 'w', %more });
}

sub lease {
    my ($self, $key, $kind) = @_;

    my $job = $self->job($key, $kind);
    my $l = $self->ask($self->claim($kind))->{json}{leases}[0];
    die "claim $key" if !$l || $l->{job_id} ne $job;
    return $l;
}

# attempts_of(job): the calls that ended its attempts
sub attempts_of {
    my ($self, $job) = @_;

    return join ' ', map { $_->[0] } $self->{db}->do('select call from '
        . "interlock.attempts where job_id = '$job' order by fence");
}

# parked: until a claim waits
sub parked {
    my ($self) = @_;

    $self->{i}->wait_for(sub {
        $self->{i}->metrics->{interlock_parked_requests} }, 5,
        'a claim to be parked');
}

# stuck(app, event): until a session of interlockd's waits so
sub stuck {
    my ($self, $app, $event) = @_;

    return $self->{i}->wait_for(sub { $self->one('select count(*) from '
        . "pg_stat_activity where application_name = '$app' and $event") },
        8, "$app to be held ($event)");
}

# cut(app): ends its sessions; returns when they are gone
sub cut {
    my ($self, $app) = @_;

    my $pids;
    $self->{i}->wait_for(sub { $pids = $self->one('select '
        . "string_agg(pid::text, ',') from pg_stat_activity where "
        . "application_name = '$app'") }, 5, "a session of $app");
    $self->{db}->do('select pg_terminate_backend(pid) from '
        . "pg_stat_activity where pid in ($pids)");
    $self->{i}->wait_for(sub { !$self->one('select count(*) from '
        . "pg_stat_activity where pid in ($pids)") }, 5, 'it to be gone');
}

# through(call, moment, start): runs start, holds its call at that moment,
# cuts the connection, lets go; what start answered.
sub through {
    my ($self, $call, $moment, $start) = @_;

    my ($app, $holder, $i) = ($call->{app}, @$self{qw(holder i)});

    if ($moment eq 'idle') {
        $self->cut($app);
        return $start->();
    }
    if ($moment =~ /^answer(?: x(\d))?/) {
        my ($n, $before) = ($1 // 1, $self->{proxy}->dropped);
        $self->{proxy}->drop($call->{call}, $n);
        my $got = $start->();
        $i->wait_for(sub { $self->{proxy}->dropped == $before + $n }, 10,
            "$n answers of $call->{call} to be lost");
        return $got;
    }

    my ($hold, $event) = $moment =~ /^at (\S+)/
        ? ("lock table interlock.$1 in access exclusive mode",
            "wait_event_type = 'Lock'")
        : ("select pg_advisory_xact_lock(7707, hashtext('"
            . join('', @{ $call->{trigger} }) . "'))",
            "wait_event = 'advisory'");

    $holder->do('begin');
    $holder->do($hold);
    my $got = $start->();
    $self->stuck($app, $event);
    if ($moment ne 'committed') {
        $self->cut($app);
        $holder->do('rollback');
        return $got;
    }

    # until now held at its end; from now on commits wait for a standby
    $self->{standby}->hold;
    $holder->do('rollback');
    $self->stuck($app, "wait_event = 'SyncRep'");
    $self->cut($app);
    $self->{standby}->release;
    return $got;
}

# cells([only,] call…): a test for each cell (whose name matches); how many
sub cells {
    my ($self, $only, @calls) = @_;

    my $cells = 0;
    for my $call (@calls) {
        for my $moment ('idle', (map { "at $_" } @{ $call->{at} }), 'written',
            'committed', 'answer', 'answer x3')
        {
            my ($plain) = $moment =~ /^(answer|.*)/;
            next if ($call->{not} // {})->{$plain};
            my $name = "$call->{name}: $moment";
            next if defined $only && $name !~ /$only/;
            $cells++;
            $self->cell($call, $moment, $name);
        }
    }
    return $cells;
}

sub cell {
    my ($self, $call, $moment, $name) = @_;

    my $t0 = time;
    my @judged;
    my $ok = eval {
        my $state = $call->{given}->();
        my $got = $self->through($call, $moment,
            sub { $call->{start}->($state) });
        @judged = $call->{then}->($state, $got);
        1;
    };
    my $why = $@;
    eval { $self->{holder}->do('rollback') };
    $self->{standby}->release if !$ok;
    my @wrong = grep { ($_->[1] // 'none') ne ($_->[2] // 'none') } @judged;
    Test::More::ok($ok && @judged && !@wrong, $name)
        or Test::More::diag($why, map { "  $_->[0]: " . ($_->[1] // 'none')
            . ', not ' . ($_->[2] // 'none') . "\n" } @wrong);

    # what is left queued is nobody's
    $self->{db}->do('select from interlock.jobs j cross join lateral '
        . 'interlock.job_cancel(j.tenant, j.id, null, null, null, null) '
        . "where j.status = 'queued'");
    Test::More::note(sprintf '%.2f s', time - $t0) if time - $t0 > 1;
}

1;
