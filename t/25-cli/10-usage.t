# Every command: help, bad usage, a man page, completion.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Test::More;

use Interlock::Test;

my $top = $Interlock::Test::TOP;
my $interlock = ($ENV{INTERLOCK_BUILD} // "$top/build") . '/interlock';
$interlock = "$top/$interlock" unless $interlock =~ m{^/};

# Nothing of the caller's environment may reach a server.
my $env = { INTERLOCK_URL => 'http://127.0.0.1:1', INTERLOCK_TOKEN_FILE => '',
    INTERLOCK_DSN_FILE => '' };

sub cli { Interlock::Test::run([ $interlock, @_ ], env => $env) }

my ($code, $out, $err) = cli('--help');
is($code, 0, '--help');
my @commands = $out =~ /^  ([a-z-]+(?: [a-z]+)?) +/mg;
cmp_ok(scalar @commands, '>=', 18, scalar(@commands) . ' commands');
ok((grep { $_ eq 'work' } @commands), 'work is one');

is((cli('--version'))[0], 0, '--version');
like((cli('--version'))[1], qr/^interlock \d+\.\d+/, 'says it');

for my $args ([], ['--json'], ['nonsense'], ['token'], ['token', 'nonsense'],
    ['keys'], ['--nonsense', 'job', 'x'], ['--url'])
{
    my ($c, $o, $e) = cli(@$args);
    is($c, 64, "interlock @$args: bad usage");
    is($o, '', 'nothing on standard output');
    isnt($e, '', 'and a word about it');
}

is((cli('keys', '--help'))[0], 0, 'help for the first word of two');
like((cli('keys', '--help'))[1], qr/keys init.*keys list/s, 'lists them');

my $completion = Interlock::Test::slurp(
    "$top/fcgi/etc/interlock.bash-completion") // '';

for my $command (@commands) {
    my @words = split / /, $command;
    my ($c, $o, $e) = cli(@words, '--help');

    is($c, 0, "$command --help");
    is($e, '', 'without a word on standard error');
    like($o, qr/\Ausage: interlock \Q$command\E\b/, 'begins with its usage');
    cmp_ok((sort { $b <=> $a } map { length } split /\n/, $o)[0], '<=', 80,
        'in 80 columns');
    like($o, qr/^  --json /m, 'has --json');

    ($c, $o, $e) = cli(@words, '--no-such-option');
    is($c, 64, "$command: unknown option");
    like($e, qr/--no-such-option/, 'names it');
    is(() = $e =~ /\n/g, 1, 'in one line');
    is((cli(@words, '--json=1'))[0], 64, "$command: value for a flag");
    is((cli(@words, ('x') x 70))[0], 64, "$command: too many arguments");

    my $page = "$top/fcgi/man/interlock-$words[0].1";
    my $text = Interlock::Test::slurp($page);
    ok(defined $text, "$command has a man page") or next;

    my ($help) = (cli(@words, '--help'))[1];
    my @options = $help =~ /^  (--[a-z-]+)/mg;
    for my $option (@options) {
        (my $roff = $option) =~ s/-/\\-/g;
        ok(index($text, $roff) >= 0, "interlock-$words[0](1) has $option");
    }
    ok($completion =~ /\b$words[-1]\b/, "completion knows $command");
}

# pages are free of warnings, and name nothing that is not there

for my $page (glob("$top/fcgi/man/*.[158]")) {
    my ($name) = $page =~ m{([^/]+)$};
    my ($mc, $mo, $me) = Interlock::Test::run([ 'man', '--warnings',
        '-E', 'UTF-8', '-l', '-Tutf8', '-Z', $page ],
        env => { MANWIDTH => 80, LC_ALL => 'C.UTF-8' });
    is("$mc $me", '0 ', "man --warnings $name");

    my $text = Interlock::Test::slurp($page);
    while ($text =~ /^\.BR (interlock[a-z.\\-]*) "? ?\(([158])\)/mg) {
        (my $file = "$1.$2") =~ s/\\//g;
        ok(-f "$top/fcgi/man/$file", "$name: see also $file");
    }
}

for my $page (qw(interlock.1 interlockd.8 interlockd.conf.5)) {
    ok(-f "$top/fcgi/man/$page", $page);
}

# completion, as bash calls it

sub complete {
    my (@line) = @_;

    my $words = join ' ', map { my $w = $_; $w =~ s/'/'\\''/g; "'$w'" } @line;
    my ($bc, $bo, $be) = Interlock::Test::run([ 'bash', '--norc', '-c',
        ". '$top/fcgi/etc/interlock.bash-completion'; COMP_WORDS=($words);"
        . " COMP_CWORD=$#line; _interlock; printf '%s\n' \"\${COMPREPLY[@]}\"" ]);
    is($be, '', "completion of @line: no word on standard error");
    return [ split /\n/, $bo ];
}

is_deeply(complete($interlock, 'ver'), [ 'verify' ], 'a command');
is_deeply(complete($interlock, 'token', 'c'), [ 'create' ], 'its second word');
is_deeply(complete($interlock, '--url', 'x', 'keys', 'ro'), [ 'rotate' ],
    'behind an option');
is_deeply(complete($interlock, 'work', '--conc'), [ '--concurrency' ],
    'an option');
is_deeply(complete($interlock, 'token', 'create', '--ro'), [ '--role' ],
    'an option of a command of two words');
is_deeply(complete($interlock, 'gaps', 'list', '--state', 'op'), [ 'open' ],
    'a state of gaps');
is_deeply(complete($interlock, 'effect', 'list', '--state', 'un'),
    [ 'unknown' ], 'a state of effects');
is_deeply(complete($interlock, 'decide', 'x', '--action', 're'),
    [ 'retry', 'release' ], 'a decision');
is_deeply(complete($interlock, 'token', 'create', '--role', 'au'),
    [ 'auditor' ], 'a value');

# bad usage that is the command's own

for my $args (
    [ qw(ticket) ], [ qw(ticket --kind k) ],
    [ qw(ticket --kind k --key a --seconds 0) ],
    [ qw(submit) ], [ qw(submit --kind k) ], [ qw(submit --key a:b) ],
    [ qw(submit --kind k --key a:b --version x) ],
    [ qw(submit --kind k --key a:b --wait=0) ],
    [ qw(job) ], [ qw(job nonsense) ],
    [ qw(job 01a228ad-2d74-7e92-b90e-1356e44be0ea --wait -1) ],
    [ qw(job 01a228ad-2d74-7e92-b90e-1356e44be0ea --wait) ],
    [ qw(job 01a228ad-2d74-7e92-b90e-1356e44be0ea) ],
    [ qw(result) ], [ 'result', 'a b' ], [ qw(result a::b) ],
    [ qw(result a:b --revision 0) ], [ qw(show) ],
    [ qw(work) ], [ qw(work --kind k) ], [ qw(work --kind k --) ],
    [ qw(work -- true) ], [ qw(work --kind k --concurrency 0 -- true) ],
    [ qw(work --kind k --concurrency 257 -- true) ],
    [ qw(work --kind k --once --concurrency 2 -- true) ],
    [ qw(work --kind k -- true) ],
    [ qw(verify) ], [ qw(verify --scheme github) ],
    [ qw(verify --scheme nonsense --secret-file /dev/null) ],
    [ qw(verify --scheme github --secret-file /dev/null nonsense) ],
    [ qw(verify --scheme github --secret-file /dev/null secret=x) ],
    [ qw(verify --scheme github --secret-file /dev/null --header nonsense) ],
    [ qw(kind get) ], [ 'kind', 'get', 'No Kind' ], [ qw(kind put k) ],
    [ qw(kind get k) ],
    [ qw(cancel) ], [ qw(cancel nonsense) ], [ 'cancel', '--key', 'a b' ],
    [ qw(cancel --key a:b 01a228ad-2d74-7e92-b90e-1356e44be0ea) ],
    [ qw(limit get) ], [ 'limit', 'get', 'x' x 256 ], [ qw(limit put x) ],
    [ qw(limit put x --capacity 0) ], [ qw(limit put x --capacity 1.5) ],
    [ qw(limit put x --start-rate fast) ], [ qw(limit delete) ],
    [ qw(kind pause k) ], [ qw(kind pause --reason x) ], [ qw(kind resume k) ],
    [ 'source', 'pause', 'x' x 256, '--reason', 'x' ], [ qw(source resume s) ],
    [ qw(alert get) ], [ qw(alert put a) ], [ qw(alert delete) ],
    [ 'doctor', '--kind', 'No Kind' ],
    [ qw(submit --kind k --key a:b --priority 101) ],
    [ qw(token create) ], [ qw(token create --tenant t --name n --role r
        --out f) ], [ qw(token list) ], [ qw(token revoke --tenant t) ],
    [ qw(token revoke --tenant t x) ], [ qw(token list --tenant t) ],
    [ qw(decide) ], [ qw(decide nonsense --action retry --reason x) ],
    [ qw(decide 01a228ad-2d74-7e92-b90e-1356e44be0ea --reason x) ],
    [ qw(decide 01a228ad-2d74-7e92-b90e-1356e44be0ea --action retry) ],
    [ qw(decide 01a228ad-2d74-7e92-b90e-1356e44be0ea --action retry
        --reason), '' ],
    [ qw(decide 01a228ad-2d74-7e92-b90e-1356e44be0ea --action undo
        --reason x) ],
    [ qw(redrive --yes --reason x) ], [ qw(redrive --kind k --yes) ],
    [ qw(redrive --plan nonsense --reason x) ],
    [ qw(redrive --yes --succeeded-since --reason x) ],
    [ qw(redrive --plan 01a228ad-2d74-7e92-b90e-1356e44be0ea
         --succeeded-since --reason x) ],
    [ qw(redrive --plan 01a228ad-2d74-7e92-b90e-1356e44be0ea) ],
    [ qw(redrive --plan 01a228ad-2d74-7e92-b90e-1356e44be0ea --kind k
        --reason x) ],
    [ qw(redrive --plan 01a228ad-2d74-7e92-b90e-1356e44be0ea --yes
        --reason x) ],
    [ qw(redrive --since yesterday) ], [ qw(redrive --until 3w) ],
    [ qw(redrive --job nonsense) ], [ 'redrive', '--key', 'a b' ],
    [ qw(redrive --max 0) ], [ qw(audit) ], [ 'audit', 'a b' ],
    [ qw(audit a:b --limit 0) ], [ qw(advice) ], [ 'advice', 'No Kind' ],
    [ qw(advice k --recovery 0) ],
    [ qw(keys init) ], [ qw(keys prune d) ], [ qw(keys rotate) ], [ qw(keys list) ],
    [ qw(migrate) ],
) {
    my ($c, $o, $e) = cli(@$args);
    is($c, 64, "interlock @$args: exit code 64") or diag $e;
}

is((cli(qw(job --url ftp://x --token-file /etc/hostname
    01a228ad-2d74-7e92-b90e-1356e44be0ea)))[0], 64, 'an address of another '
    . 'kind');
is((cli(qw(job --token-file /nowhere/token
    01a228ad-2d74-7e92-b90e-1356e44be0ea)))[0], 66, 'a token file that is not '
    . 'there');

done_testing;
