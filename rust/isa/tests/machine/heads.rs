//! Does a product of rows that hold several heads give each head its own sum? The test computes the sums again in plain
//! integers.

use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::layout::{MatrixLayout, elements_of, pack_elements};
use ndp_isa::machine::{Machine, Memory, SparseMemory};
use ndp_isa::{Code, Instruction, parse};
use ndp_numerics::{SplitMix64, f16};
use ndp_testkit::RandomPrograms;

/// Integers in -3..=3, whose sums FP16 has exactly.
fn integers(random: &mut SplitMix64, vectors: usize, length: usize) -> Vec<Vec<i64>> {
    (0..vectors).map(|_| (0..length).map(|_| (random.next_u64() % 7) as i64 - 3).collect()).collect()
}

fn half(n: i64) -> u16 {
    f16::from_f64(n as f64).to_bits()
}

fn put_vectors(memory: &mut SparseMemory, address: u64, vectors: &[Vec<i64>]) {
    let mut burst = address;
    for first in (0..vectors[0].len()).step_by(32) {
        for vector in vectors {
            let beat = vector[first..].iter().take(32).map(|n| half(*n));
            memory.write_burst(burst, pack_elements(beat.chain(std::iter::repeat(0x7E00)).take(32)));
            burst += 1;
        }
    }
}

fn get_vectors(memory: &SparseMemory, address: u64, elements: usize, batch: usize) -> Vec<Vec<u16>> {
    let mut vectors = vec![Vec::new(); batch];
    for index in 0..elements.div_ceil(32) * batch {
        vectors[index % batch].extend(elements_of(&memory.get(address + index as u64)));
    }
    for vector in &mut vectors {
        assert!(vector.drain(elements..).all(|bits| bits == 0), "+0 beyond the end");
    }
    vectors
}

fn put_matrix(config: &DesignConfig, memory: &mut SparseMemory, address: u32, rows: &[Vec<i64>]) {
    let layout = MatrixLayout::unbounded(config, address, rows[0].len() as u32, WeightFormat::Fp16);
    for (row, values) in (0..).zip(rows) {
        for (col, value) in (0..).zip(values) {
            let place = layout.locate(row, col);
            let burst =
                ndp_isa::layout::DimmAddress { rank: place.rank, burst: place.burst }.to_burst(config);
            let mut elements = elements_of(&memory.read_burst(burst));
            elements[place.element as usize] = half(*value);
            memory.write_burst(burst, pack_elements(elements));
        }
    }
}

