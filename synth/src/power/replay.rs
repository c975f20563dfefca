//! Replays a netlist: computes the values of all nets in each cycle from ports, registers and black boxes, and the
//! energy of their transitions.
//!
//! A word has a bit for each of 64 cycles. Gates have no delay, so nets change at most once per cycle: no glitches.

use super::cells::{Arc, CellPower, MAX_PINS};
use super::netlist::{Gate, Netlist, ZERO};
use std::collections::HashMap;
use std::ops::AddAssign;

/// Energy in fJ.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Energy {
    /// Clock pins of flip-flops: internal energy and capacitance.
    pub clock: f64,
    /// Inside cells, at changes of outputs or inputs.
    pub internal: f64,
    /// Charged capacitance of pins.
    pub switching: f64,
    pub leakage: f64,
}

impl Energy {
    pub fn dynamic(&self) -> f64 {
        self.clock + self.internal + self.switching
    }

    pub fn total(&self) -> f64 {
        self.dynamic() + self.leakage
    }

    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self {
            clock: self.clock * factor,
            internal: self.internal * factor,
            switching: self.switching * factor,
            leakage: self.leakage * factor,
        }
    }
}

impl AddAssign for Energy {
    fn add_assign(&mut self, other: Self) {
        self.clock += other.clock;
        self.internal += other.internal;
        self.switching += other.switching;
        self.leakage += other.leakage;
    }
}

/// Everything about a module that does not depend on the run.
pub struct Plan<'a> {
    netlist: &'a Netlist,
    kinds: Vec<&'a CellPower>,
    /// Capacitance of the module's own pins at each net.
    caps: Vec<f64>,
    /// Nets that are clocks, including those after clock gates.
    clocks: Vec<bool>,
    /// Energies of arcs by gate, then by register.
    energies: Vec<Vec<[f64; 2]>>,
    volts: f64,
}

pub struct Run {
    pub words: usize,
    /// Number of valid bits in the words of a net.
    pub cycles: usize,
    /// Words of each net; for a clock, the cycles at whose ends it rises.
    pub values: Vec<u64>,
}

impl Run {
    pub fn new(nets: usize, cycles: usize) -> Self {
        let words = cycles.div_ceil(64).max(1);
        let mut values = vec![0; nets * words];
        values[(ZERO + 1) * words..(ZERO + 2) * words].fill(u64::MAX);
        Self { words, cycles, values }
    }

    pub fn net(&self, net: usize) -> &[u64] {
        &self.values[net * self.words..(net + 1) * self.words]
    }

    pub fn net_mut(&mut self, net: usize) -> &mut [u64] {
        &mut self.values[net * self.words..(net + 1) * self.words]
    }

    fn now(&self, net: Option<usize>, word: usize) -> u64 {
        net.map_or(0, |net| self.values[net * self.words + word])
    }

    /// Values one cycle later.
    fn next(&self, net: Option<usize>, word: usize) -> u64 {
        let later = if word + 1 < self.words { self.now(net, word + 1) << 63 } else { 0 };
        self.now(net, word) >> 1 | later
    }

    fn pins(
        &self,
        gate: &Gate,
        word: usize,
        of: impl Fn(&Self, Option<usize>, usize) -> u64,
    ) -> [u64; MAX_PINS] {
        let mut pins = [0; MAX_PINS];
        pins.iter_mut().zip(&gate.nets).for_each(|(pin, net)| *pin = of(self, *net, word));
        pins
    }

    /// Cycles that have one after them.
    fn mask(&self, word: usize) -> u64 {
        let left = (self.cycles.saturating_sub(1)).saturating_sub(word * 64);
        if left >= 64 { u64::MAX } else { (1 << left) - 1 }
    }

    fn changes(&self, net: Option<usize>, word: usize) -> u64 {
        (self.now(net, word) ^ self.next(net, word)) & self.mask(word)
    }

    /// Cycles with 1, except the last one, after which nothing is known.
    fn count(&self, net: usize) -> f64 {
        let ones = (0..self.words).map(|word| (self.now(Some(net), word) & self.mask(word)).count_ones());
        f64::from(ones.sum::<u32>())
    }

