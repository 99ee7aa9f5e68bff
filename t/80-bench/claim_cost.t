#!/usr/bin/perl

# Smoke: what claim_cost.pl measures at full size, with small numbers and
# room for the noise of a busy machine.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Test::More;

use Queue;

my $q = Queue->new;
my $t = $q->claim_cost(1000, 20_000, 5000);
for my $what (sort keys %$t) {
    my ($s, $b) = @{ $t->{$what} };
    # 300 us on top: a difference that is no matter of the queue's size
    cmp_ok($b, '<=', 2.5 * $s + 300,
        sprintf '%s: %d us with 1000 queued, %d with 20000', $what, $s, $b);
}
cmp_ok($q->fairness(3000), '<=', 4,
    'beside 3000 of one customer, one of another starts within 4 claims');
is($q->c->check, '', 'check.sql finds nothing');

done_testing;
