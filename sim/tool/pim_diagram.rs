//! `ndp generate pim-diagram`: timing diagram of a channel that is read while it computes, from the Verilated
//! controller.

use crate::pim::mode_parser;
use crate::prelude::*;
use ndp_librapim::offloading::Mode;
use ndp_sim::hbm::diagram::{draw, scenario};

/// Draw the timing of a PIM channel that reads and runs MACs, like Fig. 16 of LibraPIM
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp generate pim-diagram --mode serial --out docs/pim-serial.svg\n  \
        ndp generate pim-diagram --mode dex --out docs/pim-dex.svg\n\n\
        The controller in RTL issues the commands. Both modes have the same scale.")]
pub struct Args {
    /// Mode of the banks: whole (serial) or sliced (dex)
    #[arg(long, value_parser = mode_parser(&[Mode::Serial, Mode::Dex]))]
    pub mode: Mode,
    /// Memory: preset (librapim, librapim-small, librapim-tiny, newton-aim) or path of a TOML file
    #[arg(long, default_value = "librapim")]
    pub memory: String,
    /// Write the diagram to this file, as SVG
    #[arg(long)]
    pub out: PathBuf,
}

/// # Errors
/// A memory without the mode; a file that cannot be written.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    let files = FileSet::new().configuration("the memory", &args.memory).output("--out", &args.out);
    args.form.files(files).check()?;
    let config = HbmConfig::load(&args.memory)?;
    let cut = args.mode.sliced();
    ensure!(
        config.slicing() || !cut,
        "mode dex needs sliced banks, but memory '{}' does not slice its banks",
        args.memory
    );
    let out = OutputFile::create(&args.out)?;
    let shown = scenario(&config, cut)?;
    // Both modes have the same scale.
    let serial = scenario(&config, false)?;
    let title = if cut {
        "Banks cut in two compute and are read at once"
    } else {
        "Joined banks compute, then are read"
    };
    let title = format!("{title} ({})", config.name());
    let picture = draw(&shown, &config, &title, serial.clocks.max(shown.clocks))?;
    out.finish(|out| out.write_all(picture.as_bytes()))?;
    let figures = figures! {
        "clocks" "clocks" {Cycles} Verbose: "clocks of 1 ns from the first command to the last data on the bus" = shown.clocks;
        "commands" "commands" {Count} Verbose: "commands of the controller" = shown.commands.len();
        "file" "picture" {Text} Screen: "SVG file that was written" = &args.out;
    };
    let given = rows! { shown.commands.iter() => |(clock, command)|
        "clock" "clock" {Count} Screen: "clock, counted from the first command" = *clock;
        "command" "command" {Text} Screen: "command of the controller" = command.to_string();
    };
    let caption =
        format!("Compared with joined banks, which take {} clocks, at the same scale.", serial.clocks);
    Ok(Report::answer(
        "generate pim-diagram",
        format!("{title}: {} commands in {} clocks", given.count(), shown.clocks),
    )
    .figures(figures)
    .chart(Chart::new("given", title, caption, ChartKind::Drawn(picture)))
    .table_at(Level::Verbose, None, ("given", "Commands"), given))
}
