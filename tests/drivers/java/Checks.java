// What an application does by JDBC, held against a direct connection. In this order: later checks read tables of earlier ones.

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

final class Checks {
    private static final int MIB = 1 << 20;
    /** Both ways of preparing: by the client, and by the server (the binary protocol). */
    private static final String[] PREPARING = {"useServerPrepStmts=false", "useServerPrepStmts=true"};

    static Map<String, Runner.Check> all() {
        Map<String, Runner.Check> all = new LinkedHashMap<>();
        all.put("statements prepared by client and server bring every type unchanged", Checks::types);
        all.put("a prepared statement is used many times", Checks::prepared);
        all.put("several results come in order", Checks::severalResults);
        all.put("packets of 17 MiB pass both ways", Checks::bigPackets);
        all.put("LOAD DATA LOCAL sends a file", Checks::loadData);
        all.put("transactions commit, roll back and go back to a savepoint", Checks::transactions);
        all.put("a changed user is somebody else", Checks::changedUser);
        all.put("a reset session has forgotten its state", Checks::resetSession);
        all.put("eight threads get each their own answers", Checks::threads);
        all.put("rows are streamed and fetched by cursor, and may be left half read", Checks::streamed);
        all.put("batches are written in each way the driver has", Checks::batches);
        all.put("errors keep their codes and the session goes on", Checks::errors);
        all.put("a cancelled query and a killed session end with an error", Checks::killed);
        all.put("TLS reaches the server end to end", Checks::tls);
        return all;
    }

    private static void types(Tier tier) throws Exception {
        tier.execute("writer", "CREATE TABLE " + tier.schema + ".kinds (id INT PRIMARY KEY, big BIGINT UNSIGNED, price DECIMAL(20,6),"
            + " at DATETIME(6), words TEXT, raw VARBINARY(64), gone INT)");
        byte[] raw = "\0'\\\"bytes".getBytes(StandardCharsets.UTF_8);
        for (int id = 0; id < PREPARING.length; id++) {
            try (Connection c = tier.open("writer", PREPARING[id]);
                PreparedStatement s = c.prepareStatement("INSERT INTO kinds VALUES (?, 18446744073709551615, ?, '1999-12-31 23:59:59.999999', ?, ?, ?)")) {
                s.setInt(1, id);
                s.setBigDecimal(2, new java.math.BigDecimal("-12345678901234.567890"));
                s.setString(3, "Grüße 🦀 '\\");
                s.setBinaryStream(4, new ByteArrayInputStream(raw), raw.length);
                s.setNull(5, java.sql.Types.INTEGER);
                Tier.expect(1, s.executeUpdate());
            }
        }
        tier.sameEverywhere("SELECT id, big, price, CAST(at AS CHAR), words, HEX(raw), gone FROM kinds ORDER BY id");
        for (String preparing : PREPARING) {
            try (Connection c = tier.open("reader", preparing); PreparedStatement s = c.prepareStatement("SELECT * FROM kinds WHERE id < ? ORDER BY id")) {
                s.setInt(1, 9);
                try (ResultSet r = s.executeQuery()) {
                    while (r.next()) {
                        Tier.expect("18446744073709551615", r.getString(2));
                        Tier.expect("-12345678901234.567890", r.getBigDecimal(3).toPlainString());
                        Tier.expect("Grüße 🦀 '\\", r.getString(5));
                        Tier.expect(Arrays.toString(raw), Arrays.toString(r.getBytes(6)));
                        Tier.expect(true, r.getObject(7) == null);
                    }
                }
            }
        }
    }

    private static void prepared(Tier tier) throws Exception {
        for (String preparing : PREPARING) {
            try (Connection c = tier.open("reader", preparing, "cachePrepStmts=true")) {
                for (int round = 0; round < 10; round++) {
                    try (PreparedStatement s = c.prepareStatement("SELECT ? * 2, ?")) {
                        for (int n = 0; n < 50; n++) {
                            s.setInt(1, n);
                            s.setString(2, "n" + n);
                            try (ResultSet r = s.executeQuery()) {
                                r.next();
                                Tier.expect(n * 2, r.getInt(1));
                                Tier.expect("n" + n, r.getString(2));
                            }
                        }
                    }
                }
            }
        }
    }

