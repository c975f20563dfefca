//! Horizontal bars, one per row, each with a text after it.

use crate::svg::{Anchor, COLOURS, LETTER, Picture};
use crate::{ReportError, check_finite};

const ROW: f64 = 24.0;
/// Longest bar.
const BAR: f64 = 420.0;
/// For the text after a bar.
const TEXT: f64 = 180.0;

#[derive(Clone, Debug)]
struct Row {
    name: String,
    value: f64,
    text: String,
    colour: usize,
}

#[derive(Clone, Debug)]
#[must_use]
pub struct Rows {
    title: String,
    rows: Vec<Row>,
}

impl Rows {
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), rows: Vec::new() }
    }

    /// Adds a row; equal `colour` numbers group rows.
    pub fn row(mut self, name: &str, value: f64, text: &str, colour: usize) -> Self {
        let (name, text) = (name.to_owned(), text.to_owned());
        self.rows.push(Row { name, value, text, colour });
        self
    }

    /// Fails with [`ReportError::NotFinite`].
    pub fn draw(&self) -> Result<String, ReportError> {
        check_finite(&self.title, self.rows.iter().map(|row| row.value))?;
        let longest = self.rows.iter().map(|row| row.value).fold(0.0, f64::max);
        let names = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let left = 20.0 + LETTER * names as f64;
        let mut picture = Picture::new(left + BAR + TEXT, 16.0 + ROW * self.rows.len() as f64);
        for (index, Row { name, value, text, colour }) in self.rows.iter().enumerate() {
            let top = 8.0 + ROW * index as f64;
            let bar = if longest > 0.0 { BAR * value / longest } else { 0.0 };
            picture.text(left - 8.0, top + 15.0, Anchor::End, name);
            picture.bar((left, top), (bar, ROW - 6.0), COLOURS[colour % COLOURS.len()], text);
            picture.text(left + bar + 8.0, top + 15.0, Anchor::Start, text);
        }
        Ok(picture.finish(&self.title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_has_the_whole_width() {
        let chart = Rows::new("a <layer>").row("fc1", 1200.0, "75 %", 0).row("waiting", 400.0, "25 %", 1);
        let svg = chart.draw().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let widths: Vec<_> =
            document.descendants().filter(|n| n.has_tag_name("rect")).map(|n| n.attribute("width")).collect();
        assert_eq!(widths, [Some("420"), Some("140")]);
        let texts: Vec<_> =
            document.descendants().filter(|n| n.has_tag_name("text")).map(|n| n.text().unwrap()).collect();
        assert_eq!(texts, ["fc1", "75 %", "waiting", "25 %"]);
    }

    #[test]
    fn bars_of_nothing_are_well_formed_and_what_cannot_be_drawn_is_refused() {
        for chart in [Rows::new("t"), Rows::new("t").row("zero", 0.0, "", 9)] {
            let svg = chart.draw().unwrap();
            assert!(roxmltree::Document::parse(&svg).is_ok() && !svg.contains("NaN"), "{svg}");
        }
        let error = Rows::new("t").row("a", f64::NAN, "", 0).draw().unwrap_err().to_string();
        assert_eq!(error, "value 0 of 't' is NaN; charts take finite numbers");
    }
}
