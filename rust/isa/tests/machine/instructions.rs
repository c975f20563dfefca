//! Does the machine execute instructions as the document says? The test computes the results again in plain integers.

use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::layout::{DimmAddress, MatrixLayout, elements_of, pack_elements, pack_words};
use ndp_isa::machine::{FirstError, Machine, Memory, SparseMemory};
use ndp_isa::{ErrorCode, Instruction, Product, parse};
use ndp_numerics::{SerialSteps, SplitMix64, dot_truncated, f16};

fn tiny() -> DesignConfig {
    DesignConfig::preset("tiny").unwrap()
}

/// The FP16 bits of an integer, |n| <= 2048.
fn half(n: i64) -> u16 {
    f16::from_f64(n as f64).to_bits()
}

struct Host {
    config: DesignConfig,
    machine: Machine<SparseMemory>,
}

impl Host {
    fn new(config: DesignConfig) -> Self {
        let machine = Machine::new(&config, SparseMemory::new()).unwrap();
        Self { config, machine }
    }

    /// Vectors at consecutive bursts, beat 0 of each, then beat 1; padded with NaN.
    fn put_vectors(&mut self, address: u64, vectors: &[Vec<u16>]) {
        let mut burst = address;
        for first in (0..vectors[0].len()).step_by(32) {
            for vector in vectors {
                let beat = (first..first + 32).map(|e| *vector.get(e).unwrap_or(&0x7FFF));
                self.machine.memory_mut().write_burst(burst, pack_elements(beat));
                burst += 1;
            }
        }
    }

    /// Reads vectors back, padding included.
    fn get_vectors(&mut self, address: u64, elements: usize, batch: usize) -> Vec<Vec<u16>> {
        let mut vectors = vec![Vec::new(); batch];
        for index in 0..elements.div_ceil(32) * batch {
            let data = self.machine.memory_mut().read_burst(address + index as u64);
            vectors[index % batch].extend(elements_of(&data));
        }
        vectors
    }

    fn put_matrix(&mut self, address: u32, rows: &[Vec<u16>]) {
        let layout = MatrixLayout::unbounded(&self.config, address, rows[0].len() as u32, WeightFormat::Fp16);
        for (row, values) in (0..).zip(rows) {
            for (col, value) in (0..).zip(values) {
                let place = layout.locate(row, col);
                let burst = DimmAddress { rank: place.rank, burst: place.burst }.to_burst(&self.config);
                let mut elements = elements_of(&self.machine.memory_mut().read_burst(burst));
                elements[place.element as usize] = *value;
                self.machine.memory_mut().write_burst(burst, pack_elements(elements));
            }
        }
    }

    fn run(&mut self, text: &str) {
        let before = self.machine.status().malformed;
        self.machine.run(&parse(text).unwrap()).unwrap();
        assert_eq!(self.machine.status().malformed, before, "{text}");
    }
}

fn integers(random: &mut SplitMix64, vectors: usize, length: usize) -> Vec<Vec<i64>> {
    (0..vectors).map(|_| (0..length).map(|_| (random.next_u64() % 7) as i64 - 3).collect()).collect()
}

fn halves(vectors: &[Vec<i64>]) -> Vec<Vec<u16>> {
    vectors.iter().map(|vector| vector.iter().map(|&n| half(n)).collect()).collect()
}

/// `count` values and +0 up to the end of the beat.
fn padded(mut values: Vec<u16>) -> Vec<u16> {
    values.resize(values.len().next_multiple_of(32), 0);
    values
}

#[test]
fn dot_multiplies_rows_with_every_vector() {
    let mut random = SplitMix64::new(1);
    for (cols, rows, batch) in [(1, 1, 1), (64, 5, 2), (100, 40, 3), (129, 7, 4), (600, 3, 1)] {
        let mut host = Host::new(tiny());
        let (x, w) = (integers(&mut random, batch, cols), integers(&mut random, rows, cols));
        host.put_vectors(1000, &halves(&x));
        host.put_matrix(5000, &halves(&w));
        host.run(&format!(
            "load dst=3, cols={cols}, batch={batch}, address=1000\n\
             dot src=3, dst=40, cols={cols}, batch={batch}, count={rows}, address=5000\n\
             store src=40, cols={rows}, batch={batch}, address=2000"
        ));
        let sum = |b: usize, r: usize| x[b].iter().zip(&w[r]).map(|(x, w)| x * w).sum::<i64>();
        for (b, y) in host.get_vectors(2000, rows, batch).into_iter().enumerate() {
            assert_eq!(y, padded((0..rows).map(|r| half(sum(b, r))).collect()), "{cols}, {rows}, vector {b}");
        }
        let active = |r: usize| Some((0..batch).filter(|&b| sum(b, r) > 0).count() as u8);
        assert_eq!(host.machine.activations(), (0..rows).map(active).collect::<Vec<_>>());
        assert_eq!(host.machine.unfenced_reads(), 0);
    }
}

