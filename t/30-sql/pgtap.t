#!/usr/bin/perl

# Runs every tap/*.sql (pgTAP), or those that are named (prove pgtap.t :: NAME),
# in one private cluster, each in a transaction that it rolls back.  Lines that are not TAP (a set-up step's result) are
# passed over; an error ends psql and fails the test.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Test::More;

use Cluster;

my $c = Cluster->new;

my @files = @ARGV ? map { "$FindBin::Bin/tap/$_.sql" } @ARGV
    : sort glob "$FindBin::Bin/tap/*.sql";

for my $file (@files) {
    my ($name) = $file =~ m{([^/]+)\.sql$};

    subtest $name => sub {
        my ($rc, $out, $err) = $c->try_psql(undef, file => $file);
        my ($planned, $seen) = (undef, 0);

        for (split /\n/, $out) {
            if (/^(not )?ok \d+(?: - (.*))?$/) {
                $seen++;
                ok(!$1, $2 // '');
            } elsif (/^1\.\.(\d+)$/) {
                $planned = $1;
            } elsif (/^#/) {
                diag($_);
            }
        }

        is($rc, 0, 'psql ends well') or diag($err);
        is($seen, $planned, 'all of its tests ran');
    };
}

is($c->check, '', 'check.sql finds nothing');

done_testing;
