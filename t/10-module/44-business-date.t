# interlock_business_date: the date on the wall, of the time that a request
# names or at which it came.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use POSIX qw(strftime tzset);
use Test::More;

my @zones = qw(UTC Asia/Seoul America/New_York Europe/Berlin Asia/Kathmandu
    Australia/Lord_Howe Pacific/Apia Pacific/Kiritimati Pacific/Pago_Pago
    America/Sao_Paulo Africa/Casablanca Asia/Tehran America/St_Johns
    Antarctica/Troll Africa/Monrovia Europe/Dublin Asia/Gaza America/Nuuk
    Etc/GMT+12);

my $pass = 'interlock zone=z; fastcgi_pass backend;';
my $id = 'interlock_idempotency_key $http_x_id;';
my $seoul = 'interlock_business_date $day Asia/Seoul';

my $server = <<"END";
        interlock_tenant demo;
        interlock_source s;
        interlock_kind k;
        interlock_json \$at /at;
        interlock_form \$sent sent;
        $seoul from=\$at;
        location /json { $pass $id interlock_work_key d \$day; }
        location /form { $seoul from=\$sent;
            $pass $id interlock_work_key d \$day; }
        location /header { $seoul from=\$http_x_time;
            $pass $id interlock_work_key d \$day; }
        location /cutoff { $seoul from=\$at cutoff=06:30;
            $pass $id interlock_work_key d \$day; }
        location /mixed { $seoul from=2026-07-\${arg_d}T15:00:00Z;
            $pass $id interlock_work_key d \$day; }
        location /id { $pass interlock_idempotency_key \$day; }
        location /body { $pass interlock_idempotency_key \$day body; }
        location /early { set \$early "\$day"; $pass $id
            interlock_work_key d \$day; }
        location /now { $pass $id
            interlock_business_date \$east Pacific/Kiritimati;
            interlock_business_date \$west Pacific/Pago_Pago;
            interlock_work_key n \$east \$west; }
        location /plain { interlock_business_date \$plain Asia/Seoul
                from=\$arg_t;
            return 200 "\$plain"; }
        location = /status { interlock_status; }
END

for my $i (0 .. $#zones) {
    $server .= "location /z$i { interlock_business_date \$z$i $zones[$i] "
        . "from=\$arg_t cutoff=03:00; return 200 \"\$z$i\"; }\n";
}

my $t = Interlock::Nginx->new(http => 'interlock_zone zone=z:1m;',
    server => $server);
$t->start;

my $n = 0;

sub post {
    my ($path, $body, @h) = @_;
    return $t->http(POST => $path, { body => $body,
        headers => [ 'X-Id' => 'i' . $n++, @h ] });
}

sub day {
    my ($name, $want, $path, $body, @h) = @_;
    is(post($path, $body, @h)->{status}, 202, "$name: accepted");
    is(($t->seen)[-1]{params}{INTERLOCK_WORK_KEY}, "d:$want", "$name: $want");
}

sub bad {
    my ($name, $problem, $path, $body, @h) = @_;
    my $before = $t->seen;
    my $res = post($path, $body, @h);
    is($res->{status}, 400, "$name: 400");
    is(Interlock::Nginx::problem($res), $problem, "$name: $problem");
    like($res->{json}{detail}, qr/time that \$day is of/,
        "$name: names the variable") if $problem eq 'date-invalid';
    is(scalar $t->seen, $before, "$name: nothing at the backend");
}

# RFC 3339, seconds, milliseconds
day('RFC 3339', '2026-07-25', '/json', '{"at":"2026-07-25T14:59:59Z"}');
day('a second later', '2026-07-26', '/json', '{"at":"2026-07-25T15:00:00Z"}');
day('an offset', '2026-07-26', '/json', '{"at":"2026-07-25T23:00:00+01:00"}');
day('a fraction', '2026-07-25', '/json', '{"at":"2026-07-25T14:59:59.999Z"}');
day('seconds', '2026-07-26', '/json', '{"at":1785000000}');
day('seconds as a text', '2026-07-26', '/json', '{"at":"1785000000"}');
day('milliseconds', '2026-07-26', '/json', '{"at":1785000000123}');
day('the beginning', '1970-01-01', '/json', '{"at":0}');
day('before it', '1969-12-31', '/json', '{"at":"1969-12-31T14:59:59.5Z"}');
day('a form', '2026-07-26', '/form', 'sent=2026-07-25T15%3A00%3A00Z');
day('a header', '2026-07-26', '/header', '', 'X-Time' => 1785000000);
day('a value of several parts', '2026-07-27', '/mixed?d=26', '');
day('asked too early', '2026-07-26', '/early', '{"at":1785000000}');
day('before the cutoff', '2026-07-25', '/cutoff',
    '{"at":"2026-07-26T06:29:59.999+09:00"}');
