# Signatures at the edge: what is forged leaves no trace in the zone and
# reaches nothing behind it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256 hmac_sha256_hex hmac_sha512_base64);
use Interlock::Nginx;
use MIME::Base64 qw(decode_base64 encode_base64);
use Test::More;

my $gate = 'interlock zone=z; interlock_kind k; fastcgi_pass backend;'
    . 'interlock_idempotency_key $http_x_id;';

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m;'
        . "log_format d '\$status \$interlock_decision"
        . " \$interlock_reject_reason [\$interlock_verified] [\$id]';"
        . 'interlock_json $id /id;',
    server => <<"END");
        access_log logs/access.log d;
        interlock_tenant demo;
        location /github { interlock_source a; $gate
            interlock_verify github secret=secrets/github; }
        location /stripe { interlock_source b; $gate
            interlock_verify stripe secret=secrets/stripe; }
        location /narrow { interlock_source b2; $gate
            interlock_verify stripe secret=secrets/stripe tolerance=10s; }
        location /standard { interlock_source c; $gate
            interlock_verify standard secret=secrets/standard; }
        location /token { interlock_source d; $gate
            interlock_verify token secret=secrets/github header=X-Token; }
        location /hmac { interlock_source e; $gate
            interlock_verify hmac secret=secrets/github header=X-Sig
                prefix=v1= algorithm=sha512 encoding=base64
                "signed={timestamp:X-Time}.{url}.{body}"; }
        location /url { interlock_source f; $gate
            interlock_verify hmac secret=secrets/github header=X-Sig
                "signed={url}{body}" url=https://pay.test\$request_uri; }
        location /base { interlock_source f2; $gate
            interlock_verify hmac secret=secrets/github header=X-Sig
                "signed={url}{body}" url=https://pay.test:8443; }
        location /dry { interlock_source g; $gate interlock_dry_run on;
            interlock_verify github secret=secrets/github; }
        location /only { interlock_verify github secret=secrets/github;
            fastcgi_pass backend; }
        location = /status { interlock_status; }
END
$t->secret(github => "s3cret\nolder\n");
$t->secret(stripe => "whsec_abc\n");
my $key = decode_base64('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw');
$t->secret(standard => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
$t->start;

my $body = '{"id":"evt_1"}';
my $n = 0;

sub post {
    my ($path, @h) = @_;
    return $t->http(POST => $path, { body => $body,
        headers => [ 'X-Id' => 'i' . $n++, @h ] });
}

sub accepted {
    my ($name, $path, @h) = @_;
    my $before = $t->seen;
    my $res = post($path, @h);
    is($res->{status}, 202, "$name: accepted") or diag($res->{body});
    is(scalar $t->seen, $before + 1, "$name: at the backend");
}

# A refusal: nothing in the zone, nothing behind, nothing told.
sub refused {
    my ($name, $path, $problem, @h) = @_;

    my $before = $t->seen;
    my $zone = $t->status;
    my $res = post($path, @h);
    is($res->{status}, 401, "$name: 401");
    is(Interlock::Nginx::problem($res), $problem, "$name: $problem");
    is(join(',', sort keys %{ $res->{json} }), 'detail,status,title,type',
        "$name: nothing more is told");
    is($res->{json}{detail}, $problem eq 'signature-invalid'
        ? 'The request is not signed with a secret of this source.'
        : 'The signed time is too far from now.',
        "$name: in the same words whatever was wrong");
    ok(!exists $res->{headers}{'interlock-decision'}, "$name: not a decision");
    is(scalar $t->seen, $before, "$name: nothing reached the backend");
    my $now = $t->status;
    is($now->{in_flight} + $now->{done}, $zone->{in_flight} + $zone->{done},
        "$name: no trace in the zone");
}

sub hub { 'sha256=' . hmac_sha256_hex($_[1] // $body, $_[0]) }

my @bad = (github => 'signature-invalid');
my $H = 'X-Hub-Signature-256';

accepted('github', '/github', $H => hub('s3cret'));
accepted('github, an older secret', '/github', $H => hub('older'));
accepted('github, upper case', '/github', uc $H => hub('s3cret'));
accepted('github, lower case', '/github', lc $H => hub('s3cret'));
refused('github, no header', '/github', 'signature-invalid');
refused('github, empty header', '/github', 'signature-invalid', $H => '');
refused('github, wrong secret', '/github', 'signature-invalid',
    $H => hub('wrong'));
refused('github, other body', '/github', 'signature-invalid',
    $H => hub('s3cret', $body . ' '));
refused('github, cut short', '/github', 'signature-invalid',
    $H => substr hub('s3cret'), 0, -2);
refused('github, too long', '/github', 'signature-invalid',
    $H => hub('s3cret') . '00');
refused('github, not hex', '/github', 'signature-invalid',
    $H => 'sha256=' . 'zz' x 32);
refused('github, sha1', '/github', 'signature-invalid',
    'X-Hub-Signature' => 'sha1=00');
refused('github, two headers, the first good', '/github', 'signature-invalid',
    $H => hub('s3cret'), $H => hub('wrong'));
refused('github, two headers, the second good', '/github',
    'signature-invalid', $H => hub('wrong'), $H => hub('s3cret'));
refused('github, two headers, both good', '/github', 'signature-invalid',
    $H => hub('s3cret'), $H => hub('s3cret'));
refused('github, two headers that differ in case', '/github',
    'signature-invalid', $H => hub('s3cret'), lc $H => hub('s3cret'));

sub stripe {
    my ($time, $secret) = @_;
    return ('Stripe-Signature' => "t=$time,v1=" . hmac_sha256_hex(
        "$time.$body", $secret // 'whsec_abc') . ',v0=00');
}

accepted('stripe', '/stripe', stripe(time));
accepted('stripe, within the tolerance', '/stripe', stripe(time - 250));
accepted('stripe, a fast clock', '/stripe', stripe(time + 250));
refused('stripe, old', '/stripe', 'timestamp-out-of-range',
    stripe(time - 310));
refused('stripe, future', '/stripe', 'timestamp-out-of-range',
    stripe(time + 310));
refused('stripe, old and forged', '/stripe', 'signature-invalid',
    stripe(time - 310, 'wrong'));
refused('stripe, forged', '/stripe', 'signature-invalid',
    stripe(time, 'wrong'));
refused('stripe, no time', '/stripe', 'signature-invalid',
    'Stripe-Signature' => 'v1=' . hmac_sha256_hex($body, 'whsec_abc'));
accepted('stripe, narrow', '/narrow', stripe(time));
refused('stripe, outside a narrow tolerance', '/narrow',
    'timestamp-out-of-range', stripe(time - 60));

sub standard {
    my ($prefix, $id, $time, $k) = @_;
    return ("$prefix-id" => $id, "$prefix-timestamp" => $time,
        "$prefix-signature" => 'v1,' . encode_base64(hmac_sha256(
        "$id.$time.$body", $k // $key), ''));
}

accepted('standard', '/standard', standard('webhook', 'm1', time));
accepted('svix', '/standard', standard('svix', 'm2', time));
refused('standard, forged', '/standard', 'signature-invalid',
    standard('webhook', 'm3', time, 'x' x 24));
refused('standard, old', '/standard', 'timestamp-out-of-range',
    standard('webhook', 'm3', time - 1000));
refused('standard, two ids', '/standard', 'signature-invalid',
    standard('webhook', 'm4', time), 'Webhook-Id' => 'm5');

accepted('token', '/token', 'X-Token' => 's3cret');
accepted('token, older', '/token', 'X-Token' => 'older');
refused('token, wrong', '/token', 'signature-invalid', 'X-Token' => 's3cre');
refused('token, none', '/token', 'signature-invalid');
refused('token, two', '/token', 'signature-invalid', 'X-Token' => 's3cret',
    'x-token' => 's3cret');

my $now = time;
sub sig512 {
    my $b64 = hmac_sha512_base64($_[0], 's3cret');
    return 'v1=' . $b64 . '=' x (-length($b64) % 4);
}
accepted('hmac, by template', '/hmac?a=%20b', 'X-Time' => $now,
    'X-Sig' => sig512("$now.http://localhost/hmac?a=%20b.$body"));
refused('hmac, another URL', '/hmac?a=b', 'signature-invalid',
    'X-Time' => $now, 'X-Sig' => sig512("$now.http://localhost/hmac.$body"));
refused('hmac, no time', '/hmac', 'signature-invalid',
    'X-Sig' => sig512(".http://localhost/hmac.$body"));
accepted('hmac, the public URL', '/url?q=1', 'X-Sig' =>
    hmac_sha256_hex("https://pay.test/url?q=1$body", 's3cret'));

accepted('hmac, the public URL from a base', '/base/%7e?a=%2F+b&&c', 'X-Sig' =>
    hmac_sha256_hex("https://pay.test:8443/base/%7e?a=%2F+b&&c$body", 's3cret'));
refused('hmac, the URL as nginx would write it', '/base/%7e?a=1',
    'signature-invalid', 'X-Sig' =>
    hmac_sha256_hex("https://pay.test:8443/base/~?a=1$body", 's3cret'));

# verified but not deduplicated
accepted('verify alone', '/only', $H => hub('s3cret'));
is(($t->seen)[-1]{params}{INTERLOCK_VERIFIED}, 'github', 'is told on');
my $seen = $t->seen;
is(post('/only')->{status}, 401, 'verify alone: refused');
is(scalar $t->seen, $seen, 'verify alone: and not passed');

# a dry run lets it pass, but not as verified
is(post('/dry', $H => hub('wrong'))->{status}, 202, 'dry run: passes');
is(($t->seen)[-1]{params}{INTERLOCK_VERIFIED}, '', 'dry run: not verified');
is($t->status('/dry')->{decisions}{dry_run}, 1, 'dry run: counted');

# rotation: the file is read again at a reload, the entries stay
my $res = $t->github('/github', 'rotate', $body,
    { headers => [ 'X-Id' => 'rotate' ] });
is($res->{status}, 202, 'before the rotation');
$t->secret(github => "newer\ns3cret\n");
$t->reload;
is($t->github('/github', 'rotate', $body, { secret => 'newer',
    headers => [ 'X-Id' => 'rotate' ] })->{body}, $res->{body},
    'a repeat under the new secret is a repeat');
refused('the oldest secret is gone', '/github', 'signature-invalid',
    $H => hub('older'));

my $l = $t->status('/github');
is($l->{rejected}{'signature-invalid'}, $l->{decisions}{rejected},
    'refusals are counted by reason');
like($t->slurp('logs/access.log'),
    qr/^401 rejected signature-invalid \[-\] \[-\]$/m, 'log: refused');
like($t->slurp('logs/access.log'),
    qr/^202 accepted - \[github\] \[evt_1\]$/m, 'log: accepted');
like($t->error_log, qr/interlock: signature-invalid: .*scheme "github"/,
    'the operator is told why');
unlike($t->error_log, qr/s3cret|whsec/, 'and no secret');

$t->finish;
done_testing();
