#!/usr/bin/perl

# The providers' own libraries against the sample locations: what they sign is
# accepted, and what PostgreSQL holds afterwards, payload and headers, is
# accepted by them, too; of another byte neither is true.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use MIME::Base64 qw(decode_base64 encode_base64);
use Test::More;

use Interlock::Test;

my $js = "$FindBin::Bin/../js";
my $modules = "$FindBin::Bin/../node_modules";
my @signing = qw(stripe @octokit/webhooks-methods standardwebhooks svix twilio
    @adyen/api-library @hubspot/api-client tweetnacl);
my @verifying = qw(square @paddle/paddle-node-sdk @shopify/shopify-api
    @linear/sdk);
my $json = JSON::PP->new->utf8->canonical;

# What is installed is what the lock says, and that one version
my $lock = $json->decode(Interlock::Test::slurp(
    "$FindBin::Bin/../package-lock.json"))->{packages};
my $asked = $json->decode(Interlock::Test::slurp(
    "$FindBin::Bin/../package.json"))->{dependencies};
my @missing = grep { !-d "$modules/$_" } @signing, @verifying;
plan skip_all => "npm packages of t/package.json: no @missing" if @missing;
for my $name (@signing, @verifying) {
    my $is = $json->decode(Interlock::Test::slurp(
        "$modules/$name/package.json"))->{version};
    is("$asked->{$name} " . $lock->{"node_modules/$name"}{version}, "$is $is",
        "$name $is");
}

my $i = Interlock::Test->instance;

my ($code, $out, $err) = Interlock::Test::run([ 'node', "$js/sdk-post.mjs",
    $i->url, $i->dir ], timeout => 300);
is("$code $err", '0 ', 'the libraries signed and sent');
my @sent = map { $json->decode($_) } split /\n/, $out;

my %least = (adyen => 2, 'adyen-balance' => 11, discord => 11, github => 14,
    hubspot => 2, linear => 11, paddle => 11, shopify => 14, square => 11,
    standard => 28, stripe => 11, twilio => 23);
my %done = (adyen => '200 [accepted]', 'adyen-balance' => '200 [accepted]',
    discord => '204 ');
my %by;
push @{ $by{ $_->{source} } }, $_ for @sent;
is_deeply([ sort keys %by ], [ sort keys %least ], 'of every source');

# what is stored of a source: [base64 of the payload, headers]
my %stored;
for my $row ($i->sql('select j.source, translate(encode(p.payload,'
    . " 'base64'), E'\\n', ''), p.headers from interlock.jobs j join"
    . ' interlock.payloads p on p.job_id = j.id'))
{
    push @{ $stored{ $row->[0] } }, [ @$row[ 1, 2 ] ];
}

for my $source (sort keys %least) {
    my @all = @{ $by{$source} // [] };
    is(scalar @all, $least{$source}, "$source: $least{$source} deliveries");
    my @refused = grep { exists $done{$source}
        ? "$_->{status} $_->{text}" ne $done{$source}
        : $_->{status} != ($source eq 'paddle' ? 200 : 202) || $_->{text} !~ /"decision":"accepted"|"items":/
        } @all;
    is(scalar @refused, 0, "$source: each is accepted")
        or diag(explain(\@refused));
    is_deeply([ sort map { $_->[0] } @{ $stored{$source} // [] } ],
        [ sort map { @{ $_->{stored} } } @all ],
        "$source: what was sent is stored, and nothing else");
}

# The libraries get what is stored, as it is and with one byte changed.
# (HubSpot's signature is of a whole array, of which elements are stored.)
my @ask;
for my $source (grep { $_ ne 'hubspot' } sort keys %least) {
    my %url = map { my $one = $_; map { $_ => $one->{url} }
        @{ $one->{stored} } } @{ $by{$source} };
    for my $row (@{ $stored{$source} // [] }) {
        my ($payload, $headers) = @$row;
        my $bytes = decode_base64($payload);
        # a letter in what is signed, and no escape's
        $source eq 'adyen' ? $bytes =~ s/PSP/PSQ/
            : $bytes =~ s/^((?:\xef\xbb\xbf)?\W*\w)/\U$1/s
                && $bytes eq decode_base64($payload)
                && ($bytes =~ s/^((?:\xef\xbb\xbf)?\W*\w)/\L$1/s);
        push @ask, [ $source, 1, $payload, $headers, $url{$payload} ],
            [ $source, 0, encode_base64($bytes, ''), $headers,
                $url{$payload} ];
    }
}
($code, $out, $err) = Interlock::Test::run([ 'node', "$js/sdk-verify.mjs",
    $i->dir ], timeout => 300, stdin => join '', map { $json->encode({
        source => $_->[0], payload => $_->[2], url => $_->[4],
        headers => $json->decode($_->[3]) }) . "\n" } @ask);
is("$code $err", '0 ', 'the libraries read what is stored');
my @said = split /\n/, $out;
is(scalar @said, scalar @ask, 'all of it');

my (%good, %bad);
for my $n (0 .. $#ask) {
    my ($source, $whole, $payload) = @{ $ask[$n] };
    my $list = $whole ? \%good : \%bad;
    push @{ $list->{$source} }, $said[$n] . ' ' . decode_base64($payload)
        if ($said[$n] eq 'ok') != $whole;
}
for my $source (grep { $_ ne 'hubspot' } sort keys %least) {
    is_deeply($good{$source} // [], [], "$source: its library accepts what is"
        . ' stored');
    is_deeply($bad{$source} // [], [], "$source: and nothing else");
}

# The other way round: the edge takes no other byte, either
my ($one) = grep { $_->{what} eq 'plain' } @{ $by{square} };
my ($headers) = map { $_->[1] } grep { $_->[0] eq $one->{stored}[0] }
    @{ $stored{square} };
my $body = decode_base64($one->{stored}[0]);
my %header = %{ $json->decode($headers) };
my $res = $i->http(POST => '/in/square', { body => "$body ", headers => {
    'x-square-hmacsha256-signature' =>
        $header{'x-square-hmacsha256-signature'} } });
is($res->{status}, 401, 'what is signed with one blank more is refused');

$i->check_sql;

done_testing();
