//! Commands and addresses that an operator can copy. A command contains only users, datastores and files that exist, or that the command or the next
//! start creates.

use crate::home::{Home, data_directory};
use crate::{clock, control, operations, output};
use enfilade_admin::{CertificatePlace, example_datastores, example_logins, example_user, init_first_keys};
use enfilade_facts::Door;
use enfilade_facts::tables::FileName;
use enfilade_facts::vocabulary::{AccessMask, Authid, DatastoreName, StorePath, Userid};
use enfilade_passage::DoorAnswer;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// How long this program waits for the file systems of the datastores.
const PATIENCE: Duration = Duration::from_secs(5);

/// An address at which a client on this machine reaches a listener. For a listener on all addresses, the address is `localhost`, because the
/// certificate that the server makes for itself contains this name.
pub(crate) fn reachable(listener: SocketAddr) -> String {
    match listener.ip().is_unspecified() {
        true => format!("localhost:{}", listener.port()),
        false => listener.to_string(),
    }
}

/// The file of the certificate that clients have to trust: the self-signed certificate, if it exists or the next start creates it.
pub(crate) fn authority(home: &Home) -> Option<PathBuf> {
    let CertificatePlace::Directory(directory) = home.certificates() else { return None };
    authority_in(&directory)
}

fn authority_in(directory: &Path) -> Option<PathBuf> {
    let certificate = directory.join("localhost.crt");
    // If `localhost.pem` is missing, the server sends another certificate. A client that trusts only `localhost.crt` refuses that other certificate.
    let is_served = certificate.exists() && directory.join("localhost.pem").exists();
    (is_served || !directory.exists()).then_some(certificate)
}

/// A command line of this program for the data directory of `home`.
pub(crate) fn command(home: &Home, rest: &str) -> String {
    command_of(&home.data, rest)
}

/// A command line of this program for the data directory `data`.
pub(crate) fn command_of(data: &Path, rest: &str) -> String {
    let usual = data_directory(None).and_then(|usual| Ok(std::fs::canonicalize(usual)?));
    match usual {
        Ok(usual) if usual == data => format!("enfilade {rest}"),
        _ => format!("enfilade --data {} {rest}", output::word(&data.display().to_string())),
    }
}

pub(crate) fn in_quotes(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A curl command that lists the directory at `path`. `login` is already quoted for the shell. If `login` contains no secret, curl asks for the
/// secret.
fn listing(home: &Home, login: &str, address: &str, path: &str) -> String {
    listing_with(authority(home).as_deref(), login, address, path)
}

/// Like [`listing`], but with the file of the certificate that curl has to trust.
pub(crate) fn listing_with(authority: Option<&Path>, login: &str, address: &str, path: &str) -> String {
    let trust = authority.map(|path| format!("--cacert {} ", in_quotes(&path.display().to_string())));
    format!("curl {}-u {login} -X PROPFIND -H 'Depth: 1' https://{address}{path}", trust.unwrap_or_default())
}

/// The path of an existing datastore. If no datastore exists, the path of the list of datastores.
pub(crate) fn path(home: &Home) -> String {
    path_of(example_datastores(home.source()).unwrap_or_default().first())
}

fn path_of(datastore: Option<&DatastoreName>) -> String {
    datastore.map_or_else(|| "/dav/".to_owned(), |name| format!("/dav/{name}/"))
}

/// The first request to try with this data directory, or the reason why there is none.
enum First {
    /// This user or token can log in and list this datastore, or the list of datastores.
    Listing(Authid, Option<DatastoreName>),
    /// This user or token can log in, but may not list this datastore. No user or token was found that may list any datastore.
    Hidden(Authid, DatastoreName),
    /// The file system of a datastore does not answer.
    Unanswered,
    /// A user with a role on this datastore can log in, but the datastore refuses every user, for the given reason. No user was found who may list
    /// another datastore.
    Shut(DatastoreName, String),
    /// Nobody can log in, because the file that defines users is missing or cannot be used. The text is the reason.
    NoFile(String),
    /// This user exists, but no user can log in.
    NoSecret(Authid),
    NoUser,
}

/// The user for the request, if several users can log in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sought {
    /// An administrator, if possible.
    Administrator,
    /// A user other than `root@pam`, if possible. After an import, a request of such a user shows that the users of the old server can log in.
    OldUser,
}

