//! The Verilog of one block, from which a model is made.

use crate::{Failure, native};
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl::designs::BuildError;
use ndp_hdl_language::mutate::{Changes, with_choices};
use ndp_hdl_language::{Design, Netlist, Port, Pragmas};
use std::fmt::Write;
use std::sync::Arc;

/// Optimisation of most models.
const OPT_LEVEL: u32 = 2;
/// That of cores with few units, whose runs are short: the core of `tiny` takes two thirds of the time to compile, and runs 12 % slower.
const SHORT_RUN_OPT_LEVEL: u32 = 1;
/// They have more source than this, in bytes, and no array of so many instances.
const SHORT_RUN: (usize, usize) = (1_500_000, 64);
/// That of bridges, whose wide functions take three times as long to compile at level 2, and are a small part of what a system
/// evaluates.
const BRIDGE_OPT_LEVEL: u32 = 1;

/// A configuration from which blocks are elaborated. Two with the same text for debugging are the same hardware.
pub trait Hardware: std::fmt::Debug {
    fn name(&self) -> &str;

    /// Elaborates one of its blocks.
    ///
    /// # Errors
    /// An unknown block; what the generator says of it.
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
    /// `<configuration>/<block>`; for a mutant its own name in place of the configuration's.
    pub name: String,
    pub block: String,
    pub top: String,
    pub verilog: String,
    pub ports: Vec<Port>,
    /// The source of the native model; none of a text that was changed.
    pub native: Option<String>,
    /// Where each signal is described, a line each: module, signal, file and line, and for each bit, the lowest first, `c` if it
    /// is constant or `-`; with tabs between them.
    pub signals: Arc<str>,
    /// How much the compiler optimises what is evaluated every cycle (`-O`). Less is built faster and runs slower.
    pub opt_level: u32,
    /// Which of the mutants in it is at work, from 1; 0 for none.
    pub mutant: u32,
}

/// [`Rtl::signals`].
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
    /// A design that was elaborated as `<configuration>/<block>`.
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

    /// A block with mutants of its description, as far as it has any of them, of which one is at work, or none with 0.
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
        // For none a number that no mutant has: Verilated models look for one.
        let mutant = if number == 0 { mutants.len() as u32 + 1 } else { number };
        Ok(Self { mutant, ..Self::new(hardware.name(), block, &design)? })
    }

    /// The same with another optimisation, if one is given.
    #[must_use]
    pub fn optimised(self, level: Option<u32>) -> Self {
        Self { opt_level: level.unwrap_or(self.opt_level), ..self }
    }
}
