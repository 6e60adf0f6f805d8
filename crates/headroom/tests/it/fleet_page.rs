//! Several agents on one page, `headroom watch --listen`, in a real browser: all hosts at a glance, one to
//! choose, and an agent that is silent or frozen delays nobody and has its gap.

use crate::support::agent::{Agent, LIMIT, TOKEN, headroom, words};
use crate::support::browser::{Browser, Page};
use crate::support::convoy::wait_for_a_row;
use crate::support::secrets::Secrets;
use crate::support::time::stands_still;
use lab::{Account, Lab, Spec};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// An agent that watches one server of the lab and no other, as on a host of its own.
fn agent_of(server: &str, dir: &Path, lab: &Lab, secrets: &Secrets) -> Agent {
    let (at, account) = (lab.real(server).unwrap(), lab.credentials_file(Account::Headroom));
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:1\"\nrole = \"reader\"\n[fleet]\nseeds = [\"{at}\"]\ndiscover = false\n[credentials]\noption_file = \"{}\"\n\
         [[server]]\nmatch = \"{at}\"\nname = \"{server}\"\n\
         [[zone]]\nname = \"a\"\nmembers = [\"127.1.0.0/16\"]\n[[zone]]\nname = \"b\"\nmembers = [\"127.2.0.0/16\"]\n",
        account.display()
    );
    let file = dir.join(format!("{server}.toml"));
    std::fs::write(&file, text).unwrap();
    let mut args = secrets.args();
    let file = file.display().to_string();
    args.extend(["--config", &file, "--window", "5s", "--router", "off"].map(str::to_owned));
    let args: Vec<&str> =
        ["--listen", "127.0.0.1:0"].into_iter().chain(args.iter().map(String::as_str)).collect();
    Agent::start(dir, server, &args)
}

/// `headroom watch --listen`; ended when dropped.
struct Watch {
    child: Child,
    address: SocketAddr,
}

