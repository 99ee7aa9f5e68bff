# A new nginx binary takes over (USR2, WINCH, QUIT).  Its zone is its own and
# begins empty: requests of both are answered, none is lost, and what the old
# one remembers is for the backend to decide again.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'under a wrapper there is no binary to change'
    if $ENV{INTERLOCK_NGINX_WRAPPER};

# (nginx runs itself again by the name that it was called by)
chomp(my $binary = `command -v '@{[ $ENV{INTERLOCK_NGINX} // 'nginx' ]}'`);

# (a new binary gets no environment but what is named; sanitizers need it)
my $t = Interlock::Nginx->new(workers => 2, binary => $binary,
    main => 'env LD_PRELOAD; env ASAN_OPTIONS; env UBSAN_OPTIONS;',
    http => 'interlock_zone zone=z:1m in_flight=60s;', server => <<'END');
        interlock_tenant demo;
        location /in {
            interlock zone=z; interlock_kind k; interlock_source s;
            interlock_wait 10s;
            interlock_idempotency_key $http_x_id;
            fastcgi_pass backend;
        }
        location = /status { interlock_status; }
END

# nginx heeds USR2 only where it made itself a daemon.
$t->start_backend;
$t->write_file('nginx.conf', $t->conf_text =~ s/^daemon off;/daemon on;/mr);
my %env = $t->sanitizer_env;
{
    local @ENV{keys %env} = values %env;
    is(system($t->nginx_command), 0, 'nginx starts');
}

sub master {
    my ($name) = @_;
    my ($pid) = $t->slurp("logs/$name") =~ /^(\d+)/;
    return $pid;
}

sub post {
    my ($id, $do) = @_;
    return $t->http(POST => '/in', { body => '{}', headers => [ 'X-Id' => $id,
        'X-Backend' => $do // '' ] });
}

my $old = $t->wait_for(sub { master('nginx.pid') }, 20, 'its pid');
my @clients;
END { local $?; kill KILL => $_ for grep { $_ } $old, $t && $t->{nginx},
    @clients }
$t->{nginx} = $old;
$t->wait_for(sub { $t->workers == 2 }, 20, 'workers');

my %first = map { $_ => post("id$_")->{body} } 1 .. 20;
is(post("id$_")->{body}, $first{$_}, "id$_: remembered") for 1, 20;
my $id = $t->status->{id};

my $slow = $t->connect;
$slow->request(POST => '/in', { body => '{}', close => 1,
    headers => [ 'X-Id' => 'slow', 'X-Backend' => 'hold=slow' ] });
$t->wait_for(sub { $t->status->{in_flight} == 1 }, 10, 'one in flight');
my $seen = $t->seen;

# clients that go on all the time, each with keys of its own
for my $c (1 .. 2) {
    my $pid = fork // die;
    if (!$pid) {
        my ($n, $bad) = (0, 0);
        until (-e $t->dir . '/gate/enough' || $n > 20000) {
            my $a = eval { post("c$c-" . $n++) } // { status => 0 };
            $bad++ if $a->{status} != 202;
        }
        $t->write_file("client$c", "$n $bad");
        POSIX::_exit(0);
    }
    push @clients, $pid;
}

kill USR2 => $old;
my $new = $t->wait_for(sub { my $p = master('nginx.pid');
    master('nginx.pid.oldbin') && $p && $p != $old && $p }, 20, 'the new one');
$t->{nginx} = $new;
$t->wait_for(sub { $t->workers == 2 }, 20, 'its workers');

# Both answer now: a key that one of them knows, the other one asks for.
my %said;
for (1 .. 40) {
    my $answer = post('id1');
    $said{ $answer->{status} }++;
}
is_deeply(\%said, { 202 => 40 }, 'both answer');

kill WINCH => $old;
$t->wait_for(sub { my %ids = map { $t->status->{id} => 1 } 1 .. 10;
    !$ids{$id} }, 20, 'the old workers to take no more');
isnt($t->status->{id}, $id, 'the new zone is another one');

my $twin = post('slow');
is($twin->{status}, 202, 'what the old one has in flight: the backend decides');
is(scalar(grep { $_->{params}{HTTP_X_ID} eq 'slow' } $t->seen), 2,
    'it was asked');
my $again = post('id7');
is(post('id7')->{body}, $again->{body}, 'the new zone remembers its own');

$t->let_go('slow');
is($slow->response->{status}, 202, 'the old one ends what it began');
is(post('slow')->{body}, $twin->{body}, 'and changes nothing in the new zone');

kill QUIT => $old;
$t->wait_for(sub { !kill 0 => $old }, 20, 'the old one to end');
undef $old;

$t->let_go('enough');
waitpid $_, 0 for splice @clients;
for my $c (1, 2) {
    my ($n, $bad) = split ' ', $t->slurp("client$c");
    cmp_ok($n, '>', 20, "client $c: $n requests");
    is($bad, 0, "client $c: each was answered");
}
my %asked;
$asked{ $_->{params}{HTTP_X_ID} }++ for $t->seen;
is(scalar(grep { /^c/ && $asked{$_} != 1 } keys %asked), 0,
    'and reached the backend once');

my $s = $t->status;
is($s->{in_flight}, 0, 'nothing is left in flight');
my $l = $t->status('/in');
my $sum = 0;
$sum += $_ for values %{ $l->{decisions} };
is($sum, $l->{requests}, 'the new counters add up');

kill QUIT => $new;
$t->wait_for(sub { !kill 0 => $new }, 20, 'nginx to end');
delete $t->{nginx};
$t->finish;
done_testing();
