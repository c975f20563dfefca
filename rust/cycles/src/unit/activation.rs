//! The activation unit: words read, elements in flight, results written (docs/timing.md, "Activation unit").

use crate::shape::Shape;
use ndp_isa::Activation as Operation;

/// Steps from an element that leaves to its result, by class: exponentials, sums and products, choices.
const EXPONENTIAL: u32 = 10;
const ARITHMETIC: u32 = 5;
const CHOICE: u32 = 4;
/// Cycles of the function unit, and of an exponential shared by lanes, from a value to its result.
const FUNCTION: u32 = 10;
/// Steps from an element that leaves to its term at the adder tree.
const TERM: u32 = 7;
/// Cycles from the trees to a vector's maximum, and to its sum; the ranks are joined in the first one.
const ARGUED: u32 = 5;
const SUMMED: u32 = 3;
/// Cycles of a division after the one that finds an operand.
const DIVISION: u32 = 17;

/// Passes: the single one of other operations, and the three of a softmax.
const SINGLE: u32 = 0;
const MAXIMA: u32 = 1;
const EXPONENTIALS: u32 = 2;
const PRODUCTS: u32 = 3;

/// A word on its way to the lanes.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    vector: u32,
    /// The last word of its vector.
    last: bool,
}

/// A flag that holds "in a cycle" is in a register in that cycle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activation {
    /// The command comes in this cycle.
    starts: bool,
    running: bool,
    begun: bool,
    softmax: bool,
    two: bool,
    /// A word's elements go round through the function unit before they leave.
    function: bool,
    /// Elements of exponentials do so too, through a unit that the lanes of a rank share.
    shared: bool,
    /// Steps of an element, except in a softmax.
    latency: u32,
    /// Words of a vector, and vectors.
    words: u32,
    vectors: u32,
    pass: u32,
    reading: bool,
    wants_other: bool,
    coming: bool,
    coming_other: bool,
    at_word: u32,
    at_vector: u32,
    fetched: Word,
    now: Word,
    left: u32,
    element: u32,
    /// Cycles for which the word in the lanes still goes round.
    around: u32,
    /// Bit `i`: an element left `i + 1` steps ago; in `ends`, it was its vector's last.
    way: u32,
    ends: u32,
    /// Bit `i`: a vector's last keys, or terms, came to the trees `i + 1` cycles ago.
    key_ends: u64,
    term_ends: u64,
    argued: u32,
    summed: u32,
    divided: u32,
    division_left: u32,
    /// The maximum, or reciprocal, of the next element's vector has been looked up.
    knows_maximum: bool,
    knows_reciprocal: bool,
}

