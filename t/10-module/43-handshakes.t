# Handshakes are answered at the edge, make no request to the backend and leave
# nothing in the zone; and what was taken is acknowledged as its provider wants.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256 hmac_sha256_hex);
use Interlock::Nginx;
use MIME::Base64 qw(encode_base64);
use Test::More;

my $gate = 'interlock zone=z; interlock_kind k; fastcgi_pass backend;'
    . 'interlock_idempotency_key $http_x_id body;';

# (Adyen signs no more than this in a notification.)
my $item = 'interlock zone=z; interlock_kind k; fastcgi_pass backend;'
    . 'interlock_json $psp /notificationItems/0/NotificationRequestItem'
    . '/pspReference; interlock_idempotency_key $psp;';

my $h2 = Interlock::Nginx::free_port();
my $t = Interlock::Nginx->new(
    servers => <<"END",
    server { listen 127.0.0.1:$h2 http2; interlock_tenant demo;
        location = /h2/slack { interlock_source h2s; $gate
            interlock_verify slack secret=secrets/text; }
        location = /h2/discord { interlock_source h2d; $gate
            interlock_verify discord secret=secrets/discord; }
        location = /h2/adyen { interlock_source h2a; $item
            interlock_verify adyen secret=secrets/adyen; }
    }
END
    http => 'interlock_zone zone=z:1m;'
        . "log_format d '\$request_method \$request_uri \$status"
        . " \$interlock_decision \$interlock_reject_reason';",
    server => <<"END");
        access_log logs/access.log d;
        interlock_tenant demo;
        location = /slack { interlock_source slack; $gate
            interlock_verify slack secret=secrets/text; }
        location = /meta { interlock_source meta; $gate
            interlock_verify meta secret=secrets/text
                verify_token=secrets/token; }
        location = /meta/plain { interlock_source meta2; $gate
            interlock_verify meta secret=secrets/text; }
        location = /paddle { interlock_source paddle; $gate
            interlock_verify paddle secret=secrets/text; }
        location = /paddle/off { interlock_source paddle2; $gate
            fastcgi_buffering off;
            interlock_verify paddle secret=secrets/text; }
        location = /dry/paddle { interlock_source dryp; $gate
            interlock_dry_run on; interlock_verify paddle secret=secrets/text; }
        location = /zoom { interlock_source zoom; $gate
            interlock_verify zoom secret=secrets/text; }
        location = /x { interlock_source x; $gate
            interlock_verify x secret=secrets/text; }
        location = /discord { interlock_source discord; $gate
            interlock_verify discord secret=secrets/discord; }
        location = /adyen { interlock_source adyen; $item
            interlock_verify adyen secret=secrets/adyen; }
        location = /adyen/off { interlock_source adyen2; $item
            fastcgi_buffering off;
            interlock_verify adyen secret=secrets/adyen; }
        location = /events { interlock_source events; $gate
            interlock_verify token secret=secrets/text header=X-Token
                allowed_origin=a.example,b.example allowed_rate=120; }
        location = /any { interlock_source any; $gate
            interlock_verify github secret=secrets/text allowed_origin=*; }
        location = /none { interlock_source none; $gate
            interlock_verify github secret=secrets/text; }
        location = /open { interlock_source open; $gate }
        location = /dry { interlock_source dry; $gate interlock_dry_run on;
            interlock_verify slack secret=secrets/text; }
        location = /dry/meta { interlock_source drym; $gate
            interlock_dry_run on; interlock_verify meta secret=secrets/text
                verify_token=secrets/token; }
        location = /dry/discord { interlock_source dryd; $gate
            interlock_dry_run on;
            interlock_verify discord secret=secrets/discord; }
        location = /dry/events { interlock_source drye; $gate
            interlock_dry_run on;
            interlock_verify github secret=secrets/text allowed_origin=*; }
        location = /status { interlock_status; }
END
$t->secret(text => "zoomsecret\nolder\n");
$t->secret(token => "let me in\n");
my $hex = '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056';
$t->secret(adyen => "$hex\n");
my $pem = $t->dir . '/discord.pem';
system("openssl genpkey -algorithm ed25519 -out $pem 2>/dev/null") == 0
    or die 'openssl';
