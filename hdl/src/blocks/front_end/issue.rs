//! Executes the instruction stream in order: each instruction is decoded, checked, and started when nothing it needs is
//! in use.
//!
//! An instruction waits for the part that executes it, and for every running instruction that writes words it reads or
//! writes, or reads words it writes. So the buffer and the list memory look as if each instruction began after the one
//! before had ended. DRAM is not watched; a barrier waits for everything.

use super::dma_reader::beat_count_bits;
use super::prelude::*;
use crate::blocks::activation::activation_lane::PATHS;
use crate::blocks::activation::activation_unit::Operation;
use crate::blocks::activation::activation_walker::vector_bits;
use crate::blocks::link::transfer_message::{COUNT_BITS, SLOT_BITS};
use crate::blocks::link::transfer_unit::Transfer;

pub(crate) const SEQUENCE_BITS: u32 = 32;

/// Words `first .. end`.
#[derive(Clone, Copy)]
struct Range {
    used: Bits,
    first: Bits,
    end: Bits,
}

impl Range {
    fn meets(&self, other: &Self) -> Bits {
        all!(self.used, other.used, self.first.lt(other.end), other.first.lt(self.end))
    }

    /// Held by a part from its start, used while it is busy.
    fn held(&self, m: &ModuleBuilder, name: &str, start: &Bits, busy: &Bits) -> Self {
        let hold = |what: &str, value: &Bits| m.hold(format!("{name}_{what}_q"), value, start);
        Self {
            used: m.wire(format!("{name}_live"), hold("used", &self.used) & busy),
            first: hold("first", &self.first),
            end: hold("end", &self.end),
        }
    }
}

/// Instructions that multiply rows of DRAM, or add them to sums, or select which of them to use.
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
    /// Starts of instructions; the activation unit's instructions share another start.
    pub(crate) struct Starts {
        load: 1, "start a `load` instruction";
        store: 1, "start a `store` instruction";
        append: 1, "start an `append` instruction";
        export: 1, "start an `export` instruction";
        list: 1, "start a `list` instruction";
        zero: 1, "start a `zero` instruction";
        dot: 1, "start a `dot` instruction";
        axpy: 1, "start an `axpy` instruction";
        merge: 1, "start a `merge` instruction";
        import: 1, "start an `import` instruction";
        select: 1, "start a `select` instruction";
        round: 1, "start a `round` instruction";
    }
}

/// Outputs of the decoder for an instruction, in registers starting in the next cycle.
struct Decoded {
    /// Kind of the instruction.
    kinds: Vec<(&'static str, Bits)>,
    /// It is an instruction of the activation unit.
    activates: Bits,
    error: Bits,
    listed: Bits,
    batch: Bits,
    cols: Bits,
    count: Bits,
    address: Bits,
    source: Bits,
    target: Bits,
    list: Bits,
    tag: Bits,
    /// Logarithm of the number of heads.
    heads: Bits,
    /// Format of the weights, where there are several.
    weights: Option<Bits>,
    selected: Bits,
    list_upward: Bits,
    /// Second operand in the buffer.
    other: Bits,
    scalar: Bits,
    cols_layout: Layout,
    rows_layout: Layout,
}

/// Words of the vectors in the buffer, and beats of all vectors of the batch.
struct Sizes {
    /// Size of vectors with an element for each column.
    cols: Bits,
    /// Size of vectors with an element for each row.
    rows: Bits,
    beats: Bits,
    /// The sizes are valid, and the ranges follow from them.
    there: Bits,
}

/// Ranges of the buffer that an instruction uses.
struct Ranges {
    source: Range,
    /// Second operand.
    other: Range,
    target: Range,
}

/// Conditions that an instruction waits for. Their number may fall until the instruction starts, and never rises.
struct Obstacles {
    all: Vec<Bits>,
    /// Conditions that the rows of a product wait for. Rows may come during the previous product, or a rounding. They
    /// fill the path from the DRAM, so their product must not wait for anything else.
    before_rows: Vec<Bits>,
}

/// From the queue's head to the start of a part about twelve cycles.
#[block(m, "issue_a{}_d{}{}", config.gemv().slice_words(), config.dimm_burst_bits(), link_suffix(config),
    "Decodes instructions and starts them in order.")]
