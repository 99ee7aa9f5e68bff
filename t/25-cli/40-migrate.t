# interlock migrate: order, records, crashes, two at once; interlock token.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use File::Copy qw(copy);
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

use Interlock::Test;

my $i = Interlock::Test->instance;
my $top = $Interlock::Test::TOP;
my $tmp = tempdir(CLEANUP => 1);
my $databases = 0;
my ($dsn_file, $db);

# An empty database of the instance's cluster, and a file that names it.
sub database {
    $db = 'migrate_' . ++$databases;
    $i->psql("create database $db owner interlock_owner");
    (my $dsn = $i->dsn('owner')) =~ s/dbname=\S+/dbname=$db/;
    Interlock::Test::spew($dsn_file = "$tmp/dsn.$databases", "$dsn\n");
}

sub query {
    my ($sql) = @_;

    (my $dsn = $i->dsn('admin')) =~ s/dbname=\S+/dbname=$db/;
    my ($code, $out, $err) = Interlock::Test::run([ 'psql', '-XAtq', '-v',
        'ON_ERROR_STOP=1', '-d', $dsn, '-c', $sql ]);
    chomp $out;
    return $code ? "error: $err" : $out;
}

sub migrate { $i->cli('migrate', '--dsn-file', $dsn_file, @_) }

# A directory with SQL of our own.
my $sql = "$tmp/sql";
mkdir $_ for $sql, "$sql/migrations", "$sql/functions";

sub file {
    my ($name, $text) = @_;

    Interlock::Test::spew("$sql/$name", $text);
}

file('migrations/001_first.sql', 'create schema interlock;'
    . ' create table interlock.a (x int);');
file('migrations/002_second.sql', 'alter table interlock.a add y int;'
    . ' select pg_sleep(0.3);');
file('functions/f.sql', 'create or replace function interlock.f() returns int'
    . ' language sql as $$ select 1 $$;');
file('views.sql', 'create or replace view interlock.v as'
    . ' select interlock.f() as one;');

# nothing there yet

database();
my $r = migrate('--sql-dir', $sql, '--status');
is($r->{code}, 1, '--status: something is pending');
is(() = $r->{out} =~ /^pending/mg, 4, 'all of it');
$r = migrate('--sql-dir', $sql, '--dry-run');
is($r->{code}, 0, '--dry-run');
is(() = $r->{out} =~ /^pending/mg, 4, 'would do all of it');
is(query('select count(*) from pg_namespace where nspname = \'interlock\''), 0,
    'and did nothing');

# once, and again

$r = migrate('--sql-dir', $sql);
is($r->{code}, 0, 'migrate') or diag $r->{err};
like($r->{out}, qr/001_first.*002_second.*functions and views/s, 'in order');
is(query('select string_agg(id || name, \' \' order by id)'
    . ' from interlock.migrations'),
    '1migrations/001_first.sql 2migrations/002_second.sql', 'and on record');
is(query('select one from interlock.v'), 1, 'functions and views are there');
$r = migrate('--sql-dir', $sql);
is("$r->{code}$r->{out}", '0', 'again: nothing to do');
is(migrate('--sql-dir', $sql, '--status')->{code}, 0, '--status: 0');
$r = migrate('--sql-dir', $sql, '--status', '--json');
is_deeply([ map { $_->{state} } @{ $r->{json}{items} } ], [ ('applied') x 4 ],
    '--status --json');

# changes

file('functions/f.sql', 'create or replace function interlock.f() returns int'
    . ' language sql as $$ select 2 $$;');
is(migrate('--sql-dir', $sql, '--status')->{code}, 1, 'a changed function');
is(migrate('--sql-dir', $sql)->{code}, 0, 'is applied');
is(query('select one from interlock.v'), 2, 'and counts');

file('functions/g.sql', 'create or replace function interlock.g() returns int'
    . ' language sql as $$ select 3 $$;');
migrate('--sql-dir', $sql);
unlink "$sql/functions/g.sql";
is(migrate('--sql-dir', $sql, '--status')->{code}, 1,
    'a function whose file is gone');
migrate('--sql-dir', $sql);
is(query('select count(*) from interlock.sources'), 2, 'is forgotten');

# failures leave nothing behind, and are mended by the next run

file('migrations/003_bad.sql', 'create table interlock.b (x int);'
    . ' select 1 / 0;');
$r = migrate('--sql-dir', $sql);
isnt($r->{code}, 0, 'a migration that fails');
like($r->{err}, qr/003_bad\.sql: division by zero/, 'says which, and why');
is(query('select to_regclass(\'interlock.b\') is null'), 't',
    'and leaves nothing');
file('migrations/003_bad.sql', 'create table interlock.b (x int);');
is(migrate('--sql-dir', $sql)->{code}, 0, 'mended');

file('views.sql', 'create or replace view interlock.v as select 1 / 0 as one,'
    . ' nonsense;');
isnt(migrate('--sql-dir', $sql)->{code}, 0, 'a view that fails');
is(query('select one from interlock.v'), 2, 'the old one stands');
file('views.sql', 'create or replace view interlock.v as'
    . ' select interlock.f() as one;');

# forward only

file('migrations/002_second.sql', '-- something else');
$r = migrate('--sql-dir', $sql);
is($r->{code}, 78, 'a migration that was changed after it was applied');
like($r->{err}, qr/002_second\.sql.*forward only/, 'is refused');
unlink "$sql/migrations/002_second.sql";
$r = migrate('--sql-dir', $sql);
is($r->{code}, 78, 'a database that is newer than the files');
file('migrations/x.sql', '');
is(migrate('--sql-dir', $sql)->{code}, 78, 'a file without a number');
is(migrate('--sql-dir', "$tmp/nowhere")->{code}, 66, 'no directory');

