//! A model of the protocol of a fleet (`docs/fleet-protocol.md`). Every order of its steps is checked. The model has etcd, a member that changes
//! facts, a member that serves requests, a reaper, and a clock. The page of the protocol defines words such as beat, head and reaper. Δ is how long a
//! proof counts. If any one rule is left out, the search finds and prints a sequence of steps to a wrong state. A wrong state is a wrong grant, a
//! deleted user who exists again, or two members that serve one datastore at the same time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]

use enfilade_testkit::search::explore;

/// A rule of the protocol that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// 1: a member grants requests only while the member has a proof that it is current. A watch that reports no change is no proof.
    ProveNotWatch,
    /// 2: the time of a proof is noted before the question is sent.
    NoteTimeThenAsk,
    /// 3: a proof counts only when the member has applied the head of the proof.
    ApplyThenCount,
    /// 4: a request reads the proof before it reads facts.
    ProofThenVerdict,
    /// 5: a change is acknowledged when every registered member applied it, or Δ after the commit.
    WaitThenAcknowledge,
    /// 6: etcd answers the question of a member only if the member is registered and has a beat.
    OnlyLivingMembers,
    /// 7: a registration is deleted only 2Δ after its beat vanished.
    ReapLate,
    /// 8: a registration is deleted only if its incarnation is still the same and it has no beat.
    ReapTheDead,
    /// 9: a member applies change after change. If the next change is not in the log any more, the member copies a store.
    NoGap,
    /// 10: the last applied change of a joining member is the last change in the store that the member copied.
    NumberOfTheCopy,
    /// 11: the commit of a member that follows files expects that this member is still elected.
    ExpectTheElection,
    /// 12: the commit of a member that takes a datastore over expects that the previous member has no registration.
    ExpectNoProcess,
}

const RULES: [Rule; 12] = [
    Rule::ProveNotWatch,
    Rule::NoteTimeThenAsk,
    Rule::ApplyThenCount,
    Rule::ProofThenVerdict,
    Rule::WaitThenAcknowledge,
    Rule::OnlyLivingMembers,
    Rule::ReapLate,
    Rule::ReapTheDead,
    Rule::NoGap,
    Rule::NumberOfTheCopy,
    Rule::ExpectTheElection,
    Rule::ExpectNoProcess,
];

/// The unit of time is Δ. The steps within one unit can have any order.
const DELTA: u8 = 1;
/// How long the model runs. All sequences in the documentation need less time. The campaign `fleet-model` runs the model for longer.
const TIME_MAX: u8 = 3;
/// The changes: the first is a revocation, the second is another change.
const CHANGES: u8 = 2;

/// The question of member B to etcd, which reads head, registration and beat at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
    None,
    /// The question was sent at this time.
    Sent(u8),
    /// etcd has read this head at this time, and the answer was not received yet.
    Answered(u8, u8),
}

/// The step of member B in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    Began,
    HasProof,
    /// Only without rule 4: the member made its decision before it read the proof.
    HasVerdict,
    Granted,
}

/// Member B, which serves requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Member {
    /// The number of the last applied change; `None` before the store is copied.
    applied: Option<u8>,
    /// Whether the store of the member has the revocation.
    revoked: bool,
    question: Question,
    /// An answer that does not count yet, because its head is not applied: the time and the head.
    pending: Option<(u8, u8)>,
    /// The time of the proof.
    fresh: Option<u8>,
    step: Step,
    /// Whether the revocation was acknowledged when the request began.
    began_after: bool,
}

/// The records of member B in etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Registration {
    is_there: bool,
    incarnation: u8,
    has_beat: bool,
    /// The time at which the reaper saw that the beat is gone, and the incarnation that the reaper saw.
    seen_dead: Option<(u8, u8)>,
}

