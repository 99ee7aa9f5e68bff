package Interlock::HTTP;

# HTTP/1.1 by a raw socket, for requests that no library would send: see
# Interlock::Test's http and raw, which are these with an instance's port.

use strict;
use warnings;

use Errno qw(EAGAIN EINTR EWOULDBLOCK);
use Fcntl qw(F_GETFL F_SETFL O_NONBLOCK);
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use Time::HiRes qw(time);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# raw(port, bytes, { timeout, more, method, close, shutdown, count }): sends the
# bytes as they are (and what `more` answers until undef) and reads at the
# same time, until `count` (1) responses are whole, the server closes, or the
# time (30 s) is over: { text, responses, error, closed, ms }.  With shutdown
# => 1 the sending side is closed after the bytes; with close => 1 the
# connection is closed without waiting for an answer.
sub raw {
    my ($port, $bytes, $opt) = @_;

    $opt //= {};
    my $start = time;
    my $end = $start + ($opt->{timeout} // 30);
    my %r = (text => '', responses => [], error => '', closed => 0);
    my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $port, Timeout => 10)
        or return { %r, error => "connect: $!", ms => 0 };
    local $SIG{PIPE} = 'IGNORE';
    binmode $sock;
    fcntl($sock, F_SETFL, fcntl($sock, F_GETFL, 0) | O_NONBLOCK);

    my $select = IO::Select->new($sock);
    my $out = $bytes;
    my $more = $opt->{more};
    my $want = $opt->{count} // 1;

    while (1) {
        if ($out eq '' && $more) {
            my $piece = $more->();
            if (defined $piece) { $out = $piece; } else { undef $more; }
        }
        if ($out eq '' && !$more) {
            last if $opt->{close};
            if ($opt->{shutdown}) {
                shutdown $sock, 1;
                $opt->{shutdown} = 0;
            }
        }
        my $left = $end - time;
        if ($left <= 0) { $r{error} = 'timeout'; last; }

        my ($readable, $writable) = IO::Select->select($select,
            $out eq '' ? undef : $select, undef, $left);
        if ($writable && @$writable) {
            my $n = syswrite($sock, $out, 1 << 18);
            if (defined $n) {
                substr($out, 0, $n, '');
            } elsif (!($!{EAGAIN} || $!{EINTR} || $!{EWOULDBLOCK})) {
                # the server would read no more; it may have answered
                $r{error} = "write: $!";
                $out = '';
                undef $more;
            }
        }
        if ($readable && @$readable) {
            my $n = sysread($sock, $r{text}, 1 << 18, length $r{text});
            if (!defined $n) {
                next if $!{EAGAIN} || $!{EINTR} || $!{EWOULDBLOCK};
                $r{error} ||= "read: $!";
                $r{closed} = 1;
            } elsif ($n == 0) {
                $r{closed} = 1;
            }
            $r{responses} = parse_responses($r{text}, $r{closed},
                $opt->{method});
            last if $r{closed} || @{ $r{responses} } >= $want;
        }
    }
    close $sock;
    $r{error} ||= 'closed without an answer' unless @{ $r{responses} };
    $r{ms} = (time - $start) * 1000;
    return \%r;
}

# The whole responses in a text; 1xx are left out.
sub parse_responses {
    my ($text, $closed, $method) = @_;

    my @all;
    while ($text =~ /\AHTTP\/1\.[01] (\d{3})(?: ([^\r\n]*))?\r\n(.*?\r\n)?\r\n/s) {
        my ($status, $reason, $head, $at) = ($1, $2, $3 // '', $+[0]);
        my (%h, $body);
        while ($head =~ /^([^:\r\n]+):[ \t]*([^\r\n]*)/mg) {
            my $name = lc $1;
            $h{$name} = defined $h{$name} ? "$h{$name}, $2" : $2;
        }
        my $rest = substr($text, $at);

        if ($status < 200) {
            $text = $rest;
            next;
        }
        if (($method // '') eq 'HEAD' || $status == 204 || $status == 304) {
            $body = '';
        } elsif (($h{'transfer-encoding'} // '') =~ /chunked/i) {
            $body = '';
            my $whole;
            while ($rest =~ /\A([0-9a-fA-F]+)[^\r\n]*\r\n/) {
                my ($size, $from) = (hex $1, $+[0]);
                last if length($rest) < $from + $size + 2;
                $body .= substr($rest, $from, $size);
                $rest = substr($rest, $from + $size + 2);
                if ($size == 0) { $whole = 1; last; }
            }
            last unless $whole;
        } elsif (defined $h{'content-length'}) {
            last if length($rest) < $h{'content-length'};
            $body = substr($rest, 0, $h{'content-length'});
            $rest = substr($rest, $h{'content-length'});
        } else {
            last unless $closed;
            ($body, $rest) = ($rest, '');
        }
        my $doc = ($h{'content-type'} // '') =~ m{[/+]json\b}
            ? eval { $json->decode($body) } : undef;
        push @all, { status => $status + 0, reason => $reason // '',
            headers => \%h, body => $body, json => $doc };
        $text = $rest;
    }
    return \@all;
}

1;