pub fn issue(config: &DesignConfig) -> Block {
    let (gemv, link) = (config.gemv(), config.core().link());
    let word_valid = m.input(1, "the queue has an instruction");
    let word = m.input(INSTRUCTION_BITS, "the instruction");
    let overflow = m.input(1, "instructions were lost");
    let busy = Busy::inputs(&m, &link);
    let busy = busy.values();
    let rows_idle = m.input(1, "all rows of the previous product have been requested");
    let holds = link.then(|| m.input(link_holds = 1, "sent data is still in flight"));
    let holds = holds.unwrap_or_else(|| zeros(1));

    // Steps of an instruction: take, decode, multiply sizes, check ranges, issue.
    let step = |name: &str| m.reg(format!("{name}_q"), 1).reset(0);
    let (decodes, multiplies, checks, waits) =
        (step("decodes"), step("multiplies"), step("checks"), step("waits"));
    let working = m.wire(any!(decodes, multiplies, checks, waits));
    let takes = m.wire(word_valid & !working);
    let instruction = m.hold(word, takes);
    decodes.next(takes);
    let decoded = Decoded::new(&m, config, instruction, decodes.q())?;
    let sizes = decoded.sizes(&m, config, decodes.q(), multiplies);
    let ranges = decoded.ranges(&m, config, &sizes);
    checks.next(sizes.there);
    let error = m.wire(decoded.error_with(&m, config, &ranges));
    let malformed = m.wire(checks & error.any());
    let legal = m.wire(checks & !error.any());
    let list_range = decoded.list_range(&m, config);

    /// The instruction starts: it has waited until nothing is in the way.
    let start = m.forward(1);
    let starts = *start;
    let mut obstacles = decoded.obstacles(&m, starts, &busy, rows_idle, &ranges, &list_range);
    let in_work = m.wire(any_of(&busy) | holds);
    obstacles.all.push(in_work & decoded.is(&["barrier", "signal"]));
    /// Obstacles are computed in one cycle and used in the next: in between, their number can only fall.
    let clear = m.flag(waits & !any_of(&obstacles.all) & !start);
    start.drive(waits & clear);
    waits.set_clear(legal, start);
    let rows_clear = m.flag(waits & !any_of(&obstacles.before_rows) & !start);
    let fetched = m.reg(1).reset(0);
    let has_rows = decoded.is(&PRODUCTS) & !decoded.is(&["select"]);
    let comes = starts | all!(waits, rows_clear, has_rows);
    let fetches = m.wire(all!(comes, decoded.is(&PRODUCTS), !fetched));
    fetched.next(any!(fetched, fetches) & waits & !start);

    m.output(word_ready = takes, "the instruction is taken");
    m.output(start, "the instruction starts, and is complete if no part executes it");
    m.output(
        fetch = fetches,
        "start to fetch the rows of a product, at its start or earlier, or the list of a selection",
    );
    m.output(refuse = malformed, "the instruction is malformed");
    let each_start = Starts::make((), |name, _, _| starts & decoded.is(&[name]));
    Starts::outputs_as(&m, "start_", "", (), each_start);
    if link {
        m.output(start_send = starts & decoded.is(&["send"]), "start a `send` instruction");
        m.output(start_receive = starts & decoded.is(&["receive"]), "start a `receive` instruction");
        let [ranks, node, slot] = transfer_fields(&instruction, config);
        debug_assert_eq!((node.width(), slot.width()), (NODE_BITS, SLOT_BITS));
        let transfer = Transfer { count: instruction.slice(64, COUNT_BITS), ranks, node, slot };
        Transfer::outputs_as(&m, "transfer_", "transfer: ", gemv, transfer);
    }
    m.output(start_activation = starts & decoded.activates, "start the activation unit");
    Operation::outputs_as(&m, "activation_", "", gemv, decoded.operation(&m, config, ranges.other.used));
    Layout::outputs_as(&m, "cols_", "cols: ", gemv, decoded.cols_layout);
    Layout::outputs_as(&m, "rows_", "rows: ", gemv, decoded.rows_layout);
    m.output(
        rows = decoded.count.fit(gemv.row_bits()),
        "rows, words or entries; for a selection the number of its first row",
    );
    m.output(batch = decoded.batch, "vectors");
    m.output(heads = decoded.heads, "logarithm of the number of heads");
    if let Some(weights) = decoded.weights {
        m.output(weights, FORMAT_DOC);
    }
    let addr_bits = gemv.slice_addr_bits();
    m.output(source = decoded.source.fit(addr_bits), "first word of the source");
    m.output(target = decoded.target.fit(addr_bits), "first word of the destination");
    m.output(address = decoded.address, "burst address");
    m.output(listed = decoded.listed, "rows come from the list memory");
    m.output(selected = decoded.selected, "no more rows than the last selection has");
    m.output(list = decoded.list, "first entry");
    m.output(beats = decoded.beats(&m, config, sizes.beats), "bursts to move");

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
    let new_error = mux(refused, refused_for, lit(8, ERROR_BITS));
    first_error.next(mux(fresh, new_error, first_error));
    let first_sequence = m.reg(SEQUENCE_BITS).reset(0).enable(fresh);
    first_sequence.next(mux(refused, taken.minus_one(), taken));
    let signals = m.wire(starts & decoded.is(&["signal"]));
    let last_tag = m.reg(TAG_BITS).reset(0).enable(signals).next(decoded.tag);
    let signalled = counter("signals_q", &signals);
    m.output(busy = any!(in_work, working, refused), "an instruction is running");
    m.output(taken, "instructions taken");
    m.output(started = finished, "instructions started, markers included");
    m.output(malformed = wrong, "malformed instructions");
    m.output(error = first_error, "code of the first error");
    m.output(error_sequence = first_sequence, "sequence number of that instruction");
    m.output(tag = last_tag, "tag of the last signal");
    m.output(signals = signalled, "signals");
}

