//! Eight serial lanes between ends of a link: latency, skew, bit errors, bursts, dead lanes, stalls and cuts.
//!
//! Bits move in words of 25 per lane and cycle. Bit errors are independent with probability `ber`; only the
//! geometrically distributed distances between them are drawn, so a rate of 1e-12 costs nothing. Channels with the same
//! seed and the same calls behave alike.

use super::{LANE_BITS, Lanes};
use ndp_cycles::Disturbance;
use ndp_numerics::SplitMix64;
use std::collections::VecDeque;

const MASK: u32 = (1 << LANE_BITS) - 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelEvent {
    /// New delays in bits, from this cycle.
    Delays(u64, Vec<u32>),
    /// A wrong word.
    Disturbed(Disturbance),
}

#[derive(Clone, Debug)]
pub struct Channel {
    lanes: Vec<Lane>,
    random: SplitMix64,
    ber: f64,
    /// Bits to the next wrong one, over all lanes in turn.
    gap: u64,
    /// Cycles of noise on all lanes.
    cut: u64,
    /// Cycles of noise on the lanes of the mask.
    burst: (u64, u32),
    flipped: u64,
    cycle: u64,
    /// Extra delay of the output at the receiver, in cycles; only events include it.
    later: u64,
    events: Option<Vec<ChannelEvent>>,
}

#[derive(Clone, Debug)]
struct Lane {
    words: VecDeque<u32>,
    /// Bits by which the output is later than the input, beyond whole words.
    shift: u32,
    /// Always 0.
    dead: bool,
    /// Cycles for which the lane gives noise and holds its input.
    stalled: u64,
}

impl Channel {
    /// Lanes without errors, with a latency in cycles.
    pub fn new(lanes: u32, latency: u32, seed: u64) -> Self {
        let mut channel = Self {
            lanes: vec![Lane { words: VecDeque::new(), shift: 0, dead: false, stalled: 0 }; lanes as usize],
            random: SplitMix64::new(seed),
            ber: 0.0,
            gap: u64::MAX,
            cut: 0,
            burst: (0, 0),
            flipped: 0,
            cycle: 0,
            later: 0,
            events: None,
        };
        let bits: Vec<u32> = vec![latency * LANE_BITS; lanes as usize];
        channel.set_delays(&bits);
        channel
    }

    pub fn lanes(&self) -> u64 {
        self.lanes.len() as u64
    }

    /// Delays in bits, at least one word; words in flight are lost.
    pub fn set_delays(&mut self, bits: &[u32]) {
        for (lane, bits) in self.lanes.iter_mut().zip(bits) {
            // A word comes out of the two oldest ones.
            let (words, shift) = (bits / LANE_BITS, bits % LANE_BITS);
            lane.shift = shift;
            lane.words = std::iter::repeat_n(0, words.max(1) as usize + 1).collect();
        }
        if let Some(events) = &mut self.events {
            let later = self.later as u32 * LANE_BITS;
            let bits = bits.iter().map(|bits| bits + later).collect();
            events.push(ChannelEvent::Delays(self.cycle, bits));
        }
    }

    /// Extra delay of the output at the receiver, in cycles. Call before recording.
    pub fn set_later(&mut self, cycles: u64) {
        self.later = cycles;
    }

