//! HAProxy's crt-list, which assigns names and policies to certificate files. A line has the form `FILE [OPTION ...] [!]NAME ...`. The names in a
//! line replace the names of the certificate.

/// A line of a crt-list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The number of the line in the crt-list, from 1. If several lines have the same name, the line with the lowest number is preferred.
    pub number: u32,
    /// The path of the certificate as written.
    pub file: String,
    /// The options for connections to the names of this line.
    pub options: Options,
    /// The names of this line, in lower case; `None` if the names of the certificate are used.
    pub names: Option<Vec<String>>,
    /// Names that this line excludes from its wildcards, in lower case.
    pub excluded: Vec<String>,
    /// Whether the file of this line is the default certificate (`*`).
    pub is_default: bool,
}

/// Whether clients present certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verify {
    /// Clients are not asked for a certificate.
    #[default]
    None,
    /// A client may present a certificate. If the certificate is not trusted, the handshake fails.
    Optional,
    /// Clients must present a trusted certificate.
    Required,
}

/// The options in brackets, as written. Lines with equal options share one policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// `alpn`: the protocols, preferred first; an empty list offers no protocol.
    pub alpn: Option<Vec<String>>,
    /// `ciphers`: the ciphers of TLS 1.2, by OpenSSL's names.
    pub ciphers: Option<Vec<String>>,
    /// `ciphersuites`: the ciphers of TLS 1.3, by the names in RFC 8446.
    pub ciphersuites: Option<Vec<String>>,
    /// `curves` or `ecdhe`: the groups of the key exchange, preferred first.
    pub curves: Option<Vec<String>>,
    /// `ssl-min-ver`: the lowest protocol version.
    pub min_version: Option<String>,
    /// `ssl-max-ver`: the highest protocol version.
    pub max_version: Option<String>,
    /// `verify`: whether clients present certificates.
    pub verify: Verify,
    /// `ca-file`: the authorities that are trusted. The server sends their names to the client.
    pub ca_file: Option<String>,
    /// `ca-verify-file`: further authorities that are trusted. The server does not send their names to the client.
    pub ca_verify_file: Option<String>,
    /// `crl-file`: the certificates that were revoked.
    pub crl_file: Option<String>,
    /// `no-ca-names`: the server sends no names of authorities to the client.
    pub no_ca_names: bool,
}

/// A parsed list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrtList {
    /// The lines in their order.
    pub lines: Vec<Line>,
    /// The numbers of the lines that cannot be applied, each with the reason.
    pub bad: Vec<(u32, String)>,
    /// The numbers of the lines that possibly have a different effect than their author expects, each with a warning. A line with a warning is
    /// applied, unless it is also in `bad`.
    pub warnings: Vec<(u32, String)>,
}

impl CrtList {
    /// Parses a list. A line with an option that cannot be applied is left out, because the other options alone would be a different policy.
    pub fn parse(text: &str) -> Self {
        let mut list = CrtList::default();
        for (number, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let mut warnings = Vec::new();
            match line(number, text, &mut warnings) {
                Ok(line) => list.lines.push(line),
                Err(why) => list.bad.push((number, why)),
            }
            list.warnings.extend(warnings.into_iter().map(|why| (number, why)));
        }
        list
    }
}

fn line(number: u32, text: &str, warnings: &mut Vec<String>) -> Result<Line, String> {
    let end = text.find(|c: char| c.is_whitespace() || c == '[').unwrap_or(text.len());
    let (file, rest) = text.split_at(end);
    if file.is_empty() {
        return Err("expected the path of a certificate at the beginning of the line".to_owned());
    }
    let (options, rest) = match rest.trim_start().strip_prefix('[') {
        Some(inside) => {
            let (options, rest) = inside
                .split_once(']')
                .ok_or("the options are not closed; expected `]` after the last option")?;
            (self::options(options, warnings)?, rest)
        }
        None => (Options::default(), rest),
    };
    let mut line =
        Line { number, file: file.to_owned(), options, names: None, excluded: Vec::new(), is_default: false };
    for filter in rest.split_whitespace() {
        if filter.contains(['[', ']']) {
            return Err(format!("`{filter}` is not a name; options belong in brackets right after the file"));
        }
        let names = line.names.get_or_insert_default();
        match filter.strip_prefix('!') {
            Some(name) if name.starts_with('*') => {
                warnings.push(format!(
                    "`{filter}` has no effect: only single names can be excluded from a wildcard"
                ));
            }
            Some(name) => line.excluded.push(name.to_ascii_lowercase()),
            None if filter == "*" => line.is_default = true,
            None if !can_match(filter) => {
                warnings.push(format!(
                    "`{filter}` never matches: expected a host name such as `www.example.com`, or a wildcard such as `*.example.com`"
                ));
                names.push(filter.to_ascii_lowercase());
            }
            None => names.push(filter.to_ascii_lowercase()),
        }
    }
    let has_wildcard = line.names.iter().flatten().any(|name| name.starts_with("*."));
    if !line.excluded.is_empty() && !has_wildcard {
        warnings.push("the line excludes names with `!`, but contains no wildcard such as `*.example.com` from which to exclude them".to_owned());
    }
    // If `*` is the only name in a line, the file of the line is the default certificate, and keeps the names of its certificate.
    if line.is_default && line.excluded.is_empty() && line.names.as_ref().is_some_and(Vec::is_empty) {
        line.names = None;
    }
    Ok(line)
}

