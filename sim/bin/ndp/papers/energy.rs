//! Rate and energy of the systems that figures compare: as CSV, as Markdown.

use super::Outcome;
use super::rows::field;
use ndp_report::significant as number;
use ndp_systems::figures::{BarRow, TokenCost};
use std::fmt::Write;

const NOTE: &str = "Tokens a second and joules of a token, its share of the prompt included, with stated parameters alone and with the paper's \
    set of assumptions. In brackets what the ranges of the energy constants allow. No paper states these energies, so they are in no count of what agrees.";

const HEAD: [&str; 8] = [
    "figure",
    "system",
    "model",
    "in, out, batch",
    "tokens/s, stated",
    "J/token, stated",
    "tokens/s, fitted",
    "J/token, fitted",
];

/// The columns of [`HEAD`].
fn cells(bar: &BarRow) -> Vec<String> {
    let BarRow { figure, system, model, prompt, output, batch, stated, fitted, .. } = bar;
    let cost = |cost: &TokenCost| [number(cost.tokens_per_second), cost.joules_per_token.to_string()];
    let names = [(*figure).to_owned(), system.clone(), model.clone(), format!("{prompt}, {output}, {batch}")];
    [&names[..], &cost(stated), &cost(fitted)].concat()
}

pub fn csv(bars: &[BarRow]) -> String {
    let mut text = "paper,figure,system,model,prompt,output,batch".to_owned();
    for set in ["stated", "fitted"] {
        let _ = write!(text, ",{set} tokens/s,{set} J/token,{set} J/token low,{set} J/token high");
    }
    text.push('\n');
    for bar in bars {
        let BarRow { paper_name, figure, system, model, prompt, output, batch, stated, fitted } = bar;
        let names = [paper_name, figure, &system[..], model].map(field);
        let sizes = [prompt, output, batch].map(u32::to_string);
        let numbers = [stated, fitted].into_iter().flat_map(|cost| {
            let [value, low, high] = cost.joules_per_token.in_joules();
            [cost.tokens_per_second, value, low, high].map(number)
        });
        let fields: Vec<String> = names.into_iter().chain(sizes).chain(numbers).collect();
        let _ = writeln!(text, "{}", fields.join(","));
    }
    text
}

/// Bars as a Markdown table for each paper.
pub fn markdown(outcome: &Outcome) -> String {
    let mut text = format!(
        "# Energy of a token\n\nWritten by `ndp figures`; docs/papers.md says how times and energies are computed. {NOTE}\n"
    );
    for paper in outcome.by_paper().into_keys() {
        let bars = outcome.bars_of(paper);
        if bars.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n## {paper}\n\n| {} |", HEAD.join(" | "));
        text.push_str("| --- | --- | --- | --- | ---: | ---: | ---: | ---: |\n");
        for bar in bars {
            let _ = writeln!(text, "| {} |", cells(bar).join(" | "));
        }
    }
    text
}
