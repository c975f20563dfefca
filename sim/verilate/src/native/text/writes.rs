//! The C++ of writes: registers, memories, outputs and checks, and which tasks they wake.

use super::super::plan::{Source, Target};
use super::Text;
use ndp_hdl_language::{Check, Id, Port};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Bits to set in words of the state.
pub(super) type Marks = BTreeMap<String, u64>;

/// Which tasks a function wakes: `m` of the same number is not zero if it has to.
#[derive(Default)]
pub(super) struct Moved {
    pub marks: Vec<Marks>,
}

/// Bits of the word that says what moved.
const MOST_SETS: usize = 64;

impl Moved {
    /// The word that collects the differences after which `marks` have to be set; none without readers.
    pub fn word(&mut self, marks: Marks) -> Option<String> {
        if marks.is_empty() {
            return None;
        }
        let known = self.marks.iter().position(|other| *other == marks);
        let number = known.unwrap_or_else(|| {
            if self.marks.len() < MOST_SETS {
                self.marks.push(Marks::new());
            }
            self.marks.len() - 1
        });
        for (word, bits) in marks {
            *self.marks[number].entry(word).or_default() |= bits;
        }
        Some(format!("m{number}"))
    }
}

pub(super) fn set(marks: &Marks) -> String {
    marks.iter().map(|(word, bits)| format!(" s.{word} |= {bits:#x}u;")).collect()
}

fn difference(moved: Option<&String>, old: &str, new: &str) -> String {
    moved.map_or_else(String::new, |moved| format!("    {moved} |= {new} ^ {old};\n"))
}

