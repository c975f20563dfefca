//! Ports of a Verilated link controller, and the sources and sinks of its core side.

use super::flow::{Arrival, Cursor, Flow};
use super::{LANE_BITS, Lanes};
use crate::ffi::{InputPort, Model, OpenOptions, OutputPort, Rtl};
use ndp_config::{BEAT_BITS, LinkConfig};
use ndp_files::Result;
use ndp_numerics::SplitMix64;

/// Names of a controller's counters, by number.
pub const COUNTERS: [&str; 16] = [
    "flits sent",
    "flits sent again",
    "flits accepted",
    "CRC errors",
    "flits out of order",
    "replays asked for",
    "replays after a time",
    "slots without a flit",
    "slots without credit",
    "cycles with a full replay buffer",
    "cycles with a beat not taken",
    "flits dropped",
    "cycles out of step",
    "flits timed",
    "sum of their latencies",
    "longest latency",
];

pub fn read_lanes(model: &Model, port: OutputPort) -> Lanes {
    let mut words = [0; 7];
    let count = port.words();
    model.get_words(port, &mut words[..count]);
    unpack(&words)
}

pub fn drive_lanes(model: &mut Model, port: InputPort, lanes: &Lanes) {
    let mut words = [0_u32; 8];
    for (l, value) in (0..).zip(lanes) {
        let (word, bit) = ((l * LANE_BITS / 32) as usize, l * LANE_BITS % 32);
        let value = u64::from(*value) << bit;
        words[word] |= value as u32;
        if word + 1 < words.len() {
            words[word + 1] |= (value >> 32) as u32;
        }
    }
    model.set_words(port, &words[..port.words()]);
}

