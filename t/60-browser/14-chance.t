#!/usr/bin/perl

# The button under whatever comes in whatever order: presses, reloads, tabs that
# are opened and closed, a network that comes and goes.  One press, one job, and
# all tabs know of it.  SEED=n in the environment is another order.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my ($pages, $server) = Interlock::Browser->pages;
my $i = Interlock::Test->instance(nginx_server => $server);

my $seed = ($ENV{SEED} // 5) + 0;
diag("SEED=$seed") unless Interlock::Browser->run('14-chance.mjs',
    { instance => $i, pages => $pages, seed => $seed });

$i->check_sql;

done_testing();
