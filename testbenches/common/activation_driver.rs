//! Drives one lane of the activation unit at its ports, and has the contract of softmax for the testbench.
//!
//! Words of recoded FP16 values enter, and elements leave one per step. The driver checks each output after its path's
//! number of steps, whatever stalls and gaps there are; don't-care inputs are noise. The arithmetic is written from
//! `docs/numerics.md`; only the random numbers come from `ndp_numerics`, and the controls from the design.

use super::exact::{below, value};
use ndp_config::DesignConfig;
use ndp_hdl::blocks::front_end::instruction_decoder::ACTIVATION_CONTROLS;
use ndp_numerics::SplitMix64;
use ndp_oracle::ieee::Operation;
use ndp_oracle::is_nan;
use ndp_sim::ffi::{InputPort, Model, OpenOptions, OutputPort, rtl};
use std::error::Error;

/// Steps from an element's leaving to its result, by path.
pub const LATENCY: [usize; 4] = [10, 5, 5, 4];
/// Path through the lane: exponentials.
pub const EXPONENTIAL: usize = 0;
pub const SUM: usize = 1;
pub const PRODUCT: usize = 2;
/// Path of ReLU, maxima and keys.
pub const CHOICE: usize = 3;
/// Steps to the key of a choice.
pub const KEY_LATENCY: usize = 1;
/// Steps to the term of an exponential.
pub const TERM_LATENCY: usize = 8;
/// Steps to an argument and to the mark that spoils a product: they are for the element that left two steps ago.
pub const LATE: usize = 2;

/// Settings for all elements of a run.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub path: usize,
    /// A difference instead of a sum.
    pub subtract: bool,
    /// A maximum instead of ReLU.
    pub max: bool,
    /// The second operands come as words; otherwise each is `scalar_i` while its element leaves.
    pub two: bool,
    /// Exponentials and multiplicands are wide values.
    pub wide: bool,
}

impl Mode {
    /// A path with nothing else set.
    pub fn of(path: usize) -> Self {
        Self { path, subtract: false, max: false, two: false, wide: false }
    }

    /// As the issue stage sets the lane; a wrong control gives a wrong result.
    pub fn of_operation(operation: Operation) -> Self {
        let name = format!("{operation:?}").to_lowercase();
        let sets = |control| {
            ACTIVATION_CONTROLS.iter().any(|(known, controls)| *known == name && controls.contains(&control))
        };
        let path = ["exponential", "sum", "product", "choice"].iter().position(|path| sets(path));
        let path = path.unwrap_or_else(|| panic!("the lane has no path for {name}"));
        Self { subtract: sets("subtract"), max: sets("max"), ..Self::of(path) }
    }
}

/// One element and its operands: bits as the ports take them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Element {
    /// First operand, recoded FP16.
    pub a: u16,
    /// Second operand, recoded FP16.
    pub b: u16,
    /// It counts in maximum and sum.
    pub counts: bool,
    /// It is beyond the vector's end.
    pub blank: bool,
    /// `-Y(m)`, added before the exponential: 43 bits.
    pub argument: u64,
    /// Reciprocal of a sum of exponentials, 17 bits.
    pub reciprocal: u64,
    /// Exponent of `reciprocal`, 7 bits.
    pub scale: u64,
    pub spoilt: bool,
}

/// Outputs for an element: value and, depending on the path, key and mark, or term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Result, recoded FP16 or a wide value.
    pub value: u16,
    /// Order of the element, 0 if it does not count.
    pub key: u16,
    /// It counts, and is NaN or +Inf.
    pub bad: bool,
    /// Exponential in units of 2^-28, 0 if the element does not count.
    pub term: u32,
}

/// Frequency of pauses; 0 for never.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// One cycle in this number is a stall.
    pub stalls: usize,
    /// One chance to take or send in this number is not taken.
    pub gaps: usize,
}

