#!/usr/bin/perl

# Every sample location, in the providers' own forms and with the secrets of
# the instance: what is signed is taken once, a repeat makes no second job,
# what is not signed goes nowhere; handshakes make no job; Discord, Adyen, Meta
# and Paddle read what they want to read.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Digest::SHA qw(hmac_sha1 hmac_sha1_hex hmac_sha256 hmac_sha256_hex
    sha256_hex);
use MIME::Base64 qw(encode_base64);
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance;
my $dir = $i->dir;
my $now = time;

sub hex256 { hmac_sha256_hex($_[1], $i->secret($_[0])) }
sub b64256 { encode_base64(hmac_sha256($_[1], $i->secret($_[0])), '') }

sub adyen_item {
    my ($psp, $success) = @_;
    my $sig = encode_base64(hmac_sha256("${psp}::M:R:1130:EUR:AUTHORISATION:"
        . $success, pack 'H*', $i->secret('adyen')), '');
    return '{"NotificationRequestItem":{"additionalData":{"hmacSignature":"'
        . "$sig\"},\"amount\":{\"currency\":\"EUR\",\"value\":1130},"
        . '"eventCode":"AUTHORISATION","merchantAccountCode":"M",'
        . "\"merchantReference\":\"R\",\"pspReference\":\"$psp\","
        . "\"success\":\"$success\"}}";
}

my $form = 'Body=Hello%21&From=%2B15551230000&MessageSid=SM1';
my $form_signed = 'BodyHello!From+15551230000MessageSidSM1';

# source => [ body, sub of the body: headers, ways the body may be changed ]
my %SENDER = (
    github => [ '{"action":"opened"}', sub { ('x-github-event' => 'issues',
        'x-github-delivery' => 'd-1', 'x-hub-signature-256' =>
        'sha256=' . hex256(github => $_[0])) } ],
    stripe => [ '{"id":"evt_1"}', sub { ('stripe-signature' => "t=$now,v1="
        . hex256(stripe => "$now.$_[0]")) } ],
    standard => [ '{"type":"x"}', sub { ('webhook-id' => 'msg_1',
        'webhook-timestamp' => $now, 'webhook-signature' => 'v1,'
        . encode_base64(hmac_sha256("msg_1.$now.$_[0]", MIME::Base64::decode(
        substr $i->secret('standard'), 6)), '')) } ],
    slack => [ '{"type":"event_callback","event_id":"Ev1"}', sub {
        ('x-slack-request-timestamp' => $now, 'x-slack-signature' =>
        'v0=' . hex256(slack => "v0:$now:$_[0]")) } ],
    shopify => [ '{"id":1}', sub { ('x-shopify-webhook-id' => 'w-1',
        'x-shopify-event-id' => 'e-1',
        'x-shopify-hmac-sha256' => b64256(shopify => $_[0])) } ],
    meta => [ '{"object":"page","entry":[{"id":"1","time":2}]}', sub {
        ('x-hub-signature-256' => 'sha256=' . hex256(meta => $_[0])) } ],
    discord => [ '{"version":1,"type":1,"event":{"type":"X"}}', sub {
        ('x-signature-timestamp' => $now,
        'x-signature-ed25519' => $i->sign_discord($_[0], $now)) } ],
    square => [ '{"event_id":"sq-1"}', sub { ('x-square-hmacsha256-signature'
        => b64256(square => $i->url . "/in/square$_[0]")) } ],
    paddle => [ '{"event_id":"evt_01"}', sub { ('paddle-signature' =>
        "ts=$now;h1=" . hex256(paddle => "$now:$_[0]")) } ],
    linear => [ '{"action":"create","webhookTimestamp":' . $now * 1000 . '}',
        sub { ('linear-delivery' => 'ld-1', 'linear-event' => 'Issue',
        'linear-signature' => hex256(linear => $_[0])) } ],
    zoom => [ '{"event":"meeting.started","event_ts":1}', sub {
        ('x-zm-request-timestamp' => $now, 'x-zm-signature' =>
        'v0=' . hex256(zoom => "v0:$now:$_[0]")) } ],
    hubspot => [ '[{"eventId":1,"subscriptionId":2,"occurredAt":3}]', sub {
        ('x-hubspot-request-timestamp' => $now * 1000,
        'x-hubspot-signature-v3' => b64256(hubspot => 'POST' . $i->url
        . "/in/hubspot$_[0]${now}000")) } ],
    twilio => [ $form, sub { ('content-type' =>
        'application/x-www-form-urlencoded', 'i-twilio-idempotency-token' =>
        'tw-1', 'x-twilio-signature' => encode_base64(hmac_sha1($i->url
        . "/in/twilio$form_signed", $i->secret('twilio')), '')) } ],
    intercom => [ '{"id":"notif_1"}', sub { ('x-hub-signature' => 'sha1='
        . hmac_sha1_hex($_[0], $i->secret('intercom'))) } ],
    mailgun => [ '{"signature":{"timestamp":"' . $now . '","token":"tok1",'
        . '"signature":"' . hex256(mailgun => "${now}tok1") . '"}}',
        sub { () } ],
    adyen => [ '{"live":"false","notificationItems":['
        . adyen_item('p1', 'true') . ']}', sub { () } ],
    'adyen-balance' => [ '{"data":{"id":"1"},"type":"balance"}', sub {
        ('hmacsignature' => encode_base64(hmac_sha256($_[0], pack 'H*',
        $i->secret('adyen')), '')) } ],
    gitlab => [ '{"object_kind":"push"}', sub { ('idempotency-key' => 'gl-1',
        'x-gitlab-event' => 'Push Hook',
        'x-gitlab-token' => $i->secret('gitlab')) } ],
    x => [ '{"for_user_id":"1"}', sub { ('x-twitter-webhooks-signature' =>
        'sha256=' . b64256(x => $_[0])) } ],
    sendgrid => [ "[{\"sg_event_id\":\"sg1\"}]\r\n", sub {
        ('x-twilio-email-event-webhook-timestamp' => $now,
        'x-twilio-email-event-webhook-signature' => $i->sign_sendgrid($_[0], $now)) } ],
    token => [ '{}', sub { ('idempotency-key' => 't-1',
        'x-webhook-token' => $i->secret('token')) } ],
    cloudevents => [ '{}', sub { ('ce-id' => 'A1', 'ce-source' => '/a%20b',
        authorization => 'Bearer ' . $i->secret('cloudevents')) } ],
    hmac => [ '{}', sub { ('idempotency-key' => 'h-1', 'x-signature' =>
        'sha256=' . hex256(hmac => $_[0])) } ],
);

