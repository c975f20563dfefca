//! FIFO between two clocks.
//!
//! Each side has a pointer, one bit longer than an address, and sends it to the other side in Gray code: one bit
//! changes per step, so a synchroniser (two flip-flops) that catches it in between yields the old or the new value. The
//! pointer that a side sees is late but never wrong: full and empty end a little later than they could. Both resets
//! must be active together. Valid and ready come from registers.

use super::prelude::*;
use super::synchroniser::synchroniser;
use super::two_clock_sram::{storage as two_clocks, two_clock_sram, two_clock_words, word_register};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// For small FIFOs. The head is in a register after them.
    FlipFlops,
    /// An SRAM macro, whose output moves on to a register, so that its access time is in no other path.
    Sram,
}

fn gray(value: &Bits) -> Bits {
    value ^ cat!(lit(0, 1), value.high(value.width() - 1))
}

/// Inverse of [`gray`]: bit `i` is the parity of the bits from `i` upward.
fn binary(gray: &Bits) -> Bits {
    let parity = |low: u32| (low + 1..gray.width()).fold(gray.bit(low), |sum, bit| sum ^ gray.bit(bit));
    cat((0..gray.width()).rev().map(parity))
}

/// The other side's pointer, two cycles later.
fn synchronised(m: &ModuleBuilder, name: &str, value: &Bits) -> Result<Bits, HdlError> {
    Ok(synchroniser::In { value: *value }.part(m, name, &synchroniser(value.width())?).value.q())
}

#[block(m, "async_fifo_writer_{depth}", "Write pointer of a FIFO between two clocks.")]
fn writer(depth: u32) -> Block {
    let (addr_bits, bits) = (log2(depth), log2(depth) + 1);
    let push = m.input(1, "append a word");
    let reader = synchronised(&m, "reader", &m.input(reader = bits, "the reader's pointer, Gray"))?;
    let ready = m.reg(1).reset(0);
    let pushes = m.wire(push & ready);
    let pointer = m.reg(bits).reset(0);
    let next = m.wire(mux(pushes, pointer.plus_one(), pointer));
    pointer.next(next);
    let next_gray = m.wire(gray(&next));
    let sent = m.flag("gray_q", next_gray);
    // Full: a whole round ahead, which in Gray code differs in the two upper bits.
    let full = match bits {
        2 => !reader,
        _ => cat!(!reader.high(2), reader.low(bits - 2)),
    };
    ready.next(next_gray.ne(full));
    let taken = m.flag(binary(&reader));
    m.output(ready, "there is room");
    m.output(we = pushes, "write the word");
    m.output(addr = pointer.low(addr_bits), "address to write to");
    m.output(gray = sent, "words appended, Gray");
    m.output(taken, "words that this side knows to have left the storage, modulo twice the depth");
}

/// The reading side; with `moves` the head moves on from the storage's output to a register.
#[block(m, "async_fifo_reader_{depth}{}", if moves { "_moving" } else { "" },
    "Read pointer and prefetch of a FIFO between two clocks.")]
fn reader(depth: u32, moves: bool) -> Block {
    let (addr_bits, bits) = (log2(depth), log2(depth) + 1);
    let pop = m.input(1, "remove the head");
    let writer = synchronised(&m, "writer", &m.input(writer = bits, "the writer's pointer, Gray"))?;
    let waiting = m.reg(1).reset(0);
    let valid = m.reg(1).reset(0);
    let head_free = m.wire(!valid | pop);
    let read = m.forward(1);
    if moves {
        let held = m.reg(1).reset(0);
        let moving = m.wire(held & head_free);
        read.drive(waiting & (!held | moving));
        held.set_clear(read, moving);
        valid.next(any!(moving, !head_free));
        m.output(r#move = moving, "make the storage's output the head");
    } else {
        read.drive(waiting & head_free);
        valid.next(any!(read, !head_free));
    }
    let pointer = m.reg(bits).reset(0);
    let next = m.wire(mux(read, pointer.plus_one(), pointer));
    pointer.next(next);
    let next_gray = m.wire(gray(&next));
    let sent = m.flag("gray_q", next_gray);
    waiting.next(next_gray.ne(writer));
    m.output(re = read, "read the next word");
    m.output(addr = pointer.low(addr_bits), "address to read from");
    m.output(gray = sent, "words read, Gray");
    m.output(valid, "the head is valid");
}

/// `depth` words (a power of two) of `width` bits from the domain `write` to the domain `read`, besides those in the
/// registers at its head. A push while not ready and a pop while not valid do nothing.
#[block(m, "async_fifo{}_{depth}x{width}", if storage == Storage::Sram { "_sram" } else { "" },
    "FIFO from one clock to another.")]
pub fn async_fifo(width: u32, depth: u32, storage: Storage) -> Block {
    const POINTER: &str = "Gray code, one bit changes at a time, and a synchroniser follows";
    let sram = storage == Storage::Sram;
    let (write, read) = (m.clock_domain("write"), m.clock_domain("read"));
    let data = m.input(width, "word to append");
    let pop = m.input(1, "remove the head");
    let read_pointer = m.forward(bits_for(depth));
    let push = m.input(1, "append `data_i`");
    let writer = writer::In { push, reader: *read_pointer }.part(&m, "writer", &writer(depth)?);
    writer.in_domain(&write);
    writer.crosses("reader_i", Crossing::Gray, POINTER);
    let reader = reader::In { pop, writer: writer.gray.q() }.part(&m, "reader", &reader(depth, sram)?);
    reader.in_domain(&read);
    reader.crosses("writer_i", Crossing::Gray, POINTER);
    read_pointer.drive(reader.gray);
    let words = if sram { two_clock_sram(depth, width)? } else { two_clock_words(depth, width)? };
    let words = two_clocks::In {
        we: writer.we.q(),
        waddr: writer.addr.q(),
        wdata: data,
        re: reader.re.q(),
        raddr: reader.addr.q(),
    }
    .part(&m, "storage", &words);
    words.pass_domain("write", &write).pass_domain("read", &read);
    let mut head = words.rdata.q();
    if sram {
        let register =
            word_register::In { en: reader.r#move.q(), data: head }.part(&m, "head", &word_register(width)?);
        register.in_domain(&read);
        head = register.word.q();
    }
    m.output(ready = writer.ready, "there is room");
    m.output(
        taken = writer.taken,
        "words that left the storage, modulo twice the depth; on the writer's clock",
    );
    m.output(valid = reader.valid, "the head is valid");
    m.output(data = head, "the head");
}
