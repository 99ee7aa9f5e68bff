#!/usr/bin/perl

# A start that cannot succeed says why, exits with another code than 0, and
# leaves no process; Ctrl-C ends one in the foreground.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::INET;
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

my $i = Interlock::Test->instance(start => 0, fresh => 1);
my $dir = $i->dir;
my $top = $Interlock::Test::TOP;

sub fails {
    my ($what, $re, %env) = @_;

    local @{ $i->{env} }{ keys %env } = values %env;
    my $t0 = time;
    my ($code, $out) = $i->script('start');
    isnt($code, 0, "$what: start does not answer 0");
    like($out, $re, "$what: says why");
    cmp_ok(time - $t0, '<', 30, "$what: soon");
    is_deeply($i->processes, {}, "$what: no process is left");
}

# The port

my $taken = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
    LocalPort => $i->port, Listen => 1, ReuseAddr => 1) or die "listen: $!";
fails('the port is taken', qr/port ${\$i->port} is taken/);
close $taken;

# Configuration

$i->local_conf('interlockd', 'no_such_name = 1');
fails('an unknown name in interlockd.conf', qr/interlockd\.conf.*no_such_name|no_such_name.*interlockd\.conf/s);
$i->local_conf('interlockd', '');

$i->local_conf('nginx-http', 'no_such_directive on;');
fails('an unknown directive', qr/no_such_directive/);
$i->local_conf('nginx-http', '');
$i->expect_log(qr/no_such_directive/);

$i->local_conf('postgresql', "no_such_setting = 1");
fails("PostgreSQL's configuration", qr/no_such_setting/);
$i->local_conf('postgresql', 'fsync = off');
fails('fsync is off', qr/ready/);
unlink "$dir/local/postgresql.conf";

# Programs

fails('no interlockd', qr/make builds/, INTERLOCKD => '/nonexistent/interlockd');
fails('an interlockd that ends', qr/interlockd ended at once/,
    INTERLOCKD => '/bin/false');
{
    local $i->{dir} = "$dir/it's";
    fails('a bad path', qr/quote, backslash/);
}

# After all of this it starts

$i->start;
is($i->http(GET => '/readyz')->{status}, 200, 'then it starts');

my $other = $i->port;
{
    local $i->{port} = Interlock::Test::free_port();
    my ($code, $out) = $i->script('start');
    isnt($code, 0, 'the same DIR with another PORT: refused');
    like($out, qr/runs already, with PORT=$other/, 'and says why');
}
$i->stop;

# In the foreground, as make run does it, ended by Ctrl-C

for my $signal (qw(INT TERM HUP)) {
    my $log = "$dir.out";
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        setpgrp 0, 0;
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', $log;
        open STDERR, '>&', \*STDOUT;
        # a script's `make run &` begins with SIGINT ignored
        $SIG{$_} = $_ eq 'INT' ? 'IGNORE' : 'DEFAULT' for qw(INT TERM HUP);
        exec 'make', '-C', $top, 'run', "DIR=$dir", 'PORT=' . $i->port,
            'B=' . $i->build or POSIX::_exit(127);
    }
    $i->wait_for(sub { -e "$dir/pids/ready"
        && Interlock::Test::slurp($log) =~ /Ctrl-C/ }, 60, 'make run');
    is($i->http(GET => '/readyz')->{status}, 200, "make run runs it");
    my $text = Interlock::Test::slurp($log);
    my $url = $i->url;
    like($text, qr{\Q$url\E/in/github}, 'and prints where') if $signal eq 'INT';
    like($text, qr{interlock work --kind github-push --once}, 'what to try')
        if $signal eq 'INT';
    unlike($text, qr/127\.0\.0\.1:8080/, "with this one's port")
        if $signal eq 'INT';

    kill $signal, -$pid;               # as the terminal does it: to the group
    my $t0 = time;
    waitpid($pid, 0);
    cmp_ok(time - $t0, '<', 30, "$signal ends it");
    $i->wait_for(sub { !%{ $i->processes } }, 30, 'the processes to go');
    is_deeply($i->processes, {}, "$signal: no process is left");
    unlink $log;
}

# The terminal is closed, and only make, its session's leader, is told

my $pty = fork() // die "fork: $!";
if (!$pty) {
    open STDOUT, '>', "$dir.out";
    open STDERR, '>&', \*STDOUT;
    exec 'script', '-qfc', "exec make -C '$top' run DIR='$dir' PORT="
        . $i->port . " B='" . $i->build . "'", '/dev/null'
        or POSIX::_exit(127);
}
$i->wait_for(sub { -e "$dir/pids/ready" }, 60, 'make run in a terminal');
kill 'KILL', $pty;                     # and with it the terminal's other end
waitpid($pty, 0);
my $gone = eval { $i->wait_for(sub { !%{ $i->processes } }, 30,
    'the processes to go') };
ok($gone, 'a closed terminal ends it');
is_deeply($i->processes, {}, 'closed terminal: no process is left');
unlink "$dir.out";

done_testing();
