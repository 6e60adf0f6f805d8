// The addresses under test (the router's reader and writer, and the primary itself), and what the two drivers call differently.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;

final class Tier {
    static final long DEADLINE_MS = 20_000;
    /** The reader leads to several replicas, and each is as late as it is: so many sessions in a row meet all of them. */
    static final int IN_A_ROW = 12;

    enum Driver {
        MYSQL("Connector/J", "jdbc:mysql://", "com.mysql.cj.jdbc.Driver"),
        MARIADB("MariaDB Connector/J", "jdbc:mariadb://", "org.mariadb.jdbc.Driver");

        final String title;
        final String url;
        final String className;

        Driver(String title, String url, String className) {
            this.title = title;
            this.url = url;
            this.className = className;
        }
    }

    final Driver driver;
    final String schema;
    private final Map<String, String> options;

    Tier(Map<String, String> options) {
        this.options = options;
        driver = options.get("driver").equals("mysql") ? Driver.MYSQL : Driver.MARIADB;
        schema = "drivers_j_" + driver.name().toLowerCase();
    }

    String version() {
        try {
            // "mysql-connector-j-9.7.0 (Revision: ...)": the number is enough.
            try (Connection c = connect("direct", "")) {
                return c.getMetaData().getDriverVersion().replaceAll("^mysql-connector-j-| .*$", "");
            }
        } catch (SQLException e) {
            return "unknown";
        }
    }

    boolean isMariaDb() throws SQLException {
        return rows("direct", "SELECT VERSION()").get(0).get(0).toString().contains("MariaDB");
    }

    void prepare() throws Exception {
        execute("writer", "DROP DATABASE IF EXISTS " + schema);
        execute("writer", "CREATE DATABASE " + schema + " CHARACTER SET utf8mb4");
        // On the schema: it has reached every reader.
        sameEverywhere("SELECT 1");
    }

    /** On the schema, with the driver's own options: `&name=value`... */
    Connection open(String via, String... more) throws SQLException {
        return connect(via, schema, more);
    }

    Connection connect(String via, String database, String... more) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", options.get("user"));
        properties.put("password", options.get("password"));
        properties.put("connectTimeout", "10000");
        properties.put("allowPublicKeyRetrieval", "true");
        properties.put("allowLocalInfile", "true");
        properties.put("allowLoadLocalInfile", "true");
        properties.put("allowMultiQueries", "true");
        properties.put("sslMode", driver == Driver.MYSQL ? "DISABLED" : "disable");
        for (String option : more) {
            int at = option.indexOf('=');
            properties.put(option.substring(0, at), option.substring(at + 1));
        }
        if (driver == Driver.MYSQL) {
            // Neither is known to it, and it says so.
            properties.remove("allowLocalInfile");
        }
        return DriverManager.getConnection(driver.url + options.get(via) + "/" + database, properties);
    }

    /** Trusts any certificate: the servers' are self-signed. */
    String anyCertificate() {
        return driver == Driver.MYSQL ? "sslMode=REQUIRED" : "sslMode=trust";
    }

    void execute(String via, String sql) throws SQLException {
        try (Connection c = connect(via, ""); Statement s = c.createStatement()) {
            s.execute(sql);
        }
    }

    List<List<Object>> rows(String via, String sql, String... more) throws SQLException {
        try (Connection c = open(via, more); Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
            return all(r);
        }
    }

    static List<List<Object>> all(ResultSet r) throws SQLException {
        List<List<Object>> rows = new ArrayList<>();
        while (r.next()) {
            List<Object> row = new ArrayList<>();
            for (int column = 1; column <= r.getMetaData().getColumnCount(); column++) {
                row.add(r.getString(column));
            }
            rows.add(row);
        }
        return rows;
    }

    List<List<Object>> sameEverywhere(String sql) throws Exception {
        List<List<Object>> truth = rows("direct", sql);
        until("the readers answer like the primary to: " + sql, () -> {
            for (int session = 0; session < IN_A_ROW; session++) {
                if (!rows("reader", sql).equals(truth)) {
                    return false;
                }
            }
            return true;
        });
        expect(truth, rows("writer", sql));
        return truth;
    }

    static void until(String what, Callable<Boolean> test) throws Exception {
        long end = System.currentTimeMillis() + DEADLINE_MS;
        Exception last = null;
        while (System.currentTimeMillis() < end) {
            try {
                if (test.call()) {
                    return;
                }
            } catch (SQLException e) {
                last = e;
            }
            Thread.sleep(20);
        }
        throw new AssertionError("not within " + DEADLINE_MS + " ms: " + what + (last == null ? "" : " (last error: " + last.getMessage() + ")"));
    }

    static void expect(Object wanted, Object got) {
        if (!wanted.equals(got)) {
            String text = String.valueOf(got);
            throw new AssertionError("expected %.200s, got %.200s".formatted(wanted, text));
        }
    }
}
