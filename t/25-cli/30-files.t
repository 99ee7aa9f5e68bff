# interlock keys: files, their modes, which one signs.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

use Interlock::Test;

my $top = $Interlock::Test::TOP;
my $interlock = ($ENV{INTERLOCK_BUILD} // "$top/build") . '/interlock';
$interlock = "$top/$interlock" unless $interlock =~ m{^/};
my $tmp = tempdir(CLEANUP => 1);
my $dir = "$tmp/keys";

sub keys_ {
    my ($code, $out, $err) = Interlock::Test::run([ $interlock, 'keys', @_ ]);
    return { code => $code, out => $out, err => $err,
        json => scalar eval { decode_json($out) } };
}

sub files { map { m{([^/]+)$} } glob "$dir/*" }

umask 0;                        # the modes are the program's own doing

my $r = keys_('init', $dir);
is($r->{code}, 0, 'init') or diag $r->{err};
is(sprintf('%04o', (stat $dir)[2] & 07777), '0700', 'the directory is private');
my @first = files();
is(scalar @first, 1, 'one file');
like($first[0], qr/\.seed$/, 'a seed');
is(sprintf('%04o', (stat "$dir/$first[0]")[2] & 07777), '0600',
    'for its owner only');
my $seed = Interlock::Test::slurp("$dir/$first[0]");
like($seed, qr/\A[0-9a-f]{64}\n\z/, '64 hex digits');
chomp $seed;
ok(index("$r->{out}$r->{err}", $seed) < 0, 'which are not shown');

$r = keys_('init', $dir, '--json');
is($r->{code}, 0, 'init again');
is_deeply([ files() ], \@first, 'makes nothing');
ok($r->{json}{signs}, 'and tells which signs');

$r = keys_('rotate', $dir);
is($r->{code}, 0, 'rotate') or diag $r->{err};
my @second = files();
is(scalar @second, 2, 'two files');
is($second[0], $first[0], 'the new one sorts last');

$r = keys_('list', $dir, '--json');
is($r->{code}, 0, 'list');
is_deeply([ map { $_->{signs} ? 1 : 0 } @{ $r->{json}{items} } ], [ 1, 0 ],
    'the newest signs, the other verifies');
like($_->{kid}, qr/^k4\.pid\.[\w-]{44}$/, 'a key id')
    for @{ $r->{json}{items} };
like($_->{public}, qr/^k4\.public\.[\w-]{43}$/, 'a public key')
    for @{ $r->{json}{items} };
ok(index($r->{out}, $seed) < 0, 'and no seed');

# a key of which only the public half is here

Interlock::Test::spew("$dir/other.pub", "$r->{json}{items}[0]{public}\n");
$r = keys_('list', $dir);
is(() = $r->{out} =~ /verifies$/mg, 2, 'a public key verifies');
unlink "$dir/other.pub";

# RFC 8032, section 7.1, test 1: the seed and its public key
{
    mkdir "$tmp/rfc";
    Interlock::Test::spew("$tmp/rfc/a.seed",
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n");
    my $l = keys_('list', "$tmp/rfc", '--json');
    is($l->{json}{items}[0]{public},
        'k4.public.11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
        'the public key of RFC 8032\'s first test');
}

# what cannot be used

is(keys_('list', "$tmp/nowhere")->{code}, 66, 'a directory that is not there');
is(keys_('rotate', "$tmp/nowhere")->{code}, 66, 'rotate in one');
is(keys_('init', "$tmp/nowhere/keys")->{code}, 73, 'one that cannot be made');
Interlock::Test::spew("$dir/~last.seed", 'f' x 64);
$r = keys_('rotate', $dir);
is($r->{code}, 78, 'a file that would still sort last');
like($r->{err}, qr/~last\.seed/, 'is named');
Interlock::Test::spew("$dir/~last.seed", 'f' x 63);
$r = keys_('list', $dir);
is($r->{code}, 78, 'a broken file');
unlike($r->{err}, qr/fff/, 'is not shown');
unlink "$dir/~last.seed";

keys_('rotate', $dir) for 3 .. 8;
is(scalar(files()), 8, 'eight keys');
is(keys_('rotate', $dir)->{code}, 78, 'a ninth is refused');

done_testing;