my %DONE = (discord => [ 204, '' ], meta => [ 200 ], paddle => [ 200 ],
    map { $_ => [ 200, '[accepted]' ] } qw(adyen adyen-balance));

# The paths of the configuration are those of the table
my @paths = sort(Interlock::Test::slurp("$dir/sources.conf")
    =~ m{^location = /in/(\S+)}mg);
# (these two sign by certificates of their own)
my @backend = qw(paypal sns);
is_deeply([ grep { my $p = $_; !grep { $_ eq $p } @backend } @paths ],
    [ sort keys %SENDER ], 'a sender for each sample location');

sub post {
    my ($source, $body, @headers) = @_;
    return $i->http(POST => "/in/$source", { body => $body, headers => {
        'content-type' => 'application/json', @headers } });
}

sub jobs {
    my ($source) = @_;
    return $i->psql('select count(*) from interlock.jobs'
        . " where source = '$source'");
}

for my $source (sort keys %SENDER) {
    my ($body, $sign) = @{ $SENDER{$source} };
    my @signed = $sign->($body);
    my $done = $DONE{$source};

    is($i->http(HEAD => "/in/$source")->{status}, 200, "$source: HEAD");
    is(post($source, $body . ' ', @signed)->{status}, 401,
        "$source: a body that was not signed")
        unless grep { $_ eq $source } qw(adyen cloudevents gitlab mailgun token);
    (my $other = $body) =~ s/tok1|p1/zz/;
    is(post($source, $other)->{status}, 401, "$source: unsigned");
    is(jobs($source), 0, "$source: no job of all that");

    my $first = post($source, $body, @signed);
    is($first->{status}, $done ? $done->[0] : 202, "$source: taken")
        or diag($first->{body});
    is($first->{body}, $done->[1], "$source: what it wants to read")
        if $done && defined $done->[1];
    like($first->{body}, qr/"decision":"accepted"|"items":\[/,
        "$source: what became of it") unless $done && defined $done->[1];
    is(jobs($source), 1, "$source: one job");
    is($i->psql("select encode(sha256(p.payload), 'hex') from"
        . ' interlock.payloads p join interlock.jobs j on j.id = p.job_id'
        . " where j.source = '$source'"), sha256_hex($body),
        "$source: of the bytes that were sent")
        unless grep { $_ eq $source } qw(adyen hubspot meta sendgrid);

    my $again = post($source, $body, @signed);
    is($again->{status}, $first->{status}, "$source: a repeat, the same code");
    is($again->{body}, $first->{body}, "$source: a repeat, the same text")
        unless grep { $_ eq $source } qw(hubspot meta sendgrid);
    is(jobs($source), 1, "$source: a repeat, no second job");
}

# What the provider repeats makes the same request, what is new a new one
my ($two) = map { '{"live":"false","notificationItems":[' . $_ . ']}' }
    join ',', adyen_item('p1', 'true'), adyen_item('p2', 'false');
is(post('adyen', $two)->{body}, '[accepted]', 'adyen: two, one of them known');
is(jobs('adyen'), 2, 'adyen: one more job');

# What is signed in part is the same request whatever becomes of the rest, and
# is no request where the whole body is to be signed
{
    my $seen = '{"live":"false","notificationItems":['
        . adyen_item('p1', 'true') . ']}';
    my $mail = $SENDER{mailgun}[0];
    for my $change ('"x":1', '"x":2', '"reason":"other"') {
        (my $changed = $seen) =~ s/"eventCode"/$change,"eventCode"/;
        is(post('adyen', $changed)->{status}, 200, "adyen, $change: taken");
        is(post('adyen-balance', $changed)->{status}, 401,
            "adyen-balance, $change: refused");
        (my $other = $mail) =~ s/\}\z/,"event-data":{$change}}/;
        is(post('mailgun', $other)->{status}, 202, "mailgun, $change: taken");
    }
    is(jobs('adyen'), 2, 'adyen: no more jobs of it');
    is(jobs('adyen-balance'), 1, 'adyen-balance: none');
    is(jobs('mailgun'), 1, 'mailgun: none');
}

