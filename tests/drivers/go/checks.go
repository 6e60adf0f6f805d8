package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

var background = context.Background()

// In this order: later checks read tables of earlier ones.
var checks = []check{
	{"binary rows bring every type unchanged", everyType},
	{"a prepared statement is used many times and closed", prepared},
	{"transactions commit, roll back and read their own writes", transactions},
	{"many statements in one packet answer in order", multiStatements},
	{"a result of 20 MiB is the same through reader and direct", bigResult},
	{"packets of 16 MiB and more pass both ways", bigPackets},
	{"LOAD DATA LOCAL sends a file and a stream", loadData},
	{"a procedure returns all its results", procedure},
	{"errors keep their codes and the session goes on", errorCodes},
	{"a query that is given up closes its connection, and the pool goes on", givenUp},
	{"a closed pool leaves no thread on the server", closed},
	{"each authentication plugin passes through", authentication},
	{"TLS reaches the server end to end", tlsEndToEnd},
	{"a unix socket serves as well", sockets},
	{"a pool of sixteen gets the right answers", pool},
}

func everyType(t *tier) error {
	if _, err := t.exec(t.writer, schema, `CREATE TABLE kinds (id INT PRIMARY KEY, tiny TINYINT, big BIGINT UNSIGNED, price DECIMAL(20,6),
		f FLOAT, d DOUBLE, day DATE, at DATETIME(6), span TIME(3), y YEAR, bits BIT(9), words TEXT, raw VARBINARY(64), gone INT)`); err != nil {
		return err
	}
	raw := make([]byte, 64)
	for i := range raw {
		raw[i] = byte(i * 4)
	}
	if _, err := t.exec(t.writer, schema, "INSERT INTO kinds VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", 1, -128, uint64(1<<64-1), "-12345678901234.567890",
		0.25, 1.5e300, "2026-11-20", "1999-12-31 23:59:59.999999", "-101:02:03.004", 1999, []byte{1, 1}, "Grüße 🦀 '\\\x00", raw, nil); err != nil {
		return err
	}
	for _, query := range []string{"SELECT * FROM kinds WHERE id = ?", "SELECT COUNT(*), SUM(CRC32(raw)) + ? FROM kinds"} {
		if _, err := t.sameEverywhere(query, 1); err != nil {
			return err
		}
	}
	rows, err := t.ask(t.reader, "SELECT big, price, at, words, raw, gone FROM kinds WHERE id = ?", 1)
	if err != nil {
		return err
	}
	want := []any{uint64(1<<64 - 1), "-12345678901234.567890", "1999-12-31 23:59:59.999999", "Grüße 🦀 '\\\x00", string(raw), nil}
	for i := range want {
		if fmt.Sprint(rows[0][i]) != fmt.Sprint(want[i]) {
			return fmt.Errorf("column %d is %v, written was %v", i, rows[0][i], want[i])
		}
	}
	return nil
}

func prepared(t *tier) error {
	conn, done, err := t.session(t.reader, "")
	if err != nil {
		return err
	}
	defer done()
	for round := 0; round < 20; round++ {
		statement, err := conn.PrepareContext(background, "SELECT ? + 1, ?")
		if err != nil {
			return err
		}
		for i := 0; i < 50; i++ {
			var next int
			var echo sql.NullString
			if err := statement.QueryRow(i, nil).Scan(&next, &echo); err != nil {
				return err
			}
			if next != i+1 || echo.Valid {
				return fmt.Errorf("%d + 1 came back as %d, NULL as %v", i, next, echo)
			}
		}
		if err := statement.Close(); err != nil {
			return err
		}
	}
	_, err = conn.PrepareContext(background, "SELECT * FROM not_there WHERE id = ?")
	return wantCode(err, 1146)
}

