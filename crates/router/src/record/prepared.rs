//! Prepared: the texts of what a session has prepared, for a recording that begins later.
//!
//! A pool prepares its statements once and executes them for hours; a recording of executions alone could not
//! be sent again. So the texts are kept from the start, recording or not, within limits: what does not fit is
//! not known later, and its executions are left out of a replay and counted. Clients also say the types of
//! parameters once, with the first execution, and later mean the same; so these are kept, too.
//!
//! Per command that is neither prepare nor execution this costs the increment of one number; buffers are used
//! again, so that a driver that prepares, executes and closes each statement allocates nothing either.

use crate::record::Recorder;
use sql::is_secret;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::read::Reader;
use wire::{Command, Event, Finish, Observer, Progress, Start};

/// Statements of one session, and bytes of their texts.
const STATEMENTS: usize = 256;
const BYTES: usize = 64 << 10;
/// A longer text is not kept.
const LONGEST: usize = 16 << 10;
/// Buffers kept for the next texts.
const SPARE: usize = 4;
/// Prepares whose answer is due; of more the text is not known.
const AHEAD: usize = 64;

/// What a session has prepared.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    recorder: Arc<Recorder>,
    known: Vec<Statement>,
    bytes: usize,
    /// Commands that matter here and are not answered, each with its number among the session's commands.
    ahead: VecDeque<(u64, Ahead)>,
    /// The newest of them is coming in pieces.
    coming: bool,
    started: u64,
    completed: u64,
    spare: Vec<Vec<u8>>,
}

/// A prepared statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) id: u32,
    /// Empty where it held a password.
    pub(super) text: Vec<u8>,
    parameters: u16,
    /// Two bytes for each parameter, as last said; empty while nobody has.
    types: Vec<u8>,
}

impl Statement {
    /// What its next execution has to say if it says no types itself.
    pub(super) fn types(&self) -> Option<Types> {
        (!self.types.is_empty()).then(|| Types { parameters: self.parameters, types: self.types.clone() })
    }
}

/// Types of the parameters of a statement.
#[derive(Debug)]
pub(super) struct Types {
    parameters: u16,
    types: Vec<u8>,
}

impl Types {
    /// Puts the types into an execution that refers to those said before.
    pub(super) fn put_into(&self, body: &mut Vec<u8>) {
        let flag = HEAD + usize::from(self.parameters).div_ceil(8);
        if body.get(flag) == Some(&0) {
            body[flag] = 1;
            body.splice(flag + 1..flag + 1, self.types.iter().copied());
        }
    }
}

/// Bytes of an execution before its parameters: the statement, flags, a count that is always one.
const HEAD: usize = 9;
/// A bit of the flags: the number of parameters and their names are there.
const NAMED: u8 = 8;

#[derive(Debug)]
enum Ahead {
    /// Prepares this text; too long where there is none.
    Prepares(Option<Vec<u8>>),
    /// Forgets all of them.
    Forgets,
}

impl Prepared {
    pub(super) fn new(recorder: &Arc<Recorder>) -> Self {
        let mut prepared = Self::default();
        prepared.recorder = recorder.clone();
        prepared
    }

    /// What is known now, in the order of the numbers.
    pub(super) fn known(&self) -> &[Statement] {
        &self.known
    }

    /// How far the tracker is; it may have been shown bytes elsewhere.
    #[inline]
    pub(super) fn catch_up(&mut self, progress: Progress) {
        (self.started, self.completed) = (progress.started, progress.completed);
    }

    /// An execution says types.
    fn executes(&mut self, start: &Start<'_>) {
        let Some(id) = start.body.first_chunk().map(|id| u32::from_le_bytes(*id)) else { return };
        let Ok(at) = self.known.binary_search_by_key(&id, |known| known.id) else { return };
        let Statement { parameters, types, .. } = &mut self.known[at];
        if *parameters > 0 && say_types(start, usize::from(*parameters), types).is_none() {
            // What follows refers to what we have not understood.
            types.clear();
        }
    }

