//! The import of a large cloud: its time and memory, and the time and memory of a second import of the same cloud. Enfilade serves the cloud by its
//! Identity API, which is Keystone's. The passwords come from a dump of Keystone's tables.

use crate::Failure;
use crate::fernet::cloud::{self, Cloud, committed};
use crate::fernet::http::serve;
use crate::goals::Goal;
use crate::growth::{Measured, measured};
use crate::identity::{add_projects, project};
use crate::report::Report;
use crate::samples::Estimate;
use crate::scratch::Scratch;
use crate::served::Server;
use crate::stores::{audit, id};
use enfilade_facts::Change;
use enfilade_facts::tables::{
    Grant, GrantKey, GrantScope, Grantee, Group, Member, Membership, MembershipKey, Name, NameKey,
};
use enfilade_facts::vocabulary::{DomainId, GroupId, Sid};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const USERS: u64 = 100_000;
const USERS_A_PROJECT: u64 = 10;
const USERS_A_GROUP: u64 = 100;
const ASSIGNMENTS_EACH: u64 = 2;
const MEMORY_GOAL: f64 = 512.0;
/// The password of the administrator of the cloud.
const PASSWORD: &str = "a benchmark's own";
/// A bcrypt hash. All users have the same hash, because an import does not compute hashes.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuuzhC/M8aT3lFNlRSgWrnQYETvrF83G8W";

pub(crate) fn goals() -> Vec<Goal> {
    let workload = format!(
        "A cloud of {USERS} users with passwords, {} projects, {} groups that have all users, and {} assignments, served by Enfilade without TLS. \
         `enfilade import keystone --passwords` into an empty data directory; the memory of the command is read every 2 ms. The higher value of the \
         import and the same import again",
        USERS / USERS_A_PROJECT,
        USERS / USERS_A_GROUP,
        USERS * ASSIGNMENTS_EACH
    );
    vec![
        Goal::new(
            "memory",
            MEMORY_GOAL,
            "MiB",
            "largest anonymous memory of `enfilade import keystone`",
            workload.clone(),
        ),
        Goal::new(
            "again",
            0.0,
            "records",
            "records that the same import adds when it runs a second time",
            workload,
        ),
    ]
}

pub(crate) fn run(report: &mut Report, small: bool) -> Result<(), Failure> {
    let users = if small { 2_000 } else { USERS };
    let scratch = Scratch::new("import")?;
    let served = serve(&scratch, users, 0, |cloud| furnish(cloud, users))?;
    let source = served.facts.parent().ok_or("the directory of the facts has no parent")?;
    set_password(source)?;
    let (clouds, dump) = (scratch.path().join("clouds.yaml"), scratch.path().join("keystone.sql"));
    std::fs::write(&clouds, described(&served.server))?;
    write_dump(&dump, users)?;
    let dump = dump.to_string_lossy();
    let data = scratch.path().join("imported");
    let words = ["import", "keystone", "--os-cloud", "source", "--passwords", &dump];
    let environment = [("OS_CLIENT_CONFIG_FILE", clouds.as_path())];
    let first = measured(&data, &words, &environment)?;
    // For each user, the import adds a user, a password, a membership and the assignments.
    let expected = users * (3 + ASSIGNMENTS_EACH);
    let taken = taken(&first)?;
    if taken < expected {
        return Err(format!("{taken} records were imported, fewer than {expected}").into());
    }
    tell(report, "import", users, &first);
    report.once("import: records", users, taken as f64, "records");
    let again = measured(&data, &words, &environment)?;
    tell(report, "the same import again", users, &again);
    report.goal("memory", Estimate::once(first.mebibytes.max(again.mebibytes)));
    report.goal("again", Estimate::once(self::taken(&again)? as f64));
    Ok(())
}

fn tell(report: &mut Report, what: &str, users: u64, measured: &Measured) {
    report.once(what, users, measured.seconds, "s");
    report.once(&format!("{what}: memory of its own at most"), users, measured.mebibytes, "MiB");
}

