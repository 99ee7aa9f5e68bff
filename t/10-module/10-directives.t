# Every directive, right and wrong: nginx -t accepts it, or says which
# directive, which value, which line.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $t = Interlock::Nginx->new;
$t->secret(github => "s3cret\n");
$t->secret(empty => '');
$t->secret(std => "v1,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
$t->write_file('secrets/open', "s3cret\n", 0644);
$t->write_file('secrets/wide', "s3cret\n", 0666);
mkdir $t->dir . '/secrets/dir';

my $ZONE = 'interlock_zone zone=z:1m;';
my $NAMES = 'interlock_tenant demo; interlock_source s;';

# Checks one configuration: http level, location level, what nginx says.
sub conf {
    my ($name, $http, $location, $ok, @said) = @_;

    # a line for each directive
    s/; /;\n/g for $http, $location;

    local $t->{http} = $http;
    local $t->{server} = "location /in/ {\n$location\n}";
    my ($code, $said) = $t->test_config;
    is($code == 0 ? 1 : 0, $ok, $name) or diag($said);
    like($said, $_, "$name: says so") for @said;
    unlike($said, qr/\[warn\]/, "$name: no warning") if $ok && !@said;

    unless ($ok) {
        my ($line) = $said =~ /^nginx: \[emerg\].*nginx\.conf:(\d+)$/m;
        my $text = $line ? (split /\n/, $t->slurp('nginx.conf'))[ $line - 1 ]
            : '(none)';
        my ($directive) = $said =~ /\[emerg\].*?"(interlock\w*)/;
        $directive = 'interlock' if $said =~ /\[emerg\].* (?:in|of) location /;
        like($text, qr/\b\Q@{[ $directive \/\/ 'interlock' ]}\E/,
            "$name: names the line") or diag($said);
    }
}

sub good { my ($name, $http, $loc, @said) = @_;
    conf($name, $http, $loc, 1, @said) }
sub bad { my ($name, $http, $loc, @said) = @_;
    conf($name, $http, $loc, 0, @said) }


# interlock_zone

good('zone', $ZONE, '');
good('zone: all parameters', 'interlock_zone zone=z:64k done=1h in_flight=5s;',
    '');
bad('zone: no parameter', 'interlock_zone done=1h;', '',
    qr/"interlock_zone" must have the "zone" parameter/);
bad('zone: no size', 'interlock_zone zone=z;', '',
    qr/invalid zone size "zone=z" in "interlock_zone"/);
bad('zone: bad size', 'interlock_zone zone=z:1x;', '',
    qr/invalid zone size "zone=z:1x"/);
bad('zone: no name', 'interlock_zone zone=:1m;', '', qr/invalid zone size/);
good('zone: the smallest', 'interlock_zone zone=z:32k;', '');
bad('zone: too small', 'interlock_zone zone=z:31k;', '',
    qr/too small: at least 32k/);
bad('zone: bad time', "interlock_zone zone=z:1m done=x;", '',
    qr/invalid parameter "done=x" in "interlock_zone"/);
bad('zone: no time', "interlock_zone zone=z:1m in_flight=0;", '',
    qr/invalid parameter "in_flight=0"/);
bad('zone: done too long', "interlock_zone zone=z:1m done=2y;", '',
    qr/invalid parameter "done=2y"/);
bad('zone: unknown parameter', "interlock_zone zone=z:1m foo=1;", '',
    qr/invalid parameter "foo=1"/);
bad("zone: $_ twice", "interlock_zone zone=z:1m $_ $_;", '',
    qr/duplicate parameter "\Q$_\E" in "interlock_zone"/)
    for 'done=1h', 'in_flight=9s';
bad('zone: two of them', 'interlock_zone zone=z:1m zone=y:1m;', '',
    qr/duplicate parameter "zone=y:1m" in "interlock_zone"/);
bad('zone: twice', "$ZONE interlock_zone zone=z:1m;", '',
    qr/duplicate zone "z" in "interlock_zone"/);
good('zones: as many as there may be', join(' ', map
    { "interlock_zone zone=z$_:32k;" } 1 .. 32), '');
bad('zones: one more', join(' ', map { "interlock_zone zone=z$_:32k;" }
    1 .. 33), '', qr/too many zones in "interlock_zone" with "z33": at most 32/);
bad('interlock: no name of a zone', $ZONE, 'interlock zone=interlock:edge;',
    qr/invalid parameter "zone=interlock:edge" in "interlock"/);
bad('zone: in a location', '', $ZONE,
    qr/"interlock_zone" directive is not allowed here/);
good('zones: two', "$ZONE interlock_zone zone=y:1m;", '');


# interlock

my $KEY = 'interlock_idempotency_key $http_idempotency_key;';

good('interlock', $ZONE, "$NAMES interlock zone=z; $KEY fastcgi_pass backend;");
good('interlock: zone below', '',
    "$NAMES interlock zone=late; $KEY fastcgi_pass backend; }"
    . ' } interlock_zone zone=late:1m; server { location / {');
good('interlock: off', $ZONE, "interlock off; $NAMES $KEY");
good('interlock: of the server', "$ZONE server { interlock zone=z; $NAMES"
    . " location / { $KEY fastcgi_pass backend; }"
    . ' listen unix:%%DIR%%/other.sock; }', '');
bad('interlock: unknown zone', $ZONE, "$NAMES interlock zone=y; $KEY",
    qr/unknown zone "y" in "interlock" of location "\/in\/"/);
bad('interlock: unknown zone, and no key', $ZONE, 'interlock zone=y;',
    qr/unknown zone "y" in "interlock" of location "\/in\/"/);
bad('interlock: unknown zone of the server', "$ZONE server {\n"
    . "interlock zone=y;\n listen unix:%%DIR%%/other.sock; }", '',
    qr/unknown zone "y" in "interlock": there is no/);
bad('interlock: other word', $ZONE, 'interlock on;',
    qr/invalid parameter "on" in "interlock"/);
bad('interlock: no name', $ZONE, 'interlock zone=;',
    qr/invalid parameter "zone="/);
bad('interlock: twice', $ZONE, 'interlock off; interlock off;',
    qr/"interlock" directive is duplicate/);
bad('interlock: at http', "$ZONE interlock zone=z;", '', qr/not allowed here/);
good('interlock: without a key', $ZONE, 'interlock zone=z; fastcgi_pass backend;',
    qr/\[warn\].*"interlock" has no effect in a location without "interlock_idempotency_key"/);
bad('interlock: no tenant', $ZONE,
    "interlock zone=z; interlock_source s; $KEY fastcgi_pass backend;",
    qr/"interlock_idempotency_key" in location "\/in\/" needs "interlock_tenant"/);
bad('interlock: no source', $ZONE,
    "interlock zone=z; interlock_tenant s; $KEY fastcgi_pass backend;",
    qr/needs "interlock_source"/);


# names

for my $d (qw(tenant source kind)) {
    good("$d: a name", '', "interlock_$d a-1.b_c;");
    good("$d: a variable", '', "interlock_$d \$http_x;");
    bad("$d: not a name", '', "interlock_$d A;",
        qr/invalid value "A" in "interlock_$d"/);
    bad("$d: empty", '', "interlock_$d '';", qr/invalid value ""/);
    bad("$d: too long", '', "interlock_$d " . 'a' x 65 . ';',
        qr/invalid value/);
    bad("$d: twice", '', "interlock_$d a; interlock_$d b;",
        qr/"interlock_$d" directive is duplicate/);
    bad("$d: unknown variable", '', "interlock_$d \$nothing;",
        qr/unknown "nothing" variable in "interlock_$d"/);
}


# interlock_verify

my $dir = $t->dir;

good('verify', '', 'interlock_verify github secret=secrets/github;');
good('verify: absolute path', '',
    "interlock_verify github secret=$dir/secrets/github;");
good('verify: tolerance', '',
    'interlock_verify stripe secret=secrets/github tolerance=10m;');
good('verify: hmac', '', 'interlock_verify hmac secret=secrets/github'
    . ' header=X-Sig prefix=v1= algorithm=sha512 encoding=base64'
    . ' "signed={timestamp:X-Time}.{url}.{body}" url=https://x.test$request_uri;');
good('verify: token', '',
    'interlock_verify token secret=secrets/github header=X-Token;');
bad('verify: no secret', '', 'interlock_verify github;',
    qr/"interlock_verify github" must have the "secret" parameter/);
bad('verify: empty path', '', 'interlock_verify github secret=;',
    qr/must have the "secret" parameter/);
bad('verify: unknown scheme', '',
    'interlock_verify foo secret=secrets/github;',
    qr/invalid scheme in "interlock_verify": unknown signature scheme "foo", known are: .*github/);
bad('verify: unknown argument', '',
    'interlock_verify github secret=secrets/github foo=1;',
    qr/invalid parameter "foo=1" in "interlock_verify"/);
bad('verify: not an argument', '',
    'interlock_verify github secret=secrets/github foo;',
    qr/invalid parameter "foo" in "interlock_verify"/);
bad('verify: an argument of another scheme', '',
    'interlock_verify github secret=secrets/github tolerance=5m;',
    qr/invalid parameter "tolerance=5m".*no argument/);
bad('verify: bad tolerance', '',
    'interlock_verify stripe secret=secrets/github tolerance=0;',
    qr/invalid parameter "tolerance=0"/);
bad('verify: a tolerance for no time', '', 'interlock_verify hmac'
    . ' secret=secrets/github header=X-Sig tolerance=5s;',
    qr/incomplete "interlock_verify hmac": tolerance= says nothing where/);
for (map { [ $_, qr/line 1: \S/ ] } '# old one', '#', 'whsec_',
    '-----BEGIN PUBLIC KEY-----')
{
    my ($line, $said) = @$_;
    $t->secret(other => "$line\nsecret\n");
    bad("verify: \"$line\" for a secret", '',
        'interlock_verify stripe secret=secrets/other;',
        qr{invalid secret file "secrets/other" in "interlock_verify": $said});
}
$t->secret(short => "whsec_QQ==\n");
bad('verify: a key of one byte', '',
    'interlock_verify standard secret=secrets/short;',
    qr/line 1: the key is shorter than 16 bytes/);
bad('verify: hmac without header', '',
    'interlock_verify hmac secret=secrets/github;',
    qr/incomplete "interlock_verify hmac": header= is missing/);
bad('verify: unknown variable in url', '',
    'interlock_verify hmac secret=secrets/github header=x url=$nothing'
    . ' "signed={url}{body}";',
    qr/unknown "nothing" variable in "interlock_verify"/);
good('verify: a public URL', '', 'interlock_verify square secret=secrets/github'
    . ' url=https://pay.example;');
bad("verify: url=$_", '',
    "interlock_verify square secret=secrets/github url=$_;",
    qr/invalid parameter "url=\Q$_\E" in "interlock_verify": it begins with "http:/)
    for '', 'pay.example', '/in/square', 'http://', 'https://', 'https:///in',
        'https://?a', 'https://:443', 'https:/pay.example';
bad('verify: url twice', '', 'interlock_verify square secret=secrets/github'
    . ' url=https://a.example url=https://b.example;',
    qr{duplicate parameter "url=https://b.example" in "interlock_verify"});
bad('verify: a URL that is not signed', '', 'interlock_verify github'
    . ' secret=secrets/github url=https://pay.example;',
    qr{"url=https://pay.example" has no meaning in "interlock_verify github"});
good('verify: handshakes', '', 'interlock_verify meta secret=secrets/github'
    . ' verify_token=secrets/github allowed_origin=a.example,b.example'
    . ' allowed_rate=120;');
bad('verify: verify_token of another scheme', '', 'interlock_verify github'
    . ' secret=secrets/github verify_token=secrets/github;',
    qr/invalid parameter "verify_token=secrets\/github" in "interlock_verify": only scheme "meta" has it/);
bad('verify: no verify_token', '', 'interlock_verify meta'
    . ' secret=secrets/github verify_token=secrets/nothing;',
    qr/can not read "verify_token=secrets\/nothing" in "interlock_verify"/);
bad("verify: $_", '', "interlock_verify github secret=secrets/github '$_';",
    qr/invalid parameter "\Q$_\E" in "interlock_verify": it is /)
    for 'allowed_origin=', 'allowed_origin=a b', 'allowed_rate=',
        'allowed_rate=0', 'allowed_rate=1s', 'allowed_rate=1234567890';
bad('verify: allowed_rate alone', '', 'interlock_verify github'
    . ' secret=secrets/github allowed_rate=1;',
    qr/"allowed_rate=1" has no meaning in "interlock_verify" without "allowed_o/);
bad('verify: verify_token of no file', '', 'interlock_verify meta'
    . ' secret=secrets/github verify_token=;',
    qr/invalid parameter "verify_token=" in "interlock_verify": it names a file/);
bad("verify: $_->[1] twice", '', "interlock_verify $_->[0]"
    . " secret=secrets/github $_->[1] $_->[2];",
    qr/duplicate parameter "\Q$_->[2]\E" in "interlock_verify"/)
    for [ 'stripe', 'tolerance=1m', 'tolerance=2m' ],
    [ 'github', 'secret=secrets/github', 'secret=secrets/github' ],
    [ 'github', 'content=raw', 'content=gunzip' ],
    [ 'github', 'encoding=text', 'encoding=hex' ],
    [ 'github', 'allowed_origin=a', 'allowed_origin=b' ],
    [ 'meta', 'verify_token=secrets/github', 'verify_token=secrets/github' ],
    [ 'adyen', 'signature=items', 'signature=header' ],
    [ 'token', 'header=a', 'header=b' ],
    [ 'hmac', 'header=a prefix=b', 'prefix=c' ];
bad('verify: one argument by both of its names', '', 'interlock_verify github'
    . ' encoding=text secret_encoding=hex secret=secrets/github;',
    qr/invalid parameter "secret_encoding=hex" in "interlock_verify": there is more than one/);
bad('verify: tolerance of no time', '', 'interlock_verify hmac header=X-Sig'
    . ' tolerance=5s secret=secrets/github;',
    qr/incomplete "interlock_verify hmac": tolerance= says nothing where/);
bad("verify: the header $_", '', "interlock_verify token header=$_"
    . ' secret=secrets/github;',
    qr/invalid parameter "header=$_" in "interlock_verify": HTTP has a meaning/)
    for 'Content-Length', 'transfer-encoding', 'Host', 'Connection';
bad('verify: no time', '', 'interlock_verify hmac header=X-Sig'
    . ' "signed={timestamp:Content-Length}{body}" secret=secrets/github;',
    qr/in "interlock_verify": a header that HTTP has a meaning of its own for/);
for my $args ('token header=X_A', 'hmac header=x_a',
    'hmac header=X-Sig "signed={timestamp:X_A}{body}"',
    'hmac header=X-Sig "signed={body}{header:X_A}"')
{
    bad("verify: $args, which nginx drops", '',
        "interlock_verify $args secret=secrets/github;",
        qr/header "x_a" in "interlock_verify" of location "\/in\/" needs "underscores/i);
    good("verify: $args, which nginx takes", "$_ ",
        "interlock_verify $args secret=secrets/github;")
        for 'underscores_in_headers on;', 'ignore_invalid_headers off;';
}
bad('verify: twice', '', 'interlock_verify github secret=secrets/github;'
    . 'interlock_verify github secret=secrets/github;',
    qr/"interlock_verify" directive is duplicate/);
bad('secret: missing', '', 'interlock_verify github secret=secrets/none;',
    qr/can not read "secret=secrets\/none" in "interlock_verify": open\(\) "\Q$dir\E\/secrets\/none" failed \(2: No such file/);
bad('secret: empty', '', 'interlock_verify github secret=secrets/empty;',
    qr/secret file ".*empty" in "interlock_verify" is empty/);
bad('secret: a directory', '', 'interlock_verify github secret=secrets/dir;',
    qr/is not a regular file/);
bad('secret: anybody may write it', '',
    'interlock_verify github secret=secrets/wide;',
    qr/may be written by everybody/);
good('secret: anybody may read it', '',
    'interlock_verify github secret=secrets/open;',
    qr/\[warn\].*may be read by everybody/);
bad('secret: of another form', '',
    'interlock_verify standard secret=secrets/std;',
    qr/invalid secret file ".*std" in "interlock_verify": .*line 1/);
bad("secret: a version pasted with it, $_", '',
    "interlock_verify $_ secret=secrets/std;",
    qr/invalid secret file "secrets\/std" in "interlock_verify": line 1: .*must start with "whsec_"/)
    for qw(standard github gitlab stripe slack);
$t->secret(blank => "\n\n");
bad('secret: blank lines', '', 'interlock_verify github secret=secrets/blank;',
    qr/"secrets\/blank" in "interlock_verify": there is no secret in the file/);
bad("verify_token: $_->[0]", '', 'interlock_verify meta secret=secrets/github'
    . " verify_token=secrets/$_->[0];", $_->[1])
    for [ none => qr/can not read "verify_token=secrets\/none"/ ],
    [ empty => qr/verify_token file ".*empty" in "interlock_verify" is empty/ ],
    [ wide => qr/may be written by everybody/ ];
good('verify_token: anybody may read it', '', 'interlock_verify meta'
    . ' secret=secrets/github verify_token=secrets/open;',
    qr/\[warn\].*verify_token file ".*may be read by everybody/);
{
    local $t->{server} =
        'location / { interlock_verify standard secret=secrets/std; }';
    my (undef, $said) = $t->test_config;
    unlike($said, qr/MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw/,
        'a secret is never shown');
}
SKIP: {
    skip 'root reads everything', 1 if $> == 0;
    $t->write_file('secrets/closed', "s3cret\n", 0);
    bad('secret: unreadable', '',
        'interlock_verify github secret=secrets/closed;', qr/13: Permission/);
}


# interlock_work_key

good('work key', '', 'interlock_work_key a $http_x b-${http_y};');
good('work key: global', '', 'interlock_work_key global nightly;');
bad('work key: constant', '', 'interlock_work_key nightly run;',
    qr/no variable in "interlock_work_key" beginning with "nightly".*"global"/);
bad('work key: global is not first', '', 'interlock_work_key run global;',
    qr/no variable in "interlock_work_key"/);
bad('work key: empty part', '', 'interlock_work_key $http_x "";',
    qr/empty part "" in "interlock_work_key"/);
bad('work key: too many parts', '',
    'interlock_work_key ' . join(' ', ('$http_x') x 17) . ';',
    qr/too many parts in "interlock_work_key"/);
bad('work key: no parts', '', 'interlock_work_key;',
    qr/invalid number of arguments in "interlock_work_key"/);
bad('work key: twice', '', 'interlock_work_key $http_x;' x 2,
    qr/"interlock_work_key" directive is duplicate/);


# interlock_idempotency_key

good("key: $_", '', "interlock_idempotency_key \$http_x $_;")
    for qw(required optional body);
good('key: only of the body', '', 'interlock_idempotency_key "" body;');
bad('key: other word', '', 'interlock_idempotency_key $http_x maybe;',
    qr/invalid parameter "maybe" in "interlock_idempotency_key"/);
bad('key: constant', '', 'interlock_idempotency_key x;',
    qr/no variable in "interlock_idempotency_key x"/);
bad('key: empty', '', 'interlock_idempotency_key "" optional;',
    qr/no variable in "interlock_idempotency_key/);
bad('key: twice', '', 'interlock_idempotency_key $http_x;' x 2,
    qr/"interlock_idempotency_key" directive is duplicate/);


# interlock_json

good('json', 'interlock_json $a /x;', 'interlock_json $b ""; '
    . 'interlock_json $c /a~1b/0;');
good('json: one variable, two pointers', '', 'interlock_json $a /x; '
    . 'location /in/b { interlock_json $a /y; }');
bad('json: not a variable', '', 'interlock_json a /x;',
    qr/invalid variable name "a" in "interlock_json"/);
bad('json: no name', '', 'interlock_json $ /x;', qr/invalid variable name "\$"/);
bad('json: bad pointer', '', 'interlock_json $a x;',
    qr/invalid JSON pointer "x" in "interlock_json"/);
bad('json: bad escape', '', 'interlock_json $a /~2;',
    qr/invalid JSON pointer "\/~2"/);
bad('json: twice', '', 'interlock_json $a /x; interlock_json $a /y;',
    qr/duplicate variable "\$a" in "interlock_json"/);
bad('json: set has it', '', 'set $a 1; interlock_json $a /x;',
    qr/variable "\$a" in "interlock_json" is already defined otherwise/);
bad('json: nginx has it', '', 'interlock_json $host /x;',
    qr/variable/);
bad("json: nginx has \$$_", '', "interlock_json \$$_ /x;",
    qr/variable "\$$_" in "interlock_json" can not be defined/)
    for qw(http_x HTTP_X sent_http_x upstream_http_x cookie_x arg_x);


# interlock_split

my $WHOLE = "$NAMES interlock_kind k; interlock_json \$id /id;";
my $OWN = 'interlock_idempotency_key $id; interlock_work_key w $id;';
good("split: $_->[0]", '', "$WHOLE $OWN interlock_split $_->[1];"
    . ' fastcgi_pass backend;') for [ 'the whole', '""' ],
    [ 'by a pointer', '/a/0' ], [ 'escaped', '/a~1b/~0' ];
good('split: a header and a member', '', "$WHOLE interlock_split /a;"
    . ' interlock_idempotency_key $http_x$id; interlock_work_key w $id;'
    . ' fastcgi_pass backend;');
good('split: of the element', '', "$WHOLE interlock_split /a;"
    . ' interlock_idempotency_key "" body; interlock_work_key w $id;'
    . ' fastcgi_pass backend;');
bad('split: bad pointer', '', "$WHOLE $OWN interlock_split items;",
    qr/invalid JSON pointer "items" in "interlock_split"/);
bad('split: bad escape', '', "$WHOLE $OWN interlock_split /~2;",
    qr/invalid JSON pointer "\/~2" in "interlock_split"/);
bad('split: nothing', '', "$WHOLE $OWN interlock_split;",
    qr/invalid number of arguments in "interlock_split"/);
bad('split: twice', '', "$WHOLE $OWN interlock_split /a; interlock_split /b;",
    qr/"interlock_split" directive is duplicate/);
bad('split: at http', 'interlock_split /a;', '',
    qr/"interlock_split" directive is not allowed here/);
for (qw(tenant source kind)) {
    (my $less = $WHOLE) =~ s/interlock_$_ \w+;//;
    bad("split: no $_", '', "$less $OWN interlock_split /a;",
        qr/"interlock_split" in location "\/in\/" needs "interlock_$_"/);
}
for (qw(idempotency_key work_key)) {
    (my $less = $OWN) =~ s/interlock_$_ .*?;//;
    bad("split: no $_", '', "$WHOLE $less interlock_split /a;",
        qr/"interlock_split" in location "\/in\/" needs "interlock_$_"/);
}
bad('split: one key for all', '', "$WHOLE interlock_split /a;"
    . ' interlock_idempotency_key $http_x; interlock_work_key w $id;',
    qr/"interlock_idempotency_key \$http_x" in location "\/in\/" is the same for all elements/);
bad('split: to somebody else', '', "$WHOLE $OWN interlock_split /a;"
    . ' proxy_pass http://127.0.0.1:1;',
    qr/"interlock_split" in location "\/in\/" needs "fastcgi_pass"/);


# interlock_verify: content

good("verify: content=$_", '', "interlock_verify github "
    . "secret=secrets/github content=$_;") for 'raw', 'gunzip';
bad("verify: content=$_", '', "interlock_verify github secret=secrets/github "
    . "\"content=$_\";", qr/invalid parameter "content=\Q$_\E" in "interlock_verify": it is "content/)
    for '', 'gzip', 'GUNZIP', 'gunzip ';
bad('verify: content=gunzip of interlockd', '', 'interlock_verify sendgrid '
    . 'content=gunzip secret=secrets/github;',
    qr/invalid parameter "content=gunzip" in "interlock_verify": this scheme/);

# interlock_form

good('form', 'interlock_form $a x;', 'interlock_form $b "a b"; '
    . 'interlock_form $c a[];');
good('form: one variable, two fields', '', 'interlock_form $a x; '
    . 'location /in/b { interlock_form $a y; }');
bad('form: not a variable', '', 'interlock_form a x;',
    qr/invalid variable name "a" in "interlock_form"/);
bad('form: no name', '', 'interlock_form $a "";',
    qr/empty name of a field "" in "interlock_form"/);
bad('form: a variable for a name', '', 'interlock_form $a $uri;',
    qr/variable in the name of a field "\$uri" in "interlock_form"/);
bad('form: nginx has it', '', 'interlock_form $http_x x;',
    qr/variable "\$http_x" in "interlock_form" can not be defined/);
bad('form: twice', '', 'interlock_form $a x; interlock_form $a y;',
    qr/duplicate variable "\$a" in "interlock_form"/);
bad('form: JSON has it', 'interlock_json $a /x;', 'interlock_form $a x;',
    qr/variable "\$a" in "interlock_form" is already defined otherwise/);
bad('form: one argument', '', 'interlock_form $a;',
    qr/invalid number of arguments in "interlock_form"/);

# interlock_business_date

good('date', 'interlock_business_date $a UTC;',
    'interlock_business_date $b America/Argentina/Buenos_Aires from=$arg_x '
    . 'cutoff=23:59; interlock_business_date $c Etc/GMT+12 cutoff=00:00;');
good('date: one variable, two zones', '', 'interlock_business_date $a UTC; '
    . 'location /in/b { interlock_business_date $a Asia/Seoul; }');
bad('date: not a variable', '', 'interlock_business_date a UTC;',
    qr/invalid variable name "a" in "interlock_business_date"/);
bad('date: no zone', '', 'interlock_business_date $a;',
    qr/invalid number of arguments in "interlock_business_date"/);
bad('date: an unknown zone', '', 'interlock_business_date $a Asia/Seul;',
    qr{unknown time zone "Asia/Seul" in "interlock_business_date": open\(\)},
    qr{"/usr/share/zoneinfo/Asia/Seul" failed \(2: });
bad('date: a folder', '', 'interlock_business_date $a Asia;',
    qr{unknown time zone "Asia" in "interlock_business_date": .*not a regular});
bad("date: zone \"$_\"", '', "interlock_business_date \$a \"$_\";",
    qr/invalid time zone "\Q$_\E" in "interlock_business_date"/)
    for '', '/etc/localtime', '../zoneinfo/UTC', 'Asia/../UTC', 'tzdata.zi',
        '$zone', 'Asia/Seoul ';
bad('date: leap seconds', '', 'interlock_business_date $a right/UTC;',
    qr{time zone "right/UTC" in "interlock_business_date": .* counts leap});
bad('date: not a zone', '', 'interlock_business_date $a leapseconds;',
    qr{time zone "leapseconds" in .* is not a time zone file});
bad("date: $_", '', "interlock_business_date \$a UTC $_;",
    qr/invalid parameter "\Q$_\E" in "interlock_business_date"/)
    for 'cutoff=', 'cutoff=6:30', 'cutoff=24:00', 'cutoff=06:60',
        'cutoff=06:30:00', 'cutoff=-6:30', 'from=', 'from=now',
        'from=2026-07-25', 'from=2026', 'from=1785000000',
        'form=$at', 'x';
bad('date: nginx has it', '', 'interlock_business_date $arg_d UTC;',
    qr/variable "\$arg_d" in "interlock_business_date" can not be/);
bad('date: from twice', '', 'interlock_business_date $a UTC from=$arg_a'
    . ' from=$arg_b;', qr/duplicate parameter "from=\$arg_b" in "interlock_business_date"/);
bad('date: cutoff twice', '',
    'interlock_business_date $a UTC cutoff=01:00 cutoff=02:00;',
    qr/duplicate parameter "cutoff=02:00" in "interlock_business_date"/);
bad('date: twice', '',
    'interlock_business_date $a UTC; interlock_business_date $a UTC;',
    qr/duplicate variable "\$a" in "interlock_business_date"/);

# the rest

good("mismatch: $_", '', "interlock_mismatch $_;") for qw(reject first);
bad('mismatch: other', '', 'interlock_mismatch last;',
    qr/invalid value "last" in "interlock_mismatch"/);
bad('mismatch: twice', '', 'interlock_mismatch first; interlock_mismatch first;',
    qr/"interlock_mismatch" directive is duplicate/);
good('wait', '', 'interlock_wait 500ms;');
good('wait: not at all', '', 'interlock_wait 0;');
bad('wait: other', '', 'interlock_wait x;',
    qr/invalid value "x" in "interlock_wait"/);
bad("wait: $_->[0]", '', "interlock_wait $_->[1];",
    qr/invalid value "\Q$_->[2]\E" in "interlock_wait"/)
    for [ 'negative', '-1', '-1' ], [ 'empty', '""', '' ],
    [ 'no unit', '1q', '1q' ];
bad('wait: twice', '', 'interlock_wait 1s; interlock_wait 1s;',
    qr/"interlock_wait" directive is duplicate/);
good('dry run', '', 'interlock_dry_run on;');
bad('dry run: other', '', 'interlock_dry_run maybe;',
    qr/invalid value "maybe" in "interlock_dry_run"/);
good('audit', "interlock_audit unix:/run/interlock/edge.sock; $ZONE",
    'interlock_audit off;');
good('audit: within the prefix', $ZONE, 'interlock_audit unix:edge.sock;');
bad("audit: $_", $ZONE, "interlock_audit $_;",
    qr/invalid value "$_" in "interlock_audit"/)
    for qw(on unix: /run/edge.sock 127.0.0.1:514);
bad('audit: a long path', $ZONE, 'interlock_audit unix:/' . 'x' x 107 . ';',
    qr/the path "\/x+" in "interlock_audit" is too long for a socket/);
bad('audit: twice', $ZONE, 'interlock_audit off; interlock_audit off;',
    qr/"interlock_audit" directive is duplicate/);

good('status', $ZONE, 'interlock_status;');
good("status: $_", $ZONE, "interlock_status $_;") for qw(json prometheus);
bad('status: other', $ZONE, 'interlock_status xml;',
    qr/invalid parameter "xml" in "interlock_status"/);
bad('status: twice', $ZONE, 'interlock_status; interlock_status;',
    qr/"interlock_status" directive is duplicate/);


# variables that are defined nowhere, wherever a value may have some

bad("unknown variable: $_->[0]", '', "set \$known 1; $_->[1]",
    qr/unknown "nothing" variable in "\Q$_->[0]\E"/)
    for [ interlock_work_key => 'interlock_work_key $known ${nothing};' ],
    [ interlock_idempotency_key => 'interlock_idempotency_key a$known-$nothing;' ],
    [ interlock_business_date => 'interlock_business_date $a UTC from=$nothing;' ],
    [ interlock_kind => 'interlock_kind "$known$nothing";' ],
    [ interlock_verify => 'interlock_verify square secret=secrets/github'
        . ' url=https://a.example$nothing;' ];
good('variables of all kinds', 'map $uri $mapped { default x; }'
    . ' interlock_json $json /a;', 'set $set 1; if ($uri ~ "(?<part>x)") {'
    . ' set $two $1; } interlock_work_key ${set}$part $mapped $json$http_a-$arg_b'
    . ' $cookie_c$sent_http_d$upstream_http_e $REQUEST_method;');
bad("verify: $_->[0]", '', 'interlock_verify hmac secret=secrets/github'
    . ($_->[0] =~ /^header/ ? '' : ' header=X-Sig') . " \"$_->[0]\";",
    qr/invalid parameter "\Q$_->[0]\E" in "interlock_verify"/)
    for map { [ $_ ] } 'algorithm=md5', 'algorithm=', 'encoding=base32',
        'secret_encoding=rot13', 'signed=', 'signed={nobody}', 'signed={body',
        'header=', 'header=a b', 'tolerance=1q', 'tolerance=25h', 'tolerance=',
        'content=deflate', 'url=ftp://a.example';


# interlock_keys, interlock_effect, interlock_effect_uri

my $EFFECT = 'interlock_keys secrets/pub; interlock_effect_uri /e;';
my $PASS = 'proxy_pass http://127.0.0.1:1;';
$t->write_file('secrets/pub', "k4.public.11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\n");
good('keys', '', 'interlock_keys secrets/pub;');
for ([ 'nothing there', 'none', qr/none" of "interlock_keys" can not be read/ ],
    [ 'no key', 'github', qr/github" of "interlock_keys" holds no key/ ],
    [ 'empty', 'empty', qr/empty" of "interlock_keys" holds no key/ ],
    [ 'an empty directory', 'dir', qr/no \*\.pub and no \*\.seed in directory/ ])
{
    my ($name, $file, $said) = @$_;
    bad("keys: $name", '', "interlock_keys secrets/$file;", $said,
        qr/invalid value "secrets\/$file" in "interlock_keys"/);
}
bad('keys: twice', '', 'interlock_keys secrets/pub; interlock_keys secrets/pub;',
    qr/"interlock_keys" directive is duplicate/);
good('effect', $EFFECT, "interlock_effect name=\$http_x kind=mail; $PASS");
good('effect: off', '', 'interlock_effect off;');
bad("effect: $_->[0]", $EFFECT, "interlock_effect $_->[0]; $PASS", $_->[1])
    for [ 'on', qr/invalid parameter "on" in "interlock_effect"/ ],
    [ 'name=', qr/invalid parameter "name=" in "interlock_effect"/ ],
    [ 'kind=a', qr/"interlock_effect" must have the "name" parameter/ ],
    [ 'name=a kind=A', qr/invalid kind "A" in "interlock_effect"/ ],
    [ 'name=a kind=', qr/invalid parameter "kind=" in "interlock_effect"/ ],
    [ 'name=a name=b', qr/duplicate parameter "name=b" in "interlock_effect"/ ],
    [ 'off name=a', qr/invalid parameter "off" in "interlock_effect"/ ],
    [ 'name=$nothing', qr/unknown "nothing" variable in "interlock_effect"/ ];
bad('effect: twice', $EFFECT, "interlock_effect off; interlock_effect off;",
    qr/"interlock_effect" directive is duplicate/);
bad('effect: in a gate', "$EFFECT", "interlock_effect name=a;\n$PASS $KEY",
    qr/location "\/in\/" has "interlock_effect", for calls of workers/);
bad('effect: no keys', 'interlock_effect_uri /e;',
    "interlock_effect name=a; $PASS",
    qr/"interlock_effect" in location "\/in\/" needs "interlock_keys"/);
bad("effect URI: \"$_\"", '', "interlock_effect_uri \"$_\";",
    qr/invalid URI "\Q$_\E" in "interlock_effect_uri"/)
    for '', '/', 'e', '@e', 'http://127.0.0.1/';
bad('effect URI: twice', '', 'interlock_effect_uri /e; interlock_effect_uri /f;',
    qr/"interlock_effect_uri" directive is duplicate/);


# what does not go together

bad('fastcgi_request_buffering off', $ZONE, "$NAMES interlock zone=z; $KEY"
    . ' fastcgi_request_buffering off; fastcgi_pass backend;',
    qr/"fastcgi_request_buffering off" can not be used in location "\/in\/"/);
bad('proxy_request_buffering off', $ZONE, "$NAMES interlock zone=z; $KEY"
    . ' proxy_request_buffering off; proxy_pass http://127.0.0.1:1;',
    qr/"proxy_request_buffering off" can not be used/);
good('fastcgi_request_buffering off elsewhere', $ZONE,
    'fastcgi_request_buffering off; fastcgi_pass backend;');
good('in_flight below the read timeout', 'interlock_zone zone=z:1m in_flight=5s;',
    "$NAMES interlock zone=z; $KEY fastcgi_pass backend;",
    qr/\[warn\].*"fastcgi_read_timeout" of location "\/in\/" is not below "in_flight="/);

my $all = join ' ', map { "\$interlock_$_" } qw(decision tenant source kind
    work_key idempotency_key fingerprint verified job_id effect_id
    effect_state reject_reason mismatch split content_length);
good('variables', "log_format l '$all';", 'access_log logs/a l;');

$t->finish;
done_testing();
