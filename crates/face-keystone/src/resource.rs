//! The calls that every kind of resource has: create, list, show, update and delete. Each kind implements the parts of [`Resource`] that differ
//! between kinds, and has one row in the table of routes.

use super::listing::{self, Each, Filters, plain, records};
use super::request_body::{RequestBody, has_option, invalid};
use super::schema::Schema;
use super::{ApiError, ApiResponse, Call, Outcome, query};
use enfilade_admin::keystone::{RecordId, Saved, StoredResource, delete as delete_stored, extra_of, save};
use enfilade_admin::{ChangeContext, Error};
use enfilade_faces::percent::push_name;
use enfilade_facts::View;
use enfilade_facts::tables::{BlobId, Domain, Key, Name, NameKey, NameKind, RegionId, ResourceKind, Row};
use enfilade_facts::vocabulary::{
    ConsumerId, DomainId, EndpointGroupId, EndpointId, GroupId, LimitId, PolicyId, ProjectId,
    RegisteredLimitId, RoleId, ServiceId, UserId,
};
use enfilade_passage::{About, ApiPermit, Party};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// An id in a path, a body or a marker.
pub(super) trait Id: Key + Clone + 'static {
    fn from_text(text: &str) -> Option<Self>;
    fn to_text(&self) -> String;
}