func transactions(t *tier) error {
	db, err := t.open(t.writer, schema, "")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE account (id INT PRIMARY KEY, amount INT) ENGINE=InnoDB"); err != nil {
		return err
	}
	for _, commit := range []bool{true, false} {
		tx, err := db.BeginTx(background, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO account VALUES (?, ?) ON DUPLICATE KEY UPDATE amount = amount + 1", 1, 100); err != nil {
			return err
		}
		var mine, others int
		if err := tx.QueryRow("SELECT COUNT(*) FROM account WHERE id = ?", 1).Scan(&mine); err != nil || mine != 1 {
			return fmt.Errorf("own write seen %d times: %v", mine, err)
		}
		if err := db.QueryRow("SELECT COUNT(*) FROM account WHERE amount > ?", 100).Scan(&others); err != nil || others != 0 {
			return fmt.Errorf("an open transaction was seen from outside (%d): %v", others, err)
		}
		if commit {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			return err
		}
	}
	rows, err := t.sameEverywhere("SELECT id, amount FROM account")
	if err == nil && fmt.Sprint(rows) != "[[1 100]]" {
		err = fmt.Errorf("account holds %v", rows)
	}
	return err
}

func multiStatements(t *tier) error {
	conn, done, err := t.session(t.reader, "multiStatements=true")
	if err != nil {
		return err
	}
	defer done()
	rows, err := conn.QueryContext(background, "SELECT 1; SELECT 'two'; SELECT 3 FROM DUAL WHERE FALSE; SELECT 4")
	if err != nil {
		return err
	}
	defer rows.Close()
	var seen []string
	for {
		for rows.Next() {
			var value string
			if err := rows.Scan(&value); err != nil {
				return err
			}
			seen = append(seen, value)
		}
		if !rows.NextResultSet() {
			break
		}
		seen = append(seen, "|")
	}
	if got := strings.Join(seen, " "); got != "1 | two | | 4" {
		return fmt.Errorf("answers came as %s", got)
	}
	return rows.Err()
}

func bigResult(t *tier) error {
	db, err := t.open(t.writer, schema, "")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE large (id INT PRIMARY KEY, body LONGBLOB)"); err != nil {
		return err
	}
	for i := 0; i < 20; i++ {
		if _, err := db.Exec("INSERT INTO large VALUES (?, ?)", i, bytes.Repeat([]byte{byte(i), 'x', 0xff, 0}, 1<<18)); err != nil {
			return err
		}
	}
	if _, err := t.sameEverywhere("SELECT COUNT(*), SUM(CRC32(body)) FROM large"); err != nil {
		return err
	}
	sums := map[string]string{}
	for name, address := range map[string]string{"direct": t.direct, "reader": t.reader, "writer": t.writer} {
		for protocol, arguments := range map[string][]any{"text": nil, "binary": {0}} {
			query := "SELECT id, body FROM large ORDER BY id"
			if arguments != nil {
				query = "SELECT id, body FROM large WHERE id >= ? ORDER BY id"
			}
			rows, err := t.ask(address, query, arguments...)
			if err != nil {
				return err
			}
			sum := sha256.New()
			for _, row := range rows {
				fmt.Fprint(sum, row[0], row[1])
			}
			sums[fmt.Sprintf("%x", sum.Sum(nil))] += " " + name + "/" + protocol
		}
	}
	if len(sums) != 1 {
		return fmt.Errorf("results differ: %v", sums)
	}
	return nil
}

