use super::age::{Identity, Key, Lock, Recipient, identities};
use super::*;
use crate::scratch::Scratch;
use enfilade_facts::vocabulary::Secret;
use std::collections::BTreeMap;
use std::path::Path;

/// A private key that `age-keygen` printed.
const SECRET: &str = "AGE-SECRET-KEY-1VNH0URSXKDG7ES7GDQEX9L87TDXKVXK3KNH7VYNLRKXJ5M9CW4WQMDLYHZ";

fn house(scratch: &Scratch) -> (Manifest, Vec<Item>) {
    let files =
        [("keys/token-hash.key", vec![7; 32]), ("empty", vec![]), ("tls/large.pem", vec![b'x'; 150_000])];
    let item = |(path, bytes): (&str, Vec<u8>)| {
        let file = scratch.path().join(path.replace('/', "-"));
        std::fs::write(&file, bytes).unwrap();
        Item::measure(Path::new(path), 0o600, Content::File(file)).unwrap()
    };
    let items: Vec<Item> = files.into_iter().map(item).collect();
    let manifest = Manifest {
        enfilade_backup: FORMAT,
        program: "1".into(),
        unix_seconds: 5,
        data: "/data".into(),
        store: "s".into(),
        revision: 3,
        records: 0,
        outside: BTreeMap::new(),
        files: items.iter().map(|item| item.entry.clone()).collect(),
    };
    (manifest, items)
}

fn verified(path: &Path, key: Option<&Key>) -> Result<Manifest, BackupError> {
    Backup::open(path, key).and_then(Backup::verify)
}

fn passphrase(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

/// An archive with these members. It can be an invalid archive, such as an attacker would write.
fn archive(scratch: &Scratch, members: &[(&str, tar::EntryType, &[u8])]) -> PathBuf {
    let path = scratch.path().join("made.tar");
    let mut archive = tar::Builder::new(std::fs::File::create(&path).unwrap());
    for (name, kind, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        // The name is set directly, because `set_path` refuses `..`.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        if *kind == tar::EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        archive.append(&header, *bytes).unwrap();
    }
    archive.into_inner().unwrap();
    path
}

#[test]
fn a_directory_and_an_archive_come_back_as_they_were() {
    let scratch = Scratch::new();
    let (manifest, mut items) = house(&scratch);
    let (directory, file) = (scratch.path().join("d"), scratch.path().join("f.tar"));
    write_directory(&directory, &manifest, &mut items).unwrap();
    write_archive(&file, &manifest, &mut items, None).unwrap();
    for (n, path) in [&directory, &file].into_iter().enumerate() {
        let to = scratch.path().join(format!("to-{n}"));
        std::fs::create_dir(&to).unwrap();
        assert_eq!(unpack_into(Backup::open(path, None).unwrap(), &to).unwrap(), manifest);
        assert_eq!(std::fs::read(to.join("keys/token-hash.key")).unwrap(), [7; 32]);
        assert_eq!(std::fs::read(to.join("tls/large.pem")).unwrap().len(), 150_000);
        assert_eq!(std::fs::read(to.join("empty")).unwrap(), Vec::<u8>::new());
    }
    let why = write_directory(&directory, &manifest, &mut items).err().unwrap().to_string();
    assert!(why.contains("File exists"), "{why}");
    let left: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".enfilade")), "{left:?}");
}

#[test]
fn a_file_that_changes_meanwhile_makes_no_backup() {
    let scratch = Scratch::new();
    for (n, bytes) in [vec![8; 32], vec![7; 31], vec![7; 33]].into_iter().enumerate() {
        let (manifest, mut items) = house(&scratch);
        std::fs::write(scratch.path().join("keys-token-hash.key"), bytes).unwrap();
        let path = scratch.path().join(format!("{n}.tar"));
        let why = write_archive(&path, &manifest, &mut items, None).err().unwrap();
        assert!(matches!(why, BackupError::Changed(_)), "{why}");
        let why = write_directory(&scratch.path().join("d"), &manifest, &mut items).err().unwrap();
        assert!(matches!(why, BackupError::Changed(_)), "{why}");
        assert!(!path.exists() && !scratch.path().join("d").exists());
    }
}

/// The error is the same, whether the caller takes the content of the damaged file or of another file.
#[test]
fn a_damaged_file_is_called_damaged_also_if_its_content_is_taken() {
    let scratch = Scratch::new();
    let (manifest, mut items) = house(&scratch);
    let directory = scratch.path().join("d");
    write_directory(&directory, &manifest, &mut items).unwrap();
    let take = |name: &str| Backup::open(&directory, None).unwrap().verify_and_take(name);
    let (found, bytes) = take("keys/token-hash.key").unwrap();
    assert_eq!((found, bytes), (manifest, Some(vec![7; 32])));
    assert_eq!(take("missing").unwrap().1, None);
    for bytes in [vec![8; 32], vec![7; 31], vec![7; 33]] {
        std::fs::write(directory.join("keys/token-hash.key"), bytes).unwrap();
        for name in ["keys/token-hash.key", "empty"] {
            let why = take(name).unwrap_err();
            assert!(
                matches!(&why, BackupError::Damaged(text) if text.contains("differs from the manifest")),
                "{name}: {why}"
            );
        }
    }
}