impl Decoded {
    fn new(m: &ModuleBuilder, config: &DesignConfig, word: Bits, decodes: Bits) -> Result<Self, HdlError> {
        let decoder = instruction_decoder::In { word }.part(m, "decoder", &instruction_decoder(config)?);
        let keep = |name: &str, value: &Bits| m.hold(format!("{name}_q"), value, decodes);
        let strobed: Vec<(&str, Bits)> = strobes()
            .filter(|name| *name != "nop" && (config.core().link() || !TRANSFERS.contains(name)))
            .map(|name| (name, decoder.output(&format!("{name}_o"))))
            .collect();
        // From the strobes, so that it is registered as early as the others: much depends on it.
        let activates = m.wire("decodes_activation", any_named(&strobed, &ACTIVATIONS));
        let field = |name: &str| keep(name, &decoder.output(&format!("{name}_o")));
        Ok(Self {
            kinds: strobed.iter().map(|(name, bit)| (*name, keep(&format!("is_{name}"), bit))).collect(),
            activates: keep("activates", &activates),
            error: field("error"),
            listed: field("listed"),
            batch: field("batch"),
            cols: field("cols"),
            count: field("count"),
            address: field("address"),
            source: field("source"),
            target: field("target"),
            list: field("entry"),
            tag: field("tag"),
            heads: field("heads"),
            weights: is_quantised(config.gemv()).then(|| field("weights")),
            selected: field("selected"),
            list_upward: field("upward"),
            other: field("other"),
            scalar: field("scalar"),
            cols_layout: Layout::of(*decoder, "cols_").held(m, "cols_", decodes),
            rows_layout: Layout::of(*decoder, "rows_").held(m, "rows_", decodes),
        })
    }