impl Activation {
    /// Starts in the next cycle: `vectors` vectors of `words` words.
    pub fn start(&mut self, operation: Operation, words: u32, vectors: u32, shape: &Shape) {
        self.starts = true;
        self.shared = shape.shares_exponential;
        self.softmax = operation == Operation::Softmax;
        self.two = operation.other().is_some();
        self.function = match operation {
            Operation::Silu | Operation::Gelu | Operation::Div { .. } => true,
            Operation::Exp => self.shared,
            _ => false,
        };
        self.latency = match operation {
            // An element that has gone round leaves as a choice does.
            _ if self.function => CHOICE,
            Operation::Exp | Operation::Softmax => EXPONENTIAL,
            Operation::Relu | Operation::Max { .. } => CHOICE,
            _ => ARITHMETIC,
        };
        (self.words, self.vectors) = (words, vectors);
    }

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.starts || self.running
    }

    fn latency(&self) -> u32 {
        match self.pass {
            MAXIMA => CHOICE,
            EXPONENTIALS if !self.shared => EXPONENTIAL,
            EXPONENTIALS => CHOICE,
            PRODUCTS => ARITHMETIC,
            _ => self.latency,
        }
    }

    /// Results are written in this cycle; `advance`: no sums are.
    #[inline]
    pub fn writes(&self, advance: bool) -> bool {
        self.running && advance && self.pass != MAXIMA && self.way >> (self.latency() - 1) & 1 == 1
    }

    fn leaves(&self, advance: bool) -> bool {
        let ready = match self.pass {
            EXPONENTIALS if !self.shared => self.knows_maximum,
            PRODUCTS => self.knows_reciprocal,
            _ => self.around == 0,
        };
        advance && self.left > 0 && ready
    }

    /// The word in the lanes goes round in this cycle.
    fn goes_round(&self) -> bool {
        self.around > 0 && (self.pass != EXPONENTIALS || self.knows_maximum)
    }

    fn first_read(&self, remains: u32, soon: bool) -> bool {
        let waits = self.coming || self.coming_other || self.wants_other || self.begun;
        self.reading && !waits && (remains == 0 || remains == 1 && soon)
    }

    /// A word is requested in this cycle. `advance`, `soon`: no sums are written in this cycle, in the next one.
    #[inline]
    pub fn asks(&self, advance: bool, soon: bool) -> bool {
        let remains = self.left - u32::from(self.leaves(advance));
        self.running && (self.wants_other || self.first_read(remains, soon))
    }

    /// End of a cycle; `granted`: the requested word is read.
    #[inline]
    pub fn step(&mut self, advance: bool, soon: bool, granted: bool, shape: &Shape) {
        if !self.is_busy() {
            return;
        }
        let leaves = self.leaves(advance);
        let remains = self.left - u32::from(leaves);
        let first_granted = granted && !self.wants_other && self.first_read(remains, soon);
        let other_granted = granted && self.wants_other;
        let two = self.two && !self.softmax;
        let (complete, taken) =
            if two { (other_granted, self.coming_other) } else { (first_granted, self.coming) };
        let vector_ends = leaves && self.now.last && self.element + 1 == shape.element_lanes;
        let latency = self.latency();

        let still = !(self.reading || self.coming || self.coming_other || self.wants_other || self.begun);
        let done = self.running && still && self.left == 0 && self.way == 0;
        let again = done && (self.pass == MAXIMA || self.pass == EXPONENTIALS);

        let goes_round = self.goes_round();
        // Cycles of a vector's last terms on their way to the sum: one by one, or through the adder trees.
        let term_ends = match self.shared {
            true => goes_round && self.pass == EXPONENTIALS && self.now.last && self.around == FUNCTION + 1,
            false => advance && self.pass == EXPONENTIALS && self.ends >> (TERM - 1) & 1 == 1,
        };
        self.know(vector_ends, term_ends, taken, shape);

        if advance {
            let mask = (1 << latency) - 1;
            self.way = (self.way << 1 | u32::from(leaves)) & mask;
            self.ends = (self.ends << 1 | u32::from(vector_ends)) & mask;
        }
        self.element = match (self.begun, leaves) {
            (true, _) => 0,
            (false, true) => (self.element + 1) % shape.element_lanes,
            (false, false) => self.element,
        };
        self.left = if taken { shape.element_lanes } else { remains };
        self.around -= u32::from(goes_round);
        if taken {
            self.now = self.fetched;
            let round = self.function || self.shared && self.pass == EXPONENTIALS;
            self.around = if round { shape.around + FUNCTION } else { 0 };
        }

        let last_word = self.at_word + 1 == self.words;
        let last = last_word && self.at_vector + 1 == self.vectors;
        if complete {
            self.fetched = Word { vector: self.at_vector, last: last_word };
            (self.at_word, self.at_vector) =
                if last_word { (0, self.at_vector + 1) } else { (self.at_word + 1, self.at_vector) };
        }
        if self.begun {
            (self.at_word, self.at_vector) = (0, 0);
        }
        self.coming = first_granted;
        self.coming_other = other_granted;
        self.wants_other = first_granted && two || self.wants_other && !granted;

        let begins = self.starts || again;
        self.reading = begins || self.reading && !(complete && last);
        self.running = self.starts || self.running && (!done || again);
        self.pass = match (self.starts, again) {
            (true, _) => u32::from(self.softmax) * MAXIMA + u32::from(!self.softmax) * SINGLE,
            (false, true) => self.pass + 1,
            (false, false) => self.pass,
        };
        (self.begun, self.starts) = (begins, false);
    }

    fn know(&mut self, vector_ends: bool, term_ends: bool, taken: bool, shape: &Shape) {
        let vector = if taken { self.fetched.vector } else { self.now.vector };
        self.knows_maximum = vector < self.argued;
        self.knows_reciprocal = vector < self.divided;
        let trees = 1 + shape.lane_tree_cycles;
        let key_done = self.key_ends >> (trees + ARGUED - 1) & 1 == 1;
        let to_sum = if self.shared { TERM + 1 } else { trees };
        let term_done = self.term_ends >> (to_sum + SUMMED - 1) & 1 == 1;
        self.key_ends = self.key_ends << 1 | u64::from(vector_ends && self.pass == MAXIMA);
        self.term_ends = self.term_ends << 1 | u64::from(term_ends);
        let begins = self.division_left == 0 && self.divided != self.summed;
        self.divided += u32::from(self.division_left == 1);
        self.division_left = if begins { DIVISION } else { self.division_left.saturating_sub(1) };
        self.argued += u32::from(key_done);
        self.summed += u32::from(term_done);
        if self.starts {
            (self.argued, self.summed, self.divided, self.division_left) = (0, 0, 0, 0);
        }
    }
}
