package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
)

// Checks of what statements bring back and how large it may be.

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
