//! A model of the freshness protocol (`docs/freshness.md`). Every order of its steps is checked. In the model, two processes check and act, and a
//! third process changes facts. A process can crash at every step, a record can be lost, and a restore can happen. If any one rule is left out, the
//! search finds a sequence of steps to a wrong grant, and prints this sequence.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]

use enfilade_testkit::search::explore;

/// A rule of the protocol that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// 1: a verdict on a view is remembered under that view's revision.
    RememberUnderTheView,
    /// 2: every request takes its own view.
    ShortViews,
    /// 3: an index is brought up to the view before each lookup.
    CatchUp,
    /// 4: an index proves that a record is absent only if its table was verified as a whole.
    VerifiedWhole,
    /// 5, first half: an operation enters the ledger, then takes the view on which it is judged.
    EnterThenView,
    /// 5, second half: a maintenance change commits, then reads the ledger.
    CommitThenRead,
    /// 6: a change to "offline" is complete when every process has recorded that its handles are closed up to the revision of this change.
    IdleProcessesFollow,
    /// 7, first half: a restored store has another id.
    NewStoreId,
    /// 7, second half: a restore does not go back to an older state, unless the operator demands it.
    NoGoingBack,
}

const RULES: [Rule; 9] = [
    Rule::RememberUnderTheView,
    Rule::ShortViews,
    Rule::CatchUp,
    Rule::VerifiedWhole,
    Rule::EnterThenView,
    Rule::CommitThenRead,
    Rule::IdleProcessesFollow,
    Rule::NewStoreId,
    Rule::NoGoingBack,
];

const REVISIONS: usize = 4;
const PROCESSES: usize = 2;
/// The maximum number of crashes in a run.
const CRASHES: u8 = 1;

/// The facts at a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Facts {
    revoked: bool,
    offline: bool,
}

/// The step of a process in a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    Began,
    NeedsView,
    HasView,
    Judged,
    Granted,
    Entered,
    /// Only without the first half of rule 5: the operation was judged before it entered the ledger.
    LetIn,
    Inside,
}

/// The step of the writer, the process that changes facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Writer {
    Idle,
    CommittedRevocation,
    /// Only without the second half of rule 5: the ledger was read before the change to "offline" was committed.
    SawNobody,
    CommittedOffline,
    NobodyInside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    step: Step,
    /// Whether the revocation was acknowledged when this check began.
    began_after: bool,
    /// Store and revision of the last view of the process.
    view: Option<(u8, u8)>,
    /// For each store, one bit for each revision at which a grant is remembered.
    memo: [u8; 2],
    /// Store and revision of the index, and whether it contains the revocation.
    index: Option<(u8, u8, bool)>,
    /// Whether the process is counted in the ledger.
    counted: bool,
    /// Whether the process has the datastore's root open.
    handle: bool,
    /// The revision up to which the process has closed its handles.
    stamp: u8,
    checks: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    store: u8,
    newest: u8,
    facts: [Facts; REVISIONS],
    /// Whether the record of the revocation was lost by damage, so that a scan does not show it.
    lost: bool,
    revocation_acknowledged: bool,
    offline_complete: bool,
    writer: Writer,
    restored: bool,
    crashes: u8,
    processes: [Process; PROCESSES],
}

const START: Process = Process {
    step: Step::Idle,
    began_after: false,
    view: None,
    memo: [0, 0],
    index: None,
    counted: false,
    handle: false,
    stamp: 0,
    checks: 0,
};

impl World {
    fn start() -> Self {
        World {
            store: 0,
            newest: 0,
            facts: [Facts::default(); REVISIONS],
            lost: false,
            revocation_acknowledged: false,
            offline_complete: false,
            writer: Writer::Idle,
            restored: false,
            crashes: CRASHES,
            processes: [START; PROCESSES],
        }
    }

    fn now(&self) -> Facts {
        self.facts[usize::from(self.newest)]
    }

    fn commit(&mut self, change: impl Fn(&mut Facts)) -> bool {
        if usize::from(self.newest) + 1 == REVISIONS {
            return false;
        }
        let mut facts = self.now();
        change(&mut facts);
        self.newest += 1;
        self.facts[usize::from(self.newest)] = facts;
        true
    }

    /// The violated property, if any.
    fn wrong(&self) -> Option<&'static str> {
        let stale = |process: &Process| process.step == Step::Granted && process.began_after;
        if self.processes.iter().any(stale) {
            return Some("granted to a check that began after the revocation was acknowledged");
        }
        if self.offline_complete && self.processes.iter().any(|process| process.step == Step::Inside) {
            return Some("an operation runs in the datastore after it was reported to be offline");
        }
        if self.offline_complete && self.processes.iter().any(|process| process.handle) {
            return Some("a handle of the datastore is open after it was reported to be offline");
        }
        None
    }
}

struct Model {
    without: Option<Rule>,
    /// The maximum number of checks that each process makes.
    checks: [u8; PROCESSES],
}

