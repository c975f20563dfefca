//! Runs as a single HTML file: tables, charts, the timeline of a step, and a way from each step to channels, commands and clocks.

use super::energy::Operation;
use super::figures::{Bytes, Figures};
use super::timeline::decision;
use super::{Args, ChannelKind, ControllerKind, Ran};
use crate::rerun::Rerun;
use crate::tools::grouped;
use ndp_energy::{Energy, HbmPart};
use ndp_model::Generation;
use ndp_offloading::algorithm::Choice;
use ndp_offloading::{Device, Mode, Picos};
use ndp_pim::{ChannelSpan, Decided, Event, Outcome};
use ndp_report::{BarChart, Gantt, Report, ReportError};

/// The file's text.
pub fn html(
    args: &Args,
    figures: &[Figures],
    runs: &[(Mode, Ran)],
    alone: &[Generation],
    reason: Option<&str>,
) -> Result<String, ReportError> {
    let channels = figures.first().map_or(0, |f| f.channels.len());
    let title = format!("{} requests, {channels} channels of {}", args.prompt.len(), args.memory);
    let mut report = crate::made::begin(&title).paragraph(
        "Texts by an NPU and an HBM2 memory whose banks compute. Outputs of the banks, and every column of weights, keys and values that \
         the NPU read, were compared bit for bit; texts and logits are compared with those of each prompt by itself, in software. Clocks \
         are of 1 ns; figures count from where the weights have been written.",
    );
    let channel = match args.channel {
        ChannelKind::Rtl => "Each channel is RTL, compared with the device model in every clock",
        ChannelKind::Model => "Each channel is the device model",
    };
    let controller = match args.controller {
        ControllerKind::Software => "its commands are those of the scheduler in software",
        ControllerKind::Rtl => "its commands are those of the controller in RTL, which is given requests",
    };
    report = report.paragraph(&format!("{channel}; {controller}."));
    for (prompt, generation) in args.prompt.iter().zip(alone) {
        report = report.paragraph(&format!("\u{201c}{prompt}\u{2009}|\u{2009}{}\u{201d}", generation.text));
    }
    report = summary(report, figures)?;
    if let Some(reason) = reason {
        report = report.paragraph(reason);
    }
    report = bytes(report, figures)?;
    report = energy(report, figures)?;
    report = each_channel(report, figures);
    report = decisions(report, figures);
    for (mode, ran) in runs {
        report = middle_step(report, *mode, &ran.outcome)?;
    }
    report = report.section("What was done").paragraph(
        "Each step of each group with its pieces of work. A piece has a range of clocks and, by channel, the commands that it was given. \
         The commands of a range, one by one, are written by the line below with the range's first and last clock. The signals of a \
         channel are with --channel rtl --waves FILE.fst --wave-channel CHANNEL --wave-start FIRST --wave-stop LAST in place of \
         its end; those of a controller in RTL with --wave-block controller too:",
    );
    for (mode, ran) in runs {
        report = report.paragraph(&rerun(args, *mode));
        report = steps(report, *mode, &ran.outcome);
    }
    Ok(report.finish())
}

fn summary(report: Report, figures: &[Figures]) -> Result<Report, ReportError> {
    let head =
        ["", "clocks", "per token", "tokens/s", "NPU idle", "memory idle", "FFN moved", "attention moved"];
    let rows: Vec<Vec<String>> = figures
        .iter()
        .map(|f| {
            let moved = |requests: u32, steps: usize| format!("{requests} in {steps} steps");
            vec![
                f.mode.name().to_owned(),
                grouped(f.clocks),
                format!("{:.0}", f.clocks_per_token),
                format!("{:.0}", f.tokens_per_second),
                grouped(f.npu_idle),
                grouped(f.pim_idle),
                moved(f.ffn_requests, f.ffn_steps),
                moved(f.mha_requests, f.mha_steps),
            ]
        })
        .collect();
    let checks: Vec<Vec<String>> = figures
        .iter()
        .map(|f| {
            vec![
                f.mode.name().to_owned(),
                if f.texts_differ == 0 {
                    "the same".to_owned()
                } else {
                    format!("{} differ", f.texts_differ)
                },
                grouped(f.outputs_checked),
                grouped(f.ffn_outputs_checked),
                grouped(f.columns_checked),
                grouped(f.copies_checked),
                grouped(f.protocol_violations),
            ]
        })
        .collect();
    let share = |clocks: fn(&Figures) -> u64| figures.iter().map(move |f| f.share(clocks(f)));
    let chart = BarChart::new("Who is busy", "% of all clocks", figures.iter().map(|f| f.mode.name()))
        .bars("NPU alone", share(|f| f.npu_busy - f.both_busy))
        .bars("both", share(|f| f.both_busy))
        .bars("memory alone", share(|f| f.pim_busy - f.both_busy))
        .bars("neither", share(|f| f.clocks + f.both_busy - f.npu_busy - f.pim_busy))
        .stacked()
        .draw()?;
    let of_checks =
        ["", "texts", "attention", "FFN", "columns of weights", "of keys and values", "violations"];
    Ok(report
        .section("Summary")
        .table(&head, &rows)
        .chart(&chart)
        .section("Checks")
        .table(&of_checks, &checks))
}

