# Signing keys that change while interlockd and its workers run: what was
# signed before stays valid, and nothing is refused in between.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use MIME::Base64 qw(decode_base64url encode_base64url);
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance;
my $dir = $i->dir . '/keys';
my $n = 0;

sub keys_ {
    my $r = $i->cli({}, 'keys', @_, '--json');
    is($r->{code}, 0, "keys $_[0]") or diag $r->{err};
    return $r->{json};
}

# A claimed job's lease.
sub lease {
    my $r = $i->cli({ token => 'submit' }, 'submit', '--kind', 'free',
        '--key', 'keys:' . ++$n);
    is($r->{code}, 0, 'submitted') or diag $r->{err};
    my $c = $i->http(POST => '/v1/leases', { token => 'worker', body =>
        { worker => 'keys', kinds => [ 'free' ], max => 1, wait => 5 } });
    return $c->{json}{leases}[0];
}

sub call {
    my ($call, $token) = @_;

    return $i->http(POST => "/v1/lease/$call", { body => {},
        headers => { Authorization => "Bearer $token" } })->{status};
}

sub kid { decode_base64url((split /\./, $_[0])[3]) =~ /"kid":"([^"]+)"/; $1 }
sub keys_read { scalar(() = $i->log('interlockd') =~ /keys read/g) }

sub hup {
    my $before = keys_read();
    kill 'HUP', $i->backend_pid;
    $i->wait_for(sub { keys_read() > $before }, 10, 'the keys to be read');
}

my $one = keys_('list', $dir)->{items}[0]{kid};
my $a = lease();
is(kid($a->{owner_token}), $one, 'signed by the only key');

# a new key

my $two = keys_('rotate', $dir)->{kid};
isnt($two, $one, 'a new key');
my $b = lease();
is(kid($b->{owner_token}), $one, 'which does not sign before it was read');

hup();
my $c = lease();
is(kid($c->{owner_token}), $two, 'and then it does');
is(call(renew => $_->{owner_token}), 200, 'every token is valid')
    for $a, $b, $c;
my @public = map { $_->{kid} }
    @{ $i->http(GET => '/v1/keys')->{json}{keys} };
is_deeply(\@public, [ $two, $one ], '/v1/keys has both, the one that signs'
    . ' first');

is(call(complete => $a->{owner_token}), 200, 'an old one ends its job');

$i->restart_backend;
is(call(renew => $_->{owner_token}), 200, 'valid after a restart, too')
    for $b, $c;

# as on another host, which has the new file and was not told: a key that is
# not known is looked for

my ($file) = map { $_->{file} } grep { $_->{kid} eq $two }
    @{ keys_('list', $dir)->{items} };
rename "$dir/$file", $i->dir . '/aside' or die $!;
hup();
is(call(renew => $c->{owner_token}), 401, 'a key that was taken away');
is(call(renew => $b->{owner_token}), 200, 'the other one is there');
rename $i->dir . '/aside', "$dir/$file" or die $!;
$i->wait_for(sub { call(renew => $c->{owner_token}) == 200 }, 5,
    'the key to be found');
pass('a key that came without a word is found');
is(kid(lease()->{owner_token}), $one, 'and does not sign');
hup();
is(kid(lease()->{owner_token}), $two, 'before somebody says so');

# names of keys that nobody has: looked for now and then, refused always

{
    my ($v, $p, $body) = split /\./, $c->{owner_token};
    my $before = keys_read();
    my %status;
    for my $k (1 .. 200) {
        my $footer = sprintf '{"kid":"k4.pid.%s"}',
            encode_base64url(pack('N', $k) . "\0" x 29);
        $status{ call(renew => join '.', $v, $p, $body,
            encode_base64url($footer)) }++;
    }
    is_deeply(\%status, { 401 => 200 }, '200 tokens of unknown keys: 401');
    is(keys_read(), $before, 'without a word in the log');
}

# what cannot be read leaves the keys as they are

Interlock::Test::spew("$dir/zzz.seed", "no key\n");
chmod 0600, "$dir/zzz.seed";
chown +(stat $dir)[ 4, 5 ], "$dir/zzz.seed";
kill 'HUP', $i->backend_pid;
$i->wait_for(sub { $i->log('interlockd') =~ /the keys stay as they are/ }, 10,
    'the refusal');
is(call(renew => $c->{owner_token}), 200, 'a broken file changes nothing');
unlink "$dir/zzz.seed";

# nothing of a seed is told anywhere

my @seeds = map { Interlock::Test::slurp($_) =~ /([0-9a-f]{64})/ }
    glob "$dir/*.seed";
is(scalar @seeds, 2, '(two seeds)');
my $said = join '', map { Interlock::Test::slurp($_) }
    glob($i->dir . '/log/*');
is(scalar(grep { index($said, $_) >= 0 } @seeds), 0, 'no seed in any log');
is(scalar(grep { index($said, $_->{owner_token}) >= 0 } $a, $b, $c), 0,
    'nor an owner token');

$i->check_sql;
done_testing;
