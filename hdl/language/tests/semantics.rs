//! Random expressions: the emitted Verilog, simulated by Icarus, against an evaluator that is independent of it.
//!
//! The evaluator shows that precedence, widths and slices survive the lowering: it computes on bit vectors
//! (`Vec<bool>`, least significant bit first) and shares no code with the language.

use crate::common;
use ndp_hdl_language::{Bits, Module, ModuleBuilder, any_of, cat, lit, mux, one_hot_mux, repeat, rom};
use std::fmt::Write;

/// xorshift64*: reproducible without a dependency.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: u32) -> u32 {
        (((self.next() >> 32) * u64::from(limit)) >> 32) as u32
    }

    /// Random bits, with all-zero and all-one vectors more often than by chance.
    fn vector(&mut self, width: u32) -> Vec<bool> {
        match self.below(8) {
            0 => vec![false; width as usize],
            1 => vec![true; width as usize],
            _ => (0..width).map(|_| self.next() >> 63 == 1).collect(),
        }
    }
}

/// An expression and its meaning: values of the inputs to value of the expression.
struct Expression {
    bits: Bits,
    meaning: Meaning,
}

type Value = Vec<bool>;
type Meaning = Box<dyn Fn(&[Value]) -> Value>;

/// Sum with carry-in, as long as `a`.
fn add(a: &[bool], b: &[bool], mut carry: bool) -> Value {
    let mut sum = Vec::new();
    for (x, y) in a.iter().zip(b) {
        sum.push(x ^ y ^ carry);
        carry = u8::from(*x) + u8::from(*y) + u8::from(carry) >= 2;
    }
    sum
}

/// Product, as long as `a`.
fn multiply(a: &[bool], b: &[bool]) -> Value {
    let mut product = vec![false; a.len()];
    for (shift, _) in b.iter().enumerate().filter(|(_, bit)| **bit) {
        let mut term = vec![false; shift];
        term.extend(&a[..a.len() - shift]);
        product = add(&product, &term, false);
    }
    product
}

fn invert(a: &[bool]) -> Value {
    a.iter().map(|bit| !bit).collect()
}

fn less(a: &[bool], b: &[bool]) -> bool {
    // The most significant bit that differs decides.
    a.iter().zip(b).rev().find(|(x, y)| x != y).is_some_and(|(_, y)| *y)
}

fn zip(a: &[bool], b: &[bool], f: fn(bool, bool) -> bool) -> Value {
    a.iter().zip(b).map(|(x, y)| f(*x, *y)).collect()
}

fn shifted(a: &[bool], amount: &[bool], left: bool) -> Value {
    let amount =
        amount.iter().rev().fold(0_usize, |n, bit| n.saturating_mul(2).saturating_add(usize::from(*bit)));
    let from = |i: usize| if left { i.checked_sub(amount) } else { i.checked_add(amount) };
    (0..a.len()).map(|i| from(i).and_then(|i| a.get(i)).copied().unwrap_or(false)).collect()
}

/// Widths of the inputs: single bits, odd sizes, and more than a machine word.
const INPUTS: [u32; 7] = [1, 2, 5, 8, 13, 33, 70];

struct Generator<'a> {
    random: Random,
    module: &'a ModuleBuilder,
    inputs: Vec<Bits>,
    wires: u32,
    operations: &'a mut Vec<u32>,
}

/// Number of alternatives in [`Generator::expression`] that are not leaves.
const OPERATIONS: u32 = 26;

