//! Bars in groups, side by side or stacked.

use crate::axis::{Axis, short};
use crate::svg::{Anchor, LETTER, Picture, colours, wrap};
use crate::{ReportError, check_finite};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;

#[derive(Clone, Debug, Default)]
#[must_use]
pub struct BarChart {
    title: String,
    y: String,
    labels: Vec<String>,
    /// Name of each kind of bar, and a value, 0 or more, for each label.
    bars: Vec<(String, Vec<f64>)>,
    stacked: bool,
}

impl BarChart {
    /// One group per label; `y` names the heights.
    pub fn new(title: &str, y: &str, labels: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let labels = labels.into_iter().map(Into::into).collect();
        Self { title: title.to_owned(), y: y.to_owned(), labels, ..Self::default() }
    }

    /// Stacks a group's bars, as parts of a whole.
    pub fn stacked(mut self) -> Self {
        self.stacked = true;
        self
    }

    /// Adds a bar to every group.
    pub fn bars(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        self.bars.push((name.to_owned(), values.into_iter().collect()));
        self
    }

    /// Fails with [`ReportError::NotFinite`], or [`ReportError::Length`] unless there is one value per label.
    pub fn draw(&self) -> Result<String, ReportError> {
        for (name, values) in &self.bars {
            check_finite(name, values.iter().copied())?;
            let (found, expected) = (values.len(), self.labels.len());
            if found != expected {
                return Err(ReportError::Length { series: name.clone(), found, expected });
            }
        }
        let mut picture = Picture::new(WIDTH, HEIGHT);
        let names = colours(self.bars.iter().map(|(name, _)| name.as_str()));
        let colour = |index: usize| names[index].1;
        let top = picture.legend(&names, 64.0, 16.0) + 8.0;
        let (left, right) = (64.0, WIDTH - 12.0);
        let group = (right - left) / self.labels.len().max(1) as f64;
        let labels: Vec<Vec<String>> = self.labels.iter().map(|label| wrap(label, group - 10.0)).collect();
        let lines = labels.iter().map(Vec::len).max().unwrap_or(1);
        let bottom = HEIGHT - 13.0 - 15.0 * lines as f64;
        let total = |group: usize| self.bars.iter().map(|(_, values)| values[group]).sum::<f64>();
        let heights: Vec<f64> = if self.stacked {
            (0..self.labels.len()).map(total).collect()
        } else {
            self.bars.iter().flat_map(|(_, values)| values.iter().copied()).collect()
        };
        let y = Axis::new(heights.into_iter(), true, 5.0, (bottom, top));
        for (value, text) in y.ticks() {
            picture.line((left, y.place(value)), (right, y.place(value)), "grid");
            picture.text(left - 6.0, y.place(value) + 4.0, Anchor::End, &text);
        }
        picture.upright_text(14.0, top.midpoint(bottom), &self.y);
        let room = 0.8 * group;
        for (index, label) in self.labels.iter().enumerate() {
            let start = left + index as f64 * group + 0.1 * group;
            let mut base = 0.0;
            for (kind, (name, values)) in self.bars.iter().enumerate() {
                let value = values[index];
                let tip = format!("{label}, {name}: {}", short(value));
                if self.stacked {
                    let (low, high) = (y.place(base), y.place(base + value));
                    picture.bar((start, high), (room, low - high), colour(kind), &tip);
                    base += value;
                } else {
                    let width = room / self.bars.len() as f64;
                    let (x, high) = (start + kind as f64 * width, y.place(value));
                    picture.bar((x, high), (0.9 * width, y.place(0.0) - high), colour(kind), &tip);
                    picture.text(x + 0.45 * width, high - 4.0, Anchor::Middle, &short(value));
                }
            }
            if self.stacked && LETTER * short(base).chars().count() as f64 <= group {
                picture.text(start + room / 2.0, y.place(base) - 4.0, Anchor::Middle, &short(base));
            }
            for (line, text) in labels[index].iter().enumerate() {
                let y = bottom + 16.0 + 15.0 * line as f64;
                picture.text(start + room / 2.0, y, Anchor::Middle, text);
            }
        }
        picture.line((left, bottom), (right, bottom), "axis");
        Ok(picture.finish(&self.title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_charts_are_drawn_as_recorded() {
        let chart = BarChart::new("Ablation", "ratio", ["a -> b", "b -> c"])
            .bars("here", [1.5, 1.1])
            .bars("paper", [1.63, 1.33]);
        insta::assert_snapshot!("beside", chart.draw().unwrap());
        insta::assert_snapshot!("stacked", chart.stacked().draw().unwrap());
    }

    #[test]
    fn charts_without_bars_or_labels_are_well_formed() {
        for chart in [
            BarChart::new("t", "y", ["a"]),
            BarChart::new("t", "y", [""; 0]).bars("b", []),
            BarChart::new("<&\">", "\u{1}", ["a\u{0}b"]).bars("zero", [0.0]).stacked(),
        ] {
            let svg = chart.draw().unwrap();
            assert!(roxmltree::Document::parse(&svg).is_ok(), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn missing_values_are_refused_by_name() {
        let error = BarChart::new("t", "y", ["a", "b"]).bars("short", [1.0]).draw().unwrap_err();
        assert_eq!(error.to_string(), "'short' has 1 values for 2 labels");
    }
}
