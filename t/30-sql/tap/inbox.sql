-- inbox.sql: what waits for a person: put in and taken out by what makes it
-- so, in one list; all that alerts are told of; who looks after it.

begin;
set local search_path = tap, t, pg_catalog;
set local timezone = 'UTC';
select * from no_plan();

create function pg_temp.items(
    p_what text default null, p_state text default null,
    p_kind text default null, p_assignee text default null,
    p_limit int default 1000, p_cursor text default null)
returns table (doc json, cursor text) language sql as $$
    select x.doc::json, x.cursor from interlock.inbox_list(t.demo(),
        p_assignee, p_what, p_state, p_kind, p_limit, p_cursor) x
$$;
-- In order: state and work key, or name.
create function pg_temp.told(
    p_what text default null, p_state text default null,
    p_kind text default null, p_assignee text default null)
returns text language sql as $$
    select string_agg(concat_ws(' ', x.doc ->> 'state',
        coalesce(x.doc ->> 'work_key', split_part(x.doc ->> 'id', ':', 2))),
        ', ')
    from pg_temp.items(p_what, p_state, p_kind, p_assignee) x
$$;
create function pg_temp.item(p_key text) returns json language sql as $$
    select x.doc from pg_temp.items() x
    where coalesce(x.doc ->> 'work_key', x.doc ->> 'id') = p_key
$$;
create function pg_temp.acts(p_key text) returns text language sql as $$
    select string_agg(a ->> 'name', ' ')
    from json_array_elements(pg_temp.item(p_key) -> 'actions') a
$$;
create function pg_temp.assign(
    p_id text, p_who text, p_due timestamptz default null,
    p_by text default 'dana', p_call bigint default null)
returns table (problem text, detail text, doc json) language sql as $$
    select x.problem, x.detail, x.doc::json
    from interlock.inbox_assign(t.demo(), p_id, p_who, p_due, p_by, null, 7,
        'desk', t.rid(p_call)) x
$$;
create function pg_temp.dismiss(
    p_id text, p_why text default 'a test', p_call bigint default null)
returns table (problem text, detail text, doc text) language sql as $$
    select x.* from interlock.inbox_dismiss(t.demo(), p_id, 'dana', p_why, 7,
        'desk', t.rid(p_call)) x
$$;
create function pg_temp.decide(
    p_job bigint, p_action text, p_assignee text default null)
returns text language sql as $$
    select x.problem from interlock.job_decide(t.demo(), t.rid(p_job),
        p_action, p_assignee, 'dana', 'seen to', 7, 'desk') x
$$;
create function pg_temp.scan() returns void language plpgsql as $$
begin
    update interlock.alert_scans
    set next_at = '-infinity', slow_at = '-infinity';
    perform from interlock.alert_scan(500);
end
$$;
-- What alerts are told of and is not in the inbox, and the other way round
-- (but for what nobody is told of).
create function pg_temp.differ() returns text language plpgsql as $$
begin
    perform pg_temp.scan();
    return (
        select string_agg(coalesce(a.id, b.id), ', ')
        from (select distinct case s.condition
                  when 'queue_age' then 'queue:' || s.kind
                  else s.subject end as id
              from interlock.alert_states s where s.alert = 'all') a
        full join (
            select x.doc ->> 'id' as id from pg_temp.items() x
            where x.doc ->> 'state' not in ('parked', 'unknown',
                'source_paused')) b on b.id = a.id
        where a.id is null or b.id is null);
end
$$;

select t.providers();
select t.kind('hold', '{"overlap":"buffer_all","on_lost":"hold",
    "max_waiting":1,"overflow":"park"}');
select t.kind('run', '{"overlap":"buffer_one","max_attempts":1}');
select t.kind('eff', '{"overlap":"buffer_one","effect_scope":"work"}');
select t.kind('old', '{"overlap":"allow","alert_at":60,"stop_at":3600}');
select t.kind('day', '{"overlap":"skip","when_completed":"return"}');
select interlock.alert_put(t.demo(), 'all',
    '{"url":"https://h/","secret":"@f"}');

select is(pg_temp.told(), null, 'nothing waits');

