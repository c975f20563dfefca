//! Writes data directives into a DRAM, and lists the bursts of a `.dump`.

use crate::layout::{DimmAddress, MatrixLayout, Packer, pack_elements, pack_matrix, pack_words};
use crate::{Data, Dump, RandomKind};
use ndp_config::{BEAT_ELEMS, DesignConfig, WeightFormat};
use ndp_files::{Context, Result};
use ndp_numerics::{QuantisedRow, SplitMix64, f16};

use crate::machine::Memory;

/// The bursts `address..address + bursts`; addresses wrap around.
fn range(config: &DesignConfig, address: u32, bursts: u32) -> impl Iterator<Item = u64> + use<> {
    let total = 1u64 << config.dimm_burst_bits();
    (0..u64::from(bursts)).map(move |index| (u64::from(address) + index) % total)
}

/// The bursts that a `.dump` names, in order.
pub fn dump_bursts(config: &DesignConfig, dump: Dump) -> impl Iterator<Item = u64> + use<> {
    range(config, dump.address, dump.bursts)
}

/// Writes one directive's data.
pub fn write_data(config: &DesignConfig, data: &Data, memory: &mut dyn Memory) -> Result<()> {
    let element = |kind: RandomKind, random: &mut SplitMix64| kind.element(random.next_u64());
    match *data {
        Data::F16 { address, ref values } => {
            let bursts = values.len().div_ceil(32) as u32;
            for (burst, chunk) in range(config, address, bursts).zip(values.chunks(32)) {
                memory.write_burst(burst, pack_elements(chunk.iter().copied()));
            }
        }
        Data::U32 { address, ref values } => {
            let bursts = values.len().div_ceil(16) as u32;
            for (burst, chunk) in range(config, address, bursts).zip(values.chunks(16)) {
                memory.write_burst(burst, pack_words(chunk.iter().copied()));
            }
        }
        Data::Random { address, bursts, seed, kind } => {
            let mut random = SplitMix64::new(seed);
            for burst in range(config, address, bursts) {
                memory.write_burst(burst, pack_elements((0..32).map(|_| element(kind, &mut random))));
            }
        }
        Data::Matrix { address, rows, cols, weights, shared, seed, kind } => {
            let place = if shared { MatrixLayout::sharing_scales } else { MatrixLayout::with_weights };
            let layout = place(config, address, rows, cols, weights).with_context(|| data.to_string())?;
            let mut random = SplitMix64::new(seed);
            let mut write = |packed: crate::layout::PackedBurst| {
                let place = DimmAddress { rank: packed.rank, burst: packed.burst };
                memory.write_burst(place.to_burst(config), packed.data);
            };
            if weights == WeightFormat::Fp16 {
                let read = |_, row: &mut [f16]| row.fill_with(|| f16::from_bits(element(kind, &mut random)));
                pack_matrix(&layout, read, write);
                return Ok(());
            }
            let mut packer = Packer::new(&layout);
            for row in 0..rows {
                let mut values = QuantisedRow::default();
                for first in (0..cols).step_by(BEAT_ELEMS as usize) {
                    values.scales.push(f16::from_bits(element(kind, &mut random)));
                    let numbers = (first..cols.min(first + BEAT_ELEMS)).map(|_| random.next_u64() as i8);
                    values.numbers.extend(numbers);
                }
                packer.row(layout.pack_quantised(row, &values)).into_iter().for_each(&mut write);
            }
            packer.finish().for_each(write);
        }
    }
    Ok(())
}
