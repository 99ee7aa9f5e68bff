#!/usr/bin/perl

# A connection to the database is cut by pg_terminate_backend under every call
# that interlockd makes, at every moment that makes a difference:
#
#   idle          between two calls
#   at TABLE      inside the call, where it first needs that table
#   written       all is written, nothing committed
#   committed     the COMMIT is durable here, its answer is not on its way yet
#   answer        the answer is lost on its way back; answer x3: three times
#
# In each of these cells the caller gets the right answer in the end, with the
# ids of the first try, and what was done is there exactly once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::PgProxy;
use Interlock::Session;
use Interlock::Test;

my $i = Interlock::Test->instance(start => 0,
    conf => [ 'recover_interval = 100ms', 'read_connections = 1' ]);
my ($real) = $i->dsn('service') =~ /host=(\S+)/;
my $proxy = Interlock::PgProxy->new($real);
(my $dsn = $i->dsn('service')) =~ s/host=\S+/'host=' . $proxy->dir/e;
$i->local_conf('interlockd', "dsn = $dsn\nrecover_interval = 100ms\n"
    . 'read_connections = 1');
$i->start;

my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $holder = Interlock::Session->new($i->dsn('admin'));
my $db = Interlock::Session->new($i->dsn('admin'));
my $cells = 0;

# A deferred trigger waits, at COMMIT, for whoever holds its lock; only for
# interlockd's own sessions.
$db->do(q{
create function public.held() returns trigger language plpgsql as $$
begin
    if session_user = 'interlock_service' then
        perform pg_advisory_xact_lock_shared(7707,
            hashtext(tg_table_name || lower(tg_op)));
    end if;
    return null;
end $$});
$db->do("create constraint trigger held after insert or update or delete on "
    . "interlock.$_ deferrable initially deferred for each row execute "
    . 'function public.held()')
    for qw(requests leases jobs works actions kinds limits);

for my $name ([ cut => overlap => 'skip' ], [ cutone => overlap =>
    'buffer_one' ], [ cutwait => max_wait => 1 ], [ cutlimit => limits =>
    ['cutter'] ])
{
    my ($kind, %policy) = @$name;
    my $res = $i->http(PUT => "/v1/kinds/$kind", { token => 'operator',
        body => { lease_seconds => 600, max_attempts => 9, %policy } });
    die $res->{body} if $res->{status} != 200;
}

# --- what the cells need ----------------------------------------------------

sub connection { return Interlock::FastCGI->of_instance($i) }
sub one { return ($db->do($_[0]))[0][0] }

