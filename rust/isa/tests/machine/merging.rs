//! Do merged partial results have the same bits as the result of one machine that computes everything?

use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::layout::{BufferLayout, DimmAddress, ExportedSums, MatrixLayout, elements_of, pack_elements};
use ndp_isa::machine::{Machine, Memory, SparseMemory};
use ndp_isa::{Code, Instruction, accumulator_words, block_words, parse};
use ndp_numerics::{ExactSum, SplitMix64, SumFormat, f16};
use ndp_testkit::RandomPrograms;

const MATRIX: u32 = 5000;
const EXPORTED: u32 = 40_000;

/// A design with a tail of every kind, and one with 16 lanes.
fn configs() -> Vec<DesignConfig> {
    let four = "name = \"four\"\n[gemv]\nmultipliers = 32\nranks = 4\nbuffer_kib = 32\nmax_batch = 4";
    let wide = "name = \"wide\"\n[gemv]\nlanes = 16\nmultipliers = 16\nranks = 2\nbuffer_kib = 64\nmax_batch = 4\n\
        acc_bits = 120\nacc_segments = 6";
    let mut configs = vec![DesignConfig::preset("tiny").unwrap()];
    configs.extend([four, wide].map(|text| DesignConfig::from_toml(text).unwrap()));
    configs
}

fn format(config: &DesignConfig) -> SumFormat {
    SumFormat::new(config.gemv().acc_bits(), config.gemv().acc_segments()).unwrap()
}

fn values(random: &mut SplitMix64, rows: usize, cols: usize, specials: bool) -> Vec<Vec<u16>> {
    let mut value = || {
        let bits = random.next_u64();
        match bits >> 32 & 63 {
            0 if specials => [0x7C00, 0xFC00, 0x7E00, 0x7C01][(bits >> 40 & 3) as usize],
            _ if bits & 0x7C00 == 0x7C00 => bits as u16 & !0x4000,
            _ => bits as u16,
        }
    };
    (0..rows).map(|_| (0..cols).map(|_| value()).collect()).collect()
}

struct Host {
    config: DesignConfig,
    machine: Machine<SparseMemory>,
}

impl Host {
    fn new(config: &DesignConfig) -> Self {
        Self { config: config.clone(), machine: Machine::new(config, SparseMemory::new()).unwrap() }
    }

    fn put_vectors(&mut self, address: u64, vectors: &[Vec<u16>]) {
        let mut burst = address;
        for first in (0..vectors[0].len()).step_by(32) {
            for vector in vectors {
                let beat = pack_elements(vector[first..].iter().take(32).copied());
                self.machine.memory_mut().write_burst(burst, beat);
                burst += 1;
            }
        }
    }

    fn get_vectors(&self, address: u64, elements: usize, batch: usize) -> Vec<Vec<u16>> {
        let mut vectors = vec![Vec::new(); batch];
        for index in 0..elements.div_ceil(32) * batch {
            assert_eq!(self.machine.unspecified(address + index as u64), 0);
            vectors[index % batch].extend(elements_of(&self.machine.memory().get(address + index as u64)));
        }
        for vector in &mut vectors {
            assert!(vector.drain(elements..).all(|bits| bits == 0), "+0 beyond the end");
        }
        vectors
    }

    fn put_matrix(&mut self, address: u32, rows: &[Vec<u16>]) {
        let layout = MatrixLayout::unbounded(&self.config, address, rows[0].len() as u32, WeightFormat::Fp16);
        for (row, values) in (0..).zip(rows) {
            let values: Vec<f16> = values.iter().map(|bits| f16::from_bits(*bits)).collect();
            for packed in layout.pack_row(row, &values) {
                let place = DimmAddress { rank: packed.rank, burst: packed.burst };
                self.machine.memory_mut().write_burst(place.to_burst(&self.config), packed.data);
            }
        }
    }

    /// Copies exported words to another DIMM, as a link would.
    fn send(&self, words: u32, to: &mut Self, address: u32) {
        let from = ExportedSums::new(&self.config, EXPORTED, words).unwrap();
        let into = ExportedSums::new(&self.config, address, words).unwrap();
        for (from, into) in from.bursts().zip(into.bursts()) {
            let burst = from.place.to_burst(&self.config);
            assert_eq!(self.machine.unspecified(burst), 0);
            let data = self.machine.memory().get(burst);
            to.machine.memory_mut().write_burst(into.place.to_burst(&self.config), data);
        }
    }

    fn run(&mut self, text: &str) {
        self.machine.run(&parse(text).unwrap()).unwrap();
        assert_eq!(self.machine.status().malformed, 0, "{text}");
    }
}

