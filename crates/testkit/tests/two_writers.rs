//! Two servers change records at the same time, and the records depend on each other. No record stays after a record that it refers to was deleted,
//! and no rule for the records is broken.

#![allow(clippy::unwrap_used, reason = "tests")]

use enfilade_admin::keystone::{
    RecordId, add_domain, add_endpoint, add_project, add_region, add_role, add_service, delete,
    remove_endpoint, remove_service, save, set_association, set_filter, set_implied,
};
use enfilade_admin::{ChangeContext, Error};
use enfilade_facts::tables::{
    Endpoint, EndpointFilter, EndpointFilterKey, Interface, NamedRole, Policy, PolicyAssociation,
    PolicyTarget, Region, RegionId, Selected,
};
use enfilade_facts::vocabulary::{EndpointId, PolicyId, ProjectId, ServiceId};
use enfilade_facts::{Clocks, MirrorHealth, Read};
use enfilade_testkit::CountedFacts;

const NOW: Clocks = Clocks { unix_seconds: 1_000_000, tick_millis: 0, mirror: MirrorHealth::Current };

/// A service with an endpoint, a region without an endpoint, a project and a policy.
struct World {
    facts: CountedFacts,
    service: ServiceId,
    endpoint: EndpointId,
    project: ProjectId,
    policy: PolicyId,
}

fn region() -> RegionId {
    RegionId("east".to_owned())
}

impl World {
    fn new() -> Self {
        let facts = CountedFacts::new();
        let ctx = facts.change_context(NOW);
        let domain = "Default".parse().unwrap();
        add_domain(&ctx, &domain, None).unwrap();
        let project = add_project(&ctx, &domain, "a", None).unwrap().0;
        let service = add_service(&ctx, "image", "glance").unwrap().0.id;
        add_region(&ctx, "east").unwrap();
        let endpoint = add_endpoint(&ctx, &service, Interface::Public, None, "https://x").unwrap().0;
        let row = Policy { kind: "text".to_owned(), blob: "x".to_owned() };
        let policy = save(&ctx, &RecordId::New, &|_| Ok((row.clone(), String::new()))).unwrap().id;
        World { facts, service, endpoint, project, policy }
    }

    /// Makes a change. Right before its commit, another server makes another change.
    fn both(
        &self,
        own: impl FnOnce(&ChangeContext<'_>) -> Result<(), Error>,
        other: impl FnOnce(&ChangeContext<'_>) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        self.facts.before_next_commit(NOW, |ctx| other(ctx).unwrap());
        own(&self.facts.change_context(NOW))
    }

    fn count<R: enfilade_facts::tables::Row>(&self) -> usize {
        self.facts.read(|view| view.list::<R>(&[])).unwrap().unwrap().len()
    }
}

#[test]
fn no_association_outlives_what_it_names() {
    type Do = fn(&ChangeContext<'_>, &ServiceId, &EndpointId, &PolicyId) -> Result<(), Error>;
    let deletions: [(&str, Do); 4] = [
        ("service", |ctx, service, _, _| remove_service(ctx, service).map(drop)),
        ("endpoint", |ctx, _, endpoint, _| remove_endpoint(ctx, endpoint).map(drop)),
        ("policy", |ctx, _, _, policy| delete::<Policy>(ctx, policy).map(drop)),
        ("region", |ctx, _, _, _| delete::<Region>(ctx, &region()).map(drop)),
    ];
    for (what, delete) in deletions {
        for is_set_first in [true, false] {
            let world = World::new();
            let (service, endpoint, policy) = (world.service, world.endpoint, world.policy);
            let target = match what {
                "endpoint" => PolicyTarget::Endpoint(endpoint),
                "policy" => PolicyTarget::Service(service),
                _ => PolicyTarget::InRegion(service, region()),
            };
            let set = move |ctx: &ChangeContext<'_>| set_association(ctx, &target, &policy, true);
            let delete = move |ctx: &ChangeContext<'_>| delete(ctx, &service, &endpoint, &policy);
            let done = match is_set_first {
                true => world.both(delete, set),
                false => world.both(set, delete),
            };
            assert_eq!(done.is_ok(), is_set_first, "{what}: {done:?}");
            assert_eq!(world.count::<PolicyAssociation>(), 0, "{what}");
        }
    }
}

#[test]
fn no_endpoint_outlives_its_service_or_region() {
    let add = |service| {
        move |ctx: &ChangeContext<'_>| {
            add_endpoint(ctx, &service, Interface::Admin, Some("east"), "https://y").map(drop)
        }
    };
    let world = World::new();
    let service = world.service;
    world.both(move |ctx| remove_service(ctx, &service).map(drop), add(service)).unwrap();
    assert_eq!(world.count::<Endpoint>(), 0);

    let world = World::new();
    let done = world.both(|ctx| delete::<Region>(ctx, &region()).map(drop), add(world.service));
    assert!(matches!(done, Err(Error::Refused(_))), "{done:?}");
    assert_eq!((world.count::<Endpoint>(), world.count::<Region>()), (2, 1));
}

#[test]
fn no_filter_outlives_its_endpoint() {
    let world = World::new();
    let (endpoint, project) = (world.endpoint, world.project);
    let key = EndpointFilterKey { project, selected: Selected::Endpoint(endpoint) };
    let set = move |ctx: &ChangeContext<'_>| set_filter(ctx, &key, true);
    world.both(move |ctx| remove_endpoint(ctx, &endpoint).map(drop), set).unwrap();
    assert_eq!(world.count::<EndpointFilter>(), 0);
}

#[test]
fn two_regions_are_not_put_into_each_other() {
    let world = World::new();
    add_region(&world.facts.change_context(NOW), "west").unwrap();
    let put = |one: &'static str, into: &'static str| {
        move |ctx: &ChangeContext<'_>| {
            let id = RecordId::Existing(RegionId(one.to_owned()));
            let row = Region { parent: Some(RegionId(into.to_owned())), ..Region::default() };
            save(ctx, &id, &|_| Ok((row.clone(), String::new()))).map(drop)
        }
    };
    let done = world.both(put("east", "west"), put("west", "east"));
    assert!(matches!(done, Err(Error::Invalid(_))), "{done:?}");
}

#[test]
fn a_role_that_is_renamed_to_admin_is_not_implied_meanwhile() {
    for is_renamed_first in [true, false] {
        let world = World::new();
        let ctx = world.facts.change_context(NOW);
        let (lead, help) = (add_role(&ctx, "lead", None).unwrap().0, add_role(&ctx, "help", None).unwrap().0);
        let imply = move |ctx: &ChangeContext<'_>| set_implied(ctx, &lead, &help, true).map(drop);
        let rename = move |ctx: &ChangeContext<'_>| {
            let named = |before: &NamedRole| NamedRole { name: "admin".to_owned(), ..before.clone() };
            let build = |before: Option<(&NamedRole, &str)>| Ok((named(before.unwrap().0), String::new()));
            save(ctx, &RecordId::Existing(help), &build).map(drop)
        };
        let done = match is_renamed_first {
            true => world.both(imply, rename),
            false => world.both(rename, imply),
        };
        assert!(matches!(done, Err(Error::Refused(_))), "{is_renamed_first}: {done:?}");
    }
}
