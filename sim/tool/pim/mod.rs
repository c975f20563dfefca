//! `ndp generate pim`: texts by an NPU and an HBM2 memory whose banks compute, in each mode.
//!
//! The same prompts run in every chosen mode and, one by one, in software. All tokens and logits have to agree.
//! `figures`, `energy`, `timeline` and `report` show the results.

mod energy;
mod figures;
mod report;
mod timeline;

use crate::given::Given;
use crate::prelude::*;
use crate::temperature::temperature_percent;
use crate::tools::check_banks;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use figures::Figures;
use ndp_config::HbmCommandBuses;
use ndp_dram::hbm::{HbmActivity, HbmStatistics, PseudoChannel};
use ndp_energy::HbmConstants;
use ndp_librapim::host::{
    Arrangement, Channel, Offloading, Outcome, Pins, Prompt, Recorded, boxed, check_room, run_arranged,
    sizes_of,
};
use ndp_librapim::offloading::npu::NpuTimes;
use ndp_librapim::offloading::{Hardware, Mode, Picos, Rule};
use ndp_model::weights::Layer;
use ndp_model::{GenerateOptions, Model, SoftwareBackend, generate};
use ndp_sim::ffi::{OpenOptions, WaveOptions};
use ndp_sim::hbm::{ControlledWaves, Hosted, Lockstep, RESET_CLOCKS};
use serde::Serialize;

/// Clocks of 1 ns (tCK) in a microsecond.
const CLOCKS_PER_US: f64 = 1000.0;

const MODES: [Mode; 4] = [Mode::Serial, Mode::Pipelined, Mode::Dex, Mode::DexDbo];

fn groups(mode: Mode) -> usize {
    if mode == Mode::Serial { 1 } else { 2 }
}

pub fn mode_parser(modes: &[Mode]) -> impl TypedValueParser<Value = Mode> + use<> {
    PossibleValuesParser::new(modes.iter().filter_map(Mode::to_possible_value))
        .try_map(|name| Mode::from_str(&name, false))
}

/// Model of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ChannelKind {
    /// The RTL, compared with the device model in every clock
    Rtl,
    /// Only the device model, which is much faster
    Model,
}

/// Source of the commands of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ControllerKind {
    /// The host's scheduler
    Software,
    /// The controller in RTL, which receives requests from the host
    Rtl,
}

/// Block whose signals are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WaveBlock {
    /// The channel
    Channel,
    /// The channel's controller in RTL
    Controller,
}

/// Generate texts with an NPU and an HBM-PIM, in each mode
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp generate pim\n  \
        ndp generate pim --mode dex --prompt \"Emma could not\" --prompt \"Mr. Darcy\" --tokens 4,9 --json\n  \
        ndp generate pim --html pim.html --timeline pim.json   (open pim.json in ui.perfetto.dev)\n  \
        ndp generate pim --hardware librapim --tokens 4,2   (an NPU that waits for weights)\n  \
        ndp generate pim --mode dex+dbo --offload-ffn 1 --offload-mha 1 --channels 4 --channel model\n  \
        ndp generate pim --model golden/model-llama --channel model --prompt \"It was a\"\n\n\
        The NPU computes linear layers: it reads their weights over the channels, and the weights are compared. The banks compute \
        attention. In dex+dbo, a scheduler moves FFNs to the banks and attention to the NPU, step by step. Every output of the banks \
        and every text is compared with software.")]
