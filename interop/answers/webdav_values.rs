//! Values of WebDAV's headers and bodies, valid and invalid.

pub(super) const DEPTHS: [&str; 10] =
    ["", "0", "1", "infinity", "Infinity", "2", "-1", "0, 1", "1,noroot", "x"];

/// Bodies of PROPFIND, each with its name. The usual bodies come first.
pub(super) const PROPFINDS: [(&str, &str); 26] = [
    ("nothing", ""),
    ("allprop", r#"<propfind xmlns="DAV:"><allprop/></propfind>"#),
    ("propname", r#"<D:propfind xmlns:D="DAV:"><D:propname/></D:propfind>"#),
    (
        "live",
        r#"<propfind xmlns="DAV:"><prop><getetag/><getcontentlength/><getlastmodified/><creationdate/><resourcetype/><getcontenttype/><displayname/><supportedlock/><lockdiscovery/></prop></propfind>"#,
    ),
    (
        "access",
        r#"<propfind xmlns="DAV:"><prop><owner/><group/><acl/><current-user-privilege-set/><current-user-principal/><supported-privilege-set/><acl-restrictions/><inherited-acl-set/><principal-collection-set/></prop></propfind>"#,
    ),
    (
        "quota",
        r#"<propfind xmlns="DAV:"><prop><quota-available-bytes/><quota-used-bytes/></prop></propfind>"#,
    ),
    (
        "unknown",
        r#"<propfind xmlns="DAV:" xmlns:x="urn:x"><prop><x:one/><x:two/><three xmlns=""/></prop></propfind>"#,
    ),
    (
        "win32",
        r#"<propfind xmlns="DAV:" xmlns:m="urn:schemas-microsoft-com:"><prop><m:Win32FileAttributes/><m:Win32LastModifiedTime/></prop></propfind>"#,
    ),
    ("include", r#"<propfind xmlns="DAV:"><allprop/><include><acl/></include></propfind>"#),
    ("twice the same", r#"<propfind xmlns="DAV:"><prop><getetag/><getetag/></prop></propfind>"#),
    ("empty prop", r#"<propfind xmlns="DAV:"><prop/></propfind>"#),
    ("two of them", r#"<propfind xmlns="DAV:"><allprop/><propname/></propfind>"#),
    ("none of them", r#"<propfind xmlns="DAV:"/>"#),
    ("another root", r#"<propertyupdate xmlns="DAV:"/>"#),
    ("no namespace", "<propfind><allprop/></propfind>"),
    ("an unknown element", r#"<propfind xmlns="DAV:"><x/><allprop/></propfind>"#),
    ("not closed", r#"<propfind xmlns="DAV:"><allprop/>"#),
    ("no XML", "hello"),
    ("blanks", "   "),
    ("a DTD", r#"<!DOCTYPE x [<!ENTITY a "b">]><propfind xmlns="DAV:"><allprop/></propfind>"#),
    ("an entity", r#"<propfind xmlns="DAV:"><prop><x>&a;</x></prop></propfind>"#),
    ("an undeclared prefix", r"<D:propfind><D:allprop/></D:propfind>"),
    (
        "a declaration",
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<propfind xmlns=\"DAV:\"><allprop/></propfind>\n",
    ),
    (
        "another encoding",
        r#"<?xml version="1.0" encoding="iso-8859-1"?><propfind xmlns="DAV:"><allprop/></propfind>"#,
    ),
    ("a comment", r#"<propfind xmlns="DAV:"><!-- x --><allprop/></propfind>"#),
    ("two roots", r#"<propfind xmlns="DAV:"><allprop/></propfind><x/>"#),
];

/// Conditions (RFC 9110 §13).
pub(super) const CONDITIONS: [(&str, &str); 22] = [
    ("If-Match", "*"),
    ("If-Match", "{{etag of a.txt}}"),
    ("If-Match", "W/{{etag of a.txt}}"),
    ("If-Match", "\"other\""),
    ("If-Match", "\"other\", {{etag of a.txt}}"),
    ("If-Match", "x"),
    ("If-Match", ""),
    ("If-None-Match", "*"),
    ("If-None-Match", "{{etag of a.txt}}"),
    ("If-None-Match", "W/{{etag of a.txt}}"),
    ("If-None-Match", "\"other\""),
    ("If-None-Match", "\"other\", {{etag of a.txt}}"),
    ("If-None-Match", "x"),
    ("If-Modified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"),
    ("If-Modified-Since", "Sun, 09 Sep 2001 01:46:39 GMT"),
    ("If-Modified-Since", "Sunday, 09-Sep-01 01:46:40 GMT"),
    ("If-Modified-Since", "Sun Sep  9 01:46:40 2001"),
    ("If-Modified-Since", "yesterday"),
    ("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:40 GMT"),
    ("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:39 GMT"),
    ("If-Unmodified-Since", "yesterday"),
    ("If", "([\"other\"])"),
];

pub(super) const RANGES: [&str; 24] = [
    "bytes=0-0",
    "bytes=0-9",
    "bytes=5-",
    "bytes=-5",
    "bytes=-0",
    "bytes=61-61",
    "bytes=62-",
    "bytes=61-1000",
    "bytes=1000-",
    "bytes=9-5",
    "bytes=0-1,3-4",
    "bytes=0-1, -1",
    "bytes=0-5,3-8",
    "bytes=1000-,0-1",
    "bytes=",
    "bytes",
    "bytes=x",
    "bytes=0-x",
    "bytes=0-1,",
    "lines=0-1",
    "BYTES=0-1",
    "bytes=0 - 1",
    "bytes=99999999999999999999-",
    "bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,30-30,32-32",
];

pub(super) const ACCEPTS: [&str; 7] = [
    "text/html",
    "text/html;q=0",
    "application/xhtml+xml",
    "text/*",
    "*/*",
    "text/plain, text/html",
    "TEXT/HTML",
];

pub(super) const RIGHTS: [&str; 14] = [
    "read",
    "write",
    "modify",
    "full",
    "delete",
    "list",
    "add-file",
    "add-subdirectory",
    "read-acl",
    "write-acl",
    "traverse",
    "read,write",
    "nothing",
    "",
];

pub(super) const LOCKINFO: &str = r#"<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>me &amp; mine</D:owner></D:lockinfo>"#;
pub(super) const SHARED: &str = r#"<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>"#;

pub(super) const LOCKINFOS: [(&str, &str); 12] = [
    ("exclusive", LOCKINFO),
    ("shared", SHARED),
    ("nothing", ""),
    ("no scope", r#"<lockinfo xmlns="DAV:"><locktype><write/></locktype></lockinfo>"#),
    ("no type", r#"<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope></lockinfo>"#),
    (
        "another scope",
        r#"<lockinfo xmlns="DAV:"><lockscope><x/></lockscope><locktype><write/></locktype></lockinfo>"#,
    ),
    (
        "another type",
        r#"<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><read/></locktype></lockinfo>"#,
    ),
    (
        "both scopes",
        r#"<lockinfo xmlns="DAV:"><lockscope><exclusive/><shared/></lockscope><locktype><write/></locktype></lockinfo>"#,
    ),
    (
        "an owner of XML",
        r#"<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype><owner><href>mailto:a@b</href><x xmlns="urn:x" a="&quot;"/></owner></lockinfo>"#,
    ),
    ("another root", r#"<propfind xmlns="DAV:"><allprop/></propfind>"#),
    ("no XML", "hello"),
    ("not closed", r#"<lockinfo xmlns="DAV:"><lockscope>"#),
];

pub(super) const TIMEOUTS: [&str; 9] = [
    "Second-600",
    "Second-0",
    "Second-3600",
    "Second-99999",
    "Infinite",
    "Infinite, Second-100",
    "Second-x",
    "x",
    "Second-4100000000",
];

pub(super) const PROPPATCHES: [(&str, &str); 20] = [
    (
        "sets one",
        r#"<propertyupdate xmlns="DAV:" xmlns:x="urn:x"><set><prop><x:a>1</x:a></prop></set></propertyupdate>"#,
    ),
    (
        "sets two",
        r#"<propertyupdate xmlns="DAV:" xmlns:x="urn:x"><set><prop><x:a>1</x:a><x:b><x:c d="e">&lt;</x:c></x:b></prop></set></propertyupdate>"#,
    ),
    (
        "removes one",
        r#"<propertyupdate xmlns="DAV:" xmlns:x="urn:x"><remove><prop><x:a/></prop></remove></propertyupdate>"#,
    ),
    (
        "sets and removes",
        r#"<propertyupdate xmlns="DAV:" xmlns:x="urn:x"><set><prop><x:a>1</x:a></prop></set><remove><prop><x:a/></prop></remove></propertyupdate>"#,
    ),
    (
        "sets what is live",
        r#"<propertyupdate xmlns="DAV:"><set><prop><getetag>x</getetag></prop></set></propertyupdate>"#,
    ),
    (
        "sets both",
        r#"<propertyupdate xmlns="DAV:" xmlns:x="urn:x"><set><prop><x:a>1</x:a><getetag>x</getetag></prop></set></propertyupdate>"#,
    ),
    (
        "removes what is live",
        r#"<propertyupdate xmlns="DAV:"><remove><prop><resourcetype/></prop></remove></propertyupdate>"#,
    ),
    (
        "sets the display name",
        r#"<propertyupdate xmlns="DAV:"><set><prop><displayname>x</displayname></prop></set></propertyupdate>"#,
    ),
    (
        "sets the time of change",
        r#"<propertyupdate xmlns="DAV:"><set><prop><getlastmodified>Sun, 09 Sep 2001 01:46:41 GMT</getlastmodified></prop></set></propertyupdate>"#,
    ),
    (
        "sets a wrong time",
        r#"<propertyupdate xmlns="DAV:"><set><prop><getlastmodified>yesterday</getlastmodified></prop></set></propertyupdate>"#,
    ),
    (
        "sets Windows' times",
        r#"<propertyupdate xmlns="DAV:" xmlns:m="urn:schemas-microsoft-com:"><set><prop><m:Win32LastModifiedTime>Sun, 09 Sep 2001 01:46:41 GMT</m:Win32LastModifiedTime><m:Win32FileAttributes>00000020</m:Win32FileAttributes></prop></set></propertyupdate>"#,
    ),
    (
        "without namespace",
        r#"<propertyupdate xmlns="DAV:"><set><prop><a xmlns="">1</a></prop></set></propertyupdate>"#,
    ),
    (
        "with a language",
        r#"<propertyupdate xmlns="DAV:" xml:lang="de"><set><prop><a xmlns="urn:x">eins</a></prop></set></propertyupdate>"#,
    ),
    ("with nothing", r#"<propertyupdate xmlns="DAV:"/>"#),
    ("with an empty set", r#"<propertyupdate xmlns="DAV:"><set/></propertyupdate>"#),
    ("of another root", r#"<propfind xmlns="DAV:"><allprop/></propfind>"#),
    ("no body", ""),
    ("no XML", "hello"),
    ("not closed", r#"<propertyupdate xmlns="DAV:"><set><prop>"#),
    (
        "with an entity",
        r#"<propertyupdate xmlns="DAV:"><set><prop><a xmlns="urn:x">&amp;&#65;&x;</a></prop></set></propertyupdate>"#,
    ),
];

/// Destinations of COPY and MOVE; `{{case}}` is the directory of the request.
pub(super) const DESTINATIONS: [&str; 26] = [
    "/dav/main/{{case}}/new",
    "http://house.example/dav/main/{{case}}/new",
    "https://house.example/dav/main/{{case}}/new",
    "http://other.example/dav/main/{{case}}/new",
    "/dav/main/{{case}}/d",
    "/dav/main/{{case}}/d/new",
    "/dav/main/{{case}}/d/x",
    "/dav/main/{{case}}/f",
    "/dav/main/{{case}}/r",
    "/dav/main/{{case}}/h",
    "/dav/main/{{case}}/hd",
    "/dav/main/{{case}}/hd/new",
    "/dav/main/{{case}}/absent/new",
    "/dav/main/{{case}}/f/new",
    "/dav/main/",
    "/dav/main",
    "/dav/",
    "/dav/tank/new",
    "/dav/unknown/new",
    "/dav/closed/new",
    "/v3",
    "",
    "x",
    "/dav/main/../new",
    "/dav/main/{{case}}/n%00w",
    "/dav/main/{{case}}/n%2Fw",
];

/// `If` (RFC 4918 §10.4); `{{lock}}` is the token of the lock on the target, `{{place}}` the target's URL.
pub(super) const IFS: [&str; 34] = [
    "",
    "(<{{lock}}>)",
    "(<urn:uuid:181d4fae-7d8c-41d0-a765-00a0c91e6bf2>)",
    "(<DAV:no-lock>)",
    "(Not <DAV:no-lock>)",
    "(Not <{{lock}}>)",
    "(<{{lock}}> [{{etag}}])",
    "(<{{lock}}> [\"other\"])",
    "([{{etag}}])",
    "([\"other\"])",
    "(Not [\"other\"])",
    "(Not [{{etag}}])",
    "([W/{{etag}}])",
    "(<{{lock}}>) (<DAV:no-lock>)",
    "(<DAV:no-lock>) (<{{lock}}>)",
    "(<DAV:no-lock>) (Not <DAV:no-lock>)",
    "<{{place}}> (<{{lock}}>)",
    "<http://house.example{{place}}> (<{{lock}}>)",
    "<http://other.example{{place}}> (<{{lock}}>)",
    "<{{place}}> (<DAV:no-lock>)",
    "</dav/main/absent> (<{{lock}}>)",
    "</dav/main/absent> (Not <DAV:no-lock>)",
    "</dav/main/hidden.txt> (Not <DAV:no-lock>)",
    "</dav/main/a.txt> ([\"other\"])",
    "<{{place}}> (<{{lock}}>) </dav/main/a.txt> (Not <DAV:no-lock>)",
    "</dav/main/../x> (<{{lock}}>)",
    "()",
    "(",
    "(<{{lock}}>",
    "<{{lock}}>",
    "x",
    "(<{{lock}}>) x",
    "(not <DAV:no-lock>)",
    "(<{{lock}}><{{lock}}>)",
];
