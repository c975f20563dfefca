//! `ndp verify mutate`: which changes of the hardware the project's own tests and proofs find.
//!
//! A mutant is drawn from the description of a block and put into every model that a testbench opens. A testbench or
//! proof of that block has to fail. A solver compares surviving mutants with the original.

mod kill;
mod table;

pub use kill::{Ran, build, run_testbenches};
pub use table::Block;

use crate::prelude::*;
use crate::synth::prover;
use crate::waivers::{Survivor, Waivers, matches};
use anyhow::bail;
use ndp_files::failure;
use ndp_hdl_language::mutate::{Mutant, replaced};
use ndp_hdl_language::{Design, Module};
use ndp_numerics::SplitMix64;
use ndp_report::Unit;
use ndp_synth::formal::{PROOFS, Prover, Verdict as Found};
use ndp_synth::tools::Timeout;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::time::{Duration, Instant};
use table::BLOCKS;

/// Mutate the hardware at random, and count the mutants that the tests and proofs of a block find
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp verify mutate --block multiplier_unit --n 50\n  \
    ndp verify mutate --block fifo --block rank_intake --n 20 --seed 7\n  \
    ndp verify mutate --list\n\n\
    The score is killed / (all - equivalent - waived). A mutant is killed if a testbench of the block fails or does not terminate, or if a proof is \
    refuted. A solver compares each surviving mutant with the original; a mutant that it cannot decide within the time limit counts as a \
    survivor. --dir keeps the verdicts as long as hardware, tests and tools are the same, so an interrupted run resumes. The exit code is 1 \
    if a score is below its bar: 95 % for blocks that compute, 90 % for blocks that control. Run the command in the folder of the sources.")]
