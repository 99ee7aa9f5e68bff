# The providers' schemes at the edge: what each signs is accepted and handed on
# unchanged, whether the body is in memory, in a file or in chunks; what is
# changed on the way, repeated or out of time is not.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha1 hmac_sha1_hex hmac_sha256 hmac_sha256_hex
    sha256_hex);
use Interlock::Nginx;
use MIME::Base64 qw(encode_base64);
use Test::More;

my $hex = '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056';
my %url = map { $_ => ' url=https://hooks.test' } qw(hubspot square twilio);
my %secret = (adyen => $hex);
my @schemes = qw(adyen discord gitlab hubspot intercom linear mailgun meta
    paddle shopify slack square twilio x zoom);

# Where the signature is in the body it covers these only.
my %signed = (adyen => '/notificationItems/0/NotificationRequestItem'
    . '/pspReference', mailgun => '/signature/token');

my $locations = join '', map {
    my $url = $url{$_} // '';
    "location /$_ { interlock zone=z; interlock_kind k; interlock_source $_;"
        . ' fastcgi_pass backend; ' . ($signed{$_}
        ? "interlock_json \$id $signed{$_}; interlock_idempotency_key \$id;"
        : 'interlock_idempotency_key $http_x_id;')
        . " interlock_verify $_ secret=secrets/$_$url; }\n"
} @schemes;

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m; client_body_buffer_size 16k;',
    server => <<"END");
        interlock_tenant demo;
        $locations
        location /bare/twilio { interlock zone=z; interlock_kind k;
            interlock_source bare; fastcgi_pass backend;
            interlock_idempotency_key \$http_x_id;
            interlock_verify twilio secret=secrets/twilio; }
        location /text { interlock zone=z; interlock_kind k;
            interlock_source text; fastcgi_pass backend;
            interlock_idempotency_key \$http_x_id;
            interlock_verify slack secret=secrets/hex encoding=hex; }
        location = /status { interlock_status; }
END

# A key pair by OpenSSL: another implementation than libsodium's.
my $dir = $t->dir;
system('openssl', 'genpkey', '-algorithm', 'ed25519', '-out', "$dir/key.pem")
    == 0 or die 'openssl genpkey';
my $der = `openssl pkey -in '$dir/key.pem' -pubout -outform DER`;
$secret{discord} = unpack 'H*', substr $der, -32;

