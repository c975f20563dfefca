//! The report of a grid: the scheduler's decisions, and the step of each point in each mode or system.

use crate::prelude::*;
use ndp_librapim::offloading::algorithm::{Choice, Decision};
use ndp_librapim::offloading::{
    Capacity, Cell, Dispatch, Hardware, Layout, Mode, ModeResult, Model, Purpose, StepEnergy,
};

/// A point of the grid, and the memory that it needs.
pub struct Point {
    pub sequence: u32,
    pub batch: u32,
    pub capacity: Capacity,
}

/// Default systems of a page, from the paper.
const PAPER: [Mode; 6] = [Mode::Serial, Mode::AttAcc, Mode::NeuPims, Mode::Dex, Mode::Dbo, Mode::DexDbo];
/// Modes of a report that compares no systems.
const MODES: [Mode; 4] = [Mode::Serial, Mode::Pipelined, Mode::Dex, Mode::DexDbo];
/// Modes without and with offloading, relative to NeuPIMs.
const OFFLOADING: [Mode; 3] = [Mode::NeuPims, Mode::Dex, Mode::DexDbo];

/// Offloaded requests in words: `m` of the FFN, `n` of attention.
fn decision(choice: &Choice) -> String {
    match choice.decision {
        Decision::None => "-".to_owned(),
        Decision::Ffn(m) => format!("m {m}"),
        Decision::Mha(n) => format!("n {n}"),
    }
}

/// Layout, if it is not the usual one of the mode, and offloaded requests.
pub fn moved(mode: Mode, layout: Layout, choice: Option<&Choice>) -> String {
    let decision = choice.map_or_else(|| "-".to_owned(), decision);
    match layout {
        Layout::WholeGroup => "whole".to_owned(),
        Layout::OneGroup if mode.offloads() => format!("one, {decision}").replace(", -", ""),
        _ => decision,
    }
}

/// For each other mode, if LibraPIM is one of them: number of points, least, geometric mean and greatest speed of LibraPIM relative to it, and
/// points at which LibraPIM is slower.
fn libra(cells: &[Cell], modes: &[Mode]) -> Vec<(Mode, usize, [f64; 3], usize)> {
    let is_shown = modes.contains(&Mode::DexDbo);
    let others = modes.iter().copied().filter(|&mode| is_shown && mode != Mode::DexDbo);
    let of = |mode: Mode| {
        let ratio = |cell: &Cell| Some(cell.mode(mode)?.step_us / cell.mode(Mode::DexDbo)?.step_us);
        let ratios: Vec<f64> = cells.iter().filter_map(ratio).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        (mode, ratios.len(), [least, mean, most], ratios.iter().filter(|&&ratio| ratio < 1.0).count())
    };
    others.map(of).collect()
}

fn issue(hardware: &Hardware) -> String {
    let baselines = &hardware.baselines;
    match baselines.dispatch {
        Dispatch::Channel => "a stream of commands for each channel".to_owned(),
        Dispatch::Shared => {
            format!("one stream of {} commands per us for all channels", baselines.commands_per_us)
        }
    }
}

/// Section 6.3: Llama3-70B, batch 128.
const UTILISATIONS: &str =
    "the paper, section 6.3, reports for batch 128 and 4096 tokens: NPU 77 %, PIM 38 %";
/// Section 6.5, Fig. 22: Llama3-70B, batch 128, relative to NeuPIMs.
const ENERGIES: &str = "the paper, Fig. 22, for batch 128, LibraPIM over NeuPIMs: without offloading similar; with it more for short \
    sequences, less and less of it for longer ones, +20 % on average";

/// Pairs each point in each mode with the point in the first mode.
fn steps<'c>(cells: &'c [Cell], modes: &'c [Mode]) -> impl Iterator<Item = Step<'c>> + Clone {
    let of = |cell: &'c Cell, mode: Mode| {
        Some(Step { cell, mode, own: cell.mode(mode)?, first: cell.mode(modes[0])? })
    };
    cells.iter().flat_map(move |cell| modes.iter().filter_map(move |&mode| of(cell, mode)))
}

#[derive(Clone)]
struct Step<'c> {
    cell: &'c Cell,
    mode: Mode,
    own: &'c ModeResult,
    first: &'c ModeResult,
}

impl Step<'_> {
    /// Speed relative to the first mode.
    fn times(&self) -> f64 {
        self.first.step_us / self.own.step_us
    }
}

/// For each mode: number of steps, geometric and arithmetic mean of their speed relative to the first mode.
fn means<'c>(steps: impl Iterator<Item = Step<'c>>) -> Vec<(Mode, usize, f64, f64)> {
    let mut by_mode: Vec<(Mode, Vec<f64>)> = Vec::new();
    for step in steps {
        match by_mode.iter_mut().find(|(mode, _)| *mode == step.mode) {
            Some((_, times)) => times.push(step.times()),
            None => by_mode.push((step.mode, vec![step.times()])),
        }
    }
    let mean = |(mode, times): (Mode, Vec<f64>)| {
        let count = times.len() as f64;
        let geometric = (times.iter().map(|times| times.ln()).sum::<f64>() / count).exp();
        (mode, times.len(), geometric, times.iter().sum::<f64>() / count)
    };
    by_mode.into_iter().map(mean).collect()
}

