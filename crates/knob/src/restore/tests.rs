//! What is put back and what is left alone, as decisions without a host.

use super::*;
use crate::identity::Facts;
use crate::journal::{Author, Intent};
use crate::value::Form;

fn at(path: &str, value: &str) -> ItemValue {
    ItemValue { item: Item::File { path: path.to_owned(), form: Form::Plain }, value: value.to_owned() }
}

fn entry(id: u64, key: &str, before: &[ItemValue], writes: &[ItemValue], phase: Phase) -> Entry {
    let intent = Intent {
        knob: format!("knob of {key}"),
        value: String::new(),
        key: key.to_owned(),
        twins: false,
        lasts: false,
        writes: writes.to_vec(),
        before: before.to_vec(),
        facts: Facts::new(),
        boot: "b".into(),
        at: 0,
        author: Author::default(),
        keep: false,
    };
    Entry { id, intent, phase }
}

fn one(entries: &[Entry]) -> Undo {
    let undos = plan(entries.iter(), false);
    assert_eq!(undos.len(), 1);
    undos.into_iter().next().unwrap()
}

#[test]
fn changes_of_one_state_are_undone_together_and_the_newest_state_first() {
    let written = |value: &str| Phase::Written { after: vec![at("a", value)] };
    let entries = [
        entry(1, "a", &[at("a", "1")], &[at("a", "2")], written("2")),
        entry(2, "b", &[at("b", "1")], &[at("b", "2")], written("2")),
        entry(3, "a", &[at("a", "2")], &[at("a", "3")], written("3")),
    ];
    let undos = plan(entries.iter(), false);
    assert_eq!(undos.iter().map(|undo| undo.ids.clone()).collect::<Vec<_>>(), [vec![1, 3], vec![2]]);
    assert_eq!(undos[0].before, [at("a", "1")]);
    assert_eq!(judge(&undos[0], &[at("a", "3")]), Judgement::Ours);
    assert!(matches!(judge(&undos[0], &[at("a", "2")]), Judgement::Theirs { .. }));
    assert_eq!(judge(&undos[0], &[at("a", "1")]), Judgement::Back);
}

#[test]
fn what_somebody_else_set_between_two_changes_is_put_back() {
    let written = |value: &str| Phase::Written { after: vec![at("a", value)] };
    let mut entries = [
        entry(1, "a", &[at("a", "1")], &[at("a", "2")], written("2")),
        entry(2, "a", &[at("a", "5")], &[at("a", "3")], written("3")),
        entry(3, "a", &[at("a", "3")], &[at("a", "4")], written("4")),
    ];
    let undo = one(&entries);
    assert_eq!((undo.ids.as_slice(), undo.before.as_slice()), (&[1, 2, 3][..], &[at("a", "5")][..]));
    assert_eq!(judge(&undo, &[at("a", "4")]), Judgement::Ours);
    let forced = plan(entries.iter(), true);
    assert_eq!(forced[0].before, [at("a", "1")], "their value is lost");
    for entry in &mut entries {
        let Phase::Written { after } = entry.phase.clone() else { panic!("{entry:?}") };
        entry.phase = Phase::Restoring { after: Some(after) };
    }
    assert_eq!(one(&entries).before, [at("a", "5")], "killed while it was put back");
    // What is half put back is nobody else's, and what is as it was is no change.
    entries[1].phase = written("3");
    assert_eq!(one(&entries[..2]).before, [at("a", "1")]);
    entries[0].phase = written("2");
    entries[1].intent.before = vec![at("a", "1")];
    assert_eq!(one(&entries[..2]).before, [at("a", "1")]);
}

