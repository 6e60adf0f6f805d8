"""PyMySQL's work through a router, unchanged: what an application does, held against a direct connection.

The user must be allowed everything (it creates users and procedures). See checks.py and ../README.md.
"""

import contextlib
import datetime
import decimal
import tempfile
import threading
import zlib

import pymysql
from checks import DEADLINE_S, MIB, Skip, Tier, block_of_bytes, check, digest, main, until
from pymysql.constants import CLIENT, CR, ER

SCHEMA = "drivers_py"


class PyMySQL(Tier):
    schema = SCHEMA

    def connect(self, via, database=SCHEMA, **more):
        kind, address = self.address(via)
        where = {"unix_socket": address} if kind == "unix" else dict(zip(("host", "port"), address))
        login = {"user": self.options.user, "password": self.options.password}
        if not more.pop("tls", False):
            login["ssl_disabled"] = True
        fixed = {"database": database, "charset": "utf8mb4", "connect_timeout": 10, "autocommit": True}
        return contextlib.closing(pymysql.connect(**(fixed | where | login | more)))


@check
def text_statements_bring_every_type_unchanged(tier):
    with tier.connect("writer") as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE kinds (id INT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED, price DECIMAL(20,6), d DOUBLE,"
            " day DATE, at DATETIME(6), span TIME(3), bits BIT(9), words TEXT, raw VARBINARY(64), doc JSON, gone INT)"
        )
        row = (1, -128, 2**64 - 1, decimal.Decimal("-12345678901234.567890"), 1.5e300, datetime.date(2026, 11, 20),
               datetime.datetime(1999, 12, 31, 23, 59, 59, 999999), "-101:02:03.004", 257, "Grüße 🦀 '\\\0", bytes(range(64)),
               '{"a": [1, null]}', None)
        cursor.execute(f"INSERT INTO kinds VALUES ({', '.join(['%s'] * len(row))})", row)
    got = tier.same_everywhere("SELECT * FROM kinds")[0]
    assert got[1:4] == row[1:4] and got[6] == row[6] and got[9:11] == row[9:11] and got[12] is None, got


@check
def statements_prepared_in_text_live_with_their_session(tier):
    with tier.connect("reader") as connection, connection.cursor() as cursor:
        cursor.execute("PREPARE twice FROM 'SELECT ? * 2, @@port'")
        for value in (21, -4):
            cursor.execute("SET @v = %s", (value,))
            cursor.execute("EXECUTE twice USING @v")
            assert cursor.fetchone()[0] == value * 2
        cursor.execute("DEALLOCATE PREPARE twice")
        assert_error(ER.UNKNOWN_STMT_HANDLER, cursor.execute, "EXECUTE twice USING @v")


@check
def transactions_commit_roll_back_and_keep_to_themselves(tier):
    with tier.connect("writer", autocommit=False) as one, tier.connect("writer") as two:
        with one.cursor() as mine, two.cursor() as other:
            other.execute("CREATE TABLE account (id INT PRIMARY KEY, amount INT) ENGINE=InnoDB")
            mine.execute("INSERT INTO account VALUES (1, 100), (2, 0)")
            other.execute("SELECT COUNT(*) FROM account")
            assert other.fetchone() == (0,), "an open transaction was seen from outside"
            one.commit()
            mine.execute("UPDATE account SET amount = amount - 30 WHERE id = 1")
            mine.execute("SAVEPOINT half")
            mine.execute("UPDATE account SET amount = amount + 30 WHERE id = 2")
            mine.execute("ROLLBACK TO SAVEPOINT half")
            one.rollback()
            mine.execute("UPDATE account SET amount = 7 WHERE id = 2")
            one.commit()
    assert tier.same_everywhere("SELECT id, amount FROM account ORDER BY id") == ((1, 100), (2, 7))


@check
def a_deadlock_costs_one_side_1213_and_the_other_nothing(tier):
    with tier.connect("writer", autocommit=False) as one, tier.connect("writer", autocommit=False) as two:
        with one.cursor() as first, two.cursor() as second:
            first.execute("UPDATE account SET amount = amount + 1 WHERE id = 1")
            second.execute("UPDATE account SET amount = amount + 1 WHERE id = 2")
            errors = []

            def cross():
                try:
                    second.execute("UPDATE account SET amount = amount + 1 WHERE id = 1")
                except pymysql.err.OperationalError as error:
                    errors.append(error.args[0])

            thread = threading.Thread(target=cross)
            thread.start()
            try:
                first.execute("UPDATE account SET amount = amount + 1 WHERE id = 2")
            except pymysql.err.OperationalError as error:
                errors.append(error.args[0])
                one.rollback()
            thread.join(DEADLINE_S)
            assert errors == [ER.LOCK_DEADLOCK], errors


