//! `ndp synth power`: power of the logic in windows of a run that wrote waves.
//!
//! `ndp synth --keep` writes the netlists; `ndp_synth::power` computes every number.

use crate::prelude::*;
use ndp_files::NameRule;
use ndp_report::Unit;
use ndp_synth::flow::Library;
use ndp_synth::liberty::Liberty;
use ndp_synth::power::report::WindowReport;
use ndp_synth::power::{self, Energy, Request, Window};
use serde_json::json;

const SRAM_PJ_PER_BIT: f64 = 0.117;
const SRAM_SOURCE: &str = "7 nm SRAM of 8 KB, 7.5 pJ for 64 bits, N. Jouppi et al., ISCA 2021";

/// Compute the power of the logic in a run: mapped netlists, replayed with the waves of the RTL
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  \
    ndp synth --config tiny --block ndp_core --liberty cells.lib --keep netlists\n  \
    ndp gemv --config tiny --rows 16 --cols 64 --waves gemv.fst\n  \
    ndp synth power --netlists netlists --liberty cells.lib --waves gemv.fst --window dot=100..250/1024:MAC")]
pub struct Args {
    /// Folder of the netlists that `ndp synth --keep` wrote
    #[arg(long, value_name = "DIR")]
    netlists: PathBuf,
    /// Cell library (Liberty) to which the netlists are mapped
    #[arg(long)]
    liberty: PathBuf,
    /// Library with the flip-flops of the netlists [default: that of --liberty]
    #[arg(long)]
    liberty_seq: Option<PathBuf>,
    /// Wave file (.fst or .vcd) of the same block
    #[arg(long, value_name = "FILE")]
    waves: PathBuf,
    /// Window of the run (repeatable): cycles START to STOP - 1 of the core's clock, and optionally the work done in
    /// them and its unit [default: all cycles of the waves]
    #[arg(long = "window", value_name = "NAME=START..STOP[/COUNT:UNIT]", value_parser = window)]
    windows: Vec<Window>,
    /// Transition time at the inputs of all cells in ps (above 0)
    #[arg(long, default_value_t = 20.0)]
    slew_ps: f64,
    /// Energy of each bit that a memory macro reads or writes in pJ [default: 0.117, that of a 7 nm SRAM of 8 KB]
    #[arg(long)]
    sram_pj_per_bit: Option<f64>,
    /// Number of instances to replay in parallel [default: number of cores]
    #[arg(long)]
    jobs: Option<usize>,
}

const MW: Unit = Unit::Real("mW", 4);
const PJ: Unit = Unit::Real("pJ", 3);

fn causes(power: &Energy) -> serde_json::Value {
    let Energy { clock, internal, switching, leakage, .. } = power;
    json!({"clock_mw": clock, "internal_mw": internal, "switching_mw": switching, "leakage_mw": leakage, "total_mw": power.total()})
}

fields! { CAUSES
    "total_mw" "total" {MW} Screen: "sum of all causes";
    "clock_mw" "clock" {MW} Screen: "clock pins of flip-flops, inside and their capacitance";
    "internal_mw" "inside" {MW} Screen: "inside of cells when inputs or outputs change";
    "switching_mw" "charge" {MW} Screen: "capacitance of pins that are charged";
    "leakage_mw" "leakage" {MW} Screen: "leakage";
}

fn share(found: &WindowReport, power: &Energy) -> f64 {
    let whole = found.total_mw.total();
    if whole > 0.0 { power.total() / whole } else { 0.0 }
}

/// A module, or an instance of the top with everything below it.
struct Part<'a> {
    found: &'a WindowReport,
    name: &'a str,
    /// For a module: number of instances, and changes per net and cycle.
    counted: Option<(u64, f64)>,
    power: &'a Energy,
}