impl Watch {
    fn start(dir: &Path, agents: &[String], secrets: &Secrets) -> Self {
        let mut command = headroom(dir);
        command.args(["watch", "--json", "--listen", "127.0.0.1:0", "--agent-ca"]).arg(&secrets.authority.ca);
        command.arg("--agent-token-file").arg(&secrets.token);
        for agent in agents {
            command.args(["--agent", agent]);
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().strip_prefix("the page: http://").unwrap_or_else(|| panic!("{said}"));
        Self { child, address: address.trim_end_matches('/').parse().unwrap() }
    }

    fn get(&self, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect_timeout(&self.address, LIMIT).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_of_all_agents_answers_this_machine_only() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["watch", "--agent", "http://127.0.0.1:9", "--listen", "0.0.0.0:9308"];
    let output = headroom(dir.path()).args(args).output().unwrap();
    let said = words(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--listen 127.0.0.1:9308") && said.contains("ssh -L"), "{said}");
    let output = headroom(dir.path()).args(["watch", "--listen", "127.0.0.1:9308"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "without agents: {}", words(&output));
}

#[tokio::test]
async fn all_hosts_are_seen_at_a_glance_one_can_be_chosen_and_a_silent_one_holds_up_nobody() {
    let (base, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lab = Lab::up(&Spec::new(&[("a", 1), ("b", 1)]), base.path()).await.unwrap();
    let secrets = Secrets::new(dir.path(), TOKEN);
    let agents = ["a1", "b1"].map(|server| agent_of(server, dir.path(), &lab, &secrets));
    let mut urls: Vec<String> =
        agents.iter().map(|agent| format!("https://localhost:{}", agent.address.port())).collect();
    urls.push("https://localhost:1".to_owned());
    let watch = Watch::start(dir.path(), &urls, &secrets);
    let locks = wait_for_a_row(&lab).await;
    let url = format!("http://{}/", watch.address);
    let mut browser = Browser::start();

    let mut page = browser.open(&url, 1280, "light").await;
    all_hosts_are_there(&mut page).await;
    page.wait_for("document.querySelectorAll('.host')[0].textContent.includes('a1: row locks')").await;
    page.picture("fleet-desk-light.png").await;
    a_frozen_agent_has_a_gap(&mut page, &agents[1]).await;
    drop(page);

    let mut page = browser.open(&format!("{url}?host=0"), 1280, "dark").await;
    one_host_is_shown_as_its_agent_shows_it(&mut page).await;
    page.picture("fleet-host-dark.png").await;
    // And back.
    page.is("document.querySelector('#choose a').click()").await;
    all_hosts_are_there(&mut page).await;
    page.picture("fleet-desk-dark.png").await;
    drop(page);

    for scheme in ["light", "dark"] {
        let mut page = browser.open(&url, 375, scheme).await;
        all_hosts_are_there(&mut page).await;
        assert_eq!(
            page.is("document.documentElement.scrollWidth").await,
            375,
            "nothing is wider than the phone"
        );
        page.picture(&format!("fleet-phone-{scheme}.png")).await;
    }
    assert_eq!(browser.complaints(), [""; 0], "no exception, nothing refused by the policy");

    // The one that does not answer says why, and the others stay a click away.
    let mut page = browser.open(&format!("{url}?host=2"), 1280, "light").await;
    page.wait_for("document.getElementById('verdict').textContent.includes('No answer from localhost:1')")
        .await;
    page.wait_for("document.getElementById('notices').textContent.includes('cannot be reached')").await;
    assert_eq!(page.is("document.querySelectorAll('#choose a').length").await, 4);
    page.picture("fleet-silent-light.png").await;
    drop(page);

    only_what_is_meant_is_passed_on(&watch);
    locks.abort();
    lab.down().await.unwrap();
}

/// Two that answer, with their servers, and one that does not.
async fn all_hosts_are_there(page: &mut Page<'_>) {
    page.wait_for("document.querySelectorAll('.host').length === 3").await;
    page.wait_for("document.querySelectorAll('.host .ceiling').length === 2").await;
    page.wait_for("document.querySelectorAll('.host')[2].textContent.includes('cannot be reached')").await;
    page.wait_for("document.querySelectorAll('.host')[2].textContent.includes('no answer since')").await;
    page.wait_for("document.getElementById('verdict').textContent === '1 host does not answer'").await;
    page.wait_for("document.querySelectorAll('.map .server').length === 2").await;
    page.wait_for("document.querySelectorAll('#timeline .courses .row').length === 5").await;
    let tags =
        "[...document.querySelectorAll('.host .tag')].map(tag => tag.textContent.split(' ')[0]).join()";
    assert_eq!(page.is(tags).await, "a1,b1");
    let links =
        "[...document.querySelectorAll('.map .server')].map(one => one.getAttribute('href')).sort().join()";
    assert_eq!(page.is(links).await, "/?host=0#server-a1,/?host=1#server-b1");
    assert_eq!(page.is("document.getElementById('panels').checkVisibility()").await, false);
}

async fn a_frozen_agent_has_a_gap(page: &mut Page<'_>, agent: &Agent) {
    agent.signal(Signal::STOP);
    stands_still(agent.pid()).await;
    page.wait_for("document.querySelectorAll('.host')[1].textContent.includes('did not answer within 5 s')")
        .await;
    page.wait_for("document.getElementById('verdict').textContent === '2 hosts do not answer'").await;
    page.wait_for("document.querySelector('.map .server.bad').getAttribute('aria-label').includes('b1')")
        .await;
    // The other one is asked all the while.
    let newest = "fetch('/history.json?from=-60&to=0&step=1').then(a => a.json()).then(history => history.subjects \
                  .filter(s => s.kind === 'agent').some(s => s.series[0].values.slice(-6).filter(v => v !== null).length >= 3))";
    let deadline = Instant::now() + LIMIT;
    while page.is(newest).await != true {
        assert!(Instant::now() < deadline, "a host that answers has no gap because another does not");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    agent.signal(Signal::CONT);
    page.wait_for("document.getElementById('verdict').textContent === '1 host does not answer'").await;
    page.wait_for(
        "/1 gap in .*did not answer within 5 s/.test(document.querySelectorAll('.host')[1].textContent)",
    )
    .await;
    let gaps = "Object.fromEntries([...document.querySelectorAll('#timeline .row')].map(row => [row.querySelector('.who').textContent, row.querySelectorAll('i.gap').length]))";
    page.wait_for(&format!("(gaps => gaps.a1 === 0 && gaps.b1 >= 1 && gaps['localhost:1'] === 1)({gaps})"))
        .await;
}

/// With the panels, charts and comparison of the agent's own history.
async fn one_host_is_shown_as_its_agent_shows_it(page: &mut Page<'_>) {
    page.wait_for("document.querySelectorAll('#panels .panel').length === 2").await;
    page.wait_for("document.querySelectorAll('#panels .chart path').length > 8").await;
    page.wait_for("document.querySelector('#server-a1 .said.warn').textContent.includes('row locks')").await;
    page.wait_for("document.querySelector('.map .server').getAttribute('href') === '#server-a1'").await;
    assert_eq!(page.is("document.querySelectorAll('#choose a[aria-current]').length").await, 1);
    assert_eq!(page.is("document.getElementById('fleet').checkVisibility()").await, false);
    page.is("document.querySelector('#compare .main').click()").await;
    page.wait_for("document.querySelectorAll('#compared [data-figure]').length > 1").await;
}

fn only_what_is_meant_is_passed_on(watch: &Watch) {
    let here = watch.address.to_string();
    for (path, host, code) in [
        ("/hosts/0/watch.json", here.as_str(), 200),
        ("/hosts/0/metrics", &here, 404),
        ("/hosts/0/..%2Fmetrics", &here, 404),
        ("/hosts/7/watch.json", &here, 404),
        ("/hosts/x/watch.json", &here, 400),
        ("/hosts/0/history.json?step=nonsense", &here, 502),
        ("/hosts/2/watch.json", &here, 502),
        ("/watch.json", "evil.example", 421),
        ("/hosts/0/watch.json", "evil.example", 421),
    ] {
        let answer = watch.get(path, host);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{path} for {host}: {answer}");
        assert!(!answer.contains(TOKEN), "{path}: {answer}");
    }
}
