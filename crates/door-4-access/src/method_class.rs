//! The classes of HTTP methods. A role on an application permits the requests of one or more classes.

use std::fmt;

/// What a request does to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MethodClass {
    /// The request only reads: the method is safe (RFC 9110 §9.2.1).
    Read,
    /// The request may change something.
    Write,
    /// The request changes access rights, or its path is for administrators.
    Administer,
}

impl fmt::Display for MethodClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            MethodClass::Read => "reading",
            MethodClass::Write => "changing",
            MethodClass::Administer => "administration",
        })
    }
}

/// A method of HTTP or of one of its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    name: &'static str,
    class: MethodClass,
    destination: Option<MethodClass>,
}

/// Every method that can be permitted (RFC 9110, 5789, 4918, 3253, 3744, 4791, 5323, 5842, draft-ietf-httpbis-safe-method-w-body). A method that is
/// not in the list is refused, because its effect is not known. CONNECT and TRACE are not in the list: CONNECT has no path, and TRACE returns the
/// credentials of the request. Columns: the name, the class for the path of the request, and the class for the path in the header `Destination`.
const METHODS: [(&str, MethodClass, Option<MethodClass>); 22] = [
    ("GET", MethodClass::Read, None),
    ("HEAD", MethodClass::Read, None),
    ("OPTIONS", MethodClass::Read, None),
    ("QUERY", MethodClass::Read, None),
    ("PROPFIND", MethodClass::Read, None),
    ("REPORT", MethodClass::Read, None),
    ("SEARCH", MethodClass::Read, None),
    ("POST", MethodClass::Write, None),
    ("PUT", MethodClass::Write, None),
    ("PATCH", MethodClass::Write, None),
    ("DELETE", MethodClass::Write, None),
    ("MKCOL", MethodClass::Write, None),
    ("MKCALENDAR", MethodClass::Write, None),
    ("PROPPATCH", MethodClass::Write, None),
    ("LOCK", MethodClass::Write, None),
    ("UNLOCK", MethodClass::Write, None),
    ("CHECKIN", MethodClass::Write, None),
    ("CHECKOUT", MethodClass::Write, None),
    ("VERSION-CONTROL", MethodClass::Write, None),
    ("COPY", MethodClass::Read, Some(MethodClass::Write)),
    ("MOVE", MethodClass::Write, Some(MethodClass::Write)),
    ("ACL", MethodClass::Administer, None),
];

impl Method {
    /// The method of this name; `None` if requests with this method are always refused.
    pub fn named(name: &str) -> Option<Self> {
        let (name, class, destination) = *METHODS.iter().find(|row| row.0 == name)?;
        Some(Method { name, class, destination })
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the method does to the path of the request.
    pub fn class(&self) -> MethodClass {
        self.class
    }

    /// Whether a request with this method and this value of the header `Depth` is also about everything below its path (RFC 4918 §9.1, §9.6.1,
    /// §9.8.3, §9.9.2, §9.10.3). DELETE, COPY and MOVE count as such requests with any value of the header. If the header is missing, requests with
    /// the other methods that use `Depth` count as requests about the whole tree.
    pub fn recurses(&self, depth: Option<&[u8]>) -> bool {
        match self.name {
            "DELETE" | "COPY" | "MOVE" => true,
            "PROPFIND" | "LOCK" | "REPORT" | "SEARCH" => !matches!(depth, Some(b"0" | b"1")),
            _ => false,
        }
    }

    /// What the method does to the path in the header `Destination`; `None` if the method does not use this header.
    pub fn class_of_destination(&self) -> Option<MethodClass> {
        self.destination
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_methods_have_a_class() {
        for (name, class, destination) in [
            ("GET", Some(MethodClass::Read), None),
            ("MOVE", Some(MethodClass::Write), Some(MethodClass::Write)),
            ("COPY", Some(MethodClass::Read), Some(MethodClass::Write)),
            ("get", None, None),
            ("TRACE", None, None),
            ("CONNECT", None, None),
            ("BREW", None, None),
            ("", None, None),
        ] {
            let method = Method::named(name);
            assert_eq!(method.map(|method| method.class()), class, "{name}");
            assert_eq!(method.and_then(|method| method.class_of_destination()), destination, "{name}");
        }
    }
}
