//! Writing a multi-status answer (RFC 4918 §13).

use super::propfind_request::{Asked, Name};
use enfilade_passage::{Meta, NodeKind};
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
}

impl Live {
    const ALL: [Live; 7] = [
        Live::ResourceType,
        Live::DisplayName,
        Live::ContentLength,
        Live::ContentType,
        Live::LastModified,
        Live::CreationDate,
        Live::Etag,
    ];

    fn name(self) -> &'static str {
        match self {
            Live::ResourceType => "resourcetype",
            Live::DisplayName => "displayname",
            Live::ContentLength => "getcontentlength",
            Live::ContentType => "getcontenttype",
            Live::LastModified => "getlastmodified",
            Live::CreationDate => "creationdate",
            Live::Etag => "getetag",
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
}

/// Writes one `response` element.
pub(crate) fn push_response(xml: &mut String, resource: &Resource<'_>, asked: &Asked) {
    let _ = write!(xml, "<D:response><D:href>{}</D:href>", resource.href);
    match asked {
        Asked::All => propstat_ok(xml, |xml| {
            Live::ALL.iter().for_each(|live| {
                push_value(xml, resource, *live);
            });
        }),
        Asked::Names => propstat_ok(xml, |xml| {
            for live in Live::ALL.into_iter().filter(|live| has(resource, *live)) {
                let _ = write!(xml, "<D:{}/>", live.name());
            }
        }),
        Asked::Some(names) => {
            let known = |name: &&Name| Live::of(name).filter(|live| has(resource, *live)).is_some();
            if names.iter().any(|name| known(&name)) {
                propstat_ok(xml, |xml| {
                    for live in names.iter().filter_map(Live::of) {
                        push_value(xml, resource, live);
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
    };
}

/// A property we do not have, by the name it was asked for.
fn push_name(xml: &mut String, name: &Name) {
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

/// Text with what XML would misunderstand escaped.
fn push_text(xml: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '&' => xml.push_str("&amp;"),
            '"' => xml.push_str("&quot;"),
            // XML 1.0 has no way to write these (§2.2).
            '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                xml.push('\u{fffd}')
            }
            other => xml.push(other),
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