-- Jobs: held, parked, failed.
select t.submit('hold', 'h:1', id => 1);
select t.submit('hold', 'h:1', '2', id => 2);
select t.submit('hold', 'h:1', '3', id => 3);
select is(pg_temp.told(), 'parked h:1', 'a parked job is there at once');
select alike(pg_temp.item('h:1') ->> 'why', 'the line of its work key is '
    'full; if nobody lets it in, it expires at %Z', 'why, in words');
select is(pg_temp.acts('h:1'), 'release fail assign', 'what may be done');
select t.take('w', 'hold');
select t.expire('w');
select count(*) from interlock.recover(9);
select is(pg_temp.told(), 'parked h:1, held h:1', 'a held one, after it');
select is(pg_temp.told(p_state => 'held'), 'held h:1', 'one state');
select is((select x.doc ->> 'job_id' from pg_temp.items(p_state => 'held') x),
    t.rid(1)::text, 'it says which');
select is((select string_agg(a ->> 'path' || (a -> 'body')::text, ' ')
           from pg_temp.items(p_state => 'held') x,
               json_array_elements(x.doc -> 'actions') a
           where a ->> 'name' = 'retry'),
    '/v1/jobs/' || t.rid(1) || '/decide{"action" : "retry"}',
    'an action is a call');
select is(pg_temp.differ(), null, 'an alert is told of just these');

select t.submit('run', 'r:1', id => 11);
select t.take('v', 'run');
select t.finish('v', 'fail', p_error => 'no paper', p_retryable => false);
select is(pg_temp.told('job', 'failed'), 'failed r:1', 'a failed one');
select is(pg_temp.item('r:1') ->> 'why',
    'it failed after 1 attempt: no paper', 'why');
select is(pg_temp.acts('r:1'), 'retry succeed dismiss assign',
    'it may be left as it is');
select is((pg_temp.item('r:1') ->> 'since')::timestamptz,
    (select date_trunc('milliseconds', j.finished_at) from interlock.jobs j
     where j.id = t.rid(11)), 'since it failed');
select is(pg_temp.differ(), null, 'alerts agree');

-- One truth of who looks after a job.
select is((select doc ->> 'assignee' from pg_temp.assign('job:' || t.rid(1),
    ' kim ', '2030-01-01')), 'kim', 'somebody looks after it');
select is((select j.assignee from interlock.jobs j where j.id = t.rid(1)),
    'kim', 'as the job itself says');
select is((select x.doc ->> 'due' from pg_temp.items(p_assignee => 'kim') x),
    '2030-01-01T00:00:00.000Z', 'it has its time');
select is(pg_temp.told(p_assignee => 'kim'), 'held h:1', 'that one alone');
select is(pg_temp.told('effect', p_assignee => 'kim'), null,
    'filters go together');
select results_eq(
    $$select a.target, a.requested_by, a.token_name, a.work_key,
          a.detail ->> 'assignee'
      from interlock.actions a where a.what = 'inbox_assign'$$,
    format($$values (%L, 'dana', 'desk', 'h:1', 'kim')$$, t.rid(1)),
    'who said so is kept');
select pg_temp.assign('job:' || t.rid(1), 'lee', p_call => 500);
select pg_temp.assign('job:' || t.rid(1), 'lee', p_call => 500);
select is((select count(*)::int from interlock.actions a
           where a.what = 'inbox_assign'), 2, 'a repeated call is one action');
select is((pg_temp.assign('job:' || t.rid(1), '')).doc ->> 'assignee', null,
    'nobody any more');
select is(pg_temp.decide(1, 'retry', 'max'), null, 'it was decided');
select is(pg_temp.told(p_state => 'held'), null, 'a retried job is not there');
select results_eq(
    $$select problem, detail from pg_temp.assign('job:' || t.rid(1), 'kim')$$,
    $$values ('inbox-settled',
        'the job is queued: nobody need see to it any more')$$,
    'settled meanwhile');
select is((pg_temp.assign('job:' || t.rid(1), 'kim', p_by => ' ')).problem,
    'field-invalid', 'by somebody');
select is((select string_agg(x.problem, ' ')
           from unnest(array['job:' || t.rid(99), 'job:x', 'kind:nosuch',
               'effect:' || t.rid(1), 'source:shop', 'x', '', ':']) i
           cross join lateral pg_temp.assign(i, 'kim') x),
    'not-found not-found not-found not-found not-found not-found not-found '
    'not-found', 'what there is not');
