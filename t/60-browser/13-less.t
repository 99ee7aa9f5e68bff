#!/usr/bin/perl

# The button where a browser gives it less: a page by plain http (no locks, no
# randomUUID, no Sec-Fetch-Site), no storage, no style sheets of scripts; and a
# page that is put aside and taken up again as it was.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my ($pages, $server) = Interlock::Browser->pages;
my $i = Interlock::Test->instance(nginx_server => $server);

Interlock::Browser->run('13-less.mjs', { instance => $i, pages => $pages });

$i->check_sql;

done_testing();
