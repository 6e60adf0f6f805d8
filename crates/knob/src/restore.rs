//! How a setting is put back.
//!
//! Entries that are one state (the same key) are put back together: to what was there before the first of
//! them, if what is there now is what the last of them left. Otherwise somebody else has changed it
//! meanwhile, and it stays as they set it. What somebody else set between two of ours is what was there
//! before the later one, and that is put back.
//!
//! Four moments need more than that comparison:
//! * *Killed between writing and reading back.* What the write did to the rest of the state (a new scheduler
//!   resets `nr_requests`) is not known. What counts is the written item alone: it must be the value before
//!   or the value written. If it is neither, the kernel may have bent what we wrote (8192 for 2048). That is
//!   tried: we write our value once more, and if it comes out as what was found, it was ours; otherwise what
//!   was found is written again and stays.
//! * *Killed while putting back.* What was announced is finished: the written item must be either of the two
//!   again.
//! * *A server that did not answer* may still do what it was told, though it reads as before: the variable is
//!   set once more to what it was.
//! * *After a reboot* the kernel has put back what does not last: such entries are closed. A server is judged
//!   by its own start. That is a difference of clocks, and a clock that was set back looks like a start: what
//!   is still as we left it is put back all the same.

use crate::catalogue::Place;
use crate::error::Refusal;
use crate::identity;
use crate::item::{Access, Item, ItemValue, value_of};
use crate::journal::{End, Entry, Phase};
use crate::resolve::same;
use crate::{name, server, verify};

/// Entries of one state, oldest first, to be put back together.
#[derive(Clone, Debug)]
pub struct Undo {
    pub ids: Vec<u64>,
    /// The knobs, each once.
    pub knobs: Vec<String>,
    /// The state before the first, or as somebody else has set it since.
    pub before: Vec<ItemValue>,
    /// What each wrote, the last one's value for each item.
    pub writes: Vec<ItemValue>,
    /// How far the last one has come.
    pub last: Entry,
    /// Members where writing one sets another to zero.
    pub twins: bool,
}

/// Puts entries of one state together; the state that was changed last comes first. With `force` what
/// somebody else set between two of them is lost.
pub fn plan<'a>(entries: impl Iterator<Item = &'a Entry>, force: bool) -> Vec<Undo> {
    let mut undos: Vec<Undo> = Vec::new();
    for entry in entries {
        // The same name on another thing is another state.
        let same_state = |undo: &Undo| {
            undo.last.intent.key == entry.intent.key
                && identity::difference(&undo.last.intent.facts, &entry.intent.facts).is_none()
                && undo.last.intent.boot == entry.intent.boot
        };
        let at = undos.iter().position(same_state);
        let mut undo = at.map(|at| undos.remove(at)).unwrap_or_else(|| Undo {
            ids: Vec::new(),
            knobs: Vec::new(),
            before: entry.intent.before.clone(),
            writes: Vec::new(),
            last: entry.clone(),
            twins: entry.intent.twins,
        });
        if !force && !undo.ids.is_empty() {
            keep_theirs(&mut undo, entry);
        }
        undo.ids.push(entry.id);
        if !undo.knobs.contains(&entry.intent.knob) {
            undo.knobs.push(entry.intent.knob.clone());
        }
        for write in &entry.intent.writes {
            undo.writes.retain(|other| other.item != write.item);
            undo.writes.push(write.clone());
        }
        // Items that a member before had not: settings of a scheduler that came later do not outlive it.
        undo.last = entry.clone();
        undos.push(undo);
    }
    undos.reverse();
    undos
}

/// Takes over what somebody else set between two changes of ours, item by item: what they left alone goes
/// back to what was there before the first. Another scheduler has other settings, and twins set each other to
/// zero: there their state counts as a whole.
fn keep_theirs(undo: &mut Undo, later: &Entry) {
    let theirs = changed_between(undo, later);
    let decides = |one: &ItemValue| {
        undo.twins || matches!(&one.item, Item::File { path, .. } if path.ends_with("/queue/scheduler"))
    };
    if theirs.iter().any(decides) {
        undo.before.clone_from(&later.intent.before);
        return;
    }
    for one in theirs {
        if let Some(before) = undo.before.iter_mut().find(|before| before.item == one.item) {
            before.value.clone_from(&one.value);
        }
    }
}

