#!/usr/bin/perl

# Commands about what stands still, and about who is told of what.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance;
my $port = Interlock::Test::free_port();

# cli(ROLE, [\%opt], ARGS): { code, out, err, json }
sub cli {
    my ($role, @args) = @_;

    my $opt = ref $args[0] ? shift @args : {};
    return $i->cli({ %$opt, token => $role }, @args);
}

sub one_line {
    my ($r, $code, $err, $what) = @_;

    is($r->{code}, $code, "$what: exit code $code") or diag $r->{err};
    like($r->{err}, qr/^interlock: [^\n]*$err[^\n]*\n$/, '... and one line that says why');
}

# Kinds.
is(cli('operator', { stdin => '{"overlap":"allow"}' }, qw(kind put k -))->{code}, 0, 'a kind');
my $r = cli('operator', qw(kind pause k --reason books --requested-by dana --json));
is($r->{code}, 0, 'kind pause') or diag $r->{err};
is($r->{json}{paused}{requested_by}, 'dana', 'by whom');
is($r->{json}{paused}{reason}, 'books', 'and why');
is(cli('submit', qw(submit --kind k --key k:1))->{code}, 0, 'submitted all the same');
like(cli('auditor', qw(show k:1))->{out}, qr/books/, 'show says why nothing runs');
$r = cli('operator', { stdin => cli('operator', qw(kind get k --json))->{out} },
    qw(kind put k -));
is($r->{code}, 0, 'what get shows may be put') or diag $r->{err};
$r = cli('operator', qw(kind resume k --reason done --json));
is($r->{code}, 0, 'kind resume') or diag $r->{err};
is($r->{json}{paused}, undef, 'it goes on');
is($i->psql(q{select string_agg(what || ' ' || requested_by, ', ' order by id)
    from interlock.actions where what ~ 'kind'}) =~ /^kind_pause dana, kind_resume \S+$/, 1,
    'the login name is the default');
one_line(cli('operator', qw(kind pause nosuch --reason x)), 66, qr/404/, 'an unknown kind');
one_line(cli('auditor', qw(kind pause k --reason x)), 77, qr/403/, 'an auditor');

# Sources.
is(cli('operator', qw(source pause api --reason storm))->{code}, 0, 'source pause');
one_line(cli('submit', qw(submit --kind k --key k:2)), 75, qr/paused/, 'a request of it');
like(cli('auditor', qw(source list))->{out}, qr/api.*storm/s, 'source list');
is(cli('operator', qw(source resume api --reason over))->{code}, 0, 'source resume');
is(cli('submit', qw(submit --kind k --key k:2))->{code}, 0, 'taken again');
one_line(cli('operator', qw(source pause schedule --reason x)), 65, qr/schedules/,
    'what is no source');

# Alerts.
my $secret = 'whsec_' . 'c2VjcmV0' x 4;
my $file = "$i->{dir}/ops.secret";
Interlock::Test::spew($file, "$secret\n");
chmod 0644, $file;
chown +(stat $i->{dir})[ 4, 5 ], $file if $> == 0;
$r = cli('operator', { stdin => qq({"url": "http://127.0.0.1:$port/hook"}) },
    'alert', 'put', 'ops', '-', '--secret-file', $file, '--json');
is($r->{code}, 0, 'alert put') or diag $r->{err};
unlike($r->{out}, qr/whsec/, 'the secret is not shown');
is($i->psql("select convert_from(secret, 'UTF8') from interlock.alert_secrets"), 'secret' x 4,
    'but kept');
$r = cli('operator', { stdin => '{}' }, 'alert', 'put', 'ops', '-', '--secret-file', $file);
is($r->{code}, 0, 'a new secret alone') or diag $r->{err};
$r = cli('operator', { stdin => '{"conditions":["failed"]}' }, qw(alert put ops - --json));
is_deeply($r->{json}{conditions}, ['failed'], 'what it is told of');
is(cli('auditor', qw(alert get ops --json))->{json}{name}, 'ops', 'alert get');
like(cli('auditor', qw(alert list))->{out}, qr/ops.*127\.0\.0\.1:$port/s, 'alert list');
one_line(cli('operator', { stdin => '{"url":"http://192.0.2.1/"}' }, qw(alert put ops -)),
    65, qr/may not be called.*400/, 'whom it may not go to');
one_line(cli('operator', { stdin => '[]' }, qw(alert put ops -)), 65, qr/JSON object/,
    'no object');
one_line(cli('auditor', qw(alert delete ops)), 77, qr/403/, 'an auditor');
is(cli('operator', qw(alert delete ops))->{code}, 0, 'alert delete');
one_line(cli('operator', qw(alert get ops)), 66, qr/404/, 'an unknown alert');

$i->check_sql;
done_testing;
