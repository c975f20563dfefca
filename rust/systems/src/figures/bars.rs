//! The systems that the papers' figures compare, one bar each, with rate and energy of a token.
//!
//! Papers state few of these rates, and only LibraPIM's energies. So nothing is compared here: the table stands beside
//! the table of the [`Item`](super::Item)s.

use super::quantity::{Case, Evaluation};
use super::{Designs, Paper, Study};
use crate::assumption::Assumptions;
use crate::energy::RunCosts;
use crate::machine::Machine;
use crate::run::Run;
use ndp_energy::{Energy, EnergyConstants};
use ndp_files::Result;
use serde::{Deserialize, Serialize};

/// Cost of a token, with its share of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenCost {
    /// Rate of all sequences together.
    pub tokens_per_second: f64,
    pub joules_per_token: Energy,
}

impl TokenCost {
    /// Cost of a run, with the constants' presets for its system.
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
    /// A policy and its system.
    pub system: String,
    /// With the format of its weights, unless FP16.
    pub model: String,
    /// Tokens of each prompt, or in K and V of each request.
    pub prompt: u32,
    pub output: u32,
    pub batch: u32,
    /// Settings of its case, with `who` computes.
    pub(super) case: Case,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarRow {
    pub paper_name: &'static str,
    pub figure: &'static str,
    pub system: String,
    pub model: String,
    pub prompt: u32,
    pub output: u32,
    pub batch: u32,
    /// With stated parameters only.
    pub stated: TokenCost,
    /// With the paper's set of assumptions.
    pub fitted: TokenCost,
    /// With that set and exact times; `None` if they are not known or not needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<TokenCost>,
}

pub fn bar_row(paper: Paper, bar: Bar, designs: &Designs) -> Result<BarRow> {
    let cost = |study: &Study<'_>| Evaluation::new(paper, study, Some(&bar.case))?.token_cost();
    let [stated, set] = [Assumptions::preset("stated")?, Assumptions::preset(paper.name())?];
    let (stated, fitted) = (cost(&Study::new(&stated, designs))?, cost(&Study::new(&set, designs))?);
    let study = Study::new(&set, designs).exactly();
    let exact = cost(&study).ok().filter(|_| study.has_asked());
    let Bar { figure, system, model, prompt, output, batch, .. } = bar;
    let paper_name = paper.name();
    Ok(BarRow { paper_name, figure, system, model, prompt, output, batch, stated, fitted, exact })
}
