//! Times of the banks' multipliers, from columns, rows and transfers over a channel's bus.
//!
//! All banks of a channel obey one command (LibraPIM, section 5.2). Opening a row in all of them takes four ACTs per
//! tFAW, the last `(banks / 4 - 1) tFAW` after the first; then tRCD, a MAC command per tCCD_L, tRTP and tRP, at least
//! tRAS + tRP. Until then the next row of a partition cannot be opened.
//!
//! **Attention** of one head of K and V with `L` tokens, `g` heads of Q on it, head width `w`, in one channel:
//!
//! | part | rows hold | MAC columns | vectors in | results out |
//! | --- | --- | --- | --- | --- |
//! | scores | keys, `ceil(L / banks)` per bank | `g ceil(L / banks) ceil(w / 16)` | `g ceil(w / 16)` | `g ceil(L / banks)` |
//! | values | `ceil(w / banks)` dimensions per bank, `L` long | `g ceil(w / banks) ceil(L / 16)` | `g ceil(L / 16)` | `g ceil(w / banks)` |
//!
//! Vectors enter the global buffer, and results of all banks leave as a column, at tCCD_L each. The host opens rows
//! again for each head of Q; with `shared_rows`, `g` MACs share an open column, which saves rows, not MACs. Softmax
//! overlaps on the NPU's vector units, head by head: the longer one counts.
//!
//! **Weights broadcast** (FFN offload, section 4.4 and Fig. 14): weights pass through the global buffer to the NPU and
//! all banks. A bank holds vectors of one request at a time, so a column serves `banks` requests per MAC command, and
//! `b` requests take `ceil(b / banks)`. Inputs are processed in pieces of one row; each output gives a column of
//! partial sums per piece, which the NPU adds. Before, each channel gets all `b` vectors over its bus.
//!
//! **Commands** of GDDR6-AiM and Newton, as in the NeuPIMs simulator: per row in all banks a header, a COMP per column,
//! and a READRES after each key or row of values: 37 for a full row of keys of width 128, 34 for one of values.

use crate::offloading::hardware::{Dispatch, Hardware, KvMapping};
use crate::offloading::npu::NpuTimes;
use crate::offloading::time::Picos;
use crate::offloading::work::{Matrix, Model};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Work of a channel for one head of K and V.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeadWork {
    /// Heads of Q; each needs all that follows.
    pub group: u64,
    /// Openings of a row: one per head of Q, or one for all.
    pub openings: u64,
    /// Columns of keys in a bank.
    pub key_columns: u64,
    /// Columns of values in a bank.
    pub value_columns: u64,
    pub loads: u64,
    pub results: u64,
}

/// Work of a channel for a matrix with broadcast weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BroadcastWork {
    pub passes: u64,
    pub columns: u64,
    /// Rows of a vector.
    pub pieces: u64,
    /// Columns of sums in a pass.
    pub sums: u64,
    pub vectors: u64,
}

#[derive(Clone, Debug)]
pub struct PimTimes {
    hardware: Hardware,
    sliced: bool,
    npu: NpuTimes,
}

impl PimTimes {
    pub fn new(hardware: &Hardware, sliced: bool) -> Self {
        Self { hardware: *hardware, sliced, npu: NpuTimes::new(hardware, sliced) }
    }

    /// A row in all banks of a channel, with `macs` MAC commands.
    pub fn row(&self, macs: u64) -> Picos {
        let h = &self.hardware;
        let windows = u64::from(h.pim.banks.div_ceil(h.pim.acts_per_window)) - 1;
        let clocks = |clocks: u32| Picos(h.pim.clock_ps.into()) * clocks.into();
        let opening = clocks(h.pim.t_faw) * windows;
        let columns =
            clocks(h.pim.t_rcd) + h.mac_column(self.sliced) * macs.saturating_sub(1) + clocks(h.pim.t_rtp);
        opening + columns.max(clocks(h.pim.t_ras)) + clocks(h.pim.t_rp)
    }

    /// `columns` consecutive columns of a bank, `macs` on each.
    fn rows(&self, columns: u64, macs: u64) -> Picos {
        let per_row = u64::from(self.hardware.row_columns());
        let rest = columns % per_row;
        let last = if rest == 0 { Picos::ZERO } else { self.row(rest * macs) };
        self.row(per_row * macs) * (columns / per_row) + last
    }