sub api {
    my ($role, $method, $path, $body, $headers) = @_;

    return [ $method => $path, { token => $token{$role} // $role,
        headers => $headers // {}, defined $body ? (body => $body) : () } ];
}

# ask(request): its answer; begin(request): a connection on which it will come
sub ask { return connection()->request(@{ $_[0] }) }

sub begin {
    my ($request) = @_;

    my $c = connection();
    $c->send(@$request);
    return $c;
}

sub job {
    my ($key, $kind) = @_;

    my $res = ask(api(submit => POST => '/v1/jobs', {
        kind => $kind // 'cut', work_key => $key }));
    die "submit $key: $res->{status} $res->{body}" if $res->{status} != 202;
    return $res->{json}{job_id};
}

sub claim {
    my ($kind, %more) = @_;

    return api(worker => POST => '/v1/leases',
        { kinds => [ $kind // 'cut' ], worker => 'w', %more });
}

sub lease {
    my ($key, $kind) = @_;

    my $job = job($key, $kind);
    my $l = ask(claim($kind))->{json}{leases}[0];
    die "claim $key" if !$l || $l->{job_id} ne $job;
    return $l;
}

# what of a session of interlockd's is where: true once it waits
sub stuck {
    my ($app, $event) = @_;

    return $i->wait_for(sub { one('select count(*) from pg_stat_activity '
        . "where application_name = '$app' and $event") }, 8,
        "$app to be held ($event)");
}

sub cut {
    my ($app) = @_;

    my $pids;
    $i->wait_for(sub { $pids = one("select string_agg(pid::text, ',') from "
        . "pg_stat_activity where application_name = '$app'") }, 5,
        "a session of $app");
    $db->do('select pg_terminate_backend(pid) from pg_stat_activity where '
        . "pid in ($pids)");
    $i->wait_for(sub { !one('select count(*) from pg_stat_activity where '
        . "pid in ($pids)") }, 5, 'it to be gone');
}

sub standby {
    my ($name) = @_;

    $db->do("alter system set synchronous_standby_names = '$name'");
    $db->do('select pg_reload_conf()');
}

# through(app, moment, start, sql text, trigger): runs start, holds its call
# at that moment, cuts the connection, lets go; what start answered.
sub through {
    my ($cell, $start) = @_;

    my ($app, $moment) = @$cell{qw(app moment)};

    if ($moment eq 'idle') {
        cut($app);
        return $start->();
    }
    if ($moment =~ /^answer(?: x(\d))?/) {
        my ($n, $before) = ($1 // 1, $proxy->dropped);
        $proxy->drop($cell->{call}, $n);
        my $got = $start->();
        $i->wait_for(sub { $proxy->dropped == $before + $n }, 10,
            "$n answers of $cell->{call} to be lost");
        return $got;
    }

    my ($hold, $event) = $moment =~ /^at (\S+)/
        ? ("lock table interlock.$1 in access exclusive mode",
            "wait_event_type = 'Lock'")
        : ("select pg_advisory_xact_lock(7707, hashtext('"
            . join('', @{ $cell->{trigger} }) . "'))",
            "wait_event = 'advisory'");

    if ($moment eq 'committed') {
        # held at its end until all new commits wait for a standby
        $holder->do('begin');
        $holder->do($hold);
        my $got = $start->();
        stuck($app, $event);
        standby('nobody');
        $i->wait_for(sub { $i->psql('show synchronous_standby_names')
            eq 'nobody' }, 5, 'the setting');
        $holder->do('rollback');
        stuck($app, "wait_event = 'SyncRep'");
        cut($app);
        standby('');
        return $got;
    }

    $holder->do('begin');
    $holder->do($hold);
    my $got = $start->();
    stuck($app, $event);
    cut($app);
    $holder->do('rollback');
    return $got;
}

# --- the table --------------------------------------------------------------
#
# name     of the call in the cells' names
# call     its SQL function;  app: the session that makes it
# at       tables at which it is held
# trigger  table and operation whose deferred trigger holds it when written
# given    makes the state; answers anything
# start    ($state) makes the call; answers what `then` gets
# then     ($state, $got) judges: a list of [ what, got, wanted ]
# not      moments that this call does not have

my $key = 0;
my $lost = 0;

sub attempts_of {
    my ($job) = @_;

    return join ' ', map { $_->[0] } $db->do('select call from '
        . "interlock.attempts where job_id = '$job' order by fence");
}

sub end_of {
    my ($verb, $status, %body) = @_;

    return (
        app => 'interlockd finish', call => 'interlock.finish',
        at => [qw(works leases jobs attempts kind_versions)],
        trigger => [qw(leases delete)],
        given => sub { return lease('cut:' . ++$key) },
        start => sub { return begin(api($_[0]{owner_token}, POST =>
            "/v1/lease/$verb", \%body)) },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(12);
            my $again = ask(api($l->{owner_token}, POST =>
                "/v1/lease/$verb", \%body));
            return ([ 'answer', $res->{status}, 200 ],
                [ 'status', $res->{json}{status}, $status ],
                [ 'as the first', $res->{headers}{'idempotency-replayed'},
                    undef ],
                [ 'ends', attempts_of($l->{job_id}), $verb ],
                [ 'results', one('select count(*) from interlock.results '
                    . "where job_id = '$l->{job_id}'"),
                    $verb eq 'complete' ? 1 : 0 ],
                [ 'again', $again->{body}, $res->{body} ],
                [ 'replayed', $again->{headers}{'idempotency-replayed'},
                    'true' ]);
        },
    );
}

sub renewal {
    my ($verb, $body) = @_;

    return (
        app => 'interlockd lease', call => 'interlock.renew',
        at => [qw(leases)], trigger => [qw(leases update)],
        given => sub {
            my $l = lease('cut:' . ++$key);
            $db->do('update interlock.leases set expires_at = now() + '
                . "interval '60 seconds' where job_id = '$l->{job_id}'");
            return $l;
        },
        start => sub { return begin(api($_[0]{owner_token}, POST =>
            "/v1/lease/$verb", $body)) },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(12);
            my ($row) = $db->do('select expires_at > now() + interval '
                . "'500 seconds', step from interlock.leases where job_id = "
                . "'$l->{job_id}'");
            return ([ 'answer', $res->{status}, 200 ],
                [ 'cancel', !!$res->{json}{cancel_requested}, !!0 ],
                [ 'extended', $row->[0], 't' ],
                [ 'step', $row->[1], $body->{step} ]);
        },
    );
}

my @calls = (
    { name => 'submit', app => 'interlockd submit',
        call => 'interlock.submit',
        at => [qw(idempotency works requests jobs payloads)],
        trigger => [qw(requests insert)],
        given => sub { return 'cut:' . ++$key },
        start => sub { return begin(api(submit => POST => '/v1/jobs',
            { kind => 'cut', work_key => $_[0] },
            { 'idempotency-key' => $_[0] })) },
        then => sub {
            my ($k, $c) = @_;
            my $res = $c->response(12);
            my @jobs = $db->do('select id from interlock.jobs where '
                . "work_key = '$k'");
            return ([ 'answer', $res->{status}, 202 ],
                [ 'decision', $res->{headers}{'interlock-decision'},
                    'accepted' ],
                [ 'as the first', $res->{headers}{'idempotency-replayed'},
                    undef ],
                [ 'job', $res->{json}{job_id}, $jobs[0][0] ],
                [ 'jobs', scalar @jobs, 1 ],
                [ 'requests', one('select count(*) from interlock.requests '
                    . "where work_key = '$k'"), 1 ]);
        } },

    { name => 'claim', app => 'interlockd claim', call => 'interlock.claim',
        at => [qw(leases jobs works payloads)],
        trigger => [qw(leases insert)],
        given => sub { return job('cut:' . ++$key) },
        start => sub { return begin(claim('cut')) },
        then => sub {
            my ($job, $c) = @_;
            my $res = $c->response(12);
            my @leases = @{ ($res->{json} // {})->{leases} // [] };
            my ($row) = $db->do('select count(*), max(fence), max(attempt) '
                . "from interlock.leases where job_id = '$job'");
            my $done = @leases ? ask(api($leases[0]{owner_token}, POST =>
                '/v1/lease/complete')) : {};
            return ([ 'answer', $res->{status}, 200 ],
                [ 'leases', scalar @leases, 1 ],
                [ 'of the job', ($leases[0] // {})->{job_id}, $job ],
                [ 'in the database', $row->[0], 1 ],
                [ 'fence', ($leases[0] // {})->{fence}, $row->[1] ],
                [ 'attempt', $row->[2], 1 ],
                [ 'its token holds', $done->{status}, 200 ],
                [ 'ends', attempts_of($job), 'complete' ]);
        } },

    # a parked claim, woken by a submission, whose own call is cut
    { name => 'parked claim', app => 'interlockd claim',
        call => 'interlock.claim', at => [qw(leases works)],
        trigger => [qw(leases insert)],
        given => sub {
            my $c = begin(claim('cut', wait => 20));
            $i->wait_for(sub { $i->metrics->{interlock_parked_requests} },
                5, 'the claim to be parked');
            return { c => $c };
        },
        start => sub { $_[0]{job} = begin(api(submit => POST => '/v1/jobs',
            { kind => 'cut', work_key => 'cut:' . ++$key })) },
        not => { 'at works' => 1, 'at leases' => 0 },
        then => sub {
            my ($s) = @_;
            my $job = $s->{job}->response(12)->{json}{job_id};
            my $res = $s->{c}->response(12);
            my @leases = @{ ($res->{json} // {})->{leases} // [] };
            my $done = @leases ? ask(api($leases[0]{owner_token}, POST =>
                '/v1/lease/complete')) : {};
            return ([ 'answer', $res->{status}, 200 ],
                [ 'lease', join(' ', map { $_->{job_id} } @leases), $job ],
                [ 'its token holds', $done->{status}, 200 ],
                [ 'ends', attempts_of($job), 'complete' ]);
        } },

    # a submission whose own call is cut wakes a parked claim
    { name => 'submit to a parked claim', app => 'interlockd submit',
        call => 'interlock.submit', at => [qw(jobs)],
        trigger => [qw(requests insert)],
        given => sub {
            my $c = begin(claim('cut', wait => 20));
            $i->wait_for(sub { $i->metrics->{interlock_parked_requests} },
                5, 'the claim to be parked');
            return $c;
        },
        start => sub { return begin(api(submit => POST => '/v1/jobs',
            { kind => 'cut', work_key => 'cut:' . ++$key })) },
        then => sub {
            my ($c, $s) = @_;
            my $job = $s->response(12)->{json}{job_id};
            my $t0 = time;
            my $l = ($c->response(12)->{json}{leases} // [])->[0] // {};
            my $ms = (time - $t0) * 1000;
            my $done = ask(api($l->{owner_token}, POST =>
                '/v1/lease/complete'));
            return ([ 'lease', $l->{job_id}, $job ],
                [ "at once ($ms ms)", $ms < 500 ? 1 : 0, 1 ],
                [ 'ends', attempts_of($job), 'complete' ]);
        } },

    # the worker goes while its claim is held at payloads; what it would
    # have got is handed back
    { name => 'unclaim', app => 'interlockd read',
        call => 'interlock.unclaim', at => [qw(attempts)],
        trigger => [qw(leases delete)],
        given => sub {
            my $job = job('cut:' . ++$key);
            my $s = Interlock::Session->new($i->dsn('admin'));
            $s->do('begin');
            $s->do('lock table interlock.payloads in access exclusive mode');
            my $c = begin(claim('cut'));
            stuck('interlockd claim', "wait_event_type = 'Lock'");
            $c->close;
            sleep(0.05);
            return { job => $job, hold => $s };
        },
        start => sub { $_[0]{hold}->do('rollback') },
        then => sub {
            my ($s) = @_;
            my $ok = eval { $i->wait_for(sub { attempts_of($s->{job})
                eq 'unclaim' }, 10, 'it to be handed back') };
            my $res = ask(claim('cut', wait => 5));
            my $l = $res->{json}{leases}[0] // {};
            my $done = ask(api($l->{owner_token}, POST =>
                '/v1/lease/complete'));
            return ([ 'handed back', !!$ok, !!1 ],
                [ 'to the next', $l->{job_id}, $s->{job} ],
                [ 'uncounted', $l->{attempt}, 1 ],
                [ 'ends', attempts_of($s->{job}), 'unclaim complete' ]);
        } },

    { name => 'renew', renewal(renew => {}) },
    { name => 'progress', renewal(progress => { step => 'half',
        progress => { done => 1 } }) },
    { name => 'complete', end_of(complete => 'succeeded', result => 7) },
    { name => 'fail', end_of(fail => 'queued', error => 'x',
        retry_after => 300) },
    { name => 'fail for good', end_of(fail => 'failed', error => 'x',
        retryable => JSON::PP::false) },
    { name => 'release', end_of(release => 'queued') },

    # an end that lets a waiting one go on: its wake-up must not be lost
    { name => 'complete before a waiter', app => 'interlockd finish',
        call => 'interlock.finish', at => [qw(attempts)],
        trigger => [qw(leases delete)],
        given => sub {
            my $l = lease('cutone:' . ++$key, 'cutone');
            my $next = job("cutone:$key", 'cutone');
            my $c = begin(claim('cutone', wait => 20));
            return { l => $l, next => $next, c => $c };
        },
        start => sub { return begin(api($_[0]{l}{owner_token}, POST =>
            '/v1/lease/complete')) },
        then => sub {
            my ($s, $c) = @_;
            my $res = $c->response(12);
            my $t0 = time;
            my $l = ($s->{c}->response(12)->{json}{leases} // [])->[0] // {};
            my $ms = (time - $t0) * 1000;
            my $done = ask(api($l->{owner_token}, POST =>
                '/v1/lease/complete'));
            return ([ 'answer', $res->{status}, 200 ],
                [ 'the waiter starts', $l->{job_id}, $s->{next} ],
                [ "at once ($ms ms)", $ms < 500 ? 1 : 0, 1 ],
                [ 'ends', attempts_of($s->{next}), 'complete' ]);
        } },

    { name => 'recover', app => 'interlockd sweep',
        call => 'interlock.recover', at => [qw(works jobs attempts)],
        trigger => [qw(leases delete)], not => { answer => 1 },
        given => sub { return lease('cut:' . ++$key) },
        start => sub { $i->psql("set synchronous_commit = local; update "
            . 'interlock.leases set expires_at = clock_timestamp() where '
            . "job_id = '$_[0]{job_id}'") },
        then => sub {
            my ($l) = @_;
            my $new = ask(claim('cut', wait => 8))->{json}{leases}[0] // {};
            my $late = ask(api($l->{owner_token}, POST =>
                '/v1/lease/complete', { result => 1 }));
            my $done = ask(api($new->{owner_token}, POST =>
                '/v1/lease/complete', { result => 2 }));
            return ([ 'the next owner', $new->{job_id}, $l->{job_id} ],
                [ 'attempt', $new->{attempt}, 2 ],
                [ 'the first is refused', $late->{status}, 409 ],
                [ 'as', ($late->{json} // {})->{type},
                    'https://interlock.invalid/problems/lease-lost' ],
                [ 'the second is not', $done->{status}, 200 ],
                [ 'ends', attempts_of($l->{job_id}), 'lost complete' ]);
        } },

    { name => 'expire', app => 'interlockd sweep',
        call => 'interlock.expire', at => [qw(works)],
        trigger => [qw(jobs update)], not => { answer => 1 },
        given => sub { return job('cutwait:' . ++$key, 'cutwait') },
        start => sub { },
        then => sub {
            my ($job) = @_;
            my $res = ask([ GET => "/v1/jobs/$job", { token =>
                $token{auditor}, headers => { prefer => 'wait=8' } } ]);
            return ([ 'status', ($res->{json} // {})->{status}, 'expired' ],
                [ 'reason', $res->{json}{error},
                    'waited longer than max_wait (1 s)' ]);
        } },

    # room that nobody saw: a capacity is raised under a held sweep
    { name => 'limits sweep', app => 'interlockd sweep',
        call => 'interlock.limits_sweep', at => [qw(limit_groups)],
        trigger => [qw(jobs update)], not => { answer => 1 },
        given => sub {
            $i->http(PUT => '/v1/limits/cutter', { token => 'operator',
                body => { capacity => 1 } });
            my $first = lease('cutlimit:' . ++$key, 'cutlimit');
            my $second = job('cutlimit:' . ++$key, 'cutlimit');
            return { first => $first, second => $second };
        },
        start => sub { $i->psql('set synchronous_commit = local; update '
            . "interlock.limits set capacity = 2 where name = 'cutter'") },
        then => sub {
            my ($s) = @_;
            my $l = ask(claim('cutlimit', wait => 8))->{json}{leases}[0]
                // {};
            my @done = map { ask(api($_, POST => '/v1/lease/complete'))
                ->{status} } $l->{owner_token}, $s->{first}{owner_token};
            return ([ 'it starts', $l->{job_id}, $s->{second} ],
                [ 'both end', "@done", '200 200' ]);
        } },

    # what operators do, over the read lane
    { name => 'cancel, queued', app => 'interlockd read',
        call => 'interlock.job_cancel', at => [qw(works jobs actions)],
        trigger => [qw(jobs update)],
        given => sub { return job('cut:' . ++$key) },
        start => sub { return begin(api(operator => POST =>
            "/v1/jobs/$_[0]/cancel", { requested_by => 'me',
                reason => 'why' })) },
        then => sub {
            my ($job, $c) = @_;
            my $res = $c->response(12);
            return ([ 'answer', $res->{status}, 202 ],
                [ 'status', ($res->{json} // {})->{status}, 'canceled' ],
                [ 'actions', one('select count(*) from interlock.actions '
                    . "where target = '$job'"), 1 ]);
        } },

    { name => 'cancel, running', app => 'interlockd read',
        call => 'interlock.job_cancel', at => [qw(works leases actions)],
        trigger => [qw(leases update)],
        given => sub { return lease('cut:' . ++$key) },
        start => sub { return begin(api(operator => POST =>
            "/v1/jobs/$_[0]{job_id}/cancel", { requested_by => 'me',
                reason => 'why' })) },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(12);
            my $late = ask(api($l->{owner_token}, POST =>
                '/v1/lease/complete'));
            my $yield = ask(api($l->{owner_token}, POST =>
                '/v1/lease/release'));
            return ([ 'answer', $res->{status}, 202 ],
                [ 'status', ($res->{json} // {})->{status}, 'running' ],
                [ 'actions', one('select count(*) from interlock.actions '
                    . "where target = '$l->{job_id}'"), 1 ],
                [ 'it completes nothing', $late->{status}, 409 ],
                [ 'and yields', ($yield->{json} // {})->{status},
                    'canceled' ]);
        } },

    { name => 'publish', app => 'interlockd read',
        call => 'interlock.work_publish', at => [qw(works actions)],
        trigger => [qw(works update)],
        given => sub {
            my $l = lease('cut:' . ++$key);
            ask(api($l->{owner_token}, POST => '/v1/lease/complete',
                { result => 1 }));
            $l = lease("cut:$key");
            ask(api($l->{owner_token}, POST => '/v1/lease/complete',
                { result => 2 }));
            return $l;
        },
        start => sub { return begin(api(operator => POST =>
            "/v1/works/$_[0]{work_key}/publish", { revision => 1,
                requested_by => 'me', reason => 'why' })) },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(12);
            return ([ 'answer', $res->{status}, 200 ],
                [ 'revision', ($res->{json} // {})->{revision}, 1 ],
                [ 'actions', one('select count(*) from interlock.actions '
                    . "where target = '$l->{work_key}'"), 1 ],
                [ 'publications', one('select count(*) from '
                    . 'interlock.publications where work_key = '
                    . "'$l->{work_key}'"), 1 ]);
        } },

    { name => 'kind', app => 'interlockd read', call => 'interlock.kind_put',
        at => [qw(kinds kind_versions)], trigger => [qw(kinds update)],
        given => sub { return ++$key },
        start => sub { return begin(api(operator => PUT => '/v1/kinds/cutput',
            { lease_seconds => 100 + $_[0] })) },
        then => sub {
            my ($n, $c) = @_;
            my $res = $c->response(12);
            my $versions = one('select count(*) from '
                . 'interlock.kind_versions where name = '
                . "'cutput' and lease_seconds = 100 + $n");
            return ([ 'answer', $res->{status}, 200 ],
                [ 'as asked', ($res->{json} // {})->{lease_seconds},
                    100 + $n ], [ 'versions', $versions, 1 ]);
        } },

    { name => 'limit', app => 'interlockd read',
        call => 'interlock.limit_put', at => [qw(limits)],
        trigger => [qw(limits update)],
        given => sub { return ++$key },
        start => sub { return begin(api(operator => PUT =>
            '/v1/limits/cutput', { capacity => $_[0] })) },
        then => sub {
            my ($n, $c) = @_;
            my $res = $c->response(12);
            return ([ 'answer', $res->{status}, 200 ], [ 'as asked',
                ($res->{json} // {})->{capacity}, $n ]);
        } },
);

# Reads: one row each, [ name, app, SQL function, table, path, status ]
my $seen = lease('cut:seen');
ask(api($seen->{owner_token}, POST => '/v1/lease/complete', { result => 5 }));
for my $read (
    [ 'job', look => 'job_get', 'jobs', "/v1/jobs/$seen->{job_id}" ],
    [ 'jobs', read => 'jobs_list', 'jobs', '/v1/jobs?work_key=cut:seen' ],
    [ 'work', read => 'work_get', 'works', '/v1/works/cut:seen' ],
    [ 'result', read => 'work_result', 'results',
        '/v1/works/cut:seen/result' ],
    [ 'results', read => 'results_list', 'results',
        '/v1/results?prefix=cut:seen' ],
    [ 'kind', read => 'kind_get', 'kinds', '/v1/kinds/cut' ],
    [ 'kinds', read => 'kind_list', 'kinds', '/v1/kinds' ],
    [ 'limits', read => 'limit_list', 'limits', '/v1/limits' ])
{
    my ($name, $app, $call, $table, $path) = @$read;
    push @calls, { name => "read $name", app => "interlockd $app",
        call => "interlock.$call", at => [$table], not => { written => 1,
            committed => 1 },
        given => sub { return ask(api(operator => GET => $path)) },
        start => sub { return begin(api(operator => GET => $path)) },
        then => sub {
            my ($before, $c) = @_;
            my $res = $c->response(12);
            return ([ 'answer', $res->{status}, 200 ],
                [ 'body', $res->{body}, $before->{body} ]);
        } };
}

# --- every cell -------------------------------------------------------------

my ($only) = @ARGV;
kind_there();
for my $call (@calls) {
    for my $moment ('idle', (map { "at $_" } @{ $call->{at} }), 'written',
        'committed', 'answer', 'answer x3')
    {
        my ($plain) = $moment =~ /^(answer|.*)/;
        next if ($call->{not} // {})->{$plain};
        my $name = "$call->{name}: $moment";
        next if defined $only && $name !~ /$only/;
        $cells++;

        my $t0 = time;
        my @judged;
        my $ok = eval {
            my $state = $call->{given}->();
            my $got = through({ %$call, moment => $moment },
                sub { $call->{start}->($state) });
            @judged = $call->{then}->($state, $got);
            1;
        };
        my $why = $@;
        eval { $holder->do('rollback') };
        standby('') if !$ok;
        my @wrong = grep { ($_->[1] // 'none') ne ($_->[2] // 'none') }
            @judged;
        ok($ok && @judged && !@wrong, $name)
            or diag($why, map { "  $_->[0]: " . ($_->[1] // 'none') . ', not '
                . ($_->[2] // 'none') . "\n" } @wrong);
        # what is left queued is nobody's
        $db->do('select from interlock.jobs j cross join lateral '
            . 'interlock.job_cancel(j.tenant, j.id, null, null, null, null) '
            . "where j.status = 'queued'");
        note(sprintf '%.2f s', time - $t0) if time - $t0 > 1;
    }
}

# a kind and a limit that are there, so that a PUT is an update
sub kind_there {
    for my $path ('/v1/kinds/cutput', '/v1/limits/cutput') {
        $i->http(PUT => $path, { token => 'operator',
            body => $path =~ /limits/ ? { capacity => 1 } : {} });
    }
}

cmp_ok($cells, '>', 100, "$cells cells") unless defined $only;
$i->check_sql;

done_testing();
