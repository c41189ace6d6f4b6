//! Slow hashes: crypt(3) strings of other systems, and argon2id for passwords.
//!
//! A stored hash is untrusted input. Its form and cost are checked before a hash is computed. The reason: an expensive hash would allow a denial of
//! service, and a truncated hash could match every secret.

mod keystone;

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use enfilade_facts::limits;
use enfilade_facts::vocabulary::Secret;
use sha_crypt::ShaCrypt;
use yescrypt::Yescrypt;

/// Why a stored hash is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashRefused {
    /// The scheme is not known.
    #[error(
        "the hash has an unknown scheme; the known schemes are $y$, $5$, $6$, $2a$, $2b$, $2y$, $argon2id$, $bcrypt-sha256$, $scrypt$ and $pbkdf2-sha512$"
    )]
    Scheme,
    /// The hash does not have the form of its scheme.
    #[error("the hash does not have the form of a {0} hash")]
    Form(&'static str),
    /// The hash is more expensive than allowed.
    #[error("the cost of the hash is over the limit: {0}")]
    Cost(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Sha,
    Yescrypt,
    Bcrypt,
    Argon2id,
    /// scrypt and PBKDF2 in Keystone's form.
    Keystone,
    /// bcrypt of a digest of the secret, in Keystone's form.
    BcryptSha256,
}

/// Checks the form and the cost of a stored hash.
///
/// # Errors
/// When the hash cannot be used.
pub fn check(hash: &str) -> Result<(), HashRefused> {
    scheme(hash).map(|_| ())
}

fn scheme(hash: &str) -> Result<Scheme, HashRefused> {
    // bcrypt's parser is known to panic on bytes outside ASCII (RUSTSEC-2026-0199).
    if !hash.is_ascii() {
        return Err(HashRefused::Scheme);
    }
    let fields: Vec<&str> = hash.split('$').collect();
    match fields.as_slice() {
        ["", "5", rest @ ..] => sha(rest, "$5$", 43),
        ["", "6", rest @ ..] => sha(rest, "$6$", 86),
        ["", "y", params, salt, digest] => yescrypt(params, salt, digest),
        ["", "2a" | "2b" | "2y", cost, rest] => bcrypt(cost, rest),
        ["", "argon2id", "v=19", params, salt, digest] => argon2id(params, salt, digest),
        ["", "scrypt" | "pbkdf2-sha512", ..] => keystone::read(&fields).map(|_| Scheme::Keystone),
        ["", "bcrypt-sha256", params, salt, digest] => {
            let (cost, rest) = keystone::bcrypt_of(params, salt, digest)?;
            bcrypt(&cost, &rest).map(|_| Scheme::BcryptSha256)
        }
        _ => Err(HashRefused::Scheme),
    }
}

fn is_crypt64(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'/')
}

fn sha(fields: &[&str], name: &'static str, digest_length: usize) -> Result<Scheme, HashRefused> {
    let (rounds, salt, digest) = match fields {
        [salt, digest] => (None, salt, digest),
        [rounds, salt, digest] => (Some(rounds), salt, digest),
        _ => return Err(HashRefused::Form(name)),
    };
    let rounds = match rounds {
        None => 5000,
        Some(text) => text
            .strip_prefix("rounds=")
            .and_then(|n| n.parse::<u32>().ok().filter(|parsed| parsed.to_string() == n))
            .ok_or(HashRefused::Form(name))?,
    };
    if salt.len() > 16 || !is_crypt64(digest, digest_length) {
        return Err(HashRefused::Form(name));
    }
    if rounds > limits::SHA_CRYPT_ROUNDS_MAX {
        return Err(HashRefused::Cost(format!(
            "the hash has {rounds} rounds, at most {} are allowed",
            limits::SHA_CRYPT_ROUNDS_MAX
        )));
    }
    Ok(Scheme::Sha)
}

fn yescrypt(params: &str, salt: &str, digest: &str) -> Result<Scheme, HashRefused> {
    let form = HashRefused::Form("$y$");
    if !is_crypt64(digest, 43) || !is_crypt64(salt, salt.len()) || salt.len() > 86 {
        return Err(form);
    }
    let params: yescrypt::Params = params.parse().map_err(|_| form)?;
    let bytes = u64::from(params.r()).saturating_mul(128).saturating_mul(params.n());
    if bytes > limits::HASH_MEMORY_BYTES_MAX || params.p() > 4 {
        return Err(HashRefused::Cost(format!(
            "the hash needs {bytes} bytes of memory, at most {} are allowed, with a parallelism of at most 4",
            limits::HASH_MEMORY_BYTES_MAX
        )));
    }
    Ok(Scheme::Yescrypt)
}

