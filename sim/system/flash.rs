//! Neurons of the MLP that an SSD holds: which of them are in the slots of the DIMMs, and how the others come there.
//!
//! Each DIMM has slots for a part of its neurons of a block; a [`Window`] for each block and DIMM says which have one. The host knows which neurons are
//! active before the MLP runs: from when the layer begins, or from when its predictor has said so. The SSD reads the bundles that are missing from then
//! on, in turn one for each DIMM. While the GPU computes the projection no core runs a program: from then on the host writes them into slots, through the
//! ports of the DIMMs, each while the SSD reads the next ones. The MLP begins when all are there. The GPU computes the prompt; the neurons of its last
//! tokens are what the image of the DIMMs begins with.

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

/// Slots for a part of the neurons of the MLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlashOptions {
    /// Slots of a block in percent of the neurons of the fullest DIMM, rounded up to a row of all ranks; at least as many as a placement with an SSD has
    /// neurons there.
    pub resident_percent: u32,
    /// Neurons stay that so many tokens have needed, the present one included.
    pub window: NonZeroU32,
}

/// What the slots and the SSD did for the tokens behind the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlashFigures {
    /// Neurons of all MLP blocks, and slots for them on all DIMMs.
    pub neurons: u64,
    pub slots: u64,
    pub bundle_bytes: u64,
    /// Bundles that would have changed slots if the slots that are used had to be without holes. Here none does.
    pub moves_without_holes: u64,
    /// Cycles of the ports of all DIMMs.
    pub port_cycles: u64,
    /// Each pass behind the prompt.
    pub tokens: Vec<FlashToken>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FlashToken {
    pub position: usize,
    pub needed: u64,
    /// Bundles that were read: those that had no slot.
    pub loaded: u64,
    /// Neurons that left their slots.
    pub deleted: u64,
    pub ssd_ns: u64,
    /// Rounds of MLPs behind their first one.
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

    /// Slots over neurons.
    pub fn resident_share(&self) -> f64 {
        self.slots as f64 / self.neurons.max(1) as f64
    }
}

/// What that means for a mean token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlashSummary {
    /// Slots over neurons.
    pub resident_share: f64,
    /// Share of the needed neurons that had a slot.
    pub hit_rate: f64,
    pub bundles_per_token: f64,
    pub ssd_bytes_per_token: f64,
    /// Bytes that would have moved from slot to slot if the slots that are used had to be without holes.
    pub moved_bytes_without_holes_per_token: f64,
    /// Share of the time in which the SSD read.
    pub ssd_busy_share: f64,
    /// Share of the time in which the token waited for the SSD.
    pub ssd_critical_share: f64,
    /// The figures from which all that follows.
    #[serde(flatten)]
    pub figures: FlashFigures,
}

impl FlashSummary {
    /// Of a run, if it has a flash tier.
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
    /// A system for the placement of a model: its DIMMs have room for what the SSD holds, each its part.
    pub fn for_placement(&self, system: &SystemConfig, model: &LlmShape) -> SystemConfig {
        let bytes = model.neuron_bytes(BlockKind::Mlp) * u64::from(model.ffn()) * u64::from(model.layers());
        let outside = bytes * u64::from(100 - self.resident_percent.min(100)) / 100;
        system.clone().with_more_dimm_bytes(outside.div_ceil(system.dimms().count.into()))
    }
}

/// Slots of one block on one DIMM, and how the paper's manager would have divided them.
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

    /// A token, or a further round of the last one, needs these neurons: what changes, and how many move without holes.
    pub fn needs(&mut self, needed: &[u32], further: bool) -> Result<(Change, u64)> {
        let of = if further { Window::round } else { Window::token };
        let change = of(&mut self.slots, needed)?;
        Ok((change, of(&mut self.without_holes, needed)?.moved.len() as u64))
    }

    /// The same of a token that the GPU has computed, or of neurons that are there from the beginning: as many as there are slots.
    pub fn remember(&mut self, active: &[u32]) {
        let active = &active[..active.len().min(self.slots.capacity())];
        // No more than there are slots.
        let _ = self.needs(active, false);
    }
}

/// What an SSD holds, and when.
#[derive(Default)]
pub(super) struct Flash {
    /// Its bundles; none without data.
    pub layers: Vec<Layer>,
    /// When it is known which neurons the MLP needs, and from when on no core runs a program.
    pub known_ns: u64,
    pub idle_ns: u64,
    /// The MLP that waits for its rounds.
    pub rounds: Option<Rounds>,
}

/// Bundles that the host has at a time, of which each DIMM has those of some rows: its first one, its second one.
struct Chunk {
    rows: Range<usize>,
    bundles: u64,
    /// When, and how long the SSD has read.
    end: u64,
    ns: u64,
}

/// Refuses options with which the host does not know before an MLP which neurons it needs, or neurons move by other ways.
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
    /// It is known from now on, or from `known_ns` on, which neurons the next MLP needs.
    pub(super) fn flash_knows(&mut self, known_ns: u64) {
        if let Some(flash) = &mut self.flash {
            flash.known_ns = known_ns;
        }
    }

    /// The neurons of a block that the GPU has found active in the prompt, `[batch x neurons]`, are those that were needed last.
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

    /// Neurons of an MLP that DIMMs compute, by DIMM.
    fn cold(&self, layer: u32, neurons: &[u32]) -> Vec<Vec<u32>> {
        let mut cold = vec![Vec::new(); self.cores.len()];
        for &neuron in neurons {
            if let Device::Dimm(dimm) = self.residence.device((BlockKind::Mlp.block(layer), neuron)) {
                cold[dimm as usize].push(neuron);
            }
        }
        cold
    }

    /// The rounds in which an MLP computes these neurons: those of the DIMMs, round by round. One if there is no flash tier.
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

    /// The MLP of a layer needs these neurons, perhaps in a further round: those without a slot are read and written into one.
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

    /// The SSD reads the neurons of all DIMMs, in turn one for each. What it has read when no core runs a program is one chunk, and then what arrives
    /// together.
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
