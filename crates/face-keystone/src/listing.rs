//! Lists of Identity v3: filters, pages, and responses that are written while the facts are read. So the needed memory does not depend on the length
//! of the list.

use super::{ApiError, ApiResponse, Call, Outcome, query};
use bytes::Bytes;
use enfilade_faces::{Body, Cut, UNCOUNTED_BYTES, counted};
use enfilade_facts::tables::Row;
use enfilade_facts::vocabulary::percent_decoded_leniently;
use enfilade_facts::{Read, View};
use enfilade_passage::ApiPermit;
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};
use serde_json::Value;
use std::ops::ControlFlow;
use tokio::sync::mpsc;

/// The maximum number of records to read in one view.
const PAGE: usize = 500;

/// The size of a piece of a response, in bytes. A piece can exceed this size by one record.
const CHUNK_BYTES: usize = 256 * 1024;

/// The maximum memory for a response that is sent in pieces, in bytes. At the same time, one piece is being made, one piece is in the queue, and one
/// piece is being sent. Each piece can exceed `CHUNK_BYTES` by one record.
const HELD_BYTES: u32 = 4 * CHUNK_BYTES as u32;

/// Receives a record, and the position after the record, from which the listing can continue.
pub(super) type Each<'e> = &'e mut dyn FnMut(Vec<u8>, Value) -> ControlFlow<()>;

/// Reads the records after a position. Passes each record with the position after it to `Each`, until `Each` returns `Break`.
pub(super) type Source = dyn FnMut(&View<'_>, Option<&[u8]>, Each<'_>) -> Result<(), ApiError> + Send;

/// Reads the records of a table after a position, until `each` returns `Break` or an error.
pub(super) fn records<R: Row>(
    view: &View<'_>,
    prefix: &[u8],
    after: Option<&[u8]>,
    mut each: impl FnMut(R::Key, R) -> Result<ControlFlow<()>, ApiError>,
) -> Result<(), ApiError> {
    let mut failure = None;
    view.page::<R>(prefix, after, |key, row| {
        each(key, row).unwrap_or_else(|why| {
            failure = Some(why);
            ControlFlow::Break(())
        })
    })?;
    failure.map_or(Ok(()), Err)
}

/// Filters of a list request.
pub(super) struct Filters(Vec<(String, Compare, String)>);

#[derive(Clone, Copy)]
enum Compare {
    Equal,
    Contains,
    Starts,
    Ends,
    Differs,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

const COMPARES: [(&str, Compare); 8] = [
    ("contains", Compare::Contains),
    ("startswith", Compare::Starts),
    ("endswith", Compare::Ends),
    ("neq", Compare::Differs),
    ("lt", Compare::Less),
    ("lte", Compare::LessOrEqual),
    ("gt", Compare::More),
    ("gte", Compare::MoreOrEqual),
];

impl Filters {
    /// No filters.
    pub(super) fn none() -> Self {
        Filters(Vec::new())
    }

    /// Takes the query parameters as filters. Exceptions are the parameters for pages and sorting, and the parameters in `except`, which the caller
    /// handles.
    pub(super) fn of(head: &Parts, except: &[&str]) -> Self {
        let pairs = form(head.uri.query().unwrap_or_default());
        let own = ["limit", "marker", "sort_key", "sort_dir", "nocatalog"];
        let filters = pairs
            .into_iter()
            .filter(|(name, _)| !own.contains(&name.as_str()) && !except.contains(&name.as_str()));
        Filters(
            filters
                .map(|(name, value)| match name.split_once("__") {
                    None => (name, Compare::Equal, value),
                    Some((attribute, how)) => {
                        // In Keystone, only comparisons with an `i` in front (`icontains`) ignore case. In this server, `contains`, `startswith` and
                        // `endswith` ignore case, too.
                        let how = how.strip_prefix('i').unwrap_or(how);
                        let compare = COMPARES.iter().find(|(known, _)| *known == how);
                        (attribute.to_owned(), compare.map_or(Compare::Equal, |(_, compare)| *compare), value)
                    }
                })
                .collect(),
        )
    }

