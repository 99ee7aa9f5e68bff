#!/usr/bin/perl

# interlockd hangs: each provider has its answer before it gives up, and what
# it sends again is one job.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Digest::SHA qw(hmac_sha256 hmac_sha256_hex);
use MIME::Base64 qw(encode_base64);
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

my $i = Interlock::Test->instance;

sub hex256 { hmac_sha256_hex($_[1], $i->secret($_[0])) }

# One for each time that the sample has: source => [ seconds that the provider
# waits, body, headers ]
my $now = int time;
my %body = (slack => '{"type":"event_callback","event_id":"Ev1"}',
    zoom => '{"event":"meeting.started","event_ts":1}',
    discord => '{"version":1,"type":1,"event":{"type":"X"}}',
    shopify => '{"id":1}', github => '{"action":"opened"}',
    standard => '{"type":"x"}');
my %sent = (
    slack => [ 3, 'x-slack-request-timestamp' => $now, 'x-slack-signature' =>
        'v0=' . hex256(slack => "v0:$now:$body{slack}") ],
    zoom => [ 3, 'x-zm-request-timestamp' => $now, 'x-zm-signature' =>
        'v0=' . hex256(zoom => "v0:$now:$body{zoom}") ],
    discord => [ 3, 'x-signature-timestamp' => $now,
        'x-signature-ed25519' => $i->sign_discord($body{discord}, $now) ],
    shopify => [ 5, 'shopify-webhook-id' => 'w-1', 'shopify-hmac-sha256' =>
        encode_base64(hmac_sha256($body{shopify}, $i->secret('shopify')), '') ],
    github => [ 10, 'x-github-event' => 'issues', 'x-github-delivery' => 'd-1',
        'x-hub-signature-256' => 'sha256='
            . hex256(github => $body{github}) ],
    standard => [ 15, 'webhook-id' => 'msg_1', 'webhook-timestamp' => $now,
        'webhook-signature' => 'v1,' . encode_base64(hmac_sha256(
            "msg_1.$now.$body{standard}", MIME::Base64::decode(
            substr $i->secret('standard'), 6)), '') ],
);

sub post {
    my ($source) = @_;
    my ($seconds, @headers) = @{ $sent{$source} };
    return $i->http(POST => "/in/$source", { body => $body{$source},
        headers => { 'content-type' => 'application/json', @headers } });
}

# Each twice, the second time while the first is there, all at once
my $pid = $i->backend_pid;
kill 'STOP', $pid or die "stop: $!";
my %child;
for my $source (sort keys %sent) {
    for my $nth (1, 2) {
        pipe my $out, my $in or die "pipe: $!";
        my $child = fork() // die "fork: $!";
        if (!$child) {
            my $begun = time;
            my $res = eval { post($source) };
            printf {$in} "%s %s %.2f\n", $res->{status} // 0,
                $res->{headers}{'retry-after'} // '-', time - $begun;
            close $in;
            POSIX::_exit(0);
        }
        $child{"$source, $nth"} = [ $child, $out ];
    }
}
for my $name (sort keys %child) {
    my ($child, $out) = @{ $child{$name} };
    my ($source) = $name =~ /^(\w+)/;
    my ($status, $after, $took) = split ' ', scalar <$out>;
    waitpid $child, 0;
    is($status, 503, "$name: to be sent again");
    like($after, qr/^\d+$/, "$name: and when");
    cmp_ok($took, '<', $sent{$source}[0], "$name: in time");
}
kill 'CONT', $pid;

for my $source (sort keys %sent) {
    my $res = post($source);
    like($res->{status}, qr/^20[024]$/, "$source: taken") or diag($res->{body});
    is($i->psql('select count(*) from interlock.jobs'
        . " where source = '$source'"), 1, "$source: one job");
}

# what was stored in the end is known to all that came before
$i->check_sql;

done_testing;
