package Interlock::Psql;

# What psql says to a text of SQL, as `psql -f -` would say it, without a new
# process, a new session and newly planned functions each time.
#
#     my $p = Interlock::Psql->new({ PGHOST => …, PGUSER => …, PGDATABASE => … });
#     my ($code, $out, $err) = $p->run($sql);             # columns parted by |
#     my ($code, $out, $err) = $p->run($sql, split => 1); # \x1f, \x1e; null \x01
#
# One psql stays open for texts that leave nothing behind in their session; it
# ends with the first error (ON_ERROR_STOP), or with the server, and the next
# text gets another.  A text that might set, lock, open or listen to something,
# or that talks to psql itself, has a psql and a session of its own.
#
# Loading this puts PostgreSQL's own programs first in the PATH: what Debian
# has in /usr/bin for them is a script, which takes longer to find the right
# one than psql takes for its work.

use strict;
use warnings;

use File::Temp qw(tempfile);
use IO::Handle;
use IO::Select;
use POSIX ();
use Scalar::Util qw(weaken);
use Time::HiRes qw(time);

BEGIN {
    my $bin = $ENV{INTERLOCK_PG_BINDIR} // '/usr/lib/postgresql/15/bin';
    $ENV{PATH} = "$bin:$ENV{PATH}"
        if -x "$bin/psql" && index("$ENV{PATH}:", "$bin:") != 0;
}

my @OPTIONS = ('-XAtq', '-v', 'ON_ERROR_STOP=1');
my $n = 0;
my %live;                   # address => object of this process

# A text with one of these has a session of its own.
my $ALONE = qr{\\
    | (?:^|;)\s* (?: set | reset | begin | start | commit | end | rollback
        | abort | prepare | execute | deallocate | listen | notify | declare
        | fetch | close | discard | load | lock | copy | do | call
        | alter\s+(?:system|role|database) )\b
    | \b(?: temp | temporary | advisory_\w+ | pg_(?:try_)?advisory\w+
        | set_config | pg_backend_pid | setval | nextval | lastval | dblink\w*
        | current_setting | pg_reload_conf | pg_sleep\w* )\b}xi;

# new(ENV): libpq's variables of the session
sub new {
    my ($class, $env) = @_;

    return bless { env => $env, owner => $$ }, $class;
}

# environment(dsn): libpq's variables for "name=value …" (no quotes in it).
# An argument would show the directory in the process's command line, and
# tests look there for what belongs to an instance.
sub environment {
    my ($dsn) = @_;

    my %name = (host => 'PGHOST', port => 'PGPORT', dbname => 'PGDATABASE',
        user => 'PGUSER');
    my %env;
    for (split ' ', $dsn) {
        /^(\w+)=(.*)$/ && $name{$1} or return;
        $env{ $name{$1} } = $2;
    }
    return \%env;
}

# run(sql, split =>, timeout => seconds (60)): (exit code, stdout, stderr);
# code 124 if the time was over.
sub run {
    my ($self, $sql, %opt) = @_;

    my $end = time + ($opt{timeout} // 60);
    return $self->once($sql, $end, $opt{split})
        if $self->{owner} != $$ || $sql =~ $ALONE;

    my $s = $self->{session};
    if (!$s || !alive($s)) {
        $self->close;
        ($s, my @failed) = $self->open_session($end);
        return @failed unless $s;
        $self->{session} = $s;
    }
    write_to($s->{file}, $sql);
    my $mark = 'mark-' . ++$n;
    my ($column, $row, $null) = $opt{split} ? ("'\x1f'", "'\x1e'", "'\x01'")
        : ("'|'", "'\\n'", "''");
    my $text = "\\pset fieldsep $column\n\\pset recordsep $row\n"
        . "\\pset null $null\n\\i $s->{file}\n\\echo $mark\n\\warn $mark\n";
    local $SIG{PIPE} = 'IGNORE';
    # (far less than a pipe holds; if it fails, psql's end is seen below)
    syswrite $s->{in}, $text;

    my ($code, @got) = heard($s, $mark, $end);
    $self->close if $code;
    $got[1] =~ s/^psql:\Q$s->{file}\E:/psql:<stdin>:/mg;
    return ($code, @got);
}

# once(sql, end, split): a psql for this text alone
sub once {
    my ($self, $sql, $end, $split) = @_;

    my @split = $split ? ('-F', "\x1f", '-R', "\x1e", '-P', "null=\x01") : ();
    my @file = map { (tempfile('interlock-sql-XXXXXX', TMPDIR => 1,
        UNLINK => 0))[1] } 1 .. 3;
    write_to($file[0], $sql);
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        %ENV = (%ENV, %{ $self->{env} });
        open STDIN, '<', $file[0];
        open STDOUT, '>', $file[1];
        open STDERR, '>', $file[2];
        exec 'psql', @OPTIONS, @split, '-f', '-' or POSIX::_exit(127);
    }
    my $code;
    eval {
        local $SIG{ALRM} = sub { die "late\n" };
        alarm(POSIX::ceil($end - time) || 1);
        waitpid($pid, 0);
        $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
        alarm 0;
    };
    if ($@) {
        kill 'KILL', $pid;
        waitpid($pid, 0);
        $code = 124;
    }
    my @text = map { read_from($_) } @file[ 1, 2 ];
    unlink @file;
    # what sessions begin with may be another now
    if ($sql =~ /\balter\s+(?:system|role|database)\b/i) {
        $_->close for grep { $_ && $_->{owner} == $$ } values %live;
    }
    return ($code, @text);
}

