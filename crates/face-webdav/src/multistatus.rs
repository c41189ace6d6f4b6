//! Writes multi-status responses (RFC 4918 §13).

use super::access_control::{Control, push_privileges};
use super::propfind_request::Asked;
use super::xml::{Name, push_attribute, push_kept, push_text};
use super::{ResourcePath, href};
use enfilade_faces::{Answer, Body, hint, percent, status_of_member};
use enfilade_facts::vocabulary::{AccessMask, LAST_SECOND, date_of};
use enfilade_passage::{FailedMember, Meta, NodeKind, Property, ShownLock};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use std::collections::HashMap;
use std::fmt::Write as _;

pub(crate) const END: &str = "</D:multistatus>\n";

/// The live properties of files and directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    ResourceType,
    DisplayName,
    ContentLength,
    ContentType,
    LastModified,
    CreationDate,
    Etag,
    SupportedLock,
    LockDiscovery,
    /// RFC 4331: available and used space.
    QuotaAvailable,
    QuotaUsed,
    /// RFC 3744 §5.1 and §5.5: the owner and the ACL.
    Owner,
    Acl,
    /// RFC 3744 §5.4: the rights of the user.
    Privileges,
    /// RFC 5397: the URL of the user.
    Principal,
}

impl Live {
    const ALL: [Live; 15] = [
        Live::ResourceType,
        Live::DisplayName,
        Live::ContentLength,
        Live::ContentType,
        Live::LastModified,
        Live::CreationDate,
        Live::Etag,
        Live::SupportedLock,
        Live::LockDiscovery,
        Live::QuotaAvailable,
        Live::QuotaUsed,
        Live::Owner,
        Live::Acl,
        Live::Privileges,
        Live::Principal,
    ];

    /// Whether `allprop` includes the property. All other properties are returned only if a request asks for them by name (RFC 4331 §3, RFC 3744 §5).
    fn is_told_unasked(self) -> bool {
        let named_only = [
            Live::QuotaAvailable,
            Live::QuotaUsed,
            Live::Owner,
            Live::Acl,
            Live::Privileges,
            Live::Principal,
        ];
        !named_only.contains(&self)
    }

    fn name(self) -> &'static str {
        self.written()[0]
    }

    /// The name, the start tag and the end tag of the property. These texts are constants, because the server writes many of them for every entry.
    fn written(self) -> [&'static str; 3] {
        macro_rules! written {
            ($name:literal) => {
                [$name, concat!("<D:", $name, ">"), concat!("</D:", $name, ">")]
            };
        }
        match self {
            Live::ResourceType => written!("resourcetype"),
            Live::DisplayName => written!("displayname"),
            Live::ContentLength => written!("getcontentlength"),
            Live::ContentType => written!("getcontenttype"),
            Live::LastModified => written!("getlastmodified"),
            Live::CreationDate => written!("creationdate"),
            Live::Etag => written!("getetag"),
            Live::SupportedLock => written!("supportedlock"),
            Live::LockDiscovery => written!("lockdiscovery"),
            Live::QuotaAvailable => written!("quota-available-bytes"),
            Live::QuotaUsed => written!("quota-used-bytes"),
            Live::Owner => written!("owner"),
            Live::Acl => written!("acl"),
            Live::Privileges => written!("current-user-privilege-set"),
            Live::Principal => written!("current-user-principal"),
        }
    }

    pub(crate) fn of(name: &Name) -> Option<Self> {
        let dav = name.namespace.as_deref() == Some("DAV:");
        Live::ALL.into_iter().find(|live| dav && live.name() == name.local)
    }
}

/// A file or directory that a response describes.
pub(crate) struct Resource<'a> {
    /// The URL path of the resource, percent-encoded.
    pub(crate) href: &'a str,
    /// The name of the resource.
    pub(crate) name: &'a str,
    pub(crate) kind: NodeKind,
    /// The `Content-Type` of a GET.
    pub(crate) content_type: &'static str,
    pub(crate) meta: &'a Meta,
    pub(crate) more: &'a More,
}

/// The requested properties that are not part of a file's metadata.
#[derive(Clone, Debug, Default)]
pub(crate) struct More {
    pub(crate) properties: Vec<Property>,
    pub(crate) locks: Vec<ShownLock>,
    /// The current time, for the timeouts of locks, in seconds since the epoch.
    pub(crate) now: i64,
    /// Available and used space, in bytes.
    pub(crate) quota: Option<(u64, u64)>,
    pub(crate) granted: Option<AccessMask>,
    pub(crate) principal: Option<String>,
    /// The owner and the ACL, if the user may read them.
    pub(crate) control: Option<Control>,
}

