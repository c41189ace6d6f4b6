//! Runs a world: a text in which each line prepares users, datastores or files, or is a request (`ask`) with its expected answer.

use crate::house::{Remembering, TestHouse};
use enfilade_admin::{DatastoreEdit, NewAcl, Target, UserEdit};
use enfilade_facts::Refuse;
use enfilade_facts::vocabulary::{Authid, DatastoreName, Maintenance, OperationKind, StorePath};
use enfilade_passage::{Blocking, Refusal};
use std::os::unix::fs::PermissionsExt;

/// Runs a world. Returns each line that fails or does not have the result that it expects, as `line N: …`.
pub fn run_world(text: &str, remembering: Remembering) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut world = World { house: TestHouse::new(remembering), datastore: None };
    let mut wrong = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Err(why) = runtime.block_on(world.line(line)) {
            wrong.push(format!("line {}: `{line}`: {why}", index + 1));
        }
    }
    wrong
}

struct World {
    house: TestHouse,
    datastore: Option<DatastoreName>,
}

type Outcome = Result<(), String>;

fn said(why: impl std::fmt::Display) -> String {
    why.to_string()
}

impl World {
    async fn line(&mut self, line: &str) -> Outcome {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["user", user] => self.house.add_user(&user.parse().map_err(said)?, None),
            ["user", user, uid] => self.house.add_user(&user.parse().map_err(said)?, uid.parse().ok()),
            ["disable", user] => {
                let user = user.parse().map_err(said)?;
                let edit = UserEdit { enabled: Some(false), ..UserEdit::default() };
                enfilade_admin::set_user(&self.house.change_context(), &user, &edit).map_err(said)?;
            }
            ["withdraw", user] => {
                let (user, name) = (user.parse().map_err(said)?, "test".parse().map_err(said)?);
                enfilade_admin::delete_token(&self.house.change_context(), &user, &name).map_err(said)?;
            }
            ["group", group] => {
                let group = group.parse().map_err(said)?;
                enfilade_admin::add_group(&self.house.change_context(), &group, None, None, None)
                    .map_err(said)?;
            }
            ["member", group, members @ ..] => {
                for member in members {
                    let target: Target = member.parse().map_err(said)?;
                    let group = group.parse().map_err(said)?;
                    enfilade_admin::add_member(&self.house.change_context(), &group, &target)
                        .map_err(said)?;
                }
            }
            ["leave", group, member] => {
                let (group, target) = (group.parse().map_err(said)?, member.parse().map_err(said)?);
                enfilade_admin::remove_member(&self.house.change_context(), &group, &target).map_err(said)?;
            }
            ["role", role, who, path] => {
                let (role, who) = (role.parse().map_err(said)?, who.parse().map_err(said)?);
                let path = path.parse().map_err(said)?;
                enfilade_admin::assign_role(&self.house.change_context(), &path, &who, role, true)
                    .map_err(said)?;
            }
            ["datastore", name] => {
                let name: DatastoreName = name.parse().map_err(said)?;
                self.house.add_datastore(&name);
                self.datastore = Some(name);
            }
            ["maintenance", mode] => {
                let maintenance = (*mode != "none").then(|| Maintenance::from_property(mode));
                let edit = DatastoreEdit::Maintenance(maintenance);
                enfilade_admin::edit_datastore(&self.house.change_context(), self.here()?, &edit)
                    .map_err(said)?;
            }
            ["after", seconds] => self.house.clock.advance_seconds(seconds.parse().map_err(said)?),
            ["dir", path] => std::fs::create_dir_all(self.on_disk(path)?).map_err(said)?,
            ["file", path] => std::fs::write(self.on_disk(path)?, b"content").map_err(said)?,
            ["link", path, to] => std::os::unix::fs::symlink(to, self.on_disk(path)?).map_err(said)?,
            ["mode", path, mode, owner @ ..] => self.mode(path, mode, owner)?,
            ["acl", path, ..] => {
                let lines = line.split_once(path).map(|(_, rest)| rest).unwrap_or_default();
                let lines: Vec<String> = lines.split(';').map(|ace| ace.trim().to_owned()).collect();
                let path = StorePath::from_plain(path).map_err(said)?;
                enfilade_admin::set_acl(
                    &self.house.change_context(),
                    self.here()?,
                    &path,
                    &NewAcl::Lines(lines),
                )
                .map_err(said)?;
            }
            ["ask", who, verb, path, "->", expected @ ..] => {
                let got = self.ask(who, verb, path).await?;
                let expected = expected.join(" ");
                if got != expected {
                    return Err(format!("the answer was `{got}`"));
                }
            }
            _ => return Err("unknown command, or wrong number of words".into()),
        }
        Ok(())
    }

    fn here(&self) -> Result<&DatastoreName, String> {
        self.datastore.as_ref().ok_or_else(|| "no datastore yet".to_owned())
    }

    fn on_disk(&self, path: &str) -> Result<std::path::PathBuf, String> {
        Ok(self.house.content(self.here()?).join(path.trim_start_matches('/')))
    }

    fn mode(&self, path: &str, mode: &str, owner: &[&str]) -> Outcome {
        let path = self.on_disk(path)?;
        let mode = u32::from_str_radix(mode, 8).map_err(said)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).map_err(said)?;
        if let [uid, gid] = owner {
            let (uid, gid) = (uid.parse().map_err(said)?, gid.parse().map_err(said)?);
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(said)?;
        }
        Ok(())
    }

    /// Sends a request. Returns `permit`, the names of a listing, or the code of the refusal.
    async fn ask(&self, who: &str, verb: &str, path: &str) -> Result<String, String> {
        let who: Authid = who.parse().map_err(said)?;
        let path = StorePath::from_plain(path).map_err(said)?;
        let visit = match self.house.admit(&who).await {
            Ok(visit) => visit,
            Err(refusal) => return Ok(refusal.code().to_owned()),
        };
        let kind = if matches!(verb, "read" | "list") { OperationKind::Read } else { OperationKind::Write };
        let stay = visit.enter(self.here()?, kind, Blocking);
        let done = stay.and_then(|mut stay| match verb {
            "read" => {
                let mut bytes = Vec::with_capacity(64);
                stay.read(&path, Blocking)?.read_at(0, &mut bytes).map(|()| "permit".to_owned())
            }
            "list" => {
                let mut listing = stay.list(path)?;
                let mut names = Vec::new();
                while let Some(entries) = listing.next_batch(100)? {
                    names.extend(entries.into_iter().map(|entry| entry.name));
                }
                names.sort();
                Ok(if names.is_empty() { "nothing".to_owned() } else { names.join(" ") })
            }
            "write" => {
                let mut upload = stay.upload(path, None)?;
                upload.write(b"new content")?;
                upload.finish().map(|_| "permit".to_owned())
            }
            "mkdir" => stay.make_collection(&path, &[]).map(|()| "permit".to_owned()),
            "delete" => stay.delete(&path, &[], &|| true).map(|left| {
                left.first().map_or_else(|| "permit".to_owned(), |left| left.why.code().to_owned())
            }),
            other => panic!("no verb `{other}`"),
        });
        Ok(done.unwrap_or_else(|refusal: Refusal| refusal.code().to_owned()))
    }
}
