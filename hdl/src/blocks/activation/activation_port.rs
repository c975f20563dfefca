//! What a rank's group gets from the activation unit, and how it passes it on to the lanes of its tiles.

use super::activation_lane::lane_controls;
use crate::blocks::common::encoding::log2;
use ndp_config::{BEAT_ELEMS, GemvConfig};
use ndp_hdl_language::{Bits, InstanceBuilder, ModuleBuilder, cat, lit};

/// Ports of a group for the activation unit.
pub(crate) struct LaneInputs {
    /// Read the slices; only with `read_free_o` and without other readers.
    pub read: Bits,
    /// Word to read.
    pub read_addr: Bits,
    /// Lanes to write with the results, one-hot; only in a cycle that was announced as free.
    pub write: Bits,
    /// Word to write.
    pub write_addr: Bits,
    /// The function unit computes GELU.
    pub gelu: Bits,
    /// It divides.
    pub divide: Bits,
    controls: Vec<(&'static str, Bits)>,
    ends: Bits,
    counts: Bits,
    element: Bits,
    last_beat: Bits,
    last_elem: Bits,
}

impl LaneInputs {
    /// The input ports.
    pub fn new(m: &ModuleBuilder, config: &GemvConfig) -> Self {
        let addr_bits = config.slice_addr_bits();
        let input = |name: &str, bits: u32, doc: &str| {
            m.input(format!("lane_{name}_i"), bits, format!("activation unit: {doc}"))
        };
        let last_beat_bits = crate::blocks::common::row_layout::position_bits(config);
        Self {
            read: input("re", 1, "read the slices; only with `read_free_o`, when no other part reads"),
            read_addr: input("raddr", addr_bits, "word to read"),
            write: input("we", config.lanes(), "lane to write with the results, one-hot or nothing"),
            write_addr: input("waddr", addr_bits, "word to write"),
            gelu: input("gelu", 1, "function unit: GELU; otherwise SiLU"),
            divide: input("divide", 1, "function unit: quotients of both operands"),
            controls: lane_controls().map(|(name, bits, doc)| (name, input(name, bits, doc))).into(),
            ends: input("ends", 1, "the vectors end in this rank's stripe"),
            counts: input("counts", 1, "this rank's elements count"),
            element: input("element", log2(config.lanes()), "number of the element in its word"),
            last_beat: input(
                "last_beat",
                last_beat_bits,
                "position of the vectors' last beat in the last stripe",
            ),
            last_elem: input("last_elem", log2(BEAT_ELEMS), "last element of the vectors in that beat"),
        }
    }

    /// For each tile of a position whether its element is beyond the end if the beat is the vectors' last.
    pub fn cuts(&self, m: &ModuleBuilder, config: &GemvConfig) -> Vec<Bits> {
        let lane_bits = log2(config.lanes());
        (0..config.beat_chunks())
            .map(|tile| {
                let tile_bits = log2(BEAT_ELEMS) - lane_bits;
                let element = match tile_bits {
                    0 => self.element.clone(),
                    bits => cat([lit(tile.into(), bits), self.element.clone()]),
                };
                m.wire(format!("lane_cut{tile}"), self.last_elem.lt(&element))
            })
            .collect()
    }

    /// Connects the lane of tile `at.1` at position `at.0`.
    pub fn connect<'a>(
        &self,
        m: &ModuleBuilder,
        instance: InstanceBuilder<'a>,
        cuts: &[Bits],
        at: (u32, u32),
    ) -> InstanceBuilder<'a> {
        let (position, tile) = at;
        let here = lit(position.into(), self.last_beat.width());
        let cut = &cuts[tile as usize];
        let beyond = match position {
            0 => cut & self.last_beat.is_zero(),
            _ => self.last_beat.lt(&here) | (cut & self.last_beat.eq(&here)),
        };
        let beyond = m.wire(format!("lane_beyond{position}_{tile}"), &self.ends & beyond);
        let instance = instance
            .input("lane_counts_i", &self.counts & !&beyond)
            .input("lane_blank_i", &beyond)
            .input("lane_we_i", &self.write);
        self.controls
            .iter()
            .fold(instance, |instance, (name, value)| instance.input(format!("lane_{name}_i"), value))
    }
}
