//! fio, the disk probe of everybody: what it is asked, and what its JSON says. Always on a file of bounded
//! size and for a bounded time, never on a raw device, past the page cache (`O_DIRECT`).

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// What requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads anywhere in the file.
    RandomRead,
    /// Writes anywhere in the file.
    RandomWrite,
    /// Half of each.
    RandomMixed,
    /// From its begin to its end.
    Read,
    /// Likewise.
    Write,
    /// Small writes one after the other, each made durable (`fdatasync`) before the next.
    Flush,
}

/// One run of fio.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file; made if it is not there.
    pub file: PathBuf,
    /// How large it is.
    pub mib: u32,
    /// What requests are.
    pub kind: Kind,
    /// Bytes of a request.
    pub block: u32,
    /// Requests under way at a time.
    pub depth: u32,
    /// Requests a second at most; `None` is as fast as it goes.
    pub rate: Option<u32>,
    /// How long; 0 is until the file was read through once.
    pub seconds: u32,
}

/// What fio measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Requests a second.
    pub per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean time of a request, or of making one durable, milliseconds.
    pub mean_ms: f64,
    /// 99 of 100 took at most this long, milliseconds.
    pub p99_ms: f64,
}

impl Job {
    /// Starts it; dropped, it is killed.
    ///
    /// # Errors
    /// There is no fio.
    pub fn start(&self) -> anyhow::Result<Child> {
        let mut command = Command::new("fio");
        command.args(self.arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
            .spawn()
            .context("fio cannot be started: install it (scripts/install.sh bench, or apt-get install fio)")
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// There is no fio, it fails, or its answer cannot be read.
    pub async fn run(&self) -> anyhow::Result<Measured> {
        let output = self.start()?.wait_with_output().await.context("waiting for fio")?;
        if !output.status.success() || output.stdout.is_empty() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!(
                "fio on {} failed: {}",
                self.file.display(),
                why.trim().lines().last().unwrap_or("no word")
            );
        }
        let text = String::from_utf8_lossy(&output.stdout);
        // Remarks may stand before the JSON.
        let json = text.find('{').map_or("", |start| &text[start..]);
        parse(json, self.kind).with_context(|| format!("fio's answer on {}", self.file.display()))
    }

    fn arguments(&self) -> Vec<String> {
        let (rw, engine) = match self.kind {
            Kind::RandomRead => ("randread", "libaio"),
            Kind::RandomWrite => ("randwrite", "libaio"),
            Kind::RandomMixed => ("randrw", "libaio"),
            Kind::Read => ("read", "libaio"),
            Kind::Write => ("write", "libaio"),
            Kind::Flush => ("write", "sync"),
        };
        let mut all = vec![
            "--name=probe".to_owned(),
            "--output-format=json".to_owned(),
            "--thread".to_owned(),
            // It takes a colon for the end of a name, and would make two files.
            format!("--filename={}", self.file.display().to_string().replace(':', "\\:")),
            format!("--size={}m", self.mib),
            format!("--rw={rw}"),
            format!("--ioengine={engine}"),
            format!("--bs={}", self.block),
            format!("--iodepth={}", self.depth),
            "--direct=1".to_owned(),
        ];
        all.extend(self.rate.map(|rate| format!("--rate_iops={rate}")));
        if self.kind == Kind::Flush {
            all.push("--fdatasync=1".to_owned());
        }
        if self.seconds > 0 {
            all.push(format!("--runtime={}", self.seconds));
            all.push("--time_based".to_owned());
        }
        all
    }
}

#[derive(Deserialize)]
struct Answer {
    jobs: Vec<JobAnswer>,
}

#[derive(Deserialize)]
struct JobAnswer {
    read: Side,
    write: Side,
    #[serde(default)]
    sync: Synced,
}

#[derive(Deserialize)]
struct Side {
    iops: f64,
    bw_bytes: f64,
    clat_ns: Times,
}

#[derive(Deserialize, Default)]
struct Synced {
    #[serde(default)]
    lat_ns: Times,
}

#[derive(Deserialize, Default)]
struct Times {
    mean: f64,
    #[serde(default)]
    percentile: std::collections::BTreeMap<String, f64>,
}

/// Reads fio's JSON. Of a mixed run the reads are told.
fn parse(json: &str, kind: Kind) -> anyhow::Result<Measured> {
    // What follows the JSON is of no interest.
    let mut answers = serde_json::Deserializer::from_str(json).into_iter::<Answer>();
    let answer = answers.next().context("it is empty")??;
    let job = answer.jobs.first().context("it has no job")?;
    let (side, times) = match kind {
        Kind::RandomRead | Kind::RandomMixed | Kind::Read => (&job.read, &job.read.clat_ns),
        Kind::RandomWrite | Kind::Write => (&job.write, &job.write.clat_ns),
        Kind::Flush => (&job.write, &job.sync.lat_ns),
    };
    let p99 = times.percentile.get("99.000000").copied().unwrap_or(times.mean);
    Ok(Measured {
        per_s: side.iops,
        bytes_per_s: side.bw_bytes,
        mean_ms: times.mean / 1e6,
        p99_ms: p99 / 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "probe",
        "read": {"iops": 10100.5, "bw_bytes": 165000000, "clat_ns": {"mean": 98000.0, "percentile": {"99.000000": 250000}}},
        "write": {"iops": 176.0, "bw_bytes": 723000, "clat_ns": {"mean": 16000.0}},
        "sync": {"lat_ns": {"mean": 5647000.0, "percentile": {"99.000000": 40633000}}}}]}
        fio: done"#;

    #[test]
    fn the_side_that_was_asked_for_is_told() {
        let read = parse(ANSWER, Kind::RandomRead).unwrap();
        assert_eq!((read.per_s, read.mean_ms, read.p99_ms), (10100.5, 0.098, 0.25));
        let flush = parse(ANSWER, Kind::Flush).unwrap();
        assert_eq!((flush.per_s, flush.mean_ms, flush.p99_ms), (176.0, 5.647, 40.633));
        assert_eq!(parse(ANSWER, Kind::Write).unwrap().p99_ms, 0.016, "the mean where nothing else is told");
        assert!(parse("", Kind::Read).is_err() && parse("{}", Kind::Read).is_err());
    }

    #[test]
    fn a_colon_in_the_name_of_a_directory_makes_no_second_file() {
        let job = Job {
            file: "/mnt/nas:data/probe".into(),
            mib: 64,
            kind: Kind::Read,
            block: 4096,
            depth: 1,
            rate: None,
            seconds: 1,
        };
        assert!(job.arguments().contains(&r"--filename=/mnt/nas\:data/probe".to_owned()));
    }

    #[test]
    fn a_run_is_bounded_in_size_and_time_and_goes_past_the_page_cache() {
        let job = Job {
            file: "/data/probe".into(),
            mib: 512,
            kind: Kind::Flush,
            block: 4096,
            depth: 1,
            rate: None,
            seconds: 3,
        };
        let all = job.arguments();
        for wanted in ["--size=512m", "--runtime=3", "--direct=1", "--fdatasync=1", "--filename=/data/probe"]
        {
            assert!(all.iter().any(|one| one == wanted), "{wanted} of {all:?}");
        }
    }
}
