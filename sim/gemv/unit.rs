//! The GEMV unit as the rest of the harness sees it: opened by configuration, driven by whole products.
//!
//! Owns the Verilated model with its reset, clock, handshakes and waves. Batches that the buffer does not hold at once
//! are cut into passes of nearly equal size, the weights being streamed again for each. Comparing the results with the
//! reference is left to [`super::Checker`].

use super::command::Command;
use super::lockstep::{DotResult, Lockstep, Run, Settings};
use super::pins::{ModelPins, Pins};
use super::plant::Plant;
use super::stalls::Stalls;
use super::trace::Trace;
use crate::error::SimError;
use crate::ffi::{Model, OpenOptions, WaveOptions, designs};
use ndp_config::{DesignConfig, GemvConfig, GemvShape};
use ndp_model::GemvOp;
use std::time::{Duration, Instant};

/// How a unit is opened.
#[derive(Clone, Debug)]
pub struct GemvOptions {
    /// Chance in percent, 0..=99, that a handshake waits in a cycle; drawn for each handshake separately.
    pub stall_percent: u32,
    /// Seed of the stalls.
    pub seed: u64,
    /// Dump signals to a file.
    pub waves: Option<WaveOptions>,
    /// Registers and buffers start with random contents of this seed instead of zeros.
    pub random_contents: Option<u32>,
    /// Cycles without any transfer after which a run is given up.
    pub watchdog_cycles: u64,
    /// Keep a record of the handshakes.
    pub trace: bool,
    /// A deliberate error.
    pub plant: Option<Plant>,
}

impl Default for GemvOptions {
    fn default() -> Self {
        Self {
            stall_percent: 0,
            seed: 1,
            waves: None,
            random_contents: None,
            watchdog_cycles: 10_000,
            trace: false,
            plant: None,
        }
    }
}

/// One simulated GEMV unit.
///
/// ```no_run
/// use ndp_config::DesignConfig;
/// use ndp_cosim::gemv::{GemvOptions, GemvUnit};
/// use ndp_model::{GemvClass, GemvOp};
/// use ndp_numerics::f16;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut unit = GemvUnit::open(&DesignConfig::preset("tiny")?, &GemvOptions::default())?;
/// let one = f16::from_bits(0x3C00);
/// let (weights, activations) = ([one; 120], [one; 40]);
/// let op = GemvOp::new("ones", GemvClass::Fc1, (3, 40), &weights, &activations)?;
/// assert_eq!(unit.gemv(&op)?.bits, [0x5100; 3]); // 40
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GemvUnit {
    pins: ModelPins,
    stalls: Stalls,
    settings: Settings,
    plant: Option<Plant>,
    trace: Option<Trace>,
    wall: Duration,
    cycles: u64,
}

/// Results and cycles of one product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GemvRun {
    /// FP16 bits, `[batch x rows]`.
    pub bits: Vec<u16>,
    /// The cycle in which each was taken, `[batch x rows]`.
    pub result_cycles: Vec<u64>,
    /// From the cycle in which the load is offered to the one of the last result, over all passes.
    pub cycles: u64,
    /// Passes over the weights.
    pub passes: u32,
}

impl GemvUnit {
    /// Block name in the catalogue.
    pub const BLOCK: &'static str = "gemv_unit";

    /// Opens the unit of a configuration and resets it.
    ///
    /// # Errors
    /// [`SimError::UnknownDesign`] if the configuration was not compiled in, [`SimError::OtherConfiguration`] if
    /// another one of the same name was; [`SimError::Range`] for too many stalls; what is wrong with the waves; a port
    /// that is missing or has another width.
    pub fn open(config: &DesignConfig, options: &GemvOptions) -> Result<Self, SimError> {
        let name = format!("{}/{}", config.name(), Self::BLOCK);
        if let Some(design) = designs().find(|design| design.name == name)
            && DesignConfig::from_toml(design.config_toml)? != *config
        {
            return Err(SimError::OtherConfiguration { design: name });
        }
        let stalls = Stalls::new(options.stall_percent, options.seed, config.gemv().ranks())?;
        let open = OpenOptions { waves: options.waves.clone(), random_contents: options.random_contents };
        let mut pins = ModelPins::new(Model::open_with(&name, &open)?, config.gemv())?;
        pins.reset();
        let settings = Settings {
            config: config.gemv().clone(),
            seed: options.seed,
            watchdog_cycles: options.watchdog_cycles.max(1),
        };
        Ok(Self {
            pins,
            stalls,
            settings,
            plant: options.plant,
            trace: options.trace.then(Trace::default),
            wall: Duration::ZERO,
            cycles: 0,
        })
    }

