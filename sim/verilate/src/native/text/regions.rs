//! Regions: registers of one instance without an enable, which get new values only if an input has changed. `i` of a
//! region has its inputs when it was last computed, `q` the bits of its registers that changed then; `wake` sets all of
//! `q`.

use super::super::plan::{Block, Target};
use super::Text;
use ndp_hdl_language::Id;
use std::collections::BTreeSet;
use std::fmt::Write;

impl Text<'_> {
    fn note_region(&mut self, block: &Block, group: Option<u32>) -> u32 {
        let number = block.targets.iter().find_map(|target| match target {
            Target::Register(number) => Some(*number),
            _ => None,
        });
        let number = number.unwrap_or_default();
        self.regions.push((number, group, block.inputs.len()));
        number
    }

    /// Computes `nodes` if an input or a register of the region has changed.
    pub(super) fn scalar_region(&mut self, block: &Block, nodes: &str) -> String {
        let number = self.note_region(block, None);
        let mut text = format!("    {{\n    Word moved = s.q{number};\n");
        let (mut keep, mut write) = (String::new(), String::new());
        for (at, id) in block.inputs.iter().enumerate() {
            let operand = self.operand(*id);
            let _ = writeln!(text, "    moved |= {operand} ^ s.i{number}[{at}];");
            let _ = writeln!(keep, "    s.i{number}[{at}] = {operand};");
        }
        for (register, limb, word) in self.next(block) {
            let (word, place) = (self.operand(word), format!("s.r{register}[{limb}]"));
            let _ = writeln!(write, "    moved |= {word} ^ {place};\n    {place} = {word};");
        }
        let _ = writeln!(
            text,
            "    if (moved) {{\n{keep}{nodes}    moved = 0;\n{write}    s.q{number} = moved;\n    }}\n    }}"
        );
        text
    }

    /// Like [`Self::scalar_region`], for the instances of an array that are computed together.
    pub(super) fn vector_region(
        &mut self,
        block: &Block,
        group: Option<u32>,
        nodes: &str,
        known: &mut BTreeSet<Id>,
        mut inner: BTreeSet<Id>,
    ) -> String {
        let number = self.note_region(block, group);
        let stride = self.stride(group.unwrap_or_default());
        let mut text = String::new();
        let (mut look, mut keep, mut write) = (String::new(), String::new(), String::new());
        for (at, id) in (0..).zip(&block.inputs) {
            let (load, operand) = self.spread(*id, known);
            text += &load;
            let place = format!("s.i{number} + {} + l", at * stride);
            let _ = writeln!(look, "    moved |= {operand} ^ load<V>({place});");
            let _ = writeln!(keep, "    store({place}, {operand});");
        }
        for (register, limb, word) in self.next(block) {
            let (load, word) = self.spread(word, &mut inner);
            let place = format!("s.r{register} + {} + l", limb * stride);
            let _ =
                writeln!(write, "{load}    moved |= {word} ^ load<V>({place});\n    store({place}, {word});");
        }
        let _ = writeln!(
            text,
            "    {{\n    V moved = load<V>(s.q{number} + l);\n{look}    if (any(moved)) {{\n{keep}{nodes}    moved = all<V>(0);\n\
             {write}    store(s.q{number} + l, moved);\n    }}\n    }}"
        );
        text
    }

    /// Words that a block writes: register, number of the word, value.
    fn next(&self, block: &Block) -> Vec<(u32, u32, Id)> {
        let of = |target: &Target| match target {
            Target::Register(number) => {
                let words = (0..).zip(self.netlist.registers[*number as usize].next.clone());
                words.map(|(limb, word)| (*number, limb, word)).collect()
            }
            _ => Vec::new(),
        };
        block.targets.iter().flat_map(of).collect()
    }
}
