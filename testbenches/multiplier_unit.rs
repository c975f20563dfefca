//! One multiplier unit of the paper's design against sums of products in 128-bit integers.
//!
//! Windows follow one another without a gap, as in the machine; operands are on the ports only in the phase in
//! which the unit may read them, and noise in all others. Compared are every digit of the exact sum, in its phase (unless a
//! flag makes the sum irrelevant), and the flags. Seeds are printed with every failure.

#[path = "common/exact.rs"]
mod exact;

use exact::{below, digit, dot};
use ndp_config::{DesignConfig, GemvConfig};
use ndp_cosim::ffi::{InputPort, Model, OpenOptions, OutputPort};
use ndp_numerics::SplitMix64;
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

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
        Self { w, x }
    }
}

/// The unit with its ports.
struct Bench {
    model: Model,
    phase: InputPort,
    w: InputPort,
    x: InputPort,
    digit: OutputPort,
    flags: OutputPort,
    config: GemvConfig,
    noise: SplitMix64,
}

/// A digit or flag that is not what the sum says.
#[derive(Debug, PartialEq)]
struct Mismatch {
    window: usize,
    what: String,
    expected: u64,
    actual: u64,
}

impl Bench {
    fn open(seed: u64) -> Result<Self, Box<dyn Error>> {
        let config = DesignConfig::preset("hermes")?.gemv().clone();
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let model = Model::open_with("hermes/multiplier_unit", &options)?;
        let operand_bits = 16 * config.lanes();
        Ok(Self {
            phase: model.input_of_width("phase_i", config.window_cycles())?,
            w: model.input_of_width("w_i", operand_bits)?,
            x: model.input_of_width("x_i", operand_bits)?,
            digit: model.output_of_width("digit_o", config.digit_bits())?,
            flags: model.output_of_width("flags_o", 3)?,
            config,
            model,
            noise: SplitMix64::new(seed),
        })
    }

    /// Noise with `bits` as element `lane`.
    fn operand(&mut self, lane: usize, bits: Option<u16>) -> u128 {
        let noise = u128::from(self.noise.next_u64()) << 64 | u128::from(self.noise.next_u64());
        let Some(bits) = bits else { return noise };
        let at = 16 * lane;
        noise & !(0xFFFF << at) | u128::from(recoded(bits)) << at
    }