pub const FULL: Pace = Pace { stalls: 0, gaps: 0 };
pub const PACES: [Pace; 4] =
    [FULL, Pace { stalls: 3, gaps: 0 }, Pace { stalls: 0, gaps: 3 }, Pace { stalls: 2, gaps: 2 }];

/// A bit that is flipped in an output.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Value(u32),
    Key(u32),
    /// The mark of NaN and +Inf.
    Bad,
    Term(u32),
}

pub struct Bench {
    pub model: Model,
    pub lanes: usize,
    pub word: InputPort,
    /// Take it as the first operand's.
    pub take: InputPort,
    /// Take it as the second operand's.
    pub take_other: InputPort,
    pub shift: InputPort,
    pub advance: InputPort,
    path: InputPort,
    subtract: InputPort,
    max: InputPort,
    two: InputPort,
    /// Second operand of all elements.
    pub scalar: InputPort,
    wide: InputPort,
    argument: InputPort,
    reciprocal: InputPort,
    scale: InputPort,
    /// The product of the element two steps ago is NaN.
    pub spoilt: InputPort,
    counts: InputPort,
    /// The element is beyond the vector's end.
    pub blank: InputPort,
    /// Inputs after the elements of each operand.
    pub chain: [InputPort; 2],
    /// The element of each operand that leaves.
    pub chained: [OutputPort; 2],
    pub value: OutputPort,
    key: OutputPort,
    bad: OutputPort,
    term: OutputPort,
    /// Noise for unused ports.
    pub noise: SplitMix64,
    seed: u64,
    /// The element whose output is changed.
    pub fault: Option<(usize, Fault)>,
}

impl Bench {
    /// The lane of `hermes`, with random contents.
    pub fn open(seed: u64) -> Result<Self, Box<dyn Error>> {
        let lanes = DesignConfig::preset("hermes")?.gemv().lanes();
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let model = Model::open(&rtl(&DesignConfig::preset("hermes")?, "activation_lane")?, &options)?;
        let input = |name: &str, bits| model.input_of_width(&format!("{name}_i"), bits);
        Ok(Self {
            word: input("word", 16 * lanes)?,
            take: input("take", 1)?,
            take_other: input("take_other", 1)?,
            shift: input("shift", 1)?,
            advance: input("advance", 1)?,
            path: input("path", 4)?,
            subtract: input("subtract", 1)?,
            max: input("max", 1)?,
            two: input("two", 1)?,
            scalar: input("scalar", 16)?,
            wide: input("wide", 1)?,
            argument: input("argument", 43)?,
            reciprocal: input("reciprocal", 17)?,
            scale: input("scale", 7)?,
            spoilt: input("spoilt", 1)?,
            counts: input("counts", 1)?,
            blank: input("blank", 1)?,
            chain: [input("chain", 16)?, input("chain_other", 16)?],
            chained: [model.output_of_width("chain_o", 16)?, model.output_of_width("chain_other_o", 16)?],
            value: model.output_of_width("value_o", 16)?,
            key: model.output_of_width("key_o", 16)?,
            bad: model.output_of_width("bad_o", 1)?,
            term: model.output_of_width("term_o", 29)?,
            lanes: lanes as usize,
            model,
            noise: SplitMix64::new(seed),
            seed,
            fault: None,
        })
    }

    /// Sets the pins that stay constant in a run.
    pub fn set_mode(&mut self, mode: Mode) {
        self.model.set(self.path, 1 << mode.path);
        self.model.set(self.subtract, mode.subtract.into());
        self.model.set(self.max, mode.max.into());
        self.model.set(self.two, mode.two.into());
        self.model.set(self.wide, mode.wide.into());
    }

    fn never(&mut self, one_in: usize) -> bool {
        one_in != 0 && below(&mut self.noise, one_in) == 0
    }

    /// Drives a port, with noise if there is no value.
    fn drive(&mut self, port: InputPort, said: Option<u64>) {
        let noise = self.noise.next_u64() >> (64 - port.width());
        self.model.set(port, said.unwrap_or(noise));
    }

