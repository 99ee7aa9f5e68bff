package Interlock::Clock;

# Programs whose system clock is off, or runs fast (libfaketime); their
# monotonic clock is the real one, as the kernel's is when somebody sets the
# other.
#
#     my $c = Interlock::Clock->new or plan skip_all => …;
#     $c->set(pg => '+0 x60');
#     my $i = Interlock::Test->instance(env => {
#         INTERLOCK_PG_BINDIR => $c->postgres('pg'),
#         INTERLOCKD => $c->program('ahead', $interlockd) });
#
# A clock's setting is read when a program starts with it: an offset (+90,
# -90, +30d), and at which speed it goes on from there (x60).

use strict;
use warnings;

use File::Temp qw(tempdir);

use Interlock::Test;

# new: undef without libfaketime (Debian package faketime)
sub new {
    my ($class) = @_;

    my ($library) = glob '/usr/lib/*/faketime/libfaketimeMT.so.1';
    return undef unless $library;

    my $self = bless { library => $library,
        dir => tempdir('interlock-clock-XXXXXX', TMPDIR => 1, CLEANUP => 1) },
        $class;
    chmod 0755, $self->{dir};
    return $self;
}

# set(CLOCK, setting): from the next start of its programs on
sub set {
    my ($self, $clock, $setting) = @_;

    Interlock::Test::spew("$self->{dir}/$clock.new", "$setting\n");
    chmod 0644, "$self->{dir}/$clock.new";
    rename "$self->{dir}/$clock.new", "$self->{dir}/$clock" or die $!;
}

# program(CLOCK, PATH): a program that runs that one by this clock
sub program {
    my ($self, $clock, $real, $path) = @_;

    $path //= "$self->{dir}/run-$clock";
    Interlock::Test::spew($path, <<END);
#!/bin/sh
FAKETIME="\$(cat '$self->{dir}/$clock')" \\
FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1 \\
LD_PRELOAD='$self->{library}' exec '$real' "\$@"
END
    chmod 0755, $path;
    return $path;
}

# postgres(CLOCK): a directory of PostgreSQL's programs, whose server runs by
# this clock
sub postgres {
    my ($self, $clock) = @_;

    my $bin = $ENV{INTERLOCK_PG_BINDIR} // '/usr/lib/postgresql/15/bin';
    my $dir = "$self->{dir}/postgresql";
    mkdir $dir or die "$dir: $!";
    chmod 0755, $dir;
    symlink "$bin/$_", "$dir/$_" or die "$_: $!"
        for grep { $_ ne 'postgres' } map { m{([^/]+)$} } glob "$bin/*";
    $self->program($clock, "$bin/postgres", "$dir/postgres");
    return $dir;
}

1;
