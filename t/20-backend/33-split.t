#!/usr/bin/perl

# POST /in/{source} with a body that the edge splits: each element its own
# request, one 2xx only when all of them are stored.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $c = Interlock::FastCGI->of_instance($i);

my %edge = (INTERLOCK_TENANT => 'demo', INTERLOCK_SOURCE => 'many',
    INTERLOCK_VERIFIED => 'token', INTERLOCK_MISMATCH => 'first');

# element(offset, length, kind, work key, idempotency key, problem, detail)
sub element {
    my ($at, $len, $kind, $key, $idem, $problem, $detail) = @_;
    return pack 'NN(n/a*)5', $at, $len, map { $_ // '' }
        $problem, $detail, $kind, $key, $idem;
}

sub list { return 'ils1' . pack('N', scalar @_) . join '', @_ }

# the elements of a JSON array of which no element has a comma in it
sub elements {
    my ($raw, $from) = @_;
    my @all;
    while ($raw =~ /(\{[^{}]*\})/g) {
        my $n = @all;
        push @all, element($-[0], $+[0] - $-[0], $from->($1, $n));
    }
    return @all;
}

sub post {
    my ($list, $raw, $opt) = @_;
    return $c->request(POST => '/in/many', { body => $list . $raw,
        params => { %edge, INTERLOCK_SPLIT => length $list,
            %{ $opt->{params} // {} } } });
}

sub split_post {
    my ($raw, $from) = @_;
    $from //= sub {
        my $e = decode_json($_[0]);
        return ($e->{kind} // 'free', "many:$e->{id}", "k-$e->{id}");
    };
    return post(list(elements($raw, $from)), $raw);
}

sub source {
    my ($what) = @_;
    is($c->request(POST => "/v1/sources/many/$what", { token =>
        $i->token('operator'), body => { requested_by => 'kim',
        reason => 'a test' } })->{status}, 200, "$what");
}

sub problem { ($_[0]{json}{type} // '') =~ m{problems/(.*)} ? $1 : '' }
sub requests { $i->psql('select count(*) from interlock.requests') }
sub jobs { $i->psql('select count(*) from interlock.jobs') }


# --- stored, each by itself -------------------------------------------------

my $raw = qq([ {"id":1}, {"id":2,\n "t":"\\u00E9\\/\xc3\xa9"} ,{"id":3}]\r\n);
my $res = split_post($raw);
is($res->{status}, 202, 'three elements: 202');
is($res->{headers}{'interlock-decision'}, 'accepted', 'all are accepted');
my @items = @{ $res->{json}{items} };
is(join(' ', map { "$_->{decision}:$_->{code}:$_->{work_key}" } @items),
    'accepted:202:many:1 accepted:202:many:2 accepted:202:many:3',
    'an answer for each, in order');
is($i->psql("select encode(payload, 'hex') from interlock.payloads"
    . " where job_id = '$items[1]{job_id}'"),
    unpack('H*', qq({"id":2,\n "t":"\\u00E9\\/\xc3\xa9"})),
    'the payload of one is its own bytes');
is($i->psql("select content_type from interlock.payloads"
    . " where job_id = '$items[1]{job_id}'"), 'application/json',
    'its type is that of the request');

$res = $c->request(POST => '/in/many', { headers => { 'content-length' => 99,
    'content-encoding' => 'gzip', 'x-event' => 'some' },
    body => list(element(0, 2, 'free', 'head', 'head')) . '{}',
    params => { %edge, INTERLOCK_SPLIT => 8 + 18 + 4 + 4 + 4 } });
is($i->psql("select headers from interlock.payloads"
    . " where job_id = '$res->{json}{items}[0]{job_id}'"),
    '{"x-event":"some"}', 'what is of the whole body only is not kept');

my $again = split_post($raw);
is($again->{status}, 202, 'a repeat: the first code');
is($again->{headers}{'idempotency-replayed'}, 'true', 'is a replay');
is($again->{headers}{'interlock-decision'}, 'duplicate', 'of all');
is(join(' ', map { $_->{job_id} } @{ $again->{json}{items} }),
    join(' ', map { $_->{job_id} } @items), 'of the same jobs');
is(jobs(), 4, 'and makes none');

$res = split_post('[{"id":3},{"id":4},{"id":1},{"id":5}]');
is($res->{status}, 202, 'two of four are new');
is(join('', map { $_->{replayed} ? 'r' : '-' } @{ $res->{json}{items} }),
    'r-r-', 'which');
ok(!$res->{headers}{'idempotency-replayed'}
    && !$res->{headers}{'interlock-decision'}, 'no word for all of them');
is(jobs(), 6, 'just the new ones are jobs');

$res = split_post('[{"id":6},{"id":6}]');
is($res->{json}{items}[0]{job_id}, $res->{json}{items}[1]{job_id},
    'one twice in a body: one job');

$res = split_post('[{"id":"t","kind":"tally"}]');
is($res->{status}, 202, 'one element');
$res = post(list(element(0, 2, 'tally', 'many:t', 'k-other')), '{}');
is($res->{status}, 200, 'skipped alone: 200');
is($res->{headers}{'interlock-decision'}, 'skipped', 'with its decision');

{
    my $n = requests();
    $res = post(list(), '[]');
    is($res->{status}, 200, 'no element at all: 200');
    is_deeply($res->{json}, { items => [] }, 'nothing to say of');
    is(requests(), $n, 'nothing stored');
}

my $text = '[' . join(',', map { "{\"id\":\"m$_\"}" } 1 .. 4000) . ']';
my $n = jobs();
is(split_post($text)->{status}, 202, '4000 elements');
is(jobs(), $n + 4000, 'are 4000 jobs');
is(split_post($text)->{headers}{'idempotency-replayed'}, 'true',
    'sent again they are repeats');
is(jobs(), $n + 4000, 'all of them');


# --- one that can not be stored ----------------------------------------------

$n = jobs();
$res = split_post('[{"id":"b1"},{"id":"b2"},{"id":"b3"}]', sub {
    my ($e, $k) = @_;
    return $k == 1 ? ('', '', '', 'work-key-incomplete', 'A part is empty.')
        : ('free', "bad:$k", "bad-$k");
});
is($res->{status}, 400, 'one without a key: 400');
is(problem($res), 'work-key-incomplete', 'its problem');
like($res->{json}{detail}, qr/Of 3 elements 1 could not/, 'says how many');
is($res->{json}{items}[1]{detail}, 'A part is empty.', 'and which');
is($res->{json}{items}[2]{decision}, 'accepted', 'the others have answers');
is(jobs(), $n + 2, 'and are stored');

$res = split_post('[{"id":"c1"},{"id":"c2","kind":"nosuch"}]');
is("$res->{status} " . problem($res), '404 kind-unknown', 'an unknown kind');

is($c->request(PUT => '/v1/kinds/narrow', { token => $i->token('operator'),
    body => { overlap => 'buffer_all', max_waiting => 1,
        overflow => 'reject' } })->{status}, 200, 'a kind with little room');
my $narrow = sub { ('narrow', 'many:narrow', 'n-' . decode_json($_[0])->{id}) };
$res = split_post('[{"id":1},{"id":2},{"id":3},{"id":4}]', $narrow);
is("$res->{status} " . problem($res), '429 queue-full', 'a full queue: 429');
cmp_ok($res->{headers}{'retry-after'} // 0, '>', 0, 'with Retry-After');
is(join(' ', map { $_->{decision} } @{ $res->{json}{items} }),
    'accepted buffered rejected rejected', 'what there was room for is in');
$res = split_post('[{"id":1},{"id":2},{"id":5},{"id":6}]', sub {
    my @own = $narrow->(@_);
    return $_[1] == 3 ? ('', '', '', 'work-key-incomplete', 'Empty.') : @own;
});
is("$res->{status} " . problem($res), '429 queue-full',
    'what ends by itself goes before what does not');

source('pause');
$res = split_post('[{"id":"p1"},{"id":"p2"}]');
is("$res->{status} " . problem($res), '503 source-paused', 'a paused source');
cmp_ok($res->{headers}{'retry-after'} // 0, '>', 0, 'with Retry-After');
source('resume');
is(split_post('[{"id":"p1"},{"id":"p2"}]')->{status}, 202, 'and afterwards');


# --- other words of the edge --------------------------------------------------

$n = requests();
my $one = element(0, 2, 'free', 'x', 'y');
my @broken = (
    [ 'not a number', 'x', list($one) ],
    [ 'longer than the body', 999, list($one) ],
    [ 'a negative length', -1, list($one) ],
    [ 'no list', 0, '' ],
    [ 'no magic', 8, 'il' . "\0" x 6 ],
    [ 'cut', length(list($one)) - 1, list($one) ],
    [ 'more than it says', undef, list($one) . $one ],
    [ 'less than it says', undef, 'ils1' . pack('N', 2) . $one ],
    [ '10001 elements', undef, list(($one) x 10_001) ],
    [ 'outside of the body', undef, list(element(1, 2, 'free', 'x', 'y')) ],
    [ 'far outside', undef, list(element(2**32 - 1, 2, 'free', 'x', 'y')) ],
    [ 'an empty element', undef, list(element(0, 0, 'free', 'x', 'y')) ],
    [ 'a text longer than the list', undef, list(pack 'NNn', 0, 2, 65535) ]);
for (@broken) {
    my ($what, $len, $list) = @$_;
    $res = $c->request(POST => '/in/many', { body => "$list\{}", params =>
        { %edge, INTERLOCK_SPLIT => $len // length $list } });
    is("$res->{status} " . problem($res), '400 bad-request', $what);
}

my @bad = (
    [ 'a kind that is no name', 404, 'not-found', 'A B', 'x', 'y' ],
    [ 'no work key', 400, 'work-key-incomplete', 'free', '', 'y' ],
    [ 'a work key with a blank', 400, 'work-key-invalid', 'free', 'a b',
      'y' ],
    [ 'a long idempotency key', 400, 'idempotency-key-invalid', 'free', 'x',
      'y' x 256 ],
    [ 'a broken one', 400, 'idempotency-key-invalid', 'free', 'x', "\xff" ],
    [ 'a problem that is not known', 400, 'bad-request', '', '', '',
      'nosuch', 'No such.' ]);
for (@bad) {
    my ($what, $status, $name, @e) = @$_;
    $res = post(list(element(0, 2, @e)), '{}');
    is("$res->{status} " . problem($res), "$status $name", $what);
}

$res = post(list($one), '{}', { params => { INTERLOCK_VERIFIED => undef } });
is($res->{status}, 401, 'neither verified nor a token');
$res = $c->request(POST => '/in/many', { body => list($one) . '{}',
    token => $i->token('worker'), params => { %edge,
    INTERLOCK_VERIFIED => undef, INTERLOCK_SPLIT => length list($one) } });
is($res->{status}, 403, 'a token of another role');
$res = post(list($one), '{}', { params => { INTERLOCK_SOURCE => undef } });
is($res->{status}, 404, 'no source');
is(requests(), $n, 'nothing of these is stored');
$res = $c->request(POST => '/in/many', { body => list($one) . '{}',
    token => $i->token('submit'), params => { %edge,
    INTERLOCK_VERIFIED => undef, INTERLOCK_SPLIT => length list($one) } });
is($res->{status}, 202, 'an API token instead of a signature');
is($c->request(POST => '/in/many', { body => '{}', params => { %edge } })
    ->{status}, 404, 'without a list its work key is asked for');

$i->check_sql;

done_testing();
