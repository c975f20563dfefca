//! One run as a single HTML file: charts, tables, and a way from each token to programs, cycles and commands.

use super::report::{OperationFigures, operations, paths, text_verdict, timed_by_bandwidth};
use super::run::{Choice, Hits, Host, Outcome, rerun};
use crate::energy;
use crate::gemv::name;
use crate::golden::verdict_text;
use crate::tools::{grouped, per_second, percent};
use ndp_report::{BarChart, LineChart, Report, ReportError, Series};
use ndp_sim::core::Backend;
use ndp_sim::system::{Event, Perplexity, Place, TokenFigures, imbalance};

/// The file's text.
pub fn html(host: &Host<'_>, outcome: &Outcome) -> Result<String, ReportError> {
    let Choice { dimms, policy, merge } = outcome.choice;
    let figures = &outcome.figures;
    let title = format!("{} DIMM(s) of {}, policy {policy}", dimms, host.config.name());
    let (cycles, ns) = outcome.per_token();
    let core = host.config.core();
    let number = |value: u64| grouped(value);
    let row = |what: &str, value: String| vec![what.to_owned(), value];
    let mut report = crate::made::begin(&title)
        .paragraph(&format!("\u{201c}{}\u{2009}|\u{2009}{}\u{201d}", host.job.prompt, outcome.generation.text))
        .paragraph(&format!(
            "The text behind the bar was generated with the DIMMs' cores {}; each of their results was compared with software, bit for bit. \
             Cycles are those of the cores' clock. Times of the GPU, the bus, and links that are not simulated are bytes over bandwidths.",
            match host.args.unit.backend {
                Backend::Rtl => "simulated in RTL",
                Backend::Cycles => "as models (cycle model and functional model)",
            }
        ))
        .section("Summary")
        .table(
            &["", ""],
            &[
                row("text", text_verdict(outcome)),
                row("golden", verdict_text(outcome.golden.as_ref())),
                row("outputs checked, mismatches", format!("{}, {}", number(figures.outputs_checked), figures.mismatches)),
                row("violations of DRAM timing", number(outcome.violations)),
                row("backdoor accesses to DRAM after loading", number(outcome.backdoor_accesses)),
                row("cycles of the slowest DIMMs per token", number(cycles as u64)),
                row(&format!("tokens/s of the DIMMs at {} MHz", core.clock_mhz()), format!("{:.0}", per_second(cycles / core.clock_ghz()))),
                row("tokens/s of the whole system", format!("{:.0}, with {}", per_second(ns), timed_by_bandwidth(outcome))),
                row("load of the fullest DIMM over the mean", format!("{:.3}", figures.imbalance())),
                row("neurons moved to the GPU, between DIMMs", format!("{}, {}", outcome.sum(|r| r.uploads), outcome.sum(|r| r.migrations))),
                row("activity, numbers of the GPU, partial results", format!("{}, {}, {}", name(host.args.activity), name(host.args.gpu_numerics), name(merge))),
                row("results that differ from exact sums", format!("{} of {}", number(figures.differences.different), number(figures.differences.compared))),
            ],
        );
    report = super::time::section(report, outcome)?;
    report = energy::section(report, "Where a token's energy goes", &outcome.energy)?;
    report = report.section("Load of the DIMMs").chart(&loads(&figures.tokens, dimms)?).chart(
        &LineChart::new("Imbalance", "token", "max / mean of the DIMMs' cycles")
            .series(Series::counted(
                "imbalance",
                figures.tokens.iter().map(|token| imbalance(token.dimm_cycles.iter().copied())),
            ))
            .draw()?,
    );
    let share = figures.tokens.iter().map(|token| {
        let cold: u64 = token.dimm_neurons.iter().sum();
        token.gpu_neurons as f64 / (token.gpu_neurons + cold).max(1) as f64
    });
    report = report
        .section("Hot and cold")
        .paragraph("Share of the computed neurons that the GPU had, and neurons that were moved.")
        .chart(
            &LineChart::new("Share of the GPU", "token", "share of neurons")
                .from_zero()
                .series(Series::counted("GPU", share))
                .draw()?,
        )
        .chart(
            &LineChart::new("Moved neurons", "token", "neurons")
                .from_zero()
                .series(Series::counted("to the GPU", outcome.records.iter().map(|r| r.uploads as f64)))
                .series(Series::counted("between DIMMs", outcome.records.iter().map(|r| r.migrations as f64)))
                .draw()?,
        );
    report = bytes(report, outcome)?;
    report = links(report, host, outcome)?;
    if let Some(found) = outcome.flash() {
        report = super::flash::section(report, &[("this run", &found)])?;
    }
    report = phases(report, outcome)?;
    report = predictor(report, outcome)?;
    Ok(programs(report, host, outcome).finish())
}

