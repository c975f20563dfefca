//! `ndp synth`: area and delay of a block.
//!
//! The library computes every number. This file reads the environment, shows progress and places files.

use crate::prelude::*;
use clap::ValueEnum;
use ndp_files::{NameRule, TemporaryFolder};
use ndp_report::Field;
use ndp_synth::flow::{Flow, Library};
use ndp_synth::formal::Prover;
use ndp_synth::hierarchy::roll_up;
use ndp_synth::liberty::{Family, Liberty};
use ndp_synth::report::{LibraryInfo, Report as Synthesis, SramAssumption};
use ndp_synth::script::{self, Recipe};
use ndp_synth::{source, tools};
use std::time::Duration;

/// Default folder of reports, from the root of the repository.
const REPORTS: &str = "synth/reports";
const SRAM_UM2_PER_BIT: f64 = 0.027;
const SRAM_SOURCE: &str = "7 nm high-density 6T cell, S.-Y. Wu et al., IEDM 2016";

/// Compute area and delay of a generated block: Yosys per module, summed up the hierarchy
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp synth --config tiny --block multiplier_unit --flatten\n  \
    ndp synth --block host_port --flatten --liberty cells.lib --sta")]
pub struct Args {
    /// Configuration of the block: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Block to synthesise; ndp_core is the whole core, --list lists all
    #[arg(long, default_value = "gemv_unit")]
    block: String,
    /// Cell library (Liberty); without it, generic gates and transistors only
    #[arg(long)]
    liberty: Option<PathBuf>,
    /// Library with the flip-flops to use [default: that of --liberty]
    #[arg(long, requires = "liberty")]
    liberty_seq: Option<PathBuf>,
    /// Do not use cells whose name contains this text (repeatable)
    #[arg(long, value_name = "PART", requires = "liberty")]
    dont_use: Vec<String>,
    /// Clock period in ps (1 or more)
    #[arg(long, default_value_t = 1000.0)]
    period_ps: f64,
    /// Recipe with which ABC maps: `best` tries all and keeps the smallest result that meets the timing (of OpenSTA
    /// with --sta, otherwise of ABC); `needed` uses `balanced`, and `best` for modules that miss the timing
    #[arg(long, default_value = "balanced")]
    recipe: RecipeArg,
    /// Synthesise the block as a whole, with memories as black boxes, to show paths that cross modules
    #[arg(long)]
    flatten: bool,
    /// Gate the clock of registers of 8 bits or more that have an enable, with gates made of the library's cells
    #[arg(long, requires = "liberty")]
    clock_gating: bool,
    /// Give the clock gates a test enable for scan: an input `test_enable_i` of the block that clocks every register
    #[arg(long, requires = "clock_gating")]
    test_enable: bool,
    /// Time the mapped netlists with OpenSTA
    #[arg(long, requires = "liberty")]
    sta: bool,
    /// Area of an SRAM bit cell in um2 (above 0) [default: 0.027 for ASAP7 and without a library, otherwise none]
    #[arg(long)]
    sram_um2_per_bit: Option<f64>,
    /// Share of a memory macro's area that is bit cells (above 0, at most 1)
    #[arg(long, default_value_t = 0.5)]
    sram_efficiency: f64,
    /// Number of modules to synthesise in parallel [default: number of cores]
    #[arg(long)]
    jobs: Option<usize>,
    /// Time limit of one tool run in seconds (1 or more)
    #[arg(long, default_value_t = 900)]
    timeout_s: u64,
    /// Write the Markdown report to this file [default:
    /// synth/reports/<config>-<block>[-flat][-gated[-test]][-<library>].md]
    #[arg(long)]
    report: Option<PathBuf>,
    /// Keep scripts, logs and netlists in this directory
    #[arg(long)]
    keep: Option<PathBuf>,
    /// List presets and blocks
    #[arg(long)]
    list: bool,
}

const SCREEN: usize = 20;

fields! { TOTAL
    "area_um2" "logic" {Real("um2", 1)} Screen: "area of all cells; 0 without a library";
    "cells" "cells" {Count} Screen: "cells of the library";
    "flip_flops" "flip-flops" {Count} Screen: "flip-flops of the library";
    "generic.cells" "generic gates" {Count} Screen: "gates without a library";
    "generic.flip_flops" "generic flip-flops" {Count} Screen: "flip-flops without a library";
    "generic.transistors" "transistors" {Count} Screen: "transistors of static CMOS gates, 16 to a flip-flop";
    "memory_bits" "memory macros" {Real("bits", 0)} Screen: "bits of memory macros";
}

