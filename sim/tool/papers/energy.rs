//! Rate and energy of the systems that figures compare, as CSV and Markdown.

use super::Outcome;
use crate::prelude::*;
use ndp_report::{csv_of, significant as number};
use ndp_systems::figures::{BarRow, TokenCost};
use std::fmt::Write;

const NOTE: &str = "Tokens per second and joules per token, its share of the prompt included: with stated parameters only, with the paper's \
    set of assumptions, and with that set and exact times. Brackets give the ranges that follow from the energy constants. No paper states these energies, so no count of agreeing \
    numbers includes them.";

const HEAD: &str = "figure | system | model | in, out, batch | tokens/s, stated | J/token, stated | \
    tokens/s, fitted | J/token, fitted | tokens/s, exact | J/token, exact";

/// Cells of the columns of [`HEAD`].
fn cells(bar: &BarRow) -> Vec<String> {
    let BarRow { figure, system, model, prompt, output, batch, stated, fitted, exact, .. } = bar;
    let cost = |cost: &TokenCost| [number(cost.tokens_per_second), cost.joules_per_token.to_string()];
    let names = [(*figure).to_owned(), system.clone(), model.clone(), format!("{prompt}, {output}, {batch}")];
    let exact = exact.as_ref().map_or_else(Default::default, cost);
    [&names[..], &cost(stated), &cost(fitted), &exact].concat()
}

pub fn csv(bars: &[BarRow]) -> Result<String> {
    let names = ["paper", "figure", "system", "model", "prompt", "output", "batch"].map(str::to_owned);
    let of_set = |set| ["tokens/s", "J/token", "J/token low", "J/token high"].map(|of| format!("{set} {of}"));
    let head = names.into_iter().chain(["stated", "fitted", "exact"].into_iter().flat_map(of_set)).collect();
    let record = |bar: &BarRow| {
        let BarRow { paper_name, figure, system, model, prompt, output, batch, stated, fitted, exact } = bar;
        let names = [paper_name, figure, &system[..], model].map(str::to_owned);
        let sizes = [prompt, output, batch].map(u32::to_string);
        let numbers = [Some(stated), Some(fitted), exact.as_ref()].into_iter().flat_map(|cost| {
            let Some(cost) = cost else { return Default::default() };
            let [value, low, high] = cost.joules_per_token.in_joules();
            [cost.tokens_per_second, value, low, high].map(number)
        });
        names.into_iter().chain(sizes).chain(numbers).collect()
    };
    Ok(csv_of([head].into_iter().chain(bars.iter().map(record)))?)
}

/// Bars as one table per paper.
pub fn markdown(outcome: &Outcome) -> String {
    let mut text = format!(
        "# Energy of a token\n\nWritten by `ndp figures`; docs/papers.md says how times and energies are computed. {NOTE}\n"
    );
    for paper in outcome.by_paper().into_keys() {
        let bars = outcome.bars_of(paper);
        if bars.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n## {paper}\n\n| {HEAD} |");
        text.push_str("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        for bar in bars {
            let _ = writeln!(text, "| {} |", cells(bar).join(" | "));
        }
    }
    text
}