fn joules<'c>(steps: impl Iterator<Item = Step<'c>>, name: fn(Mode) -> &'static str) -> Values {
    let ratio = |one: &StepEnergy, other: &StepEnergy, with_npu| {
        let [low, value, high] = one.over(other, with_npu)?;
        Some(format!("{value:.3} ({low:.3} to {high:.3})"))
    };
    rows! { steps => |Step { cell, mode, own, first }|
        let (first, own, other) = (&first.energy, &own.energy, !std::ptr::eq(own, first));
        "batch" "batch" {Count} Screen: "requests" = cell.batch;
        "sequence" "tokens" {Count} Screen: "tokens in K and V of each request" = cell.sequence;
        "system" "system" {Text} Screen: "mode or system" = name(mode);
        "memory" "memory" {Energy} Screen: "energy of the memory in a step" = own.memory;
        "memory_ratio" "over the first" {Text} Screen: "memory's energy over the first system's, with the range over all constants, which are the same in both"
            = other.then(|| ratio(own, first, false)).flatten();
        "total" "all" {Energy} Verbose: "energy of the step" = own.total;
        "total_ratio" "all over the first" {Text} Screen: "energy over the first system's, with the range over all constants"
            = other.then(|| ratio(own, first, true)).flatten();
        "weights" "weights" {Energy} Verbose: "reading weights" = own.of(Purpose::Weights);
        "kv_read" "K, V read" {Energy} Verbose: "reading keys and values for attention on the NPU" = own.of(Purpose::AttentionOnNpu);
        "attention" "attention" {Energy} Verbose: "attention in the banks" = own.of(Purpose::Attention);
        "offloaded" "offloaded" {Energy} Verbose: "matrices in the banks" = own.of(Purpose::MatricesInMemory);
        "standby" "standby" {Energy} Verbose: "standby of the memory" = own.of(Purpose::MemoryStandby);
        "npu_operations" "NPU ops" {Energy} Verbose: "arithmetic of the NPU" = own.of(Purpose::NpuArithmetic);
        "npu_idle" "NPU idle" {Energy} Verbose: "standby of the NPU" = own.of(Purpose::NpuStandby);
    }
}

