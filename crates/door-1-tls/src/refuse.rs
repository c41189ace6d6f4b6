//! The reasons why a connection gets no certificate.

use enfilade_facts::{Door, Fault, RefusalRow, Refuse};

/// A refusal of door 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no certificate.
    #[error(
        "there is no certificate to answer with: put a PEM bundle into the certificate directory, or add it to the crt-list if `[tls] crt_list` is set"
    )]
    NoCertificate,
    /// No certificate has the name, and the rules are strict, so the default certificate is not used.
    #[error("no certificate has the requested server name")]
    UnknownName,
    /// The file cannot be used.
    #[error("certificate `{file}` cannot be used: {why}")]
    Unusable {
        /// The path of the file.
        file: String,
        /// The reason why the file cannot be used.
        why: String,
    },
}

/// Every refusal of this door.
#[rustfmt::skip]
pub const CODES: [RefusalRow; 3] = [
    RefusalRow::new("TL01", Fault::Operator, "there is no certificate to answer with", "put a PEM bundle into the certificate directory, or add it to the crt-list if `[tls] crt_list` is set"),
    RefusalRow::new("TL02", Fault::Client, "no certificate has the requested name", "use a name that a certificate has, or install a certificate for this name; with `[tls] strict_sni = false` the server sends the default certificate instead"),
    RefusalRow::new("TL03", Fault::Operator, "the certificate or its key cannot be used", "`enfilade certs check` shows the file and the reason"),
];

impl Refuse for Refusal {
    fn door(&self) -> Door {
        Door::Tls
    }
    fn code(&self) -> &'static str {
        match self {
            Refusal::NoCertificate => "TL01",
            Refusal::UnknownName => "TL02",
            Refusal::Unusable { .. } => "TL03",
        }
    }
    fn fault(&self) -> Fault {
        RefusalRow::fault_of(&CODES, self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_one_row_in_the_table() {
        let unusable = Refusal::Unusable { file: String::new(), why: String::new() };
        let every = [Refusal::NoCertificate, Refusal::UnknownName, unusable];
        assert_eq!(every.iter().map(Refuse::code).collect::<Vec<_>>(), CODES.map(|row| row.code));
    }
}
