//! Whether a client can present its certificate. This is possible only on connections for which a line of the crt-list requests client certificates.

use crate::clock;
use crate::home::Home;
use crate::output;

/// The connections on which a client certificate is used, for messages.
pub(super) const ONLY_WHERE: &str = "only where a line of the crt-list asks for client certificates";

/// A text for messages: the line of the crt-list must also accept the certificate.
pub(super) const AND_ACCEPTS: &str = ", and accepts this certificate (`ca-file`, `crl-file`)";

/// The reason why no client can present a certificate, for messages.
pub(super) const NOBODY_ASKS: &str = "no line of a crt-list asks for client certificates";

/// Advice for messages: how the operator makes the server request client certificates.
pub(super) const ASK: &str =
    "add `verify optional ca-file FILE` to a line of the crt-list (`[tls] crt_list`)";

/// Whether it is known that no line of the configured crt-list requests client certificates.
pub(super) fn nobody_asks(home: &Home) -> bool {
    home.certificates().lines_that_ask().is_ok_and(|lines| lines.is_empty())
}

/// The reason why no connection accepts the certificate of a client (PEM), and advice. `None` if a line of the crt-list accepts the certificate, or
/// if the list cannot be read.
pub(super) fn without_effect(home: &Home, pem: &[u8]) -> Option<String> {
    let lines = home.certificates().lines_that_ask().ok()?;
    if lines.is_empty() {
        return Some(format!("{NOBODY_ASKS}, so every request with this certificate is refused: {ASK}"));
    }
    let now = clock::now().unix_seconds;
    let mut refused = Vec::new();
    for (number, policy) in lines {
        match policy.and_then(|policy| policy.accepts(pem, now).unwrap_or(Ok(()))) {
            Ok(()) => return None,
            Err(why) => refused.push(format!("line {number}: {why}")),
        }
    }
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    Some(format!("no line of the crt-list accepts this certificate: {}", output::some(&refused)))
}
