# Where a signature does not cover the body, the idempotency key comes from what
# is signed: who has seen a request can change the rest, and makes no new one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha1 hmac_sha256 hmac_sha256_hex);
use Interlock::Nginx;
use MIME::Base64 qw(encode_base64);
use Test::More;

my $hex = '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056';
my $gate = 'interlock zone=z; interlock_kind k; interlock_work_key w $id;'
    . 'fastcgi_pass backend;';
my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m;',
    server => <<"END");
        interlock_tenant demo;
        location = /items { interlock_source a; $gate
            interlock_verify adyen secret=secrets/adyen;
            interlock_json \$id /notificationItems/0/NotificationRequestItem/pspReference;
            interlock_json \$ok /notificationItems/0/NotificationRequestItem/success;
            interlock_idempotency_key "\$id \$ok"; }
        location = /split { interlock_source b; $gate
            interlock_verify adyen secret=secrets/adyen signature=items;
            interlock_split /notificationItems;
            interlock_json \$id /NotificationRequestItem/pspReference;
            interlock_idempotency_key \$id; }
        location = /header { interlock_source c; fastcgi_pass backend;
            interlock zone=z; interlock_kind k;
            interlock_verify adyen secret=secrets/adyen signature=header;
            interlock_idempotency_key "" body; }
        location = /mailgun { interlock_source d; $gate
            interlock_verify mailgun secret=secrets/text;
            interlock_json \$id /signature/token;
            interlock_idempotency_key \$id; }
        location = /twilio { interlock_source e; fastcgi_pass backend;
            interlock zone=z; interlock_kind k;
            interlock_verify twilio secret=secrets/text url=https://a.test;
            interlock_idempotency_key \$http_x_twilio_signature; }
END
$t->secret(adyen => "$hex\n");
$t->secret(text => "s3cret\n");
$t->secret(sns => "arn:aws:sns:us-east-1:123456789012:orders\n");
$t->start;

# Requests that are all taken are all the same one: the edge answers them, or
# they reach the backend under the first one's key.
sub same {
    my ($name, $path, $want, $headers, @bodies) = @_;

    $t->forget_seen;
    for my $body (@bodies) {
        is($t->http(POST => $path, { body => $body, headers => $headers })
            ->{status}, $want, "$name: taken");
    }
    my @seen = $t->seen;
    ok(@seen >= 1, "$name: at the backend");
    my %keys = map { $_->{params}{INTERLOCK_IDEMPOTENCY_KEY} => 1 } @seen;
    is(scalar keys %keys, 1, "$name: one key for all of them");
}

sub none {
    my ($name, $path, $headers, @bodies) = @_;

    $t->forget_seen;
    for my $body (@bodies) {
        my $res = $t->http(POST => $path, { body => $body,
            headers => $headers });
        is($res->{status}, 401, "$name: 401");
    }
    is(scalar $t->seen, 0, "$name: nothing at the backend");
}

sub adyen {
    my ($more, $psp, $reference) = @_;
    my $sig = encode_base64(hmac_sha256('P1::M:R:1:EUR:REFUND:true',
        pack 'H*', $hex), '');
    return '{"live":"true","notificationItems":[{"NotificationRequestItem":{'
        . "\"additionalData\":{\"hmacSignature\":\"$sig\"$more},"
        . '"amount":{"currency":"EUR","value":1},"eventCode":"REFUND",'
        . '"merchantAccountCode":"M","merchantReference":"'
        . ($reference // 'R') . '","pspReference":"' . ($psp // 'P1')
        . '","success":"true"}}]}';
}

my @changed = (adyen(''), adyen(',"x":"1"'), adyen(',"x":"2"'),
    adyen('') =~ s/"true",/"false",/r, adyen('') . ' ',
    adyen('') =~ s/"success":"true"/"success":true,"reason":"x"/r,
    adyen('', '\\u00501'));
same('a notification', '/items', 200, [], @changed);
none('another notification', '/items', [], adyen('', 'P2'),
    adyen('', undef, 'S'), adyen('') =~ s/:"true"}}/:"false"}}/r);
none('a notification where the header signs', '/header', [], @changed);
my $signed = encode_base64(hmac_sha256('P1::M:R:1:EUR:REFUND:true',
    pack 'H*', $hex), '');
none('... with its signature in the header', '/header',
    [ HmacSignature => $signed ], @changed, 'P1::M:R:1:EUR:REFUND:true');
my $platform = '{"type":"balance","id":"1"}';
my @header = (HmacSignature => encode_base64(hmac_sha256($platform,
    pack 'H*', $hex), ''));
same('the body signed in the header', '/header', 200, \@header, $platform,
    $platform);
none('... changed', '/header', \@header, "$platform ");
none('... where the items are signed', '/items', \@header, $platform);

