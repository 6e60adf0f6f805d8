//! How a server of a lab is restarted, as `headroom knob --managed` and `headroom trial` read it. Pure.

use crate::ServerStatus;
use crate::server::{ENVIRONMENT, OVERRIDE};
use std::fmt::Write;
use std::path::Path;

/// The description of a server. `headroom` is the program that takes `lab fault`; what is made for the server
/// lies beside its own directory, and goes with the lab.
pub fn description(lab: &Path, server: &ServerStatus, headroom: &Path) -> String {
    let (name, dir) = (&server.name, lab.join(&server.name));
    let command = |word: &str| {
        let [headroom, lab] = [headroom, lab].map(|path| path.display().to_string());
        let words = [&headroom, "lab", "fault", name, word, "--lab", &lab].map(|one| format!("{one:?}"));
        format!("[{}]", words.join(", "))
    };
    let mut text = format!("# Server {name} of the lab {}.\n", lab.display());
    let mut line = |key: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key} = {value}");
    };
    line("stop", command("stop"));
    line("start", command("start"));
    let quoted = |path: &Path| format!("{:?}", path.display().to_string());
    line("pid_file", quoted(&dir.join("pid")));
    line("data_dir", quoted(&dir.join("data")));
    line("option_file", quoted(&dir.join(OVERRIDE)));
    line("environment", quoted(&dir.join(ENVIRONMENT)));
    line("work_dir", quoted(&lab.join(format!("{name}.work"))));
    text
}
