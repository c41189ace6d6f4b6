//! Draws the figures as bars, one picture for each unit.

use crate::report::{Report, Row};
use std::fmt::Write as _;
use std::path::Path;

const WIDTH: f64 = 900.0;
const LABEL: f64 = 380.0;
const LINE: f64 = 26.0;

/// Writes `<bench>-<unit>.svg` for every unit.
pub(crate) fn write(report: &Report, directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut units: Vec<&str> = report.rows().iter().map(|row| row.unit).collect();
    units.sort_unstable();
    units.dedup();
    for unit in units {
        let rows: Vec<&Row> = report.rows().iter().filter(|row| row.unit == unit).collect();
        let name = format!("{}-{}.svg", report.name(), unit.replace('/', "-per-"));
        std::fs::write(directory.join(name), svg(report.name(), unit, &rows))?;
    }
    Ok(())
}

fn svg(bench: &str, unit: &str, rows: &[&Row]) -> String {
    let most = rows.iter().map(|row| row.value).fold(f64::MIN_POSITIVE, f64::max);
    let height = LINE * (rows.len() as f64 + 2.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<text x=\"8\" y=\"20\" font-weight=\"bold\">{bench}: {unit}</text>\n"
    );
    for (index, row) in rows.iter().enumerate() {
        let top = LINE * (index as f64 + 1.5);
        let length = (WIDTH - LABEL - 110.0) * (row.value / most).max(0.0);
        let (name, middle, after) = (&row.name, top + 14.0, LABEL + length + 6.0);
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{name} ({})</text>\
             <rect x=\"{LABEL}\" y=\"{top}\" width=\"{length:.1}\" height=\"18\" fill=\"#4477aa\"/>\
             <text x=\"{after:.1}\" y=\"{middle}\">{:.2}</text>",
            LABEL - 8.0,
            row.n,
            row.value
        );
    }
    text.push_str("</svg>\n");
    text
}