    /// Starts to record the channel's events, for predictions.
    pub fn record(&mut self) {
        let delays = self.lanes.iter().map(|lane| {
            // One word more is in flight than the delay has.
            (lane.words.len() as u32 - 1 + self.later as u32) * LANE_BITS + lane.shift
        });
        self.events = Some(vec![ChannelEvent::Delays(self.cycle, delays.collect())]);
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<ChannelEvent> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Draws a delay of `latency` cycles and up to `spread` bits more for each lane.
    pub fn skew(&mut self, latency: u32, spread: u32) -> Vec<u32> {
        let more = |random: &mut SplitMix64| (random.next_u64() % u64::from(spread + 1)) as u32;
        let bits: Vec<u32> =
            (0..self.lanes.len()).map(|_| latency * LANE_BITS + more(&mut self.random)).collect();
        self.set_delays(&bits);
        bits
    }

    pub fn set_ber(&mut self, ber: f64) {
        self.ber = ber;
        self.gap = self.draw_gap();
    }

    /// Noise on all lanes; words sent during it are lost.
    pub fn cut(&mut self, cycles: u64) {
        self.cut = cycles;
    }

    /// Noise on the lanes of `mask`.
    pub fn burst(&mut self, cycles: u64, mask: u32) {
        self.burst = (cycles, mask);
    }

    /// A dead lane gives zeros.
    pub fn set_dead(&mut self, lane: u32, dead: bool) {
        self.lanes[lane as usize].dead = dead;
    }

    /// Stops a lane for some cycles, with noise; afterwards it is later by this number of cycles.
    pub fn stall(&mut self, lane: u32, cycles: u64) {
        self.lanes[lane as usize].stalled = cycles;
    }

    /// Number of independent bit errors so far.
    pub fn flipped(&self) -> u64 {
        self.flipped
    }

    /// Distance to the next wrong bit: `floor(ln(u) / ln(1 - ber))`.
    fn draw_gap(&mut self) -> u64 {
        if self.ber <= 0.0 {
            return u64::MAX;
        }
        // In (0, 1].
        let u = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        // A cast saturates.
        (u.ln() / (-self.ber).ln_1p()) as u64
    }

    fn noise(&mut self) -> u32 {
        self.random.next_u64() as u32 & MASK
    }

    /// Takes the sent words, returns the words that arrive.
    pub fn step(&mut self, sent: &Lanes) -> Lanes {
        let mut out = [0; 8];
        let mut right = [0; 8];
        let mut stalled = 0_u32;
        for l in 0..self.lanes.len() {
            let lane = &mut self.lanes[l];
            lane.words.push_back(sent[l]);
            let (older, newer) = (lane.words[0], lane.words[1]);
            // Later by `shift` bits: the uppermost bits of the word before come first.
            out[l] = ((u64::from(newer) << LANE_BITS | u64::from(older)) >> (LANE_BITS - lane.shift)) as u32
                & MASK;
            if lane.shift == 0 {
                out[l] = newer;
            }
            right[l] = out[l];
            if lane.stalled == 0 {
                lane.words.pop_front();
                continue;
            }
            lane.stalled -= 1;
            stalled |= 1 << l;
            out[l] = self.noise();
        }
        let bits = self.lanes.len() as u64 * u64::from(LANE_BITS);
        while self.gap < bits {
            let at = self.gap as u32;
            out[(at / LANE_BITS) as usize] ^= 1 << (at % LANE_BITS);
            self.flipped += 1;
            self.gap = self.gap.saturating_add(1).saturating_add(self.draw_gap());
        }
        if self.ber > 0.0 {
            self.gap -= bits;
        }
        for (lane, word) in out.iter_mut().enumerate().take(self.lanes.len()) {
            let hit = self.burst.0 > 0 && self.burst.1 >> lane & 1 == 1;
            if hit || self.cut > 0 {
                *word = self.noise();
            }
            if self.lanes[lane].dead {
                *word = 0;
            }
        }
        self.burst.0 = self.burst.0.saturating_sub(1);
        self.cut = self.cut.saturating_sub(1);
        if let Some(events) = &mut self.events
            && (out != right || stalled != 0)
        {
            for (lane, (word, right)) in (0..).zip(out.iter().zip(right)).take(self.lanes.len()) {
                let (stalled, mask, word) = (stalled >> lane & 1 == 1, word ^ right, *word);
                if stalled || mask != 0 {
                    events.push(ChannelEvent::Disturbed(Disturbance {
                        cycle: self.cycle + self.later,
                        lane,
                        stalled,
                        mask,
                        word,
                    }));
                }
            }
        }
        self.cycle += 1;
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator gives each bit of a lane's stream.
    fn words(count: usize, seed: u64) -> Vec<Lanes> {
        let mut random = SplitMix64::new(seed);
        (0..count).map(|_| std::array::from_fn(|_| random.next_u64() as u32 & MASK)).collect()
    }

    fn stream(words: &[Lanes], lane: usize) -> Vec<bool> {
        words.iter().flat_map(|w| (0..LANE_BITS).map(move |b| w[lane] >> b & 1 == 1)).collect()
    }

    #[test]
    fn each_lane_delays_its_bits_by_what_was_set() {
        let delays = [25, 26, 49, 50, 51, 99, 250, 263];
        let mut channel = Channel::new(8, 1, 1);
        channel.set_delays(&delays);
        let sent = words(200, 2);
        let received: Vec<Lanes> = sent.iter().map(|w| channel.step(w)).collect();
        for (lane, delay) in delays.into_iter().enumerate() {
            let (before, after) = (stream(&sent, lane), stream(&received, lane));
            let delay = delay as usize;
            assert_eq!(before[..before.len() - delay], after[delay..], "lane {lane}");
        }
    }

    #[test]
    fn errors_come_at_the_rate_that_was_set_and_from_the_seed_alone() {
        let run = |seed| {
            let mut channel = Channel::new(8, 1, seed);
            channel.set_ber(1e-3);
            let received: Vec<Lanes> = (0..50_000).map(|_| channel.step(&[0; 8])).collect();
            let ones: u32 = received.iter().flatten().map(|w| w.count_ones()).sum();
            assert_eq!(u64::from(ones), channel.flipped());
            (ones, received)
        };
        let (ones, received) = run(3);
        // 10^7 bits: 10,000 expected, standard deviation 100.
        assert!((9_500..10_500).contains(&ones), "{ones}");
        assert!(run(3).1 == received && run(4).1 != received);
    }

    #[test]
    fn what_is_recorded_explains_all_that_arrives() {
        let mut channel = Channel::new(4, 3, 7);
        channel.record();
        channel.set_ber(1e-3);
        let sent = words(2_000, 8);
        let mut received = Vec::new();
        for (cycle, words) in sent.iter().enumerate() {
            match cycle {
                100 => channel.stall(1, 5),
                300 => channel.set_dead(2, true),
                400 => channel.cut(30),
                500 => channel.burst(20, 0b1001),
                _ => {}
            }
            received.push(channel.step(words));
        }
        let mut events = channel.take_events();
        assert_eq!(events.remove(0), ChannelEvent::Delays(0, vec![75; 4]));
        let of = |cycle: u64, lane: u8| {
            let here = |event: &ChannelEvent| match event {
                ChannelEvent::Disturbed(d) => (d.cycle, d.lane) == (cycle, lane),
                ChannelEvent::Delays(..) => false,
            };
            events.iter().find(|event| here(event))
        };
        let mut delays = [3; 4];
        for (cycle, words) in received.iter().enumerate() {
            for (lane, delay) in delays.iter_mut().enumerate() {
                let clean = cycle.checked_sub(*delay).map_or(0, |at| sent[at][lane]);
                let expected = match of(cycle as u64, lane as u8) {
                    Some(ChannelEvent::Disturbed(Disturbance { stalled, mask, .. })) => {
                        *delay += usize::from(*stalled);
                        clean ^ mask
                    }
                    _ => clean,
                };
                assert_eq!(words[lane], expected, "cycle {cycle}, lane {lane}");
            }
        }
        assert_eq!(delays, [3, 8, 3, 3]);
    }

    #[test]
    fn a_rate_of_zero_changes_nothing_and_a_cut_everything() {
        let mut channel = Channel::new(8, 1, 5);
        let sent = words(2_000, 6);
        let received: Vec<Lanes> = sent.iter().map(|w| channel.step(w)).collect();
        assert_eq!(sent[..1999], received[1..]);
        channel.cut(100);
        let cut: Vec<Lanes> = (0..200).map(|_| channel.step(&[MASK; 8])).collect();
        assert!(cut[..100].iter().all(|w| *w != [MASK; 8]) && cut[100..].iter().all(|w| *w == [MASK; 8]));
    }
}
