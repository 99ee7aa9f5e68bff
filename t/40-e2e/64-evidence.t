#!/usr/bin/perl

# A provider's own webhook, signed and through the edge, says what became of
# an effect of which nobody knew: it settles it, lets go on what waited for
# it, and shows a second charge as one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP;
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance(conf => 'recover_interval = 100ms');

put('/v1/kinds/order', { overlap => 'buffer_one', effect_scope => 'work',
    delivery_effects => ['charge'] });
put('/v1/effect-kinds/stripe', { send_deadline => 1, evidence => {
    source => 'stripe', match => { idempotency_key => '/request/idempotency_key' },
    ref => '/data/object/id',
    confirmed => { pointer => '/type', equals => ['charge.succeeded'] },
    failed => { pointer => '/type', equals => ['charge.failed'] } } });

# The charge's outcome is lost, and the job done but for that.
my $first = submit('one');
my $lease = claim();
my $begun = owner($lease, '/v1/effects', { name => 'charge', kind => 'stripe' });
is($begun->{decision}, 'send', 'may send');
owner($lease, "/v1/effects/$begun->{effect_id}/outcome",
    { send_id => $begun->{send_id}, state => 'unknown' });
my $second = submit('two');
owner($lease, '/v1/lease/complete', {});
is(job($first)->{delivery}, 'pending', 'generated, not delivered');
is(job($second)->{waits_for}, 'effects', 'the next one waits for it');

is(event('charge.succeeded', $begun->{idempotency_key}, 'ch_1', 'forged'), 401,
    'who forges it');
is(event('charge.succeeded', 'somebody-1', 'ch_0'), 202, 'about another charge');
is(event('charge.succeeded', $begun->{idempotency_key}, 'ch_1'), 202,
    'the provider says that it happened');

my $effect = $i->wait_for(sub {
    my $e = effect($begun);
    $e->{state} eq 'confirmed' ? $e : undef;
}, 20, 'the effect is confirmed');
is($effect->{provider_ref}, 'ch_1', 'with its reference');
is($effect->{history}[-1]{what}, 'effect evidence', 'by its webhook');
is(job($first)->{delivery}, 'delivered', 'delivered');
my $went_on = claim();
is($went_on->{job_id}, $second, 'the next one goes on');

is($effect->{duplicates}, 0, 'it happened once');
is(event('charge.succeeded', $begun->{idempotency_key}, 'ch_2'), 202,
    'and once more');
$i->wait_for(sub { effect($begun)->{duplicates} }, 20, 'the second charge is shown');
$i->wait_for(sub {
    my $m = $i->metrics;
    my ($name) = grep { /^interlock_duplicate_side_effect_total\{.*"stripe"/ } keys %$m;
    defined $name && $m->{$name} == 1;
}, 20, 'and counted');

# A charge that fails while its owner still waits for the answer; before, one of
# a round that was never sent.
owner($went_on, '/v1/lease/complete', {});
submit('three');
$lease = claim();
$begun = owner($lease, '/v1/effects', { name => 'charge2', kind => 'stripe' });
my $never = $begun->{idempotency_key} =~ s/-1$/-9/r;
is(event('charge.succeeded', $never, 'ch_x'), 202, 'about no round of it');
is(event('charge.failed', $begun->{idempotency_key}, 'ch_3'), 202, 'it failed');
$effect = $i->wait_for(sub {
    my $e = effect($begun);
    $e->{state} eq 'failed' ? $e : undef;
}, 20, 'settled when the send\'s time is over');
like($effect->{history}[1]{detail}, qr/: round 9 was never sent$/,
    'what was never sent did not happen');
is($effect->{round}, 1, 'in its round');

$i->check_sql;

done_testing;

sub put {
    my ($path, $body) = @_;
    my $res = $i->http(PUT => $path, { token => 'operator', body => $body });
    is($res->{status}, 200, "PUT $path") or diag($res->{body});
    return;
}

sub submit {
    my ($payload) = @_;
    my $res = $i->http(POST => '/v1/jobs', { token => 'submit', body => {
        kind => 'order', work_key => 'order:1', payload => $payload } });
    is($res->{status}, 202, "order $payload") or diag($res->{body});
    return $res->{json}{job_id};
}

sub claim {
    my $res = $i->http(POST => '/v1/leases', { token => 'worker', body => {
        worker => 'w', kinds => ['order'], wait => 10 } });
    return $res->{json}{leases}[0] // die "no lease: $res->{body}";
}

sub owner {
    my ($l, $path, $body) = @_;
    my $res = $i->http(POST => $path, { body => $body,
        headers => { Authorization => "Bearer $l->{owner_token}" } });
    is($res->{status}, 200, "POST $path") or diag($res->{body});
    return $res->{json};
}

sub job    { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }
sub effect { $i->http(GET => "/v1/effects/$_[0]{effect_id}", { token => 'auditor' })->{json} }

# A signed event of the provider; its status.
sub event {
    my ($type, $key, $id, $forged) = @_;
    my $body = encode_json({ id => 'evt_' . Interlock::Test::random_id(), type => $type,
        request => { idempotency_key => $key }, data => { object => { id => $id } } });
    my $sign = $i->sign_stripe($body);
    $sign =~ s/v1=..../v1=0000/ if $forged;
    return $i->http(POST => '/in/stripe', { body => $body, headers => {
        'Content-Type' => 'application/json', 'Stripe-Signature' => $sign } })->{status};
}
