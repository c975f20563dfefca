//! MLP neurons on an SSD: which have slots in the DIMMs, and how the others get there.
//!
//! Each DIMM has slots for a part of its neurons of a block; a [`Window`] per block and DIMM says which have one. The
//! host knows the active neurons before the MLP runs: when the layer begins, or when its predictor has decided. From
//! then the SSD reads missing bundles, in turn one for each DIMM. While the GPU computes the projection no core runs a
//! program, so the host writes bundles into slots through the DIMMs' ports while the SSD reads the next ones. The MLP
//! begins when all have arrived. The GPU computes the prompt, whose last tokens select the neurons of the first image.

use super::backend::{ActivitySource, Fault, SystemBackend, SystemOptions, flip_weights};
use super::causes::{Breakdown, Shares};
use super::neuron_map::{Device, NeuronMap};
use super::pool::together;
use super::resource::Resource;
use super::rounds::Rounds;
use crate::gemv::GemvUnit;
use ndp_config::{BlockKind, LlmShape, SystemConfig};
use ndp_files::{Error, Result, refusal};
use ndp_hermes::flash::{Change, Manager, Window};
use ndp_model::weights::Layer;
use ndp_numerics::{f16, fp16};
use serde::Serialize;
use std::num::NonZeroU32;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlashOptions {
    /// Slots per block in percent of the fullest DIMM's neurons, rounded up to a row of all ranks; at least the neurons
    /// that a placement with an SSD puts there.
    pub resident_percent: u32,
    /// Number of tokens, the current one included, for which a needed neuron stays.
    pub window: NonZeroU32,
}

/// Slots and SSD over the tokens after the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlashFigures {
    /// Neurons of all MLP blocks, and slots for them on all DIMMs.
    pub neurons: u64,
    pub slots: u64,
    pub bundle_bytes: u64,
    /// Bundles that would have moved if used slots had to be contiguous. Here none moves.
    pub moves_without_holes: u64,
    /// Cycles of the ports of all DIMMs.
    pub port_cycles: u64,
    /// Each pass after the prompt.
    pub tokens: Vec<FlashToken>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlashToken {
    pub position: usize,
    pub needed: u64,
    /// Bundles read for neurons without a slot.
    pub loaded: u64,
    pub deleted: u64,
    pub ssd_ns: u64,
    /// Rounds of MLPs after their first one.
    pub further_rounds: u64,
}

impl FlashFigures {
    pub fn sum(&self, value: fn(&FlashToken) -> u64) -> u64 {
        self.tokens.iter().map(value).sum()
    }

    /// Share of the needed neurons that had a slot; 1 if none was needed.
    pub fn hit_rate(&self) -> f64 {
        let needed = self.sum(|token| token.needed);
        if needed == 0 { 1.0 } else { 1.0 - self.sum(|token| token.loaded) as f64 / needed as f64 }
    }

    pub fn resident_share(&self) -> f64 {
        self.slots as f64 / self.neurons.max(1) as f64
    }
}

/// Figures of a mean token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlashSummary {
    /// Slots over neurons.
    pub resident_share: f64,
    pub hit_rate: f64,
    pub bundles_per_token: f64,
    pub ssd_bytes_per_token: f64,
    /// Bytes that would have moved if used slots had to be contiguous.
    pub moved_bytes_without_holes_per_token: f64,
    pub ssd_busy_share: f64,
    /// Share of the time in which the token waited for the SSD.
    pub ssd_critical_share: f64,
    #[serde(flatten)]
    pub figures: FlashFigures,
}

impl FlashSummary {
    /// `None` without a flash tier.
    pub fn new(figures: Option<&FlashFigures>, time: &Breakdown) -> Option<Self> {
        let figures = figures?.clone();
        let per_token = |value: u64| value as f64 / figures.tokens.len().max(1) as f64;
        let share = |ns: u64| ns as f64 / time.ns.max(1) as f64;
        let loaded = figures.sum(|token| token.loaded);
        let path = time.critical_path_ns.get(&Resource::Ssd);
        Some(Self {
            resident_share: figures.resident_share(),
            hit_rate: figures.hit_rate(),
            bundles_per_token: per_token(loaded),
            ssd_bytes_per_token: per_token(loaded * figures.bundle_bytes),
            moved_bytes_without_holes_per_token: per_token(
                figures.moves_without_holes * figures.bundle_bytes,
            ),
            ssd_busy_share: share(figures.sum(|token| token.ssd_ns)),
            ssd_critical_share: share(path.map_or(0, Shares::total)),
            figures,
        })
    }
}

