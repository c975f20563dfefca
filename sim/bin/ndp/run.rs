//! `ndp run`: programs from files, compared with the functional model.
//!
//! Assembles, runs and reports. What a program means is `ndp_machine`'s business, what is compared the library's.

use crate::args::{RecordArgs, UnitArgs};
use crate::breakdown::StallBreakdown;
use crate::cycles::predict;
use crate::energy::print_dimm;
use crate::output::Records;
use crate::program::assemble;
use crate::rerun::Rerun;
use crate::tools::{Tools, grouped};
use crate::verdict::Verdict;
use anyhow::Context;
use ndp_config::{DesignConfig, WeightFormat};
use ndp_dram::Statistics;
use ndp_energy::{DimmEnergy, DramCosts};
use ndp_files::Progress;
use ndp_isa::{Code, Data, Instruction, Program};
use ndp_isa::{Counters, Status};
use ndp_layout::{DimmAddress, MatrixLayout, VectorBlock};
use ndp_machine::{Machine, SparseMemory, dump_bursts};
use ndp_numerics::f16;
use ndp_sim::core::{Difference, NdpCore, ProgramCheck, ProgramRun};
use ndp_sim::gemv::BitFlip;
use serde::Serialize;
use std::path::PathBuf;

/// Run programs in the text form of docs/isa-text.md and compare DRAM, status and monitor with the functional model
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp run testbenches/programs/ffn.asm --config tiny --dump\n  \
        ndp run program.asm --stalls 30 --seed 2 --json\n  \
        ndp run program.asm --commands run.txt --timeline run.json   (open run.json in ui.perfetto.dev)\n  \
        ndp run compiled/dimm0/*.asm --config tiny\n\n\
        Several programs run one after the other on one core: the host waits for the end of each, and DRAM and buffer keep what it \
        leaves. All programs are checked against the configuration when they are read. With --allow-malformed, a malformed instruction is no \
        failure as long as the functional model refuses it too.")]
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
    /// Run malformed instructions too: the hardware and the functional model have to refuse the same ones
    #[arg(long)]
    pub allow_malformed: bool,
    /// Print what the program's .dump directives name, as FP16 values and their bits
    #[arg(long)]
    pub dump: bool,
    /// Recordings.
    #[command(flatten)]
    pub records: RecordArgs,
}

/// Mismatches that are listed; the rest is only counted.
const LISTED: usize = 16;
/// Values in a line of a dump.
const DUMP_COLUMNS: usize = 8;

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    program: String,
    seed: u64,
    stalls_percent: u32,
    instructions: u32,
    cycles: u64,
    bursts_checked: u64,
    elements_checked: u64,
    activations_checked: u32,
    mismatches: u64,
    first_mismatches: Vec<Mismatch>,
    differences: &'a [Difference],
    programs: Vec<ProgramRow>,
    unfenced_reads: u64,
    protocol_violations: u64,
    first_violation: Option<String>,
    status: Status,
    counters: Counters,
    stalls: StallBreakdown,
    dram: Vec<Statistics>,
    energy: DimmEnergy,
    dumps: Vec<DumpedBurst>,
    rerun: &'a str,
    tools: Tools,
}

/// One of the programs.
#[derive(Debug, Serialize)]
struct ProgramRow {
    program: String,
    instructions: u32,
    cycles: u64,
    mismatches: u64,
}

/// An element of the DRAM that differs.
#[derive(Debug, Serialize)]
struct Mismatch {
    burst: u64,
    element: u32,
    expected: u16,
    actual: u16,
}

/// A burst that a `.dump` names.
#[derive(Debug, Serialize)]
struct DumpedBurst {
    address: u64,
    /// FP16 bits.
    bits: Vec<u16>,
}

/// Runs the job.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    let Args { programs: paths, unit, seed, allow_malformed, dump, records } = args;
    unit.energy.check_effects(unit.json || records.timeline.is_some())?;
    let files = records.files(unit.files());
    paths.iter().fold(files, |files, path| files.input("the program", path)).check()?;
    let config = DesignConfig::load(&unit.config)?;
    let programs = paths.iter().map(|path| assemble(path, &config, *allow_malformed));
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let options = unit.options(*seed);
    let mut core = NdpCore::open(&config, &options.core(records.is_asked()))?;
    let records = Records::create(records)?;
    let mut rerun = Rerun::new("run", unit);
    names.iter().for_each(|name| rerun.argument(name));
    rerun.option("seed", seed);
    if *allow_malformed {
        rerun.flag("allow-malformed");
    }
    let rerun = rerun.line();

    // The cycles of a select are known if its operands are; those that an earlier program leaves are not counted.
    let cycles = |program| predict(&config, program).map_or(0, |run| run.cycles);
    let predicted = programs.iter().map(cycles).sum::<u64>().max(1);
    let progress = Progress::watch(predicted, "cycles", ndp_sim::progress::cycles);
    let result = simulate(&mut core, &programs, unit.flip);
    drop(progress);
    let written = records.write(core.take_recording().as_ref(), &unit.energy);
    let closed = core.close_waves();
    let (checks, counters) = result.with_context(|| format!("seed {seed}, rerun: {rerun}"))?;
    let row = |(program, check): (&String, &ProgramCheck)| ProgramRow {
        program: program.clone(),
        instructions: check.run.words,
        cycles: check.run.cycles,
        mismatches: check.mismatches.len() as u64,
    };
    let rows: Vec<ProgramRow> = names.iter().zip(&checks).map(row).collect();
    let check = total(checks).context("there are no programs")?;
    written?;
    closed?;

    let ProgramRun { cycles, words: instructions, status, .. } = check.run;
    let stalls = StallBreakdown::new(&counters, config.gemv().ranks())?;
    let first_violation = core.check_protocol().err().map(|error| error.to_string());
    print_failures(&check, first_violation.as_deref(), *seed, rerun);
    let dumps = if *dump { dumps(&core, &programs) } else { Vec::new() };
    let constants = unit.energy.constants(&config, "hermes")?;
    let energy = DimmEnergy::new(&DramCosts::new(&constants.dram, config.dram()), core.activity());
    let agrees = check.agrees() && first_violation.is_none();
    if unit.json {
        let report = Report {
            command: "run",
            config: &config,
            program: names.join(" "),
            seed: *seed,
            stalls_percent: unit.stalls,
            instructions,
            cycles,
            bursts_checked: check.bursts,
            elements_checked: check.elements,
            activations_checked: check.activations,
            mismatches: check.mismatches.len() as u64,
            first_mismatches: listed(&check).collect(),
            differences: &check.differences,
            programs: rows,
            unfenced_reads: check.unfenced_reads,
            protocol_violations: core.protocol_violations(),
            first_violation,
            status,
            counters,
            stalls,
            energy,
            dram: core.ranks().iter().map(|rank| rank.statistics()).collect(),
            dumps,
            rerun,
            tools: Tools::new(),
        };
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!(
            "{}/ndp_core: {}, {instructions} instructions, seed {seed}, {} % stalls",
            config.name(),
            if let [name] = &names[..] { name.clone() } else { format!("{} programs", names.len()) },
            unit.stalls
        );
        for ProgramRow { program, instructions, cycles, mismatches } in rows.iter().filter(|_| rows.len() > 1)
        {
            let cycles = grouped(*cycles);
            say!("{program}: {instructions} instructions, {cycles} cycles, {mismatches} mismatches");
        }
        print_dumps(&dumps);
        print(&check, (&programs, &config), core.protocol_violations(), &stalls);
        if unit.energy.energy {
            print_dimm(&energy, &constants.dram.name);
        }
    }
    Ok(if agrees { Verdict::Agreed } else { Verdict::Differed })
}

/// For each program places the data, runs it and compares.
fn simulate(
    core: &mut NdpCore,
    programs: &[Program],
    flip: Option<BitFlip>,
) -> anyhow::Result<(Vec<ProgramCheck>, Counters)> {
    let mut machine = Machine::new(core.config(), SparseMemory::new())?;
    // The first program that has such a place has the deliberate error.
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

/// What was compared in all programs, as if they were one; none if there are none.
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

/// Burst of the DIMM, element and bit of a deliberate error: a weight of the first matrix that has such a place, or a
/// result of the first stored block that has it (its element is the row).
fn injected_bit(config: &DesignConfig, program: &Program, flip: BitFlip) -> anyhow::Result<(u64, u32, u32)> {
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

fn listed(check: &ProgramCheck) -> impl Iterator<Item = Mismatch> {
    check.mismatches.iter().take(LISTED).map(|&(burst, element, expected, actual)| Mismatch {
        burst,
        element,
        expected,
        actual,
    })
}

/// What differs, on standard error.
fn print_failures(check: &ProgramCheck, violation: Option<&str>, seed: u64, rerun: &str) {
    let value = |bits: u16| f16::from_bits(bits).to_f32();
    for Mismatch { burst, element, expected, actual } in listed(check) {
        note!(
            "MISMATCH burst {burst:#x} element {element}: expected {expected:#06x} ({}), actual {actual:#06x} ({}); \
             seed {seed}",
            value(expected),
            value(actual)
        );
    }
    if check.mismatches.len() > LISTED {
        note!("and {} more", check.mismatches.len() - LISTED);
    }
    for Difference { what, expected, actual } in &check.differences {
        note!(
            "MISMATCH {what}: expected {expected} ({expected:#x}), actual {actual} ({actual:#x}); seed {seed}"
        );
    }
    if let Some(violation) = violation {
        note!("VIOLATION {violation}; seed {seed}");
    }
    if !check.agrees() || violation.is_some() {
        note!("rerun: {rerun}");
    }
}

fn print(
    check: &ProgramCheck,
    (programs, config): (&[Program], &DesignConfig),
    violations: u64,
    stalls: &StallBreakdown,
) {
    let ProgramCheck { run, bursts, elements, mismatches, activations, differences, .. } = check;
    let status = &run.status;
    if status.malformed > 0 {
        // Of several programs the status does not say in which one it is.
        let only = if let [program] = programs { Some(program) } else { None };
        let first = only.and_then(|program| program.code.get(status.error_sequence as usize));
        let text = first.map_or_else(String::new, |code| {
            // The one error that is not the instruction's own.
            let full = "it was written while the queue was full".to_owned();
            let reason = code.check(config).err().map_or(full, |malformed| malformed.to_string());
            format!(" ({reason}): {code}")
        });
        say!(
            "malformed          {}, the first is instruction {} with code {}{text}",
            status.malformed,
            status.error_sequence,
            status.error
        );
    }
    if check.unfenced_reads > 0 {
        say!(
            "without a barrier  {} bursts were read that had been stored; what follows from them was not compared",
            check.unfenced_reads
        );
    }
    say!(
        "elements checked   {} in {} bursts, {} mismatches, {violations} violations of DRAM timing",
        grouped(*elements),
        grouped(*bursts),
        mismatches.len()
    );
    say!(
        "status             {} signals, tag {:#x}, {activations} activation counts checked, {} differences",
        status.signals,
        status.tag,
        differences.len()
    );
    say!("cycles             {}", grouped(run.cycles));
    stalls.print();
}

fn dumps(core: &NdpCore, programs: &[Program]) -> Vec<DumpedBurst> {
    let bursts =
        programs.iter().flat_map(|program| &program.dumps).flat_map(|dump| dump_bursts(core.config(), *dump));
    let bits = |data: [u64; 8]| (0..32).map(|index| (data[index / 4] >> (16 * (index % 4))) as u16).collect();
    bursts.map(|address| DumpedBurst { address, bits: bits(core.peek(address)) }).collect()
}

fn print_dumps(dumps: &[DumpedBurst]) {
    for DumpedBurst { address, bits } in dumps {
        for (line, chunk) in bits.chunks(DUMP_COLUMNS).enumerate() {
            let values: Vec<String> = chunk
                .iter()
                .map(|bits| format!("{:>12} {bits:04x}", f16::from_bits(*bits).to_f32()))
                .collect();
            say!("{address:#010x}+{:<2} {}", line * DUMP_COLUMNS, values.join("  "));
        }
    }
}
