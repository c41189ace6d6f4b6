//! The content of a token: a MessagePack array, byte for byte as Keystone packs it. The reader also accepts arrays from msgpack before 1.0, which had
//! one type for bytes and text.
//!
//! ```text
//! 0 unscoped                user, methods, expires, [audit]
//! 1 domain                  user, methods, domain, expires, [audit]
//! 2 project                 user, methods, project, expires, [audit]
//! 3 trust                   user, methods, project, expires, [audit], trust
//! 7 OAuth access token      user, methods, project, access token, expires, [audit]
//! 8 system                  user, methods, "all", expires, [audit]
//! 9 application credential  user, methods, project, expires, [audit], credential
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// An id: 16 bytes for a UUID, otherwise text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id<'p> {
    /// A UUID, as 16 bytes. In Keystone's API it is 32 hexadecimal digits.
    Uuid([u8; 16]),
    /// An id that is not a UUID, such as the domain `default`.
    Text(&'p str),
}

/// An audit id.
pub type AuditId = [u8; 16];

/// An audit id as clients see it: base64url without padding.
pub fn audit_id_to_text(id: &AuditId) -> String {
    URL_SAFE_NO_PAD.encode(id)
}

/// Parses an audit id in the form that clients see.
pub fn audit_id_from_text(text: &str) -> Option<AuditId> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

/// The audit ids of a token: its own id and, if the token was issued in exchange for another token, the id of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// The audit id of the token itself.
    pub own: AuditId,
    /// The audit id of the first token of the chain.
    pub chain: Option<AuditId>,
}

/// The scope of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'p> {
    /// No scope: a client can exchange the token for a token with a scope.
    None,
    /// A domain.
    Domain(Id<'p>),
    /// A project.
    Project(Id<'p>),
    /// A project on which a trust lends roles.
    Trust {
        /// The project.
        project: Id<'p>,
        /// The trust.
        trust: [u8; 16],
    },
    /// A project on which an OAuth access token delegates roles.
    AccessToken {
        /// The project.
        project: Id<'p>,
        /// The access token.
        token: Id<'p>,
    },
    /// The whole system.
    System,
    /// The project of an application credential.
    ApplicationCredential {
        /// The project.
        project: Id<'p>,
        /// The credential.
        credential: Id<'p>,
    },
}

/// A token's payload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Payload<'p> {
    /// The user.
    pub user: Id<'p>,
    /// How the user authenticated: one bit for each method. The number of the bit is the index of the method in Keystone's setting `[auth] methods`.
    pub methods: u64,
    /// The scope.
    pub scope: Scope<'p>,
    /// When the token expires, in seconds since the epoch.
    pub expires: f64,
    /// The audit ids of the token.
    pub audit: Audit,
}

/// Why a payload is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// A kind of Keystone's tokens that this server does not support.
    #[error("tokens of kind {kind} ({name}) are not supported")]
    Unsupported {
        /// The number of the kind.
        kind: u64,
        /// The name of the kind.
        name: &'static str,
    },
    /// The payload does not have the fields that its kind requires.
    #[error("the content of the token is malformed")]
    Malformed,
    /// The token lasts longer than the limit.
    #[error("the token lasts longer than {} s", enfilade_facts::limits::TOKEN_SECONDS_MAX)]
    TooLong,
}

const UNSUPPORTED: [(u64, &str); 4] =
    [(4, "federated, unscoped"), (5, "federated, project"), (6, "federated, domain"), (10, "OAuth 2, mTLS")];

