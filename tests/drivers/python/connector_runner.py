"""mysql-connector-python's work through a router, unchanged, by both of its implementations: the C extension and pure Python.

The user must be allowed everything. See checks.py and ../README.md.
"""

import contextlib
import tempfile
import threading
import zlib

import mysql.connector
from checks import DEADLINE_S, MIB, Skip, Tier, block_of_bytes, check, digest, main, until
from mysql.connector import errorcode, pooling

SCHEMA = "drivers_connector"
PURE = (False, True)


class Connector(Tier):
    schema = SCHEMA

    def connect(self, via, **more):
        return contextlib.closing(mysql.connector.connect(**self.login(via, **more)))

    def first_login(self):
        # Without TLS, this driver in pure Python can only give a caching_sha2_password that the server has cached.
        for via in ("direct", "writer", "reader"):
            self.ask(via, "SELECT 1", database=None, tls=True)

    def login(self, via, database=SCHEMA, tls=False, **more):
        kind, address = self.address(via)
        where = {"unix_socket": address} if kind == "unix" else dict(zip(("host", "port"), address))
        fixed = {"user": self.options.user, "password": self.options.password, "database": database, "autocommit": True,
                 "connection_timeout": 10, "ssl_disabled": not tls, "use_pure": True}
        return fixed | where | more


@check
def text_statements_and_their_types(tier):
    with tier.connect("writer") as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE kinds (id INT PRIMARY KEY, big BIGINT UNSIGNED, words TEXT, raw VARBINARY(64), gone INT)")
        for number, pure in enumerate(PURE):
            with tier.connect("writer", use_pure=pure) as other:
                row = (number, 2**64 - 1, "Grüße 🦀 '\\", bytes(range(64)), None)
                other.cursor().execute("INSERT INTO kinds VALUES (%s, %s, %s, _binary %s, %s)", row)
    rows = tier.same_everywhere("SELECT * FROM kinds ORDER BY id")
    assert len(rows) == 2 and rows[0][1:] == rows[1][1:] and rows[0][1] == 2**64 - 1 and bytes(rows[0][3]) == bytes(range(64)), rows


@check
def statements_are_prepared_once_and_executed_often(tier):
    for pure in PURE:
        with tier.connect("reader", use_pure=pure) as connection:
            cursor = connection.cursor(prepared=True)
            for number in range(50):
                cursor.execute("SELECT ? * 2, ?", (number, f"n{number}"))
                assert cursor.fetchall() == [(number * 2, f"n{number}")]
            cursor.close()


@check
def several_results_come_in_order(tier):
    for pure in PURE:
        with tier.connect("reader", use_pure=pure) as connection:
            cursor = connection.cursor()
            seen = []
            cursor.execute("SELECT 1; DO 0; SELECT 'two', 2")
            while True:
                if cursor.description:
                    seen.append(cursor.fetchall())
                if not cursor.nextset():
                    break
            assert seen == [[(1,)], [("two", 2)]], seen
    with tier.connect("writer") as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE PROCEDURE twice(IN n INT, OUT doubled INT) BEGIN SELECT n; SELECT n + 1; SET doubled = n * 2; END")
        assert cursor.callproc("twice", (21, 0))[1] == 42
        assert [result.fetchall() for result in cursor._stored_results] == [[(21,)], [(22,)]]


@check
def packets_of_17_mib_pass_both_ways(tier):
    for pure in PURE:
        with tier.connect("writer", use_pure=pure) as connection:
            cursor = connection.cursor()
            body = block_of_bytes(7, 9 * MIB).hex()[: 17 * MIB]
            cursor.execute("SELECT LENGTH(%s), CRC32(%s)", (body, body[:MIB]))
            assert cursor.fetchone() == (17 * MIB, zlib.crc32(body[:MIB].encode()))
            cursor.execute("SELECT REPEAT('y', %s)", (17 * MIB,))
            assert len(cursor.fetchone()[0]) == 17 * MIB


