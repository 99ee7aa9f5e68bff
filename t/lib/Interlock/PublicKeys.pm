package Interlock::PublicKeys;

# Signs as SendGrid, PayPal and Amazon SNS do, with keys and certificates of
# its own making:
#
#     my $ca = Interlock::PublicKeys->new($dir);
#     $ca->cert('leaf', names => ['sns.amazonaws.com']);
#     my $sig = $ca->sign('leaf', $text, 'sha1');       # base64
#
# Files in the directory: ca.pem, and NAME.pem, NAME.key for each certificate.

use strict;
use warnings;

use JSON::PP ();
use MIME::Base64 qw(encode_base64);
use POSIX qw(strftime);

sub new {
    my ($class, $dir) = @_;

    mkdir $dir or die "$dir: $!";
    my $self = bless { dir => $dir, n => 0 }, $class;
    $self->cert('ca', cn => 'interlock test CA', ca => 1);
    return $self;
}

sub file { "$_[0]{dir}/$_[1]" }

sub text {
    my ($self, $name) = @_;
    open my $fh, '<', $self->file($name) or die "$name: $!";
    local $/;
    return <$fh>;
}

sub write {
    my ($self, $name, @text) = @_;
    open my $fh, '>', $self->file($name) or die "$name: $!";
    print $fh @text;
    close $fh or die "$name: $!";
}

sub _run {
    my ($self, @args) = @_;
    my $pid = fork() // die "fork: $!";
    if (!$pid) {
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', $self->file('openssl.log');
        exec 'openssl', @args or POSIX::_exit(127);
    }
    waitpid($pid, 0);
    die "openssl @args:\n" . $self->text('openssl.log') if $?;
}

# cert(NAME, names => [DNS names], cn, by => NAME of the issuer (ca), ca => 1,
#     days => [from, to] of now, bits, aia => URL of its issuer)
sub cert {
    my ($self, $name, %o) = @_;

    my $by = $o{by} // 'ca';
    my @dns = map { "DNS:$_" } @{ $o{names} // [] };
    my $cn = $o{cn} // ($o{names} // [])->[0] // $name;
    my ($from, $to) = map { strftime('%Y%m%d%H%M%SZ',
        gmtime(time + $_ * 86400)) } @{ $o{days} // [ -1, 30 ] };

    $self->write("$name.cnf", map { "$_\n" } '[x]',
        'basicConstraints=critical,CA:' . ($o{ca} ? 'TRUE' : 'FALSE'),
        'subjectKeyIdentifier=hash',
        @dns ? 'subjectAltName=' . join(',', @dns) : (),
        $o{aia} ? "authorityInfoAccess=caIssuers;URI:$o{aia}" : (),
        '[ca]', 'default_ca=d', '[d]', "database=$self->{dir}/$name.index",
        "new_certs_dir=$self->{dir}",
        "serial=$self->{dir}/$name.serial", 'default_md=' . ($o{md} // 'sha256'),
        'policy=p', 'unique_subject=no', '[p]', 'commonName=supplied');
    $self->write("$name.index", '');
    $self->write("$name.serial", sprintf("%04x\n", 0x1000 + $self->{n}++));

    $self->_run('req', '-new', '-newkey', 'rsa:' . ($o{bits} // 2048),
        '-nodes', '-subj', "/CN=$cn", '-keyout', $self->file("$name.key"),
        '-out', $self->file("$name.csr"));
    $self->_run('ca', '-batch', '-config', $self->file("$name.cnf"),
        '-extensions', 'x', '-notext',
        $by eq $name ? '-selfsign' : ('-cert', $self->file("$by.pem")),
        '-keyfile', $self->file("$by.key"),
        '-startdate', $from, '-enddate', $to,
        '-in', $self->file("$name.csr"), '-out', $self->file("$name.pem"));
    return $self->text("$name.pem");
}

# sign(KEY, text, digest): base64 in one line; KEY is a name, or a path
sub sign {
    my ($self, $key, $text, $md) = @_;

    $self->write('text', $text);
    $self->_run('dgst', '-' . ($md // 'sha256'), '-sign',
        $key =~ m{/} ? $key : $self->file("$key.key"),
        '-out', $self->file('signature'), $self->file('text'));
    return encode_base64($self->text('signature'), '');
}

sub crc32 {
    my ($text) = @_;
    my $c = 0xffffffff;
    for my $byte (unpack 'C*', $text) {
        $c ^= $byte;
        $c = $c & 1 ? ($c >> 1) ^ 0xedb88320 : $c >> 1 for 1 .. 8;
    }
    return $c ^ 0xffffffff;
}

# paypal(KEY, webhook id, certificate's URL, body, %other): the headers
sub paypal {
    my ($self, $key, $id, $url, $body, %o) = @_;

    my %h = (
        'paypal-transmission-id' => $o{id} // '69cd13f0-d67a-11e5-baa3-778b53f4ae55',
        'paypal-transmission-time' => strftime('%Y-%m-%dT%H:%M:%SZ',
            gmtime($o{at} // time)),
        'paypal-cert-url' => $url,
        'paypal-auth-algo' => 'SHA256withRSA',
    );
    $h{'paypal-transmission-sig'} = $self->sign($key, join '|',
        @h{'paypal-transmission-id', 'paypal-transmission-time'}, $id,
        crc32($body));
    return \%h;
}

# sns(KEY, \%fields): the body of a message, signed; SignatureVersion 1 unless
# given
sub sns {
    my ($self, $key, $fields) = @_;

    my %f = (
        Type => 'Notification', Message => 'Hello', SignatureVersion => '1',
        Timestamp => strftime('%Y-%m-%dT%H:%M:%S.000Z', gmtime), %$fields);
    my @names = $f{Type} eq 'Notification'
        ? qw(Message MessageId Subject Timestamp TopicArn Type)
        : qw(Message MessageId SubscribeURL Timestamp Token TopicArn Type);
    my $text = join '', map { "$_\n$f{$_}\n" } grep { defined $f{$_} } @names;
    utf8::encode($text);
    $f{Signature} //= $self->sign($key, $text,
        $f{SignatureVersion} eq '2' ? 'sha256' : 'sha1');
    return JSON::PP->new->utf8->pretty->encode(\%f);
}

1;
