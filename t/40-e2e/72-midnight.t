#!/usr/bin/perl

# Midnight in Seoul, on clocks that run there (libfaketime): the slot that
# sums up the day that has just ended, and requests of a moment later, are of
# the day that they speak of, not of the day on which they came.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(sleep time);

use Interlock::Session;
use Interlock::Test;

my ($library) = glob '/usr/lib/*/faketime/libfaketimeMT.so.1';
plan skip_all => 'no libfaketime (Debian package faketime)'
    unless $library;

# Seoul has been nine hours ahead since 1988.
my $seoul = 9 * 3600;
my $midnight = (int((time + $seoul) / 86400) + 1) * 86400 - $seoul;
my $day = strftime('%Y-%m-%d', gmtime $midnight + $seoul - 1);
my $next = strftime('%Y-%m-%d', gmtime $midnight + $seoul);

# interlockd's and PostgreSQL's clock follow a file; the monotonic ones stay.
my $tmp = tempdir('interlock-midnight-XXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $tmp;
my $clock = "$tmp/clock";
my $build = $ENV{INTERLOCK_BUILD} // "$Interlock::Test::TOP/build";
my $bin = $ENV{INTERLOCK_PG_BINDIR} // '/usr/lib/postgresql/15/bin';

sub shift_clock {
    my ($by) = @_;

    Interlock::Test::spew("$clock.new", sprintf "%+d\n", $by);
    chmod 0644, "$clock.new";
    rename "$clock.new", $clock or die "$clock: $!";
}

sub program {
    my ($name, $real) = @_;

    my $path = "$tmp/$name";
    Interlock::Test::spew($path, <<END);
#!/bin/sh
FAKETIME_TIMESTAMP_FILE='$clock' FAKETIME_NO_CACHE=1 \\
FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 \\
LD_PRELOAD='$library' exec '$real' "\$@"
END
    chmod 0755, $path;
    return $path;
}

shift_clock(0);
symlink "$bin/$_", "$tmp/$_" or die "$_: $!"
    for grep { $_ ne 'postgres' } map { m{([^/]+)$} } glob "$bin/*";
program(postgres => "$bin/postgres");

my $i = Interlock::Test->instance(env => { INTERLOCK_PG_BINDIR => $tmp,
    INTERLOCKD => program(interlockd => abs_path("$build/interlockd")) });
my $db = Interlock::Session->new($i->dsn('admin'));

sub one { return ($db->do($_[0]))[0][0] }
sub since { return one("select extract(epoch from clock_timestamp()) - "
    . $midnight) }

my $put = $i->http(PUT => '/v1/schedules/closing', { token => 'operator',
    headers => { 'content-type' => 'application/json' }, body => '{"cron":'
    . '"0 0 * * *","zone":"Asia/Seoul","kind":"daily-sales","subjects":'
    . '["acme"],"work_key":"org:{subject}:daily-sales:{date}","payload":'
    . '{"day":"{date}"},"date_offset":-1}' });
is($put->{status}, 200, 'a schedule of midnight') or diag($put->{body});
is($put->{json}{next_at}, strftime('%Y-%m-%dT%H:%M:%S.000Z', gmtime
    $midnight), 'which is 15:00 elsewhere');

# A few seconds before it, wherever the real clock is.
shift_clock($midnight - 4 - int time);
$i->wait_for(sub { abs(since()) < 30 }, 10, 'the clock to be there');
cmp_ok(since(), '<', 0, 'the day is not over yet');
is(one('select count(*) from interlock.slots'), 0, 'no slot yet');

my ($slot) = $i->wait_for(sub {
    ($db->do('select slot_at = to_timestamp(' . $midnight . '),'
        . ' business_date, state, work_key, job_id,'
        . ' created_at - slot_at < interval \'1 second\''
        . ' from interlock.slots'))[0];
}, 20, 'the slot');
is($slot->[0], 't', 'it fires at midnight');
is($slot->[5], 't', 'within a second');
is($slot->[1], $day, 'for the day that has ended');
is($slot->[3], "org:acme:daily-sales:$day", 'under its key');

# Whoever asks by the time of what happened gets the work of that day.
$i->wait_for(sub { since() >= 5 }, 20, 'five seconds past midnight');

sub ask {
    my ($event) = @_;

    my $date = strftime('%Y-%m-%d', gmtime $event + $seoul);
    return $i->http(POST => '/v1/jobs', { token => 'submit', headers =>
        { 'content-type' => 'application/json' }, body =>
        qq({"kind":"daily-sales","work_key":"org:acme:daily-sales:$date",)
        . qq("payload":{"day":"$date"}}) });
}

my $late = ask($midnight - 2);
is($late->{json}{decision}, 'skipped', 'a sale of 23:59:58, told at 00:00:05')
    or diag($late->{body});
is($late->{json}{reason}, 'same_work', 'is of the slot\'s work');
is($late->{json}{job_id}, $slot->[4], 'and gets its job');
my $new = ask($midnight + 2);
is($new->{json}{decision}, 'accepted', 'one of 00:00:02 is of the next day');
is($new->{json}{work_key}, "org:acme:daily-sales:$next", 'by its key');
isnt($new->{json}{job_id}, $slot->[4], 'as a job of its own');

# Running that date by hand is the same work, too.
my $run = $i->http(POST => '/v1/schedules/closing/run', { token => 'operator',
    body => { date => $day, requested_by => 'dana', reason => 'to be sure' }
    });
is($run->{json}{admitted}, 0, 'the day is under way')
    or diag($run->{body});
is($run->{json}{skipped}[0]{job_id}, $slot->[4], 'by the slot\'s job');
is($run->{json}{skipped}[0]{business_date}, $day, 'and is called that day');

my $slots = $i->http(GET => "/v1/schedules/closing/slots?from=$day&to=$day",
    { token => 'submit' })->{json}{items};
is(scalar @$slots, 1, 'one slot of the day that has ended');
is($i->http(GET => "/v1/schedules/closing/slots?from=$next", { token =>
    'submit' })->{json}{items}[0], undef, 'and none of the next');

$i->check_sql;

done_testing();