/// Whether a client can ask for this name, or for a name that this wildcard covers.
fn can_match(filter: &str) -> bool {
    let name = filter.strip_prefix("*.").unwrap_or(filter);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    name.parse::<core::net::IpAddr>().is_ok() || (!name.is_empty() && name.bytes().all(is_letter))
}

const NOT_HERE: [(&str, &str); 8] = [
    (
        "sigalgs",
        "the TLS library chooses a signature algorithm that the certificate's key and the client allow; remove the option",
    ),
    ("client-sigalgs", "the TLS library decides which signatures of clients it accepts; remove the option"),
    ("crt", "write the path of the file at the beginning of the line"),
    ("key", "put the key into the bundle, or into `FILE.key` in the same directory"),
    ("ocsp", "put the OCSP response into `FILE.ocsp` in the directory of the bundle"),
    ("issuer", "put the issuer's certificate into the bundle, after the leaf"),
    (
        "sctl",
        "the TLS library does not send timestamps (SCTs) from files; use a certificate that contains timestamps, and remove the option",
    ),
    (
        "ocsp-update",
        "this server does not fetch OCSP responses: remove the option, and let another program renew `FILE.ocsp`; the server notices a new file at once",
    ),
];

fn options(text: &str, warnings: &mut Vec<String>) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let mut value =
            || words.next().map(str::to_owned).ok_or_else(|| format!("expected a value after `{word}`"));
        let list = |text: String, mark: char| Some(text.split(mark).map(str::to_owned).collect());
        match word {
            "alpn" => options.alpn = list(value()?, ','),
            "no-alpn" => options.alpn = Some(Vec::new()),
            "ciphers" => options.ciphers = list(value()?, ':'),
            "ciphersuites" => options.ciphersuites = list(value()?, ':'),
            "curves" | "ecdhe" => options.curves = list(value()?, ':'),
            "ssl-min-ver" => options.min_version = Some(value()?),
            "ssl-max-ver" => options.max_version = Some(value()?),
            "ca-file" => options.ca_file = Some(value()?),
            "ca-verify-file" => options.ca_verify_file = Some(value()?),
            "crl-file" => options.crl_file = Some(value()?),
            "no-ca-names" => options.no_ca_names = true,
            "verify" => {
                options.verify = match value()?.as_str() {
                    "none" => Verify::None,
                    "optional" => Verify::Optional,
                    "required" => Verify::Required,
                    other => {
                        return Err(format!("`verify {other}`: expected `none`, `optional` or `required`"));
                    }
                }
            }
            "npn" => {
                value()?;
                warnings.push("`npn` has no effect: clients no longer use it".to_owned());
            }
            "allow-0rtt" => {
                warnings.push(
                    "`allow-0rtt` has no effect: early data can be replayed, and is never accepted"
                        .to_owned(),
                );
            }
            word => {
                let why = NOT_HERE.iter().find(|(name, _)| *name == word);
                return Err(match why {
                    Some((_, why)) => format!("this server does not support `{word}` in a crt-list: {why}"),
                    None => format!("`{word}` is not an option of a crt-list"),
                });
            }
        }
    }
    if options.verify != Verify::None && options.ca_file.is_none() && options.ca_verify_file.is_none() {
        return Err("`verify` needs a `ca-file` or `ca-verify-file` with the authorities to trust".to_owned());
    }
    if options.verify == Verify::None && (options.ca_file.is_some() || options.ca_verify_file.is_some()) {
        warnings
            .push("clients are not asked for certificates, although the line has a `ca-file` or `ca-verify-file`: add `verify optional` or `verify required`, or remove the option".to_owned());
    }
    Ok(options)
}

#[cfg(test)]
mod tests;