    private static void severalResults(Tier tier) throws Exception {
        try (Connection c = tier.open("reader"); Statement s = c.createStatement()) {
            List<Object> seen = new ArrayList<>();
            boolean rows = s.execute("SELECT 1; DO 0; SELECT 'two', 2");
            while (rows || s.getUpdateCount() >= 0) {
                if (rows) {
                    seen.add(Tier.all(s.getResultSet()));
                }
                rows = s.getMoreResults();
            }
            Tier.expect(List.of(List.of(List.of("1")), List.of(List.of("two", "2"))), seen);
        }
        try (Connection c = tier.open("writer"); Statement s = c.createStatement()) {
            s.execute("CREATE PROCEDURE twice(IN n INT, OUT doubled INT) BEGIN SELECT n; SELECT n + 1; SET doubled = n * 2; END");
            try (CallableStatement call = c.prepareCall("{CALL twice(?, ?)}")) {
                call.setInt(1, 21);
                call.registerOutParameter(2, java.sql.Types.INTEGER);
                Tier.expect(true, call.execute());
                Tier.expect(List.of(List.of("21")), Tier.all(call.getResultSet()));
                Tier.expect(true, call.getMoreResults());
                Tier.expect(List.of(List.of("22")), Tier.all(call.getResultSet()));
                Tier.expect(42, call.getInt(2));
            }
        }
    }

    private static void bigPackets(Tier tier) throws Exception {
        byte[] body = new byte[17 * MIB];
        for (int at = 0; at < body.length; at++) {
            body[at] = (byte) ('a' + at % 23);
        }
        String text = new String(body, StandardCharsets.US_ASCII);
        java.util.zip.CRC32 sum = new java.util.zip.CRC32();
        sum.update(body);
        for (String preparing : PREPARING) {
            try (Connection c = tier.open("writer", preparing, "maxAllowedPacket=67108864")) {
                try (PreparedStatement s = c.prepareStatement("SELECT LENGTH(?), CRC32(?)")) {
                    s.setString(1, text);
                    s.setString(2, text);
                    try (ResultSet r = s.executeQuery()) {
                        r.next();
                        Tier.expect(body.length, r.getInt(1));
                        Tier.expect(sum.getValue(), r.getLong(2));
                    }
                }
                for (int size : new int[] {(1 << 24) - 5, (1 << 24) - 4, 17 * MIB}) {
                    try (PreparedStatement s = c.prepareStatement("SELECT REPEAT('y', ?)")) {
                        s.setInt(1, size);
                        try (ResultSet r = s.executeQuery()) {
                            r.next();
                            Tier.expect(size, r.getString(1).length());
                        }
                    }
                }
            }
        }
    }

    private static void loadData(Tier tier) throws Exception {
        Path file = Files.createTempFile("drivers", ".tsv");
        try (Connection c = tier.open("writer"); Statement s = c.createStatement()) {
            StringBuilder lines = new StringBuilder();
            for (int n = 0; n < 20_000; n++) {
                lines.append(n).append("\tline ").append(n).append('\n');
            }
            Files.writeString(file, lines);
            s.execute("CREATE TABLE loaded (id INT PRIMARY KEY, words VARCHAR(40))");
            Tier.expect(20_000, s.executeUpdate("LOAD DATA LOCAL INFILE '" + file + "' INTO TABLE loaded"));
            Fails.with(() -> s.executeUpdate("LOAD DATA LOCAL INFILE '/nowhere/at/all' INTO TABLE loaded"));
            try (ResultSet r = s.executeQuery("SELECT COUNT(*) FROM loaded")) {
                Tier.expect(List.of(List.of("20000")), Tier.all(r));
            }
        } finally {
            Files.delete(file);
        }
        tier.sameEverywhere("SELECT COUNT(*), SUM(CRC32(CONCAT(id, words))) FROM loaded");
    }

    private static void transactions(Tier tier) throws Exception {
        tier.execute("writer", "CREATE TABLE " + tier.schema + ".account (id INT PRIMARY KEY, amount INT) ENGINE=InnoDB");
        try (Connection c = tier.open("writer"); Statement s = c.createStatement()) {
            c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
            c.setAutoCommit(false);
            s.execute("INSERT INTO account VALUES (1, 100)");
            var half = c.setSavepoint("half");
            s.execute("INSERT INTO account VALUES (2, 100)");
            c.rollback(half);
            c.commit();
            s.execute("INSERT INTO account VALUES (3, 100)");
            c.rollback();
        }
        Tier.expect(List.of(List.of("1", "100")), tier.sameEverywhere("SELECT * FROM account"));
    }

