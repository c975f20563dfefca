//! Drives the ports of a multiplier unit, and compares each digit, flag and sum with sums of products in 128-bit integers.

use super::activation_driver::recoded;
use super::exact::{below, digit, dot};
use ndp_config::{DesignConfig, GemvConfig, Multiplier};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{InputPort, Model, OpenOptions, OutputPort, Rtl, rtl};
use std::error::Error;

/// Keys of the units, except the keys of the paper's design.
pub const UNITS: [&str; 4] = [
    "",
    "multiplier = \"digit-serial\"\nacc_bits = 99\nacc_segments = 3",
    "multiplier = \"shared-parallel\"",
    "multiplier = \"shared-parallel\"\nacc_bits = 99\nacc_segments = 3",
];

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Finite, with special ones among them.
    Any,
    Finite,
    /// Weights below the smallest normal number.
    Subnormal,
    /// The same products with both signs, in another order, and a small one.
    Cancelling,
    /// All of the largest magnitude, so that the carries of the sum go all the way.
    Largest,
    /// A minus one carries through all digits; products of zero, even a negative one, must not.
    Sparse,
}

pub const KINDS: [Kind; 6] =
    [Kind::Any, Kind::Finite, Kind::Subnormal, Kind::Cancelling, Kind::Largest, Kind::Sparse];

#[derive(Clone)]
pub struct Window {
    pub w: Vec<u16>,
    pub x: Vec<u16>,
    /// All lanes use the first activation, and each product is added to a sum of its own.
    pub separate: bool,
    /// No job: the ports have noise, and the unit's contents do not matter.
    pub idle: bool,
}

impl Window {
    pub fn draw(kind: Kind, lanes: usize, random: &mut SplitMix64) -> Self {
        let mut finite = || loop {
            let bits = random.next_u64() as u16;
            if bits & 0x7C00 != 0x7C00 {
                break bits;
            }
        };
        let mut w: Vec<u16> = (0..lanes).map(|_| finite()).collect();
        let mut x: Vec<u16> = (0..lanes).map(|_| finite()).collect();
        match kind {
            Kind::Any => {
                let specials = [0x7C00, 0xFC00, 0x7C01, 0xFE00, 0x0000, 0x8000, 0x7BFF, 0x0001];
                let place = below(random, lanes);
                w[place] = specials[below(random, specials.len())];
                let place = below(random, lanes);
                x[place] = specials[below(random, specials.len())];
            }
            Kind::Finite => {}
            Kind::Subnormal => w.iter_mut().for_each(|w| *w &= 0x87FF),
            Kind::Cancelling => {
                for i in 0..lanes / 2 {
                    (w[lanes - 1 - i], x[lanes - 1 - i]) = (w[i] ^ 0x8000, x[i]);
                }
                (w[0], x[lanes - 1]) = (w[0] & 0x83FF, x[lanes - 1] & 0x83FF);
            }
            Kind::Largest => {
                let signs = random.next_u64() as u16;
                w.fill(0x7BFF);
                x.iter_mut().enumerate().for_each(|(i, x)| *x = 0x7BFF | (signs >> i & 1) << 15);
            }
            Kind::Sparse => {
                let keep = random.next_u64();
                w.iter_mut()
                    .enumerate()
                    .for_each(|(i, w)| *w = if keep >> i & 1 == 1 { *w & 0x8001 } else { 0x8000 });
                x.iter_mut().for_each(|x| *x = *x & 0x8000 | 1);
            }
        }
        Self { w, x, separate: false, idle: false }
    }

    pub fn separate(self) -> Self {
        Self { separate: true, ..self }
    }
}

/// A kept sum: digits, pending carries, flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept(pub u128);

impl Kept {
    /// The number modulo `2^acc_bits`, including carries.
    pub fn value(self, config: &GemvConfig) -> u128 {
        let (bits, digit_bits) = (config.acc_bits(), config.digit_bits());
        let carry = |k: u32| (self.0 >> (bits + k) & 1) << ((k + 1) * digit_bits);
        let carries: u128 = (0..config.acc_segments() - 1).map(carry).sum();
        (self.0 + carries) % (1 << bits)
    }