/// A line for each DIMM: its cycles.
fn loads(tokens: &[TokenFigures], dimms: u32) -> Result<String, ReportError> {
    let mut chart = LineChart::new("Load per DIMM", "token", "cycles").from_zero();
    for dimm in 0..dimms as usize {
        let load = tokens.iter().map(|token| token.dimm_cycles[dimm] as f64);
        chart = chart.series(Series::counted(&format!("DIMM {dimm}"), load));
    }
    chart.draw()
}

fn bytes(report: Report, outcome: &Outcome) -> Result<Report, ReportError> {
    let paths = paths(outcome);
    let rows: Vec<Vec<String>> =
        paths.iter().map(|(path, what, bytes)| vec![format!("{path}: {what}"), grouped(*bytes)]).collect();
    let labels = paths.iter().map(|(path, what, _)| format!("{path}: {what}"));
    let chart = BarChart::new("Bytes per path", "kB", labels)
        .bars("kB", paths.iter().map(|(.., bytes)| *bytes as f64 / 1e3))
        .draw()?;
    Ok(report.section("Bytes per path").table(&["path", "bytes"], &rows).chart(&chart))
}

/// The links in RTL: what each end has counted.
fn links(report: Report, host: &Host<'_>, outcome: &Outcome) -> Result<Report, ReportError> {
    let report = report.section("Links");
    let Some(links) = &outcome.figures.links else {
        return Ok(report.paragraph("The links were not simulated: bytes over their bandwidth."));
    };
    let dimms = || (0..links.counters.len()).map(|dimm| format!("DIMM {dimm}"));
    let rows: Vec<Vec<String>> = dimms()
        .zip(&links.counters)
        .map(|(dimm, of)| {
            let counts = [
                of.flits_sent,
                of.sent_again,
                of.accepted,
                of.wrong_crc,
                of.out_of_order,
                of.replays_asked,
                of.replays_timed,
                of.without_credit,
            ];
            [vec![dimm], counts.map(|count| grouped(count.into())).to_vec()].concat()
        })
        .collect();
    let head = [
        "link of",
        "flits sent",
        "sent again",
        "accepted",
        "wrong CRC",
        "out of order",
        "replays asked for",
        "after a time",
        "slots without credit",
    ];
    let faults: Vec<String> = host.args.faults.iter().map(ToString::to_string).collect();
    let told = if faults.is_empty() { "nothing else went wrong".to_owned() } else { faults.join(", ") };
    let chart = BarChart::new("Flits of each link", "flits", dimms())
        .bars("first time", links.counters.iter().map(|of| f64::from(of.flits_sent - of.sent_again)))
        .bars("again", links.counters.iter().map(|of| f64::from(of.sent_again)))
        .stacked()
        .draw()?;
    Ok(report
        .paragraph(&format!(
            "Bit error rate of the lanes {}, {} wrong bits; {told}. {} messages with sums, Q, K and V, {} bytes, {} cycles each; {} were \
             sent again as a whole. {} neurons moved from DIMM to DIMM, {} to the GPU; {} did not arrive and stayed where they were.",
            host.args.ber,
            grouped(links.wrong_bits),
            grouped(links.messages),
            grouped(links.bytes),
            grouped(links.cycles / links.messages.max(1)),
            links.repeated,
            links.migrations,
            links.uploads,
            links.failed_moves
        ))
        .table(&head, &rows)
        .chart(&chart))
}

