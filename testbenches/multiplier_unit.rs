//! One multiplier unit of the paper's size, with each kind of multiplier, against sums of products in 128-bit integers.
//!
//! Windows follow one another as in the machine; operands are on the ports only in the phase in
//! which the unit may read them, and noise in all others. Random windows have gaps between them, in which the unit stands still as far as
//! it may. Compared are every digit of the exact sum, in its phase (unless a
//! flag makes the sum irrelevant), and the flags; in windows whose products go to sums of their own, each of these sums, which
//! stay outside of the unit with the carries pending in them. Seeds are printed with every failure.

use common::exact::{below, digit, dot};
use common::rtl::{Mutant, design, design_config};
use ndp_config::{DesignConfig, GemvConfig, Multiplier};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{InputPort, Model, Mutation, OpenOptions, OutputPort, Rtl, rtl};
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

/// Keys of the units, but for those of the paper's design.
const UNITS: [&str; 3] = [
    "",
    "multiplier = \"shared-parallel\"",
    "multiplier = \"shared-parallel\"\nacc_bits = 99\nacc_segments = 3",
];

/// Bits by which bit patterns of infinities and NaNs differ from what the recoder hands to the unit.
fn recoded(bits: u16) -> u16 {
    match bits & 0x7FFF {
        0x7C00 => bits | 0x0200,
        special if special > 0x7C00 => bits & 0xFC00,
        _ => bits,
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Any,
    Finite,
    Subnormal,
    Cancelling,
    Largest,
    Sparse,
}

const KINDS: [Kind; 6] =
    [Kind::Any, Kind::Finite, Kind::Subnormal, Kind::Cancelling, Kind::Largest, Kind::Sparse];

/// One window's operands.
#[derive(Clone)]
struct Window {
    w: Vec<u16>,
    x: Vec<u16>,
    /// All lanes use the first activation, and each product is added to a sum of its own.
    separate: bool,
    /// No job: the ports have noise, and whatever the unit holds is of no account.
    idle: bool,
}

impl Window {
    fn draw(kind: Kind, lanes: usize, random: &mut SplitMix64) -> Self {
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
            // The same products with both signs, in another order, and one that is small.
            Kind::Cancelling => {
                for i in 0..lanes / 2 {
                    (w[lanes - 1 - i], x[lanes - 1 - i]) = (w[i] ^ 0x8000, x[i]);
                }
                (w[0], x[lanes - 1]) = (w[0] & 0x83FF, x[lanes - 1] & 0x83FF);
            }
            // All of the largest magnitude, so that the carries of the sum go all the way.
            Kind::Largest => {
                let signs = random.next_u64() as u16;
                w.fill(0x7BFF);
                x.iter_mut().enumerate().for_each(|(i, x)| *x = 0x7BFF | (signs >> i & 1) << 15);
            }
            // A minus one carries through all digits; products of zero, also a negative one, must not.
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

    fn separate(self) -> Self {
        Self { separate: true, ..self }
    }
}

/// A kept sum: digits, pending carries, flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept(u128);

impl Kept {
    /// The number modulo `2^acc_bits`, carries added.
    fn value(self, config: &GemvConfig) -> u128 {
        let (bits, digit_bits) = (config.acc_bits(), config.digit_bits());
        let carry = |k: u32| (self.0 >> (bits + k) & 1) << ((k + 1) * digit_bits);
        let carries: u128 = (0..config.acc_segments() - 1).map(carry).sum();
        (self.0 + carries) % (1 << bits)
    }

    fn flags(self, config: &GemvConfig) -> u8 {
        (self.0 >> (config.acc_bits() + config.acc_segments() - 1)) as u8
    }
}

/// Ports that say what moves before products leave.
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

/// The unit with its ports.
struct Bench {
    model: Model,
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
    digit: OutputPort,
    flags: OutputPort,
    sum_out: OutputPort,
    /// The sums of the lanes, kept as the buffer would.
    sums: Vec<Kept>,
    config: GemvConfig,
    noise: SplitMix64,
}

/// A digit or flag that is not what the sum says.
#[derive(Debug, PartialEq)]
struct Mismatch {
    window: usize,
    what: String,
    expected: u128,
    actual: u128,
}

/// A bit that is flipped in what the unit has put out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Window, digit, bit.
    Digit(usize, u32, u32),
    /// Window, bit.
    Flag(usize, u32),
    /// Window, lane, bit.
    Sum(usize, usize, u32),
}

impl Bench {
    /// A bench for each of [`UNITS`].
    fn of_each_unit(seed: u64) -> Result<Vec<Self>, Box<dyn Error>> {
        UNITS.iter().map(|keys| Self::open(keys, seed)).collect()
    }

    fn open(keys: &str, seed: u64) -> Result<Self, Box<dyn Error>> {
        let config = DesignConfig::from_toml(&format!("name = \"unit\"\n[gemv]\n{keys}\n"))?;
        Self::of_rtl(&rtl(&config, "multiplier_unit")?, config.gemv().clone(), seed)
    }

    fn of_rtl(rtl: &Rtl, config: GemvConfig, seed: u64) -> Result<Self, Box<dyn Error>> {
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let model = Model::open(rtl, &options)?;
        let moves = match config.multiplier() {
            Multiplier::BitSerial => Moves::Serial {
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

    /// Puts the operands of a phase on the ports, those of lane `i` perhaps in the phase before phase `i`.
    fn load(&mut self, window: Option<&Window>, phase: usize) {
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
        // In phases without an operand it is of no account.
        let broadcast =
            if lane < self.config.lanes() as usize { separate.into() } else { self.noise.next_u64() & 1 };
        self.model.set(self.broadcast, broadcast);
        self.model.set(self.scalar, scalar.into());
    }

    /// Windows from operands to products.
    fn product_windows(&self) -> usize {
        matches!(self.moves, Moves::Serial { .. }).into()
    }

    /// Cycles by which operands come before their phase.
    fn lead(&self) -> usize {
        1 - self.product_windows()
    }

    /// Says what moves in a phase of a window: the job whose operands come and those of this window and of the two before it are in work
    /// or not.
    fn set_moves(&mut self, comes: bool, jobs: [bool; 3], phase: usize) {
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
    fn give_sum(&mut self, leaving: Option<&Window>, phase: usize) -> Option<usize> {
        let lane = phase.checked_sub(1).filter(|lane| *lane < self.sums.len());
        let lane = lane.filter(|_| leaving.is_some_and(|n| n.separate));
        let noise = self.word() % (1 << self.sum_in.width());
        self.model.set(self.separate, lane.is_some().into());
        self.model.set_u128(self.sum_in, lane.map_or(noise, |lane| self.sums[lane].0));
        lane
    }

    /// Takes a sum back, a product later.
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

    /// Compares what is due of a window's sum, and returns the first thing that differs.
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

    /// Runs the windows, one after another, and returns the first thing that differs.
    fn run(&mut self, windows: &[Window], fault: Option<Fault>) -> Option<Mismatch> {
        let (period, lanes) = (self.config.window_cycles() as usize, self.config.lanes() as usize);
        let segments = self.config.acc_segments();
        // What is read when: the digits of a window follow its products.
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

#[test]
fn two_hundred_thousand_windows_are_exact() -> Outcome {
    random_windows(0x6d75_6c74, 200_000)
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn fifty_million_windows_are_exact() -> Outcome {
    random_windows(0x6d75_6c75, 50_000_000)
}

/// One half sums windows, the other keeps sums; both follow upon each other in any order, a quarter of the time after gaps.
fn any_windows(count: usize, lanes: usize, random: &mut SplitMix64) -> Vec<Window> {
    let mut draw = || {
        let kind = KINDS[below(random, KINDS.len())];
        let window = Window::draw(kind, lanes, random);
        let window = if below(random, 2) == 0 { window } else { window.separate() };
        Window { idle: below(random, 4) == 0, ..window }
    };
    (0..count).map(|_| draw()).collect()
}

fn random_windows(seed: u64, count: usize) -> Outcome {
    let mut seeds = SplitMix64::new(seed);
    let mut dots = 0;
    while dots < count {
        let seed = seeds.next_u64();
        let mut random = SplitMix64::new(seed);
        for mut bench in Bench::of_each_unit(seed)? {
            let windows = any_windows(5000, bench.config.lanes() as usize, &mut random);
            if let Some(mismatch) = bench.run(&windows, None) {
                let Window { w, x, .. } = &windows[mismatch.window];
                let unit = &bench.config;
                panic!("seed {seed:#x}, {unit:?}: {mismatch:x?}, weights {w:04x?}, activations {x:04x?}");
            }
        }
        dots += 5000;
    }
    Ok(())
}

#[test]
fn every_exponent_lands_in_its_place() -> Outcome {
    // One product per window, in every lane, for each pair of exponents and signs: the aligner alone.
    for mut bench in Bench::of_each_unit(3)? {
        let lanes = bench.config.lanes() as usize;
        let mut windows = Vec::new();
        for lane in 0..lanes {
            for pair in 0..31 * 31 * 4u16 {
                let (signs, exponents) = (pair % 4, pair / 4);
                let mut window =
                    Window { w: vec![0; lanes], x: vec![0; lanes], separate: false, idle: false };
                window.w[lane] = (signs & 1) << 15 | (exponents % 31) << 10 | 0x2A5;
                window.x[lane] = (signs >> 1) << 15 | (exponents / 31) << 10 | 0x3FF;
                windows.push(window);
            }
        }
        assert_eq!(bench.run(&windows, None), None);
    }
    Ok(())
}

#[test]
fn every_pair_of_special_and_ordinary_operands_sets_its_flags() -> Outcome {
    let values = [
        0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
        0x7C01, 0xFC01, 0x7E00, 0xFE00, 0x7FFF, 0xFFFF,
    ];
    for mut bench in Bench::of_each_unit(4)? {
        let lanes = bench.config.lanes() as usize;
        let mut windows = Vec::new();
        for lane in 0..lanes {
            for w in values {
                for x in values {
                    let mut window = Window {
                        w: vec![0x3C00; lanes],
                        x: vec![0xBC00; lanes],
                        separate: false,
                        idle: false,
                    };
                    (window.w[lane], window.x[lane]) = (w, x);
                    windows.push(window);
                }
            }
        }
        assert_eq!(bench.run(&windows, None), None);
    }
    Ok(())
}

#[test]
fn kept_sums_take_products_of_every_exponent() -> Outcome {
    // Sums with random digits and carries, to which each pair of exponents and signs is added in every lane.
    for mut bench in Bench::of_each_unit(5)? {
        let lanes = bench.config.lanes() as usize;
        let mut windows = Vec::new();
        for pair in 0..31 * 31 * 4u16 {
            let (signs, exponents) = (pair % 4, pair / 4);
            let w = vec![(signs & 1) << 15 | (exponents % 31) << 10 | 0x2A5; lanes];
            let x = vec![(signs >> 1) << 15 | (exponents / 31) << 10 | 0x3FF; lanes];
            windows.push(Window { w, x, separate: true, idle: false });
        }
        assert_eq!(bench.run(&windows, None), None);
    }
    Ok(())
}

#[test]
fn carries_pending_in_a_kept_sum_are_added_later() -> Outcome {
    // All digits ones and every carry pending: zero to them and one unit down, with products that are zero or one unit.
    for mut bench in Bench::of_each_unit(6)? {
        let (lanes, config) = (bench.config.lanes() as usize, bench.config.clone());
        let ones = |bits: u32| (1u128 << bits) - 1;
        let mut seen = 0;
        for (w, x) in
            [(0x0000, 0x0000), (0x8000, 0x0001), (0x0001, 0x0001), (0x8001, 0x0001), (0x7BFF, 0x7BFF)]
        {
            for digits in [0, ones(config.acc_bits()), ones(config.digit_bits())] {
                for carries in 0..1 << (config.acc_segments() - 1) {
                    bench.sums.fill(Kept(digits | carries << config.acc_bits()));
                    let window = Window { w: vec![w; lanes], x: vec![x; lanes], separate: true, idle: false };
                    // Again and again: carries go one digit further each time.
                    assert_eq!(
                        bench.run(&vec![window; 6], None),
                        None,
                        "{w:#06x} {x:#06x} {digits:#x} {carries:#b}"
                    );
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 15 << (config.acc_segments() - 1));
    }
    Ok(())
}

#[test]
fn flags_stay_in_a_kept_sum() -> Outcome {
    let values = [0x0000, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7C01, 0xFE00];
    for mut bench in Bench::of_each_unit(7)? {
        let (lanes, config) = (bench.config.lanes() as usize, bench.config.clone());
        for before in 0..8 {
            for w in values {
                for x in values {
                    bench.sums.fill(Kept(before << (config.acc_bits() + config.acc_segments() - 1)));
                    let window = Window { w: vec![w; lanes], x: vec![x; lanes], separate: true, idle: false };
                    let ordinary = Window {
                        w: vec![0x3C00; lanes],
                        x: vec![0x3C00; lanes],
                        separate: true,
                        idle: false,
                    };
                    let (_, flags) = dot(&[w], &[x]);
                    assert_eq!(bench.run(&[window, ordinary.clone()], None), None, "{w:#06x} {x:#06x}");
                    if flags == 0 && before == 0 {
                        assert!(bench.sums.iter().all(|sum| sum.flags(&config) == 0));
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_unit_that_stands_still_holds_its_sum() -> Outcome {
    let mut random = SplitMix64::new(8);
    for mut bench in Bench::of_each_unit(8)? {
        let (lanes, period) = (bench.config.lanes() as usize, bench.config.window_cycles() as usize);
        for kind in KINDS {
            let window = Window::draw(kind, lanes, &mut random);
            assert_eq!(bench.run(&[window], None), None);
            let (sum, flags) = (bench.model.get_u128(bench.sum_out), bench.model.get(bench.flags));
            for cycle in 0..4 * period {
                // Noise on all other ports.
                bench.load(None, cycle % period);
                bench.set_moves(false, [false; 3], cycle % period);
                assert_eq!(bench.give_sum(None, cycle % period), None);
                bench.model.tick();
                assert_eq!(
                    (bench.model.get_u128(bench.sum_out), bench.model.get(bench.flags)),
                    (sum, flags),
                    "{kind:?}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_unit_that_stops_anywhere_holds_digits_carries_and_flags() -> Outcome {
    // Stopped with products under way and carries pending, for which `run` has no use.
    let mut random = SplitMix64::new(10);
    for mut bench in Bench::of_each_unit(10)? {
        let (lanes, period) = (bench.config.lanes() as usize, bench.config.window_cycles() as usize);
        let mut pending = 0;
        for round in 0..40 {
            for stop in 0..period {
                let window = Window::draw(KINDS[round % KINDS.len()], lanes, &mut random);
                for cycle in 0..2 * period + stop {
                    let phase = cycle % period;
                    bench.load(Some(&window), phase);
                    bench.set_moves(true, [true; 3], phase);
                    bench.give_sum(None, phase);
                    bench.model.tick();
                }
                let read =
                    |bench: &Bench| (bench.model.get_u128(bench.sum_out), bench.model.get(bench.flags));
                let before = read(&bench);
                let carries = (1 << (bench.config.acc_segments() - 1)) - 1;
                pending += usize::from(before.0 >> bench.config.acc_bits() & carries != 0);
                for cycle in stop..stop + 2 * period {
                    bench.load(None, cycle % period);
                    bench.set_moves(false, [false; 3], cycle % period);
                    bench.give_sum(None, cycle % period);
                    bench.model.tick();
                    assert_eq!(read(&bench), before, "round {round}, stopped in phase {stop}");
                }
            }
        }
        assert!(pending > 100, "{pending} times a carry was pending");
    }
    Ok(())
}

#[test]
fn a_lane_multiplies_and_holds_its_product_while_it_stands_still() -> Outcome {
    let config = DesignConfig::preset("hermes")?;
    let options = OpenOptions { random_contents: Some(11), ..OpenOptions::default() };
    let mut model = Model::open(&rtl(&config, "serial_lane")?, &options)?;
    let [load, moves] = [model.input("load_i")?, model.input("move_i")?];
    let (steps, window) = (config.gemv().serial_steps(), config.gemv().window_cycles());
    let (w, x) = (model.input_of_width("sig_w_i", steps)?, model.input_of_width("sig_x_i", 11)?);
    let product = model.output_of_width("product_o", 11 + steps)?;
    let mut random = SplitMix64::new(11);
    for _ in 0..20_000 {
        let [first, second] = [random.next_u64() >> (64 - steps), random.next_u64() >> (64 - 11)];
        let mut left = window;
        let mut before = None;
        while left > 0 {
            // Noise at the ports of the operands, but for the first step.
            let moving = !random.next_u64().is_multiple_of(4);
            let loads = moving && left == window;
            model.set(load, loads.into());
            model.set(moves, moving.into());
            model.set(w, if loads { first } else { random.next_u64() >> (64 - steps) });
            model.set(x, if loads { second } else { random.next_u64() >> (64 - 11) });
            model.tick();
            left -= u32::from(moving);
            let now = model.get(product);
            assert!(moving || before.is_none_or(|before| before == now), "{first:#x} {second:#x}: moved");
            before = Some(now);
        }
        assert_eq!(model.get(product), first * second, "{first:#x} {second:#x}");
    }
    Ok(())
}

#[test]
fn a_wrong_bit_of_any_digit_flag_or_sum_is_caught() -> Outcome {
    let mut random = SplitMix64::new(9);
    for mut bench in Bench::of_each_unit(9)? {
        let config = bench.config.clone();
        let (lanes, segments) = (config.lanes() as usize, config.acc_segments());
        let windows: Vec<Window> = (0..4).map(|_| Window::draw(Kind::Finite, lanes, &mut random)).collect();
        for k in 0..segments {
            for bit in 0..config.digit_bits() {
                let Some(found) = bench.run(&windows, Some(Fault::Digit(2, k, bit))) else {
                    return Err(format!("bit {bit} of digit {k} was missed").into());
                };
                assert_eq!((found.window, found.what), (2, format!("digit {k}")));
                assert_eq!(found.actual ^ found.expected, 1 << bit);
            }
        }
        for bit in 0..3 {
            let found = bench.run(&windows, Some(Fault::Flag(2, bit))).ok_or("a flag was missed")?;
            assert_eq!((found.window, found.what.as_str(), found.actual), (2, "flags", 1 << bit));
        }
        let windows: Vec<Window> = windows.into_iter().map(Window::separate).collect();
        for lane in 0..lanes {
            for bit in 0..bench.sum_out.width() {
                bench.sums.fill(Kept(0));
                let found = bench.run(&windows, Some(Fault::Sum(2, lane, bit)));
                let found = found.ok_or_else(|| format!("bit {bit} of sum {lane} was missed"))?;
                assert_eq!(found.window, 2);
                assert!(found.what.ends_with(&format!("sum {lane}")), "{found:?}");
            }
        }
    }
    Ok(())
}

const MUTANTS: [Mutant; 6] = [
    // The weight has no hidden bit.
    (
        "parallel-multiplier",
        Mutation::new("mutant-hidden", "sig_w_q <= sig_w;", "sig_w_q <= {1'b0, sig_w[9:0]};"),
    ),
    // Sign and exponent are those of the next product.
    ("parallel-multiplier", Mutation::new("mutant-line", "line_q <= sign_exp_q;", "line_q <= {sign, exp};")),
    // Lane 0 has its turn a phase too early.
    (
        "parallel-multiplier",
        Mutation::new("mutant-turn", "(w_i[15:0] & {16{phase_i[10]}})", "(w_i[15:0] & {16{phase_i[9]}})"),
    ),
    // A scalar is taken in phases without an operand.
    (
        "parallel-multiplier",
        Mutation::new("mutant-scalar", "(broadcast_i & ~(|phase_i[9:7]) ?", "(broadcast_i ?"),
    ),
    // The first product is added to the sum of the window before.
    (
        "parallel-multiplier",
        Mutation::new("mutant-first", "~(phase_i[1] | separate_i)", "~(phase_i[0] | separate_i)"),
    ),
    // The operands of lane 0 are taken only if the job before has products on their way.
    ("parallel-multiplier", Mutation::new("mutant-moves", "if (operands_move_i)", "if (term_moves_i)")),
];

#[test]
fn mutants_of_parallel_multipliers_are_caught() -> Outcome {
    for (name, mutation) in MUTANTS {
        let rtl = design(mutation.name, "multiplier_unit", &MUTANTS)?;
        let mut bench = Bench::of_rtl(&rtl, design_config(name)?.gemv().clone(), 12)?;
        let windows = any_windows(2000, bench.config.lanes() as usize, &mut SplitMix64::new(12));
        let found = bench.run(&windows, None);
        println!("{}: {found:x?}", mutation.name);
        assert!(found.is_some(), "{}", mutation.name);
    }
    Ok(())
}