select is((select x.problem from interlock.inbox_assign(
    interlock.tenant_create('other'), 'job:' || t.rid(11), 'kim', null, 'eve',
    null, 1, 'x') x), 'not-found', 'another tenant''s is not there');
select is((select count(*)::int from interlock.inbox_list(
    interlock.tenant_create('other'), null, null, null, null, 9, null)), 0,
    'nor listed');
select t.take('w', 'hold');
select t.expire('w');
select count(*) from interlock.recover(9);
select is(pg_temp.told(p_assignee => 'max'), 'held h:1',
    'who a decision named looks after it when it is back');
select pg_temp.decide(1, 'fail');
select is(pg_temp.told(p_assignee => 'max'), 'failed h:1',
    'failed by hand: for the same one to see');
select is(pg_temp.differ(), null, 'alerts agree');

-- A later job does the work of a failed one.
select t.submit('run', 'r:1', '2', id => 12);
select t.take('v', 'run');
select t.finish('v', 'complete', '{}');
select is(pg_temp.told(p_kind => 'run'), null, 'its work is done: not shown');
select is((pg_temp.assign('job:' || t.rid(11), 'kim')).problem,
    'inbox-settled', 'nor assigned');
select is((select count(*)::int from interlock.inbox b
           where b.id = 'job:' || t.rid(11)), 1, 'though it is there still');
select count(*) from interlock.series_sweep(1);
select is((select count(*)::int from interlock.inbox b
           where b.id = 'job:' || t.rid(11)), 0, 'until the sweep');
select is(pg_temp.differ(), null, 'alerts agree');

-- One that stays failed.
select t.submit('run', 'r:2', id => 13);
select t.take('v', 'run');
select t.finish('v', 'fail', p_retryable => false);
select is((pg_temp.dismiss('job:' || t.rid(13), ' ')).problem,
    'field-invalid', 'leaving it takes a reason');
select t.submit('hold', 'h:9', n::text, id => 30 + n)
from generate_series(1, 3) n;
select is((pg_temp.dismiss('job:' || t.rid(33))).problem,
    'decision-not-possible', 'and a failed job');
select is(pg_temp.decide(33, 'fail'), null, 'a parked one fails by decision');
select is((pg_temp.dismiss('job:' || t.rid(33))).problem, null,
    'and may be left then');
select results_eq(
    $$select problem, doc from pg_temp.dismiss('job:' || t.rid(13),
          p_call => 501)$$, $$values (null::text, null::text)$$, 'left');
select is((pg_temp.dismiss('job:' || t.rid(13), p_call => 501)).problem, null,
    'the same call again');
select is((pg_temp.dismiss('job:' || t.rid(13))).problem, 'inbox-settled',
    'another one');
select is(pg_temp.told(p_kind => 'run'), null, 'not there any more');
select is((select j.status from interlock.jobs j where j.id = t.rid(13)),
    'failed', 'failed all the same');
select is(pg_temp.differ(), null, 'alerts agree');
update interlock.jobs j set assignee = 'kim' where j.id = t.rid(13);
select is(pg_temp.told(p_kind => 'run'), null,
    'who looks after it brings it not back');
select pg_temp.decide(13, 'retry');
select t.take('v', 'run');
select t.finish('v', 'fail', p_retryable => false);
select is(pg_temp.told(p_kind => 'run'), 'failed r:2',
    'but failing again does');
select is(pg_temp.differ(), null, 'alerts agree');

-- Effects.
select t.submit('eff', 'e:1');
select t.take('e', 'eff');
select t.begin('e', 'pay', 'ask');
select t.outcome('e', 'pay', 'unknown');
select is(pg_temp.told('effect'), null,
    'an unknown effect has its look-ups first');
select ok(interlock.effect_patience(t.demo(), 'ask') > interval '1 hour'
    and interlock.effect_patience(t.demo(), 'ask') < interval '12 hours',
    'as long as they may take');
update interlock.inbox b
set since = since - interlock.effect_patience(t.demo(), 'ask');
select is(pg_temp.told('effect'), 'unknown e:1', 'then it is there');
select alike(pg_temp.item('e:1') ->> 'why', '"pay": since %Z it is not known '
    'whether it happened, and its look-ups have not settled it %', 'why');
select is(pg_temp.item('e:1') ->> 'effect_id', (t.effect('pay')).id::text,
    'which');
