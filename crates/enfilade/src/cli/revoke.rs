//! Commands that end sessions and revoke credentials.

use crate::output;
use clap::{Args, Subcommand};
use enfilade_facts::vocabulary::{AccessTokenId, Authid, GroupName, Realm, TrustId, Userid};

#[derive(Debug, Subcommand)]
pub(crate) enum Revoke {
    /// End all sessions of a user, and show the credentials that still work
    User {
        /// NAME@REALM
        #[arg(value_parser = user)]
        user: Userid,
        #[command(flatten)]
        extent: Extent,
    },
    /// End all sessions of the members of a group
    Group {
        /// NAME, or NAME@REALM
        group: GroupName,
        #[command(flatten)]
        extent: Extent,
    },
    /// End all sessions of users of a domain, and all sessions for the domain and its projects
    Domain {
        /// The name of the domain
        domain: Realm,
        #[command(flatten)]
        extent: Extent,
    },
    /// End all sessions for a project
    Project {
        /// NAME, NAME@DOMAIN or its id
        project: String,
        #[command(flatten)]
        extent: Extent,
    },
    /// Delete an API token or application credential with its sessions (and the credentials, trusts and EC2 keys that the application credential
    /// created), or end one session
    Token {
        /// USER@REALM!NAME of an API token, or the audit id of a session; `-` reads the token of a session from standard input
        #[arg(allow_hyphen_values = true)] // one audit id in 64 begins with a hyphen
        token: String,
    },
    /// Delete an EC2 key, and end the sessions that were issued for it
    #[command(name = "ec2-key")]
    Ec2Key {
        /// The access key, as `user access` shows it, or the id of the credential
        key: String,
    },
    /// Delete a trust with the trusts that were delegated from it, and end the sessions that were issued for them
    Trust {
        /// The id of the trust, as `user access` shows it
        trust: TrustId,
    },
    /// Delete an OAuth access token of a user, and end the sessions that its consumer got with it
    AccessToken {
        /// The id of the access token, as `user access` shows it
        access_token: AccessTokenId,
    },
    /// End one session
    Session {
        /// The audit id of the session, as `session list` and the log show it; `-` reads the token of the session from standard input
        #[arg(allow_hyphen_values = true)] // one audit id in 64 begins with a hyphen
        session: String,
        /// Also end all other sessions of the chain, which come from the same login
        #[arg(long)]
        chain: bool,
    },
    /// The same as `revoke session --chain`
    Chain {
        /// The audit id of a session of the chain; `-` reads the token of the session from standard input
        #[arg(allow_hyphen_values = true)] // one audit id in 64 begins with a hyphen
        session: String,
    },
    /// Show all revocations
    List,
}

/// The extent of a revocation.
#[derive(Debug, Args)]
pub(crate) struct Extent {
    /// Also delete permanently the passwords, API tokens, application credentials, EC2 keys, trusts, OAuth access tokens and WebDAV locks of the
    /// users. For a project, delete only the application credentials, EC2 keys, trusts and OAuth access tokens for the project
    #[arg(long)]
    pub(crate) everything: bool,
}

/// Parses the name of a user. If the text is the name of an API token, the error contains the command that revokes the token.
fn user(text: &str) -> Result<Userid, String> {
    text.parse::<Userid>().map_err(|why| match text.parse::<Authid>() {
        Ok(token) => format!(
            "`{token}` is an API token; to revoke it: enfilade revoke token {}",
            output::word(&token.to_string())
        ),
        Err(_) => why.to_string(),
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    /// Show valid sessions of one user or of all users
    List {
        /// NAME@DOMAIN
        user: Option<Userid>,
    },
    /// The same as `revoke user`
    End {
        /// NAME@DOMAIN
        user: Userid,
    },
}

#[cfg(test)]
mod tests {
    use super::Revoke;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    /// Parses the arguments of `enfilade revoke`. Returns the audit id and the value of `--chain`, or the exit code of the error.
    fn check(words: &[&str]) -> Result<(String, bool), i32> {
        let cli =
            Cli::try_parse_from([&["enfilade", "revoke"], words].concat()).map_err(|why| why.exit_code())?;
        match cli.command {
            Command::Revoke(Revoke::Session { session, chain }) => Ok((session, chain)),
            Command::Revoke(Revoke::Token { token: session } | Revoke::Chain { session }) => {
                Ok((session, false))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_audit_id_begins_with_any_of_its_characters() {
        for id in [
            "-o-rZTXq_EMjQD3y60IlXQ",
            "--orZTXq_EMjQD3y60IlXQ",
            "-h-rZTXq_EMjQD3y60IlXQ",
            "xo-rZTXq_EMjQD3y60IlXQ",
            "-",
        ] {
            let said = |chain| Ok((id.to_owned(), chain));
            assert_eq!(check(&["session", id]), said(false));
            assert_eq!(check(&["session", id, "--chain"]), said(true));
            assert_eq!(check(&["session", "--chain", id]), said(true));
            assert_eq!(check(&["chain", id]), said(false));
            assert_eq!(check(&["token", id]), said(false));
            assert_eq!(check(&["token", id, "--json"]), said(false));
        }
        assert_eq!(check(&["session", "-h"]), Err(0), "the help");
        assert_eq!(check(&["session", "xo-rZTXq_EMjQD3y60IlXQ", "--cain"]), Err(2));
    }
}
