//! Lines over a common axis.

use crate::axis::{Axis, short};
use crate::svg::{Anchor, LETTER, Picture, colours};
use crate::{ReportError, check_finite};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
/// Dots with tooltips of a series.
const DOTS: usize = 64;
/// Drawn points of a series; longer ones are thinned.
const POINTS: usize = 1440;

/// Points in the order in which they are joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A separate point.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    pub at: (f64, f64),
    /// Tooltip.
    pub tip: String,
    /// Target of a click.
    pub link: Option<String>,
}

/// Lines over a common axis, with horizontal references such as published figures.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct LineChart {
    title: String,
    x: String,
    y: String,
    from_zero: bool,
    series: Vec<Series>,
    dots: Vec<(String, Vec<Dot>)>,
    references: Vec<(String, f64)>,
}

impl LineChart {
    pub fn new(title: &str, x: &str, y: &str) -> Self {
        Self { title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), ..Self::default() }
    }

    /// The vertical axis begins at 0.
    pub fn from_zero(mut self) -> Self {
        self.from_zero = true;
        self
    }

    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds points that are not joined.
    pub fn dots(mut self, name: &str, dots: Vec<Dot>) -> Self {
        self.dots.push((name.to_owned(), dots));
        self
    }

    pub fn reference(mut self, label: &str, y: f64) -> Self {
        self.references.push((label.to_owned(), y));
        self
    }

    /// Fails with [`ReportError::NotFinite`].
    pub fn draw(&self) -> Result<String, ReportError> {
        for series in &self.series {
            check_finite(&series.name, series.points.iter().flat_map(|&(x, y)| [x, y]))?;
        }
        for (name, dots) in &self.dots {
            check_finite(name, dots.iter().flat_map(|dot| [dot.at.0, dot.at.1]))?;
        }
        for (label, y) in &self.references {
            check_finite(label, [*y])?;
        }
        let mut picture = Picture::new(WIDTH, HEIGHT);
        let dots = self.dots.iter().map(|(name, _)| name.as_str());
        let names = colours(self.series.iter().map(|series| series.name.as_str()).chain(dots));
        let colour = |index: usize| names[index].1;
        let top = picture.legend(&names, 64.0, 16.0);
        let (right, bottom) = (WIDTH - 32.0, HEIGHT - 40.0);
        let points = || {
            let dots = self.dots.iter().flat_map(|(_, dots)| dots.iter().map(|dot| &dot.at));
            self.series.iter().flat_map(|series| series.points.iter()).chain(dots)
        };
        let heights = points().map(|p| p.1).chain(self.references.iter().map(|(_, y)| *y));
        let y = Axis::new(heights, self.from_zero, 5.0, (bottom, top));
        let widest = y.ticks().iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let left = f64::max(64.0, 34.0 + LETTER * widest as f64);
        let x = Axis::new(points().map(|p| p.0), false, 8.0, (left, right));
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
                    picture.dot((x.place(px), y.place(py)), 2.5, (colour(index), &tip), None);
                }
            }
        }
        for (index, (name, dots)) in self.dots.iter().enumerate() {
            for Dot { at: (px, py), tip, link } in dots {
                let tip = format!("{name}: {} at {}. {tip}", short(*py), short(*px));
                let at = (x.place(*px), y.place(*py));
                picture.dot(at, 4.0, (colour(self.series.len() + index), &tip), link.as_deref());
            }
        }
        Ok(picture.finish(&self.title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(name: &str, values: impl IntoIterator<Item = f64>) -> Series {
        let points = values.into_iter().enumerate().map(|(index, y)| (index as f64 + 1.0, y)).collect();
        Series { name: name.to_owned(), points }
    }

    fn parse(svg: &str) -> roxmltree::Document<'_> {
        roxmltree::Document::parse(svg).unwrap()
    }

    #[test]
    fn a_small_chart_is_drawn_as_recorded() {
        let chart = LineChart::new("Similarity", "distance", "share")
            .series(counted("here & now", [0.92, 0.86, 0.81]))
            .reference("paper: 0.90", 0.9);
        insta::assert_snapshot!(chart.draw().unwrap());
    }

    #[test]
    fn dots_have_a_place_a_tip_and_a_link() {
        let dot =
            |at, link: Option<&str>| Dot { at, tip: "a = 1 & 2".to_owned(), link: link.map(str::to_owned) };
        let dots = vec![dot((1.0, 2.0), Some("a&b.json")), dot((5.0, 9.0), None)];
        let svg = LineChart::new("t", "x", "y").dots("all", dots).draw().unwrap();
        let parsed = parse(&svg);
        let circles: Vec<_> = parsed.descendants().filter(|node| node.has_tag_name("circle")).collect();
        assert_eq!(circles.len(), 2);
        assert_eq!(circles[0].parent_element().unwrap().attribute("href"), Some("a&b.json"));
        assert!(circles[1].parent_element().unwrap().has_tag_name("svg"));
        assert!(svg.contains("all: 9.000 at 5.000. a = 1 &amp; 2"), "{svg}");
        let bad = LineChart::new("t", "x", "y").dots("bad", vec![dot((f64::NAN, 0.0), None)]);
        assert!(bad.draw().unwrap_err().to_string().contains("'bad' is NaN"));
    }

    #[test]
    fn empty_single_constant_and_long_series_are_drawn() {
        for values in [vec![], vec![3.0], vec![2.0; 50], (0..20_000).map(f64::from).collect()] {
            let svg = LineChart::new("t", "x", "y").series(counted("s", values)).draw().unwrap();
            assert!(parse(&svg).descendants().any(|node| node.has_tag_name("polyline")));
            assert!(svg.len() < 60_000 && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn numbers_that_have_no_place_are_refused_by_name() {
        let chart = LineChart::new("t", "x", "y").series(counted("bad", [1.0, f64::NAN]));
        assert!(chart.draw().unwrap_err().to_string().contains("'bad' is NaN"));
        assert!(LineChart::new("t", "x", "y").reference("r", f64::INFINITY).draw().is_err());
    }
}
