//! The rounder against the nearest FP16 number, found by comparing 128-bit integers.
//!
//! Sums enter digit by digit with random gaps or none, and each must give one result after the same latency. Every FP16
//! number, every midpoint between two and both neighbours of each, with both signs; random sums of every magnitude;
//! every combination of flags; resets between two digits.

use common::Outcome;
use common::exact::{below, digit, result, value};
use ndp_config::{DesignConfig, GemvConfig};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{InputPort, Model, OpenOptions, OutputPort, rtl};
use std::collections::VecDeque;
use std::error::Error;

/// Cycles from the edge that takes the last digit to the one after which the result is on the port.
const LATENCY: u64 = 4;

/// A sum as a multiple of 2^-48, and its flags.
type Sum = (i128, u8);

/// A missing, late, unexpected or wrong result.
#[derive(Debug, PartialEq)]
struct Mismatch {
    cycle: u64,
    sum: Option<Sum>,
    actual: Option<u16>,
}

struct Bench {
    model: Model,
    valid: InputPort,
    first: InputPort,
    last: InputPort,
    digit: InputPort,
    flags: InputPort,
    valid_out: OutputPort,
    data: OutputPort,
    config: GemvConfig,
    random: SplitMix64,
    /// Sums whose last digit is in, and the cycle in which their result is due.
    due: VecDeque<(u64, Sum)>,
    /// Flips a bit of the n-th result from now.
    fault: Option<(u64, u32)>,
}

impl Bench {
    fn open(seed: u64) -> Result<Self, Box<dyn Error>> {
        let config = DesignConfig::preset("hermes")?.gemv().clone();
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let mut model = Model::open(&rtl(&DesignConfig::preset("hermes")?, "fp16_rounder")?, &options)?;
        model.reset(3);
        Ok(Self {
            valid: model.input_of_width("valid_i", 1)?,
            first: model.input_of_width("first_i", 1)?,
            last: model.input_of_width("last_i", 1)?,
            digit: model.input_of_width("digit_i", config.digit_bits())?,
            flags: model.input_of_width("flags_i", 3)?,
            valid_out: model.output_of_width("valid_o", 1)?,
            data: model.output_of_width("data_o", 16)?,
            config,
            model,
            random: SplitMix64::new(seed),
            due: VecDeque::new(),
            fault: None,
        })
    }

    /// One cycle, then compares the outputs.
    fn step(&mut self) -> Result<(), Mismatch> {
        let cycle = self.model.cycle();
        self.model.tick();
        let due = self.due.front().filter(|(due, _)| *due == cycle).map(|(_, sum)| *sum);
        if due.is_some() {
            self.due.pop_front();
        }
        let mut actual = (self.model.get(self.valid_out) == 1).then(|| self.model.get(self.data) as u16);
        if let (Some(data), Some((left, bit))) = (&mut actual, &mut self.fault) {
            if *left == 0 {
                *data ^= 1 << *bit;
            }
            *left = left.wrapping_sub(1);
        }
        let expected = due.map(|(sum, flags)| result(sum, flags));
        if actual == expected { Ok(()) } else { Err(Mismatch { cycle, sum: due, actual }) }
    }

    /// Cycles without a digit, and with noise on the other inputs.
    fn idle(&mut self, cycles: usize) -> Result<(), Mismatch> {
        for _ in 0..cycles {
            let noise = self.random.next_u64();
            self.model.set(self.valid, 0);
            self.model.set(self.first, noise & 1);
            self.model.set(self.last, noise >> 1 & 1);
            self.model.set(self.flags, noise >> 2 & 7);
            self.model.set(self.digit, noise >> 5 & ((1 << self.config.digit_bits()) - 1));
            self.step()?;
        }
        Ok(())
    }