select is(pg_temp.item('e:1') ->> 'kind', 'eff', 'of which kind of jobs');
select is(pg_temp.acts('e:1'),
    'check happened not_happened send_again assign', 'what may be done');
select is((select doc ->> 'assignee' from pg_temp.assign(
    'effect:' || (t.effect('pay')).id, 'kim')), 'kim', 'assigned');
select t.look('pay', 'exhausted');
select is(pg_temp.told('effect'), 'needs_human e:1',
    'its look-ups came to nothing');
select is(pg_temp.item('e:1') ->> 'assignee', 'kim', 'the same one sees to it');
select is(pg_temp.differ(), null, 'alerts agree');
select is((t.resolve('pay', 'happened')).problem, null, 'settled');
select is(pg_temp.told('effect'), null, 'and gone');
select is((pg_temp.assign('effect:' || (t.effect('pay')).id, 'x')).detail,
    'the effect is confirmed: nobody need see to it any more', 'so it says');
select t.begin('e', 'tell', 'mute');
select t.outcome('e', 'tell', 'unknown');
select is(pg_temp.told('effect'), null, 'one that goes to a human of itself');
select t.older('tell', '6 s');
select t.overdue();
select is(pg_temp.told('effect'), 'needs_human e:1',
    'which nobody can look up');
select is(pg_temp.acts('e:1'), 'happened not_happened send_again assign',
    'who cannot look either');
select is(pg_temp.differ(), null, 'alerts agree');

-- Gaps, and slots that wait for approval.
select t.plan_slots('g', 'day', t.cron_ago('90 minutes'), 'a b',
    ',"grace":600');
select t.plan_slots('late', 'day', t.cron_ago('90 minutes'), 'a',
    ',"approve_after":60');
select t.behind('g', '100 minutes'), t.behind('late', '100 minutes');
select t.scan();
select t.now_due('g'), t.now_due('late');
select count(*) from interlock.gap_scan(500);
select is(pg_temp.told('gap') || '; ' || pg_temp.told('slot'),
    (select string_agg('missing ' || s.work_key, ', ' order by g.id)
     from interlock.slots s join interlock.gaps g
         on g.schedule = s.schedule and g.subject = s.subject
     where s.schedule = 'g') || '; approval '
    || (select s.work_key from interlock.slots s where s.schedule = 'late'),
    'gaps, and one that waits for approval');
select is((select string_agg(concat_ws(' ', a ->> 'name', a ->> 'path'), ' ')
           from pg_temp.items('slot') x,
               json_array_elements(x.doc -> 'actions') a
           where a ->> 'name' <> 'assign'),
    (select format('approve /v1/gaps/%s/approve dismiss /v1/gaps/%s/dismiss',
         g.id, g.id) from interlock.gaps g where g.schedule = 'late'),
    'which is decided as a gap');
select is(pg_temp.differ(), null, 'alerts agree');
select interlock.gap_dismiss(t.demo(), g.id, 'me', 'no', 1, 'x')
from interlock.gaps g where g.schedule = 'g' and g.subject = 'a';
select t.approve('late');
select is(pg_temp.told(p_kind => 'day'),
    (select 'missing ' || g.work_key from interlock.gaps g
     where g.schedule = 'g' and g.subject = 'b'), 'one is left');
select is(pg_temp.differ(), null, 'alerts agree');
select is((select x.detail from pg_temp.assign('gap:' || (
        select g.id from interlock.gaps g where g.schedule = 'late'), 'x') x),
    'the gap is approved: nobody need see to it any more', 'so it says');

-- Schedules that skip.
select t.plan_slots('sk', 'day', '* * * * *', 'a', ',"skip_alarm":2');
update interlock.schedules set skips = 1 where name = 'sk';
select is(pg_temp.told('schedule'), null, 'one skip is none');
update interlock.schedules set skips = 3 where name = 'sk';
select is(pg_temp.told('schedule'), 'skips sk', 'three are');
select is(pg_temp.item('schedule:sk') ->> 'why',
    'it has skipped 3 slots in a row', 'why');
select is(pg_temp.differ(), null, 'alerts agree');
select interlock.schedule_put(t.demo(), 'sk', '{"skip_alarm":9}');
select is(pg_temp.told('schedule'), null, 'less than it may');
update interlock.schedules set skips = 9 where name = 'sk';
select interlock.schedule_delete(t.demo(), 'sk');
select is(pg_temp.told('schedule'), null, 'nor one that is deleted');
select is(pg_temp.differ(), null, 'alerts agree');

