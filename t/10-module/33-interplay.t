# Ways through nginx on which a request meets the gate more than once, late, or
# not as itself: internal redirects, named locations, if, subrequests, delays,
# filters; and all kinds of answers on one connection.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Digest::SHA qw(hmac_sha256_hex sha256_hex);
use IO::Uncompress::Gunzip qw(gunzip);
use Interlock::Nginx;
use Test::More;

my $gate = 'interlock zone=z; interlock_kind k; interlock_source s;'
    . 'interlock_verify github secret=secrets/github;'
    . 'interlock_idempotency_key $http_x_github_delivery;';
my $all = "$gate fastcgi_pass backend;";

my $h2 = Interlock::Nginx::free_port();
my $locations = <<"END";
        interlock_tenant demo;
        location /in { $all }

        # internal redirects and named locations
        location /rewritten { rewrite ^ /in/rewritten last; }
        location /tried { try_files /nothing \@tried; }
        location \@tried { $all }
        location /failed { error_page 404 = \@failed; return 404; }
        location \@failed { $all }
        location /dir/ { index gate; }
        location = /dir/gate { $all }
        location /internal { rewrite ^ /inside last; }
        location = /inside { internal; $all }
        location /twice { $gate try_files /nothing \@twice; }
        location \@twice { $all }
        location /after { $all post_action /done; }
        location = /done { fastcgi_pass backend; }

        # if, limit_except
        location /if { $gate
            set \$way plain;
            if (\$http_x_way) { set \$way other; fastcgi_pass backend; }
            if (\$request_method = PUT) { return 405; }
            add_header X-Way \$way always;
            fastcgi_pass backend; }
        location /except { $all limit_except POST { deny all; } }

        # subrequests
        location = /ssi { ssi on; ssi_types *; default_type text/plain;
            root html; try_files /page =404; }
        location /asks { auth_request /in/asked; $all }
        location /copies { mirror /in/copy; $all }

        # delays, before and with the body in a file
        location /slow { limit_req zone=d burst=20; client_body_in_file_only clean;
            auth_request /yes; $all }
        location = /yes { internal; fastcgi_pass backend;
            fastcgi_pass_request_body off;
            include $Interlock::Nginx::TOP/ngx_module/interlock_params;
            fastcgi_param CONTENT_LENGTH "";
            fastcgi_param HTTP_X_BACKEND status=200; }
        location /conn { limit_conn c 1; $all }

        # filters, and answers of the gate's own
        location /gzip { gzip on; gzip_min_length 1; gzip_types *;
            gzip_http_version 1.0; add_header X-Added yes always; $all }
        location /page { error_page 400 401 409 503 =200 /nice; $all }
        location = /nice { return 200 "nice"; }
        location /closing { keepalive_timeout 0; $all }
        location = /status { interlock_status; }
END

my $t = Interlock::Nginx->new(
    http => 'interlock_zone zone=z:1m; client_body_buffer_size 4k;'
        . 'client_header_buffer_size 1k; fastcgi_buffering on;'
        . 'limit_req_zone $server_name zone=d:1m rate=10r/s;'
        . 'limit_conn_zone $server_name zone=c:1m;',
    server => $locations,
    servers => "server { listen 127.0.0.1:$h2 http2; $locations }",
);
$t->secret(github => "s3cret\n");
mkdir $t->dir . '/html/dir';
$t->write_file('html/dir/gate', 'a file');
$t->write_file('html/page', 'before <!--# include virtual="/in/sub" --> after');
$t->start;

*request_text = \&Interlock::Nginx::Connection::request_text;

my $big = '{"x":"' . 'y' x 300_000 . '"}';
my $n = 0;

sub replayed { return Interlock::Nginx::header($_[0], 'idempotency-replayed') }

# runs(LOCATION): how often the handler decided for that location; both servers
# have it
sub runs {
    my ($label) = @_;
    my $sum = 0;
    for my $l (@{ $t->status->{locations} }) {
        $sum += $l->{requests} if $l->{location} eq $label;
    }
    return $sum;
}

