//! Distances between commands, as counters: shared by the parts of [`super::pim_channel`] that check them. A timer is
//! loaded by the command that a distance counts from and holds the missing clocks: a command is early while its timer
//! is not 0. That is one counter for each rule and place, without a record of clocks, and a longer distance is simply
//! the larger number.

use super::prelude::*;

/// Clocks left of a distance of `gap` from the last `load`: `gap - 1` in the clock after it.
pub(super) fn timer(m: &ModuleBuilder, name: &str, load: &Bits, gap: u32) -> Bits {
    if gap <= 1 {
        m.unused(load, format!("a distance of {gap} binds nothing ({name})"));
        return zeros(1);
    }
    let bits = bits_for(gap - 1);
    let left = m.reg(format!("{name}_q"), bits).reset(0);
    left.next(mux(load, lit((gap - 1).into(), bits), counted(&left)));
    left.q()
}

pub(super) fn counted(left: &Bits) -> Bits {
    left - left.any().zext(left.width())
}

pub(super) fn larger(a: &Bits, b: &Bits) -> Bits {
    mux(a.lt(b), b, a)
}

/// The code of the first condition that holds, 0 if none does.
pub(super) fn first_code(width: u32, conditions: &[(Bits, u32)]) -> Bits {
    let rest = zeros(width);
    conditions.iter().rev().fold(rest, |rest, (holds, code)| mux(holds, lit((*code).into(), width), rest))
}

pub(super) fn bus(bits: &[Bits]) -> Bits {
    cat(bits.iter().rev().cloned())
}

/// OR of `parts`; 0 without any.
pub(super) fn any_or_none(parts: &[Bits]) -> Bits {
    if parts.is_empty() { zeros(1) } else { any_of(parts) }
}

pub(super) fn number(one_hot: &Bits, bits: u32) -> Bits {
    let of = |bit: u32| {
        let with = (0..one_hot.width()).filter(|i| i >> bit & 1 == 1).map(|i| one_hot.bit(i));
        any_or_none(&with.collect::<Vec<_>>())
    };
    cat((0..bits).rev().map(of))
}

/// Suffix of modules with a memory's times: its name in the letters that Verilog allows.
pub(super) fn suffix(config: &ndp_config::HbmConfig) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    config.name().chars().map(legal).collect()
}
