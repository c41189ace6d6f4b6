//! Whether a client can present its certificate: only on connections for which a line of the crt-list asks for client certificates.

use crate::clock;
use crate::home::Home;
use crate::output;
use enfilade_admin::CertificatePlace;
use enfilade_sources::files::certificates::read_text;
use enfilade_tls::{CrtList, Line, Options, Policy, Tickets, Verify};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Where a client certificate counts.
pub(super) const ONLY_WHERE: &str = "only where a line of the crt-list asks for client certificates";

/// What such a line checks.
pub(super) const AND_ACCEPTS: &str = ", and accepts this one (`ca-file`, `crl-file`)";

/// Why no client can present a certificate.
pub(super) const NOBODY_ASKS: &str = "no line of a crt-list asks for client certificates";

/// How clients are asked for certificates.
pub(super) const ASK: &str =
    "add `verify optional ca-file FILE` to a line of the crt-list (`[tls] crt_list`)";

/// The crt-list, and its lines that ask clients for certificates.
struct Asking {
    base: PathBuf,
    lines: Vec<Line>,
}

/// The lines that ask clients for certificates. `None` if the crt-list cannot be read.
fn asking(home: &Home) -> Option<Asking> {
    let CertificatePlace::List(list) = home.certificates() else {
        return Some(Asking { base: PathBuf::new(), lines: Vec::new() });
    };
    let text = String::from_utf8(read_text(&list).ok()?).ok()?;
    let lines = CrtList::parse(&text).lines.into_iter();
    let lines = lines.filter(|line| line.options.verify != Verify::None).collect();
    Some(Asking { base: list.parent().map(Path::to_owned).unwrap_or_default(), lines })
}

/// Whether it is known that no line of the configured crt-list asks clients for certificates.
pub(super) fn nobody_asks(home: &Home) -> bool {
    asking(home).is_some_and(|found| found.lines.is_empty())
}

/// Why no connection accepts the certificate of a client (PEM), and what to do. `None` if a line of the crt-list accepts it, or the list cannot be
/// read.
pub(super) fn without_effect(home: &Home, pem: &[u8]) -> Option<String> {
    let Asking { base, lines } = asking(home)?;
    if lines.is_empty() {
        return Some(format!("{NOBODY_ASKS}, so every request with it is refused: {ASK}"));
    }
    let now = clock::now().unix_seconds;
    let (mut judged, mut refused): (HashSet<&Options>, Vec<String>) = (HashSet::new(), Vec::new());
    for line in lines.iter().filter(|line| judged.insert(&line.options)) {
        let read = |name: &str| read_text(&base.join(name)).map_err(|why| why.to_string());
        let policy = Policy::new(&line.options, &Tickets::default(), read);
        match policy.and_then(|policy| policy.accepts(pem, now).unwrap_or(Ok(()))) {
            Ok(()) => return None,
            Err(why) => refused.push(format!("line {}: {why}", line.number)),
        }
    }
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    Some(format!("no line of the crt-list accepts it: {}", output::some(&refused)))
}
