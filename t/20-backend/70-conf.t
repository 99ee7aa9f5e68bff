#!/usr/bin/perl

# Configuration: file < environment < option; what is wrong is said with file
# and line; secrets are never shown.  Needs no database.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use Test::More;

use Interlock::Test;

my $build = $ENV{INTERLOCK_BUILD} // "$Interlock::Test::TOP/build";
my $program = $ENV{INTERLOCKD} // "$build/interlockd";
my $dir = tempdir('interlock-conf-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $conf = "$dir/interlockd.conf";

delete $ENV{$_} for grep { /^INTERLOCK_(?!BUILD)/ } keys %ENV;
mkdir "$dir/keys";

sub spew { Interlock::Test::spew(@_) }

# interlockd({ env }, args…): { code, out, err }
sub interlockd {
    my $env = ref $_[0] ? shift : {};
    my ($code, $out, $err) = Interlock::Test::run([ $program, @_ ],
        env => $env, timeout => 10);
    return { code => $code, out => $out, err => $err };
}

sub key {
    my ($name, $text, $mode) = @_;
    spew("$dir/keys/$name", $text);
    chmod $mode // 0600, "$dir/keys/$name";
}

my $good = "listen = $dir/s\ndsn = host=/x user=u password=hunter2\n"
    . "keys_dir = $dir/keys\n";
key('1.seed', 'ab' x 32 . "\n");
spew($conf, $good);

is(interlockd('--version')->{out} =~ /^interlockd \d+\.\d+\.\d+\n$/ ? 1 : 0,
    1, '--version');
my $res = interlockd('-c', $conf, '-t');
is($res->{code}, 0, '-t: a good configuration') or diag($res->{err});
like($res->{out}, qr/good/, 'says so');

$res = interlockd('-c', $conf, '--show-config');
is($res->{code}, 0, '--show-config');
unlike($res->{out} . $res->{err}, qr/hunter2/, 'shows no password');
like($res->{out}, qr/^dsn = .*user=u.*$/m, 'but where it leads');
like($res->{out}, qr/^threads = 4$/m, 'a default');
like($res->{out}, qr/^max_body = 33554432$/m, 'a size');
like($res->{out}, qr/^db_deadline = 10000ms$/m, 'a time');

like($res->{out}, qr/^notify_dsn = $/m, 'notify_dsn: as dsn, unless said');
$res = interlockd('-c', $conf, '--show-config',
    '--notify-dsn=host=/y port=6 user=v password=hunter2');
like($res->{out}, qr/^notify_dsn = .*port=6.*$/m, 'where it leads');
unlike($res->{out}, qr/hunter2/, 'without its password');

spew($conf, $good . "# a comment\n\n  threads=7\nmax_body = 64k\n");
my $show = sub {
    my ($name, @args) = @_;
    my $env = ref $args[0] ? shift @args : {};
    return (interlockd($env, '-c', $conf, '--show-config', @args)->{out}
        =~ /^\Q$name\E = (.*)$/m)[0];
};
is($show->('threads'), 7, 'the file over the default');
is($show->('max_body'), 65536, 'with a unit');
is($show->('threads', { INTERLOCK_THREADS => 8 }), 8,
    'the environment over the file');
is($show->('threads', { INTERLOCK_THREADS => 8 }, '--threads=9'), 9,
    'the option over the environment');
is($show->('max_body', '--max-body=1m'), 1048576, 'with dashes');

for my $row (
    [ "nosuch = 1\n", qr/:4: unknown setting "nosuch"/ ],
    [ "threads\n", qr/:4: expected/ ],
    [ "\nthreads = many\n", qr/:5: threads: invalid value "many"/ ],
    [ "threads = 0\n", qr/:4: threads: "0" is out of bounds \(1 to 256\)/ ],
    [ "max_body = 1g\n", qr/:4: max_body: invalid value "1g"/ ],
    [ "db_deadline = 10ms\n", qr/:4: db_deadline: .*out of bounds/ ],
    [ "log_level = loud\n", qr/:4: log_level: "loud" is not one of/ ],
    [ "core_dumps = yes\n", qr/:4: core_dumps: invalid value "yes"/ ],
    [ "threads = 2\nthreads = 3\n", qr/:5: "threads" is set twice/ ],
    [ 'log = ' . 'x' x 9000 . "\n", qr/:4: the line is too long/ ])
{
    my ($text, $want) = @$row;
    spew($conf, $good . $text);
    my $r = interlockd('-c', $conf, '-t');
    is($r->{code}, 78, "exit code 78");
    like($r->{err}, $want, "says $want");
    unlike($r->{err}, qr/hunter2/, 'and no secret');
}

spew($conf, $good);
$res = interlockd({ INTERLOCK_THREADS => 'x' }, '-c', $conf, '-t');
is($res->{code}, 78, 'a bad environment');
like($res->{err}, qr/INTERLOCK_THREADS: threads: invalid/, 'is named');
for my $args ([ '--threads=x' ], [ '--threads' ]) {
    $res = interlockd('-c', $conf, '-t', @$args);
    is($res->{code}, 78, "a bad option @$args");
    like($res->{err}, qr/--threads/, 'is named');
}
for my $args ([ '--nosuch=1' ], [ '-x' ], [ 'file' ], [ '-c' ]) {
    is(interlockd('-t', @$args)->{code}, 64, "usage: @$args");
}
$res = interlockd('-c', "$dir/none", '-t');
is($res->{code}, 78, 'a file that is not');
like($res->{err}, qr/cannot open "\Q$dir\E\/none"/, 'is named');

for my $name (qw(listen dsn keys_dir)) {
    (my $text = $good) =~ s/^$name = .*\n//m;
    spew($conf, $text);
    $res = interlockd('-c', $conf, '-t');
    is($res->{code}, 78, "without $name");
    like($res->{err}, qr/"$name" is not set/, 'which is named');
}

# Keys

spew($conf, $good);
sub keys_say {
    my ($what, $want) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $r = interlockd('-c', $conf, '-t');
    is($r->{code}, $want ? 78 : 0, $what);
    like($r->{err}, $want // qr/^$/, "$what: says so");
    unlike($r->{err}, qr/abab/, "$what: nothing of the key");
}
key('2.seed', 'ab' x 32, 0640);
keys_say('a key that others may read', qr/2\.seed" may be read by others/);
key('2.seed', 'ab' x 31);
keys_say('a key that is too short', qr/2\.seed" is not 64 hex digits/);
key('2.seed', '');
keys_say('an empty key', qr/2\.seed" is not 64 hex digits/);
key('2.seed', 'ab' x 200);
keys_say('a key that is too long', qr/2\.seed" is not 64 hex digits/);
key('2.seed', 'cd' x 32);
key('3.pub', 'k4.public.Hrnbu7wEfAP9cGBOAHHwmH4Wsot1ciXBHwBBXQ4gsaI', 0644);
key('readme', 'anything', 0644);
keys_say('two that sign and one that verifies');
key('3.pub', 'k4.public.Hrnbu7wEfAP9cGBOAHHwmH4Wsot1ciXBHwBBXQ4gsa', 0644);
keys_say('a public key that is too short', qr/3\.pub" is not a k4\.public/);
unlink "$dir/keys/3.pub";
key("9$_.seed", 'ef' x 32) for 1 .. 7;
keys_say('nine keys', qr/more than 8 keys/);
unlink glob "$dir/keys/*";
keys_say('no key', qr/has no \*\.seed/);
rmdir "$dir/keys";
keys_say('no directory', qr/keys: "\Q$dir\E\/keys": No such file/);

# Where it cannot listen

mkdir "$dir/keys";
key('1.seed', 'ab' x 32);
spew("$dir/s", 'a file');
$res = interlockd('-c', $conf);
is($res->{code}, 71, 'a path that is no socket');
like($res->{err}, qr/"\Q$dir\E\/s" is not a socket/, 'is left alone');
is(Interlock::Test::slurp("$dir/s"), 'a file', 'really');
$res = interlockd('-c', $conf, '--listen=/' . 'x' x 120);
is($res->{code}, 71, 'a path that is too long');
$res = interlockd('-c', $conf, "--log=$dir/none/log");
is($res->{code}, 73, 'a log that cannot be opened');

# Whom look-ups may call.
for ([ check_hosts => 'api.example, *.example' => '*.example' ],
    [ check_private => '10.0.0.0/8' => '10.0.0.0/8' ],
    [ cert_hosts => '*.paypal.com' => '*.paypal.com' ],
    [ cert_private => '10.0.0.0/8' => '10.0.0.0/8' ],
    [ check_hosts => 'https://api.example' => 'https://api.example' ])
{
    my ($name, $value, $bad) = @$_;
    spew($conf, "${good}$name = $value\n");
    my $r = interlockd('-c', $conf, '-t');
    is($r->{code}, 78, "$name: not $bad");
    like($r->{err}, qr/$name: "\Q$bad\E" is no host/, '... and says so');
}
spew($conf, "${good}check_ca = $dir/nothing\n");
like(interlockd('-c', $conf, '-t')->{err}, qr/check_ca .*No such file/,
    'check_ca: a file that is not there');
spew($conf, "${good}cert_ca = $dir/nothing\n");
like(interlockd('-c', $conf, '-t')->{err}, qr/cert_ca .*No such file/,
    'cert_ca: a file that is not there');
spew($conf, "${good}cert_threads = 0\n");
is(interlockd('-c', $conf, '-t')->{code}, 78, 'cert_threads: at least one');
spew($conf, "${good}check_hosts = api.example pay.example:8443\n"
    . "check_private = [::1]:80\ncheck_threads = 0\n");
is(interlockd('-c', $conf, '-t')->{code}, 0, 'good hosts');

done_testing();
