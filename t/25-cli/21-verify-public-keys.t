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
my @any = ('--tolerance', 365 * 86400);
invalid(verify(sns => $topic, message($url), @cert, @trust, @any, '--at',
    time + 300 * 86400), qr/expired/, 'and later than its certificate');

# Published: aws/aws-php-sns-message-validator, tests/FunctionalValidationsTest
# .php; real messages and the certificate of then, which stands for its issuer
# here, because Amazon does not send that along.
Interlock::Test::spew("$tmp/amazon.pem", <<'END');
-----BEGIN CERTIFICATE-----
MIIF1zCCBL+gAwIBAgIQB9pYWG3Mi7xej22g9pobJTANBgkqhkiG9w0BAQsFADBG
MQswCQYDVQQGEwJVUzEPMA0GA1UEChMGQW1hem9uMRUwEwYDVQQLEwxTZXJ2ZXIg
Q0EgMUIxDzANBgNVBAMTBkFtYXpvbjAeFw0yMTA5MDcwMDAwMDBaFw0yMjA4MTcy
MzU5NTlaMBwxGjAYBgNVBAMTEXNucy5hbWF6b25hd3MuY29tMIIBIjANBgkqhkiG
9w0BAQEFAAOCAQ8AMIIBCgKCAQEAutFqueT3XgP13udzxE6UpbdjOtVO5DwoMpSM
iDNMnGzF1TYH5/R2LPUOBeTB0SkKnR4kpNcUZhicpGD4aKciz/GEZ6wu65xncfT9
H/KBOQwoXYTuClHwp6fYpGzcGFaFoEYMnijL/o4qmTSd+ukglQUgKpsDw4ofw6rU
m2CttJo+GQSNQ9NfGR1h/0J+zsApkeSYrXRx5wNlu87z8os1C/6PBrUHwt3xXeaf
Xzfwut8aRRYsS8BySOA9DAgLfNHlfdQCjKPXKrG/ussgReyWD6n/HH+j7Uha3xos
TzQqJifcxlTq6MxWdPR6fDaJNvqw6DOE7UjUNxHguXHlVfxhlQIDAQABo4IC6TCC
AuUwHwYDVR0jBBgwFoAUWaRmBlKge5WSPKOUByeWdFv5PdAwHQYDVR0OBBYEFAqz
C+vyouneE7mWWLbi9i0UsWUbMBwGA1UdEQQVMBOCEXNucy5hbWF6b25hd3MuY29t
MA4GA1UdDwEB/wQEAwIFoDAdBgNVHSUEFjAUBggrBgEFBQcDAQYIKwYBBQUHAwIw
OwYDVR0fBDQwMjAwoC6gLIYqaHR0cDovL2NybC5zY2ExYi5hbWF6b250cnVzdC5j
b20vc2NhMWIuY3JsMBMGA1UdIAQMMAowCAYGZ4EMAQIBMHUGCCsGAQUFBwEBBGkw
ZzAtBggrBgEFBQcwAYYhaHR0cDovL29jc3Auc2NhMWIuYW1hem9udHJ1c3QuY29t
MDYGCCsGAQUFBzAChipodHRwOi8vY3J0LnNjYTFiLmFtYXpvbnRydXN0LmNvbS9z
Y2ExYi5jcnQwDAYDVR0TAQH/BAIwADCCAX0GCisGAQQB1nkCBAIEggFtBIIBaQFn
AHYAKXm+8J45OSHwVnOfY6V35b5XfZxgCvj5TV0mXCVdx4QAAAF7vfDVkQAABAMA
RzBFAiEA2XfHuy36aqRFiaL8c3md2mH451go8707+fRE0pEdSRACIE/g5FXTUXUZ
PFcmOhm9TZ+uMY1i4CIQ/CKVWln6C3t+AHYAUaOw9f0BeZxWbbg3eI8MpHrMGyfL
956IQpoN/tSLBeUAAAF7vfDVjAAABAMARzBFAiBF1MhhFP0+FQt3daDFfMYoWwnr
muTInrjNpwfzlvQBugIhAPYadFzr+LaxSJoiZEbEHBvTts7bT0M3eCQONA2O7w6n
AHUAQcjKsd8iRkoQxqE6CUKHXk4xixsD6+tLx2jwkGKWBvYAAAF7vfDVdAAABAMA
RjBEAiAtPapmFAuA71ih4NoSd5hJelzAltNQpxDMcDfDyHyU8gIgWxmaa6+2KbBu
9xdv379zvnJACFR7jc+4asl08Dn4aagwDQYJKoZIhvcNAQELBQADggEBAA54QX0u
oFWXfMmv02CGZv4NWo5TapyeeixQ2kKpZHRdVZjxZrw+hoF6HD7P3kGjH8ztyJll
tDxB0qgMltbPhQdScwhA6iTgoaBYqEUC/VHKd4PmmPT6yIsM36NBZVmkGlzl5uNo
/dBgBaG0SsVJnhr5zro3c2quC7n6fVGEZhf/UgQwRnnvThnvbNKguglDMq4uEqv8
njKyleht+glkcmXO0m9qLKt6BOS0amy6U2GlAwRn0Wx02ndJtnRCSC6kPuRWK/SQ
FEjB7gCK4hdKaAOuWdZpI55vF6ifOeM8toC3g7ofO8qLTnJupAG+ZitY5J3cvHWr
HqOUdKigPDHYLRo=
-----END CERTIFICATE-----
END
my @amazon = map { ($_, "$tmp/amazon.pem") } '--cert', '--ca';
my $of = 'arn:aws:sns:us-east-2:295079676684:publish-and-verify-';
for ([ '792cda85-518f-5dd3-9163-81d851212f3a',
        '892f85fe-4836-424d-8188-ab85bef0f362', '2022-07-28T21:23:58.317Z',
        undef, 1, 'ghtf+deOBAzHJJZ6s6CdRLfTQAlcGzq9naoFM1wi0CJiq//uVRuZnamrkWN'
        . 'F0fhouMFvuLVRwcz8PZLUMSfnmd5VpdTKpTyiKmy1qJAZXma0w+yi7G+I33hD1Jyk1Nb'
        . 'ym2n0kqp3fVu2aoooiN2ZeLAT2bH0/BtjLSfN1yAOKNoprco4qV9gGUZinXJdj9a1YdN'
        . 'hDR2jKi33ldlsVtEXAtiaDklGEk7DgRKX38GerBPiLg3FdtgY6KC7cdeGpU/dGK+4hjc'
        . '83Ive1HoFkAwqhpgInM2sMytBosoiXfCmOKmU4xeGD0gHDNZTlJUJQDlzw8Eag0H9f/5'
        . 'zXF9d3uy0YQ==' ],
    [ '4504e649-d933-5aa9-8199-bd14ccf05f0b',
        '530b26da-0687-4fe4-9f71-780bad3181e2', '2022-07-28T22:53:55.086Z',
        'Hello world', 2, 'cETcSvmmkt+My05qCLKexyl0+RyG83mSryKPqTfS+tYcxDJWVcj'
        . 'PJAr+qdpElzVaBl1aTGYVWMY64i9JqZ/JES8pylNj8LGvdhuNQKO59/WCoIimZAsNhn0'
        . 'xEgOeeDU+W/0BU4sdpCGMNjo0S/FuIiWaRe4E0YWRVrxeQevaQ70euDdfWgd5v1eCKQz'
        . '8b367b9XBmMztL/CWUFI6YaKK/MV21eyvJe3Y7CtVYiOKEYiAZnAEkynK7gUGO5TsgDj'
        . 'GNYhj6U3xYsWgI03bmioSl7kdFSUj+AZ7ugas5fghqxgoDsdfqsjMYKRm5KKHQWsgzI6'
        . '19yIzpNKUiSMHxdZXpQ==' ])
{
    my ($id, $name, $at, $subject, $version, $signature) = @$_;
    my %m = (Type => 'Notification', MessageId => $id, TopicArn => "$of$name",
        Message => 'Hello world', Timestamp => $at,
        SignatureVersion => "$version", Signature => $signature,
        SigningCertURL => 'https://sns.us-east-2.amazonaws.com/SimpleNotific'
            . 'ationService-7ff5318490ec183fbaddaa2a969abfda.pem',
        defined $subject ? (Subject => $subject) : ());
    my @then = (@amazon, '--at', $at);
    valid(verify(sns => "$of*", encode_json(\%m), @then),
        "Amazon's own message, version $version");
    invalid(verify(sns => "$of*", encode_json({ %m, Subject => 'x' }), @then),
        qr/does not fit/, 'with another subject');
    invalid(verify(sns => "$of*", encode_json({ %m, SignatureVersion =>
        $version == 1 ? '2' : '1' }), @then), qr/does not fit/,
        'by another digest');
    invalid(verify(sns => "$of*", encode_json(\%m), @amazon, @any, '--at',
        '2022-08-18T00:00:00Z'), qr/expired/, 'when the certificate had ended');
}

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
invalid(verify(sns => $topic, message($url, { Timestamp => $then }), @hosts),
    qr/too old/, 'but not for an old one');
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