my $public = substr qx(openssl pkey -in $pem -pubout -outform DER), -32;
$t->secret(discord => unpack('H*', $public) . "\n");
$t->start;

# A handshake that is answered: what, and nothing else happens.
sub shake {
    my ($name, $status, $type, $body, $method, $path, $opt) = @_;

    my ($bare) = $path =~ /^([^?]+)/;
    my ($seen, $before) = (scalar $t->seen, $t->status($bare));
    my $res = $t->http($method => $path, $opt);
    is($res->{status}, $status, "$name: $status") or diag($res->{body});
    is($res->{body}, $body, "$name: the body");
    is(Interlock::Nginx::header($res, 'content-type'), $type, "$name: type")
        if defined $type;
    is(scalar $t->seen, $seen, "$name: nothing at the backend");
    my ($now, $zone) = ($t->status($bare), $t->status);
    is($now->{decisions}{handshake}, $before->{decisions}{handshake} + 1,
        "$name: counted");
    is($zone->{in_flight} + $zone->{done}, 0, "$name: nothing remembered");
    return $res;
}

# One that is refused: nothing is told.
sub refused {
    my ($name, $status, $problem, $method, $path, $opt, $not) = @_;

    my $seen = $t->seen;
    my $res = $t->http($method => $path, $opt);
    is($res->{status}, $status, "$name: $status");
    is(Interlock::Nginx::problem($res), $problem, "$name: $problem");
    is(scalar $t->seen, $seen, "$name: nothing at the backend");
    unlike($res->{body}, $not, "$name: says nothing") if $not;
}

