//! The decision of door 1.

use crate::ask::Ask;
use crate::leaf::Algorithm;
use crate::permit::TlsPermit;
use crate::refuse::Refusal;
use crate::view::{CertificateFile, Certificates, Match};
use std::sync::Arc;

/// Chooses the certificate for the name in the ClientHello. If possible, the certificate has this name and a kind of key that the client accepts. If
/// no certificate has the name, the default certificate is chosen, so that a handshake does not reveal which names the server has. If the client sent
/// no name, the address to which it connected is used as the name, except under strict rules and under [`Match::Haproxy`].
///
/// # Errors
/// When there is no certificate. Under strict rules, also when no certificate has the name.
pub fn open(view: &Certificates, ask: &Ask) -> Result<TlsPermit, Refusal> {
    let rules = view.rules();
    let address = ask.address.as_deref().filter(|_| !rules.strict && rules.matching == Match::ExactFirst);
    let found = ask.name.as_deref().or(address).and_then(|name| choose(view, name, ask, rules.matching));
    let is_found = found.is_some();
    let file = match found {
        Some(file) => file,
        None if rules.strict => return Err(Refusal::UnknownName),
        None => view.fallback().ok_or(Refusal::NoCertificate)?,
    };
    Ok(TlsPermit { ask: ask.clone(), file: Arc::clone(file), is_default: !is_found })
}

impl TlsPermit {
    /// Whether a request for this host is allowed on the connection. The policy of the host must be the policy of the connection. Without this rule,
    /// a client could connect to a name with a policy that requires no client certificate. Then the client could request a host with a policy that
    /// requires a client certificate.
    pub fn has_terms_of(&self, view: &Certificates, host: &str) -> bool {
        if let Some(only) = view.only_policy() {
            return only.epoch() == self.file.policy.epoch();
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let ask = Ask { name: Ask::new(Some(host)).name, address: None, ..self.ask.clone() };
        open(view, &ask).is_ok_and(|there| there.policy().epoch() == self.file.policy.epoch())
    }
}

/// For each kind of key, the first file (by [`CertificateFile::place`]) with a key of that kind.
#[derive(Clone, Copy, Default)]
struct Kinds<'v> {
    ecdsa: Option<&'v Arc<CertificateFile>>,
    rsa: Option<&'v Arc<CertificateFile>>,
    other: Option<&'v Arc<CertificateFile>>,
}

impl<'v> Kinds<'v> {
    fn of(files: impl Iterator<Item = &'v Arc<CertificateFile>>) -> Self {
        let mut kinds = Kinds::default();
        for file in files {
            let place = match file.algorithm {
                Algorithm::Ecdsa => &mut kinds.ecdsa,
                Algorithm::Rsa => &mut kinds.rsa,
                Algorithm::Other => &mut kinds.other,
            };
            if place.is_none_or(|first| file.place() < first.place()) {
                *place = Some(file);
            }
        }
        kinds
    }

    /// Returns the files of `self`. If `self` has no file for a kind of key, the result contains the file of `other` for this kind.
    fn or(self, other: Self) -> Self {
        Kinds {
            ecdsa: self.ecdsa.or(other.ecdsa),
            rsa: self.rsa.or(other.rsa),
            other: self.other.or(other.other),
        }
    }

    /// The best file with a kind of key that the client accepts. ECDSA is preferred to RSA, and RSA to other kinds. For other kinds, this function
    /// does not check what the client accepts.
    fn fitting(self, ask: &Ask) -> Option<&'v Arc<CertificateFile>> {
        let ecdsa = self.ecdsa.filter(|_| ask.takes_ecdsa);
        ecdsa.or(self.rsa.filter(|_| ask.takes_rsa)).or(self.other)
    }

    /// Returns a file with an ECDSA or RSA key, even if the client claims not to accept this kind of key. The claim may be wrong.
    fn any(self) -> Option<&'v Arc<CertificateFile>> {
        self.ecdsa.or(self.rsa)
    }
}

