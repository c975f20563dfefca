//! The data bus of a rank: issued commands until their data are due, and the 512 bits between four transfers. The burst
//! of a RD that is on the pins in clock t is on `dq_i` in clocks t + tCL to t + tCL + 3, and is passed on in the next
//! one. For a WR, `dq_o` carries the data in clocks t + tCWL to t + tCWL + 3. Both are fixed phases of the slot, a
//! fixed number of slots later.

use super::prelude::*;

#[block(m, "rank_data_{name}_{}", ports.name(dram),
    "Moves bursts between the data bus and the FIFOs at the times that their commands require.")]
pub(super) fn rank_data(dram: &DramConfig, ports: &RankPorts, name: &str) -> Block {
    let tag_bits = ports.tag_bits();
    let column = m.input(1, "a burst is issued; in the last phase");
    let write = m.input(1, "the burst is written");
    let request = m.input(1, "the burst belongs to a request");
    let last = m.input(1, "the burst is the last one of its entry");
    let tag = m.input(tag_bits, "tag of its entry");
    let dq = m.input(BUS_BITS, "data bus, two transfers");
    let wdata = m.input(BURST_BITS, "burst to write next");
    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(SLOT)?).phase.q();
    let step = ring.msb();
    let phase = |clock: u32| ring.bit(clock % SLOT);

    // Issued commands. Stage 0 belongs to the slot in which the command is on the pins.
    let (read_latency, write_latency) = (dram.t_cl(), dram.t_cwl());
    let stages = read_latency / SLOT + 2;
    let mut issued: Vec<(Bits, Bits, Bits)> = vec![(column, write, cat!(request, last, tag))];
    for stage in 0..stages {
        let [valid, write, rest] = {
            let (valid, write, rest) = &issued[stage as usize];
            [("valid", valid), ("write", write), ("tag", rest)].map(|(name, value)| {
                let reg = m.reg(format!("{name}{stage}_q"), value.width()).enable(step);
                let reg = if name == "valid" { reg.reset(0) } else { reg };
                reg.next(value);
                reg.q()
            })
        };
        issued.push((valid, write, rest));
    }
    let at = |clock: u32| &issued[(clock / SLOT) as usize + 1];

    let words = each(SLOT, |transfer| m.hold(format!("dq{transfer}_q"), dq, phase(read_latency + transfer)));
    let (valid, write, rest) = at(read_latency + SLOT);
    let arrives = m.wire(valid & phase(read_latency));
    let (tag, last, request) = (rest.low(tag_bits), rest.bit(tag_bits), rest.bit(tag_bits + 1));

    // Two registers precede the pins: the selection, and the bus itself.
    let selected = (0..SLOT).map(|transfer| {
        let clock = write_latency - 2 + transfer;
        let (valid, write, _) = at(clock);
        m.flag(format!("select{transfer}_q"), all!(valid, write, phase(clock)))
    });
    let selected: Vec<Bits> = selected.collect();
    let parts = (0..)
        .zip(&selected)
        .map(|(transfer, select)| wdata.slice(transfer * BUS_BITS, BUS_BITS).gated(select));
    let bus = m.delay("dq_q", any_of(parts));
    let drives = m.flag("dq_oe_q", any_of(&selected));

    m.output(beat_push = arrives & !request, "a burst of a segment is complete");
    m.output(rsp_push = arrives & request, "a request is complete");
    m.output(last, "the burst is the last one of its segment");
    m.output(write, "the request was a write");
    m.output(tag, "its tag");
    m.output(data = cat(words.into_iter().rev()), "the burst, if it was read");
    m.output(wdata_pop = selected[SLOT as usize - 1], "the burst to write was taken");
    m.output(dq = bus, "data bus, two transfers");
    m.output(dq_oe = drives, "the data bus is driven");
}