# heard(session, mark, end): what psql says until it says the mark in both of
# its outputs; code 3 if it ended instead, 124 if the time was over.
sub heard {
    my ($s, $mark, $end) = @_;

    my @got = ('', '');
    my $code = 0;
    my $select = IO::Select->new($s->{out}, $s->{err});
    while ($select->count) {
        my $left = $end - time;
        my @ready = $left > 0 ? $select->can_read($left) : ();
        if (!@ready) {
            next if $left > 0 && $!{EINTR};
            $code = 124;
            last;
        }
        for my $fh (@ready) {
            my $text = \$got[ $fh == $s->{out} ? 0 : 1 ];
            my $more = sysread $fh, $$text, 65536, length $$text;
            next if !defined $more && $!{EINTR};
            $code = 3 unless $more;
            $select->remove($fh)
                if !$more || $$text =~ s/^\Q$mark\E\n\z//m;
        }
    }
    s/^\Q$mark\E\n//m for @got;
    return ($code, @got);
}

# A session: a psql that is no child of the test's, so that no wait() of the
# test's waits for it.  Answers that, or undef and what run() answers.
sub open_session {
    my ($self, $end) = @_;

    my (undef, $file) = tempfile('interlock-sql-XXXXXX', TMPDIR => 1,
        UNLINK => 0);
    pipe(my $psql_in, my $in) or die "pipe: $!";
    pipe(my $out, my $psql_out) or die "pipe: $!";
    pipe(my $err, my $psql_err) or die "pipe: $!";
    pipe(my $told, my $tell) or die "pipe: $!";

    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        my $psql = fork() // POSIX::_exit(127);
        if ($psql) {
            syswrite $tell, "$psql\n";
            POSIX::_exit(0);
        }
        # what goes to the test's group is not for it: it ends with the pipe
        setpgrp 0, 0;
        %ENV = (%ENV, %{ $self->{env} });
        POSIX::dup2(fileno $psql_in, 0);
        POSIX::dup2(fileno $psql_out, 1);
        POSIX::dup2(fileno $psql_err, 2);
        exec 'psql', @OPTIONS, '-f', '-' or POSIX::_exit(127);
    }
    CORE::close $_ for $psql_in, $psql_out, $psql_err, $tell;
    waitpid $pid, 0;
    chomp(my $psql = readline($told) // die "no psql\n");
    my $s = { in => $in, out => $out, err => $err, file => $file,
        pid => $psql };
    weaken($live{$self} = $self);

    local $SIG{PIPE} = 'IGNORE';
    my $mark = 'mark-' . ++$n;
    syswrite $in,
        "select pg_backend_pid();\n\\echo $mark\n\\warn $mark\n";
    my ($code, @got) = heard($s, $mark, $end);
    if ($code || $got[0] !~ /^(\d+)$/) {
        $self->{session} = $s;
        $self->close;
        return (undef, $code == 124 ? 124 : 2, @got);
    }
    @$s{qw(backend born)} = ($1, born($1));
    return $s;
}

# alive: its server process is the one that it was.  A psql that waits does not
# see its server's end, and what it is asked then would not be done.
sub alive {
    my ($s) = @_;

    # (nothing is to be read now but a farewell)
    return 0 if IO::Select->new($s->{out}, $s->{err})->can_read(0);
    my $born = born($s->{backend});
    return defined $born && $born eq ($s->{born} // '');
}

# When a process began, in the kernel's own clock's ticks
sub born {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/stat" or return undef;
    my $text = readline($fh) // return undef;
    return $text =~ /.*\) [^ZX] (?:\S+ ){18}(\d+)/s ? $1 : undef;
}

# close: ends the session; the next text opens another.
sub close {
    my ($self) = @_;

    my $s = delete $self->{session} or return;
    return if $self->{owner} != $$;
    delete $live{$self};
    kill 'TERM', $s->{pid};
    CORE::close $s->{$_} for qw(in out err);
    unlink $s->{file};
}

sub write_to {
    my ($path, $text) = @_;

    open my $fh, '>:raw', $path or die "$path: $!";
    print $fh $text;
    CORE::close $fh or die "$path: $!";
}

sub read_from {
    my ($path) = @_;

    open my $fh, '<:raw', $path or return '';
    local $/;
    return scalar(<$fh>) // '';
}

sub DESTROY {
    my ($self) = @_;

    local ($?, $!, $@);
    $self->close;
}

END {
    local $?;
    $_->close for grep { $_ && $_->{owner} == $$ } values %live;
}

1;
