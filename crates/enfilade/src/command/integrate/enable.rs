//! `enfilade integrate --enable`: lets a proxy of this machine ask for decisions. The command writes the settings of the decision listener into the
//! configuration file, and adds the user of the proxy to the group that may enter the directory of the socket.

use crate::cli::{Integrate, Product};
use crate::config::{self, Users};
use crate::home::Home;
use crate::output;
use crate::owner::{gid_of, groups_of, uid_of};
use anyhow::{Context, bail};
use enfilade_sources::files::atomic;
use rustix::process::Gid;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The socket on which the server listens if the operator names no other socket. The service of the package creates the directory of this socket.
const SOCKET: &str = "/run/enfilade/decisions.sock";

/// The steps after which a proxy can ask for decisions.
pub(super) struct Enabling {
    /// The socket on which the server listens for the proxy.
    pub(super) socket: PathBuf,
    user: String,
    /// The configuration file and its new text; `None` if the file has the settings already.
    file: Option<(PathBuf, String)>,
    /// The group to which the user of the proxy has to be added.
    group: Option<String>,
}

/// The usual Linux user of a proxy.
fn usual_user(product: Product) -> &'static str {
    match product {
        Product::Nginx => "www-data",
        Product::Haproxy => "haproxy",
        Product::Traefik => "traefik",
        Product::Caddy => "caddy",
        Product::Envoy => "envoy",
    }
}

impl Enabling {
    /// Finds the steps that are needed. Changes nothing.
    ///
    /// # Errors
    /// When the proxy cannot use a Unix socket, the machine has no user for the proxy, the configuration file has other settings, or the directory of
    /// the socket is not suitable.
    pub(super) fn new(home: &Home, arguments: &Integrate) -> anyhow::Result<Self> {
        if arguments.product == Product::Traefik {
            bail!(
                "Traefik cannot use a Unix socket, so `--enable` cannot set it up: see docs/integrate/traefik.md"
            );
        }
        let user = arguments.proxy_user.clone().unwrap_or_else(|| usual_user(arguments.product).to_owned());
        let Some(uid) = uid_of(&user) else {
            bail!(
                "this machine has no user `{user}`: install the proxy first, or name the user that runs the proxy with `--proxy-user NAME`"
            );
        };
        let path = config::path(&home.data, home.config_file.as_deref());
        let decisions = &home.config.decisions;
        let (socket, file) = match &decisions.listen {
            Some(listen) => {
                let socket = listen.sockets().next().with_context(|| {
                    format!(
                        "`[decisions] listen` in `{}` has no Unix socket: add \"unix:{SOCKET}\"",
                        path.display()
                    )
                })?;
                let may_ask = decisions.users.is_some() && decisions.uids()?.contains(&uid);
                if !may_ask {
                    bail!(
                        "`{}` sets `[decisions] listen`, but its list `users` does not contain {user}: add \"{user}\" to the list `users` in the section `[decisions]`, and run \
                         this command again",
                        path.display()
                    );
                }
                if let Some(other) = arguments.socket.as_ref().filter(|given| **given != socket) {
                    bail!(
                        "`{}` sets `[decisions] listen` to `{}` already: leave out `--socket {}`, or change `listen`",
                        path.display(),
                        socket.display(),
                        other.display()
                    );
                }
                (socket, None)
            }
            None => {
                let socket = arguments.socket.clone().unwrap_or_else(|| PathBuf::from(SOCKET));
                if !socket.is_absolute() {
                    bail!(
                        "`--socket {}` is not an absolute path: write the whole path, beginning with `/`",
                        socket.display()
                    );
                }
                let text = changed(&path, &socket, &user)?;
                (socket, Some((path, text)))
            }
        };
        let group = needed_group(home, &socket, &user)?;
        Ok(Enabling { socket, user, file, group })
    }

