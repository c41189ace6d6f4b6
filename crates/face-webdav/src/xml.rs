//! Reads XML bodies with a pull parser. The memory and the depth are limited. This module refuses document types, processing instructions, and all
//! entities except the five that XML predefines. Parts of a body may later be sent to other clients. So the server refuses names, namespaces and
//! characters that some XML parsers reject.

use super::xml_names::is_name;
use enfilade_faces::RequestError;
use enfilade_facts::limits::Limits;
use quick_xml::XmlVersion;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};
use quick_xml::name::ResolveResult;
use quick_xml::reader::NsReader;
use std::sync::Arc;

/// The reserved namespaces (Namespaces in XML 1.0 §3). Only the prefixes `xml` and `xmlns` may be bound to a reserved namespace.
const XML: &str = "http://www.w3.org/XML/1998/namespace";
const XMLNS: &str = "http://www.w3.org/2000/xmlns/";

const NOT_WELL_FORMED: RequestError = RequestError::Xml("the body is not well-formed XML");

/// Whether a namespace name contains no white space and no brace. A URI contains neither (RFC 3986 §2), and some parsers rely on this rule. The
/// parsers of Python's library join a namespace and a name into one string, with a blank or a brace between them. So these parsers cannot read a
/// document with a blank or a brace in a namespace.
fn is_uri(namespace: &str) -> bool {
    !namespace.contains(|c: char| c.is_whitespace() || matches!(c, '{' | '}'))
}

/// A name of an element or an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) local: String,
}

impl Name {
    /// Whether this is the name `local` in the namespace `DAV:`.
    pub(crate) fn is_dav(&self, local: &str) -> bool {
        self.namespace.as_deref() == Some("DAV:") && self.local == local
    }

    /// Whether every client can read the name. The name must be valid in XML. Its namespace must not be reserved, and must contain no white space and
    /// no brace.
    pub(crate) fn can_be_written(namespace: &str, local: &str) -> bool {
        is_name(local) && !matches!(namespace, XML | XMLNS) && is_uri(namespace)
    }
}

/// The start of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: Name,
    /// The attributes, without declarations of namespaces.
    pub(crate) attributes: Vec<(Name, String)>,
}

/// A piece of a body: the start of an element, text, or the end of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Begin(Element),
    Text(String),
    End,
}

/// Reads a body piece by piece.
pub(crate) struct Pieces<'b> {
    reader: NsReader<&'b [u8]>,
    depth: usize,
    begun: bool,
    limits: Limits,
    /// The declared namespaces. Each pair contains the name of a namespace as the body spells it, and the resolved name, in which entity and
    /// character references are replaced. All names in a namespace share the resolved name.
    namespaces: Vec<(String, Arc<str>)>,
}

impl<'b> Pieces<'b> {
    pub(crate) fn new(body: &'b [u8], limits: &Limits) -> Self {
        let mut reader = NsReader::from_reader(body);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.check_end_names = true;
        config.check_comments = true;
        Pieces { reader, depth: 0, begun: false, limits: *limits, namespaces: Vec::new() }
    }