# the real schema, by five at once; then each has nothing to do

database();
{
    my @pids = map {
        $i->spawn_cli({ out => "$tmp/race.$_" }, 'migrate', '--dsn-file',
            $dsn_file, '--sql-dir', "$top/sql")
    } 1 .. 5;
    my @codes = map { waitpid $_, 0; $? >> 8 } @pids;
    is_deeply(\@codes, [ (0) x 5 ], 'five at once');
    my $said = join '', map { Interlock::Test::slurp("$tmp/race.$_") } 1 .. 5;
    is(() = $said =~ /001_initial/g, 1, 'one of them applied the migration');
    is(() = $said =~ /functions and views/g, 1, 'one of them the functions');
    is(migrate('--status')->{code}, 0, 'the files beside the program, too');
}

# killed in the middle: the next run goes on

database();
file('migrations/001_first.sql', 'create schema interlock;');
unlink "$sql/migrations/$_" for qw(x.sql 003_bad.sql);
file('migrations/002_slow.sql', 'create table interlock.slow (x int);'
    . ' select pg_sleep(60);');
{
    my $pid = $i->spawn_cli('migrate', '--dsn-file', $dsn_file, '--sql-dir',
        $sql);
    $i->wait_for(sub { query("select count(*) from pg_stat_activity where"
        . " datname = '$db' and query like '%pg_sleep(60)%'"
        . " and pid <> pg_backend_pid() and wait_event = 'PgSleep'") eq '1' },
        10, 'the slow one');
    kill 'KILL', $pid;
    waitpid $pid, 0;
    $i->psql("select pg_terminate_backend(pid) from pg_stat_activity"
        . " where datname = '$db'");
    is(query('select string_agg(id::text, \',\') from interlock.migrations'),
        '1', 'killed in the second: the first is on record');
    file('migrations/002_slow.sql', 'create table interlock.slow (x int);');
    is(migrate('--sql-dir', $sql)->{code}, 0, 'the next run does the rest');
}

# a string that leads nowhere, one that is not the owner's

Interlock::Test::spew("$tmp/dsn.no", "host=$tmp dbname=x\n");
is($i->cli('migrate', '--dsn-file', "$tmp/dsn.no")->{code}, 69,
    'no database there');
Interlock::Test::spew("$tmp/dsn.service", $i->dsn('service') . "\n");
is($i->cli('migrate', '--dsn-file', "$tmp/dsn.service")->{code}, 77,
    'not the owner');

# --- tokens ----------------------------------------------------------------

my @owner = ('--dsn-file', $i->dir . '/dsn', '--tenant', 'demo');

umask 0;
$r = $i->cli('token', 'create', @owner, '--name', 'deploy', '--role', 'submit',
    '--out', "$tmp/token", '--json');
is($r->{code}, 0, 'token create') or diag $r->{err};
my $id = $r->{json}{id};
my $token = Interlock::Test::slurp("$tmp/token");
is(sprintf('%04o', (stat "$tmp/token")[2] & 07777), '0600', 'a private file');
like($token, qr/\Ailk_[\w-]{43}\n\z/, 'one line');
chomp $token;
ok(index("$r->{out}$r->{err}", $token) < 0, 'not shown');
my ($dump) = $i->psql('select * from interlock.api_tokens');
ok(index($dump, $token) < 0, 'not in the database');

my $job = '/v1/jobs/00000000-0000-0000-0000-000000000000';
sub known {
    $i->http(GET => $job, { headers => { Authorization => "Bearer $token" } })
        ->{status};
}
is(known(), 404, 'the server knows it');

$r = $i->cli('token', 'create', @owner, '--name', 'x', '--role', 'submit',
    '--out', "$tmp/token");
is($r->{code}, 73, 'no file is replaced');
is(Interlock::Test::slurp("$tmp/token"), "$token\n", 'none at all');

$r = $i->cli('token', 'list', @owner, '--json');
is($r->{code}, 0, 'token list');
my ($row) = grep { $_->{id} == $id } @{ $r->{json}{items} };
is("$row->{name} $row->{role}", 'deploy submit', 'has it');
is($row->{revoked_at}, undef, 'alive');

is($i->cli('token', 'revoke', @owner, $id)->{code}, 0, 'token revoke');
$i->wait_for(sub { known() == 401 }, 30, 'the server to know');
pass('the server refuses it');
is($i->cli('token', 'revoke', @owner, $id)->{code}, 1, 'revoked before');
is($i->cli('token', 'revoke', @owner, 999999)->{code}, 1, 'never there');
is($i->cli('token', 'list', @owner[ 0, 1 ], '--tenant', 'nobody')->{code}, 66,
    'no such tenant');

$r = $i->cli('token', 'create', @owner, '--name', 'y', '--role', 'auditor',
    '--out', '-');
is($r->{code}, 0, '--out -');
like($r->{out}, qr/\Ailk_[\w-]{43}\n\z/, 'to standard output');

$r = $i->cli('token', 'create', @owner[ 0, 1 ], '--tenant', 'second', '--name',
    'a', '--role', 'submit', '--out', "$tmp/second");
is($r->{code}, 0, 'a new tenant is made');
is($i->psql("select count(*) from interlock.tenants where name = 'second'"), 1,
    'once');

done_testing;
