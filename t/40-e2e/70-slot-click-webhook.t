#!/usr/bin/perl

# A slot, a click and a late signed webhook, for one organisation and date,
# right behind each other in each of the six orders: one run at a time, at
# most one waiting, one mail at the SMTP server.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use JSON::PP ();
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Session;
use Interlock::Test;

my $TOP = $Interlock::Test::TOP;
my $dir = tempdir('interlock-slots-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $home = tempdir('interlock-test-XXXXXX', TMPDIR => 1);

# A source of sales, signed, whose work is the day that the event speaks of.
my $i = Interlock::Test->instance(dir => $home, nginx_http => <<'END',
    interlock_json $sales_org /org;
    interlock_json $sales_date /date;
END
    nginx_server => <<"END");
        location = /in/sales {
            interlock zone=interlock;
            interlock_tenant demo;
            interlock_source sales;
            interlock_kind daily-sales;
            interlock_verify github "secret=$home/secrets/github";
            interlock_idempotency_key \$http_x_github_delivery required;
            interlock_work_key org \$sales_org daily-sales \$sales_date;
            fastcgi_ignore_client_abort on;
            fastcgi_read_timeout 20s;
            fastcgi_pass interlockd;
        }
END

my $smtp = fork() // die $!;
if (!$smtp) {
    exec "$TOP/t/lib/smtp-server", $dir or POSIX::_exit(127);
}
END { local $?; kill 'KILL', $smtp if $smtp }
$i->wait_for(sub { -e "$dir/port" }, 20, 'the SMTP server (python3-aiosmtpd)');
my $port = Interlock::Test::slurp("$dir/port");

sub op {
    my ($method, $path, $body) = @_;

    return $i->http($method, $path, { token => 'operator', body => $body,
        headers => { 'content-type' => 'application/json' } });
}

is(op(PUT => '/v1/effect-kinds/mail', '{"idempotent":false,"send_deadline":5,'
    . '"lookup":{"type":"none"}}')->{status}, 200, 'mail is an effect');
is(op(PUT => '/v1/kinds/daily-sales', '{"delivery_effects":["mail"]}')
    ->{status}, 200, 'and delivers the sales of a day');


# --- six schedules of one slot each, at the same minute ----------------------

my %order = (acme => 'slot click webhook', birch => 'slot webhook click',
    cedar => 'click slot webhook', dogwood => 'click webhook slot',
    elm => 'webhook slot click', fir => 'webhook click slot');
my @orgs = sort keys %order;

my $db = Interlock::Session->new($i->dsn('admin'));
sub now { ($db->do('select extract(epoch from clock_timestamp())'))[0][0] }

my $at = (int(now() / 60) + 1) * 60;
$at += 60 if $at - now() < 5;
my $date = strftime('%Y-%m-%d', gmtime($at + 9 * 3600));   # in Seoul
my %key = map { $_ => "org:$_:daily-sales:$date" } @orgs;
my %held;

for my $org (@orgs) {
    my $put = op(PUT => "/v1/schedules/sales-$org", sprintf
        '{"cron":"* * * * *","zone":"Asia/Seoul","kind":"daily-sales",'
        . '"work_key":"org:{subject}:daily-sales:{date}","subjects":["%s"],'
        . '"payload":{"org":"{subject}","date":"{date}"},'
        . '"start":"%s","end":"%s"}', $org, map {
            strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $_) } $at, $at + 1);
    is($put->{status}, 200, "a schedule for $org") or diag($put->{body});
    is($put->{json}{next_at}, strftime('%Y-%m-%dT%H:%M:%S.000Z', gmtime $at),
        'of one slot');

    # Nobody fires it but when this lets go of it.
    $held{$org} = Interlock::Session->new($i->dsn('admin'));
    $held{$org}->do('begin');
    $held{$org}->do("select 1 from interlock.schedules where name = "
        . "'sales-$org' for no key update");
}


# --- two workers, which hold what they claim until they are told -------------

sub post {
    my ($path, $token, $body) = @_;

    return $i->http(POST => $path, { body => $body,
        headers => { authorization => "Bearer $token" } });
}

sub send_mail {
    my ($org) = @_;

    open my $curl, '|-', 'curl', '-sS', '--url', "smtp://127.0.0.1:$port",
        '--mail-from', 'shop@example.com', '--mail-rcpt', "$org\@example.com",
        '--upload-file', '-' or die $!;
    print $curl "Subject: $org $date\r\n\r\nYour sales.\r\n";
    close $curl or die "curl: $?\n";
}

sub settle {
    my ($lease) = @_;

    my $token = $lease->{owner_token};
    my ($org) = $lease->{work_key} =~ /^org:(\w+)/;
    my $begun = post('/v1/effects', $token, { name => 'mail', kind => 'mail',
        target => "$org\@example.com" })->{json};
    if ($begun->{decision} eq 'send') {
        send_mail($org);
        post("/v1/effects/$begun->{effect_id}/outcome", $token,
            { send_id => $begun->{send_id}, state => 'confirmed' });
    }
    my $done = post('/v1/lease/complete', $token, { result => { mail =>
        $begun->{decision} }, counts => { processed => 1, failed => 0 } });
    die "complete: $done->{body}\n" if $done->{status} != 200;
}

