// The peers' side of the benches: queues.mjs PEER MODE [SECONDS]
//
//   PEER   graphile-worker, pg-boss, bullmq
//   MODE   send      64 calls in flight add a job each, a commit each
//          drain     workers empty a queue of N jobs (third argument) with an
//                    empty callback, in batches where the peer can
//          latency   from adding a job to its callback, idle, every 10 ms
//
// One line of JSON: ops, secs, rate, p50_ms, p99_ms, client_cores.  Each has
// the settings that its documentation gives for throughput, or for latency.
// PGHOST, PGUSER and REDIS_SOCKET say where.

import { createRequire } from 'node:module';
import process from 'node:process';

import pg from 'pg';

const require = createRequire(import.meta.url);
const [peer, mode, amount = '3'] = process.argv.slice(2);
const inFlight = 64;
const payload = { a: 1, b: 'x'.repeat(280) };
const database = `peer_${peer.replace('-', '_')}`;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const started = process.cpuUsage();

function report(ops, secs, ms, more = {}) {
    const used = process.cpuUsage(started);

    ms.sort((a, b) => a - b);
    const at = (p) => ms.length
        ? ms[Math.min(ms.length - 1, Math.floor(p * ms.length))] : null;
    console.log(JSON.stringify({
        peer, version: require(`${peer}/package.json`).version, mode, ops,
        secs, rate: ops / secs, p50_ms: at(0.5), p99_ms: at(0.99),
        client_cores: (used.user + used.system) / 1e6 / secs, ...more,
    }));
    process.exit(0);
}

async function fresh() {
    const client = new pg.Client({ database: 'postgres' });

    await client.connect();
    await client.query(`drop database if exists ${database} with (force)`);
    await client.query(`create database ${database}`);
    await client.end();
}

function pool(max) {
    const made = new pg.Pool({ database, max });

    made.on('error', () => {});
    made.on('connect', (client) => client.on('error', () => {}));
    return made;
}

// Calls add() from 64 loops for that long
async function send(add) {
    const ms = [];
    const secs = Number(amount);
    let warm = performance.now() + 500;

    await Promise.all(Array.from({ length: inFlight }, async () => {
        while (performance.now() < warm) {
            await add();
        }
    }));

    const start = performance.now();
    const end = start + secs * 1000;

    await Promise.all(Array.from({ length: inFlight }, async () => {
        while (performance.now() < end) {
            const from = performance.now();

            await add();
            ms.push(performance.now() - from);
        }
    }));
    report(ms.length, (performance.now() - start) / 1000, ms);
}

// add(i) adds job i; the worker calls seen(i)
async function latency(add, begin) {
    const n = 100 * Number(amount);
    const from = [];
    const ms = [];
    let all;
    const finished = new Promise((done) => { all = done; });

    await begin((i) => {
        if (i < 0) {
            return;
        }
        ms.push(performance.now() - from[i]);
        if (ms.length === n) {
            all();
        }
    });
    await sleep(500);
    for (let i = -20; i < 0; i++) {
        await add(i);
        await sleep(10);
    }
    const start = performance.now();

    for (let i = 0; i < n; i++) {
        from[i] = performance.now();
        await add(i);
        await sleep(10);
    }
    await finished;
    report(n, (performance.now() - start) / 1000, ms);
}

// fill(n), then begin(seen) starts the workers, which call seen() for each
async function drain(fill, begin) {
    const n = Number(amount);
    let left = n;
    let all;
    const finished = new Promise((done) => { all = done; });

    await fill(n);
    const start = performance.now();

    await begin((k = 1) => {
        left -= k;
        if (left === 0) {
            all();
        }
    });
    await finished;
    report(n, (performance.now() - start) / 1000, []);
}

async function graphile() {
    const { Logger, makeWorkerUtils, run } = await import('graphile-worker');
    const logger = new Logger(() => () => {});

    await fresh();
    const utils = await makeWorkerUtils({ pgPool: pool(16), logger });
    await utils.migrate();

    const begin = (batched) => (seen) => run({
        pgPool: pool(26), noHandleSignals: true, logger,
        preset: { worker: { concurrentJobs: 24, maxPoolSize: 25, logger,
            ...(batched ? { localQueue: { size: 500 },
                completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}) } },
        taskList: { noop: (job) => seen(job.i) },
    });

    switch (mode) {
    case 'send':
        return send(() => utils.addJob('noop', payload));
    case 'latency':
        return latency((i) => utils.addJob('noop', { i }), begin(false));
    default:
        return drain(async (n) => {
            for (let i = 0; i < n; i += 1000) {
                await utils.addJobs(Array.from(
                    { length: Math.min(1000, n - i) },
                    () => ({ identifier: 'noop', payload })));
            }
        }, (seen) => begin(true)(() => seen()));
    }
}

async function pgBoss() {
    const { PgBoss } = await import('pg-boss');

    await fresh();
    const boss = new PgBoss({ database, max: 16, supervise: false,
        host: process.env.PGHOST, user: process.env.PGUSER,
        schedule: false, useListenNotify: mode === 'latency' });

    boss.on('error', () => {});
    await boss.start();
    await boss.createQueue('noop', { policy: 'standard',
        ...(mode === 'latency' ? { notify: true } : {}) });

    switch (mode) {
    case 'send':
        return send(() => boss.send('noop', payload));
    case 'latency':
        return latency((i) => boss.send('noop', { i }), (seen) =>
            boss.work('noop', { batchSize: 1, pollingIntervalSeconds: 0.5 },
                async (jobs) => jobs.forEach((job) => seen(job.data.i))));
    default:
        return drain(async (n) => {
            for (let i = 0; i < n; i += 1000) {
                await boss.insert('noop', Array.from(
                    { length: Math.min(1000, n - i) },
                    () => ({ data: payload })));
            }
        }, (seen) => {
            for (let w = 0; w < 4; w++) {
                (async () => {
                    for (;;) {
                        const jobs = await boss.fetch('noop',
                            { batchSize: 500 });

                        if (!jobs || jobs.length === 0) {
                            return;
                        }
                        await boss.complete('noop', jobs.map((j) => j.id));
                        seen(jobs.length);
                    }
                })();
            }
        });
    }
}

async function bullmq() {
    const { Queue, Worker } = await import('bullmq');
    const { Redis } = await import('ioredis');
    const connection = () => new Redis({ path: process.env.REDIS_SOCKET,
        maxRetriesPerRequest: null });
    const admin = connection();

    await admin.flushall();
    const queue = new Queue('noop', { connection: connection() });
    const begin = (concurrency) => (seen) => new Worker('noop',
        async (job) => seen(job.data.i), { connection: connection(),
            concurrency, removeOnComplete: { count: 0 } });

    switch (mode) {
    case 'send':
        return send(() => queue.add('noop', payload));
    case 'latency':
        return latency((i) => queue.add('noop', { i },
            { removeOnComplete: true }), begin(10));
    default:
        return drain(async (n) => {
            for (let i = 0; i < n; i += 1000) {
                await queue.addBulk(Array.from(
                    { length: Math.min(1000, n - i) },
                    () => ({ name: 'noop', data: payload,
                        opts: { removeOnComplete: true } })));
            }
        }, (seen) => {
            const worker = begin(100)(() => {});

            worker.on('completed', () => seen());
        });
    }
}

const peers = { 'graphile-worker': graphile, 'pg-boss': pgBoss, bullmq };

peers[peer]().catch((error) => {
    console.error(error);
    process.exit(1);
});
