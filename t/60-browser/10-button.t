#!/usr/bin/perl

# The button in a real browser: whatever a person does with it, one press is
# one job, and every page says how it stands.

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

my $i = Interlock::Test->instance(nginx_server => <<"END");
location /t/ {
    types { text/html html; }
    add_header Cache-Control no-store always;
    add_header Content-Security-Policy "default-src 'none'; script-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; require-trusted-types-for 'script'" always;
    alias "$pages/";
}
END

Interlock::Browser->run('10-button.mjs', { instance => $i, pages => $pages });

$i->check_sql;

done_testing();
