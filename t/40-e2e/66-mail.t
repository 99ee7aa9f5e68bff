#!/usr/bin/perl

# The mail sample, with a real SMTP server: a worker that is killed before the
# mail is sent, or after, and what a human says then.  One mail each.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Temp qw(tempdir);
use JSON::PP ();
use Test::More;

use Interlock::Test;

my $TOP = $Interlock::Test::TOP;
my $sample = "$TOP/fcgi/etc/samples/mail";
my $dir = tempdir('interlock-mail-XXXXXX', TMPDIR => 1, CLEANUP => 1);
my $i = Interlock::Test->instance(conf => 'recover_interval = 100ms');

# A real server, which keeps what it accepts.
my $smtp = fork() // die $!;
if (!$smtp) {
    exec "$TOP/t/lib/smtp-server", $dir or POSIX::_exit(127);
}
END { local $?; kill 'KILL', $smtp if $smtp }
$i->wait_for(sub { -e "$dir/port" }, 20, 'the SMTP server (python3-aiosmtpd)');
my $port = Interlock::Test::slurp("$dir/port");

sub mails {
    my ($subject) = @_;

    return grep { $_->{subject} eq $subject }
        map { JSON::PP::decode_json($_) }
        split /\n/, Interlock::Test::slurp("$dir/mails") // '';
}

# What stands in for /usr/sbin/sendmail: hands the message to the server, and
# hangs before or after that when told to.
Interlock::Test::spew("$dir/sendmail", <<"END");
#!/bin/sh
mode=\$(cat $dir/mode)
[ "\$mode" != before ] || { touch $dir/hangs; exec sleep 60; }
curl -sS --url smtp://127.0.0.1:$port --mail-from shop\@example.com \\
    --mail-rcpt ann\@example.com --upload-file - || exit
[ "\$mode" != after ] || { touch $dir/hangs; exec sleep 60; }
END
chmod 0755, "$dir/sendmail";

for ([ 'kind', 'kind.json' ], [ 'effect-kind', 'effect-kind.json' ]) {
    my $put = $i->cli({ token => 'operator' }, $_->[0], 'put', 'mail', "$sample/$_->[1]");
    is($put->{code}, 0, "$_->[0] put mail") or diag($put->{err});
}
# as the sample, but sooner
is($i->cli({ token => 'operator', stdin => '{"lease_seconds":4}' }, 'kind', 'put', 'mail', '-')
    ->{code}, 0, 'a short lease');
is($i->cli({ token => 'operator', stdin => '{"send_deadline":2}' }, 'effect-kind', 'put', 'mail',
    '-')->{code}, 0, 'a short send deadline');

my @work = ('work', '--kind', 'mail', '--once', '--', "$sample/worker");
my %env = (SENDMAIL => "$dir/sendmail", MAIL_FROM => 'shop@example.com',
    INTERLOCK => "$i->{build}/interlock");

sub ask {
    my ($key) = @_;

    my $res = $i->http(POST => '/v1/jobs', { token => 'submit', body => { kind => 'mail',
        work_key => $key, payload => { to => 'ann@example.com', subject => $key,
            text => "Hello.\n" } } });
    is($res->{status}, 202, "$key: asked for");
    return $res->{json}{job_id};
}

sub mode { Interlock::Test::spew("$dir/mode", $_[0]) }
sub job { $i->http(GET => "/v1/jobs/$_[0]", { token => 'auditor' })->{json} }

sub work {
    my $ran = $i->cli({ token => 'worker', env => \%env }, @work);
    is($ran->{code}, 0, 'a worker') or diag($ran->{err});
}

# The worker is killed where the mail hangs; its effect, once a human's.
sub killed {
    my ($mode, $key, $id) = @_;

    mode($mode);
    unlink "$dir/hangs";
    my $pid = $i->spawn_cli({ token => 'worker', env => \%env }, @work);
    $i->wait_for(sub { -e "$dir/hangs" }, 20, 'the mail to hang');
    kill 'KILL', $pid;
    mode('');
    my $effect = $i->wait_for(sub {
        my $res = $i->http(GET => '/v1/effects?state=needs_human&work_key=' . $key,
            { token => 'auditor' });
        $res->{json}{items}[0];
    }, 30, 'the effect to be a human\'s');
    $i->wait_for(sub { job($id)->{status} ne 'running' }, 30, 'its owner to be missed');
    return $effect->{effect_id};
}

# Nothing happens: sent and delivered.
mode('');
my $id = ask('mail:plain');
work();
is(scalar(mails('mail:plain')), 1, 'one mail');
is(job($id)->{status}, 'succeeded', 'succeeded');
is(job($id)->{delivery}, 'delivered', 'and delivered');

# Its Message-ID is made from the effect's key.
my ($effect) = @{ $i->http(GET => '/v1/effects?work_key=mail:plain', { token => 'auditor' })
    ->{json}{items} };
my ($mail) = mails('mail:plain');
like($mail->{message_id}, qr/^<\Q$effect->{effect_id}\E.*\@example\.com>$/,
    'its Message-ID leads to the effect');

for my $case ([ before => 'send_again', 0 ], [ after => 'happened', 1 ]) {
    my ($mode, $outcome, $sent) = @$case;
    my $key = "mail:$mode";

    $id = ask($key);
    my $effect_id = killed($mode, $key, $id);
    is(scalar(mails($key)), $sent, "killed $mode the send: $sent mails");
    is(job($id)->{status}, 'checking', 'the job waits');
    is(job($id)->{delivery}, 'pending', 'not known to be delivered');

    my $told = $i->cli({ token => 'operator' }, 'effect', 'resolve', $effect_id, '--outcome',
        $outcome, '--requested-by', 'ann', '--reason', "looked into the log, $mode");
    is($told->{code}, 0, $outcome) or diag($told->{err});
    work();
    my $job = job($id);
    is($job->{status}, 'succeeded', 'the job succeeds');
    is($job->{delivery}, 'delivered', 'and is delivered');
    is(scalar(mails($key)), 1, 'one mail');

    my $audit = $i->http(GET => "/v1/audit?work_key=$key", { token => 'auditor' })->{json};
    is(scalar(@{ $audit->{final}{confirmed_effects} }), 1, 'the audit: confirmed');
    is_deeply($audit->{final}{open}, [], 'nothing is open');
    my $text = JSON::PP->new->canonical->encode($audit->{timeline});
    like($text, qr/looked into the log, $mode/, 'why');
    like($text, qr/"requested_by":"ann"/, 'and who said so');
}

$i->check_sql;

done_testing;