/// The actor and its step; `None` is the writer or an accident.
type Label = (Option<usize>, &'static str);
type Next = Vec<(Label, World)>;

impl Model {
    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn next(&self, world: &World) -> Next {
        let mut next = Vec::new();
        self.writer(world, &mut next);
        self.accidents(world, &mut next);
        for (number, process) in world.processes.iter().enumerate() {
            self.process(world, number, process, &mut next);
        }
        next
    }

    fn writer(&self, world: &World, next: &mut Next) {
        let mut go = |what: &'static str, change: &dyn Fn(&mut World) -> bool| {
            let mut after = *world;
            if change(&mut after) {
                next.push(((None, what), after));
            }
        };
        match world.writer {
            Writer::Idle => {
                if !world.now().revoked {
                    go("the writer commits the revocation", &|world| {
                        world.writer = Writer::CommittedRevocation;
                        world.commit(|facts| facts.revoked = true)
                    });
                }
                if !world.now().offline && self.keeps(Rule::CommitThenRead) {
                    go("the writer commits that the datastore is offline", &|world| {
                        world.writer = Writer::CommittedOffline;
                        world.commit(|facts| facts.offline = true)
                    });
                } else if !world.now().offline {
                    go("the writer reads the ledger: no operation is active", &|world| {
                        world.writer = Writer::SawNobody;
                        world.processes.iter().all(|process| !process.counted)
                    });
                }
                if !world.now().revoked && !world.now().offline {
                    go("the writer commits something else", &|world| world.commit(|_| {}));
                }
            }
            Writer::CommittedRevocation => go("the writer acknowledges the revocation", &|world| {
                world.writer = Writer::Idle;
                world.revocation_acknowledged = true;
                true
            }),
            Writer::SawNobody => go("the writer commits that the datastore is offline", &|world| {
                world.writer = Writer::NobodyInside;
                world.commit(|facts| facts.offline = true)
            }),
            Writer::CommittedOffline => go("the writer reads the ledger: no operation is active", &|world| {
                world.writer = Writer::NobodyInside;
                world.processes.iter().all(|process| !process.counted)
            }),
            Writer::NobodyInside => {
                let waits = self.keeps(Rule::IdleProcessesFollow);
                go("the writer reports that the datastore is offline", &|world| {
                    world.writer = Writer::Idle;
                    world.offline_complete = true;
                    let newest = world.newest;
                    !waits || world.processes.iter().all(|process| process.stamp == newest)
                });
            }
        }
    }

    /// Accidents: crashes, damage, and a restore at any time.
    fn accidents(&self, world: &World, next: &mut Next) {
        if world.crashes > 0 {
            let crashed = World { crashes: world.crashes - 1, ..*world };
            if world.writer != Writer::Idle {
                next.push(((None, "the writer is killed"), World { writer: Writer::Idle, ..crashed }));
            }
            for (number, process) in world.processes.iter().enumerate() {
                let mut after = crashed;
                // The kernel frees the slot of a killed process and closes its handles. The restarted process has a new slot.
                after.processes[number] = Process { stamp: world.newest, checks: process.checks, ..START };
                next.push(((Some(number), "is killed and started again"), after));
            }
        }
        if world.now().revoked && !world.lost {
            next.push((
                (None, "the record of the revocation is lost on the disk"),
                World { lost: true, ..*world },
            ));
        }
        let is_quiet = world.writer == Writer::Idle && !world.offline_complete && !world.restored;
        if is_quiet && world.newest > 0 {
            let mut restore = |what: &'static str, facts: Facts| {
                let mut after = World { restored: true, newest: 1, lost: false, ..*world };
                after.facts = [Facts::default(); REVISIONS];
                after.facts[1] = facts;
                if self.keeps(Rule::NewStoreId) {
                    after.store = 1;
                }
                // A process that has a view of the old store gets an error, and takes a new view.
                for process in &mut after.processes {
                    process.stamp = 0;
                    if matches!(process.step, Step::HasView | Step::Judged) {
                        process.step = Step::NeedsView;
                    }
                }
                next.push(((None, what), after));
            };
            restore(
                "a backup of the present facts is restored, and later changes get revisions that were used before",
                world.now(),
            );
            if !self.keeps(Rule::NoGoingBack) && world.revocation_acknowledged {
                restore(
                    "a backup from before the revocation is restored",
                    Facts { revoked: false, ..world.now() },
                );
            }
        }
    }

    fn process(&self, world: &World, number: usize, process: &Process, next: &mut Next) {
        let mut go = |what: &'static str, change: &dyn Fn(&World, &mut Process) -> bool| {
            let mut after = *process;
            if change(world, &mut after) {
                let mut changed = *world;
                changed.processes[number] = after;
                next.push(((Some(number), what), changed));
            }
        };
        let bit = |revision: u8| 1u8 << revision;
        // A separate thread of the process makes this step, so the step does not depend on requests.
        go("sees the new revision, closes unused roots and stamps its slot", &|world, process| {
            let is_behind = process.stamp != world.newest;
            process.stamp = world.newest;
            process.handle &= !world.now().offline || process.step == Step::Inside;
            is_behind
        });
        match process.step {
            Step::Idle => {
                go("begins a check", &|world, process| {
                    process.step = Step::Began;
                    process.began_after = world.revocation_acknowledged;
                    process.checks += 1;
                    process.checks <= self.checks[number]
                });
            }
            Step::Began => go("asks its memo at the newest revision", &|world, process| {
                let known = process.memo[usize::from(world.store)] & bit(world.newest) != 0;
                let has_kept = !self.keeps(Rule::ShortViews) && process.view.is_some();
                process.step = match () {
                    () if known => Step::Granted,
                    // The process still has the view of its previous check.
                    () if has_kept => Step::HasView,
                    () => Step::NeedsView,
                };
                true
            }),
            Step::NeedsView => go("takes a view", &|world, process| {
                process.view = Some((world.store, world.newest));
                process.step = Step::HasView;
                true
            }),
            Step::HasView => {
                go("brings its index up to the view", &|world, process| {
                    let (store, revision) = process.view.unwrap();
                    let facts = if store == world.store {
                        world.facts[usize::from(revision)]
                    } else {
                        Facts::default()
                    };
                    process.step = Step::Judged;
                    process.index = match process.index {
                        Some(index) if !self.keeps(Rule::CatchUp) => Some(index),
                        // The index is ahead of the view, so the process must take another view.
                        Some((at_store, at, _)) if at_store == store && at > revision => {
                            process.step = Step::NeedsView;
                            process.index
                        }
                        Some((at_store, _, _)) if at_store == store => Some((store, revision, facts.revoked)),
                        // The index must be rebuilt from a scan of the table. With rule 4, the scan detects the lost record, and the check fails.
                        _ if world.lost && facts.revoked && self.keeps(Rule::VerifiedWhole) => {
                            process.step = Step::Idle;
                            None
                        }
                        _ => Some((store, revision, facts.revoked && !world.lost)),
                    };
                    true
                });
            }
            Step::Judged => go("remembers its decision and answers", &|world, process| {
                let is_revoked = process.index.is_none_or(|(_, _, revoked)| revoked);
                if is_revoked {
                    process.step = Step::Idle;
                    return true;
                }
                let (store, revision) = if self.keeps(Rule::RememberUnderTheView) {
                    process.view.unwrap()
                } else {
                    (world.store, world.newest)
                };
                process.memo[usize::from(store)] |= bit(revision);
                process.step = Step::Granted;
                true
            }),
            Step::Granted if self.keeps(Rule::EnterThenView) => go("enters the ledger", &|_, process| {
                process.counted = true;
                process.step = Step::Entered;
                true
            }),
            Step::Granted => go("takes a view, and the doors grant the request", &|world, process| {
                process.step = if world.now().offline { Step::Idle } else { Step::LetIn };
                true
            }),
            Step::Entered => go("takes a view, and the doors decide on it", &|world, process| {
                process.step = if world.now().offline { Step::Idle } else { Step::Inside };
                process.counted = process.step == Step::Inside;
                process.handle |= process.counted;
                true
            }),
            Step::LetIn => go("enters the ledger and opens the datastore", &|_, process| {
                (process.counted, process.handle, process.step) = (true, true, Step::Inside);
                true
            }),
            Step::Inside => go("leaves", &|world, process| {
                process.counted = false;
                process.step = Step::Idle;
                process.handle &= !world.now().offline;
                true
            }),
        }
    }

    fn explore(&self) -> Result<usize, Vec<String>> {
        explore(
            World::start(),
            |world| self.next(world),
            |(who, what)| who.map_or_else(|| what.to_owned(), |number| format!("process {number} {what}")),
            World::wrong,
        )
    }
}

