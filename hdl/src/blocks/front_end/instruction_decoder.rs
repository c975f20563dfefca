//! Decodes an instruction and finds the errors that show in the word itself (docs/isa.md).

use super::command_decoder::command_decoder;
use super::prelude::*;
use crate::blocks::link::transfer_message::{COUNT_BITS, SLOT_BITS};

pub(crate) const INSTRUCTION_BITS: u32 = 128;
pub(crate) const ERROR_BITS: u32 = 8;
pub(crate) const TAG_BITS: u32 = 32;

pub(crate) const NODE_BITS: u32 = LinkConfig::NODE_BITS;

/// Lowest bit and width of a field.
type Field = (u32, u32);

const BATCH: Field = (9, 4);
const COLS: Field = (13, 18);
const ADDRESS: Field = (32, 29);
const COUNT: Field = (64, COUNT_BITS);
const SOURCE: Field = (88, 10);
const TARGET: Field = (98, 10);
const LIST: Field = (108, 12);
const LISTED: Field = (8, 1);
const SELECTED: Field = (31, 1);
const ROW: Field = (64, COUNT_BITS);
/// Entries of the list memory have this part of a row's number instead.
const FROM: Field = (64, 12);
const TAG: Field = (32, 32);
const HEADS: Field = (120, 3);
/// In a configuration with only FP16 these bits belong to no field.
const WEIGHTS: Field = (123, FORMAT_BITS);
const OTHER: Field = (108, 10);
const SCALAR: Field = (64, 16);
/// Threshold of a selection, and above it whether elements of both signs are selected.
const CONDITION: Field = (32, 16);
const OPCODE: Field = (0, 8);
const NODE: Field = (9, NODE_BITS);
const RANKS: Field = (13, 8);
const SLOT: Field = (88, SLOT_BITS);

/// Name of an instruction's strobe, opcode, fields.
type Encoding = (&'static str, u128, &'static [Field]);

const INSTRUCTIONS: [Encoding; 28] = [
    ("nop", 0x00, &[]),
    ("barrier", 0x01, &[]),
    ("signal", 0x02, &[TAG]),
    ("load", 0x10, &[TARGET, COLS, BATCH, ADDRESS]),
    ("store", 0x11, &[SOURCE, COLS, BATCH, ADDRESS]),
    ("list", 0x12, &[LIST, COUNT, ADDRESS]),
    ("append", 0x13, &[SOURCE, COLS, BATCH, ROW, ADDRESS]),
    ("export", 0x14, &[SOURCE, COUNT, ADDRESS]),
    ("zero", 0x20, &[TARGET, COUNT]),
    ("dot", 0x21, &[SOURCE, TARGET, COLS, BATCH, COUNT, ADDRESS, LISTED, SELECTED, LIST, HEADS]),
    ("axpy", 0x22, &[SOURCE, TARGET, COLS, BATCH, COUNT, ADDRESS, LISTED, SELECTED, LIST, HEADS]),
    ("round", 0x23, &[SOURCE, TARGET, COLS, BATCH]),
    ("merge", 0x24, &[TARGET, COLS, BATCH, ADDRESS]),
    ("import", 0x25, &[TARGET, COUNT, ADDRESS]),
    ("select", 0x26, &[SOURCE, TARGET, COLS, BATCH, ROW, LISTED, LIST, CONDITION]),
    ("relu", 0x30, &[SOURCE, TARGET, COLS, BATCH, HEADS]),
    ("exp", 0x31, &[SOURCE, TARGET, COLS, BATCH, HEADS]),
    ("softmax", 0x32, &[SOURCE, TARGET, COLS, BATCH, HEADS]),
    ("scale", 0x33, &[SOURCE, TARGET, COLS, BATCH, HEADS, SCALAR]),
    ("add", 0x34, &[SOURCE, TARGET, COLS, BATCH, HEADS, OTHER]),
    ("sub", 0x35, &[SOURCE, TARGET, COLS, BATCH, HEADS, OTHER]),
    ("mul", 0x36, &[SOURCE, TARGET, COLS, BATCH, HEADS, OTHER]),
    ("max", 0x37, &[SOURCE, TARGET, COLS, BATCH, HEADS, OTHER]),
    ("silu", 0x38, &[SOURCE, TARGET, COLS, BATCH, HEADS]),
    ("gelu", 0x39, &[SOURCE, TARGET, COLS, BATCH, HEADS]),
    ("div", 0x3a, &[SOURCE, TARGET, COLS, BATCH, HEADS, OTHER]),
    ("send", 0x40, &[ADDRESS, COUNT, RANKS, NODE, SLOT]),
    ("receive", 0x41, &[ADDRESS, COUNT, RANKS, NODE, SLOT]),
];

