//! Encryption of a backup in the age format (<https://c2sp.org/age>), so that the `age` tool can decrypt the backup without this program.
//!
//! The header contains a random file key, which is encrypted for each recipient with X25519, or for a passphrase with scrypt. The payload is
//! encrypted in chunks. The encryption of a chunk depends on the number of the chunk, and on whether it is the last chunk. So a payload that was cut
//! or reordered is refused. This module only combines the cryptographic functions of aws-lc and of the `scrypt` crate.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bech32::{Bech32, Hrp};
use enfilade_facts::vocabulary::Secret;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::str::FromStr;
use zeroize::Zeroizing;

/// The first line of every encrypted file.
pub const FIRST_LINE: &str = "age-encryption.org/v1";
const SCRYPT_LABEL: &str = "age-encryption.org/v1/scrypt";
const X25519_LABEL: &str = "age-encryption.org/v1/X25519";
/// The binary logarithm of the scrypt cost for a new passphrase, as the `age` tool chooses it. This cost needs 256 MiB of memory.
const WORK: u8 = 18;
/// The greatest logarithm of the scrypt cost that is accepted. This cost needs 1 GiB of memory.
const WORK_MAX: u8 = 20;
/// At most this number of bytes is read as the header of a file. Every header that this program writes is shorter.
const HEADER_BYTES_MAX: u64 = 64 << 10;
const RECIPIENTS_MAX: usize = 64;
const CHUNK: usize = 64 << 10;
const TAG: usize = 16;
/// The length of an encrypted file key, in bytes.
const WRAPPED: usize = 32;

/// The key of one encrypted file. It is never printed.
#[derive(Clone)]
pub struct FileKey(Zeroizing<[u8; 16]>);

/// The public key of a person who can decrypt the file: `age1…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient([u8; 32]);

/// The private key of a recipient: `AGE-SECRET-KEY-1…`. It is never printed.
pub struct Identity(Zeroizing<[u8; 32]>);

/// The passphrase or the recipients for which a new file is encrypted.
pub enum Lock {
    /// A passphrase.
    Passphrase(Secret),
    /// These recipients: the holders of the private keys that belong to these public keys.
    Recipients(Vec<Recipient>),
}

/// A key that can decrypt a file.
pub enum Key {
    /// A passphrase.
    Passphrase(Secret),
    /// Private keys.
    Identities(Vec<Identity>),
    /// The file key itself. The process that wrote the file has the file key, and needs no other key to verify the file.
    OfFile(FileKey),
}

/// The file cannot be encrypted or decrypted.
#[derive(Debug, thiserror::Error)]
pub enum AgeError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The header is malformed or was changed.
    #[error("the age header is damaged: {0}; use another backup")]
    Header(&'static str),
    /// A key is needed.
    #[error(
        "the backup is encrypted: use --passphrase or --passphrase-stdin for a passphrase, or --identity FILE for a private key"
    )]
    NeedsKey,
    /// A private key is needed.
    #[error(
        "the backup is encrypted for age recipients, not with a passphrase: give the private key of a recipient with --identity FILE"
    )]
    NeedsIdentity,
    /// A passphrase is needed.
    #[error(
        "the backup is encrypted with a passphrase, not for age recipients: use --passphrase or --passphrase-stdin"
    )]
    NeedsPassphrase,
    /// The passphrase is wrong.
    #[error("the passphrase is wrong")]
    WrongPassphrase,
    /// No given private key belongs to a recipient of the file.
    #[error("no given private key belongs to a recipient of this backup: give another --identity FILE")]
    NoIdentity,
    /// The scrypt cost in the file is too high: it would need too much memory.
    #[error(
        "the scrypt cost of this backup is 2^{0}, which needs too much memory; this program accepts at most 2^{WORK_MAX}: decrypt the backup with `age --decrypt`, then use the decrypted file"
    )]
    TooExpensive(u8),
    /// The cryptographic library returned an error.
    #[error(
        "the file cannot be encrypted or decrypted: a key is not valid, or the kernel gives no random bytes"
    )]
    Refused,
    /// There are too many recipients.
    #[error("{0} recipients were given, but a backup can have at most {RECIPIENTS_MAX}")]
    TooMany(usize),
}

