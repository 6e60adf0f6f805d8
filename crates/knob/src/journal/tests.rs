//! The journal: torn, damaged and locked files, and what is read back of them.

use super::*;
use proptest::prelude::*;

fn intent(knob: &str) -> Intent {
    Intent {
        knob: knob.to_owned(),
        value: "1".into(),
        key: knob.to_owned(),
        twins: false,
        lasts: false,
        writes: vec![],
        before: vec![],
        facts: Facts::new(),
        boot: "b".into(),
        at: 7,
        author: Author::default(),
        keep: false,
    }
}

fn host() -> Host {
    Host::new("/nowhere")
}

#[test]
fn what_is_noted_is_there_when_the_journal_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("deep/knobs");
    let mut journal = Journal::open(&directory, &host()).unwrap();
    let first = journal.announce(intent("a")).unwrap();
    journal.written(first, vec![]).unwrap();
    let second = journal.announce(intent("b")).unwrap();
    journal.close(&[second], &End::Refused { why: "no".into() }, 9).unwrap();
    journal.restoring(&[first]).unwrap();
    assert_eq!(Journal::read(&directory).unwrap(), journal.entries(), "readers need no lock");
    let entries = journal.entries().to_vec();
    drop(journal);
    let journal = Journal::open(&directory, &host()).unwrap();
    assert_eq!(journal.entries(), entries);
    assert_eq!(journal.open_entries().map(|entry| entry.id).collect::<Vec<_>>(), [first]);
    assert_eq!(journal.entries()[0].phase, Phase::Restoring { after: Some(vec![]) });
}

#[test]
fn the_journal_is_for_its_owner_alone_also_in_a_directory_for_others() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    drop(Journal::open(dir.path(), &host()).unwrap());
    for name in ["journal", "lock"] {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_disk_that_has_no_room_for_who_holds_the_lock_hinders_nobody_from_putting_back() {
    let dir = tempfile::tempdir().unwrap();
    Journal::open(dir.path(), &host()).unwrap().announce(intent("a")).unwrap();
    let lock = dir.path().join("lock");
    std::fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink("/dev/full", &lock).unwrap();
    assert_eq!(Journal::open(dir.path(), &host()).unwrap().open_entries().count(), 1);
}

#[test]
fn one_process_at_a_time_writes_and_the_other_is_told_who() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), &host()).unwrap();
    let refused = Journal::open(dir.path(), &host()).unwrap_err().to_string();
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    drop(journal);
    Journal::open(dir.path(), &host()).unwrap();
}

#[test]
fn a_record_torn_at_any_byte_is_dropped_and_what_follows_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let mut journal = Journal::open(dir.path(), &host()).unwrap();
    journal.announce(intent("a")).unwrap();
    let whole = std::fs::read(&path).unwrap();
    journal.announce(intent("b")).unwrap();
    let both = std::fs::read(&path).unwrap();
    drop(journal);
    for length in whole.len() + 1..both.len() {
        std::fs::write(&path, &both[..length]).unwrap();
        let mut journal = Journal::open(dir.path(), &host()).unwrap();
        assert!(journal.dropped().unwrap().contains("cut off"), "{length}");
        assert_eq!(journal.entries().len(), 1);
        journal.announce(intent("c")).unwrap();
        drop(journal);
        assert_eq!(Journal::read(dir.path()).unwrap().len(), 2);
    }
    // A file system may have given the length and not the bytes.
    std::fs::write(&path, [whole.as_slice(), &[0; 100]].concat()).unwrap();
    assert_eq!(Journal::open(dir.path(), &host()).unwrap().entries().len(), 1);
}

#[test]
fn a_damaged_record_is_refused_with_its_line_and_nothing_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let mut journal = Journal::open(dir.path(), &host()).unwrap();
    journal.announce(intent("a")).unwrap();
    journal.announce(intent("b")).unwrap();
    drop(journal);
    let text = std::fs::read_to_string(&path).unwrap();
    for (damaged, line, why) in [
        (text.replacen("\"knob\":\"a\"", "\"knob\":\"x\"", 1), 2, "checksum"),
        (text.replacen("\"knob\":\"b\"", "\"knob\":\"x\"", 1), 3, "checksum"),
        (text.replacen("\"knob\":\"a\"", "\"knob\":\"", 1), 2, "cut off"),
        (String::new(), 1, "empty"),
        ("garbage".to_owned(), 1, "no header"),
    ] {
        std::fs::write(&path, &damaged).unwrap();
        for refused in
            [Journal::open(dir.path(), &host()).unwrap_err(), Journal::read(dir.path()).unwrap_err()]
        {
            let words = refused.to_string();
            assert!(matches!(refused, Error::Corrupt { line: at, .. } if at == line), "{words}");
            assert!(words.contains(why) && words.contains("Nothing was changed"), "{words}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    }
    std::fs::write(&path, file::line(&Record::Header { format: 99 })).unwrap();
    assert!(matches!(Journal::open(dir.path(), &host()), Err(Error::Newer { found: 99, .. })));
}

#[test]
fn a_long_journal_is_set_aside_once_nothing_in_it_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(dir.path(), &host()).unwrap();
    let mut long = intent("a");
    long.author.command = "x".repeat(LONG as usize);
    let first = journal.announce(long).unwrap();
    drop(journal);
    let mut journal = Journal::open(dir.path(), &host()).unwrap();
    assert_eq!(journal.entries().len(), 1, "it is open: it stays");
    journal.close(&[first], &End::Restored, 1).unwrap();
    drop(journal);
    let mut journal = Journal::open(dir.path(), &host()).unwrap();
    assert_eq!(journal.announce(intent("b")).unwrap(), first + 1);
    drop(journal);
    assert_eq!(Journal::read(dir.path()).unwrap().len(), 1);
    assert!(dir.path().join("journal.old").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens to a file: it is refused, or what is read is a beginning of what was written.
    #[test]
    fn a_file_changed_anywhere_gives_no_other_entries((at, byte, cut) in any::<(usize, u8, bool)>()) {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path(), &host()).unwrap();
        for knob in ["a", "b", "c"] {
            let id = journal.announce(intent(knob)).unwrap();
            journal.written(id, vec![]).unwrap();
        }
        let written = journal.entries().to_vec();
        drop(journal);
        let path = dir.path().join("journal");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        std::fs::write(&path, bytes).unwrap();
        if let Ok(read) = Journal::read(dir.path()) {
            for (read, written) in read.iter().zip(&written) {
                prop_assert_eq!(&read.intent, &written.intent);
            }
            prop_assert!(read.len() <= written.len());
        }
    }
}

#[test]
fn the_lock_is_free_when_its_holder_is_gone_though_a_child_has_a_copy_of_the_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), &host()).unwrap();
    // What a child has between fork and exec.
    let copy = journal._lock.0.try_clone().unwrap();
    drop(journal);
    Journal::open(dir.path(), &host()).unwrap();
    drop(copy);
}
