//! Lines over a common axis.

use crate::axis::{Axis, short};
use crate::svg::{Anchor, Picture, colours};
use crate::{ReportError, check_finite};

/// Size of a chart.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
/// Points of a series that get a dot with a tooltip of their own.
const DOTS: usize = 64;
/// Points of a series that are drawn; longer ones are thinned.
const POINTS: usize = 1440;

/// A named line: points in the order in which they are joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// `x` and `y` of each point.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series of values at 1, 2, 3, ...
    pub fn counted(name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let points = values.into_iter().enumerate().map(|(index, y)| (index as f64 + 1.0, y)).collect();
        Self { name: name.to_owned(), points }
    }
}

/// Lines over a common axis, with horizontal references such as a published figure.
#[derive(Clone, Debug, Default)]
pub struct LineChart {
    title: String,
    x: String,
    y: String,
    from_zero: bool,
    series: Vec<Series>,
    references: Vec<(String, f64)>,
}

impl LineChart {
    /// A chart with what its axes mean.
    pub fn new(title: &str, x: &str, y: &str) -> Self {
        Self { title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), ..Self::default() }
    }

    /// The vertical axis begins at 0.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    /// One more line.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// A horizontal line with a label.
    #[must_use]
    pub fn reference(mut self, label: &str, y: f64) -> Self {
        self.references.push((label.to_owned(), y));
        self
    }

    /// The picture.
    ///
    /// # Errors
    /// [`ReportError::NotFinite`].
    pub fn draw(&self) -> Result<String, ReportError> {
        for series in &self.series {
            check_finite(&series.name, series.points.iter().flat_map(|&(x, y)| [x, y]))?;
        }
        for (label, y) in &self.references {
            check_finite(label, [*y])?;
        }
        let mut picture = Picture::new(WIDTH, HEIGHT);
        let colours = colours(self.series.iter().map(|series| series.name.as_str()));
        let colour = |index: usize| colours[index];
        let names: Vec<(&str, &str)> =
            self.series.iter().enumerate().map(|(index, s)| (s.name.as_str(), colour(index))).collect();
        let top = picture.legend(&names, 64.0, 16.0);
        let (left, right, bottom) = (64.0, WIDTH - 12.0, HEIGHT - 40.0);
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let x = Axis::new(points().map(|p| p.0), false, 8.0, (left, right));
        let heights = points().map(|p| p.1).chain(self.references.iter().map(|(_, y)| *y));
        let y = Axis::new(heights, self.from_zero, 5.0, (bottom, top));
        for (value, text) in x.ticks() {
            picture.line((x.place(value), bottom), (x.place(value), bottom + 4.0), "axis");
            picture.text(x.place(value), bottom + 17.0, Anchor::Middle, &text);
        }
        for (value, text) in y.ticks() {
            picture.line((left, y.place(value)), (right, y.place(value)), "grid");
            picture.text(left - 6.0, y.place(value) + 4.0, Anchor::End, &text);
        }
        picture.line((left, bottom), (right, bottom), "axis");
        picture.line((left, bottom), (left, top), "axis");
        picture.text(left.midpoint(right), HEIGHT - 6.0, Anchor::Middle, &self.x);
        picture.upright_text(14.0, top.midpoint(bottom), &self.y);
        for (label, value) in &self.references {
            picture.line((left, y.place(*value)), (right, y.place(*value)), "reference");
            picture.text(right - 4.0, y.place(*value) - 5.0, Anchor::End, label);
        }
        for (index, series) in self.series.iter().enumerate() {
            let stride = series.points.len().div_ceil(POINTS).max(1);
            let last = series.points.len().saturating_sub(1);
            let shown = series.points.iter().enumerate().filter(|(i, _)| i % stride == 0 || *i == last);
            let placed: Vec<(f64, f64)> = shown.map(|(_, &(px, py))| (x.place(px), y.place(py))).collect();
            picture.polyline(&placed, colour(index), &series.name);
            if series.points.len() <= DOTS {
                for &(px, py) in &series.points {
                    let tip = format!("{}: {} at {}", series.name, short(py), short(px));
                    picture.dot((x.place(px), y.place(py)), colour(index), &tip);
                }
            }
        }
        Ok(picture.finish(&self.title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(svg: &str) -> roxmltree::Document<'_> {
        roxmltree::Document::parse(svg).unwrap()
    }

    #[test]
    fn a_small_chart_is_drawn_as_recorded() {
        let chart = LineChart::new("Similarity", "distance", "share")
            .series(Series::counted("here & now", [0.92, 0.86, 0.81]))
            .reference("paper: 0.90", 0.9);
        insta::assert_snapshot!(chart.draw().unwrap());
    }

    #[test]
    fn empty_single_constant_and_long_series_are_drawn() {
        for values in [vec![], vec![3.0], vec![2.0; 50], (0..20_000).map(f64::from).collect()] {
            let svg = LineChart::new("t", "x", "y").series(Series::counted("s", values)).draw().unwrap();
            assert!(parse(&svg).descendants().any(|node| node.has_tag_name("polyline")));
            assert!(svg.len() < 60_000 && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn numbers_that_have_no_place_are_refused_by_name() {
        let chart = LineChart::new("t", "x", "y").series(Series::counted("bad", [1.0, f64::NAN]));
        assert!(chart.draw().unwrap_err().to_string().contains("'bad' is NaN"));
        assert!(LineChart::new("t", "x", "y").reference("r", f64::INFINITY).draw().is_err());
    }
}
