#!/usr/bin/perl

# What is not signed as it should be is refused, and nothing of it is stored
# or remembered: a genuine delivery with the same ids goes through afterwards.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Load qw(github_request stripe_request standard_request secret);
use Interlock::Test;

my $i = Interlock::Test->instance;
my $push = '{"ref":"refs/heads/main","repository":{"full_name":"acme/shop"}}';

sub counts {
    return $i->psql('select (select count(*) from interlock.requests)'
        . " || '/' || (select count(*) from interlock.jobs)"
        . " || '/' || (select count(*) from interlock.idempotency)");
}

sub entries {
    my $z = $i->http('GET', '/edge/status')->{json}{zones}[0];
    return "$z->{in_flight}/$z->{done}";
}

sub post {
    my ($req) = @_;
    return $i->http('POST', $req->{path},
        { headers => $req->{headers}, body => $req->{body} });
}

sub changed {
    my ($req, %h) = @_;

    my %new = %{ $req->{headers} };
    for my $name (keys %h) {
        if (defined $h{$name}) { $new{$name} = $h{$name}; }
        else                   { delete $new{$name}; }
    }
    return { %$req, headers => \%new };
}

my $before = counts() . ' ' . entries();
my $gh = github_request($i->dir, 'd-1', 'push', $push);
my $now = time;

my $st = stripe_request($i->dir, 'evt', '{"id":"evt_1"}');
my $sw = standard_request($i->dir, 'msg_1', '{"a":1}');
(my $otherbody = $push) =~ s/main/maim/;
(my $flipped = $gh->{headers}{'x-hub-signature-256'}) =~ tr/0-9a-f/1-9a-f0/;

my @table = (
    # what                              request                    problem
    [ 'github: body changed by a byte', { %$gh, body => $otherbody },
      'signature-invalid' ],
    [ 'github: wrong secret',
      changed($gh, 'x-hub-signature-256' => $flipped), 'signature-invalid' ],
    [ 'github: no header',
      changed($gh, 'x-hub-signature-256' => undef), 'signature-invalid' ],
    [ 'github: two headers',
      changed($gh, 'x-hub-signature-256' =>
          [ ($gh->{headers}{'x-hub-signature-256'}) x 2 ]),
      'signature-invalid' ],
    [ 'github: sha1 only',
      changed($gh, 'x-hub-signature-256' => undef,
          'x-hub-signature' => 'sha1=' . '0' x 40), 'signature-invalid' ],
    [ 'github: signature cut short',
      changed($gh, 'x-hub-signature-256' =>
          substr($gh->{headers}{'x-hub-signature-256'}, 0, -2)),
      'signature-invalid' ],
    [ 'github: signature with a tail',
      changed($gh, 'x-hub-signature-256' =>
          $gh->{headers}{'x-hub-signature-256'} . '00'), 'signature-invalid' ],
    [ 'stripe: old timestamp',
      stripe_request($i->dir, 'evt', '{"id":"evt_1"}', $now - 301),
      'timestamp-out-of-range' ],
    [ 'stripe: future timestamp',
      stripe_request($i->dir, 'evt', '{"id":"evt_1"}', $now + 330),
      'timestamp-out-of-range' ],
    [ 'stripe: body changed', { %$st, body => '{"id":"evt_2"}' },
      'signature-invalid' ],
    [ 'stripe: only v0',
      changed($st, 'stripe-signature' =>
          $st->{headers}{'stripe-signature'} =~ s/v1=/v0=/r),
      'signature-invalid' ],
    [ 'stripe: timestamp in hex',
      changed($st, 'stripe-signature' =>
          $st->{headers}{'stripe-signature'} =~ s/t=/t=0x/r),
      'signature-invalid' ],
    [ 'standard: old timestamp',
      standard_request($i->dir, 'msg_1', '{"a":1}', $now - 301),
      'timestamp-out-of-range' ],
    [ 'standard: future timestamp',
      standard_request($i->dir, 'msg_1', '{"a":1}', $now + 330),
      'timestamp-out-of-range' ],
    [ 'standard: id changed', changed($sw, 'webhook-id' => 'msg_2'),
      'signature-invalid' ],
    [ 'standard: two ids',
      changed($sw, 'webhook-id' => [ 'msg_1', 'msg_1' ]),
      'signature-invalid' ],
);

for my $row (@table) {
    my ($what, $req, $problem) = @$row;
    my $res = post($req);

    is($res->{status}, 401, "$what: 401");
    is($res->{json}{type}, "https://interlock.invalid/problems/$problem",
        "$what: $problem");
    is($res->{headers}{'content-type'}, 'application/problem+json',
        "$what: a problem");
    unlike($res->{body}, qr/\Q${\secret($i->dir, 'github')}\E|[0-9a-f]{64}/,
        "$what: no hint about the expected value");
}

is(counts() . ' ' . entries(), $before,
    'nothing stored, nothing remembered');

my $genuine = post($gh);
is($genuine->{status}, 202, 'the genuine delivery goes through');
is($genuine->{headers}{'interlock-decision'}, 'accepted', 'as the first');
is(post($st)->{headers}{'interlock-decision'}, 'accepted', "stripe's too");
is(post($sw)->{headers}{'interlock-decision'}, 'accepted', "standard's too");

my %shout = map { uc($_) => $gh->{headers}{$_} } keys %{ $gh->{headers} };
my $again = post({ %$gh, headers => \%shout });
is($again->{headers}{'idempotency-replayed'}, 'true',
    'a header that differs in case only is the same header');

# Rotation: the new secret is current, the old one still accepted.

my $old = secret($i->dir, 'github');
open my $fh, '>', $i->dir . '/secrets/github' or die $!;
print $fh "a new secret\n$old\n";
close $fh;
$i->reload;

my $new = github_request($i->dir, 'd-2', 'push', $push);
is(post($new)->{status}, 202, 'after rotation: signed with the new secret');
is(post($gh)->{headers}{'idempotency-replayed'}, 'true',
    'after rotation: the old one is accepted, and the reload kept the zone');

$i->check_sql;

done_testing();
