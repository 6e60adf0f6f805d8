#!/usr/bin/env python3
"""Records sessions of real clients with a real server, for the test session/recordings.rs. See README.md beside this file.

record.py RECORDER HOST:PORT LABEL [NAME...]   needs PyMySQL, mysql-connector-python and the mariadb client; root without password
"""
import os, socket, struct, subprocess, sys, tempfile, time
from contextlib import contextmanager

HERE = os.path.dirname(os.path.abspath(__file__))
SCENARIOS = {}

# Capability flags, by the protocol's names.
FOUND, LONG_FLAG, WITH_DB, COMPRESS, LOCAL, P41, SSL, TRANS, SECURE = 2, 4, 8, 32, 128, 512, 2048, 8192, 32768
MULTI_ST, MULTI_RES, PS_MULTI, PLUGIN, ATTRS, LENENC = 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21
TRACK, NO_EOF, OPT_META, QUERY_ATTRS = 1 << 23, 1 << 24, 1 << 25, 1 << 27
MARIA_PROGRESS, MARIA_BULK, MARIA_CACHE = 1 << 32, 1 << 34, 1 << 36
PLAIN = LONG_FLAG | WITH_DB | LOCAL | P41 | TRANS | SECURE | MULTI_ST | MULTI_RES | PS_MULTI | PLUGIN


def scenario(only=""):
    def add(f):
        SCENARIOS[f.__name__] = (f, only)
        return f
    return add


