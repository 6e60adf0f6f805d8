//! Lines that set a cell for good, each where it belongs: my.cnf, sysctl.d, a udev rule, fstab.

use crate::spec::HOST;
use knob::Host;
use knob::catalogue::{self, Place};

/// Of these settings; a dangerous one says so.
pub fn snippet(settings: &[(String, String)]) -> String {
    let (mut server, mut sysctl, mut udev, mut fstab, mut rest) =
        (String::new(), String::new(), String::new(), String::new(), String::new());
    let host = Host::new("/");
    for (knob, value) in settings {
        if knob == HOST {
            rest.push_str(&format!("# the host {value}: another machine, no setting\n"));
            continue;
        }
        let name = knob::name::parse(&host, knob).ok();
        let warning = name.as_ref().and_then(|name| catalogue::danger(name, value));
        let warning = warning.map_or_else(String::new, |(_, why)| format!("# Warning: {why}\n"));
        let (bare, target) = knob.split_once('@').unwrap_or((knob, ""));
        let (lines, line) = match name.as_ref().map(|name| (name.knob.place, name)) {
            Some((Place::Variable, name)) => (&mut server, format!("{} = {value}", name.rest)),
            Some((Place::Sysctl(sysctl_name), _)) => (&mut sysctl, format!("{sysctl_name} = {value}")),
            Some((Place::AnySysctl, name)) => (&mut sysctl, format!("{} = {value}", name.rest)),
            Some((Place::Mount, _)) => {
                (&mut fstab, format!("# {target}: options {value}, beside those that its line has"))
            }
            // Each is a file of the queue by the same name, a scheduler's own below iosched.
            Some(_) if bare.starts_with("block.") && !target.is_empty() => {
                let file = bare.trim_start_matches("block.").replace('.', "/");
                let rule = format!(
                    "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{target}\", \
                     ATTR{{queue/{file}}}=\"{value}\""
                );
                (&mut udev, rule)
            }
            _ => (&mut rest, format!("headroom knob set --keep '{knob}={value}'")),
        };
        lines.push_str(&format!("{warning}{line}\n"));
    }
    let parts = [
        ("# /etc/mysql/conf.d/headroom.cnf\n[mysqld]", server),
        ("# /etc/sysctl.d/90-headroom.conf", sysctl),
        ("# /etc/udev/rules.d/90-headroom.rules", udev),
        ("# /etc/fstab", fstab),
        ("# Until the next reboot, and what no file sets:", rest),
    ];
    let parts = parts.iter().filter(|(_, lines)| !lines.is_empty());
    parts.map(|(heading, lines)| format!("{heading}\n{lines}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_to_set_are_sorted_by_where_they_go() {
        let settings = [
            ("server.innodb_io_capacity", "2000"),
            ("memory.swappiness", "1"),
            ("sysctl.net.ipv4.tcp_rmem", "1 2 3"),
            ("block.scheduler@sda", "none"),
            ("network.rps@eth0", "all"),
        ];
        let settings = settings.map(|(knob, value)| (knob.to_owned(), value.to_owned()));
        assert_eq!(
            snippet(&settings),
            "# /etc/mysql/conf.d/headroom.cnf\n[mysqld]\ninnodb_io_capacity = 2000\n\n\
             # /etc/sysctl.d/90-headroom.conf\nvm.swappiness = 1\nnet.ipv4.tcp_rmem = 1 2 3\n\n\
             # /etc/udev/rules.d/90-headroom.rules\nACTION==\"add|change\", SUBSYSTEM==\"block\", \
             KERNEL==\"sda\", ATTR{queue/scheduler}=\"none\"\n\n\
             # Until the next reboot, and what no file sets:\nheadroom knob set --keep 'network.rps@eth0=all'\n"
        );
        let dangerous = snippet(&[("server.innodb_doublewrite".to_owned(), "OFF".to_owned())]);
        assert!(dangerous.contains("# Warning: "), "{dangerous}");
    }
}
