//! `ndp run cycles`: cycles of a program, predicted without RTL.
//!
//! Nothing is simulated. Tests show that the model agrees with the hardware.

use crate::breakdown::StallBreakdown;
use crate::prelude::*;
use crate::program::assemble;
use ndp_cycles::{ClockRelation, CycleModel, ProgramCycles, RankActivity, run_program};
use ndp_isa::layout::words_of;
use ndp_isa::machine::{Machine, Memory, SparseMemory, write_data};
use ndp_isa::{Code, Counters, Data, Instruction, Program, decode};
use std::time::Instant;

/// Predict the cycles of a program with the cycle model, without data and without the hardware
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp run cycles testbenches/programs/ffn.asm --config tiny\n  \
        ndp run cycles program.asm --json\n\n\
        The cycles are those of `ndp run` without stalls. They depend only on the lists in the program's data (.u32) and,\n\
        if the program has a select, on all data of the select, which the functional model computes.")]
pub struct Args {
    /// Program: instructions and directives, one per line
    #[arg(value_name = "FILE.asm")]
    pub file: PathBuf,
    /// NDP core: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Accept malformed instructions, which the core rejects
    #[arg(long)]
    pub allow_malformed: bool,
}

/// # Errors
/// A program that cannot be assembled; a select of unspecified elements.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    let Args { file, config, allow_malformed } = &**args;
    args.form
        .files(FileSet::new().configuration("the configuration", config).input("the program", file))
        .check()?;
    let config = DesignConfig::load(config)?;
    let program = assemble(file, &config, *allow_malformed)?;
    let (mut memory, masks) = (lists(&config, &program)?, masks(&config, &program)?);
    let mut model = CycleModel::new(&config, ClockRelation::after_reset(&config));
    model.record();
    let start = Instant::now();
    let entries = |burst: u32| words_of(&memory.read_burst(burst.into()));
    let run = run_program(&mut model, &program.words(), entries, &masks);
    let speed = model.cycle() as f64 / start.elapsed().as_secs_f64();
    let counters = Counters::from_words(&run.counters);
    let stalls = StallBreakdown::new(&counters, config.gemv().ranks())?;
    let figures = figures! {
        "cycles" "cycles" {Cycles} Head: "core cycles from the offer of the first instruction to the end of the last" = run.cycles;
        "malformed" "malformed instructions" {Count} Verbose: "instructions that the core refuses" = run.status.malformed;
        "model_cycles_per_second" "speed of the model" {Real("cycles/s", 0)} Verbose: "cycles that the model computes in a second of wall-clock time"
            = speed;
        "program" "program" {Text} Json: "file of the program" = file.display().to_string();
    };
    let since = |cycle: u64| cycle - run.begin;
    // Excludes the `nop`s that fill the last burst.
    let instructions = rows! { program.code.iter().zip(&run.instructions) => |(code, times)|
        "taken" "taken" {Count} Screen: "cycle in which the instruction leaves the queue" = since(times.taken);
        "started" "started" {Count} Screen: "cycle in which its part receives it; none for an instruction that needs no part" = times.started.map(since);
        "ended" "ended" {Count} Screen: "first cycle in which its part is free again" = times.ended.map(since);
        "text" "instruction" {Text} Screen: "the instruction" = code.to_string();
        "malformed" "malformed" {Text} Screen: "reason why the core refuses it" = code.check(&config).err().map(|malformed| malformed.to_string());
        "refused" "refused" {Count} Screen: "cycle in which the core finds it malformed" = times.refused.map(since);
    };
    let us = run.cycles as f64 * config.core().clock_ps() as f64 / 1e6;
    let ranks = rows! { &run.dram => |rank|
        ..rank;
        "cycles" "clocks" {Count} Screen: "DRAM clocks since reset";
        "active_cycles" "with an open bank" {Count} Screen: "DRAM clocks in which at least one bank is open";
        "precharges" "PRE" {Count} Screen: "PRE commands of one bank";
        "precharges_all" "PREA" {Count} Screen: "PRE commands of all banks";
        "refreshes" "REF" {Count} Screen: "REF commands";
        "banks" "banks" {Data} Json: "ACT, RD and WR commands of each bank (activates, reads, writes), bank_group * 4 + bank";
    };
    let all = run.dram.iter().map(RankActivity::all_banks);
    let (reads, writes) =
        all.fold((0, 0), |(reads, writes), bank| (reads + bank.reads, writes + bank.writes));
    Ok(Report::answer("run cycles", format!("the program takes {} cycles, {us:.2} us", grouped(run.cycles)))
        .reason(stalls.reason())
        .setting(format!(
            "{} on {}, cycle model; {} bursts read from DRAM, {} written",
            file.display(),
            config.name(),
            grouped(reads),
            grouped(writes)
        ))
        .figures(figures)
        .table("instructions", "Instructions, in cycles from the offer of the first", instructions)
        .group(Level::Verbose, ("stalls", "Cycles of the multipliers' groups"), stalls.figures())
        .table_at(Level::Verbose, None, ("dram", "Commands of the ranks"), ranks)
        .data("config", "the configuration (docs/configuration.md)", &config)
        .data("counters", "the monitor's registers (docs/monitor.md)", &counters)
        .data("tools", "versions of the tools", &Tools::new()))
}

#[cfg(feature = "rtl")]
pub fn predict(config: &DesignConfig, program: &Program) -> Result<ProgramCycles> {
    let (mut memory, masks) = (lists(config, program)?, masks(config, program)?);
    let mut model = CycleModel::new(config, ClockRelation::after_reset(config));
    let entries = |burst: u32| words_of(&memory.read_burst(burst.into()));
    Ok(run_program(&mut model, &program.words(), entries, &masks))
}

/// Elements that the program's `select`s find, on which times depend. The functional model computes everything before
/// them. Nothing is computed for a program without a `select`.
fn masks(config: &DesignConfig, program: &Program) -> Result<Vec<u32>> {
    let selects = |code: &Code| match code {
        Code::Instruction(instruction) => matches!(instruction, Instruction::Select { .. }),
        Code::Word(word) => matches!(decode(*word, config), Ok(Instruction::Select { .. })),
    };
    let Some(last) = program.code.iter().rposition(selects) else { return Ok(Vec::new()) };
    // No data are needed after the last select.
    let code = program.code[..=last].to_vec();
    let mut machine = Machine::new(config, SparseMemory::new())?;
    machine.run(&Program { code, ..program.clone() })?;
    let known: Option<Vec<u32>> = machine.masks().iter().copied().collect();
    known.ok_or_else(|| refusal!("a select finds unspecified elements: its cycles cannot be predicted"))
}

/// Data from which the program's lists may be read. No other data change the cycles.
fn lists(config: &DesignConfig, program: &Program) -> Result<SparseMemory> {
    let mut memory = SparseMemory::new();
    for data in &program.data {
        if let Data::U32 { .. } = data {
            write_data(config, data, &mut memory)?;
        }
    }
    Ok(memory)
}