    /// Number of transitions of a net that is not a clock.
    pub fn transitions(&self, net: usize) -> u64 {
        (0..self.words).map(|word| u64::from(self.changes(Some(net), word).count_ones())).sum()
    }
}

impl<'a> Plan<'a> {
    /// `load_ff`, the load of an output port or of a black box's input, counts only in reading tables.
    pub fn new(
        netlist: &'a Netlist,
        cells: &'a HashMap<String, CellPower>,
        volts: f64,
        slew_ps: f64,
        load_ff: f64,
    ) -> Self {
        let kinds: Vec<&CellPower> = netlist.kinds.iter().map(|name| &cells[name]).collect();
        let mut caps = vec![0.0; netlist.nets];
        let all = || netlist.gates.iter().chain(&netlist.registers);
        for gate in all() {
            for (pin, net) in kinds[gate.kind].pins.iter().zip(&gate.nets) {
                if let Some(net) = net {
                    caps[*net] += pin.cap_ff;
                }
            }
        }
        let mut loads = caps.clone();
        let own = netlist.ports.iter().filter(|port| port.output);
        let boxes = netlist.children.iter().flat_map(|child| child.ports.iter().filter(|port| !port.output));
        own.chain(boxes).flat_map(|port| &port.nets).for_each(|net| loads[*net] += load_ff);
        let energies = all().map(|gate| {
            let arcs = kinds[gate.kind].arcs.iter();
            arcs.map(|arc| arc.energies(slew_ps, gate.nets[arc.pin].map_or(0.0, |net| loads[net]))).collect()
        });
        let energies = energies.collect();
        let mut clocks = vec![false; netlist.nets];
        netlist.clocks().flat_map(|port| &port.nets).for_each(|net| clocks[*net] = true);
        for gate in netlist.gates.iter().filter(|gate| kinds[gate.kind].register.is_none()) {
            if gate.nets.iter().flatten().any(|net| clocks[*net]) {
                let outputs = kinds[gate.kind].pins.iter().zip(&gate.nets);
                let outputs = outputs.filter(|(pin, _)| pin.function.is_some());
                outputs.filter_map(|(_, net)| *net).for_each(|net| clocks[net] = true);
            }
        }
        Self { netlist, kinds, caps, clocks, energies, volts }
    }

    /// Nets without clocks and constants.
    pub fn data_nets(&self) -> impl Iterator<Item = usize> {
        (2..self.netlist.nets).filter(|net| !self.clocks[*net])
    }

    /// Computes the nets that registers and gates drive. `run` has the other nets; register `i` holds `held[i]`.
    pub fn evaluate(&self, run: &mut Run, held: &[Vec<u64>]) {
        for (gate, held) in self.netlist.registers.iter().zip(held) {
            for (pin, net) in self.kinds[gate.kind].pins.iter().zip(&gate.nets) {
                if let (Some(function), Some(net)) = (&pin.function, net) {
                    for (word, held) in held.iter().enumerate() {
                        run.values[net * run.words + word] = function.evaluate(&[*held; MAX_PINS]);
                    }
                }
            }
        }
        for gate in &self.netlist.gates {
            for (pin, net) in self.kinds[gate.kind].pins.iter().zip(&gate.nets) {
                if let (Some(function), Some(net)) = (&pin.function, net) {
                    for word in 0..run.words {
                        run.values[net * run.words + word] =
                            function.evaluate(&run.pins(gate, word, Run::now));
                    }
                }
            }
        }
    }

