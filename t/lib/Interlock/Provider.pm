package Interlock::Provider;

# A payment provider's stand-in: a small HTTP server that keeps its own record
# of what it did, so that a test can compare that with what the ledger says.
#
#     my $p = Interlock::Provider->new(port => $i->port + 1);
#     my ($i, $p) = Interlock::Provider->beside(%options_of_the_instance);
#
#     $p->next('act_drop', 429);     # what becomes of the next requests
#     … a worker posts /charges {"reference":"order-7","amount":5} …
#     $p->record;                    # what was done: each effect one hash
#     $p->done('order-7');           # how often that was done
#
# It runs as a process of its own, holds any number of requests at once, and
# ends with the test.  Any process of the test may ask and tell it.
#
# POST (or PUT) of any path is an effect, GET or HEAD of any path a look-up of
# its last segment, which may be an effect's reference, key or id: 200 with
# the effect and how often it was done, else 404.
#
# With honours => 1 (the default) a request with an `Idempotency-Key` that
# was acted on already gets the first answer again and nothing is done; the
# same key with another body gets 422, and while the first is under way 409.
# With honours => 0 the key is heard and means nothing.  remembers => 'all'
# keeps refusals under their keys too, as many providers do.

use strict;
use warnings;

use Errno qw(EAGAIN EINTR EWOULDBLOCK);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use JSON::PP ();
use POSIX ();
use Socket qw(IPPROTO_TCP SOCK_STREAM SOL_SOCKET SOMAXCONN SO_LINGER
    TCP_NODELAY);
use Time::HiRes qw(sleep time);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

# What may become of a request:
#   wait    'before' acting or 'after' it: until release()
#   act     it is done
#   status  of the answer; without act a refusal
#   answer  'whole'; 'none': the connection is closed instead; 'reset': it is
#           reset; 'cut': closed in the middle of the body
#   size    the answer's body has at least so many bytes
#   empty   it has none
#   headers { name => value } beside the usual ones
# For these there are names; a number is a refusal with that status.
our %STEPS = (
    act        => { act => 1 },
    hang       => { act => 1, wait => 'before' },
    hang_after => { act => 1, wait => 'after' },
    drop       => { answer => 'none' },
    act_drop   => { act => 1, answer => 'none' },
    act_reset  => { act => 1, answer => 'reset' },
    act_cut    => { act => 1, answer => 'cut' },
    act_202    => { act => 1, status => 202 },
    act_500    => { act => 1, status => 500 },
);


# --- the test's side -------------------------------------------------------

