//! `cosim pim`: texts by an NPU and an HBM2 memory whose banks compute, in each mode, and whose time goes where.
//!
//! The same prompts are run in every mode that is asked for and, one by one, in software: all tokens and logits have to agree.

use crate::Verdict;
use crate::golden::workspace_path;
use crate::report::{Tools, grouped};
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use ndp_config::HbmConfig;
use ndp_cosim::ffi::OpenOptions;
use ndp_cosim::hbm::{Hosted, Lockstep};
use ndp_dram::hbm::{HbmBusCycles, HbmStatistics, PimCycles, PseudoChannel};
use ndp_model::{GenerateOptions, Generation, Model, SoftwareBackend, generate};
use ndp_offloading::{Device, Hardware};
use ndp_pim::{Event, Outcome, PimError, Pins, Prompt, run_batch};
use ndp_report::OutputFile;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Clocks per microsecond: tCK is 1 ns.
const CLOCKS_PER_US: f64 = 1000.0;

/// How memory and NPU work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PimMode {
    /// One group of requests: the devices take turns
    Serial,
    /// Two groups, banks not sliced: rows are open for reads or for computing
    Pipelined,
    /// Two groups, sliced banks: reads and computing at the same time
    Dex,
}

impl PimMode {
    fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Pipelined => "pipelined",
            Self::Dex => "dex",
        }
    }

    fn groups(self) -> usize {
        if self == Self::Serial { 1 } else { 2 }
    }

    fn memory(self, config: &HbmConfig) -> HbmConfig {
        if self == Self::Dex { config.clone() } else { config.clone().unsliced() }
    }
}

/// What is behind the pins of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ChannelKind {
    /// The RTL, every clock compared with the device model
    Rtl,
    /// The device model alone, which is much faster
    Model,
}

/// Who gives the commands of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ControllerKind {
    /// The host's scheduler
    Software,
    /// The controller in RTL, which is given requests; it has to be compiled in
    Rtl,
}

