// What must end in an error: with one of the codes that a server gives, and not with anything else.

import java.sql.BatchUpdateException;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;

final class Fails {
    /** Fails with one of these codes; with any error where none is given. */
    static void with(Callable<?> doing, Integer... codes) throws Exception {
        try {
            doing.call();
        } catch (BatchUpdateException e) {
            expect(e, codes);
            return;
        } catch (SQLException e) {
            expect(e, codes);
            return;
        }
        throw new AssertionError("expected " + Arrays.toString(codes) + ", got no error");
    }

    private static void expect(SQLException e, Integer... codes) {
        if (codes.length > 0 && !List.of(codes).contains(e.getErrorCode())) {
            throw new AssertionError("expected " + Arrays.toString(codes) + ", got " + e.getErrorCode() + " " + e);
        }
    }
}
