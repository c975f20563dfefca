//! Every number that a paper's evaluation states, what follows here, and why it differs.
//!
//! An [`Item`] is one stated number with the computation of ours. It is computed twice: with the set `stated`, and with the set that has
//! one value for all figures of a paper. What differs by more than [`BAND`] gets a cause: the one assumption whose change
//! by itself makes it agree, or two numbers of the paper that exclude each other.

mod hermes;
pub mod librapim;
mod study;

pub use study::{Designs, Study, TraceSetting};

use crate::assumption::{Assumptions, Key};
use crate::error::SystemsError;
use serde::{Deserialize, Serialize};

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
    /// Why it differs, if that is known; no assumption is looked for then.
    pub known: Option<&'static str>,
    /// Values of assumptions that are tried in search of a cause, for a number that takes long; a fine grid of all assumptions for others.
    pub tried: Option<&'static [(Key, &'static [f64])]>,
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
    /// The row of an item, of which the two values and the cause are known.
    pub fn new(paper: Paper, item: &Item, (stated, fitted, cause): (f64, f64, String)) -> Self {
        let Item { figure, item, unit, paper: number, .. } = *item;
        Self {
            paper_name: paper.name(),
            figure,
            item,
            unit,
            paper: number,
            stated,
            fitted,
            ratio: fitted / number,
            cause,
        }
    }

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
        let found = match item.known {
            Some(why) => format!("{why}."),
            None => remedy(item, &sets[1], designs)?,
        };
        match item.contradiction {
            Some(why) => format!("{found} The paper contradicts itself: {why}."),
            None => found,
        }
    };
    Ok(Row::new(paper, item, (stated, fitted, cause)))
}

/// Points between the limits of an assumption at which a crossing is looked for.
const POINTS: usize = 24;

/// Values of a key between its limits: steps of equal ratio where the range has one, else of equal size.
fn grid(key: Key) -> Vec<f64> {
    let [low, high] = key.range();
    let point = |step: usize| {
        let part = step as f64 / POINTS as f64;
        if low > 0.0 { low * (high / low).powf(part) } else { low + (high - low) * part }
    };
    // What is on or off has two values.
    if key.is_switch() { vec![low, high] } else { (0..=POINTS).map(point).collect() }
}

/// How far a value of a key is from another, as a part of its range.
fn distance(key: Key, a: f64, b: f64) -> f64 {
    let [low, high] = key.range();
    if low > 0.0 { (a / b).ln().abs() / (high / low).ln() } else { (a - b).abs() / (high - low) }
}

/// The assumption that has to change least, relative to its range, to make an item agree; in a sentence.
fn remedy(item: &Item, set: &Assumptions, designs: &Designs) -> Result<String, SystemsError> {
    let all: Vec<(Key, Vec<f64>)> = match item.tried {
        Some(tried) => tried.iter().map(|(key, values)| (*key, values.to_vec())).collect(),
        None => Key::ALL.into_iter().map(|key| (key, grid(key))).collect(),
    };
    let ours = |key: Key, value: f64| (item.value)(&Study::new(&set.with(key, value), designs));
    let mut best: Option<(f64, Key, f64)> = None;
    let mut nearest: Option<(f64, Key, f64, f64)> = None;
    for (key, mut values) in all {
        let now = set.get(key);
        let current = ours(key, now)?;
        let matters = |value: &f64| ours(key, *value).is_ok_and(|found| found != current);
        if item.tried.is_none()
            && ![values[0], values[values.len() / 2], values[values.len() - 1]].iter().any(matters)
        {
            continue;
        }
        values.push(now);
        values.sort_by(f64::total_cmp);
        let found: Vec<(f64, f64)> = values
            .into_iter()
            .filter_map(|value| Some((value, ours(key, value).ok()? - item.paper)))
            .collect();
        for &(value, difference) in &found {
            if nearest.is_none_or(|(least, ..)| difference.abs() < least) {
                nearest = Some((difference.abs(), key, value, difference + item.paper));
            }
        }
        for pair in found.windows(2) {
            let [(a, below), (b, above)] = [pair[0], pair[1]];
            if (below < 0.0) == (above < 0.0) || key.is_switch() {
                continue;
            }
            let value = a + (b - a) * below / (below - above);
            // Between two of few values nobody has looked; the item has to agree there.
            let agrees = within(ours(key, value)? / item.paper);
            if agrees && best.is_none_or(|(least, ..)| distance(key, value, now) < least) {
                best = Some((distance(key, value, now), key, value));
            }
        }
    }
    let say = |key: Key, value: f64| {
        let unit = if key.unit().is_empty() { String::new() } else { format!(" {}", key.unit()) };
        format!("{} = {}{unit} in place of {}", key.name(), short(value), short(set.get(key)))
    };
    Ok(match (best, nearest) {
        (Some((_, key, value)), _) => format!("Agrees with {}.", say(key, value)),
        (None, Some((off, key, value, found))) if within(1.0 + off / item.paper) => {
            format!("With {} it is {}.", say(key, value), short(found))
        }
        (None, Some((_, key, value, found))) => format!(
            "No single assumption makes it agree; {} comes nearest, with {}.",
            say(key, value),
            short(found)
        ),
        (None, None) => "It depends on no assumption.".to_owned(),
    })
}

