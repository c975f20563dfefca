//! Fits the tables of the function unit and prints them as `hdl/src/blocks/arithmetic/function_tables.rs`.
//!
//! `cargo run --release -p ndp-hdl --example function_tables > FILE`. With `q(x) = 1 / (1 + e^x)` for SiLU and
//! `q(x) = erfc(x / sqrt(2)) / 2` for GELU both functions are `f(-x) = -x q(x)` and `f(x) = x - x q(x)`, for `x >= 0`.
//! The tables have `q` as a parabola in each interval, fitted until the unit's result is the nearest FP16 number for
//! all FP16 numbers of the interval, of both signs.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Exponents of the binades with four intervals each.
const LOW: std::ops::RangeInclusive<i32> = -12..=-5;
/// Slots of 32 intervals each: one for each of these binades, and a last one. A bent binade has its lower half in its
/// own slot and its upper half in the last one, except for GELU's from 4 upward, whose upper half is only zeros.
const HIGH: std::ops::RangeInclusive<i32> = -4..=4;
const PLACE_BITS: u32 = 8;
const P_BITS: i32 = 24;

fn silu_q(x: f64) -> f64 {
    1.0 / (1.0 + x.exp())
}

fn gelu_q(x: f64) -> f64 {
    let z = x * FRAC_1_SQRT_2;
    let square = (-z * z).exp();
    if z < 2.0 {
        let (mut term, mut sum, mut n) = (z, 0.0, 0.0);
        while term > 1e-20 {
            sum += term;
            n += 1.0;
            term *= 2.0 * z * z / (2.0 * n + 1.0);
        }
        return 0.5 - square * sum / PI.sqrt();
    }
    let fraction = (1..200).rev().fold(z, |below, n| z + 0.5 * f64::from(n) / below);
    0.5 * square / PI.sqrt() / fraction
}

/// `value` times two to `exponent`, to the nearest FP16 number, even on ties; positive, below 65504.
fn nearest(value: u64, exponent: i32) -> u16 {
    if value == 0 {
        return 0;
    }
    let top = value.ilog2() as i32;
    let unit = (top + exponent - 10).max(-24);
    let cut = unit - exponent;
    let bits = if cut <= 0 {
        value << -cut
    } else if cut > 62 {
        0
    } else {
        let (kept, rest, half) = (value >> cut, value & ((1 << cut) - 1), 1 << (cut - 1));
        kept + u64::from(rest > half || (rest == half && kept % 2 == 1))
    };
    (((unit + 24) as u64) * 1024 + bits) as u16
}

fn nearest_f64(value: f64) -> u16 {
    let bits = value.to_bits();
    match (bits >> 52) as i32 {
        0 => 0,
        field => nearest(bits & ((1 << 52) - 1) | 1 << 52, field - 1075),
    }
}

#[derive(Clone, Copy, Default)]
struct Entry {
    constant: i64,
    slope: i64,
    curve: i64,
    scale: i32,
}

/// One number of an interval: its place, and the values of `p` for which `-x` and `x` have the right results.
struct Point {
    place: i64,
    least: i64,
    most: i64,
}

impl Point {
    /// The number `significand * 2^(exponent - 10)`, whose `q` is known.
    fn new(place: i64, significand: u64, exponent: i32, scale: i32, x: f64, q: f64) -> Self {
        let unit = exponent - 10 - 25;
        let tail = |p: u64| nearest(significand * p, unit - scale);
        let rest = |p: u64| nearest(significand * ((1 << 25) - 1 - (p >> scale)), unit);
        let (negative, positive) = (nearest_f64(x * q), nearest_f64(x * (1.0 - q)));
        // The first p for which a monotone condition is true.
        let first = |is: &dyn Fn(u64) -> bool| {
            let (mut low, mut high) = (0, 1 << P_BITS);
            while low < high {
                let middle = (low + high) / 2;
                if is(middle) { high = middle } else { low = middle + 1 }
            }
            low as i64
        };
        let least = first(&|p| tail(p) >= negative && rest(p) <= positive);
        let most = first(&|p| tail(p) > negative || rest(p) < positive) - 1;
        assert!(least <= most, "no p for {x}");
        Self { place, least, most }
    }
}

impl Entry {
    /// Sum of the distances of all points from a right result.
    fn misses(&self, points: &[Point]) -> i64 {
        points
            .iter()
            .map(|point| {
                let slope = self.slope - ((self.curve * point.place) >> PLACE_BITS);
                let p = self.constant - ((slope * point.place) >> PLACE_BITS);
                let far = if slope < 0 { 1 << P_BITS } else { 0 };
                far + (point.least - p).max(p - point.most).max(0)
            })
            .sum()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as i64 % n
    }
}

