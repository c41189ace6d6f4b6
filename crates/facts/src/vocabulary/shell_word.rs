//! Names in commands for an operator to copy.

/// A name as one word of a shell.
pub fn shell_word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@._+-/".contains(c);
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
        for name in ["alice@local", "", "a b", "alice@local!laptop", "it's", "$(date)", "a\"b", "ä"] {
            let command = format!("printf %s {}", shell_word(name));
            let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), name);
        }
        assert_eq!(shell_word("alice@local"), "alice@local");
    }
}