    /// Runs the windows, one after another, and returns the first thing that differs. `plant` flips a bit that
    /// the unit has put out: window, digit (or the number of digits for the flags), bit.
    fn run(&mut self, windows: &[Window], plant: Option<(usize, u32, u32)>) -> Option<Mismatch> {
        let (period, lanes) = (self.config.window_cycles() as usize, self.config.lanes() as usize);
        let segments = self.config.acc_segments();
        // What is read when: the digits of a window follow its products, which leave one window after they came.
        let first_digit = period + lanes + 1;
        let total = windows.len() * period + first_digit + segments as usize;
        for cycle in 0..total {
            let (index, phase) = (cycle / period, cycle % period);
            let now = windows.get(index);
            let w = self.operand(phase, now.and_then(|n| n.w.get(phase).copied()));
            let x = self.operand(phase, now.and_then(|n| n.x.get(phase).copied()));
            self.model.set(self.phase, 1 << phase);
            self.model.set_u128(self.w, w);
            self.model.set_u128(self.x, x);
            // The outputs depend on the phase, so they settle before the edge.
            self.model.eval();
            let since = cycle.checked_sub(first_digit);
            let due = since.map(|since| (since / period, (since % period) as u32));
            if let Some((window, k)) = due.filter(|(window, k)| *window < windows.len() && *k < segments) {
                let flip = |what: u32| match plant {
                    Some((at, planted, bit)) if (at, planted) == (window, what) => 1 << bit,
                    _ => 0,
                };
                let actual = self.model.get(self.digit) ^ flip(k);
                let (sum, flags) = dot(&windows[window].w, &windows[window].x);
                let expected = digit(sum, k, self.config.digit_bits());
                if flags == 0 && actual != expected {
                    return Some(Mismatch { window, what: format!("digit {k}"), expected, actual });
                }
                let actual = self.model.get(self.flags) ^ flip(segments);
                if k + 1 == segments && actual != u64::from(flags) {
                    return Some(Mismatch { window, what: "flags".into(), expected: flags.into(), actual });
                }
            }
            self.model.tick();
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

fn random_windows(seed: u64, count: usize) -> Outcome {
    let mut seeds = SplitMix64::new(seed);
    let mut dots = 0;
    while dots < count {
        let seed = seeds.next_u64();
        let mut random = SplitMix64::new(seed);
        let mut bench = Bench::open(seed)?;
        let windows: Vec<Window> = (0..5000)
            .map(|_| {
                Window::draw(
                    KINDS[below(&mut random, KINDS.len())],
                    bench.config.lanes() as usize,
                    &mut random,
                )
            })
            .collect();
        if let Some(mismatch) = bench.run(&windows, None) {
            let Window { w, x } = &windows[mismatch.window];
            panic!("seed {seed:#x}: {mismatch:x?}, weights {w:04x?}, activations {x:04x?}");
        }
        dots += windows.len();
    }
    Ok(())
}

#[test]
fn every_exponent_lands_in_its_place() -> Outcome {
    // One product per window, in every lane, for each pair of exponents and signs: the aligner alone.
    let mut bench = Bench::open(3)?;
    let lanes = bench.config.lanes() as usize;
    let mut windows = Vec::new();
    for lane in 0..lanes {
        for pair in 0..31 * 31 * 4u16 {
            let (signs, exponents) = (pair % 4, pair / 4);
            let mut window = Window { w: vec![0; lanes], x: vec![0; lanes] };
            window.w[lane] = (signs & 1) << 15 | (exponents % 31) << 10 | 0x2A5;
            window.x[lane] = (signs >> 1) << 15 | (exponents / 31) << 10 | 0x3FF;
            windows.push(window);
        }
    }
    assert_eq!(bench.run(&windows, None), None);
    Ok(())
}

#[test]
fn every_pair_of_special_and_ordinary_operands_sets_its_flags() -> Outcome {
    let values = [
        0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
        0x7C01, 0xFC01, 0x7E00, 0xFE00, 0x7FFF, 0xFFFF,
    ];
    let mut bench = Bench::open(4)?;
    let lanes = bench.config.lanes() as usize;
    let mut windows = Vec::new();
    for lane in 0..lanes {
        for w in values {
            for x in values {
                let mut window = Window { w: vec![0x3C00; lanes], x: vec![0xBC00; lanes] };
                (window.w[lane], window.x[lane]) = (w, x);
                windows.push(window);
            }
        }
    }
    assert_eq!(bench.run(&windows, None), None);
    Ok(())
}

#[test]
fn a_wrong_bit_of_any_digit_or_flag_is_caught() -> Outcome {
    let mut random = SplitMix64::new(9);
    let mut bench = Bench::open(9)?;
    let (lanes, segments) = (bench.config.lanes() as usize, bench.config.acc_segments());
    let windows: Vec<Window> = (0..4).map(|_| Window::draw(Kind::Finite, lanes, &mut random)).collect();
    for k in 0..segments {
        for bit in 0..bench.config.digit_bits() {
            let Some(found) = bench.run(&windows, Some((2, k, bit))) else {
                return Err(format!("bit {bit} of digit {k} was missed").into());
            };
            assert_eq!((found.window, found.what), (2, format!("digit {k}")));
            assert_eq!(found.actual ^ found.expected, 1 << bit);
        }
    }
    for bit in 0..3 {
        let found = bench.run(&windows, Some((2, segments, bit))).ok_or("a flag was missed")?;
        assert_eq!((found.window, found.what.as_str(), found.actual), (2, "flags", 1 << bit));
    }
    Ok(())
}
