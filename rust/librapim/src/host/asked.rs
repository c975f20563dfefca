//! Work that a group of requests asks of the shared machine, and the replies.

use crate::host::machine::{Attention, Stream};
use crate::host::policy::Share;
use crate::host::shared::Product;
use ndp_numerics::f16;

pub(crate) enum NpuWork {
    Matrix { label: String, vectors: usize },
    Stream(Stream),
}

/// Work of both devices.
pub(crate) enum Both {
    Product(Product),
    /// Keys and values that change their home, while the memory has no attention.
    Move(Stream),
}

/// Pieces of work that may go on at the same time; the group waits for all of them.
#[derive(Default)]
pub(crate) struct Asked {
    pub npu: Option<NpuWork>,
    pub pim: Option<Attention>,
    pub both: Option<Both>,
}

pub(crate) enum Request {
    Work(Box<Asked>),
    /// Asks for a decision for a step with these contexts.
    Step(Vec<u32>),
}

pub(crate) enum Reply {
    Values(Vec<f16>),
    Share(Share),
}