impl FlashOptions {
    /// The system for a model's placement, with room in each DIMM for its part of the SSD's neurons.
    pub fn for_placement(&self, system: &SystemConfig, model: &LlmShape) -> SystemConfig {
        let bytes = model.neuron_bytes(BlockKind::Mlp) * u64::from(model.ffn()) * u64::from(model.layers());
        let outside = bytes * u64::from(100 - self.resident_percent.min(100)) / 100;
        system.clone().with_more_dimm_bytes(outside.div_ceil(system.dimms().count.into()))
    }
}

/// Slots of one block on one DIMM, and a model of the paper's manager.
#[derive(Clone, Debug)]
pub(super) struct BlockWindow {
    slots: Window,
    without_holes: Window,
}

impl BlockWindow {
    pub fn new(capacity: u32, window: NonZeroU32, bundle_bytes: u64) -> Self {
        let of = |manager| Window::new(capacity, window, bundle_bytes, manager);
        Self { slots: of(Manager::FreeSlots), without_holes: of(Manager::Contiguous) }
    }

    pub fn slot(&self, neuron: u32) -> Option<u32> {
        self.slots.slot(neuron)
    }

    pub fn slots(&self) -> u64 {
        self.slots.capacity() as u64
    }

    /// The neurons of a token, or of a further round of the last one; returns the change, and the moves without holes.
    pub fn needs(&mut self, needed: &[u32], further: bool) -> Result<(Change, u64)> {
        let of = if further { Window::round } else { Window::token };
        let change = of(&mut self.slots, needed)?;
        Ok((change, of(&mut self.without_holes, needed)?.moved.len() as u64))
    }

    /// Like [`Self::needs`] for a token of the GPU, or for the initial neurons; at most the number of slots.
    pub fn remember(&mut self, active: &[u32]) {
        let active = &active[..active.len().min(self.slots.capacity())];
        let _ = self.needs(active, false);
    }
}

#[derive(Default)]
pub(super) struct Flash {
    pub layers: Vec<Layer>,
    /// When the MLP's neurons are known, and since when no core runs a program.
    pub known_ns: u64,
    pub idle_ns: u64,
    pub rounds: Option<Rounds>,
}

/// Bundles that the host has at a time: some rows of each DIMM's list.
struct Chunk {
    rows: Range<usize>,
    bundles: u64,
    /// End, and time that the SSD reads.
    end: u64,
    ns: u64,
}

/// Refuses options with which the host learns an MLP's neurons too late, or neurons also move in other ways.
pub(super) fn check(options: &SystemOptions, places: &impl NeuronMap) -> Result<()> {
    let unfit = |what, found: &str, expected: &str| {
        Err(refusal!("with a flash tier the {what} is {found}: expected {expected}"))
    };
    if options.flash.is_none() {
        return match places.resident(0, 0) {
            Some(_) => unfit(
                "placement",
                "one with neurons on an SSD",
                "one for DIMMs alone, or slots (--flash-resident)",
            ),
            None => Ok(()),
        };
    }
    if options.activity == ActivitySource::Causal {
        return unfit(
            "activity",
            "causal, which computes every gate and so needs every neuron",
            "oracle or predicted",
        );
    }
    if places.learns() {
        let found = "one that moves neurons between devices";
        return unfit("policy", found, "random or partition");
    }
    if options.system.ssd().is_none() {
        return unfit("system", "one without an SSD", "one with a section [ssd]");
    }
    Ok(())
}

impl<P: NeuronMap> SystemBackend<P> {
    /// The next MLP's neurons are known from `known_ns`.
    pub(super) fn flash_knows(&mut self, known_ns: u64) {
        if let Some(flash) = &mut self.flash {
            flash.known_ns = known_ns;
        }
    }

