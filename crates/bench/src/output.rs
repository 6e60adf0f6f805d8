//! Where a run's files go: `benchmarks/runs/<kind>/YYYY-MM-DD-<what>/`, never over an earlier run. The kind
//! is the first word of what it is: `load-measure` lies beside `load`. Large raw data are kept compressed.

use anyhow::Context;
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use probe::machine;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use term::{exit, terminal};

const RUNS: &str = "benchmarks/runs";
/// Smoke runs and unfinished ones are not kept beside real ones.
const SMOKE: &str = "target/bench";
/// Bytes of a raw file; a larger one is kept compressed.
const LARGE: usize = 32 * 1024;
/// Significant digits of a figure in a file: no figure here repeats better than to one in a thousand.
const DIGITS: i32 = 6;

/// A directory that will be made once there is something to put into it.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    date: String,
}

impl Directory {
    /// `given`, or today's in its usual place with a number behind it if that is there already.
    ///
    /// # Errors
    /// `given` is there already, and not empty.
    pub(crate) fn new(given: Option<&Path>, what: &str, smoke: bool) -> anyhow::Result<Self> {
        let date = machine::today();
        let path = match given {
            Some(path) if !is_free(path) => {
                anyhow::bail!(
                    "{} is not empty; runs are never overwritten, name another --out",
                    path.display()
                )
            }
            Some(path) => path.to_owned(),
            None if smoke => free(Path::new(SMOKE), &format!("{date}-{what}")),
            None => free(&Path::new(RUNS).join(kind(what)), &format!("{date}-{what}")),
        };
        Ok(Self { path, date })
    }

    /// For what a run that failed had measured until then.
    pub(crate) fn unfinished(what: &str) -> Self {
        let date = machine::today();
        Self { path: free(Path::new(SMOKE), &format!("{date}-{what}-unfinished")), date }
    }

    /// Where it will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// `YYYY-MM-DD` when the run began, UTC.
    pub(crate) fn date(&self) -> &str {
        &self.date
    }

    /// Makes it.
    pub(crate) fn create(self) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(&self.path).with_context(|| format!("making {}", self.path.display()))?;
        Ok(self.path)
    }
}

/// Keeps a run in `directory`: its report as JSON in `file`, `text` as `summary.md`. Prints one of them. "No"
/// unless all that was asked is met.
pub(crate) fn finish(
    directory: &Path,
    file: &str,
    report: &impl Serialize,
    text: &str,
    met: bool,
    json: bool,
) -> anyhow::Result<ExitCode> {
    keep(directory, file, json_to_keep(report)?.as_bytes())?;
    write(directory, "summary.md", text)?;
    if json {
        terminal::print_json(report)?;
    } else {
        terminal::print(text)?;
    }
    terminal::complain(&format!("kept in {}", directory.display()));
    Ok(if met { exit::DONE } else { exit::no() })
}

/// Writes one file of a run that people read.
pub(crate) fn write(directory: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// Writes one file of a run that programs read: one that is [`LARGE`] compressed, with `.gz` behind its name.
/// It replaces what is there in either form.
pub(crate) fn keep(directory: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let (plain, compressed) = (directory.join(name), compressed(directory, name));
    let (path, other, bytes) = if content.len() > LARGE {
        (compressed, plain, Cow::Owned(gzip(content)?))
    } else {
        (plain, compressed, Cow::Borrowed(content))
    };
    std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    remove(&other)
}

/// Does the same with a file that was written bit by bit, once it is complete.
pub(crate) fn pack(directory: &Path, name: &str) -> anyhow::Result<()> {
    let path = directory.join(name);
    let content = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    keep(directory, name, &content)
}

/// Undoes it, for a file that is to be added to.
pub(crate) fn unpack(directory: &Path, name: &str) -> anyhow::Result<()> {
    let compressed = compressed(directory, name);
    if !compressed.exists() {
        return Ok(());
    }
    write(directory, name, &read_kept(directory, name)?)?;
    remove(&compressed)
}

/// Reads a file of a run in the form in which it is there.
pub(crate) fn read_kept(directory: &Path, name: &str) -> anyhow::Result<String> {
    let compressed = compressed(directory, name);
    let packed = compressed.exists();
    let path = if packed { compressed } else { directory.join(name) };
    let reading = || format!("reading {}", path.display());
    let mut file = File::open(&path).with_context(reading)?;
    let mut text = String::new();
    let read =
        if packed { GzDecoder::new(file).read_to_string(&mut text) } else { file.read_to_string(&mut text) };
    read.with_context(reading)?;
    Ok(text)
}

fn compressed(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.gz"))
}

/// The same bytes for the same content: with neither a name nor a time.
fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// A report as it is kept: complete for programs, small, and readable as a difference between two runs.
///
/// # Errors
/// It is no JSON, as with a map whose keys are not texts.
pub(crate) fn json_to_keep(report: &impl Serialize) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    report.serialize(&mut Serializer::with_formatter(&mut bytes, KeptFormatter { depth: 0 }))?;
    bytes.push(b'\n');
    Ok(String::from_utf8(bytes)?)
}

/// A line for each member of the report, and for each element of a member that is a list; what is deeper
/// stays on its line. Figures have [`DIGITS`] digits.
struct KeptFormatter {
    depth: usize,
}

impl KeptFormatter {
    fn begin(&mut self, out: &mut (impl Write + ?Sized), bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        out.write_all(bracket)
    }

    fn end(&mut self, out: &mut (impl Write + ?Sized), bracket: &[u8], lines: usize) -> io::Result<()> {
        self.depth -= 1;
        if self.depth < lines {
            out.write_all(b"\n")?;
        }
        out.write_all(bracket)
    }

