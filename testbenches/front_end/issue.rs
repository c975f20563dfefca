//! The issuer at its ports, with all parts idle: does it decode every instruction as the document says, and refuse all other words?
//!
//! Instructions of random programs, and transfers, each with some field at a limit or one bit changed. `ndp_isa`, which
//! shares nothing with the hardware, gives their meaning.

use common::Outcome;
use common::rtl::{design, design_config};
use ndp_isa::fields::{
    ADDRESS, BATCH, COLS, COUNT, DST, HEADS, LIST, LISTED, NODE, OTHER, RANKS, ROW, SELECTED, SLOT, SRC, TAG,
};
use ndp_isa::{Condition, Field, Instruction, Numbers, Opcode};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Model, OpenOptions};
use ndp_testkit::RandomPrograms;
use std::collections::BTreeMap;

const WORDS: usize = 60_000;
const LONGEST: u32 = 80;
const FIELDS: [Field; 15] =
    [ADDRESS, BATCH, COLS, COUNT, DST, HEADS, LIST, LISTED, NODE, OTHER, RANKS, ROW, SELECTED, SLOT, SRC];
const OUTPUTS: [(&str, Field); 11] = [
    ("source_o", SRC),
    ("target_o", DST),
    ("batch_o", BATCH),
    ("address_o", ADDRESS),
    ("listed_o", LISTED),
    ("selected_o", SELECTED),
    ("list_o", LIST),
    ("transfer_ranks_o", RANKS),
    ("transfer_node_o", NODE),
    ("transfer_slot_o", SLOT),
    ("tag_o", TAG),
];

/// A word with one field at a limit, or with one bit changed, or unchanged.
fn changed(word: u128, random: &mut SplitMix64) -> u128 {
    let mut below = |limit: u64| random.next_u64() % limit;
    let kind = below(4);
    if kind == 0 {
        return word;
    }
    if kind == 1 {
        return word ^ 1 << below(128);
    }
    let field = FIELDS[below(FIELDS.len() as u64) as usize];
    let power = 1 << below(u64::from(field.bits) + 1);
    let value = match below(4) {
        0 => power,
        1 => power - 1,
        2 => power + 1,
        _ => below(1 << 32),
    };
    word & !field.mask() | u128::from(value & field.max()) << field.low
}