@check
def load_data_local_sends_the_file(tier):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.writelines(f"{number}\tline {number}\n" for number in range(20_000))
        file.flush()
        for pure in PURE:
            with tier.connect("writer", use_pure=pure, allow_local_infile=True) as connection:
                cursor = connection.cursor()
                cursor.execute("CREATE TABLE IF NOT EXISTS loaded (id INT PRIMARY KEY, words VARCHAR(40))")
                cursor.execute("TRUNCATE loaded")
                cursor.execute(f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE loaded")
                assert cursor.rowcount == 20_000, cursor.rowcount
    tier.same_everywhere("SELECT COUNT(*), SUM(CRC32(CONCAT(id, words))) FROM loaded")


@check
def transactions_commit_and_roll_back(tier):
    with tier.connect("writer") as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE account (id INT PRIMARY KEY, amount INT) ENGINE=InnoDB")
        for commit in (True, False):
            connection.start_transaction(isolation_level="READ COMMITTED")
            cursor.execute("INSERT INTO account VALUES (%s, 100)", (1 if commit else 2,))
            assert connection.in_transaction
            connection.commit() if commit else connection.rollback()
            assert not connection.in_transaction
    assert tier.same_everywhere("SELECT id, amount FROM account") == ((1, 100),)


@check
def a_changed_user_is_somebody_else(tier):
    tier.ask("writer", "DROP USER IF EXISTS drivers_other")
    tier.ask("writer", "CREATE USER drivers_other IDENTIFIED BY 'other'")
    tier.ask("writer", f"GRANT SELECT ON {SCHEMA}.* TO drivers_other")
    for pure in PURE:
        with tier.connect("writer", use_pure=pure, tls=True) as connection:
            before = connection.connection_id
            connection.cmd_change_user("drivers_other", "other", SCHEMA)
            cursor = connection.cursor()
            cursor.execute("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1), CONNECTION_ID()")
            assert cursor.fetchall() == [("drivers_other", before)]
    tier.ask("writer", "DROP USER drivers_other")


@check
def a_reset_session_has_forgotten_its_state(tier):
    for pure in PURE:
        with tier.connect("reader", use_pure=pure) as connection:
            cursor = connection.cursor()
            cursor.execute("SET @mine = 1")
            connection.cmd_reset_connection()
            cursor = connection.cursor()
            cursor.execute("SELECT @mine, DATABASE()")
            assert cursor.fetchall() == [(None, SCHEMA)]


@check
def a_pool_gives_each_thread_its_own_answers(tier):
    pool = pooling.MySQLConnectionPool(pool_name="p", pool_size=8, **tier.login("reader"))
    wrong = []

    def work(number):
        try:
            for turn in range(50):
                with pool.get_connection() as connection:
                    cursor = connection.cursor()
                    cursor.execute("SELECT %s, words FROM loaded WHERE id = %s", (number, number * 50 + turn))
                    row = cursor.fetchone()
                    if row != (number, f"line {number * 50 + turn}"):
                        wrong.append(row)
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool._remove_connections()
    assert not wrong, wrong[:3]


@check
def rows_are_streamed_and_may_be_left_half_read(tier):
    sums = set()
    for pure in PURE:
        for via in ("direct", "reader"):
            with tier.connect(via, use_pure=pure) as connection:
                cursor = connection.cursor(buffered=False)
                cursor.execute("SELECT id, words FROM loaded ORDER BY id")
                sums.add(digest(iter(cursor.fetchone, None)))
    assert len(sums) == 1, sums
    with tier.connect("reader") as connection:
        cursor = connection.cursor(buffered=False)
        cursor.execute("SELECT a.id FROM loaded a JOIN loaded b ON b.id < 100")
        assert cursor.fetchone()
        # Gone without a word, as a client that crashed.
        connection._socket.sock.close()
        connection._socket = None
        connection.close = lambda: None
    assert tier.ask("reader", "SELECT 1") == ((1,),)


@check
def many_rows_are_written_as_one_statement(tier):
    with tier.connect("writer") as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE many (id INT PRIMARY KEY, words VARCHAR(40))")
        cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(n, f"row {n}") for n in range(5000)])
        assert cursor.rowcount == 5000
    tier.same_everywhere("SELECT COUNT(*), SUM(CRC32(words)) FROM many")


@check
def errors_keep_their_codes_and_the_session_goes_on(tier):
    for pure in PURE:
        with tier.connect("writer", use_pure=pure) as connection:
            cursor = connection.cursor()
            for code, sql in (
                (errorcode.ER_DUP_ENTRY, "INSERT INTO account VALUES (1, 1)"),
                (errorcode.ER_NO_SUCH_TABLE, "SELECT * FROM not_there"),
                (errorcode.ER_PARSE_ERROR, "SELEKT 1"),
            ):
                assert_error((code,), cursor.execute, sql)
            cursor.execute("SELECT 1")
            assert cursor.fetchone() == (1,)
        for via in ("reader", "writer"):
            assert_error((errorcode.ER_ACCESS_DENIED_ERROR,), lambda: tier.ask(via, "SELECT 1", password="not it", use_pure=pure, tls=True))
            assert_error((errorcode.ER_BAD_DB_ERROR,), lambda: tier.ask(via, "SELECT 1", database="drivers_nowhere", use_pure=pure))


@check
def a_killed_query_and_a_killed_session_end_with_an_error(tier):
    for how, codes in (("KILL QUERY", (1317,)), ("KILL", (1317, 2013, 2055, 2006, 1053, 1927))):
        with tier.connect("writer", read_timeout=DEADLINE_S) as victim:
            number = victim.connection_id
            killer = threading.Thread(target=kill_once_asleep, args=(tier, how, number))
            killer.start()
            cursor = victim.cursor()
            # MySQL answers 1 when a sleep is cut short, and an error when rows were still to come.
            assert_error(codes, lambda: (cursor.execute("SELECT id FROM loaded WHERE SLEEP(0.1) = 0"), cursor.fetchall()))
            killer.join()
            if how == "KILL QUERY":
                victim.cmd_query("SELECT 1")
                victim.get_rows()


@check
def tls_reaches_the_server_end_to_end(tier):
    for pure in PURE:
        for via in ("reader", "writer"):
            ((_, cipher),) = tier.ask(via, "SHOW STATUS LIKE 'Ssl_cipher'", tls=True, use_pure=pure)
            if not cipher and not tier.ask("direct", "SHOW STATUS LIKE 'Ssl_cipher'", tls=True)[0][1]:
                raise Skip("the server offers no TLS")
            assert cipher, f"no cipher through the {via}"


def kill_once_asleep(tier, how, number):
    def asleep():
        return tier.ask("direct", "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %s AND info LIKE '%%SLEEP%%'", number) == ((1,),)

    until(asleep, "the victim sleeps")
    tier.ask("writer", f"{how} {number}")


def assert_error(codes, function, *arguments):
    try:
        function(*arguments)
    except mysql.connector.Error as error:
        assert error.errno in codes, f"expected error {codes}, got {error!r}"
    else:
        raise AssertionError(f"expected error {codes}, got none")


main("mysql-connector-python", mysql.connector.__version__, Connector, __doc__)
