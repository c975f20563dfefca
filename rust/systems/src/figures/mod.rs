//! Every number that a paper's evaluation states, our number, and the cause of a difference.
//!
//! An [`Item`] is one stated number with our computation, under the set `stated` and under the paper's set, which has
//! one value for all figures. A difference above [`BAND`] gets a cause: the single assumption whose change removes it,
//! or two numbers of the paper that exclude each other.

mod bars;
mod formula;
pub mod librapim;
mod measured;
mod quantity;
mod study;
mod table;

pub use bars::{Bar, BarRow, TokenCost, bar_row};
pub use study::{Designs, Exact, Study, TraceSetting};

use crate::assumption::{Assumptions, Key};
use formula::Formula;
use ndp_files::{Result, refusal};
use quantity::Evaluation;
use serde::{Deserialize, Serialize};
use table::{Kept, kept};

/// Largest relative difference without a cause.
pub const BAND: f64 = 0.15;

ndp_config::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[derive(clap::ValueEnum)]
    #[serde(rename_all = "lowercase")]
    pub enum Paper {
        /// Hermes (HPCA 2025).
        Hermes = "hermes",
        /// PowerInfer (SOSP 2024).
        #[value(name = "powerinfer")]
        PowerInfer = "powerinfer",
        /// LLM in a flash (arXiv 2312.11514, version 1).
        Flash = "flash",
        #[value(name = "librapim")]
        LibraPim = "librapim",
    }
}

impl Paper {
    /// Our value of an item; an error without a formula, or of its quantities.
    pub fn value(self, item: &Item, study: &Study<'_>) -> Result<f64> {
        let formula = item.ours.as_ref().ok_or_else(|| refusal!("nothing here computes it"))?;
        Evaluation::new(self, study, None)?.value(formula)
    }
}

/// Kind of a paper's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    #[default]
    Exact,
    /// Upper bound.
    AtMost,
    /// Lower bound.
    AtLeast,
}

impl Bound {
    /// Whether ours over the paper's is within [`BAND`].
    fn agrees(self, ratio: f64) -> bool {
        let slack = BAND + 1e-9;
        (self == Self::AtMost || ratio >= 1.0 - slack) && (self == Self::AtLeast || ratio <= 1.0 + slack)
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    #[serde(skip)]
    pub figure: Kept,
    #[serde(deserialize_with = "kept")]
    pub item: Kept,
    #[serde(deserialize_with = "kept")]
    pub unit: Kept,
    pub paper: f64,
    #[serde(default)]
    pub bound: Bound,
    /// `None` if nothing computes it.
    ours: Option<Formula>,
    /// Two numbers of the paper that exclude each other, if that is the cause.
    contradiction: Option<String>,
    /// Known cause of a difference, or reason for no value; if set, no assumption is searched.
    known: Option<String>,
    /// Whether it needs a slow trace: then only the table's `tried` values are tried for a cause, otherwise a fine grid
    /// of all assumptions.
    #[serde(default)]
    pub traced: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub paper_name: &'static str,
    pub figure: &'static str,
    pub item: &'static str,
    pub unit: &'static str,
    pub paper: f64,
    pub bound: Bound,
    /// With stated parameters; NaN (`null` in JSON) if nothing computes it.
    pub stated: f64,
    /// With the paper's set of assumptions, by the formulas, or NaN.
    pub fitted: f64,
    /// With the paper's set and exact times; `None` if they are not known or not needed.
    pub exact: Option<f64>,
    /// Exact, else fitted, over the paper's, or NaN.
    pub ratio: f64,
    /// Cause of a difference above [`BAND`] or of a missing value; empty if it agrees.
    pub cause: String,
}

/// The computed part of a [`Row`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Numbers {
    stated: f64,
    fitted: f64,
    exact: Option<f64>,
    cause: String,
}

