//! `ndp run`: assembles programs from files, runs them, compares them with the functional model and reports.

use crate::args::{RecordArgs, UnitArgs};
use crate::breakdown::StallBreakdown;
use crate::cycles::predict;
use crate::energy::show_dimm;
use crate::made;
use crate::prelude::*;
use crate::program::assemble;
use crate::report::LISTED;
use ndp_config::WeightFormat;
use ndp_energy::{DimmEnergy, DramCosts};
use ndp_isa::layout::{DimmAddress, MatrixLayout, VectorBlock};
use ndp_isa::machine::{Machine, SparseMemory, dump_bursts};
use ndp_isa::{Code, Data, Instruction, Program};
use ndp_isa::{Counters, Status};
use ndp_numerics::f16;
use ndp_sim::core::{CoreOptions, Difference, NdpCore, ProgramCheck, ProgramRun};
use ndp_sim::gemv::BitFlip;
use serde_json::json;

/// Run programs in the text form of docs/isa-text.md and compare DRAM, status and monitor with the functional model
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp run testbenches/programs/ffn.asm --config tiny --dump\n  \
        ndp run program.asm --stalls 30 --seed 2 --json\n  \
        ndp run program.asm --commands run.txt --timeline run.json   (open run.json in ui.perfetto.dev)\n  \
        ndp run compiled/dimm0/*.asm --config tiny\n\n\
        Several programs run one after the other on one core: the host waits for the end of each, and DRAM and buffer keep their \
        contents. All programs are checked against the configuration when they are read. With --allow-malformed, a malformed instruction is \
        not a failure if the functional model rejects it too.")]
pub struct Args {
    /// Programs: instructions and directives, one per line
    #[arg(value_name = "FILE.asm", required = true)]
    pub programs: Vec<PathBuf>,
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Seed of the stalls
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Also run malformed instructions: the hardware and the functional model must reject the same ones
    #[arg(long)]
    pub allow_malformed: bool,
    /// Print the data that the program's .dump directives name, as FP16 values and their bits
    #[arg(long)]
    pub dump: bool,
    /// Recordings.
    #[command(flatten)]
    pub records: RecordArgs,
}

/// Number of values in a line of a dump.
const DUMP_COLUMNS: usize = 8;

pub fn run(args: &Args) -> Result<Report> {
    let Args { programs: paths, unit, seed, allow_malformed, dump, records } = args;
    let files = unit.files_with(records)?;
    paths.iter().fold(files, |files, path| files.input("the program", path)).check()?;
    let config = DesignConfig::load(&unit.config)?;
    let programs = paths.iter().map(|path| assemble(path, &config, *allow_malformed));
    let programs = programs.collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let options = CoreOptions { record: records.is_asked(), ..unit.options(*seed).core };
    let mut core = NdpCore::open(&config, &options)?;
    let records = records.create()?;
    // The cycles of a select are known only if its operands are not results of an earlier program.
    let cycles = |program| predict(&config, program).map_or(0, |run| run.cycles);
    let predicted = programs.iter().map(cycles).sum::<u64>().max(1);
    let progress = Progress::watch(predicted, "cycles", ndp_sim::progress::cycles);
    let result = simulate(&mut core, &programs, unit.flip);
    drop(progress);
    let written = records.write(core.take_recording().as_ref(), &unit.energy);
    let closed = core.close_waves();
    let (checks, counters) = result.with_context(|| format!("seed {seed}, rerun: {}", made::rerun()))?;
    let rows = rows! { names.iter().zip(&checks) => |(program, check)|
        "program" "program" {Text} Screen: "file" = program;
        "instructions" "instructions" {Count} Screen: "instructions" = check.run.words;
        "cycles" "cycles" {Count} Screen: "core cycles" = check.run.cycles;
        "mismatches" "wrong elements" {Count} Screen: "elements of the DRAM that differ" = check.mismatches.len() as u64;
    };
    let check = total(checks).context("there are no programs")?;
    written?;
    closed?;

    let ProgramRun { cycles, words: instructions, status, .. } = check.run;
    let stalls = StallBreakdown::new(&counters, config.gemv().ranks())?;
    let first_violation = core.check_protocol().err().map(|error| format!("{error:#}"));
    let dumps = if *dump { dumps(&core, &programs) } else { Vec::new() };
    let bursts = rows! { &dumps => |(address, bits)|
        "address" "burst" {Count} Json: "address of the burst" = address;
        "bits" "bits" {Data} Json: "bits of its elements" = bits;
    };
    let lines = dumps.iter().flat_map(|(address, bits)| {
        bits.chunks(DUMP_COLUMNS).enumerate().map(move |(line, chunk)| (address, line, chunk))
    });
    let lines = rows! { lines => |(address, line, chunk)|
        let texts = |text: fn(&u16) -> String| chunk.iter().map(text).join(" ");
        "burst" "burst" {Text} Screen: "address of the burst" = format!("{address:#010x}");
        "element" "from" {Count} Screen: "first element" = line * DUMP_COLUMNS;
        "values" "values" {Text} Screen: "values in FP16" = texts(|bits| f16::from_bits(*bits).to_f32().to_string());
        "bits" "bits" {Text} Screen: "their bits" = texts(|bits| format!("{bits:04x}"));
    };
    let constants = unit.energy.constants(&config, "hermes")?;
    let energy = DimmEnergy::new(&DramCosts::new(&constants.dram, config.dram()), core.activity());
    let holds = check.agrees() && first_violation.is_none();
    let (elements, wrong) = (grouped(check.elements), check.mismatches.len() + check.differences.len());
    let verdict = match (wrong, core.protocol_violations()) {
        (0, 0) => {
            format!("{elements} elements of the DRAM, status and counters equal the functional model's")
        }
        (0, broken) => format!("{broken} timing rules of the DRAM are broken"),
        (wrong, _) => format!(
            "{wrong} of {elements} elements of the DRAM, or of status and counters, differ from the functional model"
        ),
    };
    let mut report = notes(Report::checked("run", holds, verdict), &check, first_violation.as_deref(), *seed);
    if status.malformed > 0 {
        report = report.note(malformed(&status, &programs, &config));
    }
    if check.unfenced_reads > 0 {
        let reads = check.unfenced_reads;
        report = report.note(format!("{reads} bursts were stored and then read without a barrier; what follows from them was not compared"));
    }
    let what = if let [name] = &names[..] { name.clone() } else { format!("{} programs", names.len()) };
    let figures = figures! {
        "cycles" "cycles" {Cycles} Head: "core cycles of the programs" = cycles;
        "instructions" "instructions" {Count} Head: "instructions" = instructions;
        "elements_checked" "elements" {Count} Verbose: "elements of the DRAM compared with the functional model" = check.elements;
        "bursts_checked" "bursts" {Count} Verbose: "bursts of the DRAM compared" = check.bursts;
        "activations_checked" "activation counts" {Count} Verbose: "counts of activations compared" = check.activations;
        "mismatches" "wrong elements" {Count} Verbose: "elements that differ" = check.mismatches.len() as u64;
        "unfenced_reads" "reads without a barrier" {Count} Verbose: "bursts that were read after a store without a barrier; results that depend on them are not compared"
            = check.unfenced_reads;
        "protocol_violations" "broken timing rules" {Count} Verbose: "broken timing rules of the DRAM" = core.protocol_violations();
        "first_violation" "first broken rule" {Text} Verbose: "first broken rule" = first_violation;
        "seed" "seed" {Count} Verbose: "seed of the stalls" = *seed;
        "stalls_percent" "stalls" {Real("%", 0)} Verbose: "cycles in which the host is not ready" = unit.stalls;
        "program" "programs" {Text} Json: "files" = names.join(" ");
        "first_mismatches" "" {Data} Json: "the first wrong elements: burst, element, expected and actual bits"
            = check.mismatches.iter().take(LISTED).map(|(burst, element, expected, actual)| {
                json!({"burst": burst, "element": element, "expected": expected, "actual": actual})
            }).collect::<Vec<_>>();
        "differences" "" {Data} Json: "status and counters that differ" = &check.differences;
    };
    let level = if rows.count() > 1 { Level::Screen } else { Level::Verbose };
    let report = report
        .reason(stalls.reason())
        .setting(format!("{what} on {}, seed {seed}, {} % stalls", config.name(), unit.stalls))
        .figures(figures)
        .table_at(level, None, ("programs", "Programs"), rows)
        .table_at(Level::Json, None, ("dumps", "Dumped bursts"), bursts)
        .table("dumped", "Dumped elements", lines)
        .group(Level::Verbose, ("stalls", "Cycles of the multipliers' groups"), stalls.figures());
    Ok(show_dimm(report, &energy, &constants.dram.name, unit.energy.energy)
        .data("config", "the configuration (docs/configuration.md)", &config)
        .data("status", "the core's status (docs/isa.md)", &status)
        .data("counters", "the monitor's registers (docs/isa.md)", &counters)
        .data(
            "dram",
            "commands of each rank",
            &core.ranks().iter().map(|rank| rank.statistics()).collect::<Vec<_>>(),
        )
        .data("tools", "versions of the tools", &Tools::new()))
}

/// Places the data of each program, runs it and compares.
fn simulate(
    core: &mut NdpCore,
    programs: &[Program],
    flip: Option<BitFlip>,
) -> Result<(Vec<ProgramCheck>, Counters)> {
    let mut machine = Machine::new(core.config(), SparseMemory::new())?;
    // The first program that has such a place receives the deliberate error.
    let mut flips =
        programs.iter().map(|program| flip.map(|flip| injected_bit(core.config(), program, flip)));
    let mut flips = match flips.clone().flatten().position(|bit| bit.is_ok()) {
        None => (0, flips.next().flatten().transpose()?),
        Some(at) => (at, flips.nth(at).flatten().transpose()?),
    };
    let (mut checks, mut counters) = (Vec::new(), Counters::default());
    for (index, program) in programs.iter().enumerate() {
        machine.next_program();
        machine.run(program)?;
        core.place(program)?;
        let bit = if index == flips.0 { flips.1.take() } else { None };
        let (before, after) = match bit {
            Some(bit) if matches!(flip, Some(BitFlip::Weight { .. })) => (Some(bit), None),
            bit => (None, bit),
        };
        flip_bit(core, before);
        let earlier = core.counters()?;
        let run = core.run_words(&program.words(), |_| {})?;
        counters.add(&core.counters()?.since(&earlier));
        flip_bit(core, after);
        checks.push(core.compare(run, &machine)?);
    }
    Ok((checks, counters))
}

/// Sum over all programs; `None` if there are none.
fn total(checks: Vec<ProgramCheck>) -> Option<ProgramCheck> {
    checks.into_iter().reduce(|mut all, next| {
        let before = all.run;
        all.run = ProgramRun {
            cycles: before.cycles + next.run.cycles,
            words: before.words + next.run.words,
            before: before.before,
            ..next.run
        };
        all.bursts += next.bursts;
        all.elements += next.elements;
        all.activations += next.activations;
        all.mismatches.extend(next.mismatches);
        all.differences.extend(next.differences);
        ProgramCheck { unfenced_reads: next.unfenced_reads, ..all }
    })
}

/// Burst of the DIMM, element, and bit to flip: in a weight of the first matrix that has such a place, or in a result
/// of the first stored block that has it (the element is the row).
fn injected_bit(config: &DesignConfig, program: &Program, flip: BitFlip) -> Result<(u64, u32, u32)> {
    match flip {
        BitFlip::Weight { row, col, bit } => {
            let matrix = program.data.iter().find_map(|data| match *data {
                Data::Matrix { address, rows, cols, weights: WeightFormat::Fp16, .. }
                    if row < rows && col < cols =>
                {
                    Some((address, rows, cols))
                }
                _ => None,
            });
            let Some((address, rows, cols)) = matrix else {
                bail!("no .matrix holds the flipped bit {flip}")
            };
            let place = MatrixLayout::new(config, address, rows, cols)?.locate(row, col);
            let burst = DimmAddress { rank: place.rank, burst: place.burst }.to_burst(config);
            Ok((burst, place.element, bit))
        }
        BitFlip::Key { .. } => bail!("a program has no attention that holds the flipped bit {flip}"),
        BitFlip::Result { row, batch: vector, bit } => {
            let block = program.code.iter().find_map(|code| match *code {
                Code::Instruction(Instruction::Store { cols, batch, address, .. })
                    if row < cols && vector < batch =>
                {
                    Some(VectorBlock::unchecked(config, address, cols, batch))
                }
                _ => None,
            });
            let Some(block) = block else { bail!("no store writes the flipped bit {flip}") };
            let (burst, element) = block.locate(vector, row);
            Ok((burst, element, bit))
        }
    }
}

fn flip_bit(core: &mut NdpCore, place: Option<(u64, u32, u32)>) {
    let Some((burst, element, bit)) = place else { return };
    let mut data = core.peek(burst);
    data[element as usize / 4] ^= 1 << (16 * (element % 4) + bit);
    core.poke(burst, &data);
}

fn notes(report: Report, check: &ProgramCheck, violation: Option<&str>, seed: u64) -> Report {
    let value = |bits: u16| f16::from_bits(bits).to_f32();
    let elements = check.mismatches.iter().take(LISTED).map(|&(burst, element, expected, actual)| {
        format!(
            "MISMATCH burst {burst:#x} element {element}: expected {expected:#06x} ({}), actual {actual:#06x} ({}); seed {seed}",
            value(expected),
            value(actual)
        )
    });
    let more = check.mismatches.len().checked_sub(LISTED).filter(|more| *more > 0);
    let differences = check.differences.iter().map(|Difference { what, expected, actual }| {
        format!(
            "MISMATCH {what}: expected {expected} ({expected:#x}), actual {actual} ({actual:#x}); seed {seed}"
        )
    });
    let notes = elements.chain(more.map(|more| format!("and {more} more"))).chain(differences);
    notes.chain(violation.map(|rule| format!("VIOLATION {rule}; seed {seed}"))).fold(report, Report::note)
}

/// Number of refused instructions, and the first one. With several programs, the status does not tell which program
/// it belongs to.
fn malformed(status: &Status, programs: &[Program], config: &DesignConfig) -> String {
    let only = if let [program] = programs { Some(program) } else { None };
    let first = only.and_then(|program| program.code.get(status.error_sequence as usize));
    let text = first.map_or_else(String::new, |code| {
        // The only error that the instruction itself does not cause.
        let full = "it was written while the queue was full".to_owned();
        let reason = code.check(config).err().map_or(full, |malformed| malformed.to_string());
        format!(" ({reason}): {code}")
    });
    let Status { malformed, error_sequence, error, .. } = status;
    format!(
        "the core refused {malformed} malformed instructions, the first is instruction {error_sequence} with code {error}{text}"
    )
}

/// Address and bits of all dumped bursts, in order.
fn dumps(core: &NdpCore, programs: &[Program]) -> Vec<(u64, Vec<u16>)> {
    let bursts =
        programs.iter().flat_map(|program| &program.dumps).flat_map(|dump| dump_bursts(core.config(), *dump));
    let bits = |data: [u64; 8]| (0..32).map(|index| (data[index / 4] >> (16 * (index % 4))) as u16).collect();
    bursts.map(|address| (address, bits(core.peek(address)))).collect()
}