    /// The number of open elements.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// The next piece; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, RequestError> {
        loop {
            match self.reader.read_event().map_err(|_| NOT_WELL_FORMED)? {
                Event::Start(element) => {
                    self.depth += 1;
                    if self.depth as u64 > self.limits.xml_depth {
                        return Err(RequestError::Xml("the XML is nested too deeply (limit `xml_depth`)"));
                    }
                    if std::mem::replace(&mut self.begun, true) && self.depth == 1 {
                        return Err(RequestError::Xml("the body has more than one root element"));
                    }
                    return Ok(Some(Piece::Begin(self.element(&element)?)));
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(Some(Piece::End));
                }
                // XML 1.0 §2.4: text must not contain `]]>`, the end of a CDATA section.
                Event::Text(text) if self.depth > 0 && !text.contains("]]>") => {
                    return text_of(text.xml_content(XmlVersion::Implicit1_0).into_owned());
                }
                Event::CData(text) if self.depth > 0 => {
                    return text_of(text.xml_content(XmlVersion::Implicit1_0).into_owned());
                }
                Event::GeneralRef(named) if self.depth > 0 => {
                    return Ok(Some(Piece::Text(resolved(&named)?.to_string())));
                }
                Event::DocType(_) => {
                    return Err(RequestError::Xml("a document type declaration is not accepted"));
                }
                Event::PI(_) => return Err(RequestError::Xml("a processing instruction is not accepted")),
                Event::Eof if self.depth > 0 => {
                    return Err(RequestError::Xml("the body ends inside an element"));
                }
                Event::Eof if !self.begun => return Err(RequestError::Xml("the body has no element")),
                Event::Eof => return Ok(None),
                Event::Text(_) if self.depth > 0 => return Err(NOT_WELL_FORMED),
                Event::Text(text) if !text.chars().all(is_blank) => {
                    return Err(RequestError::Xml("the body has text outside of its root element"));
                }
                Event::GeneralRef(_) | Event::CData(_) => {
                    return Err(RequestError::Xml("the body has text outside of its root element"));
                }
                // XML 1.0 §2.5: a comment may contain only characters of XML.
                Event::Comment(text) if !is_text(&text) => return Err(NOT_WELL_FORMED),
                Event::Decl(declaration) => self.check_declaration(&declaration)?,
                Event::Empty(_) | Event::Text(_) | Event::Comment(_) => {}
            }
        }
    }

    /// Skips the rest of the current element, including its end tag.
    pub(crate) fn skip(&mut self) -> Result<(), RequestError> {
        let until = self.depth.saturating_sub(1);
        while self.depth > until {
            self.next()?;
        }
        Ok(())
    }

    /// The content of the element that began last, as XML that declares all its namespaces. If the XML gets longer than `most` bytes, the function
    /// refuses it with the text `too_long`.
    pub(crate) fn inner_xml(&mut self, most: usize, too_long: &'static str) -> Result<String, RequestError> {
        let until = self.depth.saturating_sub(1);
        let mut xml = String::new();
        // The open elements. Inside an element, the namespace of the element is the default namespace.
        let mut open: Vec<Name> = Vec::new();
        loop {
            match self.next()? {
                Some(Piece::Begin(element)) => {
                    push_element(&mut xml, &element, open.last());
                    open.push(element.name);
                }
                Some(Piece::Text(text)) => push_text(&mut xml, &text),
                Some(Piece::End) if self.depth == until => return Ok(xml),
                Some(Piece::End) => {
                    let name = open.pop().map(|name| name.local).unwrap_or_default();
                    xml.push_str("</");
                    xml.push_str(&name);
                    xml.push('>');
                }
                None => return Err(RequestError::Xml("the body ends inside an element")),
            }
            if xml.len() > most {
                return Err(RequestError::Xml(too_long));
            }
        }
    }

    /// Checks the XML declaration: it must be before the first element, and its encoding must be UTF-8 or US-ASCII.
    fn check_declaration(&self, declaration: &BytesDecl<'_>) -> Result<(), RequestError> {
        let is_read = match declaration.encoding() {
            None => true,
            Some(Ok(encoding)) => {
                ["utf-8", "us-ascii"].iter().any(|known| encoding.eq_ignore_ascii_case(known))
            }
            Some(Err(_)) => false,
        };
        match (self.begun, is_read) {
            (false, true) => Ok(()),
            (true, _) => Err(NOT_WELL_FORMED),
            (false, false) => Err(RequestError::Xml("the body is not in UTF-8")),
        }
    }

    fn element(&mut self, element: &BytesStart<'_>) -> Result<Element, RequestError> {
        if !is_spaced(element) {
            return Err(NOT_WELL_FORMED);
        }
        let mut given = Vec::new();
        // To find duplicates, the library compares each attribute with all other attributes. The limit on the number of attributes bounds the time of
        // this comparison.
        for (count, attribute) in element.attributes().enumerate() {
            let attribute = attribute.map_err(|_| RequestError::Xml("an attribute cannot be read"))?;
            if count as u64 >= self.limits.xml_attributes {
                return Err(RequestError::Xml("an element has too many attributes (limit `xml_attributes`)"));
            }
            // XML 1.0 §3.1: the value of an attribute must not contain `<`.
            if attribute.value.contains('<') {
                return Err(NOT_WELL_FORMED);
            }
            check_name(attribute.key.as_ref())?;
            match attribute.key.as_namespace_binding().is_some() {
                true => self.declare(&attribute)?,
                false => given.push(attribute),
            }
        }
        check_name(element.name().as_ref())?;
        let (namespace, local) = self.reader.resolver().resolve_element(element.name());
        let name = self.name(namespace, local.into_inner())?;
        if name.namespace.as_deref().is_some_and(|namespace| matches!(namespace, XML | XMLNS)) {
            return Err(RequestError::Xml("an element is in a reserved namespace"));
        }
        let mut attributes: Vec<(Name, String)> = Vec::with_capacity(given.len());
        for attribute in given {
            let (namespace, local) = self.reader.resolver().resolve_attribute(attribute.key);
            let name = self.name(namespace, local.into_inner())?;
            if name.namespace.as_deref() == Some(XMLNS) || attributes.iter().any(|(other, _)| *other == name)
            {
                return Err(RequestError::Xml(
                    "an element has a duplicate attribute, or an attribute with a reserved name",
                ));
            }
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|_| RequestError::Xml("an attribute cannot be read"))?.into_owned();
            attributes.push((name, checked(value)?));
        }
        Ok(Element { name, attributes })
    }

    /// Remembers a declaration of a namespace. The number of declarations and their length are checked before memory is used for them.
    fn declare(&mut self, attribute: &Attribute<'_>) -> Result<(), RequestError> {
        let (key, spelled) = (attribute.key.as_ref(), &*attribute.value);
        // Namespaces in XML 1.0 §2.2: the namespace of a prefix cannot be empty.
        if spelled.is_empty() && key != "xmlns" {
            return Err(NOT_WELL_FORMED);
        }
        if self.namespaces.iter().any(|(known, _)| known == spelled) {
            return Ok(());
        }
        if spelled.len() as u64 > self.limits.xml_namespace_bytes {
            return Err(RequestError::Xml("a namespace name is longer than the limit `xml_namespace_bytes`"));
        }
        if self.namespaces.len() as u64 >= self.limits.xml_namespaces {
            return Err(RequestError::Xml(
                "the body declares more namespaces than the limit `xml_namespaces`",
            ));
        }
        let meant = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|_| NOT_WELL_FORMED)?;
        let meant = checked(meant.into_owned())?;
        if !is_uri(&meant) {
            return Err(RequestError::Xml(
                "a namespace name is not a URI: it contains white space, `{` or `}`",
            ));
        }
        if matches!(&*meant, XML | XMLNS) {
            // The prefix `xml` may be declared, but only for the namespace that it always has.
            return match key {
                "xmlns:xml" => Ok(()),
                _ => Err(RequestError::Xml("a prefix is declared for a reserved namespace")),
            };
        }
        self.namespaces.push((spelled.to_owned(), meant.into()));
        Ok(())
    }

    fn name(&self, namespace: ResolveResult<'_>, local: &str) -> Result<Name, RequestError> {
        let namespace = match namespace {
            ResolveResult::Bound(namespace) => {
                let spelled = namespace.into_inner();
                let known = self.namespaces.iter().find(|(known, _)| known == spelled);
                // Only the namespaces of the prefixes `xml` and `xmlns` need no declaration in the body.
                Some(known.map_or_else(|| spelled.into(), |(_, meant)| Arc::clone(meant)))
            }
            ResolveResult::Unbound => None,
            ResolveResult::Unknown(_) => return Err(RequestError::Xml("a namespace prefix is not declared")),
        };
        Ok(Name { namespace: namespace.filter(|namespace| !namespace.is_empty()), local: local.to_owned() })
    }
}

