//! ACME HTTP-01 challenges, as certbot and lego write them into a directory (RFC 8555 §8.3).

use super::bounded;
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The greatest size of a file, in bytes. The file contains a key authorization, which is much shorter: two words of base64.
const BYTES_MAX: u64 = 4096;

/// The content of the file of a token. `None` if the token is not a word of base64url, or if the file does not exist, is a symbolic link or is not a
/// regular file. Users who may write into the directory of a web server must not get other files of this server by a link.
pub fn read(directory: &Path, token: &str) -> Option<Vec<u8>> {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if token.is_empty() || !token.bytes().all(is_of_word) {
        return None;
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(directory.join(token)).ok()?;
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
        assert_eq!(read(&directory, "a-Z_9").unwrap(), b"answer");
        for token in ["", ".", "..", "../secret", "link", "a.b", "absent"] {
            assert_eq!(read(&directory, token), None, "{token}");
        }
    }
}