$t->forget_seen;
for my $body (@changed) {
    is($t->http(POST => '/split', { body => $body })->{status}, 200,
        'split: taken');
}
# (the list before the body ends with the keys of the last element)
is(join(' ', map { $_->{body} =~ /w:P1\W*(\w+)\{"live"/ } $t->seen),
    join(' ', ('P1') x @changed), 'split: one key');

my $at = time;
my $mail = "{\"signature\":{\"timestamp\":\"$at\",\"token\":\"tok\","
    . '"signature":"' . hmac_sha256_hex("${at}tok", 's3cret')
    . '"},"event-data":{"id":"1"}}';
same('mailgun', '/mailgun', 202, [], $mail, $mail =~ s/"1"/"2"/r, "$mail\n",
    $mail =~ s/([0-9a-f]{64})/uc $1/er, $mail =~ s/"tok"/"to\\u006b"/r);

my @twilio = ('X-Twilio-Signature' => encode_base64(hmac_sha1(
    'https://a.test/twilioA1B2', 's3cret'), ''),
    'Content-Type' => 'application/x-www-form-urlencoded');
same('twilio', '/twilio', 202, \@twilio, 'A=1&B=2', 'B=2&A=1', 'A=%31&B=2',
    'A1=B2', 'A1B2=', 'A=1&A=1&B=2');
$t->forget_seen;
is($t->http(POST => '/twilio', { body => 'A=1&B=2', headers => [ @twilio,
    'I-Twilio-Idempotency-Token' => 'other' ] })->{status}, 202,
    'twilio, another token: taken');
is(scalar $t->seen, 0, 'twilio, another token: answered as the first one');
none('twilio, another field', '/twilio', \@twilio, 'A=1&B=3');

# What would make a key of what is not signed is refused.
sub conf {
    my ($ok, $name, $location, $like) = @_;
    local $t->{http} = 'interlock_zone zone=z:1m;';
    local $t->{server} = "location /in/ {\n interlock_tenant demo;"
        . "interlock_source s; interlock zone=z; interlock_kind k;"
        . "fastcgi_pass backend;\n $location }";
    my ($code, $said) = $t->test_config;
    return is($code, 0, "good: $name") || diag($said) if $ok;
    ok($code != 0, "refused: $name");
    like($said, $like, '... says so');
    like($said, qr/nginx\.conf:\d+$/m, '... and where');
}

my %verify = (
    adyen => 'interlock_verify adyen secret=secrets/adyen;',
    mailgun => 'interlock_verify mailgun secret=secrets/text;',
    sns => 'interlock_verify sns secret=secrets/sns;',
    twilio => 'interlock_verify twilio secret=secrets/text;',
);
my $item = '/NotificationRequestItem';
for my $scheme (sort keys %verify) {
    conf(0, "$scheme, body", $verify{$scheme} . 'interlock_json $id /id;'
        . 'interlock_idempotency_key "" body;',
        qr/"interlock_idempotency_key" in location "\/in\/" must not be that of the "body": the signature of "interlock_verify $scheme" does not cover its bytes/);
}
for ([ mailgun => '/event-data/id' ], [ adyen => "$item/eventDate" ],
    [ sns => '/UnsubscribeURL' ])
{
    my ($scheme, $pointer) = @$_;
    conf(0, "$scheme, $pointer", $verify{$scheme} . "interlock_json \$Id"
        . " $pointer; interlock_idempotency_key \"x \${iD}\";",
        qr/"interlock_idempotency_key x \$\{iD\}" in location "\/in\/": the signature of "interlock_verify $scheme" does not cover "\Q$pointer\E"/);
    conf(0, "$scheme, a header", $verify{$scheme}
        . 'interlock_idempotency_key $HTTP_x;', qr/does not cover "http_x"/);
    conf(0, "$scheme, an argument", $verify{$scheme}
        . 'interlock_idempotency_key $arg_x;', qr/does not cover "arg_x"/);
}
conf(0, 'adyen, both', 'interlock_verify adyen secret=secrets/adyen'
    . ' signature=both;', qr/invalid parameter "signature=both" in "interlock_verify": signature must be items or header/);
conf(0, 'signature= of another scheme', 'interlock_verify github'
    . ' secret=secrets/text signature=header;', qr/no argument "signature"/);
conf(1, 'mailgun', $verify{mailgun} . 'interlock_json $id /signature/token;'
    . 'interlock_idempotency_key $id;');
conf(1, 'sns', $verify{sns} . 'interlock_json $id /MessageId;'
    . 'interlock_idempotency_key $id;');
conf(1, 'adyen, split', $verify{adyen} . "interlock_json \$a $item/pspReference;"
    . "interlock_json \$b $item/eventCode; interlock_json \$c $item/success;"
    . 'interlock_split /notificationItems; interlock_work_key w $a;'
    . 'interlock_idempotency_key "$a $b $c";');
conf(1, 'adyen, in the header', 'interlock_verify adyen secret=secrets/adyen'
    . ' signature=header; interlock_idempotency_key $http_x body;');
conf(1, 'twilio', $verify{twilio} . 'interlock_idempotency_key'
    . ' $http_i_twilio_idempotency_token;');

$t->finish;
done_testing();
