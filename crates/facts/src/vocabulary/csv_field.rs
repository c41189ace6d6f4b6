//! Fields of CSV files.

/// The text `field` as a field of a CSV file (RFC 4180 §2). If a spreadsheet would read the text as a formula, an apostrophe is put before the text.
/// People choose the names of users and files, so a name can be a formula.
pub fn csv_field(field: &str) -> String {
    let is_formula = field.starts_with(['=', '+', '-', '@', '\t']);
    let is_plain = !is_formula && !field.contains([',', '"', '\r', '\n']);
    let before = if is_formula { "'" } else { "" };
    if is_plain { field.to_owned() } else { format!("\"{before}{}\"", field.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::csv_field;

    #[test]
    fn a_field_is_one_field_and_no_formula() {
        for (field, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=1+1", "\"'=1+1\""),
            ("line\nbreak", "\"line\nbreak\""),
        ] {
            assert_eq!(csv_field(field), expected);
        }
    }
}
