//! The entries of a rank controller, oldest first. Everything changes at the end of a slot's last phase: the head loses
//! a burst, a head without bursts leaves and the others move up, and the new entry takes the first free place.

use super::prelude::*;

#[block(m, "rank_queue_{}", ports.name(dram), "Entries of a rank controller in order.")]
pub(super) fn rank_queue(dram: &DramConfig, ports: &RankPorts) -> Block {
    let layout = EntryLayout::new(dram, ports.tag_bits());
    let new_valid = m.input(valid = 1, "a new entry is offered, stable in the last two phases");
    let new_entry = m.input(entry = Entry::bits(layout), "the new entry");
    let column = m.input(1, "the head's next burst is issued; for the last two phases");
    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(SLOT)?).phase.q();
    m.unused(ring.low(SLOT - 1), "everything changes in the last phase");
    let step = ring.msb();

    let valid = each(ENTRIES, |i| m.reg(format!("valid{i}_q"), 1).reset(0).enable(step));
    let entries = each(ENTRIES, |i| m.reg(format!("entry{i}_q"), Entry::bits(layout)));
    let head = Entry::unpack(layout, entries[0]);

    /// Values that depend only on registers are computed before the last phase.
    let last = m.wire(head.left.is_zero());
    let pops = m.wire(column & last);
    let pops_q = m.delay("pops_q", pops);
    let goes_on = m.delay(column & !last);
    let advanced = Entry { burst: head.burst.plus_one(), left: head.left.minus_one(), ..head };
    let advanced = [("burst", &advanced.burst), ("left", &advanced.left)]
        .map(|(name, value)| m.delay(format!("next_{name}_q"), value));
    let mut takes = Vec::new();
    for (i, register) in entries.iter().enumerate() {
        let occupied = |place: usize| valid.get(place).map_or(lit(0, 1), |v| v.q());
        let before = if i == 0 { lit(1, 1) } else { occupied(i - 1) };
        // The first free place, after the head has left.
        let free = mux(pops, occupied(i) & !occupied(i + 1), !occupied(i) & before);
        let take = m.delay(format!("take{i}_q"), new_valid & free);
        let moved = entries.get(i + 1).map(|next| next.q());
        let stays = if i == 0 {
            let changed = Entry { burst: advanced[0], left: advanced[1], ..head };
            mux(goes_on, changed.pack(), register)
        } else {
            register.q()
        };
        let old = moved.map_or(stays, |moved| mux(pops_q, moved, stays));
        (*register).enable(step).next(mux(take, new_entry, old));
        valid[i].next(any!(take, mux(pops_q, occupied(i + 1), occupied(i))));
        takes.push(take);
    }
    m.output(take = step & any_of(&takes), "the new entry is taken");
    for (i, (valid, entry)) in valid.iter().zip(&entries).enumerate() {
        m.output(format!("valid{i}_o"), valid, format!("entry {i} is valid"));
        m.output(format!("entry{i}_o"), entry, format!("entry {i}"));
    }
    let last: Bits = last;
    m.output(last, "the head has one burst left");
}