    /// Compares the data of registers with their contents a cycle later.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, run: &Run, held: &[Vec<u64>]) -> Result<(), String> {
        for (gate, held) in self.netlist.registers.iter().zip(held) {
            let Some((rises, data)) = self.clock_and_data(gate, run) else {
                return Err(format!("the clock of '{}' is no clock of the module", gate.name));
            };
            for word in 0..run.words {
                let later = if word + 1 < run.words { held[word + 1] << 63 } else { 0 };
                let next = held[word] >> 1 | later;
                let taken = rises[word] & run.now(data, word) | !rises[word] & held[word];
                let wrong = (taken ^ next) & run.mask(word);
                if wrong != 0 {
                    let cycle = word as u32 * 64 + wrong.trailing_zeros();
                    return Err(format!(
                        "'{}' takes another value at edge {cycle} than in the waves",
                        gate.name
                    ));
                }
            }
        }
        Ok(())
    }

    fn clock_and_data<'r>(&self, gate: &Gate, run: &'r Run) -> Option<(&'r [u64], Option<usize>)> {
        let register = self.kinds[gate.kind].register?;
        let clock = gate.nets[register.clock].filter(|net| self.clocks[*net])?;
        Some((run.net(clock), gate.nets[register.data]))
    }

    /// Transitions from the first to the last cycle, and leakage over `span_ps`.
    pub fn energy(&self, run: &Run, span_ps: f64) -> Energy {
        let mut energy = Energy::default();
        let transitions: Vec<u64> = (0..self.netlist.nets)
            .map(|net| if self.clocks[net] { 0 } else { run.transitions(net) })
            .collect();
        let charge = |cap: f64| 0.5 * cap * self.volts * self.volts;
        for (net, cap) in self.caps.iter().enumerate().skip(2) {
            match self.clocks[net] {
                true => energy.clock += 2.0 * charge(*cap) * run.count(net),
                false => energy.switching += charge(*cap) * transitions[net] as f64,
            }
        }
        for (gate, energies) in self.netlist.gates.iter().zip(&self.energies) {
            self.gate(gate, energies, run, &transitions, span_ps, &mut energy);
        }
        for (gate, energies) in self.netlist.registers.iter().zip(&self.energies[self.netlist.gates.len()..])
        {
            self.gate(gate, energies, run, &transitions, span_ps, &mut energy);
        }
        energy
    }

    fn gate(
        &self,
        gate: &Gate,
        energies: &[[f64; 2]],
        run: &Run,
        transitions: &[u64],
        span_ps: f64,
        energy: &mut Energy,
    ) {
        let cell = self.kinds[gate.kind];
        let mut clocks = [false; MAX_PINS];
        clocks
            .iter_mut()
            .zip(&gate.nets)
            .for_each(|(clock, net)| *clock = net.is_some_and(|net| self.clocks[net]));
        let moving = gate.nets.iter().flatten().any(|net| transitions[*net] > 0);
        energy.leakage += self.leakage_nw(gate, moving, &clocks, run) * span_ps * 1e-6;
        for (arc, energies) in cell.arcs.iter().zip(energies).filter(|(arc, _)| clocks[arc.pin]) {
            energy.clock += self.clock_arc(gate, arc, energies, run);
        }
        if moving {
            energy.internal += self.data_arcs(gate, energies, &clocks, run);
        }
    }

    /// Energy of a clock's edges at a pin.
    fn clock_arc(&self, gate: &Gate, arc: &Arc, energies: &[f64; 2], run: &Run) -> f64 {
        let Some(net) = gate.nets[arc.pin] else { return 0.0 };
        if let Some(related) = arc.related {
            // Output of a clock gate: one of its inputs is the clock, the others enable it.
            let from_clock = gate.nets[related].is_some_and(|net| self.clocks[net]);
            return if from_clock { run.count(net) * (energies[0] + energies[1]) } else { 0.0 };
        }
        let mut counts = [0, 0];
        for word in 0..run.words {
            let edges = run.now(Some(net), word) & run.mask(word);
            if edges == 0 {
                continue;
            }
            let when =
                |pins: [u64; MAX_PINS]| arc.when.as_ref().map_or(u64::MAX, |when| when.evaluate(&pins));
            counts[0] += (edges & when(run.pins(gate, word, Run::now))).count_ones();
            counts[1] += (edges & when(run.pins(gate, word, Run::next))).count_ones();
        }
        energies[0] * f64::from(counts[0]) + energies[1] * f64::from(counts[1])
    }

    /// Energy of all changes except clock edges.
    fn data_arcs(&self, gate: &Gate, energies: &[[f64; 2]], clocks: &[bool; MAX_PINS], run: &Run) -> f64 {
        let cell = self.kinds[gate.kind];
        let is_register = cell.register.is_some();
        // Counts of each arc's rising and falling transitions, for each level of the clock.
        let mut counts = vec![[0_u32; 2]; cell.arcs.len()];
        let mut changes = [[0_u32; 2]; MAX_PINS];
        for word in 0..run.words {
            let mut changed = run.pins(gate, word, Run::changes);
            changed.iter_mut().zip(clocks).filter(|(_, clock)| **clock).for_each(|(changed, _)| *changed = 0);
            if changed.iter().all(|changed| *changed == 0) {
                continue;
            }
            let levels = self.levels(gate, word, clocks, run, Run::next);
            let next = levels[0];
            let outputs = cell.pins.iter().zip(&changed).filter(|(pin, _)| pin.function.is_some());
            let outputs = outputs.fold(0, |all, (_, changed)| all | changed);
            for ((changes, changed), next) in changes.iter_mut().zip(&changed).zip(&next) {
                changes[0] += (changed & next).count_ones();
                changes[1] += (changed & !next).count_ones();
            }
            for (arc, counts) in cell.arcs.iter().zip(&mut counts) {
                let mut counted = changed[arc.pin];
                match arc.related {
                    // All changes of a register come with an edge of its clock.
                    Some(related) if !is_register => counted &= changed[related],
                    Some(_) => {}
                    // The output's table includes the input's energy in a state that a change of the output ends.
                    None if arc.when.is_some() && !is_register => counted &= !outputs,
                    None => {}
                }
                if counted == 0 {
                    continue;
                }
                for pins in &levels {
                    let when = arc.when.as_ref().map_or(u64::MAX, |when| when.evaluate(pins));
                    counts[0] += (counted & when & next[arc.pin]).count_ones();
                    counts[1] += (counted & when & !next[arc.pin]).count_ones();
                }
            }
        }
        let mut sum = 0.0;
        for (pin, changes) in changes.iter().enumerate().take(cell.pins.len()) {
            let arcs = || (0..cell.arcs.len()).filter(|arc| cell.arcs[*arc].pin == pin);
            let is_output = cell.pins[pin].function.is_some();
            for edge in 0..2 {
                let weighted: f64 =
                    arcs().map(|arc| f64::from(counts[arc][edge]) * energies[arc][edge]).sum();
                let weights: f64 = arcs().map(|arc| f64::from(counts[arc][edge])).sum();
                sum += match (is_output, changes[edge]) {
                    (_, 0) => 0.0,
                    (false, _) => weighted / 2.0,
                    // Each change once: the mean of the arcs that took part, or of all if no table applies.
                    (true, changes) if weights > 0.0 => f64::from(changes) * weighted / weights,
                    (true, changes) => {
                        let all: f64 = arcs().map(|arc| energies[arc][edge]).sum();
                        f64::from(changes) * all / (arcs().count() as f64).max(1.0)
                    }
                };
            }
        }
        sum
    }

    /// Pin values while the clock is down, and while it is up, for equal times.
    fn levels(
        &self,
        gate: &Gate,
        word: usize,
        clocks: &[bool; MAX_PINS],
        run: &Run,
        of: impl Fn(&Run, Option<usize>, usize) -> u64,
    ) -> [[u64; MAX_PINS]; 2] {
        let pins = run.pins(gate, word, of);
        [0, u64::MAX].map(|level| {
            let mut pins = pins;
            pins.iter_mut().zip(clocks).filter(|(_, clock)| **clock).for_each(|(pin, _)| *pin = level);
            pins
        })
    }

    /// Leakage, averaged over the states of a gate.
    fn leakage_nw(&self, gate: &Gate, moving: bool, clocks: &[bool; MAX_PINS], run: &Run) -> f64 {
        let cell = self.kinds[gate.kind];
        // Constant values are read once.
        let (words, cycles) = if moving { (run.words, run.cycles) } else { (1, 1) };
        let (mut weighted, mut stated) = (0.0, 0.0);
        for word in 0..words {
            let left = cycles - word * 64;
            let mask = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
            let levels = self.levels(gate, word, clocks, run, Run::now);
            for (when, nw) in &cell.leakage {
                let Some(when) = when else { continue };
                let count: u32 = levels.iter().map(|pins| (when.evaluate(pins) & mask).count_ones()).sum();
                weighted += f64::from(count) * nw;
                stated += f64::from(count);
            }
        }
        let states = 2.0 * cycles as f64;
        let other: f64 = cell.leakage.iter().filter(|(when, _)| when.is_none()).map(|(_, nw)| nw).sum();
        (weighted + (states - stated).max(0.0) * other) / states
    }
}
