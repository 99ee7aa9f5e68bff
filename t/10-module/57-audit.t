#!/usr/bin/perl

# What was answered alone is told to a datagram socket: one line a request,
# many of a flood in one datagram, none twice, and never waiting for who does
# not read.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use IO::Select;
use IO::Socket::UNIX;
use JSON::PP;
use Socket qw(MSG_DONTWAIT SOCK_DGRAM);
use Test::More;
use Time::HiRes qw(time);

use Interlock::Nginx;

my $gate = 'interlock zone=z; interlock_kind k; interlock_source s;'
    . 'interlock_work_key w $http_x_work; fastcgi_pass backend;';
my $keyed = "$gate interlock_idempotency_key \$http_x_id;";

my $t = Interlock::Nginx->new(
    http => "interlock_zone zone=z:1m;\n"
        . "include $Interlock::Nginx::TOP/ngx_module/interlock_audit;\n"
        . 'interlock_audit unix:edge.sock;',
    server => <<"END");
        interlock_tenant demo;
        large_client_header_buffers 4 32k;
        access_log logs/audit.log interlock_audit if=\$interlock_audit;
        location /in { $keyed }
        location /off { $keyed interlock_audit off; }
        location /hold { $gate
            interlock_idempotency_key \$http_x_id optional; }
        location = /status { interlock_status; }
END

sub listen_at { my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM,
    Local => $t->dir . '/edge.sock') or die "socket: $!";
    chmod 0666, $t->dir . '/edge.sock'; return $s }

my $sock = listen_at();
$t->start;

sub post {
    my ($path, $id, @h) = @_;
    return $t->http(POST => $path, { body => '{"a":1}',
        headers => [ defined $id ? ('X-Id' => $id) : (), 'X-Work' => 'a"b\\',
            @h ] });
}

