#!/usr/bin/perl

# Runs isolation/specs/*.spec with PostgreSQL's isolationtester and compares
# what each printed with isolation/expected/*.out.  To write these anew, after
# reading the difference: INTERLOCK_ACCEPT=1 perl t/30-sql/isolation.t

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Test::More;

use Cluster;

my $tester = '/usr/lib/postgresql/15/lib/pgxs/src/test/isolation/'
    . 'isolationtester';
plan skip_all => "$tester is missing (postgresql-server-dev-15)"
    unless -x $tester;

my $c = Cluster->new;
my $dir = "$FindBin::Bin/isolation";

# As interlock_service's sessions plan.
$c->psql("alter role admin set plan_cache_mode = 'force_generic_plan';
    alter role admin set jit = off");

for my $spec (@ARGV ? map { "$dir/specs/$_.spec" } @ARGV
    : sort glob "$dir/specs/*.spec") {
    my ($name) = $spec =~ m{([^/]+)\.spec$};
    my $got = `$tester 'dbname=interlock host=$c->{dir} user=admin' < $spec 2>&1`;
    is($?, 0, "$name: ran");

    my $file = "$dir/expected/$name.out";
    if ($ENV{INTERLOCK_ACCEPT}) {
        open my $fh, '>', $file or die "$file: $!";
        print $fh $got;
        close $fh;
    }

    my $want = '';
    if (open my $fh, '<', $file) {
        local $/;
        $want = <$fh>;
    }
    ok($got eq $want, "$name: as expected") or diag(difference($file, $got));
}

unlike($c->log_text, qr/deadlock detected/, 'no deadlock');

done_testing;

sub difference {
    my ($file, $got) = @_;
    my $tmp = File::Temp->new;
    print $tmp $got;
    close $tmp;
    return scalar `diff -u $file $tmp 2>&1`;
}
