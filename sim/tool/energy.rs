//! Energy: arguments and reports.

use crate::prelude::*;
use ndp_energy::{
    CoreCosts, CorePart, CoreUse, DimmEnergy, DramCosts, DramEnergy, DramPart, DramUse, Energy,
    EnergyConstants,
};
use ndp_sim::system::{EnergyBreakdown, EnergyPart, LoneCore};
use serde::Serialize;
use std::collections::BTreeMap;

/// Constants from which energy is computed.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EnergyArgs {
    /// Print where the energy goes; JSON always contains it
    #[arg(long)]
    pub energy: bool,
    /// Energy constants of the DRAM: ddr4-3200-x8, ddr4-3200-x16 or a path ending in .toml [default: by the bank
    /// groups of the design]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub energy_dram: Option<String>,
    /// Energy constants of the cores' logic: hermes-asap7 or a path ending in .toml [default: hermes-asap7, in
    /// proportion to the multipliers]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub energy_core: Option<String>,
    /// Energy constants of links, bus, GPU, host and storage: hermes, hermes-3090, hermes-t4 or a path ending in
    /// .toml [default: by the name of the system]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub energy_system: Option<String>,
}

impl EnergyArgs {
    /// Refuses constants that no output shows. `shown`: whether a form other than the text contains the energy.
    pub fn check_effects(&self, shown: bool) -> Result<()> {
        let asked = self.asked().into_iter();
        let useless = ["dram", "core", "system"].into_iter().zip(asked).find(|(_, asked)| asked.is_some());
        match useless.filter(|_| !(self.energy || shown)) {
            Some((name, _)) => {
                bail!("--energy-{name} has no effect without --energy, --json or --verbose; leave it out")
            }
            None => Ok(()),
        }
    }

    pub fn files(&self, files: FileSet) -> FileSet {
        let named = ["the DRAM's energy", "the core's energy", "the system's energy"];
        let asked = named.into_iter().zip(self.asked());
        asked.fold(files, |files, (what, path)| files.configuration(what, path.unwrap_or_default()))
    }

    /// Presets or paths of the constants of DRAM, cores and system.
    fn asked(&self) -> [Option<&str>; 3] {
        [&self.energy_dram, &self.energy_core, &self.energy_system].map(Option::as_deref)
    }

    pub fn constants(&self, design: &DesignConfig, system: &str) -> Result<EnergyConstants> {
        EnergyConstants::load(design, system, self.asked())
    }

    pub fn dram_costs(&self, design: &DesignConfig) -> Result<DramCosts> {
        Ok(DramCosts::new(&self.constants(design, "hermes")?.dram, design.dram()))
    }
}

#[derive(Debug, Serialize)]
struct OperationEnergy {
    operation: &'static str,
    total: Energy,
    parts: DramEnergy,
    core: BTreeMap<&'static str, Energy>,
    counted: DramUse,
    cycles: CoreUse,
}

/// Energy of a lone core and its DRAM: all programs, and parts.
#[derive(Debug)]
pub struct CoreEnergy {
    figures: Values,
    parts: Values,
}

impl CoreEnergy {
    pub fn new(args: &EnergyArgs, backend: &mut LoneCore) -> Result<Self> {
        let config = backend.unit().config().clone();
        let constants = args.constants(&config, "hermes")?;
        let costs = DramCosts::new(&constants.dram, config.dram());
        let core_costs = CoreCosts::new(&constants.core, &config);
        let (mut operations, mut all) = (Vec::new(), DramEnergy::default());
        let mut core: BTreeMap<&'static str, Energy> = BTreeMap::new();
        for (&operation, &(counted, cycles)) in &backend.sums().used {
            let parts = costs.of(&counted);
            let of_core: BTreeMap<_, _> =
                core_costs.of(&cycles).map(|(part, energy)| (part.name(), energy)).collect();
            all += parts;
            of_core.iter().for_each(|(name, energy)| *core.entry(name).or_default() += *energy);
            let total = parts.total() + of_core.values().copied().sum();
            operations.push(OperationEnergy { operation, total, parts, core: of_core, counted, cycles });
        }
        let macs = backend.total().macs;
        let programs = all.total() + core.values().copied().sum();
        let of_dram = all.iter().map(|(part, energy)| (format!("DRAM, {}", part.name()), energy));
        let of_core = core.iter().map(|(part, energy)| (format!("core, {part}"), *energy));
        let parts = sums(of_dram.chain(of_core), programs);
        let figures = figures! {
            "programs" "programs" {Energy} Screen: "DRAM and core while programs ran" = programs;
            "pj_per_mac" "per MAC" {Real("pJ", 2)} Screen: "energy of the programs for each multiply-accumulate" = programs.pj() / macs.max(1) as f64;
            "session.total" "DRAM since reset" {Energy} Screen: "DRAM since reset, between programs too";
            "dram" "constants" {Text} Screen: "the DRAM whose currents are used" = constants.dram.name;
            "macs" "multiply-accumulates" {Count} Json: "multiply-accumulates of the programs" = macs;
            "parts" "" {Data} Json: "DRAM by part, of the programs" = all;
            "core" "" {Data} Json: "core by part, of the programs" = core;
            "operations" "" {Data} Json: "energy of each operation, with counts of commands and cycles" = operations;
            "session" "" {Data} Json: "DRAM since reset: parts, and ranks with their parts, banks and counts"
                = DimmEnergy::new(&costs, backend.unit_mut().activity());
        };
        Ok(Self { figures, parts })
    }

