#!/usr/bin/perl

# The button under whatever comes in whatever order: presses, reloads, tabs that
# are opened and closed, a network that comes and goes.  One press, one job, and
# all tabs know of it.  SEED=n in the environment is another order.

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

my $seed = ($ENV{SEED} // 5) + 0;
diag("SEED=$seed") unless Interlock::Browser->run('14-chance.mjs',
    { instance => $i, pages => $pages, seed => $seed });

$i->check_sql;

done_testing();
