#!/usr/bin/perl

# A picture of each page into build/screenshots, of works in every state.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Rows;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $rows = Interlock::Rows->new($i)->every(plain => 1);

# one of each sort is enough
$rows->{works} = [ @{ $rows->{works} }[ 0, 7 ] ];
delete @{ $rows->{jobs} }{qw(canceled superseded expired)};

Interlock::Browser->run('60-shots.mjs', { instance => $i, rows => $rows });

done_testing();
