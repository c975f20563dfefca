//! Energy: its arguments, and what is said of it.

use crate::tools::grouped;
use ndp_config::DesignConfig;
use ndp_energy::{
    CoreCosts, CorePart, CoreUse, DimmEnergy, DramCosts, DramEnergy, DramPart, DramUse, Energy,
    EnergyConstants,
};
use ndp_files::FileSet;
use ndp_report::{BarChart, Report, ReportError};
use ndp_sim::backend::CoreBackend;
use ndp_sim::system::{Alternative, EnergyBreakdown, EnergyPart, Place};
use serde::Serialize;
use std::collections::BTreeMap;

/// What energy is counted with.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EnergyArgs {
    /// Print where the energy goes; JSON has it always
    #[arg(long)]
    pub energy: bool,
    /// Currents and interface of the DRAM: ddr4-3200-x8, ddr4-3200-x16 or a path ending in .toml [default: by the bank groups of the design]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub energy_dram: Option<String>,
    /// Logic of the cores: hermes-asap7 or a path ending in .toml [default: hermes-asap7, in proportion to the multipliers]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub energy_core: Option<String>,
    /// Links, bus, GPU and host: hermes, hermes-3090, hermes-t4 or a path ending in .toml [default: by the name of the system]
    #[arg(long, value_name = "PRESET|FILE.toml")]
    pub energy_system: Option<String>,
}

impl EnergyArgs {
    /// Refuses constants that nothing shows: `shown` says whether a form other than the text has the energy.
    pub fn check_effects(&self, shown: bool) -> anyhow::Result<()> {
        let given = [&self.energy_dram, &self.energy_core, &self.energy_system];
        let useless = ["dram", "core", "system"].into_iter().zip(given).find(|(_, given)| given.is_some());
        match useless.filter(|_| !(self.energy || shown)) {
            Some((name, _)) => {
                bail!("--energy-{name} has no effect without --energy or --json; leave it out")
            }
            None => Ok(()),
        }
    }

    /// With the files that are read.
    pub fn files(&self, files: FileSet) -> FileSet {
        let named = [
            ("the DRAM's energy", &self.energy_dram),
            ("the core's energy", &self.energy_core),
            ("the system's energy", &self.energy_system),
        ];
        named.into_iter().fold(files, |files, (what, path)| match path {
            Some(path) => files.configuration(what, path),
            None => files,
        })
    }

    /// The constants of a design in a system.
    pub fn constants(&self, design: &DesignConfig, system: &str) -> anyhow::Result<EnergyConstants> {
        let asked = [&self.energy_dram, &self.energy_core, &self.energy_system].map(Option::as_deref);
        Ok(EnergyConstants::load(design, system, asked)?)
    }

    /// What the DRAM of a design costs.
    pub fn dram_costs(&self, design: &DesignConfig) -> anyhow::Result<DramCosts> {
        Ok(DramCosts::new(&self.constants(design, "hermes")?.dram, design.dram()))
    }
}

/// An operation of a core: what it was given and what that took.
#[derive(Debug, Serialize)]
struct OperationEnergy {
    operation: &'static str,
    total: Energy,
    parts: DramEnergy,
    core: BTreeMap<&'static str, Energy>,
    counted: DramUse,
    cycles: CoreUse,
}

/// A core alone with its DRAM.
#[derive(Debug, Serialize)]
pub struct CoreEnergy {
    /// The device.
    dram: String,
    /// All programs: the sum of the operations, and of the parts of DRAM and core.
    programs: Energy,
    parts: DramEnergy,
    core: BTreeMap<&'static str, Energy>,
    operations: Vec<OperationEnergy>,
    /// Multiply-accumulates of the programs.
    macs: u64,
    pj_per_mac: f64,
    /// DRAM since reset, programs and everything between them.
    session: DimmEnergy,
}