/// Puts the sums of factors `a` and rows `w` into the buffer at word `dst`.
fn accumulate(host: &mut Host, a: &[Vec<u16>], w: &[Vec<u16>], dst: u32) {
    let (batch, count, cols) = (a.len(), w.len(), w[0].len());
    host.put_vectors(0, a);
    host.put_matrix(MATRIX, w);
    let words = accumulator_words(&host.config, cols as u32, batch as u32);
    host.run(&format!(
        "load dst=0, cols={count}, batch={batch}, address=0\nzero dst={dst}, count={words}\n\
         axpy src=0, dst={dst}, cols={cols}, batch={batch}, count={count}, address={MATRIX}"
    ));
}

fn shape(config: &DesignConfig, random: &mut SplitMix64) -> (usize, usize, usize, u32) {
    loop {
        let mut below = |bound: u32| (random.next_u64() % u64::from(bound)) as usize;
        let stripe = config.gemv().stripe_elems();
        let (batch, count) = (1 + below(config.gemv().max_batch()), 4 + below(40));
        let cols = if below(2) == 0 { 1 + below(60) } else { 1 + below(6 * stripe) };
        let dst = block_words(config, count as u32, batch as u32);
        let room = accumulator_words(config, cols as u32, batch as u32) + dst <= config.gemv().slice_words();
        if room {
            return (batch, count, cols, dst);
        }
    }
}

#[test]
fn split_over_several_machines_the_bits_are_those_of_one() {
    let mut random = SplitMix64::new(1);
    let (mut finite, mut special) = (0, 0);
    for (config, round) in configs().iter().flat_map(|config| (0..40).map(move |round| (config, round))) {
        let (batch, count, cols, dst) = shape(config, &mut random);
        let a = values(&mut random, batch, count, round % 4 == 0);
        let w = values(&mut random, count, cols, round % 4 == 0);
        let (words, block) =
            (accumulator_words(config, cols as u32, batch as u32), format!("cols={cols}, batch={batch}"));
        let finish = format!("round src={dst}, dst={dst}, {block}\nstore src={dst}, {block}, address=90000");
        let mut whole = Host::new(config);
        accumulate(&mut whole, &a, &w, dst);
        whole.run(&finish);
        let expected = whole.get_vectors(90_000, cols, batch);
        // Any rows to any machine, under other numbers, so tails lie in other ranks.
        let machines = 1 + (random.next_u64() % 4) as usize;
        let owners: Vec<usize> = (0..count).map(|_| (random.next_u64() % 4) as usize % machines).collect();
        let mut sum: Option<Host> = None;
        for machine in 0..machines {
            let mine: Vec<usize> = (0..count).filter(|row| owners[*row] == machine).collect();
            if mine.is_empty() {
                continue;
            }
            let mut host = Host::new(config);
            let a: Vec<Vec<u16>> = a.iter().map(|a| mine.iter().map(|k| a[*k]).collect()).collect();
            let w: Vec<Vec<u16>> = mine.iter().map(|k| w[*k].clone()).collect();
            accumulate(&mut host, &a, &w, dst);
            if let Some(before) = &sum {
                before.send(words, &mut host, EXPORTED + 70);
                host.run(&format!("import dst={dst}, count={words}, address={}", EXPORTED + 70));
            }
            host.run(&format!("export src={dst}, count={words}, address={EXPORTED}\nbarrier"));
            sum = Some(host);
        }
        let mut last = sum.unwrap();
        last.run(&format!(
            "zero dst={dst}, count={words}\nimport dst={dst}, count={words}, address={EXPORTED}"
        ));
        last.run(&finish);
        assert_eq!(last.get_vectors(90_000, cols, batch), expected, "{}: {block}, {owners:?}", config.name());
        for bits in expected.into_iter().flatten() {
            *(if bits & 0x7C00 == 0x7C00 { &mut special } else { &mut finite }) += 1;
        }
    }
    assert!(finite > 1000 && special > 1000, "{finite}, {special}");
}