impl From<Unspecified> for AgeError {
    fn from(_: Unspecified) -> Self {
        AgeError::Refused
    }
}

/// A recipient or private key was mistyped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}. Copy the whole key, as `age-keygen` printed it")]
pub struct KeyForm(&'static str);

fn bech32_key(text: &str, prefix: &str) -> Option<Zeroizing<[u8; 32]>> {
    let (found, bytes) = bech32::decode(text).ok()?;
    let bytes = Zeroizing::new(bytes);
    let is_ours = found == Hrp::parse(prefix).ok()?;
    is_ours.then_some(Zeroizing::new(bytes.as_slice().try_into().ok()?))
}

impl FromStr for Recipient {
    type Err = KeyForm;
    fn from_str(text: &str) -> Result<Self, KeyForm> {
        let key =
            bech32_key(text, "age").ok_or(KeyForm("an age recipient (`age1` and 58 letters and digits)"))?;
        Ok(Recipient(*key))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Hrp::parse("age").ok().and_then(|hrp| bech32::encode::<Bech32>(hrp, &self.0).ok());
        f.write_str(&text.ok_or(fmt::Error)?)
    }
}

impl FromStr for Identity {
    type Err = KeyForm;
    fn from_str(text: &str) -> Result<Self, KeyForm> {
        let key = bech32_key(text, "age-secret-key-");
        key.map(Identity).ok_or(KeyForm("an age private key (`AGE-SECRET-KEY-1` and 58 letters and digits)"))
    }
}

/// The private keys in a file of `age-keygen`. Each line is a private key, a comment or empty.
///
/// # Errors
/// When a line is neither a key nor a comment, or there is no key.
pub fn identities(text: &str) -> Result<Vec<Identity>, KeyForm> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys = lines.map(str::parse).collect::<Result<Vec<Identity>, _>>()?;
    if keys.is_empty() { Err(KeyForm("a line with an age private key")) } else { Ok(keys) }
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, AgeError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut()).map_err(|_| AgeError::Refused)?;
    Ok(bytes)
}

fn derive(secret: &[u8], salt: &[u8], label: &str) -> Result<Zeroizing<[u8; 32]>, Unspecified> {
    let mut key = Zeroizing::new([0; 32]);
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    prk.expand(&[label.as_bytes()], hkdf::HKDF_SHA256)?.fill(key.as_mut())?;
    Ok(key)
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, Unspecified> {
    Ok(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key)?))
}

fn zero() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// Encrypts the file key `key` with the key `by`. Each key `by` is used only once, so the nonce can always be 0.
fn wrap(by: &[u8; 32], key: &FileKey) -> Result<Vec<u8>, Unspecified> {
    let mut body = key.0.to_vec();
    cipher(by)?.seal_in_place_append_tag(zero(), Aad::empty(), &mut body)?;
    Ok(body)
}

fn unwrap(by: &[u8; 32], body: &[u8]) -> Option<FileKey> {
    let mut body = Zeroizing::new(body.to_vec());
    let opened = cipher(by).ok()?.open_in_place(zero(), Aad::empty(), &mut body).ok()?;
    Some(FileKey(Zeroizing::new((&*opened).try_into().ok()?)))
}

/// Derives a key from a passphrase.
fn stretched(passphrase: &[u8], salt: &[u8], work: u8) -> Result<Zeroizing<[u8; 32]>, AgeError> {
    let params = scrypt::Params::new(work, 8, 1).map_err(|_| AgeError::TooExpensive(work))?;
    let mut key = Zeroizing::new([0; 32]);
    let salt = [SCRYPT_LABEL.as_bytes(), salt].concat();
    scrypt::scrypt(passphrase, &salt, &params, key.as_mut()).map_err(|_| AgeError::Refused)?;
    Ok(key)
}

