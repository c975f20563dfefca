//! A core's end of the links: `send` and `receive` move ranges of DRAM.

use super::state::Transfers;
use super::unit::{GemvUnit, ProgramFigures};
use crate::cluster::lockstep::{HasCore, Lockstep};
use crate::core::{Burst, LinkStatus, NdpCore};
use ndp_config::DesignConfig;
use ndp_files::{Error, Result, ensure, refusal};
use ndp_isa::layout::DimmMap;
use ndp_isa::{Instruction, Transfer};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Messages since the last call.
    pub sent: u32,
    pub received: u32,
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
    /// Links the core as DIMM `node` of `dimms`, and reserves DRAM for outgoing and incoming data.
    ///
    /// # Errors
    /// A DRAM that is too small; a core without a link.
    pub(crate) fn connect(&mut self, lockstep: &Lockstep, node: u32, dimms: usize) -> Result<()> {
        let config = self.core.config().clone();
        ensure!(config.core().link(), "core.link = 0 must be in 1..=1");
        let gemv = config.gemv();
        // Room for the sums of a whole buffer.
        let bursts = gemv.slice_words() * gemv.stripe_elems() / ndp_config::BEAT_ELEMS * gemv.ranks();
        let map = self.caches.map_mut();
        let keep =
            |map: &mut DimmMap, name: &str| Ok::<_, Error>(map.add_bursts(name, bursts)? / gemv.ranks());
        let leaving = keep(map, "what leaves")?;
        keep_apart(&config, map)?;
        let coming = (0..dimms).map(|from| keep(map, &format!("what comes from DIMM {from}")));
        let coming = coming.collect::<Result<_, _>>()?;
        self.transfers = Some(Transfers { leaving, coming, counted: [0; 2] });
        self.core.set_node(node);
        lockstep.connect(&mut self.core, node as usize);
        Ok(())
    }

    /// First burst of each rank for outgoing data, if the core is linked.
    pub(crate) fn leaving(&self) -> Option<u32> {
        Some(self.transfers.as_ref()?.leaving)
    }

    /// First burst of each rank for data from a DIMM.
    ///
    /// # Errors
    /// A core without a link to that DIMM.
    pub(crate) fn coming(&self, from: usize) -> Result<u32> {
        let coming = self.transfers.as_ref().map_or(&[][..], |transfers| &transfers.coming);
        let (key, value, max) = ("linked DIMM", from as u64, coming.len() as u64);
        coming.get(from).copied().ok_or_else(|| refusal!("{key} = {value} must be in 0..={max}"))
    }

    /// Runs a program of transfers. Sends must not wait for receives, so both alternate, each send before its receive.
    pub(crate) async fn transfer_async(
        &mut self,
        sends: &[Transfer],
        receives: &[Transfer],
    ) -> Result<ProgramFigures> {
        let mut instructions = Vec::with_capacity(sends.len() + receives.len() + 1);
        for index in 0..sends.len().max(receives.len()) {
            instructions.extend(sends.get(index).copied().map(Instruction::Send));
            instructions.extend(receives.get(index).copied().map(Instruction::Receive));
        }
        instructions.push(Instruction::Barrier);
        self.execute(&instructions).await
    }

    /// Transfers since the last call.
    pub(crate) async fn outcome_async(&mut self) -> Result<Outcome> {
        let status = self.core.link_status_async().await?;
        let now = [status.sent, status.received];
        let counted = self.transfers.as_mut().map_or(now, |t| std::mem::replace(&mut t.counted, now));
        Ok(Outcome {
            sent: now[0].wrapping_sub(counted[0]),
            received: now[1].wrapping_sub(counted[1]),
            status,
        })
    }

    /// Lets cycles pass without the host.
    ///
    /// # Errors
    /// Errors of [`NdpCore::step`]; more cycles than the watchdog allows.
    pub(crate) async fn pass_async(&mut self, cycles: u64) -> Result<()> {
        let allowed = self.core.watchdog_cycles();
        for _ in 0..cycles.min(allowed) {
            self.core.tick().await?;
        }
        if cycles > allowed { Err(self.core.hang("the host takes nothing from its link")) } else { Ok(()) }
    }

    /// Clears faults and failures of the link.
    pub(crate) async fn retrain_async(&mut self) -> Result<()> {
        let address = 1 << self.core.config().dimm_burst_bits() | LinkStatus::REGISTER;
        self.core.submit(address, Some([3, 0, 0, 0, 0, 0, 0, 0]));
        while !self.core.registers_answered() {
            self.core.tick().await?;
        }
        while self.core.take_answer().is_some() {}
        Ok(())
    }

    /// Counters of the link's controller, by number.
    pub(crate) async fn link_counters_async(&mut self) -> Result<[u32; 16]> {
        let mut counters = [0; 16];
        for (number, counter) in (LinkStatus::COUNTERS..).zip(&mut counters) {
            *counter = self.core.register_async(number).await?[0] as u32;
        }
        Ok(counters)
    }
}

/// Leaves room, so that incoming data use other banks than outgoing ones: a gap of half of the pairs of banks, as a
/// stream uses one pair for 256 bursts at a time (docs/rank-port.md).
fn keep_apart(config: &DesignConfig, map: &mut DimmMap) -> Result<()> {
    const PAIR_BURSTS: u32 = 256;
    map.add_bursts("nothing", config.dram().banks() / 4 * PAIR_BURSTS * config.gemv().ranks())?;
    Ok(())
}

pub(crate) fn values_of(bursts: &[Burst]) -> impl Iterator<Item = u16> {
    bursts.iter().flat_map(|burst| (0..32).map(move |e| (burst[e / 4] >> (16 * (e % 4))) as u16))
}
