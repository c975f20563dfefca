//! The core's registers as the host reads them (docs/isa.md).

use crate::Opcode;
use serde::Serialize;

/// What a read of a register returns: 64 bytes.
type Burst = [u64; 8];

/// Register 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// An instruction waits or is in work.
    pub busy: bool,
    /// Free places in the queue.
    pub free: u32,
    /// Instructions taken from the queue.
    pub taken: u32,
    /// Instructions started, markers included.
    pub started: u32,
    /// Malformed instructions.
    pub malformed: u32,
    /// Code of the first malformed one, or 0.
    pub error: u8,
    /// Its sequence number.
    pub error_sequence: u32,
    /// Tag of the last signal.
    pub tag: u32,
    /// Signals.
    pub signals: u32,
    /// Cycles since reset.
    pub cycles: u32,
    /// Elements that the last `select` has selected, as far as it has come.
    pub selection: u32,
}

/// Register 1: cycles by what the core was busy with. Those of the ranks are sums over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Ranks with a job in work.
    pub working: u32,
    /// Ranks waiting for the next row or its scalars.
    pub waiting_for_row: u32,
    /// Ranks waiting for weights.
    pub waiting_for_weights: u32,
    /// Ranks waiting until sums of other ranks let theirs go.
    pub waiting_for_room: u32,
    /// Products running.
    pub product: u32,
    /// Of these, all but DOT.
    pub axpy: u32,
    /// Rounding.
    pub round: u32,
    /// Loading.
    pub load: u32,
    /// Storing.
    pub store: u32,
    /// Reading a list.
    pub list: u32,
    /// Zeroing.
    pub zero: u32,
    /// Ranks with nothing to do or to wait for while a product runs: its beginning and end.
    pub filling: u32,
    /// Neither a product nor rounding.
    pub outside: u32,
    /// All cycles.
    pub cycles: u32,
    /// The activation unit at work.
    pub activation: u32,
}

fn words(burst: &Burst) -> impl Iterator<Item = u32> + '_ {
    burst.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32])
}

/// What a read of a register with these words returns; the others are 0.
pub fn burst_of(words: &[u32]) -> Burst {
    let word = |at: usize| u64::from(words.get(at).copied().unwrap_or(0));
    std::array::from_fn(|at| word(2 * at) | word(2 * at + 1) << 32)
}

impl Status {
    /// Register 0 with these fields: the inverse of [`Status::of`].
    pub fn to_burst(&self) -> Burst {
        let &Self {
            busy,
            free,
            taken,
            started,
            malformed,
            error,
            error_sequence,
            tag,
            signals,
            cycles,
            selection,
        } = self;
        let (busy, error) = (u32::from(busy), u32::from(error));
        burst_of(&[
            busy,
            free,
            taken,
            started,
            malformed,
            error,
            error_sequence,
            tag,
            signals,
            cycles,
            selection,
        ])
    }

    /// The fields of register 0.
    pub fn of(burst: &Burst) -> Self {
        let mut words = words(burst);
        let mut next = || words.next().unwrap_or(0);
        Self {
            busy: next() != 0,
            free: next(),
            taken: next(),
            started: next(),
            malformed: next(),
            error: next() as u8,
            error_sequence: next(),
            tag: next(),
            signals: next(),
            cycles: next(),
            selection: next(),
        }
    }
}

impl Counters {
    /// The fields of register 1.
    pub fn of(burst: &Burst) -> Self {
        let words: Vec<u32> = words(burst).collect();
        Self::from_words(&words)
    }

    /// The fields by their words; those that are missing are 0.
    pub fn from_words(words: &[u32]) -> Self {
        let mut words = words.iter().copied();
        let mut next = || words.next().unwrap_or(0);
        Self {
            working: next(),
            waiting_for_row: next(),
            waiting_for_weights: next(),
            waiting_for_room: next(),
            product: next(),
            axpy: next(),
            round: next(),
            load: next(),
            store: next(),
            list: next(),
            zero: next(),
            filling: next(),
            outside: next(),
            cycles: next(),
            activation: next(),
        }
    }

    /// Cycles in which an instruction with this opcode was in work; 0 for those that no part of the core executes. The
    /// activation unit's instructions are counted together, so are those that add to accumulators with selections, and those
    /// that write to DRAM. Parts work side by side, so the sum can be more than all cycles.
    pub fn of_opcode(&self, opcode: Opcode) -> u32 {
        match opcode {
            Opcode::Nop | Opcode::Barrier | Opcode::Signal => 0,
            Opcode::Load => self.load,
            Opcode::Store | Opcode::Append | Opcode::Export => self.store,
            Opcode::List => self.list,
            Opcode::Zero => self.zero,
            Opcode::Dot => self.product - self.axpy,
            Opcode::Axpy | Opcode::Merge | Opcode::Import | Opcode::Select => self.axpy,
            Opcode::Round => self.round,
            Opcode::Relu
            | Opcode::Exp
            | Opcode::Softmax
            | Opcode::Scale
            | Opcode::Add
            | Opcode::Sub
            | Opcode::Mul
            | Opcode::Max
            | Opcode::Silu
            | Opcode::Gelu
            | Opcode::Div => self.activation,
            // Counted by the beat, in the link's register.
            Opcode::Send | Opcode::Receive => 0,
        }
    }

    /// Cycles of the rank groups that the counters account for; all of them are `ranks * cycles`.
    pub fn accounted(&self, ranks: u32) -> u64 {
        let groups = [
            self.working,
            self.waiting_for_row,
            self.waiting_for_weights,
            self.waiting_for_room,
            self.filling,
        ];
        let all = [self.round, self.outside].map(|cycles| u64::from(cycles) * u64::from(ranks));
        groups.into_iter().map(u64::from).sum::<u64>() + all.iter().sum::<u64>()
    }

    /// Adds what another run has counted.
    pub fn add(&mut self, other: &Self) {
        // `a + b` is `a - (0 - b)`, field by field, modulo 2^32.
        *self = self.since(&Self::default().since(other));
    }

    /// What was counted after `earlier`; counters go round at 2^32.
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |f: fn(&Self) -> u32| f(self).wrapping_sub(f(earlier));
        Self {
            working: less(|c| c.working),
            waiting_for_row: less(|c| c.waiting_for_row),
            waiting_for_weights: less(|c| c.waiting_for_weights),
            waiting_for_room: less(|c| c.waiting_for_room),
            product: less(|c| c.product),
            axpy: less(|c| c.axpy),
            round: less(|c| c.round),
            load: less(|c| c.load),
            store: less(|c| c.store),
            list: less(|c| c.list),
            zero: less(|c| c.zero),
            filling: less(|c| c.filling),
            outside: less(|c| c.outside),
            cycles: less(|c| c.cycles),
            activation: less(|c| c.activation),
        }
    }
}