/// Namespaces that are declared in one place, as `n0`, `n1` and so on. Each namespace is declared once. `DAV:` always has the prefix `D`.
#[derive(Default)]
struct Namespaces<'a> {
    numbers: HashMap<&'a str, usize>,
    declarations: String,
}

impl<'a> Namespaces<'a> {
    /// Returns the qualified name, and declares its namespace if it is not declared yet.
    fn qualified(&mut self, namespace: &'a str, local: &str) -> String {
        match namespace {
            "" => local.to_owned(),
            "DAV:" => format!("D:{local}"),
            _ => {
                let next = self.numbers.len();
                let number = *self.numbers.entry(namespace).or_insert(next);
                if number == next {
                    push_attribute(&mut self.declarations, &format!("xmlns:n{number}"), namespace);
                }
                format!("n{number}:{local}")
            }
        }
    }
}

/// The requested properties, prepared once for all `response` elements.
pub(crate) struct Form {
    asked: Asked,
    /// The properties that are requested by name. Each pair contains the live property (`None` for a dead property) and the qualified name.
    named: Vec<(Option<Live>, String)>,
    declarations: String,
}

impl Form {
    pub(crate) fn of(asked: Asked) -> Self {
        let (mut namespaces, mut named) = (Namespaces::default(), Vec::new());
        if let Asked::Some(names) = &asked {
            for name in names {
                let namespace = name.namespace.as_deref().unwrap_or_default();
                named.push((Live::of(name), namespaces.qualified(namespace, &name.local)));
            }
        }
        let declarations = namespaces.declarations;
        Form { asked, named, declarations }
    }

    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The start of the body. It contains the declarations of the namespaces of all requested names.
    pub(crate) fn begin(&self) -> String {
        let declarations = &self.declarations;
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\"{declarations}>\n"
        )
    }

    /// Whether the predicate `is_one` is true for any property that is requested by name.
    pub(crate) fn has(&self, is_one: impl Fn(Option<Live>) -> bool) -> bool {
        self.named.iter().any(|(live, _)| is_one(*live))
    }

    /// Writes the names of the requested properties for which the predicate `is_one` is true.
    pub(crate) fn push_names(&self, xml: &mut String, is_one: impl Fn(Option<Live>) -> bool) {
        self.named.iter().filter(|(live, _)| is_one(*live)).for_each(|(_, name)| push_empty(xml, name));
    }
}

/// Writes one `response` element.
pub(crate) fn push_response(xml: &mut String, resource: &Resource<'_>, form: &Form) {
    xml.push_str("<D:response><D:href>");
    xml.push_str(resource.href);
    xml.push_str("</D:href>");
    match &form.asked {
        Asked::All | Asked::Names => push_everything(xml, resource, form.asked == Asked::All),
        Asked::Some(names) => push_named(xml, resource, names, &form.named),
    }
    xml.push_str("</D:response>\n");
}

/// Writes all properties, or only their names.
fn push_everything(xml: &mut String, resource: &Resource<'_>, with_values: bool) {
    let mut namespaces = Namespaces::default();
    let kept: Vec<(String, &Property)> = writable(resource)
        .map(|property| (namespaces.qualified(&property.namespace, &property.name), property))
        .collect();
    xml.push_str("<D:propstat><D:prop");
    xml.push_str(&namespaces.declarations);
    xml.push('>');
    match with_values {
        true => {
            let told = Live::ALL.iter().filter(|live| live.is_told_unasked());
            told.for_each(|live| push_value(xml, resource, *live));
            kept.iter().for_each(|(name, property)| push_property(xml, name, property));
        }
        false => {
            for live in Live::ALL.into_iter().filter(|live| has(resource, *live)) {
                let _ = write!(xml, "<D:{}/>", live.name());
            }
            kept.iter().for_each(|(name, _)| push_empty(xml, name));
        }
    }
    xml.push_str(OK);
}