impl Row {
    pub fn new(paper: Paper, item: &Item, numbers: Numbers) -> Self {
        let Numbers { stated, fitted, exact, cause } = numbers;
        let Item { figure, item, unit, paper: number, bound, .. } = *item;
        Self {
            paper_name: paper.name(),
            figure,
            item,
            unit,
            paper: number,
            bound,
            stated,
            fitted,
            exact,
            ratio: ratio(exact.unwrap_or(fitted), number),
            cause,
        }
    }

    /// The inverse of [`Row::new`].
    pub fn numbers(&self) -> Numbers {
        let Self { stated, fitted, exact, ref cause, .. } = *self;
        Numbers { stated, fitted, exact, cause: cause.clone() }
    }

    /// Whether it is within [`BAND`].
    pub fn agrees(&self) -> bool {
        self.bound.agrees(self.ratio)
    }

    /// Whether we have a number.
    pub fn computed(&self) -> bool {
        !self.fitted.is_nan()
    }
}

/// 0 over 0 is 1.
fn ratio(ours: f64, paper: f64) -> f64 {
    if ours == paper { 1.0 } else { ours / paper }
}

pub fn row(paper: Paper, item: &Item, designs: &Designs) -> Result<Row> {
    let sets = [Assumptions::preset("stated")?, Assumptions::preset(paper.name())?];
    let value = |set: &Assumptions| paper.value(item, &Study::new(set, designs));
    if item.ours.is_none() {
        let cause = format!("Not computed: {}.", item.known.as_deref().unwrap_or("no reason is given"));
        return Ok(Row::new(paper, item, Numbers { stated: f64::NAN, fitted: f64::NAN, exact: None, cause }));
    }
    let (stated, fitted) = (value(&sets[0])?, value(&sets[1])?);
    let study = Study::new(&sets[1], designs).exactly();
    // The machine refuses some designs that the formulas have.
    let exact = designs.is_exact().then(|| paper.value(item, &study).ok()).flatten();
    let exact = exact.filter(|_| study.has_asked());
    let agrees = |ours| item.bound.agrees(ratio(ours, item.paper));
    let cause = if agrees(exact.unwrap_or(fitted)) {
        String::new()
    } else {
        let found = match &item.known {
            Some(why) => format!("{why}."),
            None if agrees(fitted) => format!("By the formulas it is {} and agrees.", short(fitted)),
            None => {
                let found = remedy(paper, item, &sets[1], designs)?.in_words(&sets[1]);
                let (first, rest) = found.split_at(1);
                match exact {
                    Some(_) => format!("By the formulas: {}{rest}", first.to_lowercase()),
                    None => found,
                }
            }
        };
        match &item.contradiction {
            Some(why) => format!("{found} The paper contradicts itself: {why}."),
            None => found,
        }
    };
    Ok(Row::new(paper, item, Numbers { stated, fitted, exact, cause }))
}

/// Points between the limits of an assumption.
const POINTS: usize = 24;

/// Values of a key between its limits, in equal ratios if the lower limit is positive, else in equal steps.
fn grid(key: Key) -> Vec<f64> {
    let [low, high] = key.range();
    let point = |step: usize| {
        let part = step as f64 / POINTS as f64;
        if low > 0.0 { low * (high / low).powf(part) } else { low + (high - low) * part }
    };
    if key.is_switch() { vec![low, high] } else { (0..=POINTS).map(point).collect() }
}

/// Distance of two values, as a part of the key's range.
fn distance(key: Key, a: f64, b: f64) -> f64 {
    let [low, high] = key.range();
    if low > 0.0 { (a / b).ln().abs() / (high / low).ln() } else { (a - b).abs() / (high - low) }
}

/// Bisection steps between two points.
const HALVINGS: usize = 30;

