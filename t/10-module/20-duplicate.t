# A signed request twice: one reaches the backend, the other is answered from
# the zone, byte for byte.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $t = Interlock::Nginx->new(workers => 2,
    http => 'interlock_zone zone=z:1m; interlock_json $ref /ref;'
        . 'log_format d "$request_method $status $interlock_decision'
        . ' $upstream_addr $interlock_job_id $interlock_verified";',
    server => <<'END');
        interlock_tenant demo;
        location = /in/github {
            access_log logs/access.log d;
            interlock zone=z;
            interlock_source github;
            interlock_kind push;
            interlock_verify github secret=secrets/github;
            interlock_work_key github $ref;
            interlock_idempotency_key $http_x_github_delivery;
            fastcgi_pass backend;
        }
        location = /status { interlock_status; }
        location = /metrics { interlock_status prometheus; }
END
$t->secret(github => "s3cret\nolder\n");
$t->start;

my $body = '{"ref":"refs/heads/main","n":1.10}';

my $first = $t->github('/in/github', 'd-1', $body);
is($first->{status}, 202, 'first');
is($first->{json}{decision}, 'accepted', 'decided by the backend');
ok(!defined Interlock::Nginx::header($first, 'idempotency-replayed'),
    'not a replay');
for my $h (qw(interlock-answer interlock-done-for interlock-epoch)) {
    ok(!exists $first->{headers}{$h}, "$h is not for the client");
}

my ($seen) = $t->seen;
is($seen->{body}, $body, 'the body came raw');
is($seen->{params}{INTERLOCK_TENANT}, 'demo', 'tenant');
is($seen->{params}{INTERLOCK_SOURCE}, 'github', 'source');
is($seen->{params}{INTERLOCK_KIND}, 'push', 'kind');
is($seen->{params}{INTERLOCK_WORK_KEY}, 'github:refs/heads/main', 'work key');
is($seen->{params}{INTERLOCK_IDEMPOTENCY_KEY}, 'd-1', 'idempotency key');
is($seen->{params}{INTERLOCK_VERIFIED}, 'github', 'verified');
is($seen->{params}{INTERLOCK_MISMATCH}, 'first', 'mismatch of a provider');

for (1 .. 5) {
    my $again = $t->github('/in/github', 'd-1', $body);
    is($again->{status}, 202, 'again: the first code');
    is($again->{body}, $first->{body}, 'again: the first body');
    is(Interlock::Nginx::header($again, 'idempotency-replayed'), 'true',
        'again: marked');
    is(Interlock::Nginx::header($again, 'interlock-decision'), 'duplicate',
        'again: decision');
    is(Interlock::Nginx::header($again, 'location'),
        Interlock::Nginx::header($first, 'location'), 'again: location');
    is(Interlock::Nginx::header($again, 'content-type'), 'application/json',
        'again: type');
}
is(scalar $t->seen, 1, 'one request at the backend');

$t->github('/in/github', 'd-2', $body);
is(scalar $t->seen, 2, 'another delivery goes through');

my $l = $t->status('/in/github');
is($l->{requests}, 7, 'counted: all');
is($l->{decisions}{forwarded}, 2, 'counted: forwarded');
is($l->{decisions}{duplicate}, 5, 'counted: duplicates');
is($l->{stored}, 2, 'counted: stored');
my $z = $t->status;
is($z->{done}, 2, 'zone: done');
is($z->{in_flight}, 0, 'zone: nothing in flight');

my $m = $t->http(GET => '/metrics');
like($m->{body}, qr/^interlock_edge_requests_total\{location="\/in\/github",decision="duplicate"\} 5$/m, 'prometheus: duplicates');
like($m->{body}, qr/^interlock_zone_done\{zone="z"\} 2$/m, 'prometheus: done');

my @log = split /\n/, $t->slurp('logs/access.log');
like($log[0], qr{^POST 202 accepted unix:\S+ [0-9a-f-]{36} github$}, 'log: first');
like($log[1], qr{^POST 202 duplicate - [0-9a-f-]{36} github$}, 'log: again');

$t->finish;
done_testing();
