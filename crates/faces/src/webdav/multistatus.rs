//! Writing a multi-status answer (RFC 4918 §13).

use super::propfind_request::Asked;
use super::xml::{Name, push_text};
use super::{Place, href};
use crate::body::Body;
use crate::respond::{Answer, status_of};
use enfilade_facts::vocabulary::AccessMask;
use enfilade_passage::{Left, Lock, Meta, NodeKind, Property};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

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
    /// RFC 3744 §5.4: what the visitor may do.
    Privileges,
    /// RFC 5397: who the visitor is.
    Principal,
}

impl Live {
    const ALL: [Live; 13] = [
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
        Live::Privileges,
        Live::Principal,
    ];

    /// Whether it is told where everything is asked for; the others only where they are named (RFC 4331 §3, RFC 3744 §5).
    fn is_told_unasked(self) -> bool {
        !matches!(self, Live::QuotaAvailable | Live::QuotaUsed | Live::Privileges | Live::Principal)
    }

    fn name(self) -> &'static str {
        match self {
            Live::ResourceType => "resourcetype",
            Live::DisplayName => "displayname",
            Live::ContentLength => "getcontentlength",
            Live::ContentType => "getcontenttype",
            Live::LastModified => "getlastmodified",
            Live::CreationDate => "creationdate",
            Live::Etag => "getetag",
            Live::SupportedLock => "supportedlock",
            Live::LockDiscovery => "lockdiscovery",
            Live::QuotaAvailable => "quota-available-bytes",
            Live::QuotaUsed => "quota-used-bytes",
            Live::Privileges => "current-user-privilege-set",
            Live::Principal => "current-user-principal",
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
    pub(crate) meta: &'a Meta,
    pub(crate) more: &'a More,
}

/// What is asked for beyond the state of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct More {
    pub(crate) properties: Vec<Property>,
    pub(crate) locks: Vec<Lock>,
    /// The time locks are told by.
    pub(crate) now: i64,
    /// What may still come, and what is there, in bytes.
    pub(crate) quota: Option<(u64, u64)>,
    pub(crate) granted: Option<AccessMask>,
    pub(crate) principal: Option<String>,
}

/// Writes one `response` element.
pub(crate) fn push_response(xml: &mut String, resource: &Resource<'_>, asked: &Asked) {
    let _ = write!(xml, "<D:response><D:href>{}</D:href>", resource.href);
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
        Live::Privileges => resource.more.granted.is_some(),
        Live::Principal => resource.more.principal.is_some(),
        _ => true,
    }
}

fn push_value(xml: &mut String, resource: &Resource<'_>, live: Live) {
    if !has(resource, live) {
        return;
    }
    let name = live.name();
    let _ = match live {
        Live::ResourceType if resource.kind == NodeKind::Directory => {
            write!(xml, "<D:{name}><D:collection/></D:{name}>")
        }
        Live::ResourceType => write!(xml, "<D:{name}/>"),
        Live::DisplayName => {
            let _ = write!(xml, "<D:{name}>");
            push_text(xml, resource.name);
            write!(xml, "</D:{name}>")
        }
        Live::ContentLength => write!(xml, "<D:{name}>{}</D:{name}>", resource.meta.bytes),
        Live::ContentType => write!(xml, "<D:{name}>application/octet-stream</D:{name}>"),
        Live::LastModified => write!(xml, "<D:{name}>{}</D:{name}>", http_date(resource.meta.modified.0)),
        Live::CreationDate => {
            let born = resource.meta.born.map_or(0, |(seconds, _)| seconds);
            write!(xml, "<D:{name}>{}</D:{name}>", iso_date(born))
        }
        Live::Etag => write!(xml, "<D:{name}>&quot;{}&quot;</D:{name}>", resource.meta.validator()),
        Live::SupportedLock => write!(xml, "<D:{name}>{SUPPORTED_LOCKS}</D:{name}>"),
        Live::LockDiscovery => {
            let _ = write!(xml, "<D:{name}>");
            resource.more.locks.iter().for_each(|lock| push_lock(xml, lock, resource.more.now));
            write!(xml, "</D:{name}>")
        }
        Live::QuotaAvailable => {
            write!(xml, "<D:{name}>{}</D:{name}>", resource.more.quota.map_or(0, |quota| quota.0))
        }
        Live::QuotaUsed => {
            write!(xml, "<D:{name}>{}</D:{name}>", resource.more.quota.map_or(0, |quota| quota.1))
        }
        Live::Privileges => {
            let _ = write!(xml, "<D:{name}>");
            let granted = resource.more.granted.unwrap_or_default();
            for (privilege, _) in PRIVILEGES.iter().filter(|(_, mask)| granted.covers(*mask)) {
                let _ = write!(xml, "<D:privilege><D:{privilege}/></D:privilege>");
            }
            write!(xml, "</D:{name}>")
        }
        Live::Principal => {
            let _ = write!(xml, "<D:{name}><D:href>");
            push_text(xml, resource.more.principal.as_deref().unwrap_or_default());
            write!(xml, "</D:href></D:{name}>")
        }
    };
}

const SUPPORTED_LOCKS: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>\
<D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>";

/// RFC 3744 §3, and what has to be granted for each.
const PRIVILEGES: [(&str, AccessMask); 9] = [
    ("read", AccessMask::READ_DATA),
    ("write-content", AccessMask::WRITE_DATA),
    ("write-properties", AccessMask::WRITE_NAMED_ATTRIBUTES),
    ("bind", AccessMask::ADD_FILE.and(AccessMask::ADD_SUBDIRECTORY)),
    ("unbind", AccessMask::DELETE_CHILD),
    ("unlock", AccessMask::WRITE_DATA),
    ("read-acl", AccessMask::READ_ACL),
    ("write-acl", AccessMask::WRITE_ACL),
    ("read-current-user-privilege-set", AccessMask::READ_ATTRIBUTES),
];

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
pub(crate) fn push_lock(xml: &mut String, lock: &Lock, now: i64) {
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
    let _ = write!(
        xml,
        "<D:timeout>Second-{}</D:timeout><D:locktoken><D:href>{}</D:href></D:locktoken><D:lockroot><D:href>{}</D:href></D:lockroot></D:activelock>",
        lock.until.saturating_sub(now).max(0),
        lock.token,
        href::of(&place, false)
    );
}

/// Says which members of a tree it was not done with (§9.6.1, §9.8.5).
pub(crate) fn left_over(place: &Place, left: Vec<Left>) -> Answer {
    let mut xml = String::from(BEGIN);
    for Left { path, why } in left {
        let href = href::of(&Place { datastore: place.datastore.clone(), path }, false);
        let _ = write!(xml, "<D:response><D:href>{href}</D:href>");
        push_status(&mut xml, status_of(&why.into()));
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

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7). What is before 1970 is shown as 1970.
pub(crate) fn http_date(seconds: i64) -> String {
    // Beyond the year 9999 the form has no more digits.
    let seconds = u64::try_from(seconds).unwrap_or(0).min(253_402_300_799);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// `1994-11-06T08:49:37Z` (RFC 3339), by the civil-from-days rule.
fn iso_date(seconds: i64) -> String {
    let seconds = seconds.clamp(0, 253_402_300_799);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, so that the leap day is the last of a year; 400 years have 146,097 days.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
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
            assert_eq!((iso_date(seconds).as_str(), http_date(seconds).as_str()), (iso, http));
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
