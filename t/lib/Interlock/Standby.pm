package Interlock::Standby;

# Holds every COMMIT at the point at which it is durable here and waits for a
# standby, which there is none of: whoever asked for it has no answer yet.
#
#     my $s = Interlock::Standby->new($i);
#     $s->hold;       # returns when commits wait
#     …
#     $s->release;
#
# The setting is the server's and outlives it: release by a new one after the
# server was killed.

use strict;
use warnings;

use Time::HiRes qw(sleep time);

use Interlock::Session;

sub new {
    my ($class, $i) = @_;

    my ($db, $probe) = map { Interlock::Session->new($i->dsn('admin')) } 1, 2;
    return bless { db => $db, probe => $probe }, $class;
}

sub set {
    my ($self, $name) = @_;

    $self->{db}->do("alter system set synchronous_standby_names = '$name'");
    $self->{db}->do('select pg_reload_conf()');
}

# The checkpointer tells all others: so it is known when a commit waits.
sub hold {
    my ($self) = @_;

    my ($db, $probe) = @$self{qw(db probe)};
    $probe->do('create table if not exists public.standby_probe (n int)');
    $self->set('nobody');
    my $end = time + 10;
    while (time < $end) {
        $probe->send('insert into public.standby_probe values (1)');
        until ($probe->answered) {
            if (($db->do('select count(*) from pg_stat_activity where pid = '
                . $probe->backend . " and wait_event = 'SyncRep'"))[0][0])
            {
                $self->{held} = 1;
                return;
            }
        }
        $probe->answer;
        sleep(0.005);
    }
    die "commits do not wait for a standby\n";
}

sub release {
    my ($self) = @_;

    $self->set('');
    $self->{probe}->answer if delete $self->{held};
}

1;
