//! The command line: options with their units, limits and defaults.
//!
//! What clap can check alone is checked here; limits that depend on the configuration are checked where it is known.

use clap::{Args, Parser, Subcommand};
use ndp_cosim::ffi::WaveOptions;
use ndp_cosim::gemv::{GemvOptions, Plant};
use ndp_cosim::stimulus::DataKind;
use ndp_numerics::sampling::MAX_TEMPERATURE_PERCENT;
use std::path::PathBuf;

/// Co-simulates the generated near-memory GEMV unit with its host software, bit for bit.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "Exit codes: 0 all outputs agree; 1 mismatch, protocol error or hang; 2 unusable argument or file.\n\
                  Cycles are cycles of the 1 GHz core clock."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The jobs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run one product of a random matrix with a batch of random vectors through the GEMV unit
    #[command(after_long_help = "Examples:\n  \
        cosim gemv --rows 1024 --cols 4096\n  \
        cosim gemv --config tiny --rows 8 --cols 100 --batch 3 --data mixed --stalls 30 --waves gemv.fst\n  \
        cosim gemv --rows 64 --cols 9216 --batch 16 --seed 7 --json")]
    Gemv(GemvArgs),
    /// Generate text with all matrix products of a language model computed by the GEMV unit
    #[command(after_long_help = "Examples:\n  \
        cosim generate\n  \
        cosim generate --config tiny --tokens 8 --stalls 20\n  \
        cosim generate --prompt \"Emma could not\" --temperature 0 --tokens 32 --json\n\n\
        If prompt, seed and temperature are those of a stored golden (golden/generate/*.json) and there are no more \
        tokens than it has, text and logits are compared with it.")]
    Generate(GenerateArgs),
    /// Run the row lengths of the paper's models and compare their cycles with the roofline
    Bench(BenchArgs),
}

/// Which hardware, and how it is treated.
#[derive(Args, Debug)]
pub struct UnitArgs {
    /// Preset (hermes, tiny, ...) or path of a TOML file; it has to be compiled in, see NDP_DESIGNS of the build
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Chance that a handshake waits in a cycle, for each handshake separately, in percent (0..=99)
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    pub stalls: u32,
    /// Cycles without any transfer after which the run is given up
    #[arg(long, value_name = "CYCLES", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub watchdog: u64,
    /// Write signal waves to this file; .fst or .vcd selects the format
    #[arg(long, value_name = "FILE")]
    pub waves: Option<PathBuf>,
    /// First cycle to write
    #[arg(long, value_name = "CYCLE", default_value_t = 0, requires = "waves")]
    pub wave_start: u64,
    /// First cycle that is not written any more [default: the end]
    #[arg(long, value_name = "CYCLE", requires = "waves")]
    pub wave_stop: Option<u64>,
    /// Print one JSON object on standard output instead of text
    #[arg(long)]
    pub json: bool,
    /// Flip one bit on the side of the hardware, to see the check fail: weight:ROW:COL:BIT or result:ROW:BATCH:BIT
    #[arg(long, hide = true)]
    pub plant: Option<Plant>,
}

impl UnitArgs {
    /// The unit of `config` without stalls and waves.
    pub fn quiet(config: &str, plant: Option<Plant>) -> Self {
        Self {
            config: config.to_owned(),
            stalls: 0,
            watchdog: 10_000,
            waves: None,
            wave_start: 0,
            wave_stop: None,
            json: false,
            plant,
        }
    }

    /// How the unit is opened.
    pub fn options(&self, seed: u64) -> GemvOptions {
        let waves = self.waves.as_ref().map(|path| WaveOptions {
            start_cycle: self.wave_start,
            stop_cycle: self.wave_stop,
            ..WaveOptions::new(path)
        });
        GemvOptions {
            stall_percent: self.stalls,
            seed,
            waves,
            watchdog_cycles: self.watchdog,
            plant: self.plant,
            ..GemvOptions::default()
        }
    }
}

/// Options of `cosim gemv`.
#[derive(Args, Debug)]
pub struct GemvArgs {
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Rows of the matrix: outputs per vector (1..=16777215)
    #[arg(long)]
    pub rows: u32,
    /// Columns of the matrix: elements of a vector (at least 1; the limit is the activation buffer's, 131072 for hermes)
    #[arg(long)]
    pub cols: u32,
    /// Vectors that share the matrix (1..=16 for hermes); cut into passes if the buffer does not hold them at once
    #[arg(long, default_value_t = 1)]
    pub batch: u32,
    /// Seed of the operands and of the stalls
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Kind of operands
    #[arg(long, value_enum, default_value_t = DataKind::Gaussian)]
    pub data: DataKind,
}

/// Options of `cosim bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Preset or path of a TOML file; it has to be compiled in, see NDP_DESIGNS of the build
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hermes")]
    pub config: String,
    /// Rows of each matrix (1..=16384)
    #[arg(long, default_value_t = 1024)]
    pub rows: u32,
    /// Seed of the operands
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON object on standard output instead of a table
    #[arg(long)]
    pub json: bool,
    /// Flip one bit in every product, as `cosim gemv` does
    #[arg(long, hide = true)]
    pub plant: Option<Plant>,
}

/// Options of `cosim generate`.
#[derive(Args, Debug)]
pub struct GenerateArgs {
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Text to continue [default: that of golden/generate/default.json]
    #[arg(long)]
    pub prompt: Option<String>,
    /// Tokens (bytes) to generate; with the prompt at most the model's positions
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// Directory with config.json and model.safetensors [default: golden/model]
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Sampling temperature, 0 (greedy) to 10, two decimals [default: that of golden/generate/default.json]
    #[arg(long, value_name = "T", value_parser = temperature_percent)]
    pub temperature: Option<u32>,
    /// Seed of the sampler and of the stalls [default: that of golden/generate/default.json]
    #[arg(long)]
    pub seed: Option<u64>,
}

/// A temperature in hundredths.
fn temperature_percent(text: &str) -> Result<u32, String> {
    let limit = f64::from(MAX_TEMPERATURE_PERCENT) / 100.0;
    let wrong = || format!("temperature {text} must be a number in 0..={limit} with at most two decimals");
    let value: f64 = text.parse().map_err(|_| wrong())?;
    let percent = (value * 100.0).round();
    if !(0.0..=f64::from(MAX_TEMPERATURE_PERCENT)).contains(&percent)
        || (percent / 100.0 - value).abs() > 1e-9
    {
        return Err(wrong());
    }
    Ok(percent as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn temperatures_are_hundredths() {
        for (text, percent) in [("0", 0), ("0.5", 50), ("0.07", 7), ("10", 1000), ("1.13", 113)] {
            assert_eq!(temperature_percent(text), Ok(percent));
        }
        for bad in ["-1", "10.01", "0.005", "warm", "NaN", "inf"] {
            assert!(temperature_percent(bad).is_err(), "{bad}");
        }
    }
}