    /// Whether it is one of these instructions.
    fn is(&self, names: &[&str]) -> Bits {
        any_named(&self.kinds, names)
    }

    /// An instruction of the activation unit that sets this control.
    fn sets(&self, control: &str) -> Bits {
        let sets = ACTIVATION_CONTROLS.iter().filter(|(_, controls)| controls.contains(&control));
        self.is(&sets.map(|(name, _)| *name).collect::<Vec<_>>())
    }

    /// Words and beats of the vector blocks: products with the batch, a bit per cycle.
    #[block(m)]
    fn sizes(&self, m: &ModuleBuilder, config: &DesignConfig, decodes: Bits, multiplies: Reg) -> Sizes {
        let gemv = config.gemv();
        let batch_bits = gemv.batch_bits();
        let word_bits = (wave_bits(gemv) + 1).max(tail_bits(gemv));
        let words_of = |name: &str, layout: &Layout| {
            m.wire(name, layout.waves.zext(word_bits) + layout.tail_words(gemv).fit(word_bits))
        };
        let col_words = words_of("col_words", &self.cols_layout);
        let row_words = words_of("row_words", &self.rows_layout);
        let beat_log2 = log2(BEAT_ELEMS);
        let beats_wide = self.cols.width() - beat_log2 + 1;
        let part_beat = self.cols.low(beat_log2).any().zext(beats_wide);
        let vector_beats = m.wire(self.cols.high(beats_wide - 1).zext(beats_wide) + part_beat);
        let bits_left = m.reg(batch_bits).reset(0);
        let factor = m.reg(batch_bits);
        let starts = m.flag(decodes);
        let shift = |value: &Bits, with: u32| match value.width() {
            1 => lit(with.into(), 1),
            bits => cat!(lit(with.into(), 1), value.high(bits - 1)),
        };
        bits_left.next(mux(starts, repeat(batch_bits, lit(1, 1)), shift(&bits_left, 0)));
        factor.next(mux(starts, self.batch, shift(&factor, 0)));
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
        let [cols, rows] = [multiplied("col_words", &col_words), multiplied("row_words", &row_words)];
        let beats = multiplied("beats", &vector_beats);
        multiplies.next(any!(decodes, starts, bits_left.any() & multiplies));
        let there = m.wire("multiplied_now", multiplies & !any_of([starts, bits_left.any(), decodes]));
        Sizes { cols, rows, beats, there }
    }

    /// AXPY and rounding have a word for each lane.
    fn ranges(&self, m: &ModuleBuilder, config: &DesignConfig, sizes: &Sizes) -> Ranges {
        let gemv = config.gemv();
        let (lane_bits, max_heads_log2) = (log2(gemv.lanes()), log2(gemv.max_heads()));
        let row_bits = sizes.rows.width() + max_heads_log2;
        let wide_bits = lane_bits.max(max_heads_log2);
        let widest = [sizes.cols.width() + wide_bits, row_bits, self.count.width(), self.source.width()];
        let range_bits = widest.into_iter().fold(0, u32::max) + 1;
        let wide = |value: &Bits| value.zext(range_bits);
        let sums = cat!(sizes.cols, zeros(lane_bits));
        // Results and scalars of a product have a vector for each vector of the batch and each head.
        let of_heads = |name: &str, block: Bits| {
            m.wire(name, block.zext(block.width() + max_heads_log2).shl(self.heads))
        };
        let col_vectors = of_heads("col_vectors", sizes.cols);
        let row_vectors = of_heads("row_vectors", sizes.rows);
        let is = |names: &[&str]| self.is(names);
        let blocks = m.wire("blocks", mux(self.activates, wide(&col_vectors), wide(&sizes.cols)));
        let source = mux(is(&["axpy"]), wide(&row_vectors), mux(is(&["round"]), wide(&sums), blocks));
        let source = mux(is(&["export"]), wide(&self.count), source);
        let target = mux(is(&["dot"]), wide(&row_vectors), blocks);
        let target = mux(is(&["axpy", "merge"]), wide(&sums), target);
        let target = mux(is(&["zero", "import"]), wide(&self.count), target);
        let reads = is(&["store", "append", "export", "dot", "axpy", "select", "round"]) | self.activates;
        let writes = is(&["load", "zero", "round"]) | is(&PRODUCTS) | self.activates;
        let range = |name: &str, used: Bits, first: &Bits, words: Bits| Range {
            used,
            first: wide(first),
            end: m.hold(format!("{name}_end_q"), wide(first) + words, sizes.there),
        };
        Ranges {
            source: range("source", m.wire("reads", reads), &self.source, source),
            target: range("target", m.wire("writes", writes), &self.target, target),
            other: range("other", m.wire("reads_two", self.sets("two")), &self.other, blocks),
        }
    }