    /// Carries out the steps.
    ///
    /// # Errors
    /// When the configuration file cannot be written, or the group cannot be changed.
    pub(super) fn apply(self, data: &Path, product: Product) -> anyhow::Result<()> {
        let Enabling { socket, user, file, group } = self;
        let changes = file.is_some() || group.is_some();
        if let Some((path, text)) = file {
            // A new file gets the owner of the data directory, so that the server can read it.
            let like = std::fs::metadata(&path).or_else(|_| std::fs::metadata(data))?;
            let mode = if path.exists() { like.mode() & 0o777 } else { 0o600 };
            atomic::replace(&path, text.as_bytes(), mode, Some(&like))
                .with_context(|| format!("`{}` cannot be written", path.display()))?;
            output::note(&format!(
                "`{}` now lets user {user} ask for decisions on the socket `{}`",
                path.display(),
                socket.display()
            ));
        }
        if let Some(group) = group {
            let added = Command::new("usermod").args(["--append", "--groups", &group, &user]).status();
            if !added.is_ok_and(|status| status.success()) {
                bail!(
                    "user {user} cannot enter the directory of `{}`: run as root: usermod --append --groups {group} {user}",
                    socket.display()
                );
            }
            output::note(&format!(
                "user {user} is now in group {group}, which may enter the directory of the socket"
            ));
        }
        let restart = match product {
            // The new worker processes of nginx get the new group.
            Product::Nginx => "systemctl restart enfilade && systemctl reload nginx".to_owned(),
            _ => format!("systemctl restart enfilade {}", super::name_of(product)),
        };
        output::note(&match changes {
            true => format!("when the configuration of the proxy is complete, run: {restart}"),
            false => {
                format!(
                    "user {user} may already ask for decisions on the socket `{}`, so no setting was changed",
                    socket.display()
                )
            }
        });
        Ok(())
    }
}

/// The text of the configuration file, with the new settings added.
fn changed(path: &Path, socket: &Path, user: &str) -> anyhow::Result<String> {
    if path.is_symlink() {
        bail!(
            "`{}` is a symbolic link, which this command does not replace: change the file by hand, see docs/applications.md",
            path.display()
        );
    }
    let text = match std::fs::read_to_string(path) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("configuration `{}` cannot be read", path.display()))?,
    };
    let socket = socket.to_str().context("the path of the socket is not UTF-8")?;
    let lines = format!("listen = {:?}\nusers = [{user:?}]\n", format!("unix:{socket}"));
    let text = with_lines(&text, &lines);
    let by_hand = || {
        format!(
            "`{}` cannot be changed by this command: write these lines into its section `[decisions]`:\n{lines}",
            path.display()
        )
    };
    let decisions = config::parse_file(&text).with_context(by_hand)?.decisions;
    // The line `[decisions]` could be part of a string with several lines. So the parsed values are checked.
    let listens = decisions.listen.is_some_and(|listen| listen.sockets().any(|own| own == Path::new(socket)));
    let may_ask = decisions.users.is_some_and(|Users(users)| users.iter().any(|own| own == user));
    anyhow::ensure!(listens && may_ask, by_hand());
    Ok(text)
}

/// Writes lines below the heading `[decisions]`. If the text has no such heading, adds the heading and the lines at the end.
fn with_lines(text: &str, lines: &str) -> String {
    const HEADING: &str = "[decisions]";
    let mut after = String::with_capacity(text.len() + lines.len());
    let mut is_written = false;
    for line in text.lines() {
        after.push_str(line);
        after.push('\n');
        if !is_written && line.trim() == HEADING {
            after.push_str(lines);
            is_written = true;
        }
    }
    if !is_written {
        let gap = if after.is_empty() { "" } else { "\n" };
        after.push_str(&format!("{gap}{HEADING}\n{lines}"));
    }
    after
}