    private static void changedUser(Tier tier) throws Exception {
        if (tier.driver != Tier.Driver.MYSQL) {
            throw new Runner.Skip("the driver has no such call");
        }
        tier.execute("writer", "DROP USER IF EXISTS drivers_j_other");
        tier.execute("writer", "CREATE USER drivers_j_other IDENTIFIED BY 'other'");
        tier.execute("writer", "GRANT SELECT ON " + tier.schema + ".* TO drivers_j_other");
        try (Connection c = tier.open("writer", tier.anyCertificate()); Statement s = c.createStatement()) {
            c.unwrap(com.mysql.cj.jdbc.JdbcConnection.class).changeUser("drivers_j_other", "other");
            try (ResultSet r = s.executeQuery("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)")) {
                Tier.expect(List.of(List.of("drivers_j_other")), Tier.all(r));
            }
        }
        tier.execute("writer", "DROP USER drivers_j_other");
    }

    private static void resetSession(Tier tier) throws Exception {
        if (tier.driver == Tier.Driver.MARIADB && !tier.isMariaDb()) {
            throw new Runner.Skip("the driver resets sessions of MariaDB alone");
        }
        String[] options = tier.driver == Tier.Driver.MYSQL ? new String[0] : new String[] {"useResetConnection=true"};
        try (Connection c = tier.open("reader", options); Statement s = c.createStatement()) {
            s.execute("SET @mine = 1");
            if (tier.driver == Tier.Driver.MYSQL) {
                c.unwrap(com.mysql.cj.jdbc.JdbcConnection.class).resetServerState();
            } else {
                c.unwrap(org.mariadb.jdbc.Connection.class).reset();
            }
            try (Statement again = c.createStatement(); ResultSet r = again.executeQuery("SELECT @mine, DATABASE()")) {
                Tier.expect(Arrays.asList(null, tier.schema), Tier.all(r).get(0));
            }
        }
    }

    private static void threads(Tier tier) throws Exception {
        var pool = Executors.newFixedThreadPool(8);
        List<Future<Void>> works = new ArrayList<>();
        for (int number = 0; number < 8; number++) {
            int first = number * 100;
            works.add(pool.submit(() -> {
                try (Connection c = tier.open("reader", PREPARING[first / 100 % 2]); PreparedStatement s = c.prepareStatement("SELECT ?, words FROM loaded WHERE id = ?")) {
                    for (int n = first; n < first + 100; n++) {
                        s.setInt(1, n);
                        s.setInt(2, n);
                        try (ResultSet r = s.executeQuery()) {
                            Tier.expect(List.of(List.of(String.valueOf(n), "line " + n)), Tier.all(r));
                        }
                    }
                }
                return null;
            }));
        }
        pool.shutdown();
        for (var work : works) {
            work.get();
        }
    }

    private static void streamed(Tier tier) throws Exception {
        long wanted = 0;
        for (String via : List.of("direct", "reader")) {
            for (int fetch : new int[] {0, Integer.MIN_VALUE, 100}) {
                long sum = 0;
                try (Connection c = tier.open(via, "useServerPrepStmts=true", fetch == 100 ? "useCursorFetch=true" : "useCursorFetch=false");
                    PreparedStatement s = c.prepareStatement("SELECT id, words FROM loaded ORDER BY id")) {
                    // MariaDB's takes 1 for what MySQL's calls the least integer: row by row.
                    s.setFetchSize(fetch < 0 && tier.driver == Tier.Driver.MARIADB ? 1 : fetch);
                    try (ResultSet r = s.executeQuery()) {
                        while (r.next()) {
                            sum = sum * 31 + r.getInt(1) + r.getString(2).hashCode();
                        }
                    }
                }
                wanted = wanted == 0 ? sum : wanted;
                Tier.expect(wanted, sum);
            }
        }
        Connection c = tier.open("reader");
        Statement s = c.createStatement();
        s.setFetchSize(tier.driver == Tier.Driver.MARIADB ? 1 : Integer.MIN_VALUE);
        s.executeQuery("SELECT a.id FROM loaded a JOIN loaded b ON b.id < 100").next();
        // Gone in the middle of its rows.
        c.abort(Runnable::run);
        Tier.expect(1, tier.rows("reader", "SELECT 1").size());
    }