#[test]
fn listed_rows_come_in_the_order_of_the_list() {
    let mut random = SplitMix64::new(2);
    let (x, w) = (integers(&mut random, 1, 70), integers(&mut random, 20, 70));
    let mut host = Host::new(tiny());
    host.put_vectors(0, &halves(&x));
    host.put_matrix(100, &halves(&w));
    let rows: Vec<u32> = (0..18).map(|k| (7 * k + 3) % 20).collect();
    for (burst, chunk) in rows.chunks(16).enumerate() {
        let entries = pack_words(chunk.iter().map(|row| row | 0xA500_0000));
        host.machine.memory_mut().write_burst(500 + burst as u64, entries);
    }
    host.run(
        "list list=32, count=18, address=500\nload dst=0, cols=70, address=0\n\
         dot src=0, dst=9, cols=70, count=17, address=100, list=33\nstore src=9, cols=17, address=600",
    );
    let expected =
        rows[1..].iter().map(|&row| half(x[0].iter().zip(&w[row as usize]).map(|(x, w)| x * w).sum()));
    assert_eq!(host.get_vectors(600, 17, 1), [padded(expected.collect())]);
}

#[test]
fn axpy_adds_rows_to_what_is_there_and_round_keeps_it() {
    let mut random = SplitMix64::new(3);
    for (cols, rows, batch) in [(1, 1, 1), (130, 9, 2), (64, 33, 3), (200, 5, 1)] {
        let mut host = Host::new(tiny());
        let (a, w) = (integers(&mut random, batch, rows), integers(&mut random, rows, cols));
        host.put_vectors(1000, &halves(&a));
        host.put_matrix(0, &halves(&w));
        let words = ndp_isa::accumulator_words(&host.config, cols as u32, batch as u32);
        let product = format!("cols={cols}, batch={batch}");
        host.run(&format!(
            "load dst=0, cols={rows}, batch={batch}, address=1000\n\
             zero dst=10, count={words}\n\
             axpy src=0, dst=10, {product}, count={rows}, address=0\n\
             round src=10, dst=5, {product}\n\
             store src=5, {product}, address=2000\n\
             axpy src=0, dst=10, {product}, count={rows}, address=0\n\
             round src=10, dst=10, {product}\n\
             store src=10, {product}, address=3000"
        ));
        for (address, times) in [(2000, 1), (3000, 2)] {
            for (b, y) in host.get_vectors(address, cols, batch).into_iter().enumerate() {
                let sum = |c: usize| (0..rows).map(|r| a[b][r] * w[r][c]).sum::<i64>();
                assert_eq!(
                    y,
                    padded((0..cols).map(|c| half(times * sum(c))).collect()),
                    "{cols}, vector {b}"
                );
            }
        }
    }
}

#[test]
fn accumulators_stay_exact_until_they_are_rounded() {
    // 65504 * 65504 three times, then subtracted: the smallest product survives.
    let mut host = Host::new(tiny());
    let factors: Vec<u16> = [0x7BFF, 0x7BFF, 0x7BFF, 0xFBFF, 0xFBFF, 0xFBFF, 0x3C00].into();
    let mut rows = vec![vec![0x7BFF; 3]; 6];
    rows.push(vec![0x0001, 0x8001, 0x0000]);
    host.put_vectors(0, &[factors]);
    host.put_matrix(64, &rows);
    host.run(
        "load dst=0, cols=7, address=0\nzero dst=8, count=8\naxpy src=0, dst=8, cols=3, count=7, address=64\n\
         round src=8, dst=8, cols=3\nstore src=8, cols=3, address=9",
    );
    assert_eq!(host.get_vectors(9, 3, 1), [padded(vec![0x0001, 0x8001, 0x0000])]);
}