/// The member that follows an edited file, and the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Following {
    elected: char,
    /// The content of the file that member A has read and not committed yet: whether the file contains the user.
    read_by_a: Option<bool>,
    file_has_user: bool,
    /// Whether the user was ever deleted from the facts.
    deleted: bool,
    came_back: bool,
}

/// A datastore that member B serves at the start. Each of the members B and C can take the datastore over from the other member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Takeover {
    home: char,
    /// Members B and C.
    members: [Candidate; 2],
    both_serve: bool,
}

/// A member that may serve the datastore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Candidate {
    is_registered: bool,
    /// The home according to the facts of this member.
    known_home: char,
    /// Whether this member saw that the other member has no registration.
    saw_no_process: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    now: u8,
    head: u8,
    /// The changes up to this number were removed from the log.
    trimmed: u8,
    /// When the revocation was committed.
    committed: Option<u8>,
    acknowledged: bool,
    b: Member,
    record: Registration,
    following: Following,
    takeover: Takeover,
}

/// The subject of a run of the model. Each scenario has its own start, so that the number of states stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// Member B runs, and its beat can vanish.
    Serving,
    /// Member B joins.
    Joining,
    /// Two members can follow a file.
    Files,
    /// Two members can serve a datastore.
    Takeover,
}

const SCENARIOS: [Scenario; 4] = [Scenario::Serving, Scenario::Joining, Scenario::Files, Scenario::Takeover];

impl World {
    fn start(scenario: Scenario) -> Self {
        let is_member = scenario != Scenario::Joining;
        World {
            now: 0,
            head: 0,
            trimmed: 0,
            committed: None,
            acknowledged: false,
            b: Member {
                applied: is_member.then_some(0),
                revoked: false,
                question: Question::None,
                pending: None,
                fresh: None,
                step: Step::Idle,
                began_after: false,
            },
            record: Registration {
                is_there: is_member,
                incarnation: 0,
                has_beat: is_member,
                seen_dead: None,
            },
            following: Following {
                elected: 'A',
                read_by_a: None,
                file_has_user: true,
                deleted: false,
                came_back: false,
            },
            takeover: Takeover {
                home: 'B',
                // The registration of member B was deleted.
                members: [false, true].map(|is_registered| Candidate {
                    is_registered,
                    known_home: 'B',
                    saw_no_process: false,
                }),
                both_serve: false,
            },
        }
    }

    /// The violated property, if any.
    fn wrong(&self) -> Option<&'static str> {
        match () {
            () if self.b.step == Step::Granted && self.b.began_after => {
                Some("member B grants a request that began after the revocation was acknowledged")
            }
            () if self.following.came_back => Some("a deleted user is back"),
            () if self.takeover.both_serve => Some("two members serve a datastore at the same time"),
            () => None,
        }
    }
}

struct Model {
    without: Option<Rule>,
    scenario: Scenario,
    time_max: u8,
}

