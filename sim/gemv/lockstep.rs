//! Runs a list of commands on a unit, one clock cycle after the other.
//!
//! In each cycle the senders decide what they offer, the outputs are sampled, and the transfers of the coming rising
//! edge follow from both: valid and ready. A load or dot command is offered once everything before it was accepted;
//! activations and weights are offered from the cycle on in which their command is. The run ends when all results are
//! out and the unit is not busy any more; it cannot hang, because a unit in which nothing moves is given up.

use super::beat::{Beat, ELEMS, pack};
use super::command::Command;
use super::dram::{Position, WeightSource};
use super::monitor::{Monitor, Violation};
use super::pins::{CommandWord, Outputs, Pins, ResultBeat};
use super::plant::Plant;
use super::stalls::{ACTIVATION, COMMAND, RESULT, Stalls, WEIGHT};
use super::trace::Trace;
use crate::error::SimError;
use ndp_config::GemvConfig;

/// The results of one dot command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotResult {
    /// FP16 bits, `[batch x rows]`.
    pub bits: Vec<u16>,
    /// The cycle in which each was taken, `[batch x rows]`.
    pub cycles: Vec<u64>,
}

/// What came out of a list of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// From the cycle in which the first command is offered to the one in which the last result is taken, both
    /// included.
    pub cycles: u64,
    /// All cycles that were simulated, until the unit was not busy any more.
    pub simulated_cycles: u64,
    /// One per dot command, in order.
    pub dots: Vec<DotResult>,
}

/// What stays the same over all runs of a unit.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub config: GemvConfig,
    pub seed: u64,
    pub watchdog_cycles: u64,
}

/// Place in the activation stream.
#[derive(Debug, Default)]
struct ActivationSource {
    valid: bool,
    command: usize,
    /// Elements of the command's activations that were sent.
    sent: usize,
}

impl ActivationSource {
    /// The next beat's elements, among the first `allowed` commands.
    fn next<'r>(&mut self, commands: &[Command<'r>], allowed: usize) -> Option<&'r [ndp_numerics::f16]> {
        while self.command < allowed {
            if let Command::Load { cols, activations, .. } = *commands.get(self.command)?
                && self.sent < activations.len()
            {
                let left_of_vector = cols as usize - self.sent % cols as usize;
                return Some(&activations[self.sent..][..left_of_vector.min(ELEMS)]);
            }
            (self.command, self.sent) = (self.command + 1, 0);
        }
        None
    }
}

/// A run in progress.
pub(super) struct Lockstep<'r, P> {
    pins: &'r mut P,
    stalls: &'r mut Stalls,
    settings: &'r Settings,
    plant: &'r mut Option<Plant>,
    trace: Option<&'r mut Trace>,
    commands: &'r [Command<'r>],
    /// Commands that were accepted, or waited for.
    issued: usize,
    /// Whether the next one is being offered.
    offered: bool,
    activations: ActivationSource,
    weights: Vec<WeightSource>,
    beat: Beat,
    monitor: Monitor,
    result_ready: bool,
    dots: Vec<DotResult>,
    /// Dot commands whose results are complete.
    finished: usize,
    quiet_cycles: u64,
    first_offer: Option<u64>,
    last_result: u64,
}

