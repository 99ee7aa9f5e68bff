#!/usr/bin/perl

# 200 clients that all want one work key, beside cold requests, each for a key
# of its own, that come at a steady rate: the p99 of these is within 1.5 times
# of what it is when the 200 want 200 keys.  That is what one hot key costs; how
# it compares with no clients at all says how busy 200 clients keep this
# machine's cores, which is printed, and held to 1.5 with INTERLOCK_FULL=1.
#
# The three take turns, some hundred requests each, so that what else the
# machine does meets all of them.  Here each has 3,000 cold requests, for the
# time that it takes; with INTERLOCK_FULL=1 each has 10,000.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Select;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::FastCGI;
use Interlock::Load qw(percentile);
use Interlock::Test;

my $cold = 500;                # requests a turn
my $turns = $ENV{INTERLOCK_FULL} ? 20 : 6;
my $rate = 500;               # of cold ones, a second
my $hot = 200;                 # clients
my $pause = 2;                 # of each, about, between answer and next

my $i = Interlock::Test->instance;
my $submit = $i->token('submit');
for my $kind (qw(hot cold)) {
    is($i->http(PUT => "/v1/kinds/$kind", { token => 'operator', body => {
        overlap => $kind eq 'hot' ? 'buffer_one' : 'allow',
        max_queued => 10_000_000 } })->{status},
        200, "(kind $kind)");
}

# A client costs as little as it can: bytes made before, and of an answer just
# the code is read.

sub bytes {
    my ($kind, $key, $payload) = @_;
    return Interlock::FastCGI::encode(POST => '/v1/jobs', { token => $submit,
        body => qq({"kind":"$kind","work_key":"$key","payload":$payload}) });
}

# The code of an answer once all of it is there, else undef.
sub code {
    my ($sock, $in) = @_;
    sysread $sock, $$in, 65536, length $$in or die "closed\n";
    my ($at, $out) = (0, '');
    while (length($$in) >= $at + 8) {
        my (undef, $type, undef, $len, $pad) = unpack 'CCnnC',
            substr $$in, $at, 8;
        last if length($$in) < $at + 8 + $len + $pad;
        $out .= substr $$in, $at + 8, $len if $type == 6;
        $at += 8 + $len + $pad;
        next if $type != 3;
        substr($$in, 0, $at) = '';
        return $out =~ /^Status: (\d+)/ ? $1 : 0;
    }
    return undef;
}

# Sends its share of the cold requests, each at its time; how long each took.
sub cold_client {
    my ($n, $of, $round, $start, $file) = @_;

    my $sock = Interlock::FastCGI->of_instance($i)->sock;
    my (@ms, @bytes, $code);
    my $in = '';
    for (my $k = $n; $k < $cold; $k += $of) {
        push @bytes, bytes('cold', "cold:$round:$k", $k);
    }
    for my $k (0 .. $#bytes) {
        my $left = $start + ($k * $of + $n) / $rate - time;
        sleep $left if $left > 0;
        my $t = time;
        syswrite $sock, $bytes[$k];
        1 until defined($code = code($sock, \$in));
        push @ms, (time - $t) * 1000;
        die "cold: $code\n" if $code != 202;
    }
    Interlock::Test::spew($file, "@ms");
}

