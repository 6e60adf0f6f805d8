//! Compiles the kernel's programs with clang, if there is one. Without, the build succeeds all the same: an
//! empty file stands in for the programs, and the status of a router says why it has no zero-hop.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]
#![allow(clippy::disallowed_methods, reason = "cargo speaks to a build script by the environment")]
#![allow(clippy::unwrap_used, reason = "cargo sets these variables, and its directory can be written")]

use std::path::Path;
use std::process::Command;

fn main() {
    for file in ["zero_hop.c", "packet.h", "mirror.h", "hold.h", "layout.h"] {
        println!("cargo:rerun-if-changed=bpf/{file}");
    }
    let out = std::env::var("OUT_DIR").unwrap();
    let (object, why) = (Path::new(&out).join("zero_hop.o"), Path::new(&out).join("why.txt"));
    let missing = compile(&object).err().unwrap_or_default();
    if !missing.is_empty() {
        println!("cargo:warning=built without zero-hop: {missing}");
        std::fs::write(&object, []).unwrap();
    }
    std::fs::write(&why, missing).unwrap();
}

/// Why there are no programs, in one line.
fn compile(object: &Path) -> Result<(), String> {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_POINTER_WIDTH", "64") {
        return Err("it is for 64-bit Linux only".to_owned());
    }
    let target = if is("CARGO_CFG_TARGET_ENDIAN", "big") { "bpfeb" } else { "bpfel" };
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    // Debian and Ubuntu keep <asm/types.h> in a directory of the architecture, where clang for bpf does not
    // look; those of a compiler for another architecture are in a directory of that.
    let headers = format!("/usr/include/{machine}-linux-gnu");
    let cross_headers = format!("/usr/{machine}-linux-gnu/include");
    let clang = Command::new("clang")
        .args(["-target", target, "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror", "-idirafter", &headers])
        .args(["-idirafter", &cross_headers])
        .args(["-c", "bpf/zero_hop.c", "-o"])
        .arg(object)
        .output()
        .map_err(|_| "clang was not there when it was built".to_owned())?;
    if clang.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&clang.stderr).lines().next().unwrap_or_default().to_owned();
    Err(format!("clang could not compile it when it was built ({said})"))
}
