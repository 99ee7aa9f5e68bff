#!/usr/bin/perl

# The pages that a form without a script gets, as a browser shows them: their
# style by its hash, nothing else; whatever is stored, nothing of it runs.

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
    add_header Referrer-Policy no-referrer;
    alias "$pages/";
}
END

Interlock::Browser->run('15-page.mjs', { instance => $i, pages => $pages });

$i->check_sql;

done_testing();
