//! Who is busy when: events of a decode step.

use crate::offloading::time::Picos;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The NPU.
    Npu,
    Pim,
}

/// What a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    Qkv,
    Mha,
    Projection,
    /// The FFN.
    Ffn,
    Head,
}

impl Work {
    /// All kinds of work: matrices, then attention.
    pub const ALL: [Self; 5] = [Self::Qkv, Self::Projection, Self::Ffn, Self::Head, Self::Mha];
}

/// A piece of work without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub device: Device,
    pub work: Work,
    /// Group of the requests, 0 or 1; 0 if there is one group only, or attention is of both.
    pub group: u8,
    /// Decoder layer; for logits the last one.
    pub layer: u32,
    pub requests: u32,
    pub start: Picos,
    pub end: Picos,
}

/// The events of a decode step, by device in order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// When all is done.
    pub span: Picos,
    /// Events, those of a device in order of time and without overlap.
    pub events: Vec<Event>,
}

impl Timeline {
    /// Adds a piece of work; nothing if it takes no time. Returns its end.
    pub(crate) fn add(&mut self, event: Event) -> Picos {
        if event.end > event.start {
            self.events.push(event);
        }
        event.end
    }

    /// Time for which a device works.
    pub fn busy(&self, device: Device) -> Picos {
        self.events.iter().filter(|event| event.device == device).map(|event| event.end - event.start).sum()
    }

    /// Time for which it does not.
    pub fn idle(&self, device: Device) -> Picos {
        self.span - self.busy(device)
    }
}
