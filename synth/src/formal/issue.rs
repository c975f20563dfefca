//! Concurrent instructions do not collide, by docs/isa.md: opcodes, fields, sizes of blocks, and shared parts.
//!
//! An arbitrary instruction is remembered with its words of the buffer while its part is busy; no other that starts
//! meanwhile may write those, or use those it writes. Words are compared for instructions that name their number
//! (`zero`, `export`, `import`). Those of vector blocks are a product, on which the solver did not finish; simulation
//! compares them.

use super::configured;
use ndp_config::DesignConfig;
use ndp_hdl::blocks::front_end::issue::issue;
use ndp_hdl_language::{Bits, Direction, HdlError, Module, ModuleBuilder, any_of, cat, zeros};
use std::rc::Rc;

/// Opcodes of docs/isa.md.
const LOAD: u128 = 0x10;
const STORE: u128 = 0x11;
const LIST: u128 = 0x12;
const APPEND: u128 = 0x13;
const EXPORT: u128 = 0x14;
const ZERO: u128 = 0x20;
const DOT: u128 = 0x21;
const AXPY: u128 = 0x22;
const ROUND: u128 = 0x23;
const MERGE: u128 = 0x24;
const IMPORT: u128 = 0x25;
const SELECT: u128 = 0x26;
const TWO_SOURCES: [u128; 5] = [0x34, 0x35, 0x36, 0x37, 0x3A];
const ONE_SOURCE: [u128; 6] = [0x30, 0x31, 0x32, 0x33, 0x38, 0x39];
const FENCES: [u128; 2] = [0x01, 0x02];
const SEND: u128 = 0x40;
const RECEIVE: u128 = 0x41;

/// End of a range: a start of ten bits and a number of 24.
const WORDS: u32 = 25;

struct Words {
    used: Bits,
    first: Bits,
    end: Bits,
}

impl Words {
    fn meet(&self, other: &Self) -> Bits {
        cat([self.used, other.used, self.first.lt(other.end), other.first.lt(self.end)]).all()
    }

    fn kept(&self, m: &ModuleBuilder, name: &str, begins: &Bits) -> Self {
        let keep = |what: &str, value: &Bits| {
            let kept = m.ghost(format!("{name}_{what}_q"), value.width()).enable(begins);
            kept.next(value);
            kept.q()
        };
        Self {
            used: keep("used", &self.used),
            first: keep("first", &self.first),
            end: keep("end", &self.end),
        }
    }
}