fn phases(report: Report, outcome: &Outcome) -> Result<Report, ReportError> {
    let all = operations(&outcome.events, outcome.figures.prompt_ns);
    let row = |row: &OperationFigures| {
        let OperationFigures {
            operation,
            programs,
            dimm_cycles,
            gpu_ns,
            bus_ns,
            channel_ns,
            link_ns,
            host_ns,
            ssd_ns,
            ..
        } = *row;
        let mut cells = vec![operation.name().to_owned()];
        cells.extend(
            [programs, dimm_cycles, gpu_ns, bus_ns, channel_ns, link_ns, host_ns, ssd_ns].map(grouped),
        );
        cells
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let us = |value: fn(&OperationFigures) -> u64| all.iter().map(move |row| value(row) as f64 / 1e3);
    let chart = BarChart::new("Time of operations", "us", all.iter().map(|row| row.operation.name()))
        .bars("DIMMs, added up", us(|row| row.dimm_ns))
        .bars("GPU", us(|row| row.gpu_ns))
        .bars("bus", us(|row| row.bus_ns))
        .bars("channels", us(|row| row.channel_ns))
        .bars("links", us(|row| row.link_ns))
        .bars("host", us(|row| row.host_ns))
        .bars("SSD", us(|row| row.ssd_ns))
        .stacked()
        .draw()?;
    let head = [
        "operation",
        "programs",
        "cycles of DIMMs",
        "ns of GPU",
        "ns of bus",
        "ns of channels",
        "ns of links",
        "ns of host",
        "ns of SSD",
    ];
    Ok(report
        .section("Phases")
        .paragraph("Behind the prompt, all layers and tokens added up. DIMMs, GPU, bus, channels, links, host and SSD work concurrently in part.")
        .table(&head, &rows)
        .chart(&chart))
}

fn predictor(report: Report, outcome: &Outcome) -> Result<Report, ReportError> {
    let report = report.section("Predictor");
    let Some(predictions) = &outcome.predictions else {
        return Ok(report.paragraph("Exactly the active neurons were computed, without a prediction."));
    };
    let kinds =
        [("attention", &predictions.attention), ("MLP", &predictions.mlp), ("all neurons", &predictions.all)];
    let rows: Vec<Vec<String>> = kinds
        .iter()
        .map(|(name, hits)| {
            let shares = [hits.accuracy, hits.precision, hits.recall].map(percent);
            [vec![(*name).to_owned()], shares.to_vec()].concat()
        })
        .collect();
    let line = |value: fn(&Hits) -> Option<f64>| {
        predictions.tokens.iter().map(move |hits| value(hits).unwrap_or(0.0))
    };
    let chart = LineChart::new("Predictions", "token", "share")
        .from_zero()
        .series(Series::counted("accuracy", line(|hits| hits.accuracy)))
        .series(Series::counted("precision", line(|hits| hits.precision)))
        .series(Series::counted("recall", line(|hits| hits.recall)))
        .draw()?;
    let mut report = report.table(&["neurons", "accuracy", "precision", "recall"], &rows).chart(&chart);
    if let Some(quality) = &outcome.quality {
        let row = |(name, found, hits): (&str, &Perplexity, Option<&Hits>)| {
            let shares = hits.map(|hits| [hits.accuracy, hits.precision, hits.recall].map(percent));
            let figures = [format!("{:.4}", found.per_token), format!("{} of {}", found.right, found.tokens)];
            [vec![name.to_owned()], figures.to_vec(), shares.unwrap_or_default().to_vec()].concat()
        };
        let head =
            ["neurons", "perplexity per token", "largest logit right", "accuracy", "precision", "recall"];
        report = report
            .paragraph(&format!("The text of {}, token by token, in software:", quality.text))
            .table(&head, &quality.rows().into_iter().map(row).collect::<Vec<_>>());
    }
    Ok(report)
}

/// From each token to what was done for it, where, and how to see that again.
fn programs(report: Report, host: &Host<'_>, outcome: &Outcome) -> Report {
    let command = rerun(host, outcome.choice);
    let names = ["DIMM", "PROGRAM", "FIRST", "LAST"];
    let mut report = report
        .section("What was done")
        .paragraph(
            "Each token with its layers, operations and devices. A program of a core has a number and a range of that core's cycles; \
             neurons are those whose products or outputs it computes, by their numbers in the block (inputs of Q, K, V; outputs \
             of FC1). Click on a program's row: its DIMM, number and cycles go into these commands. The first one writes the program's \
             instructions and all DRAM commands with their times.",
        )
        .command(
            &command,
            "--shown-dimm DIMM --shown-program PROGRAM --timeline-products 1 --commands program-PROGRAM.txt",
            &names,
        )
        .paragraph("The second one writes the signals of its cycles in RTL, for GTKWave or Surfer.")
        .command(
            // The option comes before the prompt, which may say anything.
            &command.replacen(" --backend cycles", "", 1),
            "--shown-dimm DIMM --waves program-PROGRAM.fst --wave-start FIRST --wave-stop LAST",
            &names,
        )
        .paragraph(
            "Tokens of the text are counted from 0, the prompt's too; the logits behind the token at a position choose the one at \
             the next.",
        );
    let behind = |event: &&Event| event.begin_ns >= outcome.figures.prompt_ns;
    let mut events: Vec<&Event> = outcome.events.iter().filter(behind).collect();
    events.sort_by_key(|event| (event.position, event.begin_ns));
    let prompt = host.model.vocabulary.tokens(host.job.prompt.as_bytes()).unwrap_or_default();
    for token in &outcome.figures.tokens {
        let own: Vec<&&Event> = events.iter().filter(|event| event.position == token.position).collect();
        let of_text = token.position.checked_sub(host.prompt_tokens);
        let spelt = of_text.and_then(|index| Some((index, outcome.generation.tokens.get(index)?)));
        let text = spelt.and_then(|(index, token)| {
            let before = [&prompt[..], &outcome.generation.tokens[..index]].concat();
            host.model.vocabulary.continuation(&before, std::slice::from_ref(token)).ok()
        });
        let shown = text.map_or_else(String::new, |text| format!("{text:?}"));
        let summary = format!(
            "token {} {shown}: {} cycles of the slowest DIMMs, {} ns",
            token.position,
            grouped(token.critical_cycles),
            grouped(token.ns)
        );
        let rows: Vec<Vec<String>> = own.iter().map(|event| event_row(event)).collect();
        let values = |row: usize| match (own[row].place, &own[row].program) {
            (Place::Dimm(dimm), Some(ran)) => names
                .into_iter()
                .zip(
                    [dimm.into(), ran.number, ran.first_cycle, ran.first_cycle + ran.cycles]
                        .map(|n: u64| n.to_string()),
                )
                .collect(),
            _ => Vec::new(),
        };
        let head = [
            "layer",
            "operation",
            "part",
            "device",
            "from ns",
            "to ns",
            "program",
            "core cycles",
            "instructions",
            "bytes",
            "neurons",
        ];
        report = report.folded_table_of_values(&summary, &head, &rows, values);
    }
    report
}

fn event_row(event: &Event) -> Vec<String> {
    let program = event.program.as_ref();
    let or_nothing = |value: Option<String>| value.unwrap_or_default();
    let neurons: Vec<String> = event.neurons.iter().map(u32::to_string).collect();
    vec![
        or_nothing(event.layer.map(|layer| layer.to_string())),
        event.operation.name().to_owned(),
        event.what.to_owned(),
        event.place.to_string(),
        event.begin_ns.to_string(),
        event.end_ns.to_string(),
        or_nothing(program.map(|program| program.number.to_string())),
        or_nothing(program.map(|p| format!("{}..{}", p.first_cycle, p.first_cycle + p.cycles))),
        or_nothing(program.map(|program| program.instructions.to_string())),
        if event.bytes > 0 { event.bytes.to_string() } else { String::new() },
        neurons.join(" "),
    ]
}
