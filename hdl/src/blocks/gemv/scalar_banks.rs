//! The scalars of the rows that a rank works on in an AXPY.
//!
//! A job needs one scalar for each head, all at once. So scalars are distributed over banks, one for each possible
//! head: scalar `v = vector * heads + head` of a row goes to bank `v mod banks`, and a job's scalars are neighbours in
//! one word of all banks. They are extracted by halving, and spread over the segments of the tiles.

use super::prelude::*;

/// Bits of the place of a row's scalars. Three rows are in flight: the one being planned, the complete stripe's and the
/// computing one's; a fourth can be stored at the same time.
pub(crate) const fn scalar_slot_bits() -> u32 {
    2
}

/// A read word comes one cycle later and stays until the next read.
#[block(m, "scalar_banks_h{}_v{}", config.max_heads(), config.max_vectors(),
    "Stores the scalars of a few rows and reads those for all heads at once.")]
pub fn scalar_banks(config: &GemvConfig) -> Block {
    let (banks, slot_bits) = (config.max_heads(), scalar_slot_bits());
    let (bank_bits, index_bits) = (log2(banks), log2(config.max_vectors()));
    let we = m.input(1, "take a scalar");
    let wslot = m.input(slot_bits, "place of its row");
    let windex = m.input(index_bits, "number of the scalar in the row: `vector * heads + head`");
    let wdata = m.input(FP16_BITS, "recoded scalar");
    let re = m.input(1, "read the scalars of a vector");
    let rslot = m.input(slot_bits, "place of their row");
    let rvector = m.input(bits_for(config.max_batch() - 1), "the vector");
    let heads = m.input(config.head_bits(), "logarithm of the number of heads");

    let word = |slot: &Bits, index: &Bits| match index_bits - bank_bits {
        0 => *slot,
        bits => cat!(slot, index.high(bits)),
    };
    let first = m.wire(rvector.zext(index_bits).shl(heads));
    let (write_word, read_word) =
        (m.wire("write_word", word(&wslot, &windex)), m.wire("read_word", word(&rslot, &first)));
    let bank = windex.low(bank_bits);
    let read_banks = each(banks, |b| {
        let scalars = m.memory(format!("scalars{b}"), FP16_BITS, 1 << write_word.width());
        scalars.write(we & bank.eq_lit(b.into()), write_word, wdata);
        m.wire(format!("read{b}"), scalars.read(read_word))
    });

    // `parts[h]`: the scalars of `2^h` heads.
    let mut parts = vec![read_banks];
    for h in (0..bank_bits).rev() {
        let (low, high) = parts[0].split_at(1 << h);
        let half = low.iter().zip(high).map(|(low, high)| mux(first.bit(h), high, low)).collect();
        parts.insert(0, half);
    }
    for segment in 0..banks {
        let of = |h: u32| &parts[h as usize][(segment >> (bank_bits - h)) as usize];
        let fewer = (0..bank_bits).rev();
        let chosen = fewer.fold(*of(bank_bits), |rest, h| mux(heads.eq_lit(h.into()), of(h), rest));
        let scalar = m.hold(format!("scalar{segment}_q"), chosen, re);
        m.output(
            format!("scalar{segment}_o"),
            scalar,
            format!("recoded scalar of segment {segment} of the tiles"),
        );
    }
}
