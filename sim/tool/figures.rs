//! Figures of a run of the decoder by class of product and by instruction.

use crate::prelude::*;
use ndp_model::GemvClass;
use ndp_sim::system::{ProductFigures, ProgramSums};
use std::collections::BTreeMap;

pub fn classes(classes: &BTreeMap<GemvClass, ProductFigures>) -> Values {
    rows! { classes => |(class, figures)|
        ..figures;
        "class" "product" {Text} Screen: "class of products" = class.name();
        "calls" "calls" {Count} Screen: "products";
        "outputs_checked" "outputs" {Count} Screen: "outputs compared with exact arithmetic";
        "macs" "MAC" {Count} Screen: "multiply-accumulates";
        "cycles" "cycles" {Cycles} Screen: "core cycles";
        "roofline_cycles" "roofline" {Cycles} Screen: "core cycles at full bandwidth of the DRAM and peak arithmetic";
        "efficiency" "of the roofline" {Share} Screen: "roofline_cycles / cycles" = figures.efficiency();
    }
}

/// One row per opcode. Instructions of the activation unit share a counter and a row. Parts of the core work in
/// parallel, so the shares add up to more than 1.
pub fn instructions(sums: &ProgramSums) -> Values {
    let (activation, cycles) = (sums.activation, sums.phases.total());
    let opcodes = sums.opcodes.iter().map(|(opcode, figures)| (opcode.mnemonic(), *figures));
    let all = opcodes.chain((activation.count > 0).then_some(("activation", activation)));
    rows! { all => |(opcode, figures)|
        ..figures;
        "opcode" "instruction" {Text} Screen: "mnemonic, or the activation unit" = opcode;
        "count" "count" {Count} Screen: "instructions";
        "cycles" "cycles in work" {Cycles} Screen: "core cycles in which at least one of them was running";
        "mean_cycles" "mean" {Cycles} Screen: "cycles / count" = figures.cycles / figures.count.max(1);
        "share" "of all cycles" {Share} Screen: "share of all cycles; parts of the core work in parallel"
            = figures.cycles as f64 / cycles.max(1) as f64;
    }
}
