//! The pages in a real browser on facts that never change (tests/pages/: a router in zone a, of whose
//! sessions most bypass it; the primary a1, replicas a2, b1 and c1, with b1 frozen; a host short of
//! CPU): what a person sees at three widths and in both colour schemes. That live facts arrive is for
//! `watch_page.rs` and `fleet_page.rs`.

use crate::support::browser::{Browser, Page};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Which page is served.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Router,
    /// The router's, when b1 and a2 are not eligible.
    OneLeft,
    Agent,
    Several,
}

const WIDTHS: [u32; 3] = [390, 1280, 1920];

#[tokio::test]
async fn the_status_page_shows_every_name_and_no_figure_that_nobody_measured() {
    let url = format!("http://{}/", served(Kind::Router));
    let mut browser = Browser::start();
    for (width, scheme) in WIDTHS.into_iter().flat_map(|width| [(width, "light"), (width, "dark")]) {
        let mut page = browser.open(&url, width, scheme).await;
        page.wait_for("document.querySelectorAll('#zones .server').length === 4").await;
        page.wait_for("document.querySelectorAll('#digests tbody tr').length === 3").await;
        page.wait_for("document.querySelector('#zones').textContent.includes('±')").await;
        nothing_lies_beyond_the_edge(&mut page, width).await;
        moods_differ_by_shape(&mut page, "#zones .dot.good", "#zones .dot.bad").await;
        let text = page.text().await;
        for said in [
            "POST /api/v2/checkout/:cart/confirmation",
            "GROUP BY `n` ORDER BY `how_many` DESC LIMIT ?",
            "77 ±16",
            "not measured",
            "our sessions, 38 of them bypass the router",
            "± is the standard error",
            "reads from zone",
            "1.02",
        ] {
            assert!(text.contains(said), "{width} {scheme}: {said} is not in\n{text}");
        }
        assert!(!text.contains("born"), "{text}");
        page.picture(&format!("status-{width}-{scheme}.png")).await;
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Of one replica the busiest is no news.
#[tokio::test]
async fn one_replica_is_not_compared_with_itself() {
    let url = format!("http://{}/", served(Kind::OneLeft));
    let mut browser = Browser::start();
    let mut page = browser.open(&url, 1280, "light").await;
    page.wait_for("document.getElementById('figures').textContent.includes('only one is left')").await;
    let text = page.text().await;
    assert!(!text.contains("× mean"), "{text}");
}

#[tokio::test]
async fn the_agents_page_tells_the_hosts_bottleneck_once_and_draws_arrows_past_other_servers() {
    let url = format!("http://{}/", served(Kind::Agent));
    let mut browser = Browser::start();
    for (width, scheme) in WIDTHS.into_iter().flat_map(|width| [(width, "light"), (width, "dark")]) {
        let mut page = browser.open(&url, width, scheme).await;
        page.wait_for("document.querySelectorAll('.map .server').length === 4").await;
        page.wait_for("document.querySelectorAll('#panels .chart path').length > 8").await;
        page.wait_for("document.querySelectorAll('#endpoints tbody tr').length === 3").await;
        nothing_lies_beyond_the_edge(&mut page, width).await;
        moods_differ_by_shape(&mut page, "#panels .dot.warn", "#panels .dot.bad").await;
        let shapes = "new Set([...document.querySelectorAll('.map .dot')].map(d => d.getAttribute('d')\
                      .replace(/[\\d.-]+/g, ''))).size";
        assert_eq!(page.is(shapes).await, 2, "a triangle and a square: the ones short of CPU, and b1");
        assert_eq!(page.is("document.querySelectorAll('.evidence').length").await, 1, "told once");
        let texts_fit = "[...document.querySelectorAll('.map .server')].every(s => { const box = \
                         s.querySelector('.box').getBBox(); return [...s.querySelectorAll('text')].every(t => { \
                         const b = t.getBBox(); return b.x >= box.x && b.x + b.width <= box.x + box.width; }); })";
        assert_eq!(page.is(texts_fit).await, true, "{width}: no text leaves its box");
        let crossed = "[...document.querySelectorAll('.map .replication')].flatMap(path => { \
            const [to, from] = path.textContent.match(/^(\\S+) replicates from (\\S+?),? /).slice(1).map(n => n.replace(',', '')); \
            return [...document.querySelectorAll('.map .server')].filter(s => { \
              const name = s.getAttribute('aria-label').split(',')[0]; if (name === to || name === from) return false; \
              const b = s.querySelector('.box').getBBox(); \
              for (let at = 0; at < path.getTotalLength(); at += 2) { const p = path.getPointAtLength(at); \
                if (p.x > b.x && p.x < b.x + b.width && p.y > b.y && p.y < b.y + b.height) return true; } return false; \
            }).map(s => from + ' to ' + to + ' over ' + s.getAttribute('aria-label')); }).join()";
        assert_eq!(page.is(crossed).await, "", "{width}");
        let axes = "[...document.querySelectorAll('#panels .chart')].every(c => \
                    /^\\d\\d:\\d\\d.*\\d\\d:\\d\\d/.test(c.querySelector('.times').innerText.replace(/\\s/g, ' ')))";
        assert_eq!(page.is(axes).await, true, "every chart says from when to when");
        let verdict = page.is("document.getElementById('verdict').textContent").await;
        assert_eq!(verdict, "1 server does not answer");
        page.picture(&format!("agent-{width}-{scheme}.png")).await;
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn the_page_of_several_agents_tells_what_servers_share_once() {
    let url = format!("http://{}/", served(Kind::Several));
    let mut browser = Browser::start();
    for (width, scheme) in WIDTHS.into_iter().flat_map(|width| [(width, "light"), (width, "dark")]) {
        let mut page = browser.open(&url, width, scheme).await;
        page.wait_for("document.querySelectorAll('.host').length === 4").await;
        page.wait_for("document.querySelectorAll('.map .server').length === 4").await;
        nothing_lies_beyond_the_edge(&mut page, width).await;
        moods_differ_by_shape(&mut page, ".host .dot.warn", ".host .dot.bad").await;
        let said = "[...document.querySelectorAll('.host')[0].querySelectorAll('.said .sentence')].map(s => s.textContent).join('|')";
        assert_eq!(page.is(said).await, "127.2.0.1:27921: no answer|this host: the CPU (likely)");
        page.picture(&format!("several-{width}-{scheme}.png")).await;
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Nothing a person could want to see is beyond the right edge of the page, or of the card it stands in.
async fn nothing_lies_beyond_the_edge(page: &mut Page<'_>, width: u32) {
    let wider = page.is("document.documentElement.scrollWidth").await.as_u64().unwrap();
    assert!(wider <= u64::from(width), "{wider} pixels on {width}");
    let beyond = "[...document.querySelectorAll('main *, header *, nav *, footer *')].filter(e => !e.closest('svg') && \
        getComputedStyle(e).position !== 'absolute').filter(e => { const r = e.getBoundingClientRect(); \
        const card = e.closest('.server, .sheet, .figure, .host, .notice'); \
        const edge = Math.min(document.documentElement.clientWidth, card ? card.getBoundingClientRect().right : Infinity); \
        return r.width > 0 && r.right > edge + 1 && !e.closest('.label'); }).map(e => e.tagName + '.' + e.className + ': ' + \
        e.textContent.slice(0, 40)).join('\\n')";
    assert_eq!(page.is(beyond).await, "", "beyond the edge at {width}");
}

async fn moods_differ_by_shape(page: &mut Page<'_>, one: &str, other: &str) {
    let shape = |of: &str| {
        format!(
            "(s => [s.clipPath, s.borderRadius, s.backgroundSize].join())(getComputedStyle(document.querySelector('{of}')))"
        )
    };
    assert_ne!(page.is(&shape(one)).await, page.is(&shape(other)).await, "{one} and {other} have one shape");
}

/// Whoever lets others read a page has a proxy before it, where it may stand below a path.
#[tokio::test]
async fn the_pages_work_below_a_path_of_a_proxy() {
    let mut browser = Browser::start();
    for (kind, is_drawn) in [
        (Kind::Router, "document.querySelectorAll('#digests tbody tr').length === 3"),
        (Kind::Agent, "document.querySelectorAll('#panels .chart path').length > 8"),
        (Kind::Several, "document.querySelectorAll('.host').length === 4"),
    ] {
        let address = served_by(move |wanted| body(kind, wanted.strip_prefix("/db/headroom")?));
        let url = format!("http://{address}/db/headroom/");
        let mut page = browser.open(&url, 1280, "light").await;
        page.wait_for(is_drawn).await;
        if kind == Kind::Several {
            let path = page.is("document.querySelector('.host').getAttribute('href').split('?')[0]").await;
            assert_eq!(path, "/db/headroom/");
        }
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

/// An old page that cannot draw what a new router says would show the facts of before as those of now.
#[tokio::test]
async fn an_answer_that_cannot_be_shown_is_no_answer() {
    let address = served_by(|wanted| {
        let facts = body(Kind::Router, wanted)?;
        Some(if wanted == "/status.json" { facts.replace("\"objectives\"", "\"promises\"") } else { facts })
    });
    let mut browser = Browser::start();
    let mut page = browser.open(&format!("http://{address}/"), 1280, "light").await;
    page.wait_for("document.getElementById('verdict').textContent.includes('cannot be shown')").await;
    page.wait_for("document.body.classList.contains('stale')").await;
}

/// It answers, and no commit on it ends: whoever looks at the page must not find the primary in order.
#[tokio::test]
async fn a_gray_failure_is_bad_on_the_status_page() {
    let address = served_by(|wanted| {
        let facts = body(Kind::Router, wanted)?;
        if wanted != "/status.json" {
            return Some(facts);
        }
        let mut status: serde_json::Value = serde_json::from_str(&facts).unwrap();
        let primary = status["servers"].as_array_mut().unwrap().iter_mut().find(|s| s["name"] == "a1")?;
        primary["routing"]["gray"] = "3 commits have not ended for 12 s".into();
        Some(status.to_string())
    });
    let mut browser = Browser::start();
    let mut page = browser.open(&format!("http://{address}/"), 1280, "light").await;
    page.wait_for("document.getElementById('verdict').classList.contains('bad')").await;
    let of_a1 = "[...document.querySelectorAll('#zones .server')].find(s => s.querySelector('.title').textContent === 'a1')";
    assert_eq!(page.is(&format!("{of_a1}.querySelector('.dot').classList.contains('bad')")).await, true);
    let text = page.is(&format!("{of_a1}.textContent")).await;
    assert!(text.as_str().unwrap().contains("a gray failure: 3 commits"), "{text}");
}

#[tokio::test]
async fn the_agents_page_says_that_servers_are_left_out() {
    let left_out = "not every server of the fleet is watched: at most 256 are";
    let address = served_by(move |wanted| {
        let facts = body(Kind::Agent, wanted)?;
        if wanted != "/watch.json" {
            return Some(facts);
        }
        let mut view: serde_json::Value = serde_json::from_str(&facts).unwrap();
        view["left_out"] = left_out.into();
        Some(view.to_string())
    });
    let mut browser = Browser::start();
    let mut page = browser.open(&format!("http://{address}/"), 1280, "light").await;
    page.wait_for(&format!("document.getElementById('notices').textContent.includes('{left_out}')")).await;
    drop(page);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn the_agents_page_says_how_often_a_limit_holds_a_server_back_and_when_its_disk_is_full() {
    let address = served_by(|wanted| {
        let facts = body(Kind::Agent, wanted)?;
        if wanted != "/watch.json" {
            return Some(facts);
        }
        let mut view: serde_json::Value = serde_json::from_str(&facts).unwrap();
        let a1 = view["servers"].as_array_mut().unwrap().iter_mut().find(|server| server["name"] == "a1")?;
        a1["limits"] =
            serde_json::json!({ "cpu": { "path": "/pod", "cpus": 0.5, "used": 0.49, "throttled": 0.8 } });
        a1["space"] = serde_json::json!({
            "path": "/data", "total": 1_u64 << 35, "available": 1_u64 << 32, "full_in_s": 7200.0
        });
        // The same bottleneck, and not of the same CPUs.
        a1["verdict"]["bottleneck"]["who"] = "CPU 3".into();
        Some(view.to_string())
    });
    let mut browser = Browser::start();
    let mut page = browser.open(&format!("http://{address}/"), 1280, "light").await;
    let says =
        |said: &str| format!("document.getElementById('server-a1')?.textContent.includes('{said}') === true");
    page.wait_for(&says("0.49 of the 0.50 CPUs of its limit, held back in 80 % of the periods")).await;
    page.wait_for(&says("4.00 GiB left for its data, full about 20")).await;
    assert_eq!(page.is("document.querySelectorAll('#server-a1 .evidence').length").await, 1);
    drop(page);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// A page that stays open has the scripts of the version that it came from.
#[tokio::test]
async fn a_page_that_is_open_over_an_upgrade_loads_itself_again() {
    let (loaded, asked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counted = loaded.clone();
    let address = served_by(move |wanted| {
        let facts = body(Kind::Router, wanted)?;
        match wanted {
            "/" => {
                counted.fetch_add(1, SeqCst);
                Some(facts)
            }
            // It is asked for once a second.
            "/status.json" => {
                let mut status: serde_json::Value = serde_json::from_str(&facts).unwrap();
                let version = if asked.fetch_add(1, SeqCst) < 12 { "0.1.0" } else { "0.2.0" };
                status["process"]["version"] = version.into();
                Some(status.to_string())
            }
            _ => Some(facts),
        }
    });
    let mut browser = Browser::start();
    let _page = browser.open(&format!("http://{address}/"), 1280, "light").await;
    let deadline = Instant::now() + Duration::from_secs(90);
    while loaded.load(SeqCst) < 2 {
        assert!(Instant::now() < deadline, "it never loads itself again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Serves the page's own files and the facts, until the test ends.
fn served(kind: Kind) -> SocketAddr {
    served_by(move |wanted| body(kind, wanted))
}

/// Serves what this function has for a path, until the test ends.
fn served_by(body: impl Fn(&str) -> Option<String> + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let body = body.clone();
            std::thread::spawn(move || answer(&body, client));
        }
    });
    address
}

fn answer(body: &impl Fn(&str) -> Option<String>, mut client: TcpStream) {
    let mut asked = String::new();
    let mut lines = BufReader::new(client.try_clone().unwrap());
    lines.read_line(&mut asked).unwrap();
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|n| n > 2) {
        line.clear();
    }
    let wanted = asked.split(' ').nth(1).unwrap_or("/").to_owned();
    let body = body(&wanted);
    let kind = match wanted.split('?').next().unwrap().rsplit('.').next() {
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("json") => "application/json",
        _ => "text/html",
    };
    let (status, body) = body.map_or(("404 Not Found", String::new()), |body| ("200 OK", body));
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // A browser that has left wants no answer.
    let _ = client.write_all((head + &body).as_bytes());
}

fn body(kind: Kind, wanted: &str) -> Option<String> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let source = |name: &str| read(&crate_dir.join("../console/src/page").join(name));
    let fact = |name: &str| read(&crate_dir.join("tests/pages").join(name));
    let (path, query) = wanted.split_once('?').unwrap_or((wanted, ""));
    let several = if kind == Kind::Several { "all-" } else { "" };
    match path {
        "/" if matches!(kind, Kind::Router | Kind::OneLeft) => source("status.html"),
        "/" => source("watch.html"),
        "/page.css" => source("status.css"),
        "/page.js" => source("status.js"),
        "/status.json" if kind == Kind::OneLeft => {
            let mut status: serde_json::Value = serde_json::from_str(&fact("status.json")?).unwrap();
            for server in status["servers"].as_array_mut().unwrap().iter_mut().filter(|s| s["name"] != "c1") {
                server["routing"]["reads"]["eligible"] = false.into();
            }
            Some(status.to_string())
        }
        "/status.json" => fact("status.json"),
        "/insight.json" => {
            let by = query.split('&').find_map(|part| part.strip_prefix("by="))?;
            fact(&format!("insight-{by}.json"))
        }
        "/watch.json" | "/history.json" => fact(&format!("{several}{}", &path[1..])),
        _ if path.ends_with(".js") || path.ends_with(".css") => source(&path[1..]),
        _ => None,
    }
}