/// Derives a key from a private and a public key. `salt` is the public key in the header of the file, followed by the public key of the recipient.
fn agreed(private: &PrivateKey, public: &[u8], salt: &[u8]) -> Result<Zeroizing<[u8; 32]>, Unspecified> {
    let public = UnparsedPublicKey::new(&X25519, public);
    agreement::agree(private, public, Unspecified, |shared| derive(shared, salt, X25519_LABEL))
}

fn encoded(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

fn stanza(arguments: &str, body: &[u8]) -> String {
    // The age format requires that the last line of a body has fewer than 64 letters. An encrypted key has 43 letters, so one line is enough.
    format!("-> {arguments}\n{}\n", encoded(body))
}

fn header(lock: &Lock, key: &FileKey) -> Result<String, AgeError> {
    let mut header = format!("{FIRST_LINE}\n");
    match lock {
        Lock::Passphrase(passphrase) => {
            let salt = random::<16>()?;
            let body = wrap(&*stretched(passphrase.reveal(), salt.as_ref(), WORK)?, key)?;
            header.push_str(&stanza(&format!("scrypt {} {WORK}", encoded(salt.as_ref())), &body));
        }
        Lock::Recipients(recipients) if RECIPIENTS_MAX < recipients.len() => {
            return Err(AgeError::TooMany(recipients.len()));
        }
        Lock::Recipients(recipients) => {
            for Recipient(recipient) in recipients {
                let private = PrivateKey::generate(&X25519)?;
                let share = private.compute_public_key()?;
                let salt = [share.as_ref(), recipient].concat();
                let body = wrap(&*agreed(&private, recipient, &salt)?, key)?;
                header.push_str(&stanza(&format!("X25519 {}", encoded(share.as_ref())), &body));
            }
        }
    }
    header.push_str("---");
    let mac = hmac::sign(&mac_key(key)?, header.as_bytes());
    header.push_str(&format!(" {}\n", encoded(mac.as_ref())));
    Ok(header)
}

fn mac_key(key: &FileKey) -> Result<hmac::Key, Unspecified> {
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &*derive(&*key.0, &[], "header")?))
}

/// A writer that encrypts. [`Sealed::finish`] must be called at the end, otherwise the file is incomplete and a reader refuses it.
pub struct Sealed<W> {
    to: W,
    stream: Stream,
    chunk: Zeroizing<Vec<u8>>,
}

/// The key of the payload, and the number of the next chunk.
struct Stream {
    key: LessSafeKey,
    number: u64,
}

impl Stream {
    fn of(key: &FileKey, nonce: &[u8; 16]) -> Result<Self, Unspecified> {
        Ok(Stream { key: cipher(&*derive(&*key.0, nonce, "payload")?)?, number: 0 })
    }

    /// The nonce of the next chunk: the chunk's number in 88 bits, and 8 bits that say whether it is the last chunk.
    fn nonce(&mut self, is_last: bool) -> Nonce {
        let mut bytes = [0; NONCE_LEN];
        let number = (u128::from(self.number) << 8) | u128::from(is_last);
        bytes.copy_from_slice(number.to_be_bytes().last_chunk::<NONCE_LEN>().unwrap_or(&[0; NONCE_LEN]));
        self.number += 1;
        Nonce::assume_unique_for_key(bytes)
    }
}

impl<W: Write> Sealed<W> {
    /// Writes the header. Returns the encrypting writer, and the file key, with which the caller can read the file again.
    ///
    /// # Errors
    /// [`AgeError`].
    pub fn begin(mut to: W, lock: &Lock) -> Result<(Self, FileKey), AgeError> {
        let key = FileKey(random()?);
        let nonce = random::<16>()?;
        to.write_all(header(lock, &key)?.as_bytes())?;
        to.write_all(nonce.as_ref())?;
        let stream = Stream::of(&key, &nonce)?;
        Ok((Sealed { to, stream, chunk: Zeroizing::new(Vec::with_capacity(CHUNK + TAG)) }, key))
    }

