//! What the scripts of this repository count, on inputs whose answer is known.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A program of this name in the folder, which does this.
fn program(folder: &Path, name: &str, does: &str) {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn a_test_that_says_not_tested_is_skipped_and_not_passed() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let count = |text: &str| {
        std::fs::write(&log, text).unwrap();
        let script = repository().join("scripts/test.sh");
        said(&Command::new(script).arg("count").arg(&log).output().unwrap()).1
    };
    let result =
        "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    assert_eq!(count(result), "12 0 1");
    // One on a line of its own, and one behind what the harness had begun to write.
    let untested =
        "NOT TESTED: one: zero-hop needs root\ntest two ... NOT TESTED: two: zero-hop needs root\nok\n";
    assert_eq!(count(&format!("{untested}{result}")), "10 0 3");
    let failed = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
    assert_eq!(count(&format!("{result}{untested}{failed}")), "13 2 3");
}

#[test]
fn what_failed_beside_others_runs_once_more_alone_and_is_named_when_it_passes() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("it-0");
    // Of two tests that failed, the first passes alone.
    std::fs::write(&program, "#!/bin/sh\n[ \"$1 $2\" = '--exact a::crowded' ]\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let tally_of = |names: &[&str]| {
        let line = |name: &&str| format!("tests {} {} {name}\n", dir.path().display(), program.display());
        std::fs::write(dir.path().join("failed"), names.iter().map(line).collect::<String>()).unwrap();
        std::fs::write(dir.path().join("counts"), format!("tests 10 {} 0\n", names.len())).unwrap();
        let _ = std::fs::remove_file(dir.path().join("unsteady"));
        let output = Command::new("bash")
            .args(["-c", "source scripts/test.sh; folder=$0; again; tally tests"])
            .arg(dir.path())
            .current_dir(repository())
            .output()
            .unwrap();
        let (code, text) = said(&output);
        (
            code,
            text.lines().last().unwrap().to_owned(),
            text.contains("PASSED ONLY WHEN RUN ALONE: a::crowded"),
        )
    };
    assert_eq!(
        tally_of(&["a::crowded", "a::wrong"]),
        (Some(1), "11 passed, 1 failed, 0 skipped".to_owned(), true)
    );
    assert_eq!(tally_of(&["a::crowded"]), (Some(0), "11 passed, 0 failed, 0 skipped".to_owned(), true));
    // Seven failures are no accident.
    assert_eq!(tally_of(&["a::crowded"; 7]), (Some(1), "10 passed, 7 failed, 0 skipped".to_owned(), false));
}

/// The folder that packages are laid out in holds the architecture that was packed last.
#[test]
fn an_image_has_the_program_of_this_machine_and_stands_in_the_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let script = "source scripts/image.sh; dist=$0 image=$0/image name=headroom-1-linux-amd64
        mkdir -p $dist/out $image/root $dist/tree/usr/bin $dist/stage/usr/bin
        echo ours >$dist/tree/usr/bin/headroom; echo foreign >$dist/stage/usr/bin/headroom
        tar -C $dist/tree --transform=\"s,^\\.,$name,\" -czf $dist/out/$name.tar.gz .
        (cd $dist/out && sha256sum -- * >../sums && mv ../sums SHA256SUMS)
        unpack
        for content in first second; do echo $content >$dist/out/$name.oci.tar; add_checksum; done
        cd $dist/out && sha256sum --check --quiet SHA256SUMS && wc -l <SHA256SUMS && cat $image/root/usr/bin/headroom";
    let output =
        Command::new("bash").args(["-c", script]).arg(dir.path()).current_dir(repository()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said(&output), (Some(0), "2\nours".to_owned()), "{words}");
}

/// What COPY copies is root's, whoever had it before.
#[test]
fn the_user_of_the_image_has_the_directories_that_it_writes_to() {
    let dir = tempfile::tempdir().unwrap();
    let script = "source scripts/image.sh; image=$0; own_directories
        cd $0 && stat --format='%a %n' own/run/headroom own/lib/headroom";
    let output =
        Command::new("bash").args(["-c", script]).arg(dir.path()).current_dir(repository()).output().unwrap();
    assert_eq!(said(&output), (Some(0), "700 own/run/headroom\n700 own/lib/headroom".to_owned()));
    let file = std::fs::read_to_string(repository().join("packaging/Containerfile")).unwrap();
    let user = file.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    for copy in ["own/run/ /run/", "own/lib/ /var/lib/"] {
        assert!(file.contains(&format!("\nCOPY --chown={user} {copy}\n")), "{copy}: {file}");
    }
}

