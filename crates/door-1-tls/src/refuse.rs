//! Why a connection is not answered.

use enfilade_facts::{Door, Fault, Refuse};

/// A refusal of door 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no certificate.
    #[error("there is no certificate to answer with: put a PEM bundle into the certificate directory")]
    NoCertificate,
}

/// Code, fault and meaning of every refusal of this door.
pub const CODES: [(&str, Fault, &str); 1] =
    [("TL01", Fault::Operator, "there is no certificate to answer with")];

impl Refuse for Refusal {
    fn door(&self) -> Door {
        Door::Tls
    }
    fn code(&self) -> &'static str {
        "TL01"
    }
    fn fault(&self) -> Fault {
        Fault::Operator
    }
}
