//! What a rank's group gets from the activation unit, and how it passes it on to the lanes of its tiles.

use super::activation_lane::{lane_controls, slice_controls};
use super::exponential_path::shared_controls;
use crate::blocks::common::encoding::log2;
use ndp_config::{BEAT_ELEMS, GemvConfig};
use ndp_hdl_language::prelude::*;

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
    /// What the exponential gets that lanes share.
    pub exponential: Option<SharedInputs>,
    /// Of slices that share lanes one-hot: which to read, to take, whose elements leave, to write.
    slices: Option<[Bits; 4]>,
    controls: Vec<(&'static str, Bits)>,
    ends: Bits,
    counts: Bits,
    element: Bits,
    last_beat: Bits,
    last_elem: Bits,
}

/// What the exponential of a rank gets that its lanes share.
pub(crate) struct SharedInputs {
    /// What comes back in the chain are its results, not the function unit's.
    pub returns: Bits,
    /// What is added to the values' products with log2(e).
    pub argument: Bits,
    /// Results are wide values.
    pub wide: Bits,
    /// The value counts in the sum.
    pub counts: Bits,
}

impl LaneInputs {
    /// The input ports.
    pub fn new(m: &ModuleBuilder, config: &GemvConfig) -> Self {
        let addr_bits = config.slice_addr_bits();
        let input = |name: &str, bits: u32, doc: &str| {
            m.input(format!("lane_{name}_i"), bits, format!("activation unit: {doc}"))
        };
        let last_beat_bits = crate::blocks::common::row_layout::position_bits(config);
        let read = input("re", 1, "read the slices; only with `read_free_o`, when no other part reads");
        let read_addr = input("raddr", addr_bits, "word to read");
        let write = input("we", config.lanes(), "lane to write with the results, one-hot or nothing");
        let write_addr = input("waddr", addr_bits, "word to write");
        let gelu = input("gelu", 1, "function unit: GELU; otherwise SiLU");
        let divide = input("divide", 1, "function unit: quotients of both operands");
        let slices = slice_controls(config)
            .into_iter()
            .map(|(name, bits, doc)| input(name, bits, doc))
            .collect::<Vec<_>>()
            .try_into()
            .ok();
        let controls: Vec<_> = lane_controls(config)
            .into_iter()
            .map(|(name, bits, doc)| (name, input(name, bits, doc)))
            .collect();
        let ends = input("ends", 1, "the vectors end in this rank's stripe");
        let counts = input("counts", 1, "this rank's elements count");
        let element = input("element", log2(config.lanes()), "number of the element in its word");
        let last_beat =
            input("last_beat", last_beat_bits, "position of the vectors' last beat in the last stripe");
        let last_elem = input("last_elem", log2(BEAT_ELEMS), "last element of the vectors in that beat");
        let exponential = config.shares_exponential().then(|| {
            let [returns, argument, wide, past_end] =
                shared_controls().map(|(name, bits, doc)| input(name, bits, doc));
            let counts = m.wire("exponential_counts", counts & !(ends & past_end));
            SharedInputs { returns, argument, wide, counts }
        });
        Self {
            read,
            read_addr,
            write,
            write_addr,
            gelu,
            divide,
            exponential,
            slices,
            controls,
            ends,
            counts,
            element,
            last_beat,
            last_elem,
        }
    }

    /// For each tile of a position whether its element is beyond the end if the beat is the vectors' last.
    pub fn cuts(&self, m: &ModuleBuilder, config: &GemvConfig) -> Vec<Bits> {
        let lane_bits = log2(config.lanes());
        (0..config.beat_chunks())
            .map(|tile| {
                let tile_bits = log2(BEAT_ELEMS) - lane_bits;
                let element = match tile_bits {
                    0 => self.element,
                    bits => cat!(lit(tile.into(), bits), self.element),
                };
                m.wire(format!("lane_cut{tile}"), self.last_elem.lt(element))
            })
            .collect()
    }

    /// Whether slice `k` of the lanes is read.
    pub fn reads(&self, k: u32) -> Bits {
        self.slices.as_ref().map_or_else(|| self.read, |[read, ..]| self.read & read.bit(k))
    }

    /// What is written of slice `k` of the lanes.
    pub fn writes(&self, k: u32) -> Bits {
        self.slices.as_ref().map_or_else(|| self.write, |[.., write]| self.write.gated(write.bit(k)))
    }

    /// Whether the element of tile `tile` is beyond the vectors' end.
    fn beyond(&self, m: &ModuleBuilder, cuts: &[Bits], tile: u32) -> Bits {
        let (position, tile) = (tile / cuts.len() as u32, tile % cuts.len() as u32);
        let here = lit(position.into(), self.last_beat.width());
        let cut = &cuts[tile as usize];
        let beyond = match position {
            0 => cut & self.last_beat.is_zero(),
            _ => self.last_beat.lt(here) | (cut & self.last_beat.eq(here)),
        };
        m.wire(format!("lane_beyond{position}_{tile}"), self.ends & beyond)
    }

    /// Connects lane number `lane`, whose ports have names that begin with `prefix`.
    pub fn connect(
        &self,
        m: &ModuleBuilder,
        instance: &InstanceBuilder,
        prefix: &str,
        cuts: &[Bits],
        lane: u32,
    ) {
        let input = |name: &str, value: &Bits| instance.connect_input(format!("{prefix}{name}_i"), value);
        let beyond = match &self.slices {
            None => self.beyond(m, cuts, lane),
            Some([_, take, slice, _]) => {
                let count = slice.width();
                let of_slice = |k: u32| self.beyond(m, cuts, lane * count + k) & slice.bit(k);
                let beyond = any_of((0..count).map(of_slice));
                input("take_slice", take);
                m.wire(format!("lane{lane}_beyond"), beyond)
            }
        };
        input("counts", &(self.counts & !beyond));
        input("blank", &beyond);
        self.controls.iter().for_each(|(name, value)| input(name, value));
    }
}
