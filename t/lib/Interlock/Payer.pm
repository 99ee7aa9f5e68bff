package Interlock::Payer;

# A worker whose job is one payment: it makes the provider act, as a careful
# worker does, and completes.  Two ways: through the egress (nginx begins,
# sends and records), or by itself (begin, send, outcome over the API).
#
#     my $pid = Interlock::Payer->start(url => …, token => …, lease => …);
#     my $pid = Interlock::Payer->start(url => …, token => …, kinds => [ … ]);
#
# With a lease it works on just that; with kinds it claims until it is killed.
# The payload of such a job: { way => 'egress' or 'direct', kind, name,
# reference, provider => 'http://…' }; the egress is /out/KIND/.
#
# A call that got no answer, or a 5xx, is made again as it was.  A refused
# lease is given up.  An effect that may not be sent again yet ends the
# attempt: the job goes on when it is settled.

use strict;
use warnings;

use HTTP::Tiny;
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(sleep);

my $json = JSON::PP->new->utf8->canonical->allow_nonref;

sub start {
    my ($class, %opt) = @_;

    my $parent = $$;
    my $pid = fork() // die "fork: $!";
    return $pid if $pid;

    $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
    my $self = bless { %opt, parent => $parent,
        http => HTTP::Tiny->new(timeout => 20, max_redirect => 0) }, $class;
    my $ok = eval {
        if ($opt{lease}) {
            $self->work($opt{lease});
        } else {
            while (getppid() == $parent) {
                my $res = $self->call('/v1/leases', $opt{token}, {
                    kinds => $opt{kinds}, max => 1, wait => 1 });
                my ($l) = @{ ($res->{json} // {})->{leases} // [] };
                if ($l) { $self->work($l) } else { sleep(0.02) }
            }
        }
        1;
    };
    print STDERR "payer: $@" unless $ok;
    POSIX::_exit($ok ? 0 : 1);
}

sub post {
    my ($self, $url, $headers, $body) = @_;

    my $res = $self->{http}->request(POST => $url, { headers => {
        'content-type' => 'application/json', %$headers },
        content => $json->encode($body // {}) });
    $res->{json} = eval { $json->decode($res->{content}) };
    ($res->{problem}) = (ref $res->{json} eq 'HASH' && $res->{json}{type}
        // '') =~ m{^https://interlock\.invalid/problems/(.+)};
    $res->{problem} //= '';
    return $res;
}

sub call {
    my ($self, $path, $token, $body) = @_;

    return $self->post($self->{url} . $path,
        { authorization => "Bearer $token" }, $body);
}

my $gone = qr/^(?:lease-lost|lease-expired|fence-stale|job-canceled)$/;

sub alive { return getppid() == $_[0]{parent} }

# until(sub): its answer, once it is neither a 5xx nor none
sub until {
    my ($self, $sub) = @_;

    while ($self->alive) {
        my $res = $sub->();
        return $res if $res->{status} < 500;
        sleep(0.05);
    }
    POSIX::_exit(0);
}

sub work {
    my ($self, $l) = @_;

    my $p = $l->{payload};
    my $end = $p->{way} eq 'egress' ? $self->by_egress($l, $p)
        : $self->by_itself($l, $p);
    return if $end eq 'gone';

    my ($verb, $body) = $end eq 'paid' ? ('complete', { result => $p->{name} })
        : ('fail', { error => $end, retry_after => 0 });
    $self->until(sub { $self->call("/v1/lease/$verb", $l->{owner_token},
        $body) });
}

sub by_egress {
    my ($self, $l, $p) = @_;

    while ($self->alive) {
        my $res = $self->post("$self->{url}/out/$p->{kind}/charges", {
            'interlock-owner-token' => $l->{owner_token},
            'interlock-effect' => $p->{name} },
            { reference => $p->{reference}, amount => 5 });
        return 'paid' if $res->{success};
        return 'gone' if $res->{problem} =~ $gone;
        return 'unsettled' if $res->{problem} eq 'effect-unsettled';
        sleep(0.05);
    }
    return 'gone';
}

sub by_itself {
    my ($self, $l, $p) = @_;

    while ($self->alive) {
        my $b = $self->until(sub { $self->call('/v1/effects',
            $l->{owner_token}, { name => $p->{name}, kind => $p->{kind} }) });
        return 'gone' if $b->{problem} =~ $gone;
        my $d = ($b->{json} // {})->{decision} // '';
        return 'paid' if $d eq 'already_confirmed';
        return 'unsettled' if $d eq 'check_first' || $d eq 'needs_human';
        if ($d eq 'send') {
            $self->send_and_tell($l, $p, $b->{json});
        } else {
            sleep(0.05);
        }
    }
    return 'gone';
}

# What the provider says is told as it is: 2xx yes, a clear refusal no, and
# all else is not known.
sub send_and_tell {
    my ($self, $l, $p, $b) = @_;

    my $res = $self->post("$p->{provider}/charges",
        { 'idempotency-key' => $b->{idempotency_key} },
        { reference => $p->{reference}, amount => 5 });
    my $state = $res->{success} ? 'confirmed'
        : $res->{status} =~ /^(?:400|401|402|403|404|422)$/ ? 'failed'
        : 'unknown';
    $self->until(sub { $self->call("/v1/effects/$b->{effect_id}/outcome",
        $l->{owner_token}, { send_id => $b->{send_id}, state => $state,
            $res->{success} ? (provider_ref => $res->{json}{id}) : () }) });
}

1;