/// Number between `low` and `high` at which the value of `is` changes.
fn crossing(mut low: f64, mut high: f64, at_low: bool, is: impl Fn(f64) -> Option<bool>) -> Option<f64> {
    for _ in 0..HALVINGS {
        let middle = low.midpoint(high);
        if is(middle)? == at_low { low = middle } else { high = middle }
    }
    Some(low.midpoint(high))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Remedy {
    /// The item agrees at this value of the assumption.
    Agrees(Key, f64),
    /// Nearest value of the assumption, and a result within [`BAND`].
    Near(Key, f64, f64),
    /// No assumption suffices: the nearest one and its result.
    Far(Key, f64, f64),
    None,
}

impl Remedy {
    fn in_words(self, set: &Assumptions) -> String {
        let change = |key: Key, value: f64| {
            let unit = if key.unit().is_empty() { String::new() } else { format!(" {}", key.unit()) };
            format!("{} = {}{unit} in place of {}", key.name(), short(value), short(set.get(key)))
        };
        match self {
            Self::Agrees(key, value) => format!("Agrees with {}.", change(key, value)),
            Self::Near(key, value, found) => format!("With {} it is {}.", change(key, value), short(found)),
            Self::Far(key, value, found) => format!(
                "No single assumption makes it agree; {} comes nearest, with {}.",
                change(key, value),
                short(found)
            ),
            Self::None => "It depends on no assumption.".to_owned(),
        }
    }
}

/// The assumption with the least change, relative to its range, that makes an item agree.
fn remedy(paper: Paper, item: &Item, set: &Assumptions, designs: &Designs) -> Result<Remedy> {
    let all: Vec<(Key, Vec<f64>)> = match item.traced {
        true => paper.table().tried.clone(),
        false => Key::ALL.into_iter().map(|key| (key, grid(key))).collect(),
    };
    let ours = |key: Key, value: f64| paper.value(item, &Study::new(&set.with(key, value), designs));
    let mut best: Option<(f64, Key, f64)> = None;
    let mut nearest: Option<(f64, Key, f64, f64)> = None;
    for (key, mut values) in all {
        let now = set.get(key);
        let current = ours(key, now)?;
        let matters = |value: &f64| ours(key, *value).is_ok_and(|found| found != current);
        if !item.traced
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
            // Slow numbers are computed at one point between two values, where the item has to agree.
            let value = if item.traced {
                Some(a + (b - a) * below / (below - above))
            } else {
                crossing(a, b, below < 0.0, |value| Some(ours(key, value).ok()? < item.paper))
            };
            let Some(value) = value else { continue };
            let agrees = item.bound.agrees(ratio(ours(key, value)?, item.paper));
            if agrees && best.is_none_or(|(least, ..)| distance(key, value, now) < least) {
                best = Some((distance(key, value, now), key, value));
            }
        }
    }
    Ok(match (best, nearest) {
        (Some((_, key, value)), _) => Remedy::Agrees(key, value),
        (None, Some((_, key, value, found))) if item.bound.agrees(ratio(found, item.paper)) => {
            Remedy::Near(key, value, found)
        }
        (None, Some((_, key, value, found))) => Remedy::Far(key, value, found),
        (None, None) => Remedy::None,
    })
}

/// Gains of Hermes' scheduling steps under one changed assumption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Empty for the set itself.
    pub assumption: String,
    pub value: Option<f64>,
    /// Random to partition, partition to adjustment, adjustment to Hermes (Fig. 13).
    pub steps: [f64; 3],
    /// The most loaded DIMM over the mean, with the offline placement.
    pub imbalance: f64,
}

/// Model of the trace for Fig. 4 and 13.
const TRACED: &str = "relu-llama2-13b";

/// Settings of the study of Fig. 13: the set itself, then each tried value.
pub fn sensitivity_settings() -> Vec<Option<(Key, f64)>> {
    let tried = &Paper::Hermes.table().tried;
    let varied = tried.iter().flat_map(|(key, values)| values.iter().map(|value| Some((*key, *value))));
    std::iter::once(None).chain(varied).collect()
}

