//! `headroom demo --keep`: after the demo, the lab with data, a router per zone, their status pages and a
//! little traffic stay until Ctrl-C.

use crate::fixture::Fixture;
use crate::routers::Routers;
use crate::scenario::{PRIMARY, Phase, Policy, Scenario};
use lab::{Account, DATABASE, Lab};
use std::fmt::Write;
use std::time::Duration;
use term::{CommandLine, complain};

/// Every replica serves.
const READERS: [&str; 4] = ["a2", "a3", "b1", "c1"];

/// A fraction of the demo's traffic goes on, so that the status pages have something to show.
const TRICKLE: f64 = 0.2;

/// Starts the routers, says how to connect, and waits to be interrupted.
pub(crate) async fn run(fixture: &Fixture, scenario: &Scenario) -> anyhow::Result<()> {
    let routers = Routers::start(&fixture.lab, &READERS, scenario.relay).await?;
    let phase = Phase { id: "e", title: "kept", policy: Policy::Headroom, demand: [1.0 / 3.0; 3] };
    let apps = fixture.open(scenario, &phase, &READERS, Some(&routers)).await?;
    let _traffic = apps.begin(&phase, scenario.rates.times(TRICKLE), scenario.seed);
    complain(&how_to_connect(&fixture.lab, &routers));
    loop {
        // What nobody asks for must not pile up.
        apps.take();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn how_to_connect(lab: &Lab, routers: &Routers) -> String {
    let client = |at: &std::net::SocketAddrV4| {
        format!(
            "mariadb --defaults-extra-file={} -h {} -P {} {DATABASE}",
            lab.credentials_file(Account::App).display(),
            at.ip(),
            at.port()
        )
    };
    let mut text = format!("\n{}: primary {PRIMARY}, replicas {}\n\n", lab.version(), READERS.join(" "));
    // Writing to a String cannot fail.
    for router in routers.all() {
        let _ = writeln!(text, "zone {}", router.zone);
        let _ = writeln!(text, "  reads   {}", client(&router.reader));
        let _ = writeln!(text, "  writes  {}", client(&router.writer));
        let _ = writeln!(text, "  status  http://{}/", router.admin);
    }
    // Named, as it need not be the only lab, nor in the usual place.
    let mut fault = CommandLine::new("headroom lab fault b1 kill");
    fault.path("--lab", Some(lab.dir()));
    let fault = fault.line();
    let _ = writeln!(text, "\nBreak something: {fault}   (then start; blackhole, then deliver; ...)");
    let _ = writeln!(text, "Directory: {}", lab.dir().display());
    let _ = writeln!(text, "Ctrl-C takes everything down.\n");
    text
}