impl Generator<'_> {
    fn leaf(&mut self, width: u32) -> Expression {
        if let Some(index) = INPUTS.iter().position(|w| *w == width).filter(|_| self.random.below(4) > 0) {
            return Expression { bits: self.inputs[index], meaning: Box::new(move |v| v[index].clone()) };
        }
        let wide: Vec<usize> = (0..INPUTS.len()).filter(|i| INPUTS[*i] > width).collect();
        if !wide.is_empty() && self.random.below(4) > 0 {
            let index = wide[self.random.below(wide.len() as u32) as usize];
            let low = self.random.below(INPUTS[index] - width + 1);
            let range = low as usize..(low + width) as usize;
            let bits = self.inputs[index].slice(low, width);
            return Expression { bits, meaning: Box::new(move |v| v[index][range.clone()].to_vec()) };
        }
        // A literal has up to 128 significant bits.
        let mut value = self.random.vector(width);
        let significant = value.len().min(128);
        value[significant..].fill(false);
        let number = value[..significant].iter().rev().fold(0_u128, |n, bit| n << 1 | u128::from(*bit));
        Expression { bits: lit(number, width), meaning: Box::new(move |_| value.clone()) }
    }

    /// A random expression of `width` bits and at most `depth` operators above its leaves.
    fn expression(&mut self, width: u32, depth: u32) -> Expression {
        if depth == 0 || width > 160 {
            return self.leaf(width);
        }
        let operation = self.random.below(OPERATIONS);
        self.operations.push(operation);
        let d = depth - 1;
        let other = 1 + self.random.below(12);
        match operation {
            0 => self.binary(width, d, |a, b| a & b, |a, b| zip(a, b, |x, y| x & y)),
            1 => self.binary(width, d, |a, b| a | b, |a, b| zip(a, b, |x, y| x | y)),
            2 => self.binary(width, d, |a, b| a ^ b, |a, b| zip(a, b, |x, y| x ^ y)),
            3 | 4 => self.binary(width, d, |a, b| a + b, |a, b| add(a, b, false)),
            5 | 6 => self.binary(width, d, |a, b| a - b, |a, b| add(a, &invert(b), true)),
            7 => self.unary(width, d, |a| !a, invert),
            8 => self.unary(width, d, Bits::plus_one, |a| add(a, &vec![false; a.len()], true)),
            9 => self.unary(width, d, Bits::minus_one, |a| add(a, &vec![true; a.len()], false)),
            10 => self.one_bit(width, other, d, |a, b| a.eq(b), |a, b| a == b),
            11 => self.one_bit(width, other, d, |a, b| a.ne(b), |a, b| a != b),
            12 => self.one_bit(width, other, d, |a, b| a.lt(b), less),
            13 => self.one_bit(width, other, d, |a, b| a.ge(b), |a, b| !less(a, b)),
            14 => self.one_bit(width, other, d, |a, _| a.all(), |a, _| a.iter().all(|bit| *bit)),
            15 => self.one_bit(width, other, d, |a, _| a.is_zero(), |a, _| !a.contains(&true)),
            16 | 17 => {
                let [value, amount] = [self.expression(width, d), self.expression(other.min(7), d)];
                let left = operation == 16;
                let bits = if left { value.bits.shl(amount.bits) } else { value.bits.shr(amount.bits) };
                Expression {
                    bits,
                    meaning: Box::new(move |v| shifted(&(value.meaning)(v), &(amount.meaning)(v), left)),
                }
            }
            18 => {
                let select = self.expression(1, d);
                let [a, b] = [self.expression(width, d), self.expression(width, d)];
                let bits = mux(select.bits, a.bits, b.bits);
                let meaning =
                    move |v: &[Value]| if (select.meaning)(v)[0] { (a.meaning)(v) } else { (b.meaning)(v) };
                Expression { bits, meaning: Box::new(meaning) }
            }
            19 => {
                // A slice of an expression that is wider at both ends.
                let (low, above) = (self.random.below(4), self.random.below(4));
                let whole = self.expression(low + width + above, d);
                let range = low as usize..(low + width) as usize;
                let bits = whole.bits.slice(low, width);
                Expression { bits, meaning: Box::new(move |v| (whole.meaning)(v)[range.clone()].to_vec()) }
            }
            20 if width > 1 => {
                let low_width = 1 + self.random.below(width - 1);
                let [high, low] = [self.expression(width - low_width, d), self.expression(low_width, d)];
                let bits = cat([high.bits, low.bits]);
                let meaning = move |v: &[Value]| [(low.meaning)(v), (high.meaning)(v)].concat();
                Expression { bits, meaning: Box::new(meaning) }
            }
            21 if width > 1 => {
                let part_width = 1 + self.random.below(width - 1);
                let signed = self.random.below(2) == 1;
                let part = self.expression(part_width, d);
                let bits = if signed { part.bits.sext(width) } else { part.bits.zext(width) };
                let meaning = move |v: &[Value]| {
                    let mut value = (part.meaning)(v);
                    let fill = signed && value[value.len() - 1];
                    value.resize(width as usize, fill);
                    value
                };
                Expression { bits, meaning: Box::new(meaning) }
            }
            22 => {
                let count = 2 + self.random.below(3);
                let select = self.expression(count, d);
                let values: Vec<Expression> = (0..count).map(|_| self.expression(width, d)).collect();
                let bits: Vec<Bits> = values.iter().map(|value| value.bits).collect();
                let or = self.random.below(4) == 0;
                let bits = if or { any_of(&bits) } else { one_hot_mux(&select.bits, &bits) };
                let meaning = move |v: &[Value]| {
                    let select = (select.meaning)(v);
                    let taken = values.iter().zip(select).filter(|(_, bit)| or || *bit);
                    let zero = vec![false; width as usize];
                    taken.fold(zero, |sum, (value, _)| zip(&sum, &(value.meaning)(v), |x, y| x | y))
                };
                Expression { bits, meaning: Box::new(meaning) }
            }
            23 => self.binary(width, d, |a, b| a * b, multiply),
            24 => {
                let index_bits = 1 + self.random.below(3);
                let index = self.expression(index_bits, d);
                let significant = width.min(100);
                let table: Vec<Value> =
                    (0..1 << index.bits.width()).map(|_| self.random.vector(significant)).collect();
                let numbers: Vec<u128> = table
                    .iter()
                    .map(|value| value.iter().rev().fold(0, |n, bit| n << 1 | u128::from(*bit)))
                    .collect();
                let bits = rom(index.bits, &numbers, width);
                let meaning = move |v: &[Value]| {
                    let at = (index.meaning)(v).iter().rev().fold(0, |n, bit| n << 1 | usize::from(*bit));
                    let mut value = table[at].clone();
                    value.resize(width as usize, false);
                    value
                };
                Expression { bits, meaning: Box::new(meaning) }
            }
            _ => {
                // Repetition where the width divides, and a name for the expression.
                let count = if width.is_multiple_of(3) { 3 } else { 1 };
                let part = self.expression(width / count, d);
                let bits = self.module.wire(format!("w{}", self.wires), repeat(count, part.bits));
                self.wires += 1;
                self.module.unused(bits, "a slice of a concatenation may leave it out");
                Expression { bits, meaning: Box::new(move |v| (part.meaning)(v).repeat(count as usize)) }
            }
        }
    }

    fn unary(
        &mut self,
        width: u32,
        depth: u32,
        bits: fn(&Bits) -> Bits,
        f: fn(&[bool]) -> Value,
    ) -> Expression {
        let a = self.expression(width, depth);
        Expression { bits: bits(&a.bits), meaning: Box::new(move |v| f(&(a.meaning)(v))) }
    }

    fn binary(
        &mut self,
        width: u32,
        depth: u32,
        bits: fn(&Bits, &Bits) -> Bits,
        f: fn(&[bool], &[bool]) -> Value,
    ) -> Expression {
        let [a, b] = [self.expression(width, depth), self.expression(width, depth)];
        Expression {
            bits: bits(&a.bits, &b.bits),
            meaning: Box::new(move |v| f(&(a.meaning)(v), &(b.meaning)(v))),
        }
    }

    /// A one-bit result of two operands of `other` bits, repeated to `width`.
    fn one_bit(
        &mut self,
        width: u32,
        other: u32,
        depth: u32,
        bits: fn(&Bits, &Bits) -> Bits,
        f: fn(&[bool], &[bool]) -> bool,
    ) -> Expression {
        let [a, b] = [self.expression(other, depth), self.expression(other, depth)];
        let bits = repeat(width, bits(&a.bits, &b.bits));
        let meaning = move |v: &[Value]| vec![f(&(a.meaning)(v), &(b.meaning)(v)); width as usize];
        Expression { bits, meaning: Box::new(meaning) }
    }
}