    /// Code of the instruction's error, 0 if there is none.
    #[block(m)]
    fn error_with(&self, m: &ModuleBuilder, config: &DesignConfig, ranges: &Ranges) -> Bits {
        let Ranges { source, other, target } = ranges;
        let limit = lit(config.gemv().slice_words().into(), target.end.width());
        let outside = |range: &Range| range.used & limit.lt(range.end);
        let outside = m.wire(any!(outside(source), outside(target), outside(other)));
        // Rounding may go down or stay, but not up into its own source.
        let upward = source.first.lt(target.first);
        // The activation unit works in place, or elsewhere.
        let shifted = |range: &Range| range.meets(target) & range.first.ne(target.first);
        let misplaced = m.wire(self.activates & (shifted(source) | shifted(other)));
        let overlap =
            source.meets(target) & (self.is(&["dot", "axpy", "select"]) | (self.is(&["round"]) & upward));
        let overlap = m.wire(any!(overlap, misplaced, self.list_upward));
        let code = |code: u128| lit(code, ERROR_BITS);
        let range_error = mux(outside, code(4), mux(overlap, code(7), zeros(ERROR_BITS)));
        mux(self.error.any(), self.error, range_error)
    }

    /// Words of the list memory.
    #[block(m)]
    fn list_range(&self, m: &ModuleBuilder, config: &DesignConfig) -> Range {
        let entry_bits = entry_bits(config);
        let list_first = self.list.zext(entry_bits);
        let rounds_up = lit((WORD_ENTRIES - 1).into(), entry_bits);
        let list_end = m.wire(list_first + self.count.fit(entry_bits) + rounds_up);
        m.unused(list_end.low(log2(WORD_ENTRIES)), "lists are written by the word");
        let list_used = m.wire(self.is(&["list"]) | (self.is(&["dot", "axpy"]) & self.listed));
        Range { used: list_used, first: to_word(&list_first), end: to_word(&list_end) }
    }

