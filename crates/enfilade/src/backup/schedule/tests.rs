use super::*;

#[test]
fn a_backup_is_due_after_the_interval_and_soon_after_a_failure() {
    let kept = |unix_seconds| Kept { file: PathBuf::from("/b/x"), unix_seconds };
    let failed = |unix_seconds| Some(Failed { unix_seconds, why: "full".into() });
    for (made, failed, every, due) in [
        (vec![], None, 86_400, 0),
        (vec![kept(100), kept(5000)], None, 86_400, 91_400),
        (vec![kept(100)], failed(90_000), 86_400, 90_600),
        (vec![], failed(90_000), 60, 90_060),
    ] {
        let record = Record { made, failed };
        assert_eq!(record.due(every, Some(Path::new("/b"))), due);
        // The other directory contains no backup yet.
        let failed = record.failed.as_ref().map_or(0, |failed| failed.unix_seconds + every.min(600));
        assert_eq!(record.due(every, Some(Path::new("/other"))), failed);
    }
}

#[test]
fn a_directory_that_had_backups_is_not_made_again() {
    let scratch = enfilade_testkit::Scratch::new();
    let directory = scratch.path().join("b");
    let mut record = Record::default();
    refuse_vanished(&record, &directory).unwrap();
    record.made.push(Kept { file: directory.join("x"), unix_seconds: 1 });
    let why = refuse_vanished(&record, &directory).unwrap_err().to_string();
    assert!(why.contains("does not exist any more: mount its disk"), "{why}");
    std::fs::create_dir(&directory).unwrap();
    refuse_vanished(&record, &directory).unwrap();
}

#[test]
fn a_lost_backup_is_made_again_soon() {
    let scratch = enfilade_testkit::Scratch::new();
    let file = scratch.path().join("1");
    let record = Record { made: vec![Kept { file: file.clone(), unix_seconds: 5000 }], failed: None };
    assert_eq!(record.newest_lost(), Some(file.as_path()));
    assert_eq!(record.due_by_files(86_400, Some(scratch.path())), 5000 + AFTER_FAILURE);
    std::fs::write(&file, "").unwrap();
    let due = record.due_by_files(86_400, Some(scratch.path()));
    assert_eq!((record.newest_lost(), due), (None, 5000 + 86_400));
}

#[test]
fn only_recorded_backups_are_deleted_and_the_oldest_first() {
    let scratch = enfilade_testkit::Scratch::new();
    let file = |name: &str| scratch.path().join(name);
    for name in ["1", "2", "3", "of-the-operator"] {
        std::fs::write(file(name), name).unwrap();
    }
    std::fs::remove_file(file("1")).unwrap();
    let kept = |name: &str| Kept { file: file(name), unix_seconds: 1 };
    let mut record = Record { made: vec![kept("1"), kept("2"), kept("3")], failed: None };
    forget(&mut record, 1).unwrap();
    assert_eq!(record.made, [kept("3")]);
    let there: Vec<bool> = ["2", "3", "of-the-operator"].map(|name| file(name).exists()).to_vec();
    assert_eq!(there, [false, true, true]);
}

#[test]
fn backups_in_a_directory_that_was_configured_before_stay() {
    let scratch = enfilade_testkit::Scratch::new();
    let kept = |name: &str| {
        let file = scratch.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, name).unwrap();
        Kept { file, unix_seconds: 1 }
    };
    let (old, older, new) = (kept("before/1"), kept("before/2"), kept("after/3"));
    let mut record = Record { made: vec![old.clone(), older.clone(), new.clone()], failed: None };
    forget(&mut record, 1).unwrap();
    assert_eq!(record.made, [new]);
    assert!(old.file.exists() && older.file.exists());
}