    /// Whether a record passes every filter. A filter on an attribute that the record does not have is ignored.
    pub(super) fn hold(&self, body: &Value) -> bool {
        self.0.iter().all(|(name, compare, wanted)| match body.get(name) {
            None => true,
            Some(Value::Bool(is)) => {
                // Every value except `0`, `false`, `no` and `off` means true. `?enabled` without a value also means true.
                let wanted = !["0", "false", "no", "off"].contains(&wanted.to_ascii_lowercase().as_str());
                *is == wanted
            }
            Some(Value::Null) => wanted.is_empty() || wanted == "null" || wanted == "None",
            Some(value) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let (text, lower) = (text.as_str(), text.to_lowercase());
                let other = wanted.to_lowercase();
                match compare {
                    Compare::Equal => text == wanted,
                    Compare::Differs => text != wanted,
                    Compare::Contains => lower.contains(&other),
                    Compare::Starts => lower.starts_with(&other),
                    Compare::Ends => lower.ends_with(&other),
                    Compare::Less => text < wanted.as_str(),
                    Compare::LessOrEqual => text <= wanted.as_str(),
                    Compare::More => text > wanted.as_str(),
                    Compare::MoreOrEqual => text >= wanted.as_str(),
                }
            }
        })
    }
}

/// Names and values of the query.
pub(super) fn form(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (plain(name), plain(value)))
        .collect()
}

/// Percent-decodes one part of a query. Invalid escapes stay unchanged.
pub(super) fn plain(text: &str) -> String {
    // A plus means a space. The plus is replaced before the escapes are decoded, because the escape `%2B` stands for a literal plus.
    percent_decoded_leniently(&text.replace('+', " "))
}

/// A list that is being written.
struct Listing {
    source: Box<Source>,
    filters: Filters,
    after: Option<Vec<u8>>,
    left: u64,
    rows: u64,
    last_id: Option<String>,
    is_over: bool,
    json: String,
}