    /// A word of operands, with noise where there are none.
    fn drive_word(&mut self, said: Option<&[Element]>, operand: impl Fn(&Element) -> u16) {
        let mut word = u128::from(self.noise.next_u64()) << 64 | u128::from(self.noise.next_u64());
        for (lane, element) in said.unwrap_or_default().iter().enumerate() {
            word &= !(0xFFFF << (16 * lane));
            word |= u128::from(operand(element)) << (16 * lane);
        }
        self.model.set_u128(self.word, word);
    }

    /// Sends the elements through and returns the outputs for each.
    ///
    /// # Panics
    /// If an output changes in a stall.
    pub fn run(&mut self, mode: Mode, elements: &[Element], pace: Pace) -> Vec<Seen> {
        self.set_mode(mode);
        let words: Vec<&[Element]> = elements.chunks(self.lanes).collect();
        let mut seen = vec![Seen::default(); elements.len()];
        // Words taken, elements in the register and those that left; a word that lacks its second operand.
        let (mut taken, mut held, mut left, mut half) = (0, 0, 0, false);
        // The element that left in each step, the latest first.
        let mut way: Vec<Option<usize>> = vec![None; *LATENCY.iter().max().unwrap_or(&0)];
        let mut arrived = 0;
        while arrived < elements.len() {
            let advance = !self.never(pace.stalls);
            let leaves = advance && held > 0 && !half && !self.never(pace.gaps);
            let going = leaves.then(|| elements[left]);
            let remain = held - usize::from(leaves);
            let take = remain == 0 && !half && taken < words.len() && !self.never(pace.gaps);
            let take_other = half && !self.never(pace.gaps);
            match (take, take_other) {
                (true, _) => self.drive_word(Some(words[taken]), |e| e.a),
                (_, true) => self.drive_word(Some(words[taken - 1]), |e| e.b),
                _ => self.drive_word(None, |e| e.a),
            }
            self.model.set(self.take, take.into());
            self.drive(self.take_other, mode.two.then_some(take_other.into()));
            self.model.set(self.shift, leaves.into());
            self.model.set(self.advance, advance.into());
            self.drive(self.scalar, going.filter(|_| !mode.two).map(|e| e.b.into()));
            self.drive(self.reciprocal, going.map(|e| e.reciprocal));
            self.drive(self.scale, going.map(|e| e.scale));
            self.drive(self.counts, going.map(|e| e.counts.into()));
            self.drive(self.blank, going.map(|e| e.blank.into()));
            let late = way[LATE - 1].filter(|_| advance).map(|index| elements[index]);
            // The inputs after the elements must not affect the elements.
            self.chain.into_iter().for_each(|port| self.drive(port, None));
            self.drive(self.argument, late.map(|e| e.argument));
            self.drive(self.spoilt, late.map(|e| e.spoilt.into()));
            self.model.tick();

            if advance {
                way.rotate_right(1);
                way[0] = leaves.then_some(left);
            }
            left += usize::from(leaves);
            held = if take { words[taken].len() } else { remain };
            taken += usize::from(take);
            half = (take && mode.two) || (half && !take_other);
            self.look(mode, &way, &mut seen, advance);
            arrived += usize::from(advance && way[LATENCY[mode.path] - 1].is_some());
        }
        seen
    }

