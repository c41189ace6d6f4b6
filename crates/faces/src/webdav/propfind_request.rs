//! Reading what a PROPFIND asks for (RFC 4918 §14.20), with a pull parser, in bounded space and depth.

use crate::respond::Wire;
use enfilade_facts::limits::{XML_ATTRIBUTES_MAX, XML_DEPTH_MAX, XML_PROPERTIES_MAX};
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;

/// A property's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) namespace: Option<String>,
    pub(crate) local: String,
}

/// Which properties are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All there are.
    All,
    /// The names of all there are.
    Names,
    /// These.
    Some(Vec<Name>),
}

/// Reads the body; an empty one asks for everything (§9.1).
pub(crate) fn read(body: &[u8]) -> Result<Asked, Wire> {
    if body.is_empty() {
        return Ok(Asked::All);
    }
    let mut reader = NsReader::from_reader(body);
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.check_end_names = true;
    let mut request = Request::default();
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let (namespace, event) = reader
            .read_resolved_event_into(&mut buffer)
            .map_err(|_| Wire::Xml("the body is not well-formed XML"))?;
        match event {
            Event::Start(element) => {
                check_attributes(&element)?;
                request.enter(name(namespace, &element)?)?;
            }
            Event::End(_) => request.depth = request.depth.saturating_sub(1),
            Event::DocType(_) => return Err(Wire::Xml("a document type declaration is not accepted")),
            Event::PI(_) => return Err(Wire::Xml("a processing instruction is not accepted")),
            Event::GeneralRef(_) => return Err(Wire::Xml("an entity reference is not accepted")),
            Event::Eof if request.depth > 0 => return Err(Wire::Xml("the body ends inside an element")),
            Event::Eof => return request.finish(),
            Event::Empty(_) | Event::Text(_) | Event::CData(_) | Event::Comment(_) | Event::Decl(_) => {}
        }
    }
}

/// What has been read so far.
#[derive(Default)]
struct Request {
    depth: usize,
    begun: bool,
    in_prop: bool,
    asked: Option<Asked>,
}

impl Request {
    fn enter(&mut self, name: Name) -> Result<(), Wire> {
        self.depth += 1;
        if self.depth > XML_DEPTH_MAX {
            return Err(Wire::Xml("the XML is nested deeper than 32 elements"));
        }
        let dav = name.namespace.as_deref() == Some("DAV:");
        match (self.depth, name.local.as_str()) {
            (1, "propfind") if dav && !self.begun => self.begun = true,
            (1, _) => return Err(Wire::Xml("expected one DAV:propfind element")),
            (2, kind) => {
                self.in_prop = dav && kind == "prop";
                let asked = match kind {
                    "prop" if dav => Some(Asked::Some(Vec::new())),
                    "allprop" if dav => Some(Asked::All),
                    "propname" if dav => Some(Asked::Names),
                    // `include` asks for more than everything, and we have no more; unknown elements are ignored (§17).
                    _ => None,
                };
                if asked.is_some() && self.asked.is_some() {
                    return Err(Wire::Xml("expected one of prop, allprop and propname"));
                }
                self.asked = asked.or(self.asked.take());
            }
            (3, _) if self.in_prop => {
                if let Some(Asked::Some(names)) = &mut self.asked {
                    if names.len() >= XML_PROPERTIES_MAX {
                        return Err(Wire::Xml("more than 256 properties are named"));
                    }
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Asked, Wire> {
        self.asked.ok_or(Wire::Xml("expected DAV:propfind with one of prop, allprop and propname"))
    }
}

fn check_attributes(element: &BytesStart<'_>) -> Result<(), Wire> {
    // The library's own check for doubled attributes compares each with each; with a bound it may stay on.
    for (count, attribute) in element.attributes().enumerate() {
        attribute.map_err(|_| Wire::Xml("an attribute cannot be read"))?;
        if count >= XML_ATTRIBUTES_MAX {
            return Err(Wire::Xml("an element has more than 64 attributes"));
        }
    }
    Ok(())
}

fn name(namespace: ResolveResult<'_>, element: &BytesStart<'_>) -> Result<Name, Wire> {
    let namespace = match namespace {
        ResolveResult::Bound(namespace) => Some(namespace.into_inner()),
        ResolveResult::Unbound => None,
        ResolveResult::Unknown(_) => return Err(Wire::Xml("a namespace prefix is not declared")),
    };
    let local = element.local_name().into_inner().to_owned();
    // The name is written back into the answer, so it has to be one (XML 1.0 §2.3, without the rare letters' table).
    let starts = local.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    if !starts || !local.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')) {
        return Err(Wire::Xml("an element's name is not a name"));
    }
    Ok(Name { namespace: namespace.map(str::to_owned), local })
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
            assert_eq!(read(body.as_bytes()), Ok(asked), "{body}");
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
            assert!(matches!(read(body.as_bytes()), Err(Wire::Xml(_))), "{:.60}", body);
        }
    }
}
