#!/usr/bin/perl

# The frame of the operators' pages: login, navigation, theme, lists whose
# filters are in the address and whose pages do not move, stored JSON as it is,
# what happens shown as it happens.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my $i = Interlock::Test->instance;

Interlock::Browser->run('20-shell.mjs', { instance => $i,
    timeout => 300 });

done_testing();
