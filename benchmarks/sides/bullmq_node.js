// BullMQ on Node and Redis: completed jobs and their results kept, its stream of events on (both defaults).
// `node bullmq_node.js setup|fill|pace|left|work`: the same parts as the sides in Python, told by the same order.
'use strict';
const fs = require('fs');
const path = require('path');
const { createRequire } = require('module');

const order = {
  concurrency: 100, chunk: 500, paced: 0, rate: 50, work: 'noop', together: 0, shared: false,
  ...JSON.parse(process.env.PACKHORSE_BENCH_ORDER),
};
const modules = createRequire(path.join(process.env.PACKHORSE_BENCH_NODE, 'package.json'));
const { Queue, Worker } = modules('bullmq');

const backlog = order.warm + order.one + order.bulk;
const WARMING = 10;
const PACE_WARM = 10;
const SETTLED_WITHIN = 10_000;
const TICKS = 100;
const connection = { url: order.url, maxRetriesPerRequest: null };

const SAID = {
  priorities: (n) => ({ priority: 1 + (n % 10) }),
  unique: (n) => ({ deduplication: { id: String(n) } }),
  delayed: () => ({ delay: 500 }),
};
const said = SAID[order.option] || (() => ({}));

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => (performance.timeOrigin + performance.now()) / 1000;

function spentByServer() {
  if (order.server === null || !fs.existsSync(`/proc/${order.server}/stat`)) return null;
  const text = fs.readFileSync(`/proc/${order.server}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) / TICKS;
}

function read() {
  const { user, system } = process.cpuUsage();
  return { wall: performance.now() / 1000, own: (user + system) / 1e6, server: spentByServer() };
}

function between(start, end, jobs) {
  if (!jobs) return null;
  const seconds = end.wall - start.wall;
  const cpu = start.server === null ? null : (end.own - start.own + end.server - start.server) / jobs;
  return { jobs, seconds, value: jobs / seconds, cpu };
}

function written(name, value) {
  const whole = path.join(order.folder, name);
  fs.writeFileSync(`${whole}.half`, JSON.stringify(value));
  fs.renameSync(`${whole}.half`, whole);
}

function tally() {
  const seen = new Uint8Array(backlog);
  const sheet = order.shared ? fs.openSync(path.join(order.folder, 'sheet'), 'r+') : null;
  const one = Uint8Array.of(1);
  const first = Math.floor(backlog / WARMING);
  const waits = [];
  let calls = 0, twice = 0, start = null;
  return (n, t) => {
    if (t) {
      waits.push(now() - t);
      if (waits.length === order.paced) written('paced.json', waits);
    } else if (n >= 0) {
      if (seen[n]) { twice += 1; return; }
      seen[n] = 1;
      if (sheet !== null) fs.writeSync(sheet, one, 0, 1, n);
      calls += 1;
      if (calls === first) start = read();
      else if (calls === backlog) written('backlog.json', { ...between(start, read(), backlog - first), ran: calls, twice });
    }
  };
}

function work() {
  const hit = tally();
  const noop = async ({ data }) => { hit(data.n, data.t); };
  const io = async ({ data }) => { await sleep(5); hit(data.n, data.t); };
  new Worker('bench', order.work === 'io' ? io : noop, { connection, concurrency: order.concurrency });
}

async function fill(queue) {
  const add = (n) => queue.add('noop', { n, t: 0 });
  const second = order.warm + order.one;
  for (let n = 0; n < order.warm; n += 1) await add(n);
  const start = read();
  for (let n = order.warm; n < second; n += 1) await add(n);
  const middle = read();
  for (let from = second; from < backlog; from += order.together || order.chunk) {
    const numbers = [];
    for (let n = from; n < Math.min(backlog, from + (order.together || order.chunk)); n += 1) numbers.push(n);
    if (order.together) await Promise.all(numbers.map(add));
    else await queue.addBulk(numbers.map((n) => ({ name: 'noop', data: { n, t: 0 }, opts: said(n) })));
  }
  const end = read();
  return {
    python: `Node ${process.versions.node}`,
    one: between(start, middle, order.one),
    [order.together ? 'together' : 'bulk']: between(middle, end, order.bulk),
  };
}

async function steadily(queue, jobs) {
  const begun = performance.now();
  for (const [turn, [n, timed]] of jobs.entries()) {
    const wait = begun + (turn * 1000) / order.rate - performance.now();
    if (wait > 0) await sleep(wait);
    await queue.add('noop', { n, t: timed ? now() : 0 });
  }
}

async function unfinished(queue) {
  return Object.values(await queue.getJobCounts('waiting', 'active', 'prioritized', 'delayed')).reduce((sum, n) => sum + n, 0);
}

async function pace(queue) {
  const until = performance.now() + SETTLED_WITHIN;
  let left = await unfinished(queue);
  while (left && performance.now() < until) {
    await sleep(10);
    left = await unfinished(queue);
  }
  if (!left) {
    await steadily(queue, Array(PACE_WARM).fill([-1, false]));
    await steadily(queue, Array.from({ length: order.paced }, (_, n) => [n, true]));
  }
  return { left };
}

const left = async (queue) => ({ left: await unfinished(queue) });
const PARTS = { fill, pace, left };

async function main(part) {
  if (part === 'work') return work();
  if (part === 'setup') return console.log('{}');
  const queue = new Queue('bench', { connection });
  await queue.waitUntilReady();
  console.log(JSON.stringify(await PARTS[part](queue)));
  return queue.close();
}

main(process.argv[2]).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
