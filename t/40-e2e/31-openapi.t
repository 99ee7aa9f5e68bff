#!/usr/bin/perl

# fcgi/openapi.yaml against the running server: every operation is called,
# well and badly, and each answer is what the document says.

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256_hex);
use FindBin;
use lib "$FindBin::Bin/../lib";
use IPC::Open2;
use JSON::PP;
use Test::More;

use Interlock::Events;
use Interlock::Load qw(github_request);
use Interlock::Test;

plan skip_all => 'the npm packages of t/package.json are not installed'
    unless -d "$FindBin::Bin/../node_modules/ajv";

my $i = Interlock::Test->instance;
my $json = JSON::PP->new->canonical->allow_nonref;
my @exchanges;

# call(METHOD, template, { path, token, body, headers })

sub call {
    my ($method, $template, $opt) = @_;

    my $path = $opt->{path} // $template;
    my $body = ref $opt->{body} ? $json->encode($opt->{body}) : $opt->{body};
    my $res = $i->http($method, $path, { %$opt, body => $body,
        headers => { defined $body ? ('content-type' => 'application/json')
            : (), %{ $opt->{headers} // {} } } });

    push @exchanges, { method => $method, path => $template,
        status => $res->{status} + 0, type => $res->{headers}{'content-type'},
        body => $res->{body}, request => $body };
    return $res->{json};
}

my $op = { token => 'operator' };
my $sub = { token => 'submit' };

# Kinds

my $kinds = '/v1/kinds/{name}';
call('PUT', $kinds, { %$op, path => '/v1/kinds/doc',
    body => { overlap => 'buffer_one', when_completed => 'return',
              lease_seconds => 20 } });
call('PUT', $kinds, { %$op, path => '/v1/kinds/doc',
    body => { overlap => 'no-such' } });
call('PUT', $kinds, { %$sub, path => '/v1/kinds/doc', body => {} });
my %lookup = (type => 'http', url => 'http://127.0.0.1:' . ($i->port + 1)
    . '/{work_key}', found => { status => [200], pointer => '/state',
        equals => ['done', 1] }, not_found => { status => [404] });
call('PUT', $kinds, { %$op, path => '/v1/kinds/looked',
    body => { on_lost => 'check', result_check => { %lookup,
        result_pointer => '', delay => 5 } } });
call('PUT', $kinds, { %$op, path => '/v1/kinds/looked',
    body => { result_check => { %lookup, url => 'http://169.254.169.254/' } } });
call('GET', $kinds, { %$op, path => '/v1/kinds/looked' });
call('GET', $kinds, { %$op, path => '/v1/kinds/doc' });
call('GET', $kinds, { %$op, path => '/v1/kinds/nosuch' });
call('GET', '/v1/kinds', $op);
call('PUT', $kinds, { %$op, path => '/v1/kinds/gone', body => {} });
call('DELETE', $kinds, { %$op, path => '/v1/kinds/gone' });
call('DELETE', $kinds, { %$op, path => '/v1/kinds/gone' });

# Submissions

my $jobs = '/v1/jobs';
my %job = (kind => 'doc', work_key => [ 'doc', 'a/b' ]);
my $accepted = call('POST', $jobs, { %$sub,
    body => { %job, payload => { n => 1 }, requested_by => 'dana',
              reason => 'the books' },
    headers => { 'idempotency-key' => '"doc-1"' } });
call('POST', $jobs, { %$sub,
    body => { %job, payload => { n => 1 }, requested_by => 'dana',
              reason => 'the books' },
    headers => { 'idempotency-key' => 'doc-1' } });
call('POST', $jobs, { %$sub, body => { %job, payload => { n => 2 } },
    headers => { 'idempotency-key' => 'doc-1' } });
call('POST', $jobs, { %$sub, body => { %job, payload => { n => 1 } } });
call('POST', $jobs, { %$sub, body => { %job, payload => { n => 3 } } });
call('POST', $jobs, { %$sub, body => { %job, nosuch => 1 } });
call('POST', $jobs, { %$sub, body => { %job, kind => 'nosuch' } });
call('POST', $jobs, { %$sub, body => { %job, kind => 'free' } });
call('POST', $jobs, { body => \%job });
call('POST', $jobs, { token => 'worker', body => \%job });

my $push = github_request($i->dir, 'doc-1', 'push',
    '{"ref":"r","repository":{"full_name":"a/b"}}');
call('POST', '/in/{source}', { path => '/in/github', body => $push->{body},
    headers => $push->{headers} });
call('POST', '/in/{source}', { path => '/in/github', body => '{}',
    headers => $push->{headers} });
for my $entry ('{"id":1},{"id":2}', '{"id":1},{"id":2}',
    '{"id":1},7,{"id":"' . 'x' x 20 . '"}', '', '{"id":3}],"entry":[')
{
    my $body = "{\"entry\":[$entry]}";
    call('POST', '/in/{source}', { path => '/in/meta', body => $body,
        headers => { 'x-hub-signature-256' => 'sha256='
            . hmac_sha256_hex($body, $i->secret('meta')) } });
}

# Buttons

my $ticket = call('POST', '/v1/tickets', { %$sub,
    body => { %job, user => 'dana', seconds => 60 } })->{ticket};
call('POST', '/v1/tickets', { %$sub, body => { %job } });
call('POST', '/v1/tickets', { %$sub,
    body => { %job, kind => 'nosuch', user => 'dana' } });
call('POST', '/v1/tickets', { %$sub,
    body => { %job, kind => 'free', user => 'dana' } });
call('POST', '/v1/tickets', { token => 'worker',
    body => { %job, user => 'dana' } });
call('POST', '/v1/tickets', { body => { %job, user => 'dana' } });

my %ticket = ('interlock-ticket' => $ticket);
my %press = (path => '/button/doc',
    headers => { %ticket, 'idempotency-key' => 'press-1' });
my $pressed = call('POST', '/button/{kind}', \%press);
call('POST', '/button/{kind}', \%press);
call('POST', '/button/{kind}', { path => '/button/doc',
    headers => { %ticket, 'idempotency-key' => 'press-1',
                 'interlock-fresh' => 1 } });
call('POST', '/button/{kind}', { path => '/button/doc',
    headers => \%ticket });
call('POST', '/button/{kind}', { path => '/button/free',
    headers => \%ticket });
call('POST', '/button/{kind}', { path => '/button/doc',
    headers => { %ticket, origin => 'https://elsewhere.example' } });
my %form = ('content-type' => 'application/x-www-form-urlencoded',
    accept => 'text/html,*/*;q=0.8');
call('POST', '/button/{kind}', { path => '/button/doc', headers => \%form,
    body => "ticket=$ticket&idempotency_key=press-1" });
call('GET', '/button/{kind}', { path => '/button/doc',
    headers => \%ticket });
call('GET', '/button/{kind}', { path => '/button/doc' });

my $button_job = '/button/jobs/{job_id}';
my $button_path = "/button/jobs/$pressed->{job_id}";
call('GET', $button_job, { path => $button_path, headers => \%ticket });
call('GET', $button_job, { path => $button_path });
call('GET', $button_job, { path => '/button/jobs/7', headers => \%ticket });
call('POST', $button_job, { path => $button_path, headers => \%form,
    body => "ticket=$ticket" });

# Leases

call('POST', '/v1/leases', { token => 'worker', body => { kinds => [] } });
call('POST', '/v1/leases', { token => 'auditor',
    body => { kinds => ['doc'] } });
my $lease = call('POST', '/v1/leases', { token => 'worker',
    body => { worker => 'w', kinds => ['doc'], max => 1, wait => 1 } })
    ->{leases}[0];
call('POST', '/v1/leases', { token => 'worker',
    body => { kinds => ['doc'] } });

my %own = (headers => { authorization => "Bearer $lease->{owner_token}" });
call('POST', '/v1/lease/renew', { %own, body => {} });
call('POST', '/v1/lease/renew', { headers =>
    { authorization => 'Bearer v4.public.x' }, body => {} });
call('POST', '/v1/lease/progress', { %own, body => { progress =>
    { done => 1, total => 2, note => 'half' }, step => 'two',
    checkpoint => { at => 17 } } });
call('POST', '/v1/lease/progress', { %own, body => { percent => 5 } });

my $job = '/v1/jobs/{job_id}';
call('GET', $job, { token => 'auditor',
    path => "/v1/jobs/$accepted->{job_id}" });
call('GET', $job, { token => 'auditor',
    path => '/v1/jobs/00000000-0000-7000-8000-000000000000' });

call('POST', '/v1/lease/release', { %own, body => {} });
call('POST', '/v1/lease/renew', { %own, body => {} });

for my $end ([ fail => { error => 'no paper', retryable => JSON::PP::true,
                         retry_after => 0 } ],
             [ complete => { result => { total => 10 },
                             counts => { processed => 2, failed => 0 } } ])
{
    my ($call, $body) = @$end;

    # A job that yields to a newer one waiting behind it is not claimed again.

    my $next = call('POST', '/v1/leases', { token => 'worker',
        body => { kinds => ['doc'], wait => 10 } })->{leases}[0];
    my %o = (headers => { authorization => "Bearer $next->{owner_token}" });
    call('POST', "/v1/lease/$call", { %o, body => { nosuch => 1 } });
    call('POST', "/v1/lease/$call", { %o, body => $body });
    call('POST', "/v1/lease/$call", { %o, body => $body });
    call('POST', '/v1/lease/release', { %o, body => {} });
}

# Look-ups

my $key = 'doc:a%2Fb';
call('GET', '/v1/works/{work_key}', { token => 'auditor',
    path => "/v1/works/$key" });
call('GET', '/v1/works/{work_key}', { token => 'auditor',
    path => '/v1/works/nosuch' });
call('GET', '/v1/works/{work_key}/result', { token => 'auditor',
    path => "/v1/works/$key/result" });
call('GET', '/v1/works/{work_key}/result', { token => 'auditor',
    path => '/v1/works/nosuch/result' });
call('GET', '/v1/works/{work_key}/revisions', { token => 'auditor',
    path => "/v1/works/$key/revisions$_" })
    for '', '?limit=1', '?cursor=x';
call('GET', '/v1/works/{work_key}/revisions', { token => 'auditor',
    path => '/v1/works/nosuch/revisions' });
call('GET', '/v1/works/{work_key}/revisions', {
    path => "/v1/works/$key/revisions" });
call('GET', $job, { token => 'auditor', headers => { prefer => 'wait=5' },
    path => "/v1/jobs/$accepted->{job_id}" });

call('GET', $jobs, { token => 'auditor',
    path => '/v1/jobs?kind=doc&limit=1&since=2020-01-01T00:00:00Z' });
call('GET', $jobs, { token => 'auditor', path => '/v1/jobs?nosuch=1' });
call('GET', $jobs, {});

my %lists = (
    '/v1/requests' => '?kind=doc&decision=accepted&limit=2',
    '/v1/works' => '?prefix=doc:&kind=doc',
    '/v1/leases' => '?worker=w&kind=doc',
    '/v1/actions' => '?by=dana&limit=3',
    '/v1/kinds' => '?limit=1',
    '/v1/search' => '?q=doc:a%252Fb',
);
for my $list (sort keys %lists) {
    call('GET', $list, { token => 'auditor', path => "$list$lists{$list}" });
    call('GET', $list, { token => 'auditor', path => "$list?nosuch=1" });
    call('GET', $list, { token => 'worker', path => "$list$lists{$list}" });
    call('GET', $list, { path => "$list$lists{$list}" });
}
call('GET', '/v1/requests', { token => 'operator' });
call('GET', '/v1/works', { token => 'operator' });

my $payload = '/v1/jobs/{job_id}/payload';
for my $id ($accepted->{job_id}, '00000000-0000-7000-8000-000000000000') {
    call('GET', $payload, { token => 'auditor',
        path => "/v1/jobs/$id/payload" });
    call('GET', $payload, { token => 'submit',
        path => "/v1/jobs/$id/payload" });
    call('GET', $payload, { path => "/v1/jobs/$id/payload" });
}

# Batches

my $batch = '/v1/jobs:batch';
call('POST', $batch, { %$sub, body => { jobs => [
    { kind => 'doc', work_key => [ 'batch', '1' ], idempotency_key => 'b-1',
      version => 1, payload => {}, priority => 5, fresh => JSON::PP::false,
      run_after => '2020-01-01T00:00:00Z', requested_by => 'dana' },
    { kind => 'doc', work_key => 'batch:1', version => 1 } ] } });
my $mixed = call('POST', $batch, { %$sub, body =>
    '{"jobs":[{"kind":"nosuch","work_key":"x"},'
    . '{"kind":"doc","work_key":"batch:2"}]}' });
call('POST', $batch, { %$sub, body => { jobs => [] },
    headers => { 'idempotency-key' => 'x' } });
call('POST', $batch, { body => { jobs => [] } });
call('POST', $batch, { token => 'worker', body => { jobs => [] } });

# Operators

my $cancel = '/v1/jobs/{job_id}/cancel';
my %end = (path => "/v1/jobs/$mixed->{items}[1]{job_id}/cancel");
call('POST', $cancel, { %$sub, %end, body => {} });
call('POST', $cancel, { %$op, %end, body => { nosuch => 1 } });
call('POST', $cancel, { %$op, %end,
    body => { requested_by => 'dana', reason => 'not needed' } });
call('POST', $cancel, { %$op, %end });
call('POST', $cancel, { %$op,
    path => '/v1/jobs/00000000-0000-7000-8000-000000000000/cancel' });
call('POST', $cancel, { %end, body => {} });

my %why = (requested_by => 'dana', reason => 'seen to');
my $revoke = '/v1/jobs/{job_id}/revoke';
call('PUT', $kinds, { %$op, path => '/v1/kinds/taken', body => {} });
my $taken = call('POST', $jobs, { %$sub,
    body => { kind => 'taken', work_key => 'taken:1' } });
my %away = (path => "/v1/jobs/$taken->{job_id}/revoke");
call('POST', $revoke, { %$op, %away, body => \%why });
call('POST', '/v1/leases', { token => 'worker',
    body => { kinds => ['taken'], worker => 'w' } });
call('GET', '/v1/leases', { token => 'operator' });
call('POST', $revoke, { %$op, %away, body => {} });
call('POST', $revoke, { %$op, %away, body => \%why });
call('POST', $revoke, { %$sub, %away, body => \%why });
call('POST', $revoke, { %away, body => \%why });
call('POST', $revoke, { %$op, body => \%why,
    path => '/v1/jobs/00000000-0000-7000-8000-000000000000/revoke' });
call('GET', '/v1/actions', { token => 'operator' });

my $decide = '/v1/jobs/{job_id}/decide';
%end = (path => "/v1/jobs/$mixed->{items}[1]{job_id}/decide");
call('POST', $decide, { %$op, %end, body => { action => 'retry', %why } });
call('POST', $decide, { %$op, %end, body => { action => 'retry' } });
call('POST', $decide, { %$sub, %end, body => { action => 'retry', %why } });
call('POST', $decide, { %end, body => { action => 'retry', %why } });
call('POST', $decide, { %$op, body => { action => 'retry', %why },
    path => '/v1/jobs/00000000-0000-7000-8000-000000000000/decide' });

call('PUT', $kinds, { %$op, path => '/v1/kinds/dead', body => {
    overlap => 'allow', max_attempts => 1 } });
my $dead = call('POST', $jobs, { %$sub,
    body => { kind => 'dead', work_key => 'dead:1' } });
my $last = call('POST', '/v1/leases', { token => 'worker',
    body => { kinds => ['dead'], wait => 10 } })->{leases}[0];
call('POST', '/v1/lease/fail', { headers => {
    authorization => "Bearer $last->{owner_token}" },
    body => { error => 'no paper', retryable => JSON::PP::false } });
my $redrive = '/v1/redrive';
my $plan = call('POST', $redrive, { %$op, body => { filter => {
    kind => 'dead', error => 'paper', max => 10,
    succeeded_since => JSON::PP::true }, %why } });
call('POST', $redrive, { %$op, body => { plan_id => $plan->{plan_id} } });
call('POST', $redrive, { %$op, body => { plan_id => $plan->{plan_id}, %why } })
    for 1, 2;
call('POST', $redrive, { %$op, body => { %why,
    plan_id => '00000000-0000-7000-8000-000000000000' } });
call('POST', $redrive, { %$op, body => { filter => { colour => 'red' } } });
call('POST', $redrive, { %$_, body => { filter => {} } }) for $sub, {};
call('POST', '/v1/leases', { token => 'worker',
    body => { kinds => ['dead'], wait => 10 } });
call('POST', $decide, { %$op, path => "/v1/jobs/$dead->{job_id}/decide",
    body => { action => 'retry', %why } });

my $audit = '/v1/audit';
call('GET', $audit, { %$_, path => '/v1/audit?work_key=dead:1&limit=3' })
    for $op, $sub, {};
call('GET', $audit, { token => 'auditor',
    path => "/v1/audit?work_key=doc:a%252Fb" });
call('GET', $audit, { %$op, path => '/v1/audit?work_key=nosuch' });
call('GET', $audit, { %$op, path => '/v1/audit' });
my $advice = '/v1/kinds/{name}/advice';
call('GET', $advice, { %$_, path => '/v1/kinds/dead/advice?recovery=60' })
    for $op, $sub, {};
call('GET', $advice, { %$op, path => '/v1/kinds/doc/advice' });
call('GET', $advice, { %$op, path => '/v1/kinds/line/advice?recovery=0' });
call('GET', $advice, { %$op, path => '/v1/kinds/nosuch/advice' });

# What stands still

for my $what (qw(kinds sources)) {
    my $name = $what eq 'kinds' ? 'dead' : 'shop';
    for my $do (qw(pause resume)) {
        my $call = "/v1/$what/{name}/$do";
        my %at = (path => "/v1/$what/$name/$do");
        call('POST', $call, { %$_, %at, body => \%why }) for $op, $op, $sub, {};
        call('POST', $call, { %$op, %at, body => { requested_by => 'dana' } });
        call('POST', $call, { %$op, path => "/v1/$what/No%20such/$do",
            body => \%why });
        call('GET', $kinds, { %$op, path => '/v1/kinds/dead' });
        call('GET', '/v1/sources', $_) for $op, $sub, {};
        call('GET', '/v1/works/{work_key}', { %$op, path => '/v1/works/dead:1' });
    }
}
call('POST', '/v1/sources/{name}/pause', { %$op, body => \%why,
    path => '/v1/sources/api/pause' });
call('POST', $jobs, { %$sub, body => { kind => 'dead', work_key => 'dead:2' } });
call('POST', $batch, { %$sub, body => { jobs => [
    { kind => 'doc', work_key => 'batch:3' } ] } });
call('POST', '/v1/sources/{name}/resume', { %$op, body => \%why,
    path => '/v1/sources/api/resume' });

my $alert = '/v1/alerts/{name}';
my %ops = (path => '/v1/alerts/ops');
my %hook = (url => 'http://127.0.0.1:' . ($i->port + 1) . '/hook',
    secret => 'whsec_' . 'c2VjcmV0' x 4);
call('PUT', $alert, { %$op, %ops, body => \%hook });
call('PUT', $alert, { %$op, %ops, body => { conditions => ['failed', 'gap'],
    kinds => ['dead'], schedules => undef, secret => '@ops' } });
call('PUT', $alert, { %$op, %ops, body => { %hook, %$_ } })
    for { url => 'http://hooks.example/' }, { secret => 'x' }, { colour => 1 };
call('PUT', $alert, { %$_, %ops, body => \%hook }) for $sub, {};
call('GET', '/v1/alerts', $_) for $op, $sub, {};
$i->psql("select interlock.alert_set(a, true, 'failed', 'job:x', 'dead', null, "
    . "'dead:1', clock_timestamp(), null) from interlock.alerts a");
for my $method (qw(GET DELETE)) {
    call($method, $alert, { %$_, %ops }) for $op, $sub, {};
    call($method, $alert, { %$op, path => '/v1/alerts/nosuch' });
}

my $publish = '/v1/works/{work_key}/publish';
my %pub = (path => "/v1/works/$key/publish");
call('POST', $publish, { %$op, %pub,
    body => { revision => 1, requested_by => 'dana', reason => 'again' } });
call('POST', $publish, { %$op, %pub, body => { revision => 99 } });
call('POST', $publish, { %$op, %pub, body => { revision => 0 } });
call('POST', $publish, { %$sub, %pub, body => { revision => 1 } });
call('POST', $publish, { %pub, body => { revision => 1 } });
call('GET', '/v1/results', { token => 'auditor',
    path => '/v1/results?prefix=doc:&limit=1' });
call('GET', '/v1/results', { token => 'auditor',
    path => '/v1/results?limit=0' });
call('GET', '/v1/results', {});

my $limit = '/v1/limits/{name}';
my %crm = (path => '/v1/limits/crm:%7Bsite%7D');
call('PUT', $limit, { %$op, %crm, body => { capacity => 3 } });
call('PUT', $limit, { %$op, %crm, body => { start_rate => 2.5 } });
call('PUT', $limit, { %$op, %crm, body => { capacity => 0 } });
call('PUT', $limit, { %$sub, %crm, body => { capacity => 3 } });
call('PUT', $limit, { %crm, body => { capacity => 3 } });
call('GET', '/v1/limits', $_) for $op, $sub, {};
for my $method (qw(GET DELETE)) {
    call($method, $limit, { %$_, %crm }) for $op, $sub, {};
    call($method, $limit, { %$op, path => '/v1/limits/nosuch' });
}

# Effects

my $ekind = '/v1/effect-kinds/{name}';
my %mail = (path => '/v1/effect-kinds/mail');
call('PUT', $ekind, { %$op, %mail, body => { idempotent => JSON::PP::true,
    key_window => 3600, key_header => 'X-Key', send_deadline => 2, lookup =>
    { type => 'worker' }, authoritative => JSON::PP::true, settle_after => 60,
    outcome_map => { 409 => 'failed', '5xx' => 'retry', timeout =>
    'unknown' } } });
call('PUT', $ekind, { %$op, %mail, body => { send_deadline => 0 } });
call('PUT', $ekind, { %$sub, %mail, body => {} });
call('PUT', $ekind, { %mail, body => {} });
call('GET', '/v1/effect-kinds', $_) for $op, $sub, {};
call('GET', $ekind, { %$_, %mail }) for $op, $sub, {};
call('GET', $ekind, { %$op, path => '/v1/effect-kinds/nosuch' });

call('POST', $jobs, { %$sub, body => { kind => 'free', work_key => 'mail:1' } });
my $sender = call('POST', '/v1/leases', { token => 'worker',
    body => { kinds => ['free'], wait => 10 } })->{leases}[0];
my %send = (headers => { authorization => "Bearer $sender->{owner_token}" });
my $effects = '/v1/effects';
my %letter = (name => 'letter', kind => 'mail', target => 'x@example.org');
my $begun = call('POST', $effects, { %send, body => { %letter,
    request_digest => 'd1' } });
call('POST', $effects, { %send, body => { %letter, request_digest => 'd2' } });
call('POST', $effects, { %send, body => { %letter, kind => 'nosuch' } });
call('POST', $effects, { %send, body => { %letter, name => '' } });
call('POST', $effects, { body => \%letter });
my $say = '/v1/effects/{effect_id}/outcome';
my %of = (path => "/v1/effects/$begun->{effect_id}/outcome");
my %said = (send_id => $begun->{send_id}, state => 'confirmed',
    provider_ref => 'm1', response => { id => 'm1' });
call('POST', $say, { %send, %of, body => { state => 'confirmed' } });
call('POST', $say, { %send, path => '/v1/effects/' . ('0' x 8)
    . '-0000-7000-8000-000000000000/outcome', body => \%said });
call('POST', $say, { %of, body => \%said });
call('POST', $say, { %send, %of, body => $_ }) for \%said, \%said,
    { %said, state => 'failed' };
call('POST', $effects, { %send, body => \%letter });

my $other = call('POST', $effects, { %send, body => { %letter, name => 'b',
    compensates => $begun->{effect_id} } });
call('POST', $say, { %send, path => "/v1/effects/$other->{effect_id}/outcome",
    body => { send_id => $other->{send_id}, state => 'unknown',
    detail => 'the line went dead' } });
my $look = '/v1/effects/{effect_id}';
my %it = (path => "/v1/effects/$other->{effect_id}");
call('GET', $look, { %$_, %it }) for $op, $sub, {};
call('GET', $look, { %$op, path => '/v1/effects/nosuch' });
call('GET', $effects, { %$op, path => '/v1/effects?work_key=mail:1&limit=1'
    . '&state=confirmed&kind=mail&since=2020-01-01T00:00:00Z' });
call('GET', $effects, { %$op, headers => { accept => 'text/csv' } });
call('GET', $effects, { %$op, path => '/v1/effects?state=lost' });
call('GET', $effects, $_) for $sub, {};
for my $do (qw(check resolve)) {
    my $call = "/v1/effects/{effect_id}/$do";
    my %who = (requested_by => 'dana', reason => 'she called',
        $do eq 'resolve' ? (outcome => 'happened') : ());
    my %at = (path => "/v1/effects/$other->{effect_id}/$do");
    call('POST', $call, { %$op, %at, body => { nosuch => 1 } });
    call('POST', $call, { %$_, %at, body => \%who }) for $op, $sub, {};
    call('POST', $call, { %$op, body => \%who,
        path => "/v1/effects/$begun->{effect_id}/$do" });
    call('POST', $call, { %$op, path => "/v1/effects/nosuch/$do",
        body => \%who });
}
call('DELETE', $ekind, { %$_, %mail }) for $op, $op, $sub, {};
call('POST', '/v1/lease/complete', { %send, body => {} });

# Schedules

my $schedules = '/v1/schedules';
my $schedule = "$schedules/{name}";
my %nightly = (path => "$schedules/nightly");
my $nobody = '00000000-0000-7000-8000-000000000000';
call('PUT', $schedule, { %$op, %nightly, body => { cron => '5 0 * * *',
    zone => 'Asia/Seoul', kind => 'doc', work_key => 'night:{subject}:{date}',
    subjects => [ 'a', 'b c' ], payload => { day => '{date}' },
    date_offset => -1, grace => 0, catch_up => 'all', catch_up_max => 5,
    approve_after => 86400, gap => 'skip', fold => 'both', jitter => 60,
    start => '2020-01-01T00:00:00Z', end => '2100-01-01T00:00:00Z',
    skip_alarm => 3, priority => 1 } });
call('PUT', $schedule, { %$op, %nightly, body => $_ }) for { grace => 60 },
    { cron => '61 * * * *' }, { colour => 'red' }, { kind => 'nosuch' };
call('PUT', $schedule, { %$_, %nightly, body => {} }) for $sub, {};
call('GET', $schedules, $_) for $op, $sub, {};
call('GET', $schedule, { %$_, %nightly }) for $op, $sub, {};
call('GET', $schedule, { %$op, path => "$schedules/nosuch" });
for my $do (qw(pause resume)) {
    my %at = (path => "$schedules/nightly/$do");
    call('POST', "$schedule/$do", { %$op, %at, body => $_ }) for \%why,
        { reason => 'x' };
    call('POST', "$schedule/$do", { %$_, %at, body => \%why }) for $sub, {};
    call('POST', "$schedule/$do", { %$op, body => \%why,
        path => "$schedules/nosuch/$do" });
}

my %run = (path => "$schedules/nightly/run");
call('POST', "$schedule/run", { %$op, %run, body => { %why,
    date => '2026-07-24', subjects => ['a'] } });
call('POST', "$schedule/run", { %$op, %run, body => { %why,
    date => '2026-02-30' } });
call('POST', "$schedule/run", { %$op, body => { %why, date => '2026-07-24' },
    path => "$schedules/nosuch/run" });
call('POST', "$schedule/run", { %$_, %run, body => { %why,
    date => '2026-07-24' } }) for $sub, {};
my %fill = (path => "$schedules/nightly/backfill");
my $range = call('POST', "$schedule/backfill", { %$op, %fill, body => {
    from => '2026-07-20', to => '2026-07-22', %why } });
call('POST', "$schedule/backfill", { %$op, %fill, body => { %why,
    plan_id => $range->{plan_id} // $nobody } }) for 1, 2;
call('POST', "$schedule/backfill", { %$op, %fill, body => $_ }) for
    { plan_id => $nobody, %why }, { from => '2026-07-22' },
    { from => '2026-07-22', to => '2026-07-20' };
call('POST', "$schedule/backfill", { %$_, %fill, body => {
    from => '2026-07-20', to => '2026-07-22' } }) for $sub, {};
call('GET', "$schedule/slots", { %$sub, path => "$schedules/nightly/slots$_" })
    for '?from=2026-07-20&to=2026-07-22&limit=2', '?from=never', '?cursor=1';
call('GET', "$schedule/slots", { path => "$schedules/nightly/slots" });
call('GET', "$schedule/days", { %$sub, path => "$schedules/nightly/days$_" })
    for '', '?from=2026-07-24&to=2026-07-01', '?from=2020-01-01&to=2030-01-01';
call('GET', "$schedule/days", { path => "$schedules/nightly/days" });
call('GET', "$schedule/days", { %$op, path => "$schedules/nosuch/days" });
call('GET', "$schedule/slots", { %$op, path => "$schedules/nosuch/slots" });

my $night = call('POST', '/v1/leases', { token => 'worker',
    body => { kinds => ['doc'], wait => 10 } })->{leases}[0];
call('POST', '/v1/lease/complete', { headers => {
    authorization => "Bearer $night->{owner_token}" },
    body => { counts => { processed => 7, failed => 1 } } });
call('POST', '/v1/lease/batch', { token => 'worker', body => { calls => [
    { owner_token => $night->{owner_token}, call => 'complete',
      counts => { processed => 7, failed => 1 } },
    { owner_token => $night->{owner_token}, call => 'renew' },
    { owner_token => 'none', call => 'release' } ] } });
call('POST', '/v1/lease/batch', { token => 'worker', body => { calls => 1 } });
call('POST', '/v1/lease/batch', { %$_, body => { calls => [] } })
    for $sub, {};
my %at = (path => "$schedules/nightly/slots/2026-07-24/impact");
my $seen = call('GET', "$schedule/slots/{date}/impact", { %$op, %at });
call('GET', "$schedule/slots/{date}/impact", { %$_, %at }) for $sub, {};
call('GET', "$schedule/slots/{date}/impact", { %$op,
    path => "$schedules/nightly/slots/yesterday/impact" });
%at = (path => "$schedules/nightly/slots/2026-07-24/rerun");
my $rerun = "$schedule/slots/{date}/rerun";
call('POST', $rerun, { %$op, %at, body => { %why, only => $_,
    impact_id => $seen->{impact_id} // 'x' } }) for 'missing', 'missing',
    'none';
call('POST', $rerun, { %$_, %at, body => { %why, only => 'all',
    impact_id => 'x' } }) for $sub, {};
call('POST', $rerun, { %$op, body => { %why, only => 'all',
    impact_id => 'x' }, path => "$schedules/nosuch/slots/2026-07-24/rerun" });

my %work = (path => "/v1/works/$night->{work_key}/impact");
my $impact = '/v1/works/{work_key}/impact';
$seen = call('GET', $impact, { %$op, %work });
call('GET', $impact, { %$_, %work }) for $sub, {};
call('GET', $impact, { %$op, path => '/v1/works/nosuch/impact' });
%work = (path => "/v1/works/$night->{work_key}/rerun");
$rerun = '/v1/works/{work_key}/rerun';
call('POST', $rerun, { %$op, %work, body => { %why, impact_id =>
    $seen->{impact_id} // 'x', payload => { day => 'today' } } }) for 1, 2;
call('POST', $rerun, { %$op, %work, body => $_ }) for { %why },
    { impact_id => 'x' };
call('POST', $rerun, { %$_, %work, body => { %why, impact_id => 'x' } })
    for $sub, {};
call('POST', $rerun, { %$op, path => '/v1/works/nosuch/rerun',
    body => { %why, impact_id => 'x' } });

my $gaps = '/v1/gaps';
call('GET', $gaps, { %$op, path => "/v1/gaps$_" })
    for '?schedule=nightly&state=open&limit=1', '?state=lost',
    '?cursor=x';
call('GET', $gaps, $_) for $sub, {};
for my $do (qw(approve dismiss)) {
    my %gap = (path => "/v1/gaps/$nobody/$do");
    call('POST', "/v1/gaps/{gap_id}/$do", { %$op, %gap, body => $_ })
        for \%why, {};
    call('POST', "/v1/gaps/{gap_id}/$do", { %$_, %gap, body => \%why })
        for $sub, {};
}
call('DELETE', $schedule, { %$_, %nightly }) for $op, $op, $sub, {};

# What would be, and what is refused because a queue is full

call('PUT', $kinds, { %$op, path => '/v1/kinds/line', body => {
    overlap => 'buffer_all', overflow => 'reject', max_waiting => 1,
    max_queued => 100, max_wait => 60, cancel_grace => 5, fair_by => 'org',
    order => 'newest', key_template => 'org:{org}', limits => [ 'crm:{org}' ],
    protects => 'the books', examples => [ 'org:a' ] } });
my $explain = '/v1/kinds/{name}/explain';
my %line = (path => '/v1/kinds/line/explain');
call('POST', $jobs, { %$sub, body => { kind => 'line', work_key => $_ } })
    for 'other:a', ('org:a') x 3;
call('POST', $explain, { %$op, %line, body => { work_key => $_ } })
    for 'other:a', 'org:a', [ 'org', 'b' ], '';
call('POST', $explain, { %$sub, %line, body => { work_key => 'org:a' } });
call('POST', $explain, { %line, body => { work_key => 'org:a' } });
call('POST', $explain, { %$op, path => '/v1/kinds/nosuch/explain',
    body => { work_key => 'org:a' } });

# At a glance, and what waits for a person

for my $path ('/v1/overview', '/v1/config', '/v1/inbox', '/v1/series') {
    call('GET', $path, { %$_, path => $path eq '/v1/series'
        ? "$path?what=queue" : $path }) for $op, $sub, {};
}
call('GET', '/v1/series', { %$op, path => "/v1/series$_" })
    for '?what=decisions&kind=doc&hours=1', '?what=all', '';

my $pause = '/v1/kinds/{name}/pause';
call('POST', $pause, { %$op, path => '/v1/kinds/line/pause', body => \%why });
call('GET', '/v1/inbox', { %$op, path => "/v1/inbox$_" })
    for '?what=kind_paused&state=kind_paused&kind=line&limit=1&assignee=kim',
        '?what=x', '?state=x', '?kind=A', '?cursor=x';
my $assign = '/v1/inbox/{inbox_id}/assign';
my %paused = (path => '/v1/inbox/kind:line/assign');
call('POST', $assign, { %$op, %paused, body => $_ }) for
    { requested_by => 'dana', assignee => 'kim', due => '2030-01-01T00:00:00Z' },
    {}, { requested_by => 'dana', due => 'soon' };
call('POST', $assign, { %$_, %paused, body => { requested_by => 'dana' } })
    for $sub, {};
call('POST', '/v1/kinds/{name}/resume', { %$op, path =>
    '/v1/kinds/line/resume', body => \%why });
call('POST', $assign, { %$op, path => "/v1/inbox/$_/assign",
    body => { requested_by => 'dana' } }) for 'kind:line', 'kind:nosuch';
my $dismiss = '/v1/inbox/{inbox_id}/dismiss';
call('POST', $jobs, { %$sub, body => { kind => 'free', work_key => 'no:1' } });
my $gone = call('POST', '/v1/leases', { token => 'worker',
    body => { worker => 'w', kinds => ['free'], wait => 5 } })->{leases}[0];
call('POST', '/v1/lease/fail', { body => { error => 'no', retryable =>
    JSON::PP::false }, headers => { authorization =>
    "Bearer $gone->{owner_token}" } });
my ($failed) = @{ call('GET', '/v1/inbox', { %$op,
    path => '/v1/inbox?state=failed' })->{items} };
my %failed = (path => "/v1/inbox/$failed->{id}/dismiss");
call('POST', $dismiss, { %$_, %failed, body => \%why })
    for $sub, {}, $op, $op;
call('POST', $dismiss, { %$op, %failed, body => {} });
call('POST', $dismiss, { %$op, path => '/v1/inbox/x/dismiss', body => \%why });

# The door of the pages

my $login = '/ui/login';
my %here = (origin => $i->url);
my %page = (%here, 'content-type' => 'application/x-www-form-urlencoded');
call('POST', $login, { headers => \%here, body => $_ }) for
    { token => $i->token('auditor') }, { token => $i->token('submit') },
    { token => 'nosuch' }, { nosuch => 1 };
call('POST', $login, { headers => {}, body => { token => 'nosuch' } });
for my $token ('nosuch', $i->token('submit'), $i->token('operator')) {
    my $res = $i->http(POST => $login, { headers => \%page,
        body => "token=$token" });
    push @exchanges, { method => 'POST', path => $login,
        status => $res->{status} + 0, type => $res->{headers}{'content-type'},
        body => $res->{body} };
    ($here{cookie}) = ($res->{headers}{'set-cookie'} // '') =~ /^([^;]+)/;
}
call('GET', $_, { headers => \%here }) for $login, '/ui/session';
call('GET', '/ui/session', { headers => { %here,
    'sec-fetch-site' => 'same-site' } });
call('POST', '/ui/logout', { headers => $_ }) for {}, \%here;
call('GET', $_, { headers => \%here }) for $login, '/ui/session';
call('POST', $login, { headers => \%here, body => { token => 'nosuch' } })
    for 1 .. 10;

# Event streams

for my $opt ({ token => 'submit' }, { token => 'worker',
    path => '/v1/events?job_id=00000000-0000-7000-8000-000000000001' })
{
    my $s = Interlock::Events->open($i, ($opt->{path} // '') =~ /\?(.*)/
        ? $1 : '', { token => $opt->{token} });
    push @exchanges, { method => 'GET', path => '/v1/events',
        status => $s->status + 0, type => $s->headers->{'content-type'} };
    $s->close;
}
call('GET', '/v1/events', { token => 'submit', path => '/v1/events?job_id=x' });
call('GET', '/v1/events', {});

call('GET', $_, {}) for '/v1/keys', '/livez', '/readyz', '/metrics';

my $pid = open2(my $from, my $to, 'node', "$FindBin::Bin/../js/openapi.mjs",
    "$FindBin::Bin/../../fcgi/openapi.yaml");
print $to $json->encode($_), "\n" for @exchanges;
close $to;
chomp(my @complaints = <$from>);
waitpid($pid, 0);

is($?, 0, 'the document was read');
cmp_ok(scalar @exchanges, '>', 100, scalar(@exchanges) . ' exchanges');
is(scalar @complaints, 0, 'each one is as the document says')
    or diag(join "\n", @complaints);

$i->check_sql;

done_testing();
