#!/usr/bin/perl

# Eight clients submit, claim, renew, finish, lose and recover at random on a
# dozen work keys; then what is left is run to its end.  No deadlock, no
# error, no invariant violated, and the decisions add up.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Test::More;

use Cluster;

my $seconds = $ENV{INTERLOCK_STRESS_SECONDS} // 5;
my $c = Cluster->new;

$c->psql(q{
    select t.policy('free', 'overlap allow, backoff 0');
    select t.policy('skip', 'overlap skip, backoff 0');
    select t.policy('one', 'overlap buffer_one, backoff 0');
    select t.policy('ret', 'overlap buffer_one, when_completed return, result_ttl 1, allow_fresh true, idempotency_ttl 1, backoff 0');
    alter role admin set plan_cache_mode = 'force_generic_plan';
    alter role admin set jit = off;
});

my $script = File::Temp->new;
print $script "select t.step(:client_id);\n";
close $script;

my $bench = '/usr/lib/postgresql/15/bin/pgbench';
my $out = `$bench -n -c 8 -j 2 -T $seconds -f $script -h $c->{dir} -U admin interlock 2>&1`;
is($?, 0, 'the clients ended well') or diag($out);
my ($steps) = $out =~ /transactions actually processed: (\d+)/;
cmp_ok($steps // 0, '>', 100, 'they did something')
    or diag($out);
diag("$steps steps in $seconds s");
unlike($out, qr/aborted|ERROR|number of failed transactions: [1-9]/,
    'no client met an error') or diag($out);

is($c->check, '', 'check.sql finds nothing');

my $log = $c->log_text;
unlike($log, qr/deadlock detected/, 'no deadlock');
unlike($log, qr/ERROR:/, 'no error at all in the log');
is($c->psql('select count(*) from interlock.recovery_troubles'), 0,
    'recovery met no trouble');

is($c->psql('select count(*) from (select distinct decision
    from interlock.requests) x'), 5,
    'accepted, buffered, skipped, completed and duplicate all occurred');
is($c->psql('select sum(n) from (select count(*) as n
        from interlock.requests group by decision) x'),
    $c->psql('select count(*) from interlock.requests'),
    'decisions add up to the requests');
is($c->psql(q{select count(*) from interlock.requests
        where decision in ('accepted', 'buffered')}),
    $c->psql('select count(*) from interlock.jobs'),
    'as many jobs as admissions');

# G7: every accepted job ends.  Nobody renews any more; workers go on.
$c->psql(q{
    do $do$
    declare
        h  record;
    begin
        update interlock.leases set expires_at = clock_timestamp();
        for i in 1 .. 10000 loop
            perform interlock.recover(100);
            select array_agg(tenant_create) as tenant, array_agg(job_id)
                as job, array_agg(attempt_id) as attempt,
                array_agg(fence) as fence, count(*)::int as n
            into h
            from interlock.tenant_create('demo'),
                t.claim('free,skip,one,ret', 200);
            exit when h.n = 0;
            perform interlock.finish(h.tenant, h.job, h.attempt, h.fence,
                array_fill('complete'::text, array[h.n]),
                array_fill('\x01'::bytea, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::bigint, array[h.n]),
                array_fill(null::bigint, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(true, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::text, array[h.n]),
                array_fill(null::int, array[h.n]));
        end loop;
    end
    $do$;
});
is($c->psql('select count(*) from interlock.jobs where finished_at is null'),
    0, 'every accepted job ends');
is($c->check, '', 'check.sql finds nothing at the end');
diag($c->psql(q{select string_agg(status || ' ' || n, ', ' order by status)
    from (select status, count(*) as n from interlock.jobs
          group by 1) x}));

done_testing;