-- Queues that grow old, and what stops for it, or by hand.
select t.submit('old', 'o:1');
update interlock.jobs set run_at = run_at - interval '2 minutes'
where work_key = 'o:1';
select pg_temp.scan();
select is(pg_temp.told(p_kind => 'old'), 'queue_age old', 'an old queue');
select is(pg_temp.item('queue:old') ->> 'why', 'a job that could run has '
    'waited for longer than 60 s (alert_at)', 'why');
select is(pg_temp.differ(), null, 'alerts agree');
update interlock.jobs set run_at = run_at - interval '2 hours'
where work_key = 'o:1';
select pg_temp.scan();
select is(pg_temp.told(p_kind => 'old'), 'queue_age old, kind_paused old',
    'so old that its kind is stopped');
select alike(pg_temp.item('kind:old') ->> 'why', 'none of its jobs is claimed '
    'until somebody resumes it; paused by interlock: a job that could run '
    'had waited for %', 'why');
select is(pg_temp.differ(), null, 'alerts agree');
select interlock.resume(t.demo(), 'kind', 'old', 'dana', 'seen', 1, 'x');
select interlock.pause(t.demo(), 'source', 'shop', 'dana', 'odd', 1, 'x');
select t.take('o', 'old');
select pg_temp.scan();
select is(pg_temp.told(p_kind => 'old'), null, 'both are over');
select is(pg_temp.told('source_paused'), 'source_paused shop',
    'a source that is paused');
select is(pg_temp.acts('source:shop'), 'resume assign', 'to be resumed');
select is((pg_temp.assign('source:shop', 'kim')).problem, null, 'assigned');
select interlock.resume(t.demo(), 'source', 'shop', 'dana', 'seen', 1, 'x');
select is((pg_temp.assign('source:shop', 'kim')).detail,
    'the source is not paused: nobody need see to it any more', 'settled');
select is(pg_temp.differ(), null, 'alerts agree');

-- Pages: the same whatever the filter, and not moved by what is new.
do $$
begin
    for i in 1 .. 25 loop
        perform t.submit('run', 'p:' || lpad(i::text, 2, '0'), id => 100 + i);
        perform t.take('v', 'run');
        perform t.finish('v', 'fail', p_retryable => false);
    end loop;
end
$$;
create function pg_temp.pages(p_limit int, p_what text, p_kind text)
returns text language plpgsql as $$
declare
    v_cursor  text;
    v_out     text[] := '{}';
    v_page    text[];
    v_n       bigint := 0;
begin
    loop
        select array_agg(x.doc ->> 'work_key'), max(x.cursor)
            filter (where x.n = p_limit)
        into v_page, v_cursor
        from (select y.*, row_number() over () as n from pg_temp.items(p_what,
            null, p_kind, null, p_limit, v_cursor) y) x;
        exit when v_page is null;
        v_out := v_out || v_page;
        v_n := v_n + 1;
        perform t.submit('run', format('q:%s:%s', p_limit, v_n))
        where v_n = 2;
        exit when v_cursor is null;
    end loop;
    return array_to_string(v_out, ',');
end
$$;
select is(pg_temp.pages(7, null, 'run'), pg_temp.pages(1000, null, 'run'),
    'pages of a kind');
select is(pg_temp.pages(4, 'job', null), pg_temp.pages(1000, 'job', null),
    'of a sort');
select is(pg_temp.pages(3, null, null), pg_temp.pages(1000, null, null),
    'of all');
select alike(pg_temp.pages(3, null, null), '%p:01,p:02,%p:25',
    'the longest waiting first');
select is((select count(*)::int from pg_temp.items(p_cursor => x)), 0,
    'no cursor: ' || x)
from unnest(array['', 'x', '1', '1.', '1' || repeat('0', 17) || '.a']) x;

-- Samples: one a minute, of what there is.
delete from interlock.series_minutes;
delete from interlock.series_queue;
create temp table sweeps as
select count(x.sampled) as n from generate_series(1, 4) i
cross join lateral interlock.series_sweep(i * 9) x;
select ok((select n from sweeps) between 1 and 2
    and (select n from sweeps) = (select count(*)
                                  from interlock.series_minutes),
    'the first one of a minute samples, nobody else');
