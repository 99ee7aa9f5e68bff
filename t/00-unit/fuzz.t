#!/usr/bin/perl

# A short run of every fuzz target (make fuzz has the long one): the seeds and
# what a few thousand changes make of them.

use strict;
use warnings;

use File::Basename qw(basename);
use FindBin;
use Test::More;

my $runs = 8_000;

chdir "$FindBin::Bin/../.." or die $!;

plan skip_all => 'clang is missing'
    unless grep { -x "$_/clang" || -x "$_/clang-14" } split /:/, $ENV{PATH};

my @targets = map { basename($_, '.c') } sort glob 't/fuzz/*.c';
ok(@targets > 0, 'there are targets');

for my $name (@targets) {
    my @seeds = glob "t/fuzz/seeds/$name/*";
    ok(@seeds > 0, "$name: there are seeds");

    my $out = `RUNS_EACH=$runs SECONDS_EACH=60 t/fuzz/run $name 2>&1`;
    ok($? == 0, "$name: holds for every input") or diag($out);
    like($out, qr/number_of_executed_units: [1-9]/, "$name: had inputs");
}

done_testing();
