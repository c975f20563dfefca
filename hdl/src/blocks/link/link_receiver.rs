//! Receiving side of a link: checks flits, keeps those that are next in order, and hands their beats out. Beats are
//! written to the buffer as they come, after the last accepted flit, but their place counts as filled only if the CRC
//! is right and the number the expected one. Nothing else of a flit is used before the CRC is known.

use super::link_aligner::link_aligner;
use super::link_crc::link_crc;
use super::prelude::*;

/// `good_o` or `bad_o` comes three cycles after a flit's last word was in step.
#[block(m, "link_receiver_{}", name(config), "Checks flits and delivers them in order.")]
pub fn link_receiver(config: &LinkConfig) -> Block {
    let lanes = m.input(config.word_bits(), "bits of all lanes");
    let restart = m.input(1, "restart the search for markers");
    let up = m.input(1, "both sides know each other's numbers");
    let syncs = m.input(1, "the good flit sets the next expected number");
    let rx_ready = m.input(1, "the beat is taken");

    let aligner = link_aligner::In { lanes, restart }.part(&m, "aligner", &link_aligner(config)?);
    let word = aligner.word.q();
    let at = delayed(&m, "at", &aligner.at.q(), 3);

    // The check, and the header of the checked flit.
    let crc =
        link_crc::In { word, first: at[0].bit(0) }.part(&m, "crc", &link_crc(config.word_bits())?).crc.q();
    let ends = m.wire(at[2].msb());
    let zero = m.wire(crc.is_zero());
    let good = m.flag(ends & zero);
    let bad = m.flag(ends & !zero);
    let first = m.hold(word.low(Header::bits()), at[0].bit(0));
    let header_q = m.hold("header_q", first, at[0].msb());
    let header = Header::unpack(header_q);

    // The transmitter reads the fields for the other direction up to four cycles after `good`. The header of a short
    // flit is overwritten before that.
    let said = cat!(header.limit, header.nack_round, header.nack, header.ack);
    let said_q = m.hold("said_q", said, good);

    /// Its number against the expected one: worked out while the check is.
    let expected = m.reg(SEQ).reset(0);
    let gap = m.wire(header.sequence - expected);
    let in_turn = m.delay(gap.is_zero());
    let beyond = m.delay(gap.any() & !gap.msb());

    let (depth, beat_bits) = (config.receive_flits(), log2(config.flit_beats()));
    let slot_bits = log2(depth);
    let filled = m.reg(slot_bits + 1).reset(0);
    /// The flit before is accepted, if at all, by the time that this looks.
    let room = m.reg(1).reset(0).enable(at[3].bit(0)).next(!filled.msb());
    let has_payload = m.wire(header.kind.eq(lit(DATA, KIND)));
    let normal = m.wire(all!(good, up, !header.kind.msb()));
    let accepts = m.wire(all!(normal, has_payload, in_turn, room));
    m.assume("syncs_with_good", !syncs | good, "a flit that sets the next expected number is a good one");
    m.assert(
        "in_order",
        !accepts | header.sequence.eq(expected),
        "a flit is accepted when all before it are, and once",
    );
    m.assert("has_place", !accepts | !filled.msb(), "a flit is accepted only if there is a place for it");
    expected.next(mux(syncs, header.sequence, expected + accepts.zext(SEQ)));
    let nack = m.reg(1).reset(0);
    let misses = m.wire(normal & beyond);
    // A flit in turn, or an idle one that says that none is beyond it, ends the search.
    let caught_up = any!(accepts, all!(normal, in_turn, !has_payload), syncs);
    nack.set_clear(misses, caught_up);
    let nack_round = m.reg(ROUND).reset(0).enable(misses).next(header.round);

    // Words become beats: the word that completes a beat is the newest of the history.
    let past = BEAT_BITS.div_ceil(config.word_bits());
    let mut history = Vec::new();
    let mut newest = word;
    for k in 0..=past {
        let kept = m.delay(format!("word{k}_q"), newest);
        newest = kept;
        history.push(kept);
    }
    let history = cat(history);
    let (mut at_end, mut cuts) = (Vec::new(), Vec::new());
    for b in 0..config.flit_beats() {
        let (word, after) = end_of_beat(config, b);
        at_end.push(at[1].bit(word));
        cuts.push(history.slice(history.width() - after - BEAT_BITS, BEAT_BITS));
    }
    m.unused(history, "beats begin within the oldest word");
    m.unused(cat(at[1..].iter().cloned()), "only some places matter");
    let at_end = m.wire(cat(at_end.into_iter().rev()));
    let beat = m.delay(one_hot_mux(at_end, &cuts));
    let writes = m.flag(at_end.any());
    let index = m.reg(beat_bits);
    let numbers = each(config.flit_beats(), |b| lit(b.into(), beat_bits));
    index.next(one_hot_mux(at_end, &numbers));
    let write = m.reg(slot_bits).reset(0);
    write.next(write + accepts.zext(slot_bits));
    let tags = m.memory(TAG, depth);
    tags.write(accepts, write, header.tag);

    /// Beats go out; a flit's place is free when its last beat has been read.
    let read = m.reg(slot_bits).reset(0);
    let from = m.reg(beat_bits).reset(0);
    let valid = m.reg(1).reset(0);
    let tag = m.wire(tags.read(read));
    let tag = Tag::unpack(tag);
    let reads = m.wire(filled.any() & (rx_ready | !valid));
    valid.set_clear(reads, rx_ready);
    let last_beat = m.wire(from.zext(BEAT).eq(tag.last_beat));
    let frees = m.wire(reads & last_beat);
    from.next(mux(reads, mux(last_beat, zeros(beat_bits), from.plus_one()), from));
    read.next(read + frees.zext(slot_bits));
    let count_bits = slot_bits + 1;
    filled.next(filled + accepts.zext(count_bits) - frees.zext(count_bits));
    let buffer = sram::In {
        raddr: cat!(read, from),
        re: reads,
        waddr: cat!(write, index),
        we: writes & room,
        wdata: beat,
    }
    .part(&m, "buffer", &sram(depth * config.flit_beats(), BEAT_BITS, 1)?);
    m.assert(
        "keeps",
        any!(!writes, !room, !filled.msb()),
        "no beat of an accepted flit is overwritten before it is read",
    );
    let held = |name: &str, value: Bits| m.hold(name, value, reads);
    let beat = LinkBeat {
        valid: valid.q(),
        data: buffer.rdata.q(),
        last: held("message_ends_q", last_beat & tag.end),
        dest: held("dest_q", tag.dest),
        source: held("source_q", tag.source),
        label: held("label_q", tag.label),
    };
    /// Not a cycle later than the expected number: a header has both.
    let limit = m.wire(expected + lit(depth.into(), SEQ) - filled.zext(SEQ));

    LinkBeat::outputs_as(&m, "rx_", "", (), beat);
    m.output(rx_flit_last = held("flit_ends_q", last_beat), "the beat is the last of its flit");
    m.output(good, "a flit with a correct CRC has arrived");
    m.output(bad, "a flit with a wrong CRC has arrived");
    m.output(kind = header.kind, "kind of the good flit, in the cycle of `good_o`");
    m.output(peer_fault = header.fault, "the flit's sender reports a fault; in the same cycle");
    m.output(
        peer_ack = said_q.low(SEQ),
        "number that its sender expects; this and the next three are valid one cycle later, up to the next good flit",
    );
    m.output(peer_nack = said_q.bit(SEQ), "the flit's sender misses a flit");
    m.output(peer_nack_round = said_q.slice(SEQ + 1, ROUND), "round in which the other side noticed that");
    m.output(peer_limit = said_q.high(SEQ), "first number for which the other side gives no credit");
    m.output(accepts, "a flit is accepted");
    m.output(
        refuses = all!(normal, has_payload, !accepts),
        "a flit is out of order: it is repeated, or an earlier flit is missing",
    );
    m.output(expected, "number expected next");
    m.output(nack, "a flit is missing");
    m.output(nack_round, "round in which that was noticed");
    m.output(limit, "first number for which there is no credit");
    m.output(aligned = aligner.aligned, "lanes are in step");
    m.output(locked = aligner.locked, "lanes whose markers are found");
}