fields! { MODULE
    "module" "module" {Text} Screen: "module, parents first";
    "instances" "instances" {Count} Screen: "instances in the block";
    "share_percent" "%" {Real("", 1)} Screen: "share of the logic, by area or without a library by transistors";
    "own" "" {Data} Json: "an instance without its children: generic gates, cells of the library and timing; null for a memory macro";
    "memory" "" {Data} Json: "words and bits of a word of a memory macro";
    "total" "" {Data} Json: "all instances without their children";
    "with_children" "" {Data} Json: "an instance and everything below it";
}

fields! { MAPPED
    "total.area_um2" "all um2" {Real("", 1)} Screen: "area of all instances without their children";
    "own.mapped.area_um2" "own um2" {Real("", 2)} Screen: "area of an instance without its children";
    "own.mapped.delay_ps" "ABC ps" {Real("", 0)} Screen: "longest combinational path";
    "own.mapped.flip_flops" "own FF" {Count} Screen: "flip-flops of an instance without its children";
    "own.mapped.cells" "own cells" {Count} Screen: "cells of an instance without its children";
    "with_children.area_um2" "with children um2" {Real("", 1)} Screen: "area of an instance and everything below it";
    "own.mapped.recipe" "recipe" {Text} Verbose: "recipe of the smallest result that meets the timing";
    "own.generic.transistors" "own transistors" {Count} Verbose: "transistors of an instance without its children";
    "total.generic.transistors" "all transistors" {Count} Verbose: "transistors of all instances without their children";
}

