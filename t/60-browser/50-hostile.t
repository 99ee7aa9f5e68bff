#!/usr/bin/perl

# Markup, script and odd text in every field that a client can set.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Rows;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $away = Interlock::Test::free_port();
my $rows = Interlock::Rows->new($i)->every(away => "http://127.0.0.1:$away/");

my %n;
@n{qw(jobs decisions effects)} = map { $_->[0] } map { $i->sql($_) }
    'select count(distinct status) from interlock.jobs',
    'select count(distinct decision) from interlock.requests',
    'select count(distinct state) from interlock.effects';
is($n{jobs}, 10, 'jobs of every status');
is($n{decisions}, 8, 'requests of every decision');
is($n{effects}, 5, 'effects of every state');

Interlock::Browser->run('50-hostile.mjs', { instance => $i, rows => $rows,
    away => $away, fields => [ qw(by reason payload key idem note step result
        error message target ref detail answer worker subject effect) ] });

done_testing();