# A request to PATH and its repeat, which are decided by LOCATION's gate, once
# each; a forged one goes nowhere.
sub gated {
    my ($path, $label, $body, %opt) = @_;

    my $id = 'g' . $n++;
    my $name = "$path, " . length($body) . ' bytes';
    my $before = runs($label);
    $t->forget_seen;

    my $res = $t->github($path, $id, $body);
    is($res->{status}, 202, "$name: taken");
    is(runs($label), $before + 1, "$name: decided once");
    my @seen = grep { $_->{params}{REQUEST_METHOD} eq 'POST'
        && $_->{params}{INTERLOCK_VERIFIED} } $t->seen;
    is(scalar @seen, $opt{times} // 1, "$name: times at the backend");
    is($seen[0]{digest}, sha256_hex($body), "$name: its bytes");
    is($seen[0]{params}{INTERLOCK_IDEMPOTENCY_KEY}, $id, "$name: its key");

    my $again = $t->github($path, $id, $body);
    is(replayed($again), $opt{never} ? undef : 'true', "$name: again");
    is($again->{body}, $res->{body}, "$name: the same") unless $opt{never};
    is(runs($label), $before + 2, "$name: decided once, too");

    $t->forget_seen;
    is($t->github($path, "$id-f", $body, { secret => 'wrong' })->{status}, 401,
        "$name: forged");
    is(scalar(grep { $_->{params}{INTERLOCK_VERIFIED} } $t->seen), 0,
        "$name: forged, nowhere");
    is($t->status->{in_flight}, 0, "$name: nothing in flight");
}


# --- redirects and named locations -----------------------------------------

for my $body ('{}', $big) {
    gated('/rewritten', '/in', $body);
    gated('/tried', '@tried', $body);
    gated('/failed', '@failed', $body);
    gated('/dir/', '/dir/gate', $body);
    gated('/internal', '/inside', $body);
    gated('/slow', '/slow', $body);
    gated('/if', '/if', $body);
    gated('/except', '/except', $body);

    # two gates in a row: the second one's rules hold, nothing is claimed
    gated('/twice', '/twice', $body, never => 1);
}
is($t->http(POST => '/inside', { body => '{}' })->{status}, 404,
    'internal: not from outside');
is(runs('@twice'), 0, 'the second gate in a row counts no request of its own');

# post_action comes when all is over: what was decided stays
{
    $t->forget_seen;
    my $res = $t->github('/after', 'after', '{}');
    is($res->{status}, 202, 'post_action: taken');
    $t->wait_seen(2);
    is(replayed($t->github('/after', 'after', '{}')), 'true',
        'post_action: the answer is kept');
    is(runs('/after'), 2, 'post_action: decided once');
}


# --- if, limit_except ------------------------------------------------------

{
    my $res = $t->github('/if', 'way', '{}');
    my $other = $t->github('/if', 'way', '{}', { headers => [ 'X-Way' => 1 ] });
    is($other->{body}, $res->{body}, 'if: the same request on another way');
    is(replayed($other), 'true', 'if: from the zone');
    is($t->github('/if', 'w2', '{}', { secret => 'wrong',
        headers => [ 'X-Way' => 1 ] })->{status}, 401, 'if: verified, too');
    my $before = runs('/if');
    is($t->http(PUT => '/if', { body => '{}' })->{status}, 405,
        'if: return answers before');
    is(runs('/if'), $before, 'if: not decided');
    is($t->http(GET => '/except')->{status}, 403, 'limit_except: refused');
    is($t->status('/except')->{decisions}{rejected}, 2,
        'limit_except: by nginx, the two forged ones by us');
}


# --- subrequests -----------------------------------------------------------

{
    my $before = runs('/in');
    $t->forget_seen;
    my $res = $t->http(GET => '/ssi');
    like($res->{body}, qr/^before .*"decision".* after$/s,
        'ssi: the part is there');
    my ($sub) = $t->seen;
    is($sub->{params}{"INTERLOCK_$_"}, '', "ssi: a subrequest has no $_")
        for qw(VERIFIED TENANT SOURCE KIND IDEMPOTENCY_KEY);

    $t->forget_seen;
    $res = $t->github('/asks', 'asks', '{}',
        { headers => [ 'X-Backend' => 'status=200' ] });
    is($res->{status}, 200, 'auth_request by a gated location: taken');
    my ($asked, $taken) = $t->seen;
    is($asked->{params}{INTERLOCK_VERIFIED}, '',
        'auth_request: asked before anything was verified');
    is($taken->{params}{INTERLOCK_VERIFIED}, 'github', 'then it is');

    $t->forget_seen;
    is($t->github('/copies', 'copies', $big)->{status}, 202, 'mirror: taken');
    $t->wait_seen(2);
    is($_->{digest}, sha256_hex($big), 'mirror: the body') for $t->seen;
    for my $p (qw(TENANT SOURCE KIND IDEMPOTENCY_KEY VERIFIED)) {
        is(scalar(grep { length $_->{params}{"INTERLOCK_$p"} } $t->seen), 1,
            "mirror: INTERLOCK_$p is of one of them");
    }
    is(replayed($t->github('/copies', 'copies', $big)), 'true',
        'mirror: again');
    is(runs('/in'), $before, 'subrequests: the gate decides for none');
    is(runs($_), $_ eq '/asks' ? 1 : 2, "$_: once for each request")
        for qw(/asks /copies);
}


# --- limits ----------------------------------------------------------------

{
    my $before = runs('/slow');
    my @res = $t->parallel(map { [ POST => '/slow', { body => '{}', headers => [
        'X-GitHub-Delivery' => "d$_", 'X-Hub-Signature-256' => 'sha256='
        . hmac_sha256_hex('{}', 's3cret') ] } ] } 1 .. 6);
    is(join(' ', map { $_->{status} } @res), join(' ', (202) x 6),
        'limit_req: delayed, and taken');
    is(runs('/slow'), $before + 6, 'limit_req: each decided once');

    my @sig = ('X-Hub-Signature-256' => 'sha256='
        . hmac_sha256_hex('{}', 's3cret'));
    my $first = $t->connect;
    $t->forget_seen;
    $first->request(POST => '/conn', { body => '{}', close => 1, headers =>
        [ @sig, 'X-GitHub-Delivery' => 'c1', 'X-Backend' => 'hold=c1' ] });
    $t->wait_seen(1);
    is($t->github('/conn', 'c2', '{}')->{status}, 503, 'limit_conn: refused');
    is(runs('/conn'), 1, 'limit_conn: not decided');
    $t->let_go('c1');
    is($first->response->{status}, 202, 'limit_conn: the first one is taken');
}


# --- filters and error pages -----------------------------------------------

{
    # (nginx compresses no other 2xx than this)
    my @h = (headers => [ 'Accept-Encoding' => 'gzip',
        'X-Backend' => 'status=200' ]);
    my $res = $t->github('/gzip', 'z', '{}', { @h });
    my $again = $t->github('/gzip', 'z', '{}', { @h });
    is(Interlock::Nginx::header($_, 'content-encoding'), 'gzip',
        'gzip: compressed') for $res, $again;
    my @plain = map { my $in = $_->{body}; my $out; gunzip(\$in, \$out); $out }
        $res, $again;
    like($plain[0], qr/"decision":"accepted"/, 'gzip: readable');
    is($plain[1], $plain[0], 'gzip: the replay says the same');
    my $bad = $t->github('/gzip', 'z', '{}', { secret => 'x' });
    is(Interlock::Nginx::header($_, 'x-added'), 'yes', 'add_header')
        for $res, $again, $bad;

    $bad = $t->github('/page', 'p', '{}', { secret => 'x' });
    is(Interlock::Nginx::problem($bad), 'signature-invalid',
        'error_page: what the gate refuses is told by the gate');
    is($bad->{status}, 401, 'error_page: never as a 2xx');

    for my $body ('{}', $big) {
        my $c = $t->connect;
        $c->request(POST => '/closing', { body => $body, headers =>
            [ 'X-GitHub-Delivery' => 'x', 'X-Hub-Signature-256' => 'x' ] });
        is($c->response->{status}, 401, 'no keepalive: refused');
        ok($c->closed, 'no keepalive: closed');
    }
}


# --- one connection, all kinds of answers ----------------------------------

sub signed {
    my ($id, $body, @more) = @_;
    return { body => $body, headers => [ 'X-GitHub-Delivery' => $id, @more,
        'X-Hub-Signature-256' => 'sha256='
            . hmac_sha256_hex($body, 's3cret') ] };
}

{
    my $forged = { body => $big, headers => [ 'X-GitHub-Delivery' => 'f',
        'X-Hub-Signature-256' => 'sha256=00' ] };
    my $nameless = signed('x', $big);
    splice @{ $nameless->{headers} }, 0, 2;

    my @requests = (
        [ POST => '/in', signed('one', $big), 202 ],
        [ POST => '/in', $forged, 401 ],
        [ HEAD => '/in', {}, 200 ],
        [ POST => '/in', signed('one', $big), 202 ],
        [ POST => '/in', $nameless, 400 ],
        [ GET => '/in', {}, 401 ],
        [ POST => '/in', { %{ signed('two', $big) }, chunked => 777 }, 202 ],
        [ PUT => '/if', { body => $big }, 405 ],
        [ POST => '/tried', signed('three', '{}'), 202 ],
        [ POST => '/in', signed('one', '{}'), 202 ],
        [ POST => '/in', signed('bad', $big, 'X-Backend' => 'status=500'), 500 ],
        [ POST => '/page', $forged, 401 ],
        [ GET => '/nice', {}, 200 ],
        [ POST => '/in', signed('two', $big), 202 ],
    );
    for my $pipelined (0, 1) {
        $t->forget_seen;
        my $c = $t->connect;
        my ($said, $pid) = '';
        if ($pipelined) {
            $pid = fork // die;
            if (!$pid) {
                $c->send(join '', map { request_text(@$_[0 .. 2]) }
                    @requests);
                POSIX::_exit(0);
            }
        }
        my @got;
        for my $r (@requests) {
            $c->request(@$r[0 .. 2]) unless $pipelined;
            push @got, $c->response($r->[0]);
        }
        waitpid $pid, 0 if $pid;
        is(join(' ', map { $_->{status} } @got),
            join(' ', map { $_->[3] } @requests),
            $pipelined ? 'pipelined: each answer in its place'
                : 'keepalive: each answer in its place');
        is($got[3]{body}, $got[0]{body}, 'the first and its repeat');
        is($got[13]{body}, $got[6]{body}, 'chunked and not is one request');
        is(scalar $t->seen, $pipelined ? 2 : 5, 'what reached the backend');
    }
}


# --- over HTTP/2 -----------------------------------------------------------

SKIP: {
    skip 'curl is not installed', 1
        unless grep { -x "$_/curl" } split /:/, $ENV{PATH};

    for my $path (qw(/rewritten /tried /dir/ /internal /slow /if /copies
        /asks /after /gzip))
    {
        for my $body ('{}', $big) {
            my $id = 'h' . $n++;
            $t->write_file('html/body', $body);
            my @said = map { my $secret = $_; scalar
                `curl -s -i --max-time 20 --http2-prior-knowledge \\
                    --data-binary \@@{[ $t->dir ]}/html/body \\
                    -H 'X-GitHub-Delivery: $id' -H 'X-Backend: status=200' \\
                    -H 'X-Hub-Signature-256: sha256=@{[
                        hmac_sha256_hex($body, $secret) ]}' \\
                    http://127.0.0.1:$h2$path` } qw(s3cret s3cret wrong);
            my $name = "HTTP/2 $path, " . length($body) . ' bytes';
            like($said[0], qr/^HTTP\/2 200 /, "$name: taken");
            like($said[1], qr/^idempotency-replayed: true\r$/m, "$name: again");
            like($said[2], qr/^HTTP\/2 401 /, "$name: forged");
        }
    }
}

my $status = $t->status;
is($status->{in_flight}, 0, 'nothing is in flight');
for my $l (@{ $status->{locations} }) {
    my $sum = 0;
    $sum += $_ for values %{ $l->{decisions} };
    is($sum, $l->{requests}, "$l->{location}: decisions add up");
}

$t->finish;
done_testing();