/// What somebody else changed between two changes of ours: the later one found neither what the earlier one
/// had left nor what was there before. Those that are being put back are put back together; a later change of
/// what is half put back has found our own work.
fn changed_between(earlier: &Undo, later: &Entry) -> Vec<ItemValue> {
    let ((Phase::Written { after }, _) | (Phase::Restoring { after: Some(after) }, Phase::Restoring { .. })) =
        (&earlier.last.phase, &later.phase)
    else {
        return Vec::new();
    };
    let is = |there: &[ItemValue], found: &ItemValue| {
        value_of(there, &found.item).is_none_or(|one| same(&found.item, one, &found.value))
    };
    let theirs = later.intent.before.iter().filter(|found| !is(after, found) && !is(&earlier.before, found));
    theirs.cloned().collect()
}

/// What is to be done with a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Back,
    /// It is as we left it: put it back.
    Ours,
    /// Somebody else changed it.
    Theirs {
        item: String,
        left: String,
        found: String,
    },
}

/// Judges a state. `now` holds every item of `before` and of what we left, as far as it is there.
pub fn judge(undo: &Undo, now: &[ItemValue]) -> Judgement {
    let found = |item: &Item| value_of(now, item).unwrap_or("nothing");
    let is = |one: &ItemValue| same(&one.item, &one.value, found(&one.item));
    if undo.before.iter().all(is) {
        return Judgement::Back;
    }
    let theirs = |one: &ItemValue| {
        let (item, left) = (one.item.to_string(), one.value.clone());
        Judgement::Theirs { item, left, found: found(&one.item).to_owned() }
    };
    if let Phase::Written { after } = &undo.last.phase {
        return after.iter().find(|one| !is(one)).map_or(Judgement::Ours, theirs);
    }
    // Interrupted: what was written, before or after, decides alone.
    let either = |one: &&ItemValue| {
        let was = |values: &[ItemValue]| {
            value_of(values, &one.item).is_some_and(|was| same(&one.item, was, found(&one.item)))
        };
        // A setting of a scheduler that was replaced again.
        let gone = value_of(now, &one.item).is_none() && value_of(&undo.before, &one.item).is_none();
        is(one) || gone || was(&undo.before) || was(&undo.last.intent.before)
    };
    undo.writes.iter().find(|one| !either(one)).map_or(Judgement::Ours, theirs)
}

/// What became of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    Ended(End),
    /// It could not be put back, and stays in the journal.
    Failed(Refusal),
}

/// Puts a state back, or says why not. `announce` is called before anything is written. With `force` what
/// somebody else set is overwritten.
pub(crate) fn put_back(
    access: &mut Access<'_>,
    undo: &Undo,
    boot: &str,
    force: bool,
    announce: impl FnOnce(),
) -> Attempt {
    let ended = Attempt::Ended;
    let intent = &undo.last.intent;
    let same_boot = intent.boot == boot;
    let Ok(name) = name::parse(access.host, &intent.knob) else {
        let why = format!("this version knows no knob {}", intent.knob);
        return Attempt::Failed(Refusal::Absent { what: why });
    };
    let is_variable = matches!(name.knob.place, Place::Variable);
    if !same_boot && !intent.lasts && !is_variable {
        return ended(End::Restarted);
    }
    let restarted = match identity::facts(access, &name) {
        Ok(now) => {
            match identity::difference(&intent.facts, &now) {
                Some(why) if !identity::is_doubtful(&intent.facts, &now) => return ended(End::Gone { why }),
                Some(why) if !force => {
                    let why = format!("{why}: it may be another disk; if it has only grown, add --force");
                    return Attempt::Failed(Refusal::Denied { why });
                }
                _ => {}
            }
            is_variable && !intent.lasts && server::restarted(&intent.facts, &now, same_boot)
        }
        Err(Refusal::Absent { what }) if !is_variable => {
            return ended(End::Gone { why: format!("{what} is not there") });
        }
        Err(refusal) => return Attempt::Failed(refusal),
    };
    let now = match read_all(access, undo) {
        Ok(now) => now,
        Err(refusal) => return Attempt::Failed(refusal),
    };
    match judge(undo, &now) {
        Judgement::Back | Judgement::Theirs { .. } if restarted => return ended(End::Restarted),
        Judgement::Back if is_pending(undo) => {
            announce();
            return match overtake(access, undo) {
                Ok(()) => ended(End::Already),
                Err(refusal) => Attempt::Failed(refusal),
            };
        }
        Judgement::Back => return ended(End::Already),
        Judgement::Theirs { item, left, found } if !force && !bent(access, undo, &now) => {
            return ended(End::Left { why: format!("{item} is '{found}', we had left '{left}'") });
        }
        Judgement::Ours | Judgement::Theirs { .. } => {}
    }
    announce();
    match write_back(access, &undo.before, undo.twins) {
        Ok(()) => ended(End::Restored),
        Err(refusal) => Attempt::Failed(refusal),
    }
}

