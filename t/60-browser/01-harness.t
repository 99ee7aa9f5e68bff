#!/usr/bin/perl

# The browser tests' own tools: chromium comes up, reads a page of the
# instance, and what is wrong there is seen.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Browser;
use Interlock::Test;

my $i = Interlock::Test->instance(nginx_server => <<'END');
location = /t/page {
    default_type text/html;
    add_header Content-Security-Policy "default-src 'none'; style-src 'self'";
    return 200 '<!DOCTYPE html><html lang=en><title>A page</title><main><h1>It is here</h1><img><script>document.title = "Run"</script></main></html>';
}
END

Interlock::Browser->run('01-harness.mjs', { instance => $i, word => 'bird' });

done_testing();