/// The group to which the user must be added, so that the user may enter the directory of the socket. `None` if the user may enter the directory
/// already. Fails if the server cannot create the socket in the directory, or if another user except root can create files in it. Also fails if no
/// group can give the user access only to the socket.
fn needed_group(home: &Home, socket: &Path, user: &str) -> anyhow::Result<Option<String>> {
    let directory = socket.parent().unwrap_or(Path::new("/"));
    let meta = std::fs::metadata(directory).with_context(|| match socket == Path::new(SOCKET) {
        true => format!(
            "the directory `{}` of the socket cannot be opened: the service of the package creates it at its start. Start the service, or name another \
             socket with `--socket PATH`",
            directory.display()
        ),
        false => format!("the directory `{}` of the socket cannot be opened: create it first", directory.display()),
    })?;
    let data = std::fs::metadata(&home.data)?;
    let (is_of_server, is_of_group) = (meta.uid() == data.uid(), meta.gid() == data.gid());
    let may_write = is_of_server && meta.mode() & 0o200 != 0 || is_of_group && meta.mode() & 0o020 != 0;
    let may_others = meta.mode() & 0o002 != 0 || !is_of_group && meta.mode() & 0o020 != 0;
    if !may_write || may_others || !(is_of_server || meta.uid() == 0) {
        bail!(
            "the directory `{}` of the socket must be writable for the Linux user that runs the server, and for no other user except root: name \
             another socket with `--socket PATH`",
            directory.display()
        );
    }
    if meta.mode() & 0o001 != 0 || uid_of(user) == Some(meta.uid()) || gid_of(user) == Some(meta.gid()) {
        return Ok(None);
    }
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    if meta.mode() & 0o010 == 0 || meta.gid() == 0 {
        bail!(
            "user {user} cannot enter the directory `{}`, and no group but root's may enter it: name another socket with `--socket PATH`, in a directory \
             that a group may enter",
            directory.display()
        );
    }
    if groups_of(&groups, user).contains(&Gid::from_raw(meta.gid())) {
        return Ok(None);
    }
    // The user of the proxy must get access only to the socket. A group other than the group of the data directory may give access to other files.
    // With `[facts] group`, the group of the data directory gives access to the data.
    if meta.gid() != data.gid() || home.config.facts.group.is_some() {
        bail!(
            "the directory `{}` of the socket belongs to a group that may also give access to other files, so this command does not add {user} to the group. Add \
             {user} to the group yourself, or name another socket with `--socket PATH`",
            directory.display()
        );
    }
    let named = groups.lines().find(|line| line.split(':').nth(2) == Some(meta.gid().to_string().as_str()));
    let name = named.and_then(|line| line.split(':').next()).map(str::to_owned);
    Ok(Some(name.unwrap_or_else(|| meta.gid().to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_come_below_their_heading() {
        let lines = "listen = \"unix:/s\"\nusers = [\"a\"]\n";
        for (before, after) in [
            ("", "[decisions]\nlisten = \"unix:/s\"\nusers = [\"a\"]\n"),
            (
                "[tls]\nlisten = \"x\"",
                "[tls]\nlisten = \"x\"\n\n[decisions]\nlisten = \"unix:/s\"\nusers = [\"a\"]\n",
            ),
            (
                "[decisions]\n#listen = \"off\"\n\n[tls]\n",
                "[decisions]\nlisten = \"unix:/s\"\nusers = [\"a\"]\n#listen = \"off\"\n\n[tls]\n",
            ),
        ] {
            assert_eq!(with_lines(before, lines), after);
        }
    }

    #[test]
    fn the_example_of_the_configuration_stays_valid() {
        let example = config::example().unwrap();
        let text = with_lines(&example, "listen = \"unix:/run/x.sock\"\nusers = [\"www-data\"]\n");
        let config = config::parse_file(&text).unwrap();
        assert!(config.decisions.listen.is_some_and(|listen| listen.sockets().next().is_some()));
        // The parser refuses a configuration that sets the same keys twice.
        let twice = with_lines(&text, "listen = \"unix:/run/y.sock\"\n");
        assert!(config::parse_file(&twice).is_err());
    }
}