/// Instructions of the activation unit with the controls that they set: a path of its lanes, and others.
pub const ACTIVATION_CONTROLS: [(&str, &[&str]); 11] = [
    ("relu", &["choice"]),
    ("exp", &["exponential"]),
    ("softmax", &["softmax"]),
    ("scale", &["product"]),
    ("add", &["two", "sum"]),
    ("sub", &["two", "sum", "subtract"]),
    ("mul", &["two", "product"]),
    ("max", &["two", "choice", "max"]),
    ("silu", &["function"]),
    ("gelu", &["function", "gelu"]),
    ("div", &["two", "function"]),
];
pub(crate) const ACTIVATIONS: [&str; ACTIVATION_CONTROLS.len()] = {
    let mut names = [""; ACTIVATION_CONTROLS.len()];
    let mut k = 0;
    while k < names.len() {
        names[k] = ACTIVATION_CONTROLS[k].0;
        k += 1;
    }
    names
};
pub(crate) const SOFTMAX_ELEMS: u32 = 16384;

/// Instructions that move data over the link.
pub(crate) const TRANSFERS: [&str; 2] = ["send", "receive"];

/// Strobes of the decoder, in the order of the opcodes.
pub(crate) fn strobes() -> impl Iterator<Item = &'static str> {
    INSTRUCTIONS.iter().map(|(name, ..)| *name)
}

/// Combinational; its users register the outputs that they need.
#[block(m, "instruction_decoder_c{}_a{}{}", config.gemv().col_bits(), config.dimm_burst_bits(),
    link_suffix(config),
    "Splits an instruction into its fields and finds its first error.")]
