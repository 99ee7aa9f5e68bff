#!/usr/bin/perl

# What a person may do about schedules, gaps, kinds and sources, and from the
# inbox; the commands for the same; and that an auditor may do none of it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my $i = Interlock::Test->instance;

Interlock::Browser->run('31-decisions.mjs', { instance => $i,
    timeout => 300 });

done_testing();
