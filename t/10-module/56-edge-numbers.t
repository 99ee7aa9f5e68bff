# How far zones have counted what was answered alone is told of those that are
# there, of those that a reload took away, and of those of an nginx that ended,
# which leaves a file.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use JSON::PP ();
use Test::More;

my $gate = 'interlock_kind k; interlock_source s;'
    . 'interlock_idempotency_key $http_x_id; fastcgi_pass backend;';
my $t = Interlock::Nginx->new(workers => 2,
    http => 'interlock_zone zone=a:1m; interlock_zone zone=b:1m;',
    server => "interlock_tenant demo; location /a { interlock zone=a; $gate }"
        . " location /b { interlock zone=b; $gate }"
        . ' location = /status { interlock_status; }');

my $file = 'logs/nginx.pid.interlock';
my $n = 0;

sub post {
    my ($path, $id) = @_;
    return $t->http(POST => $path, { body => '{}',
        headers => [ 'X-Id' => $id // 'new' . $n++ ] });
}

sub alone {
    my ($path, $times) = @_;
    my $id = 'again' . $n++;
    post($path, $id);
    for (1 .. $times) {
        is(Interlock::Nginx::header(post($path, $id), 'idempotency-replayed'),
            'true', "$path: answered alone");
    }
}

# what the next request tells: id => number
sub told {
    $t->forget_seen;
    post('/a');
    $t->wait_seen(1);
    my $value = ($t->seen)[0]{params}{INTERLOCK_EDGE};
    like($value, qr/^(?:[0-9a-f]{32}:[1-9]\d*(?:,|\z))*\z/, 'its form');
    return { map { split /:/ } split /,/, $value };
}

sub ids { map { $_->{id} } @{ JSON::PP::decode_json(
    $t->http(GET => '/status')->{body})->{zones} } }

sub left {
    my %left = map { /^([0-9a-f]{32}) (\d+) (\d+)$/ ? ($1 => [ $2, $3 ])
        : ($_ => undef) } split /\n/, $t->slurp($file);
    return \%left;
}

# what another one has left, some of it of no use
my $now = time;
my %old = (recent => '0a' x 16, last => '0b' x 16);
$t->write_file($file, join "\n",
    "$old{recent} 7 " . ($now - 86400),
    "$old{recent} 9 " . ($now - 86400),            # there already
    ('0c' x 16) . ' 7 ' . ($now - 6 * 86400 - 60), # too old
    ('0d' x 16) . ' 7 ' . ($now + 3600),           # of the future
    ('0e' x 16) . ' 0 ' . $now, ('0f' x 16) . " -1 $now",
    ('10' x 16) . " x $now", ('11' x 16) . ' 7', ('12' x 15) . "1 7 $now",
    ('1g' x 16) . " 7 $now", ('13' x 17) . " 7 $now", '', ' ', "\0",
    ('14' x 16) . ' ' . '9' x 30 . " $now",
    ('15' x 16) . ' 7 ' . '9' x 30,
    "$old{last} 3 $now",
    ('16' x 16) . " 7 $now");                      # no end
$t->start;
is_deeply(told(), { $old{recent} => 7, $old{last} => 3 },
    'what was left is told, and nothing else');

my ($a, $b) = ids();
alone('/a', 3);
alone('/b', 2);
my $want = { $old{recent} => 7, $old{last} => 3, $a => 3, $b => 2 };
is_deeply(told(), $want, 'and of the zones that are there');

# a worker that dies takes no number with it
kill KILL => $t->workers;
$t->allow_log(qr/exited on signal 9/);
$t->wait_for(sub { $t->workers == 2 }, 10, 'other workers');
alone('/a', 1);
$want->{$a}++;
is_deeply(told(), $want, 'workers were killed');

# another size, another name, nothing at all, and back
$t->reload(http => 'interlock_zone zone=a:2m; interlock_zone zone=b:1m;');
my ($a2, $b2) = ids();
isnt($a2, $a, 'another size: another zone');
is($b2, $b, 'the other one is the same');
is_deeply(told(), $want, 'the zone before is told of still');
alone('/a', 1);
alone('/b', 1);
$want->{$a2} = 1;
$want->{$b}++;
is_deeply(told(), $want, 'each counts in its own');

(my $server = $t->{server}) =~ s/zone=b/zone=c/;
$t->reload(http => 'interlock_zone zone=a:2m; interlock_zone zone=c:1m;',
    server => $server);
is_deeply(told(), $want, 'another name');
my @were = ($t->{http}, $server);
$t->reload(http => '', server => $server =~ s/interlock zone=\w;//gr);
is_deeply(told(), $want, 'no zone');
$t->reload(http => $were[0], server => $were[1]);
alone('/a', 1);
is((grep { !exists $want->{$_} } keys %{ told() }), 1, 'a new one');
my ($a3) = ids();
$want->{$a3} = 1;
is_deeply(told(), $want, 'beside all before');

# it ends: one of another binary may have ended before
$t->write_file($file, ('17' x 16) . " 5 $now\n");
$t->stop;
my $left = left();
$want->{ '17' x 16 } = 5;
is_deeply({ map { $_ => $left->{$_}[0] } keys %$left }, $want,
    'the file has all of them');
is($left->{ $old{recent} }[1], $now - 86400, 'with their times');
cmp_ok($left->{$a3}[1], '>=', $now, 'which is now for the last ones');
is(sprintf('%o', (stat $t->dir . "/$file")[2] & 07777), '600', 'of mode 0600');

$t->start;
is_deeply(told(), $want, 'the next one tells them');
my ($a4) = ids();
ok(!exists $want->{$a4}, 'with a zone of its own');
$t->stop;
is_deeply(left(), $left, 'and leaves them as they were');

# not through a link that somebody has put there
$t->write_file('target', 'untouched');
symlink $t->dir . '/target', $t->dir . "/$file.tmp" or die;
$t->start;
$t->stop;
is($t->slurp('target'), 'untouched', 'no link is followed');
like($t->error_log, qr/the last numbers of zones can not be written to/,
    'the log says so');
$t->allow_log(qr/the last numbers of zones can not be written to/);

# a file that is none
unlink $t->dir . "/$file", $t->dir . "/$file.tmp";
mkdir $t->dir . "/$file" or die;
$t->start;
is_deeply(told(), {}, 'a folder: nothing is told');
rmdir $t->dir . "/$file" or die;
alone('/a', 1);
my ($a5) = ids();

$t->stop;
is(left()->{$a5}[0], 1, 'and the next file is one');

$t->finish;
done_testing();