day('at the cutoff', '2026-07-26', '/cutoff',
    '{"at":"2026-07-26T06:30:00+09:00"}');
day('over the end of a year', '2025-12-31', '/cutoff',
    '{"at":"2026-01-01T01:00:00+09:00"}');

# what cannot be read is never taken as now
bad("\"$_\"", 'date-invalid', '/json', "{\"at\":\"$_\"}")
    for '', 'x', '2026-07-25', '2026-07-25 14:59:59Z', '2026-02-29T00:00:00Z',
        '2026-07-25T24:00:00Z', '2026-07-25T14:59:59', '-1', '1785000000.5',
        ' 1785000000', '0x6a64ef00', '253402300800000',
        '9999999999999999999';
bad('1e9', 'date-invalid', '/json', '{"at":1e9}');
bad('null', 'date-invalid', '/json', '{"at":null}');
bad('nothing', 'date-invalid', '/json', '{}');
bad('no form', 'date-invalid', '/form', '');
bad('no header', 'date-invalid', '/header', '');
bad('in an id', 'date-invalid', '/id', '{"at":"x"}');
bad('in an id with body', 'date-invalid', '/body', '{"at":"x"}');
bad('a part of it', 'date-invalid', '/mixed?d=32', '');
bad('beyond the calendar there', 'date-invalid', '/json',
    '{"at":"9999-12-31T23:00:00Z"}');
bad('not JSON', 'json-invalid', '/json', '{"at":');
bad('a form with the field twice', 'form-invalid', '/form', 'sent=1&sent=1');

like($t->error_log, qr/interlock: date-invalid: the time that \$day is of/,
    'the log says why');

# a repeat, and the same with a time of another day
my $first = post('/id', '{"at":1785000000}');
is(post('/id', '{"at":1785000000}')->{body}, $first->{body}, 'a repeat');
isnt(post('/id', '{"at":1785086400}')->{body}, $first->{body}, 'another day');

# now; these two never have the same date
sub wall {
    local $ENV{TZ} = $_[0];
    tzset();
    return strftime('%Y-%m-%d', localtime $_[1]);
}

my $before = time;
is(post('/now', '')->{status}, 202, 'now: accepted');
my $after = time;
my $key = ($t->seen)[-1]{params}{INTERLOCK_WORK_KEY};
my %want = map { ('n:' . wall('Pacific/Kiritimati', $_) . ':'
    . wall('Pacific/Pago_Pago', $_) => 1) } $before - 1, $after;
ok($want{$key}, "now: $key");

# where nothing is decided it has its value, too
is($t->http(GET => '/plain?t=1785000000')->{body}, '2026-07-26', 'no gate');
is($t->http(GET => '/plain?t=x')->{body}, '', 'no gate, no time');

# what the C library says of the same instants, cut off at three by the clock:
# some all over the years, and half-hours around changes of 2026
my $checks = 0;
my @all = map { $_ * 86_400 * 11 + $_ * 7_919 % 86_400 } 0 .. 3000;
my @near = map { my $h = $_; map { $_ + $h * 1800 }
    1774746000, 1792890000, 1793494800, 1772953200 } -30 .. 30;

for my $i (0 .. $#zones) {
    my @wrong;

    for my $at (@near, grep { $_ % 19 == $i } @all) {
        my $got = $t->http(GET => "/z$i?t=$at")->{body};

        local $ENV{TZ} = $zones[$i];
        tzset();
        my @wall = localtime $at;
        my $want = strftime('%Y-%m-%d', $wall[2] < 3
            ? (0, 0, 12, $wall[3] - 1, @wall[4, 5]) : @wall);
        push @wrong, "$at: $got, not $want" if $got ne $want;
        $checks++;
    }

    is_deeply(\@wrong, [], "$zones[$i]: as the C library says");
}

delete $ENV{TZ};
tzset();
ok($checks > 5000, "$checks dates compared");

done_testing();
