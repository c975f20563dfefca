//! `ndp verify coverage`: which lines of the Verilog the testbenches reach, and which bits they change.
//!
//! Verilator's models in the testbenches do the counting. This module adds up the counts and compares them with the
//! waivers.

mod counts;

use crate::mutate::{Block, Ran, build, chosen, hash, run_testbenches};
use crate::prelude::*;
use crate::tools::runs;
use crate::waivers::{Hole, Waivers, matches};
use anyhow::{bail, ensure};
use counts::{Points, What};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Variable with the folder of the counts, as in `ndp_sim::ffi`, which the tool without RTL lacks.
const COVERAGE: &str = "NDP_COVERAGE";
/// Least coverage in percent, without waived points.
const LINE_BAR: f64 = 100.0;
const TOGGLE_BAR: f64 = 90.0;

/// Count which lines of the hardware the tests of a block reach, and which bits they change
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp verify coverage --block rank_controller --block rank_scheduler\n  \
    ndp verify coverage --out coverage.md\n  \
    ndp verify coverage --data target/coverage/0123456789abcdef --json\n\n\
    Blocks and tests are those of `ndp verify mutate --list`. A line counts if its branch ran, a bit if it changed, in any instance of any configuration that \
    the tests open. Bits that the description makes constant, contents of memories, and signals of more than 256 bits do not count. --dir keeps \
    the counts as long as the tests are the same. The exit code is 1 if a block has a line that does not run and is not waived, or if less than \
    90 % of its bits change. Run the command in the folder of the sources.")]
pub struct Args {
    /// Block, named by its file in hdl/src/blocks (repeatable) [default: all blocks that have tests]
    #[arg(long = "block", value_name = "BLOCK")]
    blocks: Vec<String>,
    /// Run no tests; read the counts that tests have written to this folder (their variable NDP_COVERAGE)
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// List of lines and bits that need no coverage, with reasons
    #[arg(long, value_name = "FILE.toml", default_value = "testbenches/waivers.toml")]
    waivers: PathBuf,
    /// Folder that keeps the counts
    #[arg(long, default_value = "target/coverage")]
    dir: PathBuf,
    /// Time limit of the tests of one block in seconds, including the build of the models (1 or more)
    #[arg(long, default_value_t = 3600)]
    timeout_s: u64,
    /// Write the table and all gaps to this file as Markdown
    #[arg(long, value_name = "FILE.md")]
    out: Option<PathBuf>,
}

/// Numbers of points of one kind.
#[derive(Debug, Default, Serialize)]
struct Share {
    covered: usize,
    waived: usize,
    all: usize,
}

impl Share {
    fn percent(&self) -> f64 {
        let rest = self.all - self.waived;
        if rest > 0 { 100.0 * self.covered as f64 / rest as f64 } else { 100.0 }
    }
}

/// A branch, or bits of a signal, without coverage.
#[derive(Debug, Serialize)]
struct Gap {
    /// The branch with the signal that it sets, or the signal.
    what: String,
    /// Bits of the signal; empty for a line or a signal of one bit.
    bits: Vec<u32>,
    /// Module and line in the Verilog.
    verilog: String,
    /// File and line of the description.
    place: String,
    waived: Option<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    block: String,
    lines: Share,
    bits: Share,
    gaps: Vec<Gap>,
}