/// Writes the properties that are requested by name. The existing properties come before the missing properties.
fn push_named<'n>(
    xml: &mut String,
    resource: &'n Resource<'n>,
    names: &'n [Name],
    named: &[(Option<Live>, String)],
) {
    let kept: HashMap<(&'n str, &'n str), &'n Property> =
        writable(resource).map(|property| ((&*property.namespace, &*property.name), property)).collect();
    let kept =
        |name: &'n Name| kept.get(&(name.namespace.as_deref().unwrap_or_default(), &*name.local)).copied();
    let is_known = |(name, (live, _)): &(&'n Name, &(Option<Live>, String))| match live {
        Some(live) => has(resource, *live),
        None => kept(name).is_some(),
    };
    let each = || names.iter().zip(named);
    let known = each().filter(is_known).count();
    if known > 0 {
        xml.push_str("<D:propstat><D:prop>");
        for (name, (live, written)) in each() {
            match live {
                Some(live) => push_value(xml, resource, *live),
                None => kept(name).iter().for_each(|property| push_property(xml, written, property)),
            }
        }
        xml.push_str(OK);
    }
    if known < names.len() {
        xml.push_str("<D:propstat><D:prop>");
        each().filter(|one| !is_known(one)).for_each(|(_, (_, written))| push_empty(xml, written));
        xml.push_str("</D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>");
    }
}

/// The stored properties that can be written. An older version of this server accepted names that some XML parsers cannot read. Properties with such
/// names are left out.
fn writable<'a>(resource: &Resource<'a>) -> impl Iterator<Item = &'a Property> {
    let properties = resource.more.properties.iter();
    properties.filter(|property| Name::can_be_written(&property.namespace, &property.name))
}

fn push_empty(xml: &mut String, name: &str) {
    xml.push('<');
    xml.push_str(name);
    xml.push_str("/>");
}

/// Writes that the listing is truncated, because the directory has more entries.
pub(crate) fn push_truncated(xml: &mut String, href: &str) {
    let _ = writeln!(
        xml,
        "<D:response><D:href>{href}</D:href><D:status>HTTP/1.1 507 Insufficient Storage</D:status>\
         <D:responsedescription>the directory has more entries than one listing shows</D:responsedescription></D:response>"
    );
}

const OK: &str = "</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>";

/// Whether a resource has a property. Size, type and entity tag describe the content of a GET, and a GET of a collection has no content. An entity
/// tag or modification time of a collection would reveal changes of hidden members (invariant S2).
fn has(resource: &Resource<'_>, live: Live) -> bool {
    match live {
        Live::ContentLength | Live::ContentType | Live::Etag | Live::LastModified => {
            resource.kind == NodeKind::File
        }
        Live::CreationDate => resource.meta.born.is_some(),
        Live::QuotaAvailable | Live::QuotaUsed => resource.more.quota.is_some(),
        Live::Owner => resource.more.control.as_ref().is_some_and(Control::has_owner),
        Live::Acl => resource.more.control.is_some(),
        Live::Privileges => resource.more.granted.is_some(),
        Live::Principal => resource.more.principal.is_some(),
        _ => true,
    }
}

fn push_value(xml: &mut String, resource: &Resource<'_>, live: Live) {
    if !has(resource, live) {
        return;
    }
    let ([_, begin, end], meta, more) = (live.written(), resource.meta, resource.more);
    match live {
        Live::ResourceType if resource.kind == NodeKind::File => return xml.push_str("<D:resourcetype/>"),
        Live::LockDiscovery if more.locks.is_empty() => return xml.push_str("<D:lockdiscovery/>"),
        Live::SupportedLock => return xml.push_str(SUPPORTED_LOCKS),
        _ => xml.push_str(begin),
    }
    match live {
        Live::ResourceType => xml.push_str("<D:collection/>"),
        Live::DisplayName => push_text(xml, resource.name),
        Live::ContentLength => push_number(xml, meta.bytes),
        Live::ContentType => xml.push_str(resource.content_type),
        Live::LastModified => push_http_date(xml, meta.modified.0),
        Live::CreationDate => push_iso_date(xml, meta.born.map_or(0, |(seconds, _)| seconds)),
        Live::Etag => {
            xml.push_str("&quot;");
            meta.push_validator(xml);
            xml.push_str("&quot;");
        }
        // The first `match` of this function has already written this property.
        Live::SupportedLock => {}
        Live::LockDiscovery => more.locks.iter().for_each(|lock| push_lock(xml, lock, more.now)),
        Live::QuotaAvailable => push_number(xml, more.quota.map_or(0, |quota| quota.0)),
        Live::QuotaUsed => push_number(xml, more.quota.map_or(0, |quota| quota.1)),
        Live::Privileges => {
            let granted = more.granted.unwrap_or_default();
            push_privileges(xml, |mask| granted.covers(mask));
        }
        Live::Owner => more.control.iter().for_each(|control| control.push_owner(xml)),
        Live::Acl => more.control.iter().for_each(|control| control.push_acl(xml)),
        Live::Principal => {
            xml.push_str("<D:href>");
            push_text(xml, more.principal.as_deref().unwrap_or_default());
            xml.push_str("</D:href>");
        }
    }
    xml.push_str(end);
}

