//! The arguments of this process, and what is probably meant by a user without a realm.

use crate::cli::Cli;
use crate::home::{IfMissing, Installation};
use crate::{output, owner};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use enfilade_facts::vocabulary::Userid;
use enfilade_sources::lmdb::Lmdb;
use std::error::Error as _;
use std::path::PathBuf;

/// Reads the arguments of this process. Ends the process if they are wrong. For a user without a realm, the error names the users of this name.
pub(crate) fn arguments() -> Cli {
    Cli::of_process().unwrap_or_else(|mut why| {
        let users = named_in(&why).and_then(|name| users_named(&name));
        if let Some(users) = users {
            let tip = format!("the users of this name are: {users}");
            why.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        output::end(&why)
    })
}

/// The name without a realm that was given where a user or token is expected.
fn named_in(why: &clap::Error) -> Option<String> {
    let is_user = why.source().is_some_and(|source| source.to_string().contains("expected `user@realm`"));
    let Some(ContextValue::String(value)) = why.get(ContextKind::InvalidValue) else { return None };
    let is_it = why.kind() == ErrorKind::ValueValidation && is_user && !value.contains('@');
    is_it.then(|| value.split('!').next().unwrap_or_default().to_owned())
}

/// The users with this name in any realm. `None` if there is none, or if they cannot be read.
fn users_named(name: &str) -> Option<String> {
    let arguments: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let (data, config) = (option(&arguments, "--data"), option(&arguments, "--config"));
    let installation = Installation::find(data, config.as_deref(), IfMissing::Refuse).ok()?;
    owner::become_owner(&installation.data).ok()?;
    let lmdb = Lmdb::open_for(&installation.facts(), installation.config.facts.terms()).ok()?;
    let users = enfilade_admin::list_users(&lmdb).ok()?;
    let is_it = |userid: &&str| userid.parse::<Userid>().is_ok_and(|user| user.name() == name);
    let found: Vec<&str> = users.iter().map(|row| row.userid.as_str()).filter(is_it).collect();
    (!found.is_empty()).then(|| output::some(&found))
}

/// The value of an option, in arguments that the command line did not accept.
fn option(arguments: &[String], name: &str) -> Option<PathBuf> {
    let joined = arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
    let next = || arguments.iter().skip_while(|argument| *argument != name).nth(1).map(String::as_str);
    joined.or_else(next).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn only_a_name_where_a_user_is_expected_is_looked_up() {
        for (line, expected) in [
            ("user disable ann", Some("ann")),
            ("token create ann!x", Some("ann")),
            ("user disable ann@", None),
            ("token list ann@local!x", None),
            ("group remove ann?", None),
            ("user", None),
        ] {
            let why = Cli::try_parse_from(["enfilade"].into_iter().chain(line.split(' '))).unwrap_err();
            assert_eq!(named_in(&why).as_deref(), expected, "{line}: {why}");
        }
    }

    #[test]
    fn options_are_found_in_both_forms() {
        for line in ["enfilade --data /d user disable ann", "enfilade user disable ann --data=/d"] {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(option(&arguments, "--data"), Some("/d".into()), "{line}");
            assert_eq!(option(&arguments, "--config"), None, "{line}");
        }
    }
}