# Nothing that X's handshake signs for anybody is a delivery
for my $token (qw(12345 true)) {
    my $res = $i->http(GET => "/in/x?crc_token=$token");
    my ($sig) = $res->{body} =~ /"(sha256=[^"]+)"/;
    ok($sig, "x, $token: signed");
    is(post('x', $token, 'x-twitter-webhooks-signature' => $sig)->{status},
        401, "x, $token: no delivery");
}
is(jobs('x'), 1, 'x: no job of it');

# Shopify's headers without X-; the same ID is the same delivery
{
    my @plain = ('shopify-hmac-sha256' => b64256(shopify => '{"id":1}'),
        'shopify-topic' => 'orders/create');
    is(post('shopify', '{"id":1}', @plain, 'shopify-webhook-id' => $_->[0])
        ->{status}, 202, "shopify, $_->[0]: taken") for ['w-1'], ['w-2'];
    is(jobs('shopify'), 2, 'shopify: one more job');
    my $res = post('shopify', '{"id":1}', @plain);
    is("$res->{status} $res->{json}{type}", '400 https://interlock.invalid/'
        . 'problems/idempotency-key-missing', 'shopify: no ID');
}

# CloudEvents: source and id are told apart, and may be long
{
    my @token = (authorization => 'bearer ' . $i->secret('cloudevents'));
    my @event = map { [ 'ce-source' => $_->[0], 'ce-id' => $_->[1] ] }
        [ '/a%20b', 'c' ], [ '/a', 'b%20c' ], [ '/' . 'a' x 200, 'b' x 53 ];
    my $before = jobs('cloudevents');
    is(post('cloudevents', '{}', @token, @$_)->{status}, 202,
        'cloudevents: taken') for @event, @event;
    is(jobs('cloudevents'), $before + 3, 'cloudevents: each is one');
    for ([ 'ce-source' => '/a b', 'ce-id' => 'c' ],
        [ 'ce-source' => '/a', 'ce-id' => 'b c' ], [ 'ce-source' => '/a' ],
        [ 'ce-id' => 'b' ], [])
    {
        is(post('cloudevents', '{}', @token, @$_)->{json}{type},
            'https://interlock.invalid/problems/idempotency-key-missing',
            "cloudevents, @$_: not named");
    }
    is(post('cloudevents', '{}', @token, 'ce-source' => '/' . 'a' x 200,
        'ce-id' => 'b' x 54)->{status}, 400, 'cloudevents: too long');
}

# Handshakes, with the real secrets; none of them is a job
my $before = $i->psql('select count(*) from interlock.requests');
my $body = '{"type":"url_verification","challenge":"c-1"}';
my $res = post('slack', $body, $SENDER{slack}[1]->($body));
is("$res->{status} $res->{body}", '200 c-1', 'slack: url_verification');

my $token = $i->secret('meta-verify-token');
$res = $i->http(GET => '/in/meta?hub.mode=subscribe&hub.challenge=42'
    . "&hub.verify_token=$token");
is("$res->{status} $res->{body}", '200 42', 'meta: hub.challenge');
is($i->http(GET => '/in/meta?hub.mode=subscribe&hub.challenge=42'
    . '&hub.verify_token=x')->{status}, 403, 'meta: another token');

$body = '{"event":"endpoint.url_validation","payload":{"plainToken":"p-1"}}';
$res = post('zoom', $body, $SENDER{zoom}[1]->($body));
is($res->{body}, '{"plainToken":"p-1","encryptedToken":"'
    . hex256(zoom => 'p-1') . '"}', 'zoom: url_validation');

$res = $i->http(GET => '/in/x?crc_token=abc');
is($res->{body}, '{"response_token":"sha256=' . b64256(x => 'abc') . '"}',
    'x: crc_token');

for ([ '{"type":1,"id":"9"}', 200, '{"type":1}' ], [ '{"type":0}', 204, '' ]) {
    my ($ping, $status, $text) = @$_;
    $res = post('discord', $ping, $SENDER{discord}[1]->($ping));
    is("$res->{status} $res->{body}", "$status $text", "discord: $ping");
}

$res = $i->http(OPTIONS => '/in/cloudevents', { headers => {
    'webhook-request-origin' => 'events.example',
    'webhook-request-rate' => 120 } });
is(join(' ', $res->{status}, map { $res->{headers}{$_} // '-' }
    qw(webhook-allowed-origin webhook-allowed-rate)), '200 * *',
    'cloudevents: OPTIONS');

is($i->psql('select count(*) from interlock.requests'), $before,
    'no handshake is a request');
$i->check_sql;

done_testing();
