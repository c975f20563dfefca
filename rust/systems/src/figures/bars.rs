//! The systems that the papers' figures compare, one bar each, with the rate and the energy of a token.
//!
//! Papers state few of these rates in numbers, and no energy of a system but LibraPIM's, so nothing here is compared: the table goes beside
//! that of the [`Item`](super::Item)s and counts in none of its sums.

use super::quantity::{Case, Evaluation};
use super::{Designs, Paper, Study};
use crate::assumption::Assumptions;
use crate::energy::RunCosts;
use crate::machine::Machine;
use crate::run::Run;
use ndp_energy::{Energy, EnergyConstants};
use ndp_files::Result;
use serde::Serialize;

/// What a token takes, its share of the prompt included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TokenCost {
    /// Tokens of all sequences in a second.
    pub tokens_per_second: f64,
    pub joules_per_token: Energy,
}

impl TokenCost {
    /// Of a run on a machine, with the presets of the constants that belong to its system.
    ///
    /// # Errors
    /// A file or a preset, which presets do not have.
    pub fn of(machine: &Machine<'_>, run: &Run) -> Result<Self> {
        let design = machine.dimms.design();
        let costs = RunCosts::new(design, &EnergyConstants::load(design, machine.system.name(), [None; 3])?);
        let joules_per_token = costs.per_token(machine, run).into_iter().map(|(_, energy)| energy).sum();
        Ok(Self { tokens_per_second: run.tokens_per_second(), joules_per_token })
    }
}

#[derive(Clone, Debug)]
pub struct Bar {
    pub figure: &'static str,
    /// Who computes: a policy and its system.
    pub system: String,
    /// The model, and the format of its weights if that is not FP16.
    pub model: String,
    /// Tokens of each prompt, or in K and V of each request.
    pub prompt: u32,
    /// Tokens that are generated for each.
    pub output: u32,
    /// Sequences at the same time.
    pub batch: u32,
    /// The settings of its case, `who` computes included.
    pub(super) case: Case,
}

/// A bar with what follows for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarRow {
    pub paper_name: &'static str,
    /// As [`Bar::figure`].
    pub figure: &'static str,
    /// As [`Bar::system`].
    pub system: String,
    /// As [`Bar::model`].
    pub model: String,
    /// As [`Bar::prompt`].
    pub prompt: u32,
    /// As [`Bar::output`].
    pub output: u32,
    /// As [`Bar::batch`].
    pub batch: u32,
    /// With stated parameters alone.
    pub stated: TokenCost,
    /// With the paper's set of assumptions.
    pub fitted: TokenCost,
}

/// The row of a bar.
///
/// # Errors
/// As its computation.
pub fn bar_row(paper: Paper, bar: Bar, designs: &Designs) -> Result<BarRow> {
    let cost = |set: &str| {
        let set = Assumptions::preset(set)?;
        Evaluation::new(paper, &Study::new(&set, designs), Some(&bar.case))?.token_cost()
    };
    let (stated, fitted) = (cost("stated")?, cost(paper.name())?);
    let Bar { figure, system, model, prompt, output, batch, .. } = bar;
    Ok(BarRow { paper_name: paper.name(), figure, system, model, prompt, output, batch, stated, fitted })
}
