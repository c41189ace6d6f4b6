//! Checks whether this machine takes part in its fleet.

use super::super::fleet::have_different_keys;
use super::{Finding, State, error, warning, well};
use crate::fleet_log::{log, name, wait_for};
use crate::home::Installation;
use crate::output::counted;
use crate::shared_certificates::CertificatesOfFleet;
use enfilade_facts::Source as _;
use enfilade_fleet::Running;
use enfilade_sources::lmdb::Lmdb;

/// The findings about the fleet. Empty if this machine is not a member, and is not configured as one.
pub(super) fn check(installation: &Installation, lmdb: &Lmdb) -> Vec<Finding> {
    let what = "fleet";
    let fleet = &installation.config.fleet;
    match (lmdb.is_replica(), fleet.etcd.is_some()) {
        (false, false) => Vec::new(),
        (false, true) => vec![error(
            what,
            "enfilade.toml has `fleet.etcd`, but this machine is not a member: run `enfilade fleet init`, or `enfilade fleet join FILE` with a new \
             data directory; or remove the section [fleet]",
        )],
        (true, _) => {
            let member = member(installation, lmdb).unwrap_or_else(|why| error(what, format!("{why:#}")));
            // After an error, for example if etcd does not answer, the certificates are not checked, because this check would fail for the same
            // reason.
            let is_wrong = member.state == State::Error;
            std::iter::once(member).chain((!is_wrong).then(|| certificates(installation, lmdb))).collect()
        }
    }
}

/// Whether this machine has the certificates of the fleet.
fn certificates(installation: &Installation, lmdb: &Lmdb) -> Finding {
    let what = "fleet certificates";
    let of = CertificatesOfFleet::new(&installation.data, &installation.config, lmdb.at().store);
    match of.call(async |log| of.compare(log).await) {
        Err(why) => error(what, format!("{why:#}")),
        Ok((count, faults)) if faults.is_empty() => well(
            what,
            format!("this machine has the {} of the fleet", counted(count, "certificate", "certificates")),
        ),
        Ok((count, faults)) => {
            let all: Vec<String> = faults.iter().map(|(name, why)| format!("`{name}`: {why}")).collect();
            warning(
                what,
                format!(
                    "this machine does not have {} of the {} of the fleet: {}. If the server of this machine runs, read the log of the server; \
                     otherwise start the server",
                    all.len(),
                    counted(count, "certificate", "certificates"),
                    all.join("; ")
                ),
            )
        }
    }
}

fn member(installation: &Installation, lmdb: &Lmdb) -> anyhow::Result<Finding> {
    let (here, at) = (name(&installation.config)?, lmdb.at());
    let log = log(&installation.config, at.store)?;
    let (head, members) = wait_for(async { log.status().await })?;
    let what = "fleet";
    let Some(own) = members.iter().find(|member| member.name == here) else {
        return Ok(error(
            what,
            format!(
                "`{here}` is not a member according to etcd: it left, was expelled, or etcd lost its data. Run `enfilade doctor` on another \
                 member. If that member has no such problem, delete this data directory. If it has the same problem, keep all data directories: \
                 docs/fleet.md, \"etcd lost its data\""
            ),
        ));
    };
    let behind = head.at.revision.0.saturating_sub(at.revision.0);
    let text = format!(
        "`{here}` is one of {} members; changes that are not applied here yet: {behind} of {}",
        members.len(),
        head.at.revision
    );
    let silent = members.iter().flat_map(|member| &member.processes).any(|running| !running.has_beat());
    Ok(match () {
        () if silent => warning(
            what,
            format!(
                "{text}; a server of the fleet has no contact with etcd. Each change takes as long as `[fleet] proof_millis` (by default 1 s) until this server has contact again, or until etcd removes the record of this server. `enfilade fleet status` shows the server (STATE)"
            ),
        ),
        () if have_different_keys(&members) => warning(
            what,
            format!(
                "{text}; the servers have different keys of sessions, so some servers refuse the sessions of others: `enfilade fleet status` shows \
                 the servers, and says what to do"
            ),
        ),
        () if !members.iter().any(|member| member.has_files) => warning(
            what,
            format!(
                "{text}; the fleet follows the edited files of no member: run `enfilade fleet follow-files` on one member"
            ),
        ),
        () if !own.processes.iter().any(Running::has_beat) => {
            warning(what, format!("{text}; no server of this machine runs"))
        }
        () => well(what, text),
    })
}
