//! `cosim pim-trace`: the timing diagram of a channel that computes and is read, from the commands of the Verilated controller.

use crate::Verdict;
use crate::args::{PimTraceArgs, PimTraceMode};
use ndp_config::HbmConfig;
use ndp_cosim::hbm::diagram::{draw, scenario};
use ndp_files::{FileSet, OutputFile};

/// Runs the job.
pub fn run(args: &PimTraceArgs) -> anyhow::Result<Verdict> {
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
    let picture = draw(&trace, &config, &title, serial.clocks.max(trace.clocks));
    out.finish(|out| out.write_all(picture.as_bytes()))?;
    say!("{}: {} commands in {} clocks", args.out.display(), trace.commands.len(), trace.clocks);
    Ok(Verdict::Agreed)
}
