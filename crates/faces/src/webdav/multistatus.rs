//! Writing a multi-status answer (RFC 4918 §13).

use super::access_control::{Control, push_privileges};
use super::propfind_request::Asked;
use super::xml::{Name, push_text};
use super::{Place, href};
use crate::body::Body;
use crate::respond::{Answer, status_of_member};
use enfilade_facts::vocabulary::AccessMask;
use enfilade_passage::{Left, Meta, NodeKind, Property, ShownLock};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use std::fmt::Write as _;

pub(crate) const BEGIN: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
pub(crate) const END: &str = "</D:multistatus>\n";

/// The properties every file and directory has.
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
    /// RFC 4331: how much may still come, and how much is there.
    QuotaAvailable,
    QuotaUsed,
    /// RFC 3744 §5.1 and §5.5: whose it is, and who may do what with it.
    Owner,
    Acl,
    /// RFC 3744 §5.4: what the visitor may do.
    Privileges,
    /// RFC 5397: who the visitor is.
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

    /// Whether it is told where everything is asked for; the others only where they are named (RFC 4331 §3, RFC 3744 §5).
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

    /// Its name, what stands before its value and what behind: many of them are written for every entry, so they are whole.
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

/// One file or directory to be described.
pub(crate) struct Resource<'a> {
    /// Its URL path, percent-encoded.
    pub(crate) href: &'a str,
    /// Its name.
    pub(crate) name: &'a str,
    pub(crate) kind: NodeKind,
    /// What GET says it is.
    pub(crate) content_type: &'static str,
    pub(crate) meta: &'a Meta,
    pub(crate) more: &'a More,
}

/// What is asked for beyond the state of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct More {
    pub(crate) properties: Vec<Property>,
    pub(crate) locks: Vec<ShownLock>,
    /// The time locks are told by.
    pub(crate) now: i64,
    /// What may still come, and what is there, in bytes.
    pub(crate) quota: Option<(u64, u64)>,
    pub(crate) granted: Option<AccessMask>,
    pub(crate) principal: Option<String>,
    /// Whose it is, and who may do what with it, as far as the visitor may know.
    pub(crate) control: Option<Control>,
}

/// Writes one `response` element.
pub(crate) fn push_response(xml: &mut String, resource: &Resource<'_>, asked: &Asked) {
    xml.push_str("<D:response><D:href>");
    xml.push_str(resource.href);
    xml.push_str("</D:href>");
    match asked {
        Asked::All => propstat_ok(xml, |xml| {
            Live::ALL.iter().filter(|live| live.is_told_unasked()).for_each(|live| {
                push_value(xml, resource, *live);
            });
            resource.more.properties.iter().for_each(|property| push_property(xml, property));
        }),
        Asked::Names => propstat_ok(xml, |xml| {
            for live in Live::ALL.into_iter().filter(|live| has(resource, *live)) {
                let _ = write!(xml, "<D:{}/>", live.name());
            }
            for Property { namespace, name, .. } in &resource.more.properties {
                let namespace = Some(namespace.clone()).filter(|namespace| !namespace.is_empty());
                push_name(xml, &Name { namespace, local: name.clone() });
            }
        }),
        Asked::Some(names) => {
            let dead = |name: &Name| {
                let is_it = |property: &&Property| {
                    property.name == name.local
                        && property.namespace == name.namespace.as_deref().unwrap_or_default()
                };
                resource.more.properties.iter().find(is_it)
            };
            let known = |name: &&Name| match Live::of(name) {
                Some(live) => has(resource, live),
                None => dead(name).is_some(),
            };
            if names.iter().any(|name| known(&name)) {
                propstat_ok(xml, |xml| {
                    for name in names {
                        match (Live::of(name), dead(name)) {
                            (Some(live), _) => push_value(xml, resource, live),
                            (None, Some(property)) => push_property(xml, property),
                            (None, None) => {}
                        }
                    }
                });
            }
            if names.iter().any(|name| !known(&name)) {
                xml.push_str("<D:propstat><D:prop>");
                names.iter().filter(|name| !known(name)).for_each(|name| push_name(xml, name));
                xml.push_str("</D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>");
            }
        }
    }
    xml.push_str("</D:response>\n");
}

/// Says that the listing ends before the directory does.
pub(crate) fn push_truncated(xml: &mut String, href: &str) {
    let _ = writeln!(
        xml,
        "<D:response><D:href>{href}</D:href><D:status>HTTP/1.1 507 Insufficient Storage</D:status>\
         <D:responsedescription>more entries than one listing holds</D:responsedescription></D:response>"
    );
}

fn propstat_ok(xml: &mut String, write: impl FnOnce(&mut String)) {
    xml.push_str("<D:propstat><D:prop>");
    write(xml);
    xml.push_str("</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>");
}

