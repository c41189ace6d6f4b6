//! The decision of door 1.

use crate::ask::Ask;
use crate::certificate::Certificate;
use crate::permit::TlsPermit;
use crate::refuse::Refusal;
use crate::view::Certificates;
use std::sync::Arc;

/// Which certificate answers this name? The one that has it, else the default: what names we hold is not to be
/// learned from the handshake.
///
/// # Errors
/// When there is no certificate at all.
pub fn open(view: &Certificates, ask: &Ask) -> Result<TlsPermit, Refusal> {
    let certificate = choose(view, ask).ok_or(Refusal::NoCertificate)?;
    Ok(TlsPermit { name: ask.name.clone(), certificate: certificate.file().to_owned() })
}

pub(crate) fn choose<'v>(view: &'v Certificates, ask: &Ask) -> Option<&'v Arc<Certificate>> {
    ask.name.as_deref().and_then(|name| view.named(name)).or_else(|| view.fallback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn exact_names_and_a_default() {
        let (a, b) = (bundle(&["a.example", "WWW.a.example"]), bundle(&["b.example", "a.example"]));
        let bundles = [("a.pem", a.as_bytes()), ("b.pem", b.as_bytes()), ("c.pem", b"nothing".as_slice())];
        let (view, bad) = Certificates::load(bundles.map(|(file, pem)| (file.to_owned(), pem)));
        for (name, file) in [
            (Some("a.example"), "a.pem"),
            (Some("www.A.example."), "a.pem"),
            (Some("b.example"), "b.pem"),
            (Some("unknown.example"), "a.pem"),
            (None, "a.pem"),
        ] {
            assert_eq!(open(&view, &Ask::new(name)).unwrap().certificate(), file, "{name:?}");
        }
        assert_eq!(bad.iter().map(|bad| bad.file.as_str()).collect::<Vec<_>>(), ["c.pem"]);
        assert_eq!(open(&Certificates::default(), &Ask::new(None)).unwrap_err(), Refusal::NoCertificate);
    }

    #[test]
    fn a_key_of_another_certificate_is_reported() {
        let (a, b) = (bundle(&["a.example"]), bundle(&["b.example"]));
        let certificate = a.split_inclusive("-----END CERTIFICATE-----\n").next().unwrap();
        let key = b.split_inclusive("-----END CERTIFICATE-----\n").nth(1).unwrap();
        let mixed = format!("{certificate}{key}");
        let (view, bad) = Certificates::load([("mixed.pem".to_owned(), mixed.as_bytes())]);
        assert!(view.is_empty());
        assert!(bad[0].why.contains("private key"), "{}", bad[0]);
    }
}
