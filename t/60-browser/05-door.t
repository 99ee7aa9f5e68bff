#!/usr/bin/perl

# The door of the pages in a real browser: in with and without a script, back
# to where one was going, out again; and what a page of another site attempts.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $before = $i->psql('select count(*) from interlock.actions');

Interlock::Browser->run('05-door.mjs', { instance => $i });

is($i->psql('select count(*) from interlock.actions'), $before,
    'no page of another site did anything');
is($i->psql(q{select count(*) from interlock.kinds
    where name = 'forged' or deleted}), 0, 'nor made or deleted a kind');
$i->check_sql;

done_testing();
