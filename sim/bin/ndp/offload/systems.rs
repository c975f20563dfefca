//! Systems of the paper beside each other, as text.

use super::table::decision;
use ndp_offloading::{Cell, Dispatch, Hardware, Layout, Mode, ModeResult, Model};
use ndp_report::{BarChart, ReportError};
use std::fmt::Write;

/// The systems that a report shows if none is asked for.
pub const PAPER: [Mode; 6] = [Mode::Serial, Mode::AttAcc, Mode::NeuPims, Mode::Dex, Mode::Dbo, Mode::DexDbo];

/// What is offloaded in a middle layer.
fn moved(result: &ModeResult) -> String {
    match result.layout {
        Layout::WholeGroup => "group".to_owned(),
        _ => result.offloaded.as_ref().map_or_else(|| "-".to_owned(), decision),
    }
}

/// Geometric and arithmetic mean.
fn means(values: &[f64]) -> [f64; 2] {
    let count = values.len().max(1) as f64;
    [(values.iter().map(|value| value.ln()).sum::<f64>() / count).exp(), values.iter().sum::<f64>() / count]
}

/// Who gives NPU+AiM and AttAcc their commands.
fn issue(hardware: &Hardware) -> String {
    let baselines = &hardware.baselines;
    match baselines.dispatch {
        Dispatch::Channel => "a stream of commands for each channel".to_owned(),
        Dispatch::Shared => {
            format!("one stream of {} commands per us for all channels", baselines.commands_per_us)
        }
    }
}

/// Of each point and system, its results beside those of the first system.
fn beside<'a>(cells: &'a [Cell], systems: &'a [Mode]) -> impl Iterator<Item = [&'a ModeResult; 2]> {
    cells.iter().flat_map(move |cell| {
        let first = cell.mode(systems[0]);
        systems.iter().filter_map(move |&mode| Some([first?, cell.mode(mode)?]))
    })
}

/// How many times as fast as the first system each is, at all points.
fn speed_ups(cells: &[Cell], systems: &[Mode]) -> Vec<(Mode, Vec<f64>)> {
    let of = |mode| {
        let own = beside(cells, systems).filter(|[_, result]| result.mode == mode);
        own.map(|[first, result]| first.step_us / result.step_us).collect()
    };
    systems.iter().map(|&mode| (mode, of(mode))).collect()
}

/// The table: for each point a line for each system.
pub fn text(model: &Model, hardware: &Hardware, cells: &[Cell], systems: &[Mode]) -> String {
    let mut out = String::new();
    let issue = issue(hardware);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{}: a decode step in each system; NPU+AiM and AttAcc with {issue}\n\
        busy: share of the step for which a device has work; MACs: done over what it could do in the step\n\n\
        batch   seq  system        step ms  tokens/s  times {:<9}  busy %: NPU   PIM  MACs %: NPU   PIM  offloaded",
        model.name,
        systems[0].system()
    );
    for cell in cells {
        for [first, result] in beside(std::slice::from_ref(cell), systems) {
            let percent = [result.npu_busy, result.pim_busy, result.npu_macs, result.pim_macs];
            let [npu_busy, pim_busy, npu_macs, pim_macs] = percent.map(|share| 100.0 * share);
            let _ = writeln!(
                out,
                "{:5} {:5}  {:<10} {:10.1} {:9.0}  {:15.2}  {npu_busy:11.0} {pim_busy:5.0}  {npu_macs:11.0} {pim_macs:5.0}  {}",
                cell.batch,
                cell.sequence,
                result.mode.system(),
                result.step_us / 1e3,
                result.tokens_per_second,
                first.step_us / result.step_us,
                moved(result)
            );
        }
    }
    let _ = writeln!(out);
    for (mode, all) in &speed_ups(cells, systems) {
        let [geometric, arithmetic] = means(all);
        let _ = writeln!(
            out,
            "{:<10} {geometric:.2} times as fast as {} in the geometric mean of {} points, {arithmetic:.2} in the arithmetic",
            mode.system(),
            systems[0].system(),
            all.len()
        );
    }
    out
}

/// The same as a page with charts.
pub fn html(
    model: &Model,
    hardware: &Hardware,
    cells: &[Cell],
    systems: &[Mode],
    times: &str,
) -> Result<String, ReportError> {
    let names = || systems.iter().map(|mode| mode.system());
    let mut report = crate::made::begin(&format!("{} on an NPU with HBM-PIM", model.name)).paragraph(&format!(
        "A decode step in each system. NPU+AiM and AttAcc have {}. Work in memory takes what the {times} says.",
        issue(hardware)
    ));
    let averages: Vec<[f64; 2]> = speed_ups(cells, systems).iter().map(|(_, all)| means(all)).collect();
    let title = format!("Times as fast as {}, mean of {} points", systems[0].system(), cells.len());
    let bars = BarChart::new(&title, "times as fast", names())
        .bars("geometric mean", averages.iter().map(|[geometric, _]| *geometric))
        .bars("arithmetic mean", averages.iter().map(|[_, arithmetic]| *arithmetic));
    report = report.section("Speed").chart(&bars.draw()?);
    report = report.section("Points");
    for cell in cells {
        let results = || beside(std::slice::from_ref(cell), systems);
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        let rows: Vec<Vec<String>> = results()
            .map(|[first, result]| {
                vec![
                    result.mode.system().to_owned(),
                    format!("{:.1}", result.step_us / 1e3),
                    format!("{:.2}", first.step_us / result.step_us),
                    percent(result.npu_busy),
                    percent(result.pim_busy),
                    percent(result.npu_macs),
                    percent(result.pim_macs),
                    moved(result),
                    result.energy.total.per(cell.batch.into()).to_string(),
                ]
            })
            .collect();
        let head = [
            "system",
            "step ms",
            "times",
            "NPU busy %",
            "PIM busy %",
            "NPU MACs %",
            "PIM MACs %",
            "offloaded",
            "a token",
        ];
        let busy = BarChart::new(
            &format!("{} requests of {} tokens", cell.batch, cell.sequence),
            "% of the MACs that are possible",
            names(),
        )
        .bars("NPU", results().map(|[_, result]| 100.0 * result.npu_macs))
        .bars("PIM", results().map(|[_, result]| 100.0 * result.pim_macs));
        report = report.chart(&busy.draw()?).table(&head, &rows);
    }
    Ok(report.finish())
}