fn unpack(words: &[u32; 7]) -> Lanes {
    std::array::from_fn(|l| {
        let at = l as u32 * LANE_BITS;
        let (word, bit) = ((at / 32) as usize, at % 32);
        let upper = words.get(word + 1).copied().unwrap_or(0);
        ((u64::from(upper) << 32 | u64::from(words[word])) >> bit) as u32 & ((1 << LANE_BITS) - 1)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ControllerStatus {
    pub up: bool,
    pub fault: bool,
    /// Bit 0: nothing received; bit 1: nothing acknowledged.
    pub cause: u32,
    pub peer_fault: bool,
    /// Lanes with found markers, one bit each.
    pub locked: u32,
    pub aligned: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Flow and number of the offered beat.
    pub offered: Option<(Flow, u64)>,
    pub ready: bool,
    pub arrival: Option<Arrival>,
    /// Whether the core would take the arrival.
    pub takes: bool,
    pub retrain: bool,
    /// Some taken beats are not acknowledged.
    pub holds: bool,
    pub status: ControllerStatus,
}

#[derive(Debug)]
pub struct Endpoint {
    pub model: Model,
    /// Flows, and the number of beats left of each. The first one continues at the next cycle.
    pub sources: Vec<(Cursor, u64)>,
    /// Cycles in 256 in which the source offers nothing, and the sink takes nothing.
    pub stalls: [u64; 2],
    /// Last cycle's ports, if `observed`.
    pub seen: Option<Seen>,
    pub observed: bool,
    node: u32,
    turn: usize,
    /// The flow of the current message.
    current: Option<usize>,
    offered: Option<(Flow, u64)>,
    random: SplitMix64,
    tx: [InputPort; 6],
    tx_ready: OutputPort,
    rx: [OutputPort; 7],
    rx_ready: InputPort,
    lanes_in: InputPort,
    lanes_out: OutputPort,
    retrain: InputPort,
    reset: InputPort,
    counter: (InputPort, OutputPort),
    status: [OutputPort; 6],
    holds: OutputPort,
    retrains: bool,
}

impl Endpoint {
    /// Opens a `link_controller` with random register contents, after reset.
    ///
    /// # Errors
    /// Errors of [`Model::open`]; a missing port.
    pub fn open(rtl: &Rtl, config: &LinkConfig, node: u32, seed: u64) -> Result<Self> {
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let mut model = Model::open(rtl, &options)?;
        let discard = model.input_of_width("discard_i", 1)?;
        model.set(discard, 0);
        model.reset(3);
        let input = |name: &str, width| model.input_of_width(name, width);
        let output = |name: &str, width| model.output_of_width(name, width);
        Ok(Self {
            tx: [
                input("tx_valid_i", 1)?,
                input("tx_data_i", BEAT_BITS)?,
                input("tx_last_i", 1)?,
                input("tx_dest_i", LinkConfig::NODE_BITS)?,
                input("tx_source_i", LinkConfig::NODE_BITS)?,
                input("tx_label_i", LinkConfig::LABEL_BITS)?,
            ],
            tx_ready: output("tx_ready_o", 1)?,
            rx: [
                output("rx_valid_o", 1)?,
                output("rx_data_o", BEAT_BITS)?,
                output("rx_last_o", 1)?,
                output("rx_flit_last_o", 1)?,
                output("rx_dest_o", LinkConfig::NODE_BITS)?,
                output("rx_source_o", LinkConfig::NODE_BITS)?,
                output("rx_label_o", LinkConfig::LABEL_BITS)?,
            ],
            rx_ready: input("rx_ready_i", 1)?,
            lanes_in: input("lanes_i", config.word_bits())?,
            lanes_out: output("lanes_o", config.word_bits())?,
            retrain: input("retrain_i", 1)?,
            reset: input("rst_ni", 1)?,
            counter: (input("counter_i", 4)?, output("counter_o", 32)?),
            status: [
                output("up_o", 1)?,
                output("fault_o", 1)?,
                output("cause_o", 2)?,
                output("peer_fault_o", 1)?,
                output("locked_o", config.lanes())?,
                output("aligned_o", 1)?,
            ],
            holds: output("tx_holds_o", 1)?,
            retrains: false,
            model,
            sources: Vec::new(),
            stalls: [0; 2],
            seen: None,
            observed: false,
            node,
            turn: 0,
            current: None,
            offered: None,
            random: SplitMix64::new(seed ^ 0xD1E5),
        })
    }

    pub fn node(&self) -> u32 {
        self.node
    }

    /// Adds beats of a flow, rounded up to a whole message.
    pub fn send(&mut self, flow: Flow, beats: u64) {
        let index = self.sources.iter().position(|(cursor, _)| cursor.flow == flow).unwrap_or_else(|| {
            self.sources.push((Cursor { flow, next: 0 }, 0));
            self.sources.len() - 1
        });
        let (cursor, left) = &mut self.sources[index];
        *left += beats;
        while *left > 0 && !flow.is_last(cursor.next + *left - 1) {
            *left += 1;
        }
    }

    pub fn unsent(&self) -> u64 {
        self.sources.iter().map(|(_, left)| left).sum()
    }

    pub fn lanes(&self) -> Lanes {
        read_lanes(&self.model, self.lanes_out)
    }

    pub fn status(&self) -> ControllerStatus {
        let [up, fault, cause, peer_fault, locked, aligned] = self.status.map(|port| self.model.get(port));
        ControllerStatus {
            up: up == 1,
            fault: fault == 1,
            cause: cause as u32,
            peer_fault: peer_fault == 1,
            locked: locked as u32,
            aligned: aligned == 1,
        }
    }

    /// The offered beat is forgotten.
    pub fn set_reset(&mut self, active: bool) {
        self.model.set(self.reset, u64::from(!active));
        if active {
            self.sources.clear();
            (self.current, self.offered) = (None, None);
        }
    }

    pub fn set_retrain(&mut self, active: bool) {
        self.retrains = active;
        self.model.set(self.retrain, active.into());
    }

    /// For [`Endpoint::counter`] after the next cycle.
    pub fn select_counter(&mut self, number: u64) {
        self.model.set(self.counter.0, number);
    }

    /// The counter selected in the cycle before.
    pub fn counter(&self) -> u64 {
        self.model.get(self.counter.1)
    }

    /// Flows take turns, each for a whole message.
    fn offer(&mut self) {
        if self.offered.is_none() {
            let count = self.sources.len();
            let choice = self
                .current
                .or_else(|| (1..=count).map(|d| (self.turn + d) % count).find(|i| self.sources[*i].1 > 0));
            let stalls = self.random.next_u64() % 256 < self.stalls[0];
            if let (Some(index), false) = (choice, stalls) {
                let (cursor, left) = &self.sources[index];
                if *left > 0 {
                    self.turn = index;
                    self.offered = Some((cursor.flow, cursor.next));
                    let (beat, last) = (cursor.flow.beat(cursor.next), cursor.flow.is_last(cursor.next));
                    let [_, data, end, dest, source, label] = self.tx;
                    self.model.set_longs(data, &beat);
                    self.model.set(end, last.into());
                    self.model.set(dest, cursor.flow.dest.into());
                    self.model.set(source, cursor.flow.source.into());
                    self.model.set(label, cursor.flow.label(cursor.next).into());
                }
            }
        }
        self.model.set(self.tx[0], self.offered.is_some().into());
    }

    /// Drives the lanes and both handshakes; returns the beat that arrived.
    pub fn step(&mut self, lanes: &Lanes) -> Option<Arrival> {
        drive_lanes(&mut self.model, self.lanes_in, lanes);
        self.offer();
        let takes = self.stalls[1] == 0 || self.random.next_u64() % 256 >= self.stalls[1];
        self.model.set(self.rx_ready, takes.into());
        if self.observed {
            self.seen = Some(Seen {
                offered: self.offered,
                ready: self.model.get(self.tx_ready) == 1,
                arrival: self.arrival(),
                takes,
                retrain: self.retrains,
                holds: self.model.get(self.holds) == 1,
                status: self.status(),
            });
        }
        if self.offered.is_some() && self.model.get(self.tx_ready) == 1 {
            let index = self.turn;
            let (cursor, left) = &mut self.sources[index];
            self.current = (!cursor.flow.is_last(cursor.next)).then_some(index);
            cursor.next += 1;
            *left -= 1;
            self.offered = None;
        }
        let arrival = self.arrival().filter(|_| takes);
        self.model.tick();
        arrival
    }

    fn arrival(&self) -> Option<Arrival> {
        let [valid, data, last, flit_last, dest, source, label] = self.rx;
        (self.model.get(valid) == 1).then(|| Arrival {
            beat: self.model.get_longs(data),
            last: self.model.get(last) == 1,
            flit_last: self.model.get(flit_last) == 1,
            dest: self.model.get(dest) as u32,
            source: self.model.get(source) as u32,
            label: self.model.get(label) as u32,
        })
    }
}
