package Interlock::FastCGI;

# A FastCGI client, to talk to interlockd as nginx does, or as nginx never
# would.
#
#     my $c = Interlock::FastCGI->new($path);
#     my $res = $c->request(GET => '/livez');
#     $c->send(POST => '/v1/leases', { token => $t, body => '{…}' });
#     my $res = $c->response(5);        # undef if there is none in 5 s

use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;
use JSON::PP ();
use Socket qw(SOCK_STREAM);
use Time::HiRes qw(time);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

use constant { T_BEGIN => 1, T_ABORT => 2, T_END => 3, T_PARAMS => 4,
    T_STDIN => 5, T_STDOUT => 6 };

sub new {
    my ($class, $path) = @_;

    my $sock = IO::Socket::UNIX->new(Type => SOCK_STREAM, Peer => $path)
        or die "connect $path: $!\n";
    return bless { sock => $sock, in => '' }, $class;
}

# of_instance($i): a connection to its interlockd
sub of_instance {
    my ($class, $i) = @_;

    return $class->new(socket_path($i));
}

sub socket_path {
    my ($i) = @_;

    open my $fh, '<', $i->dir . '/interlockd.conf' or die "conf: $!";
    while (defined(my $line = <$fh>)) {
        return $1 if $line =~ /^\s*listen\s*=\s*(\S+)/;
    }
    die "no listen in interlockd.conf\n";
}

sub sock { $_[0]{sock} }

sub close {
    my ($self) = @_;

    CORE::close($self->{sock});
}

sub record {
    my ($type, $content) = @_;

    return pack('CCnnCC', 1, $type, 1, length $content, 0, 0) . $content;
}

sub pair {
    my ($name, $value) = @_;

    return join('', map { $_ < 128 ? pack('C', $_)
        : pack('N', $_ | 0x80000000) } length $name, length $value)
        . $name . $value;
}

# encode(METHOD, uri, opt): the bytes of one request.  Options:
#   params   { NAME => value }, over the usual ones; undef leaves one out
#   headers  { name => value }
#   token    for Authorization: Bearer
#   body     bytes, or a structure that goes as JSON
#   close    without FCGI_KEEP_CONN
#   parts    only the head and parameters ('head'), or without the end of
#            stdin ('open')
sub encode {
    my ($method, $uri, $opt) = @_;

    $opt //= {};
    my $body = $opt->{body} // '';
    $body = $json->encode($body) if ref $body;

    my ($path, $query) = split /\?/, $uri, 2;
    my %p = (REQUEST_METHOD => $method, REQUEST_URI => $uri,
        QUERY_STRING => $query // '', CONTENT_LENGTH => length $body,
        CONTENT_TYPE => 'application/json', SERVER_PROTOCOL => 'HTTP/1.1');
    for my $name (keys %{ $opt->{headers} // {} }) {
        (my $n = "HTTP_\U$name") =~ tr/-/_/;
        $p{$n} = $opt->{headers}{$name};
    }
    $p{HTTP_AUTHORIZATION} = "Bearer $opt->{token}" if defined $opt->{token};
    %p = (%p, %{ $opt->{params} // {} });

    my $params = join '', map { pair($_, $p{$_}) } grep { defined $p{$_} }
        sort keys %p;
    my $out = record(T_BEGIN, pack('nCx5', 1, $opt->{close} ? 0 : 1));
    $out .= record(T_PARAMS, $_) for $params =~ /(.{1,60000})/gs;
    $out .= record(T_PARAMS, '');

    my $parts = $opt->{parts} // '';
    return $out if $parts eq 'head';

    $out .= record(T_STDIN, $_) for $body =~ /(.{1,60000})/gs;
    return $parts eq 'open' ? $out : $out . record(T_STDIN, '');
}

sub write {
    my ($self, $bytes) = @_;

    local $SIG{PIPE} = 'IGNORE';
    my $at = 0;
    while ($at < length $bytes) {
        my $n = syswrite $self->{sock}, $bytes, length($bytes) - $at, $at;
        return 0 unless defined $n;
        $at += $n;
    }
    return 1;
}

sub send {
    my ($self, @request) = @_;

    return $self->write(encode(@request));
}

# response(seconds): { status, headers, body, json }, or undef if none came in
# that time, or { closed => 1 } if the peer closed instead.
sub response {
    my ($self, $seconds) = @_;

    my $end = time + ($seconds // 15);
    my $select = IO::Select->new($self->{sock});
    my $out = '';

    while (1) {
        while (length $self->{in} >= 8) {
            my ($v, $type, $id, $len, $pad) =
                unpack 'CCnnC', $self->{in};
            last if length($self->{in}) < 8 + $len + $pad;
            my $content = substr $self->{in}, 8, $len;
            substr($self->{in}, 0, 8 + $len + $pad) = '';
            $out .= $content if $type == T_STDOUT;
            return parse($out) if $type == T_END;
        }
        my $left = $end - time;
        return undef if !$select->can_read($left < 0 ? 0 : $left);
        my $n = sysread $self->{sock}, $self->{in}, 65536,
            length $self->{in};
        return { closed => 1, status => 0, headers => {}, body => $out }
            unless $n;
    }
}

sub parse {
    my ($text) = @_;

    my ($head, $body) = split /\r\n\r\n/, $text, 2;
    my %h;
    for (split /\r\n/, $head // '') {
        my ($name, $value) = split /:\s*/, $_, 2;
        $h{ lc $name } = $value;
    }
    my ($status) = ($h{status} // '') =~ /^(\d+)/;
    return { status => $status // 0, headers => \%h, body => $body // '',
        json => scalar eval { $json->decode($body) } };
}

sub request {
    my ($self, @request) = @_;

    $self->send(@request) or return { closed => 1, status => 0 };
    return $self->response;
}

# once($i, METHOD, uri, opt): one request over a connection of its own
sub once {
    my ($class, $i, @request) = @_;

    return $class->of_instance($i)->request(@request);
}

1;