#[test]
fn of_a_state_only_what_somebody_else_set_stays_as_they_set_it() {
    let entries = |a: &str, b: &str| {
        let both = |of_a: &str, of_b: &str| vec![at(a, of_a), at(b, of_b)];
        let written = |of_a, of_b| Phase::Written { after: both(of_a, of_b) };
        [
            entry(1, "a", &both("1", "1"), &[at(a, "2")], written("2", "1")),
            entry(2, "a", &both("2", "5"), &[at(b, "3")], written("2", "3")),
        ]
    };
    assert_eq!(one(&entries("a", "b")).before, [at("a", "1"), at("b", "5")]);
    // Another scheduler has other settings.
    let disk = ["block/vda/queue/nr_requests", "block/vda/queue/scheduler"];
    assert_eq!(one(&entries(disk[0], disk[1])).before, [at(disk[0], "2"), at(disk[1], "5")]);
}

#[test]
fn the_same_name_on_another_thing_is_another_state() {
    let mut entries = [
        entry(1, "a", &[at("a", "1")], &[at("a", "2")], Phase::Opened),
        entry(2, "a", &[at("a", "7")], &[at("a", "2")], Phase::Opened),
    ];
    entries[0].intent.facts.insert("serial".into(), "A".into());
    entries[1].intent.facts.insert("serial".into(), "B".into());
    assert_eq!(plan(entries.iter(), false).len(), 2);
}

#[test]
fn a_state_is_put_back_only_if_all_of_it_is_as_we_left_it() {
    let before = [at("scheduler", "mq-deadline"), at("nr_requests", "256")];
    let after = vec![at("scheduler", "none"), at("nr_requests", "128")];
    let undo =
        one(&[entry(1, "s", &before, &[at("scheduler", "none")], Phase::Written { after: after.clone() })]);
    assert_eq!(judge(&undo, &after), Judgement::Ours);
    assert_eq!(judge(&undo, &before), Judgement::Back);
    let theirs = [at("scheduler", "none"), at("nr_requests", "64")];
    let expected = Judgement::Theirs { item: "nr_requests".into(), left: "128".into(), found: "64".into() };
    assert_eq!(judge(&undo, &theirs), expected);
}

#[test]
fn killed_before_the_read_back_the_written_item_alone_decides() {
    let before = [at("scheduler", "mq-deadline"), at("nr_requests", "256")];
    let undo = one(&[entry(1, "s", &before, &[at("scheduler", "none")], Phase::Opened)]);
    // What the new scheduler made of nr_requests nobody had read yet.
    assert_eq!(judge(&undo, &[at("scheduler", "none"), at("nr_requests", "128")]), Judgement::Ours);
    assert_eq!(judge(&undo, &before), Judgement::Back);
    assert!(matches!(
        judge(&undo, &[at("scheduler", "bfq"), at("nr_requests", "256")]),
        Judgement::Theirs { .. }
    ));
}

#[test]
fn killed_while_putting_back_what_was_announced_is_finished() {
    let before = [at("scheduler", "mq-deadline"), at("nr_requests", "64")];
    let after = Some(vec![at("scheduler", "none"), at("nr_requests", "128")]);
    let undo = one(&[entry(1, "s", &before, &[at("scheduler", "none")], Phase::Restoring { after })]);
    // The scheduler is back, and has reset nr_requests.
    assert_eq!(judge(&undo, &[at("scheduler", "mq-deadline"), at("nr_requests", "256")]), Judgement::Ours);
    assert!(matches!(
        judge(&undo, &[at("scheduler", "bfq"), at("nr_requests", "256")]),
        Judgement::Theirs { .. }
    ));
}

#[test]
fn a_second_change_that_was_killed_between_announcing_and_writing_does_not_hide_the_first() {
    let entries = [
        entry(1, "a", &[at("a", "1")], &[at("a", "2")], Phase::Written { after: vec![at("a", "2")] }),
        entry(2, "a", &[at("a", "2")], &[at("a", "3")], Phase::Opened),
    ];
    for (there, expected) in [("2", Judgement::Ours), ("3", Judgement::Ours), ("1", Judgement::Back)] {
        assert_eq!(judge(&one(&entries), &[at("a", there)]), expected, "{there}");
    }
    assert!(matches!(judge(&one(&entries), &[at("a", "9")]), Judgement::Theirs { .. }));
}
