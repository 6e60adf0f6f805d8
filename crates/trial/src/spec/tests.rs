//! Specs that are read, and those that are refused with a reason.

use super::*;

pub(crate) fn factor(knob: &str, levels: usize) -> Factor {
    let levels = (0..levels).map(|level| level.to_string()).collect();
    Factor { knob: knob.to_owned(), levels, baseline: 0, whole_plot: false, danger: false }
}

/// The example of the top.
fn example() -> String {
    let lines = include_str!("../spec.rs").lines().skip_while(|line| !line.contains("```toml")).skip(1);
    let lines = lines.take_while(|line| !line.contains("```"));
    lines.map(|line| format!("{}\n", line.trim_start_matches("//!").trim_start())).collect()
}

#[test]
fn the_example_is_right() {
    let spec = Spec::parse(&example(), "t.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!((spec.metric, spec.load.threads.as_slice()), (Metric::Throughput, &[16, 32][..]));
    assert_eq!(spec.factors[0].levels[spec.factors[0].baseline], "mq-deadline");
    assert!(spec.factors[1].whole_plot && spec.factors[1].danger);
    assert!(spec.constraints[0].excludes(&[2, 1]) && !spec.constraints[0].excludes(&[2, 0]));
    assert_eq!(spec.timing.measure, Duration::from_secs(30));
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_place() {
    let text = "name = \"\"\nmetric = \"p99\"\nlevel = 2.0\n[load]\nworkload = \"oltp_read_write\"\n\
                [design]\nkind = \"full\"\nfolded = true\n\
                [[factor]]\nknob = \"a\"\nlevels = [\"1\"]\n\
                [[factor]]\nknob = \"a\"\nlevels = [\"1\", \"1\", \"2\"]\nbaseline = \"3\"\n\
                [[exclude]]\nb = \"1\"\n[[exclude]]\na = \"9\"\n[[stage]]\ncells = 3\nblocks = 1\n";
    let complaints = Spec::parse(text, "t.toml").unwrap_err();
    let places: Vec<usize> = complaints.0.iter().map(|complaint| complaint.line).collect();
    assert_eq!(places, [1, 3, 5, 8, 11, 13, 14, 15, 17, 19, 20], "{complaints}");
    assert!(complaints.to_string().contains("t.toml:3:9"), "{complaints}");
    let unknown = Spec::parse("name = \"x\"\nmetrik = \"p99\"\n", "t.toml").unwrap_err();
    assert_eq!((unknown.0[0].line, unknown.0[0].column), (2, 1), "{unknown}");
}

/// Two hosts in place of a server.
pub(crate) const HOSTS: &str = "name = \"h\"\nmetric = \"throughput\"\n[load]\nworkload = \"w\"\nthreads = [4]\n\
     [[host]]\nname = \"small\"\nserver = \"127.0.0.1:1\"\n[[host]]\nname = \"large\"\nserver = \"127.0.0.1:2\"\n";

#[test]
fn hosts_are_a_factor_of_which_the_first_is_the_baseline() {
    let spec = Spec::parse(HOSTS, "t.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    let host = &spec.factors[0];
    assert_eq!((host.knob.as_str(), host.baseline), (HOST, 0));
    assert_eq!(host.levels, ["small", "large"]);
    assert_eq!(spec.hosts[1].server, "127.0.0.1:2".parse().unwrap());
    let factor = "[[factor]]\nknob = \"server.a\"\nlevels = [\"0\", \"1\"]\n[[exclude]]\nhost = \"large\"\n\"server.a\" = \"1\"\n";
    let both = Spec::parse(&format!("{HOSTS}{factor}"), "t.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(both.constraints[0].excludes(&[1, 1]) && !both.constraints[0].excludes(&[0, 1]));
}

#[test]
fn with_hosts_only_variables_of_running_servers_are_varied() {
    let text = format!(
        "server = \"127.0.0.1:3\"\nmanaged = \"m.toml\"\n{HOSTS}[[host]]\nname = \"small\"\nserver = \"a b:x\"\n\
         [[factor]]\nknob = \"memory.thp\"\nlevels = [\"always\", \"never\"]\n\
         [[factor]]\nknob = \"server.a\"\nwhole_plot = true\nlevels = [\"0\", \"1\"]\n\
         [[factor]]\nknob = \"host\"\nlevels = [\"0\", \"1\"]\n"
    );
    let wrong = Spec::parse(&text, "t.toml").unwrap_err();
    let lines: Vec<usize> = wrong.0.iter().map(|complaint| complaint.line).collect();
    assert_eq!(lines, [1, 2, 15, 16, 18, 21, 25, 25], "{wrong}");
    let alone = HOSTS.split("[[host]]\nname = \"large\"").next().unwrap();
    let wrong = Spec::parse(alone, "t.toml").unwrap_err();
    assert!(wrong.to_string().contains("compared with nothing"), "{wrong}");
}

#[test]
fn what_stands_twice_or_is_none_at_all_is_refused() {
    let text = "name = \"t\"\nmetric = \"p99\"\n[load]\nworkload = \"w\"\nthreads = [16, 16]\nclients = 0\n\
                tables = 0\ntable_size = 0\n[[factor]]\nknob = \"server.a\"\nlevels = [\"ON\", \"1\", \"OFF\"]\n\
                [[factor]]\nknob = \"server.b\"\nlevels = [\"1M\", \"1048576\"]\n\
                [[factor]]\nknob = \"server.optimizer_switch\"\nlevels = [\"mrr=on\", \"mrr=on,mrr_sort_keys=on\"]\n\
                [[factor]]\nknob = \"server.A\"\nlevels = [\"0\", \"1\"]\n";
    let wrong = Spec::parse(text, "t.toml").unwrap_err();
    let lines: Vec<usize> = wrong.0.iter().map(|complaint| complaint.line).collect();
    assert_eq!(lines, [5, 6, 7, 8, 11, 14, 19], "{wrong}");
    assert!(wrong.to_string().contains("ON and 1 are the same value"), "{wrong}");
    assert!(wrong.to_string().contains("server.A is varied twice"), "it is server.a: {wrong}");
}

#[test]
fn a_time_in_which_nothing_can_be_measured_is_refused_with_its_line() {
    let text = "name = \"t\"\nmetric = \"p99\"\nbudget = \"0s\"\n[load]\nworkload = \"w\"\nthreads = [4]\n\
                [timing]\nreset = \"0s\"\nwarm_up = \"0s\"\nmeasure = \"0ms\"\n\
                [[factor]]\nknob = \"server.a\"\nlevels = [\"0\", \"1\"]\n";
    let wrong = Spec::parse(text, "t.toml").unwrap_err();
    let lines: Vec<usize> = wrong.0.iter().map(|complaint| complaint.line).collect();
    assert_eq!(lines, [3, 10], "no pause and no warm-up are meant: {wrong}");
}

#[test]
fn fewer_cells_than_there_are_in_the_first_stage_are_refused_in_words() {
    let text = |cells: usize| {
        format!(
            "name = \"t\"\nmetric = \"p99\"\n[load]\nworkload = \"w\"\nthreads = [4]\n[design]\nkind = \"one-at-a-time\"\n\
             [[factor]]\nknob = \"server.a\"\nlevels = [\"0\", \"1\", \"2\"]\n[[stage]]\ncells = {cells}\nblocks = 3\n"
        )
    };
    let check = |cells| {
        let spec = Spec::parse(&text(cells), "t.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
        crate::run::Experiment::new(spec, &[]).unwrap().check_stages()
    };
    assert_eq!(check(2), Ok(()));
    assert_eq!(check(4), Ok(()));
    assert!(check(1).unwrap_err().to_string().contains("has every cell, 2 of them"));
}

#[test]
fn levels_are_numbers_and_switches_without_quotes_as_well() {
    let text = "name = \"t\"\nmetric = \"p99\"\n[load]\nworkload = \"w\"\nthreads = [4]\n\
                [[factor]]\nknob = \"server.a\"\nlevels = [0, 1_000, 2.5]\nbaseline = 1000\n\
                [[factor]]\nknob = \"server.b\"\nlevels = [true, false]\n\
                [[exclude]]\n\"server.a\" = 2.5\n\"server.b\" = false\n";
    let spec = Spec::parse(text, "t.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(spec.factors[0].levels, ["0", "1000", "2.5"]);
    assert_eq!(spec.factors[0].baseline, 1);
    assert_eq!(spec.factors[1].levels, ["true", "false"]);
    assert!(spec.constraints[0].excludes(&[2, 1]) && !spec.constraints[0].excludes(&[2, 0]));
    let wrong = Spec::parse(&text.replace("[0, 1_000", "[[0], 1_000"), "t.toml").unwrap_err();
    assert!(wrong.to_string().contains("expected a string, a number, true or false"), "{wrong}");
}