pub struct Args {
    /// Block, named by its file in hdl/src/blocks (repeatable) [default: all blocks of --list]
    #[arg(long = "block", value_name = "BLOCK")]
    blocks: Vec<String>,
    /// Number of mutants to draw for each block (1 or more); all of them if the block has fewer
    #[arg(long, default_value_t = 30)]
    n: usize,
    /// Seed that selects the mutants
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Configuration in which to look for mutants [default: that of the block's tests]
    #[arg(long)]
    config: Option<String>,
    /// Folder that keeps the verdicts
    #[arg(long, default_value = "target/mutants")]
    dir: PathBuf,
    /// List of accepted survivors, with reasons
    #[arg(long, value_name = "FILE.toml", default_value = "testbenches/waivers.toml")]
    waivers: PathBuf,
    /// Time limit of one solver run in seconds (2 or more)
    #[arg(long, default_value_t = 60)]
    timeout_s: u64,
    /// Write the table to this file as Markdown
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
    /// List the blocks with their tests and proofs
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fate {
    Killed,
    Refuted,
    Equivalent,
    /// A run distinguishes it from the original, but no test does.
    Survived,
    /// The solver did not finish.
    Undecided,
    /// A waiver allows it to survive, for the reason in the row.
    Waived,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    /// File and line of the description.
    line: String,
    change: String,
    fate: Fate,
    /// The test or proof that found it, or the reason of the waiver.
    by: String,
}

/// A verdict, with everything on which it depends.
#[derive(Serialize, Deserialize)]
struct Kept {
    from: String,
    row: Row,
}

#[derive(Serialize)]
struct Campaign {
    block: Block,
    all: usize,
    score: f64,
    rows: Vec<Row>,
}

impl Campaign {
    fn count(&self, fate: Fate) -> usize {
        self.rows.iter().filter(|row| row.fate == fate).count()
    }

    fn passes(&self) -> bool {
        self.score >= self.block.kind.bar()
    }
}

const PERCENT: Unit = Unit::Real("%", 1);

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let blocks = chosen(&args.blocks)?;
    if args.list {
        let listed = rows! { &blocks => |block|
            ..block;
            "name" "block" {Text} Screen: "block";
            "kind" "kind" {Text} Screen: "arithmetic or control";
            "design" "design" {Text} Screen: "configuration and design in which mutants are looked for";
            "tests" "tests" {Text} Verbose: "filters of testbenches";
            "proofs" "proofs" {Text} Screen: "proofs";
        };
        let answer = format!("{} blocks", blocks.len());
        return Ok(Report::answer("verify mutate", answer).table("blocks", "Blocks", listed));
    }
    ensure!(args.n > 0, "--n = 0 must be at least 1");
    ensure!(args.timeout_s > 1, "--timeout-s = {} must be at least 2", args.timeout_s);
    let files = FileSet::new().input("the list of waivers", &args.waivers);
    args.form.files(files).optional("--out", args.out.as_ref()).check()?;
    let waivers = Waivers::read(&args.waivers)?.mutant;
    let waived: Vec<String> = waivers.iter().map(|waiver| waiver.block.clone()).collect();
    chosen(&waived).with_context(|| format!("waivers of {}", args.waivers.display()))?;
    let out = Asked::create(args.out.as_ref())?;
    let prover = prover(Duration::from_secs(args.timeout_s))?;
    let program = build()?;
    let mut campaigns = Vec::new();
    for block in blocks {
        campaigns.push(
            campaign(block, args, &prover, &program, &waivers)
                .with_context(|| format!("block {}", block.name))?,
        );
    }
    out.write(|| Ok(markdown(&campaigns, args)))?;
    let below: Vec<&str> = campaigns.iter().filter(|one| !one.passes()).map(|one| one.block.name).collect();
    let verdict = match &below[..] {
        [] => {
            format!("the tests and proofs of {} blocks find the mutants that they have to", campaigns.len())
        }
        below => format!(
            "{} of {} blocks are below their bars: {}",
            below.len(),
            campaigns.len(),
            below.join(", ")
        ),
    };
    let missed = campaigns.iter().flat_map(|one| survivors(one).map(move |found| (one.block.name, found)));
    let missed = rows! { missed => |(block, (row, undecided))|
        "block" "block" {Text} Screen: "block" = block;
        "line" "line" {Text} Screen: "file and line of the description" = row.line;
        "change" "change" {Text} Screen: "change in words" = row.change;
        "undecided" "undecided" {Text} Screen: "whether the solver says neither" = !undecided.is_empty();
    };
    let blocks = rows! { &campaigns => |one|
        ..one;
        "block.name" "block" {Text} Screen: "block";
        "mutants" "mutants" {Count} Screen: "mutants that were drawn" = one.rows.len();
        "killed" "tests" {Count} Screen: "mutants that a testbench finds" = one.count(Fate::Killed);
        "refuted" "proofs" {Count} Screen: "mutants that a proof finds" = one.count(Fate::Refuted);
        "equivalent" "equivalent" {Count} Screen: "mutants whose hardware is the same" = one.count(Fate::Equivalent);
        "survived" "survive" {Count} Screen: "mutants that a run tells from the original, and no test sees" = one.count(Fate::Survived);
        "undecided" "undecided" {Count} Screen: "mutants of which the solver says neither" = one.count(Fate::Undecided);
        "waived" "waived" {Count} Screen: "survivors with a reason" = one.count(Fate::Waived);
        "score" "score" {PERCENT} Screen: "share of the mutants that tests and proofs find, without the equivalent and waived ones";
        "bar" "bar" {PERCENT} Screen: "least score" = one.block.kind.bar();
        "all" "of" {Count} Verbose: "mutants that there are";
        "block.kind" "kind" {Text} Verbose: "arithmetic or control";
        "block.design" "design" {Text} Json: "configuration and design in which mutants are looked for";
        "block.tests" "tests" {Text} Json: "filters of testbenches";
        "block.proofs" "proofs" {Text} Json: "proofs";
        "rows" "" {Data} Json: "each mutant: line, change, fate, and the test or proof that finds it";
    };
    Ok(Report::checked("verify mutate", below.is_empty(), verdict).table("blocks", "Blocks", blocks).table(
        "missed",
        "Mutants that nothing finds",
        missed,
    ))
}

/// The blocks with these names, or all blocks if there are no names.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Block>> {
    let find = |name: &String| {
        let known: Vec<&str> = BLOCKS.iter().map(|block| block.name).collect();
        let found = BLOCKS.iter().find(|block| block.name == *name);
        found.ok_or_else(|| {
            let meant = ndp_config::nearest(name, &known);
            refusal!("no tests are known for block '{name}', expected one of {}{meant}", known.join(", "))
        })
    };
    if names.is_empty() { Ok(BLOCKS.iter().collect()) } else { names.iter().map(find).collect() }
}

