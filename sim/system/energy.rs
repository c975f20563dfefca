//! Energy of a token by device, part of the device, and operation.
//!
//! Counted energy:
//!
//! - **DRAM, programs**: the rank's counts of commands, open time and bits, times the data sheet's currents.
//! - **DRAM, host's accesses**: the channels' data in bursts of 64 bytes, each a RD or WR. Sharing of rows is unknown:
//!   the value assumes one ACT for the bursts of a row of one rank; the range goes from none to one for each burst.
//! - **DRAM, between programs**: closed banks and a refresh in every interval for the rest of the time.
//! - **Cores**: cycles by activity of the logic, times the power that was measured for such work.
//! - **Links, channels, bus**: bytes of the payload times the energy of a bit. Flits that are repeated are left out.
//! - **GPU, host, SSD**: idle and busy power times their times in the event log. Synchronisation counts as idle.
//!
//! Idle times and refreshes between programs are the row without an operation.

use super::causes::Cause;
use super::event_log::{Event, Operation};
use super::figures::SystemFigures;
use super::resource::Resource;
use ndp_config::{BEAT_BITS, DesignConfig, DramConfig, LlmShape, SystemConfig};
use ndp_energy::{CoreCosts, CorePart, DramCosts, DramPart, Energy, EnergyConstants, SystemCosts};
use serde::Serialize;
use std::collections::BTreeMap;

const BURST_BYTES: u64 = (BEAT_BITS / 8) as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnergyPart {
    Program(DramPart),
    HostAccess(DramPart),
    Between(DramPart),
    Core(CorePart),
    Bits,
    Idle,
    Busy,
}

impl EnergyPart {
    /// Whether it grows with moved or computed data; the rest grows with time.
    fn moves(self) -> bool {
        match self {
            Self::Program(part) => {
                !matches!(part, DramPart::Refresh | DramPart::ActiveStandby | DramPart::PrechargedStandby)
            }
            Self::HostAccess(_) | Self::Bits => true,
            Self::Core(part) => part != CorePart::Idle,
            Self::Between(_) | Self::Idle | Self::Busy => false,
        }
    }

    pub fn name(self) -> String {
        match self {
            Self::Program(part) => format!("DRAM, {}", part.name()),
            Self::HostAccess(part) => format!("host's accesses, {}", part.name()),
            Self::Between(part) => format!("between programs, {}", part.name()),
            Self::Core(part) => format!("core, {}", part.name()),
            Self::Bits => "bits".to_owned(),
            Self::Idle => "idle".to_owned(),
            Self::Busy => "busy".to_owned(),
        }
    }
}

impl Serialize for EnergyPart {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.name())
    }
}

/// Energy that a device used for an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnergyRow {
    pub device: String,
    pub part: EnergyPart,
    /// `None` for idle times.
    pub operation: Option<Operation>,
    /// Energy of all tokens together.
    #[serde(flatten)]
    pub energy: Energy,
}

#[derive(Clone, Debug)]
pub struct EnergyCosts {
    dram: DramCosts,
    core: CoreCosts,
    core_ps: u64,
    system: SystemCosts,
    machine: SystemConfig,
    ranks: u64,
    clock_ps: u64,
    /// Weights of the model, to compare [`Alternative`]s.
    model_bytes: Option<u64>,
    has_gpu: bool,
}

/// Power of a DIMM with its core, the GPU, the host or the SSD, from a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    pub place: Resource,
    pub from_ns: u64,
    /// Mean power in W, over a program or over a time without work.
    pub watts: f64,
}

/// Another way to compute a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alternative {
    pub name: &'static str,
    /// Bytes of weights that move.
    pub bytes: u64,
    pub ns: u64,
    /// DRAM commands, bits in flight, and busy logic of cores.
    pub moving: Energy,
    /// Standby and refresh of the DRAM, idle cores, GPU and host, over that time.
    pub devices: Energy,
}

impl Alternative {
    pub fn total(&self) -> Energy {
        self.moving + self.devices
    }
}

