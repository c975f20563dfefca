//! I/O logic of a PIM channel: the data bus, and the clocks between a command and its data. Columns come from a bank
//! after one clock, results after [`ROUND_LATENCY`]; each waits at its place, assigned in the order of the commands,
//! until its turn on the bus, tCL after the command. Writes wait tCWL for their data. 128 bits per clock, lanes 0 to 7
//! first.

use super::prelude::*;

/// Bits on the data bus in a clock.
pub const BUS: u32 = COLUMN_BITS / 2;
/// Least tCL: rounding, a clock in the queue, a clock in the output register.
pub(super) const LEAST_CL: u32 = ROUND_LATENCY + 2;

#[block(m, "pim_io_l{}_w{}_b{}_s{}", config.t_cl(), config.t_cwl(), config.banks(), config.buffer_slots(),
    "Data bus of a PIM channel.")]
pub fn pim_io(config: &HbmConfig) -> Block {
    let (t_cl, t_cwl) = (config.t_cl(), config.t_cwl());
    let (banks, slot_bits) = (config.banks(), bits_for(config.buffer_slots() - 1));
    m.share_code();
    let read = m.input(1, "RD, RDG, RES or SUM is carried out");
    let rdg = m.input(1, "the command is RDG");
    let res = m.input(1, "the command is RES");
    let slot = m.input(slot_bits, "slot of RDG or GBW");
    let column_data = m.input(COLUMN_BITS, "column or sum, one clock after its command");
    let result_data = m.input(COLUMN_BITS, "rounded sums, when they are ready");
    let write = m.input(1, "WR or GBW is carried out");
    let gbw = m.input(1, "the command is GBW");
    let bank = m.input(banks, "bank of WR, one-hot");
    let path = m.input(1, "path of the WR");
    let column = m.input(COLUMN, "its column");
    let data_valid = m.input(1, "the controller drives the data bus");
    let data = m.input(BUS, "data that the controller drives");
    let delayed = |name: &str, value: &Bits, clocks: u32| {
        (0..clocks).fold(*value, |value, k| m.flag(format!("{name}{k}_q"), value))
    };

    // Places of reads that have not been on the bus.
    let depth = (t_cl / HbmConfig::T_BL + 2).next_power_of_two();
    let place_bits = log2(depth);
    let tail = m.counter(place_bits, read);
    let at_data = delayed("tail_late", &tail, 1);
    let has_data = delayed("column_late", &(read & !res), 1);
    let columns = m.memory(COLUMN_BITS, depth);
    columns.write(has_data, at_data, column_data);
    let at_result = delayed("tail_later", &at_data, ROUND_LATENCY - 1);
    let has_result = delayed("result_late", &(read & res), ROUND_LATENCY);
    let results = m.memory(COLUMN_BITS, depth);
    results.write(has_result, at_result, result_data);
    let kinds = m.memory(2 + slot_bits, depth);
    kinds.write(read, tail, cat!(slot, res, rdg));

    let due = delayed("due", &read, t_cl - 1);
    let second = delayed("second", &due, 1);
    let head = m.counter(place_bits, second);
    let kind = m.wire(kinds.read(head));
    let word = m.wire(mux(kind.bit(1), results.read(head), columns.read(head)));
    let moves = m.wire(due | second);
    let driven = m.hold(mux(second, word.high(BUS), word.low(BUS)), moves);
    let driving = delayed("driving", &moves, 1);
    m.output(data = driven.gated(driving), "data that the channel drives");
    m.output(data_valid = driving, "the channel drives the data bus");
    let fills = m.reg(1 + slot_bits).reset(0).enable(due).next(cat!(kind.high(slot_bits), kind.bit(0)));
    let last_half = delayed("last_half", &second, 1);

    // Writes, until both halves of the data are due.
    let order = cat!(slot, column, path, bank, gbw);
    let mut waiting = order;
    for k in 0..t_cwl {
        let stage = m.delay(format!("order{k}_q"), waiting);
        waiting = stage;
    }
    let previous = m.delay("order_last_q", waiting);
    let first_half = delayed("write", &write, t_cwl);
    let second_half = delayed("write_second", &first_half, 1);
    let expected = m.wire(first_half | second_half);
    let order = m.wire(mux(second_half, previous, waiting));
    let arrives = m.wire(expected & data_valid);
    let halves = m.wire(cat!(arrives & second_half, arrives & first_half));
    let is_gbw = order.bit(0);
    let to_banks = each(banks, |b| halves.gated(!is_gbw & order.bit(1 + b)));
    m.output(write = cat(to_banks.into_iter().rev()), "halves to write, two bits per bank");
    m.output(write_path = order.bit(1 + banks), "path to write through");
    m.output(write_column = order.slice(2 + banks, COLUMN), "column to write");
    m.output(missing = expected & !data_valid, "data are due but not valid");
    m.output(unexpected = data_valid & !expected, "data are valid but not due");

    /// What passes on the bus for the buffer.
    let passes = m.wire(driving & fills.bit(0));
    let passing = cat!(passes & last_half, passes & !last_half);
    m.output(fill = passing | halves.gated(is_gbw), "halves to write into the buffer");
    m.output(fill_slot = mux(passes, fills.high(slot_bits), order.high(slot_bits)), "slot to write");
    m.output(fill_data = mux(passes, driven, data), "half a column for the buffer");
}