    /// Marks the neurons that the GPU found active in the prompt, `[batch x neurons]`, as needed last.
    pub(super) fn flash_remembers(&mut self, layer: u32, values: &[f16], neurons: usize) {
        let begins = self.flash.is_some() && self.places.resident(layer, 0).is_none();
        for values in values.chunks(neurons).filter(|_| begins) {
            let active: Vec<u32> =
                (0..).zip(values).filter(|(_, value)| !fp16::is_zero(**value)).map(|(n, _)| n).collect();
            for (window, active) in self.cold(layer, &active).into_iter().enumerate() {
                self.residence.windows[layer as usize][window].remember(&active);
            }
        }
    }

    /// Neurons that DIMMs compute, by DIMM.
    fn cold(&self, layer: u32, neurons: &[u32]) -> Vec<Vec<u32>> {
        let mut cold = vec![Vec::new(); self.cores.len()];
        for &neuron in neurons {
            if let Device::Dimm(dimm) = self.residence.device((BlockKind::Mlp.block(layer), neuron)) {
                cold[dimm as usize].push(neuron);
            }
        }
        cold
    }

    /// Divides the DIMMs' neurons of an MLP into rounds; one without a flash tier.
    pub(super) fn rounds(&self, layer: u32, neurons: &[u32]) -> Result<Vec<Vec<u32>>> {
        let mut rounds = vec![Vec::new()];
        let windows = self.residence.windows.get(layer as usize).into_iter().flatten();
        for ((dimm, needed), window) in self.cold(layer, neurons).into_iter().enumerate().zip(windows) {
            let own = window.slots.rounds(&needed).map_err(|error| unfit(layer, dimm, &error))?;
            rounds.resize(rounds.len().max(own.len()), Vec::new());
            rounds.iter_mut().zip(own).for_each(|(round, mut own)| round.append(&mut own));
        }
        rounds.iter_mut().for_each(|round| round.sort_unstable());
        Ok(rounds)
    }

    /// Loads the neurons of an MLP that have no slot, perhaps for a further round.
    pub(super) fn bring(&mut self, layer: u32, neurons: &[u32], further: bool) -> Result<()> {
        let Some(&Flash { known_ns, idle_ns, .. }) = self.flash.as_ref() else { return Ok(()) };
        let block = BlockKind::Mlp.block(layer);
        let further_rounds = u64::from(further);
        let mut token =
            FlashToken { position: self.event_log.step.position, further_rounds, ..FlashToken::default() };
        let (mut loaded, mut moves) = (Vec::new(), 0);
        for (dimm, needed) in self.cold(layer, neurons).into_iter().enumerate() {
            let window = &mut self.residence.windows[layer as usize][dimm];
            let changed = window.needs(&needed, further);
            let (change, moved) = changed.map_err(|error| unfit(layer, dimm, &error))?;
            token.needed += needed.len() as u64;
            token.loaded += change.loaded.len() as u64;
            token.deleted += change.deleted.len() as u64;
            moves += moved;
            loaded.push((dimm, change.loaded));
        }
        loaded.retain(|(_, neurons)| !neurons.is_empty());
        let chunks = self.read(&loaded, self.residence.bytes(block), (known_ns, idle_ns));
        token.ssd_ns = chunks.iter().map(|chunk| chunk.ns).sum();
        let layers = self.flash.as_ref().map_or(&[][..], |flash| &flash.layers);
        let rows = |neurons: &[(u32, u32)]| {
            let packed =
                neurons.iter().map(|&(neuron, slot)| self.residence.packed(layers, (block, neuron), slot));
            packed.flatten().collect::<Vec<_>>()
        };
        let parts = |neurons: &[(u32, u32)]| {
            let own = |chunk: &Chunk| chunk.rows.start.min(neurons.len())..chunk.rows.end.min(neurons.len());
            chunks.iter().map(|chunk| rows(&neurons[own(chunk)])).collect::<Vec<_>>()
        };
        let jobs: Vec<_> = loaded.iter().map(|(dimm, neurons)| (*dimm, parts(neurons))).collect();
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let threads = self.options.threads;
        let done = together(cores, threads, jobs, Vec::len, async |core: &mut GemvUnit, parts: Vec<_>| {
            let mut written = Vec::with_capacity(parts.len());
            for rows in parts {
                let (before, bytes) = (core.core().cycle(), 64 * rows.len() as u64);
                core.write_packed(rows);
                core.flush().await?;
                written.push((bytes, core.core().cycle() - before));
            }
            Ok(written)
        })?;
        self.learn();
        let (mut ready, mut port_cycles) = (self.event_log.now.max(known_ns), 0);
        for (dimm, written) in done {
            let mut free = 0;
            for (chunk, (bytes, cycles)) in chunks.iter().zip(written).filter(|(_, (bytes, _))| *bytes > 0) {
                port_cycles += cycles;
                let what = ("bundles", chunk.end.max(idle_ns), free);
                let [end, there] = self.event_log.host_writes(dimm, what, bytes, cycles);
                (free, ready) = (end, ready.max(there));
            }
        }
        self.event_log.advance(ready);
        self.count(token, moves, port_cycles);
        if self.fault == Some(Fault::Bundles)
            && let Some((neuron, _)) = loaded.first().and_then(|(_, neurons)| neurons.first())
        {
            let cores = (self.cores.as_mut_slice(), self.links.as_mut());
            flip_weights(cores, &self.residence, (block, *neuron), 14)?;
            self.fault = None;
        }
        Ok(())
    }

