//! The commit for `headroom --version`: `HEADROOM_COMMIT` if it is set (packages are built from an archive),
//! else what git says, else `unknown`. Nothing of the time or the machine, so that the same commit gives the
//! same program.
//!
//! Runs again when the checked-out commit changes, and not for anything else: only files that exist are named
//! to Cargo, because one that does not would make every build run it.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=HEADROOM_COMMIT");
    #[allow(clippy::disallowed_methods, reason = "a build script gets what it is told by the environment")]
    let named = std::env::var("HEADROOM_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = named.or_else(checked_out).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=HEADROOM_COMMIT={commit}");
}

/// The commit of the repository that tracks this file; an archive that lies in somebody else's repository has
/// none.
fn checked_out() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // Of a branch, its file (or the packed ones) changes with each commit; HEAD when another branch is
    // checked out.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !said.is_empty()).then_some(said)
}
