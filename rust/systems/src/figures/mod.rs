//! Every number that a paper's evaluation states, what follows here, and why it differs.
//!
//! An [`Item`] is one stated number with the computation of ours. It is computed twice: with the set `stated`, and with the set that has
//! one value for all figures of a paper. What differs by more than [`BAND`] gets a cause: the one assumption whose change
//! by itself makes it agree, or two numbers of the paper that exclude each other.

mod flash;
mod hermes;
mod measured;
mod powerinfer;
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
    /// PowerInfer (SOSP 2024).
    PowerInfer,
    /// LLM in a flash (arXiv 2312.11514, version 1).
    Flash,
}

impl Paper {
    /// All.
    pub const ALL: [Self; 3] = [Self::Hermes, Self::PowerInfer, Self::Flash];

    /// As on the command line, and the name of its set of assumptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::PowerInfer => "powerinfer",
            Self::Flash => "flash",
        }
    }

    /// Its numbers, in the order of its figures.
    pub fn items(self) -> &'static [Item] {
        match self {
            Self::Hermes => hermes::ITEMS,
            Self::PowerInfer => powerinfer::ITEMS,
            Self::Flash => flash::ITEMS,
        }
    }
}

/// What the number of a paper is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The number itself.
    Exact,
    /// No more than it.
    AtMost,
    /// No less than it.
    AtLeast,
}

impl Bound {
    /// Whether ours over the paper's is within [`BAND`].
    fn agrees(self, ratio: f64) -> bool {
        let slack = BAND + 1e-9;
        (self == Self::AtMost || ratio >= 1.0 - slack) && (self == Self::AtLeast || ratio <= 1.0 + slack)
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
    /// Whether it is a bound.
    pub bound: Bound,
    /// Ours; [`SystemsError::NotComputed`] says why there is none.
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
    /// Whether it is a bound.
    pub bound: Bound,
    /// What follows from stated parameters alone; not a number (`null` in JSON) if nothing here computes it.
    pub stated: f64,
    /// What follows from the paper's set of assumptions, or not a number.
    pub fitted: f64,
    /// Ours, fitted, over the paper's, or not a number.
    pub ratio: f64,
    /// Why it differs by more than [`BAND`], or is not computed; empty if it agrees.
    pub cause: String,
}

impl Row {
    /// Whether it is within [`BAND`].
    pub fn agrees(&self) -> bool {
        self.bound.agrees(self.ratio) && self.computed()
    }

    /// Whether there is a number of ours.
    pub fn computed(&self) -> bool {
        !self.ratio.is_nan()
    }
}

/// The row of an item.
///
/// # Errors
/// As its computation.
pub fn row(paper: Paper, item: &Item, designs: &Designs) -> Result<Row, SystemsError> {
    let Item { figure, item: what, unit, paper: number, bound, .. } = *item;
    let with = |stated: f64, fitted: f64, ratio: f64, cause: String| Row {
        paper_name: paper.name(),
        figure,
        item: what,
        unit,
        paper: number,
        bound,
        stated,
        fitted,
        ratio,
        cause,
    };
    let sets = [Assumptions::preset("stated")?, Assumptions::preset(paper.name())?];
    let value = |set: &Assumptions| (item.value)(&Study::new(set, designs));
    let fitted = match value(&sets[1]) {
        Err(SystemsError::NotComputed(why)) => {
            return Ok(with(f64::NAN, f64::NAN, f64::NAN, format!("Not computed: {why}.")));
        }
        other => other?,
    };
    let stated = value(&sets[0])?;
    // Nothing agrees with nothing.
    let ratio = if fitted == number { 1.0 } else { fitted / number };
    let cause = if bound.agrees(ratio) {
        String::new()
    } else {
        let found = say(&remedy(item, &sets[1], designs)?, &sets[1]);
        match item.contradiction {
            Some(why) => format!("{found} The paper contradicts itself: {why}."),
            None => found,
        }
    };
    Ok(with(stated, fitted, ratio, cause))
}

/// Points between the limits of an assumption at which a crossing is looked for.
const POINTS: usize = 24;

/// Halvings of the interval between two of them.
const HALVINGS: usize = 30;

/// What would make an item agree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Remedy {
    /// An assumption, and its value.
    Agrees(Key, f64),
    /// The assumption that comes nearest, its value, and what follows from it.
    Nearest(Key, f64, f64),
    /// It depends on none.
    None,
}

/// As a sentence.
fn say(remedy: &Remedy, set: &Assumptions) -> String {
    let change = |key: Key, value: f64| {
        let unit = if key.unit().is_empty() { String::new() } else { format!(" {}", key.unit()) };
        format!("{} = {}{unit} in place of {}", key.name(), short(value), short(set.get(key)))
    };
    match *remedy {
        Remedy::Agrees(key, value) => format!("Agrees with {}.", change(key, value)),
        Remedy::Nearest(key, value, found) => format!(
            "No single assumption makes it agree; {} comes nearest, with {}.",
            change(key, value),
            short(found)
        ),
        Remedy::None => "It depends on no assumption.".to_owned(),
    }
}

/// The assumption that has to change least, relative to its range, to make an item agree.
fn remedy(item: &Item, set: &Assumptions, designs: &Designs) -> Result<Remedy, SystemsError> {
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
            let Some(value) = crossing(a, b, below < 0.0, |value| Some(ours(value).ok()? < item.paper)) else {
                continue;
            };
            if best.is_none_or(|(least, ..)| distance(value) < least) {
                best = Some((distance(value), key, value));
            }
        }
    }
    Ok(match (best, nearest) {
        (Some((_, key, value)), _) => Remedy::Agrees(key, value),
        (None, Some((_, key, value, found))) => Remedy::Nearest(key, value, found),
        (None, None) => Remedy::None,
    })
}

/// The value between `low` and `high` at which `below` changes from what it is at `low`.
fn crossing(mut low: f64, mut high: f64, at_low: bool, below: impl Fn(f64) -> Option<bool>) -> Option<f64> {
    for _ in 0..HALVINGS {
        let middle = low.midpoint(high);
        if below(middle)? == at_low { low = middle } else { high = middle }
    }
    Some(low.midpoint(high))
}

/// Three significant digits.
fn short(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}