impl EnergyCosts {
    pub fn new(design: &DesignConfig, machine: &SystemConfig, constants: &EnergyConstants) -> Self {
        Self {
            dram: DramCosts::new(&constants.dram, design.dram()),
            core: CoreCosts::new(&constants.core, design),
            core_ps: design.core().clock_ps(),
            system: SystemCosts::new(&constants.system),
            machine: machine.clone(),
            ranks: design.gemv().ranks().into(),
            clock_ps: design.dram().clock_ps(),
            model_bytes: None,
            has_gpu: true,
        }
    }

    #[must_use]
    pub fn without_gpu(self) -> Self {
        Self { has_gpu: false, ..self }
    }

    /// To be compared with other ways to compute a token of a model ([`EnergyBreakdown::alternatives`]).
    #[must_use]
    pub fn for_model(self, model: &LlmShape) -> Self {
        let bytes = model.used_neurons_bytes() + model.projection_bytes() + model.embedding_bytes();
        Self { model_bytes: Some(bytes), ..self }
    }

    fn host_access(&self, bytes: u64, read: bool) -> [(DramPart, Energy); 3] {
        let bursts = bytes.div_ceil(BURST_BYTES);
        let part = if read { DramPart::Read } else { DramPart::Write };
        let cost = if read { self.dram.read } else { self.dram.write };
        let row = Energy { low: 0, ..self.dram.activate.per(DramConfig::BURSTS_PER_ROW.into()) };
        let activate = Energy { high: self.dram.activate.high, ..row };
        let bus = if read { DramPart::ReadBus } else { DramPart::WriteBus };
        [
            (DramPart::Activate, activate * bursts),
            (part, cost * bursts),
            (bus, self.dram.random_burst(read) * bursts),
        ]
    }
}

/// Counts of tokens, before idle times are added.
#[derive(Clone, Debug, Default)]
pub(super) struct EnergyTally {
    tokens: u64,
    entries: Entries,
    idle_ns: BTreeMap<Resource, u64>,
    /// All time, and busy time of the GPU.
    ns: u64,
    gpu_ns: u64,
    /// Bytes that products read from the DIMMs' DRAM for weights.
    weight_bytes: u64,
}

type Entries = BTreeMap<(Resource, EnergyPart, Option<Operation>), Energy>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnergyBreakdown {
    pub tokens: u64,
    pub total: Energy,
    /// Energy by device, part and operation; the rows add up to the total.
    pub rows: Vec<EnergyRow>,
    /// The measured way to compute a token, and others.
    pub alternatives: Vec<Alternative>,
    #[serde(skip)]
    entries: Entries,
}

impl EnergyTally {
    /// Counts `tokens` computed between `begin` and `end`.
    pub fn add(&mut self, costs: &EnergyCosts, (tokens, begin, end): (u64, u64, u64), events: &[Event]) {
        self.tokens += tokens;
        self.ns += end - begin;
        let mut busy_ns: BTreeMap<Resource, u64> = BTreeMap::new();
        for event in events.iter().filter(|event| event.begin_ns >= begin && event.begin_ns < end) {
            let place = event.place;
            let mut add = |place, part, energy| {
                *self.entries.entry((place, part, Some(event.operation))).or_default() += energy;
            };
            match place {
                Resource::Dimm(_) => {
                    let Some(program) = &event.program else { continue };
                    if !matches!(event.operation, Operation::Attention) {
                        self.weight_bytes += program.dram.counts.commands.reads * BURST_BYTES;
                    }
                    for (part, energy) in costs.dram.of(&program.dram).iter() {
                        add(place, EnergyPart::Program(part), energy);
                    }
                    for (part, energy) in costs.core.of(&program.core_use()) {
                        add(place, EnergyPart::Core(part), energy);
                    }
                    *busy_ns.entry(place).or_default() += event.end_ns - event.begin_ns;
                }
                Resource::LinkIn(_) | Resource::LinkOut(_) => {
                    add(place, EnergyPart::Bits, costs.system.links(event.bytes));
                }
                Resource::BusDown | Resource::BusUp => {
                    add(place, EnergyPart::Bits, costs.system.bus(event.bytes))
                }
                Resource::Channel(_) => {
                    add(place, EnergyPart::Bits, costs.system.channels(event.bytes));
                    if let Some(access) = event.access {
                        for (part, energy) in costs.host_access(event.bytes, access.is_read) {
                            add(Resource::Dimm(access.dimm), EnergyPart::HostAccess(part), energy);
                        }
                    }
                }
                Resource::Gpu | Resource::Host | Resource::Ssd => {
                    let causes = [Cause::Compute, Cause::Prediction, Cause::Transfer];
                    let ns = causes.into_iter().map(|cause| event.shares.get(cause)).sum();
                    let [_, busy] = costs.device(place, 0, ns);
                    add(place, EnergyPart::Busy, busy);
                    *busy_ns.entry(place).or_default() += ns;
                }
            }
        }
        self.gpu_ns += busy_ns.get(&Resource::Gpu).copied().unwrap_or(0);
        for place in costs.devices() {
            let busy = busy_ns.get(&place).copied().unwrap_or(0);
            *self.idle_ns.entry(place).or_default() += (end - begin).saturating_sub(busy);
        }
    }