fn bytes(report: Report, figures: &[Figures]) -> Result<Report, ReportError> {
    let mut head = vec!["bytes"];
    head.extend(figures.iter().map(|f| f.mode.name()));
    let kinds = Bytes::default().named().map(|(name, _)| name);
    let of_kind = |kind: usize| figures.iter().map(move |f| f.bytes.named()[kind].1);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut chart =
        BarChart::new("Bytes over the buses", "kB", figures.iter().map(|f| f.mode.name())).stacked();
    for (kind, name) in kinds.into_iter().enumerate() {
        let mut row = vec![name.to_owned()];
        row.extend(of_kind(kind).map(grouped));
        rows.push(row);
        chart = chart.bars(name, of_kind(kind).map(|bytes| bytes as f64 / 1e3));
    }
    let mut all = vec!["all".to_owned()];
    all.extend(figures.iter().map(|f| grouped(f.bytes.sum())));
    rows.push(all);
    Ok(report.section("Bytes over the buses").table(&head, &rows).chart(&chart.draw()?))
}

/// By operation and by part, of a token.
fn energy(report: Report, figures: &[Figures]) -> Result<Report, ReportError> {
    let of_operation = |f: &Figures, operation: Operation| -> Energy {
        let of = f.energy.operations.iter().filter(|of| of.operation == operation);
        of.map(|of| of.total).sum::<Energy>().per(f.tokens as u64)
    };
    let of_part = |f: &Figures, part: HbmPart| f.energy.parts.get(part).per(f.tokens as u64);
    let mut head = vec!["of a token"];
    head.extend(figures.iter().map(|f| f.mode.name()));
    let mut all = vec!["all".to_owned()];
    all.extend(figures.iter().map(|f| f.energy.per_token.to_string()));
    let drawn = |title: &str, sums: Vec<(&'static str, Vec<Energy>)>| {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut chart = BarChart::new(title, "uJ", figures.iter().map(|f| f.mode.name())).stacked();
        for (name, of_modes) in sums.into_iter().filter(|(_, of)| of.iter().any(|energy| energy.value > 0)) {
            chart = chart.bars(name, of_modes.iter().map(|energy| energy.pj() / 1e6));
            let shown = of_modes.iter().map(ToString::to_string);
            rows.push(std::iter::once(name.to_owned()).chain(shown).collect());
        }
        rows.push(all.clone());
        Ok::<_, ReportError>((rows, chart.draw()?))
    };
    let by_operation = Operation::ALL
        .map(|operation| (operation.name(), figures.iter().map(|f| of_operation(f, operation)).collect()));
    let by_part = HbmPart::ALL.map(|part| (part.name(), figures.iter().map(|f| of_part(f, part)).collect()));
    let (operations, of_operations) =
        drawn("Energy of the memory for a token, by operation", by_operation.into())?;
    let (parts, of_parts) = drawn("Energy of the memory for a token, by part", by_part.into())?;
    Ok(report
        .section("Energy of the memory")
        .paragraph(
            "Behind the writing of the weights, without the NPU: by operation, then the same by part of the memory. Ranges are those of the \
             constants, all at their least or greatest; docs/energy-hbm.md has them with their sources.",
        )
        .table(&head, &operations)
        .chart(&of_operations)
        .table(&head, &parts)
        .chart(&of_parts))
}

fn each_channel(report: Report, figures: &[Figures]) -> Report {
    let head = ["", "RD", "RDG", "WR", "GBW", "MAC", "RES", "SUM", "ACT"];
    let mut rows = Vec::new();
    for f in figures {
        for channel in &f.channels {
            let c = &channel.commands;
            let counts = [c.read, c.share, c.write, c.load, c.mac, c.result, c.sum, c.activate];
            let mut row = vec![format!("{}, channel {}", f.mode.name(), channel.channel)];
            row.extend(counts.map(|count| grouped(count.into())));
            rows.push(row);
        }
    }
    report
        .section("Channels")
        .paragraph("Commands for pieces of work; PREA and REF are for all banks and not among them.")
        .table(&head, &rows)
}

fn decisions(mut report: Report, figures: &[Figures]) -> Report {
    let head = [
        "step",
        "clock",
        "requests",
        "context",
        "of the other",
        "its context",
        "FFN",
        "attention",
        "us NPU",
        "with it",
        "us memory",
        "with it",
    ];
    let us = |time: Picos| format!("{:.2}", time.us());
    let times = |choice: Option<Choice>| {
        choice.map_or_else(Vec::new, |c| [c.npu_before, c.npu, c.pim_before, c.pim].map(us).to_vec())
    };
    for f in figures.iter().filter(|f| f.mode == Mode::DexDbo) {
        let row = |d: &Decided| {
            let mut row = vec![format!("group {}, step {}", d.group, d.step), grouped(d.clock)];
            let counts = [d.requests, d.context, d.other_requests, d.other_context, d.share.ffn, d.share.mha];
            row.extend(counts.map(|count| count.to_string()));
            // Where attention is offloaded, that is what the times are of.
            let shown =
                if d.share.mha > 0 && d.share.ffn == 0 { d.share.in_attention } else { d.share.on_npu };
            row.extend(times(shown));
            row
        };
        let rows: Vec<Vec<String>> = f.decisions.iter().map(row).collect();
        report = report
            .section("Decisions")
            .paragraph(
                "For each step of a group: how many of its requests have their FFN in memory (equation 1), how many their attention on the \
                 NPU (equation 2), and what the scheduler expected of a layer. Without times the number was given.",
            )
            .table(&head, &rows);
    }
    report
}

