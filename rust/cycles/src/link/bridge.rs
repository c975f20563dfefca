//! A bridge: an end for each of its links, and a crossbar that moves flits between them (docs/timing-links.md, "Links").

use super::end::End;
use super::frame::Header;
use super::receiver::Arrived;

/// Links that a bridge has at most.
const MOST: usize = 16;

/// A received beat and, if it has a route, the link it goes to.
#[derive(Clone, Copy, Debug)]
struct Held {
    beat: Arrived,
    to: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Output {
    served: usize,
    active: bool,
    full: Option<Arrived>,
}

/// Link `n` is the route to DIMM `n`; other numbers have none.
#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    pub ends: Vec<End>,
    /// The next cycle. Ends that sleep are at an earlier one.
    pub cycle: u64,
    /// For an end that sleeps: the header that the other end of its link repeats.
    pub asleep: Vec<Option<Header>>,
    held: Vec<Option<Held>>,
    outputs: Vec<Output>,
    /// Links whose fault is to be cleared, one bit each.
    pub retrain: u32,
    /// Flits without a route.
    pub misrouted: u64,
}

impl Bridge {
    pub fn new(ends: Vec<End>) -> Self {
        let count = ends.len();
        Self {
            ends,
            cycle: 0,
            asleep: vec![None; count],
            held: vec![None; count],
            outputs: vec![Output::default(); count],
            retrain: 0,
            misrouted: 0,
        }
    }

    pub fn run_until(&mut self, end: u64) {
        while self.cycle < end {
            if self.is_quiet() {
                self.cycle = end;
            } else {
                self.step();
            }
        }
    }

    /// All ends sleep, and nothing is on its way between them.
    fn is_quiet(&self) -> bool {
        self.asleep.iter().all(Option::is_some) && (0..self.ends.len()).all(|link| self.is_idle(link))
    }

    fn step(&mut self) {
        let count = self.ends.len();
        let (mut offered, mut sent) = ([None; MOST], [None; MOST]);
        let mut ready = 0u32;
        for (at, (end, asleep)) in self.ends.iter().zip(&self.asleep).enumerate() {
            if asleep.is_none() {
                offered[at] = end.offers();
            }
            ready |= u32::from(asleep.is_some() || end.is_ready()) << at;
        }
        // Inputs that wait for each output, and inputs without a beat, one bit each.
        let (mut wanted, mut empty) = ([0u32; MOST], 0u32);
        for (input, held) in self.held.iter().enumerate() {
            match held {
                Some(Held { to: Some(to), .. }) => wanted[*to] |= 1 << input,
                Some(_) => {}
                None => empty |= 1 << input,
            }
        }
        let mut moved = 0u32;
        for (at, output) in self.outputs.iter_mut().enumerate() {
            let Output { served, active, full } = *output;
            if wanted[at] == 0 && !active && full.is_none() {
                continue;
            }
            sent[at] = full;
            let wants = |input: usize| wanted[at] >> input & 1 == 1;
            let moves = active && wants(served) && full.is_none();
            let beat = self.held[served].filter(|_| moves).map(|held| held.beat);
            let turn = (1..=count).map(|step| (served + step) % count).find(|input| wants(*input));
            let chosen = turn.filter(|_| !active);
            output.served = chosen.unwrap_or(served);
            output.active = chosen.is_some() || active && !beat.is_some_and(|beat| beat.flit_last);
            output.full = beat.or(full.filter(|_| ready >> at & 1 == 0));
            moved |= u32::from(moves) << served;
        }
        for (input, held) in self.held.iter_mut().enumerate() {
            match *held {
                None => *held = offered[input].map(|beat| Held { beat, to: route(beat.beat.dest, count) }),
                Some(Held { beat, to: None }) => {
                    self.misrouted += u64::from(beat.flit_last);
                    *held = None;
                }
                Some(_) if moved >> input & 1 == 1 => *held = None,
                Some(_) => {}
            }
        }
        for (at, end) in self.ends.iter_mut().enumerate() {
            if let Some(said) = self.asleep[at] {
                if sent[at].is_none() {
                    continue;
                }
                end.rest(self.cycle, said);
                self.asleep[at] = None;
            }
            end.step(sent[at].map(|sent| sent.beat), empty >> at & 1 == 1, self.retrain >> at & 1 == 1);
        }
        self.cycle += 1;
    }

    /// Nothing is on its way between a link and the others, and its fault is not to be cleared.
    pub fn is_idle(&self, link: usize) -> bool {
        let Output { active, full, .. } = self.outputs[link];
        self.retrain >> link & 1 == 0 && self.held[link].is_none() && full.is_none() && !active
    }
}

fn route(dest: u8, count: usize) -> Option<usize> {
    Some(usize::from(dest)).filter(|dest| *dest < count)
}
