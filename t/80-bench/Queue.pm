package Queue;

# What the queue benches share: a private cluster, batches of submissions, and
# timed claims.  Times are medians, in microseconds; compare them within one
# run only.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

use lib abs_path(dirname(__FILE__)) . '/../30-sql';

use Cluster;

sub new {
    my ($class) = @_;
    my $c = Cluster->new(fsync => 'on');
    my $self = bless { c => $c }, $class;

    $c->psql(q{
        alter role admin set plan_cache_mode = 'force_generic_plan';
        alter role admin set jit = off;
        create table t.times (what text, us float8);

        -- p_n submissions in batches of 500, keys p_prefix:1 and so on
        create procedure t.fill(p_kind text, p_prefix text, p_n int)
        language plpgsql as $$
        declare
            v_from  int := 1;
            n       int;
            h       record;
        begin
            while v_from <= p_n loop
                n := least(500, p_n - v_from + 1);
                select array_agg(gen_random_uuid()) as id,
                    array_agg(p_prefix || ':' || x) as key
                into h from generate_series(v_from, v_from + n - 1) x;
                perform interlock.submit(array_fill(t.demo(), array[n]),
                    h.id, array_fill('api'::text, array[n]),
                    array_fill(null::text, array[n]),
                    array_fill('\x01'::bytea, array[n]),
                    array_fill('reject'::text, array[n]),
                    array_fill(p_kind, array[n]), h.key,
                    array_fill(null::bigint, array[n]),
                    array_fill('\x7b7d'::bytea, array[n]),
                    array_fill(null::text, array[n]),
                    array_fill(null::text, array[n]),
                    array_fill(null::text, array[n]),
                    array_fill(null::int, array[n]),
                    array_fill(null::timestamptz, array[n]),
                    array_fill(null::timestamptz, array[n]),
                    array_fill(false, array[n]),
                    array_fill(null::text, array[n]),
                    array_fill(null::text, array[n]), false);
                commit;
                v_from := v_from + n;
            end loop;
        end
        $$;

        -- p_turns claims of p_n jobs each, timed with their commit
        create procedure t.timed_claims(p_kinds text, p_n int, p_turns int,
            p_what text)
        language plpgsql as $$
        declare
            v_at   timestamptz;
            v_got  bigint;
        begin
            for i in 1 .. p_turns loop
                v_at := clock_timestamp();
                select count(*) into v_got from interlock.claim(
                    array[gen_random_uuid()], array[t.demo()], array['w'],
                    array[p_kinds], array[p_n]);
                commit;
                if v_got <> p_n then
                    raise exception 'claimed % of %', v_got, p_n;
                end if;
                insert into t.times values (p_what,
                    extract(epoch from clock_timestamp() - v_at) * 1e6);
                commit;
            end loop;
        end
        $$;

        -- the same for one batch of p_n submissions
        create procedure t.timed_fill(p_kind text, p_prefix text, p_n int,
            p_turns int, p_what text)
        language plpgsql as $$
        declare
            v_at  timestamptz;
        begin
            for i in 1 .. p_turns loop
                v_at := clock_timestamp();
                call t.fill(p_kind, p_prefix || i, p_n);
                insert into t.times values (p_what,
                    extract(epoch from clock_timestamp() - v_at) * 1e6);
                commit;
            end loop;
        end
        $$;
    });
    return $self;
}

sub c { return $_[0]{c} }

sub median {
    my ($self, $what) = @_;
    return $self->{c}->psql("select round(percentile_cont(0.5) within group
        (order by us)) from t.times where what = '$what'");
}

# Two queues in one database, told apart by tenant-wide kinds: one of $small
# jobs; one of $big, $blocked of them behind one full limit.  Returns
# {name => [small, big]} of median times.
sub claim_cost {
    my ($self, $small, $big, $blocked) = @_;
    my $c = $self->{c};
    my $free = $big - $blocked;

    $c->psql(q{
        select t.kind('small', '{"overlap":"allow","max_queued":10000000}');
        select t.kind('big', '{"overlap":"allow","max_queued":10000000}');
        select t.kind('full', '{"overlap":"allow","max_queued":10000000,
            "priority":100,"limits":["crm"]}');
        select interlock.limit_put(t.demo(), 'crm', '{"capacity":1}');
    });

    # Small first, in a database that has nothing else in it ...
    my $turns = 40;
    $c->psql("call t.fill('small', 's', $small);
        select count(*) from t.claim('small', 5);
        call t.timed_claims('small', 1, $turns, 'claim 1 small');
        call t.timed_claims('small', 20, 20, 'claim 20 small');
        call t.timed_fill('small', 'sx', 200, 20, 'submit 200 small');");

    $c->psql("call t.fill('full', 'f', $blocked);
        select count(*) from t.claim('full', 1);
        call t.fill('big', 'b', $free);
        analyze interlock.jobs, interlock.works;");
    my $n = $c->psql("select count(*) from interlock.jobs
        where place = 'limited'");
    die "only $n of $blocked are blocked" if $n < $blocked - 1;

    # ... and in the same sessions' way, twice, the better one counts: the
    # machine has other things to do, too.
    for my $kinds ('big', 'big,full') {
        $c->psql("select count(*) from t.claim('$kinds', 5);
            call t.timed_claims('$kinds', 1, $turns, 'claim 1 $kinds');
            call t.timed_claims('$kinds', 20, 20, 'claim 20 $kinds');");
    }
    $c->psql("call t.timed_fill('big', 'bx', 200, 20, 'submit 200 big');
        call t.timed_claims('small', 1, $turns, 'claim 1 small beside');
        call t.timed_claims('small', 20, 20, 'claim 20 small beside');");

    my %t;
    for my $n (1, 20) {
        my $s = $self->median("claim $n small");
        $t{"claim $n of the big queue"} = [$s, $self->median("claim $n big")];
        $t{"claim $n of both kinds"} =
            [$s, $self->median("claim $n big,full")];
        $t{"claim $n of the small queue beside it"} =
            [$s, $self->median("claim $n small beside")];
    }
    $t{'submit 200'} = [$self->median('submit 200 small'),
                        $self->median('submit 200 big')];
    return \%t;
}

# One customer with $waiting jobs, another with one: after how many claims
# does the latter start?
sub fairness {
    my ($self, $waiting) = @_;
    my $c = $self->{c};
    $c->psql("
        select t.kind('fair', '{\"overlap\":\"allow\",\"fair_by\":\"2\",
            \"max_queued\":1000000}');
        call t.fill('fair', 'c:big', $waiting);
        select count(*) from t.claim('fair', 10);
        select t.submit('fair', 'c:small:1');");
    for my $i (1 .. 1000) {
        return $i if $c->psql("select work_key from t.claim('fair', 1)")
            eq 'c:small:1';
    }
    return 1001;
}

1;