#[test]
fn every_instruction_is_taken_apart_and_what_is_none_is_refused() -> Outcome {
    let config = design_config("tiny")?;
    let options = OpenOptions { random_contents: Some(1), ..OpenOptions::default() };
    let mut model = Model::open(&design("tiny", "issue", &[])?, &options)?;
    let (valid, word_port) = (model.input("word_valid_i")?, model.input_of_width("word_i", 128)?);
    let idle = model.input("rows_idle_i")?;
    let [ready, started, refused, busy, error] =
        ["word_ready_o", "start_o", "refuse_o", "busy_o", "error_o"].map(|name| model.output(name));
    let (ready, started, refused, busy, error) = (ready?, started?, refused?, busy?, error?);
    let (rows, heads, count) =
        (model.output("rows_o")?, model.output("heads_o")?, model.output("transfer_count_o")?);
    let mut strobes = BTreeMap::new();
    for port in model.ports() {
        if let Some(name) = port.name.strip_prefix("start_").and_then(|name| name.strip_suffix("_o")) {
            strobes.insert(name.to_owned(), model.output(port.name)?);
        }
    }
    let outputs: Result<Vec<_>, _> =
        OUTPUTS.iter().map(|(name, field)| model.output(name).map(|port| (port, *field))).collect();
    let outputs = outputs?;
    model.set(idle, 1);
    model.reset(2);

    let mut random = SplitMix64::new(11);
    let mut programs = RandomPrograms::new(&config, 12);
    let mut words = Vec::new();
    let (mut legal, mut illegal) = (BTreeMap::new(), BTreeMap::new());
    for number in 0..WORDS {
        let word = loop {
            if number % 6 == 0 {
                let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
                let bits =
                    [ADDRESS, COUNT, NODE, RANKS, SLOT].map(Field::mask).iter().fold(0, |all, m| all | m);
                // Few bursts near the beginning of all ranks, so that it is mostly legal.
                let few =
                    any & bits & !(0xFF_FF00 << COUNT.low | 0x1FFF_0000 << ADDRESS.low | 0xFC << RANKS.low);
                break few | if any >> 127 == 0 { 0x40 } else { 0x41 };
            }
            if number % 6 == 1 {
                // More selections than random programs have.
                let mut below = |limit: u64| (random.next_u64() % limit) as u32;
                let entry = below(64);
                let numbers = if below(2) == 0 { Numbers::From(below(4000)) } else { Numbers::Listed(entry) };
                let (src, dst, cols, batch) = (below(64), below(256), 1 + below(200), 1 + below(3));
                let condition = Condition { threshold: below(1 << 15) as u16, magnitude: below(2) == 1 };
                let list = 16 * below(4);
                break Instruction::Select { src, dst, cols, batch, list, numbers, condition }.encode();
            }
            if let Some(word) = words.pop() {
                break word;
            }
            words = programs.next_program().words();
        };
        let word = changed(word, &mut random);
        let expected = ndp_isa::decode(word, &config);
        model.set_u128(word_port, word);
        model.set(valid, 1);
        model.eval();
        assert_eq!(model.get(ready), 1, "{word:#034x} is not taken");
        model.tick();
        model.set(valid, 0);
        let mut cycles = 0;
        while model.get(started) == 0 && model.get(refused) == 0 {
            cycles += 1;
            assert!(cycles < LONGEST, "{word:#034x} neither starts nor is it refused: {expected:?}");
            model.tick();
            model.eval();
        }
        let instruction = match expected {
            Ok(instruction) => instruction,
            Err(malformed) => {
                assert_eq!(model.get(refused), 1, "{word:#034x}: {malformed:?}");
                model.ticks(3);
                let code = malformed.code().number();
                assert_eq!(model.get(error), u64::from(code), "{word:#034x}: {malformed:?}");
                *illegal.entry(code).or_insert(0) += 1;
                model.reset(2);
                continue;
            }
        };
        assert_eq!(model.get(refused), 0, "{word:#034x}: {instruction:?}");
        let name = format!("{:?}", instruction.opcode()).to_lowercase();
        let part =
            if matches!(instruction, Instruction::Activate { .. }) { "activation" } else { name.as_str() };
        let given: Vec<&String> =
            strobes.iter().filter(|(_, port)| model.get(**port) == 1).map(|(name, _)| name).collect();
        let none = ["nop", "barrier", "signal"].contains(&part);
        assert_eq!(given, if none { vec![] } else { vec![part] }, "{word:#034x}: {instruction:?}");
        let is_transfer = matches!(instruction, Instruction::Send(_) | Instruction::Receive(_));
        let numbers = instruction.value(ROW).or_else(|| instruction.value(COUNT));
        let mut found = vec![
            (if is_transfer { count } else { rows }, numbers),
            (heads, instruction.value(HEADS).map(u32::ilog2)),
        ];
        found.extend(outputs.iter().map(|(port, field)| (*port, instruction.value(*field))));
        // The tag is valid a cycle after the start.
        let signals = part == "signal";
        if signals {
            model.tick();
        }
        for (port, value) in found {
            if let Some(value) = value {
                assert_eq!(model.get(port), u64::from(value), "{word:#034x}: {instruction:?}");
            }
        }
        *legal.entry(name).or_insert(0) += 1;
        model.ticks(if signals { 2 } else { 3 });
        assert_eq!(model.get(busy), 0, "{word:#034x}: {instruction:?}");
    }
    println!("{legal:?}, refused {illegal:?}");
    assert!(legal.len() == Opcode::ALL.len() && legal.values().all(|count| *count > 10), "{legal:?}");
    assert!(illegal.len() >= 6 && illegal.values().all(|count| *count > 10), "{illegal:?}");
    Ok(())
}