/// Whether attributes are separated by space (XML 1.0 §3.1). The library does not check this.
fn is_spaced(element: &str) -> bool {
    let (mut quote, mut is_after) = (None, false);
    for c in element.chars() {
        match quote {
            Some(end) if c == end => (quote, is_after) = (None, true),
            Some(_) => {}
            None if is_after && !c.is_ascii_whitespace() && c != '/' => return false,
            None => (quote, is_after) = (Some(c).filter(|c| matches!(c, '"' | '\'')), false),
        }
    }
    true
}

/// Checks a name, with a prefix or without one (Namespaces in XML 1.0 §4).
fn check_name(name: &str) -> Result<(), RequestError> {
    let (prefix, local) = name.split_once(':').unwrap_or(("a", name));
    match is_name(prefix) && is_name(local) {
        true => Ok(()),
        false => Err(RequestError::Xml(
            "an element name, attribute name or prefix is not valid in every edition of XML 1.0",
        )),
    }
}

/// Whether the character is allowed in XML 1.0 (§2.2).
fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Whether the character is white space (XML 1.0 §2.3).
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Whether a text contains only characters that XML 1.0 allows.
fn is_text(text: &str) -> bool {
    // In UTF-8, each character that XML does not allow begins with a byte below 0x20 or with 0xef.
    let is_plain = text.bytes().all(|byte| byte >= b' ' && byte != 0xef);
    is_plain || text.chars().all(is_char)
}

/// Returns the text if it contains only characters that XML 1.0 allows.
fn checked(text: String) -> Result<String, RequestError> {
    if is_text(&text) { Ok(text) } else { Err(NOT_WELL_FORMED) }
}