my @workers;
for my $w (1, 2) {
    my $pid = fork() // die $!;
    if (!$pid) {
        my @leases;
        eval {
            until (-e "$dir/stop") {
                my $got = $i->http(POST => '/v1/leases', { token => 'worker',
                    body => { worker => "w$w", kinds => ['daily-sales'],
                        max => 10, wait => 1 } })->{json}{leases};
                push @leases, @$got;
                next unless -e "$dir/go";
                settle($_) for @leases;
                @leases = ();
            }
            1;
        } or print STDERR "worker: $@";
        POSIX::_exit($@ ? 1 : 0);
    }
    push @workers, $pid;
}
END { local $?; kill 'KILL', $_ for @workers }


# --- the six orders ----------------------------------------------------------

my %step = (
    slot => sub {
        my ($org) = @_;

        $held{$org}->do('rollback');
        my $end = time + 10;
        until ($db->do("select 1 from interlock.slots where schedule = "
            . "'sales-$org'"))
        {
            $db->do('select * from interlock.schedule_scan(100)');
            die "no slot for $org\n" if time > $end;
        }
        return 'slot';
    },
    click => sub {
        my ($org) = @_;

        return $i->http(POST => '/v1/jobs', { token => 'submit', headers =>
            { 'idempotency-key' => "click-$org" }, body =>
            qq({"kind":"daily-sales","work_key":"$key{$org}","payload":)
            . qq({"org":"$org","date":"$date"},"requested_by":"$org"}) });
    },
    webhook => sub {
        my ($org) = @_;

        my $body = qq({"org":"$org","date":"$date","late":true});
        return $i->http(POST => '/in/sales', { body => $body, headers => {
            'content-type' => 'application/json',
            'x-github-delivery' => "event-$org",
            'x-hub-signature-256' => $i->sign_github($body) } });
    },
);

$i->wait_for(sub { now() >= $at }, 130, 'the slots to be due');
is($i->psql('select count(*) from interlock.slots'), 0,
    'none has fired that is held');

my %spread;
for my $org (@orgs) {
    my $start = time;
    my @answers = map { [ $_ => $step{$_}->($org) ] } split ' ', $order{$org};
    $spread{$org} = 1000 * (time - $start);
    for (@answers) {
        my ($what, $answer) = @$_;
        next unless ref $answer;
        like($answer->{status}, qr/^20[02]$/, "$org: the $what is taken")
            or diag($answer->{body});
    }
    cmp_ok($spread{$org}, '<', 1000, sprintf '%s (%s): within %.0f ms', $org,
        $order{$org}, $spread{$org});
}

for my $org (@orgs) {
    my ($state) = map { $_->[0] } $db->do("select string_agg(source || ' '"
        . " || decision, ', ' order by r.arrived_at) from interlock.requests r"
        . " where work_key = '$key{$org}'");
    note("$org: $state");

    my @sources = $state =~ /(schedule|api|sales) /g;
    my %name = (schedule => 'slot', api => 'click', sales => 'webhook');
    is(join(' ', map { $name{$_} } @sources), $order{$org},
        "$org: came in this order");

    my $work = $i->wait_for(sub {
        my $w = $i->http(GET => "/v1/works/$key{$org}", { token => 'auditor' })
            ->{json};
        ($w->{active}[0]{status} // '') eq 'running' && $w;
    }, 20, "$org to run");
    is(scalar @{ $work->{active} }, 1, 'one runs');
    cmp_ok(scalar @{ $work->{waiting} }, '<=', 1, 'at most one waits');
    is(($db->do("select count(*) from interlock.leases where work_key = "
        . "'$key{$org}'"))[0][0], 1, 'one owner');
}


# --- and what comes of them ---------------------------------------------------

Interlock::Test::spew("$dir/go", '');
$i->wait_for(sub {
    ($db->do("select count(*) from interlock.jobs where status in ('queued',"
        . " 'running', 'checking', 'held', 'parked')"))[0][0] == 0;
}, 60, 'all to end');
Interlock::Test::spew("$dir/stop", '');
for (splice @workers) {
    waitpid($_, 0);
    is($?, 0, 'a worker ends well');
}

my %mails;
$mails{ $_->{subject} }++ for map { JSON::PP::decode_json($_) }
    split /\n/, Interlock::Test::slurp("$dir/mails") // '';

for my $org (@orgs) {
    is($mails{"$org $date"}, 1, "$org: one mail");
    is(($db->do("select count(*) from interlock.jobs where work_key = "
        . "'$key{$org}' and status not in ('succeeded', 'superseded')"))
        [0][0], 0, 'every job is done, or has its successor');

    my $slot = $i->wait_for(sub {
        my $items = $i->http(GET => "/v1/schedules/sales-$org/slots?from=$date"
            . "&to=$date", { token => 'submit' })->{json}{items};
        ($items->[0]{state} // '') eq 'run' && $items->[0];
    }, 30, "the slot of $org to be seen as run");
    is($slot->{business_date}, $date, 'its slot is of that date');
    ok($slot->{generated}, 'generated');
    ok($slot->{delivered}, 'and delivered');
    is($slot->{processed}, 1, 'with what was counted');
}
is(scalar keys %mails, 6, 'and no other mail');

$i->check_sql;

done_testing();
