//! A program from its data to its end: image into DRAM, instructions through the host's port.

use super::burst::Burst;
use super::modelled::{Access, Modelled};
use super::ndp_core::NdpCore;
use super::recording::{PARTS, part_of};
use super::{Answer, PartCycles};
use ndp_energy::DramUse;
use ndp_files::Result;
use ndp_isa::machine::Memory;
use ndp_isa::{Opcode, Program, Status};
use std::collections::HashMap;
use std::time::Instant;

pub(super) const BURST_INSTRUCTIONS: usize = 4;
/// Core cycles between reads of the status while the queue is full.
const POLL_CYCLES: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRun {
    /// Core cycle from which `cycles` counts.
    pub begin: u64,
    /// Cycles from the first instruction's offer until the core is no longer busy.
    pub cycles: u64,
    /// Prediction of `cycles`, with [`super::CoreOptions::predict`] or a modelled core. Beside RTL the model only gets
    /// the host's requests of the session at their cycles.
    pub model_cycles: Option<u64>,
    /// Number of words without the `nop`s that fill the last burst.
    pub words: u32,
    pub parts: PartCycles,
    /// Use of the DRAM in these cycles, all ranks together.
    pub dram: DramUse,
    pub before: Status,
    pub status: Status,
}

struct Poke<'a>(&'a mut NdpCore);

impl Memory for Poke<'_> {
    fn read_burst(&mut self, burst: u64) -> Burst {
        self.0.peek(burst)
    }

    fn write_burst(&mut self, burst: u64, data: Burst) {
        self.0.poke(burst, &data);
    }
}

impl NdpCore {
    /// Writes a program's data by backdoor access.
    pub fn place(&mut self, program: &Program) -> Result<()> {
        let config = self.config().clone();
        for data in &program.data {
            ndp_isa::machine::write_data(&config, data, &mut Poke(self))?;
        }
        Ok(())
    }

    /// Sends instruction words and waits until the core ends. `between` may submit requests; it is called before every
    /// cycle, except while the host of a modelled core waits for the end.
    ///
    /// # Errors
    /// Errors of [`NdpCore::step`]; a core that never ends.
    pub fn run_words(&mut self, words: &[u128], mut between: impl FnMut(&mut Self)) -> Result<ProgramRun> {
        self.run_words_with(words, &mut between)
    }

    /// Without a type parameter, so that it is compiled here with this crate's optimisation.
    fn run_words_with(&mut self, words: &[u128], between: &mut dyn FnMut(&mut Self)) -> Result<ProgramRun> {
        self.alone(async |core| core.run_words_async(words, between).await)
    }

    pub(crate) async fn run_words_async(
        &mut self,
        words: &[u128],
        mut between: impl FnMut(&mut Self),
    ) -> Result<ProgramRun> {
        let wall = Instant::now();
        let before = self.status_async().await?;
        let (begin, parts, used) = (self.cycle(), self.parts(), self.activity());
        let queue = 1 << self.config().dimm_burst_bits();
        let entries = self.config().core().queue_entries();
        let (mut sent, mut taken) = (0u32, 0u32);
        let moves = |word: &&u128| matches!(part_of(**word), Some(part) if part >= PARTS.len() - 2);
        let transfers = words.iter().filter(moves).count().max(self.is_connected().into());
        let computes = |word: &u128| Opcode::from_code(*word as u8).is_some_and(Opcode::is_activation);
        let mut quiet = Quiet::new(self, taken, transfers, words.iter().any(computes));
        for burst in words.chunks(BURST_INSTRUCTIONS) {
            while sent - taken + 2 * BURST_INSTRUCTIONS as u32 > entries {
                let look = self.cycle() + POLL_CYCLES;
                while self.cycle() < look {
                    between(self);
                    self.advance(look).await?;
                }
                taken = self.status_async().await?.taken.wrapping_sub(before.taken).min(sent);
                if quiet.too_long(self, taken) {
                    return Err(self.hang("the queue stays full"));
                }
            }
            self.submit(queue, Some(burst_of(burst)));
            sent += BURST_INSTRUCTIONS as u32;
        }
        // Only after all acknowledgements does `busy` say anything.
        while !self.host.core_is_answered() {
            between(self);
            self.tick().await?;
            self.host.answers.retain(|answer| answer.request.address != queue);
            if quiet.too_long(self, taken) {
                return Err(self.hang("the host's requests are not answered"));
            }
        }
        while self.is_busy() {
            between(self);
            self.advance(u64::MAX).await?;
            if quiet.too_long(self, taken) {
                return Err(self.hang("the program does not end"));
            }
        }
        let (cycles, parts) = (self.cycle() - begin, self.parts() - parts);
        let dram = DramUse::since(&self.activity(), &used);
        self.spend(wall);
        self.note_end(begin);
        let model_cycles = self.predicted_end().map(|end| end - begin);
        let status = self.status_async().await?;
        Ok(ProgramRun { begin, cycles, model_cycles, words: words.len() as u32, parts, dram, before, status })
    }