impl<'p> Payload<'p> {
    /// Parses a payload. The parser must not allocate memory, because it runs in every request with a new token.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn decode(bytes: &'p [u8]) -> Result<Self, Unread> {
        let mut from = Reader(bytes);
        let length = from.array().ok_or(Unread::Malformed)?;
        let kind = from.number().ok_or(Unread::Malformed)?;
        if let Some((kind, name)) = UNSUPPORTED.iter().find(|(known, _)| *known == kind) {
            return Err(Unread::Unsupported { kind: *kind, name });
        }
        Self::decode_kind(kind, length, &mut from).filter(|_| from.0.is_empty()).ok_or(Unread::Malformed)
    }

    fn decode_kind(kind: u64, length: usize, from: &mut Reader<'p>) -> Option<Self> {
        let expected = match kind {
            0 => 5,
            1 | 2 | 8 => 6,
            3 | 7 | 9 => 7,
            _ => return None,
        };
        if length != expected {
            return None;
        }
        let user = from.id()?;
        let methods = from.number()?;
        let scope = match kind {
            0 => Scope::None,
            // The id of a domain has no tag that says whether it is a UUID or text, and the id of a trust is always a UUID.
            1 => Scope::Domain(from.bare_id()?),
            8 => Scope::System.given(from.text()? == "all")?,
            7 => Scope::AccessToken { project: from.id()?, token: from.id()? },
            _ => Scope::Project(from.id()?),
        };
        let expires = from.float()?;
        let audit = from.audit()?;
        let scope = match (kind, scope) {
            (3, Scope::Project(project)) => Scope::Trust { project, trust: from.uuid()? },
            (9, Scope::Project(project)) => Scope::ApplicationCredential { project, credential: from.id()? },
            (_, scope) => scope,
        };
        Some(Payload { user, methods, scope, expires, audit })
    }

    /// The payload in Keystone's form.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer(Vec::with_capacity(128));
        let (kind, length) = match self.scope {
            Scope::None => (0, 5),
            Scope::Domain(_) => (1, 6),
            Scope::Project(_) => (2, 6),
            Scope::Trust { .. } => (3, 7),
            Scope::AccessToken { .. } => (7, 7),
            Scope::System => (8, 6),
            Scope::ApplicationCredential { .. } => (9, 7),
        };
        to.array(length).number(kind).id(self.user).number(self.methods);
        match self.scope {
            Scope::None => &mut to,
            Scope::Domain(domain) => to.bare_id(domain),
            Scope::Project(project)
            | Scope::Trust { project, .. }
            | Scope::ApplicationCredential { project, .. } => to.id(project),
            Scope::AccessToken { project, token } => to.id(project).id(token),
            Scope::System => to.text("all"),
        };
        to.float(self.expires);
        match self.audit.chain {
            None => to.array(1).bytes(&self.audit.own),
            Some(chain) => to.array(2).bytes(&self.audit.own).bytes(&chain),
        };
        match self.scope {
            Scope::Trust { trust, .. } => to.bytes(&trust),
            Scope::ApplicationCredential { credential, .. } => to.id(credential),
            _ => &mut to,
        };
        to.0
    }
}

impl Scope<'_> {
    fn given(self, is_so: bool) -> Option<Self> {
        is_so.then_some(self)
    }
}

/// Reads MessagePack (spec 2.0). A value with a length that exceeds the rest of the payload is malformed.
struct Reader<'p>(&'p [u8]);

