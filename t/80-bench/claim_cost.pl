#!/usr/bin/perl

# Claim and submit cost with a big queue against a small one, and fairness,
# at full size: perl t/80-bench/claim_cost.pl [small] [big] [blocked] [waiting]

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Queue;

my ($small, $big, $blocked, $waiting) = (@ARGV, 1000, 1_000_000, 100_000,
    50_000)[0 .. 3];
if (@ARGV) {
    my @d = (1000, 1_000_000, 100_000, 50_000);
    ($small, $big, $blocked, $waiting) = map { $ARGV[$_] // $d[$_] } 0 .. 3;
}

my $q = Queue->new;
my $t = $q->claim_cost($small, $big, $blocked);
printf "%-40s %10s %10s  ratio\n", '', "$small", "$big";
for my $what (sort keys %$t) {
    my ($s, $b) = @{ $t->{$what} };
    printf "%-40s %7d us %7d us  %.2f\n", $what, $s, $b, $b / $s;
}
my $n = $q->fairness($waiting);
print "beside a customer with $waiting waiting, one with 1 starts at ",
    "claim $n\n";
print "check.sql: ", $q->c->check || 'nothing', "\n";
