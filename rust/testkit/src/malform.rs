//! Malformed instruction words for each error code.

use crate::random_programs::operations_on;
use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::{Condition, ErrorCode, Instruction, Numbers, Opcode, Product, Transfer, decode, fields};
use ndp_numerics::SplitMix64;

/// A random word whose first error is `code`; later errors in the order of precedence may follow.
/// [`ErrorCode::QueueFull`] is no property of a word and gives an unknown opcode.
pub fn malformed_word(config: &DesignConfig, code: ErrorCode, random: &mut SplitMix64) -> u128 {
    let has_code = |word: u128| decode(word, config).is_err_and(|error| error.code() == code);
    let product = Product {
        src: 0,
        dst: 0,
        cols: 1,
        batch: 1,
        count: 1,
        address: 0,
        list: None,
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    match code {
        ErrorCode::Opcode | ErrorCode::QueueFull => {
            let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            let unknown = (0..=255u8).filter(|code| Opcode::from_code(*code).is_none());
            let unknown: Vec<u8> = unknown.collect();
            return any & !fields::OPCODE.mask() | u128::from(unknown[below(random, unknown.len())]);
        }
        // A core with a link has no such error.
        ErrorCode::Link if config.core().link() => return malformed_word(config, ErrorCode::Opcode, random),
        ErrorCode::Reserved => {
            let opcode = Opcode::ALL[below(random, Opcode::ALL.len())];
            let bits: Vec<u32> = (0..128).filter(|bit| opcode.mask() >> bit & 1 == 0).collect();
            let instruction = (0..400).map(|_| candidate(config, random)).find(|i| i.opcode() == opcode);
            let word = instruction.map_or(opcode as u128, |instruction| instruction.encode());
            // Rows of several heads are not listed.
            if matches!(opcode, Opcode::Dot | Opcode::Axpy) && below(random, 4) == 0 {
                return word | fields::LISTED.mask() | 1 << fields::HEADS.low;
            }
            // Selected rows are listed, and entries have 12 bits.
            if matches!(opcode, Opcode::Dot | Opcode::Axpy) && below(random, 4) == 0 {
                return word & !fields::LISTED.mask() | fields::SELECTED.mask();
            }
            // There is no format 3, and designs with only FP16 have no other.
            if matches!(opcode, Opcode::Dot | Opcode::Axpy) && below(random, 3) == 0 {
                let other = config.gemv().weight_formats().len() == 1 && below(random, 2) == 0;
                let format = if other { 1 + below(random, 2) as u128 } else { 3 };
                return word & !fields::WEIGHTS.mask() | format << fields::WEIGHTS.low;
            }
            // Listed rows do not share scales.
            if matches!(opcode, Opcode::Dot | Opcode::Axpy) && below(random, 3) == 0 {
                return word | fields::LISTED.mask() | fields::SHARED.mask();
            }
            if opcode == Opcode::Select && below(random, 2) == 0 {
                return word | fields::LISTED.mask() | 1 << (fields::FROM.low + fields::FROM.bits + 3);
            }
            return word | 1 << bits[below(random, bits.len())];
        }
        _ => {}
    }
    // Most draws have an error, so every code comes up soon; if not, there is a plain case of each.
    let drawn = (0..400).map(|_| candidate(config, random).encode()).find(|word| has_code(*word));
    drawn.unwrap_or_else(|| {
        let (words, bursts) = (config.gemv().slice_words(), config.dram().bursts() as u32);
        let instruction = match code {
            ErrorCode::Address => Instruction::Dot(Product { address: bursts, ..product }),
            ErrorCode::List => Instruction::List { list: 8, count: 1, address: 0 },
            ErrorCode::Words => Instruction::Zero { dst: 1, count: words },
            ErrorCode::Overlap => Instruction::Dot(product),
            ErrorCode::Link => {
                Instruction::Send(Transfer { address: 0, count: 1, ranks: 1, node: 0, slot: 0 })
            }
            _ => Instruction::Zero { dst: 0, count: 0 },
        };
        instruction.encode()
    })
}

fn below(random: &mut SplitMix64, bound: usize) -> usize {
    (random.next_u64() % bound as u64) as usize
}

/// An instruction whose values are small or near a limit, on either side.
fn candidate(config: &DesignConfig, random: &mut SplitMix64) -> Instruction {
    let (gemv, core) = (config.gemv(), config.core());
    let mut near = |limit: u64, field: ndp_isa::Field| {
        let value = match below(random, 8) {
            0 => limit.saturating_sub(1),
            1 => limit,
            2 => limit + 1,
            3 => 0,
            4 => random.next_u64(),
            _ => random.next_u64() % limit.clamp(1, 40),
        };
        (value & field.max()) as u32
    };
    let words = gemv.slice_words().into();
    let (src, dst) = (near(words, fields::SRC), near(words, fields::DST));
    let cols = near(gemv.max_cols().into(), fields::COLS);
    let batch = near(u64::from(gemv.max_batch()), fields::BATCH).max(1);
    let rows = near(gemv.max_cols().into(), fields::COUNT);
    let entries = near(core.list_entries().into(), fields::COUNT);
    let (list, listed) = (near(core.list_entries().into(), fields::LIST), near(2, fields::LISTED) == 1);
    let in_rank = near(config.dram().bursts(), fields::ADDRESS);
    let in_dimm = near(1 << config.dimm_burst_bits(), fields::ADDRESS);
    let count = if listed { entries } else { rows };
    let (other, scalar) = (near(words, fields::OTHER), near(1 << 16, fields::SCALAR) as u16);
    let ranks = near(1 << gemv.ranks(), fields::RANKS);
    let heads = if listed { 1 } else { [1, 1, 2, 4, 8, 16][below(random, 6)] };
    let (list_entry, list) = (list, listed.then_some(list));
    let selected = list.is_some() && below(random, 2) == 0;
    let formats = gemv.weight_formats();
    let weights = formats[below(random, formats.len())];
    let shared = list.is_none() && weights != WeightFormat::Fp16 && below(random, 2) == 0;
    let product =
        Product { src, dst, cols, batch, count, address: in_rank, list, heads, selected, weights, shared };
    let operations = operations_on(other, scalar);
    let operation = operations[below(random, operations.len())];
    // For a product with heads.
    let short = if below(random, 2) == 0 { cols } else { cols % gemv.max_cols().min(200) + 1 };
    let any_heads = [1, 2, 4, 8, 16][below(random, 5)];
    let transfer =
        Transfer { address: in_rank, count: rows, ranks, node: list_entry & 15, slot: scalar.into() };
    let numbers = match list {
        Some(from) => Numbers::Listed(from),
        None => Numbers::From(rows),
    };
    let (of_lists, aligned) = (if below(random, 2) == 0 { entries } else { cols }, list_entry & !15);
    match below(random, 17) {
        16 => {
            let list = if below(random, 4) == 0 { list_entry } else { aligned };
            let condition = Condition { threshold: scalar & 0x7FFF, magnitude: scalar >> 15 == 1 };
            Instruction::Select { src, dst, cols: of_lists & 0x3FFFF, batch, list, numbers, condition }
        }
        14 => Instruction::Send(transfer),
        15 => Instruction::Receive(transfer),
        11 => Instruction::Export { src, count: near_words(dst, words), address: in_rank },
        12 => Instruction::Merge { dst, cols, batch, address: in_rank },
        13 => Instruction::Import { dst, count: near_words(src, words), address: in_rank },
        10 => Instruction::Append { src, cols: short, batch, row: rows, address: in_rank },
        0 => Instruction::Load { dst, cols, batch, address: in_dimm },
        1 => Instruction::Store { src, cols, batch, address: in_dimm },
        2 => Instruction::List { list: list_entry, count: entries, address: in_dimm },
        3 => Instruction::Zero { dst, count: near_words(src, words) },
        4 => Instruction::Dot(product),
        5 => Instruction::Axpy(product),
        6 => Instruction::Round { src, dst, cols, batch },
        _ => Instruction::Activate { operation, src, dst, cols: short, batch, heads: any_heads },
    }
}

/// A number of words from another random field: 0 up to somewhat more than the buffer has.
fn near_words(random: u32, words: u64) -> u32 {
    (u64::from(random) % (words + 8)) as u32
}