    fn next(&self, out: &mut (impl Write + ?Sized), first: bool, lines: usize) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        if self.depth <= lines { out.write_all(b"\n") } else { Ok(()) }
    }
}

impl Formatter for KeptFormatter {
    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        CompactFormatter.write_f64(out, rounded(value))
    }

    fn write_f32<W: ?Sized + Write>(&mut self, out: &mut W, value: f32) -> io::Result<()> {
        CompactFormatter.write_f64(out, rounded(f64::from(value)))
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}", 1)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first, 1)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]", 2)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first, 2)
    }
}

/// With [`DIGITS`] significant digits; what stands before the point is never rounded off, as of a time since
/// 1970.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = (DIGITS - 1 - value.abs().log10().floor() as i32).max(0);
    format!("{value:.*}", places as usize).parse().unwrap_or(value)
}

/// Where the lab of a bench lives: one place a user, so that the next run sweeps what a killed one left.
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("headroom-bench-{}", rustix::process::getuid().as_raw()))
}

fn kind(what: &str) -> &str {
    what.split_once('-').map_or(what, |(kind, _)| kind)
}

fn free(parent: &Path, name: &str) -> PathBuf {
    let numbered = (2..).map(|number| parent.join(format!("{name}-{number}")));
    let mut candidates = std::iter::once(parent.join(name)).chain(numbered);
    candidates.find(|path| is_free(path)).unwrap_or_else(|| parent.join(name))
}

fn is_free(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => !path.exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_on_a_day_gets_a_number_and_an_explicit_directory_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(free(dir.path(), "2026-11-20-relay"), dir.path().join("2026-11-20-relay"));
        let first = dir.path().join("2026-11-20-relay");
        std::fs::create_dir(&first).unwrap();
        assert_eq!(free(dir.path(), "2026-11-20-relay"), first, "an empty one is free");
        std::fs::write(first.join("summary.md"), "x").unwrap();
        assert_eq!(free(dir.path(), "2026-11-20-relay"), dir.path().join("2026-11-20-relay-2"));
        assert!(Directory::new(Some(&first), "relay", false).is_err());
    }

    #[test]
    fn a_run_lies_in_the_folder_of_its_kind_and_a_smoke_run_in_none() {
        for (what, smoke, parent) in [
            ("soak", false, "benchmarks/runs/soak"),
            ("load-measure", false, "benchmarks/runs/load"),
            ("switchover-by-hand", false, "benchmarks/runs/switchover"),
            ("switchover-by-hand", true, "target/bench"),
        ] {
            let directory = Directory::new(None, what, smoke).unwrap();
            assert_eq!(directory.path().parent(), Some(Path::new(parent)), "{what}");
        }
    }

    #[test]
    fn large_raw_files_are_compressed_alike_each_time_and_read_in_both_forms() {
        let dir = tempfile::tempdir().unwrap();
        let there = |name: &str| dir.path().join(name).exists();
        let (small, large) = ("1,2\n".to_owned(), "1,2\n".repeat(10_000));
        keep(dir.path(), "a.csv", small.as_bytes()).unwrap();
        assert!(there("a.csv") && !there("a.csv.gz"));
        assert_eq!(read_kept(dir.path(), "a.csv").unwrap(), small);
        keep(dir.path(), "a.csv", large.as_bytes()).unwrap();
        assert!(!there("a.csv") && there("a.csv.gz"), "one form takes the other's place");
        assert_eq!(read_kept(dir.path(), "a.csv").unwrap(), large);
        let first = std::fs::read(dir.path().join("a.csv.gz")).unwrap();
        assert!(first.len() < 1000 && first[4..8] == [0; 4], "small, and without a time");
        unpack(dir.path(), "a.csv").unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("a.csv")).unwrap(), large);
        assert!(!there("a.csv.gz"));
        unpack(dir.path(), "a.csv").unwrap();
        pack(dir.path(), "a.csv").unwrap();
        assert_eq!(std::fs::read(dir.path().join("a.csv.gz")).unwrap(), first);
        assert!(read_kept(dir.path(), "b.csv").unwrap_err().to_string().contains("b.csv"));
    }

    #[test]
    fn a_kept_report_has_a_line_for_each_element_and_reads_back_as_it_was_but_for_digits() {
        #[derive(Serialize)]
        struct Cell {
            at_s: f64,
            seed: u64,
            counts: Vec<u32>,
        }
        #[derive(Serialize)]
        struct Report {
            words: &'static str,
            cells: Vec<Cell>,
            none: Vec<u8>,
        }
        let cell = |at_s| Cell { at_s, seed: 1_234_567_890_123_456_789, counts: vec![1, 2] };
        let report = Report { words: "a, {b}", cells: vec![cell(0.123456789), cell(-12.5)], none: vec![] };
        let text = json_to_keep(&report).unwrap();
        let expected = "{\n\"words\":\"a, {b}\",\n\"cells\":[\n\
             {\"at_s\":0.123457,\"seed\":1234567890123456789,\"counts\":[1,2]},\n\
             {\"at_s\":-12.5,\"seed\":1234567890123456789,\"counts\":[1,2]}\n],\n\"none\":[\n]\n}\n";
        assert_eq!(text, expected);
        let mut value = serde_json::to_value(&report).unwrap();
        value["cells"][0]["at_s"] = 0.123457.into();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn rounding_keeps_six_digits_and_all_that_stand_before_the_point() {
        for (value, kept) in [
            (1_795_000_123.456, 1_795_000_123.0),
            (5345.370486067724, 5345.37),
            (-0.000123456789, -0.000123457),
            (999_999.96, 1_000_000.0),
            (0.0, 0.0),
            (3.0, 3.0),
        ] {
            assert_eq!(rounded(value), kept);
        }
        assert!(rounded(f64::NAN).is_nan() && rounded(f64::INFINITY).is_infinite());
    }
}