/// A changed byte in the padding of the archive is not detected, because the padding is not part of any file.
#[test]
fn a_changed_byte_is_found_or_changes_nothing_and_a_cut_is_found() {
    let scratch = Scratch::new();
    let (manifest, mut items) = house(&scratch);
    let path = scratch.path().join("f.tar");
    write_archive(&path, &manifest, &mut items, None).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut found = 0;
    for at in (0..4096).chain((4096..whole.len()).step_by(997)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        match verified(&path, None) {
            Err(_) => found += 1,
            Ok(read) => assert_eq!(read, manifest, "byte {at}"),
        }
    }
    assert!(found > 1500, "{found}");
    // The last 1,024 bytes only mark the end of the archive. If they are missing, no content is lost, so such a cut is not tested.
    for cut in (0..whole.len() - 1024).step_by(509) {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert!(verified(&path, None).is_err(), "cut at {cut}");
    }
    let directory = scratch.path().join("d");
    let (manifest, mut items) = house(&scratch);
    write_directory(&directory, &manifest, &mut items).unwrap();
    for file in ["manifest.json", "keys/token-hash.key", "tls/large.pem"] {
        let file = directory.join(file);
        let whole = std::fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        flipped[9] ^= 4;
        for bytes in [&flipped[..], &whole[..whole.len() - 1], &[]] {
            std::fs::write(&file, bytes).unwrap();
            let why = verified(&directory, None).unwrap_err();
            assert!(matches!(why, BackupError::Damaged(_) | BackupError::NotOne(_)), "{why}");
        }
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert!(verified(&directory, None).is_err());
        std::fs::remove_file(&file).unwrap();
        assert!(verified(&directory, None).is_err());
        std::fs::write(&file, &whole).unwrap();
        verified(&directory, None).unwrap();
    }
}

#[test]
fn an_encrypted_backup_opens_with_its_key_alone_and_every_byte_counts() {
    let scratch = Scratch::new();
    let (manifest, mut items) = house(&scratch);
    let path = scratch.path().join("f.age");
    let identity: Identity = identities(&format!("# a comment\n{SECRET}\n")).unwrap().remove(0);
    let lock = Lock::Recipients(vec![identity.recipient().unwrap()]);
    let bytes_written = write_archive(&path, &manifest, &mut items, Some(&lock)).unwrap();
    let key = Key::Identities(vec![identity]);
    assert_eq!(verified(&path, Some(&key)).unwrap(), manifest);
    let other = Key::Identities(vec![]);
    let by_passphrase = Key::Passphrase(passphrase("x"));
    for (key, expected) in [
        (None, "the backup is encrypted"),
        (Some(&other), "no given private key"),
        (Some(&by_passphrase), "for age recipients"),
    ] {
        let why = verified(&path, key).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(whole.len() as u64, bytes_written);
    for at in (0..400).chain((400..whole.len()).step_by(1009)) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let why = verified(&path, Some(&key)).unwrap_err();
        // The first 400 bytes contain the header of age. If a byte after the header was changed, the error says that the backup is damaged.
        assert!(at < 400 || matches!(why, BackupError::Damaged(_)), "byte {at}: {why}");
    }
    let chunks = (0..whole.len()).step_by(1013).chain([whole.len() - 1, whole.len() - 16, whole.len() - 17]);
    for cut in chunks {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert!(verified(&path, Some(&key)).is_err(), "cut at {cut}");
    }
    std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    assert!(verified(&path, Some(&key)).is_err());
}

#[test]
fn a_passphrase_opens_what_it_closed() {
    let scratch = Scratch::new();
    let (manifest, mut items) = house(&scratch);
    let path = scratch.path().join("f.age");
    write_archive(&path, &manifest, &mut items, Some(&Lock::Passphrase(passphrase("correct horse"))))
        .unwrap();
    assert_eq!(verified(&path, Some(&Key::Passphrase(passphrase("correct horse")))).unwrap(), manifest);
    let why = verified(&path, Some(&Key::Passphrase(passphrase("correct hors")))).unwrap_err().to_string();
    assert_eq!(why, "the passphrase is wrong");
    // A file with a scrypt cost that needs far too much memory.
    let text = std::fs::read(&path).unwrap();
    let at = text.windows(4).position(|four| four == b" 18\n").unwrap();
    let expensive = [&text[..at], b" 30\n", &text[at + 4..]].concat();
    std::fs::write(&path, expensive).unwrap();
    let why = verified(&path, Some(&Key::Passphrase(passphrase("correct horse")))).unwrap_err().to_string();
    assert!(why.contains("the scrypt cost of this backup is 2^30"), "{why}");
}

