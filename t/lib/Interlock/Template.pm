package Interlock::Template;

# Directories with a PostgreSQL cluster in them, made once and copied: what is
# made of the same sources is the same, and takes a hundredth of the work.
#
#     Interlock::Template::copy('instance', $to, \@sources, sub {
#         my ($dir) = @_; …; });      # fills $dir; called if there is no copy
#
# They stand in BUILD/template, by the name and by what they were made of (the
# sources, given as files and directories, and PostgreSQL's version); one of the
# name that nobody has copied for a day goes when another is made.  A copy has
# the original's system identifier.

use strict;
use warnings;

use Cwd qw(abs_path);
use Digest::SHA ();
use Fcntl qw(:flock);
use File::Basename qw(dirname);
use File::Find ();
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);

our $TOP = abs_path(dirname(__FILE__) . '/../../..');

sub copy {
    my ($name, $to, $sources, $make) = @_;

    my $base = ($ENV{INTERLOCK_BUILD} // "$TOP/build") . '/template';
    make_path($base, { error => \my $failed });
    # (what somebody else has built, only to be read: made for this once)
    $base = -w $base ? abs_path($base) : tempdir('interlock-template-XXXXXX',
        TMPDIR => 1, CLEANUP => 1);
    # (nobody else's files can be read)
    $name .= "-$>";
    my $from = "$base/$name." . digest(@$sources);

    open my $lock, '>>', "$base/$name.lock" or die "$base/$name.lock: $!";
    flock $lock, LOCK_SH or die "flock: $!";
    if (!-d $from) {
        flock $lock, LOCK_EX or die "flock: $!";
        if (!-d $from) {
            opendir my $dh, $base or die "$base: $!";
            remove_tree("$from.new", grep { -M > 1 } map { "$base/$_" }
                grep { /^\Q$name\E\.[0-9a-f]{32}(?:\.new)?$/ } readdir $dh);
            $make->("$from.new");
            rename "$from.new", $from or die "rename $from.new: $!";
        }
        flock $lock, LOCK_SH or die "flock: $!";
    }
    # (it may have gone while the lock was changed)
    if (!utime undef, undef, $from) {
        close $lock;
        return copy(@_);
    }

    system('cp', '-a', '--reflink=auto', '--sparse=always', "$from/.",
        "$to/") == 0 or die "cp -a $from/. $to/ failed\n";
}

# digest(PATH…): of all that is in these files and directories
sub digest {
    my @files;
    File::Find::find({ no_chdir => 1, wanted => sub {
        push @files, $_ if -f && !m{/\.[^/]*$} } }, grep { -e } @_);

    my $bin = $ENV{INTERLOCK_PG_BINDIR} // '/usr/lib/postgresql/15/bin';
    my $sha = Digest::SHA->new(256);
    $sha->add(join '|', (stat "$bin/postgres")[ 7, 9 ]);
    push @files, "$TOP/t/lib/Interlock/Template.pm";
    # (the same file may be given by more than one path)
    for my $file (sort map { abs_path($_) } @files) {
        $sha->add("$file\0");
        $sha->addfile($file);
    }
    return substr $sha->hexdigest, 0, 32;
}

1;
