//! Parses sizes in a form such as `500G`.

/// A quota in bytes; `None` means that there is no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity(pub(crate) Option<u64>);

pub(crate) fn quantity_or_none(text: &str) -> Result<Quantity, String> {
    if text == "none" { Ok(Quantity(None)) } else { quantity(text).map(|bytes| Quantity(Some(bytes))) }
}

pub(crate) fn quantity(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = text.get(number.len()..).unwrap_or_default().to_ascii_uppercase();
    let unit = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    let power = ["", "K", "M", "G", "T", "P"].iter().position(|known| *known == unit);
    let bytes = number.parse::<u64>().ok().zip(power.and_then(|power| 1024_u64.checked_pow(power as u32)));
    let bytes = bytes.and_then(|(number, unit)| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected bytes, or a number with K, M, G, T or P, such as 500G".to_owned())
}
