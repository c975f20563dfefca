//! `ndp pim-trace`: the timing diagram of a channel that computes and is read, from the commands of the Verilated controller.

use crate::Verdict;
use ndp_config::HbmConfig;
use ndp_cosim::hbm::diagram::{draw, scenario};
use ndp_files::{FileSet, OutputFile};
use std::path::PathBuf;

/// How the banks are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PimTraceMode {
    /// Joined: they compute or are read
    Serial,
    /// Cut in two: both at once
    Dex,
}

/// Draw what a PIM channel does while it reads and runs MACs, as LibraPIM's Fig. 16
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:\n  \
        ndp pim-trace --mode serial --out docs/pim-serial.svg\n  \
        ndp pim-trace --mode dex --out docs/pim-dex.svg\n\n\
        The commands are those of the controller in RTL; both modes have the same scale.")]
pub struct Args {
    /// How the banks are used
    #[arg(long)]
    pub mode: PimTraceMode,
    /// Preset (librapim, librapim-small, librapim-tiny, newton-aim) or path of a TOML file
    #[arg(long, default_value = "librapim")]
    pub memory: String,
    /// SVG file to write
    #[arg(long)]
    pub out: PathBuf,
}

/// Runs the job.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    FileSet::new().output("--out", &args.out).check()?;
    let config = HbmConfig::load(&args.memory)?;
    let cut = args.mode == PimTraceMode::Dex;
    anyhow::ensure!(
        config.slicing() || !cut,
        "the banks of `{}` cannot be cut in two, so there is no mode `dex`",
        args.memory
    );
    let out = OutputFile::create(&args.out)?;
    let trace = scenario(&config, cut)?;
    // Both modes to the same scale.
    let serial = scenario(&config, false)?;
    let title = match args.mode {
        PimTraceMode::Serial => "Joined banks compute, then are read",
        PimTraceMode::Dex => "Banks cut in two compute and are read at once",
    };
    let title = format!("{title} ({})", config.name());
    let picture = draw(&trace, &config, &title, serial.clocks.max(trace.clocks))?;
    out.finish(|out| out.write_all(picture.as_bytes()))?;
    say!("{}: {} commands in {} clocks", args.out.display(), trace.commands.len(), trace.clocks);
    Ok(Verdict::Agreed)
}
