//! Elements that meet a condition: their values side by side, their numbers in the list memory, and their count.

use crate::{Condition, Numbers, Product};
use ndp_config::BEAT_ELEMS;
use ndp_numerics::f16;

use crate::machine::Machine;
use crate::machine::buffer::Vectors;
use crate::machine::execution::MONITOR_ENTRIES;

const ROWS: u32 = 1 << 24;

impl<M> Machine<M> {
    /// Values and numbers of the selected elements, in order. One unspecified element of the source leaves all
    /// unspecified, since it could shift them.
    pub(crate) fn select(
        &mut self,
        (src, dst): (u32, u32),
        (cols, batch): (u32, u32),
        (list, numbers): (u32, Numbers),
        condition: Condition,
    ) {
        let x = self.buffer.read_vectors(src, cols, batch);
        let specified = (0..batch).all(|vector| x.is_specified(vector));
        let mut values = Vectors::filled(cols, batch, f16::from_bits(0));
        let mut masks = vec![0; cols.div_ceil(BEAT_ELEMS) as usize];
        let mut count = 0;
        for k in (0..cols).filter(|_| specified) {
            if !(0..batch).any(|vector| condition.passes(x.vector(vector)[k as usize])) {
                continue;
            }
            masks[(k / BEAT_ELEMS) as usize] |= 1u32 << (k % BEAT_ELEMS);
            for vector in 0..batch {
                let passes = |value: &&f16| condition.passes(**value);
                let value = x.get(vector, k).filter(passes).copied().unwrap_or(f16::from_bits(0));
                values.set(vector, count, Some(value));
            }
            self.list[(list + count) as usize] = match numbers {
                Numbers::From(row) => Some(row.wrapping_add(k) % ROWS),
                Numbers::Listed(from) => self.list[(from + k) as usize].map(|entry| entry % ROWS),
            };
            count += 1;
        }
        for (vector, k) in (0..batch).flat_map(|vector| (count..cols).map(move |k| (vector, k))) {
            values.set(vector, k, None);
        }
        if !specified {
            self.list[list as usize..(list + cols) as usize].fill(None);
        }
        self.buffer.write_vectors(dst, values);
        self.selection = specified.then_some(count);
        for mask in masks.into_iter().map(|mask| specified.then_some(mask)) {
            self.monitor(mask);
            self.masks.push(mask);
        }
    }

    /// Writes a mask to the monitor.
    fn monitor(&mut self, mask: Option<u32>) {
        let Some(place) = &mut self.mask_place else { return };
        let at = (4 * *place % MONITOR_ENTRIES) as usize;
        *place += 1;
        if self.activations.len() < at + 4 {
            self.activations.resize(at + 4, None);
        }
        for (byte, of) in self.activations[at..at + 4].iter_mut().enumerate() {
            *of = mask.map(|mask| mask.to_le_bytes()[byte]);
        }
    }

    /// Rows that a product computes; `None` if that is unspecified.
    pub(crate) fn rows_of(&self, product: &Product) -> Option<u32> {
        if product.selected {
            self.selection.map(|selection| selection.min(product.count))
        } else {
            Some(product.count)
        }
    }

    /// Elements that the last `select` selected; `None` without one, or if its source was unspecified.
    pub fn selection(&self) -> Option<u32> {
        self.selection.filter(|_| !self.masks.is_empty())
    }

    /// Masks of all `select`s, a bit for each of 32 elements; `None` for unspecified sources. All that times depend on.
    pub fn masks(&self) -> &[Option<u32>] {
        &self.masks
    }
}
