//! Time in slots, and the entries of a rank controller: shared by the parts of [`super::rank_controller`].
//!
//! A slot is four clocks of the DRAM, the time of one burst on the data bus. Column commands (RD, WR) are on the pins
//! in the first clock of a slot, row commands (ACT, PRE, REF) in the third. So `n` slots from one command to another
//! are `4n` clocks within a class, `4n + 2` from column to row and `4n - 2` from row to column, and every time of
//! [`DramConfig`] is rounded up to the next such distance. With the default timings that costs two clocks in each of
//! tRCD, tRTP and tWR, tRRD_L becomes 8 and tFAW 28.

use super::prelude::*;

pub(super) const SLOT: u32 = DramConfig::T_BL;
/// Clocks from a slot's column command to its row command.
const ROW_OFFSET: u32 = 2;
/// Entries that are considered together.
pub(super) const ENTRIES: usize = 4;
/// Banks between which consecutive bursts alternate, in two bank groups whose numbers differ in bit 0: a row pair.
pub(super) const HALVES: usize = 2;
const BANK_PINS: u32 = DramConfig::BANKS_PER_GROUP.trailing_zeros();
pub const SEGMENT_BURSTS: u32 = 16;
/// Bits of a number of bursts less one.
pub const LENGTH_BITS: u32 = bits_for(SEGMENT_BURSTS - 1);
pub const BURST_BITS: u32 = 512;
/// Bits on the data bus in one clock.
pub(crate) const BUS_BITS: u32 = BURST_BITS / SLOT;

#[derive(Clone, Debug)]
pub(super) struct Slots {
    pub act_to_column: u32,
    pub act_to_pre: u32,
    pub act_to_act: u32,
    pub pre_to_act: u32,
    pub read_to_pre: u32,
    pub write_to_pre: u32,
    /// RD to RD and WR to WR: in the other bank group, in the same one.
    pub column_to_column: [u32; 2],
    pub write_to_read: [u32; 2],
    pub read_to_write: u32,
    /// ACT to ACT of another bank.
    pub act_to_other: [u32; 2],
    pub four_acts: u32,
    pub refresh: u32,
    pub refresh_interval: u32,
}

impl Slots {
    pub fn new(dram: &DramConfig) -> Self {
        let same_class = |clocks: u32| clocks.div_ceil(SLOT);
        let to_row = |clocks: u32| (clocks - ROW_OFFSET.min(clocks)).div_ceil(SLOT).max(1);
        let to_column = |clocks: u32| (clocks + ROW_OFFSET).div_ceil(SLOT);
        let written = dram.t_cwl() + SLOT;
        Self {
            act_to_column: to_column(dram.t_rcd()),
            act_to_pre: same_class(dram.t_ras()),
            act_to_act: same_class(dram.t_rc()),
            pre_to_act: same_class(dram.t_rp()),
            read_to_pre: to_row(dram.t_rtp()),
            write_to_pre: to_row(written + dram.t_wr()),
            column_to_column: [same_class(dram.t_ccd_s()), same_class(dram.t_ccd_l())],
            write_to_read: [same_class(written + dram.t_wtr_s()), same_class(written + dram.t_wtr_l())],
            read_to_write: same_class(dram.t_rtw()),
            act_to_other: [same_class(dram.t_rrd_s()), same_class(dram.t_rrd_l())],
            four_acts: same_class(dram.t_faw()),
            refresh: same_class(dram.t_rfc()),
            // The mean interval must not be longer.
            refresh_interval: dram.t_refi() / SLOT,
        }
    }

    /// Distance from the last ACT, RD or WR to PRE of all banks.
    pub fn to_pre(&self) -> u32 {
        self.act_to_pre.max(self.read_to_pre).max(self.write_to_pre)
    }