pub struct Args {
    /// Names of the options on the command line.
    #[command(flatten)]
    given: Given,
    /// Memory: preset (librapim-small, librapim, ...) or path of a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "librapim-small")]
    memory: String,
    /// Number of channels of the memory, a power of two [default: that of --memory]
    #[arg(long, value_name = "N")]
    channels: Option<u32>,
    /// Mode (repeatable); pipelined, dex, and dex+dbo without the shortest plan have two groups, which need two prompts
    /// [default: all modes]
    #[arg(long, value_parser = mode_parser(&MODES), value_name = "MODE")]
    mode: Vec<Mode>,
    /// Model of the channels
    #[arg(long, value_enum, default_value_t = ChannelKind::Rtl)]
    channel: ChannelKind,
    /// Source of the channels' commands
    #[arg(long, value_enum, default_value_t = ControllerKind::Software)]
    controller: ControllerKind,
    /// Text to continue (repeatable); each one is a request
    #[arg(long, default_values = ["A", "B", "C", "D", "E", "F", "G", "H"])]
    prompt: Vec<String>,
    /// Number of tokens to generate (1..=10000); the numbers of a list go to the prompts in turn, so that requests
    /// end at different times
    #[arg(long, value_delimiter = ',', default_values_t = [3], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tokens: Vec<u32>,
    /// Sampling temperature, 0 (greedy) to 10, two decimals
    #[arg(long, value_name = "T", default_value = "0.5", value_parser = temperature_percent)]
    temperature: u32,
    /// Seed of the sampler for the first prompt; each further prompt adds 1
    #[arg(long, default_value_t = 4)]
    seed: u64,
    /// Directory with config.json, model.safetensors (whole or in shards) and, for models with sub-words,
    /// tokenizer.json, or vocab.json and merges.txt; or a GGUF file (families: docs/checkpoints.md)
    /// [default: golden/model]
    #[arg(long, value_name = "DIR|FILE.gguf")]
    model: Option<PathBuf>,
    /// Thresholds of `ndp model calibrate`: activations of feed-forward blocks that do not exceed them count as zero
    #[arg(long, value_name = "FILE.json")]
    thresholds: Option<PathBuf>,
    /// With --mode dex+dbo: number of requests of each group whose FFN the memory computes in each step, instead of
    /// the number that the scheduler decides
    #[arg(long, value_name = "M")]
    offload_ffn: Option<u32>,
    /// With --mode dex+dbo: number of requests of each group whose attention the NPU computes in each step, instead
    /// of the number that the scheduler decides
    #[arg(long, value_name = "N")]
    offload_mha: Option<u32>,
    /// With --mode dex+dbo: plan of the run. This host has no whole group in memory: the shortest plan has one group or
    /// two, and algorithm 1 two
    #[arg(long, value_enum, default_value = "shortest")]
    rule: Rule,
    /// NPU: preset or path of a TOML file with a table [npu]. The paper's NPU (librapim) is limited by its arrays
    /// only with some hundred requests; the default is slow enough for eight requests
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "librapim-small-npu")]
    hardware: String,
    /// Write a timeline for ui.perfetto.dev to this file: a process for each mode, with tracks for decisions, NPU,
    /// memory and channels
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// With a single mode: write all commands of a range of clocks to this file, channel by channel
    #[arg(long, value_name = "FILE")]
    commands: Option<PathBuf>,
    /// With --commands: first clock to write
    #[arg(long, value_name = "CLOCK", default_value_t = 0, requires = "commands")]
    commands_from: u64,
    /// With --commands: clock at which to stop, exclusive [default: the end of the run]
    #[arg(long, value_name = "CLOCK", default_value_t = u64::MAX, hide_default_value = true, requires = "commands")]
    commands_to: u64,
    /// With a single mode, in RTL: write the signals of a channel, or of its controller, to this file; .fst or .vcd
    /// selects the format
    #[arg(long, value_name = "FILE")]
    waves: Option<PathBuf>,
    /// With --waves: block to show
    #[arg(long, value_enum, value_name = "BLOCK", default_value = "channel", requires = "waves")]
    wave_block: WaveBlock,
    /// With --waves: number of the channel
    #[arg(long, value_name = "CHANNEL", default_value_t = 0, requires = "waves")]
    wave_channel: u32,
    /// With --waves: first clock to write
    #[arg(long, value_name = "CLOCK", default_value_t = 0, requires = "waves", value_parser = clap::value_parser!(u64).range(0..=crate::args::MOST_CYCLES))]
    wave_start: u64,
    /// With --waves: clock at which to stop, exclusive [default: the end of the run]
    #[arg(long, value_name = "CLOCK", requires = "waves", value_parser = clap::value_parser!(u64).range(0..=crate::args::MOST_CYCLES))]
    wave_stop: Option<u64>,
    /// Print where the memory's energy goes, as --verbose also does
    #[arg(long)]
    energy: bool,
    /// Energy constants of the memory: hbm2-8gb or a path ending in .toml
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hbm2-8gb")]
    energy_memory: String,
}