/// Compares `systems`, or the modes if `systems` is empty. Energies are on the screen if requested.
pub fn report(
    (model, hardware): (&Model, &Hardware),
    (cells, excluded): (&[Cell], &[Point]),
    systems: &[Mode],
    (times, energy): (&'static str, bool),
) -> Report {
    let by_system = !systems.is_empty();
    let name: fn(Mode) -> &'static str = if by_system { Mode::system } else { Mode::name };
    let points = rows! { cells.iter() => |cell|
        "batch" "batch" {Count} Screen: "requests of both groups" = cell.batch;
        "sequence" "tokens" {Count} Screen: "tokens in K and V of each request" = cell.sequence;
        "decision" "algorithm 1" {Text} Screen: "requests offloaded in a middle layer of two groups by equations 1 and 2: m of the FFN, n of attention"
            = decision(&cell.equations.chosen);
        "best" "best" {Text} Screen: "whether trying all numbers gives the same"
            = cell.equations.chosen == cell.equations.exhaustive;
        "small" "small" {Text} Json: "the groups are smaller than the number of channels (algorithm 1, lines 10 to 12)" = cell.small;
        "equations" "" {Data} Json: "decision by equations 1 and 2: chosen, and by trying all numbers (exhaustive)" = &cell.equations;
        "capacity" "" {Data} Json: "bytes of weights, of keys and values of all requests, and of the memory" = cell.capacity;
        "modes" "" {Data} Json: "step in each mode: times in us, utilisations from 0 to 1, energy in fJ by part and purpose" = &cell.modes;
    };
    let shown = if by_system { systems } else { &MODES[..] };
    let means = means(steps(cells, shown));
    let best = means.iter().max_by(|a, b| a.2.total_cmp(&b.2));
    let first = name(shown[0]);
    let answer = best.map_or_else(String::new, |&(mode, points, geometric, _)| {
        let best = name(mode);
        let beyond = cells.iter().filter(|cell| !cell.capacity.fits()).count();
        let beyond =
            if beyond > 0 { format!(", of which {beyond} exceed the memory") } else { String::new() };
        format!("{best} is {geometric:.2} times as fast as {first} in the mean of {points} points{beyond}")
    });
    let libra = rows! { libra(cells, if by_system { systems } else { &Mode::ALL }) => |(mode, points, [least, mean, most], loses)|
        "over" "over" {Text} Screen: "other mode or system" = name(mode);
        "least" "least" {Real("", 2)} Screen: "least speed-up of LibraPIM (dex+dbo) over it" = least;
        "geometric" "geometric mean" {Real("", 2)} Screen: "geometric mean of the speed-up" = mean;
        "most" "most" {Real("", 2)} Screen: "greatest speed-up" = most;
        "slower" "slower" {Count} Screen: "points at which LibraPIM is slower" = loses;
        "points" "points" {Count} Screen: "points" = points;
    };
    let excluded = rows! { excluded => |one|
        "batch" "batch" {Count} Screen: "requests" = one.batch;
        "sequence" "tokens" {Count} Screen: "tokens in K and V of each request" = one.sequence;
        "weights" "weights" {Bytes} Screen: "weights" = one.capacity.weights;
        "kv" "K, V" {Bytes} Screen: "keys and values of all requests" = one.capacity.kv;
        "memory" "memory" {Bytes} Screen: "size of the memory" = one.capacity.memory;
    };
    let means = rows! { means => |(mode, points, geometric, arithmetic)|
        "system" "system" {Text} Screen: "mode or system" = name(mode);
        "geometric" "geometric mean" {Real("", 2)} Screen: "speed-up over the first system, geometric mean of all points" = geometric;
        "arithmetic" "arithmetic mean" {Real("", 2)} Screen: "speed-up over the first system, arithmetic mean of all points" = arithmetic;
        "points" "points" {Count} Screen: "points" = points;
    };
    let table = rows! { steps(cells, shown) => |step|
        let Step { cell, own, .. } = step;
        "batch" "batch" {Count} Screen: "requests" = cell.batch;
        "sequence" "tokens" {Count} Screen: "tokens in K and V of each request" = cell.sequence;
        "system" "system" {Text} Screen: "mode or system" = name(step.mode);
        "step_ms" "step" {Real("ms", 1)} Screen: "time of a decode step" = own.step_us / 1e3;
        "times" "times as fast" {Real("", 2)} Screen: "step of the first system over the step of this one" = step.times();
        "npu_busy" "NPU busy" {Share} Screen: "share of the step for which the NPU has work" = own.npu_busy;
        "pim_busy" "PIM busy" {Share} Screen: "share of the step for which the banks have work" = own.pim_busy;
        "offloaded" "offloaded" {Text} Screen: "requests offloaded in a middle layer: m of the FFN, n of attention; one: one group; whole: a group as a whole in memory"
            = moved(own.mode, own.layout, own.offloaded.as_ref());
        "fits" "fits" {Text} Screen: "whether weights, keys and values fit into the memory" = cell.capacity.fits();
        "tokens_per_second" "tokens/s" {Real("tokens/s", 0)} Screen: "requests divided by the time of the step" = own.tokens_per_second;
        "npu_macs" "NPU MACs" {Share} Verbose: "MACs of the NPU over its peak MACs in the step" = own.npu_macs;
        "pim_macs" "PIM MACs" {Share} Verbose: "MACs of the banks over their peak MACs in the step" = own.pim_macs;
        "npu_idle_ms" "NPU idle" {Real("ms", 1)} Verbose: "time for which the NPU waits" = own.npu_idle_us / 1e3;
        "pim_idle_ms" "PIM idle" {Real("ms", 1)} Verbose: "time for which the banks wait" = own.pim_idle_us / 1e3;
        "energy_of_token" "energy of a token" {Energy} Verbose: "energy of the step over its requests" = own.energy.total.per(cell.batch.into());
        "point" "point" {Text} Json: "batch and tokens together" = format!("{} requests of {} tokens", cell.batch, cell.sequence);
    };
    let bars = ChartKind::Rows { label: "system", value: "geometric" };
    let chart =
        Chart::new("means", format!("Times as fast as {first}"), "Geometric mean of all points.", bars);
    let Model { layers, hidden, heads, kv_heads, ffn, .. } = model;
    let mut report = Report::answer("offload", answer)
        .setting(format!(
            "{}: {layers} layers, hidden {hidden}, {heads} heads, {kv_heads} of K and V, FFN {ffn}; work in memory by the {times}; \
             NPU+AiM and AttAcc with {}",
            model.name,
            issue(hardware)
        ))
        .table("means", "Over all points", means)
        .table("libra", "LibraPIM over the others", libra)
        .table("steps", "A decode step", table)
        .table("excluded", "Points that exceed the memory (--beyond-capacity computes them)", excluded)
        .chart(chart)
        .table_at(if by_system { Level::Verbose } else { Level::Screen }, None, ("cells", "Decisions in a middle layer"), points);
    if model.name == "llama3-70b" && cells.iter().any(|cell| cell.batch == 128) {
        report = report.note(UTILISATIONS);
    }
    let of_energy = if by_system { systems } else { &OFFLOADING[..] };
    let level = if energy { Level::Screen } else { Level::Verbose };
    let joules = joules(steps(cells, of_energy), name);
    let report = report.table_at(level, None, ("energy", "Energy of a decode step"), joules);
    let paper =
        energy && !by_system && model.name == "llama3-70b" && cells.iter().any(|cell| cell.batch == 128);
    if paper { report.note(ENERGIES) } else { report }
}

/// The named systems, or the paper's if there are none.
pub fn of_page(systems: &[Mode]) -> &[Mode] {
    if systems.is_empty() { &PAPER } else { systems }
}
