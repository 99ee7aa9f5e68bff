# interlock_form: keys out of the fields of a form.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $pass = 'interlock zone=z; fastcgi_pass backend;';
my $id = 'interlock_idempotency_key $http_x_id;';

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m; interlock_form $top top;'
        . "log_format v '\$request_uri|\$body|\$top';",
    server => <<"END");
        interlock_tenant demo;
        interlock_source s;
        interlock_kind k;
        client_body_buffer_size 8k;
        client_max_body_size 4m;
        interlock_form \$body Body;
        location /form { $pass $id interlock_work_key f \$body;
            access_log logs/access.log v; }
        location /again { interlock_form \$body "Other Field";
            $pass $id interlock_work_key f \$body; }
        location /top { $pass $id interlock_work_key f \$top \$body; }
        location /id { $pass interlock_idempotency_key \$body; }
        location /optional { $pass interlock_idempotency_key \$body optional; }
        location /kind { $pass $id interlock_kind \$body; }
        location /early { set \$early "\$body"; $pass $id
            if (\$body) { return 418; }
            interlock_work_key f \$body; }
        location /none { fastcgi_pass backend;
            fastcgi_param INTERLOCK_WORK_KEY w; fastcgi_param INTERLOCK_KIND k;
            fastcgi_param X_BODY "\$body"; }
        location = /status { interlock_status; }
END
$t->start;

my $n = 0;

sub post {
    my ($path, $body, @h) = @_;
    push @h, 'X-Id' => 'i' . $n++ unless grep { $_ eq 'X-Id' } @h;
    return $t->http(POST => $path, { body => $body, headers => [ @h,
        'Content-Type' => 'application/x-www-form-urlencoded' ] });
}

sub key {
    my ($name, $want, $path, $body) = @_;
    is(post($path, $body)->{status}, 202, "$name: accepted");
    my $seen = ($t->seen)[-1];
    is($seen->{params}{INTERLOCK_WORK_KEY}, $want, "$name: $want");
}

sub bad {
    my ($name, $problem, $detail, $path, $body) = @_;
    my $before = $t->seen;
    my $res = post($path, $body);
    is($res->{status}, 400, "$name: 400");
    is(Interlock::Nginx::problem($res), $problem, "$name: $problem");
    like($res->{json}{detail}, $detail, "$name: says what is wrong");
    is(scalar $t->seen, $before, "$name: nothing at the backend");
    is($t->status->{in_flight}, 0, "$name: nothing in flight");
    return $res;
}

key('a field', 'f:x', '/form', 'Body=x');
key('among others', 'f:x', '/form', 'A=1&Body=x&B=2');
key('decoded', "f:a%20b\xc3\xa9+%25", '/form', 'Body=a+b%C3%A9%2b%25');
key('its name decoded', 'f:x', '/form', 'B%6fdy=x');
key('empty fields', 'f:x', '/form', '&&Body=x&&');
key('"=" in the value', 'f:x=y', '/form', 'Body=x=y');
key('";" divides nothing', 'f:x;Body=y', '/form', 'Body=x;Body=y');
key('NUL', 'f:x%00y', '/form', 'Body=x%00y');
key('another field in another location', 'f:y', '/again',
    'Body=x&Other+Field=y');
key('two levels', 'f:1:x', '/top', 'Body=x&top=1');
key('asked too early', 'f:x', '/early', 'Body=x');
key('in a file', 'f:x', '/form', 'A=' . 'y' x 1_000_000 . '&Body=x');
key('a value of 512 bytes', 'f:' . 'x' x 512, '/form', 'Body=' . 'x' x 512);
key('another field twice', 'f:x', '/form', 'a=1&a=2&Body=x');

bad('no such field', 'work-key-incomplete', qr/./, '/form', 'body=x');
bad('an empty field', 'work-key-incomplete', qr/./, '/form', 'Body=&a=1');
bad('no value', 'work-key-incomplete', qr/./, '/form', 'Body');
bad('no body', 'work-key-incomplete', qr/./, '/form', '');
bad('no id', 'idempotency-key-missing', qr/./, '/id', 'a=1');
bad('twice', 'form-invalid', qr/occurs twice/, '/form', 'Body=x&Body=x');
bad('twice, spelled otherwise', 'form-invalid', qr/occurs twice/, '/form',
    'Body=x&%42ody=y');
bad('twice in an id', 'form-invalid', qr/occurs twice/, '/id',
    'Body=x&Body=x');
bad('twice in a name', 'form-invalid', qr/occurs twice/, '/kind',
    'Body=x&Body=x');
bad('a broken escape', 'form-invalid', qr/"%" is without its two digits/,
    '/form', 'Body=x%4');
bad('a broken escape elsewhere', 'form-invalid', qr/"%" is without/, '/form',
    'Body=x&a=%zz');
bad('1001 fields', 'form-invalid', qr/too many fields/, '/form',
    'Body=x' . '&a' x 1000);
bad('not UTF-8', 'work-key-invalid', qr/./, '/form', 'Body=%ff');
bad('a value of 513 bytes', 'work-key-invalid', qr/./, '/form',
    'Body=' . 'x' x 513);
bad('a name with a space', 'field-invalid', qr/./, '/kind', 'Body=a+b');
key('1000 fields', 'f:x', '/form', 'Body=x' . '&a' x 999);

is(post('/optional', 'a=1')->{status}, 202, 'optional: passes');
ok(!length(($t->seen)[-1]{params}{INTERLOCK_IDEMPOTENCY_KEY} // ''),
    'optional: without a key');

# the same request twice, and another one
my $first = post('/id', 'Body=r1&a=1');
is(post('/id', 'Body=r1&a=1')->{body}, $first->{body}, 'a repeat');
isnt(post('/id', 'Body=r2&a=1')->{body}, $first->{body}, 'another');

# where nothing is decided no body is read: no value, and no error
is(post('/none', 'Body=x')->{status}, 202, 'no gate');
ok(!length(($t->seen)[-1]{params}{X_BODY} // ''), 'no gate: no value');

post('/form?log', 'Body=a+b&top=z');
$t->wait_for(sub { $t->slurp('logs/access.log') =~ m{/form\?log} }, 5,
    'the log');
like($t->slurp('logs/access.log'), qr{^/form\?log\|a b\|z$}m, 'in the log');

like($t->error_log, qr/interlock: form-invalid: a field that is part of a key/,
    'the log says why');

done_testing();
