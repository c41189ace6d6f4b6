//! PROPPATCH (RFC 4918 §9.2): sets and removes dead properties. The server makes all changes of a request, or no change.

use super::conditions::RequestConditions;
use super::multistatus::{self, Form, Live, multi_status, push_status};
use super::propfind_request::Asked;
use super::xml::{Element, Name, Piece, Pieces};
use super::{Call, end, href};
use enfilade_faces::blocking_failure;
use enfilade_faces::{Aim, Answer, Body, Failure, RequestError, collect_xml};
use enfilade_facts::limits::{Limits, PROPERTIES_BYTES_MAX};
use enfilade_facts::vocabulary::{AccessMask, OperationKind};
use enfilade_passage::{Blocking, NodeKind, Property, PropertyChange};
use hyper::StatusCode;

pub(crate) async fn proppatch(call: Call) -> Answer {
    let Call { visit, place, request, trace, .. } = call;
    let (head, body) = request.into_parts();
    let outcome = async {
        let conditions = RequestConditions::of(&head)?;
        let limits = visit.limits();
        let changes = read(&collect_xml(body, &limits).await?, &limits)?;
        // Live properties cannot be changed. If a request tries to change a live property, none of its changes is made.
        let is_protected = |name: &Name| Live::of(name).is_some();
        let refused = changes.iter().any(|(name, _)| is_protected(name));
        let (names, changes): (Vec<Name>, Vec<PropertyChange>) = changes.into_iter().unzip();
        let goal = place.clone();
        let kind = blocking_failure(visit.share(), move || {
            let mut stay = visit.enter(&goal.datastore, OperationKind::Write, Blocking)?;
            let path = goal.path.clone();
            let tokens = conditions.check_twice(&mut stay, goal)?;
            if !refused {
                stay.change_properties(&path, &changes, &tokens)?;
            }
            Ok(stay.find(&path, AccessMask::NONE, Blocking)?.kind())
        })
        .await?;
        let form = Form::of(Asked::Some(names));
        let mut xml = form.begin();
        xml.push_str("<D:response><D:href>");
        xml.push_str(&href::of(&place, kind == NodeKind::Directory));
        xml.push_str("</D:href>");
        for (status, of_protected) in [
            (if refused { StatusCode::FAILED_DEPENDENCY } else { StatusCode::OK }, false),
            (StatusCode::FORBIDDEN, true),
        ] {
            let is_one = |live: Option<Live>| live.is_some() == of_protected;
            if form.has(is_one) {
                xml.push_str("<D:propstat><D:prop>");
                form.push_names(&mut xml, is_one);
                xml.push_str("</D:prop>");
                push_status(&mut xml, status);
                if of_protected {
                    xml.push_str("<D:error><D:cannot-modify-protected-property/></D:error>");
                }
                xml.push_str("</D:propstat>");
            }
        }
        xml.push_str("</D:response>\n");
        xml.push_str(multistatus::END);
        Ok(multi_status(Body::from(xml)))
    };
    let outcome: Result<Answer, Failure> = outcome.await;
    end(trace, outcome, Aim::Target)
}

/// The changes that a body asks for, in the order in which the body contains them.
pub(super) fn read(body: &[u8], limits: &Limits) -> Result<Vec<(Name, PropertyChange)>, RequestError> {
    let mut pieces = Pieces::new(body, limits);
    let (mut changes, mut is_set, mut language) = (Vec::new(), None, [None, None]);
    let mut room = PROPERTIES_BYTES_MAX;
    while let Some(piece) = pieces.next()? {
        let Piece::Begin(element) = piece else { continue };
        match pieces.depth() {
            1 if element.name.is_dav("propertyupdate") => {}
            1 => return Err(RequestError::Xml("expected one DAV:propertyupdate element")),
            2 => {
                is_set = match element.name.local.as_str() {
                    "set" if element.name.is_dav("set") => Some(true),
                    "remove" if element.name.is_dav("remove") => Some(false),
                    _ => None,
                };
                language = [language_of(&element), None];
            }
            3 => {
                match element.name.is_dav("prop") && is_set.is_some() {
                    true => language[1] = language_of(&element),
                    // Unknown elements are ignored (RFC 4918 §17).
                    false => pieces.skip()?,
                }
            }
            _ => {
                if changes.len() as u64 >= limits.xml_properties {
                    return Err(RequestError::Xml(
                        "the body has too many properties (limit `xml_properties`)",
                    ));
                }
                let own = language_of(&element);
                let Name { namespace, local } = element.name.clone();
                let (namespace, name) = (namespace.as_deref().unwrap_or_default().to_owned(), local);
                let change = match is_set {
                    Some(true) => {
                        let value = pieces.inner_xml(
                            room,
                            "the values of the properties are longer than 64 KiB in total",
                        )?;
                        room -= value.len();
                        let language = own.or_else(|| language.iter().flatten().next_back().cloned());
                        PropertyChange::Set(Property { namespace, name, language, value })
                    }
                    _ => {
                        pieces.skip()?;
                        PropertyChange::Remove { namespace, name }
                    }
                };
                changes.push((element.name, change));
            }
        }
    }
    match changes.is_empty() {
        true => Err(RequestError::Xml("expected DAV:set or DAV:remove with properties")),
        false => Ok(changes),
    }
}

fn language_of(element: &Element) -> Option<String> {
    let is_lang = |name: &Name| {
        name.local == "lang" && name.namespace.as_deref() == Some("http://www.w3.org/XML/1998/namespace")
    };
    element.attributes.iter().find(|(name, _)| is_lang(name)).map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_send() {
        let body = "<D:propertyupdate xmlns:D='DAV:' xmlns:x='urn:x'><D:set><D:prop xml:lang='de'><x:a>1 &amp; 2</x:a>\
            <none xml:lang='fr'><x:y/></none></D:prop></D:set><D:remove><D:prop><x:b>ignored</x:b></D:prop></D:remove>\
            <D:other><D:prop><x:c/></D:prop></D:other></D:propertyupdate>";
        let changes: Vec<PropertyChange> = read(body.as_bytes(), &Limits::default())
            .unwrap()
            .into_iter()
            .map(|(_, change)| change)
            .collect();
        let set = |namespace: &str, name: &str, language: &str, value: &str| {
            PropertyChange::Set(Property {
                namespace: namespace.into(),
                name: name.into(),
                language: Some(language.into()),
                value: value.into(),
            })
        };
        assert_eq!(
            changes,
            [
                set("urn:x", "a", "de", "1 &amp; 2"),
                set("", "none", "fr", "<y xmlns=\"urn:x\"></y>"),
                PropertyChange::Remove { namespace: "urn:x".into(), name: "b".into() },
            ]
        );
    }

    #[test]
    fn what_changes_nothing_is_refused() {
        for body in [
            "",
            "<a/>",
            "<propertyupdate xmlns='DAV:'/>",
            "<propertyupdate xmlns='DAV:'><set><prop/></set></propertyupdate>",
        ] {
            assert!(matches!(read(body.as_bytes(), &Limits::default()), Err(RequestError::Xml(_))), "{body}");
        }
    }
}
