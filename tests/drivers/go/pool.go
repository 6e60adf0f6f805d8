package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// An application with a pool that writes until its standard input ends, while the primary is moved: what it was told
// is written down as one line of JSON. See ../README.md, "Pools".

type poolReport struct {
	Pool         string         `json:"pool"`
	Version      string         `json:"version"`
	Acknowledged []int64        `json:"acknowledged"`
	Unknown      []int64        `json:"unknown"`
	Errors       map[string]int `json:"errors"`
	LongestMs    int64          `json:"longest_ms"`
}

type poolRun struct {
	db   *sql.DB
	next atomic.Int64
	stop atomic.Bool
	lock sync.Mutex
	seen poolReport
}

func writeUntilEnd(arguments []string) {
	t := &tier{}
	flags := flag.NewFlagSet("go-runner pool", flag.ContinueOnError)
	flags.StringVar(&t.writer, "writer", "", "host:port of the router's writer")
	flags.StringVar(&t.user, "user", "", "who writes")
	base := flags.Int64("base", 0, "the first id written is one more")
	if err := flags.Parse(arguments); err != nil || t.writer == "" || t.user == "" {
		os.Exit(64)
	}
	t.password = os.Getenv("DRIVERS_PASSWORD")
	db, err := t.open(t.writer, "app", "")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	run := &poolRun{db: db}
	run.seen = poolReport{Pool: "database/sql", Version: driverVersion(), Acknowledged: []int64{}, Unknown: []int64{}, Errors: map[string]int{}}
	run.next.Store(*base)
	var workers sync.WaitGroup
	insert, err := db.Prepare("INSERT INTO writes VALUES (?)")
	if err != nil {
		panic(err)
	}
	kinds := map[string]func() error{
		"prepared":    func() error { return run.write(func(id int64) error { _, err := insert.Exec(id); return err }) },
		"transaction": run.transaction,
		"statement": func() error {
			return run.write(func(id int64) error {
				_, err := db.Exec("INSERT INTO writes SELECT ? + SLEEP(0.05)", id)
				return err
			})
		},
		"held": run.held,
	}
	for kind, do := range kinds {
		for n := 0; n < 2; n++ {
			workers.Add(1)
			go func(kind string, do func() error) {
				defer workers.Done()
				for !run.stop.Load() {
					began := time.Now()
					err := do()
					run.told(kind, err, time.Since(began))
					time.Sleep(10 * time.Millisecond)
				}
			}(kind, do)
		}
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	run.stop.Store(true)
	workers.Wait()
	line, _ := json.Marshal(run.seen)
	fmt.Println(string(line))
}

func (r *poolRun) told(kind string, err error, took time.Duration) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if err != nil {
		r.seen.Errors[kind+": "+err.Error()]++
	} else if kind != "held" {
		if took.Milliseconds() > r.seen.LongestMs {
			r.seen.LongestMs = took.Milliseconds()
		}
	}
}

// wrote keeps what became of ids: acknowledged, or nobody knows.
func (r *poolRun) wrote(err error, ids ...int64) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if err == nil {
		r.seen.Acknowledged = append(r.seen.Acknowledged, ids...)
	} else {
		r.seen.Unknown = append(r.seen.Unknown, ids...)
	}
	return err
}

func (r *poolRun) write(do func(int64) error) error {
	id := r.next.Add(1)
	return r.wrote(do(id), id)
}

// transaction is open for a while between two writes.
func (r *poolRun) transaction() error {
	tx, err := r.db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	one, two := r.next.Add(1), r.next.Add(1)
	if _, err := tx.Exec("INSERT INTO writes VALUES (?)", one); err != nil {
		return err
	}
	time.Sleep(20 * time.Millisecond)
	if _, err := tx.Exec("INSERT INTO writes VALUES (?)", two); err != nil {
		return err
	}
	return r.wrote(tx.Commit(), one, two)
}

// held keeps a connection for a second, with a variable, and uses it without a check.
func (r *poolRun) held() error {
	conn, err := r.db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(context.Background(), "SET @kept = 7"); err != nil {
		return err
	}
	for n := 0; n < 10 && !r.stop.Load(); n++ {
		time.Sleep(100 * time.Millisecond)
		var kept sql.NullInt64
		if err := conn.QueryRowContext(context.Background(), "SELECT @kept").Scan(&kept); err != nil {
			return err
		}
		if kept.Int64 != 7 {
			return fmt.Errorf("the variable is lost")
		}
		err := r.write(func(id int64) error {
			_, err := conn.ExecContext(context.Background(), "INSERT INTO writes VALUES (?)", id)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
