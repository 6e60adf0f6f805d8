package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
