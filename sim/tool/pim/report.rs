//! The report: modes side by side, busy devices, traffic, energy, decisions, and pieces of work.

use super::figures::Figures;
use super::timeline::decision;
use super::{Args, ChannelKind, ControllerKind, Ran};
use crate::prelude::*;
use ndp_energy::Energy;
use ndp_librapim::host::{ChannelSpan, Outcome};
use ndp_librapim::offloading::{Device, Hardware, Mode};
use ndp_model::Generation;
use ndp_report::{Gantt, ReportError};

const BYTES: [&str; 7] = [
    "bytes.weights",
    "bytes.new_keys_and_values",
    "bytes.keys_and_values",
    "bytes.moved",
    "bytes.operands",
    "bytes.inputs",
    "bytes.results",
];

pub fn report(
    (args, config, hardware): (&Shown<Args>, &HbmConfig, &Hardware),
    figures: &[Figures],
    runs: &[(Mode, Ran)],
    alone: &[Generation],
    reason: Option<String>,
) -> Result<Report, ReportError> {
    let (agrees, verdict) = verdict(figures, alone.len());
    let run = figures! {
        "prompts" "prompts" {Text} Screen: "texts to continue, each a request" = &args.prompt;
        "texts" "texts" {Text} Screen: "continuation of each prompt" = alone.iter().map(|generation| generation.text.as_str()).collect::<Vec<_>>();
        "channel" "channels" {Text} Verbose: "rtl: RTL, compared with the device model in every clock; model: the device model" = args.channel;
        "controller" "commands by" {Text} Verbose: "software: the host's scheduler; rtl: the controller in RTL, which receives requests"
            = args.controller;
        "seed" "seed" {Count} Verbose: "seed of the sampler" = args.seed;
    };
    let channels = match args.channel {
        ChannelKind::Rtl => "in RTL, which equal the device model in every clock",
        ChannelKind::Model => "of the device model",
    };
    let controller = match args.controller {
        ControllerKind::Software => "the host's scheduler",
        ControllerKind::Rtl => "the controller in RTL",
    };
    let decisions = figures.iter().flat_map(|f| f.decisions.iter().map(|decided| (f.mode, decided)));
    let decisions = rows! { decisions => |(mode, decided)|
        ..decided;
        "mode" "mode" {Text} Screen: "mode" = mode;
        "group" "group" {Count} Screen: "group";
        "step" "step" {Count} Screen: "step of the group";
        "clock" "clock" {Count} Screen: "clock of the decision";
        "requests" "requests" {Count} Screen: "unfinished requests of the group";
        "context" "context" {Count} Screen: "their longest context";
        "other_requests" "of the other" {Count} Screen: "requests of the other group";
        "other_context" "its context" {Count} Screen: "their longest context";
        "ffn" "FFN" {Count} Screen: "requests whose FFN the banks compute (equation 1)";
        "mha" "attention" {Count} Screen: "requests whose attention the NPU computes (equation 2)";
        "on_npu.npu_before" "FFN: NPU before" {Real("ps", 0)} Screen: "expected time of the NPU for a layer without offloading, by equation 1";
        "on_npu.npu" "NPU with it" {Real("ps", 0)} Screen: "expected time of the NPU with offloading";
        "on_npu.pim_before" "banks before" {Real("ps", 0)} Screen: "expected time of the banks without offloading";
        "on_npu.pim" "banks with it" {Real("ps", 0)} Screen: "expected time of the banks with offloading";
        "in_attention.npu_before" "attention: NPU before" {Real("ps", 0)} Screen: "expected time of the NPU for a layer without offloading, by equation 2";
        "in_attention.npu" "NPU with it" {Real("ps", 0)} Screen: "expected time of the NPU with offloading";
        "in_attention.pim_before" "banks before" {Real("ps", 0)} Screen: "expected time of the banks without offloading";
        "in_attention.pim" "banks with it" {Real("ps", 0)} Screen: "expected time of the banks with offloading";
        "on_npu" "" {Data} Json: "solution of equation 1 with times in ps; null without the scheduler";
        "in_attention" "" {Data} Json: "solution of equation 2 with times in ps; null without the scheduler";
    };
    let by_channel = figures.iter().flat_map(|f| f.channels.iter().map(|channel| (f.mode, channel)));
    let by_channel = rows! { by_channel => |(mode, channel)|
        ..channel;
        "mode" "mode" {Text} Screen: "mode" = mode;
        "channel" "channel" {Count} Screen: "channel";
        "commands.read" "RD" {Count} Screen: "columns read by the host";
        "commands.share" "RDG" {Count} Screen: "columns read by the host and into the global buffer";
        "commands.write" "WR" {Count} Screen: "columns written";
        "commands.load" "GBW" {Count} Screen: "columns written into the global buffer";
        "commands.mac" "MAC" {Count} Screen: "multiply-accumulates of all banks";
        "commands.result" "RES" {Count} Screen: "results read";
        "commands.sum" "SUM" {Count} Screen: "sums read";
        "commands.activate" "ACT" {Count} Screen: "activations";
        "commands.rows" "rows" {Count} Screen: "rows that they opened, bank by bank";
        "commands.precharge" "PRE" {Count} Screen: "precharges; PREA and REF, which are for all banks, are not counted";
        "bus" "" {Data} Json: "clocks of the buses since reset, by their use";
        "multipliers" "" {Data} Json: "clocks of the multipliers since reset, by their use";
    };
    let modes: Values = figures.iter().map(|f| f.row.clone()).collect();
    let columns = |parts: &[&'static str], factor, axis| ChartKind::Columns {
        label: "mode",
        parts: parts.to_vec(),
        factor,
        axis,
    };
    let busy = columns(&["npu_only", "both", "pim_only", "neither"], 100.0, "% of all clocks");
    let energy = if args.energy { Level::Screen } else { Level::Verbose };
    let report = Report::checked("generate pim", agrees, verdict)
        .setting(format!(
            "{} with {} channels {channels}, given commands by {controller}; NPU {}",
            config.name(),
            config.channels(),
            args.hardware
        ))
        .note(
            "clocks of 1 ns count from where the weights have been written; each output of the banks, and each column of weights, keys and \
             values that the NPU read, is compared bit for bit",
        )
        .note(format!("energy is the memory's, without the NPU; in brackets the ranges of the constants in {}", args.energy_memory))
        .figures(run)
        .table("modes", "Modes", modes)
        .chart(Chart::new("modes", "Who is busy", "Clocks in which both are busy are gained over a single device.", busy))
        .chart(Chart::new("modes", "Bytes over the buses", "Two groups read the weights twice.", columns(&BYTES, 1e-3, "kB")))
        .table_at(energy, Some("share"), ("energy", "energy of the memory for a token"), parts(figures))
        .by(&["by"]);
    let stacks = || ChartKind::Stacks {
        label: "mode",
        part: "name",
        value: ("energy.fj", 1e-9),
        axis: "uJ for a token",
    };
    let report = ["by operation", "by part"]
        .into_iter()
        .fold(report, |report, by| {
            report.chart(Chart::new("energy", by, "Loading of the weights is not counted.", stacks()))
        })
        .table_at(Level::Verbose, None, ("channels", "Commands of the channels"), by_channel)
        .table_at(Level::Verbose, None, ("decisions", "Decisions"), decisions);
    // Thousands of rows, which only files can show.
    let has_room = args.form.html.is_some() || args.form.csv.is_some();
    let runs = if has_room { runs } else { &[] };
    let work: Values = runs.iter().map(|(mode, ran)| pieces(*mode, &ran.outcome)).collect();
    let report = report.table_at(Level::Page, None, ("work", "pieces of work"), work).by(&["mode"]);
    let report = runs.iter().try_fold(report, |report, (mode, ran)| {
        let (step, svg) = middle_step(*mode, &ran.outcome)?;
        let caption = format!(
            "Step {step} of group 0, in the middle of its text, and the other group at that time. The options --mode {0} --commands FILE \
             --commands-from FIRST --commands-to LAST list the commands of a range of clocks; with --channel rtl, --mode {0} --waves FILE.fst \
             --wave-channel CHANNEL --wave-start FIRST --wave-stop LAST write the signals.",
            mode.name()
        );
        Ok(report.chart(Chart::new("work", mode.name(), caption, ChartKind::Drawn(svg))))
    })?;
    let report = reason.into_iter().fold(report, Report::reason);
    Ok(report
        .data("memory", "the memory (docs/hbm-pim.md)", config)
        .data("hardware", "NPU and memory as the scheduler sees them (docs/offloading.md)", hardware)
        .data("tools", "versions of the tools", &Tools::new()))
}

