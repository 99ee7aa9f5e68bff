package Interlock::Session;

# A session of psql that stays open: to hold a lock while something else runs
# into it, or to run a call at a chosen moment without starting a process.
#
#     my $s = Interlock::Session->new($i->dsn('admin'));
#     my @rows = $s->do('select 1, 2');          # ( [1, 2] )
#     $s->send('select * from interlock.recover(100)');    # returns at once
#     $s->answered;                              # is it here?
#     my @rows = $s->answer;                     # waits for it
#
# An error of the server dies with its text; the session goes on.

use strict;
use warnings;

use IO::Select;
use IPC::Open3 qw(open3);
use POSIX ();

my $n = 0;

sub new {
    my ($class, $dsn) = @_;

    my $pid = open3(my $in, my $out, undef, 'psql', '-XAtq', '-F', "\x1f",
        '-P', "null=\x01", '-d', $dsn, '-f', '-');
    $in->autoflush(1);
    my $self = bless { in => $in, out => $out, pid => $pid, owner => $$,
        open => 0 }, $class;
    ($self->{backend}) = map { $_->[0] } $self->do('select pg_backend_pid()');
    return $self;
}

# backend: the server process's id
sub backend { $_[0]{backend} }

sub send {
    my ($self, $sql) = @_;

    $self->{mark} = 'mark-' . ++$n;
    print { $self->{in} } "$sql;\n\\echo $self->{mark}\n"
        or die "psql: $!\n";
}

sub answer {
    my ($self) = @_;

    my (@rows, @errors);
    while (1) {
        my $line = readline $self->{out};
        die "psql ended\n" unless defined $line;
        chomp $line;
        last if $line eq $self->{mark};
        if ($line =~ /^psql:.*?(?:ERROR|FATAL|server closed)/) {
            push @errors, $line;
        } elsif ($line !~ /^psql:|^(?:DETAIL|HINT|CONTEXT|LINE \d)/) {
            push @rows, [ map { $_ eq "\x01" ? undef : $_ }
                split /\x1f/, $line, -1 ];
        }
    }
    die join("\n", @errors), "\n" if @errors;
    return @rows;
}

# answered: whether the answer is coming
sub answered { return !!IO::Select->new($_[0]{out})->can_read(0) }

sub do {
    my ($self, $sql) = @_;

    $self->send($sql);
    return $self->answer;
}

sub DESTROY {
    my ($self) = @_;

    return unless $self->{owner} == $$;
    local ($?, $@);
    close $self->{in};
    kill 'TERM', $self->{pid};
    waitpid $self->{pid}, 0;
}

1;