fn text_of(text: String) -> Result<Option<Piece>, RequestError> {
    checked(text).map(|text| Some(Piece::Text(text)))
}

fn resolved(named: &BytesRef<'_>) -> Result<char, RequestError> {
    match named.resolve_char_ref() {
        Ok(Some(c)) if is_char(c) => return Ok(c),
        Ok(None) => {}
        _ => return Err(RequestError::Xml("a character reference names no character of XML 1.0")),
    }
    match &**named {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => Err(RequestError::Xml("an entity reference is not accepted")),
    }
}

/// Writes the stored value of a dead property, or the stored owner of a lock, into an XML response. If an older version or another program stored the
/// value, it is possible that the value is not XML. But clients must be able to read the rest of the response. So markup is parsed and written again,
/// and a value that cannot be parsed is written as text.
pub(crate) fn push_kept(xml: &mut String, kept: &str) {
    if kept.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'<' | b'&' | 0xef)) {
        return push_text(xml, kept);
    }
    let whole = format!("<kept>{kept}</kept>");
    let limits = Limits {
        xml_depth: u64::MAX,
        xml_attributes: u64::MAX,
        xml_namespaces: u64::MAX,
        xml_namespace_bytes: u64::MAX,
        ..Limits::default()
    };
    let mut pieces = Pieces::new(whole.as_bytes(), &limits);
    let mut read = || {
        pieces.next()?;
        let inner = pieces.inner_xml(KEPT_TIMES_MAX * (kept.len() + 64), "")?;
        pieces.next().map(|end| (inner, end))
    };
    match read() {
        Ok((inner, None)) => xml.push_str(&inner),
        _ => push_text(xml, kept),
    }
}

/// The maximum factor by which a stored value may grow when the value is parsed and written again.
const KEPT_TIMES_MAX: usize = 8;

/// Writes the start tag of an element, with declarations of its namespaces. If the enclosing element `around` has the same namespace, the namespace
/// is not declared again.
fn push_element(xml: &mut String, element: &Element, around: Option<&Name>) {
    xml.push('<');
    xml.push_str(&element.name.local);
    if around.map(|around| &around.namespace) != Some(&element.name.namespace) {
        push_attribute(xml, "xmlns", element.name.namespace.as_deref().unwrap_or_default());
    }
    for (number, (name, value)) in element.attributes.iter().enumerate() {
        match name.namespace.as_deref() {
            None => push_attribute(xml, &name.local, value),
            Some(XML) => push_attribute(xml, &format!("xml:{}", name.local), value),
            Some(namespace) => {
                push_attribute(xml, &format!("xmlns:a{number}"), namespace);
                push_attribute(xml, &format!("a{number}:{}", name.local), value);
            }
        }
    }
    xml.push('>');
}

/// Writes an attribute, with a space before it.
pub(crate) fn push_attribute(xml: &mut String, name: &str, value: &str) {
    xml.push(' ');
    xml.push_str(name);
    xml.push_str("=\"");
    // A parser reads unescaped tabs and line ends as spaces (XML 1.0 §3.3.3).
    for piece in value.split_inclusive(['\t', '\n']) {
        push_text(xml, piece.trim_end_matches(['\t', '\n']));
        xml.push_str(match piece.as_bytes().last() {
            Some(b'\t') => "&#9;",
            Some(b'\n') => "&#10;",
            _ => "",
        });
    }
    xml.push('"');
}

