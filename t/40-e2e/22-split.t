#!/usr/bin/perl

# Bodies with several events, as HubSpot, Adyen and Meta send them, through
# nginx, interlockd and PostgreSQL: each event is a request of its own, and the
# body is acknowledged only when all of them are stored; also when interlockd
# is killed in the middle, and when the same body comes several times at once.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Digest::SHA qw(hmac_sha256 hmac_sha256_hex);
use JSON::PP;
use MIME::Base64 qw(encode_base64);
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

use Interlock::Test;

# small batches, so that a body is many transactions
my $i = Interlock::Test->instance(conf => 'batch_max = 10',
    nginx_http => 'interlock_json $many_id /id; interlock_json $many_kind /k;'
        . 'map $many_kind $many_of { default free; bad nosuch; }',
    nginx_server => <<"END");
location = /in/many {
    interlock zone=interlock;
    interlock_tenant demo;
    interlock_source many;
    interlock_kind \$many_of;
    interlock_verify hmac secret=secrets/hmac header=X-Sig;
    interlock_mismatch reject;
    interlock_split /events;
    interlock_idempotency_key \$many_id;
    interlock_work_key many \$many_id;
    fastcgi_pass interlockd;
}
END
my $json = JSON::PP->new->canonical;

sub jobs {
    my ($source) = @_;
    return $i->psql('select count(*) from interlock.jobs'
        . " where source = '$source'");
}

sub payloads {
    my ($source) = @_;
    return [ split /\n/, $i->psql("select encode(p.payload, 'hex')"
        . ' from interlock.payloads p join interlock.jobs j on j.id = p.job_id'
        . " where j.source = '$source' order by p.payload") ];
}

