//! Compares listings by Enfilade and by Samba that begin in the same state: for each turn, Enfilade is started anew, and Samba gets a new session.
//! The first listing of each server includes the login. The next listings follow on the same connection.

use super::client::{self, PASSWORD};
use super::session::Session;
use super::sides::{Ours, Side, cost};
use super::trees::{self, Acls};
use super::{Bench, How, LARGE, SMALL};
use crate::Failure;
use crate::goals::Goal;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use crate::scratch::Scratch;
use crate::stores;
use enfilade_facts::tables::{Password, User};
use enfilade_facts::vocabulary::{Secret, UserId};
use enfilade_facts::{Change, Read as _, Source as _};
use enfilade_sources::lmdb::Lmdb;
use enfilade_testkit::Samba;

const TURNS: usize = 5;
/// The number of turns for a directory and a user with goals. Without goals, there are [`TURNS`] turns.
const TURNS_OF_GOALS: usize = 15;
/// How many times the directory is listed on one connection.
const LISTINGS: usize = 3;

/// The goals for the directory [`LARGE`] with few ACLs: the number of the user's groups, and three ids. The ids are for a first listing with a login
/// by token, for a first listing with a login by password, and for the second listing.
const GOALS: [(u32, [&str; 3]); 2] = [
    (4, ["samba-4-login-pairs", "samba-4-login-password-pairs", "samba-4-second-pairs"]),
    (400, ["samba-400-login-pairs", "samba-400-login-password-pairs", "samba-400-second-pairs"]),
];

/// The limits of the three goals for a user in `groups` groups, in the order of `GOALS`. A limit is the largest allowed ratio of the CPU time of
/// Enfilade to the CPU time of Samba.
fn limits(groups: u32) -> [f64; 3] {
    let [login, second] = if groups == 4 { [5.0, 15.0] } else { [25.0, 60.0] };
    [1.0 / login, 1.0 / login, 1.0 / second]
}

pub(super) fn goals() -> Vec<Goal> {
    let mut goals = Vec::new();
    for (groups, ids) in GOALS {
        let workload = |counted: &str| {
            format!(
                "{}. A user in {groups} groups sees {} of the subdirectories, and lists the directory, not the content of the subdirectories: with \
                 Enfilade by PROPFIND of depth 1 without TLS, with Samba by SMB. Enfilade and Samba are measured alternately, {TURNS_OF_GOALS} times each. \
                 Each time, Enfilade is started anew, so that it has verified no secret before, and Samba gets a new SMB session. {counted}. The \
                 value is the mean of the {TURNS_OF_GOALS} ratios",
                super::large(Acls::Few),
                trees::SEEN
            )
        };
        let login = |by: &str| {
            workload(&format!(
                "The CPU time of Enfilade counts from the connection to the end of the first listing, with the login by {by}. Samba's CPU time \
                 counts from the start of the process of the session to the end of the first listing, with the login by password"
            ))
        };
        let second = workload(
            "The CPU time of the second listing counts: with Enfilade the second listing on a connection, with Samba the second listing in a session",
        );
        let whats = [
            ("a login by token and the first listing", "a login and the first listing"),
            ("a login by password and the first listing", "a login and the first listing"),
            ("the second listing", "the second listing"),
        ];
        let workloads = [login("an API token"), login("a password"), second];
        for (((id, most), (ours, theirs)), workload) in
            ids.into_iter().zip(limits(groups)).zip(whats).zip(workloads)
        {
            let what = format!("CPU time of Enfilade for {ours}, divided by CPU time of Samba for {theirs}");
            goals.push(Goal::new(id, most, "times", what, workload));
        }
    }
    goals
}

/// CPU milliseconds of the listings on one connection, in their order. The first listing includes the login.
type Listed = [Samples; LISTINGS];

/// The listings of a directory by one user.
#[derive(Default)]
struct Alike {
    by_token: Listed,
    by_password: Listed,
    theirs: Listed,
}

