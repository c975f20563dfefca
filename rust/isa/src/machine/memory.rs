//! The DRAM as the core sees it: bursts of 64 bytes by address.

use std::collections::BTreeMap;

use crate::layout::Burst;

/// A DRAM. Addresses are bursts of the DIMM.
pub trait Memory {
    /// The contents of a burst.
    fn read_burst(&mut self, burst: u64) -> Burst;

    /// Replaces the contents of a burst.
    fn write_burst(&mut self, burst: u64, data: Burst);
}

const PAGE: u64 = 64;

/// A DRAM of any size; bursts that were never written are 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SparseMemory {
    pages: BTreeMap<u64, Box<[Burst; PAGE as usize]>>,
}

impl SparseMemory {
    /// Memory with all bursts 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The contents of a burst.
    pub fn get(&self, burst: u64) -> Burst {
        self.pages.get(&(burst / PAGE)).map_or([0; 8], |page| page[(burst % PAGE) as usize])
    }

    /// All bursts that are not 0, by address.
    pub fn bursts(&self) -> impl Iterator<Item = (u64, &Burst)> {
        let pages = self.pages.iter();
        let all = pages.flat_map(|(page, bursts)| (page * PAGE..).zip(bursts.iter()));
        all.filter(|(_, burst)| **burst != [0; 8])
    }
}

impl Memory for SparseMemory {
    fn read_burst(&mut self, burst: u64) -> Burst {
        self.get(burst)
    }

    fn write_burst(&mut self, burst: u64, data: Burst) {
        let (page, place) = (burst / PAGE, (burst % PAGE) as usize);
        match self.pages.get_mut(&page) {
            Some(page) => page[place] = data,
            None if data == [0; 8] => {}
            None => {
                let mut bursts = Box::new([[0; 8]; PAGE as usize]);
                bursts[place] = data;
                self.pages.insert(page, bursts);
            }
        }
    }
}

impl<M: Memory + ?Sized> Memory for &mut M {
    fn read_burst(&mut self, burst: u64) -> Burst {
        (**self).read_burst(burst)
    }

    fn write_burst(&mut self, burst: u64, data: Burst) {
        (**self).write_burst(burst, data);
    }
}