    /// The SSD reads the neurons of all DIMMs, in turn one for each. The first chunk is everything read before the last
    /// core ends its program; then come chunks of neurons that arrive together.
    fn read(
        &mut self,
        loaded: &[(usize, Vec<(u32, u32)>)],
        bytes: u64,
        (asked, idle): (u64, u64),
    ) -> Vec<Chunk> {
        let of_row = |row: usize| loaded.iter().filter(|(_, neurons)| neurons.len() > row).count() as u64;
        let ssd = self.options.system.ssd();
        let ns = |bundles| ssd.map_or(0, |ssd| ssd.read_ns(bundles, bytes));
        let begin =
            self.event_log.ssd_begins(asked, ns(loaded.iter().map(|(_, own)| own.len() as u64).sum()));
        let (mut chunks, mut bundles): (Vec<Chunk>, u64) = (Vec::new(), 0);
        for row in 0..loaded.iter().map(|(_, neurons)| neurons.len()).max().unwrap_or(0) {
            bundles += of_row(row);
            let end = begin + ns(bundles);
            let from = chunks.last().map_or(begin, |chunk| chunk.end);
            if chunks.last().is_none_or(|chunk| end > chunk.end.max(idle)) {
                chunks.push(Chunk { rows: row..row, bundles: 0, end, ns: 0 });
            }
            if let Some(Chunk { rows, bundles, end: until, ns }) = chunks.last_mut() {
                (rows.end, *bundles, *until, *ns) = (row + 1, *bundles + of_row(row), end, *ns + end - from);
            }
        }
        let mut asked = asked;
        for Chunk { bundles, end, ns, .. } in &chunks {
            self.event_log.ssd_has_read("bundles", asked, [end - ns, *end], bundles * bytes);
            asked = *end;
        }
        chunks
    }

    fn count(&mut self, token: FlashToken, moves: u64, port_cycles: u64) {
        let Some(figures) = &mut self.event_log.figures.flash else { return };
        figures.moves_without_holes += moves;
        figures.port_cycles += port_cycles;
        match figures.tokens.last_mut().filter(|last| last.position == token.position) {
            Some(last) => {
                last.needed += token.needed;
                last.loaded += token.loaded;
                last.deleted += token.deleted;
                last.ssd_ns += token.ssd_ns;
                last.further_rounds += token.further_rounds;
            }
            None => figures.tokens.push(token),
        }
    }
}

fn unfit(layer: u32, dimm: usize, error: &Error) -> Error {
    refusal!(
        "MLP of layer {layer}, DIMM {dimm}: {error}; with a larger share of resident neurons there are more"
    )
}
