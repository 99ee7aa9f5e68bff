#!/usr/bin/perl

# The sample page as it is served, and the button of a page whose interlock has
# an address of its own.

use strict;
use warnings;

use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my $pages = tempdir('interlock-pages-XXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $pages or die $!;

my ($port, $other) = map { Interlock::Test::free_port() } 1, 2;
my $verify = "interlock_verify ticket origin=http://127.0.0.1:$port";
my $i = Interlock::Test->instance(port => $port, nginx_server => <<"END",
location /t/ {
    types { text/html html; }
    add_header Cache-Control no-store always;
    alias "$pages/";
}
END
    nginx_http => <<"END");
server {
    listen 127.0.0.1:$other;
    location ~ "^/button/(?<their_kind>[a-z0-9-]+)\$" {
        interlock zone=interlock;
        interlock_tenant demo;
        interlock_source button;
        interlock_kind \$their_kind;
        $verify;
        fastcgi_pass interlockd;
    }
    location ^~ /button/jobs/ {
        interlock_tenant demo;
        $verify;
        fastcgi_read_timeout 75s;
        fastcgi_pass interlockd;
    }
}
END

my $file = $i->dir . '/sample-token.conf';
is(sprintf('%o', (stat $file)[2] & 07777), '600',
    'what makes the tickets is a file for the instance alone');
like(Interlock::Test::slurp($file), qr/Bearer \Q@{[ $i->token('submit') ]}\E"/,
    'with the submit token');
is($i->http(GET => '/_interlock/sample-ticket?date=2026-01-01')->{status}, 404,
    'nobody else gets tickets there');

Interlock::Browser->run('12-sample.mjs', { instance => $i, pages => $pages,
    other => "http://127.0.0.1:$other" });

$i->check_sql;

done_testing();
