//! Checks that all energy of a generation has a use; events of RTL and models side by side.

use ndp_config::{DesignConfig, Ssd, SystemConfig};
use ndp_energy::{
    CoreCosts, CorePart, CoreUse, DramCosts, DramEnergy, DramPart, DramUse, Energy, EnergyConstants,
    SystemCosts,
};
use ndp_sim::system::{Cause, EnergyBreakdown, EnergyCosts, EnergyPart, Event, Resource, SystemFigures};
use std::error::Error;

/// Events without the data that only RTL has: the bits on the data buses of the DRAM.
pub fn without_bus(events: &[Event]) -> Vec<Event> {
    let mut events = events.to_vec();
    for program in events.iter_mut().filter_map(|event| event.program.as_mut()) {
        program.dram = DramUse { bus: None, ..program.dram };
    }
    events
}

pub fn costs(design: &DesignConfig, dimms: u32) -> Result<EnergyCosts, Box<dyn Error>> {
    let system = SystemConfig::preset("hermes")?.with_dimms(dimms)?.with_ssd(Ssd::preset("flash-m1")?);
    Ok(EnergyCosts::new(design, &system, &EnergyConstants::load(design, "hermes", [None; 3])?))
}

/// Sums by device, by part and by operation equal the total, and each follows from the events, added up in another
/// order.
pub fn all_energy_has_a_use(
    design: &DesignConfig,
    figures: &SystemFigures,
    events: &[Event],
) -> Result<EnergyBreakdown, Box<dyn Error>> {
    let dimms = figures.dimms.len() as u32;
    let found = EnergyBreakdown::new(&costs(design, dimms)?, figures, events);
    let total = found.total;
    assert!(total.low < total.value && total.value < total.high, "{total:?}");
    assert_eq!(found.rows.iter().map(|row| row.energy).sum::<Energy>(), total);
    assert_eq!(found.by(|place, _, _| place).into_values().sum::<Energy>(), total);
    assert_eq!(found.by(|_, part, _| part).into_values().sum::<Energy>(), total);
    assert_eq!(found.by(|_, _, operation| operation).into_values().sum::<Energy>(), total);

    let constants = EnergyConstants::load(design, "hermes", [None; 3])?;
    let (dram, system) =
        (DramCosts::new(&constants.dram, design.dram()), SystemCosts::new(&constants.system));
    let events = || events.iter().filter(|event| event.begin_ns >= figures.prompt_ns);
    let part = |part| found.by(|_, of, _| of == part).remove(&true).unwrap_or_default();
    let place = |wanted: fn(Resource) -> bool, part| {
        found.by(|place, of, _| wanted(place) && of == part).remove(&true).unwrap_or_default()
    };
    // All programs as one.
    let mut programs = DramUse::default();
    events().filter_map(|event| event.program.as_ref()).for_each(|program| programs += program.dram);
    assert!(programs.counts.commands.reads > 1_000, "{programs:?}");
    for (of, energy) in dram.of(&programs).iter() {
        // A program with unknown bits pays for random ones, as all of them together do.
        assert_eq!(part(EnergyPart::Program(of)), energy, "{of:?}");
    }
    // The logic: its cycles are the cycles of the programs and of the rest of the time.
    let mut cycles = CoreUse::default();
    let mut all_cycles = 0;
    for program in events().filter_map(|event| event.program.as_ref()) {
        cycles += program.core_use();
        all_cycles += program.cycles;
    }
    assert_eq!(cycles.dot + cycles.axpy + cycles.activation + cycles.other, all_cycles);
    assert!(cycles.dot.min(cycles.axpy).min(cycles.activation) > 0, "{cycles:?}");
    let core = CoreCosts::new(&constants.core, design);
    for (of, energy) in core.of(&cycles).take(3) {
        assert_eq!(part(EnergyPart::Core(of)), energy, "{of:?}");
    }
    // Between programs DRAM and logic wait.
    let (_, _, ns) = figures.generated();
    let (mut waiting, mut idle) = (DramEnergy::default(), core.idle(cycles.other));
    for dimm in (0..dimms).map(Resource::Dimm) {
        let busy: u64 = events()
            .filter(|event| event.place == dimm && event.program.is_some())
            .map(|event| event.end_ns - event.begin_ns)
            .sum();
        let ps = (ns - busy) * 1_000;
        idle += core.idle(ps / design.core().clock_ps());
        waiting += dram.idle(ps / design.dram().clock_ps() * u64::from(design.gemv().ranks()));
    }
    assert_eq!(part(EnergyPart::Core(CorePart::Idle)), idle);
    for (of, energy) in waiting.iter() {
        assert_eq!(part(EnergyPart::Between(of)), energy, "{of:?}");
    }
    for (read, column) in [(true, DramPart::Read), (false, DramPart::Write)] {
        let accesses = events().filter(|event| event.access.is_some_and(|access| access.is_read == read));
        let bursts: u64 = accesses.map(|event| event.bytes.div_ceil(64)).sum();
        let cost = if read { dram.read } else { dram.write };
        assert!(bursts > 0);
        assert_eq!(part(EnergyPart::HostAccess(column)), cost * bursts);
    }
    let bytes =
        |of: fn(Resource) -> bool| events().filter(|event| of(event.place)).map(|event| event.bytes).sum();
    let links: fn(Resource) -> bool = |place| matches!(place, Resource::LinkIn(_) | Resource::LinkOut(_));
    let bus: fn(Resource) -> bool = |place| matches!(place, Resource::BusDown | Resource::BusUp);
    let channels: fn(Resource) -> bool = |place| matches!(place, Resource::Channel(_));
    assert_eq!(place(links, EnergyPart::Bits), system.links(bytes(links)));
    assert_eq!(place(bus, EnergyPart::Bits), system.bus(bytes(bus)));
    assert_eq!(place(channels, EnergyPart::Bits), system.channels(bytes(channels)));
    let gpu: u64 = events()
        .filter(|event| event.place == Resource::Gpu)
        .map(|event| event.shares.get(Cause::Compute) + event.shares.get(Cause::Prediction))
        .sum();
    let [idle, busy] = system.gpu(ns - gpu, gpu);
    assert_eq!(place(|place| place == Resource::Gpu, EnergyPart::Idle), idle);
    assert_eq!(place(|place| place == Resource::Gpu, EnergyPart::Busy), busy);
    let reads = events().filter(|event| event.place == Resource::Ssd);
    let read: u64 = reads.map(|event| event.end_ns - event.begin_ns).sum();
    let [idle, busy] = system.ssd(ns - read, read);
    assert_eq!(place(|place| place == Resource::Ssd, EnergyPart::Idle), idle);
    assert_eq!(place(|place| place == Resource::Ssd, EnergyPart::Busy), busy);
    Ok(found)
}
