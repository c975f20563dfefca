//! Cost of an iteration: the scheduler's view of a machine.

use ndp_energy::Energy;
use ndp_files::Result;
pub use ndp_librapim::host::session::Chunk;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KvMemory {
    pub bytes: u64,
    pub bytes_per_token: u64,
}

pub(crate) fn tokens_of(chunks: &[Chunk]) -> u32 {
    chunks.iter().fold(0, |sum, chunk| sum.saturating_add(chunk.tokens))
}

/// A device's part of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Use {
    /// Time with work, waits for memory included.
    pub busy_ns: f64,
    /// Time of its MACs at its peak; 0 if not counted.
    pub macs_ns: f64,
}

ndp_config::sums!(Use: busy_ns, macs_ns);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepCost {
    pub ns: u64,
    /// `None` if the machine does not compute it.
    pub energy: Option<Energy>,
    /// By [`StepTimes::devices`].
    pub uses: Vec<Use>,
}

impl StepCost {
    /// No time and no energy.
    pub(crate) fn nothing(devices: usize) -> Self {
        Self { uses: vec![Use::default(); devices], ..Self::default() }
    }
}

impl std::ops::AddAssign for StepCost {
    fn add_assign(&mut self, other: Self) {
        self.ns = self.ns.saturating_add(other.ns);
        self.uses.iter_mut().zip(other.uses).for_each(|(sum, one)| *sum += one);
        self.energy = [self.energy, other.energy].into_iter().flatten().reduce(|sum, one| sum + one);
    }
}

/// A machine, for the scheduler.
pub trait StepTimes {
    fn devices(&self) -> Vec<&'static str>;

    /// Whether [`Use::macs_ns`] is counted.
    fn counts_macs(&self) -> bool {
        false
    }

    /// Room for keys and values.
    fn kv(&self) -> KvMemory;

    /// Most requests of an iteration with known times.
    fn most_requests(&self) -> u32 {
        u32::MAX
    }

    /// An iteration: prompts, whole or in part, and one token of each of other requests; one may be empty. Fails as the
    /// machine's planner.
    fn step(&mut self, prompts: &[Chunk], tokens: &[Chunk]) -> Result<StepCost>;
}