impl Listing {
    fn go_on(&mut self, view: &View<'_>) -> Result<(), ApiError> {
        let (mut looked, mut broke, mut stopped) = (0, false, false);
        let Listing { source, filters, after, left, rows, last_id, json, .. } = self;
        let from = after.clone();
        source(view, from.as_deref(), &mut |place, body| {
            looked += 1;
            *after = Some(place);
            if filters.hold(&body) {
                if *left == 0 {
                    broke = true;
                    return ControlFlow::Break(());
                }
                *left -= 1;
                if *rows > 0 {
                    json.push(',');
                }
                *rows += 1;
                *last_id = body.get("id").and_then(Value::as_str).map(str::to_owned);
                json.push_str(&body.to_string());
            }
            stopped = looked >= PAGE || json.len() >= CHUNK_BYTES;
            if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        // If `broke` is true, a matching record exists beyond the limit. Then the response contains a link to the next page, which begins after the
        // record with the id `last_id`. If the list is over and `broke` is false, there is no next page.
        self.is_over = broke || !stopped;
        if !broke && self.is_over {
            self.last_id = None;
        }
        Ok(())
    }
}

/// Answers with a list.
pub(super) fn answer(
    call: &Call,
    many: &'static str,
    permit: &ApiPermit,
    filters: Filters,
    after: Option<Vec<u8>>,
    source: Box<Source>,
) -> Outcome {
    let limit = match query(&call.head, "limit") {
        None => u64::MAX,
        Some(text) => text.parse().ok().filter(|limit| *limit > 0).ok_or_else(|| {
            ApiError::invalid("Invalid input for field/attribute limit: expected a number, 1 or more.")
        })?,
    };
    let json = format!("{{\"{many}\":[");
    let (rows, last_id, is_over) = (0, None, false);
    let mut listing = Listing { source, filters, after, left: limit, rows, last_id, is_over, json };
    let house = std::sync::Arc::clone(call.faces.arc_house());
    // The first piece does not count against the user's limit of memory. Over HTTP/2, a connection can have many responses at the same time. So the
    // first pieces of these responses are short.
    let first = if call.head.version == Version::HTTP_2 { UNCOUNTED_BYTES } else { CHUNK_BYTES };
    while !listing.is_over && listing.json.len() < first {
        house.source().read(|view| listing.go_on(view))??;
    }
    let url = format!("{}{}", call.base, call.head.uri.path());
    let asked = call.head.uri.query().unwrap_or_default().to_owned();
    if listing.is_over {
        listing.json.push_str(&end(&listing, &url, &asked));
        return Ok(ApiResponse::new(StatusCode::OK, Body::from(listing.json)));
    }
    let (sender, pieces) = mpsc::channel(1);
    let (mut visit, mut permit) = (call.visit.clone(), permit.clone());
    // The next piece is made only when the queue has space for it. So a client that does not read occupies no thread.
    tokio::runtime::Handle::current().spawn(async move {
        let held = std::sync::Arc::new(visit.share().answer(HELD_BYTES).await);
        while let Ok(place) = sender.reserve().await {
            if listing.json.is_empty() {
                let (turn, house) = (visit.share().turn().await, std::sync::Arc::clone(&house));
                let made = tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    while !listing.is_over && listing.json.len() < CHUNK_BYTES {
                        visit.may_go_on(&permit).ok()?;
                        house.source().read(|view| listing.go_on(view)).ok()?.ok()?;
                    }
                    Some((listing, visit, permit))
                });
                let Ok(Some(made)) = made.await else { return place.send(Err(Cut)) };
                (listing, visit, permit) = made;
                if listing.is_over {
                    let end = end(&listing, &url, &asked);
                    listing.json.push_str(&end);
                }
            }
            let piece = Bytes::from(std::mem::take(&mut listing.json));
            place.send(Ok(counted(piece, std::sync::Arc::clone(&held))));
            if listing.is_over {
                return;
            }
        }
    });
    Ok(ApiResponse::new(StatusCode::OK, Body::stream(pieces)))
}

/// An empty list.
pub(super) fn none(call: &Call, many: &'static str) -> ApiResponse {
    let links = serde_json::json!({ "self": format!("{}{}", call.base, call.head.uri.path()), "next": null, "previous": null });
    ApiResponse::json(StatusCode::OK, &serde_json::json!({ many: [], "links": links }))
}

/// The end of the body, after the rows: links to this page, and to the next page if there is one.
fn end(listing: &Listing, url: &str, asked: &str) -> String {
    let own = if asked.is_empty() { url.to_owned() } else { format!("{url}?{asked}") };
    let next = listing.last_id.as_ref().filter(|_| listing.left == 0).map(|last| {
        let others = asked.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("marker="));
        let mut query: Vec<String> = others.map(str::to_owned).collect();
        query.push(format!("marker={last}"));
        format!("{url}?{}", query.join("&"))
    });
    let links = serde_json::json!({ "self": own, "next": next, "previous": null });
    format!("],\"links\":{links}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn filters() {
        let body = json!({ "name": "Alice B", "enabled": true, "parent_id": null, "n": 3 });
        for (query, expected) in [
            ("", true),
            ("name=Alice%20B", true),
            ("name=Alice+B", true),
            ("name=alice+b", false),
            ("name__icontains=ICE", true),
            ("name__startswith=bob", false),
            ("name__iendswith=b", true),
            ("enabled", true),
            ("enabled=True", true),
            ("enabled=0", false),
            ("parent_id=", true),
            ("parent_id=x", false),
            ("n=3&unknown=7&limit=1", true),
            ("mine=7", true),
        ] {
            let head = hyper::Request::get(format!("/v3/users?{query}")).body(()).unwrap().into_parts().0;
            assert_eq!(Filters::of(&head, &["mine"]).hold(&body), expected, "{query}");
        }
        assert_eq!(plain("a%2Fb%zz%"), "a/b%zz%");
    }
}
