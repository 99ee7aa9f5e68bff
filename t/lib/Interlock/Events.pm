package Interlock::Events;

# A reader of server-sent events, as a browser's EventSource reads them.
#
#     my $s = Interlock::Events->open($i, 'kind=w', { token => 'submit' });
#     is($s->status, 200);
#     my $event = $s->next(5);      # { event, id, data, json }, undef if none
#     $s->close;
#
# Options of open: token (a role's name), headers { name => value }, rcvbuf
# (bytes that the kernel keeps for it), port, path.

use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use Socket qw(SOL_SOCKET SO_RCVBUF inet_aton pack_sockaddr_in PF_INET
    SOCK_STREAM);
use Time::HiRes qw(time);

my $json = JSON::PP->new->utf8->allow_nonref;

sub open {
    my ($class, $i, $query, $opt) = @_;

    my $self = bless { in => '', text => '', events => [], comments => 0,
        id => '' }, $class;
    socket my $sock, PF_INET, SOCK_STREAM, 0 or die "socket: $!";
    # before it is connected, or the window is a big one already
    setsockopt $sock, SOL_SOCKET, SO_RCVBUF, pack 'l', $opt->{rcvbuf}
        or die "setsockopt: $!" if $opt->{rcvbuf};
    connect $sock, pack_sockaddr_in($opt->{port} // $i->port,
        inet_aton('127.0.0.1')) or die "connect: $!";
    $self->{sock} = $sock;

    my %h = %{ $opt->{headers} // {} };
    $h{Authorization} = 'Bearer ' . $i->token($opt->{token}) if $opt->{token};
    my $head;
    my $path = ($opt->{path} // '/v1/events')
        . (length($query // '') ? "?$query" : '');
    $head = join "\r\n", "GET $path HTTP/1.1", 'Host: localhost',
        'Accept: text/event-stream', (map { "$_: $h{$_}" } sort keys %h),
        '', '';
    syswrite($sock, $head) == length $head or die "write: $!";

    my $end;
    while (($end = index $self->{in}, "\r\n\r\n") < 0) {
        $self->_read(15) or die "no answer: $self->{in}\n";
    }
    my ($line, @lines) = split /\r\n/, substr $self->{in}, 0, $end;
    substr($self->{in}, 0, $end + 4) = '';
    ($self->{status}) = $line =~ m{^HTTP/1\.1 (\d+)} or die "answer: $line\n";
    $self->{headers} = { map { /^([^:]+):\s*(.*)$/ ? (lc $1 => $2) : () }
        @lines };
    $self->{chunked} = ($self->{headers}{'transfer-encoding'} // '')
        eq 'chunked';
    return $self;
}

sub status  { $_[0]{status} }
sub headers { $_[0]{headers} }
sub id      { $_[0]{id} }
sub ended   { $_[0]{over} }

# comments: heartbeats that came; retry: milliseconds, if it was said
sub comments { $_[0]{comments} }
sub retry    { $_[0]{retry} }

sub close {
    my ($self) = @_;

    CORE::close($self->{sock});
}

sub _read {
    my ($self, $seconds) = @_;

    return 0 if $self->{over}
        || !IO::Select->new($self->{sock})->can_read($seconds);
    my $n = sysread $self->{sock}, $self->{in}, 65536, length $self->{in};
    $self->{over} = 1 unless $n;
    return $n;
}

# What has come, taken apart: chunks, then lines, then events.
sub _parse {
    my ($self) = @_;

    if ($self->{chunked}) {
        while ($self->{in} =~ /\A([0-9a-f]+)\r\n/i) {
            my ($n, $from) = (hex $1, $+[0]);
            last if length $self->{in} < $from + $n + 2;
            $self->{text} .= substr $self->{in}, $from, $n;
            substr($self->{in}, 0, $from + $n + 2) = '';
            $self->{over} = 1 if $n == 0;
        }
    } else {
        $self->{text} .= $self->{in};
        $self->{in} = '';
    }

    while ($self->{text} =~ s/\A(.*?)\n\n//s) {
        my %e;
        for my $line (split /\n/, $1) {
            if ($line =~ /^:/) {
                $self->{comments}++;
            } elsif ($line =~ /^(\w+): ?(.*)$/) {
                $e{$1} = exists $e{$1} ? "$e{$1}\n$2" : $2;
            } else {
                die "no line of an event stream: $line\n";
            }
        }
        push @{ $self->{events} }, \%e;
    }
}

# next(seconds): the next event, or undef if none comes in that time
sub next {
    my ($self, $seconds) = @_;

    my $end = time + ($seconds // 10);
    while (1) {
        $self->_parse;
        while (my $e = shift @{ $self->{events} }) {
            $self->{id} = $e->{id} if exists $e->{id};
            $self->{retry} = $e->{retry} if exists $e->{retry};
            next unless exists $e->{data};
            $e->{json} = eval { $json->decode($e->{data}) };
            return $e;
        }
        my $left = $end - time;
        return undef if $left <= 0 || $self->{over};
        $self->_read($left);
    }
}

# until(sub, seconds): events until the sub says true of one, which it
# answers; those before are in ->{passed}.  undef if it never does.
sub until {
    my ($self, $sub, $seconds) = @_;

    my $end = time + ($seconds // 10);
    $self->{passed} = [];
    while (time < $end) {
        my $e = $self->next($end - time) // return undef;
        return $e if $sub->($e);
        push @{ $self->{passed} }, $e;
    }
    return undef;
}

# job(id, status, seconds): the event that says so of a job
sub job {
    my ($self, $job, $status, $seconds) = @_;

    return $self->until(sub {
        $_[0]{event} eq 'job' && $_[0]{json}{job_id} eq $job
            && $_[0]{json}{status} eq $status
    }, $seconds);
}

# wait_end(seconds): true once the stream has ended
sub wait_end {
    my ($self, $seconds) = @_;

    my $end = time + ($seconds // 10);
    until ($self->{over}) {
        my $left = $end - time;
        last if $left <= 0;
        $self->_read($left);
        $self->_parse;
    }
    return $self->{over};
}

1;