#[test]
fn special_values_follow_the_contract() {
    let mut host = Host::new(tiny());
    let (inf, one, nan) = (0x7C00, 0x3C00, 0x7E00);
    // One NaN is as good as another, in vectors and in results; zeros and infinities keep their signs.
    host.put_vectors(0, &[vec![0x7C01, 0xFFFF, 0x8000, 0xFC00, 0x83FF]]);
    host.run("load dst=0, cols=5, address=0\nstore src=0, cols=5, address=7");
    assert_eq!(host.get_vectors(7, 5, 1), [padded(vec![nan, nan, 0x8000, 0xFC00, 0x83FF])]);
    host.put_vectors(0, &[vec![one, one]]);
    let rows =
        [[inf, one], [inf, 0xFC00], [0xFC00, inf ^ 0x8000], [0x7C01, one], [0x8000, 0x8000], [one, 0xBC00]];
    host.put_matrix(100, &rows.map(Vec::from));
    host.run(
        "load dst=0, cols=2, address=0\ndot src=0, dst=3, cols=2, count=6, address=100\nbarrier\n\
         store src=3, cols=6, address=7",
    );
    assert_eq!(host.get_vectors(7, 6, 1), [padded(vec![inf, nan, 0xFC00, nan, 0, 0])]);
    assert_eq!(host.machine.activations(), [Some(1), Some(0), Some(0), Some(0), Some(0), Some(0)]);
    // Infinity times zero, in an axpy.
    host.put_vectors(0, &[vec![inf]]);
    host.put_matrix(100, &[vec![0x8000, 0xBC00, nan]]);
    host.run(
        "load dst=0, cols=1, address=0\nzero dst=8, count=8\naxpy src=0, dst=8, cols=3, count=1, address=100\n\
         round src=8, dst=7, cols=3\nstore src=7, cols=3, address=50",
    );
    assert_eq!(host.get_vectors(50, 3, 1), [padded(vec![nan, 0xFC00, nan])]);
}

#[test]
fn weights_lose_what_the_serial_steps_leave_out() {
    let text = "name = \"four\"\n[gemv]\nserial_steps = 4\nranks = 2\nmultipliers = 16\nbuffer_kib = 16";
    let mut host = Host::new(DesignConfig::from_toml(text).unwrap());
    let mut random = SplitMix64::new(4);
    let mut data = |n| (0..n).map(|_| random.next_u64() as u16 & 0xBFFF).collect::<Vec<u16>>();
    let (x, w) = (data(90), [data(90), data(90)]);
    host.put_vectors(0, std::slice::from_ref(&x));
    host.put_matrix(100, &w);
    host.run(
        "load dst=0, cols=90, address=0\ndot src=0, dst=8, cols=90, count=2, address=100\n\
         store src=8, cols=2, address=50",
    );
    let numbers = |bits: &[u16]| bits.iter().map(|&b| f16::from_bits(b)).collect::<Vec<_>>();
    let steps = SerialSteps::new(4).unwrap();
    let expected = w.iter().map(|w| dot_truncated(steps, &numbers(w), &numbers(&x)).to_bits());
    assert_eq!(host.get_vectors(50, 2, 1), [padded(expected.collect())]);
    // In an axpy it is the weights too: 1.1111111111b becomes 1.111b, the factor stays.
    host.put_vectors(0, &[vec![0x3FFF]]);
    host.put_matrix(100, &[vec![0x3C00, 0x3FFF]]);
    host.run(
        "load dst=0, cols=1, address=0\nzero dst=8, count=8\naxpy src=0, dst=8, cols=2, count=1, address=100\n\
         round src=8, dst=7, cols=2\nstore src=7, cols=2, address=60",
    );
    // 2047/1024 * 15/8 = 3.748..., to nearest: 0x437F is 3.748046875.
    assert_eq!(host.get_vectors(60, 2, 1), [padded(vec![0x3FFF, 0x437F])]);
}

