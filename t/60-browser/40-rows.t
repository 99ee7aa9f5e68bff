#!/usr/bin/perl

# Each page with no row, with one, and with 100,000 that came by the calls of
# interlockd.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Rows;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $r = Interlock::Rows->new($i);

sub look {
    my ($what, $rows, %more) = @_;
    Interlock::Browser->run('40-rows.mjs', { instance => $i, what => $what,
        rows => $rows, timeout => 240, %more });
}

look('no row', {});

my $one = $r->one;
look('one row', { jobs => { succeeded => $one->{job} },
    works => [ $one->{work} ], effects => { confirmed => $one->{effect} },
    kind => 'e-pay' }, axe => 'details', least => 1);

my $n = $ENV{INTERLOCK_ROWS} // 100_000;
my $c = $r->many($n);
note(join ', ', map { "$c->{$_} $_" } sort keys %$c);
cmp_ok($c->{$_}, '>', $n, "$c->{$_} $_") for qw(jobs requests works);
my ($failed) = map { $_->[0] } $i->sql(q{select id from interlock.jobs
    where status = 'failed' limit 1});
my ($unknown) = map { $_->[0] } $i->sql(q{select id from interlock.effects
    where state = 'needs_human' limit 1});
look("$n rows", { jobs => { failed => $failed }, works => [ 'rows:1' ],
    effects => { needs_human => $unknown }, kind => 'rows-1' },
    axe => 'all', least => 50);

done_testing();
