//! The generator against queues whose waiting times are known.
//!
//! Open loop, Poisson arrivals at rate r, one server with a constant time D, load u = r D: M/D/1, whose mean
//! response time is `D + u D / 2 (1 - u)`. A run of seconds has too few arrivals to meet a mean; but its
//! arrivals follow from the seed, so that each of its response times is known exactly, and a long row of
//! those meets the mean of the books.

use config::DataPath;
use lab::null::{NullServer, Service, Time};
use load::arrivals::{Open, Spacing};
use load::workload::sysbench;
use load::{Account, Arrivals, Outcome, Plan, Progress, Target};
use std::time::Duration;

const SEED: u64 = 7;

fn run(server: &NullServer, clients: u32, arrivals: Arrivals, time: Duration) -> Outcome {
    load::run(&plan(server, clients, arrivals, time), &Default::default(), |_| ()).unwrap()
}

fn plan(server: &NullServer, clients: u32, arrivals: Arrivals, time: Duration) -> Plan {
    let workload = sysbench::workload("oltp_point_select", &sysbench::Options::default()).unwrap();
    Plan {
        workload: workload.into(),
        target: Target::single(server.address().to_string().parse().unwrap(), Account::default()),
        clients,
        idle: 0,
        read_only: false,
        threads: 1,
        busy: false,
        data_path: DataPath::IoUring,
        arrivals,
        warm_up: Duration::ZERO,
        time,
        grace: Duration::from_secs(2),
        seed: SEED,
        objective: None,
    }
}

/// Response times of these arrivals at one server with a constant service time, in ms and sorted: exact.
fn exact(open: &Open, service: f64, time: f64) -> Vec<f64> {
    let mut free = 0.0_f64;
    let due = open.moments(SEED).map(|moment| moment.as_secs_f64() * 1e3).take_while(|at| *at < time * 1e3);
    let mut found: Vec<f64> = due
        .map(|at| {
            free = free.max(at) + service;
            free - at
        })
        .collect();
    found.sort_by(f64::total_cmp);
    found
}

#[test]
fn response_times_of_a_queue_with_constant_service_are_those_of_theory() {
    let (service, time) = (20.0, 6.0);
    let constant = Time::Constant(Duration::from_millis(20));
    let server = NullServer::start(Service::Queue { servers: 1, time: constant }).unwrap();
    for (load, data_path) in [(0.3, DataPath::IoUring), (0.8, DataPath::IoUring), (0.8, DataPath::Epoll)] {
        let open = Open { rate: load * 1e3 / service, ramp: None, spacing: Spacing::Poisson };
        let exact = exact(&open, service, time);
        let plan = plan(&server, 200, Arrivals::Open(open), Duration::from_secs_f64(time));
        let outcome = load::run(&Plan { data_path, ..plan }, &Default::default(), |_| ()).unwrap();
        assert_eq!(outcome.totals.done, exact.len() as u64, "{:?}", outcome.totals);
        assert!(outcome.response.min_ms >= service, "{}", outcome.response.min_ms);
        let at = |quantile: f64| exact[((exact.len() as f64 * quantile).ceil() as usize).max(1) - 1];
        let found = &outcome.response;
        for (name, found, theory) in
            [("p50", found.p50_ms, at(0.5)), ("p90", found.p90_ms, at(0.9)), ("p95", found.p95_ms, at(0.95))]
        {
            // A loop that is not open would lack most of the wait; what a busy machine adds is not ours,
            // unless it were a queue of its own.
            let off = found - theory;
            assert!(
                (-1.0..20.0 * service).contains(&off),
                "at {load}, {name}: {found} ms, exactly {theory} ms"
            );
        }
    }
}

