//! Writes the numbers of selected elements into the list memory, and counts them.
//!
//! A number is the element's plus the first row's, or a list's entry for the element. Entries are written one by one.
//! The written entry is never past the one that is read for it, unless the target begins inside the source after its
//! first entry; so a list can be worked on in place.

use super::prelude::*;

pub(crate) fn selection_bits(config: &DesignConfig) -> u32 {
    bits_for(config.core().list_entries())
}

/// One element per cycle; its entry is written in the cycle in which it comes, a listed one a cycle later: before the
/// selector has passed on the element's first value.
#[block(m, "list_writer_e{}", config.core().list_entries(),
    "Writes the numbers of selected elements to the list memory.")]
pub fn list_writer(config: &DesignConfig) -> Block {
    let row_bits = config.gemv().row_bits();
    let (entry_bits, word_bits) = (bits_for(config.core().list_entries() - 1), list_addr_bits(config));
    let low = log2(WORD_ENTRIES);
    let start = m.input(1, "a command begins: nothing is selected yet");
    let listed = m.input(1, "numbers come from the list memory; constant during a command");
    let first =
        m.input(row_bits, "number of element 0, or the entry that holds it; constant during a command");
    let list = m.input(word_bits, "first word to write; constant during a command");
    let element_valid = m.input(1, "an element is selected");
    let element = m.input(entry_bits, "the element");
    let entry = m.input(row_bits, "the entry chosen by `read_entry_o` of the word read last");

    let number = m.wire(first + element.zext(row_bits));
    let reads = m.wire(element_valid & listed);
    let read = m.flag(reads);
    let read_entry = m.delay(number.low(low));
    let writes = m.wire(read | (element_valid & !listed));
    let selection = m.reg(selection_bits(config)).reset(0);
    selection.count(writes, start);
    let value = mux(listed, entry, number).zext(ENTRY_BITS);

    m.output(read = reads, "read a word");
    m.output(read_addr = number.slice(low, word_bits), "word to read");
    m.output(read_entry, "entry to choose, one cycle later");
    let lanes = one_hot(&selection.low(low), WORD_ENTRIES);
    m.output(write = lanes.gated(writes), "entries of the word to write");
    m.output(write_addr = list + selection.slice(low, word_bits), "word to write");
    m.output(write_data = repeat(BEAT_BITS / ENTRY_BITS, value), "the number");
    m.output(selection, "selected elements");
}
