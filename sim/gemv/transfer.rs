//! Parcels between DIMMs: what one core has, another one gets by `send` and `receive` over their links.
//!
//! A parcel is bursts that the host has put together in a range of the DRAM that is kept for that; it goes as one message to the same
//! kind of range of another DIMM, where the host takes it. The host copies data within a DIMM, operands of products
//! included; the copy takes zero cycles. A parcel can also go while the core's next program runs.

use super::state::{Beside, Transfers};
use super::unit::{GemvUnit, NEVER_STORED, ProgramFigures};
use crate::cluster::lockstep::HasCore;
use crate::core::{Burst, Exchange, LinkStatus, NdpCore};
use crate::error::SimError;
use ndp_isa::{Instruction, Transfer};
use std::sync::{Arc, Mutex};

/// What has become of the transfers of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Messages that left and that came since it was asked last.
    pub sent: u32,
    pub received: u32,
    /// The link.
    pub status: LinkStatus,
}

impl HasCore for GemvUnit {
    fn core(&self) -> &NdpCore {
        &self.core
    }

    fn core_mut(&mut self) -> &mut NdpCore {
        &mut self.core
    }
}

impl GemvUnit {
    /// Links the core to others as DIMM `node`, and keeps room for parcels in its DRAM. Nothing may be placed there yet.
    ///
    /// # Errors
    /// [`SimError::Layout`] for a DRAM that is too small; [`SimError::Range`] for a core without a link.
    pub(crate) fn connect(&mut self, exchange: Arc<Mutex<Exchange>>, node: u32) -> Result<(), SimError> {
        let config = self.core.config().clone();
        if !config.core().link() {
            return Err(SimError::Range { key: "core.link", value: 0, min: 1, max: 1 });
        }
        let gemv = config.gemv();
        // As much as the sums of a whole buffer.
        let bursts = gemv.slice_words() * gemv.stripe_elems() / ndp_config::BEAT_ELEMS * gemv.ranks();
        let mut ranges = [0; 3];
        for (range, name) in ranges.iter_mut().zip(["parcels that leave", "parcels that come", "uploads"]) {
            *range = self.caches.keep(name, bursts)?;
        }
        self.transfers = Some(Transfers { ranges, bursts, counted: [0; 2], next: Beside::default() });
        self.core.set_node(node);
        self.core.connect(exchange);
        Ok(())
    }

    /// Bursts of the largest parcel; 0 without a link.
    pub(crate) fn parcel_bursts(&self) -> usize {
        self.transfers.as_ref().map_or(0, |transfers| transfers.bursts as usize)
    }

    /// Puts a parcel into the range of those that leave; returns what sends it.
    pub(crate) fn stage(&mut self, node: u32, slot: u32, parcel: &[Burst]) -> Result<Instruction, SimError> {
        let transfer = self.transfer(0, node, slot, parcel.len())?;
        for (burst, data) in self.places(&transfer).into_iter().zip(parcel) {
            self.core.poke(burst, data);
        }
        Ok(Instruction::Send(transfer))
    }

    /// Makes the range of parcels that come look like none; returns what receives one of so many bursts.
    pub(crate) fn await_parcel(
        &mut self,
        node: u32,
        slot: u32,
        bursts: usize,
    ) -> Result<Instruction, SimError> {
        let transfer = self.transfer(1, node, slot, bursts)?;
        for burst in self.places(&transfer) {
            self.core.poke(burst, &[NEVER_STORED; 8]);
        }
        Ok(Instruction::Receive(transfer))
    }

    /// What has come.
    pub(crate) fn parcel(&self, bursts: usize) -> Result<Vec<Burst>, SimError> {
        let transfer = self.transfer(1, 0, 0, bursts)?;
        Ok(self.places(&transfer).into_iter().take(bursts).map(|burst| self.core.peek(burst)).collect())
    }

    /// The range of a kind as a transfer that has room for so many bursts.
    fn transfer(&self, kind: usize, node: u32, slot: u32, bursts: usize) -> Result<Transfer, SimError> {
        let ranks = self.core.config().gemv().ranks();
        let Some(Transfers { ranges, bursts: most, .. }) = &self.transfers else {
            return Err(SimError::Range { key: "linked cores", value: 1, min: 2, max: 8 });
        };
        if bursts == 0 || bursts > *most as usize {
            let (key, value, max) = ("bursts of a parcel", bursts as u64, u64::from(*most));
            return Err(SimError::Range { key, value, min: 1, max });
        }
        let count = (bursts as u32).div_ceil(ranks);
        Ok(Transfer { address: ranges[kind] / ranks, count, ranks: (1 << ranks) - 1, node, slot })
    }

    /// The bursts of the DIMM that a transfer names.
    fn places(&self, transfer: &Transfer) -> Vec<u64> {
        let config = self.core.config();
        let of = |(rank, burst)| ndp_layout::DimmAddress { rank, burst }.to_burst(config);
        transfer.places().map(of).collect()
    }

