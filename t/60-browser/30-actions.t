#!/usr/bin/perl

# What a person may do about jobs, works, leases and effects, done in a
# browser: what it says before, what it leaves in the database.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my $i = Interlock::Test->instance;

Interlock::Browser->run('30-actions.mjs', { instance => $i,
    timeout => 300 });

done_testing();