fn bcrypt(cost: &str, rest: &str) -> Result<Scheme, HashRefused> {
    let form = HashRefused::Form("$2b$");
    if cost.len() != 2 || !is_crypt64(rest, 53) {
        return Err(form);
    }
    let cost: u32 = cost.parse().map_err(|_| form)?;
    if cost > limits::BCRYPT_COST_MAX {
        return Err(HashRefused::Cost(format!(
            "the bcrypt cost is {cost}, at most {} is allowed",
            limits::BCRYPT_COST_MAX
        )));
    }
    Ok(Scheme::Bcrypt)
}

fn argon2id(params: &str, salt: &str, digest: &str) -> Result<Scheme, HashRefused> {
    let form = HashRefused::Form("$argon2id$");
    let number = |prefix: &str, text: &str| text.strip_prefix(prefix).and_then(|n| n.parse::<u32>().ok());
    let parsed = match params.split(',').collect::<Vec<_>>().as_slice() {
        [m, t, p] => number("m=", m).zip(number("t=", t)).zip(number("p=", p)),
        _ => None,
    };
    let Some(((kibibytes, passes), lanes)) = parsed else { return Err(form) };
    let base64 = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
    if !(22..=86).contains(&digest.len())
        || !base64(digest)
        || !(11..=86).contains(&salt.len())
        || !base64(salt)
    {
        return Err(form);
    }
    let bytes = u64::from(kibibytes) * 1024;
    if bytes > limits::HASH_MEMORY_BYTES_MAX || passes > limits::ARGON2_PASSES_MAX || lanes > 8 {
        return Err(HashRefused::Cost(format!(
            "the hash needs {bytes} bytes of memory, {passes} passes and {lanes} lanes; at most {} bytes, {} passes and 8 lanes are allowed",
            limits::HASH_MEMORY_BYTES_MAX,
            limits::ARGON2_PASSES_MAX
        )));
    }
    Ok(Scheme::Argon2id)
}

/// A hash that costs as much as `hash`, but that no known secret matches; `None` if `hash` is not a valid hash.
pub(crate) fn decoy_of(hash: &str) -> Option<String> {
    let digest = match scheme(hash).ok()? {
        // The digest is the last 31 characters. There is no `$` between the salt and the digest.
        Scheme::Bcrypt => hash.len().checked_sub(31)?,
        Scheme::Sha | Scheme::Yescrypt | Scheme::Argon2id | Scheme::Keystone | Scheme::BcryptSha256 => {
            hash.rfind('$')? + 1
        }
    };
    let is_base64 = ["$argon2id$", "$scrypt$", "$pbkdf2-sha512$"].iter().any(|name| hash.starts_with(name));
    let zero = if is_base64 { "A" } else { "." };
    let (salt, replaced) = hash.split_at_checked(digest)?;
    Some(format!("{salt}{}", zero.repeat(replaced.len())))
}

/// Whether the hash was made from this secret. This function is slow on purpose; never call it on an async worker.
pub fn matches(secret: &Secret, hash: &str) -> bool {
    let bytes = secret.reveal();
    match scheme(hash) {
        Ok(Scheme::Sha) => ShaCrypt::default().verify_password(bytes, hash).is_ok(),
        Ok(Scheme::Yescrypt) => Yescrypt::default().verify_password(bytes, hash).is_ok(),
        // bcrypt reads only the first 72 bytes of a secret. Keystone cuts a longer secret before it hashes the secret, for example a secret of 86
        // bytes that Keystone generated. So this function also cuts a longer secret.
        Ok(Scheme::Bcrypt) => {
            let read = bytes.get(..limits::BCRYPT_SECRET_BYTES_MAX).unwrap_or(bytes);
            bcrypt::verify(read, hash).unwrap_or(false)
        }
        Ok(Scheme::Argon2id) => Argon2::default().verify_password(bytes, hash).is_ok(),
        Ok(Scheme::Keystone) => {
            let fields: Vec<&str> = hash.split('$').collect();
            keystone::read(&fields).is_ok_and(|stored| stored.matches(bytes))
        }
        Ok(Scheme::BcryptSha256) => keystone::matches_bcrypt(bytes, hash),
        Err(_) => false,
    }
}

