//! The Verilog of one block, from which a model is made.

use crate::{Failure, native};
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl::designs::BuildError;
use ndp_hdl_language::mutate::{Changes, with_choices};
use ndp_hdl_language::{Design, Netlist, Port, Pragmas};
use std::fmt::Write;
use std::sync::Arc;

const OPT_LEVEL: u32 = 2;
/// For cores with few units and short runs: `tiny`'s takes two thirds of the time to compile, and runs 12 % slower.
const SHORT_RUN_OPT_LEVEL: u32 = 1;
/// Such cores have more source bytes than the first number, and no array with as many instances as the second.
const SHORT_RUN: (usize, usize) = (1_500_000, 64);
/// For bridges: their wide functions take three times as long to compile at level 2, and are a small part of a system's
/// time.
const BRIDGE_OPT_LEVEL: u32 = 1;

/// Two configurations with the same `Debug` text are the same hardware.
pub trait Hardware: std::fmt::Debug {
    fn name(&self) -> &str;

    /// # Errors
    /// An unknown block; an error of the generator.
    fn elaborate(&self, block: &str) -> Result<Design, BuildError>;
}

impl Hardware for DesignConfig {
    fn name(&self) -> &str {
        self.name()
    }

    fn elaborate(&self, block: &str) -> Result<Design, BuildError> {
        ndp_hdl::designs::build(self, block)
    }
}

impl Hardware for HbmConfig {
    fn name(&self) -> &str {
        self.name()
    }

    fn elaborate(&self, block: &str) -> Result<Design, BuildError> {
        ndp_hdl::designs::build_hbm(self, block)
    }
}

#[derive(Clone, Debug)]
pub struct Rtl {
    /// `<configuration>/<block>`; for a mutant its name in place of the configuration's.
    pub name: String,
    pub block: String,
    pub top: String,
    pub verilog: String,
    pub ports: Vec<Port>,
    /// Source of the native model; `None` for a changed text.
    pub native: Option<String>,
    /// One line per signal, separated by tabs: module, signal, file and line, and for each bit, lowest first, `c` if it
    /// is constant, else `-`.
    pub signals: Arc<str>,
    /// Compiler optimisation (`-O`) of code that is evaluated every cycle. Less is built faster and runs slower.
    pub opt_level: u32,
    /// Number of the active mutant, from 1; 0 for none.
    pub mutant: u32,
}

fn signals(design: &Design) -> String {
    let mut text = String::new();
    for module in design.modules() {
        for signal in module.signals() {
            let bit = |constant: &bool| if *constant { 'c' } else { '-' };
            let bits: String = signal.constant.iter().map(bit).collect();
            let _ = writeln!(text, "{}\t{}\t{}\t{bits}", module.name(), signal.name, signal.place);
        }
    }
    text
}

impl Rtl {
    pub fn new(config: &str, block: &str, design: &Design) -> Result<Self, Failure> {
        let top = design.top();
        let netlist = Netlist::of(top).map_err(|e| vec![format!("{config}/{block}: {e}")])?;
        let native = native::source(&netlist);
        let instances = netlist.instances.iter().map(Vec::len).max().unwrap_or(0);
        let opt_level = match block {
            "link_bridge" => BRIDGE_OPT_LEVEL,
            _ if native.len() > SHORT_RUN.0 && instances < SHORT_RUN.1 => SHORT_RUN_OPT_LEVEL,
            _ => OPT_LEVEL,
        };
        Ok(Self {
            name: format!("{config}/{block}"),
            block: block.to_owned(),
            top: top.name().to_owned(),
            verilog: design.definitions(Pragmas::Verilator).collect::<Vec<_>>().join("\n"),
            ports: top.ports().to_vec(),
            native: Some(native),
            signals: signals(design).into(),
            opt_level,
            mutant: 0,
        })
    }

    pub fn of(hardware: &impl Hardware, block: &str) -> Result<Self, Failure> {
        let design =
            hardware.elaborate(block).map_err(|e| vec![format!("{}/{block}: {e}", hardware.name())])?;
        Self::new(hardware.name(), block, &design)
    }

    /// A block with those mutants that it contains. Mutant `number` is active, or none with 0.
    pub fn with_mutants(
        hardware: &impl Hardware,
        block: &str,
        mutants: &[impl Changes],
        number: u32,
    ) -> Result<Self, Failure> {
        let failed = |e: &dyn std::fmt::Display| vec![format!("{}/{block}: {e:#}", hardware.name())];
        let design = hardware.elaborate(block).map_err(|e| failed(&e))?;
        let Some(top) = with_choices(design.top(), mutants).map_err(|e| failed(&e))? else {
            return Self::new(hardware.name(), block, &design);
        };
        let design = Design::new(&top).map_err(|e| failed(&e))?;
        // A number without a mutant: Verilated models look for one.
        let mutant = if number == 0 { mutants.len() as u32 + 1 } else { number };
        Ok(Self { mutant, ..Self::new(hardware.name(), block, &design)? })
    }

    #[must_use]
    pub fn optimised(self, level: Option<u32>) -> Self {
        Self { opt_level: level.unwrap_or(self.opt_level), ..self }
    }
}
