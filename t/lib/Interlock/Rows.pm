package Interlock::Rows;

# Fills an instance with what an operator would meet: by the calls that
# clients and interlockd make, never by rows put into tables.
#
#     my $rows = Interlock::Rows->new($i);
#     $rows->one;            # one of everything, once
#     $rows->every;          # every state there is, hostile text in each field
#     $rows->many(100_000);  # so many jobs, and what comes with them
#
# one and every go by HTTP.  many goes by the SQL functions, as the role of
# interlockd, 500 jobs a call over two connections.

use strict;
use warnings;

use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# What fields say where nothing is hostile, as in a picture for the manual.
my %plain = (
    by => 'Dana', reason => 'the figures came late', worker => 'sales-7',
    payload => 'acme', idem => 'order-4711', note => 'page two of three',
    step => 'pages', error => 'the CRM does not answer',
    message => 'Your figures are late: the CRM does not answer.',
    target => 'https://pay.test/charges', ref => 'ch_4711',
    detail => 'timed out after 2 s', answer => 'paid', effect => 'charge',
);

sub new {
    my ($class, $i) = @_;

    return bless { i => $i }, $class;
}

# What many() says of itself: { jobs, seconds, … }
sub counts { $_[0]{counts} }


# --- very many --------------------------------------------------------------

