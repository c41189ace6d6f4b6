//! Reads answers to ACME challenges from files of one directory: answers to HTTP-01 (RFC 8555 §8.3), as certbot and lego write them, and answers to
//! TLS-ALPN-01 (RFC 8737 §3).

use super::bounded;
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The greatest size of a file, in bytes. The file contains a key authorization, which is much shorter: two words of base64.
const BYTES_MAX: u64 = 4096;

/// The content of the file for a token of HTTP-01; `None` if the token is not a word of base64url, or if no such file exists.
pub fn of_token(directory: &Path, token: &str) -> Option<Vec<u8>> {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_word = !token.is_empty() && token.bytes().all(is_of_word);
    is_word.then(|| read(directory, token)).flatten()
}

/// The content of the file for a host name that is validated by TLS-ALPN-01; `None` if no such file exists.
pub fn of_host(directory: &Path, host: &str) -> Option<Vec<u8>> {
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_host = host.split('.').all(|label| !label.is_empty()) && host.bytes().all(is_of_host);
    is_host.then(|| read(directory, host)).flatten()
}

/// Reads a file of the directory. A symbolic link is not followed. Otherwise, a user who may write into the directory of a web server could make a
/// link in it, and read through this link other files that Enfilade can read.
fn read(directory: &Path, name: &str) -> Option<Vec<u8>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(directory.join(name)).ok()?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    bounded::read_all(&file, BYTES_MAX).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn only_files_of_the_directory_itself_are_answers() {
        let scratch = Scratch::new();
        let (directory, secret) = (scratch.path().join("challenges"), scratch.path().join("secret"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(&secret, "secret").unwrap();
        std::fs::write(directory.join("a-Z_9"), "answer").unwrap();
        std::fs::write(directory.join("a.b"), "no word").unwrap();
        std::os::unix::fs::symlink(&secret, directory.join("link")).unwrap();
        assert_eq!(of_token(&directory, "a-Z_9").unwrap(), b"answer");
        for token in ["", ".", "..", "../secret", "link", "a.b", "absent"] {
            assert_eq!(of_token(&directory, token), None, "{token}");
        }
        assert_eq!(of_host(&directory, "a.b").unwrap(), b"no word");
        for host in ["", ".", "..", "../secret", "link", ".a.b", "a..b", "a.b/", "absent"] {
            assert_eq!(of_host(&directory, host), None, "{host}");
        }
    }
}
