# The fencing proxy: begin before a byte leaves, the outcome on record before
# the worker gets its answer, however the provider answers or does not.  The
# provider is the stand-in that keeps its own record, the backend a responder
# that does what the effect's name says (words separated by ";"):
#
#     begin=409        refuses; begin=close: the connection; begin=hold;
#                      begin=late: begins after a while; begin=503,close: what
#                      it does to the first calls that begin
#     replay=N         answers from the ledger, N the status
#     record=503,close what it does to the first calls that record
#     hold             holds the record until it is let go
#     nokey, header=H, deadline=MS

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(sha256_hex);
use IO::Select;
use JSON::PP ();
use Time::HiRes qw(sleep time);

use Interlock::Nginx;
use Interlock::OwnerToken;
use Interlock::Provider;
use Test::More;

my $json = JSON::PP->new->canonical->utf8;
my $p = Interlock::Provider->new(port => 0);
my $port = $p->port;

my $h2 = Interlock::Nginx::free_port();
my $t = Interlock::Nginx->new(h2 => $h2,
    listen => "127.0.0.1:%%PORT%%; listen 127.0.0.1:$h2 http2",
    http => "log_format e '\$uri \$status id=\$interlock_effect_id "
        . "state=\$interlock_effect_state up=\$upstream_status';",
    server => <<"END",
        access_log logs/access.log e;
        interlock_keys keys;
        interlock_effect_uri /_effect;
        location = /_effect { internal; fastcgi_read_timeout 1s;
            include $Interlock::Nginx::TOP/ngx_module/interlock_effect_params;
            fastcgi_pass backend; }
        location = /leak {
            include $Interlock::Nginx::TOP/ngx_module/interlock_effect_params;
            fastcgi_pass backend; }
        location /out/ {
            interlock_effect name=\$http_interlock_effect kind=sample;
            proxy_read_timeout 500ms;
            error_page 502 504 =503 /wrong;
            proxy_pass http://127.0.0.1:$port/; }
        location /long/ {
            interlock_effect name=\$http_interlock_effect kind=sample;
            proxy_pass http://127.0.0.1:$port/; }
        location /plain/ {
            interlock_effect name=\$http_interlock_effect;
            proxy_buffering off; proxy_read_timeout 500ms;
            proxy_pass http://127.0.0.1:$port/; }
        interlock_json \$order /reference;
        location /json/ {
            interlock_effect "name=charge:\$order" kind=sample;
            proxy_pass http://127.0.0.1:$port/; }
        location = /wrong { return 200 wrong; }
END
    answer => \&backend);
my $keys = Interlock::OwnerToken->new($t->dir . '/keys');
my $token = $keys->token;
$t->write_file('nginx.conf', '');
system('chmod', '-R', 'a+rX', $t->dir . '/keys');
$t->start;

sub backend {
    my ($self, $params, $body) = @_;

    return [ 404, [], 'no call' ] unless $params->{INTERLOCK_EFFECT};
    my $call = $json->decode($params->{INTERLOCK_EFFECT});
    my $name = $call->{name} // substr $call->{effect}, 4;
    my %do = map { my ($k, $v) = split /=/, $_, 2; ($k => $v // 1) }
        split /;/, $name;
    my $problem = sub { [ $_[0], [ 'Content-Type' =>
        'application/problem+json', 'Interlock-Effect-State' => 'unknown' ],
        '{"type":"x"}' ] };

    if ($call->{call} eq 'begin') {
        my $how = $do{begin} // '';
        $how = step($self, "$name.b", $how) if $how =~ /,/;
        return undef if $how eq 'close';
        $self->held("$name.begin") if $how eq 'hold';
        sleep 0.2 if $how eq 'late';
        return $problem->($how) if $how =~ /^\d+$/;
        return [ $do{replay}, [ $do{replay} == 204 ? () :
            ('Content-Type' => 'text/x-stored'), 'Interlock-Effect-Id' => "eff.$name",
            'Interlock-Effect-State' => 'confirmed',
            'Interlock-Effect-Replayed' => 'true' ],
            $do{replay} == 204 ? '' : 'stored' ] if $do{replay};
        return [ 200, [ 'Content-Type' => 'application/json',
            'Interlock-Effect-Decision' => 'send',
            'Interlock-Effect-Id' => "eff.$name" ], $json->encode({
            effect_id => "eff.$name", send_id => "send.$name",
            idempotency_key => $do{nokey} ? undef : "key.$name",
            key_header => $do{header}, deadline_ms => $do{deadline} // 5000,
            outcome_map => { '2xx' => 'confirmed' } }) ];
    }

    $self->held("$name.record") if $do{hold};
    my $step = step($self, "$name.r", $do{record} // '');
    return undef if $step eq 'close';
    $self->held('never') if $step eq 'slow';
    return $problem->($step) if $step =~ /^\d+$/;
    my $state = $call->{failure} ? 'unknown'
        : $call->{status} < 300 ? 'confirmed' : 'failed';
    return [ 200, [ 'Content-Type' => 'application/json',
        'Interlock-Effect-State' => $state ], '{}' ];
}

# The next of the steps of that name
sub step {
    my ($self, $name, $steps) = @_;

    my @plan = split /,/, $steps;
    for my $n (0 .. $#plan) {
        return $plan[$n] if mkdir $self->dir . "/gate/$name.$n";
    }
    return '';
}

# The calls that the backend got: { call, body, length, t }
sub calls {
    my ($self, $what, $name) = @_;

    return grep { (!$what || $_->{call}{call} eq $what) && (!defined $name
        || ($_->{call}{name} // '') eq $name
        || ($_->{call}{effect} // '') eq "eff.$name") }
        map { { %$_, call => $json->decode($_->{params}{INTERLOCK_EFFECT}) } }
        grep { $_->{params}{INTERLOCK_EFFECT} } $self->seen;
}

my $n = 0;

sub out {
    my ($name, %opt) = @_;

    my $ref = 'r' . ++$n;
    my $body = $opt{body} // $json->encode({ reference => $ref, amount => 5 });
    my $res = $t->http($opt{method} // 'POST', ($opt{at} // '/out/')
        . ($opt{path} // 'charges?x=1&token=s'), { body => $body,
        chunked => $opt{chunked},
        headers => [ ($opt{token} // $token) ne ''
            ? ('Interlock-Owner-Token' => $opt{token} // $token) : (),
            defined $name ? ('Interlock-Effect' => $name) : (),
            @{ $opt{headers} // [] } ] });
    $res->{ref} = $ref;
    $res->{sent} = $body;
    return $res;
}

sub header { return $_[0]{headers}{ $_[1] }[0] }

sub problem {
    my ($res) = @_;
    my ($name) = ($res->{json}{type} // '') =~ m{([^/]+)\z};
    return "$res->{status} " . ($name // '-');
}


# --- configuration ---------------------------------------------------------

sub refused {
    my ($what, $server, $says) = @_;

    my $conf = $t->conf_text;
    $conf =~ s/interlock_keys keys;.*location = \/wrong [^\n]*/$server/s or die;
    my ($code, $said) = $t->test_config($conf);
    isnt($code, 0, "$what: refused");
    like($said, $says, "$what: says why");
}

my $ok = 'interlock_keys keys; interlock_effect_uri /e;';
my $pass = "proxy_pass http://127.0.0.1:$port;";
refused('no keys', "interlock_effect_uri /e; location / { interlock_effect name=x\$uri; $pass }",
    qr/needs "interlock_keys"/);
refused('no uri', "interlock_keys keys; location / { interlock_effect name=x\$uri; $pass }",
    qr/needs "interlock_effect_uri"/);
refused('no name', "$ok location / { interlock_effect kind=a; $pass }",
    qr/must have the "name"/);
refused('a bad kind', "$ok location / { interlock_effect name=a kind=A; $pass }",
    qr/invalid kind "A"/);
refused('name twice', "$ok location / { interlock_effect name=a name=b; $pass }",
    qr/duplicate parameter "name=b"/);
refused('no key in the file', "interlock_keys logs/error.log; interlock_effect_uri /e;",
    qr/holds no key/);
refused('no keys in the directory', "interlock_keys logs;", qr/no \*\.pub/);
refused('keys that are not there', "interlock_keys nowhere;",
    qr/"[^"]*nowhere" of "interlock_keys"/);
refused('a body that is not read first', "$ok location / { interlock_effect name=a;
    proxy_request_buffering off; $pass }", qr/proxy_request_buffering off/);
refused('a store', "$ok location / { interlock_effect name=a; proxy_store on;
    $pass }", qr/proxy_store/);
refused('another upstream', "$ok location / { interlock_effect name=a;
    fastcgi_pass backend; }", qr/another handler than "proxy_pass"/);
refused('both sides', "$ok location / { interlock_effect name=a;
    interlock_work_key a \$uri; $pass }", qr/requests from outside/);
refused('a uri that is none', "interlock_effect_uri e;", qr/invalid URI "e"/);


# --- the good case ---------------------------------------------------------

my $res = out('one', headers => [ Authorization => 'Bearer provider',
    'Interlock-Other' => 'x', 'Idempotency-Key' => 'mine', 'X-Else' => 'y',
    'Accept-Encoding' => 'gzip', 'Interlock-Compensates' => 'c1' ]);
is($res->{status}, 200, 'the provider\'s answer');
is($res->{json}{reference}, $res->{ref}, '... whole');
is(header($res, 'interlock-effect-id'), 'eff.one', 'the effect\'s id');
is(header($res, 'interlock-effect-state'), 'confirmed', '... and state');
is(header($res, 'interlock-effect-replayed'), undef, '... not replayed');
is(header($res, 'content-length'), length $res->{body}, '... its length');

my ($heard) = grep { ($_->{reference} // '') eq $res->{ref} } $p->heard;
is($heard->{path}, '/charges?x=1&token=s', 'the provider\'s URI');
is($heard->{body}, $res->{sent}, '... body');
is($heard->{key}, 'key.one', '... key, in place of the worker\'s');
is($heard->{headers}{authorization}, 'Bearer provider',
    '... and its own Authorization');
is($heard->{headers}{'x-else'}, 'y', '... and other headers');
is(join(' ', grep { /interlock|accept-encoding/ } keys %{ $heard->{headers} }),
    '', 'nothing of interlock\'s reaches the provider');

my ($begin, @more) = calls($t, 'begin', 'one');
is(scalar @more, 0, 'one begin');
my $c = $begin->{call};
is_deeply([ @$c{qw(tenant job attempt fence name kind target compensates)} ],
    [ 'demo', '01980000-0000-7000-8000-000000000001',
      '01980000-0000-7000-8000-000000000002', 5, 'one', 'sample',
      'POST /out/charges', 'c1' ], 'what is begun');
like($c->{digest}, qr/^[0-9a-f]{64}$/, 'with the request\'s digest');
like($c->{send}, qr/^[0-9a-f]{8}-[0-9a-f]{4}-7/, '... and an id of its own');
my ($outcome) = calls($t, 'outcome', 'one');
is_deeply([ @{ $outcome->{call} }{qw(tenant attempt effect send status whole
    type map)} ], [ 'demo', '01980000-0000-7000-8000-000000000002', 'eff.one',
    'send.one', 200, JSON::PP::true, 'application/json',
    { '2xx' => 'confirmed' } ], 'the outcome');
is($outcome->{body}, $res->{body}, '... with the provider\'s answer');
is(join(' ', grep { /^HTTP_(?!PROXY)/ } map { keys %{ $_->{params} } }
    calls($t)), '', 'no header of the worker\'s goes to the backend');
cmp_ok($begin->{t}, '<', $heard->{at}, 'begun before the provider was asked');

$t->wait_for(sub { $t->slurp('logs/access.log') =~ /eff\.one/ }, 5, 'the log');
like($t->slurp('logs/access.log'),
    qr{^/out/charges 200 id=eff\.one state=confirmed up=200$}m,
    'the access log names the effect');

sub digest_of { (calls($t, 'begin', $_[0]))[0]{call}{digest} }
out('same', body => 'b');
my $same = digest_of('same');
out('same2', body => 'b', headers => [ 'X-A' => 1 ]);
is(digest_of('same2'), $same, 'the digest covers neither name nor headers');
out('body', body => 'c');
isnt(digest_of('body'), $same, '... but the body');
out('uri', body => 'b', path => 'charges?x=2');
isnt(digest_of('uri'), $same, '... the URI');
out('put', body => 'b', method => 'PUT');
isnt(digest_of('put'), $same, '... and the method');

# ... which are: the owner token anywhere, and what is for one hop alone
for my $case ([ Authorization => "Bearer $token" ],
    [ Authorization => "Bearer $token " ],
    [ Authorization => "Bearer token=\"$token\", realm=x" ],
    [ 'Proxy-Authorization' => "Bearer $token" ],
    [ 'Proxy-Authorization' => 'Basic eDp5' ], [ 'Proxy-Else' => 'x' ],
    [ Cookie => "a=b; token=$token; c=d" ], [ 'X-Token' => $token ],
    [ 'X-Debug' => "[$token]" ], [ Trailer => 'X-Sum' ], [ TE => 'trailers' ],
    [ 'Keep-Alive' => 'timeout=5' ], [ Upgrade => 'websocket' ],
    [ 'X-Hop' => 'x', Connection => "keep-alive ,\tx-HOP", 'X-End' => 'y' ],
    [ 'X-Hop' => 'x', Connection => 'close', Connection => 'other, x-hop' ])
{
    my %h = @$case;
    my $res = out("hop @{[ $n + 1 ]}", headers => [ @$case, 'X-Stays' => 1 ]);
    my ($heard) = grep { ($_->{reference} // '') eq $res->{ref} } $p->heard;
    my %got = %{ $heard->{headers} };
    is(delete $got{'x-stays'}, 1, "@$case[0, 1]: is heard");
    is(delete $got{'x-end'}, $h{'X-End'}, '... with what is not named');
    is(delete $got{connection} // 'close', 'close', '... nginx\'s Connection');
    is(join(' ', sort keys %got), 'content-length host idempotency-key',
        '... and nothing of it reaches the provider');
    unlike(join(' ', %got), qr/\Q$token\E/, '... nor the token elsewhere');
}

$res = out('nokey;nokey', headers => [ 'Idempotency-Key' => 'mine' ]);
($heard) = grep { ($_->{reference} // '') eq $res->{ref} } $p->heard;
is($heard->{key}, 'mine', 'without a key of the effect the worker\'s stays');
$res = out('h;header=X-Request-Key');
($heard) = grep { ($_->{reference} // '') eq $res->{ref} } $p->heard;
is($heard->{headers}{'x-request-key'}, 'key.h;header=X-Request-Key',
    'the header of the key is the kind\'s');

$res = out(undef, at => '/json/');
is($res->{status}, 200, 'a name from the body');
is(scalar calls($t, 'begin', "charge:$res->{ref}"), 1, '... is the effect\'s');

out('refund', at => '/plain/');
is((calls($t, 'begin', 'refund'))[0]{call}{kind}, 'refund',
    'without a kind the name is the kind');

for my $at ('/out/', '/plain/') {
    for my $size (100, 4096, 60_000, 66_000, 3_000_000) {
        $p->next({ act => 1, size => $size });
        my $res = out("size$size$at", at => $at);
        is($res->{status}, 200, "$at: an answer of $size bytes");
        is(length($res->{json}{pad} // ''), $size, '... is whole');
        my ($o) = calls($t, 'outcome', "size$size$at");
        is($o->{call}{whole} ? 1 : 0, $size < 65_000 ? 1 : 0,
            '... is stored whole or not');
        is($o->{length}, $size < 65_000 ? length $res->{body} : 0,
            '... as far as it is told');
    }
}

for my $size (1, 5000, 70_000, 300_000) {
    my $body = 'x' x $size;
    my $res = out("in$size", body => $body, chunked => 4096);
    is($res->{status}, 200, "a chunked body of $size bytes");
    my ($h) = grep { ($_->{key} // '') eq "key.in$size" } $p->heard;
    is(sha256_hex($h->{body}), sha256_hex($body), '... reaches the provider');
}

$res = out('head', method => 'HEAD', path => 'nothing', body => undef);
is($res->{status}, 404, 'HEAD');
is(scalar calls($t, 'outcome', 'head'), 1, '... is recorded, too');

$p->next({ act => 1, headers => { 'Interlock-Effect-State' => 'forged',
    'X-Accel-Redirect' => '/wrong', 'Last-Modified' =>
    'Sun, 01 Nov 2026 00:00:00 GMT', 'Content-Encoding' => 'x' } });
$res = out('forged', headers => [ 'If-Modified-Since' =>
    'Sun, 01 Nov 2026 00:00:00 GMT', Range => 'bytes=0-1' ]);
is($res->{status}, 200, 'neither redirected nor made a 304 or 206');
is_deeply($res->{headers}{'interlock-effect-state'}, [ 'confirmed' ],
    'a provider forges nothing');
is((calls($t, 'outcome', 'forged'))[0]{call}{whole}, JSON::PP::false,
    'what is encoded is not stored');


# --- refused before a byte leaves ------------------------------------------

sub heard_count { scalar(my @h = $p->heard) }

sub not_sent {
    my ($what, $want, $name, %opt) = @_;

    my $before = heard_count();
    my $outcomes = calls($t, 'outcome');
    my $res = out($name, %opt);
    is(problem($res), $want, "$what: $want");
    is(heard_count(), $before, '... nothing left');
    is(scalar(my @o = calls($t, 'outcome')), $outcomes, '... nothing recorded')
        unless $opt{recorded};
    return $res;
}

my $bad = $token;
$bad =~ s/\.(.)/'.' . ($1 eq 'e' ? 'f' : 'e')/e;
$bad = substr($token, 0, 40) . 'AAAA' . substr $token, 44;
my $begins = calls($t, 'begin');
not_sent('no token', '401 owner-token-invalid', 'x', token => '');
not_sent('a changed token', '401 owner-token-invalid', 'x', token => $bad);
not_sent('an ended token', '401 owner-token-invalid', 'x',
    token => $keys->token(exp => '2020-01-01T00:00:00Z'));
not_sent('another key\'s token', '401 owner-token-invalid', 'x',
    token => Interlock::OwnerToken->new($t->dir . '/other')->token);
not_sent('two tokens', '401 owner-token-invalid', 'x',
    headers => [ 'Interlock-Owner-Token' => $token ]);
not_sent('no name', '400 effect-name-invalid', undef);
not_sent('two names', '400 effect-name-invalid', 'x',
    headers => [ 'Interlock-Effect' => 'y' ]);
not_sent('a long name', '400 effect-name-invalid', 'x' x 257);
not_sent('a name that is not UTF-8', '400 effect-name-invalid', "x\xff");
is(scalar(my @b = calls($t, 'begin')), $begins, 'no begin for these');

$res = not_sent('refused by the backend', '409 x', 'no;begin=409');
is(header($res, 'content-type'), 'application/problem+json', '... as it says');
not_sent('an error of the backend', '500 x', 'no;begin=500');
$res = not_sent('no answer of the backend', '503 unavailable', 'no;begin=close');
is(header($res, 'retry-after'), 1, '... with Retry-After');
not_sent('a backend that is too slow', '503 unavailable', 'slow;begin=hold');
$res = not_sent('time was up before it was sent', '503 unavailable',
    'late;deadline=50;begin=late', recorded => 1);
is((calls($t, 'outcome', 'late;deadline=50;begin=late'))[0]{call}{failure},
    'late', '... is on record as not sent');

$res = out('again;begin=close,503,close');
is($res->{status}, 200, 'begun at the fourth try');
my %call = map { $_->{call}{send} => 1 } calls($t, 'begin',
    'again;begin=close,503,close');
is(scalar(my @four = calls($t, 'begin', 'again;begin=close,503,close')), 4,
    '... after three that failed');
is(scalar keys %call, 1, '... all of them the same begin');
is($p->done($res->{ref}), 1, '... and done once');

for my $status (200, 201, 204) {
    my $before = heard_count();
    my $res = out("again;replay=$status");
    is($res->{status}, $status, "answered from the ledger: $status");
    is($res->{body}, $status == 204 ? '' : 'stored', '... with what it has');
    is(header($res, 'content-type'), $status == 204 ? undef : 'text/x-stored',
        '... and its type');
    is(header($res, 'interlock-effect-replayed'), 'true', '... as a replay');
    is(header($res, 'interlock-effect-state'), 'confirmed', '... its state');
    is(header($res, 'interlock-effect-id'), "eff.again;replay=$status",
        '... its id');
    is(heard_count(), $before, '... without the provider');
}

is($t->http(GET => '/_effect')->{status}, 404, 'the way to the backend is internal');
is($t->http(GET => '/leak', { headers => [ 'Interlock-Effect' => '{}',
    'INTERLOCK_EFFECT' => '{}' ] })->{body}, 'no call',
    '... and says nothing for anybody else');


# a key that is made while nginx runs

my $next = Interlock::OwnerToken->new($t->dir . '/next');
is(problem(out('next', token => $next->token)), '401 owner-token-invalid',
    'a token of a key that is not there');
$t->write_file('keys/next.pub', $next->public . "\n");
$t->wait_for(sub { out('next', token => $next->token)->{status} == 200 }, 10,
    'the new key');
is(out('old')->{status}, 200, 'when it is there, the old one is, too');
like($t->error_log, qr/keys of "[^"]+" were read again/, '... says the log');
$t->write_file('keys/broken.pub', "nothing\n");
for my $try (1, 2) {
    is(problem(out('x', token => $bad)), '401 owner-token-invalid',
        'a file that holds no key');
}
is(out('old2')->{status}, 200, '... takes none away');
unlink $t->dir . '/keys/broken.pub';


# --- what the provider does ------------------------------------------------

sub ends {
    my ($what, $step, $want, $failure, %opt) = @_;

    my $name = "ends:$what" . ($opt{at} // '');
    $p->next($step) if defined $step;
    my $res = out($name, %opt);
    is(problem($res), $want, "$what: $want");
    my @o = calls($t, 'outcome', $name);
    is(scalar @o, 1, '... recorded once');
    is($o[0]{call}{failure}, $failure, '... as ' . ($failure // 'an answer'));
    is($res->{json}{state}, 'unknown', '... and the answer says it')
        if $failure;
    is(header($res, 'interlock-effect-id'), "eff.$name", '... which effect');
    return ($res, $o[0]);
}

for my $at ('/out/', '/plain/') {
    ends('closed', 'act_drop', '502 provider-failed', 'reset', at => $at);
    ends('not done and closed', 'drop', '502 provider-failed', 'reset',
        at => $at);
    ends('reset', 'act_reset', '502 provider-failed', 'reset', at => $at);
    ends('cut', 'act_cut', '502 provider-failed', 'truncated', at => $at);
    ends('cut late', { act => 1, answer => 'cut', size => 300_000 },
        '502 provider-failed', 'truncated', at => $at);
    ends('slow', 'hang', '504 provider-timeout', 'timeout', at => $at);
    $p->release('drop');
}
for my $status (100, 101, 103, 199, 600, 999) {
    ends("status $status", { act => 1, status => $status },
        '502 provider-failed', 'truncated');
}
for my $status (202, 400, 401, 404, 408, 409, 429, 500, 502, 503, 504) {
    my ($res, $o) = ends("status $status", { act => 1, status => $status },
        "$status -", undef);
    is($o->{call}{status}, $status, '... with its status');
    is($res->{json}{status}, 'succeeded', '... as the provider said it');
}
$p->down;
ends('nobody there', undef, '502 provider-failed', 'connect');
is($p->up, 1, 'the provider is there again');
my %tries;
$tries{ $_->{reference} // '' }++ for $p->heard;
is(join(' ', grep { length && $tries{$_} > 1 } keys %tries), '',
    'nothing was sent twice');


# --- the outcome is on record first ----------------------------------------

my $conn = $t->connect;
$conn->request(POST => '/out/charges', { body => '{}', headers => [
    'Interlock-Owner-Token' => $token, 'Interlock-Effect' => 'held;hold' ] });
$t->wait_for(sub { calls($t, 'outcome', 'held;hold') }, 10, 'the record');
ok(!IO::Select->new($conn->{s})->can_read(0.3),
    'nothing for the worker while it is recorded');
$t->let_go('held;hold.record');
$res = $conn->response;
is($res->{status}, 200, '... and then the answer');
$conn->request(POST => '/out/charges', { body => '{}', headers => [
    'Interlock-Owner-Token' => $token, 'Interlock-Effect' => 'kept' ] });
is($conn->response->{status}, 200, 'the connection is used again');

$res = out('again;record=503,close,500');
is($res->{status}, 200, 'recorded at the fourth try');
is(scalar(my @t = calls($t, 'outcome', 'again;record=503,close,500')), 4,
    '... after three that failed');
is((grep { $_->{length} == length $res->{body} } @t), 4,
    '... each with the answer');
$res = out('slow;record=slow');
is($res->{status}, 200, 'a record that was too slow is made again');
$res = out('no;record=409');
is(problem($res), '503 outcome-unrecorded', 'a record that is refused');
is($res->{json}{effect_id}, 'eff.no;record=409', '... names the effect');
is($res->{json}{state}, undef, '... and claims no state');
is($p->done($res->{ref}), 1, '... though the provider acted');

# the worker goes away
for my $when ('before the provider answers', 'while it is recorded') {
    my $name = $when =~ /^before/ ? 'gone;deadline=60000'
        : 'gone;hold';
    $p->next('hang_after') if $name =~ /^gone;d/;
    my $conn = $t->connect;
    $conn->request(POST => '/long/charges', { body => '{"reference":"gone"}',
        headers => [ 'Interlock-Owner-Token' => $token,
        'Interlock-Effect' => $name ] });
    if ($name =~ /^gone;d/) {
        $p->wait_for_waiting(1);
    } else {
        $t->wait_for(sub { calls($t, 'outcome', $name) }, 10, 'the record');
    }
    $conn->close;
    $p->release('go');
    $t->let_go("$name.record");
    $t->wait_for(sub { calls($t, 'outcome', $name) }, 10, 'the record');
    is((calls($t, 'outcome', $name))[0]{call}{status}, 200,
        "a worker that goes away $when: recorded");
    $t->wait_for(sub { $t->slurp('logs/access.log')
        =~ /id=eff\.\Q$name\E state=confirmed/ }, 10, 'the end');
}
is($p->done('gone'), 2, '... and each done once');

# ... over HTTP/2, where nginx hears of it at once
SKIP: {
    skip 'no curl with HTTP/2', 4 unless `curl --version` =~ /HTTP2/;
    my $h2 = 'http://127.0.0.1:' . $t->{h2};
    my @curl = ('curl', '-s', '--http2-prior-knowledge', '-H',
        "Interlock-Owner-Token: $token", '-d', '{"reference":"h2"}');
    open my $curl, '-|', @curl, '-i', '-H', 'Interlock-Effect: h2',
        "$h2/long/charges" or die;
    my $said = do { local $/; <$curl> };
    close $curl;
    like($said, qr{^HTTP/2 200.*interlock-effect-state: confirmed}s,
        'over HTTP/2');
    for my $when ('before the provider answers', 'while it is recorded') {
        my $name = $when =~ /^before/ ? 'h2gone;deadline=60000'
            : 'h2gone;hold';
        $p->next('hang_after') if $name =~ /^h2gone;d/;
        my $pid = fork // die;
        if (!$pid) {
            open STDOUT, '>', '/dev/null';
            exec @curl, '-H', "Interlock-Effect: $name", "$h2/long/charges";
        }
        if ($name =~ /^h2gone;d/) {
            $p->wait_for_waiting(1);
        } else {
            $t->wait_for(sub { calls($t, 'outcome', $name) }, 10, 'the record');
        }
        kill KILL => $pid;
        waitpid $pid, 0;
        $p->release('go');
        $t->let_go("$name.record");
        $t->wait_for(sub { $t->slurp('logs/access.log')
            =~ /id=eff\.\Q$name\E state=confirmed/ }, 10, 'the end');
        is((calls($t, 'outcome', $name))[0]{call}{status}, 200,
            "a worker that goes away $when over HTTP/2: recorded");
    }
    is($p->done('h2'), 3, '... and each done once');
}

# new configuration while a call is under way
$p->next('hang');
my $old = $t->connect;
$old->request(POST => '/long/charges', { body => '{"reference":"reload"}',
    headers => [ 'Interlock-Owner-Token' => $token,
    'Interlock-Effect' => 'reload;deadline=60000' ] });
$p->wait_for_waiting(1);
my %worker = map { $_ => 1 } $t->workers;
$t->reload(nowait => 1);
$t->wait_for(sub { grep { !$worker{$_} } $t->workers }, 10, 'a new worker');
is(out('meanwhile')->{status}, 200, 'a reload: the new process works');
is(scalar(my @none = calls($t, 'outcome',
    'reload;deadline=60000')), 0,
    '... the old one waits for the provider');
$p->release('go');
$res = $old->response;
is($res->{status}, 200, '... and answers');
is(header($res, 'interlock-effect-state'), 'confirmed', '... on record');

# many at once, each with its own
my @name = map { "many$_" } 1 .. 20;
my @res = $t->parallel(map { [ POST => '/out/charges', { body =>
    qq({"reference":"$_"}), headers => [ 'Interlock-Owner-Token' => $token,
    'Interlock-Effect' => $_ ] } ] } @name);
is(join(' ', map { "$res[$_]{status}:$res[$_]{json}{reference}" } 0 .. $#name),
    join(' ', map { "200:$_" } @name), 'twenty at once');

$t->finish;
done_testing();
