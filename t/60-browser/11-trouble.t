#!/usr/bin/perl

# The button in a real browser, when something is in its way: no network, a
# full queue, no answer, a ticket that is over, no script, no mouse.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my ($pages, $server) = Interlock::Browser->pages;
my $i = Interlock::Test->instance(nginx_server => $server);

Interlock::Browser->run('11-trouble.mjs', { instance => $i, pages => $pages,
    interlockd => $i->backend_pid });

$i->check_sql;

done_testing();
