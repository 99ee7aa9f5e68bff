#!/usr/bin/perl

# A connection to the database is cut by pg_terminate_backend under every call
# that interlockd makes, at every moment that makes a difference (they are
# told in Interlock::Cut).  In each of these cells the caller gets the right
# answer in the end, with the ids of the first try, and what was done is there
# exactly once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Cut qw(api);
use Interlock::Session;

my $cut = Interlock::Cut->new(tables => [qw(redrive_plans effect_kinds)]);
my ($i, $db) = ($cut->i, $cut->db);
my $key = 0;

for my $name ([ cut => overlap => 'skip' ], [ cutone => overlap =>
    'buffer_one' ], [ cutwait => max_wait => 1 ], [ cutlimit => limits =>
    ['cutter'] ])
{
    my ($kind, %policy) = @$name;
    my $res = $i->http(PUT => "/v1/kinds/$kind", { token => 'operator',
        body => { lease_seconds => 600, max_attempts => 9, %policy } });
    die $res->{body} if $res->{status} != 200;
}
# a kind and a limit that are there, so that a PUT is an update
$i->http(PUT => $_, { token => 'operator',
    body => /limits/ ? { capacity => 1 } : {} })
    for '/v1/kinds/cutput', '/v1/limits/cutput';

sub ask { return $cut->ask(@_) }
sub begin { return $cut->begin(@_) }
sub one { return $cut->one(@_) }
sub job { return $cut->job(@_) }
sub claim { return $cut->claim(@_) }
sub lease { return $cut->lease(@_) }
sub attempts_of { return $cut->attempts_of(@_) }

# a lease whose job has failed for good
sub failed {
    my $l = lease('cut:' . ++$key);
    ask(api($l->{owner_token}, POST => '/v1/lease/fail', { error => 'x',
        retryable => JSON::PP::false }));
    return $l;
}

my %who = (requested_by => 'me', reason => 'why');

