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

is($r->{json}{items}[0]{replaced_at}, undef, 'the one that signs: not replaced');
is($r->{json}{items}[1]{replaced_at}, $r->{json}{items}[0]{made_at},
    'the other: when the newest was made');
for my $item (@{ $r->{json}{items} }) {
    my ($d, $t) = $item->{file} =~ /^(\d{8})T(\d{6})\./;
    (my $made = $item->{made_at}) =~ s/\.\d+Z$/Z/;
    is($made =~ tr/0-9//cdr, "$d$t", 'made when its name says');
    cmp_ok($item->{age_seconds}, '<', 60, 'a moment ago');
}

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

keys_('rotate', $dir) for 3 .. 7;
is(scalar(files()), 7, 'seven keys');
Interlock::Test::spew("$dir/other.pub",
    "k4.public.11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\n");
is(keys_('rotate', $dir)->{code}, 78, 'with a public one: a ninth is refused');
unlink "$dir/other.pub";
is(keys_('rotate', $dir)->{code}, 0, 'without it: an eighth is not');
is(keys_('rotate', $dir)->{code}, 78, 'a ninth is refused');

# those whose tokens have ended: by the time since the next one was made

{
    my $old = "$tmp/old";
    mkdir $old, 0700;
    my $now = time;
    my $day = 86400;
    my $seed_at = sub {
        my ($when) = @_;
        my @t = gmtime $when;
        my $name = sprintf '%04d%02d%02dT%02d%02d%02d.000000Z.seed',
            $t[5] + 1900, $t[4] + 1, @t[ 3, 2, 1, 0 ];
        Interlock::Test::spew("$old/$name", sprintf("%064x\n", $when));
        chmod 0600, "$old/$name";
        return $name;
    };
    my $first = $seed_at->($now - 60 * $day);
    my $second = $seed_at->($now - 30 * $day);
    my $third = $seed_at->($now - 8 * $day - 3600);
    my $fourth = $seed_at->($now - 60);
    Interlock::Test::spew("$old/other.pub",
        "k4.public.11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\n");
    utime $now - 90 * $day, $now - 90 * $day, "$old/other.pub";
    my $left = sub { [ sort map { m{([^/]+)$} } glob "$old/*" ] };
    my $pruned = sub { [ map { $_->{file} } @{ $_[0]{json}{items} } ] };

    my $p = keys_('prune', $old, '--max-runtime', 21600, '--dry-run', '--json');
    is($p->{code}, 0, 'prune --dry-run') or diag $p->{err};
    is_deeply($pruned->($p), [ $first ],
        'replaced 30 days ago: its tokens have ended; 8 days ago: not yet');
    is(scalar @{ $left->() }, 5, 'nothing is removed');
    $p = keys_('prune', $old, '--max-runtime', 3000, '--json');
    is_deeply($pruned->($p), [ $first, $second ], 'a shorter max_runtime: two');
    is_deeply($left->(), [ sort $third, $fourth, 'other.pub' ],
        'the others are there');
    $p = keys_('prune', $old, '--max-runtime', 1, '--json');
    is_deeply($pruned->($p), [], 'replaced a minute ago: stays');
    unlink "$old/$third";
    utime $now - 90 * $day, $now - 90 * $day, "$old/$fourth";
    is(keys_('prune', $old, '--max-runtime', 1)->{code}, 0, 'only one left');
    is_deeply($left->(), [ sort $fourth, 'other.pub' ],
        'the key that signs always stays');
    is(keys_('prune', $old)->{code}, 64, '--max-runtime is needed');
}

# made by root for a service

SKIP: {
    skip 'not root', 2 if $> != 0;
    my $theirs = "$tmp/theirs";
    mkdir $theirs, 0700;
    my ($uid, $gid) = (getpwnam 'nobody')[ 2, 3 ];
    chown $uid, $gid, $theirs;
    is(keys_('rotate', $theirs)->{code}, 0, 'in a directory of somebody else');
    is_deeply([ map { (stat)[4] } glob "$theirs/*" ], [ $uid ],
        'the file is his');
}

done_testing;
