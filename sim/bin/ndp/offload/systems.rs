//! Systems of the paper beside each other, as text.

use super::table::decision;
use ndp_offloading::{Cell, Dispatch, Hardware, Layout, Mode, ModeResult, Model};
use std::fmt::Write;

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

/// The table: for each point a line for each system.
pub fn text(model: &Model, hardware: &Hardware, cells: &[Cell], systems: &[Mode]) -> String {
    let mut out = String::new();
    let baselines = &hardware.baselines;
    let issue = match baselines.dispatch {
        Dispatch::Channel => "a stream of commands for each channel".to_owned(),
        Dispatch::Shared => {
            format!("one stream of {} commands per us for all channels", baselines.commands_per_us)
        }
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{}: a decode step in each system; NPU+AiM and AttAcc with {issue}\n\
        busy: share of the step for which a device has work; MACs: done over what it could do in the step\n\n\
        batch   seq  system        step ms  tokens/s  times {:<9}  busy %: NPU   PIM  MACs %: NPU   PIM  offloaded",
        model.name,
        systems[0].system()
    );
    let mut times: Vec<(Mode, Vec<f64>)> = systems.iter().map(|&mode| (mode, Vec::new())).collect();
    for cell in cells {
        let Some(first) = cell.mode(systems[0]) else { continue };
        for (mode, all) in &mut times {
            let Some(result) = cell.mode(*mode) else { continue };
            let faster = first.step_us / result.step_us;
            all.push(faster);
            let percent = [result.npu_busy, result.pim_busy, result.npu_macs, result.pim_macs];
            let [npu_busy, pim_busy, npu_macs, pim_macs] = percent.map(|share| 100.0 * share);
            let _ = writeln!(
                out,
                "{:5} {:5}  {:<10} {:10.1} {:9.0}  {:15.2}  {npu_busy:11.0} {pim_busy:5.0}  {npu_macs:11.0} {pim_macs:5.0}  {}",
                cell.batch,
                cell.sequence,
                mode.system(),
                result.step_us / 1e3,
                result.tokens_per_second,
                faster,
                moved(result)
            );
        }
    }
    let _ = writeln!(out);
    for (mode, all) in &times {
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
