# interlock verify: published vectors, and why something is not valid.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha1_hex hmac_sha256 hmac_sha256_hex);
use File::Temp qw(tempdir);
use IO::Compress::Gzip qw(gzip);
use JSON::PP;
use MIME::Base64 qw(encode_base64);
use Test::More;

use Interlock::Test;

my $top = $Interlock::Test::TOP;
my $interlock = ($ENV{INTERLOCK_BUILD} // "$top/build") . '/interlock';
$interlock = "$top/$interlock" unless $interlock =~ m{^/};
my $tmp = tempdir(CLEANUP => 1);

sub verify {
    my ($secret, $body, @args) = @_;

    Interlock::Test::spew("$tmp/secret", "$secret\n");
    Interlock::Test::spew("$tmp/body", $body);
    my ($code, $out, $err) = Interlock::Test::run([ $interlock, 'verify',
        '--secret-file', "$tmp/secret", '--body', "$tmp/body", @args ]);
    return { code => $code, out => $out, err => $err };
}

sub valid {
    my ($r, $what) = @_;

    is("$r->{code} $r->{out}", "0 valid\n", $what) or diag $r->{err};
}

sub invalid {
    my ($r, $why, $what) = @_;

    is($r->{code}, 1, $what) or diag $r->{err};
    like($r->{out}, $why, "$what: why");
}

# Published: docs.github.com, "Validating webhook deliveries".
my @github = ('--scheme', 'github', '--header', 'X-Hub-Signature-256: sha256='
    . '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17');
my @gh = ("It's a Secret to Everybody", 'Hello, World!');
valid(verify(@gh, @github), 'GitHub\'s published example');
valid(verify("old one\n$gh[0]", $gh[1], @github), 'the second secret');
invalid(verify($gh[0], 'Hello, World?', @github), qr/no secret fits/,
    'another body');
invalid(verify('another', $gh[1], @github), qr/401 signature-invalid/,
    'another secret');
invalid(verify(@gh, '--scheme', 'github'), qr/header/, 'no header');
invalid(verify(@gh, @github, @github[ 2, 3 ]), qr/more than once/,
    'two headers');
invalid(verify(@gh, '--scheme', 'github', '--header',
    'x-hub-signature-256: sha256=757107'), qr/malformed/, 'a short one');
invalid(verify($gh[0], "$gh[1]\n", @github), qr/without its last newline/,
    'a newline too many is recognized');
invalid(verify($gh[0], "\xef\xbb\xbf$gh[1]", @github), qr/byte order mark/,
    'a byte order mark, too');

# Published: standard-webhooks/standard-webhooks.
my @std = ('--scheme', 'standard', '--header',
    'webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek', '--header',
    'webhook-timestamp: 1614265330', '--header',
    'webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
my @sw = ('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', '{"test": 2432232314}');
valid(verify(@sw, @std, '--at', 1614265330), 'Standard Webhooks\' example');
valid(verify(@sw, @std, '--at', '2021-02-25T15:02:10Z'), 'a time in words');
valid(verify(@sw, @std, '--at', 1614265330 + 300), '300 s later');
invalid(verify(@sw, @std, '--at', 1614265330 + 301),
    qr/old.*401 timestamp-out-of-range/s, '301 s later');
invalid(verify(@sw, @std, '--at', 1614265330 - 301),
    qr/future.*401 timestamp-out-of-range/s, '301 s before');
valid(verify(@sw, @std, '--at', 1614265330 + 900, '--tolerance', 900),
    'a tolerance');
invalid(verify(@sw, @std), qr/timestamp-out-of-range/, 'now');
is(verify(@sw, @std, '--at', 'yesterday')->{code}, 64, 'no time at all');

# Published: svix/svix-webhooks, an Ed25519 signature and its public key.
my @v1a = ('whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=', $sw[1]);
my @v1a_args = (@std[ 0 .. 5 ], '--header', 'webhook-signature: v1a,'
    . 'hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVL'
    . 'Po3mNl8EM+m7TBAg==', '--at', 1614265330);
valid(verify(@v1a, @v1a_args), 'Svix\' asymmetric example');
invalid(verify($v1a[0], "$v1a[1] ", @v1a_args), qr/no secret fits/,
    'another body of that');

# Published: Slack, "Verifying requests from Slack", by the general scheme.
valid(verify('8f742231b10e8888abcd99yyyzzz85a5',
    'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow'
    . '&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name='
    . 'roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2F'
    . 'hooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F'
    . '96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.'
    . '803a0bc887a14d10d2c447fce8b6703c',
    '--scheme', 'hmac', 'header=X-Slack-Signature', 'prefix=v0=',
    'signed=v0:{timestamp:X-Slack-Request-Timestamp}:{body}',
    '--header', 'X-Slack-Request-Timestamp: 1531420618',
    '--header', 'X-Slack-Signature: v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d'
    . '21a10bd27519666489c69b503', '--at', 1531420618), 'Slack\'s example');

# Published: Square, a scheme that signs the URL.
my @square = ('--scheme', 'hmac', 'header=x-square-hmacsha256-signature',
    'encoding=base64', 'signed={url}{body}', '--header',
    'x-square-hmacsha256-signature: '
    . '2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og=');
my @sq = ('asdf1234', '{"hello":"world"}');
valid(verify(@sq, @square, '--url', 'https://example.com/webhook'),
    'Square\'s example');
valid(verify(@sq, @square, 'url=https://example.com/webhook'),
    'the same, as the directive writes it');
invalid(verify(@sq, @square, '--url', 'https://example.com/webhook/'),
    qr/URL/, 'another URL');

# Stripe, made here
{
    my $body = '{"id":"evt_1"}';
    my $sig = hmac_sha256_hex("1700000000.$body", 'whsec_abc');
    my @stripe = ('--scheme', 'stripe', '--at', 1700000000);
    valid(verify('whsec_abc', $body, @stripe, '--header',
        "Stripe-Signature: t=1700000000,v1=$sig,v0=00"), 'Stripe');
    invalid(verify('whsec_abc', $body, @stripe, '--header',
        "Stripe-Signature: t=1700000001,v1=$sig"), qr/no secret fits/,
        'Stripe with another time');
}

# Every scheme of a provider, with published examples where there are any and
# else made here: one that is valid, and the same with another body.

my $token = 'e0b5477167110d68991efc6b9f89f0a11066af27834600e123';
my $json = '{"id":7,"name":"\u00e4\/b"}';
my $linear = '{"action":"create","webhookTimestamp":1700000000123}';
my $form = 'application/x-www-form-urlencoded';
my $adyen = '{"notificationItems":[{"NotificationRequestItem":{'
    . '"additionalData":{"hmacSignature":'
    . '"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},'
    . '"amount":{"currency":"EUR","value":1130},"eventCode":"AUTHORISATION",'
    . '"merchantAccountCode":"TestMerchant",'
    . '"merchantReference":"TestPayment-1407325143704",'
    . '"pspReference":"7914073381342284","success":"true"}}]}';

sub base64 { return encode_base64($_[0], '') }

my %schemes = (
    slack => [ 's', $json, 'x-slack-request-timestamp: 1700000000',
        'X-Slack-Signature: v0='
            . hmac_sha256_hex("v0:1700000000:$json", 's') ],
    zoom => [ 's', $json, 'x-zm-request-timestamp: 1700000000',
        'x-zm-signature: v0=' . hmac_sha256_hex("v0:1700000000:$json", 's') ],
    paddle => [ 's', $json, 'Paddle-Signature: ts=1700000000;h1=00;h1='
            . hmac_sha256_hex("1700000000:$json", 's') ],
    shopify => [ 's', $json,
        'X-Shopify-Hmac-Sha256: ' . base64(hmac_sha256($json, 's')) ],
    meta => [ 's', $json,
        'X-Hub-Signature-256: sha256=' . hmac_sha256_hex($json, 's') ],
    x => [ 's', $json, 'x-twitter-webhooks-signature: sha256='
            . base64(hmac_sha256($json, 's')) ],
    intercom => [ 's', $json,
        'X-Hub-Signature: sha1=' . hmac_sha1_hex($json, 's') ],
    linear => [ 's', $linear,
        'Linear-Signature: ' . hmac_sha256_hex($linear, 's') ],
    square => [ 'asdf1234', '{"hello":"world"}',
        'x-square-hmacsha256-signature: '
            . '2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og=',
        '--url', 'https://example.com/webhook' ],
    hubspot => [ 'yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy',
        "{'example_field':'example_value'}",
        'X-HubSpot-Request-Timestamp: 1700000300000',
        'X-HubSpot-Signature-v3: '
            . 'RnbPH7+UMKVkbV32P8bz450N4M56aPmcru1+D3kSDtw=',
        '--url', 'https://www.example.com/webhook_uri' ],
    twilio => [ '12345', 'CallSid=CA1234567890ABCDE&Caller=%2B14158675309'
            . '&Digits=1234&From=%2B14158675309&To=%2B18005551212',
        'X-Twilio-Signature: RSOYDt4T1cUTdK1PDd93/VVr8B8=',
        "Content-Type: $form",
        '--url', 'https://mycompany.com/myapp.php?foo=1&bar=2' ],
    mailgun => [ 's', '{"signature":{"timestamp":"1700000000","token":"'
            . "$token\",\"signature\":\""
            . hmac_sha256_hex("1700000000$token", 's') . '"}}' ],
    adyen => [ '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6'
            . 'BA056', $adyen ],
    gitlab => [ 's', $json, 'X-Gitlab-Token: s' ],
    discord => [ 'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f7'
            . '07511a', '{"type":1}', 'X-Signature-Timestamp: 1784883600',
        'X-Signature-Ed25519: c60072f74cdad5150a2a0c1036bfd9d6b058a6f691c336e'
            . '99075e69594549432b942a570e3c1407fb31e66eaba32836e264733b382845'
            . 'd69c5f2f9ee92425902', '--at', 1784883600 ],
);
my %request;

for my $scheme (sort keys %schemes) {
    my ($secret, $body, @rest) = @{ $schemes{$scheme} };
    my @args = ('--scheme', $scheme, '--at', 1700000000);

    while (@rest && $rest[0] !~ /^--/) {
        push @args, '--header', shift @rest;
    }
    push @args, @rest;
    $request{$scheme} = [ $secret, $body, @args ];

    valid(verify($secret, $body, @args), $scheme);
    my $new = $scheme eq 'adyen' ? '0' x 32 : $scheme eq 'discord' ? '0' x 64
        : 'new one';
    valid(verify("$new\n$secret", $body, @args),
        "$scheme, with the old secret");

    # a token covers no body
    next if $scheme eq 'gitlab';
    my $other = $body;
    $other =~ s/1130/1131/ || $other =~ s/1700000000/1700000001/
        || $other =~ s/[a-z]/z/;
    invalid(verify($secret, $other, @args), qr/no secret fits/,
        "$scheme, another body");
}

# Adyen signs in two ways; one is asked for

{
    my $key = '00' x 16;
    my $body = '{"type":"balance"}';
    my @args = ('--scheme', 'adyen', '--header', 'HmacSignature: '
        . base64(hmac_sha256($body, "\0" x 16)));
    valid(verify($key, $body, @args, 'signature=header'), 'signature=header');
    invalid(verify($key, $body, @args), qr/signature=header/,
        'the header where the items are signed');
    invalid(verify($request{adyen}[0], $adyen, @args, 'signature=header'),
        qr/no secret fits/, 'the items where the header signs');
}

# hints

{
    my ($secret, $body, @args) = @{ $request{square} };
    pop @args;
    invalid(verify($secret, $body, @args, 'http://example.com/webhook'),
        qr/https for http/, 'http for https');
    invalid(verify($secret, $body, @args, 'https://example.com/webhook/'),
        qr/slash more or less/, 'a slash too many');
    invalid(verify($secret, $body, @args, 'https://example.com/webhook?a=1'),
        qr/without its query/, 'a query too many');
    invalid(verify($secret, "$body\n", @args, 'https://example.com/webhook'),
        qr/without its last newline/, 'a newline too many');
    pop @args;
    invalid(verify($secret, $body, @args), qr/--url/, 'no URL');

    ($secret, $body, @args) = @{ $request{twilio} };
    invalid(verify($secret, $body, grep { !/^Content-Type/
        } map { $_ eq "Content-Type: $form" ? 'X-A: b' : $_ } @args),
        qr/Content-Type/, 'a form that is not said to be one');

    invalid(verify('s', '{}', '--scheme', 'mailgun'), qr/lacks a signature/,
        'a body without a signature');
}

# Which header is not as it should be, and how it should be; for each scheme the
# last header is left out, and then is one that says nothing

{
    my %form = (
        slack => 'X-Slack-Signature must be "v0=" and 64 hex digits',
        zoom => 'x-zm-signature must be "v0=" and 64 hex digits',
        shopify => 'X-Shopify-Hmac-Sha256 (or Shopify-Hmac-Sha256) must be'
            . ' base64 of 32 bytes, 44 characters',
        meta => 'X-Hub-Signature-256 must be "sha256=" and 64 hex digits',
        intercom => 'X-Hub-Signature must be "sha1=" and 40 hex digits',
        linear => 'Linear-Signature must be 64 hex digits',
        x => 'x-twitter-webhooks-signature must be "sha256=" and base64 of 32'
            . ' bytes',
        square => 'x-square-hmacsha256-signature must be base64 of 32 bytes',
        hubspot => 'X-HubSpot-Signature-v3 must be base64 of 32 bytes',
        twilio => 'X-Twilio-Signature must be base64 of 20 bytes, 28',
        paddle => 'Paddle-Signature must be "ts=" and Unix seconds',
        discord => 'X-Signature-Ed25519 must be 128 hex digits',
        gitlab => 'X-Gitlab-Token must be the secret',
    );

    for my $scheme (sort grep { !/^(?:adyen|mailgun)$/ } keys %request) {
        my ($secret, $body, @args) = @{ $request{$scheme} };
        my ($name) = ($form{$scheme} // 'no form') =~ /^(\S+)/;
        my ($at) = grep { $args[$_] =~ /^\Q$name\E:/i } 0 .. $#args;
        ok(defined $at, "$scheme has its header") or next;
        my $is = quotemeta($form{$scheme});
        invalid(verify($secret, $body, @args[ 0 .. $at - 2 ],
            @args[ $at + 1 .. $#args ]), qr/header is missing\nhint: $is.*: it is missing/,
            "$scheme, no header");
        invalid(verify($secret, $body, @args, '--header', $args[$at]),
            qr/more than once\nhint: $is.*: it is there more than once/,
            "$scheme, two headers");
        # (a list, and the secret, are looked into by the scheme alone)
        $args[$at] = "$name: xyz";
        invalid(verify($secret, $body, @args),
            $scheme eq 'gitlab' ? qr/no secret fits/
            : qr/malformed\nhint: $is/, "$scheme, another form");
    }

    for ([ 'sha256=' . 'z' x 64, 'has another character' ],
        [ '7' x 64, 'does not begin with that' ],
        [ 'sha256=' . '7' x 63, 'is of another length' ],
        [ '', 'does not begin with that' ])
    {
        invalid(verify(@gh, '--scheme', 'github', '--header',
            "X-Hub-Signature-256: $_->[0]"), qr/hint: X-Hub-Signature-256 must be "sha256=" and 64 hex digits: it $_->[1]/,
            "\"$_->[0]\"");
    }

    my ($secret, $body, @args) = @{ $request{slack} };
    s/(Timestamp: )\d+/${1}12:00/i for @args;
    invalid(verify($secret, $body, @args), qr/hint: X-Slack-Request-Timestamp must be a time in Unix seconds: it is not a number/,
        'a time of another form');
    my @own = ('--scheme', 'hmac', 'header=X-Sig', 'prefix=s=',
        'algorithm=sha512', 'encoding=base64', '--header');
    invalid(verify('s', '{}', @own, 'X-Sig: AAAA'),
        qr/hint: x-sig must be "s=" and base64 of 64 bytes, 88 characters: it does not begin/,
        'a header of our own');
    invalid(verify('s', '{}', @own, "X-Sig: s=AAAA"), qr/another length/,
        'of our own, too short');
    invalid(verify('topsecret', '{}', '--scheme', 'token', 'header=X-Key',
        'prefix=Key ', '--header', 'X-Key: topsecret'),
        qr/hint: x-key must be "Key " and the secret: it does not begin with that/,
        'a token without its prefix');
    invalid(verify(@sw, '--scheme', 'standard', '--at', 1614265330, @std[ 2 .. 5 ],
        '--header', 'webhook-signature: g0hM9SsE+OTPJTGt'),
        qr/malformed\nhint: .*webhook-signature \(or svix-signature\) must be "v1," and base64/,
        'a list without its version');
    invalid(verify('MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/'
        . '7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==',
        '[]', '--scheme', 'sendgrid'),
        qr/hint: X-Twilio-Email-Event-Webhook-Signature must be base64 of an ECDSA/,
        'one that interlockd verifies');
}

# compressed bodies: some sign what they inflate to, some the bytes

{
    my $text = '{"a":1}';
    gzip(\$text => \my $gzip);
    my @args = ('--scheme', 'meta', '--header', 'X-Hub-Signature-256: sha256='
        . hmac_sha256_hex($text, 's'));
    my @gzip = ('--header', 'Content-Encoding: gzip');
    valid(verify('s', $gzip, @args, @gzip, 'content=gunzip'),
        'what the body inflates to');
    valid(verify('s', $text, @args, 'content=gunzip'), 'a plain one there');
    invalid(verify('s', $gzip, @args, @gzip), qr/needs content=gunzip/,
        'a compressed body as it came');
    invalid(verify('s', $gzip, '--scheme', 'meta', @gzip, 'content=gunzip',
        '--header', 'X-Hub-Signature-256: sha256='
        . hmac_sha256_hex($gzip, 's')), qr/without content=gunzip/,
        'one that was signed as it came');
    my $r = verify('s', "$gzip ", @args, @gzip, 'content=gunzip');
    is($r->{code}, 1, 'something behind it');
    like($r->{err}, qr/400 bad-request/, 'what the edge says');
    $r = verify('s', $gzip, @args, '--header', 'Content-Encoding: br',
        'content=gunzip');
    is($r->{code}, 1, 'another encoding');
    like($r->{err}, qr/415 encoding-unsupported/, 'what the edge says to it');
    is(verify('s', $text, @args, 'content=br')->{code}, 64, 'no such content');
}

# how the secret file is written

{
    my @slack = @{ $request{slack} }[ 1 .. $#{ $request{slack} } ];
    valid(verify('73', @slack, 'encoding=hex'), 'a secret in hex');
    valid(verify('cw==', @slack, 'encoding=base64'), 'a secret in base64');
    is(verify('7', @slack, 'encoding=hex')->{code}, 78, 'half a digit');
    is(verify('s', @slack, 'encoding=raw')->{code}, 64,
        'an encoding that is none');
    valid(verify('s', @slack, 'verify_token=file'),
        'arguments for something else are let be');
}

# as JSON

{
    my $r = verify(@gh, @github, '--json');
    is_deeply(decode_json($r->{out}), { valid => JSON::PP::true }, '--json');
    $r = verify('another', $gh[1], @github, '--json');
    my $doc = decode_json($r->{out});
    is($r->{code}, 1, '--json of an invalid one');
    is($doc->{problem}, 'signature-invalid', 'the problem');
    is($doc->{status}, 401, 'the status');
    ok($doc->{why} && $doc->{hint}, 'why, and a hint');
}

# secret files

is(verify('', $gh[1], @github)->{code}, 78, 'an empty secret file');
is(verify('v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'x', @std)->{code}, 78,
    'a secret pasted with its version');
{
    my $r = verify('whsec_!!!', 'x', @std);
    is($r->{code}, 78, 'a secret that cannot be read');
    unlike($r->{err}, qr/!!!/, 'is not shown');
}

done_testing;
