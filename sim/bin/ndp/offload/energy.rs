//! The energy of a step as text.

use super::table::decision;
use ndp_energy::Energy;
use ndp_offloading::{Cell, Mode, Model, Purpose, StepEnergy};
use std::fmt::Write;

/// What the paper says (section 6.5, Fig. 22: Llama3-70B, batch 128, against NeuPIMs).
const PAPER: &str = "paper, Fig. 22, Llama3-70B, batch 128, LibraPIM over NeuPIMs: without offloading similar; with it more for short\n\
    sequences, less and less of it for longer ones, +20 % on average.";

/// The columns of the table behind the sums.
const SHOWN: [(&str, Purpose); 7] = [
    ("weights", Purpose::Weights),
    ("K, V read", Purpose::AttentionOnNpu),
    ("attention", Purpose::Attention),
    ("offloaded", Purpose::MatricesInMemory),
    ("standby", Purpose::MemoryStandby),
    ("NPU ops", Purpose::NpuArithmetic),
    ("NPU idle", Purpose::NpuStandby),
];

fn joules(energy: Energy) -> String {
    format!("{:.2}", energy.joules())
}

fn quotient(one: &StepEnergy, other: &StepEnergy, with_npu: bool) -> String {
    one.over(other, with_npu)
        .map_or_else(|| "-".to_owned(), |[low, value, high]| format!("{value:.3} ({low:.3} to {high:.3})"))
}

/// Without and with offloading, over NeuPIMs.
pub const OFFLOADING: [Mode; 3] = [Mode::NeuPims, Mode::Dex, Mode::DexDbo];

/// The table: a line with the first system, and those with the others over it.
pub fn text(model: &Model, cells: &[Cell], systems: &[Mode]) -> String {
    let mut out = String::new();
    let Some((&first, others)) = systems.split_first() else { return out };
    // Modes are named as in the other table of modes, systems as in the table of systems.
    let name = |mode: Mode| if systems == OFFLOADING { mode.name() } else { mode.system() };
    let base = first.system();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "\nenergy of a decode step in J; quotients over {base}, with the range over all constants (the same in both);\n\
        a token's with the range of all constants at their least and at their greatest\n"
    );
    let _ = write!(out, "batch   seq  mode    middle");
    for (name, _) in SHOWN {
        let _ = write!(out, " {name:>9}");
    }
    let _ = writeln!(
        out,
        "  {:>8} {:>8}  {:<26} {:<26} a token",
        "memory",
        "all",
        format!("memory, over {base}"),
        format!("all, over {base}")
    );
    let mut logs: Vec<(u32, Mode, [f64; 2])> = Vec::new();
    for cell in cells {
        let Some(own) = cell.mode(first) else { continue };
        for result in systems.iter().filter_map(|&mode| cell.mode(mode)) {
            let energy = &result.energy;
            let moved = if result.mode.offloads() { layout(result) } else { "-".to_owned() };
            let _ = write!(out, "{:5} {:5}  {:<8}{moved:>6}", cell.batch, cell.sequence, name(result.mode));
            for (_, purpose) in SHOWN {
                let _ = write!(out, " {:>9}", joules(energy.of(purpose)));
            }
            let [memory, all] = if result.mode == first {
                [String::new(), String::new()]
            } else {
                [false, true].map(|with_npu| quotient(energy, &own.energy, with_npu))
            };
            let token = energy.total.per(cell.batch.into());
            let sums = [energy.memory, energy.total].map(joules);
            let _ = writeln!(out, "  {:>8} {:>8}  {memory:<26} {all:<26} {token}", sums[0], sums[1]);
            let values = [false, true].map(|with_npu| energy.over(&own.energy, with_npu));
            if let [Some(memory), Some(all)] = values {
                logs.push((cell.batch, result.mode, [memory[1].ln(), all[1].ln()]));
            }
        }
    }
    let mut batches: Vec<u32> = logs.iter().map(|(batch, ..)| *batch).collect();
    batches.dedup();
    let _ = writeln!(out);
    for batch in batches {
        for &mode in others {
            let own = || logs.iter().filter(|(of, which, _)| (*of, *which) == (batch, mode));
            let mean = |which: usize| {
                (own().map(|(.., logs)| logs[which]).sum::<f64>() / own().count() as f64).exp()
            };
            let _ = writeln!(
                out,
                "batch {batch}: {} over {base}, geometric mean of {} sequences: memory {:.3}, with the NPU {:.3}",
                name(mode),
                own().count(),
                mean(0),
                mean(1)
            );
        }
    }
    if first == Mode::NeuPims && model.name == "llama3-70b" && cells.iter().any(|cell| cell.batch == 128) {
        let _ = writeln!(out, "{PAPER}");
    }
    out
}

/// What is offloaded in a middle layer.
fn layout(result: &ndp_offloading::ModeResult) -> String {
    match result.layout {
        ndp_offloading::Layout::WholeGroup => "G".to_owned(),
        _ => result.offloaded.as_ref().map_or_else(|| "-".to_owned(), decision),
    }
}
