//! A host name that changes its address, as names of managed services do when the primary moves: `headroom
//! route` with a `/etc/hosts` of its own, in a mount namespace of its own.

use crate::support::route::{Route, connect};
use crate::support::told::server_of;
use lab::{Lab, Spec};
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn writers_follow_a_host_name_to_its_new_address_though_the_old_server_still_answers() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2)]), base.path()).await.unwrap();
    let hosts = lab.dir().join("hosts");
    point(&hosts, &lab, "a1");
    let router = started(&lab, &hosts);
    wait_for_writes_on(&router, "a1", &lab).await;

    lab.change("a2", "promote".parse().unwrap()).await.unwrap();
    point(&hosts, &lab, "a2");
    wait_for_writes_on(&router, "a2", &lab).await;
    assert!(lab.connect("a1").await.is_ok(), "the old server answers all the while");
    wait_for_word(&router, "the host name leads elsewhere").await;
    wait_for_writes_on(&router, "a2", &lab).await;
    drop(router);
    lab.down().await.unwrap();
}

/// Written in place: the file is mounted over /etc/hosts, so a new file of the same name would not be seen.
fn point(hosts: &Path, lab: &Lab, server: &str) {
    std::fs::write(hosts, format!("{} db.test\n", lab.reach("a", server).unwrap().ip())).unwrap();
}

/// A router that knows the servers by the name `db.test` alone, and has `hosts` for its /etc/hosts.
fn started(lab: &Lab, hosts: &Path) -> Route {
    let servers = format!("[fleet]\nseeds = [\"db.test:{}\"]\ndiscover = false\n", lab.port());
    let mut route = Route::new(lab, "zero_hop = \"off\"\nhold_deadline = \"1s\"", "", &servers);
    let mount = ["sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"", hosts.to_str().unwrap()];
    // Root needs no user namespace for it; others are root in one of their own.
    let namespaces: &[&str] = match rustix::process::getuid().is_root() {
        true => &["unshare", "--mount"],
        false => &["unshare", "--map-root-user", "--mount"],
    };
    route.start_by(&[namespaces, &mount].concat());
    route
}

async fn wait_for_writes_on(router: &Route, server: &str, lab: &Lab) {
    let wanted = lab.real(server).unwrap().ip().to_string();
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = ask(router, lab).await;
        if found.as_ref().is_ok_and(|found| *found == wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "not on {server}: {found:?}\n{}", router.words());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sessions are connected by name and arrive at once; that the watcher saw it too, the log says.
async fn wait_for_word(router: &Route, word: &str) {
    let deadline = Instant::now() + LIMIT;
    while !router.words().contains(word) {
        assert!(Instant::now() < deadline, "'{word}' is not in\n{}", router.words());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Which server a new writer session gets.
async fn ask(router: &Route, lab: &Lab) -> mysql_async::Result<String> {
    let mut session = connect(lab, router.writer).await?;
    let found = server_of(&mut session).await;
    session.disconnect().await?;
    Ok(found)
}