macro_rules! hexadecimal {
    ($($id:ty),*) => {$(
        impl Id for $id {
            fn from_text(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn to_text(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
hexadecimal!(
    BlobId,
    ConsumerId,
    EndpointGroupId,
    EndpointId,
    GroupId,
    LimitId,
    PolicyId,
    ProjectId,
    RegisteredLimitId,
    RoleId,
    ServiceId,
    UserId
);

impl Id for DomainId {
    fn from_text(text: &str) -> Option<Self> {
        DomainId::from_keystone(text).ok()
    }
    fn to_text(&self) -> String {
        self.to_keystone()
    }
}

impl Id for RegionId {
    fn from_text(text: &str) -> Option<Self> {
        Some(RegionId(text.to_owned()))
    }
    fn to_text(&self) -> String {
        self.0.clone()
    }
}

/// How the resources of a kind are listed by domain and found by name. Only kinds with names that are unique within a domain have this value.
pub(super) struct InDomain<R: Row> {
    pub(super) names: NameKind,
    pub(super) id: fn(Name) -> R::Key,
    pub(super) place: fn(&R) -> (DomainId, &str),
}

/// A condition in a list request that is checked on the record itself.
pub(super) type Selection<R> = Box<dyn Fn(&R) -> bool + Send>;

/// Applies a request body to a record.
type ChangeRecord<R> = fn(&ChangeContext<'_>, &Record<R>, &RequestBody) -> Result<Record<R>, Error>;

/// The functions that change and delete records of a kind.
pub(super) struct Store<R: Row> {
    pub(super) change: ChangeRecord<R>,
    pub(super) delete: fn(&ChangeContext<'_>, &Record<R>) -> Result<(), Error>,
}

impl<R: Resource + StoredResource> Store<R> {
    /// The functions for most kinds: each resource is one record with additional attributes.
    pub(super) const BY_ID: Self = Store {
        change: |ctx, record, given| {
            let id = RecordId::Existing(record.id.clone());
            Ok(save(ctx, &id, &|before| edited(given, before, None))?.into())
        },
        delete: |ctx, record| delete_stored::<R>(ctx, &record.id).map(drop),
    };
}

/// Adds a member to a JSON object, or replaces it.
pub(super) fn add(body: &mut Value, name: &str, value: Value) {
    if let Some(object) = body.as_object_mut() {
        object.insert(name.to_owned(), value);
    }
}

/// A record with its id and its additional attributes.
pub(super) struct Record<R: Row> {
    pub(super) id: R::Key,
    pub(super) row: R,
    pub(super) extra: Map<String, Value>,
}

impl<R: Row> Record<R> {
    /// A record without additional attributes.
    pub(super) fn bare(id: R::Key, row: R) -> Self {
        Record { id, row, extra: Map::new() }
    }
}

impl<R: Row> From<Saved<R::Key, R>> for Record<R> {
    fn from(saved: Saved<R::Key, R>) -> Self {
        Record { id: saved.id, row: saved.row, extra: attributes(&saved.extra) }
    }
}

/// Parses stored additional attributes. If the text is not a JSON object, the result is empty.
pub(super) fn attributes(stored: &str) -> Map<String, Value> {
    serde_json::from_str(stored).unwrap_or_default()
}

/// A kind of resource. The kinds implement the parts in which they differ. The provided methods are the calls of the API.
pub(super) trait Resource: Row<Key: Id> + Clone + 'static {
    /// The names and attributes of the kind in bodies.
    const SCHEMA: Schema;
    /// The kind under which additional attributes are stored; `None` if the kind has no additional attributes.
    const KIND: Option<ResourceKind>;
    /// Whether the kind has options, such as `immutable`.
    const HAS_OPTIONS: bool = true;
    /// Whether an id in a path is percent-decoded.
    const DECODES_ID: bool = false;
    /// For kinds that belong to an extension of the API, the part of the path before the name of the collection.
    const UNDER: &'static str = "";
    /// How resources are listed by domain and found by name, if their names are unique within a domain.
    const IN_DOMAIN: Option<InDomain<Self>> = None;
    /// How a body changes a record of the kind, and how a record is deleted.
    const STORE: Store<Self>;
    /// The query parameters that [`Resource::selection`] reads.
    const FILTERS: &'static [&'static str] = &[];

    /// The attributes of the record in a response, without `id`, `options` and `links`.
    fn attributes(&self) -> Value;

    /// Sets the attributes that the body has.
    fn change(&mut self, given: &RequestBody) -> Result<(), Error>;

    /// Refuses a body that would change a fixed attribute.
    fn keeps(&self, _given: &RequestBody) -> Result<(), Error> {
        Ok(())
    }

    /// The properties of a resource that the authorization rules need.
    fn about<'a>(&'a self, _id: &'a Self::Key) -> About<'a> {
        About::default()
    }

    /// The properties that the authorization rules use if the resource does not exist.
    fn about_missing() -> About<'static> {
        About::default()
    }

    /// The user or group that a change of the resource affects.
    fn party(_id: &Self::Key) -> Option<Party<'_>> {
        None
    }

    /// The user or group that a request affects when it gives a record the name `_name`.
    fn party_named(_name: &str) -> Option<Party<'_>> {
        None
    }

    /// The condition of a list request, from the parameters in [`Resource::FILTERS`].
    fn selection(_call: &Call) -> Result<Selection<Self>, ApiError> {
        Ok(Box::new(|_| true))
    }

    /// Sets the attributes of the record that depend on the present time `_now`, in seconds. The caller calls this function before it shows the
    /// record in a response.
    fn see(&mut self, _view: &View<'_>, _id: &Self::Key, _now: i64) -> Result<(), ApiError> {
        Ok(())
    }

    /// Reads the additional attributes of a record.
    fn extra(view: &View<'_>, id: &Self::Key) -> Result<Map<String, Value>, ApiError> {
        let stored = Self::KIND.map(|kind| extra_of(view, kind, id)).transpose()?;
        Ok(stored.as_deref().map(attributes).unwrap_or_default())
    }

    /// Creates a record.
    fn create(call: &mut Call) -> Outcome;

    /// Finds a record by id. A record in a removed domain counts as removed.
    fn find(view: &View<'_>, text: &str) -> Result<Option<(Self::Key, Self)>, ApiError> {
        let Some(id) = Self::Key::from_text(text) else { return Ok(None) };
        let Some(row) = view.get::<Self>(&id)? else { return Ok(None) };
        let exists = match Self::IN_DOMAIN {
            Some(InDomain { place, .. }) => view.get::<Domain>(&place(&row).0)?.is_some(),
            None => true,
        };
        Ok(exists.then_some((id, row)))
    }

    /// The id in the path.
    fn said(call: &Call) -> String {
        if Self::DECODES_ID { call.decoded(0) } else { call.parameter(0).to_owned() }
    }

    /// The record in the path, and the permit for the call. The authorization rule is checked before a 404 response. Otherwise an unauthorized caller
    /// would learn whether the record exists.
    fn found(call: &mut Call) -> Result<(Record<Self>, ApiPermit), ApiError> {
        let said = Self::said(call);
        let now = call.now();
        let found = call.look(|view| {
            let Some((id, mut row)) = Self::find(view, &said)? else { return Ok(None) };
            row.see(view, &id, now)?;
            let extra = Self::extra(view, &id)?;
            Ok(Some(Record { id, row, extra }))
        })?;
        let Some(found) = found else {
            return Err(Self::unseen(call, &said));
        };
        let party = Self::party(&found.id);
        let permit = call.allow(&About { changes: party.as_slice(), ..found.row.about(&found.id) })?;
        Ok((found, permit))
    }

    /// The error of a call about a record that does not exist, or that the caller is not permitted to see.
    fn unseen(call: &mut Call, said: &str) -> ApiError {
        let missing = ApiError::missing(Self::SCHEMA.one, said);
        call.unseen(&Self::about_missing(), Self::Key::from_text(said).is_some(), missing)
    }

    /// A record in a response: its attributes, its additional attributes, its options if it has any, and its own link.
    fn described(base: &str, record: Record<Self>, _permit: &ApiPermit) -> Value {
        described_whole(base, record)
    }

    /// Lists records.
    fn list(call: &mut Call) -> Outcome {
        list::<Self>(call)
    }

    /// Shows a record.
    fn show(call: &mut Call) -> Outcome {
        let (found, permit) = Self::found(call)?;
        Ok(answer(call, StatusCode::OK, found, &permit))
    }

    /// Changes a record.
    fn update(call: &mut Call) -> Outcome {
        update::<Self>(call)
    }

    /// Deletes a record.
    fn delete(call: &mut Call) -> Outcome {
        delete::<Self>(call)
    }
}

/// Changes the record in the path.
pub(super) fn update<R: Resource>(call: &mut Call) -> Outcome {
    let (found, mut permit) = R::found(call)?;
    let given = RequestBody::of(call, R::SCHEMA.one)?;
    if let Some(party) = R::party(&found.id)
        && let Some(name) = given.name()?
    {
        let changes: Vec<_> = [Some(party), R::party_named(&name)].into_iter().flatten().collect();
        permit = call.allow(&About { changes: &changes, ..found.row.about(&found.id) })?;
    }
    unless_immutable(&found, Some(&given))?;
    found.row.keeps(&given)?;
    let saved = call.save(&permit, |ctx| (R::STORE.change)(ctx, &found, &given))?;
    Ok(answer(call, StatusCode::OK, saved, &permit))
}

/// Deletes the record in the path.
pub(super) fn delete<R: Resource>(call: &mut Call) -> Outcome {
    let (found, permit) = R::found(call)?;
    unless_immutable(&found, None)?;
    call.save(&permit, |ctx| (R::STORE.delete)(ctx, &found))?;
    Ok(ApiResponse::no_content())
}

/// A record in a response, with all attributes.
pub(super) fn described_whole<R: Resource>(base: &str, record: Record<R>) -> Value {
    let Record { id, row, extra: mut body } = record;
    let id = id.to_text();
    let link = link::<R>(base, &id);
    if let Value::Object(own) = row.attributes() {
        body.extend(own);
    }
    match R::HAS_OPTIONS {
        true => drop(body.entry("options").or_insert_with(|| json!({}))),
        false => drop(body.remove("options")),
    }
    body.insert("id".to_owned(), Value::String(id));
    body.insert("links".to_owned(), json!({ "self": link }));
    Value::Object(body)
}

/// The URL of a record.
pub(super) fn link<R: Resource>(base: &str, id: &str) -> String {
    let mut link = format!("{base}/v3{}/{}/", R::UNDER, R::SCHEMA.many);
    push_name(&mut link, id);
    link
}

/// A response with one record.
pub(super) fn answer<R: Resource>(
    call: &Call,
    status: StatusCode,
    record: Record<R>,
    permit: &ApiPermit,
) -> ApiResponse {
    let name = R::SCHEMA.one;
    ApiResponse::json(status, &json!({ name: R::described(&call.base, record, permit) }))
}

/// Applies the request body to the record `new`, and stores the record.
pub(super) fn created<R: Resource + StoredResource>(
    call: &Call,
    (permit, given): (ApiPermit, RequestBody),
    id: &RecordId<R::Key>,
    new: &R,
) -> Outcome {
    let saved = call.save(&permit, |ctx| save(ctx, id, &|before| edited(&given, before, Some(new))))?;
    Ok(answer::<R>(call, StatusCode::CREATED, saved.into(), &permit))
}

/// A record with its additional attributes, for lists.
pub(super) fn described<R: Resource>(
    (view, now): (&View<'_>, i64),
    base: &str,
    (id, mut row): (R::Key, R),
    permit: &ApiPermit,
) -> Result<Value, ApiError> {
    row.see(view, &id, now)?;
    let extra = R::extra(view, &id)?;
    Ok(R::described(base, Record { id, row, extra }, permit))
}

/// Applies the request body to the existing record `before`. If `before` is `None`, the body is applied to the new record `new`. Returns the record
/// and its additional attributes.
pub(super) fn edited<R: Resource>(
    given: &RequestBody,
    before: Option<(&R, &str)>,
    new: Option<&R>,
) -> Result<(R, String), Error> {
    let (row, extra) = before
        .or(new.map(|new| (new, "")))
        .ok_or_else(|| invalid("the record no longer exists: another request removed it"))?;
    let mut row = row.clone();
    row.change(given)?;
    let extra = R::KIND.map(|_| given.extra(&R::SCHEMA, extra)).transpose()?.unwrap_or_default();
    Ok((row, extra))
}

/// Refuses a change of an immutable record. Exception: a change may remove the option `immutable`.
pub(super) fn unless_immutable<R: Resource>(
    record: &Record<R>,
    given: Option<&RequestBody>,
) -> Result<(), Error> {
    let is_immutable = R::HAS_OPTIONS && has_option(&record.extra, "immutable");
    match is_immutable && !given.is_some_and(RequestBody::unlocks) {
        true => {
            Err(Error::Refused("the resource is immutable; remove its option `immutable` first".to_owned()))
        }
        false => Ok(()),
    }
}

/// The permit and the body of a request to create a record. This function is for kinds for which the creation rule does not depend on a domain.
pub(super) fn permitted<R: Resource>(call: &mut Call) -> Result<(ApiPermit, RequestBody), ApiError> {
    let permit = call.allow(&About::default())?;
    Ok((permit, RequestBody::of(call, R::SCHEMA.one)?))
}

/// The permit and the body of a request to create several records. This function is for kinds for which the creation rule does not depend on a
/// domain.
pub(super) fn permitted_batch<R: Resource>(
    call: &mut Call,
) -> Result<(ApiPermit, Vec<RequestBody>), ApiError> {
    let permit = call.allow(&About::default())?;
    Ok((permit, RequestBody::all_of(call, R::SCHEMA.many, R::SCHEMA.one)?))
}

/// The permit and the body of a request to create a record in a domain. The domain is the domain in the body or, by default, the domain of the
/// session. As in Keystone, a manager of a domain has to name the domain in the body.
pub(super) fn permitted_in_domain<R: Resource>(
    call: &mut Call,
) -> Result<(ApiPermit, RequestBody, (DomainId, Domain)), ApiError> {
    let given = RequestBody::of(call, R::SCHEMA.one)?;
    let named = given.text("domain_id")?.flatten();
    let is_named = named.is_some();
    let said = named.or(call.own_domain().map(|own| own.to_keystone()));
    let found = call.look(|view| said.as_ref().map_or(Ok(None), |said| Domain::find(view, said)))?;
    let name = given.text("name")?.flatten().unwrap_or_default();
    let party = R::party_named(&name);
    let domain = found.as_ref().filter(|_| is_named).map(|(id, _)| id);
    // The authorization rule is checked before a 404 response. Otherwise an unauthorized caller would learn whether the domain exists.
    let permit = call.allow(&About { domain, changes: party.as_slice(), ..About::default() })?;
    let said = said.ok_or_else(no_domain)?;
    let found = found.ok_or_else(|| ApiError::missing("domain", &said))?;
    Ok((permit, given, found))
}

/// The error if neither the request nor the session names a domain.
pub(super) fn no_domain() -> Error {
    invalid("Invalid input for field/attribute domain_id: expected the id of a domain.")
}

/// Lists the visible records of a kind. All filters of the request are applied.
pub(super) fn list<R: Resource>(call: &mut Call) -> Outcome {
    match R::IN_DOMAIN {
        Some(of) => list_in_domains(call, of),
        None => list_all::<R>(call),
    }
}

/// Lists the visible records of a whole table. All filters of the request are applied.
fn list_all<R: Resource>(call: &mut Call) -> Outcome {
    let selected = R::selection(call)?;
    let permit = call.allow(&About::default())?;
    let (base, only, own, now) = (call.base.clone(), permit.only_domain(), permit.clone(), call.now());
    let after = call.marker(|text| R::Key::from_text(text).map(|id| id.bytes()))?;
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: Each<'_>| {
        records::<R>(view, &[], after, |id, row| {
            if only.is_some_and(|only| row.about(&id).domain != Some(&only)) || !selected(&row) {
                return Ok(ControlFlow::Continue(()));
            }
            let place = id.bytes();
            Ok(each(place, described((view, now), &base, (id, row), &own)?))
        })
    };
    let filters = Filters::of(&call.head, R::FILTERS);
    listing::answer(call, R::SCHEMA.many, &permit, filters, after, Box::new(source))
}

/// Whether a record of the domain `of` belongs to a list of the domain `listed`. If `listed` is `None`, the list covers all existing domains.
fn is_in(view: &View<'_>, listed: Option<DomainId>, of: DomainId) -> Result<bool, ApiError> {
    match listed {
        Some(listed) => Ok(listed == of),
        None => Ok(view.get::<Domain>(&of)?.is_some()),
    }
}

/// Lists the visible records of one domain or of all domains. All filters of the request are applied. If the request has the filter `name`, records
/// are looked up by name.
fn list_in_domains<R: Resource>(call: &mut Call, of: InDomain<R>) -> Outcome {
    let InDomain { names, id, place } = of;
    let selected = R::selection(call)?;
    let permit = call.allow(&About::default())?;
    let many = R::SCHEMA.many;
    let said = query(&call.head, "domain_id").map(|text| DomainId::from_keystone(&plain(text)));
    let domain = match (permit.only_domain(), said) {
        (_, Some(Err(_))) => return Ok(listing::none(call, many)),
        (Some(only), Some(Ok(domain))) if domain != only => return Ok(listing::none(call, many)),
        (only, said) => said.and_then(Result::ok).or(only),
    };
    let name = query(&call.head, "name").map(plain);
    let key_of = move |row: &R| {
        let (domain, name) = place(row);
        NameKey::of(names, &domain, name)
    };
    let after = match call.query("marker").map(plain) {
        None => None,
        Some(text) => {
            let found = call.look(|view| {
                let Some(key) = R::Key::from_text(&text) else { return Ok(None) };
                // A marker that names a record outside the list is treated like a marker that names no record.
                let row = match view.get::<R>(&key)? {
                    Some(row) if is_in(view, domain, place(&row).0)? => Some(row).filter(|row| selected(row)),
                    _ => None,
                };
                Ok(row.map(|row| if domain.is_some() { key_of(&row).bytes() } else { key.bytes() }))
            })?;
            Some(found.ok_or_else(|| ApiError::missing("marker", &text))?)
        }
    };
    let (base, own, now) = (call.base.clone(), permit.clone(), call.now());
    let mut domains: HashMap<DomainId, bool> = HashMap::new();
    let source = move |view: &View<'_>, after: Option<&[u8]>, each: Each<'_>| {
        let mut show = |key: R::Key, row: R, place: Vec<u8>| match selected(&row) {
            true => Ok::<_, ApiError>(each(place, described((view, now), &base, (key, row), &own)?)),
            false => Ok(ControlFlow::Continue(())),
        };
        // Looks up the record with this name.
        let named = |key: &NameKey| match view.get::<Name>(key)?.map(id) {
            Some(key) => Ok::<_, ApiError>(view.get::<R>(&key)?.map(|row| (key, row))),
            None => Ok(None),
        };
        match (&name, domain) {
            (Some(_), _) if after.is_some() => Ok(()),
            (Some(name), domain) => {
                let all = match domain {
                    Some(domain) => vec![domain],
                    None => view.list::<Domain>(&[])?.into_iter().map(|(id, _)| id).collect(),
                };
                for domain in all {
                    if let Some((key, row)) = named(&NameKey::of(names, &domain, name))? {
                        let place = key.bytes();
                        let _ = show(key, row, place)?;
                    }
                }
                Ok(())
            }
            (None, Some(domain)) => {
                records::<Name>(view, &NameKey::all_of(names, &domain), after, |name, key| {
                    let key = id(key);
                    match view.get::<R>(&key)? {
                        Some(row) => show(key, row, name.bytes()),
                        None => Ok(ControlFlow::Continue(())),
                    }
                })
            }
            (None, None) => records::<R>(view, &[], after, |key, row| {
                // A record in a removed domain counts as removed.
                let domain = place(&row).0;
                let exists = match domains.get(&domain) {
                    Some(known) => *known,
                    None => *domains.entry(domain).or_insert(view.get::<Domain>(&domain)?.is_some()),
                };
                let place = key.bytes();
                if exists { show(key, row, place) } else { Ok(ControlFlow::Continue(())) }
            }),
        }
    };
    let except = [&["domain_id"], R::FILTERS].concat();
    listing::answer(call, many, &permit, Filters::of(&call.head, &except), after, Box::new(source))
}
