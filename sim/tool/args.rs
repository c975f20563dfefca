//! Arguments that several subcommands share.
//!
//! clap checks the limits that are constant. Limits that depend on the configuration are checked after it is loaded.

use crate::energy::EnergyArgs;
use crate::output::OutputArgs;
use crate::prelude::*;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ndp_config::{Activation, WeightFormat};
use ndp_sim::core::{Backend, CoreOptions, HostStalls, Recording};
use ndp_sim::ffi::WaveOptions;
use ndp_sim::gemv::{BitFlip, GemvOptions};
use ndp_sim::recordings::{write_text, write_timeline};

/// Largest cycle that an argument may name: its time in ps fits in 64 bits.
pub const MOST_CYCLES: u64 = 1 << 50;

/// Hardware, and options of its simulation.
#[derive(Args, Debug)]
pub struct UnitArgs {
    /// NDP core: preset (hermes, tiny, ...) or path of a TOML file; its model is built first and kept in NDP_CACHE
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Model of the core: its RTL, or the cycle model and the functional model, which take the same cycles and run
    /// about 180 to 1,500 times as fast
    #[arg(long, value_enum, default_value_t = Backend::Rtl)]
    pub backend: Backend,
    /// Chance that the host is not ready to send or receive in a cycle, in percent (0..=99)
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub stalls: u32,
    /// Give up after this number of core cycles without progress (1 or more)
    #[arg(long, value_name = "CYCLES", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..=MOST_CYCLES))]
    pub watchdog: u64,
    /// Write the core's signals to this file; .fst or .vcd selects the format
    #[arg(long, value_name = "FILE")]
    pub waves: Option<PathBuf>,
    /// With --waves: first core cycle to write
    #[arg(long, value_name = "CYCLE", default_value_t = 0, requires = "waves", value_parser = clap::value_parser!(u64).range(0..=MOST_CYCLES))]
    pub wave_start: u64,
    /// With --waves: core cycle at which to stop, exclusive [default: the end of the run]
    #[arg(long, value_name = "CYCLE", requires = "waves", value_parser = clap::value_parser!(u64).range(0..=MOST_CYCLES))]
    pub wave_stop: Option<u64>,
    /// Energy constants.
    #[command(flatten)]
    pub energy: EnergyArgs,
    /// Flip one bit in the hardware, so that the check fails: weight:ROW:COL:BIT, key:ROW:COL:BIT or
    /// result:ROW:BATCH:BIT
    #[arg(long, hide = true)]
    pub flip: Option<BitFlip>,
    #[command(flatten)]
    pub form: OutputArgs,
}

/// Arguments from the words of a command line.
pub fn of_words<A: Args>(words: &[String]) -> Result<A> {
    let command = A::augment_args(clap::Command::new("ndp").no_binary_name(true));
    Ok(A::from_arg_matches(&command.try_get_matches_from(words)?)?)
}

impl UnitArgs {
    pub fn files(&self) -> FileSet {
        let files = FileSet::new().configuration("the configuration", &self.config);
        self.form.files(self.energy.files(files.optional("--waves", self.waves.as_ref())))
    }

    /// Adds the files of recordings. Refuses energy constants that no output shows.
    pub fn files_with(&self, records: &RecordArgs) -> Result<FileSet> {
        self.energy.check_effects(self.form.is_whole() || records.timeline.is_some())?;
        Ok(records.files(self.files()))
    }

    pub fn options(&self, seed: u64) -> GemvOptions {
        let waves = self.waves.as_ref().map(|path| WaveOptions {
            start_cycle: self.wave_start,
            stop_cycle: self.wave_stop,
            ..WaveOptions::new(path)
        });
        let core = CoreOptions {
            stalls: HostStalls::both(self.stalls),
            seed,
            waves,
            watchdog_cycles: self.watchdog.max(1),
            backend: self.backend,
            ..CoreOptions::default()
        };
        GemvOptions { flip: self.flip, ..core.into() }
    }
}

/// Files for recordings.
#[derive(Args, Clone, Debug, Default)]
pub struct RecordArgs {
    /// Write DRAM commands, instructions and host requests to this file as text: one line per event, in order of time
    #[arg(long, value_name = "FILE")]
    pub commands: Option<PathBuf>,
    /// Write a timeline to this file: trace events in JSON for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
}

impl RecordArgs {
    pub fn files(&self, files: FileSet) -> FileSet {
        files.optional("--commands", self.commands.as_ref()).optional("--timeline", self.timeline.as_ref())
    }

    /// Creates the files, which were checked together with the other files of the run.
    pub fn create(&self) -> Result<Records> {
        let create = |path: &Option<PathBuf>| path.as_deref().map(OutputFile::create).transpose();
        Ok(Records { text: create(&self.commands)?, timeline: create(&self.timeline)? })
    }

    pub fn is_asked(&self) -> bool {
        self.commands.is_some() || self.timeline.is_some()
    }
}

#[derive(Debug)]
pub struct Records {
    text: Option<OutputFile>,
    timeline: Option<OutputFile>,
}

impl Records {
    /// Writes and completes the files. The timeline shows power computed with the constants of `energy`.
    pub fn write(self, recording: Option<&Recording>, energy: &EnergyArgs) -> Result<()> {
        let Some(recording) = recording else { return Ok(()) };
        if let Some(file) = self.text {
            file.finish(|out| write_text(recording, out))?;
        }
        if let Some(file) = self.timeline {
            let costs = energy.dram_costs(&recording.config)?;
            file.finish(|out| write_timeline(recording, &costs, out))?;
        }
        Ok(())
    }
}

pub fn weight_format() -> impl TypedValueParser<Value = WeightFormat> {
    let names = PossibleValuesParser::new(WeightFormat::ALL.map(WeightFormat::name));
    names.map(|name| WeightFormat::named(&name).unwrap_or_default())
}

pub fn activation() -> impl TypedValueParser<Value = Activation> {
    let names = PossibleValuesParser::new(Activation::ALL.map(Activation::name));
    names.map(|name| Activation::named(&name).unwrap_or_default())
}

pub fn check_weights(weights: WeightFormat, config: &DesignConfig) -> Result<()> {
    ensure!(
        config.gemv().weight_formats().contains(&weights),
        "{weights} weights need gemv.weight_formats = \"all\", which {} does not have",
        config.name()
    );
    Ok(())
}

pub fn density(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value| (f64::MIN_POSITIVE..=1.0).contains(value));
    value.ok_or_else(|| format!("density {text} must be a number above 0 and at most 1"))
}
