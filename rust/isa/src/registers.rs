//! The core's registers as the host reads them (docs/isa.md).

use crate::Opcode;
use crate::table::Operand;
use serde::Serialize;

type Burst = [u64; 8];

macro_rules! register {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            /// The fields of the register.
            pub fn of(burst: &Burst) -> Self {
                Self::from_words(&words(burst).collect::<Vec<_>>())
            }

            /// The register with these fields.
            pub fn to_burst(&self) -> Burst {
                burst_of(&self.to_words())
            }

            /// The fields by their words; those that are missing are 0.
            pub fn from_words(words: &[u32]) -> Self {
                let mut words = words.iter().copied();
                Self { $($field: Operand::of([words.next().unwrap_or(0)]),)* }
            }

            fn to_words(self) -> [u32; [$(stringify!($field)),*].len()] {
                [$(self.$field.into()),*]
            }
        }
    };
}

register! {
    /// Register 0.
    Status {
        /// An instruction waits or is in flight.
        busy: bool,
        /// Free places in the queue.
        free: u32,
        /// Instructions taken from the queue.
        taken: u32,
        /// Instructions started, markers included.
        started: u32,
        /// Malformed instructions.
        malformed: u32,
        /// Code of the first malformed one, or 0.
        error: u8,
        /// Sequence number of the first malformed one.
        error_sequence: u32,
        /// Tag of the last signal.
        tag: u32,
        /// Signals.
        signals: u32,
        /// Cycles since reset.
        cycles: u32,
        /// Elements that the last `select` has selected, as far as it has come.
        selection: u32,
    }
}

register! {
    /// Register 1: cycles by activity of the core. Counts of ranks are sums over all ranks.
    Counters {
        /// Ranks busy with a job.
        working: u32,
        /// Ranks waiting for the next row or its scalars.
        waiting_for_row: u32,
        /// Ranks waiting for weights.
        waiting_for_weights: u32,
        /// Ranks whose sums wait for sums of other ranks.
        waiting_for_room: u32,
        /// Products running.
        product: u32,
        /// Products running that are not DOT.
        axpy: u32,
        /// Rounding.
        round: u32,
        /// Loading.
        load: u32,
        /// Storing.
        store: u32,
        /// Reading a list.
        list: u32,
        /// Zeroing.
        zero: u32,
        /// Ranks with nothing to do or to wait for while a product runs: its beginning and end.
        filling: u32,
        /// Neither a product nor rounding.
        outside: u32,
        /// All cycles.
        cycles: u32,
        /// Activation unit busy.
        activation: u32,
    }
}

fn words(burst: &Burst) -> impl Iterator<Item = u32> + '_ {
    burst.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32])
}

/// The burst that a read of a register with these words returns; the others are 0.
pub fn burst_of(words: &[u32]) -> Burst {
    let word = |at: usize| u64::from(words.get(at).copied().unwrap_or(0));
    std::array::from_fn(|at| word(2 * at) | word(2 * at + 1) << 32)
}

impl Counters {
    /// Cycles with an instruction of this opcode in flight; 0 if no part of the core executes it. These share a count:
    /// the activation unit's, those that add to accumulators or select, and those that write DRAM. Units overlap, so
    /// sums may exceed all cycles.
    pub fn of_opcode(&self, opcode: Opcode) -> u32 {
        match opcode {
            _ if opcode.is_activation() => self.activation,
            Opcode::Load => self.load,
            Opcode::Store | Opcode::Append | Opcode::Export => self.store,
            Opcode::List => self.list,
            Opcode::Zero => self.zero,
            Opcode::Dot => self.product - self.axpy,
            Opcode::Axpy | Opcode::Merge | Opcode::Import | Opcode::Select => self.axpy,
            Opcode::Round => self.round,
            // Transfers are counted in beats, in the link's register.
            _ => 0,
        }
    }

    /// Cycles of rank groups that the counters explain, of `ranks * cycles`.
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

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        // `a + b` is `a - (0 - b)`, field by field, modulo 2^32.
        *self = self.since(&Self::default().since(other));
    }

    /// Counts since `earlier`, modulo 2^32.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut words = self.to_words();
        words.iter_mut().zip(earlier.to_words()).for_each(|(now, before)| *now = now.wrapping_sub(before));
        Self::from_words(&words)
    }
}