/// The design from which mutants are drawn.
fn design(block: &Block, config: Option<&str>) -> Result<Design> {
    let (own, top) = block.design;
    let name = config.unwrap_or(own);
    let file = format!("testbenches/configs/{name}.toml");
    Ok(ndp_synth::source::design(if Path::new(&file).is_file() { &file } else { name }, top)?.1)
}

/// All mutants of the block's file, starting with the `n` drawn ones.
fn drawn(design: &Design, block: &Block, n: usize, seed: u64) -> Vec<Mutant> {
    let file = format!("/{}.rs", block.name);
    let mut mutants: Vec<Mutant> =
        Mutant::all(design).into_iter().filter(|mutant| mutant.file().ends_with(&file)).collect();
    let all = mutants.len();
    let mut random = SplitMix64::new(seed);
    for place in 0..n.min(all) {
        let other = place + (random.next_u64() % (all - place) as u64) as usize;
        mutants.swap(place, other);
    }
    mutants
}

/// Modules of a design that contain the mutant, and the change in words.
fn found<'a>(design: &'a Design, mutant: &Mutant) -> (Vec<&'a Rc<Module>>, String) {
    let modules: Vec<_> = design.modules().iter().filter(|module| mutant.is_in(module)).collect();
    let words = modules.first().map(|module| mutant.words(module)).unwrap_or_default();
    (modules, words)
}

fn campaign(
    block: &Block,
    args: &Args,
    prover: &Prover,
    program: &Path,
    waivers: &[Survivor],
) -> Result<Campaign> {
    let design = design(block, args.config.as_deref())?;
    let all = drawn(&design, block, args.n, args.seed);
    ensure!(!all.is_empty(), "{}/{} has no mutants of it", block.design.0, block.design.1);
    let waivers = of_block(waivers, block, || all.iter().map(|mutant| found(&design, mutant).1).collect())?;
    let mutants = &all[..args.n.min(all.len())];
    let folder = args.dir.join(block.name);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut bench = Bench { block, design: &design, prover, program, folder, limit: None };
    let lines: String = mutants.iter().map(|mutant| format!("{mutant}\n")).collect();
    let path = bench.mutants();
    std::fs::write(&path, &lines).with_context(|| format!("cannot write {}", path.display()))?;
    let common = [
        hash(&std::fs::read(program)?),
        hash(design.verilog().as_bytes()),
        format!("{:?} {:?}; {}; {}", block.tests, block.proofs, prover.yosys.version, prover.abc.version),
        format!("{} s", args.timeout_s),
    ];
    let common = common.join("; ");
    let (start, mut rows) = (Instant::now(), Vec::<Row>::new());
    for (index, mutant) in mutants.iter().enumerate() {
        let from = format!("{mutant}; {common}");
        let file = bench.folder.join(format!("{}.json", hash(mutant.to_string().as_bytes())));
        let kept = std::fs::read_to_string(&file).ok();
        let kept =
            kept.and_then(|text| serde_json::from_str::<Kept>(&text).ok()).filter(|kept| kept.from == from);
        let row = match kept {
            Some(kept) => kept.row,
            None => {
                let left =
                    start.elapsed().as_secs_f64() / index.max(1) as f64 * (mutants.len() - index) as f64;
                let left =
                    if index == 0 { String::new() } else { format!(", about {:.0} min left", left / 60.0) };
                note!("{}: mutant {} of {}{left}", block.name, index + 1, mutants.len());
                let row = bench.row(index + 1, mutant)?;
                let kept = serde_json::to_string(&Kept { from, row: row.clone() })?;
                write(&file, &kept)?;
                row
            }
        };
        rows.push(row);
    }
    waive(&mut rows, &waivers)?;
    let count = |wanted: &[Fate]| rows.iter().filter(|row| wanted.contains(&row.fate)).count() as f64;
    let rest = rows.len() as f64 - count(&[Fate::Equivalent, Fate::Waived]);
    let score = if rest > 0.0 { 100.0 * count(&[Fate::Killed, Fate::Refuted]) / rest } else { 100.0 };
    Ok(Campaign { block: *block, all: all.len(), score, rows })
}

/// The waivers of a block that has these mutants.
fn of_block<'a>(
    waivers: &'a [Survivor],
    block: &Block,
    mutants: impl FnOnce() -> Vec<String>,
) -> Result<Vec<&'a Survivor>> {
    let waivers: Vec<_> = waivers.iter().filter(|waiver| waiver.block == block.name).collect();
    let mutants = if waivers.is_empty() { Vec::new() } else { mutants() };
    for Survivor { change, .. } in &waivers {
        let used = mutants.iter().any(|mutant| matches(change, mutant));
        ensure!(used, "the waiver of `{change}` waives nothing: there is no such mutant");
    }
    Ok(waivers)
}

