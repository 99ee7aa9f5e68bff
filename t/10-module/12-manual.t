# The manual (ngx_module/README.md) against the module: its directives with
# syntax, default and context, its variables, its log lines, the decisions of
# the status page.  What only one of them knows is a failure.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;

my $SOURCES = "$Interlock::Nginx::TOP/ngx_module";

sub text {
    my ($path) = @_;
    open my $f, '<', $path or die "$path: $!";
    local $/;
    return <$f>;
}

my $manual = text("$SOURCES/README.md");
my %source = map { m{([^/]+)\z} ? ($1 => text($_)) : () }
    glob "$SOURCES/*.c";

# section(NAME): what stands below "## NAME"
sub section {
    my ($name) = @_;
    my ($text) = $manual =~ /^## \Q$name\E\n(.*?)(?=^## |\z)/ms;
    return $text // BAIL_OUT("no section $name");
}

# rows(text): the cells of its tables, without their heads
sub rows {
    my ($text) = @_;
    my @rows;
    for my $table ($text =~ /((?:^\|.*\n)+)/mg) {
        my @lines = split /\n/, $table;
        push @rows, map { [ /\|\s*((?:[^|`]|`[^`]*`)*?)\s*(?=\|)/g ] }
            @lines[ 2 .. $#lines ];
    }
    return @rows;
}

sub same {
    my ($what, $has, $told) = @_;
    is(join("\n", sort @$told), join("\n", sort @$has), $what);
}


# --- directives ------------------------------------------------------------

# the table: name => { contexts, least, most }
my %table;
{
    my ($commands) = $source{'ngx_http_interlock_module.c'}
        =~ /ngx_command_t\s+\w+\[\] = \{(.*?)ngx_null_command/s;
    while ($commands =~ /ngx_string\("(\w+)"\),\s*([A-Z_0-9|\s]+),/g) {
        my ($name, %flag) = ($1, map { $_ => 1 } split /[\s|]+/, $2);
        my @n = map { /^NGX_CONF_TAKE(\d+)$/ ? split(//, $1) : () } keys %flag;
        push @n, 0 if $flag{NGX_CONF_NOARGS};
        push @n, 1 if $flag{NGX_CONF_FLAG};
        push @n, 1, 99 if $flag{NGX_CONF_1MORE};
        @n = sort { $a <=> $b } @n;
        $table{$name} = {
            contexts => join(', ', ('http') x !!$flag{NGX_HTTP_MAIN_CONF},
                ('server') x !!$flag{NGX_HTTP_SRV_CONF},
                ('location') x !!$flag{NGX_HTTP_LOC_CONF},
                ('if in location') x !!$flag{NGX_HTTP_LIF_CONF}),
            least => $n[0], most => $n[-1],
        };
    }
}
cmp_ok(scalar keys %table, '>', 15, 'the table of directives is found');

# the manual: name => { syntax, default, context }
my %told;
my $directives = section('Directives');
while ($directives =~ /^### (interlock.*)\n\n((?: {4}.*\n)+)/mg) {
    my ($names, $block) = ($1, $2);
    my ($syntax) = $block =~ /^    syntax:(.*?)^    default:/ms;
    my ($default) = $block =~ /^    default:\s*(.*)$/m;
    my ($context) = $block =~ /^    context:\s*(.*)$/m;
    for my $name (split /, /, $names) {
        my ($s) = ($syntax // '') =~ /^\s*(\Q$name\E(?:\s[^;]*)?;)/m;
        ok($s && defined $default && defined $context,
            "$name: syntax, default, context");
        $told{$name} = { syntax => $s // '', default => $default // '',
            context => $context // '' };
    }
}
same('the manual has the directives of the table', [ keys %table ],
    [ keys %told ]);

# count(syntax): how many arguments it has, at least and at most
sub count {
    my ($syntax) = @_;

    my ($args) = $syntax =~ /^\S+?(?:\s+(.*))?;\z/s;
    my ($least, $most) = (99, 0);
    for my $way (top_level($args // '')) {
        my ($must, $may) = (0, 0);
        while ($way =~ /(\[(?:[^\[\]]|\[[^\]]*\])*\])|(\S+)/g) {
            my ($optional, $word) = ($1, $2);
            if (($optional // $word) =~ /\.\.\./) {
                $may = 99;
            } elsif (defined $optional) {
                $may++;
            } else {
                $must++;
                $may++;
            }
        }
        $least = $must if $must < $least;
        $most = $may if $may > $most;
    }
    return ($least, $most < 99 ? $most : 99);
}

# top_level(text): its alternatives that are not inside of brackets
sub top_level {
    my ($text) = @_;
    my ($depth, @ways) = (0, '');
    for my $c (split //, $text) {
        $depth += $c eq '[' ? 1 : $c eq ']' ? -1 : 0;
        if ($c eq '|' && !$depth) {
            push @ways, '';
        } else {
            $ways[-1] .= $c;
        }
    }
    return @ways;
}

is(join(' ', count('x a [b] [c ...];')), '1 99', 'arguments are counted');
is(join(' ', count('x [a | b];')), '0 1', 'optional ones');

for my $name (sort keys %table) {
    my $m = $told{$name} or next;
    my ($least, $most) = count($m->{syntax});

    # (zones and verifications have named arguments, some of them needed)
    $least = 1 if $table{$name}{most} == 99;
    is("$least to " . ($m->{syntax} =~ /=/ && $table{$name}{most} == 99 ? 99
        : $most), "$table{$name}{least} to $table{$name}{most}",
        "$name: number of arguments");
    is($m->{context}, $table{$name}{contexts}, "$name: context");
    like($m->{default}, qr/^(?:-|\Q$name\E [^;]+;|first with .*)$/,
        "$name: default");
}

# nginx itself: where it takes a directive, how many arguments, the default
my $t = Interlock::Nginx->new;
$t->secret(github => "s3cret\n");

my %place = (
    main => [ 'main', '%' ], events => [ 'events', '' ],
    http => [ 'http', '%' ], server => [ 'server', '%' ],
    location => [ 'server', "location /in {\n%\n}" ],
    'if in location' => [ 'server',
        "location /in {\nif (\$arg_x) {\n%\n}\n}" ],
);

# conf(PLACE, text): what nginx -t says, and the line where the text stands
sub conf {
    my ($where, $line) = @_;

    my ($level, $text) = @{ $place{$where} };
    $text =~ s/%/$line/;
    local @$t{qw(main http server events)} = ('') x 4;
    $t->{$level} = $text;

    my $conf = $t->conf_text;
    $conf =~ s/^events \{/events {\n$line\n/m if $where eq 'events';
    my ($code, $said) = $t->test_config($conf);
    my @lines = split /\n/, $conf;
    my ($n) = grep { index($lines[$_ - 1], $line) >= 0 } 1 .. @lines;
    return ($code, $said, $n);
}

for my $name (sort keys %table) {
    my $m = $told{$name} or next;
    my $args = ' x' x ($table{$name}{least} || 1);

    for my $where (sort keys %place) {
        my (undef, $said, $n) = conf($where, "$name$args;");
        my $no = $said =~
            /"\Q$name\E" directive is not allowed here in \S+:(\d+)$/m;
        my $line = $1;
        my $may = grep { $_ eq $where } split /, /, $m->{context};
        is($no ? 0 : 1, $may ? 1 : 0, "$name: in $where") or diag($said);
        is($line, $n, "$name: not in $where, with the line") if $no;
    }

    my ($where) = reverse split /, /, $m->{context};
    for my $count ($table{$name}{least} - 1, $table{$name}{most} + 1) {
        next if $count < 0 || $count > 99;
        my ($code, $said, $n) = conf($where, $name . ' x' x $count . ';');
        isnt($code, 0, "$name: $count arguments");
        my $text = qq(invalid number of arguments in "$name" directive in);
        like($said, qr/\Q$text\E \S+:$n$/m, "$name: $count, with the line");
    }

    if ($m->{default} =~ /^\Q$name\E /) {
        my ($code, $said) = conf($where, $m->{default});
        is($code, 0, "$name: the default can be written") or diag($said);
    }
}


# --- variables -------------------------------------------------------------

my @variables = map { map { "\$$_" } /ngx_string\("(interlock_\w+)"\), NULL,/g }
    values %source;
cmp_ok(scalar @variables, '>', 20, 'the tables of variables are found');
same('the manual has the variables of the tables', \@variables,
    [ map { $_->[0] =~ /`(\$interlock_\w+)`/g } rows(section('Variables')) ]);


# --- log lines -------------------------------------------------------------

# What a message looks like in the log: a pattern for the manual's line.
my %call = (ngx_open_file_n => 'open()', ngx_close_file_n => 'close()',
    ngx_read_file_n => 'pread()', ngx_read_fd_n => 'read()',
    ngx_open_dir_n => 'opendir()', ngx_close_dir_n => 'closedir()',
    ngx_fd_info_n => 'fstat()');

my @messages;           # [ file, level, format, pattern ]
for my $file (sort keys %source) {
    while ($source{$file} =~ /\bngx_(conf_)?log_error\(\s*(\w+),(.*?)\);\n/sg) {
        my ($conf, $level, $rest) = ($1, $2, $3);
        $level = $level eq 'level' ? 'warn' : lc($level =~ s/^NGX_LOG_//r);
        $level = 'error' if $level eq 'err';

        # what ends nginx's start is found with the directive
        next if $conf && $level eq 'emerg';

        $rest =~ s/\b(ngx_\w+_n)\b/'"' . ($call{$1} \/\/ $1) . '"'/ge;
        my ($format) = $rest =~ /((?:"(?:[^"\\]|\\.)*"\s*)+)/s
            or BAIL_OUT("a message of $file");
        $format = join '', map { s/\\(.)/$1/gr }
            $format =~ /"((?:[^"\\]|\\.)*)"/sg;
        my $pattern = join '.+', map { quotemeta } split
            /%(?:\*s|[0-9]*[a-zA-Z]+?(?=[^a-zA-Z]|\z)|ui|uz|uL)/, $format, -1;
        push @messages, [ $file, $level, $format, qr/^$pattern$/ ];
    }
}
cmp_ok(scalar @messages, '>', 20, 'messages are found');

my @lines = map { my ($level, $line) = @$_;
    map { [ $level, $_ ] } $line =~ /`([^`]+)`/g } rows(section('Log lines'));
cmp_ok(scalar @lines, '>', 20, 'lines of the manual are found');

for my $m (@messages) {
    my ($file, $level, $format, $pattern) = @$m;
    my @hit = grep { $_->[1] =~ $pattern } @lines;
    ok(scalar @hit, "$file: told: $format");
    ok(scalar(grep { $_->[0] eq $level } @hit), "$file: $level: $format")
        or diag("in the manual: @{ $_ }") for grep { $_ } $hit[0];
}
for my $line (@lines) {
    my ($level, $text) = @$line;
    ok(scalar(grep { $_->[1] eq $level && $text =~ $_->[3] } @messages),
        "exists: $level: $text");
}


# --- the status page -------------------------------------------------------

$t->{http} = 'interlock_zone zone=z:1m;';
$t->{server} = 'interlock_tenant demo; interlock_source s;'
    . ' location /in { interlock zone=z; fastcgi_pass backend;'
    . ' interlock_idempotency_key $http_x_id; }'
    . ' location = /status { interlock_status; }';
$t->start;
my $status = section('Status');
same('the manual has the decisions of the status page',
    [ keys %{ $t->status('/in')->{decisions} } ],
    [ map { $_->[0] =~ /`(\w+)`/g } rows($status) ]);
ok($status =~ /`\Q$_\E`/, "the manual has the zone's $_")
    for grep { $_ !~ /^(?:zone|name|locations)$/ } sort keys %{ $t->status };

$t->finish;
done_testing();