impl Text<'_> {
    /// The tasks that read a source. While tasks are computed, contents that they read wake them for the next edge.
    pub(super) fn readers(&self, source: Source) -> Marks {
        let mut marks = Marks::new();
        let contents = matches!(source, Source::Register(_) | Source::Memory(_));
        for (event, (_, plan)) in self.plans.iter().enumerate() {
            if contents || event == self.event {
                let which = if contents && event == self.event { "later" } else { "live" };
                for task in plan.readers.get(&source).into_iter().flatten() {
                    *marks.entry(format!("{which}{event}[{}]", task / 64)).or_default() |= 1 << (task % 64);
                }
            }
        }
        marks
    }

    fn mark_own(&self) -> String {
        let (event, task) = (self.event, self.task);
        format!("s.later{event}[{}] |= {:#x}u;", task / 64, 1_u64 << (task % 64))
    }

    fn words_of(&self, target: Target) -> Vec<Id> {
        match target {
            Target::Register(number) => self.netlist.registers[number as usize].next.clone(),
            Target::Memory(number) => self.netlist.memories[number as usize].data.clone(),
            Target::Output(number) => self.netlist.outputs[number].1.clone(),
            Target::Check(_) => Vec::new(),
        }
    }

    pub(super) fn write(&self, target: Target, late: bool, moved: &mut Moved) -> String {
        let mut text = String::new();
        let words: Vec<String> = self.words_of(target).iter().map(|word| self.operand(*word)).collect();
        match target {
            Target::Register(number) if late => {
                for (limb, word) in words.iter().enumerate() {
                    let _ = writeln!(text, "    s.x{number}[{limb}] = {word};");
                }
            }
            Target::Register(number) => {
                let moved = moved.word(self.readers(Source::Register(number)));
                for (limb, word) in words.iter().enumerate() {
                    let place = format!("s.r{number}[{limb}]");
                    text += &difference(moved.as_ref(), &place, word);
                    let _ = writeln!(text, "    {place} = {word};");
                }
            }
            Target::Memory(number) => {
                let memory = &self.netlist.memories[number as usize];
                let addr = self.operand(memory.addr);
                let masks = memory.written.iter().filter(|_| !memory.whole);
                let masks: Vec<String> = masks.map(|mask| self.operand(*mask)).collect();
                if late {
                    let _ = writeln!(text, "    s.xa{number}[0] = {addr};");
                    for (limb, word) in words.iter().enumerate() {
                        let _ = writeln!(text, "    s.xd{number}[{limb}] = {word};");
                    }
                    for (limb, mask) in masks.iter().enumerate() {
                        let _ = writeln!(text, "    s.xw{number}[{limb}] = {mask};");
                    }
                } else {
                    text += &self.write_memory(number, &addr, &words, &masks, moved);
                }
            }
            Target::Output(number) => {
                let Port { name, width, .. } = &self.netlist.ports[self.netlist.outputs[number].0 as usize];
                let _ = match (width, &words[..]) {
                    (1..=32, [word]) => writeln!(text, "    s.p_{name} = {word};"),
                    (33..=64, [low, high]) => {
                        writeln!(text, "    s.p_{name} = uint64_t{{{high}}} << 32 | {low};")
                    }
                    _ => words
                        .iter()
                        .enumerate()
                        .try_for_each(|(limb, word)| writeln!(text, "    s.p_{name}[{limb}] = {word};")),
                };
            }
            Target::Check(number) => {
                let Check { name, why, reset, holds, .. } = &self.netlist.checks[number as usize];
                let (holds, own) = (self.operand(*holds), self.mark_own());
                let _ = writeln!(
                    text,
                    "    if (!{holds} && s.p_{reset}) {{ s.model->fail(\"\", \"{name}: {why}\"); {own} }}"
                );
            }
        }
        text
    }

    fn write_memory(
        &self,
        number: u32,
        addr: &str,
        words: &[String],
        masks: &[String],
        moved: &mut Moved,
    ) -> String {
        let depth = self.netlist.memories[number as usize].depth;
        let moved = moved.word(self.readers(Source::Memory(number)));
        let mut text = format!("    if ({addr} < {depth}) {{\n");
        for (limb, word) in words.iter().enumerate() {
            let place = format!("s.m{number}[{addr}][{limb}]");
            let word = match masks.get(limb) {
                Some(mask) => format!("(({place} & ~{mask}) | ({word} & {mask}))"),
                None => word.clone(),
            };
            text += &difference(moved.as_ref(), &place, &word);
            let _ = writeln!(text, "    {place} = {word};");
        }
        text + "    }\n"
    }

    /// Writes an array's target in the lanes of `only`.
    pub(super) fn write_lanes(
        &self,
        target: Target,
        only: Option<&str>,
        late: bool,
        known: &mut BTreeSet<Id>,
        moved: &mut Moved,
    ) -> String {
        let mut text = String::new();
        let mut words = Vec::new();
        for word in self.words_of(target) {
            let (load, word) = self.spread(word, known);
            text += &load;
            words.push(word);
        }
        match target {
            Target::Register(number) => {
                let stride = self.extent(self.netlist.registers[number as usize].group).1;
                let moved = moved.word(self.readers(Source::Register(number))).filter(|_| !late);
                for (limb, word) in (0..).zip(&words) {
                    let place = format!("s.r{number} + {} + l", limb * stride);
                    let old = format!("load<V>({place})");
                    let new = match only {
                        Some(only) => format!("select({only}, {word}, {old})"),
                        None => word.clone(),
                    };
                    if late {
                        let _ = writeln!(text, "    store(s.x{number} + {} + l, {new});", limb * stride);
                    } else {
                        text += &difference(moved.as_ref(), &old, &new);
                        let _ = writeln!(text, "    store({place}, {new});");
                    }
                }
            }
            Target::Memory(number) => {
                let memory = &self.netlist.memories[number as usize];
                let stride = self.extent(memory.group).1;
                let mut masks = Vec::new();
                if !memory.whole || only.is_some() {
                    for mask in &memory.written {
                        let (load, mask) = self.spread(*mask, known);
                        text += &load;
                        masks.push(mask);
                    }
                }
                if late {
                    let (load, addr) = self.spread(memory.addr, known);
                    let _ = writeln!(text, "{load}    store(s.xa{number} + l, {addr});");
                    for (limb, word) in (0..).zip(&words) {
                        let at = limb * stride;
                        let mask = masks.get(limb as usize).map_or("all<V>(~0u)", String::as_str);
                        let _ = writeln!(text, "    store(s.xd{number} + {at} + l, {word});");
                        let _ = writeln!(text, "    store(s.xw{number} + {at} + l, {mask});");
                    }
                } else {
                    let same = self.node(memory.addr).group.is_none();
                    let (load, addr) = self.lane_operand(memory.addr, known);
                    text += &load;
                    text += &self.write_memory_lanes(number, (&addr, same), &words, &masks, moved);
                }
            }
            Target::Check(number) => {
                let Check { name, why, reset, holds, group, .. } = &self.netlist.checks[number as usize];
                let (load, holds) = self.spread(*holds, known);
                let (instances, name) = self.place(*group, name);
                let (lanes, own) = (self.extent(*group).0, self.mark_own());
                let _ = writeln!(
                    text,
                    "{load}    if (any(~{holds}) && s.p_{reset}) {{ failed(s.model, {holds}, {instances} + l, {lanes} - l, \"{name}: {why}\"); {own} }}"
                );
            }
            Target::Output(_) => {}
        }
        text
    }

    fn write_memory_lanes(
        &self,
        number: u32,
        (addr, same): (&str, bool),
        words: &[String],
        masks: &[String],
        moved: &mut Moved,
    ) -> String {
        let memory = &self.netlist.memories[number as usize];
        let stride = self.extent(memory.group).1;
        let lanes = self.vector_lanes(memory.group.unwrap_or_default());
        let depth = memory.depth;
        let moved = moved.word(self.readers(Source::Memory(number)));
        let mut text = String::new();
        for (limb, word) in (0..).zip(words) {
            let offset = limb * stride;
            let mask = masks.get(limb as usize).map_or("all<V>(~0u)", String::as_str);
            let note = |lane: &str| {
                moved.as_ref().map_or_else(String::new, |moved| format!("{moved}{lane} |= old ^ now; "))
            };
            let _ = if same {
                let place = format!("s.m{number}[{addr}] + {offset} + l");
                let note = note("");
                writeln!(
                    text,
                    "    if ({addr} < {depth}) {{ const V old = load<V>({place}), now = select({mask}, {word}, old); {note}store({place}, now); }}",
                )
            } else {
                let note = note("[k]");
                writeln!(
                    text,
                    "    {{\n        const V a = {addr}, d = {word}, w = {mask};\n        for (unsigned k = 0; k != {lanes}; ++k)\n            if (a[k] < {depth}) {{\n                Word& place = s.m{number}[a[k]][{offset} + l + k];\n                const Word old = place, now = (old & ~w[k]) | (d[k] & w[k]);\n                {note}place = now;\n            }}\n    }}",
                )
            };
        }
        text
    }

    /// Leaves the old contents for [`Self::late`], as no lane of the block is set.
    pub(super) fn keep_lanes(&self, target: Target) -> String {
        let mut text = String::new();
        match target {
            Target::Register(number) => {
                let stride = self.extent(self.netlist.registers[number as usize].group).1;
                for limb in 0..self.words_of(target).len() as u32 {
                    let at = limb * stride;
                    let _ =
                        writeln!(text, "    store(s.x{number} + {at} + l, load<V>(s.r{number} + {at} + l));");
                }
            }
            Target::Memory(number) => {
                let stride = self.extent(self.netlist.memories[number as usize].group).1;
                for limb in 0..self.words_of(target).len() as u32 {
                    let _ = writeln!(text, "    store(s.xw{number} + {} + l, all<V>(0));", limb * stride);
                }
            }
            Target::Output(_) | Target::Check(_) => {}
        }
        text
    }

    /// Writes a late target.
    pub(super) fn late(&self, target: Target, moved: &mut Moved) -> String {
        let mut text = String::new();
        let limbs = self.words_of(target).len() as u32;
        match target {
            Target::Register(number) => {
                let group = self.netlist.registers[number as usize].group;
                let stride = self.extent(group).1;
                let moved = moved.word(self.readers(Source::Register(number)));
                for limb in 0..limbs {
                    let at = limb * stride;
                    let (old, new) = match group {
                        None => (format!("s.r{number}[{limb}]"), format!("s.x{number}[{limb}]")),
                        Some(_) => (
                            format!("load<V>(s.r{number} + {at} + l)"),
                            format!("load<V>(s.x{number} + {at} + l)"),
                        ),
                    };
                    text += &difference(moved.as_ref(), &old, &new);
                    let _ = match group {
                        None => writeln!(text, "    {old} = {new};"),
                        Some(_) => writeln!(text, "    store(s.r{number} + {at} + l, {new});"),
                    };
                }
            }
            Target::Memory(number) => {
                let memory = &self.netlist.memories[number as usize];
                let stride = self.extent(memory.group).1;
                let lanes = memory.group.is_some();
                let of = |what: &str, limb: u32| match lanes {
                    false => format!("s.{what}{number}[{limb}]"),
                    true => format!("load<V>(s.{what}{number} + {} + l)", limb * stride),
                };
                let words: Vec<String> = (0..limbs).map(|limb| of("xd", limb)).collect();
                let masked = lanes || !memory.whole;
                let masks: Vec<String> = (0..limbs).filter(|_| masked).map(|limb| of("xw", limb)).collect();
                let addr = of("xa", 0);
                text += &match lanes {
                    false => self.write_memory(number, &addr, &words, &masks, moved),
                    true => self.write_memory_lanes(number, (&addr, false), &words, &masks, moved),
                };
            }
            Target::Output(_) | Target::Check(_) => {}
        }
        text
    }
}
