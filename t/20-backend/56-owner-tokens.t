#!/usr/bin/perl

# Owner tokens over HTTP: each way to be wrong, on each owner route, is 401
# (or 409, where the token is good and the attempt is not), changes nothing,
# and leaves no trace of a token in any log.  Keys that come and go.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use JSON::PP;
use MIME::Base64 qw(decode_base64url encode_base64url);
use Test::More;
use Time::HiRes qw(time);

use Interlock::FastCGI;
use Interlock::Test;

my $i = Interlock::Test->instance(conf => [ 'log_level = debug' ]);
my $c = Interlock::FastCGI->of_instance($i);
my %token = map { $_ => $i->token($_) } qw(submit worker operator auditor);
my $json = JSON::PP->new->canonical;
my $dir = tempdir('interlock-keys-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my @shown;                                  # every token that was sent

my $other_file = $i->dir . '/tokens/other-worker';
for my $role (qw(submit worker operator)) {
    my $r = $i->cli('token', 'create', '--dsn-file', $i->dir . '/dsn',
        '--tenant', 'other', '--name', $role, '--role', $role, '--out',
        $i->dir . "/tokens/other-$role");
    die $r->{err} if $r->{code};
    $token{"other-$role"} = Interlock::Test::slurp(
        $i->dir . "/tokens/other-$role") =~ s/\s+\z//r;
}

sub call {
    my ($method, $uri, $token, $body) = @_;
    return $c->request($method, $uri, { defined $token ? (token => $token)
        : (), body => $body // {} });
}

sub lease {
    my ($key, $whose) = @_;
    $whose //= '';
    call(POST => '/v1/jobs', $token{"${whose}submit"},
        { kind => 'tok', work_key => $key })->{status} == 202
        or die "no job\n";
    my $lease = call(POST => '/v1/leases', $token{"${whose}worker"},
        { kinds => ['tok'], wait => 5 })->{json}{leases}[0];
    die "no lease\n" unless $lease && $lease->{work_key} eq $key;
    push @shown, $lease->{owner_token};
    return $lease;
}

is(call(PUT => '/v1/kinds/tok', $token{"${_}operator"},
    { overlap => 'allow', lease_seconds => 600 })->{status}, 200, '(a kind)')
    for '', 'other-';

# Every owner route, with a body that it would take.

my $nobody = '0198a000-0000-7000-8000-000000000000';
my %route = (
    '/v1/lease/renew'    => {},
    '/v1/lease/progress' => { step => 'x', checkpoint => 1 },
    '/v1/lease/complete' => { result => 1 },
    '/v1/lease/fail'     => { error => 'x' },
    '/v1/lease/release'  => {},
    '/v1/effects'        => { name => 'n', kind => 'sample-payment' },
    "/v1/effects/$nobody/outcome" => { send_id => $nobody,
        state => 'confirmed' },
);
my @routes = grep { call(POST => $_)->{status} != 404 } sort keys %route;
cmp_ok(scalar @routes, '>=', 5, scalar(@routes) . ' owner routes');


# --- making tokens ---------------------------------------------------------

# sign(message, footer, seed): v4.public, by OpenSSL
sub pae { join '', map { pack('Q<', length) . $_ } @_ }

sub sign {
    my ($message, $footer, $seed) = @_;
    my $m2 = pack('Q<', 4) . pae('v4.public.', $message, $footer, '');
    Interlock::Test::spew("$dir/m", $m2);
    Interlock::Test::spew("$dir/k", pack('H*',
        '302e020100300506032b657004220420' . $seed));
    my ($code, $sig, $err) = Interlock::Test::run([ 'openssl', 'pkeyutl',
        '-sign', '-rawin', '-keyform', 'DER', '-inkey', "$dir/k", '-in',
        "$dir/m" ]);
    die "openssl: $err" if $code || length $sig != 64;
    return 'v4.public.' . encode_base64url($message . $sig)
        . (length $footer ? '.' . encode_base64url($footer) : '');
}

my $keys = $i->dir . '/keys';
my ($seed_file) = glob "$keys/*.seed";
my ($seed) = Interlock::Test::slurp($seed_file) =~ /([0-9a-f]{64})/;

my $lease = lease('tok:mine');
my $good = $lease->{owner_token};
my (undef, undef, $body, $foot) = split /\./, $good;
my $raw = decode_base64url($body);
my ($claims, $sig) = (substr($raw, 0, -64), substr($raw, -64));
my $footer = decode_base64url($foot);
my %claim = %{ $json->decode($claims) };

is(sign($claims, $footer, $seed), $good,
    'a token of our own making is the same, byte for byte');

# with(name => value…): the same claims but for these, signed as ours
sub with {
    my (%change) = @_;
    my %new = (%claim, %change);
    delete @new{ grep { !defined $new{$_} } keys %new };
    return sign($json->encode(\%new), $footer, $seed);
}

is(call(POST => '/v1/lease/renew', with())->{status}, 200,
    'and one with the claims in another order is taken');


# --- each way to be wrong --------------------------------------------------

# The same bytes in base64 that is not canonical: other low bits in the last
# character of a part whose length leaves some.
sub bent {
    my ($part) = @_;
    my $set = join '', 'A' .. 'Z', 'a' .. 'z', 0 .. 9, '-', '_';
    my $left = length($part) % 4;
    return undef unless $left == 2 || $left == 3;
    my $at = index $set, substr $part, -1;
    return substr($part, 0, -1) . substr $set, $at ^ 1, 1;
}

my $second = lease('tok:second');
my $theirs = lease('tok:theirs', 'other-');
my $foreign_seed = 'ab' x 32;
(my $foreign_kid = $footer) =~ s/(k4\.pid\.)(.)(.)/$1$3$2/;
my $jwt = join '.', map { encode_base64url($_) }
    '{"alg":"none","typ":"JWT"}', $claims, '';
my $hs = join '.', map { encode_base64url($_) }
    '{"alg":"HS256","typ":"JWT"}', $claims, 'x' x 32;

# claims that were changed, under the old signature
my %changed = (iss => 'other', sub => $second->{job_id}, jti => $nobody,
    tenant => 'other', kind => 'free', work_key => 'tok:second',
    fence => $claim{fence} + 1, worker => 'eve',
    iat => '2020-01-01T00:00:00Z', exp => '2099-01-01T00:00:00Z');
my %unsigned = map {
    my $text = $json->encode({ %claim, $_ => $changed{$_} });
    ("$_ changed, the signature as it was" => join '.', 'v4.public',
        encode_base64url($text . $sig), $foot)
} keys %changed;

my @bent = map { defined $_->[1] ? $_ : () }
    [ 'the body in base64 that is not canonical', defined bent($body)
        ? join('.', 'v4.public', bent($body), $foot) : undef ],
    [ 'the footer in base64 that is not canonical', defined bent($foot)
        ? join('.', 'v4.public', $body, bent($foot)) : undef ];
# one of three lengths of the claims leaves low bits, whatever the key
for my $pad ('', 'x', 'xx') {
    my $t = with(worker => "w$pad");
    my (undef, undef, $b, $f) = split /\./, $t;
    push @bent, [ "the body in base64 that is not canonical, worker w$pad",
        join '.', 'v4.public', bent($b), $f ] if defined bent($b);
}
cmp_ok(scalar @bent, '>=', 1, 'base64 that is not canonical');

my @wrong = (
    [ 'no token', undef ],
    [ 'an API token of a worker', $token{worker} ],
    [ 'an API token of an operator', $token{operator} ],
    [ 'one character less', substr($good, 0, -1) ],
    [ 'half of it', substr($good, 0, length($good) / 2) ],
    [ 'without its footer', join('.', 'v4.public', $body) ],
    [ 'with an empty footer', join('.', 'v4.public', $body, '') ],
    [ 'its header alone', 'v4.public.' ],
    [ 'its header and footer', "v4.public..$foot" ],
    [ 'signed without a footer', sign($claims, '', $seed) ],
    [ 'signed with a dot behind', sign($claims, '', $seed) . '.' ],
    [ 'signed with a footer that is no key id', sign($claims, '{}', $seed) ],
    [ 'v4.local', "v4.local.$body.$foot" ],
    [ 'v2.public', "v2.public.$body.$foot" ],
    [ 'v3.public', "v3.public.$body.$foot" ],
    [ 'V4.PUBLIC', "V4.PUBLIC.$body.$foot" ],
    [ 'a JWT that nobody signed', $jwt ],
    [ 'a JWT with HS256', $hs ],
    [ 'one part more', "$good.$foot" ],
    [ 'an empty part more', "$good." ],
    [ 'one character more', $good . 'A' ],
    [ 'padding', $good . '=' ],
    [ 'a blank behind it', "$good " ],
    [ 'a line end behind it', "$good\n" ],
    [ 'twice', "$good,$good" ],
    [ 'something before it', "x$good" ],
    [ 'base64 of another alphabet', join('.', 'v4.public', $body =~ tr{-_}{+/}r
        . '+', $foot) ],
    @bent,
    [ 'huge, and nothing in it', 'v4.public.' . 'A' x 60000 ],
    [ 'huge, with its footer', 'v4.public.' . 'A' x 7000 . ".$foot" ],
    [ 'huge claims', sign('{"x":"' . 'y' x 5000 . '"}', $footer, $seed) ],
    [ 'another key id', join('.', 'v4.public', $body,
        encode_base64url($foreign_kid)) ],
    [ 'signed under another key id', sign($claims, $foreign_kid, $seed) ],
    [ "another instance's key under its own id",
        sign($claims, $foreign_kid, $foreign_seed) ],
    [ "another instance's key under our id",
        sign($claims, $footer, $foreign_seed) ],
    [ 'expired a second ago', with(iat => '2020-01-01T00:00:00Z',
        exp => do {
            my @t = gmtime(time - 1);
            sprintf '%04d-%02d-%02dT%02d:%02d:%02dZ', $t[5] + 1900,
                $t[4] + 1, @t[ 3, 2, 1, 0 ];
        }) ],
    [ 'of a tenant that is not', with(tenant => 'nosuch') ],
    [ 'of no issuer of ours', with(iss => 'other') ],
    (map { [ "signed without $_", with($_ => undef) ] } sort keys %claim),
    (map { [ $_, $unsigned{$_} ] } sort keys %unsigned),
);

# Genuine, of this instance's key, but no live attempt.  (An outcome is heard
# from whoever held the send; nobody held this one.)
my @lost = (
    [ 'the attempt of another job', with(jti => $json->decode(substr(
        decode_base64url((split /\./, $second->{owner_token})[2]), 0, -64))
        ->{jti}) ],
    [ 'another job', with(sub => $second->{job_id}) ],
    [ 'an attempt that never was', with(jti => $nobody) ],
    [ "another tenant's job", with(sub => $theirs->{job_id}) ],
    [ 'the same attempt for another tenant', with(tenant => 'other') ],
);

my $before = $i->psql('select * from interlock.leases order by job_id');
my $jobs = $i->psql('select id, status, attempts, error, step '
    . 'from interlock.jobs order by id');

push @shown, map { $_->[1] // () } @wrong, @lost;
my (@bad, $n);
for my $row (@wrong) {
    my ($what, $t) = @$row;
    for my $route (@routes) {
        my $r = call(POST => $route, $t, $route{$route});
        $n++;
        push @bad, "$what: $route: $r->{status} $r->{body}"
            if $r->{status} != 401 || ($r->{json}{type} // '')
                !~ m{/owner-token-invalid$};
    }
}
is(join("\n", @bad), '', "$n calls with " . @wrong
    . ' wrong tokens: 401 owner-token-invalid each');

@bad = ();
$n = 0;
for my $row (@lost) {
    my ($what, $t) = @$row;
    for my $route (@routes) {
        my $r = call(POST => $route, $t, $route{$route});
        $n++;
        my $want = $route =~ /outcome/ ? '404 not-found' : '409 lease-lost';
        push @bad, "$what: $route: $r->{status} $r->{body}"
            if "$r->{status} " . ($r->{json}{type} // '') =~ s{.*/}{}r
                ne $want;
    }
}
is(join("\n", @bad), '', "$n calls with " . @lost
    . ' good tokens of no live attempt: refused each');

my $stale = with(fence => $claim{fence} + 1);
is(call(POST => '/v1/lease/renew', $stale)->{json}{type} =~
    m{/(?:fence-stale|lease-lost)$} ? 1 : 0, 1, 'another fence: refused');
push @shown, $stale;

# One answer, whatever was wrong: nobody learns how near he was.
my %said = map { call(POST => '/v1/lease/renew', $_->[1])->{body} => 1 }
    @wrong;
is(scalar keys %said, 1, 'all of them get the same answer');

is($i->psql('select * from interlock.leases order by job_id'), $before,
    'no lease is any other for all that');
is($i->psql('select id, status, attempts, error, step '
    . 'from interlock.jobs order by id'), $jobs, 'and no job');
is($i->psql('select count(*) from interlock.attempts'), 0,
    'and no attempt has ended');

# Through nginx, up to what its headers can hold.
for my $size (100, 1000, 7000) {
    is($i->http(POST => '/v1/lease/renew', { body => '{}', headers => {
        Authorization => "Bearer $good" . 'A' x $size } })->{status}, 401,
        "$size bytes too long, through nginx");
}
my $r = $i->http(POST => '/v1/lease/renew', { body => '{}', headers => {
    Authorization => 'Bearer v4.public.' . 'A' x 100_000 } });
ok((grep { $r->{status} == $_ } 400, 414, 431, 401),
    "what nginx does not take: $r->{status}");
is($i->http(POST => '/v1/lease/renew', { body => '{}', headers => {
    Authorization => "Bearer $good" } })->{status}, 200, 'the good one is');


# --- a token after its attempt ---------------------------------------------

is(call(POST => '/v1/lease/release', $good)->{status}, 200, 'released');
my $again = call(POST => '/v1/leases', $token{worker}, { kinds => ['tok'],
    wait => 5 })->{json}{leases}[0];
is($again->{job_id}, $lease->{job_id}, '(the job has its next owner)');
push @shown, $again->{owner_token};
for my $route (grep { m{/lease/(?!release)} } @routes) {
    $r = call(POST => $route, $good, $route{$route});
    is("$r->{status} $r->{json}{type}",
        '409 https://interlock.invalid/problems/lease-lost',
        "the token of an attempt that has ended: $route");
}
is(call(POST => '/v1/lease/complete', $again->{owner_token},
    { result => 2 })->{status}, 200, 'its next owner completes it');


# --- keys that come and go -------------------------------------------------

my $reads = sub { scalar(() = $i->log($_[0]) =~ /keys read/g) };
my $two = $i->another_backend('second');
my $d = Interlock::FastCGI->new($two->{socket});
my $old = lease('tok:old');

sub renew_there {
    my ($t) = @_;
    push @shown, $t;
    return $d->request(POST => '/v1/lease/renew', { token => $t,
        body => {} })->{status};
}
is(renew_there($old->{owner_token}), 200, 'any interlockd takes it');

# a new key: one is told, the other finds it out, though names of keys that
# nobody has were looked for just before
my $rotated = $i->cli('--json', 'keys', 'rotate', $keys);
is($rotated->{code}, 0, 'keys rotate') or diag $rotated->{err};
my $seen = $reads->('interlockd');
kill 'HUP', $i->backend_pid;
$i->wait_for(sub { $reads->('interlockd') > $seen }, 10, 'SIGHUP');
for my $round (1 .. 5) {
    my $junk = join '.', 'v4.public', $body, encode_base64url(
        sprintf '{"kid":"k4.pid.%s"}', encode_base64url(pack('N', $round)
            . "\0" x 29));
    is(renew_there($junk), 401, 'a key that nobody has');
    my $new = lease("tok:new:$round");
    isnt((split /\./, $new->{owner_token})[3], $foot,
        'signed by the new key') if $round == 1;
    is(renew_there($new->{owner_token}), 200,
        'which the one that was not told takes at once');
}
is(renew_there($old->{owner_token}), 200, 'old tokens are good still');
is(call(POST => '/v1/lease/renew', $old->{owner_token})->{status}, 200,
    'to both');

# the old key is taken away: its tokens end
my $new = lease('tok:new');
unlink $seed_file or die "unlink: $!";
for my $p ([ interlockd => $i->backend_pid ], [ second => $two->{pid} ]) {
    my ($name, $pid) = @$p;
    $seen = $reads->($name);
    kill 'HUP', $pid;
    $i->wait_for(sub { $reads->($name) > $seen }, 10, 'SIGHUP');
}
is(call(POST => '/v1/lease/complete', $old->{owner_token})->{status}, 401,
    'a key that is gone ends its tokens');
is(renew_there($old->{owner_token}), 401, 'everywhere');
is(call(POST => '/v1/lease/complete', $new->{owner_token})->{status}, 200,
    'those of the other key are good');
is($i->psql('select status from interlock.jobs where id = '
    . "'$old->{job_id}'"), 'running', 'the job of the old one goes on until '
    . 'its lease ends');


# --- and nothing of all that in any log ------------------------------------

kill 'TERM', $two->{pid};
waitpid $two->{pid}, 0;
my $said = join '', map { Interlock::Test::slurp($_) } glob($i->dir
    . '/log/*');
cmp_ok(length $said, '>', 10_000, '(the logs say much)');
my %trace;
for my $t (@shown, values %token) {
    # any 24 bytes that stand for nothing else
    for my $part (grep { length > 40 && !/^A+$/ } split /[.,\s]/, $t) {
        for (my $at = 0; $at + 24 <= length $part && $at < 400; $at += 24) {
            my $piece = substr $part, $at, 24;
            $trace{$piece} = 1 if $piece !~ /^A+$/
                && index($said, $piece) >= 0;
        }
    }
}
is(join(' ', sort keys %trace), '', 'no part of a token is in any log');
my @seeds = map { Interlock::Test::slurp($_) =~ /([0-9a-f]{64})/ }
    glob "$keys/*.seed";
is(scalar(grep { index($said, $_) >= 0 } $seed, @seeds), 0, 'nor a seed');

$i->check_sql;
done_testing();
