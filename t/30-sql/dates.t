#!/usr/bin/perl

# Business dates: the edge (interlock_business_date) and the database, whose
# schedules have such dates, too, read time zones each in their own way.  They
# must agree, in every zone that both know, about times of three centuries.
# ("CET" and the like are abbreviations first to the database, with one offset
# all year.)

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use POSIX qw(strftime);
use Test::More;

use Cluster;
use Interlock::Nginx;

my $c = Cluster->new(bare => 1);

my @zones = split /\n/, $c->psql(q{select name from pg_timezone_names
    where name !~ '^(posix|right)/' and name ~ '^[A-Za-z0-9_+/-]+$'
    and name not in ('localtime', 'posixrules', 'Factory')
    and name not in (select abbrev from pg_timezone_abbrevs) order by name}, db => 'postgres');
cmp_ok(scalar @zones, '>', 400, scalar @zones . ' zones');

my $dates = join "\n", map {
    "interlock_business_date \$d$_ $zones[$_] from=\$arg_t cutoff=05:30;"
} 0 .. $#zones;
my $all = join ' ', map { "\$d$_" } 0 .. $#zones;

my $t = Interlock::Nginx->new(
    http => "variables_hash_max_size 16384;\n$dates",
    server => "location /dates { return 200 \"$all\"; }");
$t->start;

# A third of them around changes of this and the next years, where most zones
# are half an hour from midnight, the cutoff or a change; the rest anywhere.
my @instants = map { $_ * 11_301_239 - 4_000_000_000 } 0 .. 900;
push @instants, map { my $h = $_; map { $_ + $h * 1_800 }
    1_774_746_000, 1_792_890_000, 1_793_494_800, 2_130_804_000 } -30 .. 30;

my $values = join ',', map { "($_,$instants[$_])" } 0 .. $#instants;
my @want = split /\n/, $c->psql(qq{
    select string_agg(to_char((to_timestamp(at) at time zone name)
               - interval '5:30', 'YYYY-MM-DD'), ' ' order by name collate "C")
    from (values $values) v (n, at), unnest(string_to_array('@zones', ' ')) name
    group by n order by n}, db => 'postgres');
is(scalar @want, scalar @instants, scalar @instants . ' instants');

# (the order in which the database wrote them)
my @order = sort { $zones[$a] cmp $zones[$b] } 0 .. $#zones;
my ($checked, @wrong) = (0);

for my $n (0 .. $#instants) {
    my $at = strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $instants[$n]);
    my @got = split / /, $t->http(GET => "/dates?t=$at")->{body}, -1;
    my @db = split / /, $want[$n];

    for my $k (0 .. $#order) {
        $checked++ if length $got[$order[$k]];
        next if $got[$order[$k]] eq $db[$k];
        push @wrong, "$zones[$order[$k]] at $at: $got[$order[$k]], the "
            . "database has $db[$k]";
    }
}

is_deeply([ splice @wrong, 0, 20 ], [], 'the edge and the database agree');
is($checked, @instants * @zones, "$checked dates compared");

done_testing();
