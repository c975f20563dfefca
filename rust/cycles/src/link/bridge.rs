//! A bridge: an end for each of its links, and a crossbar that moves flits between them (docs/timing-links.md, "Links").

use super::end::End;
use super::receiver::Arrived;

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
            held: vec![None; count],
            outputs: vec![Output::default(); count],
            retrain: 0,
            misrouted: 0,
        }
    }

    pub fn cycle(&self) -> u64 {
        self.ends.first().map_or(0, |end| end.cycle)
    }

    pub fn step(&mut self) {
        let count = self.ends.len();
        let offered: Vec<Option<Arrived>> = self.ends.iter().map(End::offers).collect();
        let ready: Vec<bool> = self.ends.iter().map(End::is_ready).collect();
        let before = self.held.clone();
        let wants = |input: usize, output: usize| before[input].is_some_and(|held| held.to == Some(output));
        let mut moved = 0u32;
        let mut sent = Vec::with_capacity(count);
        for (at, output) in self.outputs.iter_mut().enumerate() {
            sent.push(output.full);
            let Output { served, active, full } = *output;
            let moves = active && wants(served, at) && full.is_none();
            let beat = before[served].filter(|_| moves).map(|held| held.beat);
            let turn = (1..=count).map(|step| (served + step) % count).find(|input| wants(*input, at));
            let chosen = turn.filter(|_| !active);
            output.served = chosen.unwrap_or(served);
            output.active = chosen.is_some() || active && !beat.is_some_and(|beat| beat.flit_last);
            output.full = beat.or(full.filter(|_| !ready[at]));
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
            end.step(sent[at].map(|sent| sent.beat), before[at].is_none(), self.retrain >> at & 1 == 1);
        }
    }

    pub fn rests(&self) -> bool {
        self.retrain == 0
            && self.held.iter().all(Option::is_none)
            && self.outputs.iter().all(|output| output.full.is_none() && !output.active)
    }
}

fn route(dest: u8, count: usize) -> Option<usize> {
    Some(usize::from(dest)).filter(|dest| *dest < count)
}