    /// Runs transfers by themselves.
    ///
    /// # Errors
    /// As [`NdpCore::run_words`].
    pub(crate) async fn transfer_async(
        &mut self,
        instructions: &[Instruction],
    ) -> Result<ProgramFigures, SimError> {
        self.execute(instructions).await
    }

    /// Lets transfers begin `lead` cycles before the next program, and go on beside it.
    pub(crate) fn beside_next(&mut self, instructions: Vec<Instruction>, lead: u64) {
        if let Some(transfers) = &mut self.transfers {
            transfers.next.instructions = instructions;
            transfers.next.lead = lead;
        }
    }

    /// Lets the host read `parcel` by way of the core's port beside the next program, for the GPU; [`GemvUnit::uploaded`] has what it read.
    pub(crate) fn upload_beside_next(&mut self, parcel: &[Burst], lead: u64) -> Result<(), SimError> {
        let places = self.places(&self.transfer(2, 0, 0, parcel.len())?);
        for (burst, data) in places.iter().zip(parcel) {
            self.core.poke(*burst, data);
        }
        if let Some(transfers) = &mut self.transfers {
            transfers.next.reads = places[..parcel.len()].to_vec();
            transfers.next.lead = lead;
        }
        Ok(())
    }

    /// What the host has read beside the last program.
    pub(crate) fn uploaded(&mut self) -> Vec<Burst> {
        self.transfers.as_mut().map(|transfers| std::mem::take(&mut transfers.next.read)).unwrap_or_default()
    }

    /// What is to go beside the next program, taken.
    pub(super) fn take_beside(&mut self) -> Option<Beside> {
        let next = &mut self.transfers.as_mut()?.next;
        (!next.instructions.is_empty() || !next.reads.is_empty()).then(|| std::mem::take(next))
    }

    /// Keeps what the host has read.
    pub(super) fn keep_read(&mut self, read: Vec<Burst>) {
        if let Some(transfers) = &mut self.transfers {
            transfers.next.read = read;
        }
    }

    /// What has become of the transfers since it was asked last.
    ///
    /// # Errors
    /// As [`NdpCore::register`].
    pub(crate) async fn outcome_async(&mut self) -> Result<Outcome, SimError> {
        let status = self.core.link_status_async().await?;
        let now = [status.sent, status.received];
        let counted = self.transfers.as_mut().map_or(now, |t| std::mem::replace(&mut t.counted, now));
        Ok(Outcome {
            sent: now[0].wrapping_sub(counted[0]),
            received: now[1].wrapping_sub(counted[1]),
            status,
        })
    }

    /// Lets cycles pass in which the host does nothing.
    ///
    /// # Errors
    /// As [`NdpCore::step`]; [`SimError::Hang`] if they are more than the watchdog allows.
    pub(crate) async fn pass_async(&mut self, cycles: u64) -> Result<(), SimError> {
        let allowed = self.core.watchdog_cycles();
        for _ in 0..cycles.min(allowed) {
            self.core.tick().await?;
        }
        if cycles > allowed { Err(self.core.hang("the host takes nothing from its link")) } else { Ok(()) }
    }

    /// Tells the link to go on after a fault, and to forget failures.
    ///
    /// # Errors
    /// As [`NdpCore::step`].
    pub(crate) async fn retrain_async(&mut self) -> Result<(), SimError> {
        let address = 1 << self.core.config().dimm_burst_bits() | LinkStatus::REGISTER;
        self.core.submit(address, Some([3, 0, 0, 0, 0, 0, 0, 0]));
        while !self.core.registers_answered() {
            self.core.tick().await?;
        }
        while self.core.take_answer().is_some() {}
        Ok(())
    }

    /// The counters of the link's controller, by number.
    ///
    /// # Errors
    /// As [`NdpCore::register`].
    pub(crate) async fn link_counters_async(&mut self) -> Result<[u32; 16], SimError> {
        let mut counters = [0; 16];
        for (number, counter) in (LinkStatus::COUNTERS..).zip(&mut counters) {
            *counter = self.core.register_async(number).await?[0] as u32;
        }
        Ok(counters)
    }
}

/// FP16 bits, 32 to a burst.
pub(crate) fn bursts_of(bits: impl Iterator<Item = u16>) -> Vec<Burst> {
    let bits: Vec<u16> = bits.collect();
    let burst = |chunk: &[u16]| {
        let mut burst = Burst::default();
        for (element, bits) in chunk.iter().enumerate() {
            burst[element / 4] |= u64::from(*bits) << (16 * (element % 4));
        }
        burst
    };
    bits.chunks(32).map(burst).collect()
}

/// The FP16 bits of bursts.
pub(crate) fn values_of(bursts: &[Burst]) -> impl Iterator<Item = u16> {
    bursts.iter().flat_map(|burst| (0..32).map(move |e| (burst[e / 4] >> (16 * (e % 4))) as u16))
}