/// The prover chooses how long parts are busy.
pub(super) fn collisions() -> Result<Rc<Module>, HdlError> {
    let config = configured(DesignConfig::load("tiny"))?;
    let m = ModuleBuilder::new("issue_collisions", "An issuer, of whose instructions two are compared.");
    let issuer = issue(&config)?;
    let (valid, word) = (m.input("word_valid_i", 1, "an instruction"), m.input("word_i", 128, "its word"));
    let mut instance = m.instance("issue", &issuer).input("word_valid_i", valid).input("word_i", word);
    // Parts are busy from the cycle after a start until the prover ends it.
    let mut parts = Vec::new();
    for port in issuer.ports().iter().filter(|port| port.direction == Direction::Input) {
        if let Some(part) = port.name.strip_suffix("_busy_i") {
            let busy = m.reg(format!("{part}_busy_q"), 1).reset(0);
            let ends = m.input(format!("{part}_ends_i"), 1, "the part comes to its end");
            instance = instance.input(&port.name, busy);
            parts.push((part.to_owned(), busy, ends));
        } else if !["word_valid_i", "word_i"].contains(&port.name.as_str())
            && !issuer.is_clock_or_reset(&port.name)
        {
            instance = instance.input(&port.name, m.input(&port.name, port.width, &port.doc));
        }
    }
    let (takes, start) = (instance.output("word_ready_o"), instance.output("start_o"));
    for port in issuer.ports().iter().filter(|port| port.direction == Direction::Output) {
        if !["word_ready_o", "start_o"].contains(&port.name.as_str()) {
            instance = instance.ignore(&port.name, "the word has it");
        }
    }
    // The current instruction.
    let current = m.reg("current_q", 128).enable(takes);
    current.next(word);
    let opcode = current.low(8);
    let is = |codes: &[u128]| any_of(codes.iter().map(|code| opcode.eq_lit(*code)).collect::<Vec<_>>());
    let activations = [&TWO_SOURCES[..], &ONE_SOURCE].concat();
    let products = [DOT, AXPY, MERGE, IMPORT, SELECT];
    let of_part = |part: &str| match part {
        "load" => is(&[LOAD]),
        "list" => is(&[LIST]),
        "store" => is(&[STORE, APPEND, EXPORT]),
        "zero" => is(&[ZERO]),
        "gemv" => is(&products),
        "round" => is(&[ROUND]),
        "activation" => is(&activations),
        "send" => is(&[SEND]),
        _ => is(&[RECEIVE]),
    };
    for (part, busy, ends) in &parts {
        busy.next(any_of([start & of_part(part), busy.q() & !ends]));
    }
    let busy_of =
        |name: &str| parts.iter().find(|(part, ..)| part == name).map_or(zeros(1), |part| part.1.q());

    // Which parts exclude each other.
    let shares: [(&str, Bits, &[&str]); 5] = [
        ("reader", is(&[LOAD, LIST]), &["load", "list"]),
        ("slices", is(&[ROUND]), &["round", "gemv", "activation"]),
        ("product", is(&products), &["gemv", "round"]),
        ("activation", is(&activations), &["activation", "round"]),
        ("store", is(&[STORE, APPEND, EXPORT]), &["store"]),
    ];
    for (name, needs, others) in shares {
        let taken = any_of(others.iter().map(|other| busy_of(other)).collect::<Vec<_>>());
        m.assert(format!("{name}_free"), !cat([start, needs, taken]).all(), "a part has one instruction");
    }
    let fence = cat([start, is(&FENCES)]).all();
    let any_busy = any_of(parts.iter().map(|part| part.1.q()).collect::<Vec<_>>());
    m.assert("fences", !&fence | !any_busy, "a barrier waits for all parts");

    // Words of the buffer, for instructions that name their number.
    let range = |at: u32, codes: &[u128]| {
        let first = current.slice(at, 10).zext(WORDS);
        Words { used: is(codes), end: first + current.slice(64, 24).zext(WORDS), first }
    };
    let (reads, writes) = (range(88, &[EXPORT]), range(98, &[ZERO, IMPORT]));
    let judged = start & is(&[ZERO, EXPORT, IMPORT]);

    // An arbitrary instruction, until its part is idle.
    let remembers = m.ghost("remembers_q", 1).reset(0);
    let begins = m.any_sequence("chosen", 1) & judged & !remembers.q();
    let mine: Vec<Bits> = parts
        .iter()
        .map(|(part, busy, ends)| {
            let mine = m.ghost(format!("{part}_mine_q"), 1).enable(begins);
            mine.next(of_part(part));
            cat([mine.q(), busy.q(), !ends]).all()
        })
        .collect();
    remembers.next(any_of([begins, remembers.q() & any_of(&mine)]));
    let [old_reads, old_writes] =
        [("reads", &reads), ("writes", &writes)].map(|(name, words)| words.kept(&m, name, &begins));
    let compared = judged & remembers.q();
    for (name, new, old, why) in [
        ("read_after_write", &reads, &old_writes, "nothing is read that is still being written"),
        ("write_after_write", &writes, &old_writes, "nothing is written that is still being written"),
        ("write_after_read", &writes, &old_reads, "nothing is written that is still being read"),
    ] {
        m.assert(name, !&compared | !new.meet(old), why);
    }
    m.output("start_o", start, "an instruction starts");
    m.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_of_the_activation_unit_are_those_of_the_document() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/isa.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| 0x3"));
        let (two, one): (Vec<&str>, Vec<&str>) = rows.partition(|row| row.contains(" src, other, "));
        let codes = |rows: Vec<&str>| -> Vec<u128> {
            rows.iter().map(|row| 0x30 + u128::from_str_radix(&row[..1], 16).unwrap()).collect()
        };
        assert_eq!((codes(two), codes(one)), (TWO_SOURCES.to_vec(), ONE_SOURCE.to_vec()));
    }
}
