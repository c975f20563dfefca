//! A host's own reads and writes of a part of the DRAM that no program uses; reads are compared with earlier writes.

use ndp_config::DesignConfig;
use ndp_numerics::SplitMix64;
use ndp_sim::core::{Answer, Burst, NdpCore};
use std::collections::HashMap;

pub struct Traffic {
    random: SplitMix64,
    /// A request is made in one of this number of cycles; never if 0.
    every: u64,
    first: u64,
    memory: HashMap<u64, Burst>,
    due: HashMap<u64, Burst>,
    outstanding: u64,
    pub reads: u64,
    /// Most core cycles from the acceptance of a request to its response.
    pub longest_wait: u64,
}

impl Traffic {
    /// The bursts that the traffic uses: in the upper half of the DIMM, past the bursts of programs, which begin at 0.
    pub const BURSTS: u64 = 512;
    /// Requests before the host waits for a response: a slow DRAM would let them pile up without bound.
    const OUTSTANDING: u64 = 64;

    pub fn new(config: &DesignConfig, seed: u64, every: u64) -> Self {
        Self {
            random: SplitMix64::new(seed),
            every,
            first: Self::first(config),
            memory: HashMap::new(),
            due: HashMap::new(),
            outstanding: 0,
            reads: 0,
            longest_wait: 0,
        }
    }

    pub fn first(config: &DesignConfig) -> u64 {
        1 << (config.dimm_burst_bits() - 1)
    }

    /// Takes all answers and perhaps makes a request.
    pub fn cycle(&mut self, core: &mut NdpCore) {
        while let Some(answer) = core.take_answer() {
            self.answered(&answer);
        }
        self.request(core);
    }

    pub fn request(&mut self, core: &mut NdpCore) {
        if self.every == 0
            || !self.random.next_u64().is_multiple_of(self.every)
            || self.outstanding >= Self::OUTSTANDING
        {
            return;
        }
        let address = self.first + self.random.next_u64() % Self::BURSTS;
        // One read of an address is in flight at a time.
        if self.due.contains_key(&address) {
            return;
        }
        self.outstanding += 1;
        if self.random.next_u64().is_multiple_of(2) {
            let burst: Burst = std::array::from_fn(|_| self.random.next_u64());
            self.memory.insert(address, burst);
            core.submit(address, Some(burst));
        } else {
            self.due.insert(address, self.memory.get(&address).copied().unwrap_or_default());
            core.submit(address, None);
        }
    }

    /// Compares the data of a read with the last write.
    pub fn answered(&mut self, answer: &Answer) {
        // Answers of the core's registers and queue belong to the program.
        if answer.request.address >= self.first + Self::BURSTS {
            return;
        }
        self.longest_wait = self.longest_wait.max(answer.answered - answer.taken);
        self.outstanding -= 1;
        let Some(read) = answer.response.read else { return };
        assert_eq!(self.due.remove(&answer.request.address), Some(read), "{:#x}", answer.request.address);
        self.reads += 1;
    }
}