#[test]
fn an_audit_that_could_not_look_is_skipped_and_an_advisory_is_a_failure() {
    // (fetch, check): how cargo-deny ends; `None`: it is not there.
    for (ends, code, tally) in [
        (None, 1, "0 passed, 0 failed, 1 skipped"),
        (Some((1, 0)), 1, "0 passed, 0 failed, 1 skipped"),
        (Some((0, 1)), 1, "0 passed, 1 failed, 0 skipped"),
        (Some((0, 0)), 0, "1 passed, 0 failed, 0 skipped"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        if let Some((fetch, check)) = ends {
            let deny = dir.path().join("cargo-deny");
            let text = format!(
                "#!/bin/sh\ncase \"$*\" in\n'--locked fetch db') exit {fetch} ;;\n\
                 '--locked check --disable-fetch advisories') exit {check} ;;\n*) exit 99 ;;\nesac\n"
            );
            std::fs::write(&deny, text).unwrap();
            std::fs::set_permissions(&deny, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        // Beside no target folder, whose tools would be found first.
        let script = dir.path().join("scripts/audit.sh");
        std::fs::create_dir(dir.path().join("scripts")).unwrap();
        std::fs::copy(repository().join("scripts/audit.sh"), &script).unwrap();
        let output = Command::new(script)
            .env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()))
            .env("CARGO_HOME", dir.path())
            .output()
            .unwrap();
        assert_eq!(said(&output), (Some(code), tally.to_owned()), "{ends:?}");
        let complains = String::from_utf8_lossy(&output.stderr).contains("SKIPPED, NOTHING WAS CHECKED");
        assert_eq!(complains, tally.ends_with("1 skipped"), "{ends:?}");
    }
}

/// MariaDB's and MySQL's packages exclude each other: apt-get would remove the one that is in use.
#[test]
fn installing_packages_removes_none_and_gives_the_policy_of_starts_back() {
    // What stands there before: a policy of somebody, one that a killed run has left, none.
    let ours = "#!/bin/sh\n# of headroom's scripts/apt-quietly.sh, while it installs\nexit 101\n";
    for (before, after) in [(Some("#!/bin/sh\nexit 0\n"), true), (Some(ours), false), (None, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (policy, calls) = (dir.path().join("policy-rc.d"), dir.path().join("calls"));
        let script = std::fs::read_to_string(repository().join("scripts/apt-quietly.sh")).unwrap();
        assert!(script.contains("policy=/usr/sbin/policy-rc.d\n"));
        let script = script.replace("/usr/sbin/policy-rc.d", policy.to_str().unwrap());
        std::fs::write(dir.path().join("apt-quietly.sh"), script).unwrap();
        program(dir.path(), "apt-cache", "echo '  Candidate: 1'");
        let install = format!("echo \"$*\" >>{}; cat {} >&2", calls.display(), policy.display());
        program(dir.path(), "apt-get", &install);
        if let Some(before) = before {
            std::fs::write(&policy, before).unwrap();
        }
        let output = Command::new("sh")
            .arg(dir.path().join("apt-quietly.sh"))
            .arg("mariadb-server")
            .env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()))
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && words.contains("exit 101"), "no service starts: {words}");
        let calls = std::fs::read_to_string(calls).unwrap();
        assert!(calls.contains(" --no-remove ") && calls.trim_end().ends_with(" mariadb-server"), "{calls}");
        let left = std::fs::read_to_string(&policy).ok();
        assert_eq!(left.as_deref(), before.filter(|_| after));
    }
}

#[test]
fn packages_come_through_the_callers_proxy_and_a_conflict_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let scripts = dir.path().join("scripts");
    std::fs::create_dir(&scripts).unwrap();
    let text = std::fs::read_to_string(repository().join("scripts/install.sh")).unwrap();
    let missing = text.replace("need haproxy haproxy", "need no-such-program haproxy");
    assert_ne!(missing, text);
    std::fs::write(scripts.join("install.sh"), missing).unwrap();
    program(dir.path(), "id", "echo 1000");
    program(dir.path(), "apt-get", "exit 99");
    let calls = dir.path().join("calls");
    let removes = "echo 'E: Packages need to be removed but remove is disabled.'; exit 100";
    program(dir.path(), "sudo", &format!("echo \"$*\" >{}; {removes}", calls.display()));
    for (proxy, begins) in [
        (None, "sh scripts/apt-quietly.sh"),
        (
            Some("http://user:secret@proxy:3128"),
            "--preserve-env=http_proxy,https_proxy,no_proxy sh scripts/apt-quietly.sh",
        ),
    ] {
        let mut install = Command::new("sh");
        install.arg(scripts.join("install.sh")).arg("bench");
        install.env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()));
        install.env("HOME", dir.path()).env_remove("http_proxy").env_remove("https_proxy");
        if let Some(proxy) = proxy {
            install.env("http_proxy", proxy);
        }
        let output = install.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.contains("nothing was done") && words.contains("mysql-root.sh mariadb"), "{words}");
        let calls = std::fs::read_to_string(&calls).unwrap();
        assert!(calls.starts_with(begins) && calls.contains(" haproxy"), "{calls}");
        assert!(!calls.contains("secret"), "everybody can read a command line");
    }
}

/// A program that is built on Debian 13 or Ubuntu 24.04 does not start on Debian 12.
#[test]
fn packages_of_a_newer_distribution_demand_its_c_library() {
    let dir = tempfile::tempdir().unwrap();
    let script = "source scripts/dist.sh; dist=$0/dist
        mkdir -p $dist $0/tree/DEBIAN
        printf '%s\\n' 'Package: headroom' 'Version: 1' 'Architecture: all' 'Maintainer: A <a@example.net>' \\
            \"Depends: libc6 (>= $promised), libgcc-s1\" 'Description: d' >$0/tree/DEBIAN/control
        dpkg-deb --root-owner-group --build $0/tree $0/headroom.deb >$0/log
        objdump() { echo \"DF *UND* 0 (GLIBC_$newest) fmod\"; }
        newest=2.4; c_library program; is_for_release
        newest=2.139; c_library program; ! is_for_release
        raise_dependency $0/headroom.deb
        dpkg-deb --field $0/headroom.deb Depends";
    let output =
        Command::new("bash").args(["-c", script]).arg(dir.path()).current_dir(repository()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said(&output), (Some(0), "libc6 (>= 2.139), libgcc-s1".to_owned()), "{words}");
    assert_eq!(words.matches("WARNING: the program needs glibc 2.139").count(), 1, "{words}");
}
