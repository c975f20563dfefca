//! The papers' tables, `rust/systems/figures/PAPER.toml`: every stated number, and every bar of a figure.

use super::formula::Formula;
use super::quantity::{Case, unknown};
use super::{Bar, Item, Paper};
use crate::assumption::Key;
use ndp_files::Result;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::sync::OnceLock;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Assumptions to try for numbers that need a trace.
    #[serde(default)]
    pub tried: Vec<(Key, Vec<f64>)>,
    /// Settings with all values, and names of other cases. `default` precedes all.
    cases: BTreeMap<String, Vec<String>>,
    /// Shared formulas by name.
    #[serde(default)]
    pub formulas: BTreeMap<String, Formula>,
    /// Shared reasons by name.
    #[serde(default)]
    notes: BTreeMap<String, String>,
    figures: Vec<Figure>,
    #[serde(skip)]
    items: Vec<Item>,
    #[serde(skip)]
    bars: Vec<Bar>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    #[serde(deserialize_with = "kept")]
    figure: Kept,
    items: Vec<Item>,
    #[serde(default)]
    bars: Vec<Bars>,
}

/// Bars that differ in who computes and in settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bars {
    cases: Vec<String>,
    who: Vec<String>,
    /// Text with names of settings in braces.
    #[serde(default = "on_system")]
    system: String,
    #[serde(default = "model")]
    model: String,
}

fn on_system() -> String {
    "{who} on {system}".to_owned()
}

fn model() -> String {
    "{model}".to_owned()
}

/// Leaked text. The alias keeps serde from borrowing it from the file.
pub type Kept = &'static str;

pub fn kept<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Kept, D::Error> {
    Ok(String::deserialize(deserializer)?.leak())
}

impl Table {
    fn read(text: &str) -> Result<Self> {
        let mut table: Self = ndp_config::parse(text)?;
        for Figure { figure, items, bars } in std::mem::take(&mut table.figures) {
            for mut item in items {
                item.figure = figure;
                for reason in [&mut item.contradiction, &mut item.known].into_iter().flatten() {
                    if let Some(note) = table.notes.get(reason) {
                        reason.clone_from(note);
                    }
                }
                table.items.push(item);
            }
            for Bars { cases, who, system, model } in bars {
                for case in table.cases(table.default_case()?, cases.iter().map(String::as_str))? {
                    for who in &who {
                        let case = case.with("who", who);
                        table.bars.push(Bar {
                            figure,
                            system: case.in_words(&system),
                            model: case.in_words(&model),
                            prompt: case.number("prompt")?,
                            output: case.number("output")?,
                            batch: case.number("batch")?,
                            case,
                        });
                    }
                }
            }
        }
        Ok(table)
    }

    /// All combinations of settings and named cases, based on `from`; the last varies fastest.
    pub fn cases<'a>(&self, from: Case, words: impl IntoIterator<Item = &'a str>) -> Result<Vec<Case>> {
        words.into_iter().try_fold(vec![from], |cases, word| {
            let each: Vec<Vec<Case>> = match (word.split_once('='), self.cases.get(word)) {
                (Some((name, values)), _) => {
                    let of = |case: Case| values.split(' ').map(|value| case.with(name, value)).collect();
                    cases.into_iter().map(of).collect()
                }
                (None, Some(words)) => {
                    let of = |case| self.cases(case, words.iter().map(String::as_str));
                    cases.into_iter().map(of).collect::<Result<_, _>>()?
                }
                (None, None) => return Err(unknown("case", word)),
            };
            Ok(each.concat())
        })
    }

    pub fn default_case(&self) -> Result<Case> {
        Ok(self.cases(Case::default(), ["default"])?.swap_remove(0))
    }
}

impl Paper {
    /// Panics if the table, a part of this program, is malformed.
    pub(super) fn table(self) -> &'static Table {
        static ALL: [OnceLock<Table>; 4] = [const { OnceLock::new() }; 4];
        ALL[self as usize].get_or_init(|| {
            let text = match self {
                Self::Hermes => include_str!("../../figures/hermes.toml"),
                Self::PowerInfer => include_str!("../../figures/powerinfer.toml"),
                Self::Flash => include_str!("../../figures/flash.toml"),
                Self::LibraPim => include_str!("../../figures/librapim.toml"),
            };
            Table::read(text).unwrap_or_else(|error| panic!("the table of {}: {error}", self.name()))
        })
    }

    /// In the order of its figures.
    pub fn items(self) -> &'static [Item] {
        &self.table().items
    }

    /// Bars of its figures, each in its first figure. Of grids: the largest batch (Hermes, Fig. 11), the longest texts
    /// (PowerInfer, Fig. 10 to 15) and the point of section 6.3 (LibraPIM).
    pub fn bars(self) -> Vec<Bar> {
        self.table().bars.clone()
    }
}