impl CoreEnergy {
    /// Of what a backend has done.
    pub fn new(args: &EnergyArgs, backend: &mut CoreBackend) -> anyhow::Result<Self> {
        let config = backend.unit().config().clone();
        let constants = args.constants(&config, "hermes")?;
        let costs = DramCosts::new(&constants.dram, config.dram());
        let core_costs = CoreCosts::new(&constants.core, &config);
        let (mut operations, mut all) = (Vec::new(), DramEnergy::default());
        let mut core: BTreeMap<&'static str, Energy> = BTreeMap::new();
        for (&operation, &(counted, cycles)) in backend.used() {
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
        Ok(Self {
            dram: constants.dram.name,
            programs,
            parts: all,
            core,
            operations,
            macs,
            pj_per_mac: programs.pj() / macs.max(1) as f64,
            session: DimmEnergy::new(&costs, backend.unit_mut().activity()),
        })
    }

    /// As text.
    pub fn print(&self) {
        say!(
            "energy             {} in programs, {:.2} pJ per MAC; {}",
            self.programs,
            self.pj_per_mac,
            self.dram
        );
        let dram = self.parts.iter().map(|(part, energy)| (format!("DRAM, {}", part.name()), energy));
        let core = self.core.iter().map(|(part, energy)| (format!("core, {part}"), *energy));
        print_sums(dram.chain(core), self.programs);
        if self.operations.len() > 1 {
            print_sums(self.operations.iter().map(|of| (of.operation.to_owned(), of.total)), self.programs);
        }
        say!("  DRAM with what is between programs {}", self.session.total);
    }
}

/// Energy of the ranks of a DIMM since reset, as text.
pub fn print_dimm(energy: &DimmEnergy, device: &str) {
    say!("energy of the DRAM {} since reset; {device}", energy.total);
    print_sums(energy.parts.iter().map(|(part, energy)| (part.name().to_owned(), energy)), energy.total);
}

/// Parts of a sum, in percent of it.
pub fn print_sums(rows: impl IntoIterator<Item = (String, Energy)>, total: Energy) {
    for (name, energy) in rows.into_iter().filter(|(_, energy)| energy.value > 0) {
        let percent = 100.0 * energy.value as f64 / total.value.max(1) as f64;
        say!("  {name:<40} {percent:5.1} %  {energy}");
    }
}

/// Energy of the tokens of a system, as text.
pub fn print(breakdown: &EnergyBreakdown) {
    if breakdown.tokens == 0 {
        return;
    }
    let per_token = |energy: &Energy| energy.per(breakdown.tokens);
    let total = per_token(&breakdown.total);
    say!("energy             {total} per token");
    let by = |sums: BTreeMap<String, Energy>| {
        print_sums(sums.iter().map(|(name, energy)| (name.clone(), per_token(energy))), total);
    };
    say!(" by device");
    by(breakdown.by(|place, _, _| place.group().to_owned()));
    say!(" by what it goes to");
    by(breakdown.by(|place, part, _| format!("{}: {}", place.group(), part.name())));
    say!(" by operation");
    by(breakdown.by(|_, _, operation| operation.map_or("idle times", |of| of.name()).to_owned()));
    if !breakdown.alternatives.is_empty() {
        say!(
            " {:<28} {:>12} {:>9}  {:<28} {:<28} total",
            "a token",
            "bytes",
            "ms",
            "moving",
            "devices and standby"
        );
    }
    for of in &breakdown.alternatives {
        let (bytes, ms) = (grouped(of.bytes), of.ns as f64 / 1e6);
        let [moving, devices] = [of.moving, of.devices].map(|energy| energy.to_string());
        say!("  {:<28} {bytes:>14} {ms:9.2}  {moving:<28} {devices:<28} {}", of.name, of.total());
    }
}

/// Kinds of energy, as the bars have them.
const KINDS: [&str; 8] =
    ["ACT and PRE", "RD and WR", "data bus", "refresh", "standby", "bits", "idle", "logic at work"];

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

/// Bars and tables of the energy of a token.
pub fn section(report: Report, title: &str, breakdown: &EnergyBreakdown) -> Result<Report, ReportError> {
    let report = report.section(title);
    if breakdown.tokens == 0 {
        return Ok(report.paragraph("No token was generated behind the prompt."));
    }
    let mj = |energy: &Energy| 1e3 * energy.per(breakdown.tokens).joules();
    let sums = breakdown.by(|place, part, _| (place.group(), kind(part)));
    let groups: Vec<&str> = Place::GROUPS.to_vec();
    let mut bars = BarChart::new("Mean token", "mJ", groups.clone());
    for kind in KINDS {
        bars = bars.bars(kind, groups.iter().map(|group| sums.get(&(*group, kind)).map_or(0.0, mj)));
    }
    let rows = |sums: BTreeMap<String, Energy>| -> Vec<Vec<String>> {
        let row = |(name, energy): (String, Energy)| {
            let share = 100.0 * energy.value as f64 / breakdown.total.value.max(1) as f64;
            vec![name, format!("{share:.1}"), energy.per(breakdown.tokens).to_string()]
        };
        sums.into_iter().map(row).collect()
    };
    let by_part = rows(breakdown.by(|place, part, _| format!("{}: {}", place.group(), part.name())));
    let by_operation =
        rows(breakdown.by(|_, _, operation| operation.map_or("idle times", |of| of.name()).to_owned()));
    let mut report = report
        .paragraph(&format!(
            "{} per token. Commands and times are those that the DRAM has counted; in brackets what the ranges of the constants allow.",
            breakdown.total.per(breakdown.tokens)
        ))
        .chart(&bars.stacked().draw()?)
        .folded_table("by device and what it goes to", &["", "percent", "per token"], &by_part)
        .folded_table("by operation", &["", "percent", "per token"], &by_operation);
    if !breakdown.alternatives.is_empty() {
        let row = |of: &Alternative| {
            let ms = format!("{:.2}", of.ns as f64 / 1e6);
            let [moving, devices, total] =
                [of.moving, of.devices, of.total()].map(|energy| energy.to_string());
            vec![of.name.to_owned(), grouped(of.bytes), ms, moving, devices, total]
        };
        let rows: Vec<Vec<String>> = breakdown.alternatives.iter().map(row).collect();
        report = report.table(&["a token", "bytes", "ms", "moving", "devices and standby", "total"], &rows);
    }
    Ok(report)
}
