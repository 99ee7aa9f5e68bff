# Whatever goes wrong behind the edge clears the entry: the repeat reaches the
# backend again.  Only a 2xx of the upstream itself, in the location that
# claimed, with an answer that can be rebuilt and a time to keep it, is kept.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $PARAMS = "$Interlock::Nginx::TOP/ngx_module/interlock_params";
my $gate = 'interlock zone=z; interlock_kind k; interlock_work_key $http_x_id;'
    . 'interlock_idempotency_key $http_x_id;';

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m in_flight=30s;'
        . "log_format d '\$uri \$status \$interlock_decision';",
    server => <<"END");
        access_log logs/access.log d;
        interlock_tenant demo;
        location /in { interlock_source s; $gate fastcgi_pass backend; }
        location /slow { interlock_source t; $gate fastcgi_read_timeout 300ms;
            fastcgi_pass backend; }
        location /nobody { interlock_source n; $gate
            fastcgi_pass unix:%%DIR%%/nobody.sock; }
        location /page { interlock_source p; $gate fastcgi_pass backend;
            fastcgi_intercept_errors on; error_page 500 =202 \@fallback; }
        location \@fallback { fastcgi_pass backend; include $PARAMS; fastcgi_param HTTP_X_BACKEND ""; }
        location /uri { interlock_source u; $gate fastcgi_pass backend;
            fastcgi_intercept_errors on; error_page 500 =200 /static; }
        location = /static { return 200 "static"; }
        location /self { interlock_source e; $gate fastcgi_pass backend;
            fastcgi_intercept_errors on; error_page 500 =202 /self/again; }
        location /other { interlock_source o; $gate fastcgi_pass backend;
            fastcgi_intercept_errors on; error_page 500 =202 \@gate; }
        location \@gate { interlock_source og; $gate fastcgi_pass backend;
            include $PARAMS; fastcgi_param HTTP_X_BACKEND ""; }
        location /verified-page { interlock_source vp; $gate fastcgi_pass backend;
            fastcgi_intercept_errors on; error_page 500 \@verified; }
        location \@verified { interlock_source v; $gate fastcgi_pass backend;
            interlock_verify github secret=secrets/github;
            include $PARAMS; fastcgi_param HTTP_X_BACKEND ""; }
        location = /accel { return 200 "accel"; }
        location = /status { interlock_status; }
END
$t->secret(github => "s3cret\n");
$t->start;

my $n = 0;