const SUPPORTED_LOCKS: &str = "<D:supportedlock><D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
<D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry></D:supportedlock>";

fn push_property(xml: &mut String, name: &str, property: &Property) {
    xml.push('<');
    xml.push_str(name);
    if let Some(language) = &property.language {
        push_attribute(xml, "xml:lang", language);
    }
    xml.push('>');
    push_kept(xml, &property.value);
    let _ = write!(xml, "</{name}>");
}

/// Writes one `activelock` (RFC 4918 §14.1). Only the owner of the lock sees the lock's token (RFC 4918 §6.5 and §15.8).
pub(crate) fn push_lock(xml: &mut String, ShownLock { lock, shows_token }: &ShownLock, now: i64) {
    let scope = if lock.is_exclusive { "exclusive" } else { "shared" };
    let depth = if lock.is_deep { "infinity" } else { "0" };
    let _ = write!(
        xml,
        "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>"
    );
    if !lock.said.is_empty() {
        xml.push_str("<D:owner>");
        push_kept(xml, &lock.said);
        xml.push_str("</D:owner>");
    }
    let place = ResourcePath { datastore: lock.datastore.clone(), path: lock.path.clone() };
    let _ = write!(xml, "<D:timeout>Second-{}</D:timeout>", lock.until.saturating_sub(now).max(0));
    if *shows_token {
        let _ = write!(xml, "<D:locktoken><D:href>{}</D:href></D:locktoken>", lock.token);
    }
    let _ =
        write!(xml, "<D:lockroot><D:href>{}</D:href></D:lockroot></D:activelock>", href::of(&place, false));
}

/// The response to a request that failed for some members of a tree. The response lists these members (RFC 4918 §9.6.1, §9.8.5).
pub(crate) fn failed_members(place: &ResourcePath, failed: Vec<FailedMember>) -> Answer {
    let mut xml = Form::of(Asked::Names).begin();
    for FailedMember { path, unspelled, why } in failed {
        let mut href = href::of(&ResourcePath { datastore: place.datastore.clone(), path }, false);
        if let Some(name) = unspelled {
            href.push('/');
            percent::push_bytes(&mut href, &name);
        }
        let _ = write!(xml, "<D:response><D:href>{href}</D:href>");
        push_status(&mut xml, status_of_member(&why));
        if let Some(hint) = hint(&why) {
            xml.push_str("<D:responsedescription>");
            push_text(&mut xml, &hint);
            xml.push_str("</D:responsedescription>");
        }
        xml.push_str("</D:response>\n");
    }
    xml.push_str(END);
    multi_status(Body::from(xml))
}

pub(crate) fn push_status(xml: &mut String, status: StatusCode) {
    let reason = status.canonical_reason().unwrap_or_default();
    let _ = write!(xml, "<D:status>HTTP/1.1 {} {reason}</D:status>", status.as_u16());
}

pub(crate) fn multi_status(body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::MULTI_STATUS;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    answer
}

/// Writes a number in decimal digits. Every entry has several numbers, and the formatter of the standard library takes five times as long as this
/// function.
fn push_number(xml: &mut String, number: u64) {
    let (mut digits, mut rest) = ([b'0'; 20], number);
    let mut from = digits.len();
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        (rest, from) = (rest / 10, place);
        if rest == 0 {
            break;
        }
    }
    digits.iter().skip(from).for_each(|digit| xml.push(char::from(*digit)));
}

/// A date and time in UTC. Times before 1970 are shown as the start of 1970. Times after 9999 are shown as the end of 9999, because the year has four
/// digits.
struct Moment {
    year: i64,
    month: usize,
    day: i64,
    /// The weekday, in days since Thursday. Thursday is the weekday of 1970-01-01.
    weekday: usize,
    time: [i64; 3],
}

impl Moment {
    fn of(seconds: i64) -> Self {
        let seconds = seconds.clamp(0, LAST_SECOND);
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date_of(days);
        Moment {
            year: i64::from(year),
            month: usize::from(month),
            day: i64::from(day),
            weekday: (days % 7) as usize,
            time: [rest / 3600, rest % 3600 / 60, rest % 60],
        }
    }
}

