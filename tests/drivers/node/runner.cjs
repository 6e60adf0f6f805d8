// mysql2's work through a router, unchanged: promises, prepared statements, streams, pools and pipelined queries.
//
// Prints one line of JSON; exit code 0 when every check passed (a skipped one says why), 1 when one failed, 64 on bad
// usage. Writes go through the writer address; the reader address is only read. The schema drivers_node is made and dropped.
'use strict';

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const { Readable } = require('node:stream');
const { parseArgs } = require('node:util');
const mysql = require('mysql2/promise');
const version = require('mysql2/package.json').version;

const SCHEMA = 'drivers_node';
const DEADLINE_MS = 20_000;
// The reader leads to several replicas, and each is as late as it is: so many sessions in a row meet all of them.
const IN_A_ROW = 12;
const MIB = 1 << 20;

class Skip extends Error {}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(what, test) {
  const end = Date.now() + DEADLINE_MS;
  let last;
  while (Date.now() < end) {
    try {
      if (await test()) return;
    } catch (error) {
      last = error;
    }
    await pause(20);
  }
  throw new Error(`not within ${DEADLINE_MS} ms: ${what}${last ? ` (last error: ${last.message})` : ''}`);
}

async function fails(codes, doing) {
  try {
    await doing();
  } catch (error) {
    assert.ok(codes.includes(error.errno) || codes.includes(error.code), `expected ${codes}, got ${error.errno} ${error.code} ${error.message}`);
    return;
  }
  assert.fail(`expected ${codes}, got no error`);
}

/** The addresses under test: the router's reader and writer, and the primary itself. */
class Tier {
  constructor(options) {
    this.options = options;
  }