@check
def many_statements_in_one_packet_answer_in_order(tier):
    with tier.connect("reader", client_flag=CLIENT.MULTI_STATEMENTS) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1; DO 0; SELECT 'two', 2; SET @x = 3; SELECT @x")
        seen = [cursor.fetchall()]
        while cursor.nextset():
            seen.append(cursor.fetchall())
        assert [rows for rows in seen if rows] == [((1,),), (("two", 2),), ((3,),)], seen
        cursor.execute("SELECT 5; SELECT nothing_of_the_kind")
        assert cursor.fetchall() == ((5,),)
        assert_error(ER.BAD_FIELD_ERROR, cursor.nextset)
        cursor.execute("SELECT 'still here'")
        assert cursor.fetchone() == ("still here",)


@check
def a_result_of_20_mib_arrives_whole_and_may_be_left_half_read(tier):
    with tier.connect("writer") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE large (id INT PRIMARY KEY, body LONGBLOB)")
        for number in range(20):
            cursor.execute("INSERT INTO large VALUES (%s, _binary %s)", (number, block_of_bytes(number, MIB)))
    tier.same_everywhere("SELECT COUNT(*), SUM(CRC32(body)) FROM large")
    sums = [digest(tier.ask(via, "SELECT id, body FROM large ORDER BY id")) for via in ("direct", "reader", "writer")]
    assert len(set(sums)) == 1, sums
    with tier.connect("reader", cursorclass=pymysql.cursors.SSCursor) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT body FROM large")
        assert len(cursor.fetchone()[0]) == MIB
        # Gone without a word, as a client that crashed: nothing is read to its end.
        cursor._result.unbuffered_active = False
        connection._force_close()
    assert tier.ask("reader", "SELECT 1") == ((1,),)


@check
def packets_of_16_mib_and_more_pass_both_ways(tier):
    ((limit,),) = tier.ask("direct", "SELECT @@max_allowed_packet")
    assert limit >= 40 * MIB, f"max_allowed_packet is {limit}: start the servers with 64M"
    with tier.connect("writer", max_allowed_packet=64 * MIB) as connection, connection.cursor() as cursor:
        body = block_of_bytes(99, 17 * MIB).hex().encode()[: 20 * MIB]
        cursor.execute("SELECT LENGTH(%s), CRC32(%s)", (body, body[: 10 * MIB]))
        assert cursor.fetchone() == (20 * MIB, zlib.crc32(body[: 10 * MIB]))
        # 16 MiB - 1 is the length that a frame cannot hold: an empty one must follow. One less, one more, and twice.
        for size in (2**24 - 2, 2**24 - 1, 2**24, 2 * (2**24 - 1)):
            frame = "SELECT LENGTH('')"
            cursor.execute("SELECT LENGTH('" + "x" * (size - 1 - len(frame)) + "')")
            assert cursor.fetchone()[0] == size - 1 - len(frame)
            cursor.execute("SELECT REPEAT('y', %s)", (size - (4 if size < 2**24 + 4 else 9),))
            assert len(cursor.fetchone()[0]) == size - (4 if size < 2**24 + 4 else 9)
        cursor.execute("INSERT INTO large VALUES (100, %s)", (body,))
    tier.same_everywhere("SELECT LENGTH(body), CRC32(body) FROM large WHERE id = 100")


