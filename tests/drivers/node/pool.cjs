// An application with mysql2's pool that writes until its standard input ends, while the primary is moved: what it was
// told is written down as one line of JSON. See ../README.md, "Pools".
'use strict';

const { parseArgs } = require('node:util');
const mysql = require('mysql2/promise');

const text = { type: 'string' };
const { values } = parseArgs({ options: { writer: text, user: text, base: text } });
const [host, port] = values.writer.split(':');
const pool = mysql.createPool({
  host, port: Number(port), user: values.user, password: process.env.DRIVERS_PASSWORD, database: 'app', connectionLimit: 10,
});
const seen = { pool: 'mysql2', version: require('mysql2/package.json').version, acknowledged: [], unknown: [], errors: {}, longest_ms: 0 };
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
let next = Number(values.base ?? 0);
let stopped = false;

// What became of ids: acknowledged, or nobody knows.
async function wrote(doing, ...ids) {
  try {
    await doing();
  } catch (error) {
    seen.unknown.push(...ids);
    throw error;
  }
  seen.acknowledged.push(...ids);
}

async function write(on, statement = 'INSERT INTO writes VALUES (?)') {
  const id = ++next;
  await wrote(() => on.execute(statement, [id]), id);
}

const kinds = {
  prepared: () => write(pool),
  statement: () => write(pool, 'INSERT INTO writes SELECT ? + SLEEP(0.05)'),
  async transaction() {
    const connection = await pool.getConnection();
    try {
      await connection.beginTransaction();
      const [one, two] = [++next, ++next];
      await connection.execute('INSERT INTO writes VALUES (?)', [one]);
      await pause(20);
      await connection.execute('INSERT INTO writes VALUES (?)', [two]);
      await wrote(() => connection.commit(), one, two);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    connection.release();
  },
  // Keeps a connection for a second, with a variable, and uses it without a check.
  async held() {
    const connection = await pool.getConnection();
    try {
      await connection.query('SET @kept = 7');
      for (let n = 0; n < 10 && !stopped; n++) {
        await pause(100);
        const [[row]] = await connection.query('SELECT @kept AS kept');
        if (Number(row.kept) !== 7) throw new Error('the variable is lost');
        await write(connection);
      }
    } catch (error) {
      connection.destroy();
      throw error;
    }
    connection.release();
  },
};

async function work(kind) {
  while (!stopped) {
    const began = Date.now();
    try {
      await kinds[kind]();
      if (kind !== 'held') seen.longest_ms = Math.max(seen.longest_ms, Date.now() - began);
    } catch (error) {
      const words = `${kind}: ${error.code ?? ''} ${error.message}`;
      seen.errors[words] = (seen.errors[words] ?? 0) + 1;
    }
    await pause(30);
  }
}

async function main() {
  const workers = [...Object.keys(kinds), ...Object.keys(kinds)].map(work);
  process.stdin.resume();
  process.stdin.on('end', () => { stopped = true; });
  await Promise.all(workers);
  // A pipe takes 64 KiB at once: the end waits until all of it is out.
  process.stdout.write(`${JSON.stringify(seen)}\n`, () => process.exit(0));
}

main();