/// Against the definition: each product in the rank of its stripe, even past the row's end.
#[test]
fn exported_sums_are_those_of_the_rank_where_the_stripe_lies() {
    let mut random = SplitMix64::new(2);
    for (config, round) in configs().iter().flat_map(|config| (0..20).map(move |round| (config, round))) {
        let (batch, count, cols, dst) = shape(config, &mut random);
        let a = values(&mut random, batch, count, round % 2 == 0);
        let w = values(&mut random, count, cols, round % 2 == 0);
        let mut host = Host::new(config);
        accumulate(&mut host, &a, &w, dst);
        let words = accumulator_words(config, cols as u32, batch as u32);
        host.run(&format!("export src={dst}, count={words}, address={EXPORTED}"));
        let exported = ExportedSums::new(config, EXPORTED, words).unwrap();
        let format = format(config);
        let mut expected = vec![format.empty(); (words * exported.slices()) as usize];
        let (matrix, buffer) = (
            MatrixLayout::unbounded(config, 0, cols as u32, WeightFormat::Fp16),
            BufferLayout::new(config, cols as u32, batch as u32),
        );
        let (lanes, units) = (config.gemv().lanes(), config.gemv().units_per_rank());
        let stripe = config.gemv().stripe_elems();
        for (k, b) in (0..count).flat_map(|k| (0..batch).map(move |b| (k, b))) {
            for c in 0..(cols as u32).next_multiple_of(stripe) {
                let rank = matrix.locate(k as u32, c / stripe * stripe).rank;
                let (word, _) = buffer.stripe(b as u32, c / stripe);
                let slice = rank * units + c % stripe / lanes;
                let at = (word * lanes + c % lanes) * exported.slices() + slice;
                let weight = w[k].get(c as usize).map_or(0, |bits| *bits);
                expected[at as usize].mul_add(f16::from_bits(weight), f16::from_bits(a[b][k]));
            }
        }
        for burst in exported.bursts() {
            let data = host.machine.memory().get(burst.place.to_burst(config));
            for (slice, form) in burst.slices.zip(exported.unpack(&data)) {
                let sum = &expected[(burst.word * exported.slices() + slice) as usize];
                assert_eq!(form, format.to_word(sum), "word {}, slice {slice}", burst.word);
            }
        }
    }
}

#[test]
fn fp16_partials_join_the_sum_before_it_is_rounded() {
    let mut random = SplitMix64::new(3);
    for (config, round) in configs().iter().flat_map(|config| (0..20).map(move |round| (config, round))) {
        let (batch, count, cols, dst) = shape(config, &mut random);
        let (a, w) =
            (values(&mut random, batch, count, false), values(&mut random, count, cols, round % 4 == 0));
        let partials = values(&mut random, batch, cols, true);
        let mut host = Host::new(config);
        accumulate(&mut host, &a, &w, dst);
        host.put_matrix(EXPORTED, &partials);
        host.run(&format!(
            "merge dst={dst}, cols={cols}, batch={batch}, address={EXPORTED}\n\
             round src={dst}, dst={dst}, cols={cols}, batch={batch}\n\
             store src={dst}, cols={cols}, batch={batch}, address=90000"
        ));
        let result = host.get_vectors(90_000, cols, batch);
        for (b, c) in (0..batch).flat_map(|b| (0..cols).map(move |c| (b, c))) {
            let mut sum = format(config).empty();
            (0..count).for_each(|k| sum.mul_add(f16::from_bits(w[k][c]), f16::from_bits(a[b][k])));
            sum.add_value(f16::from_bits(partials[b][c]));
            assert_eq!(result[b][c], sum.round().to_bits(), "vector {b}, column {c} of {cols}");
        }
    }
}

#[test]
fn partials_lose_what_the_serial_steps_leave_out() {
    let text = "name = \"four\"\n[gemv]\nserial_steps = 4\nranks = 2\nmultipliers = 16\nbuffer_kib = 16";
    let mut host = Host::new(&DesignConfig::from_toml(text).unwrap());
    host.put_matrix(100, &[vec![0x3FFF, 0x03FF]]);
    host.run(
        "zero dst=8, count=8\nmerge dst=8, cols=2, address=100\nround src=8, dst=8, cols=2\n\
         store src=8, cols=2, address=60",
    );
    assert_eq!(host.get_vectors(60, 2, 1), [[0x3F80, 0x0380]]);
}

/// Rounds one word of sums in slice 0, as the only element of a vector.
fn rounded(host: &mut Host, forms: &[u128]) -> u16 {
    let exported = ExportedSums::new(&host.config, EXPORTED, 1).unwrap();
    host.run("zero dst=8, count=8");
    for form in forms {
        let place = exported.locate(0, 0).0.to_burst(&host.config);
        host.machine.memory_mut().write_burst(place, exported.pack([*form]));
        host.run(&format!("import dst=8, count=1, address={EXPORTED}"));
    }
    host.run("round src=8, dst=7, cols=1\nstore src=7, cols=1, address=60");
    host.get_vectors(60, 1, 1)[0][0]
}