impl Bench<'_> {
    /// Compares listings by Enfilade and by Samba, for both kinds of ACLs, the chosen directories and the users.
    pub(super) fn compare_alike(&self, report: &mut Report, samba: Option<&Samba>) -> Result<(), Failure> {
        // This comparison has its own facts, because in the facts of the other comparisons no user has a password.
        let scratch = Scratch::new("access-alike")?;
        let bench = Bench { scratch: &scratch, ..*self };
        bench.give_passwords()?;
        for acls in Acls::BOTH {
            for tree in self.chosen.iter().filter(|tree| [LARGE, SMALL].contains(tree)) {
                bench.warm(acls, tree)?;
                // With 4,000 groups Samba takes minutes for the larger trees.
                let is_fit = |groups: u32| groups <= 400 || *tree == SMALL;
                for (n, _) in self.users.iter().enumerate().filter(|(_, user)| is_fit(user.groups)) {
                    let listed = bench.in_the_same_state(samba, (acls, tree), n)?;
                    bench.tell_alike(report, (acls, tree), n, &listed);
                }
            }
        }
        Ok(())
    }

    fn give_passwords(&self) -> Result<(), Failure> {
        let lmdb = Lmdb::open(&self.data()?.join("facts"))?;
        let secret = Secret::new(PASSWORD.as_bytes()).ok_or("no password")?;
        let mut change = Change::new(stores::audit("passwords"));
        for n in 0..self.users.len() as u64 {
            let id = UserId::from_bytes(stores::id(1, n));
            let row = lmdb.read(|view| view.get::<User>(&id))??.ok_or("no user")?;
            let password = Some(Password::of(enfilade_identity::hash_password(&secret)?));
            change.put(&id, &User { password, ..row });
        }
        lmdb.commit(&change)?;
        Ok(())
    }

    /// Enfilade and Samba list a directory in turns. In each turn, both begin in the same state.
    fn in_the_same_state(
        &self,
        samba: Option<&Samba>,
        place: (Acls, &str),
        n: usize,
    ) -> Result<Alike, Failure> {
        let mut all = Alike::default();
        let user = self.users.get(n).ok_or("no user")?;
        let turns = if has_goals(place.0, place.1, user.groups) { TURNS_OF_GOALS } else { TURNS };
        for turn in 1..=turns {
            eprintln!("both servers list {} in {} groups, turn {turn} of {turns}", place.1, user.groups);
            for (login, listed) in
                [(client::by_token(n), &mut all.by_token), (client::by_password(n), &mut all.by_password)]
            {
                add(listed, &mut Ours::connect(self.server(How::Heard)?, place, login)?)?;
            }
            if let Some(samba) = samba {
                add(&mut all.theirs, &mut Session::begin(samba, (place.0.name(), place.1), user)?)?;
            }
        }
        Ok(all)
    }

    fn tell_alike(&self, report: &mut Report, (acls, tree): (Acls, &str), n: usize, all: &Alike) {
        let groups = self.users.get(n).map_or(0, |user| user.groups);
        let goals = GOALS.iter().find(|(of, _)| *of == groups && has_goals(acls, tree, groups));
        let goals = goals.map(|(_, ids)| ids);
        let Alike { by_token: [token, second, third], by_password: [password, ..], theirs } = all;
        let [their_first, their_second, their_third] = theirs;
        let cases = [
            ("first with its login, ours by token", token, their_first),
            ("first with its login, ours by password", password, their_first),
            ("second on its connection", second, their_second),
            ("third on its connection", third, their_third),
        ];
        for (at, (which, ours, theirs)) in cases.into_iter().enumerate() {
            let what = format!("listing the directory {tree}, {} ACLs, {which}, server CPU", acls.name());
            let goal = goals.and_then(|ids| ids.get(at).copied());
            tell(
                report,
                goal,
                Paired { what, n: groups.into(), unit: "ms", ours, peer: "Samba", theirs, floor: None },
            );
        }
    }
}

/// Whether the goals are for the directory `tree` with these ACLs, and for a user in this number of groups.
fn has_goals(acls: Acls, tree: &str, groups: u32) -> bool {
    tree == LARGE && acls == Acls::Few && GOALS.iter().any(|(of, _)| *of == groups)
}

/// Lists a directory [`LISTINGS`] times on one connection, and adds the CPU of each listing to `listed`.
fn add(listed: &mut Listed, side: &mut impl Side) -> Result<(), Failure> {
    let mut before = 0.0;
    for samples in listed {
        samples.push(cost(side, before)?.cpu);
        before = side.cpu_millis()?;
    }
    Ok(())
}

/// Adds a comparison to the report, or only the figures of Enfilade if the other server is not installed.
pub(super) fn tell(report: &mut Report, goal: Option<&'static str>, paired: Paired<'_>) {
    if paired.theirs.len() == 0 {
        report.middle(&format!("{}, Enfilade", paired.what), paired.n, paired.ours, paired.unit);
        return;
    }
    report.compare(goal, paired);
}