impl<'p> Reader<'p> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn take(&mut self, length: usize) -> Option<&'p [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array(&mut self) -> Option<usize> {
        match self.byte()? {
            byte @ 0x90..=0x9f => Some(usize::from(byte & 0x0f)),
            0xdc => self.fixed().map(u16::from_be_bytes).map(usize::from),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        match self.byte()? {
            byte @ 0x00..=0x7f => Some(u64::from(byte)),
            0xcc => self.byte().map(u64::from),
            0xcd => self.fixed().map(u16::from_be_bytes).map(u64::from),
            0xce => self.fixed().map(u32::from_be_bytes).map(u64::from),
            0xcf => self.fixed().map(u64::from_be_bytes),
            _ => None,
        }
    }

    fn float(&mut self) -> Option<f64> {
        let value = match self.byte()? {
            0xcb => self.fixed().map(f64::from_be_bytes)?,
            0xca => f64::from(self.fixed().map(f32::from_be_bytes)?),
            _ => return None,
        };
        value.is_finite().then_some(value)
    }

    /// Bytes or text, which msgpack before 1.0 did not distinguish.
    fn raw(&mut self) -> Option<&'p [u8]> {
        let length = match self.byte()? {
            byte @ 0xa0..=0xbf => usize::from(byte & 0x1f),
            0xc4 | 0xd9 => usize::from(self.byte()?),
            0xc5 | 0xda => usize::from(u16::from_be_bytes(self.fixed()?)),
            _ => return None,
        };
        self.take(length)
    }

    fn uuid(&mut self) -> Option<[u8; 16]> {
        self.raw()?.try_into().ok()
    }

    fn text(&mut self) -> Option<&'p str> {
        std::str::from_utf8(self.raw()?).ok()
    }

    /// Reads an array of two elements: whether the id is a UUID, and the id.
    fn id(&mut self) -> Option<Id<'p>> {
        if self.array()? != 2 {
            return None;
        }
        match self.byte()? {
            0xc3 => self.uuid().map(Id::Uuid),
            0xc2 => self.text().map(Id::Text),
            _ => None,
        }
    }

    fn bare_id(&mut self) -> Option<Id<'p>> {
        let is_text = matches!(self.0.first()?, 0xa0..=0xbf | 0xd9);
        let raw = self.raw()?;
        match raw.try_into() {
            // 16 bytes are a UUID, unless they were packed as text and are valid text. Versions of msgpack before 1.0 packed UUIDs as text, too.
            Ok(uuid) if !is_text || std::str::from_utf8(raw).is_err() => Some(Id::Uuid(uuid)),
            _ => std::str::from_utf8(raw).ok().map(Id::Text),
        }
    }

    fn audit(&mut self) -> Option<Audit> {
        let length = self.array()?;
        let own = self.uuid()?;
        match length {
            1 => Some(Audit { own, chain: None }),
            2 => Some(Audit { own, chain: Some(self.uuid()?) }),
            _ => None,
        }
    }
}

/// Writes MessagePack. As in Python's library, each value has its shortest form.
struct Writer(Vec<u8>);

impl Writer {
    fn array(&mut self, length: u8) -> &mut Self {
        self.0.push(0x90 | length);
        self
    }

    fn number(&mut self, n: u64) -> &mut Self {
        match (u8::try_from(n), u16::try_from(n), u32::try_from(n)) {
            (Ok(n @ 0..=0x7f), ..) => self.0.push(n),
            (Ok(n), ..) => self.0.extend([0xcc, n]),
            (_, Ok(n), _) => self.with(0xcd, &n.to_be_bytes()),
            (.., Ok(n)) => self.with(0xce, &n.to_be_bytes()),
            _ => self.with(0xcf, &n.to_be_bytes()),
        }
        self
    }

    fn with(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0.extend_from_slice(bytes);
    }

