package Cluster;

# A private PostgreSQL cluster for the tests in this directory: in a temporary
# directory, a unix socket only, roles, migrations, functions and views loaded
# as the real owner; gone at the end.  All but the first of the same sources
# begin as a copy of what that one had made (Interlock::Template).

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp ();

use lib abs_path(dirname(__FILE__) . '/../lib');
use Interlock::Psql;
use Interlock::Template;

our $ROOT = abs_path(dirname(__FILE__) . '/../..');
my $BIN = $ENV{INTERLOCK_PG_BINDIR} // '/usr/lib/postgresql/15/bin';

# new(fsync => 'off', bare => 1): bare leaves the schema and pgTAP out.
sub new {
    my ($class, %opt) = @_;
    my $self = bless { owner_pid => $$ }, $class;

    $self->{tmp} = File::Temp->newdir('ilsql-XXXXXX', TMPDIR => 1);
    $self->{dir} = "$self->{tmp}";
    $self->_become;

    Interlock::Template::copy($opt{bare} ? 'bare' : 'schema', $self->{dir},
        $opt{bare} ? [__FILE__] : ["$ROOT/sql", __FILE__,
            glob "$ROOT/t/30-sql/helpers*.sql"],
        sub { $class->_make($_[0], %opt) });
    # (the copy's directory has got the original's mode and owner: the same)

    $self->_append(<<"CONF");
unix_socket_directories = '$self->{dir}'
fsync = @{[ $opt{fsync} // 'off' ]}
CONF
    $self->start;
    $self->_environment;
    $self->_seen unless $opt{bare};
    return $self;
}

# The unprivileged user there is, if we are root, whom initdb and postgres
# refuse; the directory is that one's.
sub _become {
    my ($self) = @_;
    $self->{as} = [];
    return if $> != 0;

    my $user = defined getpwnam('postgres') ? 'postgres' : 'nobody';
    my (undef, undef, $uid, $gid) = getpwnam($user);
    chown $uid, $gid, $self->{dir} or die "chown: $!";
    $self->{as} = ['setpriv', "--reuid=$uid", "--regid=$gid",
                   '--clear-groups'];
}

sub _environment {
    my ($self) = @_;
    $ENV{PGHOST} = $self->{dir};
    delete @ENV{qw(PGPORT PGDATABASE PGSERVICE PGOPTIONS)};
    $ENV{PGUSER} = 'admin';
}

# What the others are copies of: initialised, loaded unless bare, and stopped.
sub _make {
    my ($class, $to, %opt) = @_;
    my $self = bless { owner_pid => $$ }, $class;

    $self->{tmp} = File::Temp->newdir('ilsql-XXXXXX', TMPDIR => 1);
    $self->{dir} = "$self->{tmp}";
    $self->_become;
    $self->_sys("$BIN/initdb", '-D', "$self->{dir}/data", '-U', 'admin',
        '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync');
    $self->_append(<<"CONF");
listen_addresses = ''
unix_socket_directories = '$self->{dir}'
fsync = off
max_connections = 60
shared_buffers = 64MB
log_min_messages = warning
log_line_prefix = '%m [%p] %u '
deadlock_timeout = 200ms
CONF
    if (!$opt{bare}) {
        $self->start;
        local %ENV = %ENV;
        $self->_environment;
        $self->load;
        $self->stop('fast');
    }
    unlink "$self->{dir}/log";
    system('cp', '-a', $self->{dir}, $to) == 0 or die "cp: $?";
}

sub _append {
    my ($self, $text) = @_;
    my $file = "$self->{dir}/data/postgresql.conf";
    open my $fh, '>>', $file or die "$file: $!";
    print $fh $text;
    close $fh or die "$file: $!";
}

sub conf {
    my ($self, $text) = @_;
    $self->_append("$text\n");
}

sub _sys {
    my ($self, @cmd) = @_;
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        chdir '/';
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', "$self->{dir}.log";
        open STDERR, '>&', \*STDOUT;
        exec @{ $self->{as} }, @cmd;
        exit 127;
    }
    waitpid $pid, 0;
    return if $? == 0;
    open my $fh, '<', "$self->{dir}.log";
    die "@cmd failed:\n" . join('', <$fh>);
}

sub start {
    my ($self) = @_;
    $self->_sys("$BIN/pg_ctl", '-D', "$self->{dir}/data", '-l',
        "$self->{dir}/log", '-w', '-t', '60', 'start');
    $self->{up} = 1;
}

sub stop {
    my ($self, $mode) = @_;
    return unless $self->{up};
    $self->_sys("$BIN/pg_ctl", '-D', "$self->{dir}/data", '-w', '-m',
        $mode // 'immediate', 'stop');
    $self->{up} = 0;
}

sub log_text {
    my ($self) = @_;
    open my $fh, '<', "$self->{dir}/log" or return '';
    local $/;
    return <$fh>;
}

# Runs one psql; dies with its messages on any error.
sub psql {
    my ($self, $sql, %opt) = @_;
    my ($rc, $out, $err) = $self->try_psql($sql, %opt);
    die "psql: $err" if $rc;
    return $out;
}

# Returns (exit code, stdout, stderr); db, user, file, single as options.
sub try_psql {
    my ($self, $sql, %opt) = @_;
    if (!grep { $opt{$_} } qw(file single)) {
        my $user = $opt{user} // 'admin';
        my $db = $opt{db} // 'interlock';
        my ($rc, $out, $err) = ($self->{psql}{"$user $db"} //=
            Interlock::Psql->new({ PGHOST => $self->{dir}, PGUSER => $user,
                PGDATABASE => $db }))->run($sql // '', timeout => 86_400);
        chomp $out;
        return ($rc << 8, $out, $err);
    }

    my @cmd = ('psql', '-qXAt', '-v', 'ON_ERROR_STOP=1', '-h',
        $self->{dir}, '-U', $opt{user} // 'admin', '-d',
        $opt{db} // 'interlock');
    push @cmd, '-1' if $opt{single};
    push @cmd, '-f', $opt{file} if $opt{file};

    my $in  = File::Temp->new;
    my $out = File::Temp->new;
    my $err = File::Temp->new;
    print $in $sql // '';
    close $in;

    my $pid = fork // die "fork: $!";
    if (!$pid) {
        open STDIN,  '<', $in->filename;
        open STDOUT, '>', $out->filename;
        open STDERR, '>', $err->filename;
        exec @cmd;
        exit 127;
    }
    waitpid $pid, 0;
    my $rc = $?;
    my @text = map {
        open my $fh, '<', $_->filename;
        local $/;
        my $t = <$fh>;
        defined $t ? $t : ''
    } $out, $err;
    chomp $text[0];
    return ($rc, @text);
}

sub load {
    my ($self) = @_;
    my $sql = "$ROOT/sql";

    $self->psql(undef, db => 'postgres', file => "$sql/roles.sql");
    $self->psql('create database interlock owner interlock_owner',
        db => 'postgres');
    $self->psql('create schema tap; create extension pgtap schema tap;
        grant usage on schema tap to public');

    my @files = (sort(glob "$sql/migrations/*.sql"),
        sort(glob "$sql/functions/*.sql"), "$sql/views.sql");
    for my $f (@files) {
        $self->psql(undef, file => $f, user => 'interlock_owner',
            single => 1);
    }

    for my $f (qw(helpers helpers_effects helpers_schedules)) {
        $self->psql(undef, file => "$ROOT/t/30-sql/$f.sql");
    }

    # check.sql as a view, for tests that roll back.
    open my $fh, '<', "$sql/check.sql" or die "check.sql: $!";
    my $check = do { local $/; <$fh> };
    $self->psql("create view t.violations as\n$check");
}

# The server has been running for long: what a test lets expire is recovered
# at once.
sub _seen {
    my ($self) = @_;
    $self->psql('insert into interlock.server_seen (start, seen_at)
        values (pg_postmaster_start_time(), clock_timestamp()
                - interval \'1 hour\')');
}

# The rows of sql/check.sql, which must be none.
sub check {
    my ($self) = @_;
    return $self->psql(undef, file => "$ROOT/sql/check.sql");
}

sub DESTROY {
    my ($self) = @_;
    return if $$ != $self->{owner_pid};
    local ($?, $!, $@);
    $_->close for values %{ delete $self->{psql} // {} };
    eval { $self->stop };
    unlink "$self->{dir}.log";
}

1;
