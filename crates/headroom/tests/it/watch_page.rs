//! The live page of `headroom agent` in a real browser, on a lab's servers and a router in front of them:
//! figures, verdict, map and gaps are there after its scripts ran, in both colour schemes, on a desk and on a
//! phone.

use crate::support::browser::{Browser, Page};
use crate::support::convoy::wait_for_a_row;
use crate::support::watched::Watched;
use lab::{Account, Lab, Spec};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Router and agent have one file, so the router judges it, and it is shown once.
const PROMISED: &str = "\
[[objective]]
name = \"reads\"
endpoint = \"/orders/<b>\"
threshold = \"1s\"
share = 0.9
fast_burn = 5
";

#[tokio::test]
async fn the_page_shows_figures_verdict_map_and_gaps_in_both_schemes_on_a_desk_and_on_a_phone() {
    let base = tempfile::tempdir().unwrap();
    let lab = Lab::up(&Spec::new(&[("a", 2), ("b", 1)]), base.path()).await.unwrap();
    let agent = Watched::start_with(&lab, PROMISED).await;
    let readers = read_through(&agent, &lab);
    let locks = wait_for_a_row(&lab).await;
    let mut browser = Browser::start();
    let url = format!("http://{}/", agent.address);

    let mut page = browser.open(&url, 1280, "light").await;
    page.wait_for("document.querySelector('#server-a1 .said.warn').textContent.includes('row locks')").await;
    the_map_is_there(&mut page).await;
    reads_cross_zones(&mut page).await;
    figures_are_there(&mut page).await;
    it_can_be_used_without_a_mouse(&mut page).await;
    two_stretches_are_compared(&mut page).await;
    the_command_compares_them_too(&agent);
    let light = page.is("getComputedStyle(document.body).backgroundColor").await;
    page.picture("desk-light.png").await;
    drop(page);

    // A server dies: the page says so, and the history has a gap that ends when it is back.
    lab.change("b1", "kill".parse().unwrap()).await.unwrap();
    let mut page = browser.open(&url, 1280, "dark").await;
    page.wait_for("document.getElementById('verdict').textContent.includes('does not answer')").await;
    page.wait_for("document.querySelector('#timeline .course i.gap') && document.getElementById('events').textContent.includes('gap since then')").await;
    lab.change("b1", "start".parse().unwrap()).await.unwrap();
    page.wait_for("document.getElementById('events').textContent.includes('gap of ')").await;
    page.wait_for("!document.getElementById('verdict').textContent.includes('does not answer')").await;
    the_map_is_there(&mut page).await;
    assert_ne!(
        page.is("getComputedStyle(document.body).backgroundColor").await,
        light,
        "dark is another ground"
    );
    page.picture("desk-dark.png").await;
    drop(page);

    // The router's own page is made of the same parts.
    let mut page = browser.open(&format!("http://{}/", agent.route.0.admin), 1280, "light").await;
    page.wait_for("document.querySelectorAll('#zones .server').length === 3").await;
    page.wait_for("document.querySelector('#endpoints tbody')?.textContent.includes('/orders/<b>')").await;
    drop(page);

    for scheme in ["light", "dark"] {
        let mut page = browser.open(&url, 375, scheme).await;
        page.wait_for("document.querySelectorAll('#panels .chart path').length > 3").await;
        the_map_is_there(&mut page).await;
        assert_eq!(
            page.is("document.documentElement.scrollWidth").await,
            375,
            "nothing is wider than the phone"
        );
        let beyond = "[...document.querySelectorAll('.map .server')].filter(s => s.getBoundingClientRect().right > 375).length";
        assert_eq!(page.is(beyond).await, 0);
        page.picture(&format!("phone-{scheme}.png")).await;
    }
    assert_eq!(browser.complaints(), [""; 0], "no exception, nothing refused by the policy");
    locks.abort();
    readers.iter().for_each(JoinHandle::abort);
    drop(agent);
    lab.down().await.unwrap();
}

/// Two zones, three servers with roles, replication to both replicas.
async fn the_map_is_there(page: &mut Page<'_>) {
    page.wait_for("document.querySelectorAll('.map .zone').length === 2").await;
    page.wait_for("document.querySelectorAll('.map .server').length === 3").await;
    page.wait_for("document.querySelectorAll('.map .replication').length === 2").await;
    let servers = page
        .is("[...document.querySelectorAll('.map .server')].map(s => s.getAttribute('aria-label')).join('|')")
        .await;
    for said in ["a1, primary", "a2, replica", "b1, replica", "lag "] {
        assert!(servers.as_str().unwrap().contains(said), "{said} is not in {servers}");
    }
}

/// All clients are in zone a, and half of the room is in zone b.
async fn reads_cross_zones(page: &mut Page<'_>) {
    page.wait_for("document.querySelectorAll('.map .flow .share').length >= 1").await;
    let flow = page.is("document.querySelector('.map .flow title').textContent").await;
    assert!(flow.as_str().unwrap().contains("of the reads from zone"), "{flow}");
}