/// Finds a user or token that can log in and list a datastore.
fn first(home: &Home, sought: Sought) -> anyhow::Result<First> {
    let now = clock::now().unix_seconds;
    let (mut logins, datastores) = (example_logins(home.source(), now)?, example_datastores(home.source())?);
    if sought == Sought::OldUser {
        logins.sort_by_key(|login| login.user == Userid::root_pam());
    }
    let Some(login) = logins.first() else {
        if let Some(why) = without_users(home)? {
            return Ok(First::NoFile(why));
        }
        return Ok(example_user(home.source(), now)?.map_or(First::NoUser, First::NoSecret));
    };
    let Some(datastore) = datastores.first() else { return Ok(First::Listing(login.clone(), None)) };
    let (house, hidden) = (home.house_to_ask()?, First::Hidden(login.clone(), datastore.clone()));
    let (answer, answered) = sync_channel(1);
    // A file system that does not answer would block the thread that makes the check. The check must not delay the start of a server, so another
    // thread makes the check.
    std::thread::Builder::new().name("example".into()).spawn(move || {
        let top = StorePath::root();
        let pairs =
            logins.iter().flat_map(|login| datastores.iter().map(move |datastore| (login, datastore)));
        let mut shut = None;
        for (login, datastore) in pairs {
            let explanation = house.explain(login, None, datastore, &top, AccessMask::READ_DATA);
            if explanation.permits() {
                drop(answer.send(First::Listing(login.clone(), Some(datastore.clone()))));
                return;
            }
            // If the user has no role on the datastore, the answer is a refusal of door 4. So if door 3 or door 5 refuses, the user has a role, and
            // the cause is the datastore.
            let is_of_store = |door: &&DoorAnswer| matches!(door.door, Door::Datastore | Door::Content);
            if let Some(door) = explanation.doors.last().filter(is_of_store) {
                shut.get_or_insert_with(|| First::Shut(datastore.clone(), door.says.clone()));
            }
        }
        drop(answer.send(shut.unwrap_or(hidden)));
    })?;
    Ok(answered.recv_timeout(PATIENCE).unwrap_or(First::Unanswered))
}

/// The reason why the users in `user.cfg` cannot log in, if that file is missing or cannot be used.
pub(crate) fn without_users(home: &Home) -> anyhow::Result<Option<String>> {
    let files = enfilade_admin::list_files(home.source())?;
    let found = files.into_iter().find(|file| file.file == FileName::Users);
    let path = home.files.path(FileName::Users);
    Ok(found.and_then(|found| {
        let problem = found.problems.first().cloned().unwrap_or_default();
        match (path.exists(), found.refuses) {
            (false, _) => Some(format!("`{}`, which defines users, is missing", path.display())),
            (true, true) => {
                Some(format!("`{}`, which defines users, cannot be used ({problem})", path.display()))
            }
            (true, false) => None,
        }
    }))
}

