#!/usr/bin/perl

# make start, status, stop: 0 once it is ready, nothing left afterwards, and
# the second start goes on with the same data, secrets and tokens.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Socket::INET;
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance(start => 0, fresh => 1);
my $dir = $i->dir;
my @make = ('make', '--no-print-directory', '-C', $Interlock::Test::TOP,
    'DIR=' . $dir, 'PORT=' . $i->port, 'B=' . $i->build);

sub make {
    my ($code, $out, $err) = Interlock::Test::run([ @make, @_ ],
        timeout => 300);
    return ($code, "$out$err");
}

my ($code, $out) = make('status');
isnt($code, 0, 'status before the first start: not 0');
like($out, qr/not running/, 'and says so');

($code, $out) = make('start');
is($code, 0, 'make start: 0') or diag($out), $i->show_logs;
is($i->http(GET => '/readyz')->{status}, 200, 'it is ready then');

($code, $out) = make('status');
is($code, 0, 'status: 0');
like($out, qr/^\Q$_\E: running, pid \d+$/m, "$_ is named with its pid")
    for qw(postgres interlockd nginx);

($code, $out) = make('start');
is($code, 0, 'start again: 0');
like($out, qr/runs already/, 'and says that it runs');

my %files = map { $_ => Interlock::Test::slurp("$dir/$_") }
    (map { "tokens/$_" } qw(submit worker operator auditor)),
    (map { "secrets/$_" } qw(github stripe standard token hmac slack shopify
        meta meta-verify-token discord square paddle linear zoom hubspot twilio
        intercom mailgun adyen gitlab x cloudevents));
my $seed = (glob "$dir/keys/*.seed")[0];
ok($seed && -s $seed, 'there is a signing key');

for my $file (sort keys %files) {
    like($files{$file}, qr/^\S{16,}\n\z/, "$file holds one line");
    is((stat "$dir/$file")[2] & 07777, 0600, "$file is its owner's alone");
}
like($files{'secrets/stripe'}, qr/^whsec_/, "Stripe's form");
like($files{'secrets/standard'}, qr{^whsec_[A-Za-z0-9+/]{32}$},
    "Standard Webhooks' form");
like($files{'secrets/adyen'}, qr/^[0-9A-F]{64}$/, "Adyen's form");
like($files{'secrets/discord'}, qr/^[0-9a-f]{64}$/, "Discord's form");
like($files{'secrets/paddle'}, qr/^pdl_ntfset_[A-Za-z0-9]{26}_[A-Za-z0-9]{32}$/,
    "Paddle's form");
is((stat "$dir/senders/discord.pem")[2] & 07777, 0600,
    "the sender's half of a key pair is its owner's alone");

# Who runs it

my $processes = $i->processes;
cmp_ok(scalar keys %$processes, '>', 8, 'its processes are found');
my @root = grep { ((stat "/proc/$_")[4] // 1) == 0 }
    keys %$processes;
is(scalar @root, 0, 'none of them is root')
    or diag(map { "$_ $processes->{$_}\n" } @root);

# Loopback alone

my @listen = grep { /LISTEN/ } map { (split /\n/, $_) } scalar
    qx{grep -h " 0A " /proc/net/tcp /proc/net/tcp6 2>/dev/null | sed 's/^/LISTEN /'};
my $hex = sprintf '%04X', $i->port;
my @ours = grep { /:$hex 0/ } @listen;
is(scalar @ours, 1, 'one listening socket');
like($ours[0], qr/0100007F:$hex/, 'on 127.0.0.1');

# What was submitted stays

my $res = $i->http(POST => '/v1/jobs', { token => 'submit',
    body => { kind => 'free', work_key => 'stays:1' } });
is($res->{status}, 202, 'a job is accepted');
my $job = $res->{json}{job_id};

# What the user has made of a sample kind stays, too

$res = $i->http(PUT => '/v1/kinds/tally', { token => 'operator',
    body => { lease_seconds => 77 } });
is($res->{status}, 200, 'a sample kind is changed');

($code, $out) = make('stop');
is($code, 0, 'make stop: 0');
is_deeply($i->processes, {}, 'no process is left');
ok(IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $i->port,
    Listen => 1, ReuseAddr => 1), 'the port is free');
($code, $out) = make('stop');
is($code, 0, 'stop again: 0');

($code, $out) = make('start');
is($code, 0, 'make start after stop: 0') or diag($out);
is(Interlock::Test::slurp("$dir/$_"), $files{$_}, "$_ is the same")
    for sort keys %files;
is($i->http(GET => "/v1/jobs/$job", { token => 'auditor' })->{json}{job_id},
    $job, 'the job is there');
is($i->http(GET => '/v1/kinds/tally', { token => 'operator' })
    ->{json}{lease_seconds}, 77, 'the changed kind is as it was changed');

# reload: other workers, no request lost

my $before = join ' ', sort grep { ($processes->{$_} // '') =~ /worker/ }
    keys %$processes;
($code, $out) = make('reload');
is($code, 0, 'make reload: 0');
is($i->http(GET => '/readyz')->{status}, 200, 'and it is ready');

# An own directive, then a broken one

$i->local_conf('nginx-server', 'location = /own { return 204; }');
($code, $out) = make('reload');
is($i->http(GET => '/own')->{status}, 204, "one's own location after reload");
$i->local_conf('nginx-server', 'location = /own { nonsense; }');
($code, $out) = make('reload');
isnt($code, 0, 'reload with a broken one: not 0');
like($out, qr/nonsense/, 'what is broken is told');
is($i->http(GET => '/own')->{status}, 204, 'the running one goes on');
$i->expect_log(qr/unknown directive "nonsense"/);
$i->local_conf('nginx-server', '');

is($i->stop, 1, 'stop');
is_deeply($i->processes, {}, 'no process is left');

done_testing();