pub fn instruction_decoder(config: &DesignConfig) -> Block {
    let gemv = config.gemv();
    let word = m.input(INSTRUCTION_BITS, "instruction");
    let field = |(low, bits): Field| word.slice(low, bits);
    let opcode = field(OPCODE);
    let kinds: Vec<(&str, Bits)> = INSTRUCTIONS
        .iter()
        .map(|(name, code, _)| (*name, m.wire(format!("is_{name}"), opcode.eq_lit(*code))))
        .collect();
    let is: Vec<Bits> = kinds.iter().map(|(_, bit)| *bit).collect();
    let one_of = |names: &[&str]| any_named(&kinds, names);
    let unknown = m.wire(!any_of(&is));

    // Bits that no field of the instruction covers must be 0.
    let used = |fields: &[Field]| {
        let mask = |(low, bits): Field| ((1u128 << bits) - 1) << low;
        [&[OPCODE], fields].concat().into_iter().map(mask).fold(0, |all, bits| all | bits)
    };
    let quantised = is_quantised(gemv);
    let with_weights = |name: &str| quantised && ["dot", "axpy"].contains(&name);
    let reserved: Vec<Bits> = INSTRUCTIONS
        .iter()
        .zip(&is)
        .map(|((name, _, fields), is)| {
            let fields = if with_weights(name) { [fields, &[WEIGHTS][..]].concat() } else { fields.to_vec() };
            (word & lit(!used(&fields), INSTRUCTION_BITS)).any() & is
        })
        .collect();
    /// Rows of several heads are counted: `listed` has to be 0 then.
    let products = m.wire(one_of(&["dot", "axpy"]));
    let activations = m.wire(one_of(&ACTIVATIONS));
    let appends = m.wire(one_of(&["append"]));
    // Moves of partial results: sums as rows of one wave, or FP16 as a row for each vector.
    let (exports, imports, merges) = (one_of(&["export"]), one_of(&["import"]), one_of(&["merge"]));
    let moves = m.wire(exports | imports);
    let transfers = m.wire(one_of(&TRANSFERS));
    let headed = m.wire(products & field(HEADS).any());
    /// What was selected is listed, and an entry has fewer bits than a row's number.
    let selects = m.wire(one_of(&["select"]));
    let unlisted = all!(products, field(SELECTED), !field(LISTED));
    let entry_over = field(ROW).high(ROW.1 - FROM.1).any();
    let entry_over = all!(selects, field(LISTED), entry_over);
    let mut reserved = vec![any_of(&reserved), headed & field(LISTED), unlisted, entry_over];
    if quantised {
        // There are three formats. Rows that share scales have some, and are not listed.
        let (numbers, shared) = (field(WEIGHTS).low(NUMBER_FORMAT_BITS), field(WEIGHTS).msb());
        reserved.push(products & numbers.all());
        reserved.push(all!(products, shared, field(LISTED) | numbers.is_zero()));
    }
    let reserved = m.wire(any_of(&reserved));

    let over = |value: &Bits, bits: u32| {
        if value.width() > bits { value.high(value.width() - bits).any() } else { zeros(1) }
    };
    let (col_bits, batch_bits) = (gemv.col_bits(), gemv.batch_bits());
    let batch = m.wire(field(BATCH).zext(BATCH.1 + 1).plus_one());
    let cut = command_decoder(gemv)?;
    let cut_into =
        |name: &str, cols: Bits, batch: Bits| command_decoder::In { cols, batch }.part(&m, name, &cut);
    let cols = cut_into("cols", field(COLS).fit(col_bits), batch.fit(batch_bits));
    let batch_over = over(&batch, batch_bits);
    let bad_block = m.wire(any!(!cols.legal, over(&field(COLS), col_bits), batch_over));
    let count = field(COUNT);
    let rows = cut_into("rows", count.fit(col_bits), lit(1, batch_bits));
    let bad_rows = m.wire(!rows.legal | over(&count, col_bits));
    let beyond = |limit: u32| lit(limit.into(), COUNT.1).lt(count) | count.is_zero();
    let bad_words = m.wire(beyond(gemv.slice_words()));
    let entries = config.core().list_entries();
    let bad_entries = m.wire(beyond(entries));
    let listed = m.wire(field(LISTED));
    let lists = m.wire(one_of(&["list"]) | (products & listed));
    let bad_elements = lit(entries.into(), COLS.1).lt(field(COLS)) & selects;
    // With heads: rows of one stripe at most, and a limit for heads and for the vectors of all heads.
    let heads = field(HEADS);
    let most = log2(gemv.max_heads());
    let vectors = m.wire(batch.zext(BATCH.1 + 1 + most).shl(heads.fit(gemv.head_bits())));
    let with_heads = headed | (activations & heads.any());
    let bad_heads = any!(
        lit(most.into(), HEADS.1).lt(heads),
        lit(gemv.max_vectors().into(), vectors.width()).lt(vectors),
        headed & lit(gemv.stripe_elems().into(), COLS.1).lt(field(COLS))
    );
    let bad_heads = m.wire(with_heads & bad_heads);
    let too_long = m.wire(one_of(&["softmax"]) & lit(SOFTMAX_ELEMS.into(), COLS.1).lt(field(COLS)));
    // A transfer names existing ranks.
    let ranks = field(RANKS);
    let others = ranks.high(RANKS.1 - gemv.ranks()).any();
    let bad_ranks = m.wire(transfers & any!(count.is_zero(), ranks.is_zero(), others));
    let bad_size = m.wire(any!(
        bad_ranks,
        one_of(&["load", "store", "dot", "axpy", "round", "merge", "select"]) & bad_block,
        bad_elements,
        products & bad_rows,
        bad_heads,
        (activations | appends) & bad_block,
        too_long,
        appends & lit(gemv.stripe_elems().into(), COLS.1).lt(field(COLS)),
        (one_of(&["zero"]) | moves) & bad_words,
        lists & bad_entries
    ));

    let address = field(ADDRESS);
    let dimm = over(&address, config.dimm_burst_bits()) & one_of(&["load", "store", "list"]);
    let in_rank = any!(products, appends, moves, merges);
    let transfer_end = m.wire(address.zext(ADDRESS.1 + 1) + count.zext(ADDRESS.1 + 1));
    let beyond_rank = lit(config.dram().bursts().into(), ADDRESS.1 + 1).lt(transfer_end) & transfers;
    let in_rank = over(&address, config.dram().burst_bits()) & in_rank;
    let bad_address = m.wire(any!(dimm, in_rank, beyond_rank));
    let list = field(LIST);
    let end = m.wire("list_end", list.zext(COUNT.1 + 1) + count.zext(COUNT.1 + 1));
    let odd = (one_of(&["list"]) | selects) & list.low(log2(WORD_ENTRIES)).any();
    // A selection writes at most one entry per element, and reads one per element if it is listed.
    let end_bits = COLS.1 + 1;
    let end_of = |first: &Bits| first.zext(end_bits) + field(COLS).zext(end_bits);
    let from = field(FROM);
    let from_end = m.wire(end_of(&from));
    let past = |end: &Bits| lit(entries.into(), end_bits).lt(end);
    let past_lists = past(&end_of(&list)) | (listed & past(&from_end));
    let bad_list = m.wire(any!(odd, lists & lit(entries.into(), COUNT.1 + 1).lt(end), selects & past_lists));
    // In place or downwards every entry is read before it is written.
    let upward = all!(selects, listed, from.lt(list), list.zext(end_bits).lt(from_end));

    // The first error in the order of the document.
    let no_link = if config.core().link() { zeros(1) } else { transfers };
    let code = [(unknown, 1), (reserved, 2), (no_link, 9), (bad_size, 3), (bad_address, 6), (bad_list, 5)]
        .into_iter()
        .rev()
        .fold(zeros(ERROR_BITS), |rest, (wrong, code)| mux(wrong, lit(code, ERROR_BITS), rest));

    m.output(error = code, "code of the first error, or 0");
    for (name, bit) in strobes().zip(&is) {
        if name == "nop" {
            m.unused(bit, "nothing is done");
        } else if TRANSFERS.contains(&name) && !config.core().link() {
            m.unused(bit, "malformed without a link");
        } else {
            m.output(format!("{name}_o"), bit, format!("the instruction is `{name}`"));
        }
    }
    // Moved words are whole waves: all of them as one vector to read, one of them as a row to add.
    let wave_count = count.fit(wave_bits(gemv));
    let waves = mux(imports, lit(1, wave_bits(gemv)), wave_count);
    let cols_layout = cols.layout.q().map(|name, value| match name {
        "waves" => mux(moves, waves, value),
        "tail" => value.gated(!moves),
        // A whole wave ends with the last place of its last beat; a stripe of one beat has no other.
        "last_beat" if gemv.beats_per_stripe() == 1 => value,
        _ => value | repeat(value.width(), moves),
    });
    Layout::outputs_as(&m, "cols_", "cols: ", gemv, cols_layout);
    Layout::outputs_as(&m, "rows_", "rows: ", gemv, rows.layout.q());
    m.output(heads = heads.fit(gemv.head_bits()), "logarithm of the number of heads");
    if quantised {
        m.output(weights = field(WEIGHTS), FORMAT_DOC);
    }
    m.output(listed, "rows come from the list memory");
    m.output(selected = field(SELECTED), "no more rows than the last selection has");
    m.output(upward, "entries of the list memory would be overwritten before they are read");
    m.output(batch = batch.fit(batch_bits), "vectors");
    m.output(cols = field(COLS).fit(col_bits), "elements of a vector or a row");
    // A merge has a row for each vector.
    m.output(count = mux(merges, batch.zext(COUNT.1), count), "rows, entries or words");
    m.output(address = address.fit(config.dimm_burst_bits()), "burst address");
    m.output(other = field(OTHER), "first word of the second source");
    let scalar = mux(selects, field(CONDITION), field(SCALAR));
    m.output(scalar, "factor of all elements; of a selection the threshold, and in bit 15 that elements of both signs are selected");
    m.output(source = field(SOURCE), "first word of the source");
    m.output(target = field(TARGET), "first word of the destination");
    m.output(entry = list.fit(bits_for(entries - 1)), "first entry");
    m.output(tag = field(TAG), "tag of a signal");
}

pub(crate) fn transfer_fields(word: &Bits, config: &DesignConfig) -> [Bits; 3] {
    let field = |(low, bits): Field| word.slice(low, bits);
    [field(RANKS).low(config.gemv().ranks()), field(NODE), field(SLOT)]
}

/// Suffix of modules that a link changes.
pub(crate) fn link_suffix(config: &DesignConfig) -> &'static str {
    if config.core().link() { "_link" } else { "" }
}