    pub fn breakdown(&self, costs: &EnergyCosts) -> EnergyBreakdown {
        let mut entries = self.entries.clone();
        for (&place, &ns) in &self.idle_ns {
            let mut add = |part, energy| *entries.entry((place, part, None)).or_default() += energy;
            if let Resource::Dimm(_) = place {
                let clocks = ns * 1_000 / costs.clock_ps * costs.ranks;
                costs
                    .dram
                    .idle(clocks)
                    .iter()
                    .for_each(|(part, energy)| add(EnergyPart::Between(part), energy));
                add(EnergyPart::Core(CorePart::Idle), costs.core.idle(ns * 1_000 / costs.core_ps));
            } else {
                let [idle, _] = costs.device(place, ns, 0);
                add(EnergyPart::Idle, idle);
            }
        }
        entries.retain(|_, energy| *energy != Energy::default());
        let row =
            |(&(place, part, operation), &energy): (&(Resource, EnergyPart, Option<Operation>), &Energy)| {
                EnergyRow { device: place.to_string(), part, operation, energy }
            };
        EnergyBreakdown {
            tokens: self.tokens,
            total: entries.values().copied().sum(),
            rows: entries.iter().map(row).collect(),
            alternatives: self.alternatives(costs, &entries),
            entries,
        }
    }

    /// A token as computed, with the weights that the DIMMs read moved to the GPU, and with all weights read by the
    /// host's processor. The last two leave out caches of keys and values.
    fn alternatives(&self, costs: &EnergyCosts, entries: &Entries) -> Vec<Alternative> {
        let (Some(model_bytes), tokens @ 1..) = (costs.model_bytes, self.tokens) else { return Vec::new() };
        let mut own = Alternative {
            name: "near-data processing",
            bytes: self.weight_bytes / tokens,
            ns: self.ns / tokens,
            moving: Energy::default(),
            devices: Energy::default(),
        };
        for (&(_, part, _), &energy) in entries {
            *(if part.moves() { &mut own.moving } else { &mut own.devices }) += energy;
        }
        (own.moving, own.devices) = (own.moving.per(tokens), own.devices.per(tokens));
        let machine = &costs.machine;
        let dimms = u64::from(machine.dimms().count);
        let dram = |ns: u64| costs.dram.idle(ns * 1_000 / costs.clock_ps * costs.ranks * dimms).total();
        let read = |bytes| {
            let access = costs.host_access(bytes, true);
            access.into_iter().map(|(_, energy)| energy).sum::<Energy>() + costs.system.channels(bytes)
        };
        let bytes = own.bytes;
        let transfer = (bytes as f64 / machine.bus().bandwidth_gbps).ceil() as u64;
        let busy = self.gpu_ns / tokens + machine.gpu_ns(bytes, 1).ceil() as u64;
        let ns = transfer + busy;
        let over_bus = Alternative {
            name: "the same weights to the GPU",
            bytes,
            ns,
            moving: read(bytes) + costs.system.bus(bytes),
            devices: dram(ns)
                + costs.system.gpu(transfer, busy).into_iter().sum()
                + costs.system.host(ns, 0).into_iter().sum(),
        };
        let channels = f64::from(machine.dimms().count.div_ceil(machine.channel().dimms));
        let ns = (model_bytes as f64 / (channels * machine.channel().bandwidth_gbps)).ceil() as u64;
        let on_host = Alternative {
            name: "all weights by the host",
            bytes: model_bytes,
            ns,
            moving: read(model_bytes),
            devices: dram(ns) + costs.system.host(0, ns).into_iter().sum(),
        };
        vec![own, over_bus, on_host]
    }
}