create function pg_temp.sampled(p_kind text) returns text language sql as $$
    select format('%s %s %s %s', q.queued, q.running, q.waiting, q.parked)
    from interlock.series_queue q where q.kind = p_kind
    order by q.minute limit 1
$$;
select is(pg_temp.sampled('hold'), (
    select format('%s %s %s %s',
        count(*) filter (where j.place <> 'blocked'),
        count(*) filter (where j.status = 'running'),
        count(*) filter (where j.place = 'blocked'),
        count(*) filter (where j.status = 'parked'))
    from interlock.jobs j where j.kind = 'hold'), 'as queues stand');
select is(pg_temp.sampled('old'), '0 1 0 0', 'what only runs, too');
select is(pg_temp.sampled('none'), null, 'idle kinds cost nothing')
from (select t.kind('none', '{"overlap":"skip"}')) k;
select is((select x.doc::json #>> '{points,0,queued}'
           from interlock.series(t.demo(), 'queue', 'hold', 1) x),
    split_part(pg_temp.sampled('hold'), ' ', 1), 'as it is shown');
select ok((select max(q.oldest) from interlock.series_queue q
           where q.kind = 'run') between 0 and 3600, 'how old');
-- (arrived a minute ago, in what the next sweep counts)
select interlock.series_sample_decisions(
    date_trunc('minute', clock_timestamp()) + interval '1 minute') > 0;
select interlock.series_sample_decisions(
    date_trunc('minute', clock_timestamp()) + interval '1 minute') > 0;
select is((select sum(d.n) from interlock.series_decisions d
           where d.kind = 'run'),
    (select count(*) from interlock.requests q where q.kind = 'run'
        and q.arrived_at >= date_trunc('minute', clock_timestamp())
            - interval '1 minute')::numeric,
    'each decision once, however often it is counted');
select is((select string_agg(format('%s %s', e.key, e.value), ', '
               order by e.key)
           from interlock.series(t.demo(), 'decisions', 'hold', 336) x,
               json_array_elements(x.doc::json -> 'points') p,
               json_each_text(p) e where e.key <> 'at' and e.value <> '0'),
    (select string_agg(format('%s %s', d.decision, d.n), ', '
         order by d.decision)
     from (select y.decision, sum(y.n) as n
           from interlock.series_decisions y where y.kind = 'hold'
           group by 1) d), 'as they are shown');
select is((select count(*)::int from interlock.series(
    interlock.tenant_create('other'), 'decisions', 'run', 1) x,
    json_array_elements(x.doc::json -> 'points') p
    where p ->> 'accepted' is not null), 0, 'to their tenant alone');
select is((interlock.overview(interlock.tenant_create('other')))::json
    -> 'kinds' #>> '{}', '[]', 'so is the overview');

-- They go after two weeks, the minutes with them.
update interlock.series_minutes set minute = minute - interval '15 days';
update interlock.series_queue set minute = minute - interval '15 days';
update interlock.series_decisions set minute = minute - interval '15 days'
where kind = 'hold';
select count(*) from interlock.prune(1);
select ok((select count(*) from interlock.series_queue) > 0, 'some at a time');
do $$ begin
    while interlock.prune(2) >= 2 loop end loop;
end $$;
select results_eq(
    $$select (select count(*) from interlock.series_minutes)::int,
          (select count(*) from interlock.series_queue)::int,
          (select count(*) from interlock.series_decisions
           where kind = 'hold')::int,
          (select count(*) > 0 from interlock.series_decisions)$$,
    'values (0, 0, 0, true)', 'all that are as old, and none else');

-- Of what check.sql does not look at.
select bag_eq(
    $$select b.id from interlock.inbox b
      where b.state in ('missing', 'approval', 'kind_paused',
          'source_paused')$$,
    $$select 'gap:' || g.id from interlock.gaps g where g.state = 'open'
      union all select p.what || ':' || p.name from interlock.pauses p$$,
    'gaps that are open and what is paused, nothing else');
select is_empty(
    $$select b.id from interlock.inbox b
      left join interlock.jobs j on j.tenant = b.tenant
          and 'job:' || j.id = b.id and j.status = b.state
      where b.id like 'job:%' and (j.id is null
          or j.assignee is distinct from b.assignee)$$,
    'jobs are as they are, with who looks after them');

select * from finish();
rollback;
