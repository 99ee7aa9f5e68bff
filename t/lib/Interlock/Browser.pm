package Interlock::Browser;

# Tests in a real browser: Debian's chromium, driven by playwright-core from a
# script beside the test.
#
#     use Interlock::Browser;        # skips all if there is no browser here
#     my $i = Interlock::Test->instance;
#     Interlock::Browser->run('10-button.mjs', { instance => $i, kind => 'x' });
#
# The script imports t/60-browser/lib/browser.mjs; each of its assertions is
# one of this test's, so that what is asserted here stands beside them.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use JSON::PP ();
use POSIX ();
use Test::More ();

our $TOP = abs_path(dirname(__FILE__) . '/../../..');

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# chromium: the program, or undef
sub chromium {
    my ($path) = grep { -x } $ENV{INTERLOCK_CHROMIUM} // (),
        map { "$_/chromium" } split /:/, $ENV{PATH};
    return $path;
}

# pages: a directory for a site's own pages, and what nginx needs to serve them
# at /t/ (nginx_server of an instance), as strictly as a careful site would
sub pages {
    my $pages = tempdir('interlock-pages-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    chmod 0755, $pages or die $!;

    return ($pages, <<"END");
location /t/ {
    types { text/html html; }
    add_header Cache-Control no-store always;
    add_header Content-Security-Policy "default-src 'none'; script-src 'self'; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; require-trusted-types-for 'script'" always;
    alias "$pages/";
}
END
}

# What is missing of that which a browser test needs, in words, or nothing
sub missing {
    my @missing = grep { !-d "$TOP/t/node_modules/$_" }
        qw(playwright-core axe-core);
    return 'npm packages of t/package.json: no ' . join ', ', @missing
        if @missing;
    return 'no chromium' unless chromium();
    return;
}

sub import {
    my $missing = missing();
    Test::More::plan(skip_all => $missing) if $missing;
}

# run(SCRIPT, { instance, url, dir, dsn, tokens, env, timeout, … }): runs
# t/60-browser/SCRIPT, which finds all of the hash but env in `given`.
#
# instance   an Interlock::Test: fills url, dir, dsn (the superuser's) and
#            tokens { role => text }, unless they are given
# env        more for the script's environment
# timeout    seconds until all of it is killed (240)
#
# Its assertions become the caller's; one more says that it came to its end.
# Secrets go to it by its standard input, neither by argument nor environment.
sub run {
    my ($class, $script, $opt) = @_;

    my %given = %{ $opt // {} };
    my $env = delete $given{env} // {};
    my $timeout = delete $given{timeout} // 240;
    if (my $i = delete $given{instance}) {
        $given{url} //= $i->url;
        $given{dir} //= $i->dir;
        $given{dsn} //= $i->dsn('admin');
        $given{tokens} //= { map { m{([^/]+)$} => $i->token($1) }
            grep { -f } glob $i->dir . '/tokens/*' };
    }
    $given{chromium} = chromium();
    $given{build} = abs_path($ENV{INTERLOCK_BUILD} // "$TOP/build");

    # what browser and driver leave behind goes with this directory
    my $home = tempdir('interlock-browser-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    pipe(my $input, my $to) or die "pipe: $!";
    pipe(my $from, my $output) or die "pipe: $!";
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        setpgrp 0, 0;
        %ENV = (%ENV, TMPDIR => $home, HOME => $home,
            XDG_CONFIG_HOME => $home, XDG_CACHE_HOME => $home, %$env);
        POSIX::dup2(fileno $input, 0);
        POSIX::dup2(fileno $output, 1);
        close $_ for $to, $from;
        exec 'node', "$TOP/t/60-browser/$script" or POSIX::_exit(127);
    }
    close $_ for $input, $output;

    # whoever ends the test ends this, too
    local @SIG{qw(INT TERM HUP)} = (sub { kill 'KILL', -$pid; exit 1 }) x 3;

    my ($count, $plan) = (0, -1);
    my $in_time = eval {
        local $SIG{ALRM} = sub { die "late\n" };
        local $SIG{PIPE} = 'IGNORE';
        alarm $timeout;
        print $to $json->encode(\%given);
        close $to;
        while (my $line = <$from>) {
            chomp $line;
            if ($line =~ /^(not )?ok \d+ - (.*)/) {
                local $Test::Builder::Level = $Test::Builder::Level + 1;
                Test::More::ok(!$1, $2);
                $count++;
            } elsif ($line =~ /^1\.\.(\d+)$/) {
                $plan = $1;
            } else {
                $line =~ s/^# ?//;
                Test::More::diag($line);
            }
        }
        waitpid $pid, 0;
        alarm 0;
        1;
    };
    my $code = $?;
    # (chromium ends by itself when its driver's pipe does)
    kill 'KILL', -$pid;
    if (!$in_time) {
        waitpid $pid, 0;
        Test::More::diag("$script took more than $timeout s");
        $code = -1;
    }
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return Test::More::is("$code $plan", "0 $count", "$script to its end");
}

1;