/// Traces for items and the study of Fig. 13, each once.
pub fn trace_settings() -> Result<Vec<TraceSetting>> {
    let fitted = Assumptions::preset(Paper::Hermes.name())?;
    let varied = sensitivity_settings().into_iter().map(|setting| match setting {
        Some((key, value)) => fitted.with(key, value),
        None => fitted.clone(),
    });
    let mut settings: Vec<TraceSetting> = Vec::new();
    for set in std::iter::once(Assumptions::preset("stated")?).chain(varied) {
        let setting = TraceSetting::new(&set, TRACED)?;
        if settings.iter().all(|known| known.name() != setting.name()) {
            settings.push(setting);
        }
    }
    Ok(settings)
}

pub fn sensitivity(setting: Option<(Key, f64)>, designs: &Designs) -> Result<Sensitivity> {
    use ndp_hermes::scheduler::Policy::{Adjustment, Hermes, Partition, Random};
    let set = Assumptions::preset(Paper::Hermes.name())?;
    let set = setting.map_or(set.clone(), |(key, value)| set.with(key, value));
    let trace = Study::new(&set, designs).trace(TRACED)?;
    Ok(Sensitivity {
        assumption: setting.map_or("the set", |(key, _)| key.name()).to_owned(),
        value: setting.map(|(_, value)| value),
        steps: [(Random, Partition), (Partition, Adjustment), (Adjustment, Hermes)]
            .map(|(from, to)| trace.ratio(from, to)),
        imbalance: trace.policy(Partition).map_or(f64::NAN, |found| found.imbalance),
    })
}

fn short(value: f64) -> String {
    let digits = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_makes_its_item_agree() {
        std::thread::scope(|scope| {
            let papers = [Paper::PowerInfer, Paper::Flash].map(|paper| scope.spawn(move || agreeing(paper)));
            let agreeing: usize = papers.into_iter().map(|paper| paper.join().unwrap()).sum();
            assert!(agreeing > 15, "{agreeing}");
        });
    }

    fn agreeing(paper: Paper) -> usize {
        let designs = Designs::default();
        let mut agreeing = 0;
        let set = Assumptions::preset(paper.name()).unwrap();
        let ours = |item: &Item, set: &Assumptions| paper.value(item, &Study::new(set, &designs));
        for item in paper.items() {
            let Ok(now) = ours(item, &set) else { continue };
            let agrees = |value: f64| item.bound.agrees(ratio(value, item.paper));
            if agrees(now) {
                continue;
            }
            match remedy(paper, item, &set, &designs).unwrap() {
                Remedy::Agrees(key, value) => {
                    assert!(key.range()[0] <= value && value <= key.range()[1]);
                    let found = ours(item, &set.with(key, value)).unwrap();
                    assert!(agrees(found), "{}: {} {value}: {found}", item.item, key.name());
                    agreeing += 1;
                }
                Remedy::Near(key, value, found) => {
                    assert!(agrees(found) && found == ours(item, &set.with(key, value)).unwrap());
                }
                Remedy::Far(key, value, found) => {
                    assert!(!agrees(found) && found == ours(item, &set.with(key, value)).unwrap());
                }
                Remedy::None => {}
            }
        }
        agreeing
    }

    #[test]
    fn bounds_hold_on_one_side() {
        let agrees = |bound: Bound| [0.5, 0.86, 1.14, 2.0].map(|ratio| bound.agrees(ratio));
        assert_eq!(agrees(Bound::Exact), [false, true, true, false]);
        assert_eq!(agrees(Bound::AtMost), [true, true, true, false]);
        assert_eq!(agrees(Bound::AtLeast), [false, true, true, true]);
        assert!(!Bound::Exact.agrees(f64::NAN));
        assert_eq!((ratio(0.0, 0.0), ratio(3.0, 2.0)), (1.0, 1.5));
    }
}