fn binary_text(value: &[bool]) -> String {
    value.iter().rev().map(|bit| if *bit { '1' } else { '0' }).collect()
}

/// Numbers of outputs (expressions) of a random module and of input vectors for each.
const OUTPUTS: usize = 60;
const VECTORS: usize = 25;

/// Builds a module of random expressions, simulates it and counts the wrong outputs. `plant` flips one expected bit.
fn mismatches(seed: u64, plant: bool, operations: &mut Vec<u32>) -> Vec<String> {
    let module = ModuleBuilder::new("dut", "Random expressions.");
    let inputs: Vec<Bits> =
        INPUTS.iter().map(|w| module.input(format!("a{w}_i"), *w, "random operand")).collect();
    inputs.iter().for_each(|input| module.unused(input, "not every input is drawn"));
    let mut generator = Generator { random: Random(seed), module: &module, inputs, wires: 0, operations };
    let mut outputs = Vec::new();
    for index in 0..OUTPUTS {
        let width = 1 + generator.random.below(if index % 8 == 0 { 140 } else { 24 });
        let expression = generator.expression(width, 1 + index as u32 % 5);
        module.output(format!("y{index}_o"), expression.bits, "result");
        outputs.push((width, expression.meaning));
    }
    let mut random = Random(seed ^ 0xABCD);
    let vectors: Vec<Vec<Value>> =
        (0..VECTORS).map(|_| INPUTS.iter().map(|w| random.vector(*w)).collect()).collect();
    let dut = module.finish().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let long = dut.verilog().lines().find(|line| line.len() > 140);
    assert_eq!(long, None, "seed {seed}: expressions are broken where they are longer than a line");
    let printed = simulate(&dut, &vectors, &outputs.iter().map(|(w, _)| *w).collect::<Vec<_>>());
    assert_eq!(printed.len(), VECTORS * OUTPUTS, "seed {seed}: one line per vector and output");

    let mut wrong = Vec::new();
    for (index, actual) in printed.iter().enumerate() {
        let (vector, output) = (index / OUTPUTS, index % OUTPUTS);
        let mut expected = outputs[output].1(&vectors[vector]);
        assert_eq!(expected.len(), outputs[output].0 as usize);
        if plant && index == OUTPUTS + 1 {
            expected[0] = !expected[0];
        }
        if *actual != binary_text(&expected) {
            let expected = binary_text(&expected);
            wrong.push(format!("seed {seed}, vector {vector}, y{output}_o: {actual}, expected {expected}"));
        }
    }
    if !plant && !wrong.is_empty() {
        eprintln!("{}", dut.verilog());
    }
    wrong
}

