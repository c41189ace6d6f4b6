//! Tests that the work of a request that creates limits grows only with the number of its limits. The test counts the reads of the store.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::keystone::{
    NewLimit, add_domain, add_project, add_service, create_limits, create_registered_limits,
};
use enfilade_admin::{ChangeContext, LimitModel};
use enfilade_facts::tables::{LimitOwner, RegisteredLimit};
use enfilade_facts::vocabulary::{DomainId, ServiceId};
use enfilade_facts::{Clocks, MirrorHealth};
use enfilade_testkit::CountedFacts;

struct World {
    facts: CountedFacts,
    model: LimitModel,
}

impl World {
    fn ctx(&self) -> ChangeContext<'_> {
        let now = Clocks { unix_seconds: 1_000_000, tick_millis: 0, mirror: MirrorHealth::Current };
        ChangeContext { limit_model: self.model, ..self.facts.change_context(now) }
    }

    fn reads<R>(&self, act: impl FnOnce(&ChangeContext<'_>) -> R) -> u64 {
        let before = self.facts.reads();
        act(&self.ctx());
        self.facts.reads() - before
    }
}

fn registered(service: ServiceId, n: usize) -> RegisteredLimit {
    RegisteredLimit { service, region: None, resource: format!("r{n}"), default: 10, description: None }
}

fn limit(service: ServiceId, n: usize, owner: LimitOwner) -> NewLimit {
    NewLimit { service, region: None, resource: format!("r{n}"), owner, value: 5, description: None }
}

/// The numbers of reads of three requests. The first request creates `n` limits of a project that has `stored` limits, the second creates `n` limits
/// of its domain, and the third creates `n` more registered limits. The store has `stored + n` registered limits.
fn reads(model: LimitModel, stored: usize, n: usize) -> [u64; 3] {
    let world = World { facts: CountedFacts::new(), model };
    let ctx = world.ctx();
    let domain = "Default".parse().unwrap();
    add_domain(&ctx, &domain, Some(DomainId::DEFAULT)).unwrap();
    let busy = add_project(&ctx, &domain, "busy", None).unwrap().0;
    let service = add_service(&ctx, "volume", "cinder").unwrap().0.id;
    let first: Vec<_> = (0..stored + n).map(|n| registered(service, n)).collect();
    create_registered_limits(&ctx, &first).unwrap();
    let busy = |n| limit(service, n, LimitOwner::Project(busy));
    create_limits(&ctx, &(n..stored + n).map(busy).collect::<Vec<_>>()).unwrap();

    let of_project: Vec<_> = (0..n).map(busy).collect();
    let of_domain: Vec<_> =
        (0..n).map(|n| limit(service, n, LimitOwner::Domain(DomainId::DEFAULT))).collect();
    let further: Vec<_> = (stored + n..stored + 2 * n).map(|n| registered(service, n)).collect();
    [
        world.reads(|ctx| create_limits(ctx, &of_project).unwrap()),
        world.reads(|ctx| create_limits(ctx, &of_domain).unwrap()),
        world.reads(|ctx| create_registered_limits(ctx, &further).unwrap()),
    ]
}

#[test]
fn each_further_limit_costs_the_same_in_a_store_of_any_size() {
    for model in LimitModel::ALL {
        let further = |stored| {
            let (few, many) = (reads(model, stored, 10), reads(model, stored, 30));
            std::array::from_fn::<_, 3, _>(|at| many[at] - few[at])
        };
        let (small, large) = (further(50), further(500));
        assert_eq!(small, large, "{model:?}");
        assert!(small.iter().all(|reads| *reads < 20 * 40), "{model:?}: {small:?}");
        // Each record that the request depends on is read a few times at most, and not once for each limit.
        let whole = reads(model, 500, 30);
        assert!(whole.iter().all(|reads| *reads < 530 * 8 + 30 * 40), "{model:?}: {whole:?}");
    }
}
