//! Characters that are not visible.

/// Unicode's format characters (general category Cf, version 16), the characters that a renderer does not show (`Default_Ignorable_Code_Point`), and
/// the separators of lines and paragraphs. Two names that differ only in these characters look alike, and some of them reverse the direction of text.
const UNSEEN: [(u32, u32); 25] = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x0600, 0x0605),
    (0x061C, 0x061C),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
];

/// Whether a character is a control character or not visible. New names must not contain such a character.
pub fn is_unseen(c: char) -> bool {
    c.is_control() || UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&u32::from(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_and_what_is_not() {
        for c in ['a', ' ', 'ß', 'é', '名', '\u{00a0}', '😀', 'א', '_'] {
            assert!(!is_unseen(c), "{c:?}");
        }
        for c in [
            '\0',
            '\n',
            '\u{7f}',
            '\u{ad}',
            '\u{200b}',
            '\u{200d}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(is_unseen(c), "{c:?}");
        }
    }
}