#[test]
fn keys_are_written_as_age_writes_them() {
    let identity: Identity = SECRET.parse().unwrap();
    let recipient = identity.recipient().unwrap();
    let text = recipient.to_string();
    assert!(text.starts_with("age1") && text.len() == 62, "{text}");
    assert_eq!(text.parse::<Recipient>().unwrap(), recipient);
    for wrong in ["", "age1", &text[..61], SECRET, &text.replace("age1", "agf1")] {
        assert!(wrong.parse::<Recipient>().is_err(), "{wrong}");
    }
    assert!(identities("# nothing\n").is_err() && identities(&text).is_err());
}

#[test]
fn an_archive_cannot_write_elsewhere_or_more_than_it_declared() {
    use tar::EntryType::{Regular, Symlink};
    let scratch = Scratch::new();
    let declared = |path: &str, bytes: u64| {
        let entry = Entry { path: path.into(), bytes, sha256: "0".repeat(64), mode: 0o600 };
        let manifest = Manifest { files: vec![entry], ..house(&scratch).0 };
        manifest.to_bytes().unwrap()
    };
    let long = vec![b'x'; 4000];
    let outside = scratch.path().join("outside");
    let absolute = outside.to_str().unwrap().to_owned();
    for (path, kind, bytes, member, expected) in [
        ("../outside", Regular, 4, "../outside", "`../outside`, which is not allowed as the path of a file"),
        ("a/../../outside", Regular, 4, "a/../../outside", "is not allowed as the path"),
        (absolute.as_str(), Regular, 4, "x", "is not allowed as the path"),
        ("./a", Regular, 4, "./a", "is not allowed as the path"),
        ("manifest.json", Regular, 4, "manifest.json", "is not allowed as the path"),
        ("a", Symlink, 0, "a", "which is not a regular file"),
        ("a", Regular, 4, "../outside", "`a` was expected, but the next file is `../outside`"),
        ("a", Regular, 4, "a", "the length or checksum of `a` differs from the manifest"),
        ("a", Regular, 5000, "a", "the length or checksum of `a` differs from the manifest"),
    ] {
        let manifest = declared(path, bytes);
        let content = if kind == Symlink { &[][..] } else { &long };
        let file = archive(&scratch, &[("manifest.json", Regular, &manifest), (member, kind, content)]);
        let to = scratch.path().join("to");
        std::fs::create_dir(&to).unwrap();
        let unpacked = Backup::open(&file, None).and_then(|backup| unpack_into(backup, &to));
        let why = unpacked.unwrap_err().to_string();
        assert!(why.contains(expected), "{path}: {why}");
        assert!(
            !outside.exists() && std::fs::symlink_metadata(to.join("a")).map_or(0, |meta| meta.len()) <= 5000
        );
        std::fs::remove_dir_all(&to).unwrap();
    }
}

#[test]
fn a_newer_format_and_another_file_are_named() {
    let scratch = Scratch::new();
    let newer = b"{\"enfilade_backup\":2,\"news\":[]}\n0\n";
    let file = archive(&scratch, &[("manifest.json", tar::EntryType::Regular, newer)]);
    let why = verified(&file, None).unwrap_err().to_string();
    assert!(why.contains("the backup has format 2") && why.contains("a newer version"), "{why}");
    for (bytes, expected) in [(&b"hello"[..], "not a backup"), (b"", "not a backup")] {
        std::fs::write(&file, bytes).unwrap();
        let why = verified(&file, None).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
    let why = verified(scratch.path(), None).unwrap_err().to_string();
    assert!(why.contains("has no `manifest.json`"), "{why}");
}

#[test]
fn a_restored_directory_takes_its_place_at_once_and_moves_the_old_one_aside() {
    let scratch = Scratch::new();
    let path = scratch.path().join("data");
    let restored = |text: &str| {
        let made = NewDirectory::begin(&path).unwrap();
        std::fs::write(made.directory().join("file"), text).unwrap();
        let why = NewDirectory::begin(&path).err().unwrap().to_string();
        assert!(why.contains("another process is restoring into this directory"), "{why}");
        made.put_in_place(77).unwrap()
    };
    let read = |path: &Path| std::fs::read_to_string(path.join("file")).unwrap();
    assert_eq!(restored("one"), None);
    let aside = restored("two").unwrap();
    assert_eq!((read(&path).as_str(), read(&aside).as_str()), ("two", "one"));
    // A restore that was killed would leave this directory.
    std::fs::create_dir(scratch.path().join("data.restoring")).unwrap();
    std::fs::write(scratch.path().join("data.restoring/half"), "").unwrap();
    drop(NewDirectory::begin(&path).unwrap());
    assert!(!scratch.path().join("data.restoring").exists());
    assert_eq!(read(&path), "two");
    assert_eq!(restored("three").unwrap(), scratch.path().join("data.set-aside-78"));
}
