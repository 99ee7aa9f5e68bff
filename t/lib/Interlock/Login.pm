package Interlock::Login;

# Somebody who is logged in to the pages, as their browser would ask.
#
#     my $s = Interlock::Login->login($i, 'operator');
#     $s->http(POST => '/v1/kinds/free/pause', { body => { … } });

use strict;
use warnings;

use Interlock::Test;

our $FORM = 'application/x-www-form-urlencoded';

# attempt($i, token, { path, headers, type }): the answer to the login form
sub attempt {
    my ($class, $i, $token, $opt) = @_;

    $token =~ s/([^A-Za-z0-9_.-])/sprintf '%%%02X', ord $1/ge;
    return $i->http(POST => $opt->{path} // '/ui/login', {
        body => "token=$token",
        headers => { Origin => $i->url, 'Content-Type' => $FORM,
            %{ $opt->{headers} // {} } } });
}

# cookie(answer): what an answer sets, or undef
sub cookie {
    my ($res) = @_;

    return ($res->{headers}{'set-cookie'} // '')
        =~ /^interlock_session=([^;]+)/ ? $1 : undef;
}

# login($i, role or token, { headers }): dies if that is refused
sub login {
    my ($class, $i, $who, $opt) = @_;

    my $res = $class->attempt($i, $who =~ /^[a-z]+\z/ ? $i->token($who)
        : $who, $opt);
    my $cookie = cookie($res) // die "login: $res->{status} $res->{body}\n";
    return bless { i => $i, id => $cookie }, $class;
}

sub id { $_[0]{id} }

# headers(): those that a script of the pages sends with all it does
sub headers {
    my ($self) = @_;

    return (Cookie => "interlock_session=$self->{id}",
        Origin => $self->{i}->url, 'Interlock-UI' => 1);
}

# http(METHOD, path, opt): as Interlock::Test's; a header given as undef is
# left out
sub http {
    my ($self, $method, $path, $opt) = @_;

    my %h = ($self->headers, %{ $opt->{headers} // {} });
    delete @h{ grep { !defined $h{$_} } keys %h };
    return $self->{i}->http($method, $path, { %{ $opt // {} },
        headers => \%h });
}

1;
