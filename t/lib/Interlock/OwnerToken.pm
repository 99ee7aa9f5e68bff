package Interlock::OwnerToken;

# Owner tokens of a test's own making, for tests of the edge without a backend
# that issues them.
#
#     my $keys = Interlock::OwnerToken->new("$dir/keys");
#     my $token = $keys->token(fence => 7);
#
#     my $ticket = $keys->ticket(kind => 'k', implicit => 'another');
#
# The keys are made by `interlock keys`; PASETO v4.public is put together here
# (PAE, Ed25519 by openssl).

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use JSON::PP ();
use MIME::Base64 qw(encode_base64url);
use POSIX qw(strftime);

my $TOP = abs_path(dirname(__FILE__) . '/../../..');
my $json = JSON::PP->new->canonical;

sub new {
    my ($class, $dir) = @_;

    my $tool = abs_path($ENV{INTERLOCK_BUILD} // "$TOP/build") . '/interlock';
    system("'$tool' keys init '$dir' >/dev/null") == 0 or die "keys init\n";
    my ($line) = grep { /signs/ } `'$tool' keys list '$dir'`;
    my ($file, $pid, $public) = split ' ', $line;

    open my $f, '<', "$dir/$file" or die "$dir/$file: $!";
    chomp(my $seed = <$f>);

    # PKCS #8, RFC 8410
    my $der = pack('H*', '302e020100300506032b657004220420') . pack('H*',
        $seed);
    open my $k, '>', "$dir/pkcs8.der" or die $!;
    binmode $k;
    print $k $der;
    close $k;

    return bless { dir => $dir, pid => $pid, public => $public }, $class;
}

sub public { $_[0]{public} }

sub pae {
    return join '', pack('Q<', scalar @_), map { pack('Q<', length) . $_ } @_;
}

sub sign {
    my ($self, $text) = @_;

    my ($in, $out) = map { "$self->{dir}/sign.$$.$_" } qw(in out);
    open my $f, '>', $in or die $!;
    binmode $f;
    print $f $text;
    close $f;
    system('openssl', 'pkeyutl', '-sign', '-rawin', '-keyform', 'DER',
        '-inkey', "$self->{dir}/pkcs8.der", '-in', $in, '-out', $out) == 0
        or die "openssl pkeyutl\n";
    open $f, '<', $out or die $!;
    binmode $f;
    my $sig = do { local $/; <$f> };
    unlink $in, $out;
    return $sig;
}

# token(claim => value, …): over those of a valid one; so with tickets.  A
# claim that is undef is left out; implicit is no claim, but the implicit
# assertion.
sub token {
    my ($self, %claims) = @_;

    return $self->_issue({ sub => '01980000-0000-7000-8000-000000000001',
        jti => '01980000-0000-7000-8000-000000000002',
        tenant => 'demo', kind => 'orders', work_key => 'order:7',
        fence => 5, worker => 'w1' }, 3600, \%claims, '');
}

sub ticket {
    my ($self, %claims) = @_;

    return $self->_issue({ aud => 'button',
        jti => '01980000-0000-7000-8000-000000000003', tenant => 'demo',
        kind => 'orders', work_key => 'order:7', user => 'kim' }, 900,
        \%claims, 'interlock-ticket.v1');
}

sub _issue {
    my ($self, $common, $seconds, $more, $implicit) = @_;

    my $time = sub { strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $_[0]) };
    my %claims = (iss => 'interlock', %$common, iat => $time->(time - 5),
        exp => $time->(time - 5 + $seconds), %$more);
    $implicit = delete $claims{implicit} // $implicit;
    delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;

    my $claims = $json->encode(\%claims);
    my $footer = $json->encode({ kid => $self->{pid} });
    my $sig = $self->sign(pae('v4.public.', $claims, $footer, $implicit));
    return 'v4.public.' . encode_base64url($claims . $sig) . '.'
        . encode_base64url($footer);
}

1;
