//! Commands and addresses for an operator to copy. A command contains only users, datastores and files that exist, or that the command or the next
//! start creates.

use crate::home::{Home, data_directory};
use enfilade_admin::{CertificatePlace, ExampleLogin, example_datastore, example_login, init_first_keys};
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address at which a client on this machine reaches a listener. For a listener on all addresses it is `localhost`, which is a name of the first
/// certificate.
pub(crate) fn reachable(listener: SocketAddr) -> String {
    match listener.ip().is_unspecified() {
        true => format!("localhost:{}", listener.port()),
        false => listener.to_string(),
    }
}

/// The file of the certificate that clients have to trust: the self-signed certificate, if it exists or the next start creates it.
pub(crate) fn authority(home: &Home) -> Option<PathBuf> {
    let CertificatePlace::Directory(directory) = home.certificates() else { return None };
    let certificate = directory.join("localhost.crt");
    (certificate.exists() || !directory.exists()).then_some(certificate)
}

/// A command line of this program for the same data directory.
pub(crate) fn command(home: &Home, rest: &str) -> String {
    let usual = data_directory(None).and_then(|usual| Ok(std::fs::canonicalize(usual)?));
    match usual {
        Ok(usual) if usual == home.data => format!("enfilade {rest}"),
        _ => format!("enfilade --data {} {rest}", quoted(&home.data.display().to_string())),
    }
}

/// The word as a shell argument, with quotes if the shell needs quotes.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "@%+=:,./-_".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => in_quotes(word),
    }
}

fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A curl command that lists a datastore. `login` is already quoted for the shell. If `login` contains no secret, curl asks for the secret.
fn listing(home: &Home, login: &str, address: &str) -> String {
    let trust = authority(home).map(|path| format!("--cacert {} ", in_quotes(&path.display().to_string())));
    format!(
        "curl {}-u {login} -X PROPFIND -H 'Depth: 1' https://{address}{}",
        trust.unwrap_or_default(),
        path(home)
    )
}

/// The path of an existing datastore. If no datastore exists, the path of the list of datastores.
pub(crate) fn path(home: &Home) -> String {
    let datastore = example_datastore(home.source()).ok().flatten();
    datastore.map_or_else(|| "/dav/".to_owned(), |name| format!("/dav/{name}/"))
}

/// A command to try after a start, with its heading. `login` contains the user and the password that a first start created, quoted for the shell.
/// Without `login`, the command contains a user with a password or a token. If there is no such user, the command sets a password or creates a user.
pub(crate) fn first_request(home: &Home, login: Option<String>, address: &str) -> (&'static str, String) {
    if let Some(login) = login {
        return ("try:", listing(home, &login, address));
    }
    match example_login(home.source(), crate::clock::now().unix_seconds) {
        Ok(Some(ExampleLogin::Secret(login))) => {
            ("try:", listing(home, &in_quotes(&login.to_string()), address))
        }
        Ok(Some(ExampleLogin::NoSecret(user))) => (
            "nobody can log in yet; set a password:",
            command(home, &format!("user passwd {}", quoted(&user.to_string()))),
        ),
        _ => ("nobody can log in yet; create a user:", command(home, "user add admin@local --password")),
    }
}

/// The first commands to try with this data directory: start the server, and list a datastore. `None` if nobody could log in.
pub(crate) fn try_it(home: &Home) -> Option<Vec<String>> {
    let login = match example_login(home.source(), crate::clock::now().unix_seconds).ok()?? {
        ExampleLogin::Secret(login) => login.to_string(),
        ExampleLogin::NoSecret(_) => return None,
    };
    let address = home.config.tls.listen.for_client();
    Some(vec![command(home, "serve"), listing(home, &in_quotes(&login), &address)])
}

/// Creates the Fernet keys, if no session was ever issued with this store of facts. If the configuration names a key repository, the owner of that
/// repository makes the keys, so nothing is created.
pub(crate) fn make_first_keys(home: &Home) -> anyhow::Result<bool> {
    match &home.config.identity.fernet_keys {
        Some(_) => Ok(false),
        None => Ok(init_first_keys(home.source(), &home.fernet_keys())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_never_sent_to_the_unspecified_address() {
        for (listener, expected) in [
            ("0.0.0.0:8443", "localhost:8443"),
            ("[::]:443", "localhost:443"),
            ("192.0.2.7:1", "192.0.2.7:1"),
        ] {
            assert_eq!(reachable(listener.parse().unwrap()), expected);
        }
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        for (word, expected) in
            [("a@b", "a@b"), ("a@b!c", "'a@b!c'"), ("it's", r"'it'\''s'"), ("", "''"), ("/x y", "'/x y'")]
        {
            assert_eq!(quoted(word), expected);
        }
    }
}