/// The step of the first group that is in the middle, and what happens meanwhile.
fn middle_step(report: Report, mode: Mode, outcome: &Outcome) -> Result<Report, ReportError> {
    let last = outcome.events.iter().filter(|event| event.group == 0).map(|event| event.step).max();
    let step = last.unwrap_or(0).div_ceil(2);
    let own = || outcome.events.iter().filter(|event| event.group == 0 && event.step == step);
    let Some(from) = own().map(|event| event.start).min() else { return Ok(report) };
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
    Ok(report
        .section(&format!("A step in {}", mode.name()))
        .paragraph("The step of the first group that is in the middle of its text, and what the devices did for the other one meanwhile.")
        .chart(&chart.draw()?))
}

fn steps(mut report: Report, mode: Mode, outcome: &Outcome) -> Report {
    let mut keys: Vec<(usize, u32)> = outcome.events.iter().map(|e| (e.group, e.step)).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut spans: Vec<Vec<&ChannelSpan>> = vec![Vec::new(); outcome.events.len()];
    outcome.spans.iter().for_each(|span| spans[span.event].push(span));
    for (group, step) in keys {
        let own: Vec<(usize, &Event)> = outcome
            .events
            .iter()
            .enumerate()
            .filter(|(_, event)| (event.group, event.step) == (group, step))
            .collect();
        let from = own.iter().map(|(_, event)| event.start).min().unwrap_or(0);
        let to = own.iter().map(|(_, event)| event.end).max().unwrap_or(0);
        let decided = outcome.decisions.iter().find(|d| (d.group, d.step) == (group, step));
        let what = decided.map_or_else(|| "prompts".to_owned(), decision);
        let summary = format!("{}, group {group}, {what}; clocks {from}..{to}", mode.name());
        let rows: Vec<Vec<String>> = own.into_iter().map(|(number, e)| row(e, &spans[number])).collect();
        let head =
            ["where", "what", "device", "vectors", "from clock", "to clock", "channels: clocks, commands"];
        report = report.folded_table(&summary, &head, &rows);
    }
    report
}

fn row(event: &Event, spans: &[&ChannelSpan]) -> Vec<String> {
    let device = match event.device {
        Device::Npu => "NPU",
        Device::Pim => "memory",
    };
    let channels: Vec<String> = spans
        .iter()
        .map(|span| {
            let commands: Vec<String> =
                span.commands.named().iter().map(|(name, count)| format!("{count} {name}")).collect();
            format!("{}: {}..{}, {}", span.channel, span.start, span.end, commands.join(" "))
        })
        .collect();
    vec![
        event.label.clone(),
        if event.is_offloaded() {
            format!("{}, offloaded", event.work.name())
        } else {
            event.work.name().to_owned()
        },
        device.to_owned(),
        event.vectors.to_string(),
        event.start.to_string(),
        event.end.to_string(),
        channels.join("; "),
    ]
}

/// The command that writes the commands of a range of a run.
fn rerun(args: &Args, mode: Mode) -> String {
    let mut rerun = Rerun::bare("pim");
    rerun.option("memory", &args.memory);
    rerun.option("hardware", &args.hardware);
    rerun.option("energy-memory", &args.energy_memory);
    let numbers = [
        ("channels", args.channels),
        ("offload-ffn", args.offload_ffn.filter(|_| mode == Mode::DexDbo)),
        ("offload-mha", args.offload_mha.filter(|_| mode == Mode::DexDbo)),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            rerun.option(name, value);
        }
    }
    rerun.option("mode", mode.name());
    if mode == Mode::DexDbo && args.offload_ffn.is_none() && args.offload_mha.is_none() {
        rerun.option("rule", value_name(args.rule));
    }
    let names = [("channel", value_name(args.channel)), ("controller", value_name(args.controller))];
    names.into_iter().for_each(|(option, name)| rerun.option(option, name));
    args.prompt.iter().for_each(|prompt| rerun.option("prompt", prompt));
    let tokens: Vec<String> = args.tokens.iter().map(u32::to_string).collect();
    rerun.option("tokens", tokens.join(","));
    rerun.option("temperature", f64::from(args.temperature) / 100.0);
    rerun.option("seed", args.seed);
    if let Some(model) = &args.model {
        rerun.option("model", model.display());
    }
    format!("{} --commands FILE --commands-from FIRST --commands-to LAST", rerun.line())
}

/// The name of a value on the command line.
fn value_name(value: impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