    /// Writes bursts through the host's port, and waits for all acknowledgements.
    ///
    /// # Errors
    /// Errors of [`NdpCore::step`]; a missing acknowledgement.
    pub(crate) async fn write_async(&mut self, bursts: &[(u64, Burst)]) -> Result<()> {
        if self.serve(Access::Write(bursts), |_, _| {}) {
            return Ok(());
        }
        bursts.iter().for_each(|(address, burst)| self.submit(*address, Some(*burst)));
        self.collect_async(bursts.len(), |answer| answer.request.write.is_some(), |_| {}).await
    }

    /// Reads bursts through the host's port; the result is by address, and empty for a core without data.
    ///
    /// # Errors
    /// Errors of [`NdpCore::step`]; a missing answer.
    pub(crate) async fn read_async(&mut self, addresses: &[u64]) -> Result<HashMap<u64, Burst>> {
        let mut read = HashMap::with_capacity(if self.is_timing_only() { 0 } else { addresses.len() });
        if self.serve(Access::Read(addresses), |address, burst| _ = read.insert(address, burst)) {
            return Ok(read);
        }
        addresses.iter().for_each(|address| self.submit(*address, None));
        let wanted = |answer: &Answer| answer.request.write.is_none();
        let keep = |answer: &Answer| {
            read.insert(answer.request.address, answer.response.read.unwrap_or_default());
        };
        self.collect_async(addresses.len(), wanted, keep).await?;
        Ok(read)
    }

    /// Steps until this number of answers from the DRAM has come, and takes them out; others stay.
    async fn collect_async(
        &mut self,
        mut left: usize,
        wanted: impl Fn(&Answer) -> bool,
        mut take: impl FnMut(&Answer),
    ) -> Result<()> {
        let registers = 1 << self.config().dimm_burst_bits();
        let mut progress = self.cycle();
        while left > 0 {
            self.tick().await?;
            let cycle = self.cycle();
            self.host.answers.retain(|answer| {
                if answer.request.address >= registers || !wanted(answer) {
                    return true;
                }
                take(answer);
                (left, progress) = (left - 1, cycle);
                false
            });
            if cycle - progress > self.options.watchdog_cycles {
                return Err(self.hang("no answer to a request of the host"));
            }
        }
        Ok(())
    }

    /// Grows whenever data are read from a rank or written to it.
    fn moved(&self) -> u64 {
        let of_model = self.modelled().map_or(0, Modelled::moved);
        let buses = self.ranks().iter().map(|rank| rank.statistics().bus);
        of_model + buses.map(|bus| bus.read + bus.write).sum::<u64>()
    }
}

/// Up to four instructions, filled with `nop`s.
fn burst_of(words: &[u128]) -> Burst {
    let mut data = Burst::default();
    for (place, word) in words.iter().enumerate() {
        (data[2 * place], data[2 * place + 1]) = (*word as u64, (*word >> 64) as u64);
    }
    data
}

/// Time in which no instruction was taken and no data were on a bus. A long instruction is no hang as long as it moves
/// data.
struct Quiet {
    taken: u32,
    limit: u64,
    patience: u64,
    moved: u64,
}

impl Quiet {
    /// For each transfer the core may wait for a link, for a bounded time. The activation unit moves no data of DRAM:
    /// in each of three passes over the whole buffer the elements of each word may go round.
    fn new(core: &NdpCore, taken: u32, transfers: usize, computes: bool) -> Self {
        let waits = 2 * transfers as u64 * u64::from(core.config().link().transfer_cycles());
        let gemv = core.config().gemv();
        let word = gemv.lanes() * (gemv.activation_lanes_per_rank() + 2) + 20;
        let block = 3 * u64::from(gemv.slice_words() * gemv.slices_per_lane()) * u64::from(word);
        let patience = core.options.watchdog_cycles.max(waits).max(if computes { block } else { 0 });
        Self { taken, limit: core.cycle() + patience, patience, moved: core.moved() }
    }

    /// Whether the watchdog's time is over. Looks at the buses only then, so it may see a hang up to twice as late.
    fn too_long(&mut self, core: &NdpCore, taken: u32) -> bool {
        if core.cycle() <= self.limit {
            return false;
        }
        let limit = core.cycle() + self.patience;
        let now = Self { taken, limit, patience: self.patience, moved: core.moved() };
        let still = (now.taken, now.moved) == (self.taken, self.moved);
        *self = now;
        still
    }
}
