//! A program from its data to its end: image into DRAM, instructions by way of the host's port.
//!
//! What it should have done is `compare`'s business.

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
/// Core cycles between two looks at the status while the queue is full.
const POLL_CYCLES: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRun {
    /// The core cycle from which on it is counted.
    pub begin: u64,
    /// Core cycles from the first instruction's offer until the core was not busy any more.
    pub cycles: u64,
    /// The same by the cycle model, if [`super::CoreOptions::predict`] asks for it or the core is modelled. Beside RTL it is given the host's
    /// requests of the session at their cycles, and nothing else.
    pub model_cycles: Option<u64>,
    /// Instruction words that were sent, without the `nop`s that fill the last burst.
    pub words: u32,
    /// To which part of the core each cycle belongs.
    pub parts: PartCycles,
    /// What the DRAM was used for in these cycles, all ranks together.
    pub dram: DramUse,
    pub before: Status,
    pub status: Status,
}

/// The core's DRAM seen as a memory that a program's data are written to.
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
    /// Writes a program's data into the DRAM, at once.
    pub fn place(&mut self, program: &Program) -> Result<()> {
        let config = self.config().clone();
        for data in &program.data {
            ndp_isa::machine::write_data(&config, data, &mut Poke(self))?;
        }
        Ok(())
    }

    /// Sends instruction words and waits until the core is done with them. `between` is called before every cycle and may submit
    /// requests of the host; of a modelled core it is not called while the host waits for the end.
    ///
    /// # Errors
    /// As [`NdpCore::step`]; if the core never ends.
    pub fn run_words(&mut self, words: &[u128], mut between: impl FnMut(&mut Self)) -> Result<ProgramRun> {
        self.run_words_with(words, &mut between)
    }

    /// The same without a parameter of type, so that it is compiled here and not, perhaps without optimisation, where it is used.
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
        // All bursts have to be acknowledged before `busy` says anything.
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

    /// Writes bursts of the DIMM by way of the host's port, and waits until all are acknowledged.
    ///
    /// # Errors
    /// As [`NdpCore::step`]; if an acknowledgement does not come.
    pub(crate) async fn write_async(&mut self, bursts: &[(u64, Burst)]) -> Result<()> {
        if self.serve(Access::Write(bursts), |_, _| {}) {
            return Ok(());
        }
        bursts.iter().for_each(|(address, burst)| self.submit(*address, Some(*burst)));
        self.collect_async(bursts.len(), |answer| answer.request.write.is_some(), |_| {}).await
    }

    /// Reads bursts of the DIMM by way of the host's port: by address, as several answers may be on their way. Of a core without data there are none.
    ///
    /// # Errors
    /// As [`NdpCore::step`]; if an answer does not come.
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

    /// Steps until so many answers from the DRAM have come; they are taken out, others stay.
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

    /// A number that grows whenever data are read from a rank or written to it.
    fn moved(&self) -> u64 {
        let of_model = self.modelled().map_or(0, Modelled::moved);
        let buses = self.ranks().iter().map(|rank| rank.statistics().bus);
        of_model + buses.map(|bus| bus.read + bus.write).sum::<u64>()
    }
}

/// Up to four instructions as a burst for the queue; `nop`s fill it.
fn burst_of(words: &[u128]) -> Burst {
    let mut data = Burst::default();
    for (place, word) in words.iter().enumerate() {
        (data[2 * place], data[2 * place + 1]) = (*word as u64, (*word >> 64) as u64);
    }
    data
}

/// For how long nothing has moved: no instruction was taken and no data were on a bus. A long instruction is no hang, as long as it
/// moves data.
struct Quiet {
    taken: u32,
    limit: u64,
    patience: u64,
    moved: u64,
}

impl Quiet {
    /// With transfers the core itself may wait for a link, for each of them so long and no longer. The activation unit moves no data of
    /// DRAM: in each of three passes over the whole buffer the elements of each word may go round.
    fn new(core: &NdpCore, taken: u32, transfers: usize, computes: bool) -> Self {
        let waits = 2 * transfers as u64 * u64::from(core.config().link().transfer_cycles());
        let gemv = core.config().gemv();
        let word = gemv.lanes() * (gemv.activation_lanes_per_rank() + 2) + 20;
        let block = 3 * u64::from(gemv.slice_words() * gemv.slices_per_lane()) * u64::from(word);
        let patience = core.options.watchdog_cycles.max(waits).max(if computes { block } else { 0 });
        Self { taken, limit: core.cycle() + patience, patience, moved: core.moved() }
    }

    /// Whether it is longer than the watchdog allows. Looks at the buses only when that time is over, so it may see a hang up to
    /// twice as late.
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