/// Arguments of the job.
#[derive(Args, Debug)]
pub struct PimArgs {
    /// Memory: preset (librapim-small, librapim, ...) or path of a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "librapim-small")]
    memory: String,
    /// Mode; may be given several times, all of them by default
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Vec<PimMode>,
    /// What is behind the pins of the channels; the RTL of a memory has to be compiled in
    #[arg(long, value_enum, default_value_t = ChannelKind::Rtl)]
    channel: ChannelKind,
    /// Who gives the channels their commands
    #[arg(long, value_enum, default_value_t = ControllerKind::Software)]
    controller: ControllerKind,
    /// Text to continue; each one is a request
    #[arg(long, default_values = ["Elizabeth was surprised at", "It was a truth", "Mr. Darcy", "She had never been"])]
    prompt: Vec<String>,
    /// Tokens to generate; several numbers go to the prompts in turn, so that requests end at different times
    #[arg(long, value_delimiter = ',', default_values_t = [8, 5, 7, 6], value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tokens: Vec<u32>,
    /// Temperature of the sampler, 0 (most likely token) to 10
    #[arg(long, value_name = "T", default_value_t = 0.5)]
    temperature: f64,
    /// Seed of the sampler
    #[arg(long, default_value_t = 4)]
    seed: u64,
    /// Directory of an OPT model in FP16 with a vocabulary of bytes
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Write a timeline for ui.perfetto.dev: a process for each mode, a track for NPU and memory
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// One mode.
#[derive(Debug, Serialize)]
struct Figures {
    mode: PimMode,
    memory: String,
    groups: usize,
    /// Everything behind the writing of the weights.
    clocks: u64,
    loading_clocks: u64,
    tokens: usize,
    clocks_per_token: f64,
    tokens_per_second: f64,
    npu_busy: u64,
    pim_busy: u64,
    /// Both at the same time.
    both_busy: u64,
    npu_idle: u64,
    pim_idle: u64,
    outputs_checked: u64,
    columns_checked: u64,
    protocol_violations: u64,
    texts_differ: usize,
    /// Of all channels together, from the beginning.
    bus: HbmBusCycles,
    multipliers: PimCycles,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    channel: ChannelKind,
    controller: ControllerKind,
    memory: &'a HbmConfig,
    hardware: &'a Hardware,
    prompts: &'a [String],
    texts: Vec<String>,
    seed: u64,
    modes: &'a [Figures],
    tools: Tools,
}

/// Runs the job.
pub fn run(args: &PimArgs) -> anyhow::Result<Verdict> {
    let config = HbmConfig::load(&args.memory)?;
    ensure!(
        (0.0..=10.0).contains(&args.temperature),
        "--temperature is {}, must be 0 to 10",
        args.temperature
    );
    let temperature_percent = (args.temperature * 100.0).round() as u32;
    let folder = args.model.clone().unwrap_or_else(|| workspace_path("golden/model"));
    let model = Model::load(&folder).with_context(|| format!("cannot load model {}", folder.display()))?;
    let modes = if args.mode.is_empty() { PimMode::value_variants() } else { &args.mode[..] };
    let timeline = args.timeline.as_deref().map(OutputFile::create).transpose()?;
    let prompts: Vec<Prompt> = args
        .prompt
        .iter()
        .enumerate()
        .map(|(number, text)| Prompt {
            tokens: text.bytes().map(u32::from).collect(),
            generate: args.tokens[number % args.tokens.len()] as usize,
            temperature_percent,
            seed: args.seed.wrapping_add(number as u64),
        })
        .collect();
    let mut alone = Vec::new();
    for (text, prompt) in args.prompt.iter().zip(&prompts) {
        let options = GenerateOptions {
            tokens: prompt.generate,
            temperature_percent: prompt.temperature_percent,
            seed: prompt.seed,
        };
        let mut software = SoftwareBackend::new();
        let generation = generate(&model, &mut software, text.as_bytes(), &options, |_| {})
            .with_context(|| format!("cannot continue '{text}'"))?;
        alone.push(generation);
    }

    let hardware = Hardware {
        channels: config.channels(),
        banks: config.banks(),
        t_faw: config.t_faw(),
        t_ccd_s: config.t_ccd_s(),
        t_ccd_l: config.t_ccd_l(),
        ..Hardware::default()
    };
    let bar = ProgressBar::new(modes.len() as u64);
    let (mut figures, mut events) = (Vec::new(), Vec::new());
    for &mode in modes {
        let memory = mode.memory(&config);
        let job = Job { model: &model, memory: &memory, hardware: &hardware, prompts: &prompts, mode };
        let numbers = 0..memory.channels();
        let ran = match args.channel {
            of if args.controller == ControllerKind::Rtl => {
                let open = |_| Hosted::open(memory.name(), &memory, of == ChannelKind::Rtl);
                let channels = numbers.map(open).collect::<Result<Vec<_>, _>>().with_context(|| {
                    format!(
                        "the controller of '{}' was not built; `--controller software` needs none",
                        memory.name()
                    )
                })?;
                job.run(channels)
            }
            ChannelKind::Model => {
                let channels = numbers.map(|_| PseudoChannel::new(&memory)).collect::<Result<Vec<_>, _>>()?;
                job.run(channels)
            }
            ChannelKind::Rtl => {
                let options = OpenOptions::default();
                let open = |_| Lockstep::open(memory.name(), &memory, &options);
                let channels = numbers.map(open).collect::<Result<Vec<_>, _>>().with_context(|| {
                    format!("the RTL of '{}' was not built; `--channel model` needs none", memory.name())
                })?;
                job.run(channels)
            }
        };
        let ran = ran.with_context(|| format!("mode {}", mode.name()))?;
        figures.push(summarize(mode, &memory, &ran, &alone));
        events.push((mode, ran.outcome.events));
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(file) = timeline {
        file.finish(|out| write_timeline(out, &events))?;
    }
    if args.json {
        let report = Report {
            command: "pim",
            channel: args.channel,
            controller: args.controller,
            memory: &config,
            hardware: &hardware,
            prompts: &args.prompt,
            texts: alone.into_iter().map(|generation| generation.text).collect(),
            seed: args.seed,
            modes: &figures,
            tools: Tools::new(),
        };
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(args, &figures, &alone);
    }
    let agrees = |f: &Figures| f.texts_differ == 0 && f.protocol_violations == 0;
    Ok(if figures.iter().all(agrees) { Verdict::Agreed } else { Verdict::Differed })
}

/// One mode on one kind of channel.
struct Job<'a> {
    model: &'a Model,
    memory: &'a HbmConfig,
    hardware: &'a Hardware,
    prompts: &'a [Prompt],
    mode: PimMode,
}

/// What came of it.
struct Ran {
    outcome: Outcome,
    violations: u64,
    channels: Vec<HbmStatistics>,
}

impl Job<'_> {
    fn run<P: Pins>(&self, channels: Vec<P>) -> Result<Ran, PimError> {
        let Self { model, memory, hardware, prompts, mode } = *self;
        let (outcome, machine) = run_batch(model, memory, hardware, mode.groups(), prompts, channels)?;
        Ok(Ran {
            outcome,
            violations: machine.channels().map(Pins::violations).sum(),
            channels: machine.channels().map(Pins::statistics).collect(),
        })
    }
}

