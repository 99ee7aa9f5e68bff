# Names and keys: what is missing is 400, never an empty string; variables
# have the values they should, whoever asks first.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $pass = 'interlock zone=z; fastcgi_pass backend;';
my $id = 'interlock_idempotency_key $http_x_id;';

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m; interlock_json $top /top;'
        . 'map $http_x_mapped $mapped { default $http_x_mapped; }'
        . 'map $value $tenant_of { default none; acme acme-inc; }'
        . "log_format v '\$request_uri|\$interlock_tenant|\$interlock_source|"
        . "\$interlock_kind|\$interlock_work_key|\$interlock_idempotency_key|"
        . "\$interlock_fingerprint|\$interlock_job_id|\$value|"
        . "\$interlock_effect_id|\$interlock_mismatch';",
    server => <<"END");
        interlock_tenant demo;
        interlock_source s;
        interlock_kind k;
        interlock_json \$value /a/b;
        location /json { $pass $id interlock_work_key w \$value; }
        location /idjson { $pass interlock_idempotency_key \$value; }
        location /again {
            interlock_json \$value /other;
            $pass $id interlock_work_key w \$value;
        }
        location /parts { $pass $id
            interlock_work_key a:b \$http_x_one \${http_x_two}-c; }
        location /global { $pass $id interlock_work_key global "nightly run"; }
        location /body { $pass interlock_idempotency_key "" body; }
        location /orbody { $pass interlock_idempotency_key \$http_x_id body; }
        location /own { $pass interlock_idempotency_key \$http_x_id body;
            interlock_work_key own \$interlock_idempotency_key; }
        location /same { $pass $id interlock_work_key w \$http_x_id; }
        location /mapped { $pass interlock_idempotency_key \$mapped; }
        location /names { $pass $id interlock_tenant \$http_x_tenant;
            interlock_kind \$http_x_kind; }
        location /tenant { $pass $id interlock_tenant \$tenant_of;
            interlock_work_key \$interlock_tenant \$value; }
        location /early { set \$early "\$value\$interlock_tenant"; $pass $id
            if (\$value) { return 418; }
            interlock_work_key w \$value; }
        location /log { access_log logs/access.log v; $pass $id
            add_header X-Decision \$interlock_decision always;
            add_header X-Key \$interlock_work_key always;
            interlock_work_key w \$value; }
        location = /status { interlock_status; }
END
$t->start;

my $n = 0;

sub post {
    my ($path, $body, @h) = @_;
    push @h, 'X-Id' => 'i' . $n++
        unless $path eq '/same' || grep { $_ eq 'X-Id' } @h;
    return $t->http(POST => $path, { body => $body, headers => \@h });
}

sub bad {
    my ($name, $problem, $path, $body, @h) = @_;

    my $before = $t->seen;
    my $res = post($path, $body, @h);
    is($res->{status}, 400, "$name: 400");
    is(Interlock::Nginx::problem($res), $problem, "$name: $problem");
    is(scalar $t->seen, $before, "$name: nothing at the backend");
    is($t->status->{in_flight}, 0, "$name: nothing in flight");
    return $res;
}

sub key {
    my ($name, $want, $path, $body, @h) = @_;
    is(post($path, $body, @h)->{status}, 202, "$name: accepted");
    is(($t->seen)[-1]{params}{INTERLOCK_WORK_KEY}, $want, "$name: $want");
}

# values out of JSON
key('text', 'w:x', '/json', '{"a":{"b":"x"}}');
key('a number stays as it is written', 'w:1.10', '/json', '{"a":{"b":1.10}}');
key('a big number', 'w:12345678901234567890', '/json',
    '{"a":{"b":12345678901234567890}}');
key('true', 'w:true', '/json', '{"a":{"b":true}}');
key('escapes', "w:\xc3\xa9%25%3A%0A%00", '/json',
    '{"a":{"b":"\\u00e9%:\\n\\u0000"}}');
key('another pointer in another location', 'w:y', '/again',
    '{"a":{"b":"x"},"other":"y"}');
key('parts', 'a%3Ab:1%20%3A:2-c', '/parts', '', 'X-One' => '1 :',
    'X-Two' => '2');
key('global', 'global:nightly%20run', '/global', '');
key('a name in a key', 'acme-inc:acme', '/tenant', '{"a":{"b":"acme"}}');

# asked for before the body was there, and right afterwards
key('asked too early', 'w:x', '/early', '{"a":{"b":"x"}}');
is(($t->seen)[-1]{params}{INTERLOCK_TENANT}, 'demo', 'asked too early: names');

# what is missing
bad('no member', 'work-key-incomplete', '/json', '{"a":{}}');
bad('empty text', 'work-key-incomplete', '/json', '{"a":{"b":""}}');
bad('null', 'work-key-incomplete', '/json', '{"a":{"b":null}}');
bad('an object', 'work-key-incomplete', '/json', '{"a":{"b":{}}}');
bad('an array', 'work-key-incomplete', '/json', '{"a":{"b":[1]}}');
bad('no header', 'work-key-incomplete', '/parts', '', 'X-Two' => 1);
bad('no id', 'idempotency-key-missing', '/parts', '', 'X-One' => 1,
    'X-Two' => 1, 'X-Id' => '');
bad('no id for both keys', 'idempotency-key-missing', '/same', '');
bad('an id for both keys twice', 'idempotency-key-invalid', '/same', '',
    'X-Id' => 'a', 'X-Id' => 'b');
bad('no id in the body', 'idempotency-key-missing', '/idjson', '{"a":1}');
bad('no mapped id', 'idempotency-key-missing', '/mapped', '');