    pub(crate) fn head_work(&self, model: &Model, context: u32) -> HeadWork {
        if context == 0 {
            return HeadWork::default();
        }
        let h = &self.hardware;
        let keys = u64::from(context.div_ceil(h.pim.banks));
        let key_columns = u64::from(model.head_width.div_ceil(h.column_elements()));
        let dimensions = u64::from(model.head_width.div_ceil(h.pim.banks));
        let value_columns = u64::from(context.div_ceil(h.column_elements()));
        let group = u64::from(model.group());
        HeadWork {
            group,
            openings: if h.pim.usage.shared_rows { 1 } else { group },
            key_columns: keys * key_columns,
            value_columns: dimensions * value_columns,
            loads: key_columns + value_columns,
            results: keys + dimensions,
        }
    }

    /// One head of K and V with its heads of Q, in one channel.
    pub fn head(&self, model: &Model, context: u32) -> Picos {
        let HeadWork { group, openings, key_columns, value_columns, loads, results } =
            self.head_work(model, context);
        let macs = group / openings.max(1);
        (self.rows(key_columns, macs) + self.rows(value_columns, macs)) * openings
            + self.hardware.mac_column(self.sliced) * (group * (loads + results))
    }

    /// Header, COMP and READRES commands of that head.
    pub fn head_commands(&self, model: &Model, context: u32) -> u64 {
        let HeadWork { group, openings, key_columns, value_columns, .. } = self.head_work(model, context);
        let per_row = u64::from(self.hardware.row_columns());
        let banks = self.hardware.pim.banks;
        let keys = u64::from(context.div_ceil(banks));
        let dimensions = u64::from(model.head_width.div_ceil(banks));
        let pieces = u64::from(context.div_ceil(self.hardware.pim.row_bytes / 2));
        let headers = key_columns.div_ceil(per_row) + value_columns.div_ceil(per_row);
        openings * headers + group * (key_columns + keys + value_columns + dimensions * pieces)
    }

    /// Time of the baselines' command stream for `commands` to all channels.
    pub fn issue(&self, commands: u64) -> Picos {
        let baselines = &self.hardware.baselines;
        match baselines.dispatch {
            Dispatch::Channel => Picos::ZERO,
            Dispatch::Shared => {
                let ps = u128::from(commands) * 1_000_000 / u128::from(baselines.commands_per_us);
                Picos(u64::try_from(ps).unwrap_or(u64::MAX))
            }
        }
    }

