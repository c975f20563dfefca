//! Every number that a paper's evaluation states, what follows here, and why it differs.
//!
//! An [`Item`] is one stated number with the computation of ours. It is computed twice: with the set `stated`, and with the set that has
//! one value for all figures of a paper. What differs by more than [`BAND`] gets a cause: the one assumption whose change
//! by itself makes it agree, or two numbers of the paper that exclude each other.

mod hermes;
pub mod librapim;
mod study;

pub use study::{Designs, Study};

use crate::assumption::{Assumptions, Key};
use crate::error::SystemsError;
use serde::Serialize;

/// Share by which ours may differ before it needs a cause.
pub const BAND: f64 = 0.15;

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Hermes (HPCA 2025).
    Hermes,
    /// LibraPIM.
    LibraPim,
}

impl Paper {
    /// All.
    pub const ALL: [Self; 2] = [Self::Hermes, Self::LibraPim];

    /// As on the command line, and the name of its set of assumptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::LibraPim => "librapim",
        }
    }

    /// Its numbers, in the order of its figures.
    pub fn items(self) -> &'static [Item] {
        match self {
            Self::Hermes => hermes::ITEMS,
            Self::LibraPim => librapim::ITEMS,
        }
    }
}

/// One number that a paper states.
#[derive(Clone, Copy)]
pub struct Item {
    /// Figure, table or section.
    pub figure: &'static str,
    /// What it is of.
    pub item: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The paper's number.
    pub paper: f64,
    /// Ours.
    pub value: fn(&Study<'_>) -> Result<f64, SystemsError>,
    /// Two numbers of the paper that exclude each other, if it is that.
    pub contradiction: Option<&'static str>,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The paper.
    pub paper_name: &'static str,
    /// Figure, table or section.
    pub figure: &'static str,
    /// What it is of.
    pub item: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The paper's number.
    pub paper: f64,
    /// What follows from stated parameters alone.
    pub stated: f64,
    /// What follows from the paper's set of assumptions.
    pub fitted: f64,
    /// Ours, fitted, over the paper's.
    pub ratio: f64,
    /// Why it differs by more than [`BAND`]; empty if it does not.
    pub cause: String,
}

impl Row {
    /// Whether it is within [`BAND`].
    pub fn agrees(&self) -> bool {
        within(self.ratio)
    }
}

fn within(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= BAND + 1e-9
}

/// The row of an item.
///
/// # Errors
/// As its computation.
pub fn row(paper: Paper, item: &Item, designs: &Designs) -> Result<Row, SystemsError> {
    let sets = [Assumptions::preset("stated")?, Assumptions::preset(paper.name())?];
    let value = |set: &Assumptions| (item.value)(&Study::new(set, designs));
    let [stated, fitted] = [value(&sets[0])?, value(&sets[1])?];
    let ratio = fitted / item.paper;
    let cause = if within(ratio) {
        String::new()
    } else {
        let found = remedy(item, &sets[1], designs)?;
        match item.contradiction {
            Some(why) => format!("{found} The paper contradicts itself: {why}."),
            None => found,
        }
    };
    let Item { figure, item, unit, paper: number, .. } = *item;
    Ok(Row { paper_name: paper.name(), figure, item, unit, paper: number, stated, fitted, ratio, cause })
}

/// Points between the limits of an assumption at which a crossing is looked for.
const POINTS: usize = 24;

/// The assumption that has to change least, relative to its range, to make an item agree; in a sentence.
fn remedy(item: &Item, set: &Assumptions, designs: &Designs) -> Result<String, SystemsError> {
    let mut best: Option<(f64, Key, f64)> = None;
    let mut nearest: Option<(f64, Key, f64, f64)> = None;
    for key in Key::ALL {
        let [low, high] = key.range();
        let now = set.get(key);
        let ours = |value: f64| (item.value)(&Study::new(&set.with(key, value), designs));
        let current = ours(now)?;
        if [low.midpoint(now), high.midpoint(now)]
            .iter()
            .all(|&value| ours(value).is_ok_and(|found| found == current))
        {
            continue;
        }
        // Steps of equal ratio where the range has one, else of equal size.
        let point = |step: usize| {
            let part = step as f64 / POINTS as f64;
            if low > 0.0 { low * (high / low).powf(part) } else { low + (high - low) * part }
        };
        let distance = |value: f64| {
            if low > 0.0 {
                (value / now).ln().abs() / (high / low).ln()
            } else {
                (value - now).abs() / (high - low)
            }
        };
        let mut values: Vec<f64> = (0..=POINTS).map(point).collect();
        values.push(now);
        values.sort_by(f64::total_cmp);
        let found: Vec<(f64, f64)> =
            values.into_iter().filter_map(|value| Some((value, ours(value).ok()? - item.paper))).collect();
        for &(value, difference) in &found {
            if nearest.is_none_or(|(least, ..)| difference.abs() < least) {
                nearest = Some((difference.abs(), key, value, difference + item.paper));
            }
        }
        for pair in found.windows(2) {
            let [(a, below), (b, above)] = [pair[0], pair[1]];
            if (below < 0.0) == (above < 0.0) || key == Key::SkipPairs {
                continue;
            }
            let value = a + (b - a) * below / (below - above);
            if best.is_none_or(|(least, ..)| distance(value) < least) {
                best = Some((distance(value), key, value));
            }
        }
    }
    let say = |key: Key, value: f64| {
        let unit = if key.unit().is_empty() { String::new() } else { format!(" {}", key.unit()) };
        format!("{} = {}{unit} in place of {}", key.name(), short(value), short(set.get(key)))
    };
    Ok(match (best, nearest) {
        (Some((_, key, value)), _) => format!("Agrees with {}.", say(key, value)),
        (None, Some((_, key, value, found))) => format!(
            "No single assumption makes it agree; {} comes nearest, with {}.",
            say(key, value),
            short(found)
        ),
        (None, None) => "It depends on no assumption.".to_owned(),
    })
}

/// Three significant digits.
fn short(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}
