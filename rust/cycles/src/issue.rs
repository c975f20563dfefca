//! Takes instructions in order and starts them when nothing is in the way (docs/timing.md, "Issue").

use ndp_config::DesignConfig;
use ndp_isa::Status;
use ndp_isa::{ErrorCode, Instruction, decode};
use std::ops::Range;

/// Parts of the core, in the bit order of counters and trace.
pub const PARTS: [&str; 9] =
    ["load", "list", "store", "zero", "product", "round", "activation", "send", "receive"];
pub(crate) const LOAD: usize = 0;
pub(crate) const LIST: usize = 1;
pub(crate) const STORE: usize = 2;
pub(crate) const ZERO: usize = 3;
pub(crate) const PRODUCT: usize = 4;
pub(crate) const ROUND: usize = 5;
pub(crate) const ACTIVATION: usize = 6;
pub(crate) const SEND: usize = 7;
pub(crate) const RECEIVE: usize = 8;
/// Bit beyond the parts: sent beats are on their way.
pub(crate) const HOLDS: usize = 9;

/// Entries in a word of the list memory.
const WORD_ENTRIES: u32 = 16;

pub(crate) fn part_of(instruction: &Instruction) -> Option<usize> {
    match instruction {
        Instruction::Nop | Instruction::Barrier | Instruction::Signal { .. } => None,
        Instruction::Send(_) => Some(SEND),
        Instruction::Receive(_) => Some(RECEIVE),
        Instruction::Load { .. } => Some(LOAD),
        Instruction::List { .. } => Some(LIST),
        Instruction::Store { .. } | Instruction::Append { .. } | Instruction::Export { .. } => Some(STORE),
        Instruction::Zero { .. } => Some(ZERO),
        Instruction::Dot(_)
        | Instruction::Axpy(_)
        | Instruction::Merge { .. }
        | Instruction::Import { .. }
        | Instruction::Select { .. } => Some(PRODUCT),
        Instruction::Round { .. } => Some(ROUND),
        Instruction::Activate { .. } => Some(ACTIVATION),
    }
}

/// Words that an instruction uses of the buffer and of the list memory.
#[derive(Clone, Debug, Default)]
struct Uses {
    reads: Range<u32>,
    reads_too: Range<u32>,
    writes: Range<u32>,
    list: Range<u32>,
    /// A `select`, which also writes the list memory.
    selects: bool,
}

fn meet(a: &Range<u32>, b: &Range<u32>) -> bool {
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}

