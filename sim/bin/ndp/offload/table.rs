//! The grid as text.

use ndp_offloading::algorithm::{Choice, Decision};
use ndp_offloading::{Cell, Layout, Mode, ModeResult, Model};
use std::fmt::Write;

pub fn decision(choice: &Choice) -> String {
    match choice.decision {
        Decision::None => "-".to_owned(),
        Decision::Ffn(m) => format!("m {m}"),
        Decision::Mha(n) => format!("n {n}"),
    }
}

/// Utilisations that the paper gives (section 6.3: Llama3-70B, batch 128): PIM and NPU in per cent.
fn paper(model: &Model, cell: &Cell) -> Option<&'static str> {
    let known = model.name == "llama3-70b" && cell.batch == 128 && cell.sequence == 4096;
    known.then_some("paper: NPU 77 %, PIM 38 %")
}

/// The table.
pub fn text(model: &Model, cells: &[Cell]) -> String {
    let mut out = String::new();
    let Model { name, layers, hidden, heads, kv_heads, ffn, .. } = model;
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{name}: {layers} layers, hidden {hidden}, {heads} heads, {kv_heads} of K and V, FFN {ffn}\n\
        eq, slot: requests offloaded in a middle layer by equations 1 and 2 (m: FFN, n: attention), and with Q, K, V waiting for\n\
        the FFN; ! if trying all numbers gives another. G: one group in memory as a whole; 1: one group. Idle times and shares are of a\n\
        decode step; busy: of its time, MACs: of what the device could do in it.\n"
    );
    let _ = writeln!(
        out,
        "             middle layer |   step ms                                         |  idle ms: dex    | idle ms: dex+dbo | busy %: dex | dex+dbo     | MACs %: dex+dbo\n\
        batch   seq     eq   slot |   serial pipelined      dex   dex+dbo   shortest  |    NPU      PIM  |    NPU      PIM  |  NPU   PIM  |  NPU   PIM  |   NPU   PIM"
    );
    for cell in cells {
        let mark = |chosen: &ndp_offloading::evaluate::Chosen| {
            let wrong = if chosen.chosen == chosen.exhaustive { "" } else { "!" };
            format!("{}{wrong}", decision(&chosen.chosen))
        };
        let modes = [Mode::Serial, Mode::Pipelined, Mode::Dex, Mode::DexDbo, Mode::Shortest]
            .map(|mode| cell.mode(mode));
        let [Some(serial), Some(pipelined), Some(dex), Some(dbo), Some(shortest)] = modes else { continue };
        let ms = |us: f64| us / 1e3;
        let step = |r: &ModeResult| {
            let layout = match r.layout {
                Layout::OneGroup => "1",
                Layout::TwoGroups => " ",
                Layout::WholeGroup => "G",
            };
            format!("{:.1} {layout}", ms(r.step_us))
        };
        let idle = |r: &ModeResult| format!("{:7.1}  {:7.1}", ms(r.npu_idle_us), ms(r.pim_idle_us));
        let busy = |r: &ModeResult| format!("{:4.0}  {:4.0}", 100.0 * r.npu_busy, 100.0 * r.pim_busy);
        let _ = writeln!(
            out,
            "{:5} {:5} {:>6} {:>6} | {:8.1} {:9.1} {:8.1} {:>10} {:>10}  | {}  | {}  | {}  | {}  |  {:4.0}  {:4.0}{}",
            cell.batch,
            cell.sequence,
            mark(&cell.equation),
            mark(&cell.slot),
            ms(serial.step_us),
            ms(pipelined.step_us),
            ms(dex.step_us),
            step(dbo),
            step(shortest),
            idle(dex),
            idle(dbo),
            busy(dex),
            busy(dbo),
            100.0 * dbo.npu_macs,
            100.0 * dbo.pim_macs,
            paper(model, cell).map_or(String::new(), |paper| format!("  {paper}")),
        );
    }
    let mean = |mode: Mode| {
        let logs: Vec<f64> = cells
            .iter()
            .filter_map(|cell| Some((cell.mode(Mode::Serial)?.step_us / cell.mode(mode)?.step_us).ln()))
            .collect();
        (logs.iter().sum::<f64>() / logs.len() as f64).exp()
    };
    let _ = writeln!(
        out,
        "\ntimes as fast as serial, geometric mean: pipelined {:.2}, dex {:.2}, dex+dbo {:.2}, shortest {:.2}",
        mean(Mode::Pipelined),
        mean(Mode::Dex),
        mean(Mode::DexDbo),
        mean(Mode::Shortest)
    );
    out
}
