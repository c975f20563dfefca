//! `cosim pim-trace`: the timing diagram of a channel that computes and is read, from the commands of the Verilated controller.

use crate::Verdict;
use crate::args::{PimTraceArgs, PimTraceMode};
use anyhow::Context;
use ndp_config::HbmConfig;
use ndp_cosim::ffi::designs;
use ndp_cosim::hbm::diagram::{draw, scenario};
use ndp_files::{FileSet, OutputFile};

/// Runs the job.
pub fn run(args: &PimTraceArgs) -> anyhow::Result<Verdict> {
    FileSet::new().output("--out", &args.out).check()?;
    let built =
        || designs().filter(|info| info.block == "pim_controller" && !info.config.starts_with("planted"));
    let info = built().find(|info| info.config == args.memory).with_context(|| {
        let names: Vec<&str> = built().map(|info| info.config).collect();
        format!("no controller was built for the memory `{}`; there are {}", args.memory, names.join(", "))
    })?;
    let config = HbmConfig::from_toml(info.config_toml)?;
    let cut = args.mode == PimTraceMode::Dex;
    anyhow::ensure!(
        config.slicing() || !cut,
        "the banks of `{}` cannot be cut in two, so there is no mode `dex`",
        args.memory
    );
    let out = OutputFile::create(&args.out)?;
    let trace = scenario(info.config, &config, cut)?;
    // Both modes to the same scale.
    let serial = scenario(info.config, &config, false)?;
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
