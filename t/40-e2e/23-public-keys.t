#!/usr/bin/perl

# SendGrid, PayPal and Amazon SNS through nginx, interlockd and PostgreSQL:
# real keys, certificates from a server with TLS, subscriptions that are
# confirmed, and everything that must be refused.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Path qw(make_path);
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64 qw(decode_base64 encode_base64);
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(time);

use Interlock::PublicKeys;
use Interlock::Test;

my $i = Interlock::Test->instance(start => 0);
my $dir = $i->dir;
my $pk = Interlock::PublicKeys->new("$dir/pk");
my ($tls, $plain, $shut) = map { Interlock::Test::free_port() } 1 .. 3;
my $hang = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1')
    or die "listen: $!";
my $hung = $hang->sockport;

$pk->cert('server', names => ['localhost']);
$pk->cert('mid', ca => 1);
my %leaf = (
    'sns-good'     => { names => ['sns.amazonaws.com'] },
    'sns-cn'       => { cn => 'sns.amazonaws.com' },
    'sns-other'    => { names => ['sns.amazonaws.com.example'] },
    'sns-expired'  => { names => ['sns.amazonaws.com'], days => [ -9, -1 ] },
    'sns-early'    => { names => ['sns.amazonaws.com'], days => [ 1, 9 ] },
    'sns-weak'     => { names => ['sns.amazonaws.com'], bits => 1024 },
    'sns-bare'     => { names => ['sns.amazonaws.com'], by => 'mid' },
    'sns-asks'     => { names => ['sns-signing.me-south-1.amazonaws.com'],
        by => 'mid', aia => "http://localhost:$plain/mid.pem" },
    'sns-chain'    => { names => ['sns.amazonaws.com'], by => 'mid' },
    'paypal-good'  => { names => ['messageverificationcerts.paypal.com'] },
    'paypal-other' => { names => ['paypal.com.example', 'notpaypal.com'] },
);
$pk->cert($_, %{ $leaf{$_} }) for sort keys %leaf;

