#!/usr/bin/perl

# Runs the unit tests: each C program of this directory, built by make, prints
# TAP by cmocka; every test of theirs is one here.

use strict;
use warnings;

use File::Basename qw(basename);
use FindBin;
use Test::More;

my $build = $ENV{INTERLOCK_BUILD} // "$FindBin::Bin/../../build";
my @sources = sort glob "'$FindBin::Bin/*.c'";

$ENV{CMOCKA_MESSAGE_OUTPUT} = 'TAP';
ok(@sources > 0, 'there are unit tests');

for my $source (@sources) {
    my $name = basename($source, '.c');
    my $program = "$build/t/$name";

    if (!-x $program) {
        fail("$name is built (make unit)");
        next;
    }
    my ($planned, $ran) = (0, 0);
    chdir "$FindBin::Bin/../.." or die $!;
    open my $out, '-|', "'$program' 2>&1" or die "$program: $!";
    while (my $line = <$out>) {
        if ($line =~ /^(not )?ok \d+(?: - )?(.*)/) {
            ok(!$1, "$name: $2");
            $ran++;
        } elsif ($line =~ /^1\.\.(\d+)/) {
            $planned += $1;
        } elsif ($line !~ /^ok|^#\s*ok/) {
            chomp $line;
            $line =~ /^# / ? note($line) : diag($line);
        }
    }
    close $out;
    my $status = $?;
    ok($status == 0 && $ran > 0 && $ran == $planned,
        "$name: ran all $planned and ended well")
        or diag("status $status, $ran of $planned");
}

done_testing();
