# Beside nginx's other modules: access rules, limits, auth_request, mirror,
# try_files, proxy_pass, HEAD and GET, HTTP/1.0.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $gate = 'interlock zone=z; interlock_kind k; interlock_source s;'
    . 'interlock_verify github secret=secrets/github;'
    . 'interlock_idempotency_key $http_x_github_delivery;';
my $open = 'interlock zone=z; interlock_kind k;'
    . 'interlock_idempotency_key $http_x_id optional;';

# a backend that speaks HTTP, with an answer that may be kept
my $listen = IO::Socket::INET->new(Listen => 10, LocalAddr => '127.0.0.1',
    Proto => 'tcp') or die $!;
my $upstream = $listen->sockport;
my $answers = fork // die;
if (!$answers) {
    open STDOUT, '>', '/dev/null';
    while (my $c = $listen->accept) {
        my $in = '';
        while ($in !~ /\r\n\r\n/ || do { my ($n) = $in =~
            /^Content-Length: (\d+)/mi; length($') < ($n // 0) })
        {
            sysread $c, $in, 65536, length $in or last;
            $in =~ /\r\n\r\n/;
        }
        my $id = '0198aaaa-bbbb-7ccc-8ddd-eeeeffff0000';
        my $doc = qq({"decision":"accepted","job_id":"$id","work_key":"",)
            . qq("kind":"k","status":"queued","status_url":"/v1/jobs/$id"});
        syswrite $c, "HTTP/1.1 202 Accepted\r\nContent-Length: "
            . length($doc) . "\r\nInterlock-Answer: 1;202;accepted;queued;-;"
            . "1;$id;-;-\r\nInterlock-Done-For: 60\r\n"
            . "Connection: close\r\n\r\n$doc";
        close $c;
    }
    POSIX::_exit(0);
}
close $listen;
END { local $?; kill KILL => $answers if $answers }

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m; client_body_buffer_size 4k;'
        . 'client_header_buffer_size 1k;'
        . 'limit_req_zone $server_name zone=l:1m rate=1r/m;',
    server => <<"END");
        interlock_tenant demo;
        location /in { $gate fastcgi_pass backend; }
        location /deny { $gate deny all; fastcgi_pass backend; }
        location /any { $gate satisfy any; allow 127.0.0.1; deny all;
            fastcgi_pass backend; }
        location /limit { $gate limit_req zone=l; fastcgi_pass backend; }
        location /auth { $gate auth_request /check; fastcgi_pass backend; }
        location /auth-no { $gate auth_request /refuse; fastcgi_pass backend; }
        location = /check { internal; fastcgi_pass backend;
            fastcgi_pass_request_body off;
            include $Interlock::Nginx::TOP/ngx_module/interlock_params;
            fastcgi_param CONTENT_LENGTH "";
            fastcgi_param HTTP_X_BACKEND status=200; }
        location = /refuse { internal; return 403; }
        location /mirror { $gate mirror /copy; fastcgi_pass backend; }
        location = /copy { internal; fastcgi_pass backend; }
        location /try { $gate try_files /nothing \@try; }
        location \@try { fastcgi_pass backend; }
        location /proxy { $gate proxy_pass http://127.0.0.1:$upstream; }
        location /return { $gate return 200 "returned"; }
        location /open { $open interlock_source o; fastcgi_pass backend; }
        location /none { fastcgi_pass backend; }
        location = /status { interlock_status; }
        location = /metrics { interlock_status prometheus; }
END
$t->secret(github => "s3cret\n");
$t->start;

my $big = '{"x":"' . 'y' x 300_000 . '"}';

for my $body ('{}', 'z' x 1500, $big) {
    my $size = length $body;
    for my $path (qw(/in /any /auth /mirror /proxy)) {
        my $res = $t->github($path, "$path$size", $body);
        is($res->{status}, 202, "$path, $size bytes");
        my $again = $t->github($path, "$path$size", $body);
        is($again->{body}, $res->{body}, "$path, $size bytes: again");
        is(Interlock::Nginx::header($again, 'idempotency-replayed'), 'true',
            "$path, $size bytes: a replay");
        for my $h (qw(interlock-answer interlock-done-for)) {
            ok(!exists $res->{headers}{$h}, "$path: $h is removed");
        }
    }
    my ($copy) = grep { $_->{params}{REQUEST_URI} eq '/mirror'
        && $_->{length} == $size } $t->seen;
    is($copy->{digest}, Digest::SHA::sha256_hex($body), 'mirror: the body')
        if $copy;
    my $mirrored = sub { grep { $_->{params}{REQUEST_URI} eq '/mirror'
        && $_->{length} == $size } $t->seen };
    $t->wait_for(sub { $mirrored->() == 2 }, 10, "a copy");
    is(join(' ', sort map { $_->{params}{INTERLOCK_IDEMPOTENCY_KEY} || '-' }
        $mirrored->()), "- /mirror$size",
        "mirror, $size bytes: the copy has no key");
}

# before us, nothing is read and nothing remembered
my $n = $t->seen;
is($t->github('/deny', 'd', $big)->{status}, 403, 'deny');
is($t->github('/auth-no', 'd', $big)->{status}, 403, 'auth_request says no');
is($t->status('/deny')->{requests}, 0, 'deny: the module did not run');
is($t->status('/auth-no')->{requests}, 0, 'auth_request: nor there');
is($t->github('/limit', 'l1', '{}')->{status}, 202, 'limit: one');
is($t->github('/limit', 'l2', '{}')->{status}, 503, 'limit: two');
is($t->status('/limit')->{requests}, 1, 'limit: the module did not run');
is($t->github('/return', 'r', '{}')->{body}, 'returned',
    'return answers before');
is($t->seen, $n + 1, 'and nothing reached the backend');

# satisfy any does not override a refusal
my $res = $t->http(POST => '/any', { body => '{}', headers =>
    [ 'X-GitHub-Delivery' => 'x', 'X-Hub-Signature-256' => 'sha256=00' ] });
is($res->{status}, 401, 'satisfy any: a forged one is refused');

# try_files goes elsewhere: that answer is never kept, the request passes
$n = $t->seen;
is($t->github('/try', 't', '{}')->{status}, 202, 'try_files');
is($t->github('/try', 't', '{}')->{status}, 202, 'try_files: again');
is($t->seen, $n + 2, 'try_files: both at the backend');
is($t->status->{in_flight}, 0, 'try_files: nothing in flight');

# HEAD is how some providers test an address
for my $path (qw(/in /open)) {
    my $c = $t->connect;
    $c->request(HEAD => $path, {});
    my $head = $c->response('HEAD');
    is($head->{status}, 200, "HEAD $path: 200");
    is(Interlock::Nginx::header($head, 'content-length'), 0, 'without a body');
    $c->request(HEAD => $path, { close => 1, body => 'abc' });
    is($c->response('HEAD')->{status}, 200, "HEAD $path: with a body");
    ok($c->closed, "HEAD $path: nothing follows");
}
is($t->status('/in')->{decisions}{head}, 2, 'HEAD: counted');

# GET: where something is verified it is verified; elsewhere it passes
is($t->http(GET => '/in')->{status}, 401, 'GET needs a signature too');
$n = $t->seen;
is($t->http(GET => '/open', { headers => [ 'X-Id' => 'g' ] })->{status}, 202,
    'GET passes') for 1, 2;
is($t->seen, $n + 2, 'GET: each time');
is(($t->seen)[-1]{params}{INTERLOCK_TENANT}, '', 'GET: no names');

# a POST without the optional key passes, each time
is($t->http(POST => '/open', { body => 'x' })->{status}, 202, 'no key')
    for 1, 2;
is($t->seen, $n + 4, 'no key: each time');
is($t->status('/open')->{decisions}{unkeyed}, 2, 'no key: counted');
is(($t->seen)[-1]{params}{INTERLOCK_TENANT}, 'demo', 'no key: names');

# a location without us
$t->http(POST => '/none', { body => 'x' });
is(($t->seen)[-1]{params}{"INTERLOCK_$_"}, '', "no gate: $_ is empty")
    for qw(TENANT SOURCE KIND WORK_KEY IDEMPOTENCY_KEY VERIFIED MISMATCH);

# HTTP/1.0, and a header that tries to be ours
$res = $t->github('/in', 'h10', '{}', { version => '1.0' });
is($res->{status}, 202, 'HTTP/1.0');
is($t->github('/in', 'h10', '{}', { version => '1.0' })->{body}, $res->{body},
    'HTTP/1.0: again');
$t->http(POST => '/none', { body => 'x', headers => [
    'Interlock-Tenant' => 'evil', 'INTERLOCK_TENANT' => 'evil',
    'Interlock-Verified' => 'github' ] });
is(($t->seen)[-1]{params}{INTERLOCK_TENANT}, '', 'a header is not a parameter');
is(($t->seen)[-1]{params}{INTERLOCK_VERIFIED}, '', 'nor that one');

# conditional and range requests mean nothing to a replay
$res = $t->github('/in', 'cond', '{}', { headers => [ Range => 'bytes=0-1',
    'If-None-Match' => '*', 'If-Modified-Since' =>
    'Sun, 29 Nov 2026 00:00:00 GMT' ] }) for 1, 2;
is($res->{status}, 202, 'a replay is whole');

# the status page
is($t->http(POST => '/status', { body => 'x' })->{status}, 405,
    'status: only to read');
my $c = $t->connect;
$c->request(HEAD => '/metrics', { close => 1 });
is($c->response('HEAD')->{status}, 200, 'status: HEAD');
like($t->http(GET => '/metrics')->{raw_headers},
    qr/^Content-Type: text\/plain; version=0.0.4; charset=utf-8$/m,
    'prometheus: its type');
for my $path (qw(/in /any /auth /mirror /proxy /try /open /limit)) {
    my $l = $t->status($path);
    my $sum = 0;
    $sum += $_ for values %{ $l->{decisions} };
    is($sum, $l->{requests}, "$path: outcomes add up to requests");
}

# refusals of access and limits are nginx's errors, not alerts
$t->finish;
done_testing();
