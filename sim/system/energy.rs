//! Where a token's energy goes: by device, by part of the device, by operation.
//!
//! What is counted, and of what it is a product:
//!
//! - **DRAM, programs**: commands, open time and bits of each program, as the rank has counted them, times the currents of the data sheet.
//! - **DRAM, host's accesses**: the data of the memory channels in bursts of 64 bytes, each a RD or WR. How many share a row is not known:
//!   the value takes one ACT for the bursts of a row of one rank, the range goes from none to one for each burst.
//! - **DRAM, between programs**: closed banks and a refresh in every interval for the rest of the time.
//! - **Links, channels, bus**: bytes of the payload times the energy of a bit. Flits that are repeated are left out.
//! - **GPU, host**: idle and busy power times their times in the books. Synchronisation counts as idle.
//!
//! Whatever no operation is responsible for, idle times and refreshes between programs, is the row without an operation.

use super::books::{Event, Operation};
use super::causes::Cause;
use super::figures::SystemFigures;
use super::place::Place;
use ndp_config::{BEAT_BITS, DesignConfig, DramConfig};
use ndp_energy::{DramCosts, DramPart, Energy, EnergyConstants, SystemCosts};
use serde::Serialize;
use std::collections::BTreeMap;

/// What energy goes to in a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnergyPart {
    /// DRAM while a program runs.
    Program(DramPart),
    /// DRAM, accesses of the host.
    HostAccess(DramPart),
    /// DRAM between programs.
    Between(DramPart),
    /// Bits on their way.
    Bits,
    /// The device has nothing to do.
    Idle,
    /// The device works.
    Busy,
}

impl EnergyPart {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Program(part) => format!("DRAM, {}", part.name()),
            Self::HostAccess(part) => format!("host's accesses, {}", part.name()),
            Self::Between(part) => format!("between programs, {}", part.name()),
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

/// An entry: what a device used for an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnergyRow {
    /// The device.
    pub device: String,
    /// What for.
    pub part: EnergyPart,
    /// The operation; none is responsible for idle times.
    pub operation: Option<Operation>,
    /// How much, all tokens together.
    #[serde(flatten)]
    pub energy: Energy,
}

/// What events and times of a system cost.
#[derive(Clone, Debug)]
pub struct EnergyCosts {
    dram: DramCosts,
    system: SystemCosts,
    dimms: u32,
    ranks: u64,
    clock_ps: u64,
}

impl EnergyCosts {
    /// Of a system of so many DIMMs of a design.
    pub fn new(design: &DesignConfig, dimms: u32, constants: &EnergyConstants) -> Self {
        Self {
            dram: DramCosts::new(&constants.dram, design.dram()),
            system: SystemCosts::new(&constants.system),
            dimms,
            ranks: design.gemv().ranks().into(),
            clock_ps: design.dram().clock_ps(),
        }
    }

    /// Bursts that the host reads or writes.
    fn host_access(&self, bytes: u64, read: bool) -> [(DramPart, Energy); 3] {
        let bursts = bytes.div_ceil(u64::from(BEAT_BITS / 8));
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

/// Energy of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnergyBreakdown {
    /// Tokens.
    pub tokens: u64,
    /// All of it.
    pub total: Energy,
    /// By device, part and operation; their sum is the total.
    pub rows: Vec<EnergyRow>,
    #[serde(skip)]
    entries: BTreeMap<(Place, EnergyPart, Option<Operation>), Energy>,
}

impl EnergyBreakdown {
    /// Of a run, its prompt left out.
    pub fn new(costs: &EnergyCosts, figures: &SystemFigures, events: &[Event]) -> Self {
        let (tokens, _, ns) = figures.generated();
        Self::of_tokens(costs, (tokens, figures.prompt_ns, figures.prompt_ns + ns), events)
    }

