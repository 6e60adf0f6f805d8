//! Live: events of a running router, taken as they come and written a few times a second.

use super::output::Output;
use super::{RecordArgs, Recorded};
use crate::environment::Environment;
use anyhow::{Context, bail};
use console::control::server::RecordRequest;
use daemon::recorder::{self, LONGEST, RecordingRouter};
use recording::{Event, Key, RecordingStart};
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use term::{Seconds, interrupted};

/// What has come is in the file after this long at most.
const FLUSH: Duration = Duration::from_millis(200);
/// A router that says nothing for this long while it records has ended.
const SILENCE: Duration = Duration::from_secs(30);
const CHUNK: usize = 256 * 1024;

/// Records from a running router.
pub(super) async fn record(
    args: &RecordArgs,
    key: Option<&Key>,
    environment: &Environment,
) -> anyhow::Result<Recorded> {
    if args.time > LONGEST || args.time.is_zero() {
        bail!("a recording takes between a moment and {} h", LONGEST.as_secs() / 3600);
    }
    let directory = environment.control_directory()?;
    // Before anything is asked of the router, so that a file that cannot be made costs nothing.
    let mut output = Output::create(&args.out, args.force, key)?;
    let request = RecordRequest { one_in: args.sample, for_ms: args.time.as_millis() as u64 };
    let asked = match recorder::begin(environment.router(args.router.as_deref()), &directory, request) {
        Ok(asked) => asked,
        Err(error) => {
            // Only we have written to it, and nothing of worth.
            let _ = std::fs::remove_file(&args.out);
            return Err(error);
        }
    };
    let unix_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    output.push(&Event::RecordingStart(RecordingStart {
        unix_us,
        source: format!("router {}", asked.address),
        one_in: args.sample,
        resolution_us: 1,
        headroom: asked.answer.headroom.clone(),
    }))?;
    let recorded = Recorded {
        file: args.out.clone(),
        sealed: key.is_some(),
        bypassed: asked.answer.missing.bypassed,
        relayed: asked.answer.missing.relayed,
        ended: "the router went away before its end".to_owned(),
        ..Recorded::default()
    };
    let stopper = asked.stream.try_clone()?;
    let time = args.time;
    let mut taking = tokio::task::spawn_blocking(move || take(asked, output, recorded, time));
    tokio::select! {
        recorded = &mut taking => return recorded?,
        () = interrupted() => recorder::enough(&stopper),
    }
    tokio::select! {
        recorded = taking => recorded?,
        () = interrupted() => bail!("stopped at once by a second signal; the file is whole up to the last moment"),
    }
}

/// Takes events until the router says that it was the last.
fn take(
    asked: RecordingRouter,
    mut output: Output,
    mut recorded: Recorded,
    time: Duration,
) -> anyhow::Result<Recorded> {
    let mut stream = asked.stream;
    stream.set_read_timeout(Some(FLUSH))?;
    let mut progress = Seconds::new(time);
    let (begun, mut flushed, mut heard) = (Instant::now(), Instant::now(), Instant::now());
    let (mut pending, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                pending.extend_from_slice(&chunk[..count]);
                heard = Instant::now();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error).context("the router broke off"),
        }
        let mut rest = pending.as_slice();
        while let Some(event) = Event::read(&mut rest) {
            recorded.count(&event);
            output.push(&event)?;
        }
        let used = pending.len() - rest.len();
        pending.drain(..used);
        if flushed.elapsed() >= FLUSH {
            output.flush()?;
            flushed = Instant::now();
        }
        progress.show(begun.elapsed(), || {
            format!("{} commands of {} sessions recorded", recorded.commands, recorded.sessions)
        });
        if begun.elapsed() > time + SILENCE && heard.elapsed() > SILENCE {
            bail!(
                "the router has said nothing for {} s after its time; the file is whole",
                SILENCE.as_secs()
            );
        }
    }
    drop(progress);
    if recorded.seconds == 0.0 {
        recorded.seconds = begun.elapsed().as_secs_f64();
    }
    recorded.bytes = output.finish()?;
    Ok(recorded)
}

impl Recorded {
    pub(super) fn count(&mut self, event: &Event) {
        match event {
            Event::SessionStart(_) => self.sessions += 1,
            Event::Command(said) => self.commands += u64::from(!said.before),
            Event::RecordingEnd(stopped) => {
                self.lost = stopped.lost;
                self.seconds = stopped.at_us as f64 / 1e6;
                self.ended.clone_from(&stopped.why);
            }
            Event::RecordingStart(_) | Event::SessionEnd(_) => {}
        }
    }
}
