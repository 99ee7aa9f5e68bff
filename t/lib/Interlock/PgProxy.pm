package Interlock::PgProxy;

# Between interlockd and its PostgreSQL, to lose what a network can lose.
#
#     my $p = Interlock::PgProxy->new($i->dir . '/sock');
#     … dsn with host=$p->dir …
#     $p->drop('interlock.submit', 3);   # the next three calls of it commit,
#                                        # and their answers never arrive
#     $p->dropped;                       # how many were lost so far
#     $p->down;                          # the database is away …
#     $p->up;                            # … and back
#
# It runs as a process of its own and ends with the test.

use strict;
use warnings;

use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IO::Select;
use IO::Socket::UNIX;
use POSIX ();
use Socket qw(SOCK_STREAM SOMAXCONN);

sub new {
    my ($class, $real) = @_;

    my $self = bless { dir => tempdir('interlock-proxy-XXXXXX', TMPDIR => 1),
        owner => $$, real => $real }, $class;
    chmod 0755, $self->{dir};
    return $self->up;
}

sub up {
    my ($self) = @_;

    my $path = "$self->{dir}/.s.PGSQL.5432";
    my $listen = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => $path,
        Listen => SOMAXCONN) or die "$path: $!\n";
    chmod 0777, $path;

    $self->{pid} = fork() // die "fork: $!";
    if (!$self->{pid}) {
        $SIG{$_} = 'DEFAULT' for qw(TERM INT HUP);
        $SIG{PIPE} = 'IGNORE';
        eval { serve($self, $listen, "$self->{real}/.s.PGSQL.5432"); 1 }
            or print STDERR "proxy: $@";
        POSIX::_exit(0);
    }
    return $self;
}

sub down {
    my ($self) = @_;

    kill 'KILL', $self->{pid};
    waitpid delete $self->{pid}, 0;
    unlink "$self->{dir}/.s.PGSQL.5432";
    return $self;
}

sub dir { $_[0]{dir} }

# drop(text, n): of the next n calls whose query has that text
sub drop {
    my ($self, $text, $n) = @_;

    # whole or not at all, and by several processes
    put("$self->{dir}/drop.$$", "$n $text");
    rename "$self->{dir}/drop.$$", "$self->{dir}/drop" or die "drop: $!";
}

sub dropped { return -s "$_[0]{dir}/dropped" // 0 }

sub put {
    my ($path, $text) = @_;

    open my $fh, '>', $path or die "$path: $!";
    print $fh $text;
    close $fh;
}

sub take {
    my ($self, $data) = @_;

    open my $fh, '<', "$self->{dir}/drop" or return 0;
    my ($n, $text) = split / /, <$fh> // '', 2;
    close $fh;
    return 0 unless $n && index($data, $text) >= 0;

    $self->drop($text, $n - 1);
    return 1;
}

sub serve {
    my ($self, $listen, $real) = @_;

    my $select = IO::Select->new($listen);
    my (%peer, %client, %doomed);

    my $end = sub {
        my ($fh) = @_;
        for my $h (grep { $_ } $fh, delete $peer{$fh}) {
            delete $peer{$h};
            delete $doomed{$h};
            delete $client{$h};
            $select->remove($h);
            close $h;
        }
    };

    while (1) {
        for my $fh ($select->can_read) {
            if ($fh == $listen) {
                my $in = $listen->accept or next;
                my $out = IO::Socket::UNIX->new(Type => SOCK_STREAM,
                    Peer => $real);
                if (!$out) { close $in; next; }
                @peer{ $in, $out } = ($out, $in);
                $client{$in} = 1;
                $select->add($in, $out);
                next;
            }
            next unless $peer{$fh};

            my $n = sysread $fh, my $data, 262_144;
            if (!$n) { $end->($fh); next; }

            if ($client{$fh}) {
                $doomed{ $peer{$fh} } = '' if $self->take($data);
            } elsif (defined $doomed{$fh}) {
                # wait for ReadyForQuery: it is committed then
                $doomed{$fh} = substr $doomed{$fh} . $data, -6;
                next if $doomed{$fh} ne "Z\0\0\0\x05I";
                open my $c, '>>', "$self->{dir}/dropped";
                print $c 'x';
                close $c;
                $end->($fh);
                next;
            }

            my $at = 0;
            while ($at < $n) {
                my $w = syswrite $peer{$fh}, $data, $n - $at, $at;
                if (!defined $w) { $end->($fh); last; }
                $at += $w;
            }
        }
    }
}

sub DESTROY {
    my ($self) = @_;

    return unless $self->{owner} == $$;
    local $?;
    $self->down if $self->{pid};
    remove_tree($self->{dir});
}

1;