type Next = Vec<(&'static str, World)>;

impl Model {
    fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn next(&self, world: &World) -> Next {
        let mut next = Vec::new();
        let mut go = |what: &'static str, change: &dyn Fn(&mut World) -> bool| {
            let mut then = *world;
            if change(&mut then) {
                next.push((what, then));
            }
        };
        match self.scenario {
            Scenario::Files => {
                self.files(&mut go);
                return next;
            }
            Scenario::Takeover => {
                self.takeover(&mut go);
                return next;
            }
            Scenario::Serving | Scenario::Joining => {}
        }
        go("the time Δ passes", &|world| {
            world.now += DELTA;
            world.now <= self.time_max
        });
        self.writer(world, &mut go);
        self.reaper(world, &mut go);
        self.proof(world, &mut go);
        self.replica(world, &mut go);
        self.request(world, &mut go);
        next
    }

    /// Member A, which changes facts.
    fn writer(&self, world: &World, go: &mut impl FnMut(&'static str, &dyn Fn(&mut World) -> bool)) {
        let what = if world.head == 0 {
            "member A commits the revocation"
        } else {
            "member A commits another change"
        };
        go(what, &|world| {
            world.head += 1;
            world.committed = world.committed.or(Some(world.now));
            world.head <= CHANGES
        });
        go("the revocation is acknowledged", &|world| {
            let Some(committed) = world.committed else { return false };
            let all_have = !world.record.is_there || world.b.applied >= Some(1);
            // Moments within one unit of time have no order. So only the unit after `committed + DELTA` is certainly later than Δ after the commit.
            let is_late = world.now > committed + DELTA;
            let is_new = !std::mem::replace(&mut world.acknowledged, true);
            is_new && (all_have || is_late || !self.keeps(Rule::WaitThenAcknowledge))
        });
        go("the log is trimmed", &|world| {
            let all_have = !world.record.is_there || world.b.applied >= Some(1);
            let is_new = std::mem::replace(&mut world.trimmed, 1) == 0;
            is_new && world.head == CHANGES && all_have
        });
    }

    /// The beat of member B, which ends if member B does not renew it, and the reaper, which can be any member.
    fn reaper(&self, world: &World, go: &mut impl FnMut(&'static str, &dyn Fn(&mut World) -> bool)) {
        go("the beat of member B vanishes", &|world| std::mem::take(&mut world.record.has_beat));
        if world.b.applied.is_some() {
            go("member B registers with a new beat", &|world| {
                let record = &mut world.record;
                let is_new = !record.has_beat && record.incarnation == 0;
                *record = Registration { is_there: true, incarnation: 1, has_beat: true, ..*record };
                is_new
            });
        }
        go("the reaper sees that member B has no beat", &|world| {
            let seen = (world.now, world.record.incarnation);
            !world.record.has_beat
                && world.record.is_there
                && world.record.seen_dead.replace(seen) != Some(seen)
        });
        go("the reaper deletes the registration of member B", &|world| {
            let Some((seen, incarnation)) = world.record.seen_dead.take() else { return false };
            let is_late = world.now >= seen + 2 * DELTA || !self.keeps(Rule::ReapLate);
            let is_same = !world.record.has_beat && incarnation == world.record.incarnation;
            let is_there = std::mem::take(&mut world.record.is_there);
            world.record.has_beat = false;
            is_there && is_late && (is_same || !self.keeps(Rule::ReapTheDead))
        });
    }

    /// The question with which member B asks etcd whether member B is current.
    fn proof(&self, world: &World, go: &mut impl FnMut(&'static str, &dyn Fn(&mut World) -> bool)) {
        match world.b.question {
            Question::None if world.b.applied.is_some() => go("member B asks etcd for the head", &|world| {
                world.b.question = Question::Sent(world.now);
                true
            }),
            Question::None => {}
            Question::Sent(at) => {
                go("etcd reads the head for member B", &|world| {
                    let lives = world.record.is_there && world.record.has_beat;
                    world.b.question = Question::Answered(at, world.head);
                    lives || !self.keeps(Rule::OnlyLivingMembers)
                });
                go("the question of member B is lost", &|world| {
                    world.b.question = Question::None;
                    true
                });
            }
            Question::Answered(at, head) => go("member B gets the answer", &|world| {
                let at = if self.keeps(Rule::NoteTimeThenAsk) { at } else { world.now };
                world.b.question = Question::None;
                match world.b.applied >= Some(head) || !self.keeps(Rule::ApplyThenCount) {
                    true => world.b.fresh = Some(at),
                    false => world.b.pending = Some((at, head)),
                }
                true
            }),
        }
    }

    /// The store of member B.
    fn replica(&self, world: &World, go: &mut impl FnMut(&'static str, &dyn Fn(&mut World) -> bool)) {
        let count = |b: &mut Member| {
            if let Some((at, head)) = b.pending
                && b.applied >= Some(head)
            {
                (b.fresh, b.pending) = (Some(at), None);
            }
        };
        match world.b.applied {
            None => go("member B copies the store of member A", &|world| {
                world.b.applied = Some(world.head);
                world.b.revoked = world.head >= 1;
                true
            }),
            Some(applied) if self.scenario == Scenario::Joining && !world.record.is_there => {
                go("member B registers", &|world| {
                    let record = Registration { is_there: true, has_beat: true, ..world.record };
                    let is_new = world.record.incarnation == 0
                        && !std::mem::replace(&mut world.record, record).is_there;
                    world.b.applied =
                        Some(if self.keeps(Rule::NumberOfTheCopy) { applied } else { world.head });
                    is_new
                });
            }
            Some(applied) if applied < world.head && applied >= world.trimmed => {
                go("member B applies the next change", &|world| {
                    world.b.applied = Some(applied + 1);
                    world.b.revoked |= applied == 0;
                    count(&mut world.b);
                    true
                });
            }
            Some(applied) if applied < world.head && self.keeps(Rule::NoGap) => {
                go("member B copies the store of member A", &|world| {
                    world.b.applied = Some(world.head);
                    world.b.revoked = true;
                    count(&mut world.b);
                    true
                });
            }
            Some(applied) if applied < world.head => {
                go("member B applies the next change in the log", &|world| {
                    world.b.applied = Some(world.trimmed + 1);
                    count(&mut world.b);
                    true
                })
            }
            Some(_) => {}
        }
    }

    /// A request to member B.
    fn request(&self, world: &World, go: &mut impl FnMut(&'static str, &dyn Fn(&mut World) -> bool)) {
        let is_current = |world: &World| {
            let is_fresh = world.b.fresh.is_some_and(|at| world.now <= at + DELTA);
            is_fresh || !self.keeps(Rule::ProveNotWatch)
        };
        let has_grant = |world: &World| world.b.applied.is_some() && !world.b.revoked;
        let mut to = |what: &'static str, step: Step, may: &dyn Fn(&World) -> bool| {
            go(what, &|world| {
                world.b.step = if may(world) { step } else { Step::Idle };
                true
            });
        };
        match world.b.step {
            Step::Idle => go("a request to member B begins", &|world| {
                world.b.step = Step::Began;
                world.b.began_after = world.acknowledged;
                true
            }),
            Step::Began if self.keeps(Rule::ProofThenVerdict) => {
                to("member B reads its proof", Step::HasProof, &is_current)
            }
            Step::Began => to("the doors of member B decide", Step::HasVerdict, &has_grant),
            Step::HasVerdict => to("member B reads its proof", Step::Granted, &is_current),
            Step::HasProof => to("the doors of member B decide", Step::Granted, &has_grant),
            Step::Granted => to("the request ends", Step::Idle, &|_| false),
        }
    }

    /// An edited file, which the elected member follows.
    fn files(&self, go: &mut impl FnMut(&'static str, &dyn Fn(&mut World) -> bool)) {
        go("an operator deletes the user from the file", &|world| {
            std::mem::replace(&mut world.following.file_has_user, false)
        });
        go("member A reads the file", &|world| {
            let file = world.following.file_has_user;
            world.following.elected == 'A' && world.following.read_by_a.replace(file) != Some(file)
        });
        go("member B is elected", &|world| std::mem::replace(&mut world.following.elected, 'B') == 'A');
        go("member B reads the file and commits that the user is deleted", &|world| {
            let following = &mut world.following;
            let is_new = !std::mem::replace(&mut following.deleted, true);
            is_new && following.elected == 'B' && !following.file_has_user
        });
        go("member A commits what it read", &|world| {
            let following = &mut world.following;
            let Some(has_user) = following.read_by_a.take() else { return false };
            if following.elected != 'A' && self.keeps(Rule::ExpectTheElection) {
                return true;
            }
            following.came_back = following.deleted && has_user;
            following.deleted |= !has_user;
            true
        });
    }

    /// A datastore that each of two members can take over from the other member.
    fn takeover(&self, go: &mut impl FnMut(&'static str, &dyn Fn(&mut World) -> bool)) {
        const STEPS: [[&str; 6]; 2] = [
            [
                "member B sees that member C has no registration",
                "member B registers",
                "member B commits that it serves the datastore",
                "member B begins a request for the datastore",
                "the registration of member B is deleted",
                "member B applies the newest change",
            ],
            [
                "member C sees that member B has no registration",
                "member C registers",
                "member C commits that it serves the datastore",
                "member C begins a request for the datastore",
                "the registration of member C is deleted",
                "member C applies the newest change",
            ],
        ];
        for (own, [sees, registers, commits, begins, ends, applies]) in STEPS.into_iter().enumerate() {
            let name = ['B', 'C'][own];
            let other = |takeover: &Takeover| takeover.members[1 - own].is_registered;
            go(sees, &|world| {
                let has_other = other(&world.takeover);
                let member = &mut world.takeover.members[own];
                member.is_registered && !has_other && !std::mem::replace(&mut member.saw_no_process, true)
            });
            go(registers, &|world| {
                // Before its first proof, a member applies all changes in the log.
                let known_home = world.takeover.home;
                let member = &mut world.takeover.members[own];
                let is_new = !member.is_registered;
                *member = Candidate { is_registered: true, known_home, saw_no_process: false };
                is_new
            });
            go(commits, &|world| {
                let may = !other(&world.takeover) || !self.keeps(Rule::ExpectNoProcess);
                let member = &mut world.takeover.members[own];
                let is_asked = member.is_registered && member.saw_no_process && member.known_home != name;
                (member.known_home, member.saw_no_process) = (name, false);
                // The commit also expects that the other member is still the home.
                is_asked && may && std::mem::replace(&mut world.takeover.home, name) != name
            });
            go(begins, &|world| {
                let member = world.takeover.members[own];
                world.takeover.both_serve = world.takeover.home != name;
                member.is_registered && member.known_home == name
            });
            go(ends, &|world| std::mem::take(&mut world.takeover.members[own].is_registered));
            go(applies, &|world| {
                let home = world.takeover.home;
                let member = &mut world.takeover.members[own];
                member.is_registered && std::mem::replace(&mut member.known_home, home) != home
            });
        }
    }

    fn explore(&self) -> Result<usize, Vec<String>> {
        explore(World::start(self.scenario), |world| self.next(world), str::to_owned, World::wrong)
    }
}

#[test]
fn with_every_rule_no_order_of_steps_leads_to_a_wrong_grant() {
    let is_campaign = std::env::var_os("ENFILADE_CAMPAIGN_N").is_some();
    let time_max = if is_campaign { TIME_MAX + 3 } else { TIME_MAX };
    for scenario in SCENARIOS {
        let explored = Model { without: None, scenario, time_max }.explore();
        let states = explored.unwrap_or_else(|way| panic!("{way:#?}"));
        println!("fleet: {states} states of {scenario:?}, none of them wrong");
        assert!(states > 10, "{states}");
    }
}

#[test]
fn without_any_one_rule_there_is_a_way_to_a_wrong_grant_and_the_page_tells_it() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet-protocol.md");
    let page = std::fs::read_to_string(page).unwrap_or_default();
    let mut untold = Vec::new();
    for rule in RULES {
        let ways = SCENARIOS
            .map(|scenario| Model { without: Some(rule), scenario, time_max: TIME_MAX }.explore().err());
        let way = ways.into_iter().flatten().min_by_key(Vec::len);
        let way = way.unwrap_or_else(|| panic!("{rule:?} is not needed"));
        let story: String = way.iter().map(|step| format!("    {step}\n")).collect();
        println!("{rule:?}:\n{story}");
        if !page.contains(&story) {
            untold.push(rule);
        }
    }
    assert!(
        untold.is_empty(),
        "docs/fleet-protocol.md does not contain the steps that are printed above for {untold:?}"
    );
}