fn verdict(figures: &[Figures], requests: usize) -> (bool, String) {
    let wrong = figures.iter().filter(|f| !f.agrees()).map(|f| {
        let (mode, texts, rules) = (f.mode.name(), f.texts_differ, f.protocol_violations);
        format!(
            "{mode}: {texts} of {requests} texts differ from the software's, {rules} timing rules are broken"
        )
    });
    let wrong: Vec<String> = wrong.collect();
    let fastest = figures.iter().min_by_key(|f| f.clocks);
    match fastest.filter(|_| wrong.is_empty()) {
        Some(f) => {
            let (mode, tokens, rate) = (f.mode.name(), f.tokens, grouped(f.tokens_per_second.round() as u64));
            let modes =
                if figures.len() > 1 { "in all modes and in software" } else { "in memory and in software" };
            (
                true,
                format!(
                    "{mode} generates {rate} tokens/s; texts and logits of {requests} requests, {tokens} tokens, are the same {modes}"
                ),
            )
        }
        None => (false, wrong.join("; ")),
    }
}

/// Energy of a token by operation, part, command and channel.
fn parts(figures: &[Figures]) -> Values {
    let mut all = Vec::new();
    for f in figures {
        let energy = &f.energy;
        let mut add = |by, parts: Vec<(String, Energy)>| {
            let shown = parts.into_iter().filter(|(_, energy)| energy.value > 0);
            all.extend(shown.map(|(name, of)| figures! {
                "by" "by" {Text} Screen: "how the energy is split" = by;
                "mode" "mode" {Text} Screen: "mode" = f.mode;
                "name" "part" {Text} Screen: "operation, command, part or channel" = name;
                "share" "share" {Share} Screen: "share of the memory's energy" = of.value as f64 / energy.total.value.max(1) as f64;
                "energy" "of a token" {Energy} Screen: "energy over generated tokens" = of.per(f.tokens as u64);
            }));
        };
        add(
            "by operation",
            energy.operations.iter().map(|of| (of.operation.name().to_owned(), of.total)).collect(),
        );
        add("by part", energy.parts.iter().map(|(part, of)| (part.name().to_owned(), of)).collect());
        add("by command", energy.commands.iter().map(|(event, of)| (event.name().to_owned(), of)).collect());
        let channels = energy.channels.iter().enumerate();
        add("by channel", channels.map(|(channel, of)| (format!("channel {channel}"), of.total)).collect());
    }
    all.into()
}

