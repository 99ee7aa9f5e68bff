#!/usr/bin/perl

# Durability: what ready() refuses, what the epoch follows, and that every
# writing function commits with synchronous_commit on, whatever the session
# or the role had set.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;

use Test::More;

use Cluster;

my $c = Cluster->new(fsync => 'on');

sub ready {
    return $c->psql('select * from interlock.ready()',
        user => 'interlock_service', @_);
}

my $first = ready();
like($first, qr/^t\|ready\|[0-9a-f]{16}-1\|0$/, 'ready, with its epoch');
cmp_ok(length((split /\|/, $first)[2]), '<=', 32, 'a short one');
is(ready(), $first, 'which stays');

$c->psql(q{insert into interlock.migrations values (7, 'x', '')},
    user => 'interlock_owner');
like(ready(), qr/\|7$/, 'the schema version is the last migration');

for my $guc (qw(fsync full_page_writes)) {
    $c->conf("$guc = off");
    $c->stop('fast');
    $c->start;
    like(ready(), qr/^f\|$guc is off\|/, "$guc off is refused");
    $c->conf("$guc = on");
}
$c->stop('fast');
$c->start;
like(ready(), qr/^t\|ready\|/, 'ready again');

# A standby is not ready; promoted, it has another timeline and so another
# epoch.
$c->stop('fast');
$c->_sys('touch', "$c->{dir}/data/standby.signal");
$c->conf('hot_standby = on');
$c->start;
like(ready(), qr/^f\|the database is a standby\|/, 'a standby is refused');
$c->_sys('/usr/lib/postgresql/15/bin/pg_ctl', '-D', "$c->{dir}/data", '-w',
    'promote');
my $promoted = ready();
like($promoted, qr/^t\|ready\|[0-9a-f]{16}-2\|7$/,
    'promoted: the timeline counts in the epoch at once');
is(substr($promoted, 8, 16), substr($first, 8, 16), 'the rest of it stays');

# synchronous_commit at the end of the transaction, for each writing call.
$c->psql('alter role interlock_service set synchronous_commit = off');
$c->psql('create schema if not exists probe; grant usage on schema probe
    to interlock_service');
$c->psql(q{select t.kind('free', '{"overlap":"allow"}')});

my %call = (
    submit => q{interlock.submit('{1}', '{00000000-0000-7000-8000-000000000001}',
        '{api}', '{k}', '{x}', '{reject}', '{free}', '{a:1}', '{null}',
        '{1}', '{null}', '{null}', '{null}', '{null}', '{null}', '{null}',
        '{f}', '{null}', '{null}', true)},
    claim => q{interlock.claim('{00000000-0000-7000-8000-000000000002}',
        '{1}', '{w}', '{free}', '{1}')},
    renew => q{interlock.renew('{1}', '{00000000-0000-7000-8000-000000000001}',
        '{00000000-0000-7000-8000-000000000003}', '{1}', '{null}', '{null}',
        '{null}')},
    finish => q{interlock.finish('{1}',
        '{00000000-0000-7000-8000-000000000001}',
        '{00000000-0000-7000-8000-000000000003}', '{1}', '{complete}',
        '{x}', '{null}', '{null}', '{null}', '{null}', '{null}', '{null}',
        '{null}', '{null}', '{null}')},
    unclaim => q{interlock.unclaim('{1}',
        '{00000000-0000-7000-8000-000000000003}')},
    recover => q{interlock.recover(1)},
    prune => q{interlock.prune(1)},
    kind_put => q{interlock.kind_put(1, 'k', '{}')},
    expire => q{interlock.expire(1)},
    limits_sweep => q{interlock.limits_sweep(1)},
    limit_put => q{interlock.limit_put(1, 'l', '{"capacity":1}')},
    limit_delete => q{interlock.limit_delete(1, 'l')},
    job_cancel => q{interlock.job_cancel(1,
        '00000000-0000-7000-8000-000000000001', 'a', 'b', 1, 'c')},
    work_publish => q{interlock.work_publish(1, 'a:1', 1, 'a', 'b', 1, 'c')},
    kind_delete => q{interlock.kind_delete(1, 'k')},
);

for my $name (sort keys %call) {
    my $out = $c->psql("begin; show synchronous_commit;
        select count(*) >= 0 from $call{$name}; show synchronous_commit;
        commit; show synchronous_commit;", user => 'interlock_service');
    is($out, "off\nt\non\noff",
        "$name: on until the commit, as before after it");
}

is($c->check, '', 'check.sql finds nothing');

done_testing;
