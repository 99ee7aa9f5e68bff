# Work keys that are held: the backend grants for how long repeats of a work,
# each under an idempotency key of its own, get the job of the first one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Interlock::Nginx;
use Test::More;
use Time::HiRes qw(sleep time);

my $gate = 'interlock zone=z; interlock_kind k; interlock_source s;'
    . 'interlock_work_key w $http_x_work; fastcgi_pass backend;';
my $keyed = "$gate interlock_idempotency_key \$http_x_id;";

my $t = Interlock::Nginx->new(workers => 2,
    http => 'interlock_zone zone=z:1m; interlock_zone zone=other:1m;'
        . "log_format d '\$interlock_decision \$interlock_job_id';",
    server => <<"END",
        access_log logs/access.log d;
        interlock_tenant demo;
        location /in { $keyed }
        location /verified { $keyed
            interlock_verify token secret=secrets/t header=X-Token; }
        location /optional { $gate
            interlock_idempotency_key \$http_x_id optional; }
        location /plain { $gate }
        location /dry { $keyed interlock_dry_run on; }
        location /v1/ { fastcgi_pass backend; }
        location = /status { interlock_status; }
END
    answer => sub {
        my ($self, $p) = @_;
        my %do = map { my ($k, $v) = split /=/, $_, 2; ($k => $v // 1) }
            split /,/, $p->{HTTP_X_DO} // '';
        return [200, ['Content-Type' => 'application/json',
            'Interlock-Work-Done' => $do{over}], '{}'] if $do{over};
        my $code = $do{status} // 202;
        my $job = $do{job} // job(int rand 1e9);
        my $decision = $do{decision} // 'accepted';
        my $active = $do{active} ? $do{active} : '-';
        my $has = 1 + ($active ne '-' ? 2 : 0);
        return [$code, ['Content-Type' => 'application/json',
            'Interlock-Decision' => $decision,
            $do{answer} ? () : ('Interlock-Answer' => join ';', 1, $code,
                $decision, 'queued', $do{reason} // '-', $has, $job, $active,
                '-'),
            'Interlock-Done-For' => $do{done} // 600,
            $do{epoch} ? ('Interlock-Epoch' => $do{epoch}) : (),
            $do{grant} ? ('Interlock-Hold' => $do{grant}) : ()],
            qq({"job_id":"$job"})];
    });
$t->secret(t => "s3cret\n");
$t->start;

sub job { sprintf '01980000-0000-7000-8000-%012x', $_[0] }

my $n = 0;

# post(path, work, do, {id, body, headers}): each with a key of its own
sub post {
    my ($path, $work, $do, $opt) = @_;
    return $t->http(POST => $path, { body => $opt->{body} // '{}',
        headers => [ 'X-Id' => $opt->{id} // 'id' . ++$n, 'X-Work' => $work,
            'X-Do' => $do // '', @{ $opt->{headers} // [] } ] });
}

# What the backend says when a job ends: see il_hold_ended().
sub work_done {
    my ($work, $job, $tenant) = @_;
    my $key = "w:$work";
    $t->write_file('part', join '', map { pack('Q<', length) . $_ }
        $tenant // 'demo', $key);
    my ($hash) = `b2sum -l 256 '@{[ $t->dir ]}/part'` =~ /^([0-9a-f]{64}) /
        or die 'b2sum';
    return $t->http(POST => '/v1/done', { body => '{}',
        headers => [ 'X-Do' => "over=$hash;$job" ] });
}

sub header { return Interlock::Nginx::header(@_) }
sub held { my ($res) = @_; return $res->{status} == 200
    && ($res->{json}{reason} // '') eq 'same_work' }


# the same work again, under another key

my $first = post('/in', 'a', 'grant=1000,job=' . job(1));
is($first->{status}, 202, 'the first one');
is(header($first, 'interlock-hold'), undef, 'the grant is for nginx alone');
is($t->status->{held}, 1, 'a work key is held');

my $second = post('/in', 'a', '', { id => 'mine' });
is($second->{status}, 200, 'the second one');
is(header($second, 'interlock-decision'), 'skipped', 'is skipped');
is(header($second, 'idempotency-replayed'), undef, 'and is no replay');
is(header($second, 'location'), undef, 'nor has it made a job');
is_deeply($second->{json}, { decision => 'skipped', reason => 'same_work',
    job_id => job(1), active_job_id => job(1), status => 'queued', kind => 'k',
    work_key => 'w:a', status_url => '/v1/jobs/' . job(1) },
    'its answer is the job of the first');
is(scalar $t->seen, 1, 'the backend saw one');
is($t->status('/in')->{decisions}{coalesced}, 1, 'counted as coalesced');
$t->wait_for(sub { $t->slurp('logs/access.log') =~ /^skipped \Q@{[job(1)]}\E$/m },
    5, 'the variables to say so');

my $again = post('/in', 'a', '', { id => 'mine' });
is($again->{body}, $second->{body}, 'its own key has the same answer');
is($again->{status}, 200, 'with the same code');
is(header($again, 'interlock-decision'), 'duplicate', 'as a duplicate');
is(header($again, 'idempotency-replayed'), 'true', 'that is replayed');

# What differs goes to the backend, and does not end the hold.
for my $case (
    [ 'another content', { body => '{"x":1}' } ],
    [ 'somebody else', { headers => [ Authorization => 'Bearer b' ] } ],
    [ 'another browser', { headers => [ Cookie => 's=2' ] } ],
) {
    my ($what, $opt) = @$case;
    my $seen = $t->seen;
    ok(!held(post('/in', 'a', 'decision=skipped,status=200,reason=work_active',
        $opt)), "$what: not held");
    is($t->seen, $seen + 1, "$what: the backend decides");
}
ok(!held(post('/in', 'a?b', '')), 'another work key is another work');
ok(held(post('/in', 'a')), 'the first one still is held');

# a key that is known comes first
my $seen = $t->seen;
post('/in', 'known', 'decision=completed,status=200', { id => 'known' });
post('/in', 'known', 'grant=1000');
is(post('/in', 'known', '', { id => 'known' })->{json}{decision}, 'completed',
    'a known key has its own answer, not that of the work');
is($t->seen, $seen + 2, 'without the backend');


# the end of it

$t->wait_for(sub { !held(post('/in', 'a')) }, 3, 'the hold to end');
pass('it ends by time');

my $begun = time;
post('/in', 'long', 'grant=60000');
ok(held(post('/in', 'long')), 'a grant of a minute');
$t->wait_for(sub { !held(post('/in', 'long')) }, 5, 'the hold to end');
cmp_ok(time - $begun, '<', 2.5, 'is one of two seconds');

post('/in', 'b', 'grant=2000,job=' . job(2));
work_done('b', job(3));
work_done('b', job(2), 'another');
ok(held(post('/in', 'b')), 'another job ends: still held');
my $done = work_done('b', job(2));
is(header($done, 'interlock-work-done'), undef,
    'the end is for nginx alone');
ok(!held(post('/in', 'b')), 'this one ends: not held any more');

post('/in', 'c', 'grant=2000,job=' . job(4) . ',active=' . job(5)
    . ',decision=buffered');
is(post('/in', 'c')->{json}{active_job_id}, job(5),
    'one that waits for another');
work_done('c', job(5));
ok(!held(post('/in', 'c')), 'ends with the other, too: it is active itself');

# the end overtakes the answer to the submission
my $c = $t->connect;
$c->request(POST => '/in', { body => '{}', close => 1, headers => [
    'X-Id' => 'late', 'X-Work' => 'd', 'X-Do' => 'grant=2000,job=' . job(6),
    'X-Backend' => 'hold=late' ] });
$seen = $t->seen;
$t->wait_for(sub { $t->status->{in_flight} == 1 }, 5, 'it to be under way');
work_done('d', job(6));
$t->let_go('late');
is($c->response->{status}, 202, 'an answer that comes after the end');
ok(!held(post('/in', 'd', 'grant=2000,job=' . job(7))), 'holds nothing');
ok(held(post('/in', 'd')), 'but the next job does');

# another job of the work, of whose repeats the backend wants to hear
post('/in', 'e', 'grant=2000');
post('/in', 'e', '', { body => '{"other":1}' });
ok(!held(post('/in', 'e')), 'an answer with a new job and no grant ends it');
post('/in', 'e2', 'grant=2000,job=' . job(8));
post('/in', 'e2', 'grant=2000,job=' . job(9), { body => '{"other":1}' });
is(post('/in', 'e2', '', { body => '{"other":1}' })->{json}{job_id}, job(9),
    'an answer with a grant takes its place');
ok(!held(post('/in', 'e2')), 'and the content before is not held');

post('/in', 'f', 'grant=2000,epoch=one');
ok(held(post('/in', 'f')), 'held');
post('/in', 'g', 'epoch=two');
ok(!held(post('/in', 'f')), 'not after a new epoch');


# where it is not granted

for my $do ('grant=0', 'grant=x', 'grant=-1', 'grant=1e3',
    'grant=1000,answer=no', 'grant=1000,status=500',
    'grant=99999999999999999999') {
    post('/in', "no $do", $do);
    ok(!held(post('/in', "no $do")), "$do: nothing is held");
}
for my $bad ('x', 'a' x 101, ('0' x 64) . ':' . job(1), 'g' x 64 . ';' . job(1),
    '0' x 64 . ';' . 'x' x 36) {
    $t->http(POST => '/v1/done', { body => '{}',
        headers => [ 'X-Do' => "over=$bad" ] });
    like($t->error_log, qr/invalid header "Interlock-Work-Done: \Q$bad\E"/,
        'a bad end is logged');
}

# what was skipped is skipped again, for the same reason
post('/in', 'h', 'grant=1000,decision=skipped,status=200,reason=work_active,'
    . 'job=' . job(10) . ',active=' . job(11));
my $res = post('/in', 'h');
is("@{$res->{json}}{qw(decision reason job_id active_job_id)}",
    "skipped work_active @{[ job(10) ]} @{[ job(11) ]}",
    'a skipped one: the same answer again');


# who asks, and under which key

my @token = (headers => [ 'X-Token' => 's3cret' ]);
post('/verified', 'i', 'grant=1000', { @token });
ok(held(post('/verified', 'i', '', { headers => [ 'X-Token' => 's3cret',
    Authorization => 'x' ] })), 'verified: for all who are');
ok(!held(post('/in', 'i')), 'not for those who are not');
is(post('/verified', 'i', '', { headers => [ 'X-Token' => 'bad' ] })
    ->{status}, 401, 'a forged one is refused as ever');

$seen = $t->seen;
post('/optional', 'j', 'grant=1000', { id => '' });
ok(held(post('/optional', 'j', '', { id => '' })),
    'without idempotency keys: held');
ok(held(post('/optional', 'j')), 'with one: held');
is($t->seen, $seen + 1, 'the backend saw one');
post('/plain', 'k', 'grant=1000');
ok(held(post('/plain', 'k')), 'in a location that knows no keys: held');

# dry run
post('/dry', 'l', 'grant=1000');
ok(!held(post('/dry', 'l')), 'dry run: it passes');
like($t->error_log, qr/dry run, the request is skipped, its work is under way/,
    'and is logged');
is($t->status('/dry')->{decisions}{dry_run}, 1, 'and counted');


# a key is not remembered for longer than the backend said for the first one

post('/in', 'm', 'grant=1000,done=1');
$begun = time;
post('/in', 'm', '', { id => 'short' });
is(header(post('/in', 'm', '', { id => 'short' }), 'interlock-decision'),
    'duplicate', 'remembered');
$t->wait_for(sub { header(post('/in', 'm', '', { id => 'short' }),
    'interlock-decision') eq 'accepted' }, 5, 'it to be forgotten');
pass('for as long as the first');

# Locations add up.
for my $l (@{ $t->status->{locations} }) {
    my $sum = 0;
    $sum += $_ for values %{ $l->{decisions} };
    is($sum, $l->{requests}, "$l->{location}: the counters add up");
}

$t->wait_for(sub { post('/in', rand); $t->status->{held} == 0 }, 5,
    'ended holds to be removed');
pass('what ended is removed');

$t->finish;
done_testing();
