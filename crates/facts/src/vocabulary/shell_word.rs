//! How a name is written in a shell command that an operator can copy from a message.

/// A name or path as one word of a shell, with quotes only if the shell needs them. Zsh replaces a word that begins with `=`, so `=` is quoted.
pub fn shell_word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+:,./-_".contains(c);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_command_is_one_word_of_the_shell() {
        for name in [
            "alice@local",
            "%C3%A4@%local",
            "",
            "a b",
            "alice@local!laptop",
            "it's",
            "$(date)",
            "a\"b",
            "ä",
            "=ls",
        ] {
            let command = format!("printf %s {}", shell_word(name));
            let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), name);
        }
        for plain in ["alice@local", "%C3%A4@%local", "https://localhost:8443/v3", "/a,b_c"] {
            assert_eq!(shell_word(plain), plain);
        }
        for (name, expected) in [("it's", r"'it'\''s'"), ("a@b!c", "'a@b!c'"), ("=ls", "'=ls'"), ("", "''")] {
            assert_eq!(shell_word(name), expected);
        }
    }
}
