//! A channel's use as `ndp_energy` counts it.

use ndp_dram::hbm::{HbmActivity, HbmBankCounts};
use ndp_energy::{HbmBank, HbmChannelEnergy, HbmCosts, HbmCounts, HbmEvent};

/// Events of the channel, and those in its banks.
pub fn counts(activity: &HbmActivity) -> (HbmCounts, Vec<HbmBank>) {
    let HbmActivity { cycles, active_cycles, refreshes, bank_refreshes, buffer_writes, macs, results, banks } =
        activity;
    let sum = |of: fn(&HbmBankCounts) -> u64| banks.iter().map(of).sum::<u64>();
    let mut counts = HbmCounts::default();
    for (event, count) in [
        (HbmEvent::Row, sum(|bank| bank.activates)),
        (HbmEvent::Read, sum(|bank| bank.reads)),
        (HbmEvent::BufferRead, sum(|bank| bank.buffer_reads)),
        (HbmEvent::Write, sum(|bank| bank.writes)),
        (HbmEvent::BufferWrite, *buffer_writes),
        (HbmEvent::Mac, *macs),
        (HbmEvent::Result, *results),
        (HbmEvent::Sum, sum(|bank| bank.sums)),
        (HbmEvent::Refresh, *refreshes),
        (HbmEvent::BankRefresh, *bank_refreshes),
        (HbmEvent::ActiveClock, *active_cycles),
        (HbmEvent::PrechargedClock, cycles - active_cycles),
    ] {
        counts.add(event, count);
    }
    let of_bank = |bank: &HbmBankCounts| HbmBank {
        rows: bank.activates,
        columns: bank.reads + bank.buffer_reads + bank.writes,
        macs: *macs,
    };
    (counts, banks.iter().map(of_bank).collect())
}

pub fn energy(costs: &HbmCosts, activity: &HbmActivity) -> HbmChannelEnergy {
    let (counts, banks) = counts(activity);
    HbmChannelEnergy::new(costs, counts, banks)
}
