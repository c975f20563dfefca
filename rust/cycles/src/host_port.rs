//! The host's port: one request at a time, to a rank or to the core's registers; stores go the same way
//! (docs/timing.md, "Host port").

use crate::host::{Answer, Register, Request, RequestKind};
use crate::matrix_arbiter::MatrixArbiter;
use crate::shape::Shape;
use std::collections::VecDeque;

/// Register number of the link's state.
pub(crate) const LINK_REGISTER: u8 = 2;
/// Register numbers of the link controller's counters.
pub(crate) const LINK_COUNTERS: std::ops::RangeInclusive<u8> = 16..=31;
/// Bit of a rank's tag that marks a store.
pub(crate) const STORE_TAG: u16 = 1 << 8;

/// Effect of an access to the core in this cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoreAccess {
    Nothing,
    Reads(u8),
    /// The link is to go on, or to clear failures.
    Controls {
        retrain: bool,
        forget: bool,
    },
    /// Instructions are taken over.
    Queues,
    /// Instructions are lost: the queue lacks four free places.
    Overflow,
}

/// Destination of the next beat of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreTo {
    /// Consecutive bursts of the DIMM, modulo their number.
    Bursts(u32),
    /// An append: the same beat in each vector's row of a matrix at `address` of each rank, then the next beat.
    Rows { address: u32, row: u32, vector: u32, batch: u32 },
    /// An export: to the same stripe of each rank in turn, starting at burst `address` of the rank.
    Waves { address: u32, beat: u32 },
}

impl StoreTo {
    #[inline]
    pub fn burst(self, shape: &Shape) -> u32 {
        // Rows of one stripe lie in the ranks in turn.
        let in_row = |address: u32, row: u32| {
            let (rank, above) = (row % shape.ranks, row / shape.ranks);
            address.wrapping_add(above.wrapping_mul(shape.positions)).wrapping_mul(shape.ranks) | rank
        };
        match self {
            Self::Bursts(address) => address,
            Self::Rows { address, row, vector, .. } => {
                in_row(address, row.wrapping_add(vector) & shape.row_mask)
            }
            Self::Waves { address, beat } => {
                in_row(address.wrapping_add(beat % shape.positions), beat / shape.positions)
            }
        }
    }

    pub fn pass(&mut self) {
        match self {
            Self::Bursts(address) => *address = address.wrapping_add(1),
            Self::Waves { beat, .. } => *beat += 1,
            Self::Rows { address, vector, batch, .. } => {
                *vector += 1;
                if vector == batch {
                    (*vector, *address) = (0, address.wrapping_add(1));
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct HostPort {
    /// The pending request; the port takes no other.
    pub pending: Option<Request>,
    /// Answer of the pending access to the core, once it is done.
    answer: Option<Option<Register>>,
    /// Instructions still to go to the queue; one per cycle.
    pub unpacking: VecDeque<u128>,
    pub response: Option<Answer>,
    /// Stores passed on and not acknowledged.
    pub stores: u32,
    /// The host's requests passed on and not answered.
    pub outstanding: u32,
    pub store_to: StoreTo,
    /// Source of the next request to the ranks: host, store or transfer.
    pub request_turns: MatrixArbiter,
    /// Source of the next answer to the host: one of the ranks, or the core.
    pub answer_turns: MatrixArbiter,
    queue_limit: u32,
}

impl HostPort {
    pub fn new(queue_entries: u32, ranks: u32) -> Self {
        Self {
            pending: None,
            answer: None,
            unpacking: VecDeque::new(),
            response: None,
            stores: 0,
            outstanding: 0,
            store_to: StoreTo::Bursts(0),
            request_turns: MatrixArbiter::new(3),
            answer_turns: MatrixArbiter::new(ranks as usize + 1),
            queue_limit: queue_entries - 4,
        }
    }

    /// The pending request accesses the link's registers.
    #[inline]
    pub fn is_for_link(&self) -> bool {
        match self.pending.map(|request| request.kind) {
            Some(RequestKind::LinkControl { .. } | RequestKind::ReadRegister(LINK_REGISTER)) => true,
            _ => self.link_counter().is_some(),
        }
    }

    /// The link counter that is being read.
    #[inline]
    pub fn link_counter(&self) -> Option<usize> {
        match self.pending.map(|request| request.kind) {
            Some(RequestKind::ReadRegister(number)) if LINK_COUNTERS.contains(&number) => {
                Some(usize::from(number - LINK_COUNTERS.start()))
            }
            _ => None,
        }
    }

    /// The burst that the pending request reads or writes: address in the DIMM, whether it is a write, tag of the
    /// request.
    #[inline]
    pub fn wants(&self) -> Option<(u32, bool, u16)> {
        match self.pending {
            Some(Request { kind: RequestKind::Dram { address, write }, tag }) => {
                Some((address, write, tag.into()))
            }
            _ => None,
        }
    }

    /// Effect of the pending access to the core; `waiting` instructions are in the queue after its head. The
    /// instructions are unpacked from the next cycle.
    #[inline]
    pub fn access(&mut self, waiting: u32) -> CoreAccess {
        let (Some(request), None) = (self.pending, self.answer) else { return CoreAccess::Nothing };
        match request.kind {
            RequestKind::Dram { .. } => CoreAccess::Nothing,
            RequestKind::ReadRegister(number) => CoreAccess::Reads(number),
            RequestKind::Nothing { .. } => CoreAccess::Reads(u8::MAX),
            RequestKind::LinkControl { retrain, forget } => CoreAccess::Controls { retrain, forget },
            RequestKind::Instructions(_) if !self.unpacking.is_empty() => CoreAccess::Nothing,
            RequestKind::Instructions(_) if waiting > self.queue_limit => CoreAccess::Overflow,
            RequestKind::Instructions(_) => CoreAccess::Queues,
        }
    }

    /// Completes the access; its answer can go in the next cycle at the earliest.
    pub fn done(&mut self, access: CoreAccess, register: Option<Register>) {
        if let (CoreAccess::Queues, Some(Request { kind: RequestKind::Instructions(words), .. })) =
            (access, self.pending)
        {
            self.unpacking.extend(words);
        }
        self.answer = Some(register);
    }

    #[inline]
    pub fn core_answer(&self) -> Option<Answer> {
        self.answer.zip(self.pending).map(|(register, Request { tag, .. })| Answer { tag, register })
    }

    pub fn answered(&mut self) {
        (self.answer, self.pending) = (None, None);
    }

    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pending.is_none() && self.response.is_none() && self.unpacking.is_empty()
    }
}