/// Writes text, and escapes the characters that XML would read as markup.
pub(crate) fn push_text(xml: &mut String, text: &str) {
    // Most texts need no escapes and are copied whole.
    if text.bytes().all(|byte| byte >= b' ' && !matches!(byte, b'<' | b'>' | b'&' | b'"' | 0xef)) {
        return xml.push_str(text);
    }
    for c in text.chars() {
        match c {
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '&' => xml.push_str("&amp;"),
            '"' => xml.push_str("&quot;"),
            // A parser reads an unescaped CR as the end of a line.
            '\r' => xml.push_str("&#13;"),
            // XML 1.0 (§2.2) does not allow these characters, not even as references.
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
            // The namespace is declared once, and references are resolved.
            (
                "<a xmlns='urn:&#38;a'><b c='1&#10;2&#9;3\n4'><d/><e xmlns=''/></b></a>",
                "<b xmlns=\"urn:&amp;a\" c=\"1&#10;2&#9;3 4\"><d></d><e xmlns=\"\"></e></b>",
            ),
            ("<a><b xml:lang='de'>ü</b></a>", "<b xmlns=\"\" xml:lang=\"de\">ü</b>"),
            ("<a/>", ""),
        ] {
            let mut pieces = Pieces::new(body.as_bytes(), &Limits::default());
            assert!(matches!(pieces.next(), Ok(Some(Piece::Begin(_)))));
            assert_eq!(pieces.inner_xml(1000, "").unwrap(), inner);
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
            // Names and namespaces (Namespaces in XML 1.0 §3).
            "<xml:a/>",
            "<xmlns:a/>",
            "<a b='' xmlns:p='http://www.w3.org/XML/1998/namespace'/>",
            "<a xmlns='http://www.w3.org/XML/1998/&#110;amespace'/>",
            "<a xmlns='http://www.w3.org/2000/xmlns/'/>",
            "<a xmlns:xml='urn:x'/>",
            "<a xmlns:xmlns='urn:x'/>",
            "<a xmlns:p='urn:x' xmlns:q='urn:x' p:b='' q:b=''/>",
            "<\u{aa}/>",
            "<p:\u{aa} xmlns:p='urn:x'/>",
            "<a \u{aa}=''/>",
            "<p:b:c xmlns:p='urn:x'/>",
            "<a xmlns::p='urn:x'/>",
            "<a xmlns:p=''/>",
            "<a b=''c=''/>",
            "<:a/>",
            // Characters (XML 1.0 §2.2).
            "<a>\u{1}</a>",
            "<a><![CDATA[\u{fffe}]]></a>",
            "<a b='\u{b}'/>",
            "<a b='&#1;'/>",
            "<a>]]></a>",
            "<a><!--\u{2}--></a>",
            "<!--\u{fffe}--><a/>",
            "<a><!-- -- --></a>",
            "<a><!-- ---></a>",
            "\u{c}<a/>",
            "<a/>\u{c}",
            "<a b='<'/>",
            "<a xmlns:p='&#x1f;'/>",
            // The declaration of XML.
            "<?xml version='1.0' encoding='ISO-8859-1'?><a>\u{e4}</a>",
            "<a><?xml version='1.0'?></a>",
        ] {
            let mut pieces = Pieces::new(body.as_bytes(), &Limits::default());
            let outcome = loop {
                match pieces.next() {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            };
            assert!(matches!(outcome, Err(RequestError::Xml(_))), "{body}");
        }
    }

    #[test]
    fn namespaces_are_few_and_short() {
        let limits = Limits { xml_namespaces: 3, xml_namespace_bytes: 8, ..Limits::default() };
        let read = |body: &str| {
            let mut pieces = Pieces::new(body.as_bytes(), &limits);
            loop {
                match pieces.next() {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            }
        };
        let spelled = |count: usize| (0..count).map(|n| format!("<b xmlns='{n}'/>")).collect::<String>();
        assert_eq!(read(&format!("<a>{}{}</a>", spelled(3), spelled(3))), Ok(None));
        assert!(read(&format!("<a>{}</a>", spelled(4))).is_err());
        assert_eq!(read("<a xmlns='12345678'/>"), Ok(None));
        assert!(read("<a xmlns:p='123456789'/>").is_err());
    }

    #[test]
    fn values_are_bounded_while_they_are_built() {
        let body = format!("<a>{}</a>", "<b c='\"\"\"\"'/>".repeat(100));
        let mut pieces = Pieces::new(body.as_bytes(), &Limits::default());
        assert!(pieces.next().is_ok());
        assert!(pieces.inner_xml(1000, "too long") == Err(RequestError::Xml("too long")));
        assert!(pieces.reader.buffer_position() < 600, "the parser must not read the rest");
    }

    #[test]
    fn what_was_kept_breaks_nothing() {
        for (kept, written) in [
            ("plain > text", "plain &gt; text"),
            ("1 &lt; 2", "1 &lt; 2"),
            ("<b xmlns=\"urn:x\">1</b>2", "<b xmlns=\"urn:x\">1</b>2"),
            // A value that is not XML is written as text.
            ("</kept><kept>", "&lt;/kept&gt;&lt;kept&gt;"),
            ("<xml:b></xml:b>", "&lt;xml:b&gt;&lt;/xml:b&gt;"),
            ("<b a='<'></b>&", "&lt;b a='&lt;'&gt;&lt;/b&gt;&amp;"),
            ("\u{1}<b/>", "\u{fffd}&lt;b/&gt;"),
            ("\u{1}", "\u{fffd}"),
            ("&x;", "&amp;x;"),
        ] {
            let mut xml = String::new();
            push_kept(&mut xml, kept);
            assert_eq!(xml, written);
        }
    }
}
