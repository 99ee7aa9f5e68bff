# What stands beside the module's directives and does not go with them: said
# at configuration, with the line of the location's own directive.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $t = Interlock::Nginx->new;
$t->secret(github => "s3cret\n");

# conf(location's text): exit code, what is said, the line of the directive
sub conf {
    my ($location, $http) = @_;

    local $t->{http} = "interlock_zone zone=z:1m in_flight=60s;\n"
        . ($http // '');
    local $t->{server} = <<"END";
        interlock_tenant demo; interlock_source s; interlock zone=z;
        location /in/ {
            $location
            fastcgi_pass backend;
        }
        location /elsewhere { return 404; }
        # the end
END
    my ($code, $said) = $t->test_config;
    my @lines = split /\n/, $t->slurp('nginx.conf');
    my ($n) = grep { $lines[$_ - 1] =~ /^\s*interlock_(?:idempotency|verify)/ }
        1 .. @lines;
    return ($code, $said, $n);
}

sub warns {
    my ($name, $what, $location) = @_;

    my ($code, $said, $line) = conf($location);
    is($code, 0, "$name: accepted") or diag($said);
    my @warnings = grep { /\[warn\]/ } split /\n/, $said;
    is(scalar @warnings, 1, "$name: one warning") or diag($said);
    my $text = qq("$what" in location "/in/" comes before interlock:);
    like($warnings[0] // '', qr{\Q$text\E.*/nginx\.conf:$line$},
        "$name: what, and where");
}

sub silent {
    my ($name, $location, $http) = @_;

    my ($code, $said) = conf($location, $http);
    is($code, 0, "$name: accepted") or diag($said);
    unlike($said, qr/\[warn\]/, "$name: no warning");
}

sub refused {
    my ($name, $what, $location, $http) = @_;

    my ($code, $said, $line) = conf($location, $http);
    isnt($code, 0, "$name: refused");
    like($said, qr{\[emerg\].*$what.*"/in/".*/nginx\.conf:$line$}m,
        "$name: what, and where") or diag("line $line");
}

my $key = 'interlock_idempotency_key $http_x_id;';

warns('return', 'return', "$key\n return 204;");
warns('return before', 'return', "return 200 'x';\n $key");
warns('return after set', 'return', "$key\n set \$a 'a \$uri b';\n return 200;");
warns('return with a variable', 'return', "$key\n return 301 /x\$request_uri;");
warns('return behind an if', 'return',
    "$key\n if (\$http_x_y) { set \$a 1; }\n return 403;");
warns('rewrite, last', 'rewrite', "$key\n rewrite ^ /other last;");
warns('rewrite without a flag', 'rewrite', "$key\n rewrite ^/in/(.*) /\$1;");
warns('rewrite, redirect', 'rewrite', "$key\n rewrite ^ /other redirect;");
warns('with a signature alone', 'return',
    "interlock_verify github secret=secrets/github;\n return 204;");

silent('nothing', $key);
silent('return in if', "$key\n if (\$request_method = PUT) { return 405; }");
silent('return in an if with a pattern',
    "$key\n if (\$http_x_y ~ '^(a)') { set \$a 1; return 405; }");
silent('rewrite in if',
    "$key\n if (\$http_x_y) { rewrite ^ /other last; }");
silent('rewrite, break', "$key\n rewrite ^/in/(.*) /x/\$1 break;");
silent('set', "$key\n set \$a \$uri;");
silent('return where there is no gate', $key,
    "server { location / { return 200; } listen unix:%%DIR%%/o.sock; }");

for my $what (qw(fastcgi proxy)) {
    my $pass = $what eq 'proxy'
        ? 'proxy_pass http://127.0.0.1:1; } location /more {' : '';
    refused("$what, unbuffered", qr/"${what}_request_buffering off" can not/,
        "${what}_request_buffering off;\n $key\n $pass");
    refused("$what, unbuffered at http", qr/"${what}_request_buffering off"/,
        "$key\n $pass", "${what}_request_buffering off;");
}
silent('of another module', "proxy_request_buffering off;\n $key");
refused('no tenant', qr/"interlock_idempotency_key" in location/,
    "fastcgi_pass backend; } } server { interlock zone=z;"
    . ' listen unix:%%DIR%%/o.sock; location /in/ {' . "\n $key");

$t->finish;
done_testing();
