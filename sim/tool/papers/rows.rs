//! Rows of the table: kept between runs, as CSV, and as Markdown.

use crate::kept::Kept;
use crate::prelude::*;
use ndp_report::{csv_of, significant as number};
use ndp_systems::figures::{BAND, Designs, Item, Numbers, Paper, Row, Sensitivity, row};
use std::fmt::Write;

/// Rows among the kept results.
impl Kept {
    pub fn has_row(&self, paper: Paper, item: &Item, is_exact: bool) -> bool {
        self.get::<Numbers>(&name(paper, item, is_exact)).is_some()
    }

    /// A row of an earlier run, if possible of the same kind.
    pub fn left_row(&self, paper: Paper, item: &Item, is_exact: bool) -> Option<Row> {
        let of = |is_exact| self.left::<Numbers>(&name(paper, item, is_exact));
        Some(Row::new(paper, item, of(is_exact).or_else(|| of(!is_exact))?))
    }

    pub fn row(&self, paper: Paper, item: &Item, designs: &Designs, is_exact: bool) -> Result<Row> {
        let name = name(paper, item, is_exact);
        let numbers = self.value(&name, || Ok(row(paper, item, designs)?.numbers()))?;
        Ok(Row::new(paper, item, numbers))
    }
}

/// A unique name for an item, with exact times or by the formulas.
fn name(paper: Paper, item: &Item, is_exact: bool) -> String {
    let by = if is_exact { "exact" } else { "formula" };
    format!("{} {} {} {by}", paper.name(), item.figure, item.item)
}

pub fn csv(rows: &[&Row]) -> Result<String> {
    let head =
        ["figure", "item", "unit", "paper", "stated", "fitted", "exact", "ratio", "cause"].map(str::to_owned);
    let record = |row: &&Row| {
        let names = [row.figure, row.item, row.unit].map(str::to_owned);
        let numbers = [row.paper, row.stated, row.fitted].map(number).into_iter();
        let numbers = numbers.chain([row.exact.map(number).unwrap_or_default(), number(row.ratio)]);
        names.into_iter().chain(numbers).chain([row.cause.clone()]).collect()
    };
    Ok(csv_of([head.to_vec()].into_iter().chain(rows.iter().map(record)))?)
}

pub fn agreeing(rows: &[&Row]) -> String {
    let count = rows.iter().filter(|row| row.agrees()).count();
    let computed = rows.iter().filter(|row| row.computed()).count();
    let text = format!("{count} of {computed} within {:.0} %", 100.0 * BAND);
    if computed == rows.len() { text } else { format!("{text}, {} not computed", rows.len() - computed) }
}

/// Rule and room of LibraPIM's figures.
const LIBRAPIM: &str = "LibraPIM follows algorithm 1 of the paper (`ndp offload --rule paper`). Weights, keys and values of all its \
    points exceed the memory's 17.2 GB (`--beyond-capacity`); the paper's simulator ignores capacity.\n\n";

pub fn markdown(name: &str, rows: &[&Row], sensitivity: &[Sensitivity]) -> String {
    let mut text = format!(
        "# Numbers of {name}\n\nWritten by `ndp figures --paper {name}`; docs/papers.md says how they are computed. {}.\n\n",
        agreeing(rows)
    );
    if name == Paper::LibraPim.name() {
        text.push_str(LIBRAPIM);
    }
    text.push_str("| figure | what | unit | paper | stated | fitted | exact | ratio | cause |\n");
    text.push_str("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |\n");
    for row in rows {
        let [paper, stated, fitted, ratio] = [row.paper, row.stated, row.fitted, row.ratio].map(number);
        let exact = row.exact.map(number).unwrap_or_default();
        let Row { figure, item, unit, cause, .. } = row;
        let _ = writeln!(
            text,
            "| {figure} | {item} | {unit} | {paper} | {stated} | {fitted} | {exact} | {ratio} | {cause} |"
        );
    }
    if name == Paper::Hermes.name() && !sensitivity.is_empty() {
        text.push_str("\nFig. 13 under other assumptions; the paper reports 1.63, 1.33 and 1.29.\n\n| assumption | value | random to partition | partition to adjustment | adjustment to Hermes | most loaded DIMM |\n");
        text.push_str("| --- | ---: | ---: | ---: | ---: | ---: |\n");
        for one in sensitivity {
            let value = one.value.map(number).unwrap_or_default();
            let [a, b, c] = one.steps.map(number);
            let _ = writeln!(
                text,
                "| {} | {value} | {a} | {b} | {c} | {} |",
                one.assumption,
                number(one.imbalance)
            );
        }
    }
    text
}