$t->secret($_ => ($secret{$_} // "the secret of $_") . "\n") for @schemes;
$t->secret(hex => unpack('H*', 'the secret of slack') . "\n");
$t->start;

sub ed25519 {
    my ($text) = @_;

    $t->write_file('message', $text);
    my $sig = `openssl pkeyutl -sign -inkey '$dir/key.pem' -rawin -in \\
        '$dir/message'`;
    length $sig == 64 or die 'openssl pkeyutl';
    return unpack 'H*', $sig;
}

sub b64 { return encode_base64($_[0], '') }
sub key { return 'the secret of ' . $_[0] }

# Each: the headers for a body, at a time.
my %sign = (
    discord => sub { my ($body, $at) = @_;
        return ('X-Signature-Ed25519' => ed25519("$at$body"),
            'X-Signature-Timestamp' => $at) },
    gitlab => sub { return ('X-Gitlab-Token' => key('gitlab')) },
    hubspot => sub { my ($body, $at, $path) = @_;
        return ('X-HubSpot-Signature-v3' => b64(hmac_sha256(
            "POSThttps://hooks.test$path$body${at}123", key('hubspot'))),
            'X-HubSpot-Request-Timestamp' => "${at}123") },
    intercom => sub { return ('X-Hub-Signature' => 'sha1='
        . hmac_sha1_hex($_[0], key('intercom'))) },
    linear => sub { return ('Linear-Signature' =>
        hmac_sha256_hex($_[0], key('linear'))) },
    meta => sub { return ('X-Hub-Signature-256' => 'sha256='
        . hmac_sha256_hex($_[0], key('meta'))) },
    paddle => sub { my ($body, $at) = @_;
        return ('Paddle-Signature' => "ts=$at;h1="
            . hmac_sha256_hex("$at:$body", key('paddle'))) },
    shopify => sub { return ('X-Shopify-Hmac-Sha256' =>
        b64(hmac_sha256($_[0], key('shopify')))) },
    slack => sub { my ($body, $at) = @_;
        return ('X-Slack-Signature' => 'v0='
            . hmac_sha256_hex("v0:$at:$body", key('slack')),
            'X-Slack-Request-Timestamp' => $at) },
    square => sub { my ($body, $at, $path) = @_;
        return ('x-square-hmacsha256-signature' => b64(hmac_sha256(
            "https://hooks.test$path$body", key('square')))) },
    twilio => sub { my ($body, $at, $path, $base) = @_;
        $base //= 'https://hooks.test';
        my ($text) = $body =~ /^Body=(.*)$/s or die;
        return ('X-Twilio-Signature' => b64(hmac_sha1(
            "$base${path}Body$text", key('twilio'))),
            'Content-Type' => 'application/x-www-form-urlencoded') },
    x => sub { return ('x-twitter-webhooks-signature' => 'sha256='
        . b64(hmac_sha256($_[0], key('x')))) },
    zoom => sub { my ($body, $at) = @_;
        return ('x-zm-signature' => 'v0='
            . hmac_sha256_hex("v0:$at:$body", key('zoom')),
            'x-zm-request-timestamp' => $at) },
);

# The bodies that a scheme wants, with text in them; signed, where the
# signature is in them.
sub body_of {
    my ($scheme, $text, $at) = @_;

    return "Body=$text" if $scheme eq 'twilio';
    return qq({"webhookTimestamp":${at}999,"text":"$text"})
        if $scheme eq 'linear';
    if ($scheme eq 'mailgun') {
        my $token = sha256_hex($text);
        my $sig = hmac_sha256_hex("$at$token", key('mailgun'));
        return qq({"signature":{"timestamp":"$at","token":"$token",)
            . qq("signature":"$sig"},"event-data":{"text":"$text"}});
    }
    if ($scheme eq 'adyen') {
        my $id = substr sha256_hex($text), 0, 16;
        my $sig = b64(hmac_sha256("$id\::Shop:a:b:1130:EUR:CAPTURE:true",
            pack 'H*', $hex));
        return qq({"notificationItems":[{"NotificationRequestItem":{)
            . qq("additionalData":{"hmacSignature":"$sig"},)
            . qq("amount":{"currency":"EUR","value":1130},)
            . qq("eventCode":"CAPTURE","merchantAccountCode":"Shop",)
            . qq("merchantReference":"a:b","pspReference":"$id",)
            . qq("reason":"$text","success":"true"}}]});
    }
    return qq({"type":2,"text":"$text"});
}

my $n = 0;

sub post {
    my ($path, $body, $opt, @h) = @_;
    return $t->http(POST => $path, { body => $body, %$opt,
        headers => [ 'X-Id' => 'i' . $n++, @h ] });
}

sub accepted {
    my ($name, $path, $body, $opt, @h) = @_;

    my $before = $t->seen;
    my $res = post($path, $body, $opt, @h);
    like($res->{status}, qr/^20[0124]$/, "$name: accepted")
        or diag($res->{body});
    my @seen = $t->seen;
    is(scalar @seen, $before + 1, "$name: at the backend");
    is($seen[-1]{digest}, sha256_hex($body), "$name: byte for byte");
    return $seen[-1]{params};
}

sub refused {
    my ($name, $path, $problem, $body, @h) = @_;

    my $before = $t->seen;
    my $zone = $t->status;
    my $res = post($path, $body, {}, @h);
    is($res->{status}, 401, "$name: 401");
    is(Interlock::Nginx::problem($res), $problem, "$name: $problem");
    is(scalar $t->seen, $before, "$name: nothing reached the backend");
    my $now = $t->status;
    is($now->{in_flight} + $now->{done}, $zone->{in_flight} + $zone->{done},
        "$name: no trace in the zone");
}

my @texts = (
    [ 'a small body', 'a' ],
    [ 'bytes of every kind', "\xc3\xa9\xf0\x9f\x98\x80 \\/ \\u00e9" ],
    [ 'in chunks', 'b' x 3000, chunked => 1000 ],
    [ 'one less than the buffer', 'size', size => 16383 ],
    [ 'in a temporary file', 'c' x 200_000 ],
    [ 'in a temporary file, in chunks', 'd' x 100_000, chunked => 4096 ],
);

for my $scheme (@schemes) {
    my $path = "/$scheme/a%20b//c?d=%2f&e";
    my $in_body = !$sign{$scheme};
    $t->forget_seen;
    my $sign = $sign{$scheme} // sub { () };

    for my $row (@texts) {
        my ($what, $text, %opt) = @$row;
        my $size = delete $opt{size};
        my $at = time;

        # the text is made as long as the body has to be
        $text = 'e' x ($size - length body_of($scheme, '', $at)) if $size;
        my $body = body_of($scheme, $text, $at);
        my $params = accepted("$scheme, $what", $path, $body, \%opt,
            $sign->($body, $at, $path));
        is($params->{INTERLOCK_VERIFIED}, $scheme, "$scheme, $what: is told")
            if $text eq 'a';
    }

    my $at = time;
    my $body = body_of($scheme, 'f', $at);
    my @h = $sign->($body, $at, $path);

    if ($in_body) {
        (my $other = $body) =~ s/("\w*[sS]ignature":")[^"]/$1A/;
        refused("$scheme, another signature", $path, 'signature-invalid',
            $other);
        refused("$scheme, no body", $path, 'signature-invalid', '');
        refused("$scheme, another body", $path, 'signature-invalid', '{}');

    } else {
        refused("$scheme, no header", $path, 'signature-invalid', $body);
        refused("$scheme, two headers", $path, 'signature-invalid', $body, @h,
            $h[0], $h[1]);
        refused("$scheme, cut short", $path, 'signature-invalid', $body,
            $h[0], substr($h[1], 0, -1), @h[ 2 .. $#h ]);
        refused("$scheme, something behind", $path, 'signature-invalid',
            $body, $h[0], "$h[1]0", @h[ 2 .. $#h ]);
        refused("$scheme, another body", $path, 'signature-invalid',
            "$body\n", @h) if $scheme ne 'gitlab';
    }

    for my $off (-400, 400) {
        my $then = time + $off;
        my $late = body_of($scheme, "g$off", $then);
        my @late = $sign->($late, $then, $path);
        next unless "@late" =~ /$then/ || $late =~ /$then/;
        refused("$scheme, $off s", $path, 'timestamp-out-of-range', $late,
            @late);
    }

    refused("$scheme, another query", "$path&f", 'signature-invalid', $body,
        @h) if $url{$scheme};
}

# URLs: what nginx takes from the request, with or without the port
{
    my $path = '/bare/twilio?a=%41';
    accepted('twilio, the URL of the request', $path, 'Body=h', {},
        $sign{twilio}->('Body=h', 0, $path, 'http://localhost'));
    accepted('twilio, signed with the port', $path, 'Body=i', {},
        $sign{twilio}->('Body=i', 0, $path, 'http://localhost:80'));
    refused('twilio, signed with another port', $path, 'signature-invalid',
        'Body=j', $sign{twilio}->('Body=j', 0, $path, 'http://localhost:81'));
    refused('twilio, signed for another host', $path, 'signature-invalid',
        'Body=k', $sign{twilio}->('Body=k', 0, $path, 'http://other'));
    my @h = $sign{twilio}->('Body=l', 0, $path, 'http://localhost');
    refused('twilio, not a form', $path, 'signature-invalid', 'Body=l',
        @h[ 0, 1 ], 'Content-Type' => 'text/plain');
}

# what Twilio sends as JSON has its hash in the URL
{
    my $body = '{"a":1}';
    my $path = '/twilio?bodySHA256=' . sha256_hex($body);
    my @h = ('X-Twilio-Signature' => b64(hmac_sha1(
        "https://hooks.test$path", key('twilio'))),
        'Content-Type' => 'application/json');
    accepted('twilio, JSON', $path, $body, {}, @h);
    refused('twilio, other JSON', $path, 'signature-invalid', '{"a":2}', @h);
}

# the file in another encoding
my $at = time;
accepted('a secret in hex', '/text', 'm', {}, $sign{slack}->('m', $at));

# GitLab's token is the secret: the backend is told not to keep it
is(accepted('gitlab', '/gitlab', '{}', {}, $sign{gitlab}->())
    ->{INTERLOCK_SECRET_HEADER}, 'x-gitlab-token', 'gitlab: which header it is');

unlike($t->error_log, qr/the secret of|\Q$hex\E/i, 'no secret in the log');

$t->finish;
done_testing();