    /// From any command to PRE of all banks, whatever the banks do: tRFC in any real device. Longer if the next
    /// commands (tRP, REF, tRFC, and tRCD up to a column command) do not cover the waits of an ACT, RD or WR.
    pub fn settle(&self) -> u32 {
        let to_pre = self.refresh.max(self.to_pre());
        let acts = self.act_to_act.max(self.act_to_other[0]).max(self.act_to_other[1]).max(self.four_acts);
        let pairs = [self.column_to_column, self.write_to_read].into_iter().flatten();
        let columns = pairs.fold(self.read_to_write, u32::max);
        let to_act = self.pre_to_act + self.refresh;
        let to_column = to_act + self.act_to_column;
        to_pre.max(acts.saturating_sub(to_act)).max(columns.saturating_sub(to_column))
    }
}

/// A bar against commands: `blocked` from the slot after a load until `gap` slots after it, the longest of all loads.
/// One flip-flop per remaining slot, shifted once a slot, so that loading the longer of two times is an OR.
pub(super) fn countdown(m: &ModuleBuilder, name: &str, step: &Bits, loads: &[(Bits, u32)]) -> Bits {
    let length = loads.iter().map(|(_, gap)| gap - 1).max().unwrap_or(0);
    if length == 0 {
        return zeros(1);
    }
    let left = m.reg(format!("{name}_q"), length).reset(0).enable(step);
    let next = (0..length).map(|slot| {
        let mut sources: Vec<Bits> =
            loads.iter().filter(|(_, gap)| slot + 1 < *gap).map(|(load, _)| *load).collect();
        if slot + 1 < length {
            sources.push(left.bit(slot + 1));
        }
        any_of(&sources)
    });
    left.next(cat(next.collect::<Vec<_>>().into_iter().rev()));
    left.bit(0)
}

pub(super) fn reload(load: &Bits, reload: u32, less: &Bits) -> Bits {
    mux(load, lit(reload.into(), less.width()), less)
}

/// Row pairs that can be open, and banks of each half. Pairs are numbered by the upper bits of their bank groups (the
/// low bits of the number) and by their bank in the group.
pub(crate) fn pairs(dram: &DramConfig) -> usize {
    dram.banks() as usize / HALVES
}

/// Widths of an entry: up to 16 bursts of a segment, or a single request.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryLayout {
    pub bank: u32,
    pub row_bits: u32,
    pub tag_bits: u32,
}

packed! {
    /// An entry taken apart.
    pub(super) struct Entry(layout: EntryLayout) {
        /// Next burst: bit 0 of the bank group and, above it, column burst.
        burst: EntryLayout::BURST,
        /// Row pair.
        bank: layout.bank,
        row: layout.row_bits,
        /// Bursts less one.
        left: LENGTH_BITS,
        write: 1,
        /// A request, not a segment.
        request: 1,
        tag: layout.tag_bits,
    }
}

impl EntryLayout {
    pub const BURST: u32 = HALVES.trailing_zeros() + DramConfig::BURSTS_PER_ROW.trailing_zeros();

    pub fn new(dram: &DramConfig, tag_bits: u32) -> Self {
        Self { bank: pairs(dram).trailing_zeros(), row_bits: dram.row_bits(), tag_bits }
    }

    /// Makes an entry from a burst address of the rank.
    pub fn entry(self, address: &Bits, left: Bits, write: Bits, request: Bits, tag: Bits) -> Entry {
        let (burst, bank) = (Self::BURST, self.bank);
        Entry {
            burst: address.low(burst),
            bank: address.slice(burst, bank),
            row: address.high(address.width() - burst - bank),
            left,
            write,
            request,
            tag,
        }
    }
}

impl Entry {
    pub fn half(&self) -> Bits {
        self.burst.bit(0)
    }

    pub fn upper_group(&self) -> Option<Bits> {
        let bits = self.bank.width() - BANK_PINS;
        (bits > 0).then(|| self.bank.low(bits))
    }

    pub fn group(&self, half: Bits) -> Bits {
        self.upper_group().map_or(half, |upper| cat!(upper, half))
    }

    pub fn bank_of_group(&self) -> Bits {
        self.bank.high(BANK_PINS)
    }
}

pub(super) fn decoded(bank: &Bits) -> Vec<Bits> {
    (0..1u32 << bank.width()).map(|index| bank.eq_lit(index.into())).collect()
}