fn waive(rows: &mut [Row], waivers: &[&Survivor]) -> Result<()> {
    for waiver in waivers {
        for row in rows.iter_mut().filter(|row| matches(&waiver.change, &row.change)) {
            let killed = matches!(row.fate, Fate::Killed | Fate::Refuted);
            ensure!(!killed, "the waiver of `{}` waives a mutant that {} finds", waiver.change, row.by);
            if row.fate != Fate::Equivalent {
                (row.fate, row.by) = (Fate::Waived, waiver.reason.clone());
            }
        }
    }
    Ok(())
}

pub fn hash(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

struct Bench<'a> {
    block: &'a Block,
    design: &'a Design,
    prover: &'a Prover,
    /// Program of the testbenches, from [`build`].
    program: &'a Path,
    folder: PathBuf,
    /// Time limit of a run of the tests; known after a run without a mutant.
    limit: Option<Duration>,
}

/// Time limit of the tests without a mutant, which includes building the models.
const LONGEST: Duration = Duration::from_secs(3600);

/// Variables with the file of the mutants and with the line of the active one, for `ndp_sim::ffi`.
const MUTANTS: &str = "NDP_MUTANTS";
const MUTANT: &str = "NDP_MUTANT";

impl Bench<'_> {
    fn mutants(&self) -> PathBuf {
        self.folder.join("mutants.txt")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("tests.log")
    }

    /// Runs the block's tests, with the mutant of that line, until one fails.
    fn run(&self, mutant: usize, limit: Duration) -> Result<Ran> {
        let (mutants, number) = (self.mutants(), mutant.to_string());
        let environment = [(MUTANTS, mutants.as_os_str()), (MUTANT, number.as_ref())];
        run_testbenches(self.program, self.block.tests, &environment, &self.log(), limit)
    }

    fn limit(&mut self) -> Result<Duration> {
        if let Some(limit) = self.limit {
            return Ok(limit);
        }
        // Run twice: the first run builds the models.
        let mut took = Duration::ZERO;
        for _ in 0..2 {
            let start = Instant::now();
            match self.run(0, LONGEST)? {
                Ran::Passed => took = start.elapsed(),
                Ran::Failed(test) => {
                    bail!("{test} fails on the unmodified design: {}", self.log().display())
                }
                Ran::TooLong => bail!("the tests ran for more than an hour on the unmodified design"),
            }
        }
        let limit = took * 5 + Duration::from_secs(10);
        self.limit = Some(limit);
        Ok(limit)
    }

    fn row(&mut self, number: usize, mutant: &Mutant) -> Result<Row> {
        let (modules, words) = found(self.design, mutant);
        let limit = self.limit()?;
        let ran = self.run(number, limit)?;
        let (fate, by) = match ran {
            Ran::Failed(test) => (Fate::Killed, test),
            Ran::TooLong => (Fate::Killed, "no end".to_owned()),
            Ran::Passed => match self.refuting(mutant)? {
                Some(proof) => (Fate::Refuted, proof.to_owned()),
                None => (self.compared(mutant, &modules)?, String::new()),
            },
        };
        Ok(Row { line: mutant.line().to_owned(), change: words, fate, by })
    }

    fn refuting(&self, mutant: &Mutant) -> Result<Option<&'static str>> {
        for proof in PROOFS.iter().filter(|proof| self.block.proofs.contains(&proof.name)) {
            let folder = self.folder.join("proof");
            match self.prover.refute_mutant(proof, mutant, &folder) {
                Ok(outcome) if outcome.as_ref().is_some_and(|o| o.verdict == Found::Refuted) => {
                    return Ok(Some(proof.name));
                }
                Ok(_) => {}
                Err(error) if error.is::<Timeout>() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Compares the mutant with the original in every module that has it.
    fn compared(&self, mutant: &Mutant, modules: &[&Rc<Module>]) -> Result<Fate> {
        let mut fate = Fate::Equivalent;
        for module in modules {
            let mutated = replaced(module, mutant).map_err(|reason| failure!("{reason}"))?;
            let Some(mutated) = mutated else { continue };
            match self.prover.equivalent(module, &mutated, &self.folder.join("comparison")) {
                Ok(outcome) => match outcome.verdict {
                    Found::Proved => {}
                    Found::Refuted => return Ok(Fate::Survived),
                    Found::Open => fate = Fate::Undecided,
                },
                Err(error) if error.is::<Timeout>() => fate = Fate::Undecided,
                Err(error) => return Err(error),
            }
        }
        Ok(fate)
    }
}

/// Survivors, including undecided mutants.
fn survivors(campaign: &Campaign) -> impl Iterator<Item = (&Row, &'static str)> {
    campaign.rows.iter().filter_map(|row| match row.fate {
        Fate::Survived => Some((row, "")),
        Fate::Undecided => Some((row, " (undecided)")),
        _ => None,
    })
}

fn markdown(campaigns: &[Campaign], args: &Args) -> String {
    let mut text = format!(
        "# Mutation score\n\nMade by `ndp verify mutate --n {} --seed {}`; [verification.md](../verification.md#mutation-score) says how. Columns: \
         mutants drawn of those that there are; killed by tests; by proofs; equivalent to the original; survivors, those that the solver did \
         not decide after the plus; waived; score.\n\n| block | mutants | tests | proofs | equivalent | survivors | waived | score |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        args.n, args.seed
    );
    for campaign in campaigns {
        let count = |fate| campaign.count(fate);
        let _ = writeln!(
            text,
            "| `{}` | {} of {} | {} | {} | {} | {} + {} | {} | {:.1} % |",
            campaign.block.name,
            campaign.rows.len(),
            campaign.all,
            count(Fate::Killed),
            count(Fate::Refuted),
            count(Fate::Equivalent),
            count(Fate::Survived),
            count(Fate::Undecided),
            count(Fate::Waived),
            campaign.score
        );
    }
    text += "\n## Survivors\n\n";
    for campaign in campaigns {
        for (row, undecided) in survivors(campaign) {
            let _ = writeln!(text, "- `{}`: `{}`{undecided}", row.line, row.change);
        }
    }
    text += "\n## Waived\n\n";
    let waived = campaigns.iter().flat_map(|campaign| &campaign.rows).filter(|row| row.fate == Fate::Waived);
    for row in waived {
        let _ = writeln!(text, "- `{}`: `{}`: {}", row.line, row.change, row.by);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(change: &str, fate: Fate) -> Row {
        Row { line: "fifo.rs:1:1".to_owned(), change: change.to_owned(), fate, by: "a test".to_owned() }
    }

    #[test]
    fn survivors_are_waived_with_their_reason_and_what_is_found_is_not() -> Result<()> {
        let block = BLOCKS.iter().find(|block| block.name == "fifo").context("no fifo")?;
        let waiver = |block: &str, change: &str| Survivor {
            block: block.to_owned(),
            change: change.to_owned(),
            reason: "saves power".to_owned(),
        };
        let mut rows = [
            row("enable a_q: b becomes 1", Fate::Survived),
            row("enable a_q: c becomes 1", Fate::Equivalent),
            row("next a_q: b becomes 0", Fate::Undecided),
            row("next d_q: b becomes 0", Fate::Killed),
        ];
        let mutants = || rows.iter().map(|row| row.change.clone()).collect();
        let waivers = [waiver("fifo", "enable *"), waiver("issue", "next *")];
        let waivers = of_block(&waivers, block, mutants)?;
        waive(&mut rows, &waivers)?;
        let fates = rows.each_ref().map(|row| row.fate);
        assert_eq!(fates, [Fate::Waived, Fate::Equivalent, Fate::Undecided, Fate::Killed]);
        assert_eq!(rows[0].by, "saves power");
        let refused = waive(&mut rows, &[&waiver("fifo", "next *")]).map_err(|e| e.to_string());
        assert_eq!(refused, Err("the waiver of `next *` waives a mutant that a test finds".to_owned()));
        // Waived mutants have to exist, even if they are not drawn.
        let idle = [waiver("fifo", "next d_q: c*")];
        let refused = of_block(&idle, block, || vec!["next d_q: b becomes 0".to_owned()]);
        let said = "the waiver of `next d_q: c*` waives nothing: there is no such mutant";
        assert_eq!(refused.map(|waivers| waivers.len()).map_err(|e| e.to_string()), Err(said.to_owned()));
        Ok(())
    }
}
