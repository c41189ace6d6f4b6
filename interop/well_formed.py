"""Sends random XML bodies with PROPPATCH and LOCK, and checks the answers with an independent XML parser (expat).

Every XML answer must be well-formed. The answers must contain each accepted property, and each accepted owner of a lock, with the value that the body
had. Some of the bodies are not well-formed; the server must refuse these bodies.

Arguments: `HOST:PORT` of the listener without TLS, `USER:SECRET`, the number of files, and the seed of the random numbers. For each file, the program
sends one body with PROPPATCH and one body with LOCK.

Prints the numbers of files, of accepted and refused PROPPATCH bodies, of compared properties, and of accepted locks. If a check fails, the program
ends with an error.
"""

import base64
import http.client
import random
import sys
import xml.etree.ElementTree as ET

address, login, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
dice = random.Random(seed)
AUTHORIZATION = "Basic " + base64.b64encode(login.encode()).decode()
DAV = "{DAV:}"
XML = "http://www.w3.org/XML/1998/namespace"
connection = http.client.HTTPConnection(address, timeout=60)

# In each list, the first entries are usual values. The other entries are unusual or invalid values, which often reveal errors of a server.
NAMESPACES = ["urn:x", "urn:y", "DAV:", "a&amp;b", "&#65;", "&lt;", "\u00e4", "http://x/?a=1&amp;b=2", "a  b", "", XML,
              "http://www.w3.org/XML/1998/&#110;amespace", "http://www.w3.org/2000/xmlns/", "&#9;", "&#1;", "\ufffe", "]]&gt;"]
PREFIXES = ["a", "b", "D", "n0", "a0", "P", "xml", "xmlns", "xmlx", "\u00e9"]
NAMES = ["a", "b", "prop", "_", "a-b.c", "Gr\u00f6\u00dfe", "\u65e5\u672c", "a\u00b7", "\u00aa", "a\u00aa", "1a", "-a", "a:b", "\U00010000",
         "\u0220", "xml", "xmlns", "\u0301a", "a\u0301", "getetag"]
TEXTS = ["x", "  ", "\n", "\r\n", "\t", "&lt;", "&amp;amp;", "&#13;", "&#x1F600;", "\U0001f600", ">", "<![CDATA[<&]]>", "<!-- c -->", "&#10;",
         "<![CDATA[\r\n]]>", "<![CDATA[]]]]><![CDATA[>]]>", "\r", "]]>", "\"", "'", "&quot;", "&#0;", "\x01", "\x7f", "\x85", "\u2028",
         "\ufffe", "\uffff", "&nope;", "<!-- -- -->", "<?p?>", "&#xD800;"]


def usually(good, all_of):
    return dice.choice(all_of[:good]) if dice.random() < 0.97 else dice.choice(all_of)


def attributes():
    for _ in range(dice.choice([0, 0, 0, 0, 1, 1, 2, 3])):
        kind, quote = dice.random(), dice.choice("'\"")
        texts = (usually(10, TEXTS) for _ in range(dice.randrange(3)))
        value = "".join(text for text in texts if quote not in text and "<" not in text)
        if kind < 0.4:
            prefix = ":" + usually(6, PREFIXES) if dice.random() < 0.6 else ""
            yield f" xmlns{prefix}={quote}{usually(9, NAMESPACES)}{quote}"
        elif kind < 0.7:
            yield f" {usually(8, NAMES)}={quote}{value}{quote}"
        elif kind < 0.85:
            yield f" xml:{dice.choice(['lang', 'space', 'base', 'foo'])}={quote}{value}{quote}"
        else:
            yield f" {usually(6, PREFIXES)}:{usually(8, NAMES)}={quote}{value}{quote}"


def element(depth):
    name = usually(8, NAMES)
    if dice.random() < 0.4:
        name = usually(6, PREFIXES) + ":" + name
    begin = "<" + name + "".join(attributes())
    if depth == 0 or dice.random() < 0.2:
        return begin + "/>"
    return begin + ">" + content(depth - 1) + "</" + name + ">"


def content(depth):
    return "".join(element(depth) if dice.random() < 0.4 else usually(17, TEXTS) for _ in range(dice.randrange(4)))


def broken(body):
    """Replaces, removes or doubles up to three letters of a body."""
    letters = list(body)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(letters))
        letters[at] = dice.choice(["", letters[at] * 2, dice.choice("<>&'\"=:/ax \u00aa\x02")])
    return "".join(letters)


