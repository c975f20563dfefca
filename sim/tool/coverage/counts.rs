//! Coverage counts of models, read from the files of `ndp_sim::ffi` and added up.

use crate::prelude::*;
use anyhow::{bail, ensure};
use std::collections::{BTreeMap, HashMap};
use std::fs::read_to_string;

/// A coverage point. Designs of different configurations share points: file and name identify a signal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A branch, identified by the signal that its first line sets.
    Line(String),
    Bit(String, u32),
}

#[derive(Debug)]
pub struct Point {
    /// For each direction of change, if Verilator distinguishes directions: whether it occurred in any instance of
    /// any design.
    seen: BTreeMap<String, bool>,
    /// Module and line in the Verilog.
    pub verilog: String,
    /// File and line of the description.
    pub place: String,
}

impl Point {
    /// Whether it ran, or changed in all directions.
    pub fn hit(&self) -> bool {
        self.seen.values().all(|seen| *seen)
    }
}

pub type Points = BTreeMap<String, BTreeMap<What, Point>>;

pub fn read(folder: &Path, points: &mut Points) -> Result<()> {
    let named = || format!("cannot read {}", folder.display());
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(named)? {
        files.push(entry.with_context(named)?.path());
    }
    files.sort();
    let text = |path: &Path| read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let kind = |path: &Path, wanted: &str| path.extension().is_some_and(|kind| kind == wanted);
    for signals in files.iter().filter(|path| kind(path, "signals")) {
        let stem = signals.with_extension("");
        let verilog = text(&stem.with_extension("v"))?;
        let design = Design::new(&text(signals)?, &verilog)
            .with_context(|| format!("{} is not a list of signals", signals.display()))?;
        let prefix = format!("{}.", stem.display());
        let own = |path: &&PathBuf| kind(path, "dat") && path.to_string_lossy().starts_with(&prefix);
        for dat in files.iter().filter(own) {
            let counts = text(dat)?;
            let malformed = || format!("{} is not a coverage file of Verilator", dat.display());
            ensure!(counts.starts_with("# SystemC::Coverage-3"), malformed());
            for line in counts.lines().skip(1) {
                design.count(line, points).with_context(malformed)?;
            }
        }
    }
    Ok(())
}

struct Signal {
    block: String,
    place: String,
    /// Whether each bit is constant, lowest first; empty for a memory.
    constant: Vec<bool>,
}

struct Design<'a> {
    signals: HashMap<(String, String), Signal>,
    lines: Vec<&'a str>,
}

impl<'a> Design<'a> {
    fn new(signals: &str, verilog: &'a str) -> Result<Self> {
        let mut known = HashMap::new();
        for line in signals.lines() {
            let [module, name, place, bits] = line.split('\t').collect::<Vec<_>>()[..] else {
                bail!("`{line}` does not have four parts");
            };
            let file = place.rsplit('/').next().unwrap_or_default();
            let block = file.split('.').next().unwrap_or_default().to_owned();
            let constant = bits.bytes().map(|bit| bit == b'c').collect();
            let signal = Signal { block, place: place.to_owned(), constant };
            known.insert((module.to_owned(), name.to_owned()), signal);
        }
        Ok(Self { signals: known, lines: verilog.lines().collect() })
    }

    /// Adds a line `C '<key><value>...' <count>`, where keys begin with byte 1 and values with byte 2.
    fn count(&self, line: &str, points: &mut Points) -> Result<()> {
        let counted = line.strip_prefix("C '").and_then(|line| line.rsplit_once("' "));
        let (keys, count) = counted.with_context(|| format!("`{line}` is not a count"))?;
        let keys: HashMap<&str, &str> =
            keys.split('\u{1}').filter_map(|pair| pair.split_once('\u{2}')).collect();
        let key = |name| keys.get(name).copied().with_context(|| format!("`{line}` has no `{name}`"));
        let (page, comment, at) = (key("page")?, key("o")?, key("l")?);
        let seen = count != "0";
        let at: usize = at.parse().with_context(|| format!("`{at}` is not a line number"))?;
        let (kind, module) = page.split_once('/').with_context(|| format!("`{page}` names no module"))?;
        let found = match kind {
            "v_toggle" => self.bit(module, comment),
            // Newer versions also count the sides of conditional expressions.
            "v_line" | "v_branch" if !comment.starts_with("cond") => self.line(module, comment, at),
            _ => None,
        };
        let Some((signal, what, direction)) = found else { return Ok(()) };
        let of_block = points.entry(signal.block.clone()).or_default();
        let point = of_block.entry(what).or_insert_with(|| Point {
            seen: BTreeMap::new(),
            verilog: format!("{module}:{at}"),
            place: signal.place.clone(),
        });
        *point.seen.entry(direction.to_owned()).or_default() |= seen;
        Ok(())
    }

    fn signal(&self, module: &str, name: &str) -> Option<&Signal> {
        self.signals.get(&(module.to_owned(), name.to_owned()))
    }

    /// Parses `name` or `name[bit]`, optionally with `:0->1`. `None` for memories, constants, and wires that only the
    /// Verilog has.
    fn bit<'b>(&self, module: &str, comment: &'b str) -> Option<(&Signal, What, &'b str)> {
        let (bit, direction) = comment.split_once(':').unwrap_or((comment, ""));
        let (name, number) = match bit.split_once('[') {
            Some((name, number)) => (name, number.strip_suffix(']')?.parse().ok()?),
            None => (bit, 0),
        };
        let signal = self.signal(module, name)?;
        let changes = signal.constant.get(number as usize).is_some_and(|constant| !constant);
        changes.then(|| (signal, What::Bit(name.to_owned(), number), direction))
    }

    /// The branch that begins in a line, identified by the first signal that is set after it.
    fn line(&self, module: &str, branch: &str, at: usize) -> Option<(&Signal, What, &'static str)> {
        let lines = self.lines.get(at.checked_sub(1)?..)?.iter();
        let (target, _) =
            lines.take_while(|line| **line != "endmodule").find_map(|l| l.split_once(" <= "))?;
        let target = without_condition(target.trim());
        let signal = self.signal(module, target.split('[').next()?)?;
        Some((signal, What::Line(format!("{branch} {target}")), ""))
    }
}

/// Text after `if (...)`.
fn without_condition(statement: &str) -> &str {
    let Some(rest) = statement.strip_prefix("if (") else { return statement };
    let mut open = 1;
    for (at, c) in rest.char_indices() {
        open += i32::from(c == '(') - i32::from(c == ')');
        if open == 0 {
            return rest[at + 1..].trim();
        }
    }
    statement
}
