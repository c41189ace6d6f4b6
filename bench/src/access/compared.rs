//! Listings by Enfilade and by Samba, of the same trees with the same ACLs and groups.

use super::trees::{self, Acls};
use super::{AGAIN, Bench, How, LARGE, STARTS, alone, samba};
use crate::Failure;
use crate::goals::Goal;
use crate::report::{Paired, Report};
use crate::samples::Samples;
use enfilade_testkit::Samba;
use std::net::Ipv4Addr;
use std::path::Path;

/// A measured listing: the ACLs, whether the whole tree or only its top directory is listed, and the number of the user's groups.
type Case = (Acls, bool, u64);

/// The goals for the tree [`LARGE`]: the case, and the ids for the first listing and for a repeated listing.
const GOALS: [(Case, [&str; 2]); 8] = [
    ((Acls::Few, false, 4), ["samba-4-first", "samba-4-again"]),
    ((Acls::Few, false, 400), ["samba-400-first", "samba-400-again"]),
    ((Acls::Few, true, 4), ["samba-4-first-all", "samba-4-again-all"]),
    ((Acls::Few, true, 400), ["samba-400-first-all", "samba-400-again-all"]),
    ((Acls::Distinct, false, 4), ["samba-4-first-distinct", "samba-4-again-distinct"]),
    ((Acls::Distinct, false, 400), ["samba-400-first-distinct", "samba-400-again-distinct"]),
    ((Acls::Distinct, true, 4), ["samba-4-first-all-distinct", "samba-4-again-all-distinct"]),
    ((Acls::Distinct, true, 400), ["samba-400-first-all-distinct", "samba-400-again-all-distinct"]),
];

/// The limits for a first listing and for a repeated listing of a user in `groups` groups. A limit is the largest allowed ratio of the cost of
/// Enfilade to the cost of Samba.
fn limits(groups: u64) -> [f64; 2] {
    if groups == 4 { [1.0 / 5.0, 1.0 / 15.0] } else { [1.0 / 25.0, 1.0 / 60.0] }
}

pub(super) fn goals() -> Vec<Goal> {
    let mut goals = Vec::new();
    for ((acls, is_whole, groups), ids) in GOALS {
        let (part, requests) = match is_whole {
            true => ("tree", "the directory and all visible subdirectories, each by a PROPFIND of depth 1"),
            false => (
                "directory",
                "the directory without the content of its subdirectories, by one PROPFIND of depth 1",
            ),
        };
        for ((id, most), when) in ids.into_iter().zip(limits(groups)).zip(["first", "again"]) {
            let (listing, times) = match when {
                "first" => {
                    ("the first listing", "the CPU time of the first listing after the start".to_owned())
                }
                _ => (
                    "a repeated listing",
                    format!("the mean CPU time of {AGAIN} listings after the first listing"),
                ),
            };
            let workload = format!(
                "{}. A user in {groups} groups sees {} of the subdirectories. Without TLS, the user lists {requests}. Enfilade starts {STARTS} \
                 times. Each time, {times} counts; connection and login do not count. The median of the {STARTS} starts is divided by the CPU time \
                 of Samba, which serves the same files. There the same user lists the same {part} once, in a new SMB session. Samba's CPU time \
                 includes the start of the session and the login",
                super::large(acls),
                trees::SEEN
            );
            let what = format!(
                "CPU time of Enfilade for {listing} of a {part}, divided by CPU time of Samba for a listing of the same {part}"
            );
            goals.push(Goal::new(id, most, "times", what, workload));
        }
    }
    goals
}

