#!/usr/bin/perl

# Many workers and one ledger: a thousand begin the same effect at once; then
# eight clients work, lose, look up and decide at random beside a provider
# that keeps its own record.  It never shows an effect twice, and in the end
# the ledger agrees with it.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Test::More;

use Cluster;

my $seconds = $ENV{INTERLOCK_STRESS_SECONDS} // 6;
my $bench = '/usr/lib/postgresql/15/bin/pgbench';
my $c = Cluster->new;

$c->psql(q{
    alter role admin set plan_cache_mode = 'force_generic_plan';
    alter role admin set jit = off;
    select t.effect_kind('mute', '{"send_deadline":25}');
    select t.policy('crowd', 'overlap allow, effect_scope work');
    create table t.got (decision text, send uuid);
    create function t.thousandth(n int) returns void language sql as $$
        insert into t.got
        select decision, send_id from t.begin('w' || n, 'charge', 'mute')
    $$;
    do $$
    begin
        for i in 1 .. 1000 loop
            perform t.submit('crowd', 'crowd:1', i::text);
        end loop;
    end
    $$;
    insert into t.held
    select 'w' || row_number() over (), t.demo(), c.job_id, c.attempt_id,
        c.fence
    from t.claim('crowd', 1000) c;
});
is($c->psql('select count(*) from t.held'), 1000, 'a thousand workers');

my $script = File::Temp->new;
print $script "\\set n :client_id * 25 + :i\nselect t.thousandth(:n);\n"
    . "\\set i :i + 1\n";
close $script;
my $out = `$bench -n -c 40 -j 2 -t 25 -D i=1 -f $script -h $c->{dir} -U admin interlock 2>&1`;
is($?, 0, 'all of them begin') or diag($out);
is($c->psql(q{select decision || ' ' || count(*) from t.got group by decision
        order by 1}), "in_progress 999\nsend 1", 'one may send');
is($c->psql('select count(*) from interlock.sends'), 1, 'once');

$c->psql(q{
    select interlock.finish(array_agg(tenant), array_agg(job),
        array_agg(attempt), array_agg(fence), array_agg('complete'::text),
        array_agg('\x01'::bytea), array_agg(null::text),
        array_agg(null::text), array_agg(null::bigint),
        array_agg(null::bigint), array_agg(null::text), array_agg(true),
        array_agg(null::text), array_agg(null::text), array_agg(null::int))
    from t.held;
    update interlock.effects set human_at = clock_timestamp();
    select interlock.effects_overdue(10);
    select t.resolve('charge', 'not_happened');
});
is($c->check, '', 'check.sql finds nothing');

# At random.
$c->psql(undef, file => "$FindBin::Bin/helpers_effects_stress.sql");
$c->psql(q{
    select t.effect_kind('keys', '{"idempotent":true,"key_window":600,"send_deadline":2}');
    select t.effect_kind('sure', '{"send_deadline":2,"authoritative":true,"settle_after":0,"check_delay":0,"check_backoff":0,"lookup":{"type":"worker"}}');
    select t.effect_kind('mute', '{"send_deadline":2}');
    select t.policy('free', 'overlap allow, effect_scope work, backoff 0');
    select t.policy('one', 'overlap buffer_one, effect_scope work, backoff 0');
    select t.policy('all', 'overlap buffer_all, backoff 0, max_attempts 50');
    select t.policy('rep', 'overlap replace, cancel_grace 1, backoff 0');
});

$script = File::Temp->new;
print $script "select t.effect_step(:client_id);\n";
close $script;
$out = `$bench -n -c 8 -j 2 -T $seconds -f $script -h $c->{dir} -U admin interlock 2>&1`;
is($?, 0, 'the clients ended well') or diag($out);
unlike($out, qr/aborted|ERROR|number of failed transactions: [1-9]/,
    'no client met an error') or diag($out);
is($c->check, '', 'check.sql finds nothing in between');

my ($steps) = $out =~ /transactions actually processed: (\d+)/;
my ($sends, $unknown) = split /\|/, $c->psql(
    q{select count(*), count(*) filter (where outcome = 'unknown')
      from interlock.sends});
diag("$steps steps in $seconds s, $sends sends, $unknown of them unclear");
cmp_ok($sends, '>', 20, 'there were sends');
cmp_ok($unknown, '>', 5, 'some of them unclear');

# Everything to its end: nobody renews, nobody speaks any more.
for my $pass (1 .. 200) {
    $c->psql(q{
        update interlock.leases
        set expires_at = least(expires_at, clock_timestamp());
        select interlock.recover(500);
        select interlock.effects_overdue(500);
        select t.effect_look_some(0);
        select t.effect_human_some(500, 'needs_human');
        select t.effect_human_some(500, 'unknown');
        do $$
        declare
            h  record;
        begin
            for h in select * from t.claim('free,one,all,rep', 200) loop
                perform interlock.finish(array[t.demo()], array[h.job_id],
                    array[h.attempt_id], array[h.fence], array['complete'],
                    array['\x01'::bytea], array[null], array[null],
                    array[null::bigint], array[null::bigint], array[null],
                    array[true], array[null], array[null],
                    array[null::int]);
            end loop;
        end
        $$;
    });
    last if $c->psql(q{
        select (select count(*) from interlock.jobs
                where finished_at is null)
            + (select count(*) from interlock.effects
               where state not in ('confirmed', 'failed'))}) == 0;
    select undef, undef, undef, 0.1;
}

is($c->psql('select count(*) from interlock.jobs where finished_at is null'),
    0, 'every job ends');
is($c->psql(q{select count(*) from interlock.effects
        where state not in ('confirmed', 'failed')}), 0,
    'every effect is settled');
is($c->check, '', 'check.sql finds nothing');

is($c->psql('select effect from t.provider group by effect
        having sum(n) > 1'), '', 'the provider shows no effect twice');
is($c->psql(q{select e.id, e.state from interlock.effects e
        left join t.provider p on p.effect = e.id
        where (e.state = 'confirmed') <> (p.key is not null)}), '',
    'the ledger agrees with it');
is($c->psql('select count(*) from interlock.effects_history
        where contradiction is not null'), 0, 'nothing contradicts it');
is($c->psql('select count(*) from interlock.checks'), 0, 'nobody asks');

my $log = $c->log_text;
unlike($log, qr/deadlock detected/, 'no deadlock');
unlike($log, qr/ERROR:/, 'no error at all in the log');

done_testing;
