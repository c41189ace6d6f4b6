//! Reads the body of a PROPFIND (RFC 4918 §14.20) with a pull parser. The memory and the depth are limited.

use super::xml::{Name, Piece, Pieces};
use enfilade_faces::RequestError;
use enfilade_facts::limits::Limits;

/// The properties that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All properties.
    All,
    /// The names of all properties.
    Names,
    /// The properties with these names.
    Some(Vec<Name>),
}

/// Reads the body. An empty body asks for all properties (RFC 4918 §9.1).
pub(crate) fn read(body: &[u8], limits: &Limits) -> Result<Asked, RequestError> {
    if body.is_empty() {
        return Ok(Asked::All);
    }
    let mut pieces = Pieces::new(body, limits);
    let (mut asked, mut in_prop) = (None, false);
    while let Some(piece) = pieces.next()? {
        let Piece::Begin(element) = piece else { continue };
        let name = element.name;
        match pieces.depth() {
            1 if name.is_dav("propfind") => {}
            1 => return Err(RequestError::Xml("expected one DAV:propfind element")),
            2 => {
                in_prop = name.is_dav("prop");
                let kind = match name.local.as_str() {
                    _ if name.namespace.as_deref() != Some("DAV:") => None,
                    "prop" => Some(Asked::Some(Vec::new())),
                    "allprop" => Some(Asked::All),
                    "propname" => Some(Asked::Names),
                    // `include` adds properties to `allprop`. This server ignores `include` like an unknown element (RFC 4918 §17).
                    _ => None,
                };
                if kind.is_some() && asked.is_some() {
                    return Err(RequestError::Xml("expected one of prop, allprop and propname"));
                }
                asked = kind.or(asked);
            }
            3 if in_prop => {
                if let Some(Asked::Some(names)) = &mut asked {
                    if names.len() as u64 >= limits.xml_properties {
                        return Err(RequestError::Xml(
                            "the request asks for too many properties (limit `xml_properties`)",
                        ));
                    }
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
            _ => {}
        }
    }
    asked.ok_or(RequestError::Xml("expected DAV:propfind with one of prop, allprop and propname"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dav(local: &str) -> Name {
        Name { namespace: Some("DAV:".into()), local: local.into() }
    }

    #[test]
    fn what_clients_send() {
        for (body, asked) in [
            ("", Asked::All),
            ("<propfind xmlns='DAV:'><allprop/></propfind>", Asked::All),
            ("<D:propfind xmlns:D=\"DAV:\"><D:propname/></D:propfind>", Asked::Names),
            (
                "<?xml version=\"1.0\"?><d:propfind xmlns:d='DAV:' xmlns:oc='urn:o'>\n <d:prop><d:getetag/><d:getetag/>\
                 <oc:checksums/><none xmlns=''/></d:prop></d:propfind>",
                Asked::Some(vec![
                    dav("getetag"),
                    Name { namespace: Some("urn:o".into()), local: "checksums".into() },
                    Name { namespace: None, local: "none".into() },
                ]),
            ),
            ("<propfind xmlns='DAV:'><allprop/><include><x/></include></propfind>", Asked::All),
        ] {
            assert_eq!(read(body.as_bytes(), &Limits::default()), Ok(asked), "{body}");
        }
    }

    #[test]
    fn what_attackers_send() {
        let nested = format!("{}{}", "<a>".repeat(10_000), "</a>".repeat(10_000));
        let deep = format!("<propfind xmlns='DAV:'><prop>{nested}</prop></propfind>");
        let attributes: String = (0..65).map(|n| format!(" a{n}=''")).collect();
        let properties: String = (0..257).map(|n| format!("<p{n}/>")).collect();
        for body in [
            nested,
            deep,
            format!("<propfind xmlns='DAV:'><prop{attributes}/></propfind>"),
            format!("<propfind xmlns='DAV:'><prop>{properties}</prop></propfind>"),
            "<!DOCTYPE x [<!ENTITY a 'b'>]><propfind xmlns='DAV:'><allprop/></propfind>".into(),
            "<propfind xmlns='DAV:'>&a;<allprop/></propfind>".into(),
            "<?php x ?><propfind xmlns='DAV:'><allprop/></propfind>".into(),
            "<propfind xmlns='DAV:'><allprop/>".into(),
            "<propfind xmlns='DAV:'><allprop/></prop>".into(),
            "<propfind xmlns='DAV:'><allprop/><propname/></propfind>".into(),
            "<propfind xmlns='DAV:'/>".into(),
            "<propfind><allprop/></propfind>".into(),
            "<x:propfind xmlns='DAV:'><allprop/></x:propfind>".into(),
            "plain text".into(),
            "<propfind xmlns='DAV:'><allprop/></propfind><propfind xmlns='DAV:'><allprop/></propfind>".into(),
        ] {
            assert!(
                matches!(read(body.as_bytes(), &Limits::default()), Err(RequestError::Xml(_))),
                "{:.60}",
                body
            );
        }
    }
}
