// Enqueue a job from Node: node enqueue.mjs TASK ARGS [OPTIONS], the store being $PACKHORSE_URL. Prints the id of the job.
// Redis and SQLite need nothing installed (SQLite: Node 22.5 or newer), PostgreSQL needs `npm install pg`.
import { once } from 'node:events';
import { connect } from 'node:net';

const [task, args, options = '{}'] = process.argv.slice(2);
const url = new URL(process.env.PACKHORSE_URL);
const namespace = process.env.PACKHORSE_NAMESPACE ?? 'packhorse';

async function toPostgres() {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: url.href });
  await client.connect();
  const sql = `SELECT "${namespace}".enqueue($1, $2, $3) AS id`;
  const { rows } = await client.query(sql, [task, args, options]);
  await client.end();
  return rows[0].id;
}

async function toSQLite() {
  const { DatabaseSync } = await import('node:sqlite');
  const file = new DatabaseSync(process.env.PACKHORSE_URL.replace('sqlite:///', ''));
  file.exec('PRAGMA busy_timeout = 5000');
  const sql = 'INSERT INTO packhorse_enqueue (task, args, options) VALUES (?, ?, ?) RETURNING lower(hex(id)) AS id';
  const { id } = file.prepare(sql).get(task, args, options);
  file.close();
  return id;
}

// As much of the protocol as two commands need; a client library does the same.
async function toRedis() {
  const socket = connect(Number(url.port || 6379), url.hostname);
  let heard = Buffer.alloc(0);
  async function call(...words) {
    const parts = words.flatMap((word) => [`$${Buffer.byteLength(word)}`, word]);
    socket.write([`*${words.length}`, ...parts, ''].join('\r\n'));
    for (;;) {
      const end = heard.indexOf('\r\n');
      const line = heard.subarray(1, Math.max(end, 1)).toString();
      const bulk = end > 0 && heard[0] === 36;
      const size = bulk ? end + 2 + Number(line) + 2 : end + 2;
      if (end > 0 && heard.length >= size) {
        const answer = bulk ? heard.subarray(end + 2, size - 2).toString() : line;
        const failed = heard[0] === 45;
        heard = heard.subarray(size);
        if (failed) throw new Error(answer);
        return answer;
      }
      const [more] = await once(socket, 'data');
      heard = Buffer.concat([heard, more]);
    }
  }
  const tag = `{packhorse:${namespace}}`;
  if (url.password) await call('AUTH', decodeURIComponent(url.username || 'default'), decodeURIComponent(url.password));
  await call('SELECT', url.pathname.slice(1) || '0');
  const script = await call('HGET', `${tag}:scripts`, 'enqueue');
  const id = await call('EVAL', script, '1', tag, '', '1', task, args, options);
  socket.end();
  return id;
}

const ways = { 'postgresql:': toPostgres, 'sqlite:': toSQLite, 'redis:': toRedis, 'valkey:': toRedis };
console.log(await ways[url.protocol]());