fn parts<'a>(parts: impl Iterator<Item = Part<'a>>) -> Values {
    let rows = rows! { parts => |Part { found, name, counted, power }|
        ..causes(power);
        "window" "window" {Text} Screen: "window" = found.activity.window.name;
        "part" "part" {Text} Screen: "module, or instance of the top with everything below it" = name;
        "instances" "instances" {Count} Screen: "instances of the module" = counted.map(|(instances, _)| instances);
        "changes" "changes" {Real("", 4)} Screen: "changes of a net in a cycle, mean" = counted.map(|(_, changes)| changes);
        "share" "share" {Share} Screen: "share of the window's power" = share(found, power);
    };
    rows.with(CAUSES)
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    ensure!(
        args.slew_ps.is_finite() && args.slew_ps > 0.0,
        "--slew-ps = {} must be a number above 0",
        args.slew_ps
    );
    if let Some(energy) = args.sram_pj_per_bit {
        ensure!(
            energy.is_finite() && energy >= 0.0,
            "--sram-pj-per-bit = {energy} must be a number of at least 0"
        );
    }
    ensure!(args.jobs != Some(0), "--jobs = 0 must be at least 1");
    let mut names: Vec<&str> = args.windows.iter().map(|window| window.name.as_str()).collect();
    names.sort_unstable();
    if let Some([name, ..]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("--window: two windows have the name '{name}'; give each a name of its own");
    }
    let files = FileSet::new().input("the waves", &args.waves);
    let libraries = [Some(&args.liberty), args.liberty_seq.as_ref()].into_iter().flatten();
    args.form
        .files(libraries.fold(files, |files, library| files.input("a cell library", library)))
        .check()?;
    let comb = Liberty::load(&args.liberty)?;
    let seq = args.liberty_seq.as_deref().map(Liberty::load).transpose()?;
    let library = Library { comb, seq, avoided: Vec::new() };
    let load_ff = library.boundary().map_or(0.0, |(_, load_ff)| load_ff);
    let all = [Window { name: "all".into(), start: 0, stop: None, work: None }];
    let activities = power::run(&Request {
        netlists: &args.netlists,
        library: &library,
        waves: &args.waves,
        windows: if args.windows.is_empty() { &all } else { &args.windows },
        slew_ps: args.slew_ps,
        load_ff,
        jobs: args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
    })?;
    let sram_pj_per_bit = args.sram_pj_per_bit.unwrap_or(SRAM_PJ_PER_BIT);
    let source = if args.sram_pj_per_bit.is_some() { "as given" } else { SRAM_SOURCE };
    let windows: Vec<WindowReport> =
        activities.into_iter().map(|activity| WindowReport::new(activity, sram_pj_per_bit)).collect();
    let sums = rows! { &windows => |found|
        let work = found.activity.window.work.as_ref();
        ..causes(&found.total_mw);
        "window" "window" {Text} Screen: "window" = found.activity.window.name;
        "cycles" "cycles" {Count} Screen: "cycles of the core's clock" = found.activity.cycles;
        "sram_mw" "SRAM" {MW} Screen: "memory macros, by the assumption" = found.sram_mw;
        "work" "work" {Count} Screen: "work that was done" = work.map(|(count, _)| *count);
        "unit" "of" {Text} Screen: "unit of the work" = work.map(|(_, unit)| unit.as_str());
        "pj_per_work" "logic for each" {PJ} Screen: "energy of the logic for each unit of work" = found.pj_per_work;
        "sram_pj_per_work" "SRAM for each" {PJ} Screen: "energy of memory macros for each unit of work" = found.sram_pj_per_work;
    };
    let modules = windows.iter().flat_map(|found| {
        found.activity.modules.iter().map(move |module| {
            let nets = module.nets * module.instances * found.activity.cycles;
            let counted = Some((module.instances, module.changes as f64 / nets.max(1) as f64));
            Part { found, name: &module.module, counted, power: &module.power_mw }
        })
    });
    let blocks = windows.iter().flat_map(|found| {
        let blocks = found.activity.blocks.iter();
        blocks.map(move |block| Part { found, name: &block.block, counted: None, power: &block.power_mw })
    });
    let memories =
        windows.iter().flat_map(|found| found.activity.memories.iter().map(move |one| (found, one)));
    let macros = rows! { memories => |(found, memory)|
        ..memory;
        "window" "window" {Text} Screen: "window" = found.activity.window.name;
        "module" "module" {Text} Screen: "memory macro";
        "instances" "instances" {Count} Screen: "instances";
        "read_bits" "read" {Real("bits/cycle", 1)} Screen: "bits read in a cycle, all instances";
        "written_bits" "written" {Real("bits/cycle", 1)} Screen: "bits written in a cycle, all instances";
    };
    let answer = windows.first().map_or_else(String::new, |found| {
        let Window { name, work, .. } = &found.activity.window;
        let per = found.pj_per_work.zip(work.as_ref());
        let per = per.map_or_else(String::new, |(pj, (_, unit))| format!(", {pj:.3} pJ/{unit}"));
        format!("the logic takes {:.3} mW in window {name}{per}", found.total_mw.total())
    });
    let most = modules.clone().next().map_or_else(String::new, |Part { found, name, power, .. }| {
        format!("{name} takes most of it, {:.1} %", 100.0 * share(found, power))
    });
    let setting = windows.first().map_or_else(String::new, |found| {
        format!("{} at {} ps, {}", found.activity.top, found.activity.period_ps, library.comb.name)
    });
    let figures = figures! {
        "library" "library" {Text} Json: "name of the cell library" = &library.comb.name;
        "slew_ps" "transition time" {Real("ps", 1)} Json: "transition time at all inputs" = args.slew_ps;
        "load_ff" "load" {Real("fF", 2)} Json: "load beyond a module at which tables are read" = load_ff;
        "sram_pj_per_bit" "SRAM" {Real("pJ/bit", 3)} Json: "energy of a bit that a memory macro reads or writes; an assumption" = sram_pj_per_bit;
        "sram_source" "source" {Text} Json: "source of the assumption" = source;
    };
    Ok(Report::answer("synth power", answer)
        .figures(figures)
        .reason(most)
        .setting(setting)
        .note(format!(
            "assumed for SRAM: {sram_pj_per_bit} pJ for each bit read or written, {source}; no leakage"
        ))
        .note("no wires, no clock tree, no glitches")
        .table("windows", "Windows", sums.with(CAUSES))
        .table("modules", "Modules", parts(modules))
        .table_at(Level::Verbose, None, ("blocks", "Instances with everything below them"), parts(blocks))
        .table_at(Level::Verbose, None, ("memories", "Memory macros"), macros)
        .data("run", "windows as the library reports them", &windows))
}