@check
def load_data_local_sends_the_file(tier):
    ((allowed,),) = tier.ask("direct", "SELECT @@local_infile")
    assert allowed, "the primary has local_infile=0: start the servers with local_infile=1"
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        file.writelines(f"{number}\tline {number}\n" for number in range(20_000))
        file.flush()
        with tier.connect("writer", local_infile=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE loaded (id INT PRIMARY KEY, words VARCHAR(40))")
            assert cursor.execute(f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE loaded") == 20_000
            assert_error(None, cursor.execute, "LOAD DATA LOCAL INFILE '/nowhere/at/all' INTO TABLE loaded")
            cursor.execute("SELECT COUNT(*) FROM loaded")
            assert cursor.fetchone() == (20_000,), "the session did not outlive a file that was missing"
    tier.same_everywhere("SELECT COUNT(*), SUM(CRC32(CONCAT(id, words))) FROM loaded")


@check
def a_procedure_returns_all_its_results(tier):
    with tier.connect("writer") as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE PROCEDURE three(IN n INT, OUT doubled INT) BEGIN"
            " SELECT n; SELECT id FROM loaded WHERE id < n ORDER BY id; SET doubled = n * 2; SELECT 'end'; END"
        )
    until(lambda: tier.every_reader("SHOW PROCEDURE STATUS WHERE Name = 'three' AND Db = %s", SCHEMA), "the procedure reaches every reader")
    for via in ("writer", "reader"):
        with tier.connect(via) as connection, connection.cursor() as cursor:
            cursor.callproc("three", (3, 0))
            seen = [cursor.fetchall()]
            while cursor.nextset():
                seen.append(cursor.fetchall())
            assert seen[:3] == [((3,),), ((0,), (1,), (2,)), (("end",),)], seen
            cursor.execute("SELECT @_three_1")
            assert cursor.fetchone() == (6,)


@check
def errors_keep_their_codes_and_the_session_goes_on(tier):
    with tier.connect("writer") as connection, connection.cursor() as cursor:
        for code, sql in (
            (ER.DUP_ENTRY, "INSERT INTO account VALUES (1, 1)"),
            (ER.NO_SUCH_TABLE, "SELECT * FROM not_there"),
            (ER.PARSE_ERROR, "SELEKT 1"),
            (1644, "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'ours', MYSQL_ERRNO = 1644"),
        ):
            assert_error(code, cursor.execute, sql)
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
    for via in ("reader", "writer"):
        assert_error(ER.ACCESS_DENIED_ERROR, lambda: tier.ask(via, "SELECT 1", password="not it"))
        assert_error(ER.BAD_DB_ERROR, lambda: tier.ask(via, "SELECT 1", database="drivers_nowhere"))


@check
def a_closed_connection_leaves_no_thread_on_the_server(tier):
    for rudely in (False, True):
        with tier.connect("writer") as connection:
            number = connection.thread_id()
            connection.ping(reconnect=False)
            connection.select_db("information_schema")
            assert tier.processes(number) == 1, "the thread id of the handshake is not that of the server"
            if rudely:
                connection._force_close()
            else:
                connection.close()
            until(lambda: tier.processes(number) == 0, f"the thread is gone (rudely: {rudely})")
            if not rudely:
                connection.connect()


@check
def a_killed_session_ends_with_an_error_and_not_a_hang(tier):
    with tier.connect("writer", read_timeout=DEADLINE_S) as victim:
        tier.ask("writer", f"KILL {victim.thread_id()}")
        try:
            victim.query("SELECT 1")
        except pymysql.err.OperationalError as error:
            assert error.args[0] in (CR.CR_SERVER_LOST, CR.CR_SERVER_GONE_ERROR, 1927, 1053), error
        else:
            raise AssertionError("a killed session answered")


@check
def each_authentication_plugin_passes_through(tier):
    ((version,),) = tier.ask("direct", "SELECT VERSION()")
    plugins = ["mysql_native_password"] if "MariaDB" in version else ["caching_sha2_password", "sha256_password"]
    for plugin in plugins:
        name = f"drivers_{plugin[:12]}"
        tier.ask("writer", f"DROP USER IF EXISTS {name}")
        by = f"IDENTIFIED WITH {plugin} BY" if "MariaDB" not in version else "IDENTIFIED BY"
        tier.ask("writer", f"CREATE USER {name} {by} %s", "pass wörd")
        until(lambda: tier.every_reader("SELECT 1 FROM mysql.user WHERE user = %s", name), "the user reaches every reader")
        for via in ("writer", "reader"):
            # Twice: the first makes the server ask for the password in full, the second is answered from its cache.
            for _ in range(2):
                login = {"user": name, "password": "pass wörd".encode(), "database": None}
                assert tier.ask(via, "SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)", **login) == ((name,),)
        tier.ask("writer", f"DROP USER {name}")


@check
def tls_reaches_the_server_end_to_end(tier):
    with tier.connect("direct") as connection:
        offered = connection.server_capabilities & CLIENT.SSL
    if not offered:
        raise Skip("the server offers no TLS")
    for via in ("reader", "writer"):
        ((_, cipher),) = tier.ask(via, "SHOW STATUS LIKE 'Ssl_cipher'", tls=True, ssl={"check_hostname": False, "verify_mode": "none"})
        assert cipher, f"no cipher through the {via}"


@check
def a_unix_socket_serves_as_well(tier):
    for via in ("reader_socket", "writer_socket"):
        assert tier.ask(via, "SELECT COUNT(*) FROM account") == ((2,),)


@check
def sixteen_threads_get_each_their_own_answers(tier):
    wrong = []

    def work(number):
        try:
            with tier.connect("reader") as connection, connection.cursor() as cursor:
                for turn in range(100):
                    cursor.execute("SELECT %s, id, words FROM loaded WHERE id = %s", (number, number * 100 + turn))
                    row = cursor.fetchone()
                    if row != (number, number * 100 + turn, f"line {number * 100 + turn}"):
                        wrong.append(row)
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]


def assert_error(code, function, *arguments):
    try:
        function(*arguments)
    except (pymysql.err.MySQLError, OSError) as error:
        assert code is None or error.args[0] == code, f"expected error {code}, got {error!r}"
    else:
        raise AssertionError(f"expected error {code}, got none")


main("PyMySQL", pymysql.VERSION_STRING, PyMySQL, __doc__)
