//! Commands of the GEMV unit, each held by the part that executes it, which starts in the next cycle.

use super::prelude::*;
use super::window_sequencer::ProductKind;

bundle! {
    /// Start of each command, except commands of the activation unit.
    pub(crate) struct UnitStarts {
        load: 1, "load a vector block (cols, batch) to `target_i`; only while not busy";
        store: 1, "store the vector block (cols, batch) at `source_i`; only while not busy";
        export: 1, "store `cols_waves_i` words of sums at `source_i`, in whole waves; only while not busy";
        zero: 1, "zero `rows_i` words at `target_i`; only while not busy";
        dot: 1, "DOT: block (cols, batch) at `source_i` to block (rows, batch * heads) at `target_i`; only while not busy";
        axpy: 1, "AXPY: block (rows, batch * heads) at `source_i` to sums (cols, batch) at `target_i`; only while not busy";
        merge: 1, "add row k of the matrix, unscaled, to vector k of the sums (cols, batch) at `target_i`; only while not busy";
        import: 1, "add row k of the matrix, one wave of exported sums, to word `target_i` + k; only while not busy";
        select: 1, "select: elements of the block (cols, batch) at `source_i` that meet a condition to `target_i`, one after the \
            other; only while not busy";
        round: 1, "round sums (cols, batch) at `source_i` to `target_i`; only while not busy";
    }
}

#[derive(Clone)]
pub(crate) struct CommandFields {
    pub cols: Layout,
    pub count: Layout,
    pub rows: Bits,
    pub batch: Bits,
    pub source: Bits,
    pub target: Bits,
}

impl CommandFields {
    fn held(&self, m: &ModuleBuilder, part: &str, enable: Bits) -> Self {
        let hold = |name: &str, value: Bits| m.hold(format!("{part}_{name}_q"), value, enable);
        Self {
            cols: self.cols.held(m, format!("{part}_cols_"), enable),
            count: self.count.held(m, format!("{part}_count_"), enable),
            rows: hold("rows", self.rows),
            batch: hold("batch", self.batch),
            source: hold("source", self.source),
            target: hold("target", self.target),
        }
    }
}

/// Context of the description: fields of the commands that the parts execute, and their starts.
pub(super) struct Unit<'a> {
    pub m: &'a ModuleBuilder,
    pub config: &'a GemvConfig,
    pub load: CommandFields,
    pub load_start: Bits,
    pub store: CommandFields,
    pub store_start: Bits,
    /// Stores sums.
    pub exports: Bits,
    /// A product or a selection.
    pub gemv: CommandFields,
    pub gemv_start: Bits,
    pub select_start: Bits,
    pub selects: Bits,
    /// Condition of the selection: a threshold, and above it whether elements of both signs meet it.
    pub condition: Bits,
    pub kind: ProductKind,
    pub dot_start: Bits,
    /// Logarithm of the product's number of heads, 0 while sums are rounded: products and rounding share columns, but
    /// not in time.
    pub heads: Bits,
    pub headed: Bits,
    /// Number of result or scalar vectors: one for each vector and head.
    pub vectors: Bits,
    /// Format of the product's weights.
    pub format: Option<Bits>,
    pub round: CommandFields,
    pub round_start: Bits,
}

impl<'a> Unit<'a> {
    /// Takes the command that starts. A selection shares command and writer with the products; its results are as long
    /// as its operands.
    #[block(m)]
    pub fn of(
        m: &'a ModuleBuilder,
        config: &'a GemvConfig,
        start: &UnitStarts,
        command: &CommandFields,
        (heads_in, format_in): (Bits, Option<Bits>),
        condition_in: Bits,
    ) -> Self {
        let started = |name: &str, start: Bits| m.flag(format!("{name}_start_q"), start);
        let starts_store = m.wire(start.store | start.export);
        let merges = m.wire(start.merge | start.import);
        let start_gemv = m.wire(any!(start.dot, start.axpy, merges));
        let takes_gemv = m.wire(start_gemv | start.select);
        let flag =
            |name: &str, enable: Bits, value: Bits| m.reg(name, 1).reset(0).enable(enable).next(value).q();
        let kind = ProductKind { axpy: start.axpy | merges, merge: merges, import: start.import };
        let kind = kind.map(|name, value| flag(&format!("{name}_q"), start_gemv, value));
        let heads = m
            .reg(config.head_bits())
            .reset(0)
            .enable(takes_gemv | start.round)
            .next(heads_in.gated(start_gemv));
        // Partial results are sums or FP16.
        let format = |format: Bits| {
            m.reg("weight_format_q", FORMAT_BITS).reset(0).enable(start_gemv).next(format.gated(!merges)).q()
        };
        let count = command.cols.or_else(start.select, command.count);
        let gemv = CommandFields { count, ..command.clone() }.held(m, "gemv", takes_gemv);
        let gemv_start = started("gemv", start_gemv);
        let unit = Self {
            m,
            config,
            load: command.held(m, "load", start.load),
            load_start: started("load", start.load),
            store: command.held(m, "store", starts_store),
            store_start: started("store", starts_store),
            exports: flag("exports_q", starts_store, start.export),
            vectors: m.wire("vectors", gemv.batch.zext(config.vectors_bits()).shl(heads)),
            gemv,
            gemv_start,
            select_start: started("select", start.select),
            selects: flag("selects_q", takes_gemv, start.select),
            condition: m.hold("condition_q", condition_in, start.select),
            kind,
            dot_start: m.wire("dot_start", gemv_start & !kind.axpy),
            heads: heads.q(),
            headed: m.wire("headed", heads.any()),
            format: format_in.map(format),
            round: command.held(m, "round", start.round),
            round_start: started("round", start.round),
        };
        let Self { load, store, round, .. } = &unit;
        for (part, unread) in [
            ("load", cat!(load.rows, load.source)),
            ("store", cat!(store.rows, store.target)),
            ("round", round.rows),
        ] {
            m.unused(unread, format!("not part of a {part}"));
        }
        for part in [load, store, round] {
            m.unused(cat(part.count.values()), "only products have rows");
        }
        unit
    }
}
