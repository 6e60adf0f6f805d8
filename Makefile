# `make` alone shows what there is. What a target needs and this machine lacks is installed first
# (scripts/install.sh).
SHELL := /bin/bash
export PATH := $(CURDIR)/target/rust/bin:$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/local/go/bin:/usr/sbin:/sbin
export CARGO_TERM_PROGRESS_WHEN ?= auto

.DEFAULT_GOAL := help
.PHONY: help install build dist image demo test test-mysql test-mariadb test-drivers bench bench-load bench-plan \
  bench-verdict bench-agent bench-asking bench-switchover bench-failover bench-trial bench-soak bench-room fault-matrix check-otlp docs lint audit fuzz clean-lab

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null \
	  || sed -n 's/^\([a-z-]*\):.*## /  make \1   /p' $(MAKEFILE_LIST)

install: ## what all targets need, from the distribution's packages (sudo when not root)
	@scripts/install.sh build servers bench drivers mysql browser monitoring units

build: ## the binary: target/release/headroom
	@scripts/install.sh build
	cargo build --release --locked -p headroom

demo: ## the whole thing on real servers of this machine, about two minutes, then a table and a report
	@scripts/install.sh build demo
	cargo build --release --locked -p headroom
	target/release/headroom demo

dist: ## packages of a release in target/dist/out: deb, rpm, tar.gz, symbols, what is in them, checksums (ARCH="amd64 arm64")
	@scripts/install.sh build dist $(if $(findstring arm64,$(ARCH)),arm64)
	@scripts/dist.sh $(ARCH)

image: ## a container image of what `make dist` made, where buildah or podman is installed
	@scripts/image.sh

test: ## lint, every test, real drivers, MariaDB and MySQL; ends with "N passed, N failed, N skipped"
	@scripts/install.sh build servers bench drivers mysql browser monitoring units
	@scripts/test.sh lint tests drivers mysql

test-mysql: ## only the tests on a real mysqld (brought to target/mysql)
	@scripts/install.sh build servers mysql
	@scripts/test.sh mysql

test-mariadb: ## every test again on the unstable suite's MariaDB (brought to target/mariadb-new)
	@scripts/install.sh build servers bench mysql browser monitoring units
	@scripts/mysql-root.sh mariadb
	PATH="$(CURDIR)/target/mariadb-new:$$PATH" scripts/test.sh tests

test-drivers: ## only real drivers and sysbench through the router
	@scripts/install.sh build servers bench drivers
	@scripts/test.sh drivers

bench: ## the relay beside HAProxy, MySQL Router and direct, what zero-hop and insight cost, then the demo's ratios
	@scripts/install.sh build servers bench
	-@scripts/mysql-root.sh haproxy router
	cargo build --release --locked -p headroom -p bench
	@status=0; for what in relay pair demo; do target/release/headroom-bench $$what || status=1; done; exit $$status

bench-load: ## the load generator beside sysbench, then measure and replay against what is known
	@scripts/install.sh build servers bench
	cargo build --release --locked -p headroom -p bench
	@status=0; for what in load measure replay; do target/release/headroom-bench $$what || status=1; done; exit $$status

bench-plan: ## predictions beside what is known: simulated servers, placements, the buffer pool, one core to two (root; 20 minutes)
	@scripts/install.sh build servers
	cargo build --release --locked -p headroom -p bench
	target/release/headroom-bench plan

bench-verdict: ## bottlenecks really made, and which of them is named; healthy loads for long; the servers' own on MySQL (VERDICT_TIMES=2, about 6 h)
	@scripts/install.sh build servers bench mysql
	@sh scripts/mysql-root.sh mysql
	cargo build --release --locked -p headroom -p bench
	@status=0; times=$${VERDICT_TIMES:-2}; target/release/headroom-bench verdict --times $$times || status=1; \
	target/release/headroom-bench verdict --healthy --times 1 --strengths 2 || status=1; \
	target/release/headroom-bench verdict --mysql --times $$times || status=1; \
	exit $$status