    /// Records the outputs for the elements that are due; in a stall they must stay.
    fn look(&mut self, mode: Mode, way: &[Option<usize>], seen: &mut [Seen], fresh: bool) {
        let due = |latency: usize| way[latency - 1];
        let injected = |index: usize| self.fault.filter(|(at, _)| *at == index).map(|(_, fault)| fault);
        let mut note = |index: usize, change: &dyn Fn(&mut Seen)| {
            let mut now = seen[index];
            change(&mut now);
            assert!(fresh || now == seen[index], "seed {:#x}: element {index} changes in a stall", self.seed);
            seen[index] = now;
        };
        if let Some(index) = due(LATENCY[mode.path]) {
            let flip = if let Some(Fault::Value(bit)) = injected(index) { 1 << bit } else { 0 };
            note(index, &|seen| seen.value = self.model.get(self.value) as u16 ^ flip);
        }
        if let Some(index) = due(KEY_LATENCY).filter(|_| mode.path == CHOICE) {
            let flip = if let Some(Fault::Key(bit)) = injected(index) { 1 << bit } else { 0 };
            let flip_bad = matches!(injected(index), Some(Fault::Bad));
            note(index, &|seen| {
                seen.key = self.model.get(self.key) as u16 ^ flip;
                seen.bad = (self.model.get(self.bad) == 1) ^ flip_bad;
            });
        }
        if let Some(index) = due(TERM_LATENCY).filter(|_| mode.path == EXPONENTIAL) {
            let flip = if let Some(Fault::Term(bit)) = injected(index) { 1 << bit } else { 0 };
            note(index, &|seen| seen.term = self.model.get(self.term) as u32 ^ flip);
        }
    }

    /// [`Bench::run`], and the first wrong element as a message.
    pub fn check(
        &mut self,
        mode: Mode,
        elements: &[Element],
        pace: Pace,
        expected: impl Fn(usize) -> u16,
    ) -> Result<(), String> {
        let seen = self.run(mode, elements, pace);
        let wrong = (0..elements.len()).find(|&index| seen[index].value != expected(index));
        wrong.map_or(Ok(()), |index| {
            let (actual, expected) = (seen[index].value, expected(index));
            let seed = self.seed;
            Err(format!(
                "seed {seed:#x}, {mode:?}, {pace:?}: element {index}, {:04x?}: recoded {actual:#06x}, \
                 not {expected:#06x}",
                elements[index]
            ))
        })
    }
}

/// The bits in which the buffers hold a value: an infinity has fraction 0x200, a NaN fraction 0.
pub fn recoded(bits: u16) -> u16 {
    match bits & 0x7FFF {
        0x7C00 => bits | 0x0200,
        special if special > 0x7C00 => bits & 0xFC00,
        _ => bits,
    }
}

pub fn element(a: u16, b: u16) -> Element {
    Element { a: recoded(a), b: recoded(b), ..Element::default() }
}

/// All numbers with each of the scalars, an element in every cycle: the lane at its fastest. Returns the number of
/// compared results. Result `fault` is changed, and the comparison has to see it.
pub fn all_with(operation: Operation, scalars: &[u16], fault: Option<u64>) -> Result<u64, Box<dyn Error>> {
    const ALL: u64 = 1 << 16;
    let mut bench = Bench::open(10)?;
    let (lanes, latency) = (bench.lanes as u64, LATENCY[Mode::of_operation(operation).path] as u64);
    bench.set_mode(Mode::of_operation(operation));
    bench.model.set(bench.blank, 0);
    bench.model.set(bench.spoilt, 0);
    bench.model.set(bench.advance, 1);
    bench.model.set(bench.shift, 1);
    let at = |index: u64| ((index % ALL) as u16, scalars[(index / ALL) as usize]);
    let (count, mut compared) = (ALL * scalars.len() as u64, 0);
    // Element n leaves in cycle n + 1: the first word is taken in cycle 0, each other one when the last element leaves.
    for cycle in 0..count + latency {
        if cycle % lanes == 0 {
            let word =
                (0..lanes).map(|lane| u128::from(recoded(at((cycle + lane) % count).0)) << (16 * lane));
            bench.model.set_u128(bench.word, word.sum());
            bench.model.set(bench.take, 1);
        } else if cycle % lanes == 1 {
            bench.model.set(bench.take, 0);
        }
        if cycle % ALL == 1 && cycle < count {
            bench.model.set(bench.scalar, recoded(at(cycle - 1).1).into());
        }
        bench.model.tick();
        if cycle >= latency {
            let index = cycle - latency;
            let ((a, b), mut actual) = (at(index), bench.model.get(bench.value) as u16);
            if fault == Some(index) {
                actual ^= 1;
            }
            let expected = recoded(operation.result_by_f64(a, b));
            if actual != expected {
                let message =
                    format!("{operation:?}({a:#06x}, {b:#06x}): recoded {actual:#06x}, not {expected:#06x}");
                return Err(message.into());
            }
            compared += 1;
        }
        if cycle % (ALL * 1024) == 0 && cycle > 0 {
            eprintln!("{operation:?} {:#06x}..: {:.1} %", scalars[0], 100.0 * cycle as f64 / count as f64);
        }
    }
    assert_eq!(compared, count);
    Ok(compared)
}