#[test]
fn data_beyond_the_last_burst_go_on_at_the_first() {
    let mut host = Host::new(tiny());
    let total = 1u64 << host.config.dimm_burst_bits();
    let x: Vec<u16> = (1..=70).map(half).collect();
    for (index, beat) in x.chunks(32).enumerate() {
        let burst = (total - 1 + index as u64) % total;
        host.machine.memory_mut().write_burst(burst, pack_elements(beat.iter().copied()));
    }
    host.run(&format!(
        "load dst=0, cols=70, address={}\nstore src=0, cols=70, address={}",
        total - 1,
        total - 2
    ));
    let stored: Vec<u16> = [total - 2, total - 1, 0]
        .into_iter()
        .flat_map(|burst| elements_of(&host.machine.memory_mut().read_burst(burst)))
        .collect();
    assert_eq!(stored, padded(x));
}

#[test]
fn malformed_instructions_count_and_do_nothing() {
    let mut host = Host::new(tiny());
    host.put_vectors(0, &[vec![half(5)]]);
    host.run("load dst=0, cols=1, address=0\nsignal 9");
    let before = host.machine.memory().clone();
    let product = Product {
        src: 0,
        dst: 0,
        cols: 1,
        batch: 1,
        count: 1,
        address: 0,
        list: None,
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    let overlap = host.machine.execute(&Instruction::Dot(product));
    assert!(overlap.is_err_and(|error| error.code() == ErrorCode::Overlap));
    let unknown = host.machine.execute_word(0xFF).unwrap_err();
    assert_eq!(
        (unknown.code(), unknown.to_string()),
        (ErrorCode::Opcode, "opcode 0xff is unknown".to_owned())
    );
    let store = Instruction::Store { src: 64, cols: 1, batch: 1, address: 3 };
    assert!(host.machine.execute(&store).is_err());
    assert_eq!(host.machine.memory(), &before);
    let status = *host.machine.status();
    assert_eq!((status.taken, status.malformed, status.tag, status.signals), (5, 3, 9, 1));
    assert_eq!(status.first_error, Some(FirstError { code: 7, sequence: 2 }));
    host.run("store src=0, cols=1, address=3");
    assert_eq!(host.get_vectors(3, 1, 1), [padded(vec![half(5)])]);
}

#[test]
fn what_the_document_leaves_open_is_marked_and_spreads() {
    let unspecified = |text: &str, burst: u64| {
        let mut host = Host::new(tiny());
        host.put_vectors(0, &[vec![half(1); 300]]);
        host.run(text);
        host.machine.unspecified(burst)
    };
    // Never written; accumulators as vectors; vectors as accumulators or in another shape. Sums have values in any
    // shape, even if partly cleared.
    assert_eq!(unspecified("store src=0, cols=5, address=9", 9), 0x1F);
    assert_eq!(unspecified("zero dst=0, count=1\nstore src=0, cols=5, address=9", 9), 0);
    let sums = "load dst=0, cols=1, address=0\nzero dst=8, count=16\naxpy src=0, dst=8, cols=3, count=1, address=0\n";
    assert_eq!(unspecified(&format!("{sums}store src=8, cols=2, address=9"), 9), 3);
    assert_eq!(
        unspecified(&format!("{sums}round src=8, dst=8, cols=3\nstore src=8, cols=3, address=9"), 9),
        0
    );
    assert_eq!(
        unspecified(&format!("{sums}round src=8, dst=8, cols=4\nstore src=8, cols=4, address=9"), 9),
        0
    );
    assert_eq!(
        unspecified(
            &format!("{sums}zero dst=9, count=1\nround src=8, dst=8, cols=3\nstore src=8, cols=3, address=9"),
            9
        ),
        0
    );
    assert_eq!(
        unspecified(
            "load dst=0, cols=200, address=0\nround src=0, dst=0, cols=3\nstore src=0, cols=3, address=9",
            9
        ),
        7
    );
    // A selection of nothing: its vectors are unspecified up to their end, and +0 beyond it.
    let nothing = "load dst=0, cols=65, address=0\nsub src=0, other=0, dst=0, cols=65\nselect src=0, dst=8, cols=65, list=0, row=0\n\
                   store src=8, cols=65, address=20";
    assert_eq!([20, 21, 22].map(|burst| unspecified(nothing, burst)), [u32::MAX, u32::MAX, 1]);
    let load = "load dst=0, cols=130, batch=2, address=0\n";
    assert_eq!(unspecified(&format!("{load}store src=0, cols=130, batch=2, address=20"), 20), 0);
    assert_eq!(unspecified(&format!("{load}store src=0, cols=131, batch=2, address=20"), 20), u32::MAX);
    assert_eq!(unspecified(&format!("{load}store src=1, cols=130, address=20"), 20), u32::MAX);
    // Half of the block overwritten: the other half is still there.
    let half = format!("{load}load dst=0, cols=1, address=0\nstore src=0, cols=130, batch=2, address=20");
    assert_eq!([unspecified(&half, 20), unspecified(&half, 21)], [u32::MAX, 0]);
    // Dot: an unspecified element of x spoils its vector's results, an unspecified list entry its row.
    let dot =
        "dot src=0, dst=32, cols=130, batch=2, count=3, address=0\nstore src=32, cols=3, batch=2, address=20";
    let spoilt = format!("{load}load dst=0, cols=1, address=0\n{dot}");
    assert_eq!([unspecified(&spoilt, 20), unspecified(&spoilt, 21)], [7, 0]);
    let listed = "load dst=0, cols=1, address=0\nlist list=0, count=16, address=0\n\
                  dot src=0, dst=1, cols=1, count=3, address=0, list=14\nstore src=1, cols=3, address=9";
    assert_eq!(unspecified(listed, 9), 4);
}

#[test]
fn a_read_without_a_barrier_after_the_store_is_seen() {
    let mut host = Host::new(tiny());
    host.put_vectors(0, &[vec![half(1)]]);
    host.run("load dst=0, cols=1, address=0\nstore src=0, cols=1, address=8\nload dst=2, cols=1, address=8");
    assert_eq!(host.machine.unfenced_reads(), 1);
    host.run("store src=2, cols=1, address=9\nbarrier\nload dst=3, cols=1, address=8\nstore src=3, cols=1, address=10");
    assert_eq!([9, 10].map(|burst| host.machine.unspecified(burst)), [1, 0]);
    assert_eq!(host.machine.unfenced_reads(), 1);
    // Unspecified data spread through loads, weights and lists until they are overwritten.
    host.run("load dst=5, cols=1, address=9\nstore src=5, cols=1, address=11");
    assert_eq!(host.machine.unspecified(11), 1);
    host.run("dot src=3, dst=6, cols=1, count=1, address=4\nstore src=6, cols=1, address=12");
    assert_eq!(host.machine.unspecified(12), 0, "rank burst 4 is burst 8 of the DIMM");
    host.run(
        "barrier\nstore src=2, cols=1, address=8\nbarrier\ndot src=3, dst=6, cols=1, count=1, address=4",
    );
    host.run("store src=6, cols=1, address=12");
    assert_eq!(host.machine.unspecified(12), 1);
    assert_eq!(host.machine.activations(), [None]);
    host.run("zero dst=0, count=1\nstore src=0, cols=1, address=12");
    assert_eq!(host.machine.unspecified(12), 0);
}

#[test]
fn the_monitor_wraps() {
    let mut host = Host::new(tiny());
    let mut rows = vec![vec![half(-1)]; 4100];
    rows[1] = vec![half(1)];
    rows[4098] = vec![half(1)];
    host.put_vectors(0, &[vec![half(1)]]);
    host.put_matrix(10, &rows);
    host.run("load dst=0, cols=1, address=0\ndot src=0, dst=20, cols=1, count=4100, address=10");
    assert_eq!(host.machine.activations().len(), 4096);
    // k = 4097 has overwritten the 1 of k = 1.
    let active: Vec<usize> = (0..4096).filter(|&k| host.machine.activations()[k] == Some(1)).collect();
    assert_eq!(active, [2]);
}

#[test]
fn a_next_program_counts_anew_and_finds_what_is_stored() {
    let mut host = Host::new(DesignConfig::preset("tiny").unwrap());
    host.run(".f16 0 1, 2, 3\nload dst=0, cols=3, address=0\nstore src=0, cols=3, address=16\nsignal 7");
    assert_eq!((host.machine.status().taken, host.machine.status().signals), (3, 1));
    host.machine.next_program();
    assert_eq!(*host.machine.status(), ndp_isa::machine::Progress::default());
    // No barrier separates store and load; the buffer still has the values.
    host.run("store src=0, cols=3, address=24\nload dst=2, cols=3, address=16");
    assert_eq!((host.machine.unfenced_reads(), host.machine.status().taken), (0, 2));
    assert_eq!(host.machine.memory().get(24), host.machine.memory().get(16));
}