/// A matrix of `rows` rows of `cols` elements, and one or two products with `heads` heads.
fn check(config: &DesignConfig, (rows, cols, batch, heads): (usize, usize, usize, usize), seed: u64) {
    let mut random = SplitMix64::new(seed);
    let (x, w) = (integers(&mut random, batch, cols), integers(&mut random, rows, cols));
    let a = integers(&mut random, batch * heads, rows);
    let mut memory = SparseMemory::new();
    put_vectors(&mut memory, 1000, &x);
    let parts = if batch * heads > config.gemv().max_batch() as usize { 2 } else { 1 };
    let part = batch * heads / parts;
    for (at, block) in [3000, 4000].into_iter().zip(a.chunks(part)) {
        put_vectors(&mut memory, at, block);
    }
    put_matrix(config, &mut memory, 50_000, &w);
    let words = ndp_isa::block_words(config, rows as u32, 1) as usize;
    assert!(parts == 1 || words == 1);
    let mut program = format!("load dst=0, cols={cols}, batch={batch}, address=1000\n");
    program += &format!(
        "dot src=0, dst=8, cols={cols}, batch={batch}, count={rows}, address=50000, heads={heads}\n"
    );
    for index in 0..parts {
        let (y, at) = (8 + index * part, 20_000 + 1000 * index);
        program += &format!("store src={y}, cols={rows}, batch={part}, address={at}\nbarrier\n");
        let (dst, at) = (8 + index * part, 3000 + 1000 * index);
        program += &format!("load dst={dst}, cols={rows}, batch={part}, address={at}\n");
    }
    let sums = 8 + batch * heads * words;
    let sum_words = ndp_isa::accumulator_words(config, cols as u32, batch as u32);
    program += &format!("zero dst={sums}, count={sum_words}\n");
    program += &format!(
        "axpy src=8, dst={sums}, cols={cols}, batch={batch}, count={rows}, address=50000, heads={heads}\n"
    );
    program += &format!("round src={sums}, dst={sums}, cols={cols}, batch={batch}\n");
    program += &format!("store src={sums}, cols={cols}, batch={batch}, address=30000\n");
    let mut machine = Machine::new(config, memory).unwrap();
    machine.run(&parse(&program).unwrap()).unwrap();
    assert_eq!(machine.status().malformed, 0, "{program}");

    let width = config.gemv().stripe_elems() as usize / heads;
    let of_head = |s: usize| (s * width).min(cols)..((s + 1) * width).min(cols);
    for index in 0..parts {
        let y = get_vectors(machine.memory(), 20_000 + 1000 * index as u64, rows, part);
        for (v, values) in y.iter().enumerate() {
            let (b, s) = ((index * part + v) / heads, (index * part + v) % heads);
            let expected = |row: &Vec<i64>| half(of_head(s).map(|c| row[c] * x[b][c]).sum());
            assert_eq!(
                *values,
                w.iter().map(expected).collect::<Vec<_>>(),
                "vector {b}, head {s}:\n{program}"
            );
        }
    }
    let sums = get_vectors(machine.memory(), 30_000, cols, batch);
    for (b, values) in sums.iter().enumerate() {
        for (c, value) in values.iter().enumerate() {
            let sum = (0..rows).map(|k| a[b * heads + c / width][k] * w[k][c]).sum();
            assert_eq!(*value, half(sum), "vector {b}, column {c}:\n{program}");
        }
    }
}

#[test]
fn each_head_has_its_own_sums_and_factors() {
    let tiny = DesignConfig::preset("tiny").unwrap();
    for (index, shape) in
        [(1, 64, 1, 8), (5, 64, 2, 4), (60, 40, 4, 2), (33, 1, 1, 2), (128, 17, 2, 4), (300, 64, 1, 4)]
            .into_iter()
            .enumerate()
    {
        check(&tiny, shape, index as u64);
    }
    let hermes = DesignConfig::preset("hermes").unwrap();
    check(&hermes, (40, 512, 1, 8), 10);
    check(&hermes, (30, 500, 2, 4), 11);
    check(&hermes, (20, 512, 4, 4), 12);
}

#[test]
fn the_monitor_keeps_the_counts_of_the_last_product_with_one_head() {
    let config = DesignConfig::preset("tiny").unwrap();
    let mut machine = Machine::new(&config, SparseMemory::new()).unwrap();
    let program = ".random 0 bursts=2 seed=1 kind=normal\n.matrix 100 rows=20 cols=64 seed=2 kind=normal\n\
        load dst=0, cols=64, address=0\ndot src=0, dst=1, cols=64, count=20, address=100";
    machine.run(&parse(program).unwrap()).unwrap();
    let counts = machine.activations().to_vec();
    assert_eq!(counts.len(), 20);
    let heads = "dot src=0, dst=2, cols=64, count=7, address=100, heads=4";
    machine.run(&parse(heads).unwrap()).unwrap();
    assert_eq!(machine.activations(), counts);
}

#[test]
fn random_programs_have_heads_of_every_number() {
    let config = DesignConfig::preset("tiny").unwrap();
    let mut seen = [[0; 4]; 2];
    for program in RandomPrograms::new(&config, 5).take(200) {
        for code in &program.code {
            match code {
                Code::Instruction(Instruction::Dot(p)) => seen[0][p.heads.trailing_zeros() as usize] += 1,
                Code::Instruction(Instruction::Axpy(p)) => seen[1][p.heads.trailing_zeros() as usize] += 1,
                _ => {}
            }
        }
    }
    println!("{seen:?}");
    assert!(seen.iter().flatten().all(|count| *count >= 10), "{seen:?}");
}
