#!/usr/bin/perl

# What browsers get: nothing there turns text into markup or into a script,
# nothing is fetched from elsewhere, nothing needs what the policy of the pages
# (Content-Security-Policy) forbids, and each script is one.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Find;
use FindBin;
use Test::More;

chdir abs_path("$FindBin::Bin/../..") or die $!;

my (@js, @html, @css, @found);
find({ no_chdir => 1, wanted => sub {
    push @js, $_ if /\.m?js$/;
    push @html, $_ if /\.html$/;
    push @css, $_ if /\.css$/;
} }, 'fcgi/www');
cmp_ok(scalar @js, '>', 20, scalar(@js) . ' scripts');

sub text {
    my ($file) = @_;
    open my $fh, '<:encoding(UTF-8)', $file or die "$file: $!";
    local $/;
    return scalar <$fh>;
}

sub none {
    my ($what) = @_;
    is(scalar @found, 0, $what) or diag(map { "$_\n" } @found);
    @found = ();
}

# find_in(\@files, what => qr/…/, …): notes where; comments do not count
sub find_in {
    my ($files, %what) = @_;
    for my $file (@$files) {
        my $text = text($file);
        $text =~ s{/\*.*?\*/}{ $& =~ s/[^\n]//gr }gse if $file !~ /html$/;
        for my $what (sort keys %what) {
            while ($text =~ /$what{$what}/g) {
                my $line = 1 + substr($text, 0, $-[0]) =~ tr/\n//;
                push @found, "$file:$line: $what";
            }
        }
    }
}

for my $file (@js, @html, @css) {
    my $n = 0;
    for (split /\n/, text($file)) {
        $n++;
        push @found, "$file:$n: tab" if /\t/;
        push @found, "$file:$n: trailing blank" if /[ \r]$/;
    }
    # (the button is one file, so that a site has one to take)
    push @found, "$file: $n lines"
        if $n > ($file =~ /interlock-button\.js$/ ? 920 : 700);
    push @found, "$file: no newline at the end" if text($file) !~ /\n\z/;
}
none('no tab, no trailing blank, no file too long');

find_in(\@js,
    'text becomes markup' => qr/\b(?:innerHTML|outerHTML|insertAdjacentHTML
        |createContextualFragment|parseFromString|setHTMLUnsafe|srcdoc\s*=)\b/x,
    'document.write' => qr/\bdocument\s*\.\s*write(?:ln)?\b/,
    'text becomes a script' => qr/\beval\s*\(|\bnew\s+Function\b
        |\bset(?:Timeout|Interval)\s*\(\s*['"`]/x,
    'a style attribute' => qr/setAttribute\(\s*['"`]style/,
    'a script that an element brings' => qr/createElement\(\s*['"`]script/,
    'something from elsewhere' => qr{(?:import|from|fetch\()\s*\(?['"`]https?:},
    'debugger' => qr/^\s*debugger\b/m);
# (the button brings its looks along: it has no file of them)
find_in([ grep { m{/ui/} } @js ],
    'an inline style' => qr/\.style\b|\bcssText\b/);
none('no script turns text into more');

# (a file of CSS stands for itself; nginx's conditions are comments)
find_in(\@html,
    'an inline script' => qr{<script(?![^>]*\ssrc=)[^>]*>}i,
    'an inline style' => qr{<style\b|\sstyle\s*=}i,
    'an inline handler' => qr{<[^>]*\son[a-z]+\s*=}i,
    'javascript:' => qr{javascript:}i,
    'something from elsewhere' =>
        qr{<(?:script|link|img|iframe)[^>]*(?:src|href)\s*=\s*["']?(?:https?:)?//}i);
none('no page has a script or a style inline, or from elsewhere');

find_in(\@css,
    'something from elsewhere' => qr{url\(\s*["']?(?!data:)|\@import}i);
none('no style brings anything');

chomp(my $node = qx{command -v node 2>/dev/null});
SKIP: {
    skip 'no node', 1 if $node eq '';
    my $check = 'const vm = require("vm"), fs = require("fs");'
        . 'for (const f of process.argv.slice(1)) { try {'
        . ' const text = fs.readFileSync(f, "utf8");'
        . ' if (/^(import|export)\b/m.test(text)) {'
        . '  new vm.SourceTextModule(text, { identifier: f });'
        . ' } else { new vm.Script(text, { filename: f }); } }'
        . ' catch (e) { console.log(f + ": " + e.stack.split("\n")[0]); } }';
    open my $out, '-|', $node, '--experimental-vm-modules', '--no-warnings',
        '-e', $check, @js or die $!;
    chomp(@found = <$out>);
    push @found, 'node failed' if !close $out;
    none('each script is one');
}

# whatever a script imports is there
for my $file (@js) {
    my ($dir) = $file =~ m{^(.*)/};
    my $text = text($file);
    while ($text =~ /\bfrom\s+'(\.[^']+)'|import\('(\.[^'\$]+)'\)/g) {
        my $path = "$dir/" . ($1 // $2);
        push @found, "$file: $path is not there" unless -e $path;
    }
}
none('and what it imports is there');

done_testing();