    /// The first `digits` digits of a sum, each after up to `gap` idle cycles; flags are noise before the last one.
    fn send(&mut self, (sum, flags): Sum, digits: u32, gap: usize) -> Result<(), Mismatch> {
        let segments = self.config.acc_segments();
        for k in 0..digits {
            let wait = below(&mut self.random, gap + 1);
            self.idle(wait)?;
            let last = k + 1 == segments;
            let noise = self.random.next_u64() & 7;
            self.model.set(self.valid, 1);
            self.model.set(self.first, u64::from(k == 0));
            self.model.set(self.last, u64::from(last));
            self.model.set(self.digit, digit(sum, k, self.config.digit_bits()));
            self.model.set(self.flags, if last { flags.into() } else { noise });
            if last {
                self.due.push_back((self.model.cycle() + LATENCY, (sum, flags)));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Sends whole sums, and waits for all results.
    fn run(&mut self, sums: impl IntoIterator<Item = Sum>, gap: usize) -> Result<(), Mismatch> {
        let segments = self.config.acc_segments();
        for sum in sums {
            self.send(sum, segments, gap)?;
        }
        self.idle(2 * LATENCY as usize)?;
        assert!(self.due.is_empty());
        Ok(())
    }

    /// A sum of random length, sometimes one that a carry runs through.
    fn draw(&mut self) -> i128 {
        let bits = below(&mut self.random, self.config.acc_bits() as usize) as u32;
        let noise = (u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64())) as i128;
        let sum = noise & ((1 << bits) - 1);
        match self.random.next_u64() % 4 {
            0 => sum,
            1 => -sum,
            2 => -(1 << bits),
            // Zeros at the low end: ties.
            _ => sum >> (bits / 2) << (bits / 2),
        }
    }
}

fn expect(run: Result<(), Mismatch>, what: &str) {
    if let Err(mismatch) = run {
        let expected = mismatch.sum.map(|(sum, flags)| result(sum, flags));
        panic!("{what}: {mismatch:x?}, expected {expected:x?}");
    }
}

#[test]
fn every_number_midpoint_and_neighbour_rounds_to_nearest_even() -> Outcome {
    let mut sums = vec![(0, 0)];
    for bits in 0..0x7C00u16 {
        let at = value(bits) << 24;
        let next = if bits == 0x7BFF { 1 << 64 } else { value(bits + 1) << 24 };
        let midpoint = at + (next - at) / 2;
        for sum in [at, at + 1, midpoint - 1, midpoint, midpoint + 1, next - 1] {
            sums.extend([(sum, 0), (-sum, 0)]);
        }
    }
    expect(Bench::open(1)?.run(sums, 0), "no gaps");
    Ok(())
}

#[test]
fn random_sums_of_every_magnitude_round_right() -> Outcome {
    random_sums(200_000)
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_random_sums_round_right() -> Outcome {
    random_sums(20_000_000)
}

fn random_sums(count: usize) -> Outcome {
    for (seed, gap) in [(2, 0), (3, 1), (4, 7)] {
        let mut bench = Bench::open(seed)?;
        let mut left = count;
        while left > 0 {
            let sums: Vec<Sum> = (0..left.min(100_000)).map(|_| (bench.draw(), 0)).collect();
            left -= sums.len();
            expect(bench.run(sums, gap), &format!("seed {seed}, gaps up to {gap}"));
        }
    }
    Ok(())
}

#[test]
fn the_ends_of_the_accumulator_overflow_to_infinity() -> Outcome {
    let mut bench = Bench::open(5)?;
    let end = 1 << (bench.config.acc_bits() - 1);
    let overflow = (value(0x7BFF) << 24) + (1 << 52) + (1 << 51);
    let sums = [end - 1, 1 - end, -end, overflow, overflow - 1, -overflow, 1 - overflow];
    expect(bench.run(sums.map(|sum| (sum, 0)), 0), "ends");
    Ok(())
}

#[test]
fn flags_decide_over_the_sum() -> Outcome {
    let mut bench = Bench::open(6)?;
    let sums: Vec<Sum> = (0..4000).map(|n| (bench.draw(), n as u8 % 8)).collect();
    expect(bench.run(sums, 2), "flags");
    Ok(())
}

#[test]
fn a_reset_between_two_digits_leaves_nothing_behind() -> Outcome {
    let mut bench = Bench::open(7)?;
    let segments = bench.config.acc_segments();
    for round in 0..2000 {
        for _ in 0..round % 3 {
            let sum = (bench.draw(), 0);
            expect(bench.send(sum, segments, 0), "before the reset");
        }
        let sum = (bench.draw(), 0);
        expect(bench.send(sum, round % segments, 1), "cut off");
        bench.model.set(bench.valid, 0);
        bench.model.reset(1 + u64::from(round) % 2);
        assert_eq!(bench.model.get(bench.valid_out), 0, "a result in the first cycle after the reset");
        bench.due.clear();
        let sum = (bench.draw(), 0);
        expect(bench.run([sum], 1), "after the reset");
    }
    Ok(())
}

#[test]
fn a_wrong_bit_is_caught() -> Outcome {
    for bit in 0..16 {
        let mut bench = Bench::open(8)?;
        bench.fault = Some((5, bit));
        let sums: Vec<Sum> = (0..10).map(|n| (n << 40, 0)).collect();
        let Err(found) = bench.run(sums, 0) else { return Err(format!("bit {bit} was missed").into()) };
        assert_eq!(found.sum, Some((5 << 40, 0)));
        assert_eq!(found.actual.map(|actual| actual ^ result(5 << 40, 0)), Some(1 << bit));
    }
    Ok(())
}
