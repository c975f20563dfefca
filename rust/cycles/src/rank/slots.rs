//! The DRAM's times in slots (docs/rank-port.md, "Slots").
//!
//! A slot is four clocks. A column command is on the pins in the first clock of the slot after its decision, a row
//! command in the third. Between commands of a class lie multiples of four clocks; from a row command to a column
//! command two less, the other way two more.

use ndp_config::DramConfig;

/// Clocks of a slot.
pub(crate) const SLOT: u64 = 4;
/// Clock of a slot in which a row command is on the pins.
pub(crate) const ROW_CLOCK: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Slots {
    pub act_to_column: u64,
    pub act_to_pre: u64,
    pub act_to_act: u64,
    pub pre_to_act: u64,
    pub read_to_pre: u64,
    pub write_to_pre: u64,
    /// RD to RD or WR to WR; in the same bank group, in another one.
    pub column: [u64; 2],
    /// WR to RD; likewise.
    pub write_to_read: [u64; 2],
    pub read_to_write: u64,
    /// ACT to ACT; likewise.
    pub act: [u64; 2],
    pub four_acts: u64,
    pub refresh: u64,
    pub refresh_interval: u64,
    /// From reset to PRE of all banks: no earlier command is nearer than that.
    pub settled: u64,
    /// Clocks from the start of the decision's slot to the end of the burst at the controller.
    pub read_latency: u64,
    /// Clocks from the start of the decision's slot to the pop of the written burst.
    pub write_latency: u64,
}

impl Slots {
    pub fn new(dram: &DramConfig) -> Self {
        let clocks = |time: u32| u64::from(time);
        let up = |clocks: u64| clocks.div_ceil(SLOT);
        // The row command is `ROW_CLOCK` later in its slot than the column command.
        let column_to_row = |clocks: u64| up(clocks.saturating_sub(ROW_CLOCK)).max(1);
        let row_to_column = |clocks: u64| up(clocks + ROW_CLOCK);
        let written = clocks(dram.t_cwl()) + SLOT;
        let write_to_pre = column_to_row(written + clocks(dram.t_wr()));
        let read_to_pre = column_to_row(clocks(dram.t_rtp()));
        let [refresh, act_to_pre, pre_to_act] =
            [dram.t_rfc(), dram.t_ras(), dram.t_rp()].map(|time| up(clocks(time)));
        let act_to_column = row_to_column(clocks(dram.t_rcd()));
        // Time from PRE of all banks after reset to the first ACT, RD or WR.
        let first_act = pre_to_act + refresh;
        let first_column = first_act + act_to_column;
        let acts = [dram.t_rc(), dram.t_rrd_s(), dram.t_rrd_l(), dram.t_faw()].map(|time| up(clocks(time)));
        let [turn, write_turn] = [dram.t_rtw(), dram.t_wtr_s().max(dram.t_wtr_l())].map(clocks);
        let columns = [clocks(dram.t_ccd_s()), clocks(dram.t_ccd_l()), turn, written + write_turn].map(up);
        let late =
            |times: [u64; 4], covered: u64| times.into_iter().max().unwrap_or(0).saturating_sub(covered);
        let settled = [refresh, act_to_pre, read_to_pre, write_to_pre].into_iter().max().unwrap_or(0);
        let settled = settled.max(late(acts, first_act)).max(late(columns, first_column));
        Self {
            act_to_column,
            act_to_pre,
            act_to_act: up(clocks(dram.t_rc())),
            pre_to_act,
            read_to_pre,
            write_to_pre,
            column: [dram.t_ccd_l(), dram.t_ccd_s()].map(|time| up(clocks(time))),
            write_to_read: [dram.t_wtr_l(), dram.t_wtr_s()].map(|time| up(written + clocks(time))),
            read_to_write: up(clocks(dram.t_rtw())),
            act: [dram.t_rrd_l(), dram.t_rrd_s()].map(|time| up(clocks(time))),
            four_acts: up(clocks(dram.t_faw())),
            refresh,
            settled,
            refresh_interval: clocks(dram.t_refi()) / SLOT,
            read_latency: SLOT + clocks(dram.t_cl()) + SLOT,
            write_latency: SLOT + clocks(dram.t_cwl()) + 2,
        }
    }
}
