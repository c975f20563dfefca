//! `ndp fpga`: a block on an FPGA.
//!
//! What decides a number is in the library; this file reads the environment and places files.

use crate::synth::from_env;
use crate::verdict::Verdict;
use anyhow::{Context, Result};
use ndp_files::{FileSet, TemporaryFolder, print, say};
use ndp_synth::fpga::{Fpga, devices};
use ndp_synth::tools;
use std::path::PathBuf;
use std::time::Duration;

/// Place and route a block on an FPGA of Lattice's ECP5 family: what it uses, and how fast its clocks are
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp fpga --config tiny --block rank_port --freq 100\n  \
    ndp fpga --block async_fifo_sram --map-only --keep target/fpga\n\n\
    The block is placed without pins, because the core has more than a package. The exit code is 1 if a clock misses the target.")]
pub struct Args {
    /// Preset, or path of a configuration ending in .toml
    #[arg(long, default_value = "tiny")]
    config: String,
    /// Block (see `ndp synth --list`)
    #[arg(long, default_value = "rank_port")]
    block: String,
    /// Device: ecp5-25k, ecp5-45k, ecp5-85k
    #[arg(long, default_value = "ecp5-85k")]
    device: String,
    /// Frequency in MHz at which every clock is aimed
    #[arg(long, value_name = "MHZ", default_value_t = 50.0)]
    freq: f64,
    /// Seed of the placement
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Map with Yosys only: cells by type, and the netlist in --keep
    #[arg(long)]
    map_only: bool,
    /// Limit of one tool run in seconds
    #[arg(long, default_value_t = 3600)]
    timeout_s: u64,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Keep the netlist (netlist.v), scripts and logs in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Runs the job.
pub fn run(args: &Args) -> Result<Verdict> {
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
    let report = fpga.run(&args.config, &args.block, folder)?;
    if args.json {
        print(&report.json()?);
    } else {
        say!("{}", report.table());
    }
    Ok(if report.meets() { Verdict::Agreed } else { Verdict::Differed })
}