sub decisions {
    my ($res) = @_;
    return join ' ', map { !$_->{decision} ? $_->{status} : $_->{replayed}
        ? 'again' : $_->{decision} } @{ $res->{json}{items} // [] };
}


# --- HubSpot -------------------------------------------------------------------

sub hubspot {
    my ($body) = @_;
    my $at = int(time * 1000);
    return $i->http(POST => '/in/hubspot', { body => $body, headers => {
        'content-type' => 'application/json',
        'x-hubspot-request-timestamp' => $at,
        'x-hubspot-signature-v3' => encode_base64(hmac_sha256('POST'
            . $i->url . "/in/hubspot$body$at", $i->secret('hubspot')), '') } });
}

sub hubspot_event {
    my ($id, $attempt) = @_;
    return $json->encode({ eventId => $id, subscriptionId => 12,
        portalId => 33, occurredAt => 1_700_000_000_123,
        subscriptionType => 'contact.creation', attemptNumber => $attempt,
        objectId => 123 });
}

my @events = map { hubspot_event($_, 0) } 1, 2;
my $res = hubspot('[' . join(",\n ", @events) . ']');
is($res->{status}, 202, 'HubSpot: two events');
is(decisions($res), 'accepted accepted', 'both accepted');
is_deeply(payloads('hubspot'), [ map { unpack 'H*', $_ } @events ],
    'each stored as its own bytes');

$res = hubspot('[' . join(',', hubspot_event(2, 1), hubspot_event(3, 0),
    hubspot_event(1, 1)) . ']');
is($res->{status}, 202, 'a retry with a new one');
is(decisions($res), 'again accepted again', 'only that is new');
is(jobs('hubspot'), 3, 'three jobs');
is($i->psql('select count(*) from interlock.requests'
    . " where source = 'hubspot' and decision = 'duplicate'"), 2,
    'the repeats are on record');

$res = hubspot('[' . join(',', hubspot_event(4, 0),
    '{"eventId":5,"subscriptionId":12}', hubspot_event(6, 0)) . ']');
is($res->{status}, 400, 'one without its time');
is(decisions($res), 'accepted 400 accepted', 'the others are stored');
is($res->{headers}{'content-type'}, 'application/problem+json', 'a problem');
is(jobs('hubspot'), 5, 'five jobs');
$res = hubspot('[' . join(',', hubspot_event(4, 1), hubspot_event(5, 1),
    hubspot_event(6, 1)) . ']');
is("$res->{status} " . decisions($res), '202 again accepted again',
    'the same mended');

my $forged = $i->http(POST => '/in/hubspot', { body => "[$events[0]]",
    headers => { 'x-hubspot-request-timestamp' => int(time * 1000),
        'x-hubspot-signature-v3' => encode_base64('x' x 32, '') } });
is($forged->{status}, 401, 'forged');


$res = hubspot('[]');
is("$res->{status} $res->{body}", '200 {"items":[]}', 'no event at all');
$res = hubspot('[{},7]');
is("$res->{status} " . decisions($res), '400 400 400', 'none with a key');
$res = hubspot('{}');
is($res->{status}, 400, 'no list');


# --- SendGrid, whose signature interlockd verifies -----------------------------

sub sendgrid {
    my ($body, $signed) = @_;
    my $at = time =~ s/\..*//r;
    return $i->http(POST => '/in/sendgrid', { body => $body, headers => {
        'x-twilio-email-event-webhook-timestamp' => $at,
        'x-twilio-email-event-webhook-signature' =>
            $i->sign_sendgrid($signed // $body, $at) } });
}

my @sent = map { qq({"email":"a\@example.com","sg_event_id":"sg-$_"}) } 1 .. 3;
$res = sendgrid("[$sent[0],\r\n$sent[1]]\r\n");
is("$res->{status} " . decisions($res), '202 accepted accepted',
    'SendGrid: two events');
is_deeply(payloads('sendgrid'), [ map { unpack 'H*', $_ } @sent[ 0, 1 ] ],
    'each stored as its own bytes');
$res = sendgrid("[$sent[2],$sent[1]]");
is("$res->{status} " . decisions($res), '202 accepted again',
    'one again with another');
is(sendgrid("[$sent[0]]", "[$sent[1]]")->{status}, 401, 'a bad signature');
$res = sendgrid("[$sent[0],{}]");
is("$res->{status} " . decisions($res), '400 again 400', 'one without an id');
is(sendgrid('{"sg_event_id":"sg-9"}')->{status}, 400, 'signed, but no list');
is(sendgrid('{"sg_event_id":"sg-9"}', 'x')->{status}, 401, 'neither');
is(jobs('sendgrid'), 3, 'three jobs');


# --- Adyen, Meta -------------------------------------------------------------------

sub adyen_item {
    my ($ref, $code) = @_;
    return { NotificationRequestItem => { pspReference => $ref,
        merchantAccountCode => 'Merchant', merchantReference => "Order-$ref",
        amount => { value => 1130, currency => 'EUR' }, eventCode => $code,
        success => 'true', additionalData => { hmacSignature =>
            encode_base64(hmac_sha256("$ref" . ':' . ":Merchant:Order-$ref"
                . ":1130:EUR:$code:true", pack 'H*', $i->secret('adyen')),
            '') } } };
}

sub adyen {
    return $i->http(POST => '/in/adyen', { body => { live => 'false',
        notificationItems => [@_] } });
}

$res = adyen(adyen_item('a1', 'AUTHORISATION'), adyen_item('a2', 'CAPTURE'));
is("$res->{status} $res->{body}", '200 [accepted]',
    'Adyen: two items, in its own words');
is($i->psql("select string_agg(work_key, ' ' order by work_key)"
    . " from interlock.jobs where source = 'adyen'"),
    'adyen:a1:AUTHORISATION adyen:a2:CAPTURE', 'each its own work');
$res = adyen(adyen_item('a2', 'CAPTURE'), adyen_item('a1', 'REFUND'));
is("$res->{status} $res->{body}", '200 [accepted]',
    'an item again, and another event of that payment');
is(jobs('adyen'), 3, 'three jobs');
my $one_bad = adyen_item('a5', 'REFUND');
$one_bad->{NotificationRequestItem}{amount}{value}++;
is(adyen(adyen_item('a4', 'REFUND'), $one_bad)->{status}, 401,
    'one with a bad signature');
is(jobs('adyen'), 3, 'then nothing is stored');

sub meta {
    my ($body) = @_;
    return $i->http(POST => '/in/meta', { body => $body, headers => {
        'x-hub-signature-256' => 'sha256=' . hmac_sha256_hex($body,
            $i->secret('meta')) } });
}

my @entries = map { qq({"id":"$_","time":17,"changes":[{"field":"\\u00e9"}]}) }
    1 .. 3;
is(meta(qq({"object":"page","entry":[$entries[0],$entries[1]]}))->{status},
    200, 'Meta: two entries');
is(meta(qq({"object":"page","entry":[$entries[2], $entries[1]]}))->{status},
    200, 'one again with another');
is_deeply(payloads('meta'), [ map { unpack 'H*', $_ } @entries ],
    'each stored once');


# --- what interlockd refuses -----------------------------------------------------

sub many {
    my (@events) = @_;
    my $body = '{"n":1, "events":[' . join(', ', @events) . ']}';
    return ($body, { 'x-sig' => hmac_sha256_hex($body, $i->secret('hmac')) });
}

sub post_many {
    my ($body, $h) = many(@_);
    return $i->http(POST => '/in/many', { body => $body, headers => $h,
        timeout => 60 });
}

$res = post_many('{"id":"k1"}', '{"id":"k2","k":"bad"}', '{"id":"k3"}');
is("$res->{status} " . decisions($res), '404 accepted 404 accepted',
    'an unknown kind of one: the whole is refused, the others stored');
$res = post_many('{"id":"k1","n":2}', '{"id":"k4"}');
is("$res->{status} " . decisions($res), '422 rejected accepted',
    'other content under a key, which this location rejects');
is($i->http(PUT => '/v1/kinds/nosuch', { token => 'operator',
    body => { overlap => 'allow' } })->{status}, 200, 'now there is that kind');
$res = post_many('{"id":"k1"}', '{"id":"k2","k":"bad"}', '{"id":"k3"}');
is("$res->{status} " . decisions($res), '202 again accepted again',
    'and the same body is taken');

is($i->http(POST => '/v1/sources/many/pause', { token => 'operator', body =>
    { requested_by => 'kim', reason => 'a test' } })->{status}, 200, 'a pause');
$res = post_many(map { qq({"id":"p$_"}) } 1 .. 20);
is($res->{status}, 503, 'a source that is paused');
ok($res->{headers}{'retry-after'}, 'with Retry-After');
is($i->http(POST => '/v1/sources/many/resume', { token => 'operator', body =>
    { requested_by => 'kim', reason => 'a test' } })->{status}, 200, 'resumed');
is($i->psql("select count(*) from interlock.jobs where work_key like 'many:p%'"),
    0, 'nothing was stored of it');
is(post_many(map { qq({"id":"p$_"}) } 1 .. 20)->{status}, 202, 'again: taken');


# --- the same several times at once -----------------------------------------------

sub in_background {
    my ($body, $h) = @_;
    pipe my $read, my $write or die "pipe: $!";
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        my $r = $i->http(POST => '/in/many', { body => $body, headers => $h,
            timeout => 60 });
        print $write $json->encode({ status => $r->{status} + 0,
            json => $r->{json} });
        close $write;
        POSIX::_exit(0);
    }
    close $write;
    return sub {
        my $text = do { local $/; <$read> };
        waitpid $pid, 0;
        return decode_json($text);
    };
}

my $before = jobs('many');
my ($body, $h) = many(map { qq({"id":"s$_"}) } 1 .. 200);
my @answers = map { $_->() } map { in_background($body, $h) } 1 .. 4;
is(join(' ', map { $_->{status} } @answers), '202 202 202 202',
    'the same body four times at once');
is(jobs('many') - $before, 200, 'each event is one job');
my %new;
for my $a (@answers) {
    $new{ $_->{job_id} } += $_->{replayed} ? 0 : 1 for @{ $a->{json}{items} };
}
is(scalar keys %new, 200, 'all answers name the same jobs');
is(scalar(grep { $_ != 1 } values %new), 0, 'and one of them made each');


# --- killed in the middle -----------------------------------------------------------

my ($cut, $round) = (0, 0);
while (!$cut && ++$round <= 8) {
    my $is = "'many:c$round-%'";
    my $stored = sub { $i->psql('select count(*) from interlock.jobs'
        . " where work_key like $is") };
    ($body, $h) = many(map { qq({"id":"c$round-$_"}) } 1 .. 1000);

    my $answer = in_background($body, $h);
    $i->wait_for(sub { $stored->() > 0 }, 30, 'the first of them');
    $i->kill_backend('KILL');
    my $first = $answer->();
    my $there = $stored->();
    next if $first->{status} == 202 || $there == 1000;

    $cut = 1;
    is($first->{status}, 503, "killed when $there of 1000 were stored: 503");
    my $again = in_background($body, $h)->();
    is($again->{status}, 202, 'sent again: taken');
    is($stored->(), 1000, 'each is stored once');
    is(scalar(grep { $_->{replayed} } @{ $again->{json}{items} }), $there,
        'those that were there are repeats');
    is($i->psql('select count(distinct work_key) from interlock.jobs'
        . " where work_key like $is"), 1000, 'none is missing');
}
ok($cut, 'a body was cut in the middle');

$i->check_sql;

done_testing();