#[test]
fn imported_sums_count_modulo_their_width_and_flags_stay() {
    let mut host = Host::new(&DesignConfig::preset("tiny").unwrap());
    let one = 1u128 << 48;
    assert_eq!(rounded(&mut host, &[one, one]), 0x4000);
    // Carry places and bits above the flags are ignored.
    assert_eq!(rounded(&mut host, &[one | 7 << 104 | u128::MAX << 110]), 0x3C00);
    // Half of the range twice is a whole turn.
    assert_eq!(rounded(&mut host, &[1 << 103, 1 << 103, one]), 0x3C00);
    assert_eq!(rounded(&mut host, &[1 << 103, one]), 0xFC00);
    assert_eq!(rounded(&mut host, &[(1 << 104) - one, one]), 0);
    assert_eq!(rounded(&mut host, &[one | 1 << 107, one]), 0x7E00);
    assert_eq!([rounded(&mut host, &[1 << 108, one]), rounded(&mut host, &[1 << 109])], [0x7C00, 0xFC00]);
    assert_eq!(rounded(&mut host, &[1 << 108, 1 << 109]), 0x7E00);
}

#[test]
fn what_is_unspecified_stays_so_through_export_and_import() {
    let mut host = Host::new(&DesignConfig::preset("tiny").unwrap());
    let marks = |host: &Host, words: u32| -> Vec<u32> {
        let exported = ExportedSums::new(&host.config, EXPORTED, words).unwrap();
        exported.bursts().map(|burst| host.machine.unspecified(burst.place.to_burst(&host.config))).collect()
    };
    // Never written, and vectors; zeros are sums.
    host.run(&format!("export src=8, count=1, address={EXPORTED}"));
    assert_eq!(marks(&host, 1), [u32::MAX; 4]);
    host.run("barrier\nzero dst=8, count=2\nload dst=9, cols=1, address=0");
    host.run(&format!("export src=8, count=2, address={EXPORTED}"));
    assert_eq!(marks(&host, 2), [0, 0, 0, 0, u32::MAX, u32::MAX, u32::MAX, u32::MAX]);
    host.run("zero dst=8, count=2");
    host.run(&format!("import dst=8, count=1, address={EXPORTED}"));
    assert_eq!(host.machine.unfenced_reads(), 4);
    host.run(&format!("barrier\nexport src=8, count=2, address={EXPORTED}\nbarrier"));
    assert_eq!(marks(&host, 2), [u32::MAX, u32::MAX, u32::MAX, u32::MAX, 0, 0, 0, 0]);
    // One element of a burst spoils only its own sum. A store of a word never written leaves such an element.
    host.run(&format!("zero dst=8, count=2\nexport src=8, count=2, address={EXPORTED}\nbarrier"));
    let burst = EXPORTED * host.config.gemv().ranks();
    host.run(&format!(
        "store src=40, cols=1, address={burst}\nbarrier\nimport dst=8, count=1, address={EXPORTED}"
    ));
    host.run(&format!("export src=8, count=1, address={EXPORTED}\nbarrier"));
    assert_eq!(marks(&host, 1), [0xFF, 0, 0, 0]);
    // So does a merged element.
    host.run(&format!("store src=40, cols=2, address={burst}\nbarrier\nzero dst=8, count=8"));
    host.run(&format!(
        "merge dst=8, cols=3, address={EXPORTED}\nround src=8, dst=8, cols=3\nstore src=8, cols=3, address=9"
    ));
    assert_eq!(host.machine.unspecified(9), 3);
}

#[test]
fn exported_forms_add_up_in_any_order() {
    let mut random = SplitMix64::new(4);
    let format = SumFormat::new(104, 4).unwrap();
    for _ in 0..200 {
        let forms: Vec<u128> =
            (0..5).map(|_| u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())).collect();
        let total = |order: &[usize]| {
            let mut sum: ExactSum = format.empty();
            order.iter().for_each(|index| sum.add(&format.from_word(forms[*index])));
            format.to_word(&sum)
        };
        assert_eq!(total(&[0, 1, 2, 3, 4]), total(&[3, 1, 4, 0, 2]));
    }
}

#[test]
fn random_programs_import_what_they_have_exported() {
    let config = DesignConfig::preset("tiny").unwrap();
    let (mut again, mut other, mut whole, mut part) = (0, 0, 0, 0);
    for program in RandomPrograms::new(&config, 6).take(200) {
        let mut exports = Vec::new();
        for code in &program.code {
            match *code {
                Code::Instruction(Instruction::Export { count, address, .. }) => {
                    *(if count % config.gemv().lanes() == 0 { &mut whole } else { &mut part }) += 1;
                    exports.push((count, address));
                }
                Code::Instruction(Instruction::Import { count, address, .. }) => {
                    *(if exports.contains(&(count, address)) { &mut again } else { &mut other }) += 1;
                }
                _ => {}
            }
        }
    }
    println!("{again} imports of exports, {other} others; exports of {whole} blocks, {part} parts");
    assert!([again, other, whole, part].iter().all(|count| *count >= 20));
}