# What needs a judgement of its own is ended one by one, and reads its policy.
sub end_of {
    my ($verb, $status, %body) = @_;

    my $kind = delete $body{kind};
    my $plain = $verb eq 'complete' && !$kind;

    return (
        app => 'interlockd finish', call => 'interlock.finish',
        at => [qw(works leases jobs attempts),
            $plain ? 'results' : 'kind_versions'],
        trigger => [qw(leases delete)],
        given => sub { return lease('cut:' . ++$key, $kind) },
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

# two completions and a renewal of others' leases, in one request
sub several {
    return (
        app => 'interlockd finish', call => 'interlock.finish',
        at => [qw(works jobs attempts results)],
        trigger => [qw(leases delete)],
        given => sub { return [ map { lease('cut:' . ++$key) } 1 .. 3 ] },
        start => sub {
            my ($l) = @_;
            return begin(api(worker => POST => '/v1/lease/batch', { calls => [
                map { { owner_token => $l->[$_]{owner_token}, call =>
                    $_ < 2 ? 'complete' : 'renew' } } 0 .. 2 ] }));
        },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(12);
            my @items = @{ $res->{json}{items} // [] };
            my $again = ask(api(worker => POST => '/v1/lease/batch', { calls
                => [ map { { owner_token => $_->{owner_token}, call =>
                    'complete' } } @$l[ 0, 1 ] ] }));
            return ([ 'answer', $res->{status}, 200 ],
                [ 'items', join(' ', map { $_->{code} } @items),
                    '200 200 200' ],
                [ 'statuses', "$items[0]{status} $items[1]{status}",
                    'succeeded succeeded' ],
                [ 'as the first', scalar(grep { $_->{replayed} } @items), 0 ],
                (map { [ "ends of $_", attempts_of($l->[$_]{job_id}),
                    'complete' ], [ "results of $_", one('select count(*) '
                    . "from interlock.results where job_id = "
                    . "'$l->[$_]{job_id}'"), 1 ] } 0, 1),
                [ 'goes on', one('select status from interlock.jobs where '
                    . "id = '$l->[2]{job_id}'"), 'running' ],
                [ 'again', join(' ', map { "$_->{status} "
                    . ($_->{replayed} ? 1 : 0) } @{ $again->{json}{items}
                    // [] }), 'succeeded 1 succeeded 1' ]);
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

    { name => 'submit a batch', app => 'interlockd submit',
        call => 'interlock.submit', at => [qw(requests)],
        trigger => [qw(requests insert)],
        given => sub { return 'cut:batch:' . ++$key },
        start => sub {
            my ($k) = @_;
            return begin(api(submit => POST => '/v1/jobs:batch', { jobs => [
                map { { kind => 'cut', work_key => "$k:$_" } } 1 .. 5 ] }));
        },
        then => sub {
            my ($k, $c) = @_;
            my $res = $c->response(12);
            my @items = @{ ($res->{json} // {})->{items} // [] };
            my @jobs = map { $_->[0] } $db->do('select id from '
                . "interlock.jobs where work_key like '$k:%' order by "
                . 'work_key');
            return ([ 'answer', $res->{status}, 200 ],
                [ 'decisions', join(' ', map { $_->{decision} } @items),
                    join(' ', ('accepted') x 5) ],
                [ 'jobs', "@jobs", join(' ', map { $_->{job_id} } @items) ]);
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
            $cut->parked;
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
            $cut->parked;
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
            $cut->stuck('interlockd claim', "wait_event_type = 'Lock'");
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
    { name => 'complete in a group', end_of(complete => 'succeeded',
        result => 7, kind => 'cutlimit') },
    { name => 'fail', end_of(fail => 'queued', error => 'x',
        retry_after => 300) },
    { name => 'fail for good', end_of(fail => 'failed', error => 'x',
        retryable => JSON::PP::false) },
    { name => 'release', end_of(release => 'queued') },
    { name => 'several at once', several() },

    # an end that lets a waiting one go on: its wake-up must not be lost
    { name => 'complete before a waiter', app => 'interlockd finish',
        call => 'interlock.finish', at => [qw(attempts)],
        trigger => [qw(leases delete)],
        given => sub {
            my $l = lease('cutone:' . ++$key, 'cutone');
            my $next = job("cutone:$key", 'cutone');
            my $c = begin(claim('cutone', wait => 20));
            $cut->parked;
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
            my $res = ask(api(auditor => GET => "/v1/jobs/$job", undef,
                { prefer => 'wait=8' }));
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
            "/v1/jobs/$_[0]/cancel", { %who })) },
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
            "/v1/jobs/$_[0]{job_id}/cancel", { %who })) },
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

    { name => 'revoke', app => 'interlockd read',
        call => 'interlock.job_revoke', at => [qw(works leases actions)],
        trigger => [qw(leases delete)],
        given => sub { return lease('cut:' . ++$key) },
        start => sub { return begin(api(operator => POST =>
            "/v1/jobs/$_[0]{job_id}/revoke", { %who })) },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(12);
            my $late = ask(api($l->{owner_token}, POST =>
                '/v1/lease/complete'));
            return ([ 'answer', $res->{status}, 200 ],
                [ 'status', ($res->{json} // {})->{status}, 'queued' ],
                [ 'actions', one('select count(*) from interlock.actions '
                    . "where target = '$l->{job_id}'"), 1 ],
                [ 'attempts', one('select count(*) from interlock.attempts '
                    . "where job_id = '$l->{job_id}'"), 1 ],
                [ 'its owner is refused', $late->{status}, 409 ]);
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
                %who })) },
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

    # decisions and redrives
    map({ my $action = $_; { name => "decide, $action", app =>
        'interlockd read', call => 'interlock.job_decide',
        at => [qw(works jobs actions)], trigger => [qw(jobs update)],
        given => \&failed,
        start => sub { return begin(api(operator => POST =>
            "/v1/jobs/$_[0]{job_id}/decide", { %who, action => $action })) },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(12);
            return ([ 'answer', $res->{status}, 200 ],
                [ 'status', ($res->{json} // {})->{status}, $action eq
                    'retry' ? 'queued' : 'succeeded' ],
                [ 'actions', one('select count(*) from interlock.actions '
                    . "where target = '$l->{job_id}'"), 1 ],
                [ 'results', one('select count(*) from interlock.results '
                    . "where job_id = '$l->{job_id}'"),
                    $action eq 'retry' ? 0 : 1 ]);
        } } } qw(retry succeed)),

    { name => 'redrive plan', app => 'interlockd read',
        call => 'interlock.redrive_plan', at => [qw(redrive_plans
            redrive_jobs)], trigger => [qw(redrive_plans insert)],
        given => \&failed,
        start => sub { return begin(api(operator => POST => '/v1/redrive',
            { filter => { job_ids => [ $_[0]{job_id} ] } })) },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(12);
            my $go = ask(api(operator => POST => '/v1/redrive', { %who,
                plan_id => $res->{json}{plan_id} }));
            return ([ 'answer', $res->{status}, 200 ],
                [ 'count', $res->{json}{count}, 1 ],
                [ 'it may be acted on', $go->{json}{redriven}, 1 ]);
        } },

    { name => 'redrive', app => 'interlockd read',
        call => 'interlock.redrive(', at => [qw(redrive_plans works jobs
            actions)], trigger => [qw(jobs update)],
        given => sub {
            my $l = failed();
            my $res = ask(api(operator => POST => '/v1/redrive', { filter =>
                { job_ids => [ $l->{job_id} ] } }));
            my $c = begin(claim('cut', wait => 20));
            $cut->parked;
            return { l => $l, plan => $res->{json}{plan_id}, c => $c };
        },
        start => sub { return begin(api(operator => POST => '/v1/redrive',
            { %who, plan_id => $_[0]{plan} })) },
        then => sub {
            my ($s, $c) = @_;
            my $res = $c->response(12);
            my $l = ($s->{c}->response(12)->{json}{leases} // [])->[0] // {};
            my $done = ask(api($l->{owner_token}, POST =>
                '/v1/lease/complete'));
            return ([ 'answer', $res->{status}, 200 ],
                [ 'redriven', $res->{json}{redriven}, 1 ],
                [ 'skipped', scalar @{ $res->{json}{skipped} // [1] }, 0 ],
                [ 'it runs', $l->{job_id}, $s->{l}{job_id} ],
                [ 'ends', attempts_of($s->{l}{job_id}), 'fail complete' ],
                [ 'actions', one('select count(*) from interlock.actions '
                    . "where target = '$s->{l}{job_id}'"), 1 ]);
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

# Deletions: what is gone after a lost COMMIT was deleted by it.
for my $what (
    [ kind => 'kinds', '/v1/kinds/', {}, qw(kinds update) ],
    [ limit => 'limits', '/v1/limits/', { capacity => 1 },
        qw(limits delete) ],
    [ 'effect kind' => 'effect_kinds', '/v1/effect-kinds/', {},
        qw(effect_kinds update) ])
{
    my ($name, $table, $path, $doc, @trigger) = @$what;
    (my $call = "interlock.${name}_delete") =~ tr/ /_/;
    push @calls, { name => "delete $name", app => 'interlockd read',
        call => $call, at => [$table], trigger => \@trigger,
        given => sub {
            my $n = 'gone' . ++$key;
            my $res = ask(api(operator => PUT => "$path$n", $doc));
            die $res->{body} if $res->{status} != 200;
            return $n;
        },
        start => sub { return begin(api(operator => DELETE =>
            "$path$_[0]")) },
        then => sub {
            my ($n, $c) = @_;
            my $res = $c->response(12);
            my $again = ask(api(operator => DELETE => "$path$n"));
            return ([ 'answer', $res->{status}, 204 ],
                [ 'gone', ask(api(operator => GET => "$path$n"))->{status},
                    404 ], [ 'again', $again->{status}, 404 ]);
        } };
}

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
    [ 'advice', read => 'kind_advice', 'kinds', '/v1/kinds/cut/advice' ],
    [ 'audit', read => 'audit', 'requests', '/v1/audit?work_key=cut:seen' ],
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
            # the advice looks back further with each second that passes
            s/("window_seconds" : )\d+/${1}N/
                for $res->{body}, $before->{body};
            return ([ 'answer', $res->{status}, 200 ],
                [ 'body', $res->{body}, $before->{body} ]);
        } };
}

my $cells = $cut->cells($ARGV[0], @calls);
cmp_ok($cells, '>', 180, "$cells cells") unless @ARGV;
$i->check_sql;

done_testing();
