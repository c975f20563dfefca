//! Rows of the table: kept between runs, as CSV, and as Markdown.

use crate::prelude::*;
use ndp_report::{csv_of, significant as number};
use ndp_systems::figures::{BAND, Designs, Item, Paper, Row, Sensitivity, row};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Bound on the size of this program's file.
const MAX_PROGRAM: u64 = 1 << 30;

const MAX_KEPT: u64 = 1 << 20;

/// Results of earlier runs. Each number has a file, named by the number and by the program with all its parameters.
pub struct Kept {
    folder: PathBuf,
    program: u64,
    fresh: bool,
}

fn program() -> Result<u64> {
    let path = std::env::current_exe().context("cannot find this program's file")?;
    let bytes = ndp_files::read_bytes(&path, MAX_PROGRAM)
        .with_context(|| format!("cannot read '{}'", path.display()))?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Ok(hasher.finish())
}

impl Kept {
    /// Opens a folder. With `fresh`, results of earlier runs are ignored.
    pub fn open(out: &Path, fresh: bool) -> Result<Self> {
        let folder = out.join("kept");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder '{}'", folder.display()))?;
        Ok(Self { folder, program: program()?, fresh })
    }

    fn path(&self, name: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (self.program, name).hash(&mut hasher);
        self.folder.join(format!("{:016x}.json", hasher.finish()))
    }

    /// The kept value of a name, from this run or an earlier run of the same program; `None` if it is missing or
    /// damaged.
    pub fn left<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let text = ndp_files::read_text(&self.path(name), MAX_KEPT).ok()?;
        let (value, sum) = text.trim_end().rsplit_once('\n')?;
        if sum == checksum(name, value) { serde_json::from_str(value).ok() } else { None }
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        if self.fresh { None } else { self.left(name) }
    }

    /// Returns the kept value of a name, or computes it now. A damaged file is ignored.
    pub fn value<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        compute: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(value) = self.get(name) {
            return Ok(value);
        }
        let value = compute()?;
        let text = serde_json::to_string(&value)?;
        let text = format!("{text}\n{}\n", checksum(name, &text));
        crate::output::write(&self.path(name), &text)?;
        Ok(value)
    }

    pub fn has_row(&self, paper: Paper, item: &Item) -> bool {
        self.get::<Numbers>(&name(paper, item)).is_some()
    }

    pub fn left_row(&self, paper: Paper, item: &Item) -> Option<Row> {
        Some(Row::new(paper, item, self.left::<Numbers>(&name(paper, item))?))
    }

    pub fn row(&self, paper: Paper, item: &Item, designs: &Designs) -> Result<Row> {
        let numbers: Numbers = self.value(&name(paper, item), || {
            let row = row(paper, item, designs)?;
            Ok((row.stated, row.fitted, row.cause))
        })?;
        Ok(Row::new(paper, item, numbers))
    }
}

/// SHA-256 of a number's name and text, so that a file that somebody has changed is ignored.
fn checksum(name: &str, text: &str) -> String {
    Sha256::digest(format!("{name}\n{text}")).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Computed part of a row: stated, fitted, cause.
type Numbers = (f64, f64, String);

/// A unique name for an item.
fn name(paper: Paper, item: &Item) -> String {
    format!("{} {} {}", paper.name(), item.figure, item.item)
}

pub fn csv(rows: &[&Row]) -> Result<String> {
    let head = ["figure", "item", "unit", "paper", "stated", "fitted", "ratio", "cause"].map(str::to_owned);
    let record = |row: &&Row| {
        let names = [row.figure, row.item, row.unit].map(str::to_owned);
        let numbers = [row.paper, row.stated, row.fitted, row.ratio].map(number);
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
    text.push_str("| figure | what | unit | paper | stated | fitted | ratio | cause |\n");
    text.push_str("| --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n");
    for row in rows {
        let [paper, stated, fitted, ratio] = [row.paper, row.stated, row.fitted, row.ratio].map(number);
        let Row { figure, item, unit, cause, .. } = row;
        let _ = writeln!(
            text,
            "| {figure} | {item} | {unit} | {paper} | {stated} | {fitted} | {ratio} | {cause} |"
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