/// What the steps of Hermes' scheduling gain under other assumptions, each by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// The assumption, or nothing for the set itself.
    pub assumption: String,
    /// Its value.
    pub value: Option<f64>,
    /// Random to partition, partition to adjustment, adjustment to Hermes (Fig. 13).
    pub steps: [f64; 3],
    /// The most loaded DIMM over the mean, with the offline placement.
    pub imbalance: f64,
}

/// The settings of the study of Fig. 13: the set itself, then each of [`hermes::TRIED`].
pub fn sensitivity_settings() -> Vec<Option<(Key, f64)>> {
    let varied =
        hermes::TRIED.iter().flat_map(|(key, values)| values.iter().map(|value| Some((*key, *value))));
    std::iter::once(None).chain(varied).collect()
}

/// The traces that items and the study of Fig. 13 need, each once.
///
/// # Errors
/// [`SystemsError::Config`], which presets do not have.
pub fn trace_settings() -> Result<Vec<TraceSetting>, SystemsError> {
    let fitted = Assumptions::preset(Paper::Hermes.name())?;
    let varied = sensitivity_settings().into_iter().map(|setting| match setting {
        Some((key, value)) => fitted.with(key, value),
        None => fitted.clone(),
    });
    let mut settings: Vec<TraceSetting> = Vec::new();
    for set in std::iter::once(Assumptions::preset("stated")?).chain(varied) {
        let setting = TraceSetting::new(&set, hermes::TRACED)?;
        if settings.iter().all(|known| known.name() != setting.name()) {
            settings.push(setting);
        }
    }
    Ok(settings)
}

/// One line of the study of Fig. 13.
///
/// # Errors
/// As [`Study::trace`].
pub fn sensitivity(setting: Option<(Key, f64)>, designs: &Designs) -> Result<Sensitivity, SystemsError> {
    use ndp_scheduler::Policy::{Adjustment, Hermes, Partition, Random};
    let set = Assumptions::preset(Paper::Hermes.name())?;
    let set = setting.map_or(set.clone(), |(key, value)| set.with(key, value));
    let trace = Study::new(&set, designs).trace(hermes::TRACED)?;
    Ok(Sensitivity {
        assumption: setting.map_or("the set", |(key, _)| key.name()).to_owned(),
        value: setting.map(|(_, value)| value),
        steps: [(Random, Partition), (Partition, Adjustment), (Adjustment, Hermes)]
            .map(|(from, to)| trace.ratio(from, to)),
        imbalance: trace.policy(Partition).map_or(f64::NAN, |found| found.imbalance),
    })
}

/// Three significant digits.
fn short(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}