fields! { GENERIC
    "own.generic.flip_flops" "own FF" {Count} Screen: "flip-flops of an instance without its children";
    "own.generic.cells" "own gates" {Count} Screen: "gates of an instance without its children";
    "own.generic.transistors" "own transistors" {Count} Screen: "transistors of an instance without its children";
    "total.generic.transistors" "all transistors" {Count} Screen: "transistors of all instances without their children";
    "with_children.generic.transistors" "with children" {Count} Screen: "transistors of an instance and everything below it";
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RecipeArg {
    Balanced,
    Area,
    Speed,
    Yosys,
    Best,
    Needed,
}

impl RecipeArg {
    fn recipes(self) -> Vec<Recipe> {
        match self {
            Self::Balanced | Self::Needed => vec![Recipe::Balanced],
            Self::Area => vec![Recipe::Area],
            Self::Speed => vec![Recipe::Speed],
            Self::Yosys => vec![Recipe::Yosys],
            Self::Best => Recipe::ALL.to_vec(),
        }
    }

    fn fallback(self) -> Vec<Recipe> {
        match self {
            Self::Needed => Recipe::ALL.into_iter().filter(|recipe| *recipe != Recipe::Balanced).collect(),
            _ => Vec::new(),
        }
    }
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    if args.list {
        let (presets, memories) = (ndp_config::DesignConfig::PRESETS, ndp_config::HbmConfig::PRESETS);
        let blocks = source::blocks();
        let answer = format!("{} blocks of {} configurations", blocks.len(), presets.len() + memories.len());
        let names = figures! {
            "presets" "presets" {Text} Screen: "configurations of the core" = &presets;
            "memories" "memories, for pim_* blocks" {Text} Screen: "configurations of HBM-PIM" = &memories;
            "blocks" "blocks" {Text} Screen: "blocks that can be synthesised" = blocks;
        };
        return Ok(Report::answer("synth", answer).figures(names));
    }
    let (synthesis, file) = synthesise(args)?;
    let path = file.path().to_owned();
    file.finish(|out| out.write_all(synthesis.markdown().as_bytes()))?;
    Ok(report(&synthesis, &path))
}

fn report(synthesis: &Synthesis, path: &Path) -> Report {
    let Synthesis { config, block, library, rollup, sram, .. } = synthesis;
    let total = &rollup.total;
    let logic = match library {
        Some(library) => format!(
            "takes {} of {}: {} cells, {} flip-flops",
            area_of(total.area_um2),
            library.name,
            grouped(total.cells),
            grouped(total.flip_flops)
        ),
        None => format!(
            "has {} transistors: {} gates, {} flip-flops",
            grouped(total.generic.transistors),
            grouped(total.generic.cells),
            grouped(total.generic.flip_flops)
        ),
    };
    let memory = match (total.memory_bits, synthesis.sram_area_um2) {
        (0, _) => String::new(),
        (bits, None) => format!("; memory macros: {} bits", grouped(bits)),
        (bits, Some(area)) => {
            format!("; memory macros: {} bits, about {} (assumed)", grouped(bits), area_of(area))
        }
    };
    let largest = synthesis.logic().max_by(|a, b| a.share_percent.total_cmp(&b.share_percent));
    let largest = largest.map(|row| format!("{} is {:.1} % of the logic.", row.module, row.share_percent));
    let plain = |line: String| line.replace(['*', '`'], "");
    let notes = synthesis.caveats().into_iter().chain(synthesis.memory_area()).map(plain);
    let method = synthesis.method().into_iter().filter(|line| !line.starts_with("Memory: "));
    let macros = rollup.rows.iter().filter_map(|row| Some((row, row.memory?)));
    let macros = rows! { macros => |(row, shape)|
        "module" "memory macro" {Text} Screen: "module" = &row.module;
        "instances" "instances" {Count} Screen: "instances in the block" = row.instances;
        "words" "words" {Count} Screen: "words" = shape.depth;
        "width" "bits each word" {Count} Screen: "bits of a word" = shape.width;
        "bits" "bits in all" {Count} Screen: "bits of all instances" = row.total.memory_bits;
        "area_um2" "um2 (assumed)" {Real("", 1)} Screen: "area of all instances, by the assumption" = sram.area_um2(row.total.memory_bits);
    };
    let timed = synthesis
        .logic()
        .filter_map(|row| Some((row.module.as_str(), row.own.as_ref()?.mapped.as_ref()?.timing.as_ref()?)));
    let slacks = timed.flat_map(|(module, timing)| {
        [("all", &timing.worst), ("register to register", &timing.registers)]
            .into_iter()
            .filter_map(move |(paths, path)| Some((module, paths, path.as_ref()?)))
    });
    let slacks = rows! { slacks => |(module, paths, path)|
        ..path;
        "module" "module" {Text} Screen: "module" = module;
        "paths" "paths" {Text} Screen: "all, or register to register" = paths;
        "slack_ps" "slack" {Real("ps", 1)} Screen: "period, or the part of it available to the path, minus arrival and setup";
        "min_period_ps" "shortest period" {Real("ps", 1)} Screen: "shortest period at which the path has no negative slack";
        "from" "from" {Text} Screen: "register or port where the path starts";
        "to" "to" {Text} Screen: "register or port where the path ends";
        "arrival_ps" "arrival" {Real("ps", 1)} Verbose: "arrival after the clock edge, clock-to-Q included";
    };
    let level = if rollup.rows.len() > SCREEN { Level::Verbose } else { Level::Screen };
    let columns = [MODULE, if library.is_some() { MAPPED } else { GENERIC }].concat();
    // Without a library, nothing is mapped, and only JSON contains the zeros.
    let is_mapped =
        |field: &Field| library.is_some() || field.key.contains("generic") || field.key == "memory_bits";
    let hidden = |field: &Field| if is_mapped(field) { *field } else { field.at(Level::Json) };
    let total_fields: Vec<Field> = TOTAL.iter().map(hidden).collect();
    let report = Report::answer("synth", format!("{block} of {config} {logic}{memory}"))
        .reason(largest.into_iter().chain(synthesis.slowest()).join(" "))
        .setting(plain(method.collect::<Vec<_>>().join(" ")));
    notes
        .fold(report, Report::note)
        .figures(figures! {
            ..synthesis;
            "report" "report" {Text} Screen: "Markdown file that was written" = path;
            "sram_area_um2" "memory macros" {Real("um2", 1)} Verbose: "area of all memory macros, by the assumption";
            "config" "configuration" {Text} Verbose: "configuration";
            "block" "block" {Text} Verbose: "block";
            "flattened" "as a whole" {Text} Verbose: "whether the block was synthesised as a whole";
            "period_ps" "period" {Real("ps", 0)} Verbose: "clock period";
            "abc_target_ps" "ABC's target" {Real("ps", 0)} Verbose: "target of ABC";
            "recipes" "recipes" {Text} Verbose: "recipes that were tried";
            "fallback" "fallback" {Text} Json: "recipes for modules that miss the target";
            "yosys" "Yosys" {Text} Verbose: "version of Yosys";
            "opensta" "OpenSTA" {Text} Verbose: "version of OpenSTA, if it ran";
            "library" "" {Data} Json: "cell library: name, files, time unit, driving cell, load, cells left out; null without one";
            "sram" "" {Data} Json: "assumption for memory macros: um2 of a bit cell, part of a macro that is bit cells, source";
        })
        .group(Level::Verbose, ("total", "The whole block"), (&total_fields, total))
        .table_at(level, None, ("rows", "Modules"), (&columns, &rollup.rows))
        .table_at(level, None, ("memories", "Memory macros"), macros)
        .table_at(level, None, ("timing", "Timing (OpenSTA)"), slacks)
}

/// The area in a unit that needs few digits.
fn area_of(um2: f64) -> String {
    if um2 < 1e4 { format!("{um2:.1} um2") } else { format!("{:.3} mm2", um2 / 1e6) }
}

fn synthesise(args: &Shown<Args>) -> Result<(Synthesis, OutputFile)> {
    ensure!(
        args.period_ps.is_finite() && args.period_ps >= 1.0,
        "--period-ps = {} must be at least 1",
        args.period_ps
    );
    ensure!(
        args.sram_efficiency > 0.0 && args.sram_efficiency <= 1.0,
        "--sram-efficiency = {} must be above 0 and at most 1",
        args.sram_efficiency
    );
    if let Some(area) = args.sram_um2_per_bit {
        ensure!(area.is_finite() && area > 0.0, "--sram-um2-per-bit = {area} must be a number above 0");
    }
    ensure!(args.jobs != Some(0), "--jobs = 0 must be at least 1");
    ensure!(args.timeout_s > 0, "--timeout-s = 0 must be at least 1");
    let (config, mut hierarchy) = source::block(&args.config, &args.block)?;
    if args.flatten {
        hierarchy = hierarchy.flattened();
    }
    let flow = flow(args)?;
    // Create the file before minutes of synthesis.
    let file = report_file(args, &config, &flow)?;
    let temporary = TemporaryFolder::create("synth-").context("no temporary directory")?;
    let folder = args.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create '{}'", folder.display()))?;

    let modules = hierarchy.units.iter().filter(|unit| unit.memory.is_none()).count();
    let progress = Progress::new(modules as u64, "modules");
    let figures = flow.run(&hierarchy, folder, &|_| progress.add(1));
    drop(progress);
    let rollup = roll_up(&hierarchy, figures?);

    let sram = sram(args, flow.library.as_ref());
    let synthesis = Synthesis {
        config,
        block: args.block.clone(),
        command: command(args),
        flattened: args.flatten,
        yosys: flow.yosys.version.clone(),
        opensta: flow.sta.as_ref().map(|tool| tool.version.clone()),
        library: flow.library.as_ref().map(|library| info(args, library)),
        recipes: flow.recipes.clone(),
        fallback: flow.fallback.clone(),
        period_ps: flow.period_ps,
        abc_target_ps: flow.target_ps(),
        sram_area_um2: sram.area_um2(rollup.total.memory_bits),
        sram,
        rollup,
    };
    Ok((synthesis, file))
}

/// The file for the report, in a folder that is created. It must not be an input.
fn report_file(args: &Shown<Args>, config: &str, flow: &Flow) -> Result<OutputFile> {
    let library = flow.library.as_ref().map(|library| library.comb.name.as_str());
    if let (None, Some(library)) = (&args.report, library) {
        let why = "the library's name is part of the report's file name; choose another file with --report";
        NameRule::Word.check(library).context(why)?;
    }
    let name = Synthesis::file_name(config, &args.block, args.flatten, flow.clock_gate.as_ref(), library);
    let path = args.report.clone().unwrap_or_else(|| Path::new(REPORTS).join(name));
    let mut files = FileSet::new().configuration("the configuration", &args.config);
    for library in args.liberty.iter().chain(&args.liberty_seq) {
        files = files.input("a cell library", library);
    }
    if let Some(folder) = &args.keep {
        files = kept(files, args, folder);
    }
    args.form.files(files).output("--report", &path).check()?;
    let folder = path.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot write '{}'", path.display()))?;
    OutputFile::create(&path).with_context(|| format!("cannot write '{}'", path.display()))
}

/// Adds the files that `--keep` writes: libraries and constraints, and a folder for each module.
fn kept(files: FileSet, args: &Args, folder: &Path) -> FileSet {
    let libraries = args.liberty.iter().flat_map(|_| [script::COMB_LIB, script::CONSTRAINTS]);
    let names = libraries.chain(args.liberty_seq.iter().map(|_| script::SEQ_LIB));
    let files = names.fold(files, |files, name| files.output("--keep", folder.join(name)));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| is_of_module(path)).fold(files, |files, path| files.output_folder("--keep", path))
}