impl EnergyBreakdown {
    /// Energy of a run without its prompt.
    pub fn new(costs: &EnergyCosts, figures: &SystemFigures, events: &[Event]) -> Self {
        let (tokens, _, ns) = figures.generated();
        let mut tally = EnergyTally::default();
        tally.add(costs, (tokens, figures.prompt_ns, figures.prompt_ns + ns), events);
        tally.breakdown(costs)
    }

    /// Sums entries with the same key.
    pub fn by<K: Ord>(
        &self,
        key: impl Fn(Resource, EnergyPart, Option<Operation>) -> K,
    ) -> BTreeMap<K, Energy> {
        let mut sums: BTreeMap<K, Energy> = BTreeMap::new();
        for (&(place, part, operation), &energy) in &self.entries {
            *sums.entry(key(place, part, operation)).or_default() += energy;
        }
        sums
    }
}

impl EnergyCosts {
    /// Power of DIMMs, GPU, host and SSD during events, without the host's accesses to the DRAM and bits in flight.
    pub fn power(&self, events: &[Event]) -> Vec<Power> {
        // fJ per ns are uW.
        let watts = |energy: Energy, ns: u64| energy.watts(1_000 * ns);
        let of = |place, busy: Option<&Event>| match (place, busy) {
            (Resource::Dimm(_), Some(event)) => {
                let energy = event.program.as_ref().map(|program| {
                    let core: Energy = self.core.of(&program.core_use()).map(|(_, energy)| energy).sum();
                    self.dram.of(&program.dram).total() + core
                });
                watts(energy.unwrap_or_default(), event.end_ns - event.begin_ns)
            }
            (Resource::Dimm(_), None) => {
                let clocks = 1_000_000_000 / self.clock_ps * self.ranks;
                let core = self.core.idle(1_000_000_000 / self.core_ps);
                watts(self.dram.idle(clocks).total() + core, 1_000_000)
            }
            (_, Some(_)) => watts(self.device(place, 0, 1_000)[1], 1_000),
            (_, None) => watts(self.device(place, 1_000, 0)[0], 1_000),
        };
        let mut power = Vec::new();
        for place in self.devices() {
            power.push(Power { place, from_ns: 0, watts: of(place, None) });
            let works = |event: &&Event| event.program.is_some() || !matches!(place, Resource::Dimm(_));
            let own = events.iter().filter(|event| event.place == place && event.begin_ns < event.end_ns);
            for event in own.filter(works) {
                power.push(Power { place, from_ns: event.begin_ns, watts: of(place, Some(event)) });
                power.push(Power { place, from_ns: event.end_ns, watts: of(place, None) });
            }
        }
        // The stable sort keeps an end before a begin in the same ns.
        power.sort_by_key(|of| (of.place, of.from_ns));
        power
    }

    /// Devices that always draw power.
    fn devices(&self) -> impl Iterator<Item = Resource> {
        let gpu = self.has_gpu.then_some(Resource::Gpu);
        let ssd = self.machine.ssd().map(|_| Resource::Ssd);
        (0..self.machine.dimms().count).map(Resource::Dimm).chain(gpu).chain([Resource::Host]).chain(ssd)
    }

    fn device(&self, place: Resource, idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        match place {
            Resource::Gpu => self.system.gpu(idle_ns, busy_ns),
            Resource::Ssd => self.system.ssd(idle_ns, busy_ns),
            _ => self.system.host(idle_ns, busy_ns),
        }
    }
}