  login(via, more = {}) {
    const address = this.options[via];
    if (!address) throw new Skip(`no --${via} given`);
    const at = address.lastIndexOf(':');
    const where = via.endsWith('socket') ? { socketPath: address } : { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
    return { ...where, user: this.options.user, password: this.options.password, database: SCHEMA, connectTimeout: 10_000, ...more };
  }

  /** Does `work` with a connection of its own. */
  async session(via, work, more) {
    const connection = await mysql.createConnection(this.login(via, more));
    connection.on('error', () => {});
    try {
      return await work(connection);
    } finally {
      connection.destroy();
    }
  }

  async ask(via, sql, values, more) {
    return this.session(via, async (connection) => (await connection.query(sql, values))[0], more);
  }

  async sameEverywhere(sql) {
    const truth = JSON.stringify(await this.ask('direct', sql));
    await until(`the readers answer like the primary to: ${sql}`, async () => {
      for (let session = 0; session < IN_A_ROW; session++) {
        if (JSON.stringify(await this.ask('reader', sql)) !== truth) return false;
      }
      return true;
    });
    assert.equal(JSON.stringify(await this.ask('writer', sql)), truth);
    return JSON.parse(truth);
  }
}

const checks = {
  async 'text statements and their types'(tier) {
    const row = [1, '18446744073709551615', 'Grüße 🦀 \'\\', Buffer.from([...Array(64).keys()]), '2026-11-20 01:02:03.000004', null];
    await tier.session('writer', async (c) => {
      await c.query('CREATE TABLE kinds (id INT PRIMARY KEY, big BIGINT UNSIGNED, words TEXT, raw VARBINARY(64), at DATETIME(6), gone INT)');
      await c.query('INSERT INTO kinds VALUES (?)', [row]);
    });
    await tier.sameEverywhere('SELECT * FROM kinds');
    const exact = { supportBigNumbers: true, dateStrings: true };
    assert.deepEqual(Object.values((await tier.ask('reader', 'SELECT * FROM kinds', [], exact))[0]), row);
  },

  async 'statements are prepared once and executed often'(tier) {
    await tier.session('reader', async (c) => {
      const sql = 'SELECT ? * 2 AS doubled, ? AS words';
      for (let round = 0; round < 10; round++) {
        const statement = await c.prepare(sql);
        for (let n = 0; n < 50; n++) {
          const [rows] = await statement.execute([n, `n${n}`]);
          assert.equal(Number(rows[0].doubled), n * 2);
          assert.equal(rows[0].words, `n${n}`);
        }
        c.unprepare(sql);
      }
      await fails([1146], () => c.execute('SELECT * FROM not_there WHERE id = ?', [1]));
    });
  },

  async 'several results come in order'(tier) {
    await tier.session('reader', async (c) => {
      const [sets] = await c.query("SELECT 1 AS a; DO 0; SELECT 'two' AS b, 2 AS c");
      assert.deepEqual(JSON.parse(JSON.stringify([sets[0], sets[2]])), [[{ a: 1 }], [{ b: 'two', c: 2 }]]);
    }, { multipleStatements: true });
    await tier.session('writer', async (c) => {
      await c.query('CREATE PROCEDURE three(n INT) BEGIN SELECT n; SELECT n + 1 AS m; END');
      const [sets] = await c.query('CALL three(?)', [21]);
      assert.deepEqual([sets[0][0].n, sets[1][0].m], [21, 22]);
    });
  },

  async 'packets of 17 MiB pass both ways'(tier) {
    const body = createHash('sha512').update('7').digest('hex').repeat((17 * MIB) / 128);
    await tier.session('writer', async (c) => {
      const [text] = await c.query('SELECT LENGTH(?) AS length, SHA2(?, 256) AS sum', [body, body]);
      assert.deepEqual({ ...text[0] }, { length: 17 * MIB, sum: createHash('sha256').update(body).digest('hex') });
      const [binary] = await c.execute('SELECT LENGTH(?) AS length', [body]);
      assert.equal(binary[0].length, 17 * MIB);
      for (const size of [2 ** 24 - 5, 2 ** 24 - 4, 17 * MIB]) {
        const [[row]] = await c.query("SELECT REPEAT('y', ?) AS y", [size]);
        assert.equal(row.y.length, size);
      }
    });
  },

  async 'LOAD DATA LOCAL sends a stream'(tier) {
    const lines = Array.from({ length: 20_000 }, (_, n) => Buffer.from(`${n}\tline ${n}\n`));
    await tier.session('writer', async (c) => {
      await c.query('CREATE TABLE loaded (id INT PRIMARY KEY, words VARCHAR(40))');
      const infileStreamFactory = () => Readable.from(lines);
      const [result] = await c.query({ sql: "LOAD DATA LOCAL INFILE 'given' INTO TABLE loaded", infileStreamFactory });
      assert.equal(result.affectedRows, 20_000);
    });
    await tier.sameEverywhere('SELECT COUNT(*), SUM(CRC32(CONCAT(id, words))) FROM loaded');
  },

  async 'transactions commit and roll back'(tier) {
    await tier.session('writer', async (c) => {
      await c.query('CREATE TABLE account (id INT PRIMARY KEY, amount INT) ENGINE=InnoDB');
      for (const [id, end] of [[1, 'commit'], [2, 'rollback']]) {
        await c.beginTransaction();
        await c.execute('INSERT INTO account VALUES (?, 100)', [id]);
        await c[end]();
      }
    });
    assert.deepEqual(await tier.sameEverywhere('SELECT * FROM account'), [{ id: 1, amount: 100 }]);
  },

  async 'a changed user is somebody else'(tier) {
    await tier.ask('writer', 'DROP USER IF EXISTS drivers_node_other');
    await tier.ask('writer', "CREATE USER drivers_node_other IDENTIFIED BY 'other'");
    await tier.ask('writer', `GRANT SELECT ON ${SCHEMA}.* TO drivers_node_other`);
    await tier.session('writer', async (c) => {
      const id = c.threadId;
      await c.changeUser({ user: 'drivers_node_other', password: 'other', database: SCHEMA });
      const [[row]] = await c.query("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1) AS user, CONNECTION_ID() AS id");
      assert.deepEqual({ ...row }, { user: 'drivers_node_other', id });
    });
    await tier.ask('writer', 'DROP USER drivers_node_other');
  },

  async 'a reset session has forgotten its state'(tier) {
    await tier.session('reader', async (c) => {
      await c.query('SET @mine = 1');
      if (!c.connection.reset && !c.reset) throw new Skip('the driver has no such call');
      await (c.reset ? c.reset() : new Promise((done, fail) => c.connection.reset((error) => (error ? fail(error) : done()))));
      const [[row]] = await c.query('SELECT @mine AS mine, DATABASE() AS db');
      assert.deepEqual({ ...row }, { mine: null, db: SCHEMA });
    });
  },

  async 'a pool gives each query its own answer'(tier) {
    const pool = mysql.createPool(tier.login('reader', { connectionLimit: 8 }));
    try {
      const asked = Array.from({ length: 500 }, (_, n) => pool.execute('SELECT ? AS n, words FROM loaded WHERE id = ?', [n, n]));
      (await Promise.all(asked)).forEach(([[row]], n) => assert.deepEqual([Number(row.n), row.words], [n, `line ${n}`]));
    } finally {
      await pool.end();
    }
  },

  async 'rows are streamed with back-pressure, and may be left half read'(tier) {
    const sums = new Set();
    for (const via of ['direct', 'reader']) {
      const sum = createHash('sha256');
      await tier.session(via, async (c) => {
        for await (const row of c.connection.query('SELECT id, words FROM loaded ORDER BY id').stream({ highWaterMark: 5 })) sum.update(JSON.stringify(row));
      });
      sums.add(sum.digest('hex'));
    }
    assert.equal(sums.size, 1);
    await tier.session('reader', async (c) => {
      for await (const row of c.connection.query('SELECT a.id FROM loaded a JOIN loaded b ON b.id < 100').stream()) {
        assert.ok(row);
        break;
      }
    });
    assert.equal((await tier.ask('reader', 'SELECT 1 AS one'))[0].one, 1);
  },

  async 'queries sent without waiting are answered in order'(tier) {
    await tier.session('reader', async (c) => {
      const sent = Array.from({ length: 300 }, (_, n) => (n % 3 ? c.query('SELECT ? AS n', [n]) : c.execute('SELECT ? AS n', [n])));
      (await Promise.all(sent)).forEach(([[row]], n) => assert.equal(Number(row.n), n));
    });
  },

  async 'errors keep their codes and the session goes on'(tier) {
    await tier.session('writer', async (c) => {
      await fails([1062], () => c.query('INSERT INTO account VALUES (1, 1)'));
      await fails([1146], () => c.query('SELECT * FROM not_there'));
      await fails([1064], () => c.query('SELEKT 1'));
      const [[row]] = await c.query('SELECT 1 AS one');
      assert.equal(row.one, 1);
    });
    for (const via of ['reader', 'writer']) {
      await fails([1045], () => tier.ask(via, 'SELECT 1', [], { password: 'not it' }));
      await fails([1049], () => tier.ask(via, 'SELECT 1', [], { database: 'drivers_nowhere' }));
    }
  },

  async 'a killed query and a killed session end with an error'(tier) {
    for (const [how, codes] of [['KILL QUERY', [1317]], ['KILL', [1317, 1053, 1927, 'PROTOCOL_CONNECTION_LOST', 'ECONNRESET', 4031]]]) {
      await tier.session('writer', async (c) => {
        const asleep = fails(codes, () => c.query('SELECT id FROM loaded WHERE SLEEP(0.1) = 0'));
        await until('the victim sleeps', async () => {
          const [{ n }] = await tier.ask('direct', "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE id = ? AND info LIKE '%SLEEP%'", [c.threadId]);
          return Number(n) === 1;
        });
        await tier.ask('writer', `${how} ${c.threadId}`);
        await asleep;
        if (how === 'KILL QUERY') assert.equal((await c.query('SELECT 1 AS one'))[0][0].one, 1);
      });
    }
  },

  async 'TLS reaches the server end to end'(tier) {
    const more = { ssl: { rejectUnauthorized: false } };
    for (const via of ['reader', 'writer']) {
      let status;
      try {
        [status] = await tier.ask(via, "SHOW STATUS LIKE 'Ssl_cipher'", [], more);
      } catch (error) {
        if (error.code === 'HANDSHAKE_NO_SSL_SUPPORT') throw new Skip('the server offers no TLS');
        throw error;
      }
      assert.ok(status.Value, `no cipher through the ${via}`);
      assert.equal((await tier.ask(via, 'SELECT COUNT(*) AS n FROM loaded', [], more))[0].n, 20_000);
    }
    await fails(['SELF_SIGNED_CERT_IN_CHAIN', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'HANDSHAKE_SSL_ERROR'], () => tier.ask('reader', 'SELECT 1', [], { ssl: {} }));
  },

  async 'a unix socket serves as well'(tier) {
    for (const via of ['reader-socket', 'writer-socket']) assert.equal((await tier.ask(via, 'SELECT COUNT(*) AS n FROM account'))[0].n, 1);
  },
};

async function run(tier) {
  await tier.ask('writer', `DROP DATABASE IF EXISTS ${SCHEMA}`, [], { database: undefined });
  await tier.ask('writer', `CREATE DATABASE ${SCHEMA} CHARACTER SET utf8mb4`, [], { database: undefined });
  // On the schema: it has reached every reader.
  await tier.sameEverywhere('SELECT 1');
  const results = [];
  for (const [name, work] of Object.entries(checks)) {
    const began = Date.now();
    let [state, why] = ['passed', ''];
    try {
      await work(tier);
    } catch (error) {
      state = error instanceof Skip ? 'skipped' : 'failed';
      why = String(error.message).slice(0, 500);
    }
    results.push({ name, state, why, took_ms: Date.now() - began });
  }
  await tier.ask('writer', `DROP DATABASE IF EXISTS ${SCHEMA}`, [], { database: undefined });
  return results;
}

async function main() {
  const text = { type: 'string' };
  let options;
  try {
    const known = { reader: text, writer: text, direct: text, 'reader-socket': text, 'writer-socket': text, user: text, password: text };
    options = parseArgs({ options: known }).values;
    for (const needed of ['reader', 'writer', 'direct', 'user']) assert.ok(options[needed], `--${needed} is needed`);
  } catch (error) {
    console.error(`runner.cjs: ${error.message}`);
    process.exit(64);
  }
  options.password ??= process.env.DRIVERS_PASSWORD ?? '';
  let results;
  try {
    results = await run(new Tier(options));
  } catch (error) {
    results = [{ name: 'the tier can be reached', state: 'failed', why: error.message, took_ms: 0 }];
  }
  const count = (state) => results.filter((result) => result.state === state).length;
  const said = { driver: 'mysql2', version, passed: count('passed'), failed: count('failed'), skipped: count('skipped'), checks: results };
  // A pipe takes 64 KiB at once: the end waits until all of it is out.
  process.stdout.write(`${JSON.stringify(said)}\n`, () => process.exit(count('failed') ? 1 : 0));
}

main();