    pub fn flags(self, config: &GemvConfig) -> u8 {
        (self.0 >> (config.acc_bits() + config.acc_segments() - 1)) as u8
    }
}

/// Ports of the register enables before products leave.
#[derive(Clone, Copy)]
enum Moves {
    /// Lanes and their delay line.
    Serial {
        lanes: InputPort,
        line: InputPort,
    },
    Parallel {
        operands: InputPort,
    },
}

pub struct Bench {
    pub model: Model,
    phase: InputPort,
    w: InputPort,
    x: InputPort,
    broadcast: InputPort,
    scalar: InputPort,
    separate: InputPort,
    moves: Moves,
    term_moves: InputPort,
    sum_moves: InputPort,
    sum_in: InputPort,
    pub digit: OutputPort,
    pub flags: OutputPort,
    /// The sum of a product that is added to one of its own.
    pub sum_out: OutputPort,
    /// The sums of the lanes, kept as the buffer would.
    pub sums: Vec<Kept>,
    pub config: GemvConfig,
    noise: SplitMix64,
}

#[derive(Debug, PartialEq)]
pub struct Mismatch {
    pub window: usize,
    pub what: String,
    pub expected: u128,
    pub actual: u128,
}

/// A bit that is flipped in the unit's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Window, digit, bit.
    Digit(usize, u32, u32),
    /// Window, bit.
    Flag(usize, u32),
    /// Window, lane, bit.
    Sum(usize, usize, u32),
}

impl Bench {
    pub fn of_each_unit(seed: u64) -> Result<Vec<Self>, Box<dyn Error>> {
        UNITS.iter().map(|keys| Self::open(keys, seed)).collect()
    }

    pub fn open(keys: &str, seed: u64) -> Result<Self, Box<dyn Error>> {
        let config = DesignConfig::from_toml(&format!("name = \"unit\"\n[gemv]\n{keys}\n"))?;
        Self::of_rtl(&rtl(&config, "multiplier_unit")?, config.gemv().clone(), seed)
    }

    pub fn of_rtl(rtl: &Rtl, config: GemvConfig, seed: u64) -> Result<Self, Box<dyn Error>> {
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let model = Model::open(rtl, &options)?;
        let moves = match config.multiplier() {
            Multiplier::BitSerial | Multiplier::DigitSerial => Moves::Serial {
                lanes: model.input_of_width("lanes_move_i", config.lanes())?,
                line: model.input_of_width("line_moves_i", 1)?,
            },
            Multiplier::SharedParallel => {
                Moves::Parallel { operands: model.input_of_width("operands_move_i", 1)? }
            }
        };
        let operand_bits = 16 * config.lanes();
        let sum_bits = config.acc_bits() + config.acc_segments() - 1 + 3;
        let mut noise = SplitMix64::new(seed);
        let mut word = || u128::from(noise.next_u64()) << 64 | u128::from(noise.next_u64());
        Ok(Self {
            // Any word is a sum, with any carries; most are kept without flags so that their digits count.
            sums: (0..config.lanes()).map(|_| Kept(word() % (1 << (sum_bits - 3)))).collect(),
            broadcast: model.input_of_width("broadcast_i", 1)?,
            scalar: model.input_of_width("scalar_i", 16)?,
            separate: model.input_of_width("separate_i", 1)?,
            moves,
            term_moves: model.input_of_width("term_moves_i", 1)?,
            sum_moves: model.input_of_width("sum_moves_i", 1)?,
            sum_in: model.input_of_width("sum_i", sum_bits)?,
            sum_out: model.output_of_width("sum_o", sum_bits)?,
            phase: model.input_of_width("phase_i", config.window_cycles())?,
            w: model.input_of_width("w_i", operand_bits)?,
            x: model.input_of_width("x_i", operand_bits)?,
            digit: model.output_of_width("digit_o", config.digit_bits())?,
            flags: model.output_of_width("flags_o", 3)?,
            config,
            model,
            noise,
        })
    }

    fn word(&mut self) -> u128 {
        u128::from(self.noise.next_u64()) << 64 | u128::from(self.noise.next_u64())
    }

