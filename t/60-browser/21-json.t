#!/usr/bin/perl

# fcgi/www/ui/lib/json.js by itself: no browser is needed.

use strict;
use warnings;

use FindBin;
use Test::More;

chomp(my $node = qx{command -v node 2>/dev/null});
plan skip_all => 'no node' if $node eq '';

open my $out, '-|', $node, "$FindBin::Bin/21-json.mjs" or die $!;
my $plan = -1;
my $count = 0;
while (my $line = <$out>) {
    chomp $line;
    if ($line =~ /^(not )?ok - (.*)/) {
        ok(!$1, $2);
        $count++;
    } elsif ($line =~ /^1\.\.(\d+)$/) {
        $plan = $1;
    } else {
        diag($line);
    }
}
ok(close($out), 'to its end');
is($count, $plan, 'all of it');

done_testing();
