#!/usr/bin/perl

# The hardening that the build promises is in the files that it makes.

use strict;
use warnings;

use FindBin;
use Test::More;

my $build = $ENV{INTERLOCK_BUILD} // "$FindBin::Bin/../../build";
plan skip_all => 'a sanitizer build is not hardened' if $build =~ /san\b/;
my $module = "$build/ngx_http_interlock_module.so";

sub readelf {
    my @args = @_;
    open my $fh, '-|', 'readelf', '-W', @args or die "readelf: $!";
    local $/;
    return scalar <$fh>;
}

for my $file ("$build/interlockd", "$build/interlock", $module) {
    my ($name) = $file =~ m{([^/]+)$};
    ok(-f $file, "$name is built") or next;
    my $segments = readelf('-l', $file);
    my $dynamic = readelf('-d', $file);
    my $symbols = readelf('--dyn-syms', $file);

    like(readelf('-h', $file), qr/Type:\s+DYN/, "$name: position independent");
    like($dynamic, qr/FLAGS_1.*PIE/, "$name: PIE") if $file ne $module;
    like($segments, qr/GNU_RELRO/, "$name: relro");
    like($dynamic, qr/BIND_NOW|FLAGS.*NOW/, "$name: bound at start");
    like($segments, qr/GNU_STACK\s+\S+\s+\S+\s+\S+\s+\S+\s+\S+\s+RW\s/,
        "$name: no executable stack");
    unlike($segments, qr/LOAD.*RWE/, "$name: nothing writable is executable");
    like($symbols, qr/__stack_chk_fail/, "$name: stack protector");
    like($symbols, qr/__\w+_chk\b/, "$name: fortified");
    unlike($dynamic, qr/RPATH|RUNPATH/, "$name: no run path");
    unlike($dynamic, qr/TEXTREL/, "$name: no text relocation");
    # (the property note is lost to Debian's startup files, which have none)
    cmp_ok(scalar(() = qx{objdump -d '$file'} =~ /\bendbr64\b/g), '>', 100,
        "$name: marks where jumps may land") if qx{uname -m} =~ /x86_64/;
    unlike(qx{strings -a '$file'}, qr{\Q$FindBin::Bin\E},
        "$name: holds no path of the tree");
}

my @exported = readelf('--dyn-syms', $module)
    =~ /(?:OBJECT|FUNC)\s+GLOBAL\s+\S+\s+\d+\s+(\S+)/g;
is_deeply([ sort @exported ],
    [ qw(ngx_module_names ngx_module_order ngx_modules) ],
    'the module shows its table of modules and nothing else');

done_testing();