async fn figures_are_there(page: &mut Page<'_>) {
    page.wait_for("document.querySelectorAll('#panels .panel').length === 4").await;
    page.wait_for("document.querySelectorAll('#panels .chart path').length > 8").await;
    page.wait_for("/\\d\\/s/.test(document.querySelector('#server-a1 .chart .now').textContent)").await;
    page.wait_for("/%$/.test(document.querySelector('#this-host .chart .now').textContent)").await;
    page.wait_for("document.querySelector('#server-a1 .evidence') !== null").await;
    page.wait_for("document.querySelector('#endpoints tbody')?.textContent.includes('/orders/<b>')").await;
    page.wait_for("document.querySelectorAll('#timeline .course i').length > 2").await;
    page.wait_for("document.getElementById('events').textContent.includes('row locks for')").await;
    page.wait_for("document.querySelectorAll('#objectives tbody tr').length === 1").await;
    // What an application calls its endpoint is text, whatever it looks like.
    assert_eq!(page.is("document.querySelectorAll('#endpoints b:not(.now)').length").await, 0);
    let text = page.text().await;
    for said in [
        "writes go to a1",
        "row locks (",
        "Try next:",
        "counts from",
        "history in memory",
        "90 % of statements of endpoint /orders/<b> within 1s",
        "of all, by the flow table",
    ] {
        assert!(text.contains(said), "{said} is not in\n{text}");
    }
}

/// The seconds before the last two and those two, which are too few for an interval, and it says so.
async fn two_stretches_are_compared(page: &mut Page<'_>) {
    let fill = |id: &str, ago_s: u32| {
        format!(
            "(() => {{ const d = new Date(Date.now() - {ago_s}000); document.getElementById('{id}').value = \
             new Date(d.getTime() - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19); }})()"
        )
    };
    for (id, ago_s) in [("before_from", 60), ("before_to", 2), ("after_from", 2), ("after_to", 0)] {
        page.is(&fill(id, ago_s)).await;
    }
    page.is("document.querySelector('#compare .main').click()").await;
    page.wait_for("document.querySelectorAll('#compared [data-figure=statements] td b').length > 1").await;
    page.wait_for("/\\dx|\\d×/.test(document.querySelector('#compared [data-figure=cpu]').textContent)")
        .await;
    page.wait_for("document.getElementById('compared').textContent.includes('too short to say how sure')")
        .await;
}

fn the_command_compares_them_too(agent: &Watched) {
    let compare = |more: &[&str]| {
        let url = format!("http://{}", agent.address);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_headroom"));
        command.args(["watch", "--compare", "60s..5s", "5s..now", "--agent", &url]).args(more).env_clear();
        command.output().unwrap()
    };
    let output = compare(&[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for said in ["this host", "CPU, busy", "a1", "statements", "too short to say how sure"] {
        assert!(text.contains(said), "{said} is not in\n{text}");
    }
    let told: serde_json::Value = serde_json::from_slice(&compare(&["--json"]).stdout).unwrap();
    let of = |row: &&serde_json::Value| {
        row["kind"] == "server" && row["name"] == "a1" && row["figure"] == "statements"
    };
    let row = told["rows"].as_array().unwrap().iter().find(of).unwrap();
    assert!(row["before"]["mean"].as_f64().unwrap() > 0.0 && row["unit"] == "per-second", "{row}");
}

async fn it_can_be_used_without_a_mouse(page: &mut Page<'_>) {
    page.is("document.querySelector('[data-stretch=\"3600\"]').focus()").await;
    page.press("Enter", 13).await;
    page.wait_for(
        "document.querySelector('[data-stretch=\"3600\"]').getAttribute('aria-pressed') === 'true'",
    )
    .await;
    page.wait_for("performance.getEntriesByType('resource').some(r => r.name.includes('from=-3600'))").await;
    page.is("document.querySelector('.map .server').focus()").await;
    assert_eq!(page.is("document.activeElement.getAttribute('href')").await, "#server-a1");
    page.is("document.querySelector('[data-stretch=\"600\"]').click()").await;
    page.wait_for("document.querySelector('[data-stretch=\"600\"]').getAttribute('aria-pressed') === 'true'")
        .await;
}

/// Clients of both zones that read all the while, through the router and past it; their endpoint's name is no
/// markup.
fn read_through(agent: &Watched, lab: &Lab) -> Vec<JoinHandle<()>> {
    let routed = agent.route.told_options(lab);
    let direct = lab.opts("a", "b1", Account::App).unwrap();
    let read = |opts: mysql_async::Opts| {
        tokio::spawn(async move {
            loop {
                // A server that is killed takes its sessions along.
                let Ok(mut conn) = Conn::new(opts.clone()).await else {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                };
                while conn.query_drop("SELECT SQL_NO_CACHE 1 /*route='/orders/%3Cb%3E'*/").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        })
    };
    vec![read(routed.clone()), read(routed), read(direct)]
}
