// go-sql-driver's work through a router, unchanged: the binary protocol above all, which this driver speaks whenever a
// statement has arguments, held against a direct connection.
//
// Prints one line of JSON; exit code 0 when every check passed (a skipped one says why), 1 when one failed, 64 on bad
// usage. Writes go through the writer address; the reader address is only read. The schema drivers_go is made and dropped.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	schema   = "drivers_go"
	deadline = 20 * time.Second
	// The reader leads to several replicas, and each is as late as it is: so many sessions in a row meet all of them.
	inARow = 12
)

// tier is what is under test: the router's reader and writer, and the primary itself.
type tier struct {
	reader, writer, direct     string
	readerSocket, writerSocket string
	user, password             string
}

type check struct {
	name string
	do   func(*tier) error
}

type result struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Why    string `json:"why"`
	TookMs int64  `json:"took_ms"`
}

// skip is the reason why a check cannot be made here.
type skip string

func (s skip) Error() string { return string(s) }

func main() {
	if len(os.Args) > 1 && os.Args[1] == "pool" {
		_ = mysql.SetLogger(quiet{})
		writeUntilEnd(os.Args[2:])
		return
	}
	t := &tier{}
	flags := flag.NewFlagSet("go-runner", flag.ContinueOnError)
	flags.StringVar(&t.reader, "reader", "", "host:port of the router's reader")
	flags.StringVar(&t.writer, "writer", "", "host:port of the router's writer")
	flags.StringVar(&t.direct, "direct", "", "host:port of the primary")
	flags.StringVar(&t.readerSocket, "reader-socket", "", "path of the router's reader socket")
	flags.StringVar(&t.writerSocket, "writer-socket", "", "path of the router's writer socket")
	flags.StringVar(&t.user, "user", "", "a user who may do everything")
	flags.StringVar(&t.password, "password", os.Getenv("DRIVERS_PASSWORD"), "its password (or DRIVERS_PASSWORD)")
	if err := flags.Parse(os.Args[1:]); err != nil || t.reader == "" || t.writer == "" || t.direct == "" || t.user == "" {
		fmt.Fprintln(os.Stderr, "go-runner: --reader, --writer, --direct and --user are needed")
		os.Exit(64)
	}
	// Expected failures (a wrong password, a killed session) are checked, not logged.
	_ = mysql.SetLogger(quiet{})
	report(run(t))
}

func run(t *tier) []result {
	if err := t.prepare(); err != nil {
		return []result{{Name: "the tier can be reached", State: "failed", Why: err.Error()}}
	}
	var results []result
	for _, c := range checks {
		began := time.Now()
		err := guarded(c.do, t)
		r := result{Name: c.name, State: "passed", TookMs: time.Since(began).Milliseconds()}
		var s skip
		if errors.As(err, &s) {
			r.State, r.Why = "skipped", err.Error()
		} else if err != nil {
			r.State, r.Why = "failed", err.Error()
		}
		results = append(results, r)
	}
	_, _ = t.exec(t.writer, "", "DROP DATABASE IF EXISTS "+schema)
	return results
}

func guarded(do func(*tier) error, t *tier) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do(t)
}

func report(results []result) {
	counts := map[string]int{}
	for _, r := range results {
		counts[r.State]++
	}
	line, _ := json.Marshal(struct {
		Driver  string   `json:"driver"`
		Version string   `json:"version"`
		Passed  int      `json:"passed"`
		Failed  int      `json:"failed"`
		Skipped int      `json:"skipped"`
		Checks  []result `json:"checks"`
	}{"go-sql-driver", driverVersion(), counts["passed"], counts["failed"], counts["skipped"], results})
	fmt.Println(string(line))
	if counts["failed"] > 0 {
		os.Exit(1)
	}
}

func driverVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if strings.HasSuffix(module.Path, "go-sql-driver/mysql") {
				return module.Version + " " + runtime.Version()
			}
		}
	}
	return runtime.Version()
}

func (t *tier) prepare() error {
	if _, err := t.exec(t.writer, "", "DROP DATABASE IF EXISTS "+schema); err != nil {
		return err
	}
	if _, err := t.exec(t.writer, "", "CREATE DATABASE "+schema+" CHARACTER SET utf8mb4"); err != nil {
		return err
	}
	// On the schema: it has reached every reader.
	_, err := t.sameEverywhere("SELECT 1")
	return err
}

// open makes a pool on an address: host:port, or the path of a unix socket.
func (t *tier) open(address, database, options string) (*sql.DB, error) {
	return t.openAs(address, t.user, t.password, database, options)
}

func (t *tier) openAs(address, user, password, database, options string) (*sql.DB, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	query := url.Values{"timeout": {"10s"}, "readTimeout": {"60s"}, "charset": {"utf8mb4"}, "allowAllFiles": {"true"}, "maxAllowedPacket": {"0"}}
	given, err := url.ParseQuery(options)
	if err != nil {
		return nil, err
	}
	for key, values := range given {
		query[key] = values
	}
	return sql.Open("mysql", fmt.Sprintf("%s:%s@%s(%s)/%s?%s", user, password, network, address, database, query.Encode()))
}

// session is one connection of its own, on the schema.
func (t *tier) session(address, options string) (*sql.Conn, func(), error) {
	db, err := t.open(address, schema, options)
	if err != nil {
		return nil, nil, err
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return conn, func() { conn.Close(); db.Close() }, nil
}

func (t *tier) exec(address, database, query string, arguments ...any) (sql.Result, error) {
	db, err := t.open(address, database, "")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return db.Exec(query, arguments...)
}

// ask returns all rows as text or NULL, whatever protocol brought them.
func (t *tier) ask(address, query string, arguments ...any) ([][]any, error) {
	db, err := t.open(address, schema, "")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.Query(query, arguments...)
	if err != nil {
		return nil, err
	}
	return all(rows)
}

func all(rows *sql.Rows) ([][]any, error) {
	defer rows.Close()
	var table [][]any
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row := make([]any, len(columns))
		places := make([]any, len(columns))
		for i := range row {
			places[i] = &row[i]
		}
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		for i, value := range row {
			if raw, ok := value.([]byte); ok {
				row[i] = string(raw)
			}
		}
		table = append(table, row)
	}
	return table, rows.Err()
}

// sameEverywhere returns the rows of a query once the reader answers what the primary itself answers.
func (t *tier) sameEverywhere(query string, arguments ...any) ([][]any, error) {
	truth, err := t.ask(t.direct, query, arguments...)
	if err != nil {
		return nil, err
	}
	same := func(address string) error {
		got, err := t.ask(address, query, arguments...)
		if err == nil && !reflect.DeepEqual(got, truth) {
			err = fmt.Errorf("got %.200v, the primary says %.200v", got, truth)
		}
		return err
	}
	err = until("the same answer as the primary's to "+query, func() error {
		for session := 0; session < inARow; session++ {
			if err := same(t.reader); err != nil {
				return err
			}
		}
		return same(t.writer)
	})
	if err != nil {
		return nil, err
	}
	return truth, nil
}

func until(what string, try func() error) error {
	end := time.Now().Add(deadline)
	for {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s: %w", deadline, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func wantCode(err error, codes ...uint16) error {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return fmt.Errorf("expected error %v of the server, got %v", codes, err)
	}
	for _, code := range codes {
		if answer.Number == code {
			return nil
		}
	}
	return fmt.Errorf("expected error %v, got %v", codes, answer)
}

type quiet struct{}

func (quiet) Print(...any) {}