# Many connections of one process: each sends, waits for its answer, pauses.
sub hot_clients {
    my ($mine, $key, $file) = @_;

    my $end = 0;
    $SIG{TERM} = sub { $end = 1 };
    my ($select, @all, %of) = (IO::Select->new);
    for my $n (@$mine) {
        my $sock = Interlock::FastCGI->of_instance($i)->sock;
        push @all, $of{ fileno $sock } = { sock => $sock, in => '',
            bytes => bytes('hot', $key->($n), $n),
            next => time + rand $pause };
    }
    my ($sent, $bad) = (0, 0);
    while (!$end) {
        my $now = time;
        my $soonest = $now + 0.05;
        for my $h (grep { defined $_->{next} } @all) {
            if ($h->{next} > $now) {
                $soonest = $h->{next} if $h->{next} < $soonest;
                next;
            }
            syswrite $h->{sock}, $h->{bytes};
            $sent++;
            $h->{next} = undef;
            $select->add($h->{sock});
        }
        if (!$select->count) {        # its select would not wait
            sleep($soonest - $now) if $soonest > $now;
            next;
        }
        for my $sock ($select->can_read($soonest - $now)) {
            my $h = $of{ fileno $sock };
            my $code = code($sock, \$h->{in}) // next;
            $bad++ if $code != 202;
            $select->remove($sock);
            $h->{next} = time + $pause * (0.5 + rand);
        }
    }
    Interlock::Test::spew($file, "$sent $bad");
    POSIX::_exit(0);
}

# round(key): the cold ones' milliseconds, beside hot clients that want
# key->(client); without a key there are none.
my $round = 0;
sub round {
    my ($key) = @_;
    $round++;
    my $dir = $i->dir;
    my (@hot, @cold);
    my $of = 4;
    if ($key) {
        for my $p (0 .. 3) {
            my $pid = fork() // die "fork: $!";
            hot_clients([ grep { $_ % 4 == $p } 1 .. $hot ], $key,
                "$dir/hot.$p") unless $pid;
            push @hot, $pid;
        }
    }
    my $start = time + 0.5;
    for my $n (0 .. $of - 1) {
        my $pid = fork() // die "fork: $!";
        if (!$pid) {
            my $ok = eval { cold_client($n, $of, $round, $start,
                "$dir/cold.$n"); 1 };
            print STDERR $@ unless $ok;
            POSIX::_exit($ok ? 0 : 1);
        }
        push @cold, $pid;
    }
    my $failed = 0;
    for (@cold) { waitpid $_, 0; $failed++ if $?; }
    is($failed, 0, "turn $round: each cold request was answered 202")
        if $failed || $round == 1;
    kill 'TERM', @hot;
    waitpid $_, 0 for @hot;
    my ($sent, $bad) = (0, 0);
    for my $p (0 .. $#hot) {
        my ($s, $b) = split ' ', Interlock::Test::slurp("$dir/hot.$p");
        $sent += $s;
        $bad += $b;
    }
    is($bad, 0, "turn $round: each hot one, too") if $bad || $round == 2;
    my @ms = map { split ' ', Interlock::Test::slurp("$dir/cold.$_") }
        0 .. $of - 1;
    return { ms => \@ms, sent => $sent };
}

round();                       # warm up

my %key = (none => undef, apart => sub { "apart:$_[0]" },
    same => sub { 'one' });
my $ok;
for my $try (1 .. 3) {
    my (%ms, %sent);
    for (1 .. $turns) {
        for my $what (qw(none apart same)) {
            my $r = round($key{$what});
            push @{ $ms{$what} }, @{ $r->{ms} };
            $sent{$what} += $r->{sent};
        }
    }
    my %p99;
    for my $what (qw(none apart same)) {
        my @v = @{ $ms{$what} };
        $p99{$what} = percentile(0.99, @v);
        diag(sprintf '%-5s %d cold ones, %d of 200 clients: p50 %.2f ms, '
            . 'p99 %.2f ms', $what, scalar @v, $sent{$what},
            percentile(0.5, @v), $p99{$what});
    }
    diag(sprintf 'hot key against none: %.2f, against 200 keys: %.2f',
        $p99{same} / $p99{none}, $p99{same} / $p99{apart});
    $ok = $p99{same} <= 1.5 * $p99{apart}
        && (!$ENV{INTERLOCK_FULL} || $p99{same} <= 1.5 * $p99{none});
    last if $ok;
}
ok($ok, 'the p99 of the cold ones is within 1.5 times');

$i->check_sql;
done_testing();