/// # Errors
/// Unusable arguments and files; a memory that does not work.
pub fn run(args: &Shown<Args>) -> Result<Report> {
    let folder = args.model.clone().unwrap_or_else(|| workspace_path("golden/model"));
    let files = FileSet::new()
        .configuration("the memory", &args.memory)
        .configuration("the NPU", &args.hardware)
        .configuration("the memory's energy", &args.energy_memory)
        .input_folder("part of the model", &folder);
    let files = args.thresholds.iter().fold(files, |files, path| files.input("the thresholds", path));
    let files = args.form.files(files).optional("--timeline", args.timeline.as_ref());
    files.optional("--commands", args.commands.as_ref()).optional("--waves", args.waves.as_ref()).check()?;
    let mut config = HbmConfig::load(&args.memory)?;
    if let Some(channels) = args.channels {
        config = config.with_channels(channels).context("--channels")?;
    }
    let constants = HbmConstants::load(&args.energy_memory).context("--energy-memory")?;
    let mut model = load_model(&folder)?;
    set_thresholds(&mut model, args.thresholds.as_ref())?;
    let modes = modes(args)?;
    modes.iter().try_for_each(|&mode| check_banks(&config, mode))?;
    let hardware = Hardware::load(&args.hardware).context("--hardware")?.on(&config);
    check_files(args, &modes, config.channels())?;
    let timeline = Asked::create(args.timeline.as_ref())?;
    let commands = Asked::create(args.commands.as_ref())?;
    let prompt = |(number, text): (usize, &String)| -> Result<Prompt> {
        Ok(Prompt {
            tokens: model.vocabulary.tokens(text.as_bytes())?,
            generate: args.tokens[number % args.tokens.len()] as usize,
            temperature_percent: args.temperature,
            seed: args.seed.wrapping_add(number as u64),
        })
    };
    let prompts = args.prompt.iter().enumerate().map(prompt).collect::<Result<Vec<Prompt>>>()?;
    for &mode in &modes {
        let arrangement = arrangement(args, mode);
        let memory = if mode.sliced() { config.clone() } else { config.clone().unsliced() };
        check_room(&model, &memory, &arrangement, &prompts)
            .with_context(|| format!("mode {}", mode.name()))?;
    }
    let mut alone = Vec::new();
    for (text, prompt) in args.prompt.iter().zip(&prompts) {
        let options = GenerateOptions::new(prompt.generate, prompt.temperature_percent, prompt.seed);
        let mut software = SoftwareBackend::new();
        let generation = generate(&model, &mut software, text.as_bytes(), &options, |_| {})
            .with_context(|| format!("cannot continue '{text}'"))?;
        alone.push(generation);
    }

    let progress =
        Progress::watch(weights(&model, &prompts, &modes), "weights", ndp_librapim::host::progress::weights);
    let (mut figures, mut runs) = (Vec::new(), Vec::new());
    for &mode in &modes {
        let memory = if mode.sliced() { config.clone() } else { config.clone().unsliced() };
        let arrangement = arrangement(args, mode);
        let job = Job {
            model: &model,
            memory: &memory,
            hardware: &hardware,
            prompts: &prompts,
            arrangement: &arrangement,
        };
        let ran = job.run_on(args).with_context(|| format!("mode {}", mode.name()))?;
        figures.push(Figures::new(mode, &memory, &constants, &ran, &alone));
        runs.push((mode, ran));
    }
    drop(progress);
    let reason = reason(&model, &hardware, prompts.len(), &figures);
    timeline.finish(|out| timeline::write(out, &runs))?;
    commands.finish(|out| {
        writeln!(out, "# clock channel command")?;
        let mut recorded = runs.iter().flat_map(|(_, ran)| &ran.recorded);
        recorded
            .try_for_each(|Recorded { clock, channel, command }| writeln!(out, "{clock} {channel} {command}"))
    })?;
    report::report((args, &config, &hardware), &figures, &runs, &alone, reason)
        .context("cannot draw the report")
}