/// Whether a server was told, and may still be about to do it: nobody has read it back.
fn is_pending(undo: &Undo) -> bool {
    let unread = matches!(undo.last.phase, Phase::Opened | Phase::Restoring { after: None });
    unread
        && undo.last.intent.writes.iter().all(|one| matches!(one.item, Item::Variable { restart: None, .. }))
}

/// Sets variables to what they are: the server does one change of a variable after the other, so that this
/// one comes after the one that may be on its way.
fn overtake(access: &mut Access<'_>, undo: &Undo) -> Result<(), Refusal> {
    for ItemValue { item, value } in &undo.before {
        if undo.writes.iter().any(|one| one.item == *item) {
            access.write(item, value)?;
        }
    }
    write_back(access, &undo.before, undo.twins)
}

/// Whether what was found is what the kernel makes of what we wrote; see the top. Only for one item that is a
/// state of its own.
fn bent(access: &mut Access<'_>, undo: &Undo, now: &[ItemValue]) -> bool {
    let unread = matches!(undo.last.phase, Phase::Opened | Phase::Restoring { after: None });
    let ([write], [before]) = (undo.last.intent.writes.as_slice(), undo.before.as_slice()) else {
        return false;
    };
    let Some(found) = value_of(now, &write.item) else { return false };
    if !unread || before.item != write.item || access.write(&write.item, &write.value).is_err() {
        return false;
    }
    let again = access.read(&write.item).is_ok_and(|again| same(&write.item, &again, found));
    if !again && let Err(refusal) = access.write(&write.item, found) {
        tracing::warn!(item = %write.item, found, %refusal, "what somebody else had set could not be set \
             again");
    }
    again
}

/// Every item that the judgement asks for; those that are not there are left out.
fn read_all(access: &mut Access<'_>, undo: &Undo) -> Result<Vec<ItemValue>, Refusal> {
    let after = match &undo.last.phase {
        Phase::Written { after } => after.as_slice(),
        _ => &[],
    };
    let mut now: Vec<ItemValue> = Vec::new();
    for ItemValue { item, .. } in undo.before.iter().chain(after).chain(&undo.writes) {
        if now.iter().any(|one| one.item == *item) {
            continue;
        }
        match access.read(item) {
            Ok(value) => now.push(ItemValue { item: item.clone(), value }),
            Err(Refusal::Absent { .. }) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(now)
}

/// Writes a state back, one item after the other, only those that differ by then: what one write does to
/// another is seen.
///
/// # Errors
/// An item was refused, or reads back differently.
pub(crate) fn write_back(access: &mut Access<'_>, before: &[ItemValue], twins: bool) -> Result<(), Refusal> {
    let mut order: Vec<&ItemValue> = before.iter().collect();
    if twins {
        // The one that is not zero first: it sets its twin to zero, which itself may be refused as a value.
        order.sort_by_key(|one| one.value == "0");
    }
    let mut first_wrong = None;
    for ItemValue { item, value } in order {
        let written = match access.read(item) {
            Ok(now) if same(item, value, &now) => Ok(()),
            Ok(_) => access.write(item, value),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = written {
            first_wrong.get_or_insert(refusal);
        }
    }
    let mut found = Vec::new();
    for ItemValue { item, .. } in before {
        if let Ok(value) = access.read(item) {
            found.push(ItemValue { item: item.clone(), value });
        }
    }
    match (verify::read_back(before, &found), first_wrong) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(refusal)) | (Err(refusal), None) => Err(refusal),
    }
}

#[cfg(test)]
mod tests;
