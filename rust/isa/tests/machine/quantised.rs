//! Products with weights of 8 and 4 bits: is each weight `RNE16(q * s)`, where the document says, and is the sum exact?

use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::layout::{DimmAddress, MatrixLayout, elements_of};
use ndp_isa::machine::{Machine, Memory, SparseMemory};
use ndp_isa::{RandomKind, parse};
use ndp_numerics::{SplitMix64, dot, f16, mul};

fn design() -> DesignConfig {
    let text = "name = \"x\"\n[gemv]\nmultipliers = 32\nranks = 4\nbuffer_kib = 64\nmax_batch = 4\n\
                weight_formats = \"all\"";
    DesignConfig::from_toml(text).unwrap()
}

/// The weights at a matrix' place, by the rules of the document.
fn weights_of(
    config: &DesignConfig,
    memory: &mut SparseMemory,
    (address, row, cols): (u32, u32, u32),
    format: WeightFormat,
) -> Vec<f16> {
    let layout = MatrixLayout::unbounded(config, address, cols, format);
    let (stripe, beats, ranks) = (32 * config.gemv().beats_per_stripe(), config.gemv().beats_per_stripe(), 4);
    let per_burst = 32 / format.bits() * 8 / 16;
    let weight = |col: u32| {
        // First burst of the row on the column's rank, and the column's place there.
        let rank = layout.locate(row, col).rank;
        let first = layout.offset(row, rank);
        let earlier =
            (0..col / stripe).filter(|s| layout.locate(row, s * stripe).rank == rank).count() as u32;
        let place = earlier * beats + col % stripe / 32;
        let block = place / 32 * (1 + 32 / per_burst);
        let mut burst = |offset: u32| {
            let burst = layout.burst_at(first + u64::from(offset));
            elements_of(&memory.read_burst(DimmAddress { rank, burst }.to_burst(config)))
        };
        let scale = f16::from_bits(burst(block)[(place % 32) as usize]);
        let bit = (place % per_burst * 32 + col % 32) * format.bits();
        let word = burst(block + 1 + place % 32 / per_burst)[(bit / 16) as usize];
        let number = i32::from(word >> (bit % 16)) << (32 - format.bits()) >> (32 - format.bits());
        mul(f16::from_f32(number as f32), scale)
    };
    assert_eq!(ranks, config.gemv().ranks());
    (0..cols).map(weight).collect()
}

#[test]
fn products_take_the_weights_that_the_bits_mean() {
    let config = design();
    let mut random = SplitMix64::new(11);
    for format in [WeightFormat::Int8, WeightFormat::Int4] {
        for (cols, count) in [(1, 3), (33, 5), (64, 4), (200, 6), (260, 9), (900, 7), (1024, 5)] {
            for kind in [RandomKind::Normal, RandomKind::Special, RandomKind::Bits] {
                let (kind, name, seed) = (kind.name(), format.name(), random.next_u64());
                let text = format!(
                    ".random 0 bursts=64 seed={seed} kind=normal\n.matrix 0x100 rows=40 cols={cols} weights={name} seed={seed} \
                     kind={kind}\n.u32 0x90 7, 30, 2, 19, 39, 0, 1, 8, 33\nload dst=0, cols={cols}, address=0\n\
                     list list=0, count={count}, address=0x90\n\
                     dot src=0, dst=16, cols={cols}, count={count}, address=0x100, list=0, weights={name}\n\
                     store src=16, cols={count}, address=0xA0\nload dst=17, cols={count}, address=5\n\
                     zero dst=20, count=44\naxpy src=17, dst=20, cols={cols}, count={count}, address=0x100, list=0, weights={name}\n\
                     round src=20, dst=20, cols={cols}\nstore src=20, cols={cols}, address=0xB0\n"
                );
                let mut machine = Machine::new(&config, SparseMemory::new()).unwrap();
                machine.run(&parse(&text).unwrap()).unwrap();
                assert_eq!(machine.status().malformed, 0, "{text}");
                let rows = [7, 30, 2, 19, 39, 0, 1, 8, 33];
                let read = |machine: &mut Machine<SparseMemory>, first: u64, count: u32| -> Vec<f16> {
                    let bursts = first..first + u64::from(count.div_ceil(32));
                    let all = bursts.flat_map(|burst| elements_of(&machine.memory_mut().read_burst(burst)));
                    all.take(count as usize).map(f16::from_bits).collect()
                };
                let (x, a) = (read(&mut machine, 0, cols), read(&mut machine, 5, count));
                let (y, sums) = (read(&mut machine, 0xA0, count), read(&mut machine, 0xB0, cols));
                let w: Vec<Vec<f16>> = rows[..count as usize]
                    .iter()
                    .map(|row| weights_of(&config, machine.memory_mut(), (0x100, *row, cols), format))
                    .collect();
                for (k, row) in w.iter().enumerate() {
                    assert_eq!(y[k].to_bits(), dot(row, &x).to_bits(), "{text}: row {k}");
                }
                for (c, sum) in sums.iter().enumerate() {
                    let column: Vec<f16> = w.iter().map(|row| row[c]).collect();
                    assert_eq!(sum.to_bits(), dot(&column, &a).to_bits(), "{text}: column {c}");
                }
            }
        }
    }
}

#[test]
fn what_is_unspecified_of_a_scale_or_a_weight_makes_the_result_so() {
    let config = design();
    // Rows of one place: burst 0 of a rank's row has the scale, burst 1 the weights (in FP16 nothing), burst 2 the scale of row 4.
    for (burst, format, expected) in
        [(0, "int4", 0b1), (4, "int4", 0b1), (8, "int4", 0b10000), (9, "int8", 0b10_0000), (4, "fp16", 0)]
    {
        let address = 4 * 0x100 + burst;
        let text = format!(
            ".random 0 bursts=1 seed=1 kind=normal\nload dst=0, cols=32, address=0\nstore src=50, cols=1, address={address}\n\
             barrier\ndot src=0, dst=12, cols=32, count=8, address=0x100, weights={format}\n\
             store src=12, cols=8, address=0x20\n"
        );
        let mut machine = Machine::new(&config, SparseMemory::new()).unwrap();
        machine.run(&parse(&text).unwrap()).unwrap();
        assert_eq!(machine.status().malformed, 0);
        assert_eq!(machine.unspecified(0x20), expected, "{text}");
    }
}