# The next datagram, or undef if none comes within a second.
sub gram {
    my ($patience) = @_;
    IO::Select->new($sock)->can_read($patience // 5) or return;
    recv $sock, my $text, 65536, MSG_DONTWAIT;
    return $text;
}

# what is there now
sub grams { my @g; while (defined(my $g = gram(0))) { push @g, $g } @g }

sub logged { map { decode_json($_) } split /\n/, $t->slurp('logs/audit.log') }


# --- a repeat --------------------------------------------------------------

post('/in', 'one');
is(Interlock::Nginx::header(post('/in', 'one'), 'interlock-decision'),
    'duplicate', 'a repeat is answered alone');
my $line = decode_json(gram());
is(scalar(grams()), 0, 'one datagram tells of it');
my $logged = $t->wait_for(sub { (logged())[0] }, 5, 'the access log');
like($logged->{fingerprint}, qr/^[0-9a-f]{64}$/, '(the log says of what)');
is($line->{fingerprint}, '', 'the fingerprint is the first one\'s');
like($line->{at}, qr/^\d{10}\.\d{3}$/, 'when');
delete @$_{qw(at fingerprint)} for $line, $logged;
is_deeply($line, $logged, 'otherwise the lines are the same');
is(join(' ', @$line{qw(seq tenant source kind work_key key decision)}),
    '1 demo s k w:a"b\\ one duplicate', 'with names, keys and number');

post('/off', 'off') for 1 .. 2;
is($t->status->{answered_alone}, 2, 'where it is off that counts, too');
is(scalar(grams()), 0, 'and nothing is told');


# --- what has a content of its own -----------------------------------------

post('/in', 'two', 'X-Backend' => 'decision=duplicate;reason=mismatch_recorded');
post('/in', 'two');
$line = decode_json(gram());
$logged = $t->wait_for(sub { (logged())[2] }, 5, 'the access log');
is($line->{fingerprint}, $logged->{fingerprint},
    'other content under a known key has a fingerprint');
like($line->{answer}, qr/^1;202;duplicate;queued;mismatch_recorded;/,
    'and that answer');

post('/hold', undef, 'X-Backend' => 'grant=2000');
is(Interlock::Nginx::header(post('/hold', undef), 'interlock-decision'),
    'skipped', 'the same work again is answered alone');
$line = decode_json(gram());
$logged = $t->wait_for(sub { (logged())[3] }, 5, 'the access log');
is(join(' ', @$line{qw(key decision fingerprint)}),
    " skipped $logged->{fingerprint}", 'it has no key, but a fingerprint');


# --- a flood ---------------------------------------------------------------

# connections that all have sent something when the worker looks again
my ($worker) = $t->workers;
my $seq = $t->status->{answered_alone};
my @c = map { $t->connect } 1 .. 100;
kill STOP => $worker;
$_->request(POST => '/in', { body => '{"a":1}', close => 1,
    headers => [ 'X-Id' => 'one', 'X-Work' => 'a"b\\' ] }) for @c;
kill CONT => $worker;
is(scalar(grep { ($_->response('POST')->{status} // 0) == 202 } @c), 100,
    'a hundred repeats at once');
my @grams;
my @lines = @{ $t->wait_for(sub { push @grams, grams();
    my @l = map { decode_json($_) } map { split /\n/ } @grams;
    @l >= 100 && \@l }, 5, 'all lines') };
is(join(' ', map { $_->{seq} } @lines), join(' ', $seq + 1 .. $seq + 100),
    'all are told, in order, once');
cmp_ok(scalar @grams, '<', 50, 'in few datagrams: ' . @grams);
cmp_ok((sort { $b <=> $a } map { length } @grams)[0], '<=', 32768,
    'which are no longer than the backend reads');
is(scalar(grep { /\n\z/ } @grams), 0, 'with nothing behind the last line');

# long ones do not fit into one
@c = map { $t->connect } 1 .. 60;
my @work = ('X-Work', '"' x 500);
$t->http(POST => '/in', { body => 'b', headers => [ 'X-Id' => 'quotes', @work ] });
kill STOP => $worker;
$_->request(POST => '/in', { body => 'b', close => 1,
    headers => [ 'X-Id' => 'quotes', @work ] }) for @c;
kill CONT => $worker;
is(scalar(grep { ($_->response('POST')->{status} // 0) == 202 } @c), 60,
    'sixty with long work keys');
@grams = ();
@lines = @{ $t->wait_for(sub { push @grams, grams();
    my @l = map { decode_json($_) } map { split /\n/ } @grams;
    @l >= 60 && \@l }, 5, 'all lines') };
is($lines[0]{work_key}, 'w:' . '"' x 500, 'a key of quotes');
cmp_ok(scalar @grams, '>', 1, 'more than one datagram');
is(scalar(grep { length > 32768 } @grams), 0, 'none too long');


# --- nobody reads ----------------------------------------------------------

$seq = $t->status->{answered_alone};
my $before = time;
post('/in', 'one') for 1 .. 40;
cmp_ok(time - $before, '<', 10, 'nobody waits for who does not read');
@grams = ();
@lines = @{ $t->wait_for(sub { push @grams, grams();
    my @l = map { decode_json($_) } map { split /\n/ } @grams;
    @l >= 40 && \@l }, 5, 'what found no room stays for a while') };
is(join(' ', map { $_->{seq} } @lines), join(' ', $seq + 1 .. $seq + 40),
    'all of them, in order');

close $sock;
unlink $t->dir . '/edge.sock';
is(post('/in', 'one')->{status}, 202, 'nobody listens') for 1 .. 3;
$t->wait_for(sub { $t->error_log =~ /could not be told to/ }, 5, 'the log');
is(() = $t->error_log =~ /could not be told to "[^"]*edge\.sock"/g, 1,
    'that is logged once');
$sock = listen_at();
post('/in', 'one');
is(decode_json(gram())->{seq}, $seq + 44, 'a gap shows it');
like($t->error_log, qr/takes what was answered alone again/, 'the log, too');


# --- reloads and ends ------------------------------------------------------

$t->reload;
post('/in', 'one');
is(decode_json(gram())->{seq}, $seq + 45, 'after a reload');
post('/in', 'one');
$t->stop;
is(decode_json(gram())->{seq}, $seq + 46, 'nothing is lost by an orderly end');

done_testing();