impl Bench<'_> {
    /// Starts Samba with the same trees and users; `None` if it is not installed.
    pub(super) fn samba(&self, report: &mut Report) -> Result<Option<Samba>, Failure> {
        let shares: Vec<(&str, &Path)> =
            self.places.iter().map(|(acls, path)| (acls.name(), path.as_path())).collect();
        samba::start(report, &self.scratch.path().join("samba"), &shares, self.users)
    }

    pub(super) fn compare_with_samba(
        &self,
        report: &mut Report,
        samba: Option<&Samba>,
    ) -> Result<(), Failure> {
        for acls in Acls::BOTH {
            for tree in self.chosen {
                self.warm(acls, tree)?;
                let is_large = *tree == LARGE;
                let of_directory = if is_large { Some(self.acls_alone(report, acls)?) } else { None };
                let of_tree = match of_directory {
                    Some(first) => self.requests_alone(report, acls, first)?.map(Some),
                    None => [None; 2],
                };
                self.compare_tree(report, samba, acls, tree, true, of_tree)?;
                if tree.starts_with("largedir") {
                    self.compare_tree(report, samba, acls, tree, false, [of_directory, None])?;
                }
            }
        }
        Ok(())
    }

    /// Measures Enfilade and Samba with a tree, or only with its top directory. `floors` are the lowest costs of a first and of a
    /// repeated listing.
    fn compare_tree(
        &self,
        report: &mut Report,
        samba: Option<&Samba>,
        acls: Acls,
        tree: &str,
        is_whole: bool,
        floors: [Option<f64>; 2],
    ) -> Result<(), Failure> {
        let what = if is_whole { "all of" } else { "the directory" };
        let mut theirs_of_few = f64::NAN;
        for (n, user) in self.users.iter().enumerate() {
            let groups = u64::from(user.groups);
            let of =
                |which: &str| format!("listing {what} {tree}, {} ACLs, {which}, server CPU", acls.name());
            let [first, again] = self.listed_thrice(acls, tree, n, is_whole)?;
            // With 4,000 groups Samba takes minutes for the larger trees, and its clients time out.
            let is_fit = groups <= 400 || tree == "largedir_1000";
            let Some(samba) = samba.filter(|_| is_fit) else {
                report.middle(&of("first, Enfilade"), groups, &first, "ms");
                report.middle(&of("again, Enfilade"), groups, &again, "ms");
                continue;
            };
            let commands = if is_whole { "recurse; ls" } else { "ls" };
            let (said, theirs) =
                samba::list(samba, (acls.name(), tree), user, commands, self.scratch.path())?;
            let is_one = |line: &&str| match is_whole {
                true => line.contains(" 25000 "),
                false => line.trim_start().starts_with('d'),
            };
            let shown = said.lines().filter(is_one).count();
            if shown as u64 != trees::SEEN {
                return Err(format!("Samba shows an unexpected number of entries: {shown} of {tree}").into());
            }
            match groups {
                4 => theirs_of_few = theirs,
                _ => report.once(&of("Samba, to that in 4 groups"), groups, theirs / theirs_of_few, "times"),
            }
            // The goals apply only to the tree `LARGE`.
            let case = (acls, is_whole, groups);
            let goals = GOALS.iter().find(|(of, _)| tree == LARGE && *of == case).map(|(_, ids)| *ids);
            let theirs = &Samples::from_iter([theirs]);
            for (at, ((when, ours), floor)) in
                [("first", &first), ("again", &again)].into_iter().zip(floors).enumerate()
            {
                let paired =
                    Paired { what: of(when), n: groups, unit: "ms", ours, peer: "Samba", theirs, floor };
                report.compare(goals.and_then(|ids| ids.get(at).copied()), paired);
            }
        }
        Ok(())
    }

    /// Measures the CPU of a loop that reads the names and the ACLs in the directory [`LARGE`], and does nothing else, in milliseconds. This is the
    /// lowest cost at which a program can read these ACLs.
    fn acls_alone(&self, report: &mut Report, acls: Acls) -> Result<f64, Failure> {
        let what = format!(
            "the directory {LARGE}, {} ACLs: its names and each ACL, and nothing else, CPU",
            acls.name()
        );
        let floor = alone::names_and_acls(acls, LARGE)?;
        report.middle(&what, 41_000, &floor, "ms");
        Ok(floor.median())
    }

    /// Measures the CPU of requests for the smallest answer, in milliseconds. The number of requests is the number that a listing of the whole tree
    /// needs. Returns the lowest costs of a first listing and of a repeated listing of the tree. `first` is the lowest cost of a first listing of the
    /// top directory of the tree.
    fn requests_alone(&self, report: &mut Report, acls: Acls, first: f64) -> Result<[f64; 2], Failure> {
        const SMALLEST: &[u8] = b"GET /.well-known/enfilade HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let server = self.server(How::Heard)?;
        server.settle()?;
        let mut client = server.connect(Ipv4Addr::LOCALHOST)?;
        let mut samples = Samples::default();
        for _ in 0..=AGAIN {
            let before = server.cpu_nanos()?;
            for _ in 0..=trees::SEEN {
                match client.get(SMALLEST)? {
                    200 => {}
                    status => return Err(format!("`/.well-known/enfilade` is answered with {status}").into()),
                }
            }
            samples.push((server.cpu_nanos()? - before) / 1e6);
        }
        let requests = trees::SEEN + 1;
        let again =
            format!("all of {LARGE}, {} ACLs: {requests} requests for the smallest answer, CPU", acls.name());
        let again = report.middle(&again, 41_000, &samples, "ms").value;
        let both = format!(
            "all of {LARGE}, {} ACLs: the names and ACLs of its directory, and {requests} requests for the smallest answer, CPU",
            acls.name()
        );
        report.once(&both, 41_000, first + again, "ms");
        Ok([first + again, again])
    }
}
