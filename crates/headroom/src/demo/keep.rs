//! `headroom demo --keep`: the lab with data, a router per zone and their status pages, until Ctrl-C.

use super::plan::{PRIMARY, Plan};
use super::routers::Routers;
use super::stage::Stage;
use crate::terminal::{complain, print};
use lab::{Account, DATABASE, Lab};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// Every replica serves.
const READERS: [&str; 4] = ["a2", "a3", "b1", "c1"];

/// Brings everything up, says how to connect, and waits to be interrupted.
pub(crate) async fn run(plan: &Plan, base: &Path) -> anyhow::Result<ExitCode> {
    complain("starting a primary and four replicas in three zones, and a router in each");
    let stage = Stage::set(plan, base).await?;
    let routers = Routers::start(&stage.lab, &READERS).await?;
    print(&how_to_connect(&stage.lab, &routers))?;
    std::future::pending::<()>().await;
    Ok(crate::exit::DONE)
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
    let mut text = format!("{}: primary {PRIMARY}, replicas {}\n\n", lab.version(), READERS.join(" "));
    // Writing to a String cannot fail.
    for router in routers.all() {
        let _ = writeln!(text, "zone {}", router.zone);
        let _ = writeln!(text, "  reads   {}", client(&router.reader));
        let _ = writeln!(text, "  writes  {}", client(&router.writer));
        let _ = writeln!(text, "  status  http://{}/", router.admin);
    }
    let _ = writeln!(
        text,
        "\nBreak something: headroom lab fault b1 kill   (then start; blackhole, then deliver; ...)"
    );
    let _ = writeln!(text, "Directory: {}", lab.dir().display());
    let _ = writeln!(text, "Ctrl-C takes everything down.");
    text
}