    /// The configuration of the unit.
    pub fn config(&self) -> &GemvConfig {
        &self.settings.config
    }

    /// Runs a list of commands to the end, until the unit is not busy any more.
    ///
    /// # Errors
    /// What is wrong with a command, before anything runs; [`SimError::Protocol`] and [`SimError::Hang`].
    pub fn run(&mut self, commands: &[Command<'_>]) -> Result<Run, SimError> {
        let start = (Instant::now(), self.pins.cycle());
        let run = self.lockstep(commands)?.finish();
        self.account(start);
        run
    }

    /// Runs a list of commands for `cycles` cycles and resets the unit in the middle of whatever it does then.
    ///
    /// # Errors
    /// As [`GemvUnit::run`]. If the unit is busy or offers a result after the reset: [`SimError::Protocol`].
    pub fn run_and_reset(&mut self, commands: &[Command<'_>], cycles: u64) -> Result<(), SimError> {
        let start = (Instant::now(), self.pins.cycle());
        let run = self.lockstep(commands)?.interrupt(cycles);
        self.account(start);
        run?;
        self.pins.reset();
        let outputs = self.pins.outputs();
        if outputs.busy || outputs.result.is_some() {
            return Err(SimError::Protocol {
                cycle: self.pins.cycle(),
                signal: if outputs.busy { "busy_o" } else { "result_valid_o" },
                expected: "0 after a reset".into(),
                actual: "1".into(),
                state: format!("reset after {cycles} cycles of the run"),
                seed: self.settings.seed,
            });
        }
        Ok(())
    }

    /// Computes one product, in as many passes as the buffer needs.
    ///
    /// # Errors
    /// [`SimError::Config`] for rows, columns or a single vector beyond the unit's limits; else as [`GemvUnit::run`].
    pub fn gemv(&mut self, op: &GemvOp<'_>) -> Result<GemvRun, SimError> {
        // A size beyond 32 bits is refused by the check like any other that is too large.
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (rows, cols, batch) = (size(op.rows()), size(op.cols()), size(op.batch()));
        GemvShape { rows, cols, batch: 1 }.check(&self.settings.config)?;
        let passes = batch.div_ceil(GemvShape::max_batch(&self.settings.config, cols));
        let mut commands = Vec::with_capacity(3 * passes as usize);
        let mut start = 0;
        for pass in 0..passes {
            let batch = batch / passes + u32::from(pass < batch % passes);
            let end = start + batch as usize * op.cols();
            let activations = &op.activations()[start..end];
            commands.push(Command::Load { cols, batch, base: 0, activations });
            commands.push(Command::Dot { rows, cols, batch, base: 0, weights: op.weights() });
            commands.push(Command::Drain);
            start = end;
        }
        let run = self.run(&commands)?;
        let (mut bits, mut result_cycles) = (Vec::new(), Vec::new());
        for dot in run.dots {
            bits.extend(dot.bits);
            result_cycles.extend(dot.cycles);
        }
        Ok(GemvRun { bits, result_cycles, cycles: run.cycles, passes })
    }

    fn lockstep<'r>(&'r mut self, commands: &'r [Command<'r>]) -> Result<Lockstep<'r, ModelPins>, SimError> {
        let Self { pins, stalls, settings, plant, trace, .. } = self;
        Lockstep::new(pins, stalls, settings, plant, trace.as_mut(), commands)
    }

    fn account(&mut self, (start, cycle): (Instant, u64)) {
        self.wall += start.elapsed();
        self.cycles += self.pins.cycle() - cycle;
    }

    /// Cycles simulated in all runs, and the wall-clock time they took, the driver included.
    pub fn simulated(&self) -> (u64, Duration) {
        (self.cycles, self.wall)
    }

    /// Whether a deliberate error was asked for and has not found its place yet.
    pub fn plant_is_pending(&self) -> bool {
        self.plant.is_some()
    }

    /// The record of the handshakes, if it was asked for.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// Completes the wave file, if there is one.
    ///
    /// # Errors
    /// [`SimError::WaveWrite`].
    pub fn close_waves(&mut self) -> Result<(), SimError> {
        self.pins.model.close_waves()
    }
}

impl GemvRun {
    /// The outputs in the form in which they are compared.
    pub fn into_result(self) -> DotResult {
        DotResult { bits: self.bits, cycles: self.result_cycles }
    }
}