/// Size and type belong to what GET would give, and GET gives nothing for a collection.
fn has(resource: &Resource<'_>, live: Live) -> bool {
    match live {
        Live::ContentLength | Live::ContentType => resource.kind == NodeKind::File,
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
        // Written above.
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

fn push_property(xml: &mut String, property: &Property) {
    let Property { namespace, name, language, value } = property;
    // A name in no namespace cannot have a prefix.
    let prefix = if namespace.is_empty() { "" } else { "P:" };
    let _ = write!(xml, "<{prefix}{name}");
    if !namespace.is_empty() {
        xml.push_str(" xmlns:P=\"");
        push_text(xml, namespace);
        xml.push('"');
    }
    if let Some(language) = language {
        xml.push_str(" xml:lang=\"");
        push_text(xml, language);
        xml.push('"');
    }
    let _ = write!(xml, ">{value}</{prefix}{name}>");
}

/// One `activelock` (§14.1), as it is at a time.
/// Others than whoever took it are not shown its token (RFC 4918 §6.5 and §15.8).
pub(crate) fn push_lock(xml: &mut String, ShownLock { lock, shows_token }: &ShownLock, now: i64) {
    let scope = if lock.is_exclusive { "exclusive" } else { "shared" };
    let depth = if lock.is_deep { "infinity" } else { "0" };
    let _ = write!(
        xml,
        "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>"
    );
    if !lock.said.is_empty() {
        let _ = write!(xml, "<D:owner>{}</D:owner>", lock.said);
    }
    let place = Place { datastore: lock.datastore.clone(), path: lock.path.clone() };
    let _ = write!(xml, "<D:timeout>Second-{}</D:timeout>", lock.until.saturating_sub(now).max(0));
    if *shows_token {
        let _ = write!(xml, "<D:locktoken><D:href>{}</D:href></D:locktoken>", lock.token);
    }
    let _ =
        write!(xml, "<D:lockroot><D:href>{}</D:href></D:lockroot></D:activelock>", href::of(&place, false));
}

/// Says which members of a tree it was not done with (§9.6.1, §9.8.5).
pub(crate) fn left_over(place: &Place, left: Vec<Left>) -> Answer {
    let mut xml = String::from(BEGIN);
    for Left { path, why } in left {
        let href = href::of(&Place { datastore: place.datastore.clone(), path }, false);
        let _ = write!(xml, "<D:response><D:href>{href}</D:href>");
        push_status(&mut xml, status_of_member(&why));
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

/// A property we do not have, by the name it was asked for.
pub(crate) fn push_name(xml: &mut String, name: &Name) {
    match name.namespace.as_deref() {
        Some("DAV:") => {
            let _ = write!(xml, "<D:{}/>", name.local);
        }
        Some(namespace) => {
            let _ = write!(xml, "<P:{} xmlns:P=\"", name.local);
            push_text(xml, namespace);
            xml.push_str("\"/>");
        }
        None => {
            let _ = write!(xml, "<{}/>", name.local);
        }
    }
}

/// A number in decimal digits: there are some for every entry, and the library's way takes five times as long.
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

/// A moment of the calendar, in UTC. What is before 1970 is shown as 1970, and beyond the year 9999 its forms have no more digits.
struct Moment {
    year: i64,
    month: usize,
    day: i64,
    /// Of the week, from Thursday on.
    weekday: usize,
    time: [i64; 3],
}

impl Moment {
    /// By the civil-from-days rule.
    fn of(seconds: i64) -> Self {
        let seconds = seconds.clamp(0, 253_402_300_799);
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        // Days since 0000-03-01, so that the leap day is the last of a year; 400 years have 146,097 days.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Moment {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: month as usize,
            day,
            weekday: (days % 7) as usize,
            time: [rest / 3600, rest % 3600 / 60, rest % 60],
        }
    }
}

/// Two digits from a place on.
fn put_two(text: &mut [u8], at: usize, number: i64) {
    if let Some([tens, ones]) = text.get_mut(at..at + 2) {
        (*tens, *ones) = (b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8);
    }
}

/// Three letters from a place on.
fn put_word(text: &mut [u8], at: usize, word: Option<&[u8; 3]>) {
    if let (Some(to), Some(word)) = (text.get_mut(at..at + 3), word) {
        to.copy_from_slice(word);
    }
}

/// What was put together is ASCII.
fn push_ascii(text: &mut String, bytes: &[u8]) {
    text.push_str(std::str::from_utf8(bytes).unwrap_or_default());
}

const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
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

/// `1994-11-06T08:49:37Z` (RFC 3339).
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
        push_name(&mut xml, &Name { namespace: Some("urn:\"><x".into()), local: "prop".into() });
        assert_eq!(xml, "a&lt;b&gt;&amp;&quot;\u{fffd}<P:prop xmlns:P=\"urn:&quot;&gt;&lt;x\"/>");
    }
}