    fn keep(&mut self, id: u32, parameters: u16, text: Vec<u8>) {
        let secret = is_secret(&text);
        let length = if secret { 0 } else { text.len() };
        let fits = self.known.len() < STATEMENTS && self.bytes + length <= BYTES;
        if !fits || !self.recorder.remembers(length) {
            return self.give(text);
        }
        self.bytes += length;
        let text = if secret {
            self.give(text);
            Vec::new()
        } else {
            text
        };
        let at = self.known.partition_point(|known| known.id < id);
        self.known.insert(at, Statement { id, text, parameters, types: Vec::new() });
    }

    fn forget(&mut self, at: usize) {
        let Statement { text, .. } = self.known.remove(at);
        self.bytes -= text.len();
        self.recorder.forgets(text.len());
        self.give(text);
    }

    fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn give(&mut self, mut text: Vec<u8>) {
        if self.spare.len() < SPARE && text.capacity() > 0 {
            text.clear();
            self.spare.push(text);
        }
    }

    fn add(&mut self, body: &[u8]) {
        let Some((_, Ahead::Prepares(text))) = self.ahead.back_mut() else { return };
        match text {
            Some(known) if known.len() + body.len() <= LONGEST => known.extend_from_slice(body),
            _ => *text = None,
        }
    }
}

/// Takes the types out of an execution that says them; `None` when it cannot be understood.
fn say_types(start: &Start<'_>, parameters: usize, types: &mut Vec<u8>) -> Option<()> {
    let mut r = Reader::new(start.body);
    r.skip(4)?;
    let named = start.attributes && r.u8()? & NAMED != 0;
    let mut r = Reader::new(start.body);
    r.skip(HEAD)?;
    let count = if named { usize::try_from(r.lenenc()?).ok()? } else { parameters };
    r.skip(count.div_ceil(8))?;
    if r.u8()? != 1 {
        return Some(());
    }
    types.clear();
    // Attributes, which have names, come behind the parameters.
    for _ in 0..parameters {
        types.extend_from_slice(r.bytes(2)?);
        if named {
            r.lenenc_bytes()?;
        }
    }
    Some(())
}

impl Prepared {
    #[inline]
    fn command(&mut self, start: Start<'_>) {
        self.started += 1;
        let ahead = match start.command {
            Command::StmtPrepare => Ahead::Prepares(Some(self.take())),
            Command::ResetConnection | Command::ChangeUser => Ahead::Forgets,
            Command::StmtExecute => return self.executes(&start),
            _ => return,
        };
        if self.ahead.len() >= AHEAD {
            return;
        }
        self.coming = !start.whole;
        let prepares = matches!(ahead, Ahead::Prepares(_));
        self.ahead.push_back((self.started, ahead));
        if prepares {
            self.add(start.body);
        }
    }

    fn close(&mut self, statement: u32) {
        if let Ok(at) = self.known.binary_search_by_key(&statement, |known| known.id) {
            self.forget(at);
        }
    }

    #[inline]
    fn finished(&mut self, finish: Finish) {
        self.completed += 1;
        while let Some((number, _)) = self.ahead.front()
            && *number <= self.completed
        {
            let Some((number, ahead)) = self.ahead.pop_front() else { return };
            match (ahead, finish.prepared) {
                (Ahead::Prepares(Some(text)), Some(id)) if number == self.completed => {
                    self.close(id);
                    self.keep(id, finish.parameters, text);
                }
                (Ahead::Prepares(Some(text)), _) => self.give(text),
                (Ahead::Forgets, _) if finish.error.is_none() => {
                    while !self.known.is_empty() {
                        self.forget(self.known.len() - 1);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Observer for Prepared {
    #[inline]
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Command(start) if start.command.is_answered() => self.command(start),
            Event::Command(start) => {
                if let Some(statement) = start.closes() {
                    self.close(statement);
                }
            }
            Event::Body(body) if self.coming => self.add(body),
            Event::BodyEnd => self.coming = false,
            Event::AnswerEnd(finish) => self.finished(finish),
            Event::Packet | Event::Body(_) | Event::Answer => {}
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        self.recorder.forgets(self.bytes);
    }
}