/// The outputs in binary: all of the first vector, then all of the second, ...
fn simulate(dut: &Module, vectors: &[Vec<Value>], widths: &[u32]) -> Vec<String> {
    let mut bench = String::from("module bench;\n");
    let mut ports = Vec::new();
    for width in INPUTS {
        let _ = writeln!(bench, "reg [{}:0] a{width};", width - 1);
        ports.push(format!(".a{width}_i(a{width})"));
    }
    for (index, width) in widths.iter().enumerate() {
        let _ = writeln!(bench, "wire [{}:0] y{index};", width - 1);
        ports.push(format!(".y{index}_o(y{index})"));
    }
    let _ = writeln!(bench, "{} dut ({});\ninitial begin", dut.name(), ports.join(", "));
    for vector in vectors {
        for (width, value) in INPUTS.iter().zip(vector) {
            let _ = writeln!(bench, "a{width} = {width}'b{};", binary_text(value));
        }
        bench += "#1;\n";
        for index in 0..widths.len() {
            let _ = writeln!(bench, "$display(\"%b\", y{index});");
        }
    }
    bench += "end\nendmodule\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bench.v"), format!("{}\n{bench}", dut.verilog())).unwrap();
    common::run(
        "iverilog",
        "iverilog",
        &["-g2005", "-s", "bench", "-o", "bench.vvp", "bench.v"],
        folder.path(),
    );
    let printed = common::run("vvp", "iverilog", &["-n", "bench.vvp"], folder.path());
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn random_expressions_mean_the_same_in_verilog() {
    let mut operations = Vec::new();
    for seed in 1..=40 {
        let wrong = mismatches(seed, false, &mut operations);
        assert!(
            wrong.is_empty(),
            "{} of {}:\n{}",
            wrong.len(),
            VECTORS * OUTPUTS,
            wrong[..wrong.len().min(5)].join("\n")
        );
    }
    for operation in 0..OPERATIONS {
        let count = operations.iter().filter(|drawn| **drawn == operation).count();
        assert!(count >= 20, "operation {operation} was drawn {count} times only");
    }
}

#[test]
fn a_flipped_bit_is_found() {
    let wrong = mismatches(1, true, &mut Vec::new());
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with("seed 1, vector 1, y1_o: "), "{wrong:?}");
}
