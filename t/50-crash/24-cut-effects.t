#!/usr/bin/perl

# As 21-cut-connections.t, for the calls about effects: a connection to the
# database is cut at every moment that makes a difference.  A send is given
# once, its outcome is recorded once, and what an operator says is done once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Cut qw(api);
use Interlock::Provider;

my $p = Interlock::Provider->new;
my $host = '127.0.0.1:' . $p->port;
my $cut = Interlock::Cut->new(tables => [qw(effects sends effects_history)],
    conf => [ "check_hosts = $host", "check_private = $host",
        'check_threads = 1' ]);
my ($i, $db) = ($cut->i, $cut->db);
my $key = 0;

for my $put ([ '/v1/kinds/cut', { overlap => 'skip', lease_seconds => 600 } ],
    [ '/v1/effect-kinds/keys', { idempotent => JSON::PP::true,
        send_deadline => 60 } ],
    [ '/v1/effect-kinds/mute', { send_deadline => 60 } ],
    [ '/v1/effect-kinds/short', { send_deadline => 1, lookup => {
        type => 'worker' }, check_delay => 600 } ],
    [ '/v1/effect-kinds/asked', { send_deadline => 60,
        check_delay => 600, check_backoff => 1, lookup => { type => 'http',
            method => 'GET', url => $p->url . '/charges/{work_key}',
            found => { status => [200] }, not_found => { status => [404] },
            ref_pointer => '/id' } } ],
    [ '/v1/effect-kinds/looked', { send_deadline => 60, lookup => {
        type => 'worker' }, check_delay => 600 } ])
{
    my $res = $i->http(PUT => $put->[0], { token => 'operator',
        body => $put->[1] });
    die $res->{body} if $res->{status} != 200;
}

sub ask { return $cut->ask(@_) }
sub begin { return $cut->begin(@_) }
sub one { return $cut->one(@_) }

