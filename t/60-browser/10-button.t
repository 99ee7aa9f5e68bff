#!/usr/bin/perl

# The button in a real browser: whatever a person does with it, one press is
# one job, and every page says how it stands.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my ($pages, $server) = Interlock::Browser->pages;
my $i = Interlock::Test->instance(nginx_server => $server);

Interlock::Browser->run('10-button.mjs', { instance => $i, pages => $pages });

$i->check_sql;

done_testing();
