//! What a rank's group gets from the activation unit, and how it passes it on to the lanes of its tiles.

use super::prelude::*;

bundle! {
    /// Inputs that a group uses itself, without those it passes to the lanes.
    pub(crate) struct LanePort(config: &GemvConfig) {
        re: 1, "read the slices; only with `read_free_o`, when no other part reads";
        raddr: config.slice_addr_bits(), "word to read";
        we: config.lanes(), "lane to write with the results, one-hot or nothing";
        waddr: config.slice_addr_bits(), "word to write";
        gelu: 1, "function unit: GELU; otherwise SiLU";
        divide: 1, "function unit: quotients of both operands";
    }
}

bundle! {
    /// Position of the lanes' elements relative to the end of the vectors.
    pub(crate) struct LaneEnds(config: &GemvConfig) {
        ends: 1, "the vectors end in this rank's stripe";
        counts: 1, "this rank's elements count";
        element: log2(config.lanes()), "number of the element in its word";
        last_beat: position_bits(config), "position of the vectors' last beat in the last stripe";
        last_elem: log2(BEAT_ELEMS), "last element of the vectors in that beat";
    }
}

/// Inputs of the lanes of a group.
pub(crate) struct Lanes {
    pub port: LanePort,
    /// If slices share lanes.
    pub slices: Option<SliceControls>,
    pub ends: LaneEnds,
}

impl Lanes {
    /// For each tile of a position whether its element is beyond the end if the beat is the vectors' last.
    pub fn cuts(&self, m: &ModuleBuilder, config: &GemvConfig) -> Vec<Bits> {
        let lane_bits = log2(config.lanes());
        (0..config.beat_chunks())
            .map(|tile| {
                let tile_bits = log2(BEAT_ELEMS) - lane_bits;
                let LaneEnds { element, last_elem, .. } = self.ends;
                let element = match tile_bits {
                    0 => element,
                    bits => cat!(lit(tile.into(), bits), element),
                };
                m.wire(format!("lane_cut{tile}"), last_elem.lt(element))
            })
            .collect()
    }

    /// Whether slice `k` of the lanes is read.
    pub fn reads(&self, k: u32) -> Bits {
        self.slices.map_or(self.port.re, |slices| self.port.re & slices.read_slice.bit(k))
    }

    /// What is written of slice `k` of the lanes.
    pub fn writes(&self, k: u32) -> Bits {
        self.slices.map_or(self.port.we, |slices| self.port.we.gated(slices.write_slice.bit(k)))
    }

    /// Whether the element of tile `tile` is beyond the vectors' end.
    fn beyond(&self, m: &ModuleBuilder, cuts: &[Bits], tile: u32) -> Bits {
        let (position, tile) = (tile / cuts.len() as u32, tile % cuts.len() as u32);
        let LaneEnds { ends, last_beat, .. } = self.ends;
        let here = lit(position.into(), last_beat.width());
        let cut = &cuts[tile as usize];
        let beyond = match position {
            0 => cut & last_beat.is_zero(),
            _ => last_beat.lt(here) | (cut & last_beat.eq(here)),
        };
        m.wire(format!("lane_beyond{position}_{tile}"), ends & beyond)
    }

    /// Whether the element of lane number `lane` is beyond the vectors' end.
    pub fn blank(&self, m: &ModuleBuilder, cuts: &[Bits], lane: u32) -> Bits {
        let Some(SliceControls { slice, .. }) = self.slices else { return self.beyond(m, cuts, lane) };
        let count = slice.width();
        let of_slice = |k: u32| self.beyond(m, cuts, lane * count + k) & slice.bit(k);
        let beyond = any_of((0..count).map(of_slice));
        m.wire(format!("lane{lane}_beyond"), beyond)
    }
}
