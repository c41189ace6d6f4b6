//! Imports from a Keystone.

use enfilade_admin::Imported;
use enfilade_admin::keystone::{
    CloudRecord, CloudTerms, FederationRecord, ServiceRecord, endpoints_of_project, import_cloud, limits_of,
    policy_of_endpoint,
};
use enfilade_facts::Read;
use enfilade_facts::tables::{
    Domain, Endpoint, EndpointFilterKey, EndpointGroup, GroupFilters, GroupRegion, IdentityProvider,
    IdentityProviderId, Interface, Limit, LimitOwner, MappingId, Policy, PolicyAssociation, PolicyTarget,
    Project, Protocol, ProtocolKey, Region, RegionId, RegisteredLimit, RemoteId, RemoteIdOwner, Selected,
    Service, ServiceProvider, ServiceProviderId,
};
use enfilade_facts::vocabulary::{
    DomainId, EndpointGroupId, EndpointId, LimitId, PolicyId, ProjectId, RegisteredLimitId, ServiceId,
};
use enfilade_testkit::{Remembering, TestHouse};

pub(crate) const DOMAIN: DomainId = DomainId::from_bytes([1; 16]);
pub(crate) const PROJECT: ProjectId = ProjectId::from_bytes([2; 16]);
const SERVICE: ServiceId = ServiceId::from_bytes([3; 16]);
const ENDPOINT: EndpointId = EndpointId::from_bytes([4; 16]);
const POLICY: PolicyId = PolicyId::from_bytes([5; 16]);
const GROUP: EndpointGroupId = EndpointGroupId::from_bytes([6; 16]);

fn east() -> RegionId {
    RegionId("east".to_owned())
}

pub(crate) fn domain() -> CloudRecord {
    CloudRecord::Domain(DOMAIN, Domain::new("cloud".parse().unwrap()))
}

pub(crate) fn project() -> CloudRecord {
    let project = Project {
        domain: DOMAIN,
        parent: None,
        name: "p".to_owned(),
        enabled: true,
        description: None,
        tags: Vec::new(),
    };
    CloudRecord::Project(PROJECT, project)
}

pub(crate) fn import(house: &TestHouse, things: &[CloudRecord], pretend: bool) -> Vec<Imported> {
    import_with(house, things, CloudTerms { pretend, restore_deleted: false })
}

pub(crate) fn import_with(house: &TestHouse, things: &[CloudRecord], terms: CloudTerms) -> Vec<Imported> {
    import_cloud(&house.change_context(), things, terms, |_| {}).unwrap()
}

/// Checks that the record was imported, or left out for a reason with this text.
pub(crate) fn is_left(item: &Imported, why: Option<&str>) {
    let left = item.left_out.as_deref();
    assert!(left.is_some() == why.is_some(), "{item:?}");
    assert!(why.is_none_or(|why| left.is_some_and(|left| left.contains(why))), "{item:?}");
}

fn catalog() -> Vec<CloudRecord> {
    let service =
        Service { kind: "volume".to_owned(), name: "store".to_owned(), enabled: true, description: None };
    let endpoint = Endpoint {
        service: SERVICE,
        interface: Interface::Public,
        region: Some("east".to_owned()),
        url: "https://store".to_owned(),
        enabled: true,
    };
    vec![
        domain(),
        project(),
        CloudRecord::Region(east(), Region::default()),
        CloudRecord::Service(SERVICE, service),
        CloudRecord::Endpoint(ENDPOINT, endpoint),
    ]
}

fn registered(n: u8, service: ServiceId, region: Option<RegionId>, resource: &str) -> ServiceRecord {
    let resource = resource.to_owned();
    let row = RegisteredLimit { service, region, resource, default: 5, description: None };
    ServiceRecord::RegisteredLimit(RegisteredLimitId::from_bytes([n; 16]), row)
}