func bigPackets(t *tier) error {
	conn, done, err := t.session(t.writer, "")
	if err != nil {
		return err
	}
	defer done()
	var limit int
	if err := conn.QueryRowContext(background, "SELECT @@max_allowed_packet").Scan(&limit); err != nil {
		return err
	}
	if limit < 40<<20 {
		return fmt.Errorf("max_allowed_packet is %d: start the servers with 64M", limit)
	}
	body := bytes.Repeat([]byte("abcdefgh"), 20<<17)
	var length int
	var echo []byte
	// As one parameter, the driver sends it by COM_STMT_SEND_LONG_DATA, many packets without an answer.
	if err := conn.QueryRowContext(background, "SELECT LENGTH(?), ?", body, body).Scan(&length, &echo); err != nil {
		return err
	}
	if length != len(body) || !bytes.Equal(echo, body) {
		return fmt.Errorf("%d bytes came back as %d", len(body), length)
	}
	for _, size := range []int{1<<24 - 2, 1<<24 - 1, 1 << 24} {
		filler := strings.Repeat("z", size-1-len("SELECT ''"))
		if err := conn.QueryRowContext(background, "SELECT '"+filler+"'").Scan(&echo); err != nil {
			return err
		}
		if string(echo) != filler {
			return fmt.Errorf("a statement of %d bytes came back changed", size)
		}
	}
	return nil
}

func loadData(t *tier) error {
	file, err := os.CreateTemp("", "drivers-*.tsv")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	for i := 0; i < 20000; i++ {
		fmt.Fprintf(file, "%d\tline %d\n", i, i)
	}
	if err := file.Close(); err != nil {
		return err
	}
	if _, err := t.exec(t.writer, schema, "CREATE TABLE loaded (id INT PRIMARY KEY, words VARCHAR(40))"); err != nil {
		return err
	}
	answer, err := t.exec(t.writer, schema, "LOAD DATA LOCAL INFILE '"+file.Name()+"' INTO TABLE loaded")
	if err != nil {
		return fmt.Errorf("%w (servers need local_infile=1)", err)
	}
	if rows, _ := answer.RowsAffected(); rows != 20000 {
		return fmt.Errorf("20000 lines became %d rows", rows)
	}
	_, err = t.sameEverywhere("SELECT COUNT(*), SUM(CRC32(CONCAT(id, words))) FROM loaded")
	return err
}

func procedure(t *tier) error {
	conn, done, err := t.session(t.writer, "multiStatements=true")
	if err != nil {
		return err
	}
	defer done()
	if _, err := conn.ExecContext(background, "CREATE PROCEDURE two(IN n INT) BEGIN SELECT id FROM loaded WHERE id < n ORDER BY id; SELECT 'end', n; END"); err != nil {
		return err
	}
	for _, arguments := range [][]any{{}, {3}} {
		call := "CALL two(3)"
		if len(arguments) > 0 {
			call = "CALL two(?)"
		}
		rows, err := conn.QueryContext(background, call, arguments...)
		if err != nil {
			return err
		}
		first := 0
		for rows.Next() {
			first++
		}
		second := rows.NextResultSet() && rows.Next()
		if err := rows.Close(); err != nil {
			return err
		}
		if first != 3 || !second {
			return fmt.Errorf("%s: %d rows in the first result, a second one: %v", call, first, second)
		}
	}
	var one int
	return conn.QueryRowContext(background, "SELECT ?", 1).Scan(&one)
}

