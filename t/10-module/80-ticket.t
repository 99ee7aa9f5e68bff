#!/usr/bin/perl

# interlock_verify ticket: what a ticket opens and what it does not, which
# pages may press, what their browsers are told, and what is answered from the
# zone.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Interlock::OwnerToken;
use Test::More;

my $press = 'interlock zone=z; interlock_source button; '
    . 'interlock_kind $kind; client_max_body_size 16k; '
    . 'fastcgi_pass backend;';
my $shop = 'https://shop.example';

my $t = Interlock::Nginx->new(workers => 1,
    http => "interlock_zone zone=z:64k;\n"
        . "log_format p '\$uri \$status \$interlock_decision "
        . "[\$interlock_ticket_user] \$interlock_work_key up=\$upstream_status "
        . "why=\$interlock_reject_reason';",
    server => <<"END",
        interlock_keys keys;
        interlock_tenant demo;
        access_log logs/press.log p;
        location ~ "^/button/(?<kind>[a-z]+)\$" {
            interlock_verify ticket origin=$shop,http://127.0.0.1:9;
            $press }
        location ~ "^/own/(?<kind>[a-z]+)\$" { interlock_verify ticket; $press }
        location ~ "^/dry/(?<kind>[a-z]+)\$" { interlock_verify ticket;
            interlock_dry_run on; $press }
        location /button/jobs/ { interlock_verify ticket origin=$shop;
            fastcgi_pass backend; }
        location = /plain { interlock zone=z; interlock_source button;
            interlock_idempotency_key \$http_idempotency_key;
            fastcgi_pass backend; }
END
);
my $keys = Interlock::OwnerToken->new($t->dir . '/keys');
$t->write_file('nginx.conf', '');
system('chmod', '-R', 'a+rX', $t->dir . '/keys');
$t->start;

my $n = 0;
my $good = $keys->ticket;

# headers, each as one text
sub flat {
    my ($res) = @_;
    my $h = $res->{headers};
    return { %$res, headers => { map { $_ => join(', ', @{ $h->{$_} }) }
        keys %$h } };
}