#[test]
fn a_long_run_of_exact_response_times_has_the_mean_that_is_in_the_books() {
    let open = Open { rate: 0.7, ramp: None, spacing: Spacing::Poisson };
    // One unit of service, a load of 0.7: 1 + 0.7 / (2 * 0.3).
    let found = exact(&open, 1000.0, 300_000.0);
    let mean = found.iter().sum::<f64>() / found.len() as f64 / 1000.0;
    assert!((mean / (1.0 + 0.7 / 0.6) - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn waiting_for_a_free_client_is_part_of_the_response_and_not_of_the_service() {
    let service = Duration::from_millis(5);
    let server = NullServer::start(Service::Queue { servers: 8, time: Time::Constant(service) }).unwrap();
    // One client: the queue forms in front of it, at a load of 0.8.
    let outcome = run(&server, 1, Arrivals::poisson(160.0), Duration::from_secs(3));
    let (response, of_service) = (&outcome.response, outcome.service.as_ref().unwrap());
    // The wait is 10 ms on average.
    assert!(of_service.p50_ms < 10.0, "{}", of_service.p50_ms);
    assert!(response.mean_ms > 1.5 * of_service.mean_ms, "{} {}", response.mean_ms, of_service.mean_ms);
}

#[test]
fn a_closed_loop_of_n_clients_has_the_throughput_of_its_bottleneck() {
    let service = Duration::from_millis(4);
    let server = NullServer::start(Service::Queue { servers: 2, time: Time::Constant(service) }).unwrap();
    let outcome = run(&server, 6, Arrivals::closed(), Duration::from_secs(2));
    // Two places of 4 ms serve 500 a second; six clients wait for one another three deep.
    // One place alone would serve 250.
    assert!(outcome.totals.per_second < 505.0 && outcome.totals.per_second > 260.0, "{:?}", outcome.totals);
    assert!(outcome.response.p50_ms > 11.0, "{}", outcome.response.p50_ms);
    // Idle connections change nothing of that: twelve at a time would wait for twice as long.
    let plan = plan(&server, 6, Arrivals::closed(), Duration::from_secs(2));
    let with_idle = load::run(&Plan { idle: 30, ..plan }, &Default::default(), |_| ()).unwrap();
    assert!(with_idle.response.p50_ms > 11.0 && with_idle.response.p50_ms < 22.0, "{with_idle:?}");
}

#[test]
fn a_generator_that_never_sleeps_serves_every_arrival_and_is_charged_only_for_its_work() {
    let server = NullServer::start(Service::Immediate).unwrap();
    for data_path in [DataPath::IoUring, DataPath::Epoll] {
        let plan = plan(&server, 8, Arrivals::poisson(500.0), Duration::from_secs(2));
        let plan = Plan { busy: true, data_path, ..plan };
        let outcome = load::run(&plan, &Default::default(), |_| ()).unwrap();
        let totals = &outcome.totals;
        assert!(totals.done > 800 && totals.done == totals.arrivals, "{data_path}: {totals:?}");
        // It used all of a core, nearly all of it looking in vain.
        let share = outcome.generator.cpu_share;
        assert!(share < 0.5, "{data_path}: {share}");
    }
}

#[test]
fn what_it_adds_itself_to_a_response_time_is_known_where_it_never_sleeps() {
    let (service, service_ms) = (Duration::from_millis(5), 5.0);
    let server = NullServer::start(Service::Queue { servers: 8, time: Time::Constant(service) }).unwrap();
    let plan = plan(&server, 16, Arrivals::poisson(300.0), Duration::from_secs(2));
    // The kernel begins to stamp what arrives a moment after it was asked: by the end of the warm-up it does.
    let plan = Plan { data_path: DataPath::Epoll, warm_up: Duration::from_secs(1), ..plan };
    let outcome = load::run(&Plan { busy: true, ..plan.clone() }, &Default::default(), |_| ()).unwrap();
    let own = outcome.generator.own.as_ref().unwrap();
    assert_eq!(own.count, outcome.totals.done);
    // All of it is in the response time, beside the server's 5 ms, which are not its own. What holds for
    // every transaction holds for the quantiles, and those no clock that is set in between can move.
    let response = &outcome.response;
    for (of_all, of_own) in [(response.p50_ms, own.p50_ms), (response.p90_ms, own.p90_ms)] {
        assert!(of_all - of_own >= service_ms - 0.01, "{of_all} {of_own}: {own:?}");
    }
    let sleeps = load::run(&plan, &Default::default(), |_| ()).unwrap();
    assert_eq!(sleeps.generator.own, None);
}

#[test]
fn a_run_that_is_stopped_ends_at_once_with_what_was_done() {
    let constant = Time::Constant(Duration::from_millis(20));
    let server = NullServer::start(Service::Queue { servers: 4, time: constant }).unwrap();
    for data_path in [DataPath::IoUring, DataPath::Epoll] {
        for arrivals in [Arrivals::closed(), Arrivals::poisson(100.0)] {
            let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let plan = Plan { data_path, ..plan(&server, 8, arrivals, Duration::from_secs(600)) };
            // The first second that is told stops it.
            let stopping = |progress| {
                stop.store(matches!(progress, Progress::Measuring(_)), std::sync::atomic::Ordering::Relaxed);
            };
            let outcome = load::run(&plan, &stop, stopping).unwrap();
            assert!(outcome.totals.done > 0, "{data_path}: {:?}", outcome.totals);
            assert!(outcome.seconds < 60.0, "{data_path}: {}", outcome.seconds);
        }
    }
}
