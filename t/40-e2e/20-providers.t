#!/usr/bin/perl

# Real payloads signed by the providers' own libraries go through nginx, and
# PostgreSQL holds the same bytes.  An owner token verifies with a PASETO
# library that is not ours.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use Interlock::Test;

my $js = "$FindBin::Bin/../js";
my $modules = "$FindBin::Bin/../node_modules";
plan skip_all => 'the npm packages of t/package.json are not installed'
    unless -d "$modules/stripe" && -d "$modules/paseto-ts";

my $i = Interlock::Test->instance;

open my $node, '-|', 'node', "$js/providers.mjs", $i->url, $i->dir
    or die "node: $!";
my @sent = map { decode_json($_) } <$node>;
close $node;
is($?, 0, 'the libraries signed and sent');

my %by;
push @{ $by{ (split ' ', $_->{what})[0] } }, $_ for @sent;
cmp_ok(scalar @{ $by{github} // [] }, '>', 300, 'hundreds from GitHub');
is(scalar @{ $by{stripe} // [] }, 3, 'three from Stripe');
is(scalar @{ $by{standard} // [] }, 2, 'Standard Webhooks and Svix');

my @refused = grep { $_->{status} != 202 } @sent;
is(scalar @refused, 0, 'each is accepted with 202')
    or diag(explain(\@refused));

my %stored = map { split /\|/, $_ } split /\n/, $i->psql(
    "select job_id, encode(sha256(payload), 'hex') from interlock.payloads");
my @differ = grep { ($stored{ $_->{job_id} // '' } // '') ne $_->{sha256} }
    @sent;
is(scalar @differ, 0, 'the stored bytes are those that were sent')
    or diag(explain(\@differ));

my $pushes = grep { $_->{what} =~ /^github push / } @sent;
is($i->psql("select count(*) from interlock.jobs where kind = 'github-push'"),
    $pushes, "the $pushes pushes are jobs of kind github-push");
is($i->psql("select count(distinct work_key) from interlock.jobs"
    . " where kind = 'github-push'"), 2, 'for two refs of one repository');

# The owner token

my $lease = $i->http('POST', '/v1/leases', { token => 'worker',
    body => { worker => 'w-1', kinds => ['github-push'] } })->{json}{leases}[0];
my $keys = $i->http('GET', '/v1/keys')->{json}{keys};

open $node, '-|', 'node', "$js/owner-token.mjs", $keys->[0]{key},
    $lease->{owner_token} or die "node: $!";
my $seen = decode_json(join '', <$node>);
close $node;
is($?, 0, 'another library verifies the owner token');

my $claims = $seen->{payload};
is($claims->{iss}, 'interlock', 'iss');
is($claims->{sub}, $lease->{job_id}, 'sub is the job');
is($claims->{kind}, 'github-push', 'kind');
is($claims->{work_key}, $lease->{work_key}, 'work_key');
is($claims->{fence}, $lease->{fence}, 'fence');
is($claims->{tenant}, 'demo', 'tenant');
is($claims->{worker}, 'w-1', 'worker');
like($claims->{jti}, qr/^[0-9a-f-]{36}$/, 'jti is the attempt');
my $footer = ref $seen->{footer} ? $seen->{footer}
    : decode_json($seen->{footer});
is($footer->{kid}, $keys->[0]{kid}, 'the footer names the key');

my $tampered = $lease->{owner_token};
substr($tampered, 30, 1) = substr($tampered, 30, 1) eq 'A' ? 'B' : 'A';
is(system("node '$js/owner-token.mjs' '$keys->[0]{key}' '$tampered'"
    . ' >/dev/null 2>&1') == 0, '', 'a changed one does not verify there');
is($i->http('POST', '/v1/lease/renew', { headers =>
    { authorization => "Bearer $tampered" } })->{status}, 401, 'nor here');

$i->check_sql;

done_testing();