/// The first group's middle step, and the work at the same time.
fn middle_step(mode: Mode, outcome: &Outcome) -> Result<(u32, String), ReportError> {
    let last = outcome.events.iter().filter(|event| event.group == 0).map(|event| event.step).max();
    let step = last.unwrap_or(0).div_ceil(2);
    let own = || outcome.events.iter().filter(|event| event.group == 0 && event.step == step);
    let from = own().map(|event| event.start).min().unwrap_or(0);
    let to = own().map(|event| event.end).max().unwrap_or(from);
    let us = |clock: u64| clock.clamp(from, to).saturating_sub(from) as f64 / super::CLOCKS_PER_US;
    let mut chart = Gantt::new(
        &format!("{}, step {step} of group 0", mode.name()),
        &format!("us from clock {}", grouped(from)),
        ["NPU", "attention", "products"],
    );
    for event in outcome.events.iter().filter(|event| event.end > from && event.start < to) {
        let row = match (event.device, event.is_offloaded()) {
            (Device::Npu, _) => 0,
            (Device::Pim, false) => 1,
            (Device::Pim, true) => 2,
        };
        let kind = format!("group {}, {}", event.group, event.work.name());
        let tip = format!("{}, {} vectors", event.label, event.vectors);
        chart = chart.bar(row, &kind, (us(event.start), us(event.end)), &tip);
    }
    Ok((step, chart.draw()?))
}

/// Pieces of work by groups and steps.
fn pieces(mode: Mode, outcome: &Outcome) -> Values {
    let mut spans: Vec<Vec<&ChannelSpan>> = vec![Vec::new(); outcome.events.len()];
    outcome.spans.iter().for_each(|span| spans[span.event].push(span));
    let of_channel = |span: &&ChannelSpan| {
        let commands = span.commands.named().into_iter().map(|(name, count)| format!("{count} {name}"));
        format!("{}: {}..{}, {}", span.channel, span.start, span.end, commands.collect::<Vec<_>>().join(" "))
    };
    let events = outcome.events.iter().zip(&spans).sorted_by_key(|(event, _)| (event.group, event.step));
    rows! { events => |(event, spans)|
        let decided = outcome.decisions.iter().find(|d| (d.group, d.step) == (event.group, event.step));
        "mode" "mode" {Text} Screen: "mode" = mode;
        "group" "group" {Count} Screen: "group of the requests" = event.group;
        "step" "step" {Count} Screen: "step of the group: 0 for the prompts, then one for each token" = event.step;
        "decision" "decision" {Text} Screen: "offloading of the step" = decided.map_or_else(|| "prompts".to_owned(), decision);
        "place" "where" {Text} Screen: "layer and matrix" = &event.label;
        "work" "work" {Text} Screen: "matrix, product in both devices, attention, or move of keys and values" = event.work.name();
        "offloaded" "offloaded" {Text} Screen: "whether it moved to this device" = event.is_offloaded();
        "device" "device" {Text} Screen: "npu or pim" = event.device;
        "vectors" "vectors" {Count} Screen: "vectors of a matrix, or queries of attention" = event.vectors;
        "start" "from clock" {Count} Screen: "first clock" = event.start;
        "end" "to clock" {Count} Screen: "clock after the last one" = event.end;
        "channels" "channels" {Text} Screen: "clocks and commands of each channel"
            = spans.iter().map(of_channel).join("; ");
    }
}