fn summarize(mode: PimMode, memory: &HbmConfig, ran: &Ran, alone: &[Generation]) -> Figures {
    let Ran { outcome, violations, channels } = ran;
    let busy = |device| spans(&outcome.events, device);
    let length = |spans: &[(u64, u64)]| -> u64 { spans.iter().map(|(start, end)| end - start).sum() };
    let (npu, pim) = (busy(Device::Npu), busy(Device::Pim));
    let (npu_busy, pim_busy) = (length(&npu), length(&pim));
    let both_busy =
        npu.iter().flat_map(|a| pim.iter().map(move |b| b.1.min(a.1).saturating_sub(b.0.max(a.0)))).sum();
    let tokens: usize = outcome.texts.iter().map(|text| text.tokens.len()).sum();
    let differs =
        outcome.texts.iter().zip(alone).filter(|(text, alone)| {
            text.tokens != alone.tokens || text.logits_digests != alone.logits_digests
        });
    let (mut bus, mut multipliers) = (HbmBusCycles::default(), PimCycles::default());
    for channel in channels {
        bus += channel.bus;
        multipliers += channel.pim;
    }
    let seconds = outcome.clocks as f64 / CLOCKS_PER_US / 1e6;
    Figures {
        mode,
        memory: memory.name().to_owned(),
        groups: mode.groups(),
        clocks: outcome.clocks,
        loading_clocks: outcome.loading_clocks,
        tokens,
        clocks_per_token: outcome.clocks as f64 / tokens.max(1) as f64,
        tokens_per_second: tokens as f64 / seconds,
        npu_busy,
        pim_busy,
        both_busy,
        npu_idle: outcome.clocks - npu_busy,
        pim_idle: outcome.clocks - pim_busy,
        outputs_checked: outcome.outputs_checked,
        columns_checked: outcome.columns_checked,
        protocol_violations: *violations,
        texts_differ: differs.count(),
        bus,
        multipliers,
    }
}

fn spans(events: &[Event], device: Device) -> Vec<(u64, u64)> {
    events.iter().filter(|event| event.device == device).map(|event| (event.start, event.end)).collect()
}

/// Trace event format: a complete event per piece of work, in microseconds.
fn write_timeline(out: &mut dyn Write, modes: &[(PimMode, Vec<Event>)]) -> std::io::Result<()> {
    let mut events = Vec::new();
    for (pid, (mode, of_mode)) in modes.iter().enumerate() {
        let name = |kind: &str, tid: usize, name: &str| serde_json::json!({"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}});
        events.push(name("process_name", 0, mode.name()));
        events.push(name("thread_name", 0, "NPU"));
        events.push(name("thread_name", 1, "memory"));
        for event in of_mode {
            let tid = usize::from(event.device == Device::Pim);
            let us = |clocks: u64| clocks as f64 / CLOCKS_PER_US;
            events.push(serde_json::json!({
                "ph": "X", "pid": pid, "tid": tid, "name": event.label,
                "ts": us(event.start), "dur": us(event.end - event.start),
                "args": {"group": event.group, "first_clock": event.start, "clocks": event.end - event.start},
            }));
        }
    }
    serde_json::to_writer(&mut *out, &serde_json::json!({"traceEvents": events}))?;
    out.write_all(b"\n")
}

fn print(args: &PimArgs, figures: &[Figures], alone: &[Generation]) {
    for (prompt, generation) in args.prompt.iter().zip(alone) {
        say!("{prompt}|{}", generation.text);
    }
    say!("");
    let texts = if figures.iter().all(|f| f.texts_differ == 0) { "the same" } else { "NOT the same" };
    say!(
        "{} requests, {} tokens; texts and logits in all modes and in software: {texts}",
        alone.len(),
        figures.first().map_or(0, |f| f.tokens)
    );
    say!("");
    say!(
        "{:10} {:>12} {:>12} {:>10} {:>6} {:>6} {:>6} {:>12} {:>12} {:>10}",
        "mode",
        "clocks",
        "per token",
        "tokens/s",
        "NPU %",
        "PIM %",
        "both %",
        "outputs",
        "columns",
        "violations"
    );
    for f in figures {
        let share = |clocks: u64| 100.0 * clocks as f64 / f.clocks.max(1) as f64;
        say!(
            "{:10} {:>12} {:>12.0} {:>10.0} {:>6.1} {:>6.1} {:>6.1} {:>12} {:>12} {:>10}",
            f.mode.name(),
            grouped(f.clocks),
            f.clocks_per_token,
            f.tokens_per_second,
            share(f.npu_busy),
            share(f.pim_busy),
            share(f.both_busy),
            grouped(f.outputs_checked),
            grouped(f.columns_checked),
            f.protocol_violations
        );
    }
    say!("");
    say!(
        "Clocks of 1 ns behind the writing of the weights; outputs of attention and columns of weights compared bit for bit."
    );
}
