//! What the rig makes of programs, of figures and of a server that restarts.

use super::*;
use knob::identity::STARTED_SINCE_BOOT;
use knob::journal::Author;
use knob::server::Variable;
use knob::session::Connect;
use load::Account;
use std::sync::atomic::AtomicI64;

/// A server that was started at this second since the boot.
struct Started(Arc<AtomicI64>);

impl Server for Started {
    fn identity(&mut self) -> Result<Facts, ServerError> {
        Ok([(STARTED_SINCE_BOOT.to_owned(), self.0.load(Ordering::Relaxed).to_string())].into())
    }

    fn describe(&mut self, _: &str) -> Result<Option<Variable>, ServerError> {
        Ok(None)
    }

    fn global(&mut self, _: &str) -> Result<String, ServerError> {
        Ok("1".to_owned())
    }

    fn set_global(&mut self, _: &str, _: &str) -> Result<(), ServerError> {
        Ok(())
    }

    fn reconnect(&mut self) -> Result<(), ServerError> {
        Ok(())
    }
}

/// On such a server, with nothing to send; its journal's directory is to outlive it.
fn rig(started: &Arc<AtomicI64>) -> (tempfile::TempDir, HostRig) {
    let (dir, of_server) = (tempfile::tempdir().unwrap(), started.clone());
    let connect: Connect = Box::new(move |_| Ok(Box::new(Started(of_server.clone())) as Box<dyn Server>));
    let (host, stop) = (Host::new("/nowhere"), Arc::new(AtomicBool::new(false)));
    let session = Session::open(host.clone(), dir.path(), connect).unwrap();
    let account = Account { user: String::new(), password: String::new(), database: String::new() };
    let target = Target::single("127.0.0.1:1".parse().unwrap(), account);
    let workload = sysbench::workload("oltp_point_select", &sysbench::Options::default()).unwrap();
    let (server, workload) = (Some("127.0.0.1:1".to_owned()), Arc::new(workload));
    let manner = Manner::of(Author::default());
    (dir, HostRig::new(session, host, server, manner, Vec::new(), workload, target, stop))
}

#[test]
fn a_restart_between_the_settings_and_the_connections_of_the_clients_is_one_during_the_trial() {
    let started = Arc::new(AtomicI64::new(100));
    let (_dir, mut rig) = rig(&started);
    rig.apply(&[]).unwrap();
    assert!(rig.ran_through().is_ok());
    rig.apply(&[]).unwrap();
    started.store(200, Ordering::Relaxed);
    assert!(matches!(rig.ran_through(), Err(RigError::Restarted { .. })));
}

#[test]
fn a_workload_whose_file_was_changed_is_another_setup() {
    let (_dir, mut rig) = rig(&Arc::default());
    let before = rig.setup();
    assert!(before.contains(&("workload".to_owned(), rig.workload.in_words())), "{before:?}");
    rig.workload = Arc::new(Workload { options: "other text".to_owned(), ..(*rig.workload).clone() });
    assert_ne!(rig.setup(), before);
}

#[test]
fn a_part_of_a_second_in_the_end_is_no_second() {
    let moment = |second: u64, done: u64| load::outcome::Moment {
        second,
        done,
        queries: done,
        failed: 0,
        late: 0,
        p50_ms: 1.0,
        p95_ms: 2.0,
        p99_ms: 3.0,
        max_ms: 4.0,
    };
    let series: Vec<_> = (0..6).map(|at| moment(at, 100)).chain([moment(6, 10)]).collect();
    let done = |seconds| whole_seconds(&series, seconds).iter().map(|one| one.done).collect::<Vec<_>>();
    assert_eq!(done(6.1), [100; 6]);
    assert_eq!(done(6.999), [100, 100, 100, 100, 100, 100, 10]);
    // In thirds of it the last one would have lacked a third and more.
    let guard = crate::spec::Guard::default();
    let host = HostFigures::default();
    assert_eq!(crate::guard::voids(&guard, &host, &whole_seconds(&series, 6.1), false), None);
    assert!(crate::guard::voids(&guard, &host, &whole_seconds(&series, 7.0), false).is_some());
}

#[test]
fn a_factor_that_names_its_danger_names_the_knob_its_last_word_and_its_options() {
    let of = |knob: &str, value: &str| {
        named(&Assignment { knob: knob.to_owned(), value: value.to_owned(), danger: true, held: false })
    };
    assert_eq!(of("server.sync_binlog", "0"), ["server.sync_binlog", "sync_binlog", "0"]);
    assert_eq!(of("mount.options@/d", "nobarrier,noatime")[2..], ["nobarrier", "noatime"]);
}

#[test]
fn a_program_is_not_waited_for_beyond_its_end() {
    let shell = |line: &str| run_to_end("sh", &["-c", line]);
    // A pipe would be open until the sleep ends.
    let left = shell("sleep 1000 & echo $! >&2; exit 3").unwrap_err();
    let sleeping: i32 = left.rsplit(' ').next().unwrap().parse().unwrap();
    let sleeping = rustix::process::Pid::from_raw(sleeping).unwrap();
    rustix::process::kill_process(sleeping, rustix::process::Signal::KILL).unwrap();
    assert!(left.contains("3: "), "{left}");
    assert_eq!(shell("sleep 0; true"), Ok(()));
}

#[test]
fn a_program_gets_no_signal_of_the_terminal_and_goes_on_to_its_end() {
    let group_of_its_own = "set -- $(cat /proc/$$/stat); test $5 = $$";
    assert_eq!(run_to_end("sh", &["-c", group_of_its_own]), Ok(()));
}