fn limit(n: u8, registered: u8, owner: LimitOwner) -> ServiceRecord {
    let registered = RegisteredLimitId::from_bytes([registered; 16]);
    ServiceRecord::Limit(
        LimitId::from_bytes([n; 16]),
        Limit { registered, owner, value: -1, description: None },
    )
}

fn association(target: PolicyTarget, policy: PolicyId) -> ServiceRecord {
    ServiceRecord::Association(target, PolicyAssociation { policy })
}

fn filter(project: ProjectId, selected: Selected) -> ServiceRecord {
    ServiceRecord::EndpointFilter(EndpointFilterKey { project, selected })
}

/// Records about services for the import: each record with its name in the report, and the reason for which it is left out (`None`: it is imported).
fn for_services() -> Vec<(ServiceRecord, &'static str, Option<&'static str>)> {
    let nobody = [200; 16];
    let owner = LimitOwner::Project(PROJECT);
    let filters = GroupFilters { region: Some(GroupRegion::Without), ..GroupFilters::default() };
    let group = EndpointGroup { name: "g".to_owned(), description: None, filters };
    let policy = |blob: String| Policy { kind: "text".to_owned(), blob };
    let in_east = PolicyTarget::InRegion(SERVICE, east());
    vec![
        (registered(10, SERVICE, None, "disks"), "disks of service store", None),
        (registered(11, SERVICE, Some(east()), "disks"), "disks of service store in region east", None),
        (registered(12, SERVICE, None, "disks"), "disks of service store", Some("another registered limit")),
        (registered(13, SERVICE, None, " "), "  of service store", Some("empty")),
        (registered(14, ServiceId::from_bytes(nobody), None, "x"), "x of service", Some("service c8c8")),
        (registered(15, SERVICE, Some(RegionId("x".into())), "x"), "x of service", Some("region x")),
        (limit(20, 10, owner), "disks of project p@cloud", None),
        (limit(21, 11, owner), "disks of project p@cloud", None),
        (limit(22, 10, LimitOwner::Domain(DOMAIN)), "disks of domain cloud", None),
        (limit(23, 10, owner), "disks of project p@cloud", Some("another limit")),
        (limit(24, 13, owner), "of project p@cloud", Some("registered limit of the limit does not exist")),
        (limit(25, 10, LimitOwner::Domain(DomainId::from_bytes(nobody))), "disks", Some("project or domain")),
        (ServiceRecord::Policy(POLICY, policy("{}".to_owned())), "0505", None),
        (
            ServiceRecord::Policy(PolicyId::from_bytes([30; 16]), policy("x".repeat(1 << 17))),
            "1e1e",
            Some("at most"),
        ),
        (association(in_east.clone(), POLICY), "of service store in region east", None),
        (association(in_east, PolicyId::from_bytes([30; 16])), "1e1e", Some("the policy 1e1e")),
        (
            association(PolicyTarget::Endpoint(EndpointId::from_bytes(nobody)), POLICY),
            "",
            Some("endpoint c8c8"),
        ),
        (ServiceRecord::EndpointGroup(GROUP, group), "g", None),
        (filter(PROJECT, Selected::Endpoint(ENDPOINT)), "endpoint https://store for project p@cloud", None),
        (filter(PROJECT, Selected::Group(GROUP)), "endpoint group g for project p@cloud", None),
        (
            filter(ProjectId::from_bytes(nobody), Selected::Group(GROUP)),
            "g for",
            Some("project of the filter"),
        ),
        (
            filter(PROJECT, Selected::Group(EndpointGroupId::from_bytes(nobody))),
            "",
            Some("endpoint group of"),
        ),
    ]
}