# new(port => N, honours => 0 or 1, remembers => 'effects' or 'all')
sub new {
    my ($class, %opt) = @_;

    my $self = bless { owner => $$, honours => $opt{honours} // 1,
        remembers => $opt{remembers} // 'effects',
        dir => tempdir('interlock-provider-XXXXXX', TMPDIR => 1) }, $class;
    my $control = IO::Socket::UNIX->new(Type => SOCK_STREAM,
        Local => "$self->{dir}/control", Listen => SOMAXCONN)
        or die "$self->{dir}/control: $!\n";
    my $listen = $opt{listen} // listen_at($opt{port} // 0)
        or die 'provider: port ' . ($opt{port} // 0) . ": $!\n";
    $self->{port} = $listen->sockport;

    $self->{pid} = fork() // die "fork: $!";
    if (!$self->{pid}) {
        $SIG{$_} = 'DEFAULT' for qw(TERM INT HUP);
        $SIG{PIPE} = 'IGNORE';
        my $parent = $self->{owner};
        eval { serve($self, $listen, $control, $parent); 1 }
            or print STDERR "provider: $@";
        POSIX::_exit(0);
    }
    return $self;
}

# beside(%opt): (instance, provider), the provider at the instance's port + 1;
# the options are the instance's, those of provider => { … } the provider's.
sub beside {
    my ($class, %opt) = @_;

    my %mine = %{ delete $opt{provider} // {} };
    for my $try (1 .. 50) {
        my $low = listen_at(0) or die "listen: $!\n";
        my $port = $low->sockport;
        my $listen = listen_at($port + 1) or next;
        close $low;
        my $self = $class->new(%mine, listen => $listen);
        require Interlock::Test;
        my $i = Interlock::Test->instance(%opt, port => $port);
        return ($i, $self) if $i->port == $port;
        $i->end;                # somebody took its port meanwhile
    }
    die "no two free ports side by side\n";
}

sub listen_at {
    my ($port) = @_;

    return IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        LocalPort => $port, Listen => SOMAXCONN, ReuseAddr => 1);
}

sub port { $_[0]{port} }
sub url  { "http://127.0.0.1:$_[0]{port}" }

# tell(what, arguments…): what the server answers
sub tell {
    my ($self, @words) = @_;

    my $sock = IO::Socket::UNIX->new(Type => SOCK_STREAM,
        Peer => "$self->{dir}/control") or die "provider is gone: $!\n";
    my $line = $json->encode(\@words) . "\n";
    syswrite($sock, $line) == length $line or die "provider: $!\n";
    my $answer = do { local $/; readline $sock };
    return $json->decode($answer)->[0];
}

sub step {
    my ($step) = @_;

    return $step if ref $step;
    return { status => $step } if $step =~ /^\d+$/;
    return $STEPS{$step} // die "no such step: $step\n";
}

# next(steps…): what becomes of the next effects asked for, in order; when
# they are used up it is `act` again.  look: the same for look-ups, of which
# `act` answers and nothing else is done.
# next_for: of the next effects with that reference, before all others.
sub next { my $s = shift; $s->tell(next => 'effect', map { step($_) } @_) }
sub next_for {
    my ($s, $reference, @steps) = @_;

    $s->tell(next => "effect $reference", map { step($_) } @steps);
}
sub look { my $s = shift; $s->tell(next => 'look', map { step($_) } @_) }

# record: what was done, in order: { n, id, reference, key, method, path,
# body, at }; with a reference, of that one.
sub record { @{ $_[0]->tell(record => $_[1]) } }

# done(reference): how often; all without one
sub done {
    my ($self, $reference) = @_;

    return scalar(my @all = $self->record($reference));
}

# heard: every request that came in whole, effects and look-ups: { n, method,
# path, headers, body, key, reference, acted, replayed, status, over }; with
# a reference, of that one.
sub heard { @{ $_[0]->tell(heard => $_[1]) } }

# waiting: those of `heard` that hang just now
sub waiting { @{ $_[0]->tell('waiting') } }

# wait_for_waiting(n, seconds): until so many hang; they
sub wait_for_waiting {
    my ($self, $n, $seconds) = @_;

    my $end = time + ($seconds // 10);
    while (1) {
        my @all = $self->waiting;
        return @all if @all >= ($n // 1);
        die "waited for $n requests to hang, there are " . @all . "\n"
            if time >= $end;
        sleep(0.01);
    }
}

# release('go' or 'drop', n): what hangs goes on, or its connection is closed
# (what hangs before acting is then not done); the first n, or all.
# release_for(reference, how): all of that reference.  How many there were.
sub release {
    my ($self, $how, $n) = @_;

    return $self->tell(release => $how // 'go', $n // 0);
}

sub release_for {
    my ($self, $reference, $how) = @_;

    return $self->tell(release => $how // 'go', 0, $reference);
}

# honours(0 or 1): from now on.  forget: every key so far (its window ended).
sub honours { $_[0]->tell(honours => $_[1]) }
sub forget  { $_[0]->tell('forget') }

# down, up: nobody can connect; what was connected is closed
sub down { $_[0]->tell('down') }
sub up   { $_[0]->tell('up') }

# reset: as if new
sub reset { $_[0]->tell('reset') }

sub DESTROY {
    my ($self) = @_;

    return unless $self->{owner} == $$ && $self->{pid};
    local ($?, $@);
    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
    remove_tree($self->{dir});
}


# --- the server's side -----------------------------------------------------

sub serve {
    my ($self, $listen, $control, $parent) = @_;

    my $s = { %$self, listen => $listen, select => IO::Select->new($listen,
        $control), conn => {}, asked => {} };
    clear($s);

    while (getppid() == $parent) {
        my @busy = map { $_->{sock} } grep { length $_->{out} }
            values %{ $s->{conn} };
        my ($r, $w) = IO::Select->select($s->{select},
            @busy ? IO::Select->new(@busy) : undef, undef, 1);
        for my $fh (@{ $r // [] }) {
            if ($fh == $control) {
                my $in = $control->accept or next;
                $s->{asked}{$in} = '';
                $s->{select}->add($in);
            } elsif ($s->{listen} && $fh == $s->{listen}) {
                my $in = $fh->accept or next;
                $in->blocking(0);
                setsockopt $in, IPPROTO_TCP, TCP_NODELAY, 1;
                $s->{conn}{$in} = { sock => $in, in => '', out => '' };
                $s->{select}->add($in);
            } elsif (exists $s->{asked}{$fh}) {
                told($s, $fh);
            } elsif ($s->{conn}{$fh}) {
                readable($s, $s->{conn}{$fh});
            }
        }
        for my $fh (@{ $w // [] }) {
            writable($s, $s->{conn}{$fh}) if $s->{conn}{$fh};
        }
    }
}

sub clear {
    my ($s) = @_;

    @$s{qw(plan record heard keys waiting)} =
        ({ effect => [], look => [] }, [], [], {}, []);
}

sub told {
    my ($s, $fh) = @_;

    my $n = sysread $fh, $s->{asked}{$fh}, 65536, length $s->{asked}{$fh};
    return if $n && $s->{asked}{$fh} !~ /\n\z/;

    my $answer = $n ? obey($s, @{ $json->decode($s->{asked}{$fh}) }) : undef;
    $s->{select}->remove($fh);
    delete $s->{asked}{$fh};
    my $text = $json->encode([ $answer ]);
    my $at = 0;
    while ($at < length $text) {
        $at += syswrite($fh, $text, length($text) - $at, $at) // last;
    }
    close $fh;
}

sub obey {
    my ($s, $what, @rest) = @_;

    if ($what eq 'next') {
        my $of = shift @rest;
        push @{ $s->{plan}{$of} }, @rest;
    } elsif ($what eq 'record' || $what eq 'heard') {
        return $s->{$what} if !defined $rest[0];
        return [ grep { ($_->{reference} // '') eq $rest[0] }
            @{ $s->{$what} } ];
    } elsif ($what eq 'waiting') {
        return [ map { $_->{heard} } @{ $s->{waiting} } ];
    } elsif ($what eq 'release') {
        my ($how, $max, $reference) = @rest;
        my (@go, @stay);
        for my $r (@{ $s->{waiting} }) {
            my $is = (!defined $reference
                || ($r->{heard}{reference} // '') eq $reference)
                && (!$max || @go < $max);
            push @{ $is ? \@go : \@stay }, $r;
        }
        $s->{waiting} = \@stay;
        go_on($s, $_, $how) for @go;
        return scalar @go;
    } elsif ($what eq 'honours') {
        $s->{honours} = $rest[0];
    } elsif ($what eq 'forget') {
        $s->{keys} = {};
    } elsif ($what eq 'down') {
        $s->{select}->remove($s->{listen});
        close delete $s->{listen};
        drop($s, $_) for values %{ $s->{conn} };
    } elsif ($what eq 'up') {
        $s->{listen} = listen_at($s->{port}) or return "$!";
        $s->{select}->add($s->{listen});
    } elsif ($what eq 'reset') {
        go_on($s, $_, 'drop') for @{ $s->{waiting} };
        clear($s);
    } else {
        die "no such word: $what\n";
    }
    return 1;
}

sub drop {
    my ($s, $c, $reset) = @_;

    delete $s->{conn}{ $c->{sock} } or return;
    $s->{select}->remove($c->{sock});
    setsockopt $c->{sock}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0) if $reset;
    close $c->{sock};
}

sub writable {
    my ($s, $c) = @_;

    my $n = syswrite $c->{sock}, $c->{out};
    if (!defined $n) {
        drop($s, $c) unless $!{EAGAIN} || $!{EINTR} || $!{EWOULDBLOCK};
        return;
    }
    substr($c->{out}, 0, $n) = '';
    drop($s, $c) if $c->{out} eq '' && $c->{last};
}

sub readable {
    my ($s, $c) = @_;

    my $n = sysread $c->{sock}, $c->{in}, 262_144, length $c->{in};
    if (!$n) {
        return if !defined $n
            && ($!{EAGAIN} || $!{EINTR} || $!{EWOULDBLOCK});
        # whoever hangs is still worked on: its client is not asked
        drop($s, $c);
        return;
    }
    # one after the other: the next waits for the answer of this one
    request($s, $c) if !$c->{busy};
}

sub request {
    my ($s, $c) = @_;

    $c->{in} =~ /\A(\S+) (\S+) HTTP\/1\.([01])\r\n(.*?)\r\n\r\n/s or return;
    my ($method, $path, $minor, $head, $at) = ($1, $2, $3, $4, $+[0]);
    my %h = map { lc($1) => $2 if /^([^:]+):\s*(.*?)\s*$/ } split /\r\n/,
        $head;
    my $body;
    if (($h{'transfer-encoding'} // '') =~ /chunked/i) {
        my $rest = substr $c->{in}, $at;
        $body = '';
        while (1) {
            $rest =~ s/\A([0-9a-fA-F]+)[^\r\n]*\r\n// or return;
            my $size = hex $1;
            return if length $rest < $size + 2;
            $body .= substr $rest, 0, $size;
            $rest = substr $rest, $size + 2;
            last if !$size;
        }
        $c->{in} = $rest;
    } else {
        my $length = $h{'content-length'} // 0;
        return if length($c->{in}) < $at + $length;
        $body = substr $c->{in}, $at, $length;
        $c->{in} = substr $c->{in}, $at + $length;
    }

    my $doc = eval { $json->decode($body) };
    my $key = $h{'idempotency-key'};
    $key =~ s/\A"(.*)"\z/$1/ if defined $key;
    $c->{busy} = 1;
    $c->{keep} = $minor ? ($h{connection} // '') !~ /close/i
        : ($h{connection} // '') =~ /keep-alive/i;
    my $heard = { n => 1 + @{ $s->{heard} }, method => $method,
        path => $path, headers => \%h, body => $body, key => $key,
        reference => ref $doc eq 'HASH' ? $doc->{reference} : undef,
        acted => 0, replayed => 0, over => 0, at => time };
    push @{ $s->{heard} }, $heard;

    my $look = $method =~ /^(?:GET|HEAD)$/;
    my $own = $s->{plan}{ 'effect ' . ($heard->{reference} // '') };
    my $plan = shift @{ $look ? $s->{plan}{look}
        : $own && @$own ? $own : $s->{plan}{effect} } // $STEPS{act};
    my $r = { conn => $c, heard => $heard, plan => $plan, look => $look };
    return go_on($s, $r, 'go') if ($plan->{wait} // '') ne 'before';
    $s->{keys}{$key} //= { busy => 1, body => $body }
        if !$look && defined $key && $s->{honours};
    $r->{held} = 1;
    push @{ $s->{waiting} }, $r;
}

# What is done about a request, from where it hung (if it did).
sub go_on {
    my ($s, $r, $how) = @_;

    my ($h, $plan) = @$r{qw(heard plan)};
    if ($how eq 'drop' && !$r->{answer}) {
        # given up before anything was done
        delete $s->{keys}{ $h->{key} // '' } if $r->{held};
    }
    if ($how eq 'drop') {
        $h->{over} = 1;
        return drop($s, $r->{conn});
    }
    if (!$r->{answer}) {
        $r->{answer} = $r->{look} ? look_up($s, $h, $plan)
            : effect($s, $r, $h, $plan);
        if (($plan->{wait} // '') eq 'after') {
            push @{ $s->{waiting} }, $r;
            return;
        }
    }
    send_answer($s, $r);
}

sub effect {
    my ($s, $r, $h, $plan) = @_;

    my $key = $s->{honours} ? $h->{key} : undef;
    my $known = defined $key ? $s->{keys}{$key} : undef;
    undef $known if $known && $known->{busy} && $r->{held};

    # a gateway's refusal comes before anything is known about keys
    if (!$plan->{act}) {
        my $refusal = { status => $plan->{status} // 500,
            doc => { error => 'refused' } };
        $s->{keys}{$key} //= { body => $h->{body}, answer => $refusal }
            if defined $key && $s->{remembers} eq 'all' && $plan->{status};
        return $refusal;
    }
    if ($known) {
        return { status => 409, doc => { error => 'in progress' } }
            if $known->{busy};
        return { status => 422, doc => { error => 'other content' } }
            if $known->{body} ne $h->{body};
        $h->{replayed} = 1;
        return $known->{answer};
    }

    my $n = 1 + @{ $s->{record} };
    my $done = { n => $n, id => "ch_$n", reference => $h->{reference},
        key => $h->{key}, method => $h->{method}, path => $h->{path},
        body => $h->{body}, at => time };
    push @{ $s->{record} }, $done;
    $h->{acted} = 1;

    my $answer = { status => $plan->{status} // 200, doc => { id => "ch_$n",
        status => 'succeeded', reference => $h->{reference} } };
    $s->{keys}{$key} = { body => $h->{body}, answer => $answer }
        if defined $key;
    return $answer;
}

sub look_up {
    my ($s, $h, $plan) = @_;

    return { status => $plan->{status}, doc => { error => 'refused' } }
        if $plan->{status};

    my ($name) = $h->{path} =~ m{([^/?]*)(?:\?.*)?$};
    $name =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
    my @found = grep { my $e = $_; grep { defined $e->{$_}
        && $e->{$_} eq $name } qw(id key reference) } @{ $s->{record} };
    return { status => 404, doc => { error => 'not found' } } unless @found;
    return { status => 200, doc => { id => $found[0]{id},
        status => 'succeeded', reference => $found[0]{reference},
        count => scalar @found } };
}

sub send_answer {
    my ($s, $r) = @_;

    my ($h, $plan, $c) = @$r{qw(heard plan conn)};
    my ($status, $doc) = @{ $r->{answer} }{qw(status doc)};
    my $how = $plan->{answer} // 'whole';
    $h->{status} = $status;
    $h->{over} = 1;
    return unless $s->{conn}{ $c->{sock} };    # its client has gone
    return drop($s, $c, $how eq 'reset') if $how eq 'none' || $how eq 'reset';

    my %body = %$doc;
    $body{pad} = 'x' x $plan->{size} if $plan->{size};
    my $body = $plan->{empty} ? '' : $json->encode(\%body);
    my %head = ('Content-Type' => 'application/json',
        'Content-Length' => length $body,
        $h->{replayed} ? ('Idempotent-Replayed' => 'true') : (),
        $status == 429 ? ('Retry-After' => 1) : (),
        %{ $plan->{headers} // {} });
    $c->{last} = 1 if !$c->{keep} || $how eq 'cut';
    $head{Connection} = $c->{last} ? 'close' : 'keep-alive';
    $body = substr $body, 0, length($body) / 2 if $how eq 'cut';
    $body = '' if $h->{method} eq 'HEAD';
    $c->{out} .= "HTTP/1.1 $status Said\r\n"
        . join('', map { "$_: $head{$_}\r\n" } sort keys %head) . "\r\n"
        . $body;
    $c->{busy} = 0;
    writable($s, $c);
    request($s, $c) if $s->{conn}{ $c->{sock} } && length $c->{in};
}

1;
