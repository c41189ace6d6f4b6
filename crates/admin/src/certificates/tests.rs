use super::*;
use enfilade_facts::MemoSeed;
use enfilade_sources::files::certificates::Ring;
use enfilade_tls::{Ask, Tickets};
use std::ffi::OsStr;

/// A time long after all files were written.
const LATE: u64 = u64::MAX / 2;

struct Shelf {
    place: PathBuf,
    files: CertificateFiles,
}

fn terms() -> CertificateTerms {
    CertificateTerms::new(Tickets::default(), None).unwrap()
}

fn digest() -> Digest {
    Digest::new(&MemoSeed([3; 16]))
}

impl Shelf {
    fn new(name: &str, engine: Box<dyn Engine>) -> Self {
        let place = std::env::temp_dir().join(format!("enfilade-shelf-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir(&place).unwrap();
        let directory = CertificatePlace::Directory(place.clone());
        Shelf { files: CertificateFiles::with(directory, digest(), terms(), engine), place }
    }

    fn write(&self, file: &str, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let text = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
        std::fs::write(self.place.join(file), text).unwrap();
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

fn answers(certificates: &Certificates, name: &str) -> String {
    let permit = enfilade_tls::open(certificates, &Ask::new(Some(name))).unwrap();
    Path::new(permit.certificate()).file_name().unwrap().to_str().unwrap().to_owned()
}

fn follows_what_changes(shelf: &Shelf) {
    shelf.write("a.pem", &["a.example"]);
    shelf.write("b.pem", &["b.example"]);
    shelf.write("c.pem", &["c.example"]);
    let (rules, look) = (Rules::default(), &shelf.files);
    let first = look.look(rules, None, LATE).unwrap();
    assert_eq!((first.certificates.count(), first.read, first.bad.len()), (3, 3, 0));
    let verified = look.verify(&first.certificates, 2, &AtomicUsize::new(0));
    assert!(verified.bad.is_empty() && verified.changed.is_empty(), "{verified:?}");
    // If nothing changed, no file is read.
    let again = look.look_again(&first.certificates, rules, LATE).unwrap();
    assert_eq!((again.certificates.count(), again.read), (3, 0));
    // One file is replaced, one is removed, one is added, one is not a certificate, and a usable file becomes unusable.
    shelf.write("b.pem", &["b.example", "new.example"]);
    std::fs::remove_file(shelf.place.join("a.pem")).unwrap();
    shelf.write("d.pem", &["d.example"]);
    std::fs::write(shelf.place.join("readme"), "hello").unwrap();
    std::fs::write(shelf.place.join("c.pem"), "nothing").unwrap();
    let names = ["a.pem", "b.pem", "c.pem", "d.pem", "readme"].map(|name| shelf.place.join(name)).into();
    let by_name = look.look_at(&again.certificates, &names, rules, LATE).unwrap();
    let by_all = look.look_again(&again.certificates, rules, LATE).unwrap();
    for after in [&by_name, &by_all] {
        let certificates = &after.certificates;
        assert_eq!((certificates.count(), after.read), (3, 4));
        assert_eq!(answers(certificates, "new.example"), "b.pem");
        assert_eq!(answers(certificates, "d.example"), "d.pem");
        assert_eq!(answers(certificates, "c.example"), "c.pem", "a good one stays");
        assert_eq!(answers(certificates, "a.example"), "b.pem", "the first remaining one is the default");
        let bad: BTreeSet<_> =
            after.bad.iter().map(|bad| Path::new(&bad.file).file_name().unwrap()).collect();
        assert_eq!(bad, [OsStr::new("c.pem"), OsStr::new("readme")].into());
    }
    // A key that belongs to another certificate is found by the verification.
    let other = rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap().signing_key.serialize_pem();
    let text = std::fs::read_to_string(shelf.place.join("d.pem")).unwrap();
    let text = text.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap().to_owned() + &other;
    std::fs::write(shelf.place.join("d.pem"), text).unwrap();
    std::fs::remove_file(shelf.place.join("c.pem")).unwrap();
    std::fs::remove_file(shelf.place.join("readme")).unwrap();
    let looked = look.look(rules, None, LATE).unwrap();
    assert!(looked.bad.is_empty());
    let verified = look.verify(&looked.certificates, 1, &AtomicUsize::new(0));
    assert_eq!(verified.bad.len(), 1);
    assert!(verified.bad[0].why.contains("private key"), "{verified:?}");
    // A file that changed just now may change again without a new identity, so it is read each time.
    let young = look.look(rules, None, 0).unwrap().certificates;
    assert_eq!(look.look_again(&young, rules, 0).unwrap().read, 2);
}

#[test]
fn a_directory_is_followed_by_either_engine() {
    follows_what_changes(&Shelf::new("threads", Box::new(Threads::default())));
    if let Ok(ring) = Ring::probe() {
        follows_what_changes(&Shelf::new("ring", Box::new(ring)));
    }
}

/// Companion files belong to a bundle: the server notices changes of companion files.
#[test]
fn what_is_beside_a_bundle_is_followed_too() {
    let shelf = Shelf::new("companions", Box::new(Threads::default()));
    let rules = Rules::default();
    shelf.write("a.pem", &["a.example"]);
    let text = std::fs::read_to_string(shelf.place.join("a.pem")).unwrap();
    let (certificate, key) = text.split_at(text.find("-----BEGIN PRIVATE").unwrap());
    std::fs::write(shelf.place.join("a.pem"), certificate).unwrap();
    std::fs::write(shelf.place.join("a.key"), key).unwrap();
    shelf.write("b.pem", &["b.example"]);
    let first = shelf.files.look(rules, None, LATE).unwrap();
    assert_eq!((first.certificates.count(), first.bad.len()), (2, 0), "{:?}", first.bad);
    assert!(shelf.files.verify(&first.certificates, 1, &AtomicUsize::new(0)).bad.is_empty());
    let again = |before: &Certificates| shelf.files.look_again(before, rules, LATE).unwrap();
    assert_eq!(again(&first.certificates).read, 0);
    for (file, content) in [("a.key", Some(key)), ("b.pem.ocsp", Some("x")), ("b.pem.ocsp", None)] {
        let before = again(&first.certificates).certificates;
        match content {
            Some(content) => {
                let path = shelf.place.join(file);
                std::fs::write(&path, content).unwrap();
                std::fs::File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
            }
            None => std::fs::remove_file(shelf.place.join(file)).unwrap(),
        }
        let read = again(&before).read;
        let by_name = shelf.files.look_at(&before, &[shelf.place.join(file)].into(), rules, LATE).unwrap();
        assert_eq!((read, by_name.read), (1, 1), "{file} {content:?}");
        assert!(content != Some("x") || by_name.warnings.len() == 1);
    }
}

#[test]
fn a_list_is_obeyed_as_a_whole_and_followed() {
    let shelf = Shelf::new("list", Box::new(Threads::default()));
    for (file, name) in [("a.pem", "a.example"), ("b.pem", "b.example"), ("c.pem.rsa", "c.example")] {
        shelf.write(file, &[name]);
    }
    let (list, rules) = (shelf.place.join("list"), Rules::default());
    let files = CertificateFiles::new(CertificatePlace::List(list.clone()), digest(), terms());
    std::fs::write(&list, "a.pem [ssl-min-ver TLSv1.3] *.x.example !no.x.example\nb.pem\nc.pem\n").unwrap();
    let first = files.look(rules, None, LATE).unwrap();
    assert_eq!((first.certificates.count(), first.bad.len()), (3, 0), "{:?}", first.bad);
    assert!(files.verify(&first.certificates, 1, &AtomicUsize::new(0)).bad.is_empty());
    let epoch = |certificates: &Certificates, name: &str| {
        *enfilade_tls::open(certificates, &Ask::new(Some(name))).unwrap().policy().epoch()
    };
    for (name, file) in
        [("w.x.example", "a.pem"), ("b.example", "b.pem"), ("c.example", "c.pem.rsa"), ("a.example", "a.pem")]
    {
        assert_eq!(answers(&first.certificates, name), file);
    }
    assert_eq!(files.look_again(&first.certificates, rules, LATE).unwrap().read, 0);
    // After an invalid line, or a broken file on a line with options, the old snapshot stays in use.
    for text in ["a.pem [nonsense]\nb.pem\n", "b.pem\ngone.pem [ssl-min-ver TLSv1.3]\n"] {
        std::fs::write(&list, text).unwrap();
        let why = files.look_again(&first.certificates, rules, LATE).unwrap_err().to_string();
        assert!(why.contains("list:1: `nonsense`") || why.contains("gone.pem"), "{why}");
    }
    // Lines change their order and their options: unchanged files are not read again, unless their names are needed.
    std::fs::write(&list, "b.pem\na.pem\n").unwrap();
    let changed = [list.clone()].into();
    let second = files.look_at(&first.certificates, &changed, rules, LATE).unwrap();
    assert_eq!((second.certificates.count(), second.read), (2, 1));
    assert_eq!(answers(&second.certificates, "a.example"), "a.pem");
    assert_eq!(answers(&second.certificates, "w.x.example"), "b.pem");
    assert_ne!(epoch(&first.certificates, "w.x.example"), epoch(&second.certificates, "a.example"));
    // If one file of the list changes, only that file is read. If the file is removed, its certificate stays in use.
    shelf.write("a.pem", &["new.example"]);
    let one = [shelf.place.join("a.pem")].into();
    let third = files.look_at(&second.certificates, &one, rules, LATE).unwrap();
    assert_eq!((third.read, answers(&third.certificates, "new.example").as_str()), (1, "a.pem"));
    std::fs::remove_file(shelf.place.join("a.pem")).unwrap();
    let kept = files.look_at(&third.certificates, &one, rules, LATE).unwrap();
    assert_eq!(answers(&kept.certificates, "new.example"), "a.pem");
    // If the line of a missing file has options, a reload changes nothing until the file exists again.
    std::fs::write(&list, "b.pem\na.pem [no-alpn]\n").unwrap();
    let why = files.look_again(&kept.certificates, rules, LATE).unwrap_err().to_string();
    assert!(why.contains("a.pem") && why.contains("(list:2)"), "{why}");
    shelf.write("a.pem", &["back.example"]);
    let repaired = files.look_at(&kept.certificates, &one, rules, LATE).unwrap().certificates;
    assert_eq!(answers(&repaired, "back.example"), "a.pem");
    assert_ne!(epoch(&repaired, "back.example"), epoch(&repaired, "b.example"));
    std::fs::remove_file(shelf.place.join("a.pem")).unwrap();
    // If a line has options, no other certificate may be sent in place of the certificate of this line, not even at a start.
    std::fs::write(&list, "b.pem\na.pem [no-alpn]\n").unwrap();
    let why = files.look(rules, None, LATE).unwrap_err().to_string();
    assert!(
        why.contains("a.pem") && why.contains("its line has its own options") && why.contains("(list:2)"),
        "{why}"
    );
    assert_eq!(files.directories(), [shelf.place.clone()].into());
}

#[test]
fn every_line_of_a_list_that_cannot_be_used_is_named_at_once() {
    let shelf = Shelf::new("lines", Box::new(Threads::default()));
    shelf.write("a.pem", &["a.example"]);
    shelf.write("c.pem.rsa", &["c.example"]);
    std::fs::write(shelf.place.join("junk.pem"), "junk").unwrap();
    let list = shelf.place.join("list");
    let files = CertificateFiles::new(CertificatePlace::List(list.clone()), digest(), terms());
    let look = |text: &str| {
        std::fs::write(&list, text).unwrap();
        files.look(Rules::default(), None, LATE)
    };
    let why = look(
        "a.pem [nonsense]\na.pem\na.pem [verify required ca-file nowhere.pem]\nc.pem\ngone.pem\n\njunk.pem\ngone.pem x.example\n",
    );
    let why = why.unwrap_err().to_string();
    for expected in ["list:1: `nonsense`", "list:3: ", "(list:5, list:8)", "(list:7)"] {
        assert!(why.contains(expected), "{expected}: {why}");
    }
    assert!(!why.contains("c.pem") && !why.contains("list:2"), "{why}");
    let places = ["list:1: ", "list:3: ", "(list:5, ", "(list:7)"].map(|place| why.find(place));
    assert!(places.is_sorted(), "{why}");
    // One unusable certificate on a line with options is enough to refuse the list; the error also lists the other unusable certificates.
    let why = look("a.pem\ngone.pem [no-alpn]\njunk.pem\n").unwrap_err().to_string();
    assert!(why.contains("(list:2)") && why.contains("(list:3)"), "{why}");
    // Without options, the usable certificates are served, and each unusable certificate is reported with its line.
    let looked = look("a.pem\ngone.pem\njunk.pem\n").unwrap();
    let lines: Vec<bool> = looked.bad.iter().map(|bad| bad.why.contains("(list:")).collect();
    assert_eq!((looked.certificates.count(), lines), (1, vec![true, true]));
}

#[test]
fn an_index_spares_reading_and_is_never_believed_when_damaged() {
    let shelf = Shelf::new("index", Box::new(Threads::default()));
    let (rules, place) = (Rules::default(), shelf.files.place().path().to_owned());
    for n in 0..20 {
        shelf.write(&format!("{n}.pem"), &[&format!("n{n}.example"), "shared.example"]);
    }
    let index = place.with_extension("index");
    let first = shelf.files.look(rules, None, LATE).unwrap().certificates;
    let seed = MemoSeed([3; 16]);
    assert_eq!(LeafIndex::write(&index, &place, &seed, &first).unwrap(), 0, "nothing is verified yet");
    shelf.files.verify(&first, 2, &AtomicUsize::new(0));
    assert_eq!(LeafIndex::write(&index, &place, &seed, &first).unwrap(), 20);
    let read = |how| LeafIndex::read(&index, &place, how);
    assert!(
        read(IndexUse::Off).is_none()
            && LeafIndex::read(&index, Path::new("/other"), IndexUse::Checked).is_none()
    );
    let known = read(IndexUse::Checked).unwrap();
    assert_eq!((known.count(), known.seed().0), (20, seed.0));
    let start = |known: &LeafIndex| {
        let files = CertificateFiles::new(
            CertificatePlace::Directory(place.clone()),
            Digest::new(&known.seed()),
            terms(),
        );
        let looked = files.look(rules, Some(known), LATE).unwrap();
        for n in 1..20 {
            assert_eq!(answers(&looked.certificates, &format!("n{n}.example")), format!("{n}.pem"));
        }
        let again = files.verify(&looked.certificates, 1, &AtomicUsize::new(0));
        assert!(again.bad.is_empty() && again.changed.is_empty());
        (
            looked.read,
            answers(&looked.certificates, "n0.example"),
            answers(&looked.certificates, "other.example"),
        )
    };
    assert_eq!(start(&known), (0, "0.pem".into(), "0.pem".into()));
    // One file changed, and one file is new.
    shelf.write("0.pem", &["other.example"]);
    shelf.write("new.pem", &["new.example"]);
    assert_eq!(start(&known).0, 2);
    assert_eq!(start(&known).2, "0.pem");
    let trusted = read(IndexUse::Trusted).unwrap();
    assert_eq!(start(&trusted), (1, "0.pem".into(), "0.pem".into()), "the changed file is checked later");
    // If any bit of an index is flipped, or the index is cut off at any length, the index is not used.
    let good = std::fs::read(&index).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bent = good.clone();
        bent[at] ^= 1 << (at % 8);
        std::fs::write(&index, bent).unwrap();
        assert!(read(IndexUse::Trusted).is_none(), "{at}");
        std::fs::write(&index, &good[..at]).unwrap();
        assert!(read(IndexUse::Trusted).is_none(), "{at}");
    }
    let _ = std::fs::remove_file(&index);
}

/// If a line of a crt-list is invalid, no server uses the list, but commands still show its certificates.
#[test]
fn a_list_with_bad_lines_is_shown_but_not_used() {
    let shelf = Shelf::new("shown", Box::new(Threads::default()));
    shelf.write("a.pem", &["a.example"]);
    shelf.write("b.pem", &["b.example"]);
    let list = shelf.place.join("list");
    std::fs::write(&list, "a.pem\nb.pem [alpn spdy/3]\na.pem [nonsense]\n").unwrap();
    let engine = Box::new(Threads::default());
    let files = CertificateFiles::with(CertificatePlace::List(list), digest(), terms(), engine);
    let why = files.look(Rules::default(), None, LATE).unwrap_err().to_string();
    assert!(why.contains("list:2: `alpn spdy/3`") && why.contains("list:3: `nonsense`"), "{why}");
    let looked = files.look_past(Rules::default(), LATE).unwrap();
    assert_eq!(answers(&looked.certificates, "a.example"), "a.pem");
    assert_eq!(answers(&looked.certificates, "b.example"), "b.pem");
    let bad: Vec<&str> = looked.bad.iter().map(|bad| bad.file.rsplit_once('/').unwrap().1).collect();
    assert_eq!(bad, ["list:2", "list:3"]);
    let leaves = files.leaves(|path, _| path.to_owned()).unwrap();
    assert_eq!((leaves.len(), leaves.iter().filter(|leaf| leaf.is_ok()).count()), (4, 2));
}

#[test]
fn a_directory_has_the_certificates_of_the_fleet_too() {
    let (own, fleet) = (Shelf::new("own", engine()), Shelf::new("fleet", engine()));
    own.write("a.pem", &["a.example"]);
    own.write("-first.pem", &["first.example"]);
    fleet.write("f.pem", &["f.example"]);
    let terms = terms().with_shared(Some(&fleet.place));
    let files = CertificateFiles::new(CertificatePlace::Directory(own.place.clone()), digest(), terms);
    assert_eq!(files.directories(), [own.place.clone(), fleet.place.clone()].into());
    // If no certificate has the server name of a connection, the connection is refused.
    let rules = Rules { strict: true, ..Rules::default() };
    let first = files.look(rules, None, LATE).unwrap();
    assert_eq!((first.certificates.count(), first.bad.len()), (3, 0), "{:?}", first.bad);
    assert_eq!(answers(&first.certificates, "f.example"), "f.pem");
    assert!(files.verify(&first.certificates, 1, &AtomicUsize::new(0)).bad.is_empty());
    // One file is added, one is replaced, and one is removed.
    fleet.write("g.pem", &["g.example"]);
    fleet.write("f.pem", &["f.example", "more.example"]);
    std::fs::remove_file(own.place.join("a.pem")).unwrap();
    let paths = ["f.pem", "g.pem"].map(|name| fleet.place.join(name));
    let paths = paths.into_iter().chain([own.place.join("a.pem")]).collect();
    let by_name = files.look_at(&first.certificates, &paths, rules, LATE).unwrap().certificates;
    let by_all = files.look_again(&first.certificates, rules, LATE).unwrap().certificates;
    for after in [&by_name, &by_all] {
        assert_eq!(after.count(), 3);
        assert_eq!(answers(after, "g.example"), "g.pem");
        assert_eq!(answers(after, "more.example"), "f.pem");
        assert_eq!(answers(after, "first.example"), "-first.pem");
    }
    // The index contains the shared certificates, too.
    let verified = files.verify(&by_all, 1, &AtomicUsize::new(0));
    assert!(verified.bad.is_empty() && verified.changed.is_empty(), "{verified:?}");
    let index = own.place.with_extension("index");
    LeafIndex::write(&index, &own.place, &MemoSeed([3; 16]), &by_all).unwrap();
    let known = LeafIndex::read(&index, &own.place, IndexUse::Checked).unwrap();
    std::fs::remove_file(&index).unwrap();
    assert_eq!((known.count(), files.look(rules, Some(&known), LATE).unwrap().read), (3, 0));
    std::fs::remove_file(fleet.place.join("g.pem")).unwrap();
    let paths = [fleet.place.join("g.pem")].into();
    assert_eq!(files.look_at(&by_name, &paths, rules, LATE).unwrap().certificates.count(), 2);
}