/// Whether a match proves that the whole secret is right. A match with a bcrypt hash does not prove the end of a long secret, because bcrypt ignores
/// this end.
pub(crate) fn proves_whole(secret: &Secret, hash: &str) -> bool {
    scheme(hash) != Ok(Scheme::Bcrypt) || secret.reveal().len() < limits::BCRYPT_SECRET_BYTES_MAX
}

/// A new argon2id string for a password (19 MiB, 2 passes, 1 lane: OWASP's first choice).
///
/// # Errors
/// When there is no randomness for the salt.
pub fn hash_password(password: &Secret) -> Result<String, String> {
    let hash = Argon2::default().hash_password(password.reveal());
    hash.map(|hash| hash.to_string()).map_err(|why| format!("the password cannot be hashed: {why}"))
}

/// The crypt(3) string of a generated secret, for a file that other programs read. The secret cannot be guessed, so its hash has the smallest number
/// of rounds.
///
/// # Errors
/// When the library cannot compute the hash.
pub fn hash_generated(secret: &str, salt: [u8; 12]) -> Result<String, String> {
    // Twelve bytes give the sixteen characters of salt that libxcrypt reads.
    let params = sha_crypt::Params::new(sha_crypt::Params::ROUNDS_MIN).map_err(|why| why.to_string())?;
    let hasher = ShaCrypt::new(sha_crypt::Algorithm::Sha256Crypt, params);
    let hash = hasher.hash_password_with_salt(secret.as_bytes(), &salt).map_err(|why| why.to_string())?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes()).unwrap()
    }

    /// Hashes of the secret `correct horse`, made with libxcrypt 4.4.33.
    const FROM_LIBXCRYPT: [&str; 5] = [
        "$y$j7T$saltsaltsalt$xqL.TSoUmP.EvltNZ0AuBu2W9840woEB94hAuf6JJI9",
        "$5$saltstring$vc6YOOogU4kWVvwga8e9zTFgKcy4tb5LaPxIiPJzqEC",
        "$5$rounds=10000$saltstring$ggJFhqdTxePyBHLQYFUkzFoOn.JeJ0OPTPpSZXyvS/3",
        "$6$saltstring$.r0X7ub5wGR2v4Xz7svCIozfnlorFh19V89t8KC9Umd81uGhFgsyTRNyzQDXDIm17fFcR9z3z7oBNdsyYBbtm/",
        "$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2",
    ];

    #[test]
    fn hashes_of_libxcrypt_match() {
        for hash in FROM_LIBXCRYPT {
            assert_eq!(check(hash), Ok(()), "{hash}");
            assert!(matches(&secret("correct horse"), hash), "{hash}");
            assert!(!matches(&secret("correct horsE"), hash), "{hash}");
        }
    }

    #[test]
    fn our_own_password_hash_matches() {
        let hash = hash_password(&secret("pässword")).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(matches(&secret("pässword"), &hash));
        assert!(!matches(&secret("password"), &hash));
    }

    #[test]
    fn a_decoy_has_the_form_and_the_cost_and_matches_nothing() {
        let ours = hash_password(&secret("correct horse")).unwrap();
        for hash in FROM_LIBXCRYPT.into_iter().chain([ours.as_str()]) {
            let decoy = decoy_of(hash).unwrap();
            assert_eq!((check(&decoy), decoy.len()), (Ok(()), hash.len()), "{decoy}");
            assert_ne!(decoy, hash);
            assert!(!matches(&secret("correct horse"), &decoy));
            let digest = hash.rfind('$').unwrap();
            assert!(hash.starts_with("$2") || decoy.starts_with(&hash[..=digest]));
        }
        assert_eq!(decoy_of("plain"), None);
    }

    #[test]
    fn a_hash_cut_short_matches_nothing() {
        let [yescrypt, sha, _, _, bcrypt] = FROM_LIBXCRYPT;
        let argon2 = hash_password(&secret("correct horse")).unwrap();
        for hash in [yescrypt, sha, bcrypt, argon2.as_str()] {
            for length in 0..hash.len() {
                let cut = &hash[..length];
                assert!(!matches(&secret("correct horse"), cut) || check(cut).is_err(), "{cut}");
                assert!(check(cut).is_err() || cut.starts_with("$argon2id$"), "{cut}");
            }
        }
    }

    #[test]
    fn expensive_hashes_are_refused_before_any_work() {
        for hash in [
            "$2b$15$abcdefghijklmnopqrstuuabcdefghijklmnopqrstuvwxyzABCDE".to_owned(),
            format!("$6$rounds=200001$salt${}", "a".repeat(86)),
            format!("$y$jFT$salt${}", "a".repeat(43)),
            format!("$argon2id$v=19$m=1048576,t=2,p=1${}${}", "a".repeat(22), "a".repeat(43)),
        ] {
            assert!(matches!(check(&hash), Err(HashRefused::Cost(_))), "{hash}: {:?}", check(&hash));
        }
        for hash in ["", "x", "$1$salt$hash", "*0", "$y$j9T$salt$", "$2b$10$é", "plain"] {
            assert!(check(hash).is_err(), "{hash}");
        }
    }

    /// For each scheme: hashes at the limits of form and cost, which are accepted, and hashes beyond these limits, which are refused.
    #[test]
    fn the_limits_of_each_scheme_are_exact() {
        let sha =
            |salt: usize, rounds: u32| format!("$5$rounds={rounds}${}${}", "s".repeat(salt), "a".repeat(43));
        let yescrypt = |salt: &str, n: u64, p: u32| {
            let params = yescrypt::Params::new(yescrypt::Mode::default(), n, 8, p).unwrap();
            format!("$y${params}${salt}${}", "a".repeat(43))
        };
        let bcrypt = |cost: u32| format!("$2b${cost}${}", "a".repeat(53));
        let argon2 = |(mebibytes, passes, lanes): (u32, u32, u32), salt: &str, digest: &str| {
            format!("$argon2id$v=19$m={},t={passes},p={lanes}${salt}${digest}", mebibytes * 1024)
        };
        let (cheap, salt, digest) = ((1, 1, 1), "s".repeat(22), "d".repeat(43));
        let keystone = format!("$pbkdf2-sha512$25000$w4vpDPVkylKe023bLvpVXQ${}", "A".repeat(86));
        for hash in [
            sha(16, limits::SHA_CRYPT_ROUNDS_MAX),
            yescrypt(&"s".repeat(86), 1 << 16, 4),
            bcrypt(limits::BCRYPT_COST_MAX),
            argon2((64, limits::ARGON2_PASSES_MAX, 8), &salt, &digest),
            argon2(cheap, &"s".repeat(11), &"d".repeat(22)),
            argon2(cheap, &"s".repeat(86), &"d".repeat(86)),
            keystone,
        ] {
            assert_eq!(check(&hash), Ok(()), "{hash}");
        }
        for hash in [
            sha(17, 5000),
            yescrypt(&"s".repeat(87), 1 << 10, 1),
            yescrypt("salt!", 1 << 10, 1),
            argon2(cheap, &salt, &"d".repeat(21)),
            argon2(cheap, &salt, &"d".repeat(87)),
            argon2(cheap, &salt, &"!".repeat(43)),
            argon2(cheap, &"s".repeat(10), &digest),
            argon2(cheap, &"s".repeat(87), &digest),
            argon2(cheap, &"!".repeat(22), &digest),
        ] {
            assert!(matches!(check(&hash), Err(HashRefused::Form(_))), "{hash}: {:?}", check(&hash));
        }
        for hash in [
            sha(16, limits::SHA_CRYPT_ROUNDS_MAX + 1),
            yescrypt("salt", 1 << 17, 1),
            yescrypt("salt", 1 << 10, 5),
            bcrypt(limits::BCRYPT_COST_MAX + 1),
            argon2((65, 1, 1), &salt, &digest),
            argon2((1, limits::ARGON2_PASSES_MAX + 1, 1), &salt, &digest),
            argon2((1, 1, 9), &salt, &digest),
        ] {
            assert!(matches!(check(&hash), Err(HashRefused::Cost(_))), "{hash}: {:?}", check(&hash));
        }
    }

    #[test]
    fn bcrypt_reads_the_first_72_bytes_of_a_secret() {
        let long = "x".repeat(86);
        let hash = bcrypt::hash(&long[..72], 4).unwrap();
        assert!(matches(&secret(&long), &hash));
        assert!(matches(&secret(&long[..72]), &hash));
        assert!(!matches(&secret(&long[..71]), &hash));
        assert!(!matches(&secret(&format!("y{long}")), &hash));
        let digested = "$bcrypt-sha256$v=2,t=2b,r=4$Uy.tE3iH3eKm..AY5/T9Su$QIvr4B17DSYH3J4owjiEc2vVzhhCM4i";
        for (hash, bytes, expected) in [
            (hash.as_str(), 71, true),
            // A longer secret that begins with the same 72 bytes has the same hash.
            (hash.as_str(), 72, false),
            (hash.as_str(), 86, false),
            (digested, 86, true),
            (FROM_LIBXCRYPT[1], 86, true),
        ] {
            assert_eq!(check(hash), Ok(()), "{hash}");
            assert_eq!(proves_whole(&secret(&long[..bytes]), hash), expected, "{hash} {bytes}");
        }
    }

    /// The hashes that the system's libxcrypt computes for pairs of secret and setting, one line for each pair (perl's `crypt` is crypt(3)).
    fn libxcrypt(pairs: &[(String, String)]) -> Vec<String> {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        let program = "while (<>) { chomp; my ($secret, $setting) = split / /; \
            print crypt(pack('H*', $secret), $setting), qq(\\n) }";
        let mut perl = Command::new("perl")
            .args(["-e", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let hex = |secret: &str| secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let lines: String =
            pairs.iter().map(|(secret, setting)| format!("{} {setting}\n", hex(secret))).collect();
        perl.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = perl.wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Secrets with bytes outside ASCII. The length of each secret is a limit or a block size of a scheme, or is close to such a limit or block size.
    fn secrets() -> impl Iterator<Item = String> {
        let lengths = [1, 2, 7, 8, 15, 16, 31, 32, 36, 63, 64, 71, 72, 73, 127, 128, 255, 510, 511];
        lengths.into_iter().map(|length| {
            let text = "päßword 0123456789 ÿ".chars().cycle();
            let mut secret: String = text.take(length).collect();
            while length < secret.len() {
                secret.pop();
            }
            secret.extend(std::iter::repeat_n('x', length - secret.len()));
            secret
        })
    }

    #[test]
    fn hashes_of_libxcrypt_match_their_secret_and_no_other() {
        let settings = [
            "$5$rounds=1000$saltsalt$",
            "$5$saltsaltsaltsalt$",
            "$6$rounds=1234$s$",
            "$6$saltsalt$",
            "$y$j75$LdJMENpBABJJ3hIHjB1Bi.$",
            "$y$j7T$abcdefgh$",
            "$2a$04$abcdefghijklmnopqrstuu",
            "$2b$04$abcdefghijklmnopqrstuu",
            "$2y$04$abcdefghijklmnopqrstuu",
        ];
        let pairs: Vec<(String, String)> = secrets()
            .flat_map(|secret| settings.map(|setting| (secret.clone(), setting.to_owned())))
            .collect();
        let hashes = libxcrypt(&pairs);
        assert_eq!(hashes.len(), pairs.len());
        for ((text, setting), hash) in pairs.iter().zip(&hashes) {
            assert_eq!(check(hash), Ok(()), "{hash}");
            assert!(matches(&secret(text), hash), "{hash} of {} bytes", text.len());
            // A bcrypt hash depends only on the first 72 bytes of the secret.
            let read = if setting.starts_with("$2") { text.len().min(72) } else { text.len() };
            let last = text.char_indices().rfind(|(at, _)| *at < read).map_or(0, |(at, _)| at);
            let other = format!("{}y", &text[..last]);
            assert!(!matches(&secret(&other), hash) || other == *text, "{hash} of {} bytes", text.len());
        }
    }

    #[test]
    fn our_hashes_match_in_libxcrypt() {
        use sha_crypt::ShaCrypt;
        let made = |text: &str| -> Vec<String> {
            let bytes = text.as_bytes();
            vec![
                Yescrypt::default().hash_password(bytes).unwrap().to_string(),
                ShaCrypt::default().hash_password(bytes).unwrap().to_string(),
                bcrypt::hash(text, 4).unwrap(),
            ]
        };
        let some = secrets().filter(|secret| [1, 36, 72].contains(&secret.len()));
        let pairs: Vec<(String, String)> =
            some.flat_map(|text| made(&text).into_iter().map(move |hash| (text.clone(), hash))).collect();
        let ours: Vec<(String, String)> =
            secrets().map(|text| (text.clone(), hash_generated(&text, *b"twelve bytes").unwrap())).collect();
        for ((text, hash), again) in ours.iter().zip(libxcrypt(&ours)) {
            assert_eq!(*hash, again);
            assert!(check(hash).is_ok() && matches(&secret(text), hash));
        }
        let again = libxcrypt(&pairs);
        assert_eq!(pairs.len(), 9);
        for ((_, hash), again) in pairs.iter().zip(&again) {
            // The library makes salts of 22 characters. For SHA-crypt, the library and libxcrypt use only 16 of these characters.
            let digest = |hash: &str| hash.rsplit('$').next().map(str::to_owned);
            assert_eq!(digest(hash), digest(again), "{hash} {again}");
        }
    }
}
