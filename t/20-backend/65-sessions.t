#!/usr/bin/perl

# Sessions of the pages: how they begin and end, whom they are taken for, and
# what a browser that somebody else leads may not do with them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;
use Time::HiRes qw(time);

use Interlock::FastCGI;
use Interlock::Login;
use Interlock::Test;

my $i = Interlock::Test->instance;
my $site = $i->url;
my $form = $Interlock::Login::FORM;
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);

sub problem_is {
    my ($res, $status, $name, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $type = ref $res->{json} ? $res->{json}{type} // '' : $res->{body};
    is("$res->{status} $type",
        "$status https://interlock.invalid/problems/$name", $what);
}

sub login { return Interlock::Login->login($i, @_) }

sub newest {
    return $i->psql(q{select encode(hash, 'hex') from interlock.sessions
        order by created_at desc limit 1});
}

sub count { return $i->psql('select count(*) from interlock.sessions') }


# --- login -----------------------------------------------------------------

my $res = Interlock::Login->attempt($i, $token{operator});
is($res->{status}, 303, 'a login by the form');
is($res->{headers}{location}, '/ui/', 'leads to the first page');
my $line = $res->{headers}{'set-cookie'};
like($line, qr/^interlock_session=[A-Za-z0-9_-]{43}; /, 'with 32 random bytes');
like($line, qr/; HttpOnly(?:;|$)/, 'that scripts do not see');
like($line, qr/; SameSite=Strict(?:;|$)/, 'that other sites do not send');
like($line, qr{; Path=/(?:;|$)}, 'for all paths');
like($line, qr/; Max-Age=43200(?:;|$)/, 'for twelve hours');
unlike($line, qr/Secure|Domain/, 'by http, for this host');
my $first = Interlock::Login::cookie($res);

my $row = $i->psql('select s::text from interlock.sessions s');
unlike($row, qr/\Q$first\E|\Q$token{operator}\E/,
    'the database has neither of the secrets');
is(length newest(), 64, 'but a hash');

$res = Interlock::Login->attempt($i, "  $token{auditor}\r\n",
    { headers => { Origin => $site } });
is($res->{status}, 303, 'white space around a token that was pasted');

$res = $i->http(POST => '/ui/login', { headers => { Origin => $site },
    body => { token => $token{auditor} } });
is($res->{status}, 200, 'a login in JSON');
is(join(' ', sort keys %{ $res->{json} }),
    'absolute_end idle_end role tenant token_name', 'is answered with it');
is($res->{json}{role}, 'auditor', 'the role');
my $auditor = bless { i => $i, id => Interlock::Login::cookie($res) },
    'Interlock::Login';
isnt($auditor->id, $first, 'another cookie each time');

my $operator = login('operator');
$res = $operator->http(GET => '/ui/session');
is($res->{status}, 200, 'who is in');
is("$res->{json}{tenant} $res->{json}{role} $res->{json}{token_name}",
    'demo operator operator', 'tenant, role and the token\'s name');
cmp_ok($res->{json}{absolute_end}, 'gt', $res->{json}{idle_end},
    'unused it ends sooner');
is($i->http(HEAD => '/ui/session', { headers => { Cookie =>
    'interlock_session=' . $operator->id } })->{status}, 200, 'HEAD');
problem_is($i->http(GET => '/ui/session'), 401, 'token-invalid', 'nobody is');

for my $role (qw(submit worker)) {
    $res = Interlock::Login->attempt($i, $token{$role});
    is($res->{status}, 403, "no pages for $role");
    like($res->{body}, qr/role="alert"[^<]*roles\s+operator and auditor/,
        'in words');
    ok(!$res->{headers}{'set-cookie'}, 'no cookie');
    problem_is($i->http(POST => '/ui/login', { headers => { Origin => $site },
        body => { token => $token{$role} } }), 403, 'forbidden',
        'and for programs');
}

$res = Interlock::Login->attempt($i, 'ilk_nonsense');
is($res->{status}, 401, 'a wrong token');
like($res->{headers}{'content-type'}, qr{^text/html}, 'is a page');
like($res->{body}, qr/role="alert"[^<]*not valid/, 'in words');
like($res->{body}, qr/<form method="post">/, 'with the form again');
unlike($res->{body}, qr/nonsense|<!--#/, 'and nothing that was sent');
ok(!$res->{headers}{'set-cookie'}, 'no cookie');
is($i->http(GET => '/ui/login')->{body} =~ /role="alert"/ ? 1 : 0, 0,
    'no words before there was an attempt');
is($operator->http(GET => '/ui/login?next=/ui/works')->{headers}{location},
    '/ui/works', 'whoever is in needs no login page');

# beside nginx: from whatever address, at whatever site
my $c = Interlock::FastCGI->of_instance($i);
my $address = 0;

sub door {
    my ($method, $uri, $opt) = @_;
    my %o = %{ $opt // {} };
    my %params = (HTTP_HOST => 'pages.example', HTTP_ORIGIN =>
        'http://pages.example', CONTENT_TYPE => $form, REMOTE_ADDR =>
        sprintf('203.0.113.%d', ++$address), %{ delete $o{params} // {} });
    return ($o{client} // $c)->request($method, $uri,
        { %o, params => \%params });
}

for my $body ('', 'token=', 'token=%', 'token=a&token=b', 'tok=a',
    'token=%00', 'token=%ff%fe', 'token=' . 'x' x 5000)
{
    is(door(POST => '/ui/login', { body => $body })
        ->{headers}{'x-accel-redirect'}, '/_interlock/ui/said/token',
        'no token: ' . substr $body, 0, 20);
}
problem_is(door(POST => '/ui/login', { body => $_->[0],
    params => { CONTENT_TYPE => 'application/json' } }), $_->[1], $_->[2],
    "JSON $_->[0]")
    for [ '[]', 400, 'json-invalid' ], [ '{}', 401, 'token-invalid' ],
        [ '{"token":1}', 400, 'field-invalid' ],
        [ '{"token":"a","x":1}', 400, 'unknown-field' ];


# --- a new one for each login ----------------------------------------------

my $chosen = 'A' x 43;
my $planted = login('operator', { headers => { Cookie =>
    "interlock_session=$chosen" } });
isnt($planted->id, $chosen, 'nobody chooses the cookie of another');
is($i->http(GET => '/v1/kinds', { headers => { Cookie =>
    "interlock_session=$chosen" } })->{status}, 401, 'the chosen one is none');

my $before = count();
my $again = login('auditor', { headers => { Cookie => 'interlock_session='
    . $planted->id } });
is(count(), $before, 'a login ends the session before it');
is($planted->http(GET => '/v1/kinds')->{status}, 401, 'at once');
is($again->http(GET => '/v1/kinds')->{status}, 200, 'the new one lives');

$i->psql(q{
    select interlock.session_begin(t.hash, decode(md5(x::text) || md5('a'
        || x), 'hex'), null, 1000000, 1000000)
    from interlock.api_tokens t, generate_series(1, 230) x
    where t.role = 'auditor'});
is($i->psql(q{select count(*) from interlock.sessions s
    join interlock.api_tokens t on t.id = s.token_id
    where t.role = 'auditor'}), 200, 'a token has no more than 200');
$auditor = login('auditor');


# --- where a login leads ---------------------------------------------------

for my $row (
    [ '/ui/works',                   '/ui/works' ],
    [ '/ui/works?a=1&b=%2F',         '/ui/works?a=1&b=%2F' ],
    [ '/ui/works/a%2Fb%20c',         '/ui/works/a%2Fb%20c' ],
    [ '/ui/search?q=..',             '/ui/search?q=..' ],
    [ '',                            '/ui/' ],
    [ '/',                           '/ui/' ],
    [ '/v1/kinds',                   '/ui/' ],
    [ '//evil.example/ui/',          '/ui/' ],
    [ '/\\evil.example',             '/ui/' ],
    [ '/ui/\\evil.example',          '/ui/' ],
    [ 'https://evil.example/ui/',    '/ui/' ],
    [ 'javascript:alert(1)',         '/ui/' ],
    [ '/ui/../v1/kinds',             '/ui/' ],
    [ '/ui/a/..',                    '/ui/' ],
    [ '/ui/%2e%2e/v1',               '/ui/' ],
    [ '/ui/.%2E/v1',                 '/ui/' ],
    [ '/ui/./x',                     '/ui/' ],
    [ '/uix',                        '/ui/' ],
    [ "/ui/a\r\nSet-Cookie: x=1",    '/ui/' ],
    [ "/ui/a b",                     '/ui/' ],
    [ "/ui/\x{c3}\x{a9}",            '/ui/' ],
    [ "/ui/\x00",                    '/ui/' ],
    [ '/ui/' . 'x' x 3000,           '/ui/' ])
{
    my ($next, $want) = @$row;
    (my $q = $next) =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02X', ord $1/ge;
    my $r = Interlock::Login->attempt($i, $token{auditor},
        { path => "/ui/login?next=$q" });
    (my $name = substr $next, 0, 40) =~ s/[^!-~]/?/g;
    is("$r->{status} " . ($r->{headers}{location} // ''), "303 $want",
        "next=$name");
    is($r->{headers}{'set-cookie'} =~ tr/\n// + 0, 0, 'one cookie')
        if $next =~ /\r/;
}
is($i->http(GET => '/ui/login?next=//evil.example', { headers => {
    Cookie => 'interlock_session=' . $auditor->id } })->{headers}{location},
    '/ui/', 'nor does the page lead elsewhere');
for my $row ([ '/ui/', '/ui/login' ],
    [ '/ui/works/a%2Fb?x=1&y=2', '/ui/login?next=/ui/works/a%252Fb?x=1%26y=2' ],
    [ '/ui/%0d%0aX:%20y', '/ui/login?next=/ui/%250d%250aX:%2520y' ])
{
    $res = $i->http(GET => $row->[0]);
    is("$res->{status} $res->{headers}{location}", "302 $row->[1]",
        "$row->[0] leads to the login page and back");
}
$res = $i->http(GET => '/ui/jobs?y=2', { headers => {
    'Sec-Fetch-Site' => 'cross-site' } });
is("$res->{status} $res->{headers}{refresh}",
    '200 0; url=/ui/login?next=/ui/jobs?y=2',
    'a link of another site: this page leads on, so that the cookie comes');


# --- cookies ---------------------------------------------------------------

my $id = $operator->id;
(my $bent = $id) =~ tr/A-Za-z/B-ZAb-za/;
# the last of 43 digits has two bits that no byte has
my $digits = join '', 'A' .. 'Z', 'a' .. 'z', 0 .. 9, '-', '_';
my $loose = substr($id, 0, 42) . substr $digits,
    index($digits, substr $id, -1) ^ 1, 1;
for my $row (
    [ 200, "interlock_session=$id",                 'alone' ],
    [ 200, "a=1; interlock_session=$id; b=2",       'among others' ],
    [ 200, "a=1;interlock_session=$id;b=2",         'without blanks' ],
    [ 200, "interlock_session=$id; interlock_session=$id", 'twice the same' ],
    [ 401, "interlock_session=$id; interlock_session=$bent", 'two of them' ],
    [ 401, "interlock_session=; interlock_session=$id", 'one of them empty' ],
    [ 401, "interlock_session=\"$id\"",             'in quotes' ],
    [ 401, "interlock_session=${id}A",              'a digit too long' ],
    [ 401, 'interlock_session=' . substr($id, 1),   'a digit too short' ],
    [ 401, "interlock_session=$id" . '=',           'padded' ],
    [ 401, "interlock_session=$loose",              'with spare bits' ],
    [ 401, "interlock_session=$bent",               'another' ],
    [ 401, 'interlock_session=' . 'A' x 6000,       'overlong' ],
    [ 401, "interlock_session=$id%00",              'with more behind it' ],
    [ 401, "Interlock_Session=$id",                 'by another name' ],
    [ 401, "xinterlock_session=$id",                'a name that ends so' ],
    [ 401, "interlock_session =$id",                'a blank in the name' ],
    [ 401, "a=\"; interlock_session=$bent\"",       'inside another' ],
    [ 401, '',                                      'an empty header' ],
    [ 401, ';;; ;=;',                               'nothing but marks' ])
{
    is($i->http(GET => '/v1/kinds', { headers => { Cookie => $row->[1] } })
        ->{status}, $row->[0], "cookie: $row->[2]");
}


# --- whom it is taken for --------------------------------------------------

is($operator->http(GET => '/v1/kinds', { headers => { Authorization =>
    'Bearer nonsense' } })->{status}, 401, 'Authorization counts, not cookies');
is($operator->http(GET => '/v1/kinds', { headers => { Authorization =>
    'Basic eDp5' } })->{status}, 401, 'of whatever scheme');
is($operator->http(POST => '/v1/jobs', { body => { kind => 'free',
    work_key => 'a:1' }, headers => { Authorization => "Bearer $token{submit}",
    Origin => undef, 'Interlock-UI' => undef } })->{status}, 202,
    'and asks for no more than ever');
problem_is($operator->http(POST => '/v1/jobs', { body => { kind => 'free',
    work_key => 'a:2' } }), 403, 'forbidden', 'a session asks for no work');
problem_is($operator->http(POST => '/v1/leases', { body => { kinds =>
    ['free'] } }), 403, 'forbidden', 'nor does it take any');

my %why = (requested_by => 'dana', reason => 'to see');
is($operator->http(POST => '/v1/kinds/free/pause', { body => \%why })
    ->{status}, 200, 'an operator pauses a kind');
is($i->psql(q{select a.token_name || ' ' || (a.token_id = t.id) || ' '
    || a.requested_by from interlock.actions a join interlock.api_tokens t
    on t.tenant = a.tenant and t.role = 'operator'
    order by a.at desc limit 1}), 'operator true dana',
    'with the token\'s number and name on record');
problem_is($auditor->http(POST => '/v1/kinds/free/resume', { body => \%why }),
    403, 'forbidden', 'an auditor does not resume it');
is($auditor->http(GET => '/v1/kinds/free')->{json}{paused}{by} // 'paused',
    'paused', 'nor is it resumed');
is($operator->http(POST => '/v1/kinds/free/resume', { body => \%why })
    ->{status}, 200, 'an operator does');

# where a cookie means nothing, with all that a page could send
my %ui = (cookie => "interlock_session=$id", origin => 'http://pages.example',
    'interlock-ui' => 1);
problem_is(door(POST => '/in/button', { headers => \%ui, body => '{}', params =>
    { INTERLOCK_TENANT => 'demo', INTERLOCK_SOURCE => 'button', INTERLOCK_KIND
    => 'free', INTERLOCK_WORK_KEY => 'x:1', CONTENT_TYPE => 'application/json'
    } }), 401, 'token-invalid', 'a source that demands a token');
for my $path ((map { "/v1/lease/$_" } qw(renew progress complete fail
    release)), '/v1/effects',
    '/v1/effects/00000000-0000-7000-8000-000000000000/outcome')
{
    problem_is(door(POST => $path, { headers => \%ui, body => '{}' }), 401,
        'owner-token-invalid', "POST $path");
}
is(door(POST => '/internal/effect', { headers => \%ui, body => '{}' })
    ->{status}, 404, 'the edge\'s own');


# --- from where ------------------------------------------------------------

my $port = $i->port;
my @methods = ([ PUT => '/v1/kinds/forged', {} ],
    [ POST => '/v1/kinds/free/pause', \%why ],
    [ DELETE => '/v1/kinds/free' ], [ POST => '/v1/jobs/x/cancel', \%why ]);
for my $row (
    [ 'no Origin',             Origin => undef ],
    [ 'a hidden one',          Origin => 'null' ],
    [ 'an empty one',          Origin => '' ],
    [ 'another host',          Origin => 'http://evil.example' ],
    [ 'another port',          Origin => 'http://127.0.0.1:' . ($port + 1) ],
    [ 'no port',               Origin => 'http://127.0.0.1' ],
    [ 'another scheme',        Origin => "https://127.0.0.1:$port" ],
    [ 'a longer host',         Origin => "$site.evil.example" ],
    [ 'a path behind it',      Origin => "$site/" ],
    [ 'a name in front',       Origin => "http://x\@127.0.0.1:$port" ],
    [ 'two of them',           Origin => "$site $site" ],
    [ 'no word of the page',   'Interlock-UI' => undef ],
    [ 'another word',          'Interlock-UI' => 'true' ],
    [ 'another site',          'Sec-Fetch-Site' => 'cross-site' ],
    [ 'a neighbour',           'Sec-Fetch-Site' => 'same-site' ],
    [ 'the address bar',       'Sec-Fetch-Site' => 'none' ],
    [ 'another Host',          Host => 'evil.example' ])
{
    my ($what, %h) = @$row;
    my @got = map {
        my ($method, $path, $body) = @$_;
        my $r = $operator->http($method, $path, { headers => \%h,
            defined $body ? (body => $body) : () });
        "$r->{status} " . (($r->{json}{type} // '') =~ m{([^/]*)\z})[0];
    } @methods;
    is_deeply(\@got, [ ('403 cross-origin') x @methods ], "$what: refused");
    next if exists $h{'Interlock-UI'};
    is(Interlock::Login->attempt($i, $token{operator}, { headers =>
        { map { $_ => $h{$_} // [] } keys %h } })->{status}, 403,
        "$what: no login");
    is($operator->http(POST => '/ui/logout', { headers => \%h })->{status},
        403, "$what: no logout");
}
is($i->psql(q{select count(*) from interlock.kinds where name = 'forged'}), 0,
    'nothing came of it');
is($i->psql('select count(*) from interlock.pauses where name = $$free$$'), 0,
    'nor is anything paused');
is($operator->http(GET => '/v1/kinds/free')->{status}, 200,
    'nor deleted, nor is anybody out');
problem_is($operator->http(GET => '/v1/kinds', { headers => {
    'Sec-Fetch-Site' => $_ } }), 403, 'cross-origin', "GET for $_")
    for qw(cross-site same-site);
is($operator->http(GET => '/v1/kinds', { headers => { Origin => undef,
    'Interlock-UI' => undef, 'Sec-Fetch-Site' => $_ } })->{status}, 200,
    "GET for $_") for qw(same-origin none);
is($operator->http(PUT => '/v1/kinds/ours', { body => {}, headers => {
    'Sec-Fetch-Site' => 'same-origin' } })->{status}, 200,
    'a page of this site may');
is($operator->http(GET => '/v1/kinds')->{headers}
    {'access-control-allow-origin'}, undef, 'no other site is told to read');

# behind a proxy that ends TLS
my $proxied = Interlock::FastCGI->new($i->another_backend('proxied',
    ui_origins => 'https://ops.example, https://ops.example:8443')->{socket});
for my $row ([ 'https://ops.example' ], [ 'https://ops.example:8443' ],
    [ 'https://OPS.example' ], [ 'http://pages.example', 1 ],
    [ 'http://ops.example', 1 ], [ 'https://ops.example:84', 1 ], [ ',', 1 ],
    [ 'https://ops.example, https://ops.example:8443', 1 ])
{
    my ($origin, $no) = @$row;
    my $r = door(POST => '/ui/login', { client => $proxied,
        body => "token=$token{auditor}", params => { HTTP_ORIGIN => $origin } });
    is($r->{status} == 303 ? 1 : 0, $no ? 0 : 1,
        "ui_origins: $origin is " . ($no ? 'none' : 'one'));
    like($r->{headers}{'set-cookie'}, qr/; Secure$/, 'by https alone')
        unless $no;
}
is(door(POST => '/ui/login', { body => "token=$token{auditor}", params => {
    HTTPS => 'on', HTTP_ORIGIN => 'https://pages.example' } })
    ->{headers}{'set-cookie'} =~ /; Secure$/ ? 1 : 0, 1,
    'nginx itself was called by https');


# --- how often -------------------------------------------------------------

sub attempts {
    my ($n, $from) = @_;
    my @said = map { (door(POST => '/ui/login', { body => 'token=no', params =>
        { REMOTE_ADDR => $from } })->{headers}{'x-accel-redirect'} // '')
        =~ m{([^/]*)\z} } 1 .. $n;
    return join ' ', @said;
}

is(attempts(12, '198.51.100.1'), 'token ' x 10 . 'busy busy',
    'ten wrong tokens, then no more');
$res = door(POST => '/ui/login', { body => "token=$token{operator}",
    params => { REMOTE_ADDR => '198.51.100.1' } });
is($res->{headers}{'x-accel-redirect'}, '/_interlock/ui/said/busy',
    'not with a good one either');
like($res->{headers}{'retry-after'}, qr/^[1-6]\z/, 'for some seconds');
is(attempts(1, '198.51.100.2'), 'token', 'others may');
is(attempts(10, '2001:db8:1:2::' . sprintf '%x', 1), 'token ' x 9 . 'token',
    'ten of IPv6');
is(attempts(1, '2001:db8:1:2:ffff::9'), 'busy', 'of the same network');
is(attempts(1, '2001:db8:1:3::9'), 'token', 'not of the next one');
is(attempts(11, '::ffff:198.51.100.7'), 'token ' x 10 . 'busy',
    'an IPv4 address written as IPv6');
is(attempts(1, '::ffff:198.51.100.8'), 'token', 'is one of its own');

my @status = map { Interlock::Login->attempt($i, 'wrong')->{status} }
    1 .. 12;
is($status[-1], 429, 'through nginx');
$res = Interlock::Login->attempt($i, 'wrong');
like($res->{headers}{'retry-after'}, qr/^[1-6]\z/, 'with Retry-After');
like($res->{body}, qr/role="alert"[^<]*too many/, 'in words');
problem_is($i->http(POST => '/ui/login', { headers => { Origin => $site },
    body => { token => 'wrong' } }), 429, 'too-many-attempts', 'in JSON');
is($operator->http(GET => '/v1/kinds')->{status}, 200, 'whoever is in stays');

# from here on logins come from other addresses
sub enter {
    my ($role, $client) = @_;
    my $r = door(POST => '/ui/login', { body => "token=$token{$role}",
        $client ? (client => $client) : () });
    return bless { i => $i, id => Interlock::Login::cookie($r)
        // die "enter: $r->{status}" }, 'Interlock::Login';
}


# --- the end ---------------------------------------------------------------

my $other = Interlock::FastCGI->new($i->another_backend('other')->{socket});

sub asks {
    my ($client, $s) = @_;
    return $client->request(GET => '/v1/kinds', { headers => { cookie =>
        'interlock_session=' . $s->id } })->{status};
}

# a token of its own, to be revoked
$i->cli('token', 'create', '--dsn-file', $i->dir . '/dsn', '--tenant', 'demo',
    '--name', 'brief', '--role', 'operator', '--out', $i->dir . '/brief');
$token{brief} = Interlock::Test::slurp($i->dir . '/brief') =~ s/\s+\z//r;
my $brief = enter('brief');
is(asks($c, $brief), 200, 'a session of another token');

my $leaver = enter('operator');
is(asks($c, $leaver) . ' ' . asks($other, $leaver), '200 200',
    'a session is one for every interlockd');
$res = $leaver->http(POST => '/ui/logout');
is("$res->{status} $res->{headers}{location}", '303 /ui/login', 'logout');
like($res->{headers}{'set-cookie'}, qr/^interlock_session=; .*Max-Age=0/,
    'the browser forgets it');
is(asks($c, $leaver), 401, 'it is over at once');
is($leaver->http(POST => '/ui/logout')->{status}, 303, 'twice is no error');
is($i->http(POST => '/ui/logout', { headers => { Origin => $site } })
    ->{status}, 303, 'nor is it without a session');

my $number = $i->psql(q{select id from interlock.api_tokens
    where name = 'brief'});
$i->cli('token', 'revoke', '--dsn-file', $i->dir . '/dsn', '--tenant', 'demo',
    $number);
my $then = time;
is($i->psql("select count(*) from interlock.sessions
    where token_id = $number"), 0, 'ends with it in the database');
$i->wait_for(sub { asks($c, $brief) == 401 }, 20, 'interlockd');
$i->wait_for(sub { asks($other, $leaver) == 401 }, 20, 'the other interlockd');
cmp_ok(time - $then, '<', 9, 'and soon for who was told of it before');
is($i->http(GET => '/ui/', { headers => { Cookie => 'interlock_session='
    . $brief->id } })->{status}, 302, 'no page any more');
is(door(POST => '/ui/login', { body => "token=$token{brief}" })
    ->{headers}{'x-accel-redirect'}, '/_interlock/ui/said/token',
    'nor a new session');

# time that passed: the rows are made older

sub aged {
    my ($seen, $ends) = @_;
    my $s = enter('operator');
    my $hash = newest();
    $i->psql(qq{update interlock.sessions set
        created_at = created_at - interval '11 hours',
        seen_at = clock_timestamp() - interval '$seen',
        ends_at = clock_timestamp() + interval '$ends'
        where hash = '\\x$hash'});
    return ($s, $hash);
}

sub seen {
    my ($hash) = @_;
    return $i->psql(qq{select round(extract(epoch from clock_timestamp()
        - seen_at)) from interlock.sessions where hash = '\\x$hash'});
}

my ($s, $hash) = aged('31 minutes', '1 hour');
is(asks($c, $s), 401, 'unused for half an hour it is over');
is($s->http(GET => '/ui/session')->{status}, 401, 'and says so');
($s, $hash) = aged('29 minutes', '1 hour');
is($s->http(GET => '/ui/session')->{status}, 200, 'a minute before it is not');
cmp_ok(seen($hash), '>=', 29 * 60, 'to ask how long is no use of it');
is(asks($c, $s), 200, 'to use it');
cmp_ok(seen($hash), '<', 30, 'makes it last again');
($s, $hash) = aged('40 seconds', '1 hour');
is(asks($c, $s), 200, 'used less than a minute ago');
cmp_ok(seen($hash), '>=', 40, 'that is not written again');
($s, $hash) = aged('1 second', '-1 second');
is(asks($c, $s), 401, 'in any case it is over after twelve hours');
($s, $hash) = aged('1 second', '2 seconds');
is(asks($c, $s), 200, 'two seconds before');
$then = time;
$i->wait_for(sub { asks($c, $s) == 401 }, 20, 'its end');
cmp_ok(time - $then, '<', 4, 'it is not remembered for longer than it lasts');
$i->psql('select interlock.prune(1000)');
is($i->psql('select count(*) from interlock.sessions
    where ends_at <= clock_timestamp()'), 0, 'what is over is removed');

# with ends that can be waited for
my $short = Interlock::FastCGI->new($i->another_backend('short',
    session_idle => '1s', session_max => '3s')->{socket});
my $began = time;
$s = enter('auditor', $short);
my $last = $began;
$i->wait_for(sub { asks($short, $s) == 200 ? !($last = time) : 1 }, 20,
    'the absolute end');
cmp_ok($last - $began, '>', 1.5, 'in use it outlasts a second');
cmp_ok(time - $began, '<', 6, 'but not three');
$s = enter('auditor', $short);
is(asks($short, $s), 200, 'another');
$i->wait_for(sub { $short->request(GET => '/ui/session', { headers => { cookie
    => 'interlock_session=' . $s->id } })->{status} == 401 }, 20,
    'the idle end');
is(asks($short, $s), 401, 'unused it is over');


# --- what a browser gets ---------------------------------------------------

my $csp = "default-src 'none'; script-src 'self'; style-src 'self'; "
    . "img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    . "frame-ancestors 'none'; base-uri 'none'";
for my $row ([ GET => '/ui', 301 ], [ GET => '/ui/', 302 ],
    [ GET => '/ui/works/a%2Fb', 302 ], [ GET => '/ui/login', 200 ],
    [ HEAD => '/ui/login', 200 ], [ POST => '/ui/login', 403 ],
    [ POST => '/ui/logout', 403 ], [ GET => '/ui/session', 401 ],
    [ DELETE => '/ui/session', 405 ], [ POST => '/ui/works', 405 ],
    [ GET => '/ui/assets/login.css', 200 ], [ GET => '/ui/assets/app.js', 200 ],
    [ GET => '/ui/assets/nosuch.js', 404 ], [ GET => '/ui/assets/lib/', 403 ],
    [ POST => '/ui/assets/login.css', 405 ],
    [ GET => '/ui/assets/../works', 302 ],
    [ GET => '/ui/assets../etc/nginx.conf.in', 302 ])
{
    my ($method, $path, $want) = @$row;
    my $r = $i->http($method, $path);
    my $h = $r->{headers};
    is_deeply([ $r->{status}, @$h{qw(content-security-policy
        x-content-type-options referrer-policy)} ],
        [ $want, $csp, 'nosniff', 'same-origin' ], "$method $path: headers");
}
is($i->http(GET => $_)->{status}, 404, "GET $_")
    for '/ui/assets/../../etc/nginx.conf.in',
        '/ui/assets/%2e%2e/%2e%2e/etc/nginx.conf.in', map { "/_interlock/ui/$_" } qw(index login away said/token);

my %in = (Cookie => 'interlock_session=' . $operator->id);
$res = $i->http(GET => '/ui/works/a%2Fb?x=1', { headers => \%in });
is($res->{status}, 200, 'a page');
like($res->{body}, qr/<!DOCTYPE html>/i, 'is index.html');
is("$res->{headers}{'content-type'} $res->{headers}{'cache-control'}",
    'text/html; charset=utf-8 no-cache', 'to be asked for again');
is($res->{headers}{'content-security-policy'}, $csp, 'with its policy');
my $etag = $res->{headers}{etag};
ok($etag, 'and an ETag');
is($i->http(GET => '/ui/works', { headers => { %in, 'If-None-Match' => $etag }
    })->{status}, 304, 'which is the same for every page');
is($i->http(GET => '/ui/assets/app.js')->{headers}{'content-type'},
    'text/javascript; charset=utf-8', 'what a script is');
is($i->http(GET => '/ui/assets/app.js')->{headers}{'cache-control'},
    'no-cache', 'no old script is used');

# the database does not answer
my $failed = login_page_failing();
is("$failed->{status} $failed->{headers}{'retry-after'}", '503 1',
    'nobody can say who asks: 503');
like($failed->{body}, qr/role="alert"[^<]*does not answer/, 'in words');
is($failed->{headers}{'content-security-policy'}, $csp, 'with its policy');

sub login_page_failing {
    $i->psql('revoke execute on function interlock.session_find(bytea, bigint,
        boolean) from interlock_service');
    my $r = $i->http(GET => '/ui/', { headers => { Cookie =>
        'interlock_session=' . ('B' x 42) . 'A' } });
    $i->psql('grant execute on function interlock.session_find(bytea, bigint,
        boolean) to interlock_service');
    return $r;
}

like($i->log('interlockd'), qr/notice login of token \d+ \(demo\) from 127\.0/,
    'the log says who came in, and from where');
my $logs = join '', map { $i->log($_) } qw(interlockd access error other);
unlike($logs, qr/\Q$id\E|\Q$token{operator}\E|\Q$token{auditor}\E/,
    'no log has a cookie or a token');

$i->check_sql;

done_testing();