    /// Noise with `bits` as element `lane`.
    fn operand(&mut self, lane: usize, bits: Option<u16>) -> u128 {
        let noise = self.word();
        let Some(bits) = bits else { return noise };
        let at = 16 * lane;
        noise & !(0xFFFF << at) | u128::from(recoded(bits)) << at
    }

    /// Puts the operands of a phase on the ports; operands of lane `i` may come in the phase before phase `i`.
    pub fn load(&mut self, window: Option<&Window>, phase: usize) {
        let lane = (phase + self.lead()) % self.config.window_cycles() as usize;
        let w = self.operand(lane, window.and_then(|n| n.w.get(lane).copied()));
        let separate = window.is_some_and(|n| n.separate);
        let x = match window {
            Some(n) if !n.separate => n.x.get(lane).copied(),
            _ => None,
        };
        let x = self.operand(lane, x);
        let scalar = match window {
            Some(n) if separate => recoded(n.x[0]),
            _ => self.noise.next_u64() as u16,
        };
        self.model.set(self.phase, 1 << phase);
        self.model.set_u128(self.w, w);
        self.model.set_u128(self.x, x);
        // In phases without an operand it does not matter.
        let broadcast =
            if lane < self.config.lanes() as usize { separate.into() } else { self.noise.next_u64() & 1 };
        self.model.set(self.broadcast, broadcast);
        self.model.set(self.scalar, scalar.into());
    }

    fn product_windows(&self) -> usize {
        matches!(self.moves, Moves::Serial { .. }).into()
    }

    /// Cycles by which operands precede their phase.
    fn lead(&self) -> usize {
        1 - self.product_windows()
    }

    /// Sets the enables of a phase: whether there is a job whose operands come, and jobs of this window and of the two
    /// before it.
    pub fn set_moves(&mut self, comes: bool, jobs: [bool; 3], phase: usize) {
        let (leaves, left) = (jobs[self.product_windows()], jobs[self.product_windows() + 1]);
        match self.moves {
            Moves::Serial { lanes, line } => {
                let lane = |lane: usize| u64::from(if lane <= phase { comes } else { leaves }) << lane;
                self.model.set(lanes, (0..self.config.lanes() as usize).map(lane).sum());
                self.model.set(line, (comes || leaves).into());
            }
            Moves::Parallel { operands } => self.model.set(operands, comes.into()),
        }
        self.model.set(self.term_moves, leaves.into());
        self.model.set(self.sum_moves, if phase == 0 { left } else { leaves }.into());
    }

    /// Gives the sum of the product that is added in this phase; returns the sum's lane.
    pub fn give_sum(&mut self, leaving: Option<&Window>, phase: usize) -> Option<usize> {
        let lane = phase.checked_sub(1).filter(|lane| *lane < self.sums.len());
        let lane = lane.filter(|_| leaving.is_some_and(|n| n.separate));
        let noise = self.word() % (1 << self.sum_in.width());
        self.model.set(self.separate, lane.is_some().into());
        self.model.set_u128(self.sum_in, lane.map_or(noise, |lane| self.sums[lane].0));
        lane
    }

    fn take_sum(&mut self, lane: usize, window: &Window, flip: u128) -> Result<(), (u128, u128, String)> {
        let kept = Kept(self.model.get_u128(self.sum_out) ^ flip);
        let before = std::mem::replace(&mut self.sums[lane], kept);
        let (product, flags) = dot(&[window.w[lane]], &[window.x[0]]);
        let flags = before.flags(&self.config) | flags;
        if kept.flags(&self.config) != flags {
            let (expected, actual) = (flags.into(), kept.flags(&self.config).into());
            return Err((expected, actual, format!("flags of sum {lane}")));
        }
        let modulus = 1 << self.config.acc_bits();
        let expected =
            (before.value(&self.config) as i128 + product).rem_euclid(modulus as i128) as u128 % modulus;
        let actual = kept.value(&self.config);
        // With a flag the sum is irrelevant, and a fresh one takes its place.
        if flags == 0 && actual != expected {
            return Err((expected, actual, format!("sum {lane}")));
        }
        if flags != 0 && self.noise.next_u64().is_multiple_of(4) {
            self.sums[lane] = Kept(self.word() % (1 << (self.sum_in.width() - 3)));
        }
        Ok(())
    }