    /// Adds figures below `key` and a table of parts, which is on the screen if `asked`.
    pub fn show(&self, report: Report, key: &'static str, asked: bool) -> Report {
        let level = if asked { Level::Screen } else { Level::Verbose };
        let title = ("energy_parts", "Energy of the programs by part");
        report.group(level, (key, "Energy of the programs"), self.figures.clone()).table_at(
            level,
            Some("share"),
            title,
            self.parts.clone(),
        )
    }
}

/// The parts of a sum of energy that are not 0.
fn sums(parts: impl Iterator<Item = (String, Energy)>, total: Energy) -> Values {
    rows! { parts.filter(|(_, energy)| energy.value > 0) => |(part, energy)|
        "part" "part" {Text} Screen: "part of DRAM or core" = part;
        "share" "share" {Share} Screen: "share of the sum" = energy.value as f64 / total.value.max(1) as f64;
        "energy" "energy" {Energy} Screen: "energy" = energy;
    }
}

/// Adds the energy of the ranks of a DIMM since reset, on the screen if `asked`.
pub fn show_dimm(report: Report, energy: &DimmEnergy, device: &str, asked: bool) -> Report {
    let level = if asked { Level::Screen } else { Level::Verbose };
    let parts = energy.parts.iter().map(|(part, energy)| (part.name().to_owned(), energy));
    let parts = sums(parts, energy.total);
    let report = report.data("energy", "energy of the DRAM since reset: total and parts in fJ", energy);
    let report = if asked {
        report.note(format!("energy of the DRAM since reset: {}; {device}", energy.total))
    } else {
        report
    };
    report.table_at(level, Some("share"), ("energy_parts", "Energy of the DRAM since reset by part"), parts)
}

/// Adds the energy of tokens, of one run or of several policies, on the screen if `asked`.
pub fn show_system(report: Report, runs: &[(Option<&'static str>, &EnergyBreakdown)], asked: bool) -> Report {
    let several = runs.len() > 1;
    let runs = runs.iter().filter(|(_, breakdown)| breakdown.tokens > 0);
    let share = |energy: Energy, of: &EnergyBreakdown| energy.value as f64 / of.total.value.max(1) as f64;
    let devices = runs.clone().flat_map(|&(policy, of)| {
        let by = of.by(|place, part, _| (place.group(), part));
        by.into_iter().map(move |(key, energy)| (policy, of, key, energy))
    });
    let devices = rows! { devices => |(policy, of, (device, part), energy)|
        "policy" "policy" {Text} Screen: "policy, if there are several" = policy;
        "device" "device" {Text} Screen: "kind of device" = device;
        "part" "part" {Text} Screen: "part of the device, and its work" = part.name();
        "kind" "kind" {Text} Json: "kind of energy, as in the chart" = kind(part);
        "share" "share" {Share} Screen: "share of the energy of a token" = share(energy, of);
        "energy" "energy of a token" {Energy} Screen: "energy of a token" = energy.per(of.tokens);
    };
    let operations = runs.clone().flat_map(|&(policy, of)| {
        let by = of.by(|_, _, operation| operation.map_or("idle times", |of| of.name()));
        by.into_iter().map(move |(operation, energy)| (policy, of, operation, energy))
    });
    let operations = rows! { operations => |(policy, of, operation, energy)|
        "policy" "policy" {Text} Screen: "policy, if there are several" = policy;
        "operation" "operation" {Text} Screen: "product of a layer, or idle times" = operation;
        "share" "share" {Share} Screen: "share of the energy of a token" = share(energy, of);
        "energy" "energy of a token" {Energy} Screen: "energy of a token" = energy.per(of.tokens);
    };
    let ways =
        runs.flat_map(|(policy, breakdown)| breakdown.alternatives.iter().map(move |way| (policy, way)));
    let ways = rows! { ways => |(policy, way)|
        ..way.clone();
        "policy" "policy" {Text} Screen: "policy, if there are several" = policy;
        "name" "a token" {Text} Screen: "way in which a token is computed";
        "total" "total" {Energy} Screen: "energy of a token" = way.total();
        "moving" "moving" {Energy} Screen: "DRAM commands, bits in transit, and the logic of active cores";
        "devices" "devices" {Energy} Screen: "standby and refresh of the DRAM, idle cores, GPU and host";
        "bytes" "weights" {Bytes} Screen: "bytes of weights that move";
        "ns" "ns" {Count} Verbose: "time of a token";
    };
    let level = if asked { Level::Screen } else { Level::Verbose };
    let (label, part) = if several { ("policy", "device") } else { ("device", "kind") };
    report
        .table_at(level, Some("share"), ("energy_devices", "Energy of a token by device"), devices)
        .chart(Chart::new(
            "energy_devices",
            "Energy of a token",
            "Commands and times are those that the DRAM has counted.",
            ChartKind::Stacks { label, part, value: ("energy.fj", 1e-12), axis: "mJ" },
        ))
        .table_at(level, Some("share"), ("energy_operations", "Energy of a token by operation"), operations)
        .table_at(level, None, ("energy_ways", "Energy of other ways"), ways)
}

fn kind(part: EnergyPart) -> &'static str {
    match part {
        EnergyPart::Program(part) | EnergyPart::HostAccess(part) | EnergyPart::Between(part) => match part {
            DramPart::Activate => "ACT and PRE",
            DramPart::Read | DramPart::Write => "RD and WR",
            DramPart::ReadBus | DramPart::WriteBus => "data bus",
            DramPart::Refresh => "refresh",
            DramPart::ActiveStandby | DramPart::PrechargedStandby => "standby",
        },
        EnergyPart::Bits => "bits",
        EnergyPart::Core(CorePart::Idle) | EnergyPart::Idle => "idle",
        EnergyPart::Core(_) | EnergyPart::Busy => "logic at work",
    }
}