/// Writes two digits at an offset.
fn put_two(text: &mut [u8], at: usize, number: i64) {
    if let Some([tens, ones]) = text.get_mut(at..at + 2) {
        (*tens, *ones) = (b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8);
    }
}

/// Writes three letters at an offset.
fn put_word(text: &mut [u8], at: usize, word: Option<&[u8; 3]>) {
    if let (Some(to), Some(word)) = (text.get_mut(at..at + 3), word) {
        to.copy_from_slice(word);
    }
}

/// Appends bytes that are ASCII.
fn push_ascii(text: &mut String, bytes: &[u8]) {
    text.push_str(std::str::from_utf8(bytes).unwrap_or_default());
}

const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Writes a time in the form `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
pub(crate) fn http_date(seconds: i64) -> String {
    let mut text = String::with_capacity(29);
    push_http_date(&mut text, seconds);
    text
}

fn push_http_date(text: &mut String, seconds: i64) {
    let Moment { year, month, day, weekday, time: [hour, minute, second] } = Moment::of(seconds);
    let mut date = *b"xxx, 00 xxx 0000 00:00:00 GMT";
    put_word(&mut date, 0, WEEKDAYS.get(weekday).copied());
    put_word(&mut date, 8, MONTHS.get(month.wrapping_sub(1)).copied());
    let numbers = [(5, day), (12, year / 100), (14, year), (17, hour), (20, minute), (23, second)];
    numbers.into_iter().for_each(|(at, number)| put_two(&mut date, at, number));
    push_ascii(text, &date);
}

/// Writes a time in the form `1994-11-06T08:49:37Z` (RFC 3339).
pub(crate) fn push_iso_date(text: &mut String, seconds: i64) {
    let Moment { year, month, day, time: [hour, minute, second], .. } = Moment::of(seconds);
    let mut date = *b"0000-00-00T00:00:00Z";
    let numbers =
        [(0, year / 100), (2, year), (5, month as i64), (8, day), (11, hour), (14, minute), (17, second)];
    numbers.into_iter().for_each(|(at, number)| put_two(&mut date, at, number));
    push_ascii(text, &date);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, iso, http) in [
            (0, "1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 08:49:37 GMT"),
            (1_709_164_800, "2024-02-29T00:00:00Z", "Thu, 29 Feb 2024 00:00:00 GMT"),
            (4_102_444_799, "2099-12-31T23:59:59Z", "Thu, 31 Dec 2099 23:59:59 GMT"),
            (-1, "1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
            (i64::MAX, "9999-12-31T23:59:59Z", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            let mut said = String::new();
            push_iso_date(&mut said, seconds);
            assert_eq!((said.as_str(), http_date(seconds).as_str()), (iso, http));
        }
    }

    #[test]
    fn dates_and_numbers_are_those_of_the_libraries() {
        let mut seconds: u64 = 1;
        for _ in 0..20_000 {
            seconds = seconds.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) % 253_402_300_800;
            let moment = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            assert_eq!(http_date(seconds as i64), httpdate::fmt_http_date(moment));
        }
        for number in [0, 9, 10, 99, 12_345, u64::MAX] {
            let mut said = String::new();
            push_number(&mut said, number);
            assert_eq!(said, number.to_string());
        }
    }

    #[test]
    fn text_and_foreign_names_cannot_break_out() {
        let mut xml = String::new();
        push_text(&mut xml, "a<b>&\"\u{1}");
        assert_eq!(xml, "a&lt;b&gt;&amp;&quot;\u{fffd}");
        let name = |namespace: &str, local: &str| Name {
            namespace: Some(namespace.into()).filter(|namespace: &std::sync::Arc<str>| !namespace.is_empty()),
            local: local.to_owned(),
        };
        let names = [("urn:\"><x", "a"), ("urn:y", "b"), ("urn:\"><x", "c"), ("", "d"), ("DAV:", "getetag")];
        let form =
            Form::of(Asked::Some(names.iter().map(|(namespace, local)| name(namespace, local)).collect()));
        let begin = form.begin();
        let declared = " xmlns:D=\"DAV:\" xmlns:n0=\"urn:&quot;&gt;&lt;x\" xmlns:n1=\"urn:y\">";
        assert!(begin.contains(declared), "{begin}");
        let mut xml = String::new();
        form.push_names(&mut xml, |live| live.is_none());
        assert_eq!(xml, "<n0:a/><n1:b/><n0:c/><d/>");
    }
}
