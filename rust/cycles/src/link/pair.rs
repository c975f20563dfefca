//! Two ends on one cable, without cores: the prediction for tests of link controllers.

use super::end::{COUNTERS, End};
use super::frame::Beat;
use super::line::{Disturbance, Line};
use super::receiver::Arrived;
use ndp_config::LinkConfig;

#[derive(Clone, Copy, Debug, Default)]
pub struct EndInputs {
    /// The beat that is offered to be sent.
    pub beat: Option<Beat>,
    /// A received beat would be taken.
    pub ready: bool,
    /// Clear a fault, search for the markers again, go on.
    pub retrain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOutputs {
    /// A beat would be taken.
    pub ready: bool,
    /// The received beat that is offered.
    pub offers: Option<Arrived>,
    /// Beats are taken and not acknowledged.
    pub holds: bool,
    pub up: bool,
    pub fault: bool,
    /// Cause of the fault: bit 0 nothing received, bit 1 nothing acknowledged.
    pub cause: u8,
    /// The other side is faulty.
    pub peer_fault: bool,
    /// Lanes whose markers are found, one bit each.
    pub locked: u8,
    pub aligned: bool,
}

/// The two ends, out of their reset in cycle 0. New flits are not dropped during a fault.
#[derive(Clone, Debug)]
pub struct LinkPair {
    ends: [End; 2],
}

impl LinkPair {
    /// Ends whose lanes take `latency` cycles in each direction.
    pub fn new(config: &LinkConfig, latency: u32) -> Self {
        let end = || {
            let mut line = Line::new(config, latency);
            line.sender_reset(0, 0);
            End::new(config, line, 0, None, false)
        };
        Self { ends: [end(), end()] }
    }

    /// The next cycle.
    pub fn cycle(&self) -> u64 {
        self.ends[0].cycle
    }

    /// From cycle `cycle`, each lane towards end `to` delays by these bits, at least 25; words in flight are lost.
    pub fn set_delays(&mut self, to: usize, cycle: u64, bits: &[u32]) {
        self.ends[to].line.set_delays(cycle, bits);
    }

    /// Records a disturbance towards end `to`, in the order of cycles, in the next cycle at the latest.
    pub fn disturb(&mut self, to: usize, event: Disturbance) {
        self.ends[to].line.disturb(event);
    }

    /// Ports of an end in the next cycle.
    pub fn outputs(&self, end: usize) -> EndOutputs {
        let End { receiver, transmitter, session, .. } = &self.ends[end];
        EndOutputs {
            ready: self.ends[end].is_ready(),
            offers: receiver.offers(),
            holds: transmitter.holds(),
            up: session.up,
            fault: session.fault,
            cause: session.cause,
            peer_fault: session.peer_fault,
            locked: receiver.locked(),
            aligned: receiver.aligned,
        }
    }

    /// Counters of an end (docs/dimm-link.md, "Counters"), as they would be read in the next cycle.
    pub fn counters(&self, end: usize) -> [u32; COUNTERS] {
        self.ends[end].counters
    }

    pub fn step(&mut self, inputs: [EndInputs; 2]) {
        for (end, EndInputs { beat, ready, retrain }) in self.ends.iter_mut().zip(inputs) {
            end.step(beat, ready, retrain);
        }
        let [first, second] = &mut self.ends;
        first.deliver(&mut second.line, second.cycle);
        second.deliver(&mut first.line, first.cycle);
    }
}
