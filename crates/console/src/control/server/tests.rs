//! Commands over a real socket, to a router that only remembers them.

use super::*;
use std::sync::Mutex;

const HERE: &str = "127.0.0.1:9306";
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Router {
    done: Mutex<Vec<String>>,
}

impl Controlled for Router {
    fn drain(&self, request: &DrainRequest) -> anyhow::Result<()> {
        if !request.force && request.server == "db1" {
            anyhow::bail!("db1 is the primary; --force drains it all the same");
        }
        self.done.lock().unwrap().push(format!("drain {} {:?}", request.server, request.deadline_ms));
        Ok(())
    }

    fn undrain(&self, server: &str) -> anyhow::Result<()> {
        self.done.lock().unwrap().push(format!("undrain {server}"));
        Ok(())
    }

    fn record(&self, command: &UnixStream, _: &RecordRequest, _: &AtomicBool) -> anyhow::Result<()> {
        say(command, &"a recording is under way")
    }
}

struct Served {
    base: tempfile::TempDir,
    router: Arc<Router>,
    over: Arc<AtomicBool>,
    moved: Arc<AtomicBool>,
}

impl Served {
    fn start() -> Self {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::open_or_make(&base.path().join("headroom")).unwrap();
        let (router, over) = (Arc::new(Router::default()), Arc::new(AtomicBool::new(false)));
        let moved: Arc<AtomicBool> = Arc::default();
        serve(directory.clone(), HERE.to_owned(), router.clone(), over.clone(), moved.clone()).unwrap();
        let served = Self { base, router, over, moved };
        let begun = Instant::now();
        while reach(&directory, Purpose::Command, HERE).unwrap().is_none() {
            assert!(begun.elapsed() < LIMIT, "it never answers");
            std::thread::sleep(Duration::from_millis(5));
        }
        served
    }

    fn directory(&self) -> Directory {
        Directory::open_or_make(&self.base.path().join("headroom")).unwrap()
    }

    fn ask(&self, request: &Request) -> DrainAnswer {
        ask::<DrainAnswer>(Some(HERE), &self.directory(), request).unwrap().answer
    }

    fn drain(&self, server: &str, force: bool) -> DrainAnswer {
        self.ask(&Request::Drain(DrainRequest { server: server.to_owned(), deadline_ms: Some(5), force }))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

#[test]
fn a_drain_is_carried_out_and_a_refusal_comes_back_in_words() {
    let served = Served::start();
    assert!(served.drain("db3", false).done);
    assert!(served.ask(&Request::Undrain { server: "db3".to_owned() }).done);
    let refused = served.drain("db1", false);
    assert!(!refused.done && refused.text.contains("--force"), "{refused:?}");
    let forced = served.drain("db1", true);
    assert!(forced.done && forced.text.contains("forced"), "{forced:?}");
    assert_eq!(
        *served.router.done.lock().unwrap(),
        ["drain db3 Some(5)", "undrain db3", "drain db1 Some(5)"]
    );
}

#[test]
fn what_is_no_command_does_nothing_and_the_next_command_is_heard() {
    let served = Served::start();
    let directory = served.directory();
    let long = vec![b'x'; LINE + 1];
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"{\"drain\":{\"server\":\"db3\",\"who\":1}}\n", &long, b"{"]
    {
        let mut stream = reach(&directory, Purpose::Command, HERE).unwrap().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // It may close before all of it is written.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        // A reset says the same as an end.
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
    assert!(served.router.done.lock().unwrap().is_empty());
    assert!(served.drain("db3", false).done);
}

#[test]
fn who_names_no_running_router_is_told_where_it_was_looked_for() {
    let served = Served::start();
    let words = ask::<DrainAnswer>(
        Some("127.0.0.1:1"),
        &served.directory(),
        &Request::Undrain { server: "a".into() },
    );
    let words = format!("{:#}", words.err().unwrap());
    assert!(
        words.contains("127.0.0.1:1") && words.contains("sudo -u") && words.contains("/headroom"),
        "{words}"
    );
    let named = ask::<DrainAnswer>(
        Some("localhost:9306"),
        &served.directory(),
        &Request::Undrain { server: "a".into() },
    );
    assert_eq!(named.unwrap().address, HERE, "by a name that stands for it");
}

#[test]
fn a_router_that_is_known_by_another_address_leaves_the_one_before() {
    let served = Served::start();
    let directory = served.directory();
    served.moved.store(true, Relaxed);
    let begun = Instant::now();
    while reach(&directory, Purpose::Command, HERE).unwrap().is_some() {
        assert!(begun.elapsed() < LIMIT, "it still answers");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!directory.socket(Purpose::Command, HERE).exists());
}
