#!/usr/bin/perl

# What a reader may rely on in every file: no tabs, no trailing blanks, lines
# and files of bounded length, one file for each outside library, none of the
# C functions that write without a bound.

use strict;
use warnings;

use Cwd qw(abs_path);
use FindBin;
use Test::More;

my $top = abs_path("$FindBin::Bin/../..");
chdir $top or die $!;

my @c = glob 'common/*.[ch] ngx_module/*.[ch] fcgi/*.[ch] fcgi/cli/*.[ch]'
    . ' t/*/*.[ch]';
my @sql = glob 'sql/*.sql sql/*/*.sql';
my @shell = ('configure', '.ci/run', glob 't/run t/sanitize t/fuzz/run'
    . ' fcgi/etc/instance fcgi/etc/instance.d/*.sh fcgi/etc/bring'
    . ' fcgi/etc/build-module fcgi/etc/samples/*/worker');
my @perl = glob 't/*/*.t t/*/*.pm t/*/*/*.pm';
@c = grep { -e } @c;
@shell = grep { -e } @shell;
cmp_ok(scalar @c, '>', 20, scalar(@c) . ' C files');

sub lines {
    my ($file) = @_;
    open my $fh, '<', $file or die "$file: $!";
    my @lines = <$fh>;
    return @lines;
}

my (%users, @found);

sub bad { push @found, join ':', @_ }

sub none {
    my ($what) = @_;
    is(scalar @found, 0, $what) or diag(map { "$_\n" } @found);
    @found = ();
}

# Text

for my $file (@c, @sql, @shell, @perl) {
    my $n = 0;
    for (lines($file)) {
        $n++;
        bad($file, $n, 'tab') if /\t/;
        bad($file, $n, 'trailing blank') if /[ \t\r]$/;
        bad($file, $n, 'no newline at the end') unless /\n\z/;
        bad($file, $n, 'longer than 100')
            if length > 101 && $file =~ /\.[ch]$/;
    }
    # (a migration that was applied once cannot be taken apart any more)
    bad($file, "$n lines")
        if $n > ($file =~ m{^t/|^sql/migrations/} ? 800 : 700);
}
none('no tab, no trailing blank, no line over 100 in C, no file over 700');

# C

for my $file (@c) {
    my $n = 0;
    for (lines($file)) {
        $n++;
        push @{ $users{$1} }, $file if /^\s*#\s*include\s*[<"]([^>"]+)/;
        bad($file, $n, $1) if /\b(strcpy|strcat|sprintf|vsprintf|gets|strtok
            |stpcpy|alloca|system|popen|atoi|atol|tmpnam|mktemp)\s*\(/x;
        bad($file, $n, 'a // comment') if m{^\s*//};
    }
}
none('no unbounded copy, no shell, no // comment');

is_deeply([ grep { !m{^t/} } @{ $users{'fcgiapp.h'} // [] } ],
    [ grep { !m{^t/} } ($users{'fcgiapp.h'} // [])->[0] // () ],
    'one file includes fcgiapp.h');
my %pq = map { $_ => 1 } grep { !m{^t/} } @{ $users{'libpq-fe.h'} // [] };
is(scalar keys %pq, 1, 'one file includes libpq-fe.h')
    or diag(join ' ', sort keys %pq);

# Layers: common knows neither nginx nor PostgreSQL, the module no database

for my $header (grep { /libpq|fcgi|ngx_|curl/ } keys %users) {
    bad($_, $header) for grep { m{^common/} } @{ $users{$header} };
}
for my $header (grep { /libpq|fcgiapp|curl/ } keys %users) {
    bad($_, $header) for grep { m{^ngx_module/} } @{ $users{$header} };
}
none('the layers know what they may');

# A function of 80 lines is held in the head; some table or parser may be a
# little longer.

for my $file (grep { /\.c$/ } @c) {
    my ($n, $start) = (0, 0);
    for (lines($file)) {
        $n++;
        $start = $n if /^\{/;
        bad($file, $start, $n - $start . ' lines')
            if /^\}$/ && $start && $n - $start > 110;
        $start = 0 if /^\}/;
    }
}
none('no function over 110 lines');

# Scripts

for my $file (@shell) {
    my ($first) = lines($file);
    my $shell = $first =~ /bash/ ? 'bash' : -x '/bin/dash' ? 'dash' : 'sh';
    my $out = qx{$shell -n '$file' 2>&1};
    is($?, 0, "$file is $shell") or diag($out);
}

# What is not to be told: this is read by strangers

my @all = split /\n/, qx{git ls-files 2>/dev/null};
@all = map { s{^\./}{}r } split /\n/, qx{find . -type f -not -path './build*'
    -not -path '*/node_modules/*' -not -path './.git/*' -not -path './run*'}
    =~ s/\n\s+/ /gr unless @all;
my $this = 't/90-lint/10-source.t';
for my $file (grep { $_ ne $this && -T $_ } @all) {
    my $n = 0;
    for (lines($file)) {
        $n++;
        # where this checkout happens to be, on whatever machine
        bad($file, $n, $1) if m{(\Q$top\E)} && length $top > 8;
        bad($file, $n, $1) if m{(?<![\w.\$])(/home/\w+/)};
        bad($file, $n, 'a registry address')
            if m{https?://[^\s"]*registry};
    }
}
none("no path of a developer's machine, no registry's address");

done_testing();
