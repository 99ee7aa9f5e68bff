package Interlock::Answers;

# A real HTTP server for what interlockd asks by itself: its answers are named
# by the first segment of the path, good ones and bad ones.
#
#     my $s = Interlock::Answers->new;
#     … http://127.0.0.1:$s->port/found/x …
#     $s->set('404 Not Found', '{}');    # what /set answers from now on
#     $s->seen;                          # the requests, each a hash
#
# It is a process of its own with one more for each connection, and ends with
# the test.

use strict;
use warnings;

use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep);

my $json = JSON::PP->new->utf8->canonical;
my $good = '{"state":"done","id":"r-17","out":{"rows":1.10}}';

# What each name answers: raw bytes, or a sub of the connection and the server.
my %ANSWERS = (
    found    => reply('200 OK', $good),
    missing  => reply('404 Not Found', '{"error":"none"}'),
    empty    => reply('200 OK', '{"state":"open","items":[]}'),
    error    => reply('500 Internal Server Error', $good),
    denied   => reply('401 Unauthorized', '{}'),
    busy     => reply('429 Too Many Requests', '{}'),
    text     => reply('200 OK', 'all is well'),
    half     => reply('200 OK', substr($good, 0, 20)),
    huge     => reply('200 OK', '{"state":"done","pad":"' . 'x' x 70000 . '"}'),
    headers  => "HTTP/1.1 200 OK\r\n"
        . join('', map { "X-Pad-$_: " . 'x' x 1000 . "\r\n" } 1 .. 80)
        . 'Content-Length: ' . length($good) . "\r\n\r\n$good",
    cut      => "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n$good",
    old      => $good,                                  # HTTP/0.9
    nonsense => "SSH-2.0-OpenSSH\r\n",
    nothing  => '',
    inside   => redirect('/found/inside'),
    twice    => redirect('/inside/x'),
    loop     => redirect('/loop'),
    file     => redirect('file:///etc/passwd'),
    metadata => redirect('http://169.254.169.254/latest/meta-data/'),
    user     => redirect('http://u:p@127.0.0.1/'),
    post     => redirect('/found/post', 307),
    other    => sub { print { $_[0] } redirect($_[1]{other} . '/found/other') },
    slow     => sub { sleep 60 },
    drip     => sub {
        print { $_[0] } "HTTP/1.1 200 OK\r\n";
        for my $n (1 .. 600) { print { $_[0] } "X-$n: y\r\n" or last; sleep 0.1 }
    },
    endless  => sub {
        print { $_[0] } "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        1 while print { $_[0] } "400\r\n" . ' ' x 1024 . "\r\n";
    },
    set      => sub { print { $_[0] } reply(split /\n/, slurp("$_[1]{dir}/set"), 2) },
    gate     => sub {
        sleep 0.05 until -e "$_[1]{dir}/open";
        print { $_[0] } reply('200 OK', $good);
    },
);

sub reply {
    my ($status, $body) = @_;

    return "HTTP/1.1 $status\r\nContent-Type: application/json\r\n"
        . 'Content-Length: ' . length($body) . "\r\n\r\n$body";
}

sub redirect {
    my ($to, $code) = @_;

    $code //= 302;
    return "HTTP/1.1 $code Elsewhere\r\nLocation: $to\r\n"
        . "Content-Length: 0\r\n\r\n";
}

sub slurp {
    my ($path) = @_;

    open my $fh, '<', $path or return '';
    local $/;
    return scalar <$fh>;
}

# new(other => URL): other is where /other leads
sub new {
    my ($class, %opt) = @_;

    my $self = bless { owner => $$, other => $opt{other},
        dir => tempdir('interlock-answers-XXXXXX', TMPDIR => 1) }, $class;
    my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Proto => 'tcp',
        Listen => 64, ReuseAddr => 1) or die "listen: $!\n";
    $self->{port} = $listen->sockport;
    $self->set('200 OK', $good);

    $self->{pid} = fork() // die "fork: $!\n";
    if (!$self->{pid}) {
        setpgrp 0, 0;
        $SIG{CHLD} = 'IGNORE';
        $SIG{PIPE} = 'IGNORE';
        while (1) {
            my $conn = $listen->accept or next;
            my $pid = fork() // die "fork: $!\n";
            if (!$pid) {
                close $listen;
                eval { $self->serve($conn) };
                POSIX::_exit(0);
            }
            close $conn;
        }
    }
    close $listen;
    return $self;
}

sub port { $_[0]{port} }
sub url  { "http://127.0.0.1:$_[0]{port}" }

sub set {
    my ($self, $status, $body) = @_;

    open my $fh, '>', "$self->{dir}/set.new" or die $!;
    print $fh "$status\n$body";
    close $fh or die $!;
    rename "$self->{dir}/set.new", "$self->{dir}/set" or die $!;
}

# open_gate: what asked for /gate is answered
sub open_gate { open my $fh, '>', "$_[0]{dir}/open" or die $! }

# seen: { method, path, headers, body } of every request so far
sub seen {
    my ($self) = @_;

    return map { $json->decode($_) } split /\n/, slurp("$self->{dir}/seen");
}

sub serve {
    my ($self, $conn) = @_;

    $conn->autoflush(1);
    my $line = <$conn> // return;
    my ($method, $path) = $line =~ m{^(\S+) (\S+) HTTP/1\.[01]\r\n$} or return;
    my %headers;
    while (defined($line = <$conn>) && $line ne "\r\n") {
        $headers{ lc $1 } = $2 if $line =~ /^([^:]+):\s*(.*?)\r\n$/;
    }
    my $body = '';
    read $conn, $body, $headers{'content-length'}
        if $headers{'content-length'};

    open my $fh, '>>', "$self->{dir}/seen" or die $!;
    syswrite $fh, $json->encode({ method => $method, path => $path,
        headers => \%headers, body => $body }) . "\n";
    close $fh;

    my ($name) = $path =~ m{^/([a-z]+)};
    my $answer = $ANSWERS{ $name // '' }
        // reply('400 Bad Request', '{"error":"no such answer"}');
    ref $answer ? $answer->($conn, $self) : print $conn $answer;
    shutdown $conn, 1;
    # what is still under way is not to reset what was sent
    1 while sysread $conn, my $rest, 65536;
}

sub DESTROY {
    my ($self) = @_;

    return unless $self->{owner} == $$ && $self->{pid};
    local ($?, $!);
    kill 'KILL', -$self->{pid};
    waitpid $self->{pid}, 0;
    remove_tree($self->{dir});
}

1;