    /// Writes the last chunk.
    ///
    /// # Errors
    /// When the last chunk cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.seal(true)?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn seal(&mut self, is_last: bool) -> io::Result<()> {
        let nonce = self.stream.nonce(is_last);
        let sealed = self.stream.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut *self.chunk);
        sealed.map_err(|_| io::Error::other("a chunk could not be encrypted"))?;
        self.to.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

impl<W: Write> Write for Sealed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.chunk.len() == CHUNK {
            self.seal(false)?;
        }
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        Ok(taken)
    }

    /// Does nothing, because a chunk is written only when it is full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decrypts an encrypted file.
pub struct Opened<R> {
    from: BufReader<R>,
    stream: Stream,
    chunk: Zeroizing<Vec<u8>>,
    read: usize,
    is_over: bool,
}

impl<R: Read> Opened<R> {
    /// Reads the header and finds the key.
    ///
    /// # Errors
    /// [`AgeError`].
    pub fn begin(from: R, key: &Key) -> Result<Self, AgeError> {
        let mut from = BufReader::with_capacity(CHUNK + TAG, from);
        let key = open_header(&mut from, key)?;
        let mut nonce = [0; 16];
        from.read_exact(&mut nonce).map_err(|why| {
            malformed(why, io::ErrorKind::UnexpectedEof, "the file ends directly after the header")
        })?;
        let stream = Stream::of(&key, &nonce)?;
        Ok(Opened { from, stream, chunk: Zeroizing::new(Vec::new()), read: 0, is_over: false })
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let damaged = || {
            let why = "an encrypted part was changed or cut short, so it cannot be decrypted";
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let is_first = self.stream.number == 0;
        self.chunk.clear();
        self.read = 0;
        (&mut self.from).take((CHUNK + TAG) as u64).read_to_end(&mut self.chunk)?;
        self.is_over = self.from.fill_buf()?.is_empty();
        let nonce = self.stream.nonce(self.is_over);
        let opened = self.stream.key.open_in_place(nonce, Aad::empty(), &mut self.chunk);
        let Ok(plain) = opened.map(|plain| plain.len()) else {
            // Bytes that could not be decrypted are removed, so that no caller reads them.
            self.chunk.clear();
            return Err(damaged());
        };
        self.chunk.truncate(plain);
        // An empty chunk is valid only if the whole payload is empty.
        if plain == 0 && !is_first { Err(damaged()) } else { Ok(()) }
    }
}

impl<R: Read> Read for Opened<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() && !self.is_over {
            self.next_chunk()?;
        }
        let mut left = self.chunk.get(self.read..).unwrap_or_default();
        let count = left.read(into)?;
        self.read += count;
        Ok(count)
    }
}

/// The error of a header that cannot be read. An error of another kind than `kind` comes from the disk, and says nothing about the header.
fn malformed(why: io::Error, kind: io::ErrorKind, text: &'static str) -> AgeError {
    if why.kind() == kind { AgeError::Header(text) } else { AgeError::Io(why) }
}

/// The stanzas of a header: arguments and body.
type Stanzas = Vec<(Vec<String>, Vec<u8>)>;

