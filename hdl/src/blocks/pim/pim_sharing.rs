//! Slots of the global buffer that both queues of a PIM controller share: a read fills a slot, one MAC takes it (FFN
//! offload; LibraPIM, section 4.4, Fig. 14). Each slot is *promised* from the read to the MAC, so that no other read
//! fills it, and *there* from the clock in which a MAC may be chosen, when the column has passed on the data bus. So
//! neither queue waits for the host in between.

use super::prelude::*;

#[block(m, "pim_sharing_{}", suffix(config), "Tracks the slots of the buffer that a read fills for a MAC.")]
pub fn pim_sharing(config: &HbmConfig) -> Block {
    let slots = config.buffer_slots();
    let share = m.input(1, "RDG is issued for a MAC that takes its column");
    let take = m.input(1, "a MAC that takes such a column is issued");
    let slot = m.input(SLOT, "slot of the RDG or the MAC");
    // A MAC is chosen in the clock before it may be given.
    let mut arrives = (share, slot);
    for k in 0..config.t_cl() {
        let valid = m.flag(format!("valid{k}_q"), arrives.0);
        let late = m.delay(format!("slot{k}_q"), arrives.1);
        arrives = (valid, late);
    }
    let bits = |name: &str, set: &Bits, of: &Bits| {
        let bit = |s: u32| {
            let bit = m.reg(format!("{name}{s}_q"), 1).reset(0);
            let taken = take & slot.eq_lit(s.into());
            bit.next((set & of.eq_lit(s.into())) | (bit & !taken));
            bit.q()
        };
        bus(&each(slots, bit))
    };
    m.output(promised = bits("promised", &share, &slot), "slots whose column a MAC has not taken yet");
    m.output(there = bits("there", &arrives.0, &arrives.1), "the slots among them whose column has arrived");
}