    private static void batches(Tier tier) throws Exception {
        String[][] ways = {
            {"useServerPrepStmts=false", "rewriteBatchedStatements=true"},
            {"useServerPrepStmts=true"},
            {"useServerPrepStmts=false", "useBulkStmts=false"},
            // Sent ahead and in bulk: MariaDB's alone, and on its own server only the latter.
            {"useServerPrepStmts=true", "useBulkStmts=true"},
        };
        tier.execute("writer", "CREATE TABLE " + tier.schema + ".many (way INT, id INT, words VARCHAR(40), PRIMARY KEY (way, id))");
        for (int way = 0; way < ways.length; way++) {
            try (Connection c = tier.open("writer", ways[way]); PreparedStatement s = c.prepareStatement("INSERT INTO many VALUES (?, ?, ?)")) {
                for (int n = 0; n < 200; n++) {
                    s.setInt(1, way);
                    s.setInt(2, n);
                    s.setString(3, "row " + n);
                    s.addBatch();
                }
                Tier.expect(200, s.executeBatch().length);
                // One of three is refused; the session goes on.
                for (int n : new int[] {200, 0, 201}) {
                    s.setInt(1, way);
                    s.setInt(2, n);
                    s.setString(3, "row " + n);
                    s.addBatch();
                }
                Fails.with(s::executeBatch, 1062);
                Tier.expect(true, c.isValid(10));
            }
        }
        tier.sameEverywhere("SELECT way, SUM(CRC32(words)) FROM many WHERE id < 200 GROUP BY way ORDER BY way");
    }

    private static void errors(Tier tier) throws Exception {
        for (String preparing : PREPARING) {
            try (Connection c = tier.open("writer", preparing); Statement s = c.createStatement()) {
                Fails.with(() -> s.executeUpdate("INSERT INTO account VALUES (1, 1)"), 1062);
                Fails.with(() -> c.prepareStatement("SELECT * FROM not_there WHERE id = ?").executeQuery());
                Fails.with(() -> s.execute("SELEKT 1"), 1064);
                try (ResultSet r = s.executeQuery("SELECT 1")) {
                    Tier.expect(List.of(List.of("1")), Tier.all(r));
                }
            }
        }
        for (String via : List.of("reader", "writer")) {
            Fails.with(() -> tier.rows(via, "SELECT 1", "password=not it"), 1045);
            Fails.with(() -> tier.connect(via, "drivers_nowhere"), 1049);
        }
    }

    private static void killed(Tier tier) throws Exception {
        String sleeps = "SELECT id FROM loaded WHERE SLEEP(0.1) = 0";
        try (Connection c = tier.open("writer"); Statement s = c.createStatement()) {
            long id = id(c);
            var asleep = new Thread(() -> cancelOnceAsleep(tier, s, id));
            asleep.start();
            Fails.with(() -> Tier.all(s.executeQuery(sleeps)), 1317, 0);
            asleep.join();
            Tier.expect(true, c.isValid(10));
            var killer = new Thread(() -> {
                try {
                    untilAsleep(tier, id);
                    tier.execute("writer", "KILL " + id);
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            killer.start();
            Fails.with(() -> Tier.all(s.executeQuery(sleeps)));
            killer.join();
        }
    }

    private static void cancelOnceAsleep(Tier tier, Statement s, long id) {
        try {
            untilAsleep(tier, id);
            s.cancel();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static void untilAsleep(Tier tier, long id) throws Exception {
        String look = "SELECT 1 FROM information_schema.processlist WHERE id = " + id + " AND info LIKE '%SLEEP%'";
        Tier.until("the victim sleeps", () -> !tier.rows("direct", look).isEmpty());
    }

    private static long id(Connection c) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT CONNECTION_ID()")) {
            r.next();
            return r.getLong(1);
        }
    }

    private static void tls(Tier tier) throws Exception {
        if (tier.rows("direct", "SHOW VARIABLES LIKE 'ssl_cert'").get(0).get(1).equals("")) {
            throw new Runner.Skip("the server offers no TLS");
        }
        for (String via : List.of("reader", "writer")) {
            Object cipher = tier.rows(via, "SHOW STATUS LIKE 'Ssl_cipher'", tier.anyCertificate()).get(0).get(1);
            Tier.expect(false, cipher.equals(""));
            // MariaDB's may trust it nevertheless: from 11.4 on a server proves itself by the password.
            if (tier.driver == Tier.Driver.MYSQL) {
                Fails.with(() -> tier.rows(via, "SELECT 1", "sslMode=VERIFY_CA"));
            }
        }
    }
}
