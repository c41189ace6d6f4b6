//! Measures stores of ten million records: memory and time to load, back up, restore and check. Also measures the growth of a store that is changed
//! during a backup.

pub(crate) mod revocations;

use crate::Failure;
use crate::goals::Goal;
use crate::machine::anonymous_bytes;
use crate::report::Report;
use crate::samples::Estimate;
use crate::scratch::Scratch;
use crate::stopwatch::{Child, now, pause};
use crate::stores::{LOCAL, TOKENS_EACH, audit, plain_user};
use enfilade_facts::tables::{Credential, Domain, Name, NameKey, User, Verifier};
use enfilade_facts::vocabulary::{CredentialId, Sid, UserId};
use enfilade_facts::{Change, Source, Table};
use enfilade_sources::lmdb::Lmdb;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MEMORY_GOAL: f64 = 256.0;
const GROWTH_GOAL: f64 = 64.0;
const REVISION: u64 = 7;
const USERS: u64 = 455_000;
const MEANWHILE: &str = "At the same time, one thread changes tokens as fast as it can";
/// The commands whose memory is measured: the id of the goal, the command, and what happens at the same time.
const COMMANDS: [(&str, &str, Option<&str>); 4] = [
    ("load a dump", "load", None),
    ("restore a backup", "restore", None),
    ("check", "check", None),
    ("back up while it is written", "backup", Some(MEANWHILE)),
];

pub(crate) fn goals() -> Vec<Goal> {
    let store = format!(
        "The store has {USERS} users with {TOKENS_EACH} tokens each, which are {} records",
        2 + 2 * USERS * (1 + TOKENS_EACH)
    );
    let memory = |(id, command, meanwhile): (&'static str, &str, Option<&str>)| {
        let meanwhile = meanwhile.map(|text| format!(". {text}")).unwrap_or_default();
        let workload = format!(
            "{store}. `enfilade facts {command}` runs once{meanwhile}. The anonymous memory of the command is read every 2 ms, and the largest value \
             counts"
        );
        Goal::new(id, MEMORY_GOAL, "MiB", format!("anonymous memory of `enfilade facts {command}`"), workload)
    };
    let growth = Goal::new(
        "growth",
        GROWTH_GOAL,
        "MiB",
        "growth of the file of a store during a backup",
        format!("{store}. `enfilade facts backup` makes one backup. {MEANWHILE}"),
    );
    COMMANDS.into_iter().map(memory).chain([growth]).collect()
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let users = if small { 10_000 } else { USERS };
    let scratch = Scratch::new("growth")?;
    let (data, dump, backup) =
        (scratch.path().join("data"), scratch.path().join("dump"), scratch.path().join("backup"));
    let records = write_dump(&dump, users)?;
    let of = |file: &Path| file.to_string_lossy().into_owned();
    let load = measured(&data, &["facts", "load", &of(&dump)], &[])?;
    load.tell(report, "load a dump", records);
    std::fs::remove_file(&dump)?;
    back_up(report, &data, &of(&backup), records, users)?;
    let restore = measured(&data, &["facts", "restore", &of(&backup), "--force", "--accept-rollback"], &[])?;
    if restore.told.get("records").and_then(Value::as_u64) != Some(records) {
        return Err(format!("not every record was restored: {}", restore.told).into());
    }
    restore.tell(report, "restore a backup", records);
    let check = measured(&data, &["facts", "check"], &[])?;
    if check.told.get("sound") != Some(&Value::Bool(true)) {
        return Err(format!("the restored store is not sound: {}", check.told).into());
    }
    check.tell(report, "check", records);
    Ok(())
}

/// The measurements of a command that ended.
pub(crate) struct Measured {
    /// The last line of its output.
    pub(crate) told: Value,
    pub(crate) seconds: f64,
    /// The maximum of the process's anonymous memory, in MiB.
    pub(crate) mebibytes: f64,
}

impl Measured {
    fn tell(&self, report: &mut Report, what: &'static str, records: u64) {
        report.once(what, records, self.seconds, "s");
        report.once(&format!("{what}: memory of its own at most"), records, self.mebibytes, "MiB");
        report.goal(what, Estimate::once(self.mebibytes));
    }
}

/// Runs a command of Enfilade with these environment variables, and measures its time and memory.
pub(crate) fn measured(
    data: &Path,
    arguments: &[&str],
    environment: &[(&str, &Path)],
) -> Result<Measured, Failure> {
    let program = std::env::current_exe()?.with_file_name("enfilade");
    let out = data.with_extension("out");
    let mut command = Command::new(&program);
    command.args(["--json", "--data"]).arg(data).args(arguments).envs(environment.iter().copied());
    command.stdout(File::create(&out)?);
    let began = now();
    let mut child = Child::start(&mut command).map_err(|why| format!("`{}`: {why}", program.display()))?;
    let mut most = 0;
    let status = loop {
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        most = most.max(anonymous_bytes(&child.0.id().to_string()).unwrap_or(0));
        pause(Duration::from_millis(2));
    };
    let seconds = began.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("enfilade {} failed", arguments.join(" ")).into());
    }
    let last = BufReader::new(File::open(&out)?).lines().last().ok_or("the command has no output")??;
    eprintln!("enfilade {}: {seconds:.1} s", arguments.join(" "));
    Ok(Measured { told: serde_json::from_str(&last)?, seconds, mebibytes: most as f64 / f64::from(1 << 20) })
}