fn open_header(from: &mut impl BufRead, key: &Key) -> Result<FileKey, AgeError> {
    let mut from = from.take(HEADER_BYTES_MAX);
    let mut line = || -> Result<String, AgeError> {
        let mut line = String::new();
        from.read_line(&mut line)
            .map_err(|why| malformed(why, io::ErrorKind::InvalidData, "the header is not text"))?;
        line.pop().filter(|end| *end == '\n').ok_or(AgeError::Header("the header ends too early"))?;
        Ok(line)
    };
    if line()? != FIRST_LINE {
        return Err(AgeError::Header("the first line is not `age-encryption.org/v1`"));
    }
    let (mut signed, mut stanzas) = (format!("{FIRST_LINE}\n"), Stanzas::new());
    let mac = loop {
        let first = line()?;
        if let Some(mac) = first.strip_prefix("--- ") {
            signed.push_str("---");
            break decoded(mac)?;
        }
        let arguments =
            first.strip_prefix("-> ").ok_or(AgeError::Header("a line does not have the age format"))?;
        let mut body = String::new();
        signed.push_str(&format!("{first}\n"));
        loop {
            let part = line()?;
            signed.push_str(&format!("{part}\n"));
            body.push_str(&part);
            if part.len() < 64 {
                break;
            }
        }
        stanzas.push((arguments.split(' ').map(str::to_owned).collect(), decoded(&body)?));
    };
    let key = find_key(&stanzas, key)?;
    let is_whole = hmac::verify(&mac_key(&key)?, signed.as_bytes(), &mac).is_ok();
    if is_whole { Ok(key) } else { Err(AgeError::Header("the checksum (MAC) does not match")) }
}

fn decoded(text: &str) -> Result<Vec<u8>, AgeError> {
    STANDARD_NO_PAD.decode(text).map_err(|_| AgeError::Header("a part is not base64"))
}

fn find_key(stanzas: &Stanzas, key: &Key) -> Result<FileKey, AgeError> {
    let by_passphrase = stanzas.iter().find_map(|(arguments, body)| match arguments.as_slice() {
        [kind, salt, work] if kind == "scrypt" => Some((salt, work, body)),
        _ => None,
    });
    match (key, by_passphrase) {
        (Key::OfFile(key), _) => Ok(key.clone()),
        (Key::Passphrase(_), None) => Err(AgeError::NeedsIdentity),
        (Key::Identities(_), Some(_)) => Err(AgeError::NeedsPassphrase),
        (Key::Passphrase(passphrase), Some((salt, work, body))) => {
            let work: u8 = work
                .parse()
                .map_err(|_| AgeError::Header("the scrypt cost of the passphrase is not a number"))?;
            if WORK_MAX < work {
                return Err(AgeError::TooExpensive(work));
            }
            if stanzas.len() != 1 || body.len() != WRAPPED {
                return Err(AgeError::Header("expected exactly one encrypted key, for the passphrase"));
            }
            unwrap(&*stretched(passphrase.reveal(), &decoded(salt)?, work)?, body)
                .ok_or(AgeError::WrongPassphrase)
        }
        (Key::Identities(identities), None) => {
            let shares = stanzas.iter().filter_map(|(arguments, body)| match arguments.as_slice() {
                [kind, share] if kind == "X25519" && body.len() == WRAPPED => {
                    Some((decoded(share).ok()?, body))
                }
                _ => None,
            });
            let shares: Vec<_> = shares.collect();
            let all =
                identities.iter().flat_map(|identity| shares.iter().map(move |share| (identity, share)));
            let mut found = all.filter_map(|(identity, (share, body))| identity.open(share, body));
            found.next().ok_or(AgeError::NoIdentity)
        }
    }
}

impl Identity {
    fn open(&self, share: &[u8], body: &[u8]) -> Option<FileKey> {
        let private = PrivateKey::from_private_key(&X25519, self.0.as_ref()).ok()?;
        let public = private.compute_public_key().ok()?;
        let salt = [share, public.as_ref()].concat();
        unwrap(&*agreed(&private, share, &salt).ok()?, body)
    }

    /// The recipient (public key) that belongs to this private key.
    ///
    /// # Errors
    /// When the cryptographic library returns an error.
    pub fn recipient(&self) -> Result<Recipient, AgeError> {
        let private =
            PrivateKey::from_private_key(&X25519, self.0.as_ref()).map_err(|_| AgeError::Refused)?;
        let public = private.compute_public_key()?;
        Ok(Recipient(public.as_ref().try_into().map_err(|_| AgeError::Refused)?))
    }
}
