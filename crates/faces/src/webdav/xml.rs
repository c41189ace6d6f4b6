//! Reading XML bodies with a pull parser, in bounded space and depth: no document types, no entities but the five of XML itself.

use crate::respond::Wire;
use enfilade_facts::limits::Limits;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;

/// A name of an element or an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) namespace: Option<String>,
    pub(crate) local: String,
}

impl Name {
    /// Whether it is this one of WebDAV's own.
    pub(crate) fn is_dav(&self, local: &str) -> bool {
        self.namespace.as_deref() == Some("DAV:") && self.local == local
    }
}

/// An element as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: Name,
    /// Without declarations of namespaces.
    pub(crate) attributes: Vec<(Name, String)>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Begin(Element),
    Text(String),
    End,
}

/// A body, piece by piece.
pub(crate) struct Pieces<'b> {
    reader: NsReader<&'b [u8]>,
    depth: usize,
    begun: bool,
    depth_max: u64,
    attributes_max: u64,
}

impl<'b> Pieces<'b> {
    pub(crate) fn new(body: &'b [u8], limits: &Limits) -> Self {
        let mut reader = NsReader::from_reader(body);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.check_end_names = true;
        let (depth_max, attributes_max) = (limits.xml_depth, limits.xml_attributes);
        Pieces { reader, depth: 0, begun: false, depth_max, attributes_max }
    }

    /// How many elements are open.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The next piece; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, Wire> {
        loop {
            let event = self.reader.read_event();
            match event.map_err(|_| Wire::Xml("the body is not well-formed XML"))? {
                Event::Start(element) => {
                    self.depth += 1;
                    if self.depth as u64 > self.depth_max {
                        return Err(Wire::Xml("the XML is nested too deep"));
                    }
                    if std::mem::replace(&mut self.begun, true) && self.depth == 1 {
                        return Err(Wire::Xml("the body has more than one element"));
                    }
                    return Ok(Some(Piece::Begin(self.element(&element)?)));
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(Some(Piece::End));
                }
                Event::Text(text) if self.depth > 0 => {
                    return Ok(Some(Piece::Text(text.xml_content(XmlVersion::Implicit1_0).into_owned())));
                }
                Event::CData(text) if self.depth > 0 => {
                    return Ok(Some(Piece::Text(text.xml_content(XmlVersion::Implicit1_0).into_owned())));
                }
                Event::GeneralRef(named) if self.depth > 0 => {
                    return Ok(Some(Piece::Text(resolved(&named)?.to_string())));
                }
                Event::DocType(_) => return Err(Wire::Xml("a document type declaration is not accepted")),
                Event::PI(_) => return Err(Wire::Xml("a processing instruction is not accepted")),
                Event::Eof if self.depth > 0 => return Err(Wire::Xml("the body ends inside an element")),
                Event::Eof if !self.begun => return Err(Wire::Xml("the body has no element")),
                Event::Eof => return Ok(None),
                Event::Text(text) if !text.trim_ascii().is_empty() => {
                    return Err(Wire::Xml("there is text beside the body's element"));
                }
                Event::GeneralRef(_) | Event::CData(_) => {
                    return Err(Wire::Xml("there is text beside the body's element"));
                }
                Event::Empty(_) | Event::Text(_) | Event::Comment(_) | Event::Decl(_) => {}
            }
        }
    }

    /// Passes everything to the end of the element that began last.
    pub(crate) fn skip(&mut self) -> Result<(), Wire> {
        let until = self.depth.saturating_sub(1);
        while self.depth > until {
            self.next()?;
        }
        Ok(())
    }

    /// What is in the element that began last, to its end, as XML that stands for itself.
    pub(crate) fn inner_xml(&mut self) -> Result<String, Wire> {
        let until = self.depth.saturating_sub(1);
        let mut xml = String::new();
        let mut open: Vec<String> = Vec::new();
        loop {
            match self.next()? {
                Some(Piece::Begin(element)) => open.push(push_element(&mut xml, &element)),
                Some(Piece::Text(text)) => push_text(&mut xml, &text),
                Some(Piece::End) if self.depth == until => return Ok(xml),
                Some(Piece::End) => {
                    let name = open.pop().unwrap_or_default();
                    xml.push_str("</");
                    xml.push_str(&name);
                    xml.push('>');
                }
                None => return Err(Wire::Xml("the body ends inside an element")),
            }
        }
    }

    fn element(&self, element: &BytesStart<'_>) -> Result<Element, Wire> {
        let (namespace, _) = self.reader.resolver().resolve_element(element.name());
        let name = name(namespace, element.local_name().into_inner())?;
        let mut attributes = Vec::new();
        // The library's own check for doubled attributes compares each with each; with a bound it may stay on.
        for (count, attribute) in element.attributes().enumerate() {
            let attribute = attribute.map_err(|_| Wire::Xml("an attribute cannot be read"))?;
            if count as u64 >= self.attributes_max {
                return Err(Wire::Xml("an element has too many attributes"));
            }
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let (namespace, local) = self.reader.resolver().resolve_attribute(attribute.key);
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|_| Wire::Xml("an attribute cannot be read"))?.into_owned();
            attributes.push((self::name(namespace, local.into_inner())?, value));
        }
        Ok(Element { name, attributes })
    }
}