func errorCodes(t *tier) error {
	conn, done, err := t.session(t.writer, "")
	if err != nil {
		return err
	}
	defer done()
	for _, c := range []struct {
		code      uint16
		query     string
		arguments []any
	}{
		{1062, "INSERT INTO account VALUES (?, ?)", []any{1, 1}},
		{1146, "SELECT * FROM not_there", nil},
		{1064, "SELEKT 1", nil},
		{1690, "SELECT CAST(? AS UNSIGNED) - 2", []any{1}},
	} {
		rows, err := conn.QueryContext(background, c.query, c.arguments...)
		if err == nil {
			_, err = all(rows)
		}
		if err := wantCode(err, c.code); err != nil {
			return err
		}
	}
	if err := conn.PingContext(background); err != nil {
		return err
	}
	for _, address := range []string{t.reader, t.writer} {
		db, err := t.openAs(address, t.user, "not it", schema, "")
		if err != nil {
			return err
		}
		err = wantCode(db.Ping(), 1045)
		db.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func givenUp(t *tier) error {
	db, err := t.open(t.reader, schema, "")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	_, err = db.ExecContext(ctx, "DO SLEEP(30)")
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("expected the context's end, got %v", err)
	}
	var one int
	return db.QueryRow("SELECT 1").Scan(&one)
}

func closed(t *tier) error {
	conn, done, err := t.session(t.writer, "")
	if err != nil {
		return err
	}
	var id int64
	if err := conn.QueryRowContext(background, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return err
	}
	done()
	return until("the thread is gone", func() error {
		rows, err := t.ask(t.direct, "SELECT id FROM information_schema.processlist WHERE id = ?", id)
		if err == nil && len(rows) > 0 {
			err = fmt.Errorf("thread %d is still there", id)
		}
		return err
	})
}

func authentication(t *tier) error {
	rows, err := t.ask(t.direct, "SELECT VERSION()")
	if err != nil {
		return err
	}
	ways := map[string]string{"caching_sha2_password": "IDENTIFIED WITH caching_sha2_password BY"}
	if strings.Contains(fmt.Sprint(rows), "MariaDB") {
		ways = map[string]string{"mysql_native_password": "IDENTIFIED BY"}
	}
	for plugin, by := range ways {
		user := "drivers_go_" + plugin[:8]
		if _, err := t.exec(t.writer, "", "DROP USER IF EXISTS "+user); err != nil {
			return err
		}
		if _, err := t.exec(t.writer, "", "CREATE USER "+user+" "+by+" 'pass word'"); err != nil {
			return err
		}
		for _, address := range []string{t.writer, t.reader} {
			// Twice: the first makes the server ask for the password in full, the second is answered from its cache.
			for i := 0; i < 2; i++ {
				db, err := t.openAs(address, user, "pass word", "", "")
				if err != nil {
					return err
				}
				err = until(plugin+" on "+address, db.Ping)
				db.Close()
				if err != nil {
					return err
				}
			}
		}
		if _, err := t.exec(t.writer, "", "DROP USER "+user); err != nil {
			return err
		}
	}
	return nil
}

func tlsEndToEnd(t *tier) error {
	for _, address := range []string{t.reader, t.writer} {
		conn, done, err := t.session(address, "tls=skip-verify")
		if errors.Is(err, mysql.ErrNoTLS) {
			return skip("the server offers no TLS")
		}
		if err != nil {
			return err
		}
		var name, cipher string
		err = conn.QueryRowContext(background, "SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher)
		done()
		if err != nil {
			return err
		}
		if cipher == "" {
			return fmt.Errorf("no cipher through %s", address)
		}
	}
	return nil
}

func sockets(t *tier) error {
	if t.readerSocket == "" || t.writerSocket == "" {
		return skip("no --reader-socket and --writer-socket given")
	}
	for _, path := range []string{t.readerSocket, t.writerSocket} {
		if rows, err := t.ask(path, "SELECT amount FROM account WHERE id = ?", 1); err != nil || fmt.Sprint(rows) != "[[100]]" {
			return fmt.Errorf("%s: %v %w", path, rows, err)
		}
	}
	return nil
}

func pool(t *tier) error {
	db, err := t.open(t.reader, schema, "")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(4)
	wrong := make(chan error, 64)
	var group sync.WaitGroup
	for worker := 0; worker < 64; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for turn := 0; turn < 50; turn++ {
				id := worker*100 + turn
				var got int
				var words string
				err := db.QueryRow("SELECT id, words FROM loaded WHERE id = ?", id).Scan(&got, &words)
				if err == nil && (got != id || words != fmt.Sprintf("line %d", id)) {
					err = fmt.Errorf("asked for %d, got %d %q", id, got, words)
				}
				if err != nil {
					wrong <- err
					return
				}
			}
		}(worker)
	}
	group.Wait()
	close(wrong)
	return <-wrong
}