impl Row {
    fn passes(&self) -> bool {
        self.lines.percent() >= LINE_BAR && self.bits.percent() >= TOGGLE_BAR
    }
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    ndp_files::ensure!(args.timeout_s > 0, "--timeout-s = 0 must be at least 1");
    let files = FileSet::new().input("the list of waivers", &args.waivers);
    args.form.files(files).optional("--out", args.out.as_ref()).check()?;
    let waivers = Waivers::read(&args.waivers)?;
    let out = Asked::create(args.out.as_ref())?;
    let mut points = Points::new();
    if let Some(folder) = &args.data {
        counts::read(folder, &mut points)?;
        points.retain(|block, _| args.blocks.is_empty() || args.blocks.contains(block));
    } else {
        let blocks = chosen(&args.blocks)?;
        for folder in measured(&blocks, args)? {
            counts::read(&folder, &mut points)?;
        }
        points.retain(|name, _| blocks.iter().any(|block| block.name == name));
        for block in blocks {
            ensure!(
                points.contains_key(block.name),
                "the tests of block {} open no model that contains it",
                block.name
            );
        }
    }
    ensure!(!points.is_empty(), "found no coverage counts of a selected block");
    let rows =
        rows(&points, &waivers.coverage).with_context(|| format!("waivers of {}", args.waivers.display()))?;
    out.write(|| Ok(markdown(&rows)))?;
    let below: Vec<&Row> = rows.iter().filter(|row| !row.passes()).collect();
    let verdict = match &below[..] {
        [] => format!("{} blocks reach {LINE_BAR} % of lines and {TOGGLE_BAR} % of bits", rows.len()),
        [first, ..] => format!(
            "{} of {} blocks are below {LINE_BAR} % of lines or {TOGGLE_BAR} % of bits, the first: {}",
            below.len(),
            rows.len(),
            first.block
        ),
    };
    let share = |share: &Share| share.percent() / 100.0;
    let blocks = rows! { &rows => |row|
        ..row;
        "block" "block" {Text} Screen: "block";
        "lines.all" "lines" {Count} Screen: "lines";
        "lines.waived" "waived" {Count} Screen: "lines that need not run";
        "lines.covered" "run" {Count} Verbose: "lines that run";
        "line_share" "covered" {Share} Screen: "share of the other lines that runs" = share(&row.lines);
        "bits.all" "bits" {Count} Screen: "bits";
        "bits.waived" "waived" {Count} Screen: "bits that need not change";
        "bits.covered" "change" {Count} Verbose: "bits that change";
        "bit_share" "changed" {Share} Screen: "share of the other bits that changes" = share(&row.bits);
        "gaps" "" {Data} Json: "what is not covered: branch or signal, bits, places, and the reason if it is waived";
    };
    let gaps = below.iter().flat_map(|row| &row.gaps).filter(|gap| gap.waived.is_none());
    let missed = rows! { gaps => |gap|
        "place" "place" {Text} Screen: "file and line of the description" = gap.place;
        "what" "branch or bits" {Text} Screen: "branch that does not run, or bits that do not change"
            = format!("{}{}", gap.what, ranges(&gap.bits));
        "verilog" "Verilog" {Text} Screen: "module and line" = gap.verilog;
    };
    Ok(Report::checked("verify coverage", below.is_empty(), verdict).table("blocks", "Blocks", blocks).table(
        "missed",
        "Not covered",
        missed,
    ))
}