/// Whether the folder belongs to a module: its name is `m` and a number.
fn is_of_module(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix('m'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn flow(args: &Args) -> Result<Flow> {
    let limit = Duration::from_secs(args.timeout_s);
    let library = match &args.liberty {
        None => None,
        Some(path) => {
            let comb = Liberty::load(path)?;
            let seq = args.liberty_seq.as_deref().map(Liberty::load).transpose()?;
            let avoided = comb.family().avoided().iter().map(|part| (*part).to_owned());
            let avoided = avoided.chain(args.dont_use.iter().cloned()).collect();
            Some(Library { comb, seq, avoided })
        }
    };
    let clock_gate = match &library {
        Some(library) if args.clock_gating => {
            Some(library.family().clock_gate(args.test_enable).ok_or_else(|| {
                refusal!(
                    "--clock-gating: no clock gate is known for the library '{}', only for ASAP7 and sky130",
                    library.comb.name
                )
            })?)
        }
        _ => None,
    };
    Ok(Flow {
        yosys: tools::yosys(from_env("YOSYS"), limit)?,
        sta: if args.sta { Some(tools::sta(from_env("STA"), limit)?) } else { None },
        clock_gate,
        library,
        recipes: args.recipe.recipes(),
        fallback: args.recipe.fallback(),
        period_ps: args.period_ps,
        jobs: args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
        limit,
    })
}

/// The tools for proofs. `limit` applies to each run.
pub fn prover(limit: Duration) -> Result<Prover> {
    let yosys = tools::yosys(from_env("YOSYS"), limit)?;
    Ok(Prover { abc: tools::abc(from_env("ABC"), &yosys, limit)?, yosys, limit })
}

/// The program that an environment variable names. An empty variable counts as unset.
pub fn from_env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn sram(args: &Args, library: Option<&Library>) -> SramAssumption {
    let fits = library.is_none_or(|library| library.family() == Family::Asap7);
    let (um2_per_bit, source) = match args.sram_um2_per_bit {
        Some(given) => (Some(given), "as given"),
        None if fits => (Some(SRAM_UM2_PER_BIT), SRAM_SOURCE),
        None => (None, "no figure fits this library, give one with --sram-um2-per-bit"),
    };
    SramAssumption { um2_per_bit, array_efficiency: args.sram_efficiency, source: source.into() }
}

fn info(args: &Args, library: &Library) -> LibraryInfo {
    let boundary = library.boundary();
    LibraryInfo {
        name: library.comb.name.clone(),
        file: args.liberty.as_deref().map(file_name).unwrap_or_default(),
        seq_file: args.liberty_seq.as_deref().map(file_name),
        time_unit_ps: library.comb.time_unit_ps,
        driving_cell: boundary.map(|(cell, _)| cell.to_owned()),
        load_ff: boundary.map(|(_, load)| load),
        avoided: library.avoided.clone(),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The command that made a report, with file names instead of paths, and without options that change no number.
fn command(args: &Args) -> String {
    let config =
        if args.config.ends_with(".toml") { file_name(Path::new(&args.config)) } else { args.config.clone() };
    let mut text = format!("cargo run --release --bin ndp -- synth --config {config} --block {}", args.block);
    let mut add = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &format!(" {flag} {value}");
        }
    };
    add("--liberty", args.liberty.as_deref().map(file_name));
    add("--liberty-seq", args.liberty_seq.as_deref().map(file_name));
    for part in &args.dont_use {
        add("--dont-use", Some(part.clone()));
    }
    add("--period-ps", Some(args.period_ps.to_string()));
    let recipe = args.recipe.to_possible_value().map(|value| value.get_name().to_owned());
    add("--recipe", recipe.filter(|name| name != "balanced"));
    add("--sram-um2-per-bit", args.sram_um2_per_bit.map(|area| area.to_string()));
    add("--sram-efficiency", Some(args.sram_efficiency.to_string()).filter(|text| text != "0.5"));
    let flags = [
        (args.flatten, " --flatten"),
        (args.clock_gating, " --clock-gating"),
        (args.test_enable, " --test-enable"),
        (args.sta, " --sta"),
    ];
    text + &flags.iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect::<String>()
}
