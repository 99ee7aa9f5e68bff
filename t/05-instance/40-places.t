#!/usr/bin/perl

# At any path (with a space in it, longer than a socket's name can be), as an
# ordinary user, below a directory that is root's alone, and two side by side.
# The checkout is copied, so that make itself is tried there, too.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Copy qw(copy);
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use Test::More;

use Interlock::Test;

my $top = $Interlock::Test::TOP;
my $home = tempdir('interlock-places-XXXXXX', TMPDIR => 1);
chmod 0755, $home;
my @started;

END {
    my $code = $?;
    $_->() for @started;
    remove_tree($home) if defined $home;
    $? = $code;
}

# copied(path, user): the checkout there, as built, owned by that user
sub copied {
    my ($to, $user) = @_;

    make_path("$to/build");
    system('cp', '-a', (grep { -e } map { "$top/$_" } qw(configure Makefile
        VERSION README.md config.mak common fcgi ngx_module sql)), $to)
        == 0 or die "cp: $?";
    # (what other tests copy from there comes and goes)
    system('cp', '-a', (grep { !m{/template$} } glob "$top/build/*"),
        "$to/build") == 0 or die "cp: $?";
    system('chown', '-R', "$user:", $to) == 0 or die "chown: $?" if $user;
    return $to;
}

# place(what, top, dir, user): start, one delivery, stop, there
sub place {
    my ($what, $at, $dir, $user) = @_;

    my $port = Interlock::Test::free_port();
    my @as = $user ? ('setpriv', '--reuid', $user, '--regid',
        (getgrgid((getpwnam $user)[3]))[0], '--clear-groups', 'env',
        'HOME=/nonexistent') : ();
    # the copy's own build, whatever this test itself is told to use
    my %env = (INTERLOCK_BUILD => "$at/build");
    my $make = sub {
        my ($code, $out, $err) = Interlock::Test::run([ @as, 'make',
            '--no-print-directory', '-C', $at, "PORT=$port",
            defined $dir ? "DIR=$dir" : (), @_ ], timeout => 300,
            env => \%env);
        return ($code, "$out$err");
    };
    push @started, my $stop = sub { $make->('stop') };

    my ($code, $out) = $make->('start');
    is($code, 0, "$what: make start") or diag($out);
    $dir //= "$at/run";
    my $i = bless { dir => $dir, port => $port, build => "$at/build" },
        'Interlock::Test';
    my $body = '{"ref":"refs/heads/main","repository":{"full_name":"a/b"}}';
    my $first = $i->github($body, { delivery => 'one' });
    is($first->{status}, 202, "$what: a signed delivery is accepted");
    is($i->github($body, { delivery => 'one' })
        ->{headers}{'idempotency-replayed'}, 'true', "$what: once");

    is($i->http(GET => '/ui/assets/app.css')->{status}, 200,
        "$what: the files of the pages are there");

    my $processes = $i->processes;
    my %uid = map { ((stat "/proc/$_")[4] // 'gone') => 1 } keys %$processes;
    my $expected = $user ? getpwnam($user) : $> ? $> : (stat $dir)[4];
    is_deeply([ grep { $_ ne 'gone' } keys %uid ], [ $expected ],
        "$what: all of it runs as one user");
    isnt($expected, 0, "$what: who is not root");

    my $jobs = $i->psql('select count(*) from interlock.jobs') if !@as;
    is($jobs, 1, "$what: one job") if !@as;
    return ($i, sub {
        my ($c, $o) = $stop->();
        is($c, 0, "$what: make stop") or diag($o);
        is_deeply($i->processes, {}, "$what: no process is left");
        my $sockdir = Interlock::Test::slurp("$dir/sockdir");
        ok(!defined $sockdir, "$what: nothing of it is left in /tmp");
    });
}

# Two side by side, from this checkout

my ($one, $stop_one) = place('the first', $top, "$home/a/one");
my ($two, $stop_two) = place('the second', $top, "$home/a/two");
$stop_one->();
is($two->http(GET => '/readyz')->{status}, 200,
    'the second goes on when the first is stopped');
$stop_two->();

# A path with spaces, longer than a socket's name can be; the module is built
# anew, because it is where such paths go wrong.

my $long = "$home/a place with spaces/" . 'and-a-long-name-' x 6;
copied($long);
remove_tree("$long/build/nginx");
unlink "$long/build/ngx_http_interlock_module.so";
my ($odd, $stop_odd) = place('an odd place', $long, undef);
ok(length($odd->dir) > 107, 'whose path is ' . length($odd->dir) . ' long');
my ($code, $out) = Interlock::Test::run([ 'sh', '-c',
    'ls -ld "$(cat "$1/sockdir")"', 'sh', $odd->dir ]);
like($out, qr/^drwx------/, 'its sockets are in a directory of its own');
$stop_odd->();

SKIP: {
    skip('only root can become another user', 1) if $> != 0;

    # An ordinary user, with a checkout of his own

    my $user = 'nobody';
    mkdir "$home/user";
    my $theirs = copied("$home/user/checkout", $user);
    chown((getpwnam $user)[ 2, 3 ], "$home/user");
    my ($ord, $stop_ord) = place('an ordinary user', $theirs, undef, $user);
    $stop_ord->();

    # Root, below a directory that nobody else may enter

    mkdir "$home/closed", 0700 or die $!;
    my $closed = copied("$home/closed/checkout");
    system('chmod', '-R', 'go-rwx', $closed);
    my ($in, $stop_in) = place('a closed place', $closed, undef);
    my ($pid) = $in->pid('interlockd');
    my ($caps) = Interlock::Test::slurp("/proc/$pid/status")
        =~ /^CapEff:\s*([0-9a-f]+)/m;
    is(hex $caps, 1 << 2, 'the right to look is the only one kept');
    $stop_in->();
}

done_testing();