impl<'r, P: Pins> Lockstep<'r, P> {
    pub(super) fn new(
        pins: &'r mut P,
        stalls: &'r mut Stalls,
        settings: &'r Settings,
        plant: &'r mut Option<Plant>,
        trace: Option<&'r mut Trace>,
        commands: &'r [Command<'r>],
    ) -> Result<Self, SimError> {
        for command in commands {
            command.check(&settings.config)?;
        }
        let dots = commands.iter().filter_map(|command| match command {
            Command::Dot { rows, batch, .. } => {
                let outputs = *rows as usize * *batch as usize;
                Some(DotResult { bits: vec![0; outputs], cycles: vec![0; outputs] })
            }
            _ => None,
        });
        Ok(Self {
            dots: dots.collect(),
            weights: (0..settings.config.ranks()).map(WeightSource::new).collect(),
            pins,
            stalls,
            settings,
            plant,
            trace,
            commands,
            issued: 0,
            offered: false,
            activations: ActivationSource::default(),
            beat: [0; 16],
            monitor: Monitor::default(),
            result_ready: false,
            finished: 0,
            quiet_cycles: 0,
            first_offer: None,
            last_result: 0,
        })
    }

    /// Runs to the end.
    pub(super) fn finish(mut self) -> Result<Run, SimError> {
        let start = self.pins.cycle();
        while !(self.issued == self.commands.len() && self.monitor.is_idle() && self.settle()) {
            self.cycle()?;
        }
        self.pins.drive_result_ready(false);
        let first = self.first_offer.unwrap_or(self.last_result);
        Ok(Run {
            cycles: (self.last_result + 1).saturating_sub(first),
            simulated_cycles: self.pins.cycle() - start,
            dots: self.dots,
        })
    }

    /// Runs for a number of cycles only, as if the plug were pulled; whoever calls this has to reset the unit.
    pub(super) fn interrupt(mut self, cycles: u64) -> Result<(), SimError> {
        (0..cycles).try_for_each(|_| self.cycle())
    }

    /// Whether the unit has come to rest; only asked when nothing is left to do.
    fn settle(&self) -> bool {
        let outputs = self.pins.outputs();
        !outputs.busy && outputs.result.is_none()
    }

    fn cycle(&mut self) -> Result<(), SimError> {
        let now = self.pins.cycle();
        self.offer(now);
        let outputs = self.pins.outputs();
        let taken = match self.monitor.observe(outputs.result, self.result_ready) {
            Ok(taken) => taken,
            Err(violation) => return Err(self.broken(now, violation, &outputs)),
        };
        self.pins.tick();

        let mut moved = false;
        if self.offered && self.accepts(&outputs) {
            moved = true;
            self.accept(now);
        }
        if self.activations.valid && outputs.activation_ready {
            moved = true;
            self.activations.valid = false;
        }
        for (rank, source) in self.weights.iter_mut().enumerate() {
            if source.valid && outputs.weight_ready >> rank & 1 == 1 {
                moved = true;
                source.valid = false;
            }
        }
        if let Some(result) = taken {
            moved = true;
            self.take(now, result);
        }
        self.quiet_cycles = if moved { 0 } else { self.quiet_cycles + 1 };
        if self.quiet_cycles >= self.settings.watchdog_cycles {
            let state = self.state(&self.pins.outputs());
            let (quiet_cycles, seed) = (self.quiet_cycles, self.settings.seed);
            return Err(SimError::Hang { cycle: now, quiet_cycles, state, seed });
        }
        Ok(())
    }

    /// Decides what is offered in this cycle.
    fn offer(&mut self, now: u64) {
        if !self.offered {
            self.offer_command(now);
        }
        // What belongs to a command that is being offered may come at the same time.
        let allowed = self.issued + usize::from(self.offered);
        self.offer_activations(now, allowed);
        for rank in 0..self.weights.len() {
            self.offer_weights(now, rank, allowed);
        }
        let ready = !self.stalls.stalled(RESULT);
        if ready != self.result_ready {
            self.result_ready = ready;
            self.pins.drive_result_ready(ready);
        }
    }

    fn offer_command(&mut self, now: u64) {
        while matches!(self.commands.get(self.issued), Some(Command::Drain)) && self.monitor.is_idle() {
            self.issued += 1;
        }
        let Some(command) = self.commands.get(self.issued) else { return };
        if matches!(command, Command::Drain) || self.stalls.stalled(COMMAND) {
            return;
        }
        match *command {
            Command::Load { cols, batch, base, .. } => {
                self.pins.drive_load(Some(CommandWord { rows: 0, cols, batch, base }));
            }
            Command::Dot { rows, cols, batch, base, .. } => {
                self.pins.drive_dot(Some(CommandWord { rows, cols, batch, base }));
            }
            Command::Drain => return,
        }
        self.offered = true;
        self.first_offer.get_or_insert(now);
    }

    fn offer_activations(&mut self, now: u64, allowed: usize) {
        if self.activations.valid {
            return;
        }
        let next = self.activations.next(self.commands, allowed);
        let Some(elements) = next.filter(|_| !self.stalls.stalled(ACTIVATION)) else {
            return self.pins.drive_activation(None);
        };
        pack(elements, &mut self.beat);
        self.pins.drive_activation(Some(&self.beat));
        self.activations.sent += elements.len();
        self.activations.valid = true;
        if let Some(trace) = &mut self.trace {
            trace.offer(now, format_args!("x {} elements", elements.len()));
        }
    }

    fn offer_weights(&mut self, now: u64, rank: usize, allowed: usize) {
        let source = &mut self.weights[rank];
        source.refill();
        if source.valid {
            return;
        }
        let stalled = self.stalls.stalled(WEIGHT + rank);
        let next = if source.can_send() && !stalled {
            source.next(&self.settings.config, self.commands, allowed)
        } else {
            None
        };
        let Some(position) = next else { return self.pins.drive_weight(rank, None) };
        source.send(self.commands, position, self.plant, &mut self.beat);
        self.pins.drive_weight(rank, Some(&self.beat));
        if let Some(trace) = &mut self.trace {
            let Position { row, start, end, .. } = position;
            trace.offer(now, format_args!("w{rank} row {row}, elements {start}..{end}"));
        }
    }

    /// Whether the unit takes the command that is being offered.
    fn accepts(&self, outputs: &Outputs) -> bool {
        match self.commands.get(self.issued) {
            Some(Command::Load { .. }) => outputs.load_ready,
            Some(Command::Dot { .. }) => outputs.dot_ready,
            _ => false,
        }
    }

    fn accept(&mut self, now: u64) {
        self.offered = false;
        match self.commands[self.issued] {
            Command::Load { cols, batch, base, .. } => {
                self.pins.drive_load(None);
                if let Some(trace) = &mut self.trace {
                    trace.take(now, format_args!("load cols {cols}, batch {batch}, base {base}"));
                }
            }
            Command::Dot { rows, cols, batch, base, .. } => {
                self.pins.drive_dot(None);
                self.monitor.expect(rows, batch);
                if let Some(trace) = &mut self.trace {
                    trace.take(now, format_args!("dot rows {rows}, cols {cols}, batch {batch}, base {base}"));
                }
            }
            Command::Drain => {}
        }
        self.issued += 1;
    }

    fn take(&mut self, now: u64, result: ResultBeat) {
        self.last_result = now;
        if let Some(trace) = &mut self.trace {
            trace.take(now, format_args!("result {result}"));
        }
        let ResultBeat { mut data, row, batch, last } = result;
        if let Some(Plant::Result { row: planted, batch: of, bit }) = *self.plant
            && (planted, of) == (row, batch)
        {
            data ^= 1 << bit;
            *self.plant = None;
        }
        // The monitor has checked the place, so the indices are in range.
        let rows = self.rows_of(self.finished);
        let dot = &mut self.dots[self.finished];
        let index = batch as usize * rows + row as usize;
        (dot.bits[index], dot.cycles[index]) = (data, now);
        self.finished += usize::from(last);
    }

    /// Rows of the n-th dot command.
    fn rows_of(&self, n: usize) -> usize {
        let rows = self.commands.iter().filter_map(|command| match command {
            Command::Dot { rows, .. } => Some(*rows as usize),
            _ => None,
        });
        rows.clone().nth(n).unwrap_or(1)
    }

    fn broken(&self, cycle: u64, violation: Violation, outputs: &Outputs) -> SimError {
        let Violation { signal, expected, actual } = violation;
        SimError::Protocol {
            cycle,
            signal,
            expected,
            actual,
            state: self.state(outputs),
            seed: self.settings.seed,
        }
    }

    /// Every handshake as `name valid/ready`, and how far the commands have come.
    fn state(&self, outputs: &Outputs) -> String {
        let pair =
            |name: &str, valid: bool, ready: bool| format!("{name} {}/{}", u8::from(valid), u8::from(ready));
        let next = self.commands.get(self.issued).filter(|_| self.offered);
        let load = matches!(next, Some(Command::Load { .. }));
        let dot = matches!(next, Some(Command::Dot { .. }));
        let mut parts = vec![
            pair("load", load, outputs.load_ready),
            pair("x", self.activations.valid, outputs.activation_ready),
            pair("dot", dot, outputs.dot_ready),
        ];
        for (rank, source) in self.weights.iter().enumerate() {
            parts.push(pair(&format!("w{rank}"), source.valid, outputs.weight_ready >> rank & 1 == 1));
        }
        parts.push(pair("result", outputs.result.is_some(), self.result_ready));
        let (row, batch) = self.monitor.position();
        format!(
            "valid/ready: {}; busy {}; {} of {} commands accepted, next result row {row}, batch {batch}",
            parts.join(", "),
            u8::from(outputs.busy),
            self.issued,
            self.commands.len(),
        )
    }
}