# what is not JSON
bad('not JSON', 'json-invalid', '/json', 'a=b');
bad('no body', 'json-invalid', '/json', '');
bad('cut off', 'json-invalid', '/json', '{"a":{"b":"x"}');
bad('something behind', 'json-invalid', '/json', '{"a":{"b":"x"}} x');
bad('not UTF-8', 'json-invalid', '/json', "{\"a\":{\"b\":\"\xff\"}}");
bad('too deep', 'json-invalid', '/json', '[' x 100 . ']' x 100);
bad('very deep', 'json-invalid', '/json', '[' x 1_000_000);
bad('a member twice', 'json-invalid', '/json', '{"a":{"b":1,"b":2}}');
bad('id not in JSON', 'json-invalid', '/idjson', 'x');
key('JSON is not looked at where it is not needed', 'a%3Ab:1:1-c', '/parts',
    'not json', 'X-One' => 1, 'X-Two' => 1);

# what is too long or repeated
key('a part of 512 bytes', 'w:' . 'x' x 512, '/json',
    '{"a":{"b":"' . 'x' x 512 . '"}}');
bad('a part of 513 bytes', 'work-key-invalid', '/json',
    '{"a":{"b":"' . 'x' x 513 . '"}}');
bad('a megabyte', 'work-key-invalid', '/json',
    '{"a":{"b":"' . 'x' x 1_000_000 . '"}}');
bad('a repeated header', 'work-key-invalid', '/parts', '', 'X-One' => 1,
    'X-One' => 2, 'X-Two' => 3);
is(post('/orbody', '', 'X-Id' => 'x' x 255)->{status}, 202,
    'a key of 255 bytes');
bad('a key of 256 bytes', 'idempotency-key-invalid', '/orbody', '',
    'X-Id' => 'x' x 256);
bad('a repeated id', 'idempotency-key-invalid', '/parts', '', 'X-One' => 1,
    'X-Two' => 1, 'X-Id' => 'a', 'X-Id' => 'b');
bad('a repeated id in other case', 'idempotency-key-invalid', '/parts', '',
    'X-One' => 1, 'X-Two' => 1, 'X-Id' => 'a', 'x-id' => 'a');
bad('a broken quotation', 'idempotency-key-invalid', '/orbody', '',
    'X-Id' => '"abc');
bad('a control character', 'idempotency-key-invalid', '/idjson',
    '{"a":{"b":"x\\u0000y"}}');

# a key may be quoted, as a structured field, or bare
my $res = post('/orbody', 'q', 'X-Id' => '"quoted"');
is(post('/orbody', 'q', 'X-Id' => 'quoted')->{body}, $res->{body},
    'quoted and bare are one key');

# the body as a key
$res = post('/body', 'one');
is(post('/body', 'one')->{body}, $res->{body}, 'body: the same');
isnt(post('/body', 'two')->{body}, $res->{body}, 'body: another');
like(($t->seen)[-1]{params}{INTERLOCK_IDEMPOTENCY_KEY}, qr/^[0-9a-f]{64}$/,
    'body: a digest');
$res = post('/body', '');
is(post('/body', '')->{body}, $res->{body}, 'body: the empty one');

# a request that is work of its own
key('own', 'own:abc', '/own', 'x', 'X-Id' => 'abc');
is(post('/own', 'own body', 'X-Id' => '')->{status}, 202, 'own: by its body');
like(($t->seen)[-1]{params}{INTERLOCK_WORK_KEY}, qr/^own:[0-9a-f]{64}$/,
    'own: a digest');
is(($t->seen)[-1]{params}{INTERLOCK_WORK_KEY}, 'own:'
    . ($t->seen)[-1]{params}{INTERLOCK_IDEMPOTENCY_KEY}, 'own: the same one');
bad('own: a bad key', 'idempotency-key-invalid', '/own', 'x', 'X-Id' => '"abc');

# names
is(post('/names', '', 'X-Tenant' => 't', 'X-Kind' => 'k')->{status}, 202,
    'names');
bad("tenant \"$_\"", 'field-invalid', '/names', '', 'X-Tenant' => $_,
    'X-Kind' => 'k') for '', 'A', 'a b', 'a' x 65, '../x';
bad("kind \"$_\"", 'field-invalid', '/names', '', 'X-Tenant' => 't',
    'X-Kind' => $_) for '', 'A';

# one variable asked for by many
$res = post('/log?x=1', '{"a":{"b":"x"}}', 'X-Id' => 'l');
is(Interlock::Nginx::header($res, 'x-decision'), 'accepted', 'in a header');
is(Interlock::Nginx::header($res, 'x-key'), 'w:x', 'in a header');
my $again = post('/log?x=1', '{"a":{"b":"x"}}', 'X-Id' => 'l');
is(Interlock::Nginx::header($again, 'x-decision'), 'duplicate',
    'in a header of ours');
post('/log?x=2', '', 'X-Id' => 'm');
my $job = $res->{json}{job_id};

# (a line is written when its answer has been sent)
my @log;
$t->wait_for(sub {
    return (@log = split /\n/, $t->slurp('logs/access.log')) >= 3;
}, 5, 'three lines of the log');
like($log[0], qr/^\/log\?x=1\|demo\|s\|k\|w:x\|l\|[0-9a-f]{64}\|$job\|x\|-\|reject$/,
    'log: first');
is($log[1], $log[0], 'log: again, the same values');
like($log[2], qr/^\/log\?x=2\|demo\|s\|k\|-\|m\|-\|-\|-\|-\|-$/,
    'log: refused, what was known');

# fingerprint: method, source, URI, body
my %fp = map { /^([^|]+)\|.*\|([0-9a-f]{64})\|/ ? ($2 => 1) : () } @log;
is(scalar keys %fp, 1, 'one fingerprint for one request');

$t->finish;
done_testing();