    fn float(&mut self, value: f64) -> &mut Self {
        self.with(0xcb, &value.to_be_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8; 16]) -> &mut Self {
        self.0.push(0xc4);
        self.with(16, bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let bytes = text.as_bytes();
        match (u8::try_from(bytes.len()), u16::try_from(bytes.len())) {
            (Ok(length @ 0..=31), _) => self.with(0xa0 | length, bytes),
            (Ok(length), _) => {
                self.0.push(0xd9);
                self.with(length, bytes);
            }
            (_, length) => {
                // A text of more than 65,535 bytes is cut. A token has no space for such a text.
                self.0.push(0xda);
                self.0.extend(length.unwrap_or(u16::MAX).to_be_bytes());
                self.0.extend(bytes.iter().take(usize::from(u16::MAX)));
            }
        }
        self
    }

    fn id(&mut self, id: Id<'_>) -> &mut Self {
        self.array(2).0.push(match id {
            Id::Uuid(_) => 0xc3,
            Id::Text(_) => 0xc2,
        });
        self.bare_id(id)
    }

    fn bare_id(&mut self, id: Id<'_>) -> &mut Self {
        match id {
            Id::Uuid(bytes) => self.bytes(&bytes),
            Id::Text(text) => self.text(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    fn uuid(hex: &str) -> [u8; 16] {
        bytes(hex).try_into().unwrap()
    }

    const ADMIN: &str = "8f31531b70c84526a562354ae8d557b3";
    const PROJECT: &str = "cbc033744f0142f88eaf9484082c1420";
    const EXPIRES: f64 = 1_795_215_621.0;

    /// Payloads of each kind from Keystone 30.0.0.
    #[test]
    fn payloads_of_keystone_are_read_and_written_byte_for_byte() {
        let admin = Id::Uuid(uuid(ADMIN));
        let project = Id::Uuid(uuid(PROJECT));
        let payload = |scope, methods, own: &str, chain: Option<&str>| Payload {
            user: admin,
            methods,
            scope,
            expires: EXPIRES,
            audit: Audit { own: uuid(own), chain: chain.map(uuid) },
        };
        let root = "67fac1f6fd174244b0466e3eceb343f9";
        for (hex, expected) in [
            (
                "950092c3c4108f31531b70c84526a562354ae8d557b302cb41dac0344140000091c41067fac1f6fd174244b0466e3eceb343f9",
                payload(Scope::None, 2, root, None),
            ),
            (
                "960292c3c4108f31531b70c84526a562354ae8d557b30292c3c410cbc033744f0142f88eaf9484082c1420cb41dac0344140000091c4108d2801a5908947188b059ed175d52f0a",
                payload(Scope::Project(project), 2, "8d2801a5908947188b059ed175d52f0a", None),
            ),
            (
                "960892c3c4108f31531b70c84526a562354ae8d557b302a3616c6ccb41dac0344140000091c410fef68b17d37d440ab541d18776150a0a",
                payload(Scope::System, 2, "fef68b17d37d440ab541d18776150a0a", None),
            ),
            (
                "960192c3c4108f31531b70c84526a562354ae8d557b302a764656661756c74cb41dac0344140000091c410d02099941dc84a0f9630da84791c2781",
                payload(Scope::Domain(Id::Text("default")), 2, "d02099941dc84a0f9630da84791c2781", None),
            ),
            (
                "970992c3c4108f31531b70c84526a562354ae8d557b32092c3c410cbc033744f0142f88eaf9484082c1420cb41dac0344140000091c4101cd7b42c0850482894e36e801c1ea18f92c3c410f26759fb4a074b368e3aceab5bc1d706",
                payload(
                    Scope::ApplicationCredential {
                        project,
                        credential: Id::Uuid(uuid("f26759fb4a074b368e3aceab5bc1d706")),
                    },
                    32,
                    "1cd7b42c0850482894e36e801c1ea18f",
                    None,
                ),
            ),
            (
                "970792c3c4108f31531b70c84526a562354ae8d557b30892c3c410cbc033744f0142f88eaf9484082c142092c3c410f26759fb4a074b368e3aceab5bc1d706cb41dac0344140000091c4101cd7b42c0850482894e36e801c1ea18f",
                payload(
                    Scope::AccessToken { project, token: Id::Uuid(uuid("f26759fb4a074b368e3aceab5bc1d706")) },
                    8,
                    "1cd7b42c0850482894e36e801c1ea18f",
                    None,
                ),
            ),
            (
                "960292c3c4108f31531b70c84526a562354ae8d557b30692c3c410cbc033744f0142f88eaf9484082c1420cb41dac0344140000092c41062767fc33c0344b792d16a149d557e71c41067fac1f6fd174244b0466e3eceb343f9",
                payload(Scope::Project(project), 6, "62767fc33c0344b792d16a149d557e71", Some(root)),
            ),
            (
                "970392c3c410ff6f74f020cf486bbf7b0966121b918f0292c3c410cbc033744f0142f88eaf9484082c1420cb41dac0344180000091c4106ef9e51f080b48d88b816b07f7648884c4102f11caa872aa474899e38f9b701870ae",
                Payload {
                    user: Id::Uuid(uuid("ff6f74f020cf486bbf7b0966121b918f")),
                    expires: EXPIRES + 1.0,
                    ..payload(
                        Scope::Trust { project, trust: uuid("2f11caa872aa474899e38f9b701870ae") },
                        2,
                        "6ef9e51f080b48d88b816b07f7648884",
                        None,
                    )
                },
            ),
        ] {
            let packed = bytes(hex);
            assert_eq!(Payload::decode(&packed), Ok(expected));
            assert_eq!(expected.encode(), bytes(hex));
            // The same payload from msgpack before 1.0, which packed 16 bytes like text.
            let older = bytes(&hex.replace("c410", "b0"));
            assert_eq!(Payload::decode(&older), Ok(expected));
        }
    }

    /// The user of an LDAP directory: Keystone packs the id of 64 digits as text.
    #[test]
    fn a_user_of_a_directory_is_text_in_the_payload() {
        let user = "3f".repeat(32);
        let text: String = user.bytes().map(|byte| format!("{byte:02x}")).collect();
        let hex = format!(
            "960292c2d940{text}0292c3c410cbc033744f0142f88eaf9484082c1420cb41dac0344140000091c41067fac1f6fd174244b0466e3eceb343f9"
        );
        let expected = Payload {
            user: Id::Text(&user),
            methods: 2,
            scope: Scope::Project(Id::Uuid(uuid(PROJECT))),
            expires: EXPIRES,
            audit: Audit { own: uuid("67fac1f6fd174244b0466e3eceb343f9"), chain: None },
        };
        let packed = bytes(&hex);
        assert_eq!(Payload::decode(&packed), Ok(expected));
        assert_eq!(expected.encode(), packed);
    }

    #[test]
    fn kinds_that_are_not_supported_are_named_and_others_are_malformed() {
        assert_eq!(
            Payload::decode(&[0x97, 4, 0xc0]),
            Err(Unread::Unsupported { kind: 4, name: "federated, unscoped" })
        );
        for wrong in [&[][..], &[0x90], &[0x95, 11], &[0x95, 0xff], &[0xc0]] {
            assert_eq!(Payload::decode(wrong), Err(Unread::Malformed), "{wrong:?}");
        }
        let good = Payload {
            user: Id::Text("ann"),
            methods: 300,
            scope: Scope::System,
            expires: 1.0,
            audit: Audit { own: [1; 16], chain: None },
        };
        let good = good.encode();
        for length in 0..good.len() {
            assert_eq!(Payload::decode(&good[..length]), Err(Unread::Malformed));
        }
        assert_eq!(Payload::decode(&[good.as_slice(), &[0]].concat()), Err(Unread::Malformed));
    }

    /// The forms that MessagePack 2.0 specifies for a value. The first form of each row is the shortest, which Python's library writes.
    #[test]
    fn every_form_of_a_value_is_read_and_the_shortest_is_written() {
        for (n, forms) in [
            (0, &["00", "cc00", "cd0000", "ce00000000", "cf0000000000000000"][..]),
            (0x7f, &["7f", "cc7f"]),
            (0x80, &["cc80", "cd0080"]),
            (0xff, &["ccff"]),
            (0x100, &["cd0100", "ce00000100"]),
            (0xffff, &["cdffff"]),
            (0x1_0000, &["ce00010000"]),
            (0xffff_ffff, &["ceffffffff"]),
            (0x1_0000_0000, &["cf0000000100000000"]),
        ] {
            for form in forms {
                assert_eq!(Reader(&bytes(form)).number(), Some(n), "{form}");
            }
            assert_eq!(Writer(Vec::new()).number(n).0, bytes(forms[0]));
        }
        for form in ["a3616c6c", "d903616c6c", "da0003616c6c", "c403616c6c", "c50003616c6c"] {
            assert_eq!(Reader(&bytes(form)).text(), Some("all"), "{form}");
        }
        for (length, head) in [(31, "bf"), (32, "d920"), (255, "d9ff"), (256, "da0100")] {
            let text = "x".repeat(length);
            assert_eq!(Writer(Vec::new()).text(&text).0, [bytes(head), text.into_bytes()].concat());
        }
        for (form, length) in [("90", 0), ("9f", 15), ("dc0010", 16), ("dc0100", 256)] {
            assert_eq!(Reader(&bytes(form)).array(), Some(length), "{form}");
        }
        for (form, value) in
            [("cb3ff8000000000000", Some(1.5)), ("ca3fc00000", Some(1.5)), ("ca7f800000", None)]
        {
            assert_eq!(Reader(&bytes(form)).float(), value, "{form}");
        }
        // 16 bytes are a UUID, unless they were packed as text before msgpack 1.0 and are valid text.
        let plain = b"0123456789abcdef";
        let id = |head: &str, value: &[u8]| match Reader(&[&bytes(head), value].concat()).bare_id() {
            Some(Id::Uuid(uuid)) => format!("uuid {}", uuid == value),
            Some(Id::Text(text)) => text.to_owned(),
            None => "none".to_owned(),
        };
        assert_eq!(id("c410", plain), "uuid true");
        assert_eq!(id("b0", plain), "0123456789abcdef");
        assert_eq!(id("b0", &[0xff; 16]), "uuid true");
    }

    #[test]
    fn audit_ids_are_shown_in_base64url_without_padding() {
        let id = std::array::from_fn(|at| 0xf0 + at as u8);
        assert_eq!(audit_id_to_text(&id), "8PHy8_T19vf4-fr7_P3-_w");
        assert_eq!(audit_id_from_text("8PHy8_T19vf4-fr7_P3-_w"), Some(id));
        for wrong in ["", "8PHy", "8PHy8_T19vf4-fr7_P3-_w==", "8PHy8/T19vf4+fr7/P3+/w"] {
            assert_eq!(audit_id_from_text(wrong), None, "{wrong}");
        }
    }

    fn id() -> impl Strategy<Value = (bool, [u8; 16], String)> {
        (any::<bool>(), any::<[u8; 16]>(), "[a-zA-Z0-9_-]{0,40}")
    }

    proptest! {
        #[test]
        fn a_written_payload_is_read(
            (user, scope, other) in (id(), id(), id()),
            kind in 0..7,
            methods: u64,
            seconds in 0_u32..u32::MAX,
            own: [u8; 16],
            chain: Option<[u8; 16]>,
        ) {
            fn of((is_uuid, uuid, text): &(bool, [u8; 16], String)) -> Id<'_> {
                if *is_uuid { Id::Uuid(*uuid) } else { Id::Text(text) }
            }
            let scope = match kind {
                0 => Scope::None,
                1 => Scope::Domain(of(&scope)),
                2 => Scope::Project(of(&scope)),
                3 => Scope::Trust { project: of(&scope), trust: other.1 },
                4 => Scope::System,
                5 => Scope::AccessToken { project: of(&scope), token: of(&other) },
                _ => Scope::ApplicationCredential { project: of(&scope), credential: of(&other) },
            };
            let audit = Audit { own, chain };
            let payload = Payload { user: of(&user), methods, scope, expires: f64::from(seconds), audit };
            let packed = payload.encode();
            prop_assert_eq!(Payload::decode(&packed), Ok(payload));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Payload::decode(&bytes);
        }
    }
}
