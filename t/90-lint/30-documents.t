#!/usr/bin/perl

# What documents name is there: the files of links, and the tests that are said
# to show something (a name without a directory is beside the one before it).

use strict;
use warnings;

use FindBin;
use File::Basename qw(dirname);
use Test::More;

my $top = "$FindBin::Bin/../..";
my @docs = grep { -f "$top/$_" } split /\0/,
    qx(cd "$top" && git ls-files -z '*.md' 2>/dev/null);
plan skip_all => 'not a git checkout' unless @docs;

my $seen = 0;
for my $doc (@docs) {
    open my $fh, '<', "$top/$doc" or die "$doc: $!";
    my $text = do { local $/; <$fh> };
    my (@gone, $beside);

    while ($text =~ /`([^`\s]+\.(?:t|c|md|sql|yaml))`|\]\(([^)\s#]+)/g) {
        my ($name, $link) = ($1, $2);
        next if ($name // $link) =~ /[*{<]|:\/\//;
        $seen++;
        if (defined $link) {
            push @gone, $link unless -e "$top/" . dirname($doc) . "/$link";
        } elsif ($name =~ m{/}) {
            push @gone, $name unless -e "$top/$name"
                || -e "$top/" . dirname($doc) . "/$name";
            $beside = dirname($name);
        } elsif ($name =~ /\.t$/ && defined $beside) {
            push @gone, "$beside/$name" unless -e "$top/$beside/$name";
        }
    }
    is("@gone", '', "$doc names what is there");
}
cmp_ok($seen, '>', 50, "$seen names were looked up");

done_testing();
