//! Data about the certificates of the listener, for a page of the console. The data come from the snapshot with which the running process answers
//! handshakes. Exception: the names are read from the files, and the files can have changed since the snapshot was made.

/// A certificate that the listener can send.
#[derive(Clone, Debug)]
pub struct ServedCertificate {
    /// The path of its file.
    pub file: String,
    /// The last second in which the certificate is valid, in seconds since the epoch.
    pub not_after: i64,
    /// The kind of its key: `RSA`, `ECDSA` or `other`.
    pub key: &'static str,
    /// The names in the certificate, or the reason why its file cannot be read now.
    pub names: Result<Vec<String>, String>,
}

/// Some of the certificates, sorted by the time at which they expire, and some of the problems.
#[derive(Clone, Debug)]
pub struct SomeCertificates {
    /// The certificates.
    pub certificates: Vec<ServedCertificate>,
    /// The number of all certificates.
    pub total: usize,
    /// Files that cannot be used, and the reasons.
    pub faults: Vec<(String, String)>,
    /// The number of all files that cannot be used.
    pub fault_count: usize,
}

/// The certificate for a server name.
#[derive(Clone, Debug)]
pub struct SentCertificate {
    /// The certificate.
    pub certificate: ServedCertificate,
    /// True if no certificate was found for the name or address, so that the server sends this certificate instead.
    pub is_default: bool,
    /// The number of the line in the crt-list, if the certificate is in a crt-list.
    pub line: Option<u32>,
}

/// Answers questions about the served certificates. The methods read files, so callers must not call them on a thread for network I/O.
pub trait ServedCertificates: Send + Sync {
    /// Sorts the certificates by the time at which they expire, skips the first `skipped` certificates, and returns at most `count` of the others.
    /// Also returns at most `count` problems.
    fn some(&self, skipped: usize, count: usize) -> SomeCertificates;

    /// The certificate that a client gets when it asks for this server name or IP address.
    ///
    /// # Errors
    /// When the handshake would be refused: the reason.
    fn sent_for(&self, name: &str) -> Result<SentCertificate, String>;
}