    /// AttAcc's banks multiply a matrix with vectors of `requests`, at their share of the peak.
    pub fn coprocessed(&self, matrix: Matrix, requests: u32) -> Picos {
        let h = &self.hardware;
        let lanes = u64::from(h.pim.channels) * u64::from(h.pim.banks) * u64::from(h.column_elements());
        let columns = (u128::from(matrix.weights()) * u128::from(requests)).div_ceil(lanes.into());
        let ps = columns * u128::from(h.mac_column(self.sliced).0) * 1000
            / u128::from(h.baselines.coprocessing_permille);
        Picos(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// Requests with the same context.
    pub fn attention(&self, model: &Model, requests: u32, context: u32) -> Picos {
        self.attention_of(model, requests, context, self.head(model, context))
    }

    /// [`Self::attention`], given the time of one head of K and V with its heads of Q.
    pub fn attention_of(&self, model: &Model, requests: u32, context: u32, head: Picos) -> Picos {
        let channels = u64::from(self.hardware.pim.channels);
        let (requests, heads) = (u64::from(requests), u64::from(model.kv_heads));
        let in_channel = match self.hardware.pim.usage.kv_mapping {
            KvMapping::Heads => (requests * heads).div_ceil(channels),
            KvMapping::Requests => requests.div_ceil(channels) * heads,
        };
        let scores = requests * u64::from(model.heads) * u64::from(context);
        (head * in_channel).max(self.npu.softmax(scores))
    }

    /// Requests of these contexts: longest first to the channel that is free first, the lowest among equals.
    pub fn attention_ragged(&self, model: &Model, contexts: &[u32]) -> Picos {
        match contexts {
            [] => Picos::ZERO,
            [first, rest @ ..] if rest.iter().all(|context| context == first) => {
                self.attention(model, contexts.len() as u32, *first)
            }
            _ => self.dealt(model, contexts),
        }
    }

    fn dealt(&self, model: &Model, contexts: &[u32]) -> Picos {
        let mut contexts = contexts.to_vec();
        contexts.sort_unstable_by_key(|&context| Reverse(context));
        let (pieces, heads) = match self.hardware.pim.usage.kv_mapping {
            KvMapping::Heads => (model.kv_heads, 1),
            KvMapping::Requests => (1, model.kv_heads),
        };
        let mut channels: BinaryHeap<_> =
            (0..self.hardware.pim.channels).map(|channel| Reverse((Picos::ZERO, channel))).collect();
        let (mut longest, mut scores) = (Picos::ZERO, 0);
        for context in contexts {
            scores += u64::from(model.heads) * u64::from(context);
            let piece = self.head(model, context) * heads.into();
            for _ in 0..pieces {
                if let Some(mut first) = channels.peek_mut() {
                    first.0.0 += piece;
                    longest = longest.max(first.0.0);
                }
            }
        }
        longest.max(self.npu.softmax(scores))
    }

    pub(crate) fn broadcast_work(&self, matrix: Matrix, requests: u32) -> BroadcastWork {
        let h = &self.hardware;
        let channels = u64::from(h.pim.channels);
        let pieces = u64::from(matrix.inputs.div_ceil(h.pim.row_bytes / 2));
        BroadcastWork {
            passes: requests.div_ceil(h.pim.banks).into(),
            columns: (2 * matrix.weights()).div_ceil(u64::from(h.pim.column_bytes) * channels),
            pieces,
            sums: (u64::from(matrix.outputs) * pieces).div_ceil(channels),
            vectors: u64::from(requests) * u64::from(matrix.inputs.div_ceil(h.column_elements())),
        }
    }

    /// A matrix with broadcast weights and vectors of `requests`; 0 without requests.
    pub fn broadcast(&self, matrix: Matrix, requests: u32) -> Picos {
        if requests == 0 {
            return Picos::ZERO;
        }
        let BroadcastWork { passes, columns, pieces, sums, vectors } = self.broadcast_work(matrix, requests);
        let mac = self.hardware.mac_column(self.sliced);
        let opening = self.row(1) * pieces;
        (mac * (columns + sums) + opening) * passes + self.hardware.bus_column(self.sliced) * vectors
    }

    pub fn broadcasts(&self, matrices: impl Iterator<Item = Matrix>, requests: u32) -> Picos {
        matrices.map(|matrix| self.broadcast(matrix, requests)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offloading::Pim;
    use crate::offloading::hardware::{Baselines, Usage};
    use ndp_config::LlmShape;

    fn with(usage: Usage) -> PimTimes {
        PimTimes::new(&Hardware::from(Pim { usage, ..Pim::default() }), false)
    }

    fn pim() -> PimTimes {
        with(Usage::default())
    }

    fn model(name: &str) -> Model {
        Model::of(&LlmShape::preset(name).unwrap())
    }

    /// Upper bound of the share of tFAW that attention's rows and full-speed reads need together.
    fn activation_load(times: &PimTimes) -> f64 {
        let h = &times.hardware;
        let columns = u64::from(h.row_columns());
        let by_pim = f64::from(h.pim.banks) / times.row(columns).0 as f64;
        let by_reads = 1.0 / (h.bus_column(times.sliced) * columns).0 as f64;
        let allowed = f64::from(h.pim.acts_per_window)
            / (u64::from(h.pim.t_faw).max(1) * u64::from(h.pim.clock_ps)) as f64;
        (by_pim + by_reads) / allowed
    }

    #[test]
    fn a_full_row_takes_186_clocks_and_a_short_one_its_tras() {
        // 3 tFAW + tRCD + 31 tCCD_L + tRTP + tRP.
        assert_eq!(pim().row(32), Picos((90 + 14 + 62 + 6 + 14) * 1000));
        assert_eq!(pim().row(1), Picos((90 + 34 + 14) * 1000));
        // tRCD + 7 tCCD_L + tRTP is tRAS; one more column is two clocks more.
        assert_eq!(pim().row(8), pim().row(1));
        assert_eq!(pim().row(9), pim().row(8) + Picos(2000));
    }

    #[test]
    fn a_head_is_counted_column_by_column() {
        // 64 tokens: 4 keys x 8 columns and 8 dimensions x 4 columns per bank, a row each.
        let moved = 8 + 4 + 4 + 8;
        assert_eq!(pim().head(&model("gpt3-175b"), 64), pim().row(32) * 2 + Picos(2000) * moved);
        let eight = pim().head(&model("gpt3-175b"), 64) * 8;
        assert_eq!(pim().head(&model("llama3-70b"), 64), eight);
        let shared = with(Usage { shared_rows: true, ..Usage::default() });
        assert_eq!(shared.head(&model("llama3-70b"), 64), pim().row(256) * 2 + Picos(2000) * (8 * moved));
        // 65 tokens: a fifth key in one bank, and a fifth column of values.
        assert_eq!(
            pim().head(&model("gpt3-175b"), 65),
            (pim().row(32) + pim().row(8)) * 2 + Picos(2000) * (8 + 5 + 5 + 8)
        );
    }

    #[test]
    fn requests_of_one_length_take_the_same_time_ragged_or_not() {
        for name in ["gpt3-175b", "llama3-70b"] {
            for kv_mapping in [KvMapping::Heads, KvMapping::Requests] {
                let usage = Usage { kv_mapping, ..Usage::default() };
                let pim = PimTimes::new(&Hardware::from(Pim { usage, ..Pim::default() }), true);
                for requests in [0, 1, 5, 63, 64, 65, 192] {
                    let contexts = vec![77; requests];
                    assert_eq!(
                        pim.attention(&model(name), requests as u32, 77),
                        pim.dealt(&model(name), &contexts),
                        "{name} {requests}"
                    );
                }
            }
        }
    }

    #[test]
    fn sixteen_requests_share_a_broadcast_and_the_seventeenth_needs_another() {
        let matrix = Matrix { inputs: 512, outputs: 2048 };
        // 1024 columns of weights per channel, 32 of sums, a row, and 32 columns for each vector.
        let pass = Picos(2000) * (1024 + 32) + pim().row(1);
        assert_eq!(pim().broadcast(matrix, 16), pass + Picos(2000) * (16 * 32));
        assert_eq!(pim().broadcast(matrix, 17), pass * 2 + Picos(2000) * (17 * 32));
    }

    #[test]
    fn reads_at_full_speed_and_attention_fit_into_tfaw_together() {
        let load = activation_load(&PimTimes::new(&Hardware::default(), true));
        assert!((0.7..0.8).contains(&load), "{load}");
        let tight = Hardware::from(Pim { t_faw: 60, ..Pim::default() });
        assert!(activation_load(&PimTimes::new(&tight, true)) > 1.0);
    }

    #[test]
    fn full_rows_take_37_and_34_commands_and_one_stream_for_all_channels_is_what_holds_them_up() {
        // 64 tokens of width 128: one full row of keys, one of values with a result for each of 8 elements.
        assert_eq!(pim().head_commands(&model("gpt3-175b"), 64), 37 + (1 + 32 + 8));
        // 4096 tokens: 64 full rows of each.
        assert_eq!(pim().head_commands(&model("gpt3-175b"), 4096), 64 * (37 + 34));
        assert_eq!(pim().head_commands(&model("llama3-70b"), 4096), 8 * 64 * (37 + 34));
        // A short last row: a key, and an element of 16 positions in each of 8 columns.
        assert_eq!(pim().head_commands(&model("gpt3-175b"), 16), (1 + 8 + 1) + (1 + 8 + 8));
        let shared = |commands_per_us| {
            let baselines = Baselines { dispatch: Dispatch::Shared, commands_per_us, ..Baselines::default() };
            PimTimes::new(&Hardware { baselines, ..Hardware::default() }, false).issue(4544 * 64)
        };
        assert_eq!((shared(1000), shared(2000)), (Picos(4544 * 64_000), Picos(4544 * 32_000)));
        assert_eq!(pim().issue(4544 * 64), Picos::ZERO);
    }

    #[test]
    fn coprocessing_is_a_share_of_what_all_multipliers_can_do() {
        let matrix = Matrix { inputs: 512, outputs: 2048 };
        // 2^20 weights, 3 vectors, 16,384 multipliers.
        assert_eq!(pim().coprocessed(matrix, 3), Picos(2000 * 3 * 64));
        let baselines = Baselines { coprocessing_permille: 500, ..Baselines::default() };
        let half = PimTimes::new(&Hardware { baselines, ..Hardware::default() }, false);
        assert_eq!(half.coprocessed(matrix, 3), Picos(2000 * 3 * 64 * 2));
    }
}
