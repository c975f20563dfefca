//! Figures of a run of the decoder, as tables and in JSON: of each class of product, of each instruction.

use ndp_model::GemvClass;
use ndp_report::fields;
use ndp_sim::system::{InstructionFigures, ProductFigures, ProgramSums};
use serde::Serialize;
use std::collections::BTreeMap;

/// A class of products.
#[derive(Debug, Serialize)]
pub struct Class {
    class: &'static str,
    #[serde(flatten)]
    figures: ProductFigures,
    efficiency: f64,
}

/// The instructions of an opcode, or of the activation unit.
#[derive(Debug, Serialize)]
pub struct Instructions {
    opcode: &'static str,
    #[serde(flatten)]
    figures: InstructionFigures,
    mean_cycles: u64,
    share: f64,
}

/// The figures of each class that occurred.
pub fn classes(classes: &BTreeMap<GemvClass, ProductFigures>) -> Vec<Class> {
    let class = |(class, figures): (&GemvClass, &ProductFigures)| Class {
        class: class.name(),
        figures: *figures,
        efficiency: figures.efficiency(),
    };
    classes.iter().map(class).collect()
}

/// The figures of each opcode that occurred. The instructions of the activation unit share a counter and are one row.
pub fn instructions(sums: &ProgramSums) -> Vec<Instructions> {
    let (activation, cycles) = (sums.activation, sums.phases.total());
    let opcodes = sums.opcodes.iter().map(|(opcode, figures)| (opcode.mnemonic(), *figures));
    let all = opcodes.chain((activation.count > 0).then_some(("activation", activation)));
    let row = |(opcode, figures): (&'static str, InstructionFigures)| Instructions {
        opcode,
        figures,
        mean_cycles: figures.cycles / figures.count.max(1),
        share: figures.cycles as f64 / cycles.max(1) as f64,
    };
    all.map(row).collect()
}

// Columns of classes.
fields! { pub CLASS
    "class" "product" {Text} Screen: "class of products";
    "calls" "calls" {Count} Screen: "products";
    "outputs_checked" "outputs" {Count} Screen: "outputs compared with exact arithmetic";
    "macs" "MAC" {Count} Screen: "multiply-accumulates";
    "cycles" "cycles" {Cycles} Screen: "core cycles";
    "roofline_cycles" "roofline" {Cycles} Screen: "core cycles at full bandwidth of the DRAM and peak arithmetic";
    "efficiency" "of the roofline" {Share} Screen: "roofline_cycles / cycles";
}

// Columns of instructions. Parts of the core work side by side, so the shares add up to more than 1.
fields! { pub INSTRUCTION
    "opcode" "instruction" {Text} Screen: "mnemonic, or the activation unit";
    "count" "count" {Count} Screen: "instructions";
    "cycles" "cycles in work" {Cycles} Screen: "core cycles in which one of them was in work";
    "mean_cycles" "mean" {Cycles} Screen: "cycles / count";
    "share" "of all cycles" {Share} Screen: "part of all cycles; parts of the core work side by side";
}
