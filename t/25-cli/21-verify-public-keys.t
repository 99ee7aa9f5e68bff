#!/usr/bin/perl

# interlock verify for SendGrid, PayPal and SNS: a published vector, and keys
# and certificates of our own.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use IO::Socket::INET;
use JSON::PP;
use POSIX qw(strftime);
use Test::More;

use Interlock::PublicKeys;
use Interlock::Test;

my $top = $Interlock::Test::TOP;
my $interlock = ($ENV{INTERLOCK_BUILD} // "$top/build") . '/interlock';
$interlock = "$top/$interlock" unless $interlock =~ m{^/};
my $tmp = tempdir(CLEANUP => 1);
my $pk = Interlock::PublicKeys->new("$tmp/pk");

sub verify {
    my ($scheme, $secret, $body, @args) = @_;

    Interlock::Test::spew("$tmp/secret", "$secret\n");
    Interlock::Test::spew("$tmp/body", $body);
    my ($code, $out, $err) = Interlock::Test::run([ $interlock, 'verify',
        '--scheme', $scheme, '--secret-file', "$tmp/secret", '--body',
        "$tmp/body", @args ]);
    return { code => $code, out => $out, err => $err };
}

sub valid {
    my ($r, $what) = @_;
    is("$r->{code} $r->{out}", "0 valid\n", $what) or diag $r->{err};
}

sub invalid {
    my ($r, $why, $what) = @_;
    is($r->{code}, 1, $what) or diag $r->{err};
    like($r->{out}, $why, "$what: why");
}

# Published: @sendgrid/eventwebhook, src/eventwebhook.spec.js.
my $key = 'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmp'
    . 'qIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==';
my $events = '[{"email":"hello@world.com","event":"dropped","reason":"Bounced '
    . 'Address","sg_event_id":"ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV'
    . '9BLTA","sg_message_id":"LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b7'
    . '45b58-kmzbl-18-5F5FC76C-9.0","smtp-id":"<LRzXl_NHStOGhQ4kofSm_A@ismtpd0'
    . '039p1iad1.sendgrid.net>","timestamp":1600112492}]' . "\r\n";
my @signed = ('--header', 'X-Twilio-Email-Event-Webhook-Signature: '
    . 'MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG'
    . '+luQAbPIqHh89M15TluLtEZtM=');
my @time = ('--header', 'X-Twilio-Email-Event-Webhook-Timestamp: 1600112502');
my @at = ('--at', 1600112502);

valid(verify(sendgrid => $key, $events, @signed, @time, @at),
    'SendGrid\'s published example');
invalid(verify(sendgrid => $key, $events =~ s/\r\n//r, @signed, @time, @at),
    qr/does not fit/, 'without its CR LF');
invalid(verify(sendgrid => $key, "$events\n", @signed, @time, @at),
    qr/hint: it fits the body without its last newline/,
    'with a newline more');
invalid(verify(sendgrid => $key, $events, @signed, @time), qr/too old.*\n.*--at/,
    'long ago');
invalid(verify(sendgrid => $key, $events, @signed, @time, '--at', 1600112201),
    qr/future/, 'before it was sent');
valid(verify(sendgrid => $key, $events, @signed, @time, '--at', 1600112802),
    'five minutes later');
invalid(verify(sendgrid => $key, $events, @time, @at), qr/missing/,
    'no signature');
invalid(verify(sendgrid => $key, $events, @signed, @signed, @time, @at),
    qr/more than once/, 'two of them');
is(verify(sendgrid => "-----BEGIN PUBLIC KEY-----\n$key", $events, @signed,
    @time)->{code}, 78, 'a key in PEM');
is(verify(sendgrid => $key, $events, @signed, @time, 'secret_encoding=hex')
    ->{code}, 78, 'no other encoding');
is(decode_json(verify(sendgrid => $key, "x$events", @signed, @time, @at,
    '--json')->{out})->{problem}, 'signature-invalid', 'as JSON');

# PayPal and SNS with a certificate that is given

$pk->cert('paypal', names => ['messageverificationcerts.paypal.com']);
$pk->cert('sns', names => ['sns.amazonaws.com']);
my @trust = ('--ca', $pk->file('ca.pem'));

my $event = '{"id":"WH-1"}';
my $h = $pk->paypal('paypal', '1JE4291016473214C',
    'https://api.paypal.com/v1/notifications/certs/CERT-1', $event);
my @paypal = map { ('--header', "$_: $h->{$_}") } sort keys %$h;
my @cert = ('--cert', $pk->file('paypal.pem'));
valid(verify(paypal => '1JE4291016473214C', $event, @paypal, @cert, @trust),
    'PayPal');
valid(verify(paypal => "OTHER\n1JE4291016473214C", $event, @paypal, @cert,
    @trust), 'the second webhook');
invalid(verify(paypal => 'OTHER', $event, @paypal, @cert, @trust),
    qr/does not fit/, 'another webhook');
invalid(verify(paypal => '1JE4291016473214C', "$event\n", @paypal, @cert,
    @trust), qr/without its last newline/, 'another body');
invalid(verify(paypal => '1JE4291016473214C', $event, @paypal, @cert),
    qr/not trusted/, 'a certificate that the system does not trust');
invalid(verify(paypal => '1JE4291016473214C', $event, @paypal, '--cert',
    $pk->file('sns.pem'), @trust), qr/another name/, 'that of somebody else');
invalid(verify(paypal => '1JE4291016473214C', $event, @paypal, '--cert',
    "$tmp/body", @trust), qr/no certificate/, 'none');
is(verify(paypal => '1JE4291016473214C', $event, @paypal, '--cert',
    "$tmp/nothing", @trust)->{code}, 66, 'a file that is not there');
s{api\.paypal\.com}{api.paypal.example} for @paypal;
invalid(verify(paypal => '1JE4291016473214C', $event, @paypal, @cert, @trust),
    qr/URL has a host/, 'from somewhere else');

my $topic = 'arn:aws:sns:us-west-2:123456789012:MyTopic';
sub message {
    return $pk->sns('sns', { MessageId => 'm', TopicArn => $topic,
        SigningCertURL => $_[0], SignatureVersion => '2', %{ $_[1] // {} } });
}
my $url = 'https://sns.us-west-2.amazonaws.com/SimpleNotificationService-1.pem';
@cert = ('--cert', $pk->file('sns.pem'));
valid(verify(sns => $topic, message($url), @cert, @trust), 'SNS');
invalid(verify(sns => "${topic}2", message($url), @cert, @trust),
    qr/TopicArn/, 'another topic');
invalid(verify(sns => $topic, 'Hello', @cert, @trust), qr/raw message/,
    'raw delivery');
my $then = strftime('%Y-%m-%dT%H:%M:%S.000Z', gmtime(time - 3 * 3600));
my $late = message($url, { Timestamp => $then });
invalid(verify(sns => $topic, $late, @cert, @trust), qr/too old/, 'an old one');
valid(verify(sns => $topic, $late, @cert, @trust, '--at', $then),
    'at its time');
invalid(verify(sns => $topic, message($url), @cert, @trust, '--at',
    time + 400 * 86400), qr/expired/, 'and later than its certificate');

# and one that is fetched; the server is openssl's own

$pk->cert('server', names => ['localhost']);
my $probe = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
my $port = $probe->sockport;
close $probe;
my $pid = fork() // die "fork: $!";
if (!$pid) {
    chdir $pk->file('.') or POSIX::_exit(1);
    open STDIN, '<', '/dev/null';
    open STDOUT, '>', 's_server.log';
    open STDERR, '>&', \*STDOUT;
    exec 'openssl', 's_server', '-accept', "127.0.0.1:$port", '-WWW',
        '-cert', 'server.pem', '-key', 'server.key'
        or POSIX::_exit(127);
}
Interlock::Test->wait_for(sub {
    IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port)
}, 10, 'openssl s_server');
my @hosts = ('--cert-hosts', "localhost:$port");
$url = "https://localhost:$port/sns.pem";
valid(verify(sns => $topic, message($url), @trust, @hosts), 'it is fetched');
invalid(verify(sns => $topic, message($url), @trust), qr/URL has a host/,
    'from hosts that are named only');
is(verify(sns => $topic, message($url), @hosts)->{code}, 69,
    'nor from a server that is not trusted');
kill 'TERM', $pid;
waitpid $pid, 0;
my $r = verify(sns => $topic, message($url), @trust, @hosts);
is($r->{code}, 69, 'nobody there: it cannot be told');
like($r->{err}, qr/could not be fetched/, 'and is said so');

done_testing();