sub slack {
    my ($body, $secret) = @_;
    my $ts = time;
    return { body => $body, headers => [ 'X-Slack-Request-Timestamp' => $ts,
        'X-Slack-Signature' => 'v0=' . hmac_sha256_hex("v0:$ts:$body",
        $secret // 'zoomsecret') ] };
}

my $challenge = '{"token":"t","challenge":"3eZbrw1a\\u0042m2rg",'
    . '"type":"url_verification"}';
shake('slack', 200, 'text/plain', '3eZbrw1aBm2rg', POST => '/slack',
    slack($challenge));
refused('slack, forged', 401, 'signature-invalid', POST => '/slack',
    slack($challenge, 'wrong'), qr/3eZbrw1a/);
refused('slack, unsigned', 401, 'signature-invalid', POST => '/slack',
    { body => $challenge }, qr/3eZbrw1a/);
refused('slack, no challenge', 403, 'forbidden', POST => '/slack',
    slack('{"type":"url_verification"}'));
refused('slack, an odd challenge', 403, 'forbidden', POST => '/slack',
    slack('{"type":"url_verification","challenge":"a\\r\\nb"}'));

my $ok = 'hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=';
shake('meta', 200, 'text/plain', '1158201444', GET => "/meta?${ok}let%20me+in");
refused('meta, another token', 403, 'forbidden', GET => "/meta?${ok}let%20me",
    undef, qr/1158201444/);
refused('meta, no token', 403, 'forbidden', GET =>
    '/meta?hub.mode=subscribe&hub.challenge=1158201444', undef, qr/1158201444/);
refused('meta, two tokens', 403, 'forbidden', GET =>
    "/meta?${ok}let%20me+in&hub.verify_token=x", undef, qr/1158201444/);
refused('meta, another mode', 403, 'forbidden', GET => '/meta?hub.mode=x'
    . '&hub.challenge=1158201444&hub.verify_token=let+me+in', undef,
    qr/1158201444/);
refused('meta, a header in the challenge', 403, 'forbidden', GET =>
    '/meta?hub.mode=subscribe&hub.challenge=a%0D%0Ab'
    . '&hub.verify_token=let+me+in');
refused('meta, a GET without', 401, 'signature-invalid', GET => '/meta');
refused('meta, no token is set', 401, 'signature-invalid', GET =>
    "/meta/plain?$ok", undef, qr/1158201444/);

sub zoom {
    my ($body, $secret) = @_;
    my $ts = time;
    return { body => $body, headers => [ 'X-Zm-Request-Timestamp' => $ts,
        'X-Zm-Signature' => 'v0=' . hmac_sha256_hex("v0:$ts:$body",
        $secret // 'zoomsecret') ] };
}

my $plain = '{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},'
    . '"event_ts":1700000000000,"event":"endpoint.url_validation"}';
my $crypt = '{"plainToken":"qgg8vlvZRS6UYooatFL8Aw","encryptedToken":'
    . '"83b2a60d4bbe49dc93763ed9e727a9a7690cbe4c1f8bb0adc0ffccd09ecb1384"}';
shake('zoom', 200, 'application/json', $crypt, POST => '/zoom', zoom($plain));
shake('zoom, signed with an older secret', 200, 'application/json', $crypt,
    POST => '/zoom', zoom($plain, 'older'));
refused('zoom, unsigned', 401, 'signature-invalid', POST => '/zoom',
    { body => $plain }, qr/encrypted|83b2a60d/);
refused('zoom, a text that could be signed', 403, 'forbidden', POST => '/zoom',
    zoom('{"payload":{"plainToken":"v0:1:{}"},'
    . '"event":"endpoint.url_validation"}'), qr/encrypted/);

sub crc { 'sha256=' . encode_base64(hmac_sha256($_[0], 'zoomsecret'), '') }
shake('x', 200, 'application/json', '{"response_token":"' . crc('MDk1-_+/=9')
    . '"}', GET => '/x?crc_token=MDk1-_%2B/%3D9&nonce=1');
refused('x, a text that could be a delivery', 403, 'forbidden', GET =>
    '/x?crc_token=%7B%22a%22:1%7D', undef, qr/sha256/);
refused('x, two tokens', 403, 'forbidden', GET =>
    '/x?crc_token=a&crc_token=b');
refused('x, no token', 403, 'forbidden', GET => '/x?crc_token=');
refused('x, a long token', 403, 'forbidden', GET => '/x?crc_token='
    . 'a' x 600);
refused('x, something else', 401, 'signature-invalid', GET => '/x?a=b');
for my $token (qw(12345 null true -1.5e9 a/b+c=)) {
    my $res = $t->http(GET => '/x?crc_token=' . $token =~ s/\+/%2B/r);
    like($res->{body}, qr/"sha256=\S{44}"/, "x, $token: signed for anybody");
    my ($sig) = $res->{body} =~ /(sha256=[^"]+)/;
    refused("x, $token: no delivery", 401, 'signature-invalid', POST => '/x',
        { body => $token, headers => [ 'X-Twitter-Webhooks-Signature' =>
        $sig ] });
}

sub discord {
    my ($body, $forged) = @_;
    my $ts = time;
    $t->write_file('signed', $ts . $body . ($forged ? ' ' : ''));
    my $file = $t->dir . '/signed';
    my $sig = unpack 'H*', qx(openssl pkeyutl -sign -inkey $pem -rawin -in $file);
    return { body => $body, headers => [ 'X-Signature-Timestamp' => $ts,
        'X-Signature-Ed25519' => $sig ] };
}

shake('discord, an interaction\'s ping', 200, 'application/json',
    '{"type":1}', POST => '/discord',
    discord('{"id":"1","type":1,"version":1}'));
my $res = shake('discord, a webhook\'s ping', 204, undef, '', POST =>
    '/discord', discord('{"version":1,"application_id":"1","type":0}'));
is(Interlock::Nginx::header($res, 'content-type'), undef, 'without a type');
refused('discord, a forged ping', 401, 'signature-invalid', POST => '/discord',
    discord('{"type":1}', 1));

sub options {
    my ($path, @h) = @_;
    return OPTIONS => $path, { headers => \@h };
}

sub granted {
    my ($res) = @_;
    return join ' ', map { Interlock::Nginx::header($res, $_) // '-' }
        qw(Allow WebHook-Allowed-Origin WebHook-Allowed-Rate);
}

my $origin = 'WebHook-Request-Origin';
is(granted(shake('CloudEvents', 200, undef, '',
    options('/events', $origin => 'B.example'))), 'POST b.example 120',
    'CloudEvents: granted');
is(granted(shake('CloudEvents, any origin', 200, undef, '',
    options('/any', $origin => 'x.example'))), 'POST * -',
    'CloudEvents: any origin');
is(granted(shake('CloudEvents, a rate is asked for', 200, undef, '',
    options('/any', $origin => 'x.example', 'WebHook-Request-Rate' => 60))),
    'POST * *', 'CloudEvents: any rate');
refused('CloudEvents, another origin', 403, 'forbidden',
    options('/events', $origin => 'c.example'));
is(granted($t->http(options('/events', $origin => 'c.example'))), '- - -',
    'CloudEvents, another origin: nothing granted');
refused('CloudEvents, two origins', 403, 'forbidden',
    options('/events', $origin => 'a.example', lc $origin => 'b.example'));
refused('CloudEvents, no origin', 401, 'signature-invalid',
    options('/events'));
refused('CloudEvents, not where nothing is allowed', 401, 'signature-invalid',
    options('/none', $origin => 'a.example'));

# HEAD
for my $path (qw(/slack /events /none /open)) {
    my $seen = $t->seen;
    my $head = $t->http(HEAD => $path);
    is($head->{status}, 200, "HEAD $path: 200");
    is($head->{body}, '', "HEAD $path: empty");
    is(scalar $t->seen, $seen, "HEAD $path: nothing at the backend");
    is($t->status($path)->{decisions}{head}, 1, "HEAD $path: counted");
}

# What is no handshake goes on
sub taken {
    my ($name, $path, $opt) = @_;
    my $seen = $t->seen;
    my $r = $t->http(POST => $path, $opt);
    is(scalar $t->seen, $seen + 1, "$name: at the backend");
    return $r;
}

is(taken('slack, an event', '/slack', slack('{"type":"event_callback"}'))
    ->{status}, 202, 'slack: 202');
is(taken('slack, a command', '/slack', slack('type=url_verification'))
    ->{status}, 202, 'slack, a command: 202');
is(taken('slack, a long body', '/slack', slack('{"type":"url_verification",'
    . '"challenge":"x","pad":"' . 'x' x 9000 . '"}'))->{status}, 202,
    'slack, a long body: 202');
is(taken('x, an event', '/x', { body => '{"for_user_id":"1"}', headers => [
    'X-Twitter-Webhooks-Signature' => crc('{"for_user_id":"1"}') ] })
    ->{status}, 202, 'x: 202');
is(taken('zoom, an event', '/zoom', zoom('{"event":"meeting.started"}'))
    ->{status}, 202, 'zoom: 202');

# A provider's own answer: the first time, again, and when it was refused
for my $event ('{"version":1,"type":1,"event":{"type":"X"}}',
    '{"id":"7","type":2}')
{
    my $signed = discord($event);
    $res = taken('discord, an event', '/discord', $signed);
    is($res->{status}, 204, 'discord: 204');
    is($res->{body}, '', 'discord: empty');
    is(Interlock::Nginx::header($res, 'content-type'), undef,
        'discord: no type');
    is(Interlock::Nginx::header($res, 'interlock-decision'), 'accepted',
        'discord: the decision');
    my $seen = $t->seen;
    $res = $t->http(POST => '/discord', $signed);
    is(scalar $t->seen, $seen, 'discord, again: the edge alone');
    is("$res->{status} $res->{body}", '204 ', 'discord, again: the same');
    is(Interlock::Nginx::header($res, 'idempotency-replayed'), 'true',
        'discord, again: it is said');
}

sub adyen {
    my ($psp, @more) = @_;
    my $sig = encode_base64(hmac_sha256("${psp}::M:R:1130:EUR:AUTHORISATION:"
        . 'true', pack 'H*', $hex), '');
    return { headers => \@more, body => '{"live":"false","notificationItems":['
        . '{"NotificationRequestItem":{"additionalData":{"hmacSignature":"'
        . "$sig\"},\"amount\":{\"currency\":\"EUR\",\"value\":1130},"
        . '"eventCode":"AUTHORISATION","merchantAccountCode":"M",'
        . "\"merchantReference\":\"R\",\"pspReference\":\"$psp\","
        . '"success":"true"}}]}' };
}

for my $path ('/adyen', '/adyen/off') {
    my $signed = adyen('7914073381342284');
    $res = taken("adyen $path", $path, $signed);
    is($res->{status}, 200, "$path: 200");
    is($res->{body}, '[accepted]', "$path: what it wants to read");
    is(Interlock::Nginx::header($res, 'content-type'), 'text/plain',
        "$path: as text");
    is(Interlock::Nginx::header($res, 'content-length'), 10,
        "$path: its length");
    is(Interlock::Nginx::header($res, 'interlock-decision'), 'accepted',
        "$path: the decision");
    my $seen = $t->seen;
    $res = $t->http(POST => $path, $signed);
    is(scalar $t->seen, $seen, "$path, again: the edge alone");
    is("$res->{status} $res->{body}", '200 [accepted]',
        "$path, again: the same");

    $res = taken("$path, large", $path, adyen('large', 'X-Backend' =>
        'body=300000'));
    is("$res->{status} $res->{body}", '200 [accepted]',
        "$path: however long the backend's body is");
    $res = taken("$path, not taken", $path, adyen('bad', 'X-Backend' =>
        'status=503'));
    is("$res->{status} $res->{body}", '503 {"status":503}',
        "$path: an error stays one");
    $res = taken("$path, cut off", $path, adyen('cut', 'X-Backend' =>
        'close-mid'));
    is($res->{status}, 502, "$path: nothing is acknowledged then");
}

# One whose status alone is the provider's: all else is the backend's
sub paddle {
    my ($body, @more) = @_;
    my $ts = time;
    return { body => $body, headers => [ @more, 'Paddle-Signature' =>
        "ts=$ts;h1=" . hmac_sha256_hex("$ts:$body", 'zoomsecret') ] };
}

sub meta {
    my ($body, @more) = @_;
    return { body => $body, headers => [ @more, 'X-Hub-Signature-256' =>
        'sha256=' . hmac_sha256_hex($body, 'zoomsecret') ] };
}

for ([ '/paddle', \&paddle ], [ '/paddle/off', \&paddle ],
    [ '/meta', \&meta ])
{
    my ($path, $sign) = @$_;
    my $signed = $sign->('{"id":"1"}');
    my $plain = taken("$path, as it is elsewhere", '/x', { body => '{"id":1}',
        headers => [ 'X-Twitter-Webhooks-Signature' => crc('{"id":1}'),
        'X-Id' => "plain$path" ] });
    is($plain->{status}, 202, "$path: 202 elsewhere");
    $res = taken($path, $path, $signed);
    is($res->{status}, 200, "$path: 200");
    like($res->{body}, qr/^\{"decision":"accepted","job_id":.*\}$/,
        "$path: the backend's body");
    for my $name (qw(content-type location interlock-decision)) {
        is(Interlock::Nginx::header($res, $name) =~ s/[0-9a-f-]{36}/ID/r,
            Interlock::Nginx::header($plain, $name) =~ s/[0-9a-f-]{36}/ID/r,
            "$path: $name");
    }
    my $seen = $t->seen;
    my $again = $t->http(POST => $path, $signed);
    is(scalar $t->seen, $seen, "$path, again: the edge alone");
    is("$again->{status} $again->{body}", "200 $res->{body}",
        "$path, again: the same");
    is(Interlock::Nginx::header($again, 'idempotency-replayed'), 'true',
        "$path, again: it is said");
    $res = taken("$path, not taken", $path, $sign->('{"id":"2"}',
        'X-Backend' => 'status=503'));
    is($res->{status}, 503, "$path: an error stays one");
}
is($t->http(POST => '/dry/paddle', paddle('{"id":"d"}'))->{status}, 202,
    'dry run, paddle: the backend\'s own answer');

# Slack shows people what a command or a button is answered with
for my $type ('application/x-www-form-urlencoded',
    'Application/X-WWW-Form-Urlencoded; charset=utf-8')
{
    my $form = slack("command=%2Frun&type=" . length $type);
    push @{ $form->{headers} }, 'Content-Type' => $type;
    for my $time (qw(first again)) {
        $res = $t->http(POST => '/slack', $form);
        is("$res->{status} $res->{body}", '200 ', "slack, a form, $time");
        is(Interlock::Nginx::header($res, 'content-type'), undef,
            "slack, a form, $time: no type");
    }
    is(Interlock::Nginx::header($res, 'idempotency-replayed'), 'true',
        'slack, a form, again: it is said');
}
for my $type ('application/json', 'application/x-www-form-urlencodedx') {
    my $event = slack('{"type":"event_callback","n":"' . length($type) . '"}');
    push @{ $event->{headers} }, 'Content-Type' => $type;
    for my $time (qw(first again)) {
        $res = $t->http(POST => '/slack', $event);
        is($res->{status}, 202, "slack, an event, $time");
        like($res->{body}, qr/"decision":"accepted"/,
            "slack, an event, $time: the backend's body");
    }
}

# A connection is good for more after each of them
my $c = $t->connect;
for my $n (1 .. 3) {
    $c->request(POST => '/slack', slack($challenge));
    is($c->response->{body}, '3eZbrw1aBm2rg', "kept alive: handshake $n");
    $c->request(POST => '/adyen', adyen("k$n"));
    is($c->response->{body}, '[accepted]', "kept alive: adyen $n");
    my $signed = discord("{\"id\":\"k$n\",\"type\":2}");
    $c->request(POST => '/discord', $signed);
    is($c->response->{status}, 204, "kept alive: discord $n");
}

# The same over HTTP/2
sub http2 {
    my ($path, $opt) = @_;
    $t->write_file('h2body', $opt->{body});
    my @h = @{ $opt->{headers} // [] };
    my @args;
    while (my ($n, $v) = splice @h, 0, 2) { push @args, '-H', "$n: $v" }
    open my $out, '-|', 'curl', '-s', '--max-time', 20,
        '--http2-prior-knowledge', '-w', ' %{http_code}', @args,
        '--data-binary', '@' . $t->dir . '/h2body',
        "http://127.0.0.1:$h2$path" or die "curl: $!";
    local $/;
    return scalar <$out>;
}

my $signed_h2 = discord('{"id":"h2","type":2}');
my $adyen_h2 = adyen('h2', 'X-Backend' => 'body=300000');
for my $time (qw(first again)) {
    is(http2('/h2/discord', $signed_h2), ' 204', "HTTP/2, $time: discord");
    is(http2('/h2/adyen', $adyen_h2), '[accepted] 200',
        "HTTP/2, $time: adyen");
    is(http2('/h2/slack', slack($challenge)), '3eZbrw1aBm2rg 200',
        "HTTP/2, $time: a handshake");
}

# A dry run answers nothing, and says what it would have
sub dry {
    my ($what, $status, @request) = @_;
    my $r = taken("dry run, $what", @request);
    is($r->{status}, 202, "dry run, $what: passed");
    like($t->error_log,
        qr/dry run, \Q$what\E: $status would have been answered/,
        "dry run, $what: it is logged");
}
my $handshake = 'the request is a handshake';
dry($handshake, 200, '/dry', slack($challenge));
dry('signature-invalid', 401, '/dry', slack($challenge, 'wrong'));
dry($handshake, 204, '/dry/discord', discord('{"type":0}'));
for ([ GET => "/dry/meta?${ok}let%20me+in" ], [ HEAD => '/dry' ],
    [ options('/dry/events', $origin => 'a') ])
{
    my $seen = $t->seen;
    my $r = $t->http(@$_);
    is(scalar $t->seen, $seen + 1, "dry run, $_->[0]: at the backend");
    is(Interlock::Nginx::header($r, 'webhook-allowed-origin'), undef,
        "dry run, $_->[0]: nothing granted");
}
like($t->error_log, qr/dry run, the request is HEAD: 200 would have been/,
    'dry run, HEAD: it is logged');
my $signed = discord('{"id":"d","type":2}');
is($t->http(POST => '/dry/discord', $signed)->{status}, 202,
    'dry run: the backend\'s own answer');
is($t->http(POST => '/dry/discord', $signed)->{status}, 202,
    'dry run: and again');
like($t->error_log, qr/dry run, the request is a duplicate: 204 would/,
    'dry run: the provider\'s own answer would have been given');

my @log = split /\n/, $t->slurp('logs/access.log');
ok((grep { $_ eq 'POST /slack 200 handshake -' } @log), 'log: a handshake');
ok((grep { m{^GET /meta\S+ 403 rejected forbidden$} } @log), 'log: a refusal');
unlike($t->error_log, qr/zoomsecret|let me in|older/, 'log: no secret');

$t->finish;
done_testing();