/// Measures a backup while one thread changes tokens as fast as it can.
fn back_up(report: &mut Report, data: &Path, backup: &str, records: u64, users: u64) -> Result<(), Failure> {
    let lmdb = Lmdb::open(&data.join("facts"))?;
    let is_over = AtomicBool::new(false);
    let before = lmdb.status().file_bytes;
    let (changes, taken) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut changes = 0;
            while !is_over.load(Ordering::Relaxed) {
                let (key, mut row) = token(changes * 7919 % (users * TOKENS_EACH));
                row.comment = Some(format!("changed {changes}"));
                let mut change = Change::new(audit("token set"));
                lmdb.commit(change.put(&key, &row))?;
                changes += 1;
            }
            Ok::<_, enfilade_facts::CommitError>(changes)
        });
        let taken = measured(data, &["facts", "backup", backup], &[]);
        is_over.store(true, Ordering::Relaxed);
        (writer.join(), taken)
    });
    let changes = changes.map_err(|_| "the writer ended")??;
    let taken = taken?;
    let grown = lmdb.status().file_bytes.saturating_sub(before) as f64 / f64::from(1 << 20);
    taken.tell(report, "back up while it is written", records);
    let bytes = std::fs::metadata(backup)?.len() as f64 / f64::from(1 << 20);
    report.once("how large the backup is", records, bytes, "MiB");
    report.once("changes that were made meanwhile", records, changes as f64, "changes");
    report.once("by how much the store grew meanwhile", records, grown, "MiB");
    report.goal("growth", Estimate::once(grown));
    Ok(())
}

fn user(n: u64) -> Result<(UserId, User), Failure> {
    let sid = Sid::of_store([1, 2, 3], 1000 + u32::try_from(n)?);
    Ok((
        UserId::from_bytes((u128::from(n) << 96).to_be_bytes()),
        plain_user(LOCAL, format!("user{n:08}"), sid),
    ))
}

fn token(n: u64) -> (CredentialId, Credential) {
    let (_, row) = crate::stores::token(n, Verifier::Keyed([n as u8; 32]));
    let owner = UserId::from_bytes((u128::from(n / TOKENS_EACH) << 96).to_be_bytes());
    (CredentialId::from_bytes((u128::from(n) << 96).to_be_bytes()), Credential { owner, ..row })
}

fn line(to: &mut impl Write, table: Table, key: &Value, row: &Value) -> std::io::Result<()> {
    writeln!(to, "{}", json!({ "table": table.name(), "key": key, "row": row }))
}

/// Writes a dump of users with ten tokens each, in the order of the records in a store. Returns the number of records.
fn write_dump(file: &Path, users: u64) -> Result<u64, Failure> {
    let tokens = users * TOKENS_EACH;
    let records = 2 + 2 * users + 2 * tokens;
    let mut to = BufWriter::new(File::create(file)?);
    let origin = json!({
        "enfilade_facts": "dump", "format": enfilade_facts::format::FORMAT, "store": "", "revision": REVISION,
        "unix_seconds": 1_800_000_000, "records": records, "secrets": true,
    });
    writeln!(to, "{origin}")?;
    line(
        &mut to,
        Table::Names,
        &json!(NameKey::domain(&"local".parse()?)),
        &json!(Name::new(LOCAL.stored(), "local")),
    )?;
    for n in 0..users {
        let (key, row) = user(n)?;
        line(
            &mut to,
            Table::Names,
            &json!(NameKey::user(&LOCAL, &row.name)),
            &json!(Name::new(key.stored(), row.name.as_str())),
        )?;
    }
    for n in 0..tokens {
        let (key, row) = token(n);
        line(
            &mut to,
            Table::Names,
            &json!(NameKey::token(&row.owner, &row.name)),
            &json!(Name::new(key.stored(), row.name.as_str())),
        )?;
    }
    line(&mut to, Table::Domains, &json!(LOCAL), &json!(Domain::new("local".parse()?)))?;
    for n in 0..users {
        let (key, row) = user(n)?;
        line(&mut to, Table::Users, &json!(key), &json!(row))?;
    }
    for n in 0..tokens {
        let (key, row) = token(n);
        line(&mut to, Table::Credentials, &json!(key), &json!(row))?;
    }
    to.flush()?;
    Ok(records)
}
