# Schemes that interlockd verifies: the edge hands such requests on with what
# they are to be verified by, says nothing about them and remembers nothing.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $key = 'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmp'
    . 'qIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==';
my $topic = 'arn:aws:sns:us-east-1:123456789012:orders';
my $gate = 'interlock zone=z; interlock_tenant demo; interlock_kind k;'
    . 'interlock_idempotency_key $id required; interlock_work_key w $id;'
    . 'fastcgi_pass backend;';

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m; interlock_json $id /id;',
    server => <<"END");
        location = /sendgrid { interlock_source a; $gate
            interlock_verify sendgrid secret=secrets/sendgrid; }
        location = /paypal { interlock_source b; $gate
            interlock_verify paypal secret=secrets/paypal tolerance=10m; }
        location = /sns { interlock_source c; $gate
            interlock_json \$id /MessageId;
            interlock_verify sns secret=secrets/sns; interlock_mismatch reject; }
        location = /split { interlock_source d; $gate interlock_split "";
            interlock_verify sendgrid secret=secrets/sendgrid; }
        location = /github { interlock_source e; $gate
            interlock_verify github secret=secrets/github; }
        location = /status { interlock_status; }
END
$t->secret(sendgrid => "$key\r\n\n$key\n");
$t->secret(paypal => "WH1\n");
$t->secret(sns => "$topic\n");
$t->secret(github => "s3cret\n");
$t->start;

my $n = 0;
sub post {
    my ($path, $body, %headers) = @_;
    return $t->http(POST => $path, { body => $body,
        headers => [ map { $_ => $headers{$_} } sort keys %headers ] });
}

my %want = (
    '/sendgrid' => [ 'sendgrid', "$key\n$key\n", 'tolerance=300', 'first' ],
    '/paypal'   => [ 'paypal', "WH1\n", 'tolerance=600', 'first' ],
    '/sns'      => [ 'sns', "$topic\n", 'tolerance=3600', 'reject' ],
);
my $both = '{"id":"x","MessageId":"x"}';
for my $path (sort keys %want) {
    my $res = post($path, $both, 'X-Sig' => 'forged',
        'Interlock-Verified' => 'sns', 'Interlock-Verify' => 'none');
    is($res->{status}, 202, "$path: handed on, whoever sent it");
    my $p = ($t->seen)[-1]{params};
    is_deeply([ @$p{ map { "INTERLOCK_$_" } qw(VERIFY VERIFY_KEY VERIFY_ARGS
        MISMATCH) } ], $want{$path}, '... with what verifies it');
    is($p->{INTERLOCK_VERIFIED} // '', '', '... unverified');
    is($p->{INTERLOCK_VERIFY_PROBLEM} // '', '', '... without a problem');
    is($p->{INTERLOCK_WORK_KEY}, 'w:x', '... with its keys');
    is(($t->seen)[-1]{body}, $both, '... as it came');
}

# what would have been remembered of another scheme
my $seen = $t->seen;
post('/sendgrid', '{"id":"y"}') for 1 .. 3;
is($t->seen - $seen, 3, 'each repeat is handed on');
my $z = $t->http(GET => '/status')->{json}{zones}[0];
is("$z->{in_flight}/$z->{done}", '0/0', 'nothing is in the zone');

# what is wrong with the keys is not the edge's to tell
for ([ '{}', 'idempotency-key-missing' ], [ '{', 'json-invalid' ],
    [ '', 'json-invalid' ])
{
    my ($body, $problem) = @$_;
    is(post('/sns', $body)->{status}, 202, "\"$body\": handed on");
    my $p = ($t->seen)[-1]{params};
    like($p->{INTERLOCK_VERIFY_PROBLEM} // '', qr/^$problem ./,
        '... with what is wrong');
    is($p->{INTERLOCK_VERIFY}, 'sns', '... and what verifies it');
    is(($t->seen)[-1]{body}, $body, '... as it came');
}

# elements of their own: the list goes before the body
is(post('/split', "[{\"id\":\"1\"},\n{}]\r\n")->{status}, 202, 'split');
my $req = ($t->seen)[-1];
is(substr($req->{body}, $req->{params}{INTERLOCK_SPLIT}),
    "[{\"id\":\"1\"},\n{}]\r\n", '... what is signed stands behind the list');
is($req->{params}{INTERLOCK_VERIFY}, 'sendgrid', '... with its scheme');

# other schemes have none of this
my $body = '{"id":"g"}';
is($t->github('/github', 'd', $body)->{status}, 202, 'github');
my $p = ($t->seen)[-1]{params};
is($p->{INTERLOCK_VERIFIED}, 'github', '... is verified here');
is(join('', map { $p->{"INTERLOCK_VERIFY$_"} // '' } '', '_KEY', '_ARGS',
    '_PROBLEM'), '', '... and asks for nothing');
is($t->http(HEAD => '/sns')->{status}, 200, 'HEAD is answered here');

# configuration
sub refused {
    my ($what, $like, $location) = @_;
    local $t->{http} = 'interlock_zone zone=z:1m;';
    local $t->{server} = "location /in/ {\n interlock_tenant demo;"
        . "interlock_source s; interlock zone=z;\n $location }";
    my ($code, $said) = $t->test_config;
    ok($code != 0, "refused: $what");
    like($said, $like, '... says so');
    like($said, qr/nginx\.conf:\d+$/m, '... and where');
}
$t->secret(pem => "-----BEGIN PUBLIC KEY-----\n");
$t->secret(two => "WH1\nnot an id\n");
refused('a key in PEM', qr/invalid secret file ".*pem".*line 1: .*one line of base64/,
    'interlock_verify sendgrid secret=secrets/pem; fastcgi_pass backend;');
refused('no webhook', qr/line 2: .*ID of a webhook/,
    'interlock_verify paypal secret=secrets/two; fastcgi_pass backend;');
refused('no topic', qr/line 1: .*ARN of a topic/,
    'interlock_verify sns secret=secrets/paypal; fastcgi_pass backend;');
refused('proxy_pass', qr/"interlock_verify sns" in location "\/in\/" needs "fastcgi_pass"/,
    'interlock_verify sns secret=secrets/sns;'
    . 'interlock_work_key w $http_x; proxy_pass http://127.0.0.1:1;');
refused('gunzip', qr/"content=gunzip".*verified by interlockd/,
    'interlock_verify sns secret=secrets/sns content=gunzip;'
    . 'fastcgi_pass backend;');
refused('url=', qr/url=/, 'interlock_verify sns secret=secrets/sns'
    . ' url=https://a.example; fastcgi_pass backend;');

$t->finish;
done_testing();