    /// Of so many tokens, which begin and end at these times.
    pub(super) fn of_tokens(
        costs: &EnergyCosts,
        (tokens, begin, end): (u64, u64, u64),
        events: &[Event],
    ) -> Self {
        let mut own = Self { tokens, ..Self::default() };
        let mut busy_ns: BTreeMap<Place, u64> = BTreeMap::new();
        for event in events.iter().filter(|event| event.begin_ns >= begin && event.begin_ns < end) {
            let place = event.place;
            let mut add = |place, part, energy| own.add(place, part, Some(event.operation), energy);
            match place {
                Place::Dimm(_) => {
                    let Some(program) = &event.program else { continue };
                    for (part, energy) in costs.dram.of(&program.dram).iter() {
                        add(place, EnergyPart::Program(part), energy);
                    }
                    *busy_ns.entry(place).or_default() += event.end_ns - event.begin_ns;
                }
                Place::LinkIn(_) | Place::LinkOut(_) => {
                    add(place, EnergyPart::Bits, costs.system.links(event.bytes))
                }
                Place::BusDown | Place::BusUp => add(place, EnergyPart::Bits, costs.system.bus(event.bytes)),
                Place::Channel(_) => {
                    add(place, EnergyPart::Bits, costs.system.channels(event.bytes));
                    if let Some(access) = event.access {
                        for (part, energy) in costs.host_access(event.bytes, access.is_read) {
                            add(Place::Dimm(access.dimm), EnergyPart::HostAccess(part), energy);
                        }
                    }
                }
                Place::Gpu | Place::Host => {
                    let ns = event.shares.get(Cause::Compute) + event.shares.get(Cause::Prediction);
                    let [_, busy] = costs.device(place, 0, ns);
                    add(place, EnergyPart::Busy, busy);
                    *busy_ns.entry(place).or_default() += ns;
                }
            }
        }
        let idle_ns = |place| (end - begin).saturating_sub(busy_ns.get(&place).copied().unwrap_or(0));
        for dimm in (0..costs.dimms).map(Place::Dimm) {
            let clocks = idle_ns(dimm) * 1_000 / costs.clock_ps * costs.ranks;
            for (part, energy) in costs.dram.idle(clocks).iter() {
                own.add(dimm, EnergyPart::Between(part), None, energy);
            }
        }
        for place in [Place::Gpu, Place::Host] {
            let [idle, _] = costs.device(place, idle_ns(place), 0);
            own.add(place, EnergyPart::Idle, None, idle);
        }
        own.list();
        own
    }

    /// Adds that of tokens that came behind.
    pub(super) fn add_tokens(&mut self, other: &Self) {
        self.tokens += other.tokens;
        for (&(place, part, operation), &energy) in &other.entries {
            self.add(place, part, operation, energy);
        }
        self.list();
    }

    fn add(&mut self, place: Place, part: EnergyPart, operation: Option<Operation>, energy: Energy) {
        if energy != Energy::default() {
            self.total += energy;
            *self.entries.entry((place, part, operation)).or_default() += energy;
        }
    }

    fn list(&mut self) {
        let row =
            |(&(place, part, operation), &energy): (&(Place, EnergyPart, Option<Operation>), &Energy)| {
                EnergyRow { device: place.to_string(), part, operation, energy }
            };
        self.rows = self.entries.iter().map(row).collect();
    }

    /// Sums of the entries by something that they have in common.
    pub fn by<K: Ord>(&self, key: impl Fn(Place, EnergyPart, Option<Operation>) -> K) -> BTreeMap<K, Energy> {
        let mut sums: BTreeMap<K, Energy> = BTreeMap::new();
        for (&(place, part, operation), &energy) in &self.entries {
            *sums.entry(key(place, part, operation)).or_default() += energy;
        }
        sums
    }
}

impl EnergyCosts {
    /// The GPU or the host, so many nanoseconds idle and busy.
    fn device(&self, place: Place, idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        if place == Place::Gpu {
            self.system.gpu(idle_ns, busy_ns)
        } else {
            self.system.host(idle_ns, busy_ns)
        }
    }
}