impl Uses {
    fn of(instruction: &Instruction, config: &DesignConfig) -> Self {
        let list = match *instruction {
            Instruction::List { list, count, .. } => Some((list, count)),
            Instruction::Dot(product) | Instruction::Axpy(product) => {
                product.list.map(|at| (at, product.count))
            }
            _ => None,
        };
        let list = list.map(|(at, count)| at / WORD_ENTRIES..(at + count).div_ceil(WORD_ENTRIES));
        Self {
            reads: instruction.source(config).unwrap_or_default(),
            reads_too: instruction.other_source(config).unwrap_or_default(),
            writes: instruction.destination(config).unwrap_or_default(),
            list: list.unwrap_or_default(),
            selects: matches!(instruction, Instruction::Select { .. }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// Decoding and multiplying until the check in this cycle.
    Checks(u64),
    /// Waits. `clear`: since the cycle before nothing is in the way; `rows_clear`: nothing is in the way of its rows;
    /// `fetched`: they are fetched.
    Waits {
        clear: bool,
        rows_clear: bool,
        fetched: bool,
    },
}

/// Step of the issue logic in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Nothing,
    /// An instruction can be taken.
    Free,
    /// The rows of a waiting product are fetched.
    Fetches(Instruction),
    /// The instruction starts; `fetched`: its rows were fetched before.
    Starts {
        instruction: Instruction,
        fetched: bool,
    },
    Refuses,
}

#[derive(Clone, Debug)]
pub(crate) struct Issue {
    config: DesignConfig,
    state: State,
    instruction: Instruction,
    error: u8,
    uses: Uses,
    /// Parts to wait for, one bit each.
    against: u32,
    /// Parts that its rows wait for, if it is a product with rows.
    against_rows: Option<u32>,
    held: [Uses; PARTS.len()],
    /// The last cycle in which a refused instruction still counts as busy.
    refused_in: u64,
    check_cycles: u64,
    /// Counts for the status; malformed ones are counted a cycle after the check.
    pub status: Status,
}

impl Issue {
    pub fn new(config: &DesignConfig) -> Self {
        Self {
            config: config.clone(),
            state: State::Empty,
            instruction: Instruction::Nop,
            error: 0,
            uses: Uses::default(),
            against: 0,
            against_rows: None,
            held: Default::default(),
            refused_in: u64::MAX,
            check_cycles: 4 + u64::from(config.gemv().batch_bits()),
            status: Status::default(),
        }
    }

    /// An instruction is in flight, or a refused one is being counted.
    #[inline]
    pub fn is_busy(&self, cycle: u64) -> bool {
        self.state != State::Empty || self.refused_in == cycle
    }

    #[inline]
    pub fn is_free(&self) -> bool {
        self.state == State::Empty
    }

    /// One cycle. `busy` has a bit for each busy part; `fetching`: rows of a product are being fetched.
    #[inline]
    pub fn step(&mut self, cycle: u64, busy: u32, fetching: bool) -> Event {
        if self.refused_in == cycle {
            self.count_refused();
        }
        match self.state {
            State::Empty => Event::Free,
            State::Checks(at) if cycle < at => Event::Nothing,
            State::Checks(_) if self.error != 0 => {
                (self.state, self.refused_in) = (State::Empty, cycle + 1);
                // The next one can be taken in the next cycle only.
                Event::Refuses
            }
            State::Checks(_) => {
                self.state = State::Waits { clear: false, rows_clear: false, fetched: false };
                Event::Nothing
            }
            State::Waits { clear: true, fetched, .. } => {
                self.start();
                Event::Starts { instruction: self.instruction, fetched }
            }
            State::Waits { clear: false, rows_clear, fetched } => {
                self.state = State::Waits {
                    clear: busy & self.against == 0,
                    rows_clear: self.rows_clear(busy, fetching),
                    fetched: fetched || rows_clear,
                };
                if rows_clear && !fetched { Event::Fetches(self.instruction) } else { Event::Nothing }
            }
        }
    }

    fn rows_clear(&self, busy: u32, fetching: bool) -> bool {
        self.against_rows.is_some_and(|against| busy & against == 0) && !fetching
    }

    /// Whether a product waits whose rows wait only for the rows of the product before.
    #[inline]
    pub fn waits_for_rows(&self, busy: u32) -> bool {
        matches!(self.state, State::Waits { fetched: false, .. })
            && self.against_rows.is_some_and(|against| busy & against == 0)
    }

    fn count_refused(&mut self) {
        let status = &mut self.status;
        status.malformed = status.malformed.wrapping_add(1);
        if status.error == 0 {
            (status.error, status.error_sequence) = (self.error, status.taken.wrapping_sub(1));
        }
    }

    /// Instructions were lost in this cycle; `taken` had been taken before it.
    pub fn overflow(&mut self, taken: u32) {
        if self.status.error == 0 {
            (self.status.error, self.status.error_sequence) = (ErrorCode::QueueFull.number(), taken);
        }
    }

    pub fn take(&mut self, cycle: u64, word: u128) {
        self.state = State::Checks(cycle + self.check_cycles);
        self.status.taken = self.status.taken.wrapping_add(1);
        match decode(word, &self.config) {
            Ok(instruction) => {
                self.error = 0;
                self.instruction = instruction;
                self.uses = Uses::of(&instruction, &self.config);
                self.against = self.find_against();
                self.against_rows = self.find_against_rows();
            }
            Err(malformed) => self.error = malformed.code().number(),
        }
    }

    /// The parts whose present work the instruction has to wait for.
    fn find_against(&self) -> u32 {
        let own = part_of(&self.instruction);
        if matches!(self.instruction, Instruction::Barrier | Instruction::Signal { .. }) {
            return (1 << (HOLDS + 1)) - 1;
        }
        let shares = |part: usize| match own {
            Some(LOAD | LIST) => part == LOAD || part == LIST,
            Some(PRODUCT) => part == PRODUCT || part == ROUND,
            Some(ROUND) => part == PRODUCT || part == ROUND || part == ACTIVATION,
            Some(ACTIVATION) => part == ROUND || part == ACTIVATION,
            own => own == Some(part),
        };
        let Uses { reads, reads_too, writes, list, selects } = &self.uses;
        let conflicts = |part: usize| {
            let held = &self.held[part];
            let lists = meet(list, &held.list) && (own == Some(LIST) || part == LIST);
            // One of the two writes the list memory at a time.
            let writes_lists = *selects && part == LIST || own == Some(LIST) && held.selects;
            shares(part)
                || writes_lists
                || lists
                || meet(writes, &held.reads)
                || meet(writes, &held.reads_too)
                || meet(writes, &held.writes)
                || meet(reads, &held.writes)
                || meet(reads_too, &held.writes)
        };
        (0..PARTS.len()).filter(|part| conflicts(*part)).fold(0, |mask, part| mask | 1 << part)
    }

    /// The parts that a product's rows wait for: the parts of the product itself, except roundings and an earlier
    /// product (unless it is a `select`), whose rows go first.
    fn find_against_rows(&self) -> Option<u32> {
        let fetches = match self.instruction {
            Instruction::Select { .. } => false,
            instruction => part_of(&instruction) == Some(PRODUCT),
        };
        let passed = if self.held[PRODUCT].selects { 1 << ROUND } else { 1 << ROUND | 1 << PRODUCT };
        fetches.then_some(self.against & !passed)
    }

    fn start(&mut self) {
        self.state = State::Empty;
        self.status.started = self.status.started.wrapping_add(1);
        if let Instruction::Signal { tag } = self.instruction {
            self.status.tag = tag;
            self.status.signals = self.status.signals.wrapping_add(1);
        }
        if let Some(part) = part_of(&self.instruction) {
            self.held[part] = self.uses.clone();
        }
    }

    /// The first cycle from `cycle` in which something happens if the parts stay as they are.
    pub fn next(&self, cycle: u64, busy: u32, fetching: bool) -> u64 {
        if self.refused_in >= cycle && self.refused_in != u64::MAX {
            return self.refused_in;
        }
        match self.state {
            State::Empty => u64::MAX,
            State::Checks(at) => at,
            State::Waits { clear: true, .. } => cycle,
            State::Waits { .. } if busy & self.against == 0 => cycle,
            State::Waits { fetched: false, rows_clear, .. }
                if rows_clear || self.rows_clear(busy, fetching) =>
            {
                cycle
            }
            State::Waits { .. } => u64::MAX,
        }
    }
}
