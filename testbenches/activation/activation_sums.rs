//! The divider of softmax against integer division: the reciprocal of every sum of exponentials that it can distinguish.
//!
//! Sums come in parts, over several elements and all ranks, as the trees put them out. The leading 17 bits of each
//! count, so there are 65,536 divisors; each is tried with its leading one at several places and any bits below.

use common::Outcome;
use ndp_config::{DesignConfig, GemvConfig};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{InputPort, Model, OpenOptions, OutputPort, rtl};
use std::error::Error;

/// Bits of a divisor, and the place of the leading one of the smallest sum: a sum of only the maximum.
const DIVISOR_BITS: u32 = 17;
const LEAST_PLACE: u32 = 28;
/// Cycles that the divider takes for a vector.
const DIVISION: u64 = 18;
/// Cycles from the last part of a sum until its division can begin, and of a look-up.
const ON_THE_WAY: u64 = 16;

/// A reciprocal as it comes out: significand, exponent in two's complement.
type Reciprocal = (u64, u64);

struct Bench {
    model: Model,
    start: InputPort,
    sums_valid: InputPort,
    last: InputPort,
    sums: Vec<InputPort>,
    vector: InputPort,
    divided: OutputPort,
    reciprocal: OutputPort,
    scale: OutputPort,
    config: GemvConfig,
    random: SplitMix64,
}

