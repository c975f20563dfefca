//! Executes the instruction stream: one after the other is decoded, checked, and started when nothing it needs is in use.
//!
//! An instruction waits for the part that executes it, and for every running instruction that writes words it reads or writes, or reads
//! words it writes. So the buffer and the list memory look as if each instruction began after the one before had ended.
//! DRAM is not watched; a barrier waits for everything.

use super::dma_reader::beat_count_bits;
use super::prelude::*;
use crate::blocks::activation::activation_unit::Operation;
use crate::blocks::activation::activation_walker::vector_bits;
use crate::blocks::link::transfer_message::{COUNT_BITS, SLOT_BITS};
use crate::blocks::link::transfer_unit::Transfer;

/// Bits of a count of instructions.
pub(crate) const SEQUENCE_BITS: u32 = 32;

/// Words `first .. end` that something reads or writes.
#[derive(Clone)]
struct Range {
    used: Bits,
    first: Bits,
    end: Bits,
}

impl Range {
    /// Whether both have a word in common.
    fn meets(&self, other: &Self) -> Bits {
        all!(self.used, other.used, self.first.lt(other.end), other.first.lt(self.end))
    }

    /// Kept by a part from its start on, used while it is busy.
    fn held(&self, m: &ModuleBuilder, name: &str, start: &Bits, busy: &Bits) -> Self {
        let hold = |what: &str, value: &Bits| m.hold(format!("{name}_{what}_q"), value, start);
        Self {
            used: m.wire(format!("{name}_live"), hold("used", &self.used) & busy),
            first: hold("first", &self.first),
            end: hold("end", &self.end),
        }
    }
}

/// What multiplies rows of DRAM, or adds them to sums; and what finds out which of them are worth it.
pub(crate) const PRODUCTS: [&str; 5] = ["dot", "axpy", "merge", "import", "select"];

/// A part of the core: name, instructions that it executes.
type Part = (&'static str, &'static [&'static str]);

/// The parts of a core with a link, in the order of [`Busy`].
pub(crate) const PARTS: [Part; 9] = [
    ("load", &["load"]),
    ("list", &["list"]),
    ("store", &["store", "append", "export"]),
    ("zero", &["zero"]),
    ("gemv", &PRODUCTS),
    ("round", &["round"]),
    ("activation", &ACTIVATIONS),
    ("send", &["send"]),
    ("receive", &["receive"]),
];

bundle! {
    /// The parts that are busy; the last two of a core with a link.
    pub(crate) struct Busy(link: &bool) {
        load_busy: 1, "the part `load` is busy";
        list_busy: 1, "the part `list` is busy";
        store_busy: 1, "the part `store` is busy";
        zero_busy: 1, "the part `zero` is busy";
        gemv_busy: 1, "the part `gemv` is busy";
        round_busy: 1, "the part `round` is busy";
        activation_busy: 1, "the part `activation` is busy";
        send_busy: 1, "the part `send` is busy", if *link;
        receive_busy: 1, "the part `receive` is busy", if *link;
    }
}

bundle! {
    /// Starts of instructions; those of the activation unit share another start.
    pub(crate) struct Starts {
        load: 1, "start a load";
        store: 1, "start a store";
        append: 1, "start a append";
        export: 1, "start a export";
        list: 1, "start a list";
        zero: 1, "start a zero";
        dot: 1, "start a dot";
        axpy: 1, "start a axpy";
        merge: 1, "start a merge";
        import: 1, "start a import";
        select: 1, "start a select";
        round: 1, "start a round";
    }
}

/// Instructions of the activation unit with two operands in the buffer.
const TWO_OPERANDS: [&str; 5] = ["add", "sub", "mul", "max", "div"];
/// Those that the function unit computes.
const FUNCTIONS: [&str; 3] = ["silu", "gelu", "div"];

/// The issuer. From the queue's head to the start of a part about twelve cycles.
#[block(m, "issue_a{}_d{}{}", config.gemv().slice_words(), config.dimm_burst_bits(), link_suffix(config),
    "Decodes instructions and starts them in order.")]