fn taken(measured: &Measured) -> Result<u64, Failure> {
    Ok(measured.told.get("taken").and_then(serde_json::Value::as_u64).ok_or("the import told no `taken`")?)
}

/// Adds projects, assignments, groups with members, and the right of the first user to list everything.
fn furnish(cloud: &Cloud, users: u64) -> Result<(), Failure> {
    let (lmdb, projects) = (cloud.lmdb(), users / USERS_A_PROJECT);
    add_projects(lmdb, projects)?;
    let mut change = Change::new(audit("assignments"));
    let who = Grantee::User(cloud::user(0));
    change.put(&GrantKey { who, scope: GrantScope::System, role: cloud::role(0) }, &Grant);
    let assignments = users * ASSIGNMENTS_EACH;
    for n in 0..assignments {
        let user = n / ASSIGNMENTS_EACH;
        let on = project((user + n % ASSIGNMENTS_EACH * 7_919) % projects);
        let who = Grantee::User(cloud::user(user));
        change.put(&GrantKey { who, scope: GrantScope::Project(on), role: cloud::role(3) }, &Grant);
        change = committed(lmdb, change, n, assignments, "assignments")?;
    }
    for n in 0..users / USERS_A_GROUP {
        let (key, name) = (group(n), format!("group{n}"));
        let sid = Sid::of_store([1, 2, 3], u32::MAX / 4 + u32::try_from(n)?);
        change.put(&NameKey::group(&DomainId::DEFAULT, &name), &Name::new(key.stored(), name.as_str()));
        let domain = DomainId::DEFAULT;
        change.put(&key, &Group { domain, name, sid, also: Vec::new(), gid: None, comment: None });
    }
    for n in 0..users {
        let member = Member::User(cloud::user(n));
        change.put(&MembershipKey { member, group: group(n / USERS_A_GROUP) }, &Membership);
        change = committed(lmdb, change, n, users, "members")?;
    }
    Ok(())
}

fn group(n: u64) -> GroupId {
    GroupId::from_bytes(id(22, n))
}

/// Gives the first user a password, while the server runs.
fn set_password(data: &Path) -> Result<(), Failure> {
    let program = std::env::current_exe()?.with_file_name("enfilade");
    let mut command = Command::new(program);
    command.arg("--data").arg(data).args(["user", "passwd", "user0@Default", "--password-stdin"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    writeln!(child.stdin.take().ok_or("the command has no input")?, "{PASSWORD}")?;
    child.wait()?.success().then_some(()).ok_or_else(|| "the password was not set".into())
}

/// The entry of the cloud in `clouds.yaml`.
fn described(server: &Server) -> String {
    let auth = serde_json::json!({
        "auth_url": format!("http://{}/v3", server.plain), "username": "user0", "user_domain_name": "Default",
        "password": PASSWORD, "system_scope": "all",
    });
    serde_json::json!({ "clouds": { "source": { "auth": auth } } }).to_string()
}

/// Writes the tables of passwords as `mysqldump` does.
fn write_dump(file: &Path, users: u64) -> Result<(), Failure> {
    let mut to = BufWriter::new(File::create(file)?);
    writeln!(to, "-- MySQL dump")?;
    let mut local = String::from("INSERT INTO `local_user` (`id`, `user_id`, `domain_id`, `name`) VALUES ");
    let mut password = String::from(
        "INSERT INTO `password` (`id`, `local_user_id`, `self_service`, `password_hash`, `created_at_int`, `expires_at_int`) VALUES ",
    );
    for n in 0..users {
        let (comma, user) = (if n == 0 { "" } else { "," }, cloud::user(n));
        write!(local, "{comma}({n},'{user}','default','user{n}')")?;
        write!(password, "{comma}({n},{n},0,'{HASH}',1700000000000000,NULL)")?;
    }
    writeln!(to, "{local};\n{password};")?;
    Ok(to.flush()?)
}
