//! A lab for people: its servers, how to connect, and what can be broken.

use crate::zone_config;
use crate::{Account, FAULTS, ProcessState, Role, ServerStatus, Status};
use std::path::Path;
use term::{Paint, Table};

/// Servers, faults in force, how to connect.
pub fn status(status: &Status, usual_base: &Path, paint: Paint) -> String {
    let mut table = Table::new(&["SERVER", "ROLE", "ZONE", "LISTENS AT", "FOLLOWS", "STATE"]);
    for server in &status.servers {
        table.row(vec![
            paint.bold(&server.name),
            role(server).to_owned(),
            server.zone.clone(),
            server.real.to_string(),
            server.source.clone().unwrap_or_else(|| "-".to_owned()),
            state(server, paint),
        ]);
    }
    let faults: String = status
        .network_faults
        .iter()
        .map(|(zones, fault)| format!("{} between {zones}: {fault}\n", paint.yellow("!")))
        .collect();
    format!("{}{faults}\n{}", table.text(), connect(status, usual_base))
}

/// What to type next.
fn connect(status: &Status, usual_base: &Path) -> String {
    let Some(zone) = status.zones.first() else { return String::new() };
    let router = zone_config::path(status, zone).display().to_string();
    let root =
        status.credentials.get(&Account::Root).map(|path| path.display().to_string()).unwrap_or_default();
    let app =
        status.credentials.get(&Account::App).map(|path| path.display().to_string()).unwrap_or_default();
    let socket = status.servers.first().map(|server| server.socket.display().to_string()).unwrap_or_default();
    let Ok(addresses) = status.router_addresses(zone) else { return String::new() };
    let (reader, writer) = (addresses.reader, addresses.writer);
    let which = if status.dir.parent() == Some(usual_base) {
        String::new()
    } else {
        format!(" --lab {}", status.dir.display())
    };
    let broken = status.servers.last().map_or("a1", |server| server.name.as_str());
    let mut table = Table::new(&["", ""]);
    let mut line = |what: &str, command: String| table.row(vec![what.to_owned(), command]);
    line("who is who", format!("headroom fleet --config {router}"));
    line("route", format!("headroom route --config {router}"));
    line(
        "read through it",
        format!(
            "mariadb --defaults-extra-file={app} -h {} -P {} {}",
            reader.ip(),
            reader.port(),
            status.database
        ),
    );
    line(
        "write through it",
        format!(
            "mariadb --defaults-extra-file={app} -h {} -P {} {}",
            writer.ip(),
            writer.port(),
            status.database
        ),
    );
    line("status page", format!("http://{}/", addresses.admin));
    line("the same as text", format!("headroom status --admin {}", addresses.admin));
    line("be root", format!("mariadb --defaults-extra-file={root} -S {socket}"));
    line("break something", format!("headroom lab fault {broken} freeze{which}    (heal mends it)"));
    line("take it down", format!("headroom lab down{which}"));
    let text = table.text();
    let others = if status.zones.len() > 1 {
        format!(
            "Other zones have a configuration of their own beside it: {}.\n",
            status.zones[1..].join(", ")
        )
    } else {
        String::new()
    };
    format!("{}{others}", text.trim_start_matches('\n'))
}

fn role(server: &ServerStatus) -> &'static str {
    match server.role {
        Role::Primary => "primary",
        Role::Replica => "replica",
        Role::Alone => "alone",
    }
}

fn state(server: &ServerStatus, paint: Paint) -> String {
    let mut parts = vec![match (server.process, &server.answer) {
        (ProcessState::Dead, _) => paint.red("dead"),
        (ProcessState::Frozen, _) => paint.yellow("frozen"),
        (ProcessState::Running, None) => paint.yellow("runs, does not answer"),
        (ProcessState::Running, Some(answer)) => match (answer.replicates, answer.seconds_behind) {
            (Some(true), Some(behind)) => format!("{}, {behind} s behind", paint.green("replicates")),
            (Some(true), None) => paint.green("replicates"),
            (Some(false), _) => paint.yellow("does not replicate"),
            (None, _) => paint.green("answers"),
        },
    }];
    parts.extend(server.faults.iter().map(|fault| paint.yellow(&format!("fault: {fault}"))));
    parts.join(", ")
}

/// The table of faults, for help.
pub fn faults() -> String {
    let mut table = Table::new(&["  FAULT", "UNDONE BY", "WHAT IT DOES"]);
    for row in FAULTS {
        let begin = row.value.map_or(row.begin.to_owned(), |value| format!("{} {value}", row.begin));
        table.row(vec![format!("  {begin}"), row.end.to_owned(), row.means.to_owned()]);
    }
    table.row(vec!["  heal".to_owned(), String::new(), "ends everything that is wrong there".to_owned()]);
    table.text()
}
