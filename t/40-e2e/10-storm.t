#!/usr/bin/perl

# 200 different and 200 equal deliveries, sent by 32 clients at once: 201
# jobs, and every delivery is found either in the zone's counters or as a row
# in requests.  Those of the counters become rows, too, or are counted as
# missing.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use List::Util qw(shuffle);
use Test::More;

use Interlock::Load qw(run_clients github_request);
use Interlock::Test;

my $i = Interlock::Test->instance;

my @requests;
my $same = github_request($i->dir, 'same-delivery', 'push',
    '{"ref":"refs/heads/same","repository":{"full_name":"acme/same"}}');

for my $n (1 .. 200) {
    push @requests, { %$same, id => "same-$n" };
    push @requests, github_request($i->dir, "delivery-$n", 'push',
        qq({"ref":"refs/heads/b$n","repository":{"full_name":"acme/shop"}}));
}

my $answers = run_clients(clients => 32, url => $i->url,
    requests => [ shuffle @requests ]);

is(scalar @$answers, 400, 'every delivery was answered');
is(scalar(grep { $_->{status} != 202 } @$answers), 0, 'each with 202')
    or diag(explain([ grep { $_->{status} != 202 } @$answers ]));

my %bodies = map { $_->{body} => 1 } grep { $_->{id} =~ /^same-/ } @$answers;
is(scalar keys %bodies, 1, 'the equal ones all got the same body');

my @first = grep { $_->{id} =~ /^same-/
    && !$_->{headers}{'idempotency-replayed'} } @$answers;
is(scalar @first, 1, 'one of the equal ones is the first, 199 are replays');

is($i->psql('select count(*) from interlock.jobs'), 201, '201 jobs');

my $zone = $i->http('GET', '/edge/status')->{json}{zones}[0];
my $replayed = 0;
$replayed += $_->{decisions}{duplicate} for @{ $zone->{locations} };
cmp_ok($replayed, '>', 0, "the zone answered $replayed of them");

my ($rows, $recorded, $missing);
$i->wait_for(sub {
    my $m = $i->metrics;
    ($recorded, $missing) = map { $m->{"interlock_edge_audit_${_}_total"} }
        qw(received missing);
    $recorded + $missing >= $replayed;
}, 20, 'all of these are on record, or missing');
$rows = $i->psql('select count(*) from interlock.requests');

is($rows - $recorded + $replayed, 400,
    "zone's $replayed and the database's $rows add up");
is($rows + $missing, 400, "with $missing missing, every delivery is a row");

$i->check_sql;

done_testing();