fn choose<'v>(
    view: &'v Certificates,
    name: &str,
    ask: &Ask,
    matching: Match,
) -> Option<&'v Arc<CertificateFile>> {
    let exact = Kinds::of(view.with_name(name));
    // The `*` of a wildcard matches exactly one label, the first.
    let wild = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
    let digest = view.digest();
    let meant = |file: &&Arc<CertificateFile>| !file.excludes(&digest, name);
    let wild = wild.map_or_else(Kinds::default, |wild| Kinds::of(view.with_name(&wild).filter(meant)));
    let both = exact.or(wild);
    match matching {
        Match::Haproxy => both.fitting(ask).or_else(|| both.any()),
        Match::ExactFirst => {
            exact.fitting(ask).or_else(|| wild.fitting(ask)).or_else(|| exact.any()).or_else(|| wild.any())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crt_list::CrtList;
    use crate::leaf::Leaf;
    use crate::policy::Policy;
    use crate::tickets::Tickets;
    use crate::view::{CertificateFile, Digest, Rules};
    use enfilade_facts::MemoSeed;

    fn view(files: &[(&str, Algorithm, &[&str])], rules: Rules) -> Certificates {
        let digest = Digest::new(&MemoSeed([7; 16]));
        let file = |(path, algorithm, names): &(&str, Algorithm, &[&str])| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let leaf = Leaf { names, not_before: 0, not_after: 0, algorithm: *algorithm, has_key: true };
            let usual = Arc::new(Policy::usual(&Tickets::default()).unwrap());
            Arc::new(CertificateFile::new(path, 1, digest.leaf(&leaf), usual))
        };
        Certificates::new(digest, rules, files.iter().map(file).collect())
    }

    fn check(view: &Certificates, name: Option<&str>, takes: &str, expected: &str) {
        let ask = Ask::new(name).taking(takes.contains('e'), takes.contains('r'));
        let found = match open(view, &ask) {
            Ok(permit) => permit.certificate().to_owned(),
            Err(refusal) => enfilade_facts::Refuse::code(&refusal).to_owned(),
        };
        assert_eq!(found, expected, "{name:?} {takes}");
    }

    /// In the table of requests, the second column contains what the client accepts: "e" means ECDSA, and "r" means RSA. The third column contains
    /// the choice of HAProxy 2.6 and 3.5, found with `openssl s_client`. The fourth column contains the choice under [`Match::ExactFirst`].
    #[test]
    fn the_choice_of_haproxy_and_ours() {
        use Algorithm::{Ecdsa, Rsa};
        let files: [(&str, Algorithm, &[&str]); 5] = [
            ("10exact", Rsa, &["www.q.example"]),
            ("20wild", Ecdsa, &["*.q.example"]),
            ("30dup", Ecdsa, &["dup.example", "mixed.example"]),
            ("40dup", Ecdsa, &["dup.example"]),
            ("50both", Rsa, &["dup.example", "old.example"]),
        ];
        let of = |matching| view(&files, Rules { matching, strict: false });
        let (theirs, ours) = (of(Match::Haproxy), of(Match::ExactFirst));
        for (name, takes, original, here) in [
            (Some("www.q.example"), "er", "20wild", "10exact"),
            (Some("www.q.example"), "r", "10exact", "10exact"),
            (Some("www.q.example"), "e", "20wild", "20wild"),
            (Some("x.q.example"), "er", "20wild", "20wild"),
            // The client claims to accept only RSA, and only an ECDSA file has the name. The claim may be wrong.
            (Some("x.q.example"), "r", "20wild", "20wild"),
            (Some("a.b.q.example"), "er", "10exact", "10exact"),
            (Some("q.example"), "er", "10exact", "10exact"),
            (Some("dup.example"), "er", "30dup", "30dup"),
            (Some("dup.example"), "r", "50both", "50both"),
            (Some("MIXED.Example."), "er", "30dup", "30dup"),
            (Some("unknown.example"), "er", "10exact", "10exact"),
            (None, "er", "10exact", "10exact"),
            (Some("*.q.example"), "er", "20wild", "20wild"),
        ] {
            check(&theirs, name, takes, original);
            check(&ours, name, takes, here);
        }
        let strict = view(&files, Rules { matching: Match::ExactFirst, strict: true });
        check(&strict, Some("unknown.example"), "er", "TL02");
        check(&strict, None, "er", "TL02");
        check(&strict, Some("old.example"), "er", "50both");
        check(&view(&[], Rules::default()), None, "er", "TL01");
    }

    #[test]
    fn a_client_without_a_name_asks_for_the_address_it_connected_to() {
        let files: [(&str, Algorithm, &[&str]); 3] = [
            ("1", Algorithm::Ecdsa, &["first.example"]),
            ("2", Algorithm::Ecdsa, &["nas.lan", "192.0.2.7"]),
            ("3", Algorithm::Ecdsa, &["2001:db8::7"]),
        ];
        let of = |rules, name, address: &str| {
            let permit = open(&view(&files, rules), &Ask::new(name).at(address.parse().unwrap()));
            permit.map(|permit| permit.certificate().to_owned()).ok()
        };
        let is = |file: &str| Some(file.to_owned());
        for (name, address, expected) in [
            (None, "192.0.2.7", "2"),
            (None, "::ffff:192.0.2.7", "2"),
            (None, "2001:db8::7", "3"),
            (None, "192.0.2.8", "1"),
            (Some("first.example"), "192.0.2.7", "1"),
            (Some("unknown.example"), "192.0.2.7", "1"),
        ] {
            assert_eq!(of(Rules::default(), name, address), is(expected), "{name:?} {address}");
        }
        let strict = Rules { strict: true, ..Rules::default() };
        assert_eq!(of(strict, None, "192.0.2.7"), None);
        assert_eq!(of(Rules { matching: Match::Haproxy, ..Rules::default() }, None, "192.0.2.7"), is("1"));
    }

    /// The names in a crt-list replace the names of the certificates. The order of its lines replaces the order of the paths. HAProxy does the same.
    #[test]
    fn the_choice_of_a_list() {
        let text = "/z.pem www.q.example *.q.example !no.q.example\n/y.pem\n/x.pem *\n/x.pem [ssl-min-ver TLSv1.3] two.example\n/w.pem www.q.example";
        let digest = Digest::new(&MemoSeed([7; 16]));
        let policy = |options: &crate::Options| {
            Arc::new(Policy::new(options, &Tickets::default(), |_| Err(String::new())).unwrap())
        };
        let files = CrtList::parse(text).lines.into_iter().map(|line| {
            let names = vec![format!("own{}.example", line.file.replace(['/', '.'], "-"))];
            let leaf =
                Leaf { names, not_before: 0, not_after: 0, algorithm: Algorithm::Ecdsa, has_key: true };
            let policy = policy(&line.options);
            let file = CertificateFile::new(&line.file, 1, digest.leaf(&leaf), Arc::clone(&policy));
            Arc::new(digest.listed(file, &line, policy))
        });
        let view = Certificates::new(digest, Rules::default(), files.collect());
        for (name, expected) in [
            ("www.q.example", "/z.pem"),
            ("x.q.example", "/z.pem"),
            ("no.q.example", "/x.pem"),
            ("own-z-pem.example", "/x.pem"),
            ("own-y-pem.example", "/y.pem"),
            ("own-x-pem.example", "/x.pem"),
            ("two.example", "/x.pem"),
            ("nobody.example", "/x.pem"),
        ] {
            check(&view, Some(name), "er", expected);
        }
        let epoch = |name: &str| *open(&view, &Ask::new(Some(name))).unwrap().policy().epoch();
        assert_eq!(epoch("www.q.example"), epoch("nobody.example"));
        assert_ne!(epoch("www.q.example"), epoch("two.example"));
        assert!(view.at_path("/x.pem", |file| file.is_named()).is_some());
        assert!(view.at_path("/x.pem", |file| !file.is_named()).is_some());
    }
}
