# interlock_dry_run: decides, logs and counts, but lets every request pass.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m;'
        . "log_format d '\$status \$interlock_decision \$interlock_reject_reason';",
    server => <<'END');
        access_log logs/access.log d;
        interlock_tenant demo;
        location /in {
            interlock zone=z; interlock_kind k; interlock_source s;
            interlock_dry_run on;
            interlock_idempotency_key $http_x_id;
            interlock_work_key w $http_x_work;
            fastcgi_pass backend;
        }
        location = /status { interlock_status; }
END
$t->start;

sub post {
    my ($id, $do) = @_;
    return $t->http(POST => '/in', { body => '{}', headers => [
        'X-Id' => $id, 'X-Backend' => $do // '', 'X-Work' => 'w' ] });
}

my $first = post('a');
my $again = post('a');
is($again->{status}, 202, 'a duplicate passes');
isnt($again->{body}, $first->{body}, 'to the backend');
is(($t->seen)[-1]{params}{INTERLOCK_WORK_KEY}, 'w:w', 'with its keys');

my $c = $t->connect;
$c->request(POST => '/in', { body => '{}', close => 1, headers => [
    'X-Id' => 'b', 'X-Work' => 'w', 'X-Backend' => 'hold=b' ] });
$t->wait_seen(3);
is(post('b')->{status}, 202, 'one in flight does not hold it');
$t->let_go('b');
is($c->response->{status}, 202, 'nor is it disturbed');

is($t->http(POST => '/in', { body => '{}' })->{status}, 202,
    'without a key it passes, too');

my $l = $t->status('/in');
is($l->{decisions}{forwarded}, 2, 'two were claimed');
is($l->{decisions}{dry_run}, 3, 'three would have been answered');
is($t->status->{in_flight}, 0, 'nothing is in flight');

my @log = grep { !/^200/ } split /\n/, $t->slurp('logs/access.log');
is($log[0], '202 accepted -', 'log: as the backend decided');
is($log[1], '202 duplicate -', 'log: as the edge would have');
is($log[-1], '202 rejected idempotency-key-missing', 'log: and why');
like($t->error_log, qr/dry run, the request is a duplicate: 202 would have/,
    'log: a duplicate');
like($t->error_log, qr/dry run, the request is in progress: 409 would have/,
    'log: in progress');
like($t->error_log, qr/dry run, idempotency-key-missing: 400 would have been/,
    'log: a refusal');

$t->finish;
done_testing();
