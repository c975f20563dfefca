//! Who is busy when: events of a decode step.

use crate::offloading::time::Picos;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    Npu,
    Pim,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    Qkv,
    Mha,
    Projection,
    Ffn,
    Head,
}

impl Work {
    /// Matrices, then attention.
    pub const ALL: [Self; 5] = [Self::Qkv, Self::Projection, Self::Ffn, Self::Head, Self::Mha];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub device: Device,
    pub work: Work,
    /// 0 or 1; 0 for a single group, or attention of both.
    pub group: u8,
    /// For logits the last one.
    pub layer: u32,
    pub requests: u32,
    pub start: Picos,
    pub end: Picos,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    pub span: Picos,
    /// By device in order of time, without overlap.
    pub events: Vec<Event>,
}

impl Timeline {
    /// Adds an event unless it takes no time; returns its end.
    pub(crate) fn add(&mut self, event: Event) -> Picos {
        if event.end > event.start {
            self.events.push(event);
        }
        event.end
    }

    pub fn busy(&self, device: Device) -> Picos {
        self.events.iter().filter(|event| event.device == device).map(|event| event.end - event.start).sum()
    }

    pub fn idle(&self, device: Device) -> Picos {
        self.span - self.busy(device)
    }
}