fn resolved(named: &BytesRef<'_>) -> Result<char, Wire> {
    let is_char = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    match named.resolve_char_ref() {
        Ok(Some(c)) if is_char(c) => return Ok(c),
        Ok(None) => {}
        _ => return Err(Wire::Xml("a character reference is to no character")),
    }
    match &**named {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(Wire::Xml("an entity reference is not accepted")),
    }
}

fn name(namespace: ResolveResult<'_>, local: &str) -> Result<Name, Wire> {
    let namespace = match namespace {
        ResolveResult::Bound(namespace) => Some(namespace.into_inner().to_owned()),
        ResolveResult::Unbound => None,
        ResolveResult::Unknown(_) => return Err(Wire::Xml("a namespace prefix is not declared")),
    };
    // The name is written back into the answer, so it has to be one (XML 1.0 §2.3, without the rare letters' table).
    let starts = local.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    if !starts || !local.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')) {
        return Err(Wire::Xml("an element's name is not a name"));
    }
    Ok(Name { namespace, local: local.to_owned() })
}

/// Writes an element's begin, with every namespace it needs declared on it; says under which name it has to end.
fn push_element(xml: &mut String, element: &Element) -> String {
    let name = &element.name.local;
    xml.push('<');
    xml.push_str(name);
    push_attribute(xml, "xmlns", element.name.namespace.as_deref().unwrap_or_default());
    for (number, (name, value)) in element.attributes.iter().enumerate() {
        match name.namespace.as_deref() {
            None => push_attribute(xml, &name.local, value),
            Some("http://www.w3.org/XML/1998/namespace") => {
                push_attribute(xml, &format!("xml:{}", name.local), value);
            }
            Some(namespace) => {
                push_attribute(xml, &format!("xmlns:a{number}"), namespace);
                push_attribute(xml, &format!("a{number}:{}", name.local), value);
            }
        }
    }
    xml.push('>');
    name.clone()
}

fn push_attribute(xml: &mut String, name: &str, value: &str) {
    xml.push(' ');
    xml.push_str(name);
    xml.push_str("=\"");
    push_text(xml, value);
    xml.push('"');
}

/// Text with what XML would misunderstand escaped.
pub(crate) fn push_text(xml: &mut String, text: &str) {
    // Most of it needs no look at each letter.
    if text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'<' | b'>' | b'&' | b'"' | 0xef)) {
        return xml.push_str(text);
    }
    for c in text.chars() {
        match c {
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '&' => xml.push_str("&amp;"),
            '"' => xml.push_str("&quot;"),
            // As it is it would be taken for the end of a line.
            '\r' => xml.push_str("&#13;"),
            // XML 1.0 has no way to write these (§2.2).
            '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                xml.push('\u{fffd}')
            }
            other => xml.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_an_element_stands_for_itself() {
        for (body, inner) in [
            ("<a>x &lt; &#65536;&amp;<![CDATA[<y>]]></a>", "x &lt; \u{10000}&amp;&lt;y&gt;"),
            (
                "<a xmlns:t='urn:t' xmlns='urn:a'><t:b c='1' t:d='\"'><e/></t:b></a>",
                "<b xmlns=\"urn:t\" c=\"1\" xmlns:a1=\"urn:t\" a1:d=\"&quot;\"><e xmlns=\"urn:a\"></e></b>",
            ),
            ("<a><b xml:lang='de'>ü</b></a>", "<b xmlns=\"\" xml:lang=\"de\">ü</b>"),
            ("<a/>", ""),
        ] {
            let mut pieces = Pieces::new(body.as_bytes(), &Limits::default());
            assert!(matches!(pieces.next(), Ok(Some(Piece::Begin(_)))));
            assert_eq!(pieces.inner_xml().unwrap(), inner);
            assert_eq!(pieces.next(), Ok(None));
        }
    }

    #[test]
    fn what_is_no_plain_xml_is_refused() {
        for body in [
            "<a>&#0;</a>",
            "<a>&b;</a>",
            "<a/><a/>",
            "<a/>x",
            "x<a/>",
            "",
            "<a>",
            "<b:a/>",
            "<a>&#x110000;</a>",
        ] {
            let mut pieces = Pieces::new(body.as_bytes(), &Limits::default());
            let outcome = loop {
                match pieces.next() {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            };
            assert!(matches!(outcome, Err(Wire::Xml(_))), "{body}");
        }
    }
}
