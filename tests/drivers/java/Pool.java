// An application with HikariCP that writes until its standard input ends, while the primary is moved: what it was told is
// written down as one line of JSON. See ../README.md, "Pools".

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;

public final class Pool {
    interface Work {
        void run() throws Exception;
    }

    private static final String INSERT = "INSERT INTO writes VALUES (?)";

    private final HikariDataSource pool;
    private final AtomicLong next;
    private final List<Long> acknowledged = Collections.synchronizedList(new ArrayList<>());
    private final List<Long> unknown = Collections.synchronizedList(new ArrayList<>());
    private final Map<String, Integer> errors = Collections.synchronizedMap(new TreeMap<>());
    private final AtomicLong longest = new AtomicLong();
    private volatile boolean stopped;

    private Pool(HikariDataSource pool, long base) {
        this.pool = pool;
        next = new AtomicLong(base);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int at = 0; at + 1 < arguments.length; at += 2) {
            options.put(arguments[at].substring(2), arguments[at + 1]);
        }
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:mysql://" + options.get("writer") + "/app?sslMode=DISABLED&allowPublicKeyRetrieval=true&useServerPrepStmts=true");
        config.setUsername(options.get("user"));
        config.setPassword(System.getenv("DRIVERS_PASSWORD"));
        config.setMaximumPoolSize(10);
        Pool run = new Pool(new HikariDataSource(config), Long.parseLong(options.getOrDefault("base", "0")));
        // What the pool is measured by (`-Dcom.zaxxer.hikari.aliveBypassWindowMs`): its name says so.
        String window = System.getProperty("com.zaxxer.hikari.aliveBypassWindowMs", "500");
        Map<String, Work> kinds = Map.of("prepared", run::prepared, "statement", run::statement, "transaction", run::transaction, "held", run::held);
        List<Thread> workers = new ArrayList<>();
        for (var kind : kinds.entrySet()) {
            for (int n = 0; n < 2; n++) {
                Thread worker = new Thread(() -> run.work(kind.getKey(), kind.getValue()));
                worker.start();
                workers.add(worker);
            }
        }
        System.in.readAllBytes();
        run.stopped = true;
        for (Thread worker : workers) {
            worker.join();
        }
        System.out.println(run.json("HikariCP, aliveBypassWindowMs " + window));
        System.exit(0);
    }

    private void work(String kind, Work work) {
        while (!stopped) {
            long began = System.nanoTime();
            try {
                work.run();
                if (!kind.equals("held")) {
                    longest.accumulateAndGet((System.nanoTime() - began) / 1_000_000, Math::max);
                }
            } catch (Exception e) {
                String words = kind + ": " + String.valueOf(e.getMessage()).lines().findFirst().orElse("") + (e instanceof SQLException s ? " (" + s.getErrorCode() + ")" : "");
                errors.merge(words, 1, Integer::sum);
            }
            pause(30);
        }
    }

    private void prepared() throws Exception {
        try (Connection connection = pool.getConnection()) {
            write(connection, INSERT);
        }
    }

    private void statement() throws Exception {
        try (Connection connection = pool.getConnection()) {
            write(connection, "INSERT INTO writes SELECT ? + SLEEP(0.05)");
        }
    }

    private void transaction() throws Exception {
        try (Connection connection = pool.getConnection()) {
            connection.setAutoCommit(false);
            long one = next.incrementAndGet();
            long two = next.incrementAndGet();
            insert(connection, INSERT, one);
            pause(20);
            insert(connection, INSERT, two);
            wrote(connection::commit, one, two);
        }
    }

    /** Keeps a connection for a second, with a variable, and uses it without a check. */
    private void held() throws Exception {
        try (Connection connection = pool.getConnection()) {
            connection.createStatement().execute("SET @kept = 7");
            for (int n = 0; n < 10 && !stopped; n++) {
                pause(100);
                try (ResultSet row = connection.createStatement().executeQuery("SELECT @kept")) {
                    row.next();
                    if (row.getLong(1) != 7) {
                        throw new IllegalStateException("the variable is lost");
                    }
                }
                write(connection, INSERT);
            }
        }
    }

    private void write(Connection connection, String statement) throws Exception {
        long id = next.incrementAndGet();
        wrote(() -> insert(connection, statement, id), id);
    }

    private static void insert(Connection connection, String statement, long id) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(statement)) {
            insert.setLong(1, id);
            insert.executeUpdate();
        }
    }

    /** What became of ids: acknowledged, or nobody knows. */
    private void wrote(Work doing, long... ids) throws Exception {
        boolean done = false;
        try {
            doing.run();
            done = true;
        } finally {
            for (long id : ids) {
                (done ? acknowledged : unknown).add(id);
            }
        }
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private String json(String title) {
        String told = String.join(", ", errors.entrySet().stream().map(e -> Runner.quoted(e.getKey()) + ": " + e.getValue()).toList());
        String version = HikariDataSource.class.getPackage().getImplementationVersion();
        return "{\"pool\": %s, \"version\": %s, \"acknowledged\": %s, \"unknown\": %s, \"errors\": {%s}, \"longest_ms\": %d}"
            .formatted(Runner.quoted(title), Runner.quoted(String.valueOf(version)), acknowledged, unknown, told, longest.get());
    }
}