/// Runs each set of the blocks' testbenches once; returns the folders of their counts.
fn measured(blocks: &[&Block], args: &Args) -> Result<Vec<PathBuf>> {
    let program = build()?;
    let identity = hash(&std::fs::read(&program)?);
    let sets: BTreeSet<&[&str]> = blocks.iter().map(|block| block.tests).collect();
    let mut folders = Vec::new();
    for (number, tests) in sets.iter().enumerate() {
        let folder = args.dir.join(hash(format!("{tests:?}").as_bytes()));
        let (passed, log) = (folder.join("passed"), folder.join("tests.log"));
        let kept = std::fs::read_to_string(&passed).is_ok_and(|text| text == identity);
        if !kept {
            note!("tests {} of {}: {}", number + 1, sets.len(), tests.join(", "));
            emptied(&folder)?;
            let environment = [(COVERAGE, folder.as_os_str())];
            match run_testbenches(&program, tests, &environment, &log, Duration::from_secs(args.timeout_s))? {
                Ran::Passed => {}
                Ran::Failed(test) => bail!("{test} fails on models that count: {}", log.display()),
                Ran::TooLong => bail!("{} take longer than {} s", tests.join(", "), args.timeout_s),
            }
            write(&passed, &identity)?;
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// Makes a folder, or removes its counts.
fn emptied(folder: &Path) -> Result<()> {
    let named = || format!("cannot clear {}", folder.display());
    std::fs::create_dir_all(folder).with_context(named)?;
    for entry in std::fs::read_dir(folder).with_context(named)? {
        std::fs::remove_file(entry.with_context(named)?.path()).with_context(named)?;
    }
    Ok(())
}

/// Coverage of each block with its waivers.
fn rows(points: &Points, waivers: &[Hole]) -> Result<Vec<Row>> {
    let mut used = vec![false; waivers.len()];
    let mut rows = Vec::new();
    for (block, points) in points {
        let mut row =
            Row { block: block.clone(), lines: Share::default(), bits: Share::default(), gaps: Vec::new() };
        // Bits of one signal with one reason are one gap.
        let mut gaps = BTreeMap::<(String, Option<usize>), Gap>::new();
        for (what, point) in points {
            let share = match what {
                What::Line(_) => &mut row.lines,
                What::Bit(..) => &mut row.bits,
            };
            share.all += 1;
            if point.hit() {
                share.covered += 1;
                continue;
            }
            let waiver = waivers.iter().position(|hole| hole.block == *block && waives(hole, what));
            if let Some(waiver) = waiver {
                share.waived += 1;
                used[waiver] = true;
            }
            let (name, bit) = match what {
                What::Line(name) => (name, None),
                What::Bit(name, bit) => (name, Some(*bit)),
            };
            let gap = gaps.entry((name.clone(), waiver)).or_insert_with(|| Gap {
                what: name.clone(),
                bits: Vec::new(),
                verilog: point.verilog.clone(),
                place: point.place.clone(),
                waived: waiver.map(|waiver| waivers[waiver].reason.clone()),
            });
            gap.bits.extend(bit);
        }
        row.gaps = gaps.into_values().collect();
        rows.push(row);
    }
    let idle = waivers.iter().zip(used).find(|(hole, used)| !used && points.contains_key(&hole.block));
    if let Some((hole, _)) = idle {
        ndp_files::bail!("{hole} waives nothing: everything that it names is covered or does not exist");
    }
    Ok(rows)
}

fn waives(hole: &Hole, what: &What) -> bool {
    match what {
        What::Line(line) => hole.line.as_ref().is_some_and(|pattern| matches(pattern, line)),
        What::Bit(signal, bit) => {
            hole.signal.as_ref().is_some_and(|pattern| matches(pattern, signal))
                && hole.bits.is_none_or(|[first, last]| (first..=last).contains(bit))
        }
    }
}

/// Bits as ranges, such as ` 3, 7..9`.
fn ranges(bits: &[u32]) -> String {
    let range = |(first, last)| if first == last { format!("{first}") } else { format!("{first}..{last}") };
    let ranges = runs(bits.iter().copied()).map(range).join(", ");
    if bits.is_empty() { ranges } else { format!(" {ranges}") }
}

fn markdown(rows: &[Row]) -> String {
    let mut text =
        "# Coverage\n\nMade by `ndp verify coverage`; [verification.md](../verification.md#coverage) says how.\n\n\
                    | block | lines | waived | covered | bits | waived | changed |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    let cells = |share: &Share| format!("{} | {} | {:.1} %", share.all, share.waived, share.percent());
    for Row { block, lines, bits, .. } in rows {
        let _ = writeln!(text, "| `{block}` | {} | {} |", cells(lines), cells(bits));
    }
    for (title, waived) in [("Holes", false), ("Waived", true)] {
        let _ = writeln!(text, "\n## {title}\n");
        for gap in rows.iter().flat_map(|row| &row.gaps).filter(|gap| gap.waived.is_some() == waived) {
            let reason = gap.waived.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let _ = writeln!(
                text,
                "- `{}`: `{}`{} (`{}`){reason}",
                gap.place,
                gap.what,
                ranges(&gap.bits),
                gap.verilog
            );
        }
    }
    text
}