impl Bench {
    fn open(seed: u64) -> Result<Self, Box<dyn Error>> {
        let config = DesignConfig::preset("hermes")?.gemv().clone();
        let options = OpenOptions { random_contents: Some(seed as u32), ..OpenOptions::default() };
        let mut model = Model::open(&rtl(&DesignConfig::preset("hermes")?, "activation_sums")?, &options)?;
        model.reset(3);
        let sums =
            (0..config.ranks()).map(|g| model.input(&format!("rank{g}_sum_i"))).collect::<Result<_, _>>()?;
        let keys_valid = model.input_of_width("keys_valid_i", 1)?;
        model.set(keys_valid, 0);
        Ok(Self {
            start: model.input_of_width("start_i", 1)?,
            sums_valid: model.input_of_width("sums_valid_i", 1)?,
            last: model.input_of_width("last_i", 1)?,
            sums,
            vector: model.input("vector_i")?,
            divided: model.output_of_width("divided_o", 1)?,
            reciprocal: model.output_of_width("reciprocal_o", DIVISOR_BITS)?,
            scale: model.output("scale_o")?,
            config,
            model,
            random: SplitMix64::new(seed),
        })
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn vectors(&self) -> u64 {
        2 * u64::from(self.config.max_batch())
    }

    /// Sends a sum in parts until nothing is left, each over all ranks, with noise on the ranks' ports in between.
    fn send(&mut self, mut sum: u64) {
        let most = (1 << (LEAST_PLACE + 1 + self.config.units_per_rank().trailing_zeros())) - 1;
        loop {
            for port in self.sums.clone() {
                // Often all that is left, or the most that a rank can have.
                let limit = sum.min(most);
                let part =
                    if self.random.next_u64().is_multiple_of(4) { self.below(limit + 1) } else { limit };
                self.model.set(port, part);
                sum -= part;
            }
            self.model.set(self.sums_valid, 1);
            self.model.set(self.last, u64::from(sum == 0));
            self.model.tick();
            self.model.set(self.sums_valid, 0);
            self.model.set(self.last, 0);
            if self.random.next_u64().is_multiple_of(4) {
                let noise = self.random.next_u64() & most;
                self.model.set(self.sums[0], noise);
                self.model.tick();
            }
            if sum == 0 {
                return;
            }
        }
    }

    fn start(&mut self) {
        self.model.set(self.start, 1);
        self.model.tick();
        self.model.set(self.start, 0);
    }

    /// The reciprocals of some sums, one vector each.
    fn reciprocals(&mut self, sums: &[u64]) -> Result<Vec<Reciprocal>, Box<dyn Error>> {
        self.start();
        sums.iter().for_each(|sum| self.send(*sum));
        let limit = self.model.cycle() + DIVISION * sums.len() as u64 + ON_THE_WAY;
        let mut found = Vec::new();
        for vector in 0..sums.len() as u64 {
            self.model.set(self.vector, vector);
            self.model.tick();
            while self.model.get(self.divided) == 0 {
                if self.model.cycle() > limit {
                    return Err(format!("vector {vector} of {}: no reciprocal", sums.len()).into());
                }
                self.model.tick();
            }
            found.push((self.model.get(self.reciprocal), self.model.get(self.scale)));
        }
        Ok(found)
    }

    /// Compares the reciprocals of some sums with integer division. `fault` flips the last bit of the n-th.
    fn check(&mut self, sums: &[u64], fault: Option<usize>) -> Outcome {
        for (chunk, sums) in sums.chunks(self.vectors() as usize).enumerate() {
            let mut found = self.reciprocals(sums)?;
            if let (0, Some(reciprocal)) = (chunk, fault.and_then(|n| found.get_mut(n))) {
                reciprocal.0 ^= 1;
            }
            let scale_bits = self.scale.width();
            for (sum, actual) in sums.iter().zip(found) {
                let expected = expected(*sum, scale_bits);
                if actual != expected {
                    return Err(format!("sum {sum:#x}: {actual:x?} instead of {expected:x?}").into());
                }
            }
        }
        Ok(())
    }
}

/// 2^32 over the sum's leading 17 bits, rounded down, and its exponent.
fn expected(sum: u64, scale_bits: u32) -> Reciprocal {
    let place = sum.ilog2();
    let leading = sum >> (place - (DIVISOR_BITS - 1));
    let scale = 14 - i64::from(place);
    ((1 << 32) / leading, scale as u64 & ((1 << scale_bits) - 1))
}

/// A sum with these leading bits and its leading one at `place`.
fn sum(leading: u64, place: u32, random: &mut SplitMix64) -> u64 {
    let below = place - (DIVISOR_BITS - 1);
    leading << below | random.next_u64() & ((1 << below) - 1)
}

#[test]
fn every_divisor_gives_the_quotient() -> Outcome {
    let mut random = SplitMix64::new(1);
    let divisors = 1 << (DIVISOR_BITS - 1)..1 << DIVISOR_BITS;
    // Up to the sum that some elements can reach.
    let sums: Vec<u64> = divisors
        .map(|leading| sum(leading, LEAST_PLACE + (random.next_u64() % 9) as u32, &mut random))
        .collect();
    println!("{} divisors", sums.len());
    Bench::open(1)?.check(&sums, None)
}

#[test]
fn sums_of_every_size_do() -> Outcome {
    let mut random = SplitMix64::new(2);
    let mut sums = Vec::new();
    for place in LEAST_PLACE..=42 {
        for _ in 0..40 {
            let leading = 1 << (DIVISOR_BITS - 1) | random.next_u64() & 0xFFFF;
            sums.push(sum(leading, place, &mut random));
        }
        sums.extend([1 << place, (2 << place) - 1]);
    }
    Bench::open(2)?.check(&sums, None)
}

#[test]
fn a_command_forgets_what_was_on_its_way() -> Outcome {
    let mut bench = Bench::open(3)?;
    for cycles in 0..60 {
        bench.start();
        for place in [30, 31, 33] {
            let sum = sum(0x1_2345, place, &mut SplitMix64::new(cycles));
            bench.send(sum);
        }
        (0..cycles).for_each(|_| bench.model.tick());
        // The sequencer begins a command when nothing arrives any more.
        (0..ON_THE_WAY).for_each(|_| bench.model.tick());
        bench.check(&[3 << 28, 5 << 29], None).map_err(|e| format!("{cycles} cycles: {e}"))?;
    }
    Ok(())
}

#[test]
fn a_wrong_bit_is_caught() -> Outcome {
    let sums = [1 << 28, 3 << 28, 7 << 30];
    assert!(Bench::open(4)?.check(&sums, Some(1)).is_err());
    Bench::open(4)?.check(&sums, None)
}