    /// Compares the outputs due for a window's sum, and returns the first difference.
    fn compare(&self, index: usize, window: &Window, k: u32, fault: Option<Fault>) -> Option<Mismatch> {
        let segments = self.config.acc_segments();
        let (sum, flags) = dot(&window.w, &window.x);
        let flip = |at: Fault, bit: u32| u64::from(fault == Some(at)) << bit;
        let injected: u64 = (0..self.config.digit_bits()).map(|b| flip(Fault::Digit(index, k, b), b)).sum();
        let actual = self.model.get(self.digit) ^ injected;
        let expected = digit(sum, k, self.config.digit_bits());
        let differs = |what: String, expected: u64, actual: u64| {
            Some(Mismatch { window: index, what, expected: expected.into(), actual: actual.into() })
        };
        if flags == 0 && actual != expected {
            return differs(format!("digit {k}"), expected, actual);
        }
        let injected: u64 = (0..3).map(|b| flip(Fault::Flag(index, b), b)).sum();
        let actual = self.model.get(self.flags) ^ injected;
        if k + 1 == segments && actual != u64::from(flags) {
            return differs("flags".into(), flags.into(), actual);
        }
        None
    }

    /// Runs the windows, one after another, and returns the first difference.
    pub fn run(&mut self, windows: &[Window], fault: Option<Fault>) -> Option<Mismatch> {
        let (period, lanes) = (self.config.window_cycles() as usize, self.config.lanes() as usize);
        let segments = self.config.acc_segments();
        // The digits of a window follow its products.
        let first_digit = self.product_windows() * period + lanes + 1;
        let total = windows.len() * period + first_digit + segments as usize;
        let job_of = |index: usize| windows.get(index).filter(|window| !window.idle);
        for phase in period - self.lead()..period {
            self.load(job_of(0), phase);
            self.set_moves(job_of(0).is_some(), [false; 3], phase);
            self.give_sum(None, phase);
            self.model.tick();
        }
        for cycle in 0..total {
            let (index, phase) = (cycle / period, cycle % period);
            let job = |back: usize| index.checked_sub(back).and_then(job_of);
            let coming = job_of((cycle + self.lead()) / period);
            self.load(coming, phase);
            self.set_moves(coming.is_some(), [0, 1, 2].map(|back| job(back).is_some()), phase);
            let leaving = job(self.product_windows());
            let lane = self.give_sum(leaving, phase);
            // The outputs depend on the phase, so they settle before the edge.
            self.model.eval();
            let since = cycle.checked_sub(first_digit);
            let due = since.map(|since| (since / period, (since % period) as u32));
            if let Some((of, k)) = due
                && let Some(window) =
                    windows.get(of).filter(|window| !window.separate && !window.idle && k < segments)
                && let Some(mismatch) = self.compare(of, window, k, fault)
            {
                return Some(mismatch);
            }
            self.model.tick();
            if let (Some(lane), Some(window)) = (lane, leaving) {
                let of_window = index - self.product_windows();
                let flip = match fault {
                    Some(Fault::Sum(at, of, bit)) if (at, of) == (of_window, lane) => 1 << bit,
                    _ => 0,
                };
                if let Err((expected, actual, what)) = self.take_sum(lane, window, flip) {
                    return Some(Mismatch { window: of_window, what, expected, actual });
                }
            }
        }
        None
    }
}

/// One half sums windows, the other keeps sums; in any order, a quarter of the time after gaps.
pub fn any_windows(count: usize, lanes: usize, random: &mut SplitMix64) -> Vec<Window> {
    let mut draw = || {
        let kind = KINDS[below(random, KINDS.len())];
        let window = Window::draw(kind, lanes, random);
        let window = if below(random, 2) == 0 { window } else { window.separate() };
        Window { idle: below(random, 4) == 0, ..window }
    };
    (0..count).map(|_| draw()).collect()
}
