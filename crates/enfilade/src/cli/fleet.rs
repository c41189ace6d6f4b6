//! `enfilade fleet`.

use crate::config::MemberName;
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Fleet {
    /// Make this machine the first member of a new fleet, which begins with the facts of this machine; set `[fleet]` in enfilade.toml first, and stop
    /// the server
    Init,
    /// Write a file with which a further machine can join the fleet once within 24 h; the file contains the facts and the keys, so keep it secret
    Invite {
        /// The name of the new member
        name: MemberName,
        /// The new file
        file: PathBuf,
    },
    /// Make a new data directory on this machine from an invitation, and become a member of the fleet
    Join {
        /// The invitation
        file: PathBuf,
    },
    /// Show the format of the fleet, its members, and their servers: version, changes that are not applied yet, and whether the server is in contact
    /// with etcd
    Status,
    /// Raise the format of the fleet to the newest format of this version; update all members first. This cannot be undone: older programs cannot
    /// open the data directories afterwards
    Upgrade,
    /// Make this machine the files member: the fleet follows the edited files of this machine, and this machine serves the datastores without a home.
    /// The files must have the same content as the files that the fleet follows now
    FollowFiles,
    /// Take this machine out of the fleet; stop the server first. The last member keeps its facts and works alone
    Leave,
    /// Take another member out of the fleet: its servers refuse requests from now on
    Expel {
        /// The name of the member
        name: MemberName,
    },
    /// Turn this member's copy of the facts into an independent store, for example after all data of etcd was lost; stop every other member first
    Recover {
        /// Confirm that no other member runs any more: changes that this machine does not have are lost, and credentials and rights that these
        /// changes revoked are valid again
        #[arg(long)]
        force: bool,
        /// Accept that `user.cfg` and the other edited files of this machine differ from the files that the fleet read last: the users, tokens and
        /// roles in these files are valid again
        #[arg(long)]
        accept_files: bool,
    },
}
