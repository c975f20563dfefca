//! Gantt charts: a row per worker, a bar per piece of work.

use crate::axis::{Axis, short};
use crate::svg::{Anchor, LETTER, Picture, colours};
use crate::{ReportError, check_finite};

const WIDTH: f64 = 720.0;
const ROW: f64 = 24.0;

#[derive(Clone, Debug, PartialEq)]
struct Bar {
    row: usize,
    kind: usize,
    from: f64,
    to: f64,
    tip: String,
}

#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Gantt {
    title: String,
    x: String,
    rows: Vec<String>,
    kinds: Vec<String>,
    bars: Vec<Bar>,
    until: Option<f64>,
    heading: bool,
}

impl Gantt {
    /// One row per name; `x` names the axis.
    pub fn new(title: &str, x: &str, rows: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let rows = rows.into_iter().map(Into::into).collect();
        Self { title: title.to_owned(), x: x.to_owned(), rows, ..Self::default() }
    }

    /// Fixes kinds and the order of their colours; by default they follow the bars.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.kinds = kinds.into_iter().map(Into::into).collect();
        self
    }

    /// Extends the axis to `end`, for charts of one scale.
    pub fn until(mut self, end: f64) -> Self {
        self.until = Some(end);
        self
    }

    /// Makes the title part of the picture, for a file of its own.
    pub fn with_heading(mut self) -> Self {
        self.heading = true;
        self
    }

    /// Adds a bar to row `row`, with its `kind`'s colour and a tooltip. Panics if there is no such row.
    pub fn bar(mut self, row: usize, kind: &str, (from, to): (f64, f64), tip: &str) -> Self {
        assert!(row < self.rows.len(), "row {row} of {}", self.rows.len());
        let known = self.kinds.iter().position(|name| name == kind);
        let kind = known.unwrap_or_else(|| {
            self.kinds.push(kind.to_owned());
            self.kinds.len() - 1
        });
        self.bars.push(Bar { row, kind, from, to, tip: tip.to_owned() });
        self
    }

    /// Fails with [`ReportError::NotFinite`].
    pub fn draw(&self) -> Result<String, ReportError> {
        let ends = || self.bars.iter().flat_map(|bar| [bar.from, bar.to]).chain(self.until);
        check_finite(&self.title, ends())?;
        let names = colours(self.kinds.iter().map(String::as_str));
        let colour = |kind: usize| names[kind].1;
        let longest = self.rows.iter().map(|row| row.chars().count()).max().unwrap_or(0);
        let (left, right) = (16.0 + LETTER * longest as f64, WIDTH - 28.0);
        // As many lines of names as there can be.
        let room: f64 = names.iter().map(|(name, _)| 30.0 + LETTER * name.chars().count() as f64).sum();
        let heading = if self.heading { 22.0 } else { 0.0 };
        let head = heading + 18.0 * (1.0 + (room / (WIDTH - left)).ceil());
        let height = head + ROW * self.rows.len() as f64 + 48.0;
        let mut picture = Picture::new(WIDTH, height);
        if self.heading {
            picture.text(left, 16.0, Anchor::Start, &self.title);
        }
        let top = picture.legend(&names, left, 16.0 + heading);
        let bottom = top + ROW * self.rows.len() as f64;
        let x = Axis::new(ends(), false, 6.0, (left, right));
        for (value, text) in x.ticks() {
            picture.line((x.place(value), top), (x.place(value), bottom), "grid");
            picture.text(x.place(value), bottom + 16.0, Anchor::Middle, &text);
        }
        picture.text(left.midpoint(right), bottom + 34.0, Anchor::Middle, &self.x);
        for (row, name) in self.rows.iter().enumerate() {
            picture.text(left - 8.0, top + ROW * row as f64 + 16.0, Anchor::End, name);
        }
        for Bar { row, kind, from, to, tip } in &self.bars {
            let (start, end) = (x.place(*from), x.place(*to));
            let tip = format!("{tip}: {} to {}", short(*from), short(*to));
            let place = (start, top + ROW * *row as f64 + 4.0);
            picture.bar(place, ((end - start).max(0.3), ROW - 8.0), colour(*kind), &tip);
        }
        picture.line((left, bottom), (right, bottom), "axis");
        Ok(picture.finish(&self.title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_where_its_times_are() {
        let chart = Gantt::new("t", "us", ["a", "b"])
            .bar(0, "one", (0.0, 5.0), "first")
            .bar(1, "two", (5.0, 10.0), "second")
            .bar(1, "one", (0.0, 2.0), "third");
        let svg = chart.draw().unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let bar = |tip: &str| {
            let found = document.descendants().find(|n| n.text().is_some_and(|t| t.starts_with(tip)));
            let rect = found.unwrap().parent_element().unwrap();
            ["x", "y", "width"].map(|key| rect.attribute(key).unwrap().parse::<f64>().unwrap())
        };
        let [first, second, third] = ["first", "second", "third"].map(bar);
        assert!((first[0] + first[2] - second[0]).abs() < 0.2, "{first:?} {second:?}");
        assert_eq!((first[0], second[1]), (third[0], third[1]));
        assert!((second[2] - 2.5 * third[2]).abs() < 0.3);
        assert!(second[1] > first[1]);
    }

    #[test]
    fn charts_without_bars_are_well_formed_and_what_cannot_be_drawn_is_refused() {
        for chart in [Gantt::new("t", "x", [""; 0]), Gantt::new("<&\">", "x", ["\u{1}"])] {
            let svg = chart.draw().unwrap();
            assert!(roxmltree::Document::parse(&svg).is_ok(), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
        let endless = Gantt::new("endless", "x", ["a"]).bar(0, "k", (0.0, f64::INFINITY), "");
        assert_eq!(
            endless.draw().unwrap_err().to_string(),
            "value 1 of 'endless' is inf; charts take finite numbers"
        );
    }
}