class Recording:
    """The recorder's process: notes what holds at a point."""

    def __init__(self, process, port, server_port):
        self.process, self.port, self.server_port = process, port, server_port

    def line(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def holds(self, phase, **facts):
        self.line("= " + " | ".join([phase] + [f"{name} {value}" for name, value in facts.items()]))


@contextmanager
def recording(recorder, server, name, about):
    path = os.path.join(HERE, name + ".txt")
    process = subprocess.Popen([recorder, server, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        rec = Recording(process, int(process.stdout.readline()), int(server.rsplit(":", 1)[1]))
        rec.line("# " + about)
        yield rec
        process.stdin.close()
        process.wait(10)
    finally:
        process.kill()


class Raw:
    """A client that says exactly what it is told, for what no driver does."""

    def __init__(self, port, flags=PLAIN, user=b"root", db=b"wire", answer=b"", plugin=None, login=True):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.greeting = self.quiet()
        if login:
            if plugin is None:
                plugin = b"caching_sha2_password" if b"caching_sha2" in self.greeting else b"mysql_native_password"
            body = struct.pack("<IIB19xI", flags & 0xFFFFFFFF, 1 << 24, 45, flags >> 32)
            body += user + b"\0" + bytes([len(answer)]) + answer + db + b"\0" + plugin + b"\0"
            self.send(body, 1)
            self.login = self.quiet()

    def send(self, body, seq=0):
        self.socket.sendall(struct.pack("<I", len(body))[:3] + bytes([seq]) + body)

    def quiet(self, wait=3, between=0.4):
        """Everything that comes until nothing comes for a while."""
        got = b""
        self.socket.settimeout(wait)
        try:
            while True:
                more = self.socket.recv(65536)
                if not more:
                    return got
                got += more
                self.socket.settimeout(between)
        except TimeoutError:
            return got

    def command(self, body):
        self.send(body)
        return self.quiet()

    def query(self, text):
        return self.command(b"\x03" + text.encode())

    def prepare(self, text):
        return struct.unpack("<I", self.command(b"\x16" + text.encode())[5:9])[0]

    def execute(self, statement, cursor=0, rest=b""):
        return self.command(struct.pack("<BIBI", 0x17, statement, cursor, 1) + rest)

    def close(self):
        self.send(b"\x01")
        self.quiet()
        self.socket.close()


def pymysql_connect(rec, **more):
    import pymysql
    return pymysql.connect(host="127.0.0.1", port=rec.port, user="root", database="wire", ssl_disabled=True, **more)


def connector(rec, **more):
    import mysql.connector
    return mysql.connector.connect(host="127.0.0.1", port=rec.port, user="root", database="wire", use_pure=True, ssl_disabled=True, **more)


@scenario()
def pymysql_session(rec):
    "PyMySQL: selects, a transaction, an error, a temporary table, LOAD DATA LOCAL, a procedure with several results"
    from pymysql.constants import CLIENT
    c = pymysql_connect(rec, autocommit=True, local_infile=True, client_flag=CLIENT.MULTI_STATEMENTS)
    rec.holds("idle", completed=1, transaction="no", sticky="", user="root", database="wire")
    k = c.cursor()
    k.execute("SELECT id, name FROM t WHERE id = %s", (2,))
    k.execute("SELECT 'me@example.com', NULL")
    rec.holds("idle", completed=3, transaction="no", sticky="")
    c.begin()
    k.execute("UPDATE t SET name = 'x' WHERE id = 1")
    rec.holds("idle", completed=5, transaction="yes", sticky="")
    c.rollback()
    rec.holds("idle", completed=6, transaction="no", sticky="")
    try:
        k.execute("SELECT * FROM no_such_table")
    except Exception:
        pass
    rec.holds("idle", completed=7, failed=1, transaction="no", sticky="")
    k.execute("INSERT INTO ai (v) VALUES (7)")
    rec.holds("idle", completed=8, sticky="last insert id")
    k.execute("SELECT 1 FROM t LIMIT 1")
    rec.holds("idle", completed=9, sticky="")
    k.execute("SELECT 1; SELECT 2 UNION SELECT 3; DO 0")
    while k.nextset():
        pass
    rec.holds("idle", completed=10, sticky="")
    k.execute("SELECT 1; SELECT * FROM no_such_table; SELECT 3")
    try:
        k.nextset()
    except Exception:
        pass
    rec.holds("idle", completed=11, failed=2, sticky="")
    k.execute("CREATE TEMPORARY TABLE tmp (a INT)")
    rec.holds("idle", completed=12, sticky="temporary table")
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
        f.write("1\n2\n3\n")
        f.flush()
        k.execute(f"LOAD DATA LOCAL INFILE '{f.name}' INTO TABLE tmp")
    rec.holds("idle", completed=13)
    k.callproc("two_results")
    while k.nextset():
        pass
    rec.holds("idle", completed=14, sticky="temporary table, called a stored procedure")
    c.select_db("other")
    rec.holds("idle", completed=15, database="other")
    k.execute("USE wire")
    rec.holds("idle", completed=16, database="wire")
    c.ping()
    c.close()


@scenario()
def connector_session(rec):
    "mysql-connector-python: prepared statements, several results, change of user, reset of the session"
    c = connector(rec, autocommit=False, allow_local_infile=True)
    k = c.cursor(prepared=True)
    k.execute("SELECT id, name FROM t WHERE id > %s", (1,))
    k.fetchall()
    rec.holds("idle", transaction="yes", sticky="prepared statement")
    k.execute("SELECT id, name FROM t WHERE id > %s", (0,))
    k.fetchall()
    k.close()
    c.commit()
    rec.holds("idle", transaction="no", sticky="")
    k = c.cursor()
    k.execute("INSERT INTO ai (v) VALUES (8)")
    rec.holds("idle", transaction="yes", sticky="last insert id")
    c.rollback()
    k.execute("SET @a = 5")
    rec.holds("idle", transaction="no", sticky="user variable, last insert id")
    c.cmd_reset_connection()
    rec.holds("idle", transaction="no", sticky="", database="wire")
    k.execute("SELECT GET_LOCK('wire', 0)")
    k.fetchall()
    rec.holds("idle", sticky="named lock")
    c.cmd_change_user(username="root", password="", database="other")
    rec.holds("idle", sticky="", database="other")
    k.execute("SELECT 1")
    k.fetchall()
    c.cmd_statistics()
    c.close()


@scenario("MariaDB")
def client_program(rec):
    "the mariadb program: table names at the start (COM_FIELD_LIST), USE, SHOW WARNINGS, locks, progress reports"
    text = """LOCK TABLES t READ; UNLOCK TABLES; USE other; SELECT 1/0; SHOW WARNINGS;
        SET progress_report_time=1; USE wire; SET @keep = 1;
        ALTER TABLE big MODIFY pad CHAR(201), ALGORITHM=COPY; ALTER TABLE big MODIFY pad CHAR(200), ALGORITHM=COPY;"""
    subprocess.run(["mariadb", "--no-defaults", "--skip-ssl", "-h127.0.0.1", f"-P{rec.port}", "-uroot", "--auto-rehash",
                    "--progress-reports", "wire"], input=text, text=True, stdout=subprocess.DEVNULL, check=True)
    rec.holds("closing", completed=12, failed=0, sticky="user variable", database="wire")


def prepared_life(rec, r, first=0):
    s = r.prepare("SELECT id, name FROM t WHERE id > ?")
    rec.holds("idle", completed=first + 1, sticky="prepared statement")
    one = b"\0\x01\x03\x00" + struct.pack("<i", 0)
    r.execute(s, 0, one)
    rec.holds("idle", completed=first + 2, sticky="prepared statement")
    r.execute(s, 1, one)
    rec.holds("idle", completed=first + 3, sticky="prepared statement, open cursor")
    r.command(struct.pack("<BII", 0x1C, s, 2))
    rec.holds("idle", completed=first + 4, sticky="prepared statement, open cursor")
    r.command(struct.pack("<BII", 0x1C, s, 10))
    rec.holds("idle", completed=first + 5, sticky="prepared statement")
    r.execute(s, 1, one)
    r.command(struct.pack("<BI", 0x1A, s))
    rec.holds("idle", completed=first + 7, sticky="prepared statement")
    r.execute(s, 1, one)
    r.command(struct.pack("<BI", 0x19, s))
    rec.holds("idle", completed=first + 8, sticky="")
    s = r.prepare("INSERT INTO ai (v) VALUES (?)")
    r.send(struct.pack("<BIH", 0x18, s, 0) + b"1")
    r.send(struct.pack("<BIH", 0x18, s, 0) + b"2")
    r.execute(s, 0, b"\0\x01\xfd\x00")
    rec.holds("idle", completed=first + 10, sticky="prepared statement, last insert id")
    s2 = r.prepare("CALL out_parameter(?)")
    r.execute(s2, 0, one)
    s3 = r.prepare("DO 1")
    r.command(b"\x16no such statement")
    rec.holds("idle", completed=first + 14, failed=1)
    for each in (s, s2, s3):
        r.send(struct.pack("<BI", 0x19, each))
    r.query("SELECT 1 FROM t")
    rec.holds("idle", completed=first + 15, sticky="called a stored procedure")


@scenario()
def prepared_with_eof(rec):
    "raw: prepared statements, cursors, long data, OUT parameters; EOF packets"
    r = Raw(rec.port)
    prepared_life(rec, r)
    r.close()


@scenario()
def prepared_without_eof(rec):
    "raw: the same without EOF packets, with session tracking"
    r = Raw(rec.port, PLAIN | NO_EOF | TRACK)
    prepared_life(rec, r)
    r.query("USE other")
    rec.holds("idle", database="other")
    r.query("SET autocommit = 0")
    r.query("SELECT * FROM no_such_table")
    rec.holds("idle", transaction="yes")
    r.query("SELECT 1")
    rec.holds("idle", transaction="no")
    r.query("SELECT COUNT(*) FROM wire.t")
    rec.holds("idle", transaction="yes")
    r.query("COMMIT")
    rec.holds("idle", transaction="no")
    r.query("START TRANSACTION READ ONLY")
    rec.holds("idle", transaction="yes")
    r.query("ROLLBACK")
    rec.holds("idle", transaction="no")
    r.close()


@scenario("MariaDB")
def mariadb_extensions(rec):
    "raw: MariaDB's metadata caching, bulk execution, execution of the last prepared statement, commands sent ahead"
    r = Raw(rec.port, PLAIN | NO_EOF | MARIA_CACHE | MARIA_BULK | MARIA_PROGRESS)
    s = r.prepare("SELECT id, name FROM t WHERE id > ?")
    one = b"\0\x01\x03\x00" + struct.pack("<i", 0)
    r.execute(s, 0, one)
    r.execute(s, 0, one)
    rec.holds("idle", completed=3, sticky="prepared statement")
    b = r.prepare("INSERT INTO ai (v) VALUES (?)")
    r.command(struct.pack("<BIH", 0xFA, b, 128) + b"\x03\x00" + b"\0" + struct.pack("<i", 5) + b"\0" + struct.pack("<i", 6))
    rec.holds("idle", completed=5, failed=0)
    r.send(b"\x16SELECT 5")
    r.send(struct.pack("<BIBI", 0x17, 0xFFFFFFFF, 0, 1))
    r.send(b"\x03SELECT 6")
    r.send(b"\x0e")
    r.quiet()
    rec.holds("idle", completed=9, failed=0)
    r.close()


@scenario("MariaDB")
def mariadb_cache_with_eof(rec):
    "raw: MariaDB's metadata caching with EOF packets, empty results too"
    r = Raw(rec.port, PLAIN | MARIA_CACHE)
    s = r.prepare("SELECT id, name FROM t WHERE id > ?")
    for low in (0, 0, 99, 99):
        r.execute(s, 0, b"\0\x01\x03\x00" + struct.pack("<i", low))
    r.query("SELECT id FROM t")
    rec.holds("idle", completed=6, failed=0)
    r.close()


@scenario("MySQL")
def mysql_extensions(rec):
    "raw: MySQL's query attributes, metadata left out"
    r = Raw(rec.port, PLAIN | 1 | NO_EOF | OPT_META | QUERY_ATTRS | TRACK)
    r.command(b"\x03\x00\x01SELECT 1")
    rec.holds("idle", completed=1, sticky="")
    r.command(b"\x03\x01\x01\x00\x01\xfd\x00\x01n\x03it'SET @seen = 1")
    rec.holds("idle", completed=2, sticky="user variable", failed=0)
    r.command(b"\x03\x00\x01SET resultset_metadata = NONE")
    r.command(b"\x03\x00\x01SELECT 1, 2")
    rec.holds("idle", completed=4, failed=0)
    s = struct.unpack("<I", r.command(b"\x16SELECT ?, 1")[5:9])[0]
    # With query attributes the number of parameters and their names are sent too.
    r.execute(s, 0, b"\x01" + b"\0\x01\x03\x00\0" + struct.pack("<i", 0))
    rec.holds("idle", completed=6, failed=0)
    r.close()


@scenario("MySQL")
def mysql_metadata_with_eof(rec):
    "raw: MySQL's metadata left out, with EOF packets"
    r = Raw(rec.port, PLAIN | 1 | OPT_META)
    r.query("SET resultset_metadata = NONE")
    r.query("SELECT 1, 2")
    r.query("SELECT 1 FROM t WHERE id > 99")
    s = r.prepare("SELECT ?, 1")
    r.execute(s, 0, b"\0\x01\x03\x00" + struct.pack("<i", 0))
    rec.holds("idle", completed=5, failed=0)
    r.close()


@scenario()
def old_commands(rec):
    "raw: the commands that drivers rarely send"
    r = Raw(rec.port)
    r.command(b"\x09")
    r.command(b"\x0a")
    r.command(b"\x04t\0%")
    r.command(b"\x1b\x01\x00")
    r.command(b"\x0d")
    r.command(b"\x7f")
    r.send(b"")
    r.quiet()
    r.command(b"\x02no_such_database")
    rec.holds("idle", completed=8, database="wire")
    r.query("SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1")
    rec.holds("idle", completed=9, sticky="found rows")
    r.query("PREPARE s FROM 'SELECT 1'")
    rec.holds("idle", completed=10, sticky="prepared statement, found rows")
    r.query("DEALLOCATE PREPARE s")
    rec.holds("idle", completed=11, sticky="found rows")
    r.query("LOCK TABLES t READ")
    r.query("SELECT COUNT(*) FROM t")
    rec.holds("idle", completed=13, sticky="table lock")
    r.query("UNLOCK TABLES")
    rec.holds("idle", completed=14, sticky="")
    r.query("XA START 'x'")
    rec.holds("idle", completed=15, sticky="xa transaction", transaction="yes")
    r.query("XA END 'x'")
    r.query("XA ROLLBACK 'x'")
    rec.holds("idle", completed=17, sticky="", transaction="no")
    r.close()


@scenario()
def infile_refused(rec):
    "raw: LOAD DATA LOCAL into a missing table, then with an empty file; the client sends ahead nothing"
    r = Raw(rec.port)
    if r.query("LOAD DATA LOCAL INFILE '/x' INTO TABLE no_such_table")[4] == 0xFB:
        r.send(b"", 2)
        r.quiet()
    rec.holds("idle", completed=1, failed=1)
    r.query("LOAD DATA LOCAL INFILE '/x' INTO TABLE ai (v)")
    rec.holds("infile", completed=1)
    r.send(b"1\n2\n", 2)
    r.send(b"3\n", 3)
    r.send(b"", 4)
    r.quiet()
    rec.holds("idle", completed=2, failed=1)
    r.query("SELECT 1")
    rec.holds("idle", completed=3)
    r.close()


@scenario("MariaDB")
def killed_while_idle(rec):
    "raw: the server ends an idle session without a word, because somebody killed it"
    import pymysql
    r = Raw(rec.port)
    r.query("DO 1")
    rec.holds("idle", completed=1)
    connection = struct.unpack("<I", r.greeting[r.greeting.index(b"\0", 5) + 1:][:4])[0]
    admin = pymysql.connect(host="127.0.0.1", port=rec.server_port, user="root")
    admin.cursor().execute(f"KILL {connection}")
    r.quiet(1)
    admin.close()
    rec.holds("idle", completed=1, failed=0)


@scenario("MySQL")
def timed_out(rec):
    "raw: the server ends an idle session with an error that nobody asked for"
    r = Raw(rec.port)
    r.query("SET wait_timeout = 1")
    r.quiet(3)
    rec.holds("closing", completed=1, failed=0)


@scenario()
def wrong_password(rec):
    "raw: a login that is refused"
    r = Raw(rec.port, user=b"nobody", answer=b"x" * 20)
    rec.holds("closing", completed=0)


@scenario()
def auth_switch(rec):
    "raw: a login with another plugin than the account's"
    r = Raw(rec.port, plugin=b"mysql_clear_password")
    if r.login[4] == 0xFE:
        r.send(b"", 3)
        r.quiet()
    r.query("SELECT 1")
    rec.holds("idle", completed=1)
    r.close()


@scenario("MariaDB")
def too_many_connections(rec):
    "raw: refused instead of greeted (max_connections and max_user_connections are used up)"
    Raw(rec.port, login=False)
    rec.holds("closing", completed=0)


@scenario()
def tls_request(rec):
    "raw: the client asks for TLS"
    r = Raw(rec.port, login=False)
    r.send(struct.pack("<IIB23x", PLAIN | SSL, 1 << 24, 45), 1)
    r.quiet()
    rec.holds("opaque", completed=0)
    r.socket.close()


@scenario("MariaDB")
def compressed(rec):
    "the mariadb program with zlib compression"
    subprocess.run(["mariadb", "--no-defaults", "--skip-ssl", "--compress", "-h127.0.0.1", f"-P{rec.port}", "-uroot", "-e", "SELECT REPEAT('a', 300)"],
                   stdout=subprocess.DEVNULL, check=True)
    rec.holds("opaque", completed=0, user="root")


@scenario()
def binlog_stream(rec):
    "raw: a replica's stream"
    r = Raw(rec.port)
    r.query("SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE'")
    r.send(struct.pack("<BIHI", 0x12, 4, 0, 4711))
    r.quiet(0.5)
    rec.holds("streaming", completed=1)
    r.socket.close()


def caching_sha2(rec):
    import pymysql
    c = pymysql.connect(host="127.0.0.1", port=rec.port, user="sha2", password="secret", ssl_disabled=True)
    c.cursor().execute("SELECT 1")
    rec.holds("idle", completed=3, user="sha2")
    c.close()


@scenario("MySQL")
def caching_sha2_full(rec):
    "PyMySQL: caching_sha2_password with the full exchange (public key, encrypted password)"
    caching_sha2(rec)


@scenario("MySQL")
def caching_sha2_fast(rec):
    "PyMySQL: caching_sha2_password answered from the server's cache"
    caching_sha2(rec)


def prepare_server(host, port, label):
    import pymysql
    c = pymysql.connect(host=host, port=port, user="root", autocommit=True)
    k = c.cursor()
    for text in [
        "SET GLOBAL local_infile = 1",
        "DROP DATABASE IF EXISTS wire", "CREATE DATABASE wire", "CREATE DATABASE IF NOT EXISTS other", "USE wire",
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))",
        "INSERT INTO t VALUES (1,'one'),(2,'two'),(3,NULL),(4,'four')",
        "CREATE TABLE ai (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        "CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, pad CHAR(200))",
        "INSERT INTO big (pad) VALUES ('a'),('b'),('c'),('d')",
        "CREATE PROCEDURE two_results() BEGIN SELECT 1; SELECT 2, 3; END",
        "CREATE PROCEDURE out_parameter(INOUT x INT) BEGIN SELECT 'row'; SET x = 7; END",
    ]:
        k.execute(text)
    if label.startswith("MySQL"):
        # Made anew, so that the server's cache does not know the password.
        k.execute("DROP USER IF EXISTS sha2@'%'")
        k.execute("CREATE USER sha2@'%' IDENTIFIED WITH caching_sha2_password BY 'secret'")
    if label.startswith("MariaDB"):
        for _ in range(17):
            k.execute("INSERT INTO big (pad) SELECT pad FROM big")
    # The binary log's stream is recorded from its start: keep it short.
    k.execute("RESET MASTER" if label.startswith("MariaDB") else "RESET BINARY LOGS AND GTIDS")
    return c


@contextmanager
def connections_used_up(port, wanted):
    """The server refuses everybody while this holds."""
    import pymysql
    if not wanted:
        yield
        return
    admin = pymysql.connect(host="127.0.0.1", port=port, user="root")
    k = admin.cursor()
    k.execute("SET GLOBAL max_connections = 10")
    idle = []
    try:
        while True:
            idle.append(pymysql.connect(host="127.0.0.1", port=port, user="root"))
    except pymysql.err.OperationalError:
        pass
    try:
        yield
    finally:
        k.execute("SET GLOBAL max_connections = 151")


def main():
    recorder, server, label, *names = sys.argv[1:]
    host, port = server.rsplit(":", 1)
    keep = prepare_server(host, int(port), label)
    for name, (run, only) in SCENARIOS.items():
        if (names and name not in names) or not label.startswith(only):
            continue
        prefix = label.split()[0].lower()
        with connections_used_up(int(port), name == "too_many_connections"):
            with recording(recorder, server, f"{prefix}-{name}", f"{label}; {run.__doc__}") as rec:
                run(rec)
        print(name, os.path.getsize(os.path.join(HERE, f"{prefix}-{name}.txt")))
    keep.close()


if __name__ == "__main__":
    main()