# press(path, opt): ticket, key, headers => [...], body
sub press {
    my ($path, %o) = @_;

    my $ticket = exists $o{ticket} ? $o{ticket} : $good;
    my $key = exists $o{key} ? $o{key} : 'k' . ++$n;
    return flat($t->http($o{method} // 'POST', $path, { body => $o{body} // '',
        headers => [ defined $ticket ? ('Interlock-Ticket' => $ticket) : (),
            defined $key ? ('Idempotency-Key' => $key) : (),
            @{ $o{headers} // [] } ] }));
}

sub seen { return scalar $t->seen }

# The request is refused so, and nothing reaches the backend.
sub refused {
    my ($name, $want, $path, %o) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $before = seen();
    my $res = press($path, %o);
    my ($type) = ($res->{body} // '') =~ m{problems/([a-z-]+)"};
    is("$res->{status} " . ($type // '-'), $want, $name);
    is(seen() - $before, 0, '... behind it nothing is heard of it');
    return $res;
}


# --- what a ticket opens ---------------------------------------------------

my $res = press('/button/orders', key => 'first');
is($res->{status}, 202, 'pressed');
my ($call) = $t->seen;
is_deeply({ map { $_ => $call->{params}{"INTERLOCK_$_"} }
    qw(TENANT SOURCE KIND WORK_KEY IDEMPOTENCY_KEY VERIFIED MISMATCH) },
    { TENANT => 'demo', SOURCE => 'button', KIND => 'orders',
      WORK_KEY => 'order:7', IDEMPOTENCY_KEY => 'first',
      VERIFIED => 'ticket', MISMATCH => 'reject' },
    'the ticket names the work, the page the press');

$res = press('/button/orders', key => 'first');
is("$res->{status} $res->{headers}{'interlock-decision'}", '202 duplicate',
    'the same again is a duplicate');
is($res->{headers}{'idempotency-replayed'}, 'true', 'and says so');
like($res->{headers}{location}, qr{^/button/jobs/[0-9a-f-]{36}$},
    'it leads to where a ticket may look');
like($res->{body}, qr{"status_url":"/button/jobs/[0-9a-f-]{36}"},
    'in the body, too');
is(seen(), 1, 'the backend has heard of one');

press('/button/orders', key => 'first', ticket => $keys->ticket(
    jti => '01980000-0000-7000-8000-000000000009'));
is(seen(), 1, 'another ticket of the same user is the same press');
press('/button/orders', key => 'first',
    ticket => $keys->ticket(user => 'lee'));
is(seen(), 2, 'another user\'s goes to the backend, which refuses it');
press('/button/orders', key => 'first',
    headers => [ 'Interlock-Fresh' => 'true' ]);
is(seen(), 3, 'and so does one for a fresh run');
press('/button/orders', key => 'first',
    ticket => $keys->ticket(work_key => 'order:8'));
is(seen(), 4, 'or for other work');
press('/button/orders', key => 'first', headers =>
    [ 'Interlock-Fresh' => '0' ]);
is(seen(), 4, 'a flag that is not set is none');

my $odd = 'a%3Ab:"\\<b>:é/x';
$res = press('/button/orders', ticket => $keys->ticket(work_key => $odd));
is($res->{status}, 202, 'a work key with all sorts of characters');
is(($t->seen)[-1]{params}{INTERLOCK_WORK_KEY}, $odd, '... as it stands');

my $form = 'application/x-www-form-urlencoded';
$res = press('/button/orders', ticket => undef, key => undef,
    headers => [ 'Content-Type' => $form ],
    body => "ticket=$good&idempotency_key=of-a-form&x=%41");
is($res->{status}, 202, 'a form\'s fields do as well');
is(($t->seen)[-1]{params}{INTERLOCK_IDEMPOTENCY_KEY}, 'of-a-form',
    '... the key among them');
my $before = seen();
press('/button/orders', key => 'of-a-form');
is(seen(), $before, '... and it is the same press as by headers');

# a page is always asked of the backend: it shows how things stand now
my %page = (ticket => undef, key => undef, headers => [
    'Content-Type' => $form, Accept => 'text/html,*/*;q=0.8' ]);
press('/button/orders', %page,
    body => "ticket=$good&idempotency_key=paged") for 1, 2;
is(seen(), $before + 2, 'for a page the backend is asked each time');

# looking
$res = press('/button/orders', method => 'GET', key => undef);
is($res->{status}, 202, 'GET needs no idempotency key');
is(($t->seen)[-1]{params}{INTERLOCK_VERIFIED}, 'ticket', '... but a ticket');
$res = press('/button/jobs/7', method => 'GET', key => undef);
is(($t->seen)[-1]{params}{INTERLOCK_KIND}, 'orders',
    'a location without a kind has the ticket\'s');
$res = press('/button/jobs/7', key => undef);
is($res->{status}, 202, 'where nothing is deduplicated no key is needed');

my ($line) = grep { /duplicate/ } split /\n/, $t->slurp('logs/press.log');
is($line, '/button/orders 202 duplicate [kim] order:7 up=- why=-',
    'what the log may have');


# --- what it does not ------------------------------------------------------

refused('no ticket', '401 ticket-invalid', '/button/orders',
    ticket => undef);
refused('none that looks', '401 ticket-invalid', '/button/orders',
    ticket => undef, method => 'GET');
refused('rubbish', '401 ticket-invalid', '/button/orders', ticket => 'x');
(my $bent = $good) =~ s/(.{30})(.)/$1 . ($2 eq 'A' ? 'B' : 'A')/e;
refused('a changed one', '401 ticket-invalid', '/button/orders',
    ticket => $bent);
refused('of another kind', '401 ticket-invalid', '/button/others');
refused('of another tenant', '401 ticket-invalid', '/button/orders',
    ticket => $keys->ticket(tenant => 'other'));
refused('an ended one', '401 ticket-invalid', '/button/orders',
    ticket => $keys->ticket(exp => '2020-01-01T00:00:00Z',
        iat => '2019-12-31T23:50:00Z'));
refused('one that is good for too long', '401 ticket-invalid',
    '/button/orders', ticket => $keys->ticket(
        exp => '2099-01-01T00:00:00Z'));
refused('an owner token', '401 ticket-invalid', '/button/orders',
    ticket => $keys->token);
refused('one that is signed as an owner token', '401 ticket-invalid',
    '/button/orders', ticket => $keys->ticket(implicit => ''));
refused('for another audience', '401 ticket-invalid', '/button/orders',
    ticket => $keys->ticket(aud => 'owner'));
refused("without $_", '401 ticket-invalid', '/button/orders',
    ticket => $keys->ticket($_ => undef))
    for qw(iss aud tenant kind work_key user exp jti);
refused('two of them', '401 ticket-invalid', '/button/orders',
    headers => [ 'Interlock-Ticket' => $good ]);
refused('two fields', '401 ticket-invalid', '/button/orders',
    ticket => undef, headers => [ 'Content-Type' => $form ],
    body => "ticket=$good&ticket=$good");
refused('a key twice', '400 idempotency-key-invalid', '/button/orders',
    headers => [ 'Idempotency-Key' => 'b' ]);
refused('no key', '400 idempotency-key-missing', '/button/orders',
    key => undef);
refused('too long a key', '400 idempotency-key-invalid', '/button/orders',
    key => 'x' x 256);
refused('no flag', '400 field-invalid', '/button/orders',
    headers => [ 'Interlock-Fresh' => 'perhaps' ]);
refused('what is wrong is not told to a stranger', '401 ticket-invalid',
    '/button/orders', ticket => $bent, key => undef,
    headers => [ 'Interlock-Fresh' => 'perhaps' ]);
refused('PUT', '405 method-not-allowed', '/button/orders', method => 'PUT');
$res = refused('a body without end', '413 -', '/button/orders',
    headers => [ Origin => $shop ], body => 'x' x 20000);
is($res->{headers}{'access-control-allow-origin'}, $shop,
    '... which the page is told');
$res = refused('a ticket as an owner token elsewhere', '404 -', '/nosuch');

my $other = Interlock::OwnerToken->new($t->dir . '/others');
refused('another system\'s', '401 ticket-invalid', '/button/orders',
    ticket => $other->ticket);

# in words, for a form without a script
$res = press('/button/orders', %page, body => "ticket=$bent");
is("$res->{status} $res->{headers}{'content-type'}",
    '401 text/html; charset=utf-8', 'a page for a form');
like($res->{body}, qr{<h1>This page is too old</h1>}, '... in words');
like($res->{headers}{'content-security-policy'}, qr/default-src 'none'/,
    '... with a policy');
unlike($res->{body}, qr/<form|v4\.public/, '... and without the ticket');

# what is remembered of good tickets is no way around their end, nor around
# the keys
my $short = $keys->ticket(exp => do { my @t = gmtime(time + 2);
    sprintf '%d-%02d-%02dT%02d:%02d:%02dZ', $t[5] + 1900, $t[4] + 1,
        @t[3, 2, 1, 0] });
is(press('/button/orders', ticket => $short)->{status}, 202,
    'a ticket shortly before its end');
$t->wait_for(sub { press('/button/orders', ticket => $short)->{status}
    == 401 }, 5, 'its end');
is(press('/button/orders', ticket => $short)->{status}, 401, 'after it');


# --- which pages may press -------------------------------------------------

my $own = 'http://localhost';           # the Host header of this client
my $cross = '403 cross-origin';

is(press('/button/orders', headers => [ Origin => $own ])->{status}, 202,
    'the site\'s own');
is(press('/button/orders', headers => [ Origin => 'null',
    'Sec-Fetch-Site' => 'same-origin' ])->{status}, 202,
    'whatever its referrer policy');
$res = press('/button/orders', headers => [ Origin => $shop,
    'Sec-Fetch-Site' => 'cross-site' ]);
is($res->{status}, 202, 'one that is allowed');
is($res->{headers}{'access-control-allow-origin'}, $shop, '... and told so');
is($res->{headers}{vary}, 'Origin', '... with Vary');
like($res->{headers}{'access-control-expose-headers'}, qr/Retry-After/,
    '... and what it may read');
ok(!exists $res->{headers}{'access-control-allow-credentials'},
    '... no credentials');

$res = press('/button/orders', key => 'first', headers =>
    [ Origin => $shop ]);
is("$res->{headers}{'interlock-decision'} "
    . "$res->{headers}{'access-control-allow-origin'}", "duplicate $shop",
    'told of answers from the zone, too');

$res = press('/button/orders', headers => [ Origin => $shop,
    'X-Backend' => 'close' ]);
is("$res->{status} $res->{headers}{'access-control-allow-origin'}",
    "502 $shop", 'and when the backend is away');

$res = refused('another', $cross, '/button/orders',
    headers => [ Origin => 'https://evil.example' ]);
is($res->{headers}{'access-control-allow-origin'}, undef,
    '... its page reads nothing');
is($res->{headers}{vary}, 'Origin', '... but caches are told');
refused('one that begins like it', $cross, '/button/orders',
    headers => [ Origin => "$shop.evil.example" ]);
refused('an unknown one', $cross, '/button/orders',
    headers => [ Origin => 'null' ]);
refused('by Sec-Fetch-Site alone', $cross, '/button/orders',
    headers => [ 'Sec-Fetch-Site' => 'cross-site' ]);
refused('a page of the same domain', $cross, '/button/orders',
    headers => [ 'Sec-Fetch-Site' => 'same-site', Origin => 'http://x' ]);
refused('two origins', $cross, '/button/orders',
    headers => [ Origin => $own, Origin => $own ]);
refused('our name with another port', $cross, '/button/orders',
    headers => [ Origin => 'http://localhost:8080' ]);
refused('our name by TLS', $cross, '/button/orders',
    headers => [ Origin => 'https://localhost' ]);
refused('where none is allowed', $cross, '/own/orders',
    headers => [ Origin => $shop ]);
$res = press('/own/orders', headers => [ Origin => $own ]);
ok(!exists $res->{headers}{vary}, 'no Vary where none may');
$res = press('/button/orders', %page,
    headers => [ @{ $page{headers} }, Origin => 'https://evil.example' ],
    body => "ticket=$good&idempotency_key=x");
is("$res->{status} $res->{headers}{'content-type'}",
    '403 text/html; charset=utf-8', 'a form of another site: in words');

# HTTP/2 has no Host header, but :authority
my $h2 = Interlock::Nginx->new(workers => 1,
    listen => '127.0.0.1:%%PORT%% http2', server => <<"END");
        interlock_keys k.pub;
        interlock_tenant demo;
        location /button/ { interlock_verify ticket; fastcgi_pass backend; }
END
$h2->write_file('k.pub', $keys->public . "\n");
$h2->start;
sub h2 {
    my ($origin) = @_;
    open my $out, '-|', 'curl', '-s', '-o', '/dev/null', '-w',
        '%{http_code}', '--http2-prior-knowledge', '-X', 'POST',
        '-H', "Interlock-Ticket: $good", '-H', "Origin: $origin",
        'http://127.0.0.1:' . $h2->port . '/button/jobs/x' or die "curl: $!";
    return do { local $/; <$out> };
}
is(h2('http://127.0.0.1:' . $h2->port), 202, 'the site itself by HTTP/2');
is(h2('https://evil.example'), 403, 'another');

# preflights
sub preflight {
    my ($path, @headers) = @_;
    return flat($t->http(OPTIONS => $path, { headers => \@headers }));
}
$before = seen();
$res = preflight('/button/orders', Origin => $shop,
    'Access-Control-Request-Method' => 'POST',
    'Access-Control-Request-Headers' => 'interlock-ticket');
is($res->{status}, 204, 'a preflight');
is($res->{headers}{'access-control-allow-origin'}, $shop, 'the origin');
is($res->{headers}{'access-control-allow-methods'}, 'GET, POST', 'methods');
is($res->{headers}{'access-control-allow-headers'}, 'Interlock-Ticket, '
    . 'Idempotency-Key, Interlock-Fresh, Content-Type, Prefer', 'headers');
is($res->{headers}{'access-control-max-age'}, 600, 'for a while');
is($res->{headers}{vary}, 'Origin', 'Vary');
$res = preflight('/button/orders', Origin => 'https://evil.example');
is($res->{status}, 403, 'of another');
ok(!(grep { /^access-control/ } keys %{ $res->{headers} }),
    '... which is told nothing');
$res = preflight('/button/orders');
is("$res->{status} $res->{headers}{allow}", '204 GET, HEAD, POST, OPTIONS',
    'OPTIONS of no page');
is(seen(), $before, 'none of it reaches the backend');


# --- a dry run, and other locations ----------------------------------------

$res = press('/dry/orders', ticket => $bent);
is($res->{status}, 202, 'a dry run lets it pass');
is(($t->seen)[-1]{params}{INTERLOCK_VERIFIED}, '', '... unverified');
press('/dry/others');
is(($t->seen)[-1]{params}{INTERLOCK_VERIFIED}, '',
    '... and so one of another kind');
$res = press('/plain', key => 'first');
is($res->{headers}{'interlock-decision'}, 'accepted',
    'keys of buttons are no others\' keys');


# --- the directive ---------------------------------------------------------

sub bad {
    my ($name, $want, $server) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;

    my $c = Interlock::Nginx->new(http => 'interlock_zone zone=z:64k;',
        server => $server);
    $c->write_file('k.pub', $keys->public . "\n");
    my ($code, $out) = $c->test_config;
    isnt($code, 0, "$name is refused");
    like($out, $want, '... and why is said');
}

my $ok = 'interlock_keys k.pub; interlock_tenant demo;';
bad('no keys', qr/"interlock_verify ticket" in location "\/x" needs "interlock_keys"/,
    'location /x { interlock_tenant demo; interlock_verify ticket; }');
bad('no tenant', qr/needs "interlock_tenant"/,
    'location /x { interlock_keys k.pub; interlock_verify ticket; }');
bad('no source', qr/"interlock" in location "\/x" needs "interlock_source"/,
    "location /x { $ok interlock zone=z; interlock_verify ticket; }");
bad('another source', qr/"interlock_source shop" in location "\/x" does not/,
    "location /x { $ok interlock zone=z; interlock_source shop; "
    . 'interlock_verify ticket; }');
bad('a work key', qr/"interlock_work_key" in location "\/x" does not go/,
    "location /x { $ok interlock_verify ticket; interlock_work_key a \$uri; }");
bad('an idempotency key', qr/"interlock_idempotency_key" in .* does not go/,
    "location /x { $ok interlock_verify ticket; "
    . 'interlock_idempotency_key $http_x; }');
bad('everybody', qr/"\*" names everybody/,
    "location /x { $ok interlock_verify ticket origin=*; }");
bad('a path', qr{"https://a.example/" has a path},
    "location /x { $ok interlock_verify ticket origin=https://a.example/; }");
bad('a secret', qr/it has only "origin="/,
    "location /x { $ok interlock_verify ticket secret=x; }");
bad('it twice', qr/duplicate/,
    "location /x { $ok interlock_verify ticket; interlock_verify ticket; }");

unlike($t->slurp('logs/error.log'), qr/v4\.public/, 'no ticket is logged');

done_testing();