/// A command to try after a start, with its heading. `login` contains the user and the password that a first start created, quoted for the shell.
/// Without `login`, the command contains a user or token that can log in and list the datastore. If none is found, the command is the operator's next
/// step.
pub(crate) fn first_request(home: &Home, login: Option<String>, address: &str) -> (String, String) {
    if let Some(login) = login {
        return ("try:".to_owned(), listing(home, &login, address, &path(home)));
    }
    match first(home, Sought::Administrator) {
        Ok(First::Listing(login, datastore)) => {
            let path = path_of(datastore.as_ref());
            ("try:".to_owned(), listing(home, &in_quotes(&login.to_string()), address, &path))
        }
        Ok(First::Hidden(login, datastore)) => hidden(home, &login, &datastore),
        Ok(First::Shut(datastore, why)) => shut(home, &datastore, &why),
        Ok(First::Unanswered) => {
            ("a datastore does not answer; to see which datastore:".to_owned(), command(home, "doctor"))
        }
        Ok(First::NoFile(why)) => (
            format!("nobody can log in: {why}; restore the file, then check the server:"),
            command(home, "doctor"),
        ),
        Ok(First::NoSecret(user)) => (
            "nobody can log in yet; set a password:".to_owned(),
            command(home, &format!("user passwd {}", output::word(&user.to_string()))),
        ),
        _ => (
            "nobody can log in yet; create a user:".to_owned(),
            command(home, "user add admin@local --password"),
        ),
    }
}

fn hidden(home: &Home, login: &Authid, datastore: &DatastoreName) -> (String, String) {
    let explain = format!("explain {} {datastore}", output::word(&login.to_string()));
    (
        "no user who can log in has the right to list a datastore yet; to see the reason:".to_owned(),
        command(home, &explain),
    )
}

fn shut(home: &Home, datastore: &DatastoreName, why: &str) -> (String, String) {
    (format!("nobody can list datastore {datastore}: {why}; to check the server:"), command(home, "doctor"))
}

/// The first commands to try with this data directory, with their heading: start the server if no server runs, and list a datastore. `None` if there
/// is no such command, for example because nobody could log in.
pub(crate) fn try_it(home: &Home) -> Option<(String, Vec<String>)> {
    let (login, datastore) = match first(home, Sought::OldUser).ok()? {
        First::Listing(login, datastore) => (in_quotes(&login.to_string()), datastore),
        First::Hidden(login, datastore) => {
            let (heading, explain) = hidden(home, &login, &datastore);
            return Some((heading.trim_end_matches(':').to_owned(), vec![explain]));
        }
        First::Shut(datastore, why) => {
            let (heading, doctor) = shut(home, &datastore, &why);
            return Some((heading.trim_end_matches(':').to_owned(), vec![doctor]));
        }
        First::Unanswered | First::NoFile(_) | First::NoSecret(_) | First::NoUser => return None,
    };
    let path = path_of(datastore.as_ref());
    if operations::is_served(&home.data) {
        let why = "the running server uses the imported records already; try";
        return Some((why.to_owned(), vec![listing(home, &login, &served_at(home), &path)]));
    }
    let address = home.config.tls.listen.for_client();
    let commands = vec![command(home, "serve"), listing(home, &login, &address, &path)];
    Some(("start the server, then try".to_owned(), commands))
}

/// The address of a server that runs on the data directory. If no server answers, the configured address.
pub(crate) fn served_at(home: &Home) -> String {
    let told = control::addresses(&home.data).ok().and_then(|addresses| addresses.into_iter().next());
    told.unwrap_or_else(|| home.config.tls.listen.for_client())
}

/// Creates the Fernet keys, if no session was ever issued with this store of facts. If the configuration contains the path of a key repository,
/// nothing is created, because the owner of that repository makes the keys. Returns whether keys were created.
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
    fn a_removed_certificate_is_not_proposed() {
        let scratch = enfilade_testkit::Scratch::new();
        let directory = scratch.path().join("tls");
        let certificate = Some(directory.join("localhost.crt"));
        assert_eq!(authority_in(&directory), certificate, "the next start makes it");
        std::fs::create_dir(&directory).unwrap();
        for file in ["localhost.crt", "localhost.pem"] {
            assert_eq!(authority_in(&directory), None);
            std::fs::write(directory.join(file), "").unwrap();
        }
        assert_eq!(authority_in(&directory), certificate);
    }

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
}