sub post {
    my ($path, $id, $do) = @_;
    return $t->http(POST => $path, { body => '{}',
        headers => [ 'X-Id' => $id, 'X-Backend' => $do // '' ] });
}

# Posts, and sees that a repeat goes through again.
sub cleared {
    my ($name, $path, $do, $status, $more) = @_;

    my $id = 'i' . $n++;
    $t->forget_seen;
    is(post($path, $id, $do)->{status}, $status, "$name: $status");
    is($t->status->{in_flight}, 0, "$name: not in flight");
    my $done = $t->status->{done};
    my $before = $t->seen;
    my $again = post($path, $id);
    ok(!defined Interlock::Nginx::header($again, 'idempotency-replayed'),
        "$name: the repeat is not a replay");
    cmp_ok(scalar $t->seen, '>', $before, "$name: it reaches the backend")
        unless $more;
    return $id;
}

cleared("status $_", '/in', "status=$_", $_)
    for 400, 401, 404, 409, 422, 429, 500, 502, 503, 302;
cleared('closed', '/in', 'close', 502);
cleared('closed in the header', '/in', 'close-mid', 502);
cleared('not FastCGI', '/in', 'garbage', 502);
cleared('too slow', '/slow', 'hold=never', 504);
cleared('2xx without an answer', '/in', 'answer=no', 202);
cleared('2xx with a broken answer', '/in', 'answer=1;202;accepted', 202);
cleared('2xx with an answer of another code', '/in',
    'answer=1;200;accepted;queued;-;1;019812ab-0000-7000-8000-000000000000;-;-',
    202);
cleared('2xx that may not be kept', '/in', 'done=no', 202);
cleared("2xx kept for \"$_\"", '/in', "done=$_", 202) for '0', '-1', 'x', '';
cleared('2xx of something else', '/in', 'plain', 202);
cleared('X-Accel-Redirect', '/in', 'accel=/accel', 200);

is(post('/nobody', 'x')->{status}, 502, 'nobody there: 502');
is($t->status->{in_flight}, 0, 'nobody there: not in flight');

# an error page's 2xx is not the backend's
cleared('error page, named', '/page', 'status=500', 202);
cleared('error page, a URI', '/uri', 'status=500', 200);
cleared('error page, the same location', '/self', 'posted=500', 202);
my $id = cleared('error page, another gate', '/other', 'status=500', 202);
is(scalar(grep { $_->{params}{INTERLOCK_SOURCE} eq 'og' } $t->seen), 1,
    'there, the names are its own');
$t->forget_seen;
is(post('/verified-page', 'v', 'status=500')->{status}, 401,
    'an error page with a signature to verify verifies it');
is(scalar $t->seen, 1, 'and lets nothing pass');
is($t->status->{in_flight}, 0, 'nor stay');

# 2xx codes are kept as they are
for my $code (200, 201, 202) {
    $t->forget_seen;
    my $res = post('/in', "code$code", "status=$code");
    my $again = post('/in', "code$code");
    is($again->{status}, $code, "code $code: the first code again");
    is($again->{body}, $res->{body}, "code $code: the first body");
    is(Interlock::Nginx::header($again, 'location'),
        Interlock::Nginx::header($res, 'location'), "code $code: location");
    is(scalar $t->seen, 1, "code $code: from the zone");
}
for my $d (qw(buffered skipped completed)) {
    $t->forget_seen;
    my $res = post('/in', "d$d", "decision=$d;reason=already_waiting");
    my $again = post('/in', "d$d");
    is($again->{json}{decision}, $d, "$d: the first decision in the body");
    is($again->{body}, $res->{body}, "$d: the first body");
    is(Interlock::Nginx::header($again, 'interlock-decision'), 'duplicate',
        "$d: and what this one is");
}

# the client goes away: the request stays with the backend, its answer counts
$t->forget_seen;
my $c = $t->connect;
$c->request(POST => '/in', { body => '{}', headers =>
    [ 'X-Id' => 'gone', 'X-Backend' => 'hold=gone' ] });
$t->wait_seen(1);
$c->close;
my $waiting = $t->connect;
$waiting->request(POST => '/in', { body => '{}', close => 1,
    headers => [ 'X-Id' => 'gone' ] });
$t->wait_for(sub { $t->status('/in')->{waited} }, 10, 'one to wait');
is($t->status->{in_flight}, 1, 'client gone: still in flight');
$t->let_go('gone');
is(Interlock::Nginx::header($waiting->response, 'idempotency-replayed'),
    'true', 'client gone: a repeat gets the answer');
is(scalar $t->seen, 1, 'client gone: asked once');

# a client that goes away in the middle of its body leaves nothing
$c = $t->connect;
$c->send("POST /in HTTP/1.1\r\nHost: x\r\nX-Id: half\r\n"
    . "Content-Length: 100000\r\n\r\nhalf");
$t->wait_for(sub { my $l = $t->status('/in'); my $sum = 0;
    $sum += $_ for values %{ $l->{decisions} };
    $l->{requests} == $sum + 1 }, 10, 'the half request');
$c->close;
$t->wait_for(sub { $t->status('/in')->{decisions}{unfinished} == 1 }, 10,
    'it to end');
is($t->status->{in_flight}, 0, 'half a body: nothing in flight');

my @log = split /\n/, $t->slurp('logs/access.log');
is(scalar(grep { m{^/in 202 accepted$} } @log) > 3, 1, 'log: decisions');

$t->allow_log(qr/connect\(\) to unix:\S+nobody.sock failed/);
$t->finish;
done_testing();