#[test]
fn with_every_rule_no_order_of_steps_leads_to_a_wrong_grant() {
    // If one process checks twice and the other process checks once, the model has about 16 million states. Only the campaign explores all these
    // states.
    let is_campaign = std::env::var_os("ENFILADE_CAMPAIGN_N").is_some();
    for checks in if is_campaign { vec![[2, 1]] } else { vec![[2, 0], [1, 1]] } {
        let explored = Model { without: None, checks }.explore();
        let states = explored.unwrap_or_else(|way| panic!("{way:#?}"));
        println!("freshness: {states} states with {checks:?} checks, none of them wrong");
        assert!(states > 100_000, "{states}");
    }
}

#[test]
fn without_any_one_rule_there_is_a_way_to_a_wrong_grant_and_the_page_tells_it() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/freshness.md");
    let page = std::fs::read_to_string(page).unwrap_or_default();
    let mut untold = Vec::new();
    for rule in RULES {
        let way = Model { without: Some(rule), checks: [2, 1] }
            .explore()
            .expect_err(&format!("{rule:?} is not needed"));
        let story: String = way.iter().map(|step| format!("    {step}\n")).collect();
        println!("{rule:?}:\n{story}");
        if !page.contains(&story) {
            untold.push(rule);
        }
    }
    assert!(
        untold.is_empty(),
        "docs/freshness.md does not contain the steps that are printed above for {untold:?}"
    );
}
