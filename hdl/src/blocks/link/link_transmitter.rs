//! Sending side of a link: takes beats, keeps flits until they are acknowledged, frames them, repeats them.
//!
//! The buffer is the queue: every beat is written to it, and every flit is sent from it, the first time and again.
//! Three sequence numbers divide it: `acked`, `next` to send, `tail` to be filled. A repeat sets `next` back to
//! `acked`: whenever the other side requests it, and once if the other side sends nothing. A flit slot without payload
//! to send carries an idle flit, whose header has the same acknowledgements and credits.

use super::link_crc::{link_crc, on_the_wire};
use super::prelude::*;

/// A word leaves seven cycles after its flit was chosen.
#[block(
    m,
    "link_transmitter_{}",
    name(config),
    "Buffers and frames flits, and repeats them until they are acknowledged."
)]
pub fn link_transmitter(config: &LinkConfig) -> Block {
    let (slot_bits, beat_bits) = (log2(config.replay_flits()), log2(config.flit_beats()));
    let words = config.flit_words();
    let tx = LinkBeat::inputs_as(&m, "tx_", "", ());
    let up = m.input(1, "both sides know each other's numbers");
    let answers = m.input(1, "the link is not up, and the other side's number is known");
    let fault = m.input(1, "send no payload");
    let discard = m.input(1, "during a fault, take new flits and drop them; otherwise they wait");
    let expected = m.input(SEQ, "number expected from the other side");
    let nack = m.input(1, "a flit from the other side is missing");
    let nack_round = m.input(ROUND, "round in which that was noticed");
    let limit = m.input(SEQ, "first number for which there is no credit for the other side");
    let heard =
        m.input(1, "the next four inputs are valid starting in the next cycle, up to the next good flit");
    let peer_ack = m.input(SEQ, "number that the other side expects");
    let peer_nack = m.input(1, "the other side misses a flit");
    let peer_round = m.input(peer_nack_round = ROUND, "round in which the other side noticed that");
    let peer_limit = m.input(SEQ, "first number for which the other side gives no credit");
    let resync = m.input(1, "the other side was reset: it has none of the unacknowledged flits");

    let acked = m.reg(SEQ).reset(0);
    let next = m.reg(SEQ).reset(0);
    let tail = m.reg(SEQ).reset(0);
    let credit = m.reg(SEQ).reset(0);

    /// Beats come in. Once its first beat is taken there is room for all of a flit.
    let beat = m.reg(beat_bits).reset(0);
    let begins = m.wire(beat.is_zero());
    let held = m.wire(tail - acked);
    let room = m.wire(held.ne(lit(config.replay_flits().into(), SEQ)));
    let drops_new = m.wire(fault & discard);
    let dropping = m.reg(1).reset(0);
    let ready = m.wire(any!(room, drops_new, !begins));
    let takes = m.wire(tx.valid & ready);
    let drops = m.wire(mux(begins, drops_new, dropping));
    dropping.next(mux(takes, drops, dropping));
    let completes = m.wire(takes & (tx.last | beat.all()));
    beat.next(mux(completes, zeros(beat_bits), beat + takes.zext(beat_bits)));
    let appends = m.wire(completes & !drops);
    let places = lit(config.replay_flits().into(), SEQ);
    m.assert(
        "keeps",
        any!(!takes, drops, held.lt(places)),
        "no flit is overwritten that is not acknowledged",
    );
    tail.next(tail + appends.zext(SEQ));
    let tags = m.memory(TAG, config.replay_flits());
    let tag =
        Tag { dest: tx.dest, source: tx.source, last_beat: beat.zext(BEAT), end: tx.last, label: tx.label };
    tags.write(appends, tail.low(slot_bits), tag.pack());

    /// The place in the frame; stage k of the pipeline sees it k cycles later.
    let started = m.flag(lit(1, 1));
    let ring = link_ring::In { run: lit(1, 1), begin: !started }.part(&m, "ring", &link_ring(config)?);
    let at = delayed(&m, "at", &ring.at.q(), 6);
    let mark = delayed(&m, "mark", &ring.mark.q(), 6);
    let chooses = at[0].bit(0);

    /// The other side's report changes the numbers only when the choice does not depend on them.
    let quiet = m.wire(!any_of([at[0].msb(), mark[0], chooses]));
    let wait = |name: &str, event: &Bits, done: &Bits| {
        let flag = m.reg(name, 1).reset(0);
        flag.set_clear(event, done);
        flag.q()
    };
    let resyncs = wait("resync_q", &resync, &quiet);
    let listens = wait("heard_q", &heard, &quiet);
    let listens = m.wire(all!(listens, quiet, !resyncs));
    let resyncs = m.wire(resyncs & quiet);
    let delta = m.wire(peer_ack - acked);
    let outstanding = m.wire(next - acked);
    let amid = !begins & !drops;
    m.assert(
        "bounded",
        all!(places.ge(held), held.ge(outstanding), !amid | held.lt(places)),
        "the next flit to send is among the flits held, and these are no more than the places",
    );
    let legal = m.wire(held.ge(delta));
    let overtakes = m.wire(outstanding.lt(delta));
    let round = m.reg(ROUND).reset(0);
    let asked = cat!(listens, legal, peer_nack, peer_round.eq(round), peer_ack.ne(next));
    let asked = m.wire(asked.all());
    let advances = m.wire(all!(listens, legal, delta.any()));
    /// After it is set back, `next` does not show which flits were sent.
    let newest = m.reg(SEQ).reset(0);
    let busy = m.wire(newest.ne(acked) & up);

    let timer_bits = log2(config.timeout_cycles());
    let timer = m.reg(timer_bits).reset(0);
    let late = m.reg(1).reset(0);
    /// Once only: a side that searches its markers must come to see idle flits, which have none. It answers them.
    let repeated = m.reg(1).reset(0);
    let expires = cat!(late, quiet, busy, !listens, !repeated);
    let expires = m.wire(expires.all());
    let again = m.wire(any!(asked, expires));
    let clear = m.wire(any!(advances, again, !busy));
    repeated.set_clear(expires, clear);
    let unasked = m.ghost(1).reset(0);
    unasked.next(any!(expires, unasked & !any_of([advances, asked, !busy])));
    m.assert(
        "once_unasked",
        !(expires & unasked),
        "without progress, flits are repeated only once unless the other side asks",
    );
    timer.next(timer.plus_one().gated(!clear));
    late.next((timer.all() | late) & !clear);
    round.next(round + again.zext(ROUND));

    acked.next(mux(advances, peer_ack, acked));
    let jumps = m.wire(any!(asked, all!(listens, legal, overtakes)));
    let back = m.wire(any!(resyncs, expires));
    let has_flit = next.ne(tail);
    let ahead = m.wire(credit - next);
    let has_credit = m.wire(ahead.any() & !ahead.msb());
    let sends_next = m.flag("sends_q", all!(up, !fault, has_flit, has_credit));
    let sends = m.wire(chooses & sends_next);
    m.assert("sends_kept", !sends | outstanding.lt(held), "a flit that is sent is in the buffer");
    m.assert("has_places", !sends | has_credit, "a flit is sent only if the other side has a place for it");
    let stepped = next + sends.zext(SEQ);
    next.next(mux(jumps, peer_ack, mux(back, acked, stepped)));
    credit.next(mux(resyncs, acked, mux(listens, peer_limit, credit)));
    let uncredited = m.ghost(1).reset(0);
    uncredited.next(any!(resyncs, uncredited & !listens));
    m.assert(
        "no_old_credit",
        !uncredited | credit.eq(next),
        "after a reset of the other side, there is no credit until that side gives some",
    );

    // Stage 0 chooses and makes the header.
    let slot = next.low(slot_bits);
    let fields = Header {
        kind: mux(up, mux(sends_next, lit(1, 2), lit(IDLE, 2)), mux(answers, lit(ANSWER, 2), lit(INIT, 2))),
        fault,
        nack,
        nack_round,
        round: round.q(),
        sequence: mux(up, next, acked),
        ack: expected,
        limit,
        tag: tags.read(slot),
    };
    let header = m.hold(fields.pack(), chooses);
    let full = m.hold(sends_next, chooses);
    let slot_q = m.hold("slot_q", slot, chooses);

    // Beats come out of the buffer into a window of two.
    let moves_at: Vec<u32> =
        (0..words - 1).filter(|w| beat_of_word(config, *w) != beat_of_word(config, w + 1)).collect();
    debug_assert!(moves_at.iter().all(|w| w + 3 <= words), "the window must be free for the next flit");
    let moves: Vec<Bits> = moves_at.iter().map(|w| at[3].bit(*w)).collect();
    let fills = m.wire(any!(any_of(&moves), at[2].bit(0)));
    let loads = m.wire(fills | at[1].bit(0));
    let from = m.reg(beat_bits).reset(0);
    from.next(mux(chooses, lit(1, beat_bits), from + loads.zext(beat_bits)));
    let place = mux(chooses, cat!(slot, zeros(beat_bits)), cat!(slot_q, from));
    let buffer = sram::In {
        raddr: place,
        re: chooses | loads,
        waddr: cat!(tail.low(slot_bits), beat),
        // With a full buffer the place at the tail still holds the oldest flit.
        we: takes & !drops,
        wdata: tx.data,
    }
    .part(&m, "buffer", &sram(config.replay_flits() * config.flit_beats(), BEAT_BITS, 1)?);
    let upper = m.hold(buffer.rdata, loads);
    let lower = m.hold(upper, fills);

    /// Stage 3 cuts words out of it.
    let full3 = m.hold(full, at[2].bit(0));
    let window = cat!(upper, lower);
    let pieces = each(words, |w| {
        let (bits, offset) = payload_of_word(config, w);
        let front = if w == 0 { LinkConfig::HEADER_BITS } else { 0 };
        let payload = if bits == 0 { zeros(1) } else { window.slice(offset, bits).gated(full3) };
        let piece = if front == 0 { payload } else { cat!(payload, header.zext(front)) };
        piece.zext(config.word_bits())
    });
    let word4 = m.delay(one_hot_mux(at[3], &pieces));

    // The CRC goes to the end of the last word.
    let crc = link_crc::In { word: word4, first: at[4].bit(0) }
        .part(&m, "crc", &link_crc(config.word_bits())?)
        .crc
        .q();
    let word5 = m.delay(word4);
    let word6 = m.delay(word5);
    let check = on_the_wire(&crc).gated(at[6].msb());
    let check = cat!(check, zeros(config.word_bits() - LinkConfig::CRC_BITS));
    let marked = markers(config).gated(mark[6]);
    let lanes = m.flag(any!(word6, check, marked));
    m.unused(at[4].high(words - 1), "only the first word matters there");
    m.unused(at[6].low(words - 1), "only the last word matters there");

    /// For counters: one flit at a time is timed from its first sending to its acknowledgement.
    let is_new = m.wire(newest.eq(next));
    newest.next(newest + (sends & is_new).zext(SEQ));
    let timing = m.reg(1).reset(0);
    let timed = m.reg(SEQ);
    let times = m.wire(all!(sends, is_new, !timing));
    timed.next(mux(times, next, timed));
    let arrives = m.wire(all!(timing, advances, (timed - acked).lt(delta)));
    timing.set_clear(times, arrives);

    m.output(tx_ready = ready, "the beat is taken");
    m.output(lanes, "bits of all lanes");
    m.output(holds = held.any() | beat.any(), "flits were taken and are not acknowledged yet");
    m.output(busy, "flits were sent and are not acknowledged yet");
    m.output(advances, "flits are acknowledged");
    m.output(asked, "flits are repeated because the other side misses one");
    m.output(expires, "flits are repeated because no acknowledgement came");
    m.output(sends = sends & is_new, "a flit is sent for the first time");
    m.output(repeats = sends & !is_new, "a flit is sent again");
    m.output(empty = all!(chooses, up, !has_flit), "no flit waits to be sent");
    m.output(starves = all!(chooses, up, has_flit, !has_credit), "a flit waits for credit");
    m.output(times, "the timing of a flit starts");
    m.output(arrives, "the timed flit is acknowledged");
    m.output(discards = completes & drops, "a flit is dropped during a fault");
}