/// Number of weights written and used in all modes: once to load them, and for each group once per prompt and once
/// per further step.
fn weights(model: &Model, prompts: &[Prompt], modes: &[Mode]) -> u64 {
    let layers = model.layers.iter().flat_map(Layer::linears);
    let head = model.head().data().len();
    let all = head + layers.map(|linear| linear.weight.data().len()).sum::<usize>();
    let passes = |groups: usize| -> usize {
        let of = |group| prompts.iter().skip(group).step_by(groups).map(|prompt| prompt.generate);
        let of_group = |group| of(group).count() + of(group).max().unwrap_or(0).saturating_sub(1);
        1 + (0..groups).map(of_group).sum::<usize>()
    };
    (all * modes.iter().map(|&mode| passes(groups(mode))).sum::<usize>()) as u64
}

/// The fastest mode and the reason: whether a group's matrices keep the NPU's arrays busy for longer than it reads
/// weights.
fn reason(model: &Model, hardware: &Hardware, requests: usize, figures: &[Figures]) -> Option<String> {
    let (fastest, slowest) =
        (figures.iter().min_by_key(|f| f.clocks)?, figures.iter().max_by_key(|f| f.clocks)?);
    if figures.len() < 2 {
        return None;
    }
    let (sizes, npu) = (sizes_of(model), NpuTimes::new(hardware, true));
    let group = requests.div_ceil(2) as u32;
    let matrices = [sizes.qkv(), sizes.projection()].into_iter().chain(sizes.ffn_parts());
    let (mut read, mut compute) = (Picos::ZERO, Picos::ZERO);
    for matrix in matrices {
        let time = npu.gemm(matrix, group);
        read += time.read;
        compute += time.compute;
    }
    let why = if compute > read {
        "so two groups may read the weights twice, attention runs concurrently with the matrices, and FFNs that move to the banks shorten them"
    } else {
        "so what counts is how often weights are read: two groups read them twice, and FFNs that move to the banks save nothing"
    };
    Some(format!(
        "Fastest: {}, {:.2} times as fast as {}. The matrices of a group of {group} keep the NPU's arrays busy for {:.2} times as long as their \
         weights take to be read, {why}.",
        fastest.mode.name(),
        slowest.clocks as f64 / fastest.clocks as f64,
        slowest.mode.name(),
        compute.share_of(read)
    ))
}

/// The chosen modes, without duplicates.
fn modes(args: &Args) -> Result<Vec<Mode>> {
    let asked = if args.mode.is_empty() { &MODES[..] } else { &args.mode };
    let modes: Vec<Mode> = asked.iter().copied().unique().collect();
    let forced = [("--offload-ffn", args.offload_ffn), ("--offload-mha", args.offload_mha)];
    if let Some((option, _)) = forced.into_iter().find(|(_, value)| value.is_some()) {
        ensure!(modes.contains(&Mode::DexDbo), "{option} has no effect without --mode dex+dbo");
        args.given.only_with("the scheduler, which --offload-ffn and --offload-mha replace", ["rule"])?;
    }
    if !modes.contains(&Mode::DexDbo) {
        args.given.only_with("--mode dex+dbo", ["rule"])?;
    }
    Ok(modes)
}

fn arrangement(args: &Args, mode: Mode) -> Arrangement {
    let offloading = match (mode, args.offload_ffn, args.offload_mha) {
        (Mode::DexDbo, None, None) => Offloading::Live(args.rule),
        (Mode::DexDbo, ffn, mha) => Offloading::Fixed { ffn: ffn.unwrap_or(0), mha: mha.unwrap_or(0) },
        _ => Offloading::None,
    };
    let record = if args.commands.is_some() { args.commands_from..args.commands_to } else { 0..0 };
    Arrangement { groups: groups(mode), offloading, record }
}