sub effect_begin {
    my ($l, $kind) = @_;

    return api($l->{owner_token}, POST => '/v1/effects',
        { name => 'charge', kind => $kind // 'keys' });
}

# begun(kind): a lease and the answer to the begin of its effect
sub begun {
    my ($kind) = @_;

    my $l = $cut->lease('cut:' . ++$key);
    my $res = ask(effect_begin($l, $kind));
    die "begin: $res->{status} $res->{body}"
        if ($res->{json}{decision} // '') ne 'send';
    return { l => $l, %{ $res->{json} } };
}

sub outcome {
    my ($s, $state) = @_;

    return api($s->{l}{owner_token}, POST =>
        "/v1/effects/$s->{effect_id}/outcome", { send_id => $s->{send_id},
            state => $state, provider_ref => 'ch_1', response => {
                status => 200, body => '{"id":"ch_1"}' } });
}

# unknown(kind): an effect whose outcome nobody knows
sub unknown {
    my ($kind) = @_;

    my $s = begun($kind);
    my $res = ask(outcome($s, 'unknown'));
    die "outcome: $res->{status} $res->{body}" if $res->{status} != 200;
    return $s;
}

# what the ledger has of an effect: its state, its sends, what moved it
sub ledger {
    my ($id) = @_;

    my ($row) = $db->do("select e.state || ' ' || (select count(*) from "
        . "interlock.sends s where s.effect_id = e.id) || ' sends: ' || "
        . "(select string_agg(h.what, ',' order by h.id) from "
        . 'interlock.effects_history h where h.effect_id = e.id) from '
        . "interlock.effects e where e.id = '$id'");
    return $row->[0];
}

sub actions {
    return one("select count(*) from interlock.actions where target = '$_[0]'");
}

my %who = (requested_by => 'me', reason => 'why');

my @calls = (
    { name => 'begin', app => 'interlockd begin',
        call => 'interlock.effect_begin',
        at => [qw(leases effect_kinds effects sends effects_history)],
        trigger => [qw(sends insert)],
        given => sub { return $cut->lease('cut:' . ++$key) },
        start => sub { return begin(effect_begin($_[0])) },
        then => sub {
            my ($l, $c) = @_;
            my $res = $c->response(15);
            my $again = ask(effect_begin($l));
            return ([ 'answer', $res->{status}, 200 ],
                [ 'decision', $res->{json}{decision}, 'send' ],
                [ 'ledger', ledger($res->{json}{effect_id}),
                    'intended 1 sends: send' ],
                [ 'the send', $res->{json}{send_id}, one('select id from '
                    . "interlock.sends where job_id = '$l->{job_id}'") ],
                [ 'again', $again->{json}{send_id}, $res->{json}{send_id} ],
                [ 'its key', $again->{json}{idempotency_key},
                    $res->{json}{idempotency_key} ]);
        } },

    { name => 'begin again', app => 'interlockd begin',
        call => 'interlock.effect_begin', at => [qw(effects sends)],
        trigger => [qw(sends insert)],
        given => sub { return unknown('keys') },
        start => sub { return begin(effect_begin($_[0]{l})) },
        then => sub {
            my ($s, $c) = @_;
            my $res = $c->response(15);
            return ([ 'answer', $res->{status}, 200 ],
                [ 'decision', $res->{json}{decision}, 'send' ],
                [ 'ledger', ledger($s->{effect_id}),
                    'intended 2 sends: send,outcome,send' ],
                [ 'the same key', $res->{json}{idempotency_key},
                    $s->{idempotency_key} ]);
        } },

    map({ my $state = $_; { name => "outcome $state",
        app => 'interlockd outcome', call => 'interlock.effect_outcome',
        at => [qw(effects sends effects_history)],
        trigger => [qw(sends update)],
        given => sub { return begun('mute') },
        start => sub { return begin(outcome($_[0], $state)) },
        then => sub {
            my ($s, $c) = @_;
            my $res = $c->response(15);
            my $again = ask(outcome($s, $state));
            return ([ 'answer', $res->{status}, 200 ],
                [ 'state', $res->{json}{state}, $state ],
                [ 'ledger', ledger($s->{effect_id}) =~ s/,human$//r =~
                    s/^needs_human/unknown/r, "$state 1 sends: send,outcome" ],
                [ 'again', $again->{status}, 200 ],
                [ 'contradictions', one('select count(*) from '
                    . 'interlock.effects_history where contradiction is not '
                    . "null and effect_id = '$s->{effect_id}'"), 0 ]);
        } } } qw(confirmed failed unknown)),

    # an end that leaves a send open
    { name => 'complete with an open send', app => 'interlockd finish',
        call => 'interlock.finish', at => [qw(sends effects)],
        trigger => [qw(effects update)],
        given => sub { return begun('mute') },
        start => sub { return begin(api($_[0]{l}{owner_token}, POST =>
            '/v1/lease/complete', {})) },
        then => sub {
            my ($s, $c) = @_;
            my $res = $c->response(15);
            return ([ 'answer', $res->{status}, 200 ],
                [ 'status', $res->{json}{status}, 'succeeded' ],
                [ 'ledger', ledger($s->{effect_id}),
                    'unknown 1 sends: send,end' ],
                [ 'ends', $cut->attempts_of($s->{l}{job_id}), 'complete' ]);
        } },

    # a loss that leaves one open, and the job waits for it
    { name => 'recover with an open send', app => 'interlockd sweep',
        call => 'interlock.recover', at => [qw(sends effects)],
        trigger => [qw(effects update)], not => { answer => 1 },
        given => sub { return begun('mute') },
        start => sub { $i->psql('set synchronous_commit = local; update '
            . 'interlock.leases set expires_at = clock_timestamp() where '
            . "job_id = '$_[0]{l}{job_id}'") },
        then => sub {
            my ($s) = @_;
            my $job = eval { $i->wait_for(sub {
                my $r = ask(api(auditor => GET =>
                    "/v1/jobs/$s->{l}{job_id}"));
                $r->{json}{status} ne 'running' && $r->{json} }, 10,
                'the recovery') } // {};
            my $late = ask(outcome($s, 'confirmed'));
            my $go = ask($cut->claim('cut', wait => 5));
            return ([ 'status', $job->{status}, 'checking' ],
                [ 'a late outcome settles it', $late->{json}{state},
                    'confirmed' ],
                [ 'ledger', ledger($s->{effect_id}),
                    'confirmed 1 sends: send,end,outcome' ],
                [ 'and the job goes on', $go->{json}{leases}[0]{job_id},
                    $s->{l}{job_id} ]);
        } },

    { name => 'overdue', app => 'interlockd sweep',
        call => 'interlock.effects_overdue', at => [qw(works effects)],
        trigger => [qw(effects update)], not => { answer => 1 },
        given => sub { return begun('short') },
        start => sub { },
        then => sub {
            my ($s) = @_;
            eval { $i->wait_for(sub { ledger($s->{effect_id}) =~ /^unknown/ },
                10, 'it to be unknown') };
            return ([ 'ledger', ledger($s->{effect_id}),
                'unknown 1 sends: send,deadline' ], [ 'look-ups', one(
                'select count(*) from interlock.checks where target = '
                . "'$s->{effect_id}'"), 1 ]);
        } },

    # a look-up that tells what it found
    { name => 'look-up', app => 'interlockd check',
        call => 'interlock.checks_answer', at => [qw(works effects)],
        trigger => [qw(effects update)],
        given => sub {
            my $s = unknown('asked');
            my $body = qq({"reference":"$s->{l}{work_key}"});
            Interlock::HTTP::raw($p->port, "POST /charges HTTP/1.1\r\nHost: "
                . "p\r\nContent-Length: " . length($body)
                . "\r\n\r\n$body");
            return $s;
        },
        start => sub { $i->psql('set synchronous_commit = local; update '
            . 'interlock.checks set due_at = clock_timestamp() where target '
            . "= '$_[0]{effect_id}'") },
        then => sub {
            my ($s) = @_;
            eval { $i->wait_for(sub { ledger($s->{effect_id})
                =~ /^confirmed/ }, 15, 'it to be found') };
            return ([ 'ledger', ledger($s->{effect_id}),
                'confirmed 1 sends: send,outcome,look-up' ],
                [ 'its reference', one('select provider_ref from '
                    . "interlock.effects where id = '$s->{effect_id}'"),
                    (grep { ($_->{reference} // '') eq $s->{l}{work_key} }
                        $p->record)[0]{id} ],
                [ 'look-ups left', one('select count(*) from '
                    . "interlock.checks where target = '$s->{effect_id}'"),
                    0 ]);
        } },

    map({ my ($say, $state) = @$_; { name => "resolve $say",
        app => 'interlockd read', call => 'interlock.effect_resolve',
        at => [qw(works effects actions)], trigger => [qw(actions insert)],
        given => sub { return unknown('mute') },
        start => sub { return begin(api(operator => POST =>
            "/v1/effects/$_[0]{effect_id}/resolve", { outcome => $say,
                %who })) },
        then => sub {
            my ($s, $c) = @_;
            my $res = $c->response(15);
            return ([ 'answer', $res->{status}, 200 ],
                [ 'state', $res->{json}{state}, $state ],
                [ 'ledger', ledger($s->{effect_id}) =~ s/,human,/,/r,
                    "$state 1 sends: send,outcome,resolve" ],
                [ 'actions', actions($s->{effect_id}), 1 ]);
        } } } [ happened => 'confirmed' ], [ not_happened => 'failed' ]),

    { name => 'resolve send_again', app => 'interlockd read',
        call => 'interlock.effect_resolve', at => [qw(effects)],
        trigger => [qw(actions insert)],
        given => sub { return unknown('keys') },
        start => sub { return begin(api(operator => POST =>
            "/v1/effects/$_[0]{effect_id}/resolve", { outcome =>
                'send_again', %who })) },
        then => sub {
            my ($s, $c) = @_;
            my $res = $c->response(15);
            return ([ 'answer', $res->{status}, 200 ],
                [ 'ledger', ledger($s->{effect_id}),
                    'unknown 1 sends: send,outcome,resolve' ],
                [ 'actions', actions($s->{effect_id}), 1 ]);
        } },

    { name => 'check now', app => 'interlockd read',
        call => 'interlock.effect_check_now', at => [qw(effects checks)],
        trigger => [qw(actions insert)],
        given => sub { return unknown('looked') },
        start => sub { return begin(api(operator => POST =>
            "/v1/effects/$_[0]{effect_id}/check", { %who })) },
        then => sub {
            my ($s, $c) = @_;
            my $res = $c->response(15);
            return ([ 'answer', $res->{status}, 202 ],
                [ 'actions', actions($s->{effect_id}), 1 ],
                [ 'look-ups', one('select count(*) from interlock.checks '
                    . "where target = '$s->{effect_id}'"), 1 ]);
        } },

    { name => 'effect kind', app => 'interlockd read',
        call => 'interlock.effect_kind_put', at => [qw(effect_kinds
            effect_kind_versions)], not => { written => 1, committed => 1 },
        given => sub { return ++$key },
        start => sub { return begin(api(operator => PUT =>
            '/v1/effect-kinds/cutput', { key_window => 1000 + $_[0],
                idempotent => JSON::PP::true })) },
        then => sub {
            my ($n, $c) = @_;
            my $res = $c->response(15);
            return ([ 'answer', $res->{status}, 200 ], [ 'versions', one(
                'select count(*) from interlock.effect_kind_versions where '
                . "name = 'cutput' and key_window = 1000 + $n"), 1 ]);
        } },
);

my $some = begun('mute');
ask(outcome($some, 'confirmed'));
for my $read (
    [ 'effect', 'effect_get', 'effects', "/v1/effects/$some->{effect_id}" ],
    [ 'effects', 'effects_list', 'effects',
        "/v1/effects?work_key=$some->{l}{work_key}" ],
    [ 'effect kind', 'effect_kind_get', 'effect_kinds',
        '/v1/effect-kinds/mute' ])
{
    my ($name, $call, $table, $path) = @$read;
    push @calls, { name => "read $name", app => 'interlockd read',
        call => "interlock.$call", at => [$table], not => { written => 1,
            committed => 1 },
        given => sub { return ask(api(operator => GET => $path)) },
        start => sub { return begin(api(operator => GET => $path)) },
        then => sub {
            my ($before, $c) = @_;
            my $res = $c->response(15);
            return ([ 'answer', $res->{status}, 200 ],
                [ 'body', $res->{body}, $before->{body} ]);
        } };
}

my $cells = $cut->cells($ARGV[0], @calls);
cmp_ok($cells, '>', 80, "$cells cells") unless @ARGV;
$i->check_sql;

done_testing();