pub fn issue(config: &DesignConfig) -> Block {
    let gemv = config.gemv();
    let (batch_bits, lane_bits) = (gemv.batch_bits(), log2(gemv.lanes()));
    let addr_bits = gemv.slice_addr_bits();
    let word_valid = m.input(1, "the queue has an instruction");
    let word = m.input(INSTRUCTION_BITS, "the instruction");
    let overflow = m.input(1, "instructions were lost");
    let busy = Busy::inputs(&m, &config.core().link());
    let busy = busy.values();
    let rows_idle = m.input(1, "all rows of the product before are asked for");
    let holds = config.core().link().then(|| m.input(link_holds = 1, "what was sent is on its way"));
    let holds = holds.unwrap_or_else(|| zeros(1));

    // Steps of an instruction: take, decode, multiply sizes, check ranges, issue.
    let step = |name: &str| m.reg(format!("{name}_q"), 1).reset(0);
    let (decodes, multiplies, checks, waits) =
        (step("decodes"), step("multiplies"), step("checks"), step("waits"));
    let working = m.wire(any!(decodes, multiplies, checks, waits));
    let takes = m.wire(word_valid & !working);
    let instruction = m.hold(word, takes);
    let decoder =
        instruction_decoder::In { word: instruction }.part(&m, "decoder", &instruction_decoder(config)?);
    decodes.next(takes);
    let keep = |name: &str, value: &Bits| m.hold(format!("{name}_q"), value, decodes);
    let strobed: Vec<(&str, Bits)> = strobes()
        .filter(|name| *name != "nop" && (config.core().link() || !TRANSFERS.contains(name)))
        .map(|name| (name, decoder.output(&format!("{name}_o"))))
        .collect();
    let kinds: Vec<(&str, Bits)> =
        strobed.iter().map(|(name, bit)| (*name, keep(&format!("is_{name}"), bit))).collect();
    // Known as early as the others: much depends on it.
    let activations: Vec<Bits> =
        strobed.iter().filter(|(name, _)| ACTIVATIONS.contains(name)).map(|(_, bit)| *bit).collect();
    let one_of = |names: &[&str]| any_named(&kinds, names);
    let decoded = |name: &str| keep(name, &decoder.output(&format!("{name}_o")));
    let (word_error, listed, batch, cols, count) =
        (decoded("error"), decoded("listed"), decoded("batch"), decoded("cols"), decoded("count"));
    let (address, source, target) = (decoded("address"), decoded("source"), decoded("target"));
    let (list, tag) = (decoded("entry"), decoded("tag"));
    let heads = decoded("heads");
    let weights = is_quantised(gemv).then(|| decoded("weights"));
    let (selected, list_upward) = (decoded("selected"), decoded("upward"));
    let (other, scalar) = (decoded("other"), decoded("scalar"));
    let cols_layout = Layout::of(*decoder, "cols_").held(&m, "cols_", decodes);
    let rows_layout = Layout::of(*decoder, "rows_").held(&m, "rows_", decodes);

    // Words and beats of the vector blocks: products with the batch, a bit per cycle.
    let three = |tail: &Bits| if gemv.ranks() == 4 { tail.eq_lit(3) } else { zeros(1) };
    let word_bits = wave_bits(gemv) + 1;
    let words_of = |name: &str, layout: &Layout| {
        let one = layout.tail.any().zext(word_bits);
        let tail_words = mux(three(&layout.tail), lit(3, word_bits.max(2)).low(word_bits), one);
        m.wire(name, layout.waves.zext(word_bits) + tail_words)
    };
    let (col_words, row_words) = (words_of("col_words", &cols_layout), words_of("row_words", &rows_layout));
    let beat_log2 = log2(BEAT_ELEMS);
    let beats_wide = cols.width() - beat_log2 + 1;
    let part_beat = cols.low(beat_log2).any().zext(beats_wide);
    let vector_beats = m.wire(cols.high(beats_wide - 1).zext(beats_wide) + part_beat);
    let bits_left = m.reg(batch_bits).reset(0);
    let factor = m.reg(batch_bits);
    let starts = m.flag(decodes);
    let shift = |value: &Bits, with: u32| match value.width() {
        1 => lit(with.into(), 1),
        bits => cat!(lit(with.into(), 1), value.high(bits - 1)),
    };
    bits_left.next(mux(starts, repeat(batch_bits, lit(1, 1)), shift(&bits_left, 0)));
    factor.next(mux(starts, batch, shift(&factor, 0)));
    let multiplied = |name: &str, value: &Bits| {
        let bits = value.width() + batch_bits;
        let term = m.reg(format!("{name}_term_q"), bits);
        let doubled = cat!(term.low(bits - 1), zeros(1));
        term.next(mux(starts, value.zext(bits), doubled));
        let product = m.reg(format!("{name}_product_q"), bits);
        let sum = product + term.gated(factor.bit(0));
        product.next(mux(starts, zeros(bits), mux(bits_left.any(), sum, product)));
        product.q()
    };
    let col_block = multiplied("col_words", &col_words);
    let row_block = multiplied("row_words", &row_words);
    let beats = multiplied("beats", &vector_beats);
    multiplies.next(any!(decodes, starts, bits_left.any() & multiplies));

    // Ranges in the buffer. AXPY and rounding have a word for each lane.
    let max_heads_log2 = log2(gemv.max_heads());
    let row_bits = row_block.width() + max_heads_log2;
    let wide_bits = lane_bits.max(max_heads_log2);
    let range_bits = (col_block.width() + wide_bits).max(row_bits).max(count.width()).max(source.width()) + 1;
    let wide = |value: &Bits| value.zext(range_bits);
    let sums = cat!(col_block, zeros(lane_bits));
    // Results and scalars of a product have a vector for each vector of the batch and each head.
    let activates = keep("activates", &m.wire("decodes_activation", any_of(&activations)));
    let col_vectors = m.wire(col_block.zext(col_block.width() + max_heads_log2).shl(heads));
    let row_block = m.wire("row_vectors", row_block.zext(row_block.width() + max_heads_log2).shl(heads));
    let (is_axpy, is_round) = (one_of(&["axpy"]), one_of(&["round"]));
    let is_export = one_of(&["export"]);
    let blocks = m.wire(mux(activates, wide(&col_vectors), wide(&col_block)));
    let source_words = mux(is_axpy, wide(&row_block), mux(is_round, wide(&sums), blocks));
    let source_words = mux(is_export, wide(&count), source_words);
    let other_words = mux(one_of(&["dot"]), wide(&row_block), blocks);
    let on_sums = is_axpy | one_of(&["merge"]);
    let other_words = mux(on_sums, wide(&sums), other_words);
    let target_words = mux(one_of(&["zero", "import"]), wide(&count), other_words);
    let reads = one_of(&["store", "append", "export", "dot", "axpy", "select", "round"]) | activates;
    let writes = one_of(&["load", "zero", "round"]) | one_of(&PRODUCTS) | activates;
    let reads_two = m.wire(one_of(&TWO_OPERANDS));
    let multiplied_now = m.wire(multiplies & !any_of([starts, bits_left.any(), decodes.q()]));
    let end_of = |name: &str, first: &Bits, words: Bits| {
        m.hold(format!("{name}_end_q"), wide(first) + words, multiplied_now)
    };
    let source_end = end_of("source", &source, source_words);
    let target_end = end_of("target", &target, target_words);
    let other_end = end_of("other", &other, blocks);
    checks.next(multiplied_now);
    let source_range = Range { used: m.wire("reads", reads), first: wide(&source), end: source_end };
    let target_range = Range { used: m.wire("writes", writes), first: wide(&target), end: target_end };
    let other_range = Range { used: reads_two, first: wide(&other), end: other_end };
    let limit = lit(gemv.slice_words().into(), range_bits);
    let outside = |range: &Range| range.used & limit.lt(range.end);
    let outside = m.wire(any!(outside(&source_range), outside(&target_range), outside(&other_range)));
    // Rounding may go down or stay, but not up into its own source.
    let meets = source_range.meets(&target_range);
    let upward = source_range.first.lt(target_range.first);
    // The activation unit works in place, or elsewhere.
    let shifted = |range: &Range| range.meets(&target_range) & range.first.ne(target_range.first);
    let misplaced = activates & (shifted(&source_range) | shifted(&other_range));
    let misplaced = m.wire(misplaced);
    let overlap = meets & (one_of(&["dot", "axpy", "select"]) | (is_round & upward));
    let overlap = m.wire(any!(overlap, misplaced, list_upward));
    let code = |code: u128| lit(code, ERROR_BITS);
    let range_error = mux(outside, code(4), mux(overlap, code(7), zeros(ERROR_BITS)));
    let error = m.wire(mux(word_error.any(), word_error, range_error));
    let malformed = m.wire(checks & error.any());
    let legal = m.wire(checks & !error.any());

    // Entries of the list memory, in words.
    let entry_bits = bits_for(config.core().list_entries()) + 1;
    let list_first = list.zext(entry_bits);
    let list_end = m.wire(list_first + count.fit(entry_bits) + lit((WORD_ENTRIES - 1).into(), entry_bits));
    let to_word = |value: &Bits| value.high(entry_bits - log2(WORD_ENTRIES));
    m.unused(list_end.low(log2(WORD_ENTRIES)), "lists are written by the word");
    let is_list = one_of(&["list"]);
    let list_used = m.wire(is_list | (one_of(&["dot", "axpy"]) & listed));
    let list_range = Range { used: list_used, first: to_word(&list_first), end: to_word(&list_end) };

    /// What runs, and whether it is in the way.
    let start = m.forward(1);
    let mut in_the_way = Vec::new();
    // The rows of a product may come while the one before it, or a rounding, is at work. They fill the way from the DRAM, so
    // the product must not wait for anything else.
    let mut before_rows = vec![!rows_idle];
    for ((part, kinds), busy) in PARTS.iter().zip(&busy) {
        let own = one_of(kinds);
        if TRANSFERS.contains(part) {
            // They use neither buffer nor lists.
            in_the_way.push(busy & own);
            continue;
        }
        let starts = m.wire(format!("{part}_starts"), *start & own);
        let others = match *part {
            "load" => vec!["list"],
            // They share the list memory's port for writing.
            "list" => vec!["load", "select"],
            "gemv" | "activation" => vec!["round"],
            "round" => [&PRODUCTS[..], &ACTIVATIONS].concat(),
            _ => Vec::new(),
        };
        let mut conflicts = vec![one_of(&[*kinds, &others[..]].concat())];
        if *part == "gemv" {
            let selects = m.hold("gemv_selects_q", one_of(&["select"]), starts);
            conflicts.push(selects & is_list);
            before_rows.push(busy & selects);
        }
        if *part == "list" || *part == "gemv" {
            let held = list_range.held(&m, &format!("{part}_list"), &starts, busy);
            // Two readers do not disturb each other.
            let against = if *part == "list" { lit(1, 1) } else { is_list };
            conflicts.push(list_range.meets(&held) & against);
        }
        if *part != "list" {
            let held_source = source_range.held(&m, &format!("{part}_source"), &starts, busy);
            let held_target = target_range.held(&m, &format!("{part}_target"), &starts, busy);
            if *part == "activation" {
                let held_other = other_range.held(&m, "activation_other", &starts, busy);
                conflicts.push(target_range.meets(&held_other));
            }
            if *part != "load" && *part != "zero" {
                conflicts.push(target_range.meets(&held_source));
            } else {
                let Range { used, first, end } = held_source;
                m.unused(cat!(used, first, end), "it reads nothing");
            }
            if *part != "store" {
                conflicts.push(target_range.meets(&held_target));
                conflicts.push(source_range.meets(&held_target));
                conflicts.push(other_range.meets(&held_target));
            } else {
                let Range { used, first, end } = held_target;
                m.unused(cat!(used, first, end), "it writes nothing");
            }
        }
        let blocks = m.wire(format!("{part}_blocks"), busy & any_of(&conflicts));
        if *part != "gemv" && *part != "round" {
            before_rows.push(blocks);
        }
        in_the_way.push(blocks);
    }
    let fences = one_of(&["barrier", "signal"]);
    let in_work = m.wire(any_of(&busy) | holds);
    in_the_way.push(in_work & fences);
    /// What is in the way is judged in one cycle and used in the next: it can only become less meanwhile.
    let clear = m.flag(waits & !any_of(&in_the_way) & !start);
    start.drive(waits & clear);
    waits.set_clear(legal, start);
    let rows_clear = m.flag(waits & !any_of(&before_rows) & !start);
    let fetched = m.reg(1).reset(0);
    let has_rows = one_of(&PRODUCTS) & !one_of(&["select"]);
    let comes = *start | all!(waits, rows_clear, has_rows);
    let fetches = m.wire(all!(comes, one_of(&PRODUCTS), !fetched));
    fetched.next(any!(fetched, fetches) & waits & !start);

    // Status.
    let counter = |name: &str, step: &Bits| m.counter(name, SEQUENCE_BITS, step);
    let taken = counter("taken_q", &takes);
    let finished = counter("started_q", &start);
    /// Errors are counted in the cycle after the check, which is a long way by itself.
    let refused = m.flag(malformed);
    let refused_for = m.delay(error);
    let wrong = counter("malformed_q", &refused);
    let any_error = m.wire(refused | overflow);
    let first_error = m.reg(ERROR_BITS).reset(0);
    let fresh = m.wire(first_error.is_zero() & any_error);
    let new_error = mux(refused, refused_for, code(8));
    first_error.next(mux(fresh, new_error, first_error));
    let first_sequence = m.reg(SEQUENCE_BITS).reset(0).enable(fresh);
    first_sequence.next(mux(refused, taken.minus_one(), taken));
    let signals = m.wire(*start & one_of(&["signal"]));
    let last_tag = m.reg(TAG_BITS).reset(0).enable(signals).next(tag);
    let signalled = counter("signals_q", &signals);

    m.output(word_ready = takes, "the instruction is taken");
    m.output(start, "the instruction starts; one that no part executes is complete");
    m.output(
        fetch = fetches,
        "the rows of a product come, with its start or before; of a selection the list",
    );
    m.output(refuse = malformed, "the instruction is malformed");
    let starts = Starts::make((), |name, _, _| *start & one_of(&[name]));
    Starts::outputs_as(&m, "start_", "", (), starts);
    if config.core().link() {
        m.output(start_send = *start & one_of(&["send"]), "start a send");
        m.output(start_receive = *start & one_of(&["receive"]), "start a receive");
        let [ranks, node, slot] = transfer_fields(&instruction, config);
        debug_assert_eq!((node.width(), slot.width()), (NODE_BITS, SLOT_BITS));
        let transfer = Transfer { count: instruction.slice(64, COUNT_BITS), ranks, node, slot };
        Transfer::outputs_as(&m, "transfer_", "transfer: ", gemv, transfer);
    }
    m.output(start_activation = *start & activates, "start the activation unit");
    let vectors = batch.zext(gemv.vectors_bits()).shl(heads);
    /// In the order of the unit's fields: by which way, and with what.
    let function = m.wire("functions", one_of(&FUNCTIONS));
    let ways = [
        one_of(&["exp"]),
        one_of(&["add", "sub"]),
        one_of(&["scale", "mul"]),
        one_of(&["relu", "max"]) | function,
    ];
    let (is_softmax, is_sub, is_max) = (one_of(&["softmax"]), one_of(&["sub"]), one_of(&["max"]));
    let operation = Operation {
        path: cat(ways.into_iter().rev()),
        softmax: is_softmax,
        two: reads_two,
        subtract: is_sub,
        max: is_max,
        scalar,
        function,
        gelu: one_of(&["gelu"]),
        vectors: vectors.fit(vector_bits(gemv)),
        other: other.fit(addr_bits),
    };
    Operation::outputs_as(&m, "activation_", "", gemv, operation);
    Layout::outputs_as(&m, "cols_", "cols: ", gemv, cols_layout);
    Layout::outputs_as(&m, "rows_", "rows: ", gemv, rows_layout);
    m.output(
        rows = count.fit(gemv.row_bits()),
        "rows, words or entries; of a selection the number of its first row",
    );
    m.output(batch, "vectors");
    m.output(heads, "logarithm of the number of heads");
    if let Some(weights) = weights {
        m.output(weights, FORMAT_DOC);
    }
    m.output(source = source.fit(addr_bits), "first word of the source");
    m.output(target = target.fit(addr_bits), "first word of the destination");
    m.output(address, "burst address");
    m.output(listed, "rows come from the list memory");
    m.output(selected, "as many rows as were selected, at most");
    m.output(list, "first entry");
    let beat_bits = beat_count_bits(config);
    let list_words = to_word(&counted_words(&m, &count, entry_bits));
    // Both hold the words of the whole list memory.
    let list_words = m.fit(list_words, beat_bits, "lists are no longer than their memory");
    m.output(beats = mux(is_list, list_words, beats.fit(beat_bits)), "bursts to move");
    m.output(busy = any!(in_work, working, refused), "an instruction is in work");
    m.output(taken, "instructions taken");
    m.output(started = finished, "instructions started, markers included");
    m.output(malformed = wrong, "malformed instructions");
    m.output(error = first_error, "code of the first error");
    m.output(error_sequence = first_sequence, "its sequence number");
    m.output(tag = last_tag, "tag of the last signal");
    m.output(signals = signalled, "signals");
}

/// Entries rounded up to words of the list memory, still counted in entries.
fn counted_words(m: &ModuleBuilder, count: &Bits, bits: u32) -> Bits {
    let up = m.wire("entries_up", count.fit(bits) + lit((WORD_ENTRIES - 1).into(), bits));
    m.unused(up.low(log2(WORD_ENTRIES)), "lists are read by the word");
    up
}