/// Checks --commands and --waves against modes and channels.
fn check_files(args: &Args, modes: &[Mode], channels: u32) -> Result<()> {
    if args.commands.is_some() {
        ensure!(
            modes.len() == 1,
            "--commands shows one mode, but {} are selected; select one with --mode",
            modes.len()
        );
        let (from, to) = (args.commands_from, args.commands_to);
        ensure!(from < to, "--commands-from is {from}, must be below --commands-to, which is {to}");
    }
    if args.waves.is_some() {
        ensure!(
            modes.len() == 1,
            "--waves shows one mode, but {} are selected; select one with --mode",
            modes.len()
        );
        match args.wave_block {
            WaveBlock::Channel => ensure!(
                args.channel == ChannelKind::Rtl,
                "--waves of a channel needs --channel rtl: the device model has no signals"
            ),
            WaveBlock::Controller => ensure!(
                args.controller == ControllerKind::Rtl,
                "--wave-block controller needs --controller rtl"
            ),
        }
        let (channel, most) = (args.wave_channel, channels - 1);
        ensure!(channel <= most, "--wave-channel is {channel}, must be 0 to {most}");
    }
    Ok(())
}

struct Job<'a> {
    model: &'a Model,
    memory: &'a HbmConfig,
    hardware: &'a Hardware,
    prompts: &'a [Prompt],
    arrangement: &'a Arrangement,
}

struct Ran {
    outcome: Outcome,
    violations: u64,
    channels: Vec<HbmStatistics>,
    activity: Vec<HbmActivity>,
    recorded: Vec<Recorded>,
}

impl Job<'_> {
    fn run_on(&self, args: &Args) -> Result<Ran> {
        let memory = self.memory;
        let numbers = 0..memory.channels();
        Ok(match args.channel {
            kind if args.controller == ControllerKind::Rtl => {
                ensure!(
                    memory.command_buses() == HbmCommandBuses::Own,
                    "--controller rtl: channels of '{}' share command buses, which the controller in RTL does not support; leave it out",
                    memory.name()
                );
                let open = |channel| {
                    let waves = ControlledWaves {
                        controller: waves(args, channel, WaveBlock::Controller),
                        channel: waves(args, channel, WaveBlock::Channel),
                    };
                    Hosted::open(memory, kind == ChannelKind::Rtl, waves)
                };
                self.run(boxed(numbers.map(open).collect::<Result<Vec<_>>>()?))?
            }
            ChannelKind::Model => self.run(boxed(PseudoChannel::all(memory)?))?,
            ChannelKind::Rtl => {
                let options = |channel| OpenOptions {
                    waves: waves(args, channel as u32, WaveBlock::Channel),
                    ..OpenOptions::default()
                };
                self.run(boxed(Lockstep::all(memory, options)?))?
            }
        })
    }

    fn run(&self, channels: Vec<Channel>) -> Result<Ran> {
        let Self { model, memory, hardware, prompts, arrangement } = *self;
        let (outcome, machine) =
            run_arranged(model, memory, hardware, arrangement.clone(), prompts, channels)?;
        let ran = Ran {
            outcome,
            violations: machine.channels().map(Pins::violations).sum(),
            channels: machine.channels().map(Pins::statistics).collect(),
            activity: machine.channels().map(Pins::activity).collect(),
            recorded: machine.recorded().to_vec(),
        };
        machine.into_channels().try_for_each(|mut channel| channel.close())?;
        Ok(ran)
    }
}

/// Options of a block's waves. The cycles of the model begin with the reset.
fn waves(args: &Args, channel: u32, block: WaveBlock) -> Option<WaveOptions> {
    let path = args.waves.as_ref().filter(|_| (channel, block) == (args.wave_channel, args.wave_block))?;
    Some(WaveOptions {
        start_cycle: args.wave_start.saturating_add(RESET_CLOCKS),
        stop_cycle: args.wave_stop.map(|stop| stop.saturating_add(RESET_CLOCKS)),
        ..WaveOptions::new(path)
    })
}
