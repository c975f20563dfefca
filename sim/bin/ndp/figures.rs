//! Figures of a run of the decoder, as tables and in JSON: of each class of product, of each instruction.

use crate::tools::grouped;
use ndp_sim::backend::{CoreBackend, Figures, InstructionFigures, class_name};
use serde::Serialize;

/// A class of products.
#[derive(Debug, Serialize)]
pub struct Class {
    class: &'static str,
    #[serde(flatten)]
    figures: Figures,
    efficiency: f64,
}

/// The instructions of an opcode, or of the activation unit.
#[derive(Debug, Serialize)]
pub struct Instructions {
    opcode: &'static str,
    #[serde(flatten)]
    figures: InstructionFigures,
}

/// Of each class that occurred.
pub fn classes(backend: &CoreBackend) -> Vec<Class> {
    let class = |(class, figures): (&_, &Figures)| Class {
        class: class_name(*class),
        figures: *figures,
        efficiency: figures.efficiency(),
    };
    backend.classes().iter().map(class).collect()
}

/// Of each opcode that occurred; those of the activation unit, which share a counter, are one line.
pub fn instructions(backend: &CoreBackend) -> Vec<Instructions> {
    let of = |(opcode, figures): (&ndp_isa::Opcode, &InstructionFigures)| Instructions {
        opcode: opcode.mnemonic(),
        figures: *figures,
    };
    let mut all: Vec<Instructions> = backend.opcodes().iter().map(of).collect();
    let figures = backend.activation();
    if figures.count > 0 {
        all.push(Instructions { opcode: "activation", figures });
    }
    all
}

/// The table of instructions. Parts of the core work side by side, so the shares add up to more than 100 %.
pub fn print_instructions(instructions: &[Instructions], cycles: u64) {
    say!("{:<12}{:>10}{:>15}{:>12}{:>14}", "instruction", "count", "cycles in work", "mean", "of all cycles");
    for Instructions { opcode, figures: InstructionFigures { count, cycles: in_work } } in instructions {
        say!(
            "{opcode:<12}{:>10}{:>15}{:>12}{:>12.1} %",
            grouped(*count),
            grouped(*in_work),
            grouped(in_work / (*count).max(1)),
            100.0 * *in_work as f64 / cycles.max(1) as f64
        );
    }
}

/// The table of products.
pub fn print_classes(classes: &[Class]) {
    say!(
        "{:<10}{:>8}{:>12}{:>15}{:>13}{:>13}{:>12}",
        "product",
        "calls",
        "outputs",
        "MAC",
        "cycles",
        "roofline",
        "efficiency"
    );
    for Class { class, figures, efficiency } in classes {
        say!(
            "{class:<10}{:>8}{:>12}{:>15}{:>13}{:>13}{efficiency:>12.3}",
            grouped(figures.calls),
            grouped(figures.outputs_checked),
            grouped(figures.macs),
            grouped(figures.cycles),
            grouped(figures.roofline_cycles),
        );
    }
}
