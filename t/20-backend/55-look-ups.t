#!/usr/bin/perl

# Look-ups over HTTP against a real server: what each answer becomes, whom
# interlockd calls and whom it refuses to call, and that no secret is kept.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use JSON::PP ();
use Test::More;

use Interlock::Answers;
use Interlock::Test;

my $json = JSON::PP->new->canonical;
my $s = Interlock::Answers->new(other => 'http://localhost:1');
my $port = $s->port;
my $dead = Interlock::Test::free_port();
my $tls = Interlock::Test::free_port();

my $i = Interlock::Test->instance(conf => [
    'recover_interval = 50ms',
    "check_hosts = 127.0.0.1:$port localhost:$port 127.0.0.1:$dead "
        . "localhost:$tls 169.254.169.254:80 [::ffff:127.0.0.1]:$port",
    "check_private = 127.0.0.1:$port 127.0.0.1:$dead localhost:$tls "
        . '169.254.169.254:80',
    'check_threads = 4',
    'log_level = info',
]);

my $SECRET = 'Bearer s3cr3t-that-nobody-may-see';
my $secrets = "$i->{dir}/check-secrets";
my $user = (stat $secrets)[4];
for my $name (qw(good open)) {
    Interlock::Test::spew("$secrets/$name", "$SECRET\n");
    chmod $name eq 'open' ? 0644 : 0600, "$secrets/$name";
    chown $user, -1, "$secrets/$name" if $> == 0;
}

# The usual look-up, with what a case changes.
sub look {
    my ($url, %more) = @_;

    return { type => 'http', url => $url =~ /^\w+:/ ? $url : $s->url . $url,
        timeout => 1, max_checks => 1,
        found => { status => [200], pointer => '/state', equals => ['done'] },
        not_found => { status => [404] },
        ref_pointer => '/id', result_pointer => '/out', %more };
}

# Puts a kind without asking interlockd what it thinks of the URL.
sub put_kind {
    my ($name, $check) = @_;

    my $doc = $json->encode({ overlap => 'skip', on_lost => 'check',
        key_template => "$name:{n}", max_attempts => 1,
        result_check => $check });
    $doc =~ s/'/''/g;
    my $out = $i->psql("select problem, detail from interlock.kind_put("
        . "(select id from interlock.tenants where name = 'demo'), '$name', '$doc')");
    die "$name: $out" if $out ne '|';
}

# lose(kinds): a job of each is claimed and its owner lost.
sub lose {
    my @kinds = @_;

    my %job;
    for my $kind (@kinds) {
        my $res = $i->http(POST => '/v1/jobs', { token => 'submit',
            body => { kind => $kind, work_key => "$kind:a%2Fb c" =~ s/ /%20/r } });
        die $res->{body} unless $res->{status} == 202;
        $job{$kind} = $res->{json}{job_id};
    }
    for my $kind (@kinds) {
        my $res = $i->http(POST => '/v1/leases', { token => 'worker',
            body => { worker => 'w', kinds => [ $kind ], max => 1, wait => 5 } });
        die $res->{body} unless @{ $res->{json}{leases} } == 1;
    }
    $i->psql("update interlock.leases set expires_at = clock_timestamp() - interval '1 s'");
    return %job;
}

sub job { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }

# What becomes of a job that was lost: status, and its error's end.
sub fate {
    my ($id) = @_;

    my $job = $i->wait_for(sub {
        my $j = job($id);
        $j->{status} =~ /^(?:running|checking)$/ ? undef : $j;
    }, 20, "the end of $id");
    return ($job->{status}, $job->{error} // '');
}

my $neither = 'and the answer matches neither found nor not_found';
my $no_json = 'and its body is not JSON that can be trusted';
my $address = 'may not be called from here (private, link-local or reserved)';
my $url_address = "the URL has an address that $address";
my %cases = (
    found    => [ look('/found/x') => 'succeeded', '' ],
    inside   => [ look('/inside/x') => 'succeeded', '' ],
    twice    => [ look('/twice/x') => 'succeeded', '' ],
    head     => [ { %{ look('/found/x', method => 'HEAD', found => { status => [200] }) },
        map { $_ => undef } qw(ref_pointer result_pointer) } => 'succeeded', '' ],
    post     => [ look('/found/x', method => 'POST', body => '{"q":"{n}"}',
        headers => { 'Content-Type' => 'application/json' }) => 'succeeded', '' ],
    secret   => [ look('/found/x', headers => { Authorization => '@good',
        'X-Key' => '{work_key}' }) => 'succeeded', '' ],
    empty    => [ look('/empty/x', not_found => { status => [200], pointer => '/items/0',
        missing => JSON::PP::true }) => 'failed', 'no result found: status 200' ],
    missing  => [ look('/missing/x') => 'failed', 'no result found: status 404' ],

    error    => [ look('/error/x') => 'held', "status 500, $neither" ],
    denied   => [ look('/denied/x') => 'held', "status 401, $neither" ],
    busy     => [ look('/busy/x') => 'held', "status 429, $neither" ],
    text     => [ look('/text/x') => 'held', "status 200, $no_json" ],
    half     => [ look('/half/x') => 'held', "status 200, $no_json" ],
    huge     => [ look('/huge/x') => 'held', 'the answer is larger than 64 KiB' ],
    headers  => [ look('/headers/x') => 'held', 'the answer is larger than 64 KiB' ],
    endless  => [ look('/endless/x') => 'held', 'the answer is larger than 64 KiB' ],
    slow     => [ look('/slow/x') => 'held', 'no answer within the timeout' ],
    drip     => [ look('/drip/x') => 'held', 'no answer within the timeout' ],
    cut      => [ look('/cut/x') => 'held', qr/: Transferred a partial file$/ ],
    old      => [ look('/old/x') => 'held', qr/: Unsupported protocol|: Received HTTP.*|: .*weird/i ],
    nonsense => [ look('/nonsense/x') => 'held', qr/: (?!status).+$/ ],
    nothing  => [ look('/nothing/x') => 'held', qr/: Server returned nothing/ ],
    dead     => [ look("http://127.0.0.1:$dead/x") => 'held', qr/connect to server$/ ],
    selfmade => [ look("https://localhost:$tls/x") => 'held', qr/certificate/ ],

    map({ ($_ => [ look("/$_/x") => 'held',
        'status 302, a redirect that is not followed: to another host, or of a POST' ]) }
        qw(other file metadata user)),
    loop     => [ look('/loop') => 'held', 'more than 3 redirects' ],
    posted   => [ look('/post/x', method => 'POST') => 'held',
        'status 307, a redirect that is not followed: to another host, or of a POST' ],

    # Whom it may not call.
    private  => [ look("http://localhost:$port/found/x") => 'held', "the host's address $address" ],
    mapped   => [ look("http://[::ffff:127.0.0.1]:$port/found/x") => 'held',
        $url_address ],
    linklocal => [ look('http://169.254.169.254/found') => 'held', $url_address ],
    loopback => [ look('http://127.0.0.2/found') => 'held', $url_address ],
    unlisted => [ look('http://example.com/found') => 'held',
        'the URL has a host that is not among check_hosts of the configuration' ],
    decimal  => [ look("http://2130706433:$port/found") => 'held',
        'the URL has an address that is not in its usual form' ],
    octal    => [ look("http://0177.0.0.1:$port/found") => 'held',
        'the URL has an address that is not in its usual form' ],
    dot      => [ look("http://localhost.:$port/found") => 'held',
        'the URL has a host with a dot too many' ],

    nosecret => [ look('/found/x', headers => { Authorization => '@nobody' }) => 'held',
        'the secret "nobody" cannot be read: No such file or directory' ],
    opened   => [ look('/found/x', headers => { Authorization => '@open' }) => 'held',
        'the secret "open" must be a file that only its owner may read (chmod 600)' ],
    nofield  => [ look('/found/{version}') => 'held', 'the field {version} has no value here' ],
    fields   => [ look('/found/{n}?k={work_key}') => 'succeeded', '' ],
);

# A server with a certificate of its own making.
my $cert = "$i->{dir}/tls";
mkdir $cert;
is((Interlock::Test::run([ qw(openssl req -x509 -newkey ec -pkeyopt
    ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext
    subjectAltName=DNS:localhost -keyout), "$cert/key", '-out', "$cert/crt" ]))[0], 0,
    'a certificate');
Interlock::Test::spew("$cert/x", '{"state":"done"}');
my $tls_pid = fork() // die $!;
if (!$tls_pid) {
    chdir $cert;
    open STDIN, '<', '/dev/null';
    open STDOUT, '>', '/dev/null';
    open STDERR, '>&', \*STDOUT;
    exec qw(openssl s_server -4 -WWW -accept), $tls, '-cert', "$cert/crt", '-key', "$cert/key"
        or POSIX::_exit(127);
}
$i->wait_for(sub { IO::Socket::INET->new("127.0.0.1:$tls") }, 10, 'the TLS server');

put_kind($_, $cases{$_}[0]) for keys %cases;
my %job = lose(sort keys %cases);

for my $name (sort keys %cases) {
    my (undef, $status, $error) = @{ $cases{$name} };
    my ($got, $why) = fate($job{$name});
    is($got, $status, "$name: $status");
    if (ref $error) {
        like($why, $error, '... and why');
    } else {
        is($why =~ s/^lease expired; (?:its result could not be checked: )?//r
            =~ s/ \(attempt.*//r, $error, '... and why');
    }
}

is_deeply($i->http(GET => '/v1/works/found:a%252Fb%2520c/result', { token => 'auditor' })
    ->{json}{result}, { rows => 1.1 }, 'the result that was found');

# What it asked.
my @seen = $s->seen;
my ($req) = grep { $_->{body} ne '' } @seen;
is($req->{body}, '{"q":"a/b c"}', 'a field in a JSON body');
($req) = grep { $_->{headers}{authorization} } @seen;
is($req->{headers}{authorization}, $SECRET, 'the secret was sent');
is($req->{headers}{'x-key'}, 'secret:a%2Fb%20c', 'beside a field in a header');
is(scalar(grep { $_->{headers}{authorization} } @seen), 1, 'nowhere else');
($req) = grep { $_->{path} =~ /\?k=/ } @seen;
is($req->{path}, '/found/a%2Fb%20c?k=fields%3Aa%252Fb%2520c', 'fields in a URL');
is(scalar(grep { $_->{path} eq '/found/other' || $_->{headers}{host} =~ /localhost/ } @seen),
    0, 'nobody else was called');
is(scalar(grep { /cookie|proxy/ } map { keys %{ $_->{headers} } } @seen), 0, 'no cookies');

# Nothing secret is kept.
my $dump = (Interlock::Test::run([ 'pg_dump', '-d', $i->dsn('admin') ]))[1];
like($dump, qr/check_answers/, 'the database');
unlike($dump, qr/s3cr3t/, '... has no secret');
my $log = Interlock::Test::slurp("$i->{dir}/log/interlockd.log");
like($log, qr/look-up of a job: found \(status 200\), found/, 'the log');
unlike($log, qr/s3cr3t/, '... has no secret');
like($i->http(GET => '/metrics')->{body},
    qr/^interlock_checks_total\{subject="job",answer="unclear",outcome="exhausted"\} \d+$/m,
    'and they are counted');

# What an operator puts is refused at once if it may not be called.
for ([ 'http://169.254.169.254/latest', $address ],
    [ 'http://localhost:1/', 'not among check_hosts' ],
    [ 'file:///etc/passwd', 'does not begin with https:// or http://' ],
    [ 'http://u@localhost/', 'has a user or password' ],
    [ "http://127.0.0.2/{n}", $address ],
    [ "http://[::1]:$port/", $address ])
{
    my ($url, $why) = @$_;
    my $res = $i->http(PUT => '/v1/kinds/found', { token => 'operator',
        body => { result_check => look($url) } });
    is($res->{status}, 400, "$url: refused");
    like($res->{json}{detail}, qr/^"result_check": "url" .*\Q$why\E/, '... and why');
}
my $res = $i->http(PUT => '/v1/kinds/found', { token => 'operator',
    body => { result_check => look('/found/{customer}') } });
is($res->{status}, 400, 'a field that there is not: refused');
like($res->{json}{detail}, qr/"url" names the field \{customer\}, which there is not/, '... and why');
$res = $i->http(PUT => '/v1/kinds/found', { token => 'operator',
    body => { result_check => look('/found/{n}') } });
is($res->{status}, 200, 'a good one is taken') or diag($res->{body});

# interlockd dies while a look-up is under way: somebody takes it again.
put_kind('gate', look('/gate/x', timeout => 30, max_checks => 5));
my %late = lose('gate');
my $asked = sub { scalar grep { $_->{path} =~ m{^/gate} } $s->seen };
$i->wait_for($asked, 10, 'the look-up');
$i->kill_backend('KILL');
is(job($late{gate})->{status}, 'checking', 'killed in the middle: it still waits');
$s->open_gate;
$i->psql("update interlock.checks set due_at = clock_timestamp()");
is((fate($late{gate}))[0], 'succeeded', 'another one finds it');
is($asked->(), 2, 'asked twice');
is($i->psql('select string_agg(try::text, $$,$$) from interlock.check_answers '
    . "where target = '$late{gate}'"), '2', 'one answer counted');

# With the right authority the certificate is good.
Interlock::Test::spew("$i->{dir}/ca.pem", Interlock::Test::slurp("$cert/crt"));
chmod 0644, "$i->{dir}/ca.pem";
$i->local_conf('interlockd', Interlock::Test::slurp("$i->{dir}/local/interlockd.conf")
    . "check_ca = $i->{dir}/ca.pem");
$i->stop;
$i->start;
put_kind('trusted', look("https://localhost:$tls/x"));
my %trusted = lose('trusted');
is((fate($trusted{trusted}))[0], 'succeeded', 'a certificate of a known authority');

$i->check_sql;

kill 'KILL', $tls_pid;
waitpid $tls_pid, 0;

done_testing;