def ask(method, path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers["Authorization"] = AUTHORIZATION
    connection.request(method, "/dav/main/" + path, None if body is None else body.encode(), headers)
    answer = connection.getresponse()
    return answer.status, answer.read(), answer.headers


def parsed(body):
    """Parses a body with expat. Returns None if the body is not well-formed."""
    try:
        return ET.fromstring(body)
    except ET.ParseError:
        return None


def value(node):
    """Returns the texts and elements in a node, in their order. Two spellings of the same content in XML have the same result."""
    return node.text or "", [(child.tag, sorted(child.attrib.items()), value(child), child.tail or "") for child in node]


def check(body, answer):
    """Checks that an XML answer is well-formed, and returns its root. Returns None if the answer is not XML."""
    status, came, headers = answer
    if "xml" not in headers.get("Content-Type", ""):
        return None
    tree = parsed(came)
    assert tree is not None, f"the answer {status} to {body!r} is not well-formed: {came!r}"
    return tree


def check_kept(name, body, sent):
    """Checks that each property has the value that the client set. The check reads all properties at once, and then each property by its name.
    Returns the number of properties."""
    found = check(body, ask("PROPFIND", name, None, Depth="0"))
    kept = {node.tag: node for node in next(found.iter(DAV + "prop")) if node.tag not in OURS}
    wanted = {node.tag: node for prop in sent.findall(f"{DAV}set/{DAV}prop") for node in prop}
    assert set(kept) == set(wanted), f"{set(kept)} of {body!r}"
    for tag, node in wanted.items():
        assert value(kept[tag]) == value(node), f"{value(kept[tag])} is not {value(node)}, of {body!r}"
        assert kept[tag].get(f"{{{XML}}}lang") == node.get(f"{{{XML}}}lang"), body
        namespace, _, local = tag[1:].partition("}") if tag.startswith("{") else ("", "", tag)
        escaped = ET.tostring(ET.Element("x", a=namespace), "unicode").partition('a="')[2].rpartition('"')[0]
        asked = f"<D:propfind xmlns:D='DAV:'><D:prop><{local} xmlns=\"{escaped}\"/><D:none/></D:prop></D:propfind>"
        named = next(check(body, ask("PROPFIND", name, asked, Depth="0")).iter(DAV + "prop"))
        assert [child.tag for child in named] == [tag] and value(named[0]) == value(node), f"{body!r} by name"
    return len(wanted)


SCOPE = "<D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>"
OURS = {DAV + live for live in ("resourcetype", "displayname", "getcontentlength", "getcontenttype", "getlastmodified", "creationdate", "getetag",
                                "supportedlock", "lockdiscovery")}
DECLARED = "".join(f" xmlns:{prefix}='{'DAV:' if prefix == 'D' else 'urn:' + prefix}'" for prefix in PREFIXES[:6])
NAMED = "<propfind xmlns='DAV:'><propname/></propfind>"
taken = refused = locked = compared = 0
for turn in range(count):
    name = f"f{turn}"
    assert ask("PUT", name, "x")[0] == 201
    inner = "".join(element(3) for _ in range(dice.randrange(1, 4)))
    body = f"<D:propertyupdate{DECLARED}><D:set><D:prop>{inner}</D:prop></D:set></D:propertyupdate>"
    if dice.random() < 0.2:
        body = broken(body)
    sent = parsed(body.encode())
    answer = ask("PROPPATCH", name, body)
    assert answer[0] in (207, 400, 413, 507), f"{answer[0]} to {body!r}"
    told = check(body, answer)
    is_taken = answer[0] == 207 and b"200 OK" in answer[1] and b"403 Forbidden" not in answer[1]
    # These answers are well-formed: the listing of the directory with values and with names, and the names of the file's properties.
    for depth, asked, path in (("1", None, ""), ("1", NAMED, ""), ("0", NAMED, name)):
        assert check(body, ask("PROPFIND", path, asked, Depth=depth)) is not None, body
    if is_taken:
        assert sent is not None, f"taken, though it is not well-formed: {body!r}"
        taken += 1
        # The values are compared only if the body removes no property. Other tests check bodies that both set and remove properties.
        if b"remove" not in body.encode():
            compared += check_kept(name, body, sent)
    else:
        refused += 1
    body = f"<D:lockinfo{DECLARED}>{SCOPE}<D:owner>{content(2)}</D:owner></D:lockinfo>"
    sent = parsed(body.encode())
    answer = ask("LOCK", name, body, Depth="0")
    assert answer[0] in (200, 400), f"{answer[0]} to {body!r}"
    told = check(body, answer)
    if answer[0] == 200:
        locked += 1
        assert sent is not None, f"taken, though it is not well-formed: {body!r}"
        owner = next(told.iter(DAV + "owner"), ET.Element("x"))
        assert value(owner) == value(sent.find(DAV + "owner")), f"{ET.tostring(owner)} of {body!r}"
        check(body, ask("PROPFIND", name, None, Depth="0"))
        assert ask("UNLOCK", name, None, Lock_Token=answer[2]["Lock-Token"])[0] == 204
    assert ask("DELETE", name)[0] == 204
assert min(taken, refused, locked, compared) * 20 > count, (taken, refused, locked, compared)
print(f"{count} bodies: {taken} taken, {refused} refused, {compared} values compared, {locked} owners of locks")