# The body of a session's DO: jobs from p_from on, p_n of them, 500 a call.  Of
# each 500 most are done, some fail, some effects are sent, some keep their
# lease, the rest waits.
sub _many_sql {
    my ($from, $n) = @_;

    return <<"SQL";
set plan_cache_mode = force_generic_plan;
set jit = off;
set statement_timeout = 0;
do \$do\$
declare
    v_tenant  int;
    v_n       int;
    v_ids     uuid[];
    v_keys    text[];
    r         record;
    v_jobs    uuid[]; v_tries uuid[]; v_fences bigint[];
    v_effects uuid[]; v_sends uuid[];
    k         int;
begin
    select x.tenant into v_tenant from interlock.tenant_find('demo') x;
    for b in 0 .. $n / 500 - 1 loop
        select array_agg((lpad(to_hex(floor(extract(epoch from
                    clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
                || substr(md5(random()::text), 1, 3) || '8'
                || substr(md5(random()::text), 4, 15))::uuid),
            array_agg(format('rows:%s', $from + b * 500 + x))
        into v_ids, v_keys from generate_series(1, 500) x;
        perform s.ord from interlock.submit(
            array_fill(v_tenant, array[500]), v_ids,
            array_fill('api'::text, array[500]),
            array(select 'key ' || x from unnest(v_keys) x),
            array_fill(sha256('x'), array[500]),
            array_fill('first'::text, array[500]),
            array(select 'rows-' || x % 4 from generate_series(1, 500) x),
            v_keys, array_fill(null::bigint, array[500]),
            array(select convert_to('{"n":' || x || '}', 'UTF8')
                  from generate_series(1, 500) x),
            array_fill('application/json'::text, array[500]),
            array_fill('{}'::text, array[500]),
            array_fill(null::text, array[500]),
            array_fill(null::int, array[500]),
            array_fill(null::timestamptz, array[500]),
            array_fill(null::timestamptz, array[500]),
            array_fill(false, array[500]),
            array_fill('the site'::text, array[500]),
            array_fill('a click'::text, array[500]), true) s;
        commit;

        -- 200 of them run, 25 of these for long.
        select array_agg(c.job_id), array_agg(c.attempt_id),
            array_agg(c.fence)
        into v_jobs, v_tries, v_fences
        from interlock.claim(array[gen_random_uuid()], array[v_tenant],
            array['worker ' || $from || '.' || b % 20],
            array['rows-0,rows-1,rows-2,rows-3'], array[200]) c;
        commit;
        continue when v_jobs is null;
        v_n := cardinality(v_jobs);
        k := least(v_n, 50);
        select array_agg(e.effect_id order by e.ord),
            array_agg(e.send_id order by e.ord)
        into v_effects, v_sends
        from interlock.effect_begin(array_fill(v_tenant, array[k]),
            v_jobs[1:k], v_tries[1:k], v_fences[1:k],
            array_fill('charge'::text, array[k]),
            array_fill('sample-mute'::text, array[k]),
            array(select 'https://pay.test/' || x
                  from generate_series(1, k) x),
            array_fill(null::bytea, array[k]),
            array_fill(null::uuid, array[k]),
            array(select gen_random_uuid() from generate_series(1, k))) e;
        perform o.ord from interlock.effect_outcome(
            array_fill(v_tenant, array[k]), v_tries[1:k], v_effects,
            v_sends,
            array(select case x % 20 when 0 then 'unknown' when 1 then
                'failed' else 'confirmed' end from generate_series(1, k) x),
            array(select 'ch_' || $from + b * 500 + x
                  from generate_series(1, k) x),
            array_fill(null::text, array[k]), array_fill(200, array[k]),
            array_fill('application/json'::text, array[k]),
            array_fill('{"ok":true}'::bytea, array[k])) o;
        commit;
        v_n := v_n - 25;
        continue when v_n < 1;
        perform f.ord from interlock.finish(array_fill(v_tenant, array[v_n]),
            v_jobs[1:v_n], v_tries[1:v_n], v_fences[1:v_n],
            array(select case when x % 30 = 0 then 'fail' else 'complete' end
                  from generate_series(1, v_n) x),
            array_fill(sha256('y'), array[v_n]),
            array_fill('{"done":true}'::text, array[v_n]),
            array_fill(null::text, array[v_n]),
            array_fill(9::bigint, array[v_n]),
            array_fill(1::bigint, array[v_n]),
            array(select case when x % 30 = 0 then 'the CRM said no' end
                  from generate_series(1, v_n) x),
            array_fill(false, array[v_n]),
            array_fill(null::text, array[v_n]),
            array_fill(null::text, array[v_n]),
            array_fill(null::int, array[v_n])) f;
        commit;
    end loop;
end
\$do\$;
SQL
}

# many(n): n jobs, each with its work and its request, and of every 500 some
# effects, leases and failures; in two sessions at once.
sub many {
    my ($self, $n) = @_;
    my $i = $self->{i};

    my $t0 = time;
    $self->put("/v1/kinds/rows-$_", { overlap => 'allow',
        lease_seconds => 3600, max_queued => 1_000_000 }) for 0 .. 3;

    my $each = int($n / 1000 + 0.999) * 500;
    my @pids;
    for my $k (0, 1) {
        my $pid = fork() // die "fork: $!";
        if (!$pid) {
            my ($code, undef, $err) = Interlock::Test::run([ 'psql', '-XAtq',
                '-v', 'ON_ERROR_STOP=1', '-d', $i->dsn('service'), '-f', '-' ],
                stdin => _many_sql($k * $each, $each), timeout => 900);
            print STDERR $err if $code;
            POSIX::_exit($code ? 1 : 0);
        }
        push @pids, $pid;
    }
    for (@pids) {
        waitpid $_, 0;
        die "rows could not be made\n" if $?;
    }

    # as autovacuum would, a while later
    $i->psql('vacuum analyze');
    my ($row) = $i->sql(q{select
        (select count(*) from interlock.jobs),
        (select count(*) from interlock.requests),
        (select count(*) from interlock.works),
        (select count(*) from interlock.effects),
        (select count(*) from interlock.leases)});
    my %counts;
    @counts{qw(jobs requests works effects leases)} = @$row;
    $counts{seconds} = time - $t0;
    return $self->{counts} = \%counts;
}


# --- by HTTP ----------------------------------------------------------------

sub call {
    my ($self, $role, $method, $path, $body, %headers) = @_;

    my $owner = $role =~ /^v4\./;
    $headers{authorization} = "Bearer $role" if $owner;
    my $res = $self->{i}->http($method, $path, { headers => \%headers,
        ($owner ? () : (token => $role)),
        (defined $body ? (body => $body) : ()) });
    die "$method $path: $res->{status} $res->{body}\n"
        if $res->{status} > 299
        && !grep { $_ == $res->{status} } @{ $self->{fine} // [] };
    return $res->{json};
}

sub put { my $self = shift; return $self->call('operator', 'PUT', @_) }

sub act {
    my ($self, $path, %more) = @_;
    return $self->call('operator', 'POST', $path, {
        requested_by => $self->said('by'), reason => $self->said('reason'),
        %more });
}

sub submit {
    my ($self, $kind, $key, %more) = @_;
    my $idem = delete $more{idem};
    return $self->call('submit', 'POST', '/v1/jobs', { kind => $kind,
        work_key => $key, payload => { text => $self->said('payload') },
        requested_by => $self->said('by'), reason => $self->said('reason'),
        %more }, defined $idem ? ('idempotency-key' => $idem) : ())->{job_id};
}

sub claim {
    my ($self, $kind) = @_;
    my $end = time + 60;
    while (time < $end) {
        my $res = $self->call('worker', 'POST', '/v1/leases', {
            worker => substr($self->said('worker') =~ s/[\x00-\x1f\x7f]//gr,
                0, 60),
            kinds => [$kind], wait => 5 });
        return $res->{leases}[0] if @{ $res->{leases} };
    }
    die "no lease of $kind\n";
}

sub owner {
    my ($self, $lease, $verb, $body) = @_;
    return $self->call($lease->{owner_token}, 'POST', "/v1/lease/$verb",
        $body // {});
}

sub effect {
    my ($self, $lease, $kind, $name) = @_;
    return $self->call($lease->{owner_token}, 'POST', '/v1/effects', {
        name => $name, kind => $kind, target => $self->said('target') });
}

sub outcome {
    my ($self, $lease, $e, $state) = @_;
    return $self->call($lease->{owner_token}, 'POST',
        "/v1/effects/$e->{effect_id}/outcome", { send_id => $e->{send_id},
            state => $state, provider_ref => $self->said('ref'),
            detail => $self->said('detail'),
            response => { text => $self->said('answer'),
                big => 9007199254740993 } });
}

# said(field): what a client says in a field.  By turns markup that would run,
# fetch or break out of where it is put; text that turns around; bytes that a
# terminal obeys; and very much of it.  It is plain words in `one`.
sub said {
    my ($self, $field) = @_;

    return $plain{$field} // "some $field" unless $self->{hostile};
    my $away = $self->{away} // 'http://192.0.2.1/';
    my @evil = (
        qq{<script>window.evil="$field"</script>$field},
        qq{"><img src="${away}$field" onerror="window.evil='$field'">$field},
        qq{'--></title></textarea><svg onload="window.evil='$field'">$field},
        qq{javascript:window.evil="$field"},
        qq{\x{202e}$field\x{2066}<b>\x{200b}\x{2028}},
        qq{\x01\x1b[31m\r\n\t$field\x7f},
        qq{$field } . ('W' x 400) . "\x{1f469}\x{200d}\x{1f4bb}",
        qq{<style>*{display:none}</style><base href="$away">$field},
        qq[{{7*7}}\${7*7}<iframe srcdoc="<script>parent.evil=1</script>">$field],
    );
    return $evil[ $self->{turn}++ % @evil ];
}

# key(name): a work key of that name.  A key has no blanks; tags do without.
sub key {
    my ($self, $name) = @_;
    $name =~ tr/ /-/;
    return $name unless $self->{hostile};
    my $text = $self->said('key') =~ s/ /\//gr;
    $text =~ s/([%\x00-\x20\x7f])/sprintf '%%%02X', ord $1/ge;
    return "$name:$text";
}

sub kinds {
    my ($self) = @_;

    my %k = (
        plain => { overlap => 'skip', when_completed => 'run' },
        one => { overlap => 'buffer_one', when_completed => 'return' },
        rep => { overlap => 'replace' },
        line => { overlap => 'buffer_all', max_waiting => 1,
            overflow => 'park' },
        full => { overlap => 'buffer_all', max_waiting => 1 },
        hold => { overlap => 'skip', on_lost => 'hold' },
        look => { overlap => 'skip', on_lost => 'check',
            result_check => { type => 'worker' } },
        brief => { overlap => 'allow', max_wait => 1 },
        pay => { overlap => 'skip', effect_scope => 'work',
            max_attempts => 9 },
        slot => { overlap => 'buffer_one', when_completed => 'return' },
        lim => { overlap => 'allow', limits => ['crm'] },
    );
    $self->put('/v1/limits/crm', { capacity => 1 });
    $self->put("/v1/kinds/e-$_", { lease_seconds => 3600, max_attempts => 1,
        %{ $k{$_} } }) for sort keys %k;
    $self->put('/v1/effect-kinds/e-mute', { idempotent => JSON::PP::false,
        send_deadline => 2 });
    $self->put('/v1/effect-kinds/e-wait', { idempotent => JSON::PP::true,
        send_deadline => 300 });
    $self->put('/v1/effect-kinds/e-look', { idempotent => JSON::PP::true,
        send_deadline => 2, check_delay => 86000,
        lookup => { type => 'worker' } });
}

# As if nobody had looked at a schedule for so long: time is not waited for.
sub _behind {
    my ($self, $name, $interval) = @_;

    $self->{i}->psql(<<"SQL");
begin;
set local session_replication_role = replica;
update interlock.schedules s
set since = least(s.since, clock_timestamp() - interval '$interval'),
    scanned_to = clock_timestamp() - interval '$interval',
    next_at = interlock.schedule_next(v, clock_timestamp()
        - interval '$interval')
from interlock.schedule_versions v
where s.name = '$name' and v.tenant = s.tenant and v.name = s.name
    and v.version = s.version;
commit;
SQL
}

# one(): one job that ran, with an effect, a slot and what people did.
sub one {
    my ($self) = @_;

    local $self->{hostile} = 0;
    $self->kinds;
    my $job = $self->submit('e-pay', 'only:one', idem => 'only one');
    my $lease = $self->claim('e-pay');
    my $e = $self->effect($lease, 'e-look', 'charge');
    $self->outcome($lease, $e, 'confirmed');
    $self->owner($lease, 'complete', { result => { ok => 1 },
        result_url => 'https://files.test/1' });
    $self->act('/v1/works/only%3Aone/publish', revision => 1);
    return { job => $job, work => 'only:one', effect => $e->{effect_id} };
}

# every(away => URL, plain => 1): jobs of every status, requests of every decision,
# effects of every state, gaps, slots, pauses; answers where to look at each:
# { jobs => { status => id }, works => [keys], effects => { state => id },
#   schedule => name, kind => name }.  What is hostile would fetch from URL;
# plain: nothing is.
sub every {
    my ($self, %opt) = @_;

    local $self->{hostile} = !$opt{plain};
    $self->{away} = $opt{away};
    $self->kinds;
    my (%j, @w);
    my $key = sub { push @w, my $k = $self->key(@_); return $k };

    # done, with everything that an owner may say
    $j{succeeded} = $self->submit('e-one', $key->('done'), idem =>
        'idem ' . $self->said('idem') =~ s/[^ !#-~]//gr);
    my $l = $self->claim('e-one');
    $self->owner($l, 'progress', { progress => { done => 1, total => 3,
        note => $self->said('note') }, step => $self->said('step'),
        checkpoint => { text => $self->said('checkpoint') } });
    $self->owner($l, 'complete', { result => { html => $self->said('result'),
        big => 9007199254740993 }, result_url => 'https://files.test/a"b',
        counts => { processed => 3, failed => 0 } });
    $self->submit('e-one', $w[-1]);                         # completed
    $self->act('/v1/works/' . _enc($w[-1]) . '/publish', revision => 1);

    $j{failed} = $self->submit('e-plain', $key->('fail'));
    $self->owner($self->claim('e-plain'), 'fail', { retryable =>
        JSON::PP::false, error => $self->said('error'), user_message =>
        $self->said('message'), log_url => 'https://logs.test/<script>' });

    $j{canceled} = $self->submit('e-plain', $key->('cancel'));
    $self->act("/v1/jobs/$j{canceled}/cancel");

    # duplicate, skipped, another body under a known key
    my $k = $key->('run');
    $j{running} = $self->submit('e-plain', $k, idem => 'again');
    $l = $self->claim('e-plain');
    $self->owner($l, 'progress', { progress => { done => 2, total => 9,
        note => $self->said('note') }, step => $self->said('step') });
    {
        local $self->{fine} = [ 422, 429 ];
        my %same = (payload => 1, requested_by => 'x', reason => 'y');
        $self->submit('e-plain', $key->('same'), %same, idem => 'same');
        $self->submit('e-plain', $w[-1], %same, idem => 'same');
        $self->submit('e-plain', $w[-1], %same, idem => 'same', priority => 1);
        $self->submit('e-plain', $k);
        $self->submit('e-full', "$w[-1]:full") for 1 .. 4;
    }

    # buffered, superseded, replaced, parked
    $self->submit('e-one', $key->('buffer'));
    $self->claim('e-one');
    $j{superseded} = $self->submit('e-one', $w[-1]);
    $j{queued} = $self->submit('e-one', $w[-1]);
    $self->submit('e-rep', $key->('replace'));
    $self->claim('e-rep');
    $self->submit('e-rep', $w[-1]);
    $self->submit('e-line', $key->('line')) for 1 .. 2;
    my @line = map { $self->submit('e-line', $w[-1]) } 1 .. 3;
    $j{parked} = $line[-1];
    $self->submit('e-lim', $key->("limit $_")) for 1 .. 3;
    $self->claim('e-lim');

    # lost: one for a person, one for a look-up
    for my $which ([ held => 'hold' ], [ checking => 'look' ]) {
        my ($status, $kind) = @$which;
        $j{$status} = $self->submit("e-$kind", $key->($kind));
        $self->claim("e-$kind");
        $self->act("/v1/jobs/$j{$status}/revoke");
    }
    $j{expired} = $self->submit('e-brief', $key->('brief'));

    # effects
    my %e;
    for my $which ([ needs_human => 'mute', 'unknown' ],
        [ unknown => 'look', 'unknown' ], [ confirmed => 'look', 'confirmed' ],
        [ failed => 'look', 'failed' ], [ intended => 'wait' ])
    {
        my ($state, $kind, $said) = @$which;
        $self->submit('e-pay', $key->("pay $state"));
        $l = $self->claim('e-pay');
        my $e = $self->effect($l, "e-$kind", substr($self->said('effect')
            =~ s/[^ -~]//gr, 0, 100));
        $e{$state} = $e->{effect_id};
        $self->outcome($l, $e, $said) if $said;
        $self->owner($l, 'fail', { error => $self->said('error') })
            if $said && $said eq 'unknown';
    }

    # slots of two dates: done, failed, not done; then their gaps
    my @subjects = $opt{plain} ? qw(acme birch cedar dahl)
        : map { "$_ " . substr $self->said('subject')
        =~ s/[^ -~]//gr, 0, 60 } 1 .. 4;
    $self->put('/v1/schedules/e-slots', { cron => '0 3 * * *', zone => 'UTC',
        kind => 'e-slot', work_key => 'slot:{subject}:{date}', grace => 0,
        catch_up => 'all', subjects => \@subjects });
    $self->_behind('e-slots', '50 hours');
    $self->owner($self->claim('e-slot'), 'complete', { result => {},
        counts => { processed => 1, failed => 0 } });
    $self->owner($self->claim('e-slot'), 'fail', { retryable =>
        JSON::PP::false, error => $self->said('error') }) for 1 .. 2;
    my $gaps;
    $self->{i}->wait_for(sub {
        $gaps = $self->call('operator', 'GET', '/v1/gaps')->{items};
        @$gaps >= 2;
    }, 60, 'gaps');
    $self->act("/v1/gaps/$gaps->[0]{gap_id}/dismiss");

    # what stands still
    $self->act('/v1/kinds/e-brief/pause');
    $self->act('/v1/sources/api/pause');
    $self->act('/v1/sources/api/resume');
    $self->{i}->wait_for(sub {
        $self->call('operator', 'GET', "/v1/jobs/$j{expired}")->{status}
            eq 'expired';
    }, 60, 'the expiry');

    return { jobs => \%j, works => \@w, effects => \%e,
        schedule => 'e-slots', kind => 'e-pay' };
}

sub _enc {
    my ($text) = @_;
    utf8::encode($text);
    return $text =~ s/([^A-Za-z0-9_.~-])/sprintf '%%%02X', ord $1/ger;
}

1;