#[test]
fn limits_policies_and_endpoint_filters_are_imported_once() {
    let house = TestHouse::new(Remembering::AsServed);
    let rows = for_services();
    let catalog = catalog();
    let records = rows.iter().map(|(record, ..)| CloudRecord::ForServices(record.clone()));
    let things: Vec<_> = catalog.iter().cloned().chain(records).collect();
    for pretend in [true, false] {
        let report = import(&house, &things, pretend);
        assert_eq!(report.len(), things.len());
        assert!(report[..catalog.len()].iter().all(|item| item.left_out.is_none()), "{report:?}");
        for ((_, name, why), item) in rows.iter().zip(&report[catalog.len()..]) {
            assert!(item.name.contains(name), "{name}: {item:?}");
            is_left(item, *why);
        }
    }
    assert!(import(&house, &things, false).iter().all(|item| item.left_out.is_some()));
    house
        .facts()
        .read(|view| {
            let of = |owner| limits_of(view, &owner).unwrap().len();
            assert_eq!((of(LimitOwner::Project(PROJECT)), of(LimitOwner::Domain(DOMAIN))), (2, 1));
            let endpoint = view.get::<Endpoint>(&ENDPOINT).unwrap().unwrap();
            let policy = policy_of_endpoint(view, &ENDPOINT, &endpoint).unwrap();
            assert_eq!(policy.map(|(id, _)| id), Some(POLICY));
            assert_eq!(endpoints_of_project(view, &PROJECT).unwrap(), [(ENDPOINT, endpoint)]);
        })
        .unwrap();
}

fn provider(id: &str, domain: DomainId, remote_id: &str) -> FederationRecord {
    let (description, remote_ids) = (None, vec![remote_id.to_owned()]);
    let row = IdentityProvider { domain, enabled: true, description, remote_ids, authorization_ttl: Some(1) };
    FederationRecord::IdentityProvider(IdentityProviderId(id.to_owned()), row)
}

fn protocol(provider: &str) -> FederationRecord {
    let provider = IdentityProviderId(provider.to_owned());
    let key = ProtocolKey { provider, protocol: "saml2".to_owned() };
    let mapping = MappingId("gone".to_owned());
    FederationRecord::Protocol(key, Protocol { mapping, remote_id_attribute: None })
}

fn service_provider(id: &str, sp_url: &str) -> FederationRecord {
    let row = ServiceProvider {
        auth_url: "https://x/v3".to_owned(),
        sp_url: sp_url.to_owned(),
        enabled: true,
        description: None,
        relay_state_prefix: String::new(),
    };
    FederationRecord::ServiceProvider(ServiceProviderId(id.to_owned()), row)
}

#[test]
fn federation_is_imported_once() {
    let house = TestHouse::new(Remembering::AsServed);
    let rows = [
        (provider("one", DOMAIN, "urn:one"), "one", None),
        (provider("two", DOMAIN, "urn:one"), "two", Some("remote id urn:one")),
        (provider("two", DomainId::from_bytes([200; 16]), "urn:two"), "two", Some("domain of the provider")),
        (provider("two", DOMAIN, ""), "two", Some("a remote id is empty")),
        (provider("a/b", DOMAIN, "urn:two"), "a/b", Some("`/`")),
        (protocol("one"), "one/saml2", None),
        (protocol("two"), "two/saml2", Some("identity provider does not exist")),
        (service_provider("beta", "https://x/sp"), "beta", None),
        (service_provider("gamma", "x"), "gamma", Some("sp_url")),
    ];
    let records = rows.iter().map(|(record, ..)| CloudRecord::Federation(record.clone()));
    let things: Vec<_> = std::iter::once(domain()).chain(records).collect();
    for pretend in [true, false] {
        for ((_, name, why), item) in rows.iter().zip(&import(&house, &things, pretend)[1..]) {
            assert_eq!(item.name, *name, "{item:?}");
            is_left(item, *why);
        }
    }
    assert!(import(&house, &things, false).iter().all(|item| item.left_out.is_some()));
    let owner = |view: &enfilade_facts::View<'_>| view.get::<RemoteIdOwner>(&RemoteId("urn:one".to_owned()));
    let owner = house.facts().read(owner).unwrap().unwrap();
    assert_eq!(owner.map(|owner| owner.provider.0).as_deref(), Some("one"));
}
