# nginx -s reload keeps the zone, under load, with requests in flight; a
# change of its size is told.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;
use Time::HiRes qw(sleep time);

my $gate = 'interlock zone=z; interlock_kind k; interlock_source s;'
    . 'interlock_wait 10s; interlock_idempotency_key $http_x_id;';
my $t = Interlock::Nginx->new(workers => 2,
    http => 'interlock_zone zone=z:1m;',
    server => "interlock_tenant demo; location /in { $gate"
        . ' fastcgi_pass backend; } location = /status { interlock_status; }');
$t->start;

sub post {
    my ($id, $do) = @_;
    return $t->http(POST => '/in', { body => '{}',
        headers => [ 'X-Id' => $id, 'X-Backend' => $do // '' ] });
}

my %first = map { $_ => post("id$_")->{body} } 1 .. 50;
is(scalar $t->seen, 50, '50 requests');

# clients that repeat them all the time
my @clients;
for my $c (1 .. 3) {
    my $pid = fork // die;
    if (!$pid) {
        my $bad = 0;
        my $i = 0;
        until (getppid == 1 || -e $t->dir . '/gate/enough') {
            my $id = 1 + $i++ % 50;
            my $res = eval { post("id$id") };
            $bad++ unless $res && $res->{body} eq $first{$id};
        }
        $t->write_file("client$c", "$bad $i");
        POSIX::_exit(0);
    }
    push @clients, $pid;
}

# one in flight over all of it
my $slow = $t->connect;
$slow->request(POST => '/in', { body => '{}', close => 1,
    headers => [ 'X-Id' => 'slow', 'X-Backend' => 'hold=slow' ] });
$t->wait_seen(51);

for my $i (1 .. 10) {
    my %now = map { $_ => 1 } $t->workers;
    kill HUP => $t->{nginx};
    $t->wait_for(sub { grep { !$now{$_} } $t->workers }, 10, 'new workers');
}

# a repeat that comes to a new worker waits for the one in an old worker
my $waiting = $t->connect;
$waiting->request(POST => '/in', { body => '{}', close => 1,
    headers => [ 'X-Id' => 'slow' ] });
$t->wait_for(sub { $t->status('/in')->{waited} }, 10, 'one to wait');
is($t->status->{in_flight}, 1, 'in flight over reloads');
$t->let_go('slow');
my $res = $slow->response;
is($res->{status}, 202, 'the old worker ends what it began');
is($waiting->response->{body}, $res->{body}, 'the new one has its answer');

$t->let_go('enough');
waitpid $_, 0 for @clients;
for my $c (1 .. 3) {
    my ($bad, $all) = split ' ', $t->slurp("client$c");
    is($bad, 0, "client $c: each answer was the first one");
    cmp_ok($all, '>', 50, "client $c: of $all");
}
is(scalar $t->seen, 51, 'nothing went to the backend again');

my $l = $t->status('/in');
my $sum = 0;
$sum += $_ for values %{ $l->{decisions} };
is($sum, $l->{requests}, 'the counters were kept, and add up');

# done= and a new location: the zone stays
$t->reload(http => 'interlock_zone zone=z:1m done=2h in_flight=30s;',
    server => "interlock_tenant demo; location /in { $gate"
        . " fastcgi_pass backend; } location /new { $gate"
        . ' fastcgi_pass backend; } location = /status { interlock_status; }');
is(post('id1')->{body}, $first{1}, 'other times: kept');
$t->http(POST => '/new', { body => '{}', headers => [ 'X-Id' => 'n' ] });
is($t->status('/new')->{requests}, 1, 'a new location counts');

# another size: the zone is new, and it is told
$t->reload(http => 'interlock_zone zone=z:2m;');
like($t->error_log, qr/\[warn\].*the size of zone "z" in "interlock_zone" changed from 1048576: its entries are forgotten/, 'another size: told');
my $n = $t->seen;
isnt(post('id1')->{body}, $first{1}, 'another size: forgotten');
is($t->seen, $n + 1, 'and asked again');

# smaller again, to the smallest there is
$t->reload(http => 'interlock_zone zone=z:32k;');
my $s = $t->status;
is($s->{done}, 0, 'smaller: forgotten');
cmp_ok($s->{capacity}, '<', 500, 'and small');
my $id = $s->{id};
my $body = post('id1')->{body};
is(post('id1')->{body}, $body, 'and works');

# the same again: another id is another memory
$t->reload;
is($t->status->{id}, $id, 'the same size: the same memory');
is(post('id1')->{body}, $body, 'and its entries');

# another name: a zone of its own, while the old one ends with its workers
my $held = $t->connect;
$held->request(POST => '/in', { body => '{}', close => 1,
    headers => [ 'X-Id' => 'name', 'X-Backend' => 'hold=name' ] });
$t->wait_for(sub { $t->status->{in_flight} == 1 }, 10, 'one in flight');
my ($old) = $t->workers;
my $server = $t->{server};
$t->reload(http => 'interlock_zone zone=y:1m;',
    server => $server =~ s/zone=z/zone=y/gr, nowait => 1);
$t->wait_for(sub { !grep { $t->status->{zone} ne 'y' } 1 .. 10 }, 10,
    'the new name');
isnt($t->status->{id}, $id, 'another name: another memory');
$n = $t->seen;
isnt(post('id1')->{body}, $body, 'its entries are its own');
is($t->seen, $n + 1, 'the backend decides');
my $twin = post('name');
is($twin->{status}, 202, 'what is in flight elsewhere: the backend, too');
$t->let_go('name');
is($held->response->{status}, 202, 'the old worker ends what it began');
is(post('name')->{body}, $twin->{body}, 'the new zone keeps its own answer');
$t->wait_for(sub { !grep { $_ == $old } $t->workers }, 20,
    'the old worker to end');

# another key: keys are remembered as they were, and mean what they now mean
$n = $t->seen;
$t->reload(server => $t->{server} =~ s/\$http_x_id/\$arg_id/gr);
is($t->http(POST => '/in?id=fresh', { body => '{}' })->{status}, 202,
    'another key: a request');
is($t->seen, $n + 1, 'is asked');
my $first = $t->http(POST => '/in?id=id1', { body => '{}' });
isnt(Interlock::Nginx::header($first, 'idempotency-replayed'), 'true',
    'a known key with another address is no repeat');
is($t->seen, $n + 2, 'the backend says what it is');
$t->reload(server => $server, http => 'interlock_zone zone=z:2m;');
post('id1');

# a broken configuration changes nothing
my $good = $t->conf_text;
$t->write_file('nginx.conf', $good =~ s/zone=z:2m/zone=z:2x/r);
kill HUP => $t->{nginx};
$t->wait_for(sub { $t->error_log =~ /invalid zone size "zone=z:2x"/ }, 10,
    'the error');
$n = $t->seen;
post('id1');
is($t->seen, $n, 'a broken configuration: goes on as before');
$t->allow_log(qr/invalid zone size "zone=z:2x"/);

$t->finish;
done_testing();