/// The entry for the numbers `2^exponent * (1 + (first..first + count) / 1024)`.
fn fit(q: fn(f64) -> f64, exponent: i32, first: u64, count: u64) -> Entry {
    let number =
        |place: f64| f64::exp2(f64::from(exponent)) * (1.0 + (first as f64 + place * count as f64) / 1024.0);
    let step = (1 << PLACE_BITS) / count as i64;
    if (0..count)
        .all(|at| nearest_f64(number(at as f64 / count as f64) * q(number(at as f64 / count as f64))) == 0)
    {
        return Entry::default();
    }
    let mut scale = 0;
    while q(number(0.0)) * f64::exp2(f64::from(scale + 1)) < 0.5 {
        scale += 1;
    }
    let points: Vec<Point> = (0..count)
        .map(|at| {
            let x = number(at as f64 / count as f64);
            Point::new(at as i64 * step, 1024 + first + at, exponent, scale, x, q(x))
        })
        .collect();
    let p = |place: f64| q(number(place)) * f64::exp2(f64::from(P_BITS + 1 + scale));
    // A parabola through three places of the interval; the two outer ones are Chebyshev's.
    let (a, b, c) = (0.067, 0.5, 0.933);
    let (pa, pb, pc) = (p(a), p(b), p(c));
    let (ab, bc) = ((pb - pa) / (b - a), (pc - pb) / (c - b));
    let curve = (bc - ab) / (c - a);
    let slope = ab - curve * (a + b);
    let constant = pa - slope * a - curve * a * a;
    let start = Entry {
        constant: (constant.round() as i64).min((1 << P_BITS) - 1),
        slope: (-slope).round() as i64,
        curve: (curve.round() as i64).max(0),
        scale,
    };
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut best, mut misses) = (start, start.misses(&points));
    for round in 0..2_000_000 {
        if misses == 0 {
            return best;
        }
        let reach = 1 << random.below(12);
        let base = if round % 7 == 6 { start } else { best };
        // Along Chebyshev's polynomials; each moves the whole interval by as much as its factor.
        let mut moves = || random.below(2 * reach + 1) - reach;
        let (a, b, c) = (moves(), moves(), moves());
        let tried = Entry {
            constant: (base.constant + a + b + c).clamp(0, (1 << P_BITS) - 1),
            slope: (base.slope + 2 * b + 8 * c).max(0),
            curve: (base.curve + 8 * c + moves() % 8).max(0),
            scale,
        };
        let now = tried.misses(&points);
        if now <= misses {
            (best, misses) = (tried, now);
        }
    }
    panic!("no entry for 2^{exponent} * (1 + {first} / 1024): {misses} units away");
}

fn print(name: &str, doc: &str, entries: &[Entry]) {
    println!("\n/// {doc}\n#[rustfmt::skip]\npub(super) const {name}: [[u32; 4]; {}] = [", entries.len());
    for line in entries.chunks(4) {
        let of = |Entry { constant, slope, curve, scale }: &Entry| {
            format!("[{constant}, {slope}, {curve}, {scale}]")
        };
        println!("    {},", line.iter().map(of).collect::<Vec<_>>().join(", "));
    }
    println!("];");
}

/// Name in constants and in text, `q`, and the exponents of the bent binades.
type Function = (&'static str, &'static str, fn(f64) -> f64, &'static [i32]);

fn main() {
    println!("//! Tables of the function unit, printed by `hdl/examples/function_tables.rs`; do not edit.");
    let functions: [Function; 2] = [("SILU", "SiLU", silu_q, &[3]), ("GELU", "GELU", gelu_q, &[1, 2])];
    for (name, what, q, bent) in functions {
        let doc = format!("{what}: constant, slope, curve and scale of each interval");
        let low: Vec<Entry> = LOW
            .flat_map(|e| (0..4).map(move |top| (e, top)))
            .map(|(e, top)| fit(q, e, top * 256, 256))
            .collect();
        print(&format!("{name}_LOW"), &format!("{doc}, four in each binade from 2^-12 on."), &low);
        let slots =
            HIGH.map(|e| (e, 0, if bent.contains(&e) { 512 } else { 1024 })).chain([(bent[0], 512, 512)]);
        let high: Vec<Entry> = slots
            .flat_map(|(e, first, count)| (0..32).map(move |top| (e, first + top * count / 32, count / 32)))
            .map(|(e, first, count)| fit(q, e, first, count))
            .collect();
        print(
            &format!("{name}_HIGH"),
            &format!(
                "{doc}, 32 in each slot: the binades from 2^-4 to 2^4, and the upper half of 2^{}.",
                bent[0]
            ),
            &high,
        );
    }
}
