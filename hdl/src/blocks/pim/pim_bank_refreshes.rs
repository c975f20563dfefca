//! Refreshes of single banks: the next bank, the time, and the rows to close before.
//!
//! Each interval that is over owes one. While nothing is computed each is issued at once, so only one bank at a time is
//! unusable. Multipliers need all banks: while they are busy, refreshes are owed until there is one for each bank; then
//! all of them are issued in a row. From then this block has the row bus, until nothing is owed. In a clock it requests
//! the next command towards the refresh: PPRE if the bank's row is open to compute with, PRE if a row is open for the
//! host, REFB if none is.

use super::prelude::*;

/// Most rounds of refreshes that can be owed: the limit of a channel.
const ROUNDS: u32 = 8;

/// A request stays until the state of the rows changes.
#[block(m)]
pub fn pim_bank_refreshes(config: &HbmConfig) -> Block {
    let (banks, parts) = (config.banks(), paths(config));
    let name = format!("pim_bank_refreshes_{}", suffix(config));
    let m = ModuleBuilder::new(name, "Refreshes single banks for a PIM controller.");
    let elapsed = m.input(1, "an interval has ended");
    let ready = m.input(1, "the row bus may be used");
    let computes = m.input(1, "an operation waits or is in progress");
    let done = m.input(1, "REFB is issued");
    let joined = m.input(1, "banks are not cut");
    let (opens, pims): (Vec<Bits>, Vec<Bits>) = (0..banks)
        .map(|b| {
            let open = m.input(format!("open{b}_i"), parts, "partitions with an open row");
            (open, m.input(format!("pim{b}_i"), parts, "partitions opened for computing"))
        })
        .unzip();

    let bits = bits_for(ROUNDS * banks);
    let owed = m.reg(bits).reset(0);
    let more = m.wire(elapsed & !owed.all());
    let owed_next = m.wire(owed + more.zext(bits) - done.zext(bits));
    owed.next(owed_next);
    let serving = m.reg(1).reset(0);
    let round = owed_next.ge(lit(banks.into(), bits));
    let begins = any!(serving, !computes, round);
    serving.next(all!(ready, owed_next.any(), begins));

    let turn = m.reg(banks).reset(1).enable(done);
    turn.next(if banks == 1 { turn.q() } else { cat!(turn.low(banks - 1), turn.msb()) });
    let open = m.wire(one_hot_mux(turn, &opens));
    let computing = m.wire((one_hot_mux(turn, &pims) & open).any());
    m.output(busy = serving, "the row bus is used");
    m.output(ppre = serving & computing, "PPRE is wanted");
    m.output(pre = all!(serving, open.any(), !computing), "PRE is wanted");
    m.output(refb = serving & !open.any(), "REFB is wanted");
    m.output(bank = turn, "the bank, one-hot over the channel");
    let partition = if parts == 2 {
        mux(joined, lit(0, 1), !open.bit(0))
    } else {
        m.unused(joined, "there are no partitions");
        lit(0, 1)
    };
    m.output(partition, "partition of PRE");
    m.finish()
}
