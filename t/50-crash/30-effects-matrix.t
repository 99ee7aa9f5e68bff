#!/usr/bin/perl

# No payment twice, whoever dies when.  A payment goes through begin, send,
# answer and record; at each step of it, each of the four that take part is
# killed with -9:
#
#   victim  worker, interlockd, nginx, PostgreSQL
#   step    begin     the intent is being written
#           begun     it is durable, and nobody was told yet
#           late      sent; the provider has not acted, and will
#           gone      sent; the provider has not acted, and never will
#           acted     the provider acted and has not answered
#           record    the outcome is being written
#           recorded  it is durable, and nobody was told yet
#   (stop and plug: wherever it just is, for one more of each)
#   way     egress (nginx begins, sends, records) or direct (the worker does)
#   kind    keys: the provider honours idempotency keys; look: it does not,
#           but can be asked; human: neither, a person looks and decides
#
# In each cell the job succeeds in the end, the provider's own record has its
# payment once, and the ledger agrees with it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use List::Util qw(first);
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Payer;
use Interlock::Provider;
use Interlock::Session;
use Interlock::Standby;
use Interlock::Test;

my %provider = (keys => Interlock::Provider->new,
    mute => Interlock::Provider->new(honours => 0));
my %at = (keys => $provider{keys}, look => $provider{mute},
    human => $provider{mute});
my @ways = qw(egress direct);
my @kinds = qw(keys look human);

my $hosts = join ' ', map { '127.0.0.1:' . $_->port } values %provider;
my $i = Interlock::Test->instance(
    conf => [ "check_hosts = $hosts", "check_private = $hosts",
        'recover_interval = 100ms' ],
    nginx_server => join "\n", map { my $port = $at{$_}->port; <<"END" }
location /out/mx-$_/ {
    interlock_effect name=\$http_interlock_effect kind=mx-$_;
    proxy_connect_timeout 1s;
    proxy_read_timeout 15s;
    proxy_pass http://127.0.0.1:$port/;
}
END
    @kinds);

my %token = map { $_ => $i->token($_) } qw(submit worker operator);
my $mute = $provider{mute}->url;
my %policy = (
    '/v1/kinds/mx' => { overlap => 'skip', lease_seconds => 60,
        max_attempts => 100, backoff => 0 },
    '/v1/effect-kinds/mx-keys' => { idempotent => JSON::PP::true },
    '/v1/effect-kinds/mx-look' => { authoritative => JSON::PP::true,
        settle_after => 0, check_delay => 0, check_backoff => 1,
        max_checks => 100, lookup => { type => 'http', method => 'GET',
            url => "$mute/charges/{work_key}", found => { status => [200] },
            not_found => { status => [404] }, ref_pointer => '/id' } },
    '/v1/effect-kinds/mx-human' => {},
);
for my $path (sort keys %policy) {
    my $res = $i->http(PUT => $path, { token => 'operator', body => {
        $path =~ /effect/ ? (send_deadline => 20) : (),
        %{ $policy{$path} } } });
    die "$path: $res->{body}" if $res->{status} != 200;
}

# What is being written for a cell whose name begins with one of these words
# waits, inside its transaction, for whoever holds the lock of that name.  A
# `plug` and a `stop` only make the others of a round one batch: they are held
# first, so that all others queue behind them.
my ($db, $holder) = map { Interlock::Session->new($i->dsn('admin')) } 1, 2;
my $standby = Interlock::Standby->new($i);
$db->do(q{
create function public.held() returns trigger language plpgsql as $$
declare
    v_step  text;
begin
    select split_part(e.name, ' ', 1) into v_step from interlock.effects e
    where e.tenant = new.tenant and e.id = new.effect_id;
    if session_user = 'interlock_service'
        and (tg_op, v_step) in (('INSERT', 'plug'), ('INSERT', 'begin'),
            ('INSERT', 'begun'), ('UPDATE', 'stop'), ('UPDATE', 'record'),
            ('UPDATE', 'recorded'))
    then
        perform pg_advisory_xact_lock_shared(7708, hashtext(v_step));
    end if;
    return new;
end $$;
create trigger held before insert or update on interlock.sends
    for each row execute function public.held();
});

sub one { return ($db->do($_[0]))[0][0] }

my $n = 0;
my %count;


# --- the cells of one kill --------------------------------------------------