/// `Y(a)` of the contract for a finite number.
pub fn y(a: u16) -> i64 {
    let (value, log2_e) = (value(a), 48_408_813);
    let magnitude = ((value.abs() * log2_e) >> 25) as i64;
    if value < 0 { -magnitude } else { magnitude }
}

/// `-Y(m)` as the port takes it.
pub fn argument(m: u16) -> u64 {
    -y(m) as u64 & ((1 << 43) - 1)
}

/// The contract's parabolas. No coefficient is so near to a tie that the last bits of `exp` could matter.
pub fn parabolas() -> Vec<[i64; 3]> {
    let g = |halves: i32| (f64::from(halves) / 128.0 * std::f64::consts::LN_2).exp() * f64::from(1 << 24);
    let of = |i: i32| {
        let (g0, g1, g2) = (g(2 * i), g(2 * i + 1), g(2 * i + 2));
        [g0, -3.0 * g0 + 4.0 * g1 - g2, 2.0 * g0 - 4.0 * g1 + 2.0 * g2].map(|c| c.round() as i64)
    };
    (0..64).map(of).collect()
}

/// `(r, k)` of the contract.
pub fn power(parabolas: &[[i64; 3]], y: i64) -> (i64, i64) {
    let fraction = y.rem_euclid(1 << 24);
    let ([c0, c1, c2], o) = (parabolas[(fraction >> 18) as usize], fraction % (1 << 18));
    (c0 + (((c1 + ((c2 * (o >> 7)) >> 11)) * o) >> 18), y.div_euclid(1 << 24))
}

/// `r` of every fraction of `y`.
pub fn powers() -> Vec<i64> {
    let parabolas = parabolas();
    (0..1 << 24).map(|y| power(&parabolas, y).0).collect()
}

/// The fractions whose `r` is nearly a tie when its last `cut` bits are rounded away.
pub fn near_ties(powers: &[i64], cut: i64) -> Vec<i64> {
    let near = |r: i64| ((r & ((1 << cut) - 1)) - (1 << (cut - 1))).abs() < 1 << (cut / 2 - 4);
    (0..).zip(powers).filter(|(_, r)| near(**r)).map(|(fraction, _)| fraction).collect()
}

/// `E` of the contract.
pub fn term((r, k): (i64, i64)) -> u32 {
    if k < -28 { 0 } else { ((r << 4) >> -k) as u32 }
}

/// `e` of the contract as a wide value: 4 bits of exponent with a bias of 15, 12 of fraction.
pub fn wide((r, k): (i64, i64)) -> u16 {
    let exponent = k.max(-14);
    let cut = exponent - k + 12;
    if cut > 26 {
        return 0;
    }
    let (quotient, rest, half) = (r >> cut, r & ((1 << cut) - 1), 1 << (cut - 1));
    let up = rest > half || (rest == half && quotient % 2 == 1);
    // The leading one of the quotient is the last step of the exponent.
    (((exponent + 14) << 12) + quotient + i64::from(up)) as u16
}

/// The key of a value: above 0, in the order of values.
pub fn key(a: u16) -> u16 {
    let bits = recoded(a);
    if bits >> 15 == 1 { !bits } else { bits | 0x8000 }
}

pub fn number_of(wanted: u16) -> Option<u16> {
    (0..=u16::MAX).find(|&s| !is_nan(s) && key(s) == wanted)
}
