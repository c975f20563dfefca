//! `ndp synth fpga`: a block on an FPGA.
//!
//! The library computes every number. This file reads the environment and places files.

use crate::prelude::*;
use crate::synth::from_env;
use ndp_files::TemporaryFolder;
use ndp_synth::fpga::{Fpga, devices};
use ndp_synth::tools;
use std::time::Duration;

/// Place and route a block on a Lattice ECP5 FPGA: resources and clock frequencies
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp synth fpga --config tiny --block rank_port --freq 100\n  \
    ndp synth fpga --block async_fifo_sram --map-only --keep target/fpga\n\n\
    The block is placed without pins, because the core has more pins than a package. The exit code is 1 if a clock misses the target.")]
pub struct Args {
    /// Configuration of the block: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, default_value = "tiny")]
    config: String,
    /// Block; `ndp synth --list` lists all
    #[arg(long, default_value = "rank_port")]
    block: String,
    /// Device: ecp5-25k, ecp5-45k or ecp5-85k
    #[arg(long, default_value = "ecp5-85k")]
    device: String,
    /// Target frequency of every clock in MHz (1 to 1000)
    #[arg(long, value_name = "MHZ", default_value_t = 50.0)]
    freq: f64,
    /// Seed of the placement
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Only map with Yosys: print cells by type, and write the netlist to --keep
    #[arg(long)]
    map_only: bool,
    /// Time limit of one tool run in seconds (1 or more)
    #[arg(long, default_value_t = 3600)]
    timeout_s: u64,
    /// Keep the netlist (netlist.v), scripts and logs in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// # Errors
/// Unusable arguments; missing or failing tools.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    ensure!(
        args.freq.is_finite() && (1.0..=1000.0).contains(&args.freq),
        "--freq = {} must be from 1 to 1000",
        args.freq
    );
    ensure!(args.timeout_s > 0, "--timeout-s = 0 must be at least 1");
    ensure!(
        devices().contains(&args.device.as_str()),
        "--device {} is unknown; expected one of {}",
        args.device,
        devices().join(", ")
    );
    if let Some(folder) = &args.keep {
        let files = FileSet::new().configuration("the configuration", &args.config);
        let names = ["design.v", "netlist.json", "netlist.v", "stat.json", "report.json"];
        let logs = ["yosys.log", "yosys.out", "nextpnr.log"];
        let outputs = names.iter().chain(&logs).map(|name| folder.join(name));
        outputs.fold(files, |files, path| files.output("--keep", path)).check()?;
    }
    let limit = Duration::from_secs(args.timeout_s);
    let nextpnr = if args.map_only { None } else { Some(tools::nextpnr(from_env("NEXTPNR_ECP5"), limit)?) };
    let yosys = tools::yosys(from_env("YOSYS"), limit)?;
    let fpga = Fpga { yosys, nextpnr, device: args.device.clone(), mhz: args.freq, seed: args.seed, limit };
    let temporary = TemporaryFolder::create("fpga-").context("no temporary directory")?;
    let folder = args.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create '{}'", folder.display()))?;
    let found = fpga.run(&args.config, &args.block, folder)?;
    let clocks = rows! { &found.clocks => |clock|
        ..clock;
        "clock" "clock" {Text} Screen: "port of the block";
        "mhz" "reaches" {Real("MHz", 1)} Screen: "highest frequency";
        "target_mhz" "target" {Real("MHz", 1)} Screen: "frequency that was aimed at";
        "path" "" {Data} Json: "longest path: cells, and the ns that each adds";
    };
    let usage = rows! { &found.usage => |resource|
        ..resource;
        "resource" "resource" {Text} Screen: "resource of the device";
        "used" "used" {Count} Screen: "number that the block uses";
        "available" "of" {Count} Screen: "number on the device";
    };
    let cells = rows! { &found.cells => |(cell, count)|
        "cell" "cell" {Text} Screen: "type of cells" = cell;
        "count" "count" {Count} Screen: "number of cells" = count;
    };
    let paths = found.clocks.iter().flat_map(|one| one.path.iter().map(move |step| (&one.clock, step)));
    let paths = rows! { paths => |(clock, step)|
        ..step;
        "clock" "clock" {Text} Screen: "port of the block" = clock;
        "ns" "time" {Real("ns", 2)} Screen: "time that the step takes";
        "kind" "kind" {Text} Screen: "clk-to-q, logic, routing or setup";
        "to" "to" {Text} Screen: "cell that the step leads to";
    };
    let slowest =
        found.clocks.iter().min_by(|a, b| (a.mhz / a.target_mhz).total_cmp(&(b.mhz / b.target_mhz)));
    let verdict = match slowest {
        Some(clock) => format!("{} reaches {:.1} MHz of {:.1} MHz", clock.clock, clock.mhz, clock.target_mhz),
        None => format!("{} cells, not placed", found.cells.values().sum::<u64>()),
    };
    let tools = found
        .nextpnr
        .as_ref()
        .map_or_else(|| found.yosys.clone(), |nextpnr| format!("{}, {nextpnr}", found.yosys));
    let level = if found.usage.is_empty() { Level::Screen } else { Level::Verbose };
    Ok(Report::checked("synth fpga", found.meets(), verdict)
        .setting(format!("{} {} on {} ({tools})", found.config, found.block, found.device))
        .table("clocks", "Clocks", clocks)
        .table("usage", "Resources", usage)
        .table_at(level, None, ("cells", "Cells"), cells)
        .table_at(Level::Verbose, None, ("paths", "Longest paths"), paths)
        .data("run", "the run as the library reports it", &found))
}