# cell(step, way, kind): a job of it, leased
sub cell {
    my ($step, $way, $kind) = @_;

    my $ref = 'mx:' . ++$n;
    my $payload = { way => $way, kind => "mx-$kind", name => "$step charge",
        reference => $ref, provider => $at{$kind}->url };
    my $res = $i->http(POST => '/v1/jobs', { token => 'submit', body => {
        kind => 'mx', work_key => $ref, payload => $payload } });
    die "submit: $res->{body}" if $res->{status} != 202;
    my $job = $res->{json}{job_id};
    $res = $i->http(POST => '/v1/leases', { token => 'worker', body => {
        kinds => ['mx'] } });
    my $l = $res->{json}{leases}[0];
    die "claim: $res->{body}" if !$l || $l->{job_id} ne $job;
    return { step => $step, way => $way, kind => $kind, ref => $ref,
        job => $job, lease => $l, provider => $at{$kind} };
}

sub worker {
    my ($cell) = @_;

    $cell->{pid} = Interlock::Payer->start(url => $i->url,
        lease => $cell->{lease});
}

my %hangs = (late => 'hang', gone => 'hang', acted => 'hang_after');

sub waits_at_provider {
    my ($cell) = @_;

    return first { ($_->{reference} // '') eq $cell->{ref} }
        $cell->{provider}->waiting;
}

sub held {
    my ($app, $event) = @_;

    $i->wait_for(sub { one('select count(*) from pg_stat_activity where '
        . "application_name = '$app' and wait_event = '$event'") }, 15,
        "$app to be held ($event)");
}

sub hold {
    my ($session, @steps) = @_;

    $session->do('begin');
    $session->do("select pg_advisory_xact_lock(7708, hashtext('$_'))")
        for @steps;
}

# one_batch(lane, plug, cells): starts them so that their calls are one batch
# of that lane, which is held; answers the plug, a payment like any other.
sub one_batch {
    my ($lane, $plug, @cells) = @_;

    my $session = Interlock::Session->new($i->dsn('admin'));
    my $extra = cell($plug, 'direct', 'keys');
    hold($session, $plug);
    worker($extra);
    held("interlockd $lane", 'advisory');
    worker($_) for @cells;
    my $depth = sub { $i->metrics->{qq(interlock_lane_depth{lane="$lane"})} };
    $i->wait_for(sub { $depth->() == @cells }, 15,
        @cells . " calls in the lane $lane");
    $session->do('rollback');
    $i->wait_for(sub { $depth->() == 0 }, 15, 'all to be in one batch');
    held("interlockd $lane", 'advisory');
    return $extra;
}

# stand(cells): every cell stands at its step when this returns; answers the
# plugs.
sub stand {
    my @cells = @_;

    my %of;
    push @{ $of{ $_->{step} } }, $_ for @cells;
    hold($holder, qw(begin begun record recorded));

    my @hang = map { @{ $of{$_} // [] } } qw(late gone acted);
    for my $cell (@hang) {
        $cell->{provider}->next_for($cell->{ref}, $hangs{ $cell->{step} });
        worker($cell);
    }
    $i->wait_for(sub { !grep { !waits_at_provider($_) } @hang }, 15,
        'all sends to be with the provider');
    my @plugs = (one_batch(outcome => 'stop',
            map { @{ $of{$_} // [] } } qw(record recorded)),
        one_batch(begin => 'plug',
            map { @{ $of{$_} // [] } } qw(begin begun)));

    if ($of{begun}) {
        # COMMITs are durable here then, and wait for a standby
        $standby->hold;
        $holder->do('rollback');
        held("interlockd $_", 'SyncRep') for qw(outcome begin);
    }
    return @plugs;
}

sub ready {
    my ($name, $old) = @_;

    $i->wait_for(sub {
        my $new = eval { $i->pid($name) };
        $new && $new != $old
            && $i->http(GET => '/readyz')->{status} == 200;
    }, 30, "another $name");
}

my %kill = (
    worker => sub { kill 'KILL', map { $_->{pid} } @_ },
    interlockd => sub { kill 'KILL', $i->backend_pid },
    nginx => sub { kill 'KILL', -$i->nginx_pid },
    PostgreSQL => sub { kill 'KILL', $i->pid('postgres') },
);
my %process = (interlockd => 'interlockd', nginx => 'nginx',
    PostgreSQL => 'postgres');


# --- afterwards -------------------------------------------------------------

# What a person does about an effect that nobody can look up: he looks at the
# provider's record, once nothing of it is under way there.
sub decide {
    my (@cells) = @_;

    my %cell = map { $_->{ref} => $_ } @cells;
    for ($db->do("select id, work_key from interlock.effects where state = "
        . "'needs_human'"))
    {
        my ($id, $ref) = @$_;
        my $cell = $cell{$ref} // next;
        next if waits_at_provider($cell);
        my $done = $cell->{provider}->done($ref);
        my $res = $i->http(POST => "/v1/effects/$id/resolve", {
            token => 'operator', body => { requested_by => 'me',
                reason => "the provider has $done of it",
                outcome => $done ? 'happened' : 'not_happened' } });
        $cell->{decided}++ if $res->{status} == 200;
    }
}

# pass_time(at, cells): the deadline of what was sent before then, and of which
# nobody will ever hear, is over.
sub pass_time {
    my ($at, @cells) = @_;

    my $refs = join ',', map { "'$_->{ref}'" } @cells or return;
    for ($db->do('select e.id, s.id from interlock.effects e join '
        . 'interlock.sends s on s.effect_id = e.id where e.work_key in '
        . "($refs) and s.heard is null and s.deadline > clock_timestamp() "
        . "and s.begun_at < to_timestamp($at)"))
    {
        # one by one, the effect first: as everybody locks them
        my ($effect, $send) = @$_;
        $db->do('begin; set local session_replication_role = replica; '
            . 'select from interlock.effects where id = '
            . "'$effect' for no key update; "
            . 'update interlock.sends set deadline = clock_timestamp() where '
            . "id = '$send'; "
            . 'update interlock.effects set open_until = clock_timestamp() '
            . "where id = '$effect' and open_send = '$send'; "
            . 'update interlock.effects set human_at = clock_timestamp() '
            . "where id = '$effect' and kind = 'mx-human' and human_at is "
            . 'not null; '
            . 'update interlock.checks set due_at = clock_timestamp() where '
            . "target = '$effect'; commit");
    }
}

sub over {
    my ($victim, @cells) = @_;

    my $jobs = join ',', map { "'$_->{job}'" } @cells;
    $holder->do('rollback');
    $standby->release;
    for my $cell (@cells) {
        $cell->{provider}->release_for($cell->{ref},
            $cell->{step} eq 'gone' ? 'drop' : 'go') if $hangs{ $cell->{step} };
    }

    # Of dead workers' sends nobody hears, nor of those that a dead edge had
    # begun, or a live one that was not told so.
    my @unheard = grep { $victim eq 'worker' || $_->{way} eq 'egress'
        && ($victim eq 'nginx' || $victim eq 'interlockd'
            && $_->{step} =~ /^beg/) } @cells;
    $i->wait_for(sub { !one('select count(*) from pg_stat_activity where '
        . "application_name in ('interlockd begin', 'interlockd outcome') "
        . "and state <> 'idle'") }, 15, 'what was held to be over');
    my $at = time;
    $db->do('update interlock.leases set expires_at = clock_timestamp() '
        . "where job_id in ($jobs)") if $victim eq 'worker';

    my @next = map { Interlock::Payer->start(url => $i->url,
        token => $token{worker}, kinds => ['mx']) } 1 .. 3;
    my $ok = eval { $i->wait_for(sub {
        decide(@cells);
        pass_time($at, @unheard);
        !one('select count(*) from interlock.jobs where id in '
            . "($jobs) and finished_at is null");
    }, 40, 'all jobs to end'); 1 };
    diag($@) if !$ok;
    kill 'KILL', @next;
    waitpid $_, 0 for @next;
    for my $cell (@cells) {
        kill 'KILL', $cell->{pid} if !$ok;
        waitpid $cell->{pid}, 0;
    }
}

sub judge {
    my ($victim, $cell) = @_;

    my $ref = $cell->{ref};
    my @record = $cell->{provider}->record($ref);
    my @heard = $cell->{provider}->heard($ref);
    my ($job) = $db->do("select status, attempts from interlock.jobs where "
        . "id = '$cell->{job}'");
    my @effects = $db->do('select e.state, e.provider_ref, e.round, '
        . '(select count(*) from interlock.sends s where s.effect_id = e.id),'
        . ' (select count(*) from interlock.effects_history h where '
        . 'h.effect_id = e.id and h.contradiction is not null), '
        . "e.id from interlock.effects e where e.work_key = '$ref'");
    my ($state, $said, $round, $sends, $wrong, $id) = @{ $effects[0] // [] };

    my @bad;
    push @bad, 'the provider acted ' . @record . ' times' if @record != 1;
    push @bad, 'the ledger has ' . @effects . ' effects' if @effects != 1;
    push @bad, 'the ledger says ' . ($state // 'nothing')
        if ($state // '') ne 'confirmed';
    push @bad, "the ledger names $said, the provider $record[0]{id}"
        if defined $said && @record && $said ne $record[0]{id};
    push @bad, 'the ledger names nothing of the provider\'s'
        if !defined $said && !$cell->{decided};
    push @bad, "$wrong contradictions" if $wrong;
    push @bad, @heard . ' requests, and only ' . $sends . ' sends'
        if @heard > ($sends // 0);
    push @bad, 'the job is ' . ($job->[0] // 'gone')
        if ($job->[0] // '') ne 'succeeded';
    push @bad, 'sent again by itself'
        if $cell->{kind} eq 'human' && @heard > 1 + ($cell->{decided} // 0);
    my %keys = map { ($_->{key} // '') => 1 } @heard;
    push @bad, keys(%keys) . ' keys' if $cell->{kind} eq 'keys'
        && keys %keys > ($round // 1);

    $count{again}++ if @heard > 1;
    $count{decided} += $cell->{decided} // 0;
    ok(!@bad, "$victim killed at $cell->{step}, $cell->{way}, $cell->{kind}")
        or diag(join "\n", @bad, defined $id ? $i->psql('select at, what, '
            . 'from_state, to_state, round, said, detail from '
            . "interlock.effects_history where effect_id = '$id' order by id")
            : ());
}


# --- the matrix -------------------------------------------------------------

my ($only) = @ARGV;
my $times = $ENV{INTERLOCK_FULL} ? 10 : 1;
for my $victim ((qw(worker interlockd nginx PostgreSQL)) x $times) {
    for my $round ([qw(begin late gone acted record)],
        [qw(begun recorded)])
    {
        my @steps = @$round;
        next if defined $only && "$victim @steps" !~ /$only/;
        my $t0 = time;
        my @cells = map { my $step = $_; map { my $way = $_;
            map { cell($step, $way, $_) } @kinds } @ways } @steps;
        push @cells, stand(@cells);
        my $held = time - $t0;

        my $old = $process{$victim} && $i->pid($process{$victim});
        $kill{$victim}->(@cells);
        if ($victim eq 'PostgreSQL') {
            # (its settings are those of before)
            $i->wait_for(sub { eval { ($db, $holder) = map {
                Interlock::Session->new($i->dsn('admin')) } 1, 2;
                $standby = Interlock::Standby->new($i); $standby->release;
                1 } }, 20, 'PostgreSQL');
        }
        ready($process{$victim}, $old) if $old;
        over($victim, @cells);
        judge($victim, $_) for @cells;
        note(sprintf '%s at %s: %.1f s to get there, %.1f s in all', $victim,
            "@steps", $held, time - $t0);
    }
}
note("$count{again} payments were sent more than once, $count{decided} were "
    . 'decided by hand');
cmp_ok($count{again}, '>', 0, 'sending again was needed') if !defined $only;
cmp_ok($count{decided}, '>', 0, 'so was a person') if !defined $only;

# The history is a chain with a link for each row, though those who made it
# were killed.
my $chain;
eval { $i->wait_for(sub {
    $chain = $i->cli('audit', 'verify', '--tenant', 'demo', '--json',
        '--dsn-file', $i->dir . '/dsn');
    !$chain->{code} && !$chain->{json}{unsealed} }, 10, 'all to be sealed') };
is($chain->{code}, 0, 'the history is as it was written')
    or diag($chain->{out}, $chain->{err});
is($chain->{json}{unsealed}, 0, 'and sealed');
is($chain->{json}{links}, one('select count(*) from '
    . 'interlock.effects_history'), 'row by row');

$i->check_sql;

done_testing();