/// Parses `NAME=START..STOP`, optionally with `/COUNT:UNIT` for the work in the window.
fn window(text: &str) -> Result<Window, String> {
    let form = || format!("'{text}' is not NAME=START..STOP or NAME=START..STOP/COUNT:UNIT");
    let (name, rest) = text.split_once('=').ok_or_else(form)?;
    let (cycles, work) = match rest.split_once('/') {
        Some((cycles, work)) => (cycles, Some(work.split_once(':').ok_or_else(form)?)),
        None => (rest, None),
    };
    NameRule::Title.check(name).map_err(|error| format!("the name of a window, {error}"))?;
    let (start, stop) = cycles.split_once("..").ok_or_else(form)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| form());
    let (start, stop) = (number(start)?, if stop.is_empty() { None } else { Some(number(stop)?) });
    if stop.is_some_and(|stop| stop <= start) {
        return Err(format!(
            "the window '{name}' from cycle {start} up to {} is empty",
            stop.unwrap_or_default()
        ));
    }
    let work = work.map(|(count, unit)| Ok::<_, String>((number(count)?, unit.to_owned()))).transpose()?;
    if work.as_ref().is_some_and(|(count, unit)| *count == 0 || unit.is_empty()) {
        return Err(format!("the work of '{name}' needs a count of at least 1 and a unit"));
    }
    Ok(Window { name: name.to_owned(), start, stop, work })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_a_name_cycles_and_perhaps_work() -> Result<(), String> {
        let found = window("dot=10..20/512:MAC")?;
        assert_eq!((found.start, found.stop, found.work), (10, Some(20), Some((512, "MAC".into()))));
        assert_eq!(window("idle=5..")?.stop, None);
        let refused = |text: &str, expected: &str| {
            let error = window(text).err().unwrap_or_default();
            assert!(error.contains(expected), "{text}: {error}");
        };
        for text in ["10..20", "a=10", "a=x..20", "a=1..2/3", "a=1..2/x:MAC"] {
            refused(text, "NAME=START..STOP");
        }
        refused("a=20..20", "is empty");
        refused("a=1..2/0:MAC", "at least 1");
        refused("=5..9", "the name of a window, '' must start with a letter or digit");
        Ok(())
    }
}
