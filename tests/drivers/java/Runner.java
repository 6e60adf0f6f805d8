// JDBC's work through a router, unchanged, by MySQL's Connector/J or MariaDB's (--driver mysql | mariadb).
//
// Prints one line of JSON; exit code 0 when every check passed (a skipped one says why), 1 when one failed, 64 on bad
// usage. Writes go through the writer address; the reader address is only read. The checks are in Checks.java.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

public final class Runner {
    /** A check that cannot be made here, with the reason. */
    static final class Skip extends Exception {
        Skip(String why) {
            super(why);
        }
    }

    interface Check {
        void run(Tier tier) throws Exception;
    }

    record Result(String name, String state, String why, long tookMs) {
        String json() {
            return "{\"name\": %s, \"state\": \"%s\", \"why\": %s, \"took_ms\": %d}".formatted(quoted(name), state, quoted(why), tookMs);
        }
    }

    public static void main(String[] arguments) {
        Map<String, String> options = options(arguments);
        Tier tier = new Tier(options);
        List<Result> results = new ArrayList<>();
        try {
            tier.prepare();
            for (var check : Checks.all().entrySet()) {
                results.add(result(check.getKey(), check.getValue(), tier));
            }
            tier.execute("writer", "DROP DATABASE IF EXISTS " + tier.schema);
        } catch (Exception e) {
            results.add(new Result("the tier can be reached", "failed", String.valueOf(e), 0));
        }
        long failed = count(results, "failed");
        System.out.printf("{\"driver\": %s, \"version\": %s, \"passed\": %d, \"failed\": %d, \"skipped\": %d, \"checks\": [%s]}%n",
            quoted(tier.driver.title), quoted(tier.version()), count(results, "passed"), failed, count(results, "skipped"),
            String.join(", ", results.stream().map(Result::json).toList()));
        System.exit(failed == 0 ? 0 : 1);
    }

    private static Result result(String name, Check check, Tier tier) {
        long began = System.nanoTime();
        String state = "passed";
        String why = "";
        try {
            check.run(tier);
        } catch (Skip skip) {
            state = "skipped";
            why = skip.getMessage();
        } catch (Exception | AssertionError e) {
            state = "failed";
            why = e.toString();
        }
        return new Result(name, state, why.substring(0, Math.min(500, why.length())), (System.nanoTime() - began) / 1_000_000);
    }

    private static long count(List<Result> results, String state) {
        return results.stream().filter(result -> result.state().equals(state)).count();
    }

    private static Map<String, String> options(String[] arguments) {
        Map<String, String> options = new TreeMap<>();
        List<String> known = List.of("driver", "reader", "writer", "direct", "reader-socket", "writer-socket", "user", "password");
        for (int at = 0; at + 1 < arguments.length; at += 2) {
            options.put(arguments[at].replaceFirst("^--", ""), arguments[at + 1]);
        }
        boolean complete = options.keySet().containsAll(List.of("driver", "reader", "writer", "direct", "user"));
        if (arguments.length % 2 != 0 || !known.containsAll(options.keySet()) || !complete) {
            System.err.println("Runner: --driver, --reader, --writer, --direct and --user are needed");
            System.exit(64);
        }
        options.putIfAbsent("password", System.getenv().getOrDefault("DRIVERS_PASSWORD", ""));
        return options;
    }

    static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            switch (c) {
                case '"', '\\' -> json.append('\\').append(c);
                default -> json.append(c < 0x20 ? "\\u%04x".formatted((int) c) : String.valueOf(c));
            }
        }
        return json.append('"').toString();
    }
}
