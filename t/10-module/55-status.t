#!/usr/bin/perl

# The status page, as JSON and for Prometheus: entries by state, what is free,
# decisions by location, and the last refusals with nothing of what was sent;
# and the lines of what was answered alone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use JSON::PP;
use Test::More;

my $gate = 'interlock zone=z; interlock_kind k; interlock_source s;'
    . 'interlock_idempotency_key $http_x_id; interlock_work_key w $http_x_work;'
    . 'fastcgi_pass backend;';

my $t = Interlock::Nginx->new(workers => 2,
    http => "interlock_zone zone=z:32k;\n"
        . "include $Interlock::Nginx::TOP/ngx_module/interlock_audit;",
    server => <<"END");
        interlock_tenant demo;
        access_log logs/audit.log interlock_audit if=\$interlock_audit;
        location /in { $gate }
        location /token { $gate
            interlock_verify token secret=secrets/t header=X-Token; }
        location /dry { $gate interlock_dry_run on; }
        location = /status { interlock_status; }
        location = /metrics { interlock_status prometheus; }
END
$t->secret(t => "s3cret\n");
$t->start;

sub post {
    my ($path, $id, @h) = @_;
    return $t->http(POST => $path, { body => '{"secret":"in the body"}',
        headers => [ 'X-Id' => $id, 'X-Work' => 'a"b', @h ] });
}

sub zone { $t->status }


# states and memory

my $empty = zone();
like($empty->{id}, qr/^[0-9a-f]{32}$/, 'a zone has an id');
cmp_ok($empty->{free}, '>', 0, 'there is room');
is($empty->{free_bytes}, 128 * $empty->{free}, 'said as bytes, too');
is($empty->{answered_alone}, 0, 'nothing was answered alone');
is_deeply($empty->{refusals}, [], 'and nothing refused');

post('/in', 'one');
post('/in', 'one') for 1 .. 3;
my $z = zone();
is($z->{done}, 1, 'an answer is kept');
cmp_ok($z->{free_bytes}, '<', $empty->{free_bytes}, 'which takes room');
is($z->{answered_alone}, 3, 'three were answered alone');
is($z->{id}, $empty->{id}, 'the id stays');


# the lines: each has the next number

sub lines {
    return map { decode_json($_) } split /\n/, $t->slurp('logs/audit.log');
}
my @lines = @{ $t->wait_for(sub { my @l = lines(); @l == 3 && \@l }, 5,
    'the lines') };
is(join(' ', sort map { $_->{seq} } @lines), '1 2 3', 'each has its number');
is($lines[0]{zone}, $z->{id}, 'of this zone');
is(join(' ', @{ $lines[0] }{qw(tenant source kind work_key key decision)}),
    'demo s k w:a"b one duplicate', 'names and keys');
like($lines[0]{answer}, qr/^1;202;accepted;queued;-;1;[0-9a-f-]{36};-;-$/,
    'the answer that was given');
like($lines[0]{at}, qr/^\d{10}\.\d{3}$/, 'when');
like($lines[0]{fingerprint}, qr/^[0-9a-f]{64}$/, 'of what content');

post('/dry', 'one');
post('/in', 'two');
post('/token', 'one', 'X-Token' => 'wrong');
is(zone()->{answered_alone}, 3, 'what goes to the backend, or is refused, '
    . 'has no number');


# refusals: the last 32, newest first

post('/token', "id$_", 'X-Token' => "guess$_") for 1 .. 30;
post('/in', '');
my @refusals = @{ zone()->{refusals} };
is(scalar @refusals, 32, 'refusals are shown');
is("$refusals[0]{location} $refusals[0]{reason} $refusals[0]{address}",
    '/in idempotency-key-missing 127.0.0.1', 'the newest first');
is("$refusals[1]{location} $refusals[1]{reason}", '/token signature-invalid',
    'then those before');
like($refusals[0]{time}, qr/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/, 'when');
post('/in', '') for 1 .. 5;
is(scalar @{ zone()->{refusals} }, 32, 'no more than 32');

my %page = map { $_ => $t->http(GET => $_)->{body} } qw(/status /metrics);
for my $page (sort keys %page) {
    unlike($page{$page}, qr/guess|s3cret|in the body|id30|wrong/,
        "$page: no secret, no key, no body");
}


# Prometheus

my %m = map { /^(\S+) (\S+)$/ ? ($1 => $2) : () } split /\n/, $page{'/metrics'};
my $last = zone();
for my $name (qw(capacity in_flight done free free_bytes)) {
    is($m{"interlock_zone_$name\{zone=\"z\"}"}, $last->{$name}, $name);
}
is($m{'interlock_zone_evictions_total{zone="z"}'}, $last->{evictions},
    'evictions');
is($m{'interlock_zone_answered_alone_total{zone="z"}'}, 3, 'answered alone');
is($m{'interlock_edge_requests_total{location="/in",decision="duplicate"}'}, 3,
    'decisions by location');
is($m{'interlock_edge_requests_total{location="/token",decision="rejected"}'},
    31, 'of each');
is($m{'interlock_edge_rejected_total{location="/token",'
    . 'reason="signature-invalid"}'}, 31, 'and why');

SKIP: {
    my $promtool = -x "$Interlock::Nginx::TOP/t/tools/usr/bin/promtool"
        ? "$Interlock::Nginx::TOP/t/tools/usr/bin/promtool" : 'promtool';
    open my $fh, '>', "$t->{dir}/page" or die "page: $!";
    print $fh $page{'/metrics'};
    close $fh or die "page: $!";
    my $said = `command -v $promtool >/dev/null && $promtool check metrics <$t->{dir}/page 2>&1; echo \$?`;
    skip 'promtool is not installed (Debian package prometheus)', 1
        if $said eq "1\n" || $said eq "127\n";
    is($said, "0\n", 'promtool has nothing to say of it');
}

$t->check_logs;

done_testing;
