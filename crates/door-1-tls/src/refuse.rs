//! Why a connection gets no certificate.

use enfilade_facts::{Door, Fault, Refuse};

/// A refusal of door 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no certificate.
    #[error("there is no certificate to answer with: put a PEM bundle into the certificate directory")]
    NoCertificate,
    /// No certificate has the name, and the rules allow no default.
    #[error("no certificate has the name that was asked for")]
    UnknownName,
    /// The file cannot be used.
    #[error("certificate `{file}` cannot be used: {why}")]
    Unusable {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Code, fault and meaning of every refusal of this door.
pub const CODES: [(&str, Fault, &str); 3] = [
    ("TL01", Fault::Operator, "there is no certificate to answer with"),
    ("TL02", Fault::Client, "no certificate has the name that was asked for"),
    ("TL03", Fault::Operator, "the certificate or its key cannot be used"),
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
        CODES.iter().find(|(code, ..)| *code == self.code()).map_or(Fault::Source, |(_, fault, _)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_one_row_in_the_table() {
        let unusable = Refusal::Unusable { file: String::new(), why: String::new() };
        let every = [Refusal::NoCertificate, Refusal::UnknownName, unusable];
        assert_eq!(every.iter().map(Refuse::code).collect::<Vec<_>>(), CODES.map(|(code, ..)| code));
    }
}
