//! Reports an overdue refresh: JEDEC allows to postpone up to eight of a bank, and up to eight ahead of time.
//!
//! Refresh number `k` (from 1), of all banks or of one, is due at `k` intervals. With an allowance of `a` refreshes the
//! next one is late more than `a + 1` intervals after the last one, or when `a + 1` are missing. Lateness is reported
//! once, beside the first command that finds it, until a REF comes. It refuses nothing.

use super::prelude::*;

/// Refreshes of a bank that may be postponed, and ahead of time.
const ALLOWANCE: u32 = 8;
/// Bits of the number of missing refreshes; it saturates.
const DEBT: u32 = 16;

#[block(m)]
pub fn pim_refresh_watch(config: &HbmConfig) -> Block {
    let interval = config.refresh_interval();
    let parts = if config.refresh() == HbmRefresh::Bank { config.banks() } else { 1 };
    let of_parts = if parts == 1 { String::new() } else { format!("_{parts}") };
    let name = format!("pim_refresh_watch_{interval}{of_parts}");
    let m = ModuleBuilder::new(name, "Detects an overdue refresh.");
    m.share_code();
    let allowance = ALLOWANCE * parts;
    let refresh = m.input(1, "a refresh is carried out");
    let row_command = m.input(1, "a row command is issued");
    let column_command = m.input(1, "there is a column command; it comes after the row command");
    let phase = m.reg(bits_for(interval - 1)).reset(0);
    let wraps = m.wire(phase.eq_lit((interval - 1).into()));
    phase.next(phase.plus_one().gated(!wraps));

    /// Intervals that are over less refreshes that count, plus those that may be ahead.
    let debt = m.reg(DEBT).reset(allowance.into());
    let paid = m.wire(debt - (refresh & debt.any()).zext(DEBT));
    debt.next(mux(paid.all(), paid, paid + wraps.zext(DEBT)));
    let most = lit((2 * allowance + 1).into(), DEBT);
    let is_behind = |debt: &Bits| most.lt(debt) | (debt.eq(most) & phase.any());
    let behind = m.wire(is_behind(&debt));
    /// One refresh may not be enough.
    let still_behind = m.wire(all!(refresh, column_command, is_behind(&paid)));

    let intervals = (allowance + 1) * interval;
    let since_bits = bits_for(intervals + 1);
    let since = m.reg(since_bits).reset(0);
    let over = m.wire(since.eq_lit((intervals + 1).into()));
    let next: Bits = mux(over, since, since.plus_one());
    since.next(mux(refresh, lit(1, since_bits), next));

    let told = m.reg(1).reset(0);
    let late = m.wire((over | behind) & !told & (row_command | column_command));
    told.next(((told | late) & !refresh) | still_behind);
    m.output(late = late | still_behind, "a refresh is overdue");
    m.finish()
}