    /// Each part keeps the ranges of its instruction, and is an obstacle while they overlap ranges of the next one.
    #[block(m)]
    fn obstacles(
        &self,
        m: &ModuleBuilder,
        start: Bits,
        busy: &[Bits],
        rows_idle: Bits,
        ranges: &Ranges,
        list_range: &Range,
    ) -> Obstacles {
        let Ranges { source, other, target } = ranges;
        let (mut all, mut before_rows) = (Vec::new(), vec![!rows_idle]);
        let is_list = self.is(&["list"]);
        for ((part, kinds), busy) in PARTS.iter().zip(busy) {
            let own = self.is(kinds);
            if TRANSFERS.contains(part) {
                // They use neither buffer nor lists.
                all.push(busy & own);
                continue;
            }
            let starts = m.wire(format!("{part}_starts"), start & own);
            let others = match *part {
                "load" => vec!["list"],
                // They share the list memory's write port.
                "list" => vec!["load", "select"],
                "gemv" | "activation" => vec!["round"],
                "round" => [&PRODUCTS[..], &ACTIVATIONS].concat(),
                _ => Vec::new(),
            };
            let mut conflicts = vec![self.is(&[*kinds, &others[..]].concat())];
            if *part == "gemv" {
                let selects = m.hold("gemv_selects_q", self.is(&["select"]), starts);
                conflicts.push(selects & is_list);
                before_rows.push(busy & selects);
            }
            if *part == "list" || *part == "gemv" {
                let held = list_range.held(m, &format!("{part}_list"), &starts, busy);
                // Two readers do not disturb each other.
                let against = if *part == "list" { lit(1, 1) } else { is_list };
                conflicts.push(list_range.meets(&held) & against);
            }
            if *part != "list" {
                let held_source = source.held(m, &format!("{part}_source"), &starts, busy);
                let held_target = target.held(m, &format!("{part}_target"), &starts, busy);
                if *part == "activation" {
                    let held_other = other.held(m, "activation_other", &starts, busy);
                    conflicts.push(target.meets(&held_other));
                }
                if *part != "load" && *part != "zero" {
                    conflicts.push(target.meets(&held_source));
                } else {
                    let Range { used, first, end } = held_source;
                    m.unused(cat!(used, first, end), "it reads nothing");
                }
                if *part != "store" {
                    conflicts.extend([target, source, other].map(|range| range.meets(&held_target)));
                } else {
                    let Range { used, first, end } = held_target;
                    m.unused(cat!(used, first, end), "it writes nothing");
                }
            }
            let blocks = m.wire(format!("{part}_blocks"), busy & any_of(&conflicts));
            if *part != "gemv" && *part != "round" {
                before_rows.push(blocks);
            }
            all.push(blocks);
        }
        Obstacles { all, before_rows }
    }

    #[block(m)]
    fn operation(&self, m: &ModuleBuilder, config: &DesignConfig, two: Bits) -> Operation {
        let gemv = config.gemv();
        let function = m.wire("functions", self.sets("function"));
        let [exponential, sum, product, choice] = PATHS.map(|path| self.sets(path));
        Operation {
            // Functions leave the lanes as choices do.
            path: cat!(choice | function, product, sum, exponential),
            softmax: self.sets("softmax"),
            two,
            subtract: self.sets("subtract"),
            max: self.sets("max"),
            scalar: self.scalar,
            function,
            gelu: self.sets("gelu"),
            vectors: self.batch.zext(gemv.vectors_bits()).shl(self.heads).fit(vector_bits(gemv)),
            other: self.other.fit(gemv.slice_addr_bits()),
        }
    }

    /// Bursts that the instruction moves: the bursts of its vectors, or of its list.
    fn beats(&self, m: &ModuleBuilder, config: &DesignConfig, of_vectors: Bits) -> Bits {
        let beat_bits = beat_count_bits(config);
        let list_words = to_word(&counted_words(m, &self.count, entry_bits(config)));
        // Wide enough for the words of the whole list memory.
        let list_words = m.fit(list_words, beat_bits, "lists are no longer than their memory");
        mux(self.is(&["list"]), list_words, of_vectors.fit(beat_bits))
    }
}

/// Bits of a number of entries of the list memory, the whole memory included.
fn entry_bits(config: &DesignConfig) -> u32 {
    bits_for(config.core().list_entries()) + 1
}

/// The word of the list memory that an entry is in.
fn to_word(entry: &Bits) -> Bits {
    entry.high(entry.width() - log2(WORD_ENTRIES))
}

/// Entries rounded up to words of the list memory, still counted in entries.
fn counted_words(m: &ModuleBuilder, count: &Bits, bits: u32) -> Bits {
    let up = m.wire("entries_up", count.fit(bits) + lit((WORD_ENTRIES - 1).into(), bits));
    m.unused(up.low(log2(WORD_ENTRIES)), "lists are read by the word");
    up
}
