//! `ndp cycles`: what a program takes, by the cycle model alone.
//!
//! Nothing is simulated and nothing is compared: that the model agrees with the hardware is for the tests to show.

use crate::breakdown::StallBreakdown;
use crate::program::assemble;
use crate::tools::{Tools, grouped};
use ndp_config::DesignConfig;
use ndp_cycles::{
    BankCounts, ClockRelation, CycleModel, InstructionTimes, ProgramCycles, RankActivity, run_program,
};
use ndp_isa::Counters;
use ndp_isa::{Code, Data, Instruction, Program, decode};
use ndp_layout::words_of;
use ndp_machine::{Machine, Memory, SparseMemory, write_data};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Predict the cycles of a program with the cycle model, without data and without the hardware
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp cycles testbenches/programs/ffn.asm --config tiny\n  \
        ndp cycles program.asm --json\n\n\
        The cycles are those of `ndp run` without stalls. Of the program's data only the lists matter (.u32), and,\n\
        if it has a select, all that this depends on: the functional model computes it.")]
pub struct Args {
    /// Program: instructions and directives, one per line
    #[arg(value_name = "FILE.asm")]
    pub file: PathBuf,
    /// Preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Take malformed instructions too; the core refuses them
    #[arg(long)]
    pub allow_malformed: bool,
    /// Print one JSON object on standard output instead of text
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
    program: String,
    cycles: u64,
    instructions: Vec<Row>,
    counters: Counters,
    stalls: StallBreakdown,
    dram: Vec<RankActivity>,
    malformed: u32,
    model_cycles_per_second: f64,
    tools: Tools,
}

/// An instruction; cycles count from the offer of the first one.
#[derive(Debug, Serialize)]
struct Row {
    text: String,
    /// Why the core refuses it.
    malformed: Option<String>,
    #[serde(flatten)]
    times: InstructionTimes,
}

/// Runs the job.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Args { file, config, allow_malformed, json } = args;
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
    let rows = rows(&program, &config, &run);
    if *json {
        let report = Report {
            command: "cycles",
            config: &config,
            program: file.display().to_string(),
            cycles: run.cycles,
            instructions: rows,
            counters,
            stalls,
            dram: run.dram,
            malformed: run.status.malformed,
            model_cycles_per_second: speed,
            tools: Tools::new(),
        };
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("{}/ndp_core: {}, cycle model", config.name(), file.display());
        print(&rows, &run, &stalls, speed);
    }
    Ok(())
}

/// The cycles of a program, to be told how long the hardware will take for it.
#[cfg(feature = "rtl")]
pub fn predict(config: &DesignConfig, program: &Program) -> anyhow::Result<ProgramCycles> {
    let (mut memory, masks) = (lists(config, program)?, masks(config, program)?);
    let mut model = CycleModel::new(config, ClockRelation::after_reset(config));
    let entries = |burst: u32| words_of(&memory.read_burst(burst.into()));
    Ok(run_program(&mut model, &program.words(), entries, &masks))
}

/// The elements that the program's `select`s find, for which the functional model has to compute all that comes before: times depend
/// on them. Nothing is computed for a program without one.
fn masks(config: &DesignConfig, program: &Program) -> anyhow::Result<Vec<u32>> {
    let selects = |code: &Code| match code {
        Code::Instruction(instruction) => matches!(instruction, Instruction::Select { .. }),
        Code::Word(word) => matches!(decode(*word, config), Ok(Instruction::Select { .. })),
    };
    let Some(last) = program.code.iter().rposition(selects) else { return Ok(Vec::new()) };
    // What follows the last one needs no data.
    let code = program.code[..=last].to_vec();
    let mut machine = Machine::new(config, SparseMemory::new())?;
    machine.run(&Program { code, ..program.clone() })?;
    let known: Option<Vec<u32>> = machine.masks().iter().copied().collect();
    known.ok_or_else(|| refusal!("a select finds unspecified elements: its cycles cannot be predicted"))
}

/// What the program's lists may be read from. Other data have no effect on the cycles.
fn lists(config: &DesignConfig, program: &Program) -> anyhow::Result<SparseMemory> {
    let mut memory = SparseMemory::new();
    for data in &program.data {
        if let Data::U32 { .. } = data {
            write_data(config, data, &mut memory)?;
        }
    }
    Ok(memory)
}

/// The program's instructions with their times, the `nop`s that fill the last burst left out.
fn rows(program: &Program, config: &DesignConfig, run: &ProgramCycles) -> Vec<Row> {
    let since = |cycle: u64| cycle - run.begin;
    let row = |(code, times): (&Code, &InstructionTimes)| Row {
        text: code.to_string(),
        malformed: code.check(config).err().map(|malformed| malformed.to_string()),
        times: InstructionTimes {
            taken: since(times.taken),
            started: times.started.map(since),
            ended: times.ended.map(since),
            refused: times.refused.map(since),
        },
    };
    program.code.iter().zip(&run.instructions).map(row).collect()
}

fn print(rows: &[Row], run: &ProgramCycles, stalls: &StallBreakdown, speed: f64) {
    say!("{:>10} {:>10} {:>10}", "taken", "started", "ended");
    for Row { text, malformed, times } in rows {
        let cycle = |cycle: Option<u64>| cycle.map_or_else(|| "-".to_owned(), grouped);
        let refused = malformed.as_ref().map_or_else(String::new, |reason| format!("   malformed: {reason}"));
        let (started, ended) = (cycle(times.started), cycle(times.ended));
        say!("{:>10} {started:>10} {ended:>10}   {text}{refused}", grouped(times.taken));
    }
    for (rank, of) in run.dram.iter().enumerate() {
        let (BankCounts { reads, writes, activates }, refreshes) = (of.all_banks(), of.refreshes);
        say!(
            "rank {rank}             {} reads, {} writes, {} activates, {refreshes} refreshes",
            grouped(reads),
            grouped(writes),
            grouped(activates)
        );
    }
    say!("cycles             {}", grouped(run.cycles));
    stalls.print();
    say!("model              {:.1} million cycles per second", speed / 1e6);
}