bench-asking: ## what routers that only ask cost a server, and how soon 50 of them know of a promotion
	@scripts/install.sh build servers
	cargo build --release --locked -p headroom -p bench
	target/release/headroom-bench asking

bench-agent: ## what headroom agent costs, beside node_exporter and mysqld_exporter, each scraped once a second
	@scripts/install.sh build servers exporters
	cargo build --release --locked -p headroom -p bench
	target/release/headroom-bench agent

bench-switchover: ## the primary moved 200 times under writes, and 50 times on MySQL: waits, errors, nothing lost (SWITCHOVERS=200)
	@scripts/install.sh build servers mysql
	@sh scripts/mysql-root.sh mysql
	cargo build --release --locked -p headroom -p bench
	@status=0; moves=$${SWITCHOVERS:-200}; target/release/headroom-bench switchover --moves $$moves || status=1; \
	target/release/headroom-bench switchover --moves $$(((moves + 3) / 4)) --program target/mysql/mysqld || status=1; \
	exit $$status

bench-failover: ## the primary killed 200 times under writes, frozen 20 times, its host lost 20 times, and 20 times without semi-sync (FAILOVERS=200)
	@scripts/install.sh build servers
	cargo build --release --locked -p headroom -p bench
	@status=0; times=$${FAILOVERS:-200}; target/release/headroom-bench failover --times $$times || status=1; \
	target/release/headroom-bench failover --times $$(((times + 9) / 10)) --fault freeze || status=1; \
	target/release/headroom-bench failover --times $$(((times + 9) / 10)) --fault blackhole || status=1; \
	target/release/headroom-bench failover --times $$(((times + 9) / 10)) --asynchronous || status=1; \
	exit $$status

bench-room: ## slow replicas, LIFO pools, a slow reader alone in its zone, equal readers (ROOM_ROUNDS=3, about 100 min)
	@scripts/install.sh build servers
	cargo build --release --locked -p headroom -p bench
	target/release/headroom-bench room --rounds $${ROOM_ROUNDS:-3}

fault-matrix: ## every step of a switchover x what can break there, on real servers; writes docs/guide/switchover-faults.md
	@scripts/install.sh build servers
	HEADROOM_FAULTS=all cargo test --locked -p switchover --test it faults::whatever -- --nocapture

check-otlp: ## metrics and spans by OTLP against a real collector, built from Go modules (Go 1.26; ten minutes the first time)
	@scripts/install.sh build servers
	@scripts/check-otlp.sh

bench-trial: ## a real trial over 64 cells and more, one over identical cells, simulated ones (TRIAL_BUDGET=100m)
	@scripts/install.sh build servers
	cargo build --release --locked -p headroom -p bench
	target/release/headroom-bench trial --budget $${TRIAL_BUDGET:-100m}

bench-soak: ## an hour under load with faults: no byte changed, memory flat (SOAK_SECONDS=3600)
	@scripts/install.sh build servers
	cargo build --release --locked -p headroom -p bench
	target/release/headroom-bench soak --seconds $${SOAK_SECONDS:-3600}

docs: ## the site of all pages in target/docs/site, with search
	@scripts/install.sh build
	@scripts/docs.sh

lint: ## formatting, words, clippy, licences and bans
	@scripts/install.sh build
	@scripts/lint.sh

audit: ## dependencies against the advisory database (wants a network; before each release, and daily)
	-@scripts/install.sh deny
	@scripts/audit.sh

fuzz: ## a minute for each parser's fuzz target (FUZZ_SECONDS=60, or FUZZ_RUNS=1000000; nightly Rust and cargo-fuzz)
	@scripts/fuzz.sh

clean-lab: ## stop what a killed lab left behind on this machine
	@scripts/install.sh build
	cargo run --locked -q -p headroom -- lab down
