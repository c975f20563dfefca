//! The activation unit's part in a rank's group: controls of the lanes, and their chain.

use super::activation_lane::{LaneElement, LaneResults};
use super::activation_tree::{RankValues, activation_tree};
use super::exponential_path::{SharedControls, shared_exponential};
use super::prelude::*;

bundle! {
    /// Inputs that a group uses itself; the others go to the lanes.
    pub(crate) struct LanePort(config: &GemvConfig) {
        raddr: config.slice_addr_bits(), "word to read";
        we: config.lanes(), "lane to write with the results, one-hot or 0";
        waddr: config.slice_addr_bits(), "word to write";
        gelu: 1, "function unit: GELU; otherwise SiLU";
        divide: 1, "function unit: quotients of both operands";
        element: log2(config.lanes()), "number of the element in its word";
        last_beat: position_bits(config), "position of the vectors' last beat in the last stripe";
        last_elem: log2(BEAT_ELEMS), "last element of the vectors in that beat";
    }
}

pub(crate) struct Lanes {
    pub re: Bits,
    pub port: LanePort,
    pub slices: Option<SliceControls>,
    pub controls: LaneControls,
    /// The vectors end in this rank's stripe.
    pub ends: Bits,
    pub counts: Bits,
    pub shared: Option<SharedControls>,
}

impl Lanes {
    /// For each tile of a position, whether its element is beyond the end if the beat is the vectors' last.
    fn cuts(&self, m: &ModuleBuilder, config: &GemvConfig) -> Vec<Bits> {
        let lane_bits = log2(config.lanes());
        let LanePort { element, last_elem, .. } = self.port;
        each(config.beat_chunks(), |tile| {
            let element = match log2(BEAT_ELEMS) - lane_bits {
                0 => element,
                bits => cat!(lit(tile.into(), bits), element),
            };
            m.wire(format!("lane_cut{tile}"), last_elem.lt(element))
        })
    }

    pub fn reads(&self, k: u32) -> Bits {
        self.slices.map_or(self.re, |slices| self.re & slices.read_slice.bit(k))
    }

    pub fn writes(&self, k: u32) -> Bits {
        self.slices.map_or(self.port.we, |slices| self.port.we.gated(slices.write_slice.bit(k)))
    }

    fn beyond(&self, m: &ModuleBuilder, cuts: &[Bits], tile: u32) -> Bits {
        let (position, tile) = (tile / cuts.len() as u32, tile % cuts.len() as u32);
        let beyond = beyond_end(position, &self.port.last_beat, &cuts[tile as usize]);
        m.wire(format!("lane_beyond{position}_{tile}"), self.ends & beyond)
    }

    fn blank(&self, m: &ModuleBuilder, cuts: &[Bits], lane: u32) -> Bits {
        let Some(SliceControls { slice, .. }) = self.slices else { return self.beyond(m, cuts, lane) };
        let count = slice.width();
        let of_slice = |k: u32| self.beyond(m, cuts, lane * count + k) & slice.bit(k);
        let beyond = any_of((0..count).map(of_slice));
        m.wire(format!("lane{lane}_beyond"), beyond)
    }
}

/// The lanes of a group in a chain. Their elements move from lane to lane, from the last one to the first, and around
/// through the function unit, or through the exponential if they share one.
pub(crate) struct LaneChain {
    pub lanes: Lanes,
    cuts: Vec<Bits>,
    /// Element `i` goes to lane `i - 1`, element 0 around.
    links: [Vec<Wire>; 2],
}

impl LaneChain {
    pub fn of(m: &ModuleBuilder, config: &GemvConfig, lanes: Lanes) -> Self {
        let count = config.activation_lanes_per_rank();
        let link = |operand| each(count + 1, |i| m.forward(format!("chain_{operand}{i}"), FP16_BITS));
        Self { cuts: lanes.cuts(m, config), links: ["first", "second"].map(link), lanes }
    }

    /// Inputs of lane number `lane` other than the common controls.
    pub fn element(&self, m: &ModuleBuilder, lane: u32) -> LaneElement {
        let blank = self.lanes.blank(m, &self.cuts, lane);
        let [chain, chain_other] = [0, 1].map(|operand: usize| self.links[operand][lane as usize + 1].q());
        LaneElement { counts: self.lanes.counts & !blank, blank, chain, chain_other }
    }

    /// Closes the chain, and joins the results of all lanes.
    #[block(m)]
    pub fn closed(
        self,
        m: &ModuleBuilder,
        config: &GemvConfig,
        results: &[LaneResults],
    ) -> Result<RankValues, HdlError> {
        let [first, second] = &self.links;
        for (lane, result) in results.iter().enumerate() {
            first[lane].drive(result.chain);
            second[lane].drive(result.chain_other);
        }
        let trees = activation_tree::In {
            key: results.iter().map(|result| result.key).collect(),
            bad: results.iter().map(|result| result.bad).collect(),
            term: results.iter().filter_map(|result| result.term).collect(),
        }
        .part(m, "trees", &activation_tree(config)?);
        let Lanes { port: LanePort { gelu, divide, .. }, ends, counts, shared, .. } = self.lanes;
        let value = first[0].q();
        let function = function_unit::In { gelu, divide, value, divisor: second[0].q() };
        let function = function.part(m, "functions", &function_unit()?);
        let mut returned = function.value.q();
        let sum = match shared {
            None => trees.sum.q(),
            Some(SharedControls { exponentials, argument, wide_exponentials: wide, past_end }) => {
                let counts = m.wire("exponential_counts", counts & !(ends & past_end));
                let exponential = shared_exponential::In { value, argument, counts, wide };
                let exponential = exponential.part(m, "exponential", &shared_exponential()?);
                returned = m.wire("returned", mux(exponentials, exponential.value, returned));
                exponential.term.q()
            }
        };
        first[results.len()].drive(returned);
        second[results.len()].drive(zeros(FP16_BITS));
        Ok(RankValues { key: trees.key.q(), bad: trees.bad.q(), sum })
    }
}
