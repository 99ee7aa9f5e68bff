package Cases::Accept;

# Submissions over HTTP, each durable when it is answered, beside what else
# makes a row or a job durable.  Ours go through the instance's own nginx,
# with its access log, and have an idempotency key and a work key of their own.

use strict;
use warnings;

use Bench qw(cluster_cpu cpu load median pgbench pids_of request seconds
    unique);

# submit request: a job of that kind, 330 bytes of it
sub submission {
    my ($i, $kind, $key, $idempotent) = @_;

    my $body = qq({"kind":"$kind","work_key":"$key","payload":{"a":1,"b":");
    $body .= 'x' x (327 - length $body) . '"}}';
    return request(POST => '/v1/jobs', {
        Authorization => 'Bearer ' . $i->token('submit'),
        $idempotent ? ('Idempotency-Key' => $idempotent) : (),
    }, $body);
}

# http(instance, load's options): accepts, and what they cost whom
sub http {
    my ($w, $i, $opt, $kind) = @_;

    my $run = unique();
    my @nginx = pids_of($i->nginx_pid);
    my @backend = ($i->backend_pid);
    my $postgres = $i->pid('postgres');
    my @before = (cpu(@nginx), cpu(@backend), cluster_cpu($postgres));
    my $m = load($w, $opt, $i->port, submission($i, $kind // 'bench',
        "$run:%%%%%%%%%%%%", "$run-%%%%%%%%%%%%"));
    my @after = (cpu(@nginx), cpu(@backend), cluster_cpu($postgres));
    my @us = map { ($after[$_] - $before[$_]) / $m->{ops} * 1e6 } 0 .. 2;
    @$m{qw(nginx_us backend_us db_us)} = @us;
    $m->{all_us} = $us[0] + $us[1] + $us[2];
    return $m;
}

sub raw {
    my ($w, $i, $clients) = @_;

    $w->raw_database($i);
    my $before = cluster_cpu($i->pid('postgres'));
    my $m = pgbench($w, $i, 'raw', "\\set n random(1, 1000000000)\n"
        . "insert into raw (work_key, payload) values ('bench:' || :n, '"
        . 'x' x 280 . "');\n", { c => $clients, j => 2 });
    $m->{db_us} = (cluster_cpu($i->pid('postgres')) - $before)
        / $m->{ops} * 1e6;
    $m->{all_us} = $m->{db_us};
    return $m;
}

sub peer {
    my ($name) = @_;

    return sub { $_[0]->node($_[0]->instance, $name, 'send', seconds()) };
}

sub cases {
    return ({
        name => 'accept',
        title => 'accept over HTTP, 64 connections',
        sides => [
            interlock => sub { http($_[0], $_[0]->instance, { c => 64 }) },
            'pgbench insert' => sub { raw($_[0], $_[0]->instance, 64) },
            'pg-boss send' => peer('pg-boss'),
            'graphile-worker' => peer('graphile-worker'),
            'bullmq, always' => peer('bullmq'),
        ],
        rows => [
            { of => 'rate', to => 'pgbench insert', least => 0.6 },
            { of => 'rate', to => 'pg-boss send', least => 10 },
            { of => 'rate', to => 'graphile-worker', least => 15 },
            { of => 'rate', to => 'bullmq, always', least => 1 },
            { of => 'nginx_us' }, { of => 'backend_us' },
            { of => 'db_us', to => 'pgbench insert' },
            { of => 'all_us', to => 'pgbench insert' },
            { of => 'client_cores' },
        ],
    }, {
        name => 'accept-slow',
        title => 'the same, 1 ms more a flush, 256 connections',
        sides => [
            interlock => sub { http($_[0], $_[0]->slow_instance,
                { c => 256 }) },
            'pgbench insert' => sub { raw($_[0], $_[0]->slow_instance, 256) },
        ],
        rows => [
            { of => 'rate', to => 'pgbench insert', least => 1.5 },
        ],
    }, {
        name => 'accept-latency',
        title => 'accept at half the load it can bear',
        sides => [
            'as much as it can' => sub {
                my ($w) = @_;
                my $m = http($w, $w->instance, { c => 64 });
                push @{ $w->{full} }, $m->{rate};
                return $m;
            },
            interlock => sub {
                my ($w) = @_;
                return http($w, $w->instance, { c => 64,
                    r => int(median(@{ $w->{full} }) / 2) });
            },
        ],
        rows => [
            { of => 'p50_ms', most => 3 }, { of => 'p99_ms', most => 10 },
            { of => 'rate', to => 'as much as it can' },
        ],
    });
}

1;