# what the server has: the leaves, two of them with more than themselves
my $www = "$dir/pk/www";
make_path("$www/v1/notifications/certs");
sub publish {
    my ($name, $text) = @_;
    $pk->write("www/$name", $text // $pk->text("$name.pem"));
}
publish("$_.pem", $pk->text("$_.pem")) for grep { /^sns/ } keys %leaf;
publish('sns-chain.pem', $pk->text('sns-chain.pem') . $pk->text('mid.pem'));
publish("v1/notifications/certs/CERT-$_", $pk->text("$_.pem"))
    for grep { /^paypal/ } keys %leaf;
publish('mid.pem', $pk->text('mid.pem'));
publish('junk.pem', 'no certificate');
publish('large.pem', 'x' x 100_000);
chmod 0755, "$dir/pk", $www, map { "$www/$_" } 'v1', 'v1/notifications',
    'v1/notifications/certs';
chmod 0644, map { "$dir/pk/$_" } 'server.key', 'server.pem', 'ca.pem';

my $hosts = join ', ', map { "localhost:$_" } $tls, $plain, $shut, $hung;
$i->local_conf(interlockd => "cert_hosts = $hosts\ncert_private = $hosts\n"
    . "cert_ca = $dir/pk/ca.pem\nlog_level = info");
$i->local_conf('nginx-http' => <<"END");
log_format got '\$request_uri';
server {
    listen 127.0.0.1:$tls ssl;
    ssl_certificate $dir/pk/server.pem;
    ssl_certificate_key $dir/pk/server.key;
    access_log "$dir/log/certs.log" got;
    root "$www";
    location = /moved.pem { return 302 https://localhost:$shut/sns-good.pem; }
    location = /away.pem { return 500; }
    location = / {
        if (\$arg_Token = refused) { return 400; }
        return 200 '<ConfirmSubscriptionResponse/>';
    }
}
server {
    listen 127.0.0.1:$plain;
    access_log "$dir/log/certs.log" got;
    root "$www";
}
END
$i->start;

my $topic = $i->secret('sns');
my $webhook = $i->secret('paypal');

sub fetched {
    my ($what) = @_;
    return scalar grep { index($_, $what) == 0 }
        split /\n/, Interlock::Test::slurp("$dir/log/certs.log") // '';
}

sub jobs {
    my ($source) = @_;
    return $i->psql('select count(*) from interlock.jobs'
        . " where source = '$source'");
}

sub is_refused {
    my ($res, $what, $type) = @_;
    $type //= 'signature-invalid';
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is("$res->{status} " . ($res->{json}{type} // ''),
        "401 https://interlock.invalid/problems/$type", $what)
        or diag($res->{body});
}

# the log says why, the sender is told nothing
sub reason {
    my ($like, $what) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @lines = split /\n/, Interlock::Test::slurp("$dir/log/interlockd.log");
    my ($last) = grep { /(?:signature-invalid|timestamp-out-of-range|unavailable):/ }
        reverse @lines;
    like($last // '', $like, $what);
}


# --- SendGrid ------------------------------------------------------------------

my $sender = "$dir/senders/sendgrid.pem";
my $events = '[{"email":"a@b.example","event":"open","sg_event_id":"e1"},'
    . "\n" . '{"event":"click","sg_event_id":"e2"}]' . "\r\n";

sub sendgrid {
    my ($body, %o) = @_;
    my $at = $o{at} // int time;
    my $sig = $o{signature} // $pk->sign($o{key} // $sender, "$at$body");
    return $i->http(POST => '/in/sendgrid', { body => $o{sent} // $body,
        headers => [ [ 'content-type', 'application/json' ],
            [ 'X-Twilio-Email-Event-Webhook-Timestamp', $o{said} // $at ],
            [ 'X-Twilio-Email-Event-Webhook-Signature', $sig ],
            @{ $o{headers} // [] } ] });
}

my $res = sendgrid($events);
is($res->{status}, 202, 'SendGrid: two events') or diag($res->{body});
is(jobs('sendgrid'), 2, 'a job each');
$res = sendgrid($events);
is($res->{status}, 202, 'the same again');
is(jobs('sendgrid'), 2, 'makes no job');
is($i->psql("select encode(p.payload, 'escape') from interlock.payloads p"
    . " join interlock.jobs j on j.id = p.job_id where j.source = 'sendgrid'"
    . " and p.payload like '%click%'"), '{"event":"click","sg_event_id":"e2"}',
    'each with its own bytes');

is_refused(sendgrid($events, sent => $events =~ s/\r\n\z//r),
    'without the last CR LF');
is_refused(sendgrid($events, sent => "$events "), 'with a blank behind');
is_refused(sendgrid($events, said => int(time) + 1), 'another timestamp');
is_refused(sendgrid($events, at => 'x'), 'no timestamp');
is_refused(sendgrid($events, at => int(time) - 301), 'five minutes old',
    'timestamp-out-of-range');
is_refused(sendgrid($events, at => int(time) + 310), 'of the future',
    'timestamp-out-of-range');
is_refused(sendgrid($events, at => int(time) - 301, signature => 'MAAA'),
    'old and not signed');
is_refused(sendgrid($events, key => $pk->file('sns-good.key')), 'an RSA key');
$pk->_run('genpkey', '-algorithm', 'EC', '-pkeyopt',
    'ec_paramgen_curve:P-256', '-out', $pk->file('other.key'));
is_refused(sendgrid($events, key => $pk->file('other.key')), 'another key');
is_refused(sendgrid($events, signature => $_), "signature \"$_\"")
    for '', '=', 'MEUC', encode_base64('x' x 72, ''),
        encode_base64("\x30\x06\x02\x01\x00\x02\x01\x00", '');
my $at = int time;
my $good = decode_base64($pk->sign($sender, "$at$events"));
is(sendgrid($events, at => $at, signature => encode_base64($good, ''))
    ->{status}, 202, 'a signature by itself');
is_refused(sendgrid($events, at => $at,
    signature => encode_base64("$good\0", '')), 'with a byte behind it');
is_refused(sendgrid($events, headers => [
    [ 'X-Twilio-Email-Event-Webhook-Signature', 'MAAA' ] ]),
    'two signatures');
is_refused($i->http(POST => '/in/sendgrid', { body => $events }),
    'no headers at all');
is_refused($i->http(POST => '/in/sendgrid', { body => 'x' }),
    'not signed, and not JSON: nothing is said about that');
is(sendgrid('[{"event":"open"}]')->{status}, 400,
    'signed, but without an id: that is told');
is(sendgrid('{')->{json}{type}, 'https://interlock.invalid/problems/json-invalid',
    'or not JSON');
is(jobs('sendgrid'), 2, 'and none of these made a job');

# two keys while one takes the other's place
my $old = Interlock::Test::slurp("$dir/secrets/sendgrid");
$pk->_run('pkey', '-in', $pk->file('other.key'), '-pubout', '-outform', 'DER',
    '-out', $pk->file('other.der'));
open my $fh, '>', "$dir/secrets/sendgrid" or die $!;
print $fh encode_base64($pk->text('other.der'), ''), "\n$old";
close $fh;
$i->reload;
is(sendgrid('[{"sg_event_id":"e3"}]', key => $pk->file('other.key'))->{status},
    202, 'the new key');
is(sendgrid('[{"sg_event_id":"e4"}]')->{status}, 202, 'and the old one');


# --- PayPal --------------------------------------------------------------------

sub paypal {
    my ($body, %o) = @_;
    my $h = $pk->paypal($o{key} // 'paypal-good', $o{webhook} // $webhook,
        $o{url} // "https://localhost:$tls/v1/notifications/certs/CERT-"
            . ($o{cert} // 'paypal-good'), $body, %o);
    return $i->http(POST => '/in/paypal', { body => $o{sent} // $body,
        headers => { %$h, %{ $o{headers} // {} } } });
}

my $event = '{"id":"WH-1","event_type":"PAYMENT.SALE.COMPLETED","n":"é"}';
$res = paypal($event);
is($res->{status}, 202, 'PayPal: accepted') or diag($res->{body});
is($i->psql("select encode(p.payload, 'escape') from interlock.payloads p"
    . " join interlock.jobs j on j.id = p.job_id where j.source = 'paypal'"),
    $i->psql("select encode(convert_to('$event', 'UTF8'), 'escape')"),
    'the bytes that were signed');
$res = paypal($event);
is($res->{headers}{'interlock-decision'}, 'duplicate', 'a repeat is one');
is(jobs('paypal'), 1, 'one job');
is(fetched('/v1/notifications/certs/CERT-paypal-good'), 1,
    'the certificate was fetched once');

is_refused(paypal($event, sent => "$event "), 'another body');
is_refused(paypal($event, webhook => 'A' x 17), 'for another webhook');
is(paypal($event, at => time - 3500)->{status}, 202, 'sent again in the hour');
is_refused(paypal($event, at => time - 3700), 'sent a while ago',
    'timestamp-out-of-range');
# (nothing is fetched for these: it would be 503 with nobody there)
for ([ time - 6 * 365 * 86400, qr/too old/ ], [ time + 4000, qr/in the future/ ]) {
    my ($at, $why) = @$_;
    is_refused(paypal($event, at => $at, key => 'sns-good', url =>
        "https://localhost:$shut/v1/notifications/certs/CERT-$at"),
        "of another time ($at), by whomever", 'timestamp-out-of-range');
    reason($why, 'says the log');
}
is(paypal($event, url => "https://localhost:$shut/v1/notifications/certs/CERT-1")
    ->{status}, 503, 'for one of now it is');
is_refused(paypal($event, headers => { 'paypal-transmission-time' =>
    strftime('%Y-%m-%dT%H:%M:%S+00:00', gmtime) }), 'the time said otherwise');
is_refused(paypal($event, headers => { 'paypal-auth-algo' => $_ }),
    "algorithm $_") for 'SHA1withRSA', 'none', '';
is_refused(paypal($event, id => 'a|b'), 'an id that could be cut elsewhere');
is_refused(paypal($event, key => 'sns-good'), 'another key');
is_refused(paypal($event, cert => 'paypal-other', key => 'paypal-other'),
    'a certificate for somebody else');
reason(qr/another name/, 'says the log');
is_refused(paypal($event, url => $_), $_) for
    'https://api.paypal.com.example/v1/notifications/certs/CERT-1',
    'https://notpaypal.com/v1/notifications/certs/CERT-1',
    'http://api.paypal.com/v1/notifications/certs/CERT-1',
    'https://api.paypal.com:8443/v1/notifications/certs/CERT-1',
    'https://api.paypal.com/v1/notifications/certs/../../x',
    'https://api.paypal.com/v1/notifications/certs/',
    'https://api.paypal.com@127.0.0.1/v1/notifications/certs/CERT-1',
    'https://127.0.0.1/v1/notifications/certs/CERT-1',
    "http://localhost:$tls/v1/notifications/certs/CERT-paypal-good",
    "https://localhost:$tls/sns-good.pem", '';
is(jobs('paypal'), 1, 'still one job');
is(paypal('{"n":1}')->{status}, 400, 'signed, but without an id');


# --- SNS -----------------------------------------------------------------------

my $n = 0;
sub sns {
    my ($fields, %o) = @_;
    my $key = $o{key} // $o{cert} // 'sns-good';
    my $body = $pk->sns($key, { MessageId => 'm-' . ++$n, TopicArn => $topic,
        SigningCertURL => $o{url} // "https://localhost:$tls/"
            . ($o{cert} // 'sns-good') . '.pem', %$fields });
    $body = $o{change}->($body) if $o{change};
    return $i->http(POST => '/in/sns', { body => $body,
        headers => { 'content-type' => 'text/plain; charset=UTF-8',
            %{ $o{headers} // {} } } });
}

for my $version (1, 2) {
    $res = sns({ SignatureVersion => "$version", Subject => "caf\x{e9} \x{1f600}",
        Message => "line\nanother \"quoted\" \\ \x{2028}" });
    is($res->{status}, 202, "SNS: version $version") or diag($res->{body});
}
is(sns({ Subject => '' })->{status}, 202, 'an empty subject is signed');
is(sns({}, change => sub { $_[0] =~ s/\{/{"Subject":null,/r })->{status}, 202,
    'one that is null is not');
my $before = jobs('sns');
my $same = { MessageId => 'm-again' };
sns($same);
$res = sns($same);
is($res->{headers}{'interlock-decision'}, 'duplicate', 'a repeat is one');
is(jobs('sns'), $before + 1, 'one job');
is(fetched('/sns-good.pem'), 1, 'the certificate was fetched once');
is(sns({}, cert => $_)->{status}, 202, $_)
    for 'sns-cn', 'sns-chain', 'sns-asks';
is(fetched('/mid.pem'), 1, 'an intermediate was fetched where it is missing');

is_refused(sns({}, change => sub { $_[0] =~ s/Hello/Hallo/r }),
    'another message');
is_refused(sns({}, change => sub { $_[0] =~ s/"m-/"x-/r }), 'another id');
is_refused(sns({}, change => sub { $_[0] =~ s/\{/{"Subject":"x",/r }),
    'a subject put in');
is_refused(sns({}, change => sub { $_[0] =~ s/\{/{"Message":"x",/r }),
    'a message put before it');
is_refused(sns({}, change => sub { $_[0] =~ s/Version" : "1/Version" : "2/r }),
    'another version');
is_refused(sns({ SignatureVersion => '3' }), 'an unknown version');
is_refused(sns({ Type => 'Other' }), 'an unknown type');
is_refused(sns({ TopicArn => "${topic}2" }), 'another topic');
reason(qr/TopicArn/, 'says the log');
is_refused(sns({ Timestamp => '2012-05-02T00:54:06.655Z' }), 'of long ago',
    'timestamp-out-of-range');
is_refused(sns({ Timestamp => '2012-05-02T00:54:06.655Z' },
    url => "https://localhost:$tls/late.pem"), 'with another certificate',
    'timestamp-out-of-range');
is(fetched('/late.pem'), 0, 'which is not fetched');
is(sns({ Timestamp => strftime('%Y-%m-%dT%H:%M:%S.655Z', gmtime(time - 3500)) })
    ->{status}, 202, 'sent again within the hour');
is_refused(sns({ Signature => $_ }), "signature \"$_\"")
    for '', 'AAAA', 'x', encode_base64('x' x 256, ''),
        encode_base64('x' x 1025, '');
is_refused($i->http(POST => '/in/sns', { body => $_->[0], headers => {
    'x-amz-sns-message-type' => 'Notification',
    'x-amz-sns-message-id' => 'm-raw', 'x-amz-sns-topic-arn' => $topic,
    'x-amz-sns-rawdelivery' => 'true' } }), $_->[1])
    for [ 'Hello', 'raw delivery, which is not signed' ],
        [ '{"Message":"Hello"}', 'also as JSON' ], [ '', 'and nothing' ],
        [ '[]', 'no message' ], [ '{"Type":1}', 'a number for a type' ];
reason(qr/no string/, 'says the log');

is_refused(sns({}, cert => $_), $_) for 'sns-other', 'sns-expired',
    'sns-early', 'sns-weak', 'sns-bare';
$pk->_run('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', 30,
    '-subj', '/CN=sns.amazonaws.com', '-keyout', $pk->file('sns-self.key'),
    '-out', $pk->file('www/sns-self.pem'));
chmod 0644, "$www/sns-self.pem";
is_refused(sns({}, cert => 'sns-self'), 'a certificate that nobody signed');
reason(qr/not trusted/, 'says the log');
is_refused(sns({}, url => "https://localhost:$tls/$_.pem"), $_)
    for qw(junk nothing);
is_refused(sns({}, url => $_), $_) for
    'https://sns.us-east-1.amazonaws.com.example/a.pem',
    'https://sns-us-east-1.amazonaws.com/a.pem',
    'https://s3.us-east-1.amazonaws.com/a.pem',
    'https://sns.us-east-1.amazonaws.com/a.pem?x',
    'https://sns.us-east-1.amazonaws.com/a/b.pem',
    'https://sns.us-east-1.amazonaws.com/a.html',
    'https://x.sns.us-east-1.amazonaws.com/a.pem',
    'http://sns.us-east-1.amazonaws.com/a.pem',
    'https://[::1]/a.pem', 'ftp://localhost/a.pem', '';

# what cannot be told now is to be sent again
for (qw(moved large away)) {
    $res = sns({}, url => "https://localhost:$tls/$_.pem");
    is("$res->{status} " . ($res->{headers}{'retry-after'} // ''), '503 5',
        "$_: to be sent again");
}
is(sns({}, url => "https://localhost:$shut/a.pem")->{status}, 503,
    'nobody listens');
reason(qr/could not be fetched/, 'says the log');
my $begun = time;
is(sns({}, url => "https://localhost:$hung/a.pem")->{status}, 503,
    'nobody answers');
cmp_ok(time - $begun, '<', 8, 'for a few seconds only');

# a flood of forged ones: each is refused, few are fetched, those that are
# signed are served
my $wrong = 0;
my $fetches = fetched('/');
for my $k (1 .. 150) {
    $res = sns({ Signature => 'AAAA' },
        url => "https://localhost:$tls/f-" . $k % 100 . '.pem');
    $wrong++ if $res->{status} !~ /^(?:401|503)$/;
}
is($wrong, 0, 'forged, with a new address each');
is(sns({})->{status}, 202, 'a good one passes');
is(fetched('/sns-good.pem'), 1, 'its certificate was kept');

# many at once for one certificate that is not there yet
publish('sns-late.pem', $pk->text('sns-good.pem'));
my $body = $pk->sns('sns-good', { MessageId => 'm-late', TopicArn => $topic,
    SigningCertURL => "https://localhost:$tls/sns-late.pem" });
my @socks = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1',
    PeerPort => $i->port) or die $! } 1 .. 30;
print $_ "POST /in/sns HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    . 'Content-Length: ' . length($body) . "\r\n\r\n$body" for @socks;
my %codes;
for (@socks) {
    local $/;
    my $text = <$_>;
    $codes{ $text =~ m{^HTTP/1.1 (\d+)} ? $1 : '?' }++;
}
is_deeply(\%codes, { 202 => 30 }, 'thirty at once');
is(fetched('/sns-late.pem'), 1, 'wait for one fetch');
is($i->psql("select count(*) from interlock.jobs where work_key = 'sns:m-late'"),
    1, 'and are one job');


# --- subscriptions -------------------------------------------------------------

$before = jobs('sns');
sub subscribe {
    my ($token, %o) = @_;
    return sns({ Type => $o{type} // 'SubscriptionConfirmation',
        Token => $token, Message => 'You have chosen to subscribe …',
        SubscribeURL => $o{to} // "https://localhost:$tls/?Action="
            . "ConfirmSubscription&TopicArn=$topic&Token=$token", %{ $o{more} // {} } },
        %o);
}

$res = subscribe('t1');
is($res->{status}, 200, 'a subscription') or diag($res->{body});
is(fetched('/?Action=ConfirmSubscription'), 1, 'is confirmed');
is(subscribe('t1')->{status}, 200, 'once more');
is(subscribe('refused')->{status}, 503, 'one that is refused');
is_refused(subscribe('t2', more => { TopicArn => "${topic}2" }),
    'to a topic that is not ours');
is_refused(subscribe('t2', change => sub { $_[0] =~ s/t2/t3/gr }),
    'not signed');
is_refused(subscribe('t2', to => $_), "by $_") for
    'https://sns.us-east-1.amazonaws.com.example/?Action=ConfirmSubscription&x',
    "https://localhost:$tls/?Action=Unsubscribe&x",
    'http://169.254.169.254/?Action=ConfirmSubscription&x';
is(subscribe('t4', type => 'UnsubscribeConfirmation')->{status}, 200,
    'the end of a subscription');
is(scalar(grep { /Token=t[^1]/ } split /\n/,
    Interlock::Test::slurp("$dir/log/certs.log")), 0,
    'nothing else was confirmed');
is(jobs('sns'), $before, 'and none of it is a job');


# --- the rest --------------------------------------------------------------------

my $zone = $i->http(GET => '/edge/status')->{json}{zones}[0];
is("$zone->{in_flight}/$zone->{done}", '0/0',
    'the edge remembers nothing of all that');

my $m = $i->metrics;
cmp_ok($m->{'interlock_signatures_total{scheme="sns",outcome="valid"}'} // 0,
    '>', 30, 'what was found is counted');
is($m->{'interlock_certificate_fetches_total{scheme="sns",outcome="confirmed"}'},
    2, 'and what was confirmed');

# what is under way when interlockd is told to end
$hang->blocking(0);
1 while $hang->accept;
$hang->blocking(1);
my $pid = fork() // die "fork: $!";
if (!$pid) {
    my $r = sns({}, url => "https://localhost:$hung/b.pem");
    POSIX::_exit($r->{status} == 503 ? 0 : 1);
}
my $caller = $hang->accept;
$begun = time;
$i->kill_backend('TERM');
cmp_ok(time - $begun, '<', 6, 'interlockd ends without waiting for the network');
waitpid($pid, 0);
is($?, 0, 'and says that it is to be sent again');
is(sns({})->{status}, 202, 'the next one fetches anew');
is(fetched('/sns-good.pem'), 2, 'as often as it has to');

$i->check_sql;
done_testing();
