//! Several cores on links, cycle by cycle: two on one cable, or more around a bridge. A test can reset one of them in
//! any cycle, cut its cable, or replace its Verilog, which `ndp_sim::cluster::lockstep`, on which systems run, cannot.
//! Each core has its own DRAM, host and program. The controllers inside the cores drive the lanes; the watchers of
//! `ndp_sim::link::probe` observe them.

use ndp_config::DesignConfig;
use ndp_cycles::Topology;
use ndp_files::fault;
use ndp_isa::Program;
use ndp_sim::cluster::prediction::LinkedPrediction;
use ndp_sim::core::{Answer, Burst, CoreOptions, NdpCore};
use ndp_sim::ffi::{Rtl, rtl};
use ndp_sim::link::Lanes;
use ndp_sim::link::bridge::Bridge;
use ndp_sim::link::channel::Channel;
use ndp_sim::link::network::Cable;

/// Cycles between two reads of a status while a queue is full.
const POLL_CYCLES: u64 = 64;
const BURST_INSTRUCTIONS: usize = 4;
const RESET_CYCLES: u64 = 8;

/// Sends a program to its core, as the queue has room.
#[derive(Debug, Default)]
struct Feed {
    words: Vec<u128>,
    next: usize,
    /// Instructions that the core had taken since its reset when the program began, once known.
    origin: Option<u32>,
    taken: u32,
    asked: bool,
    look: u64,
    end: Option<u64>,
    /// Value of `end` that the cycle model predicts.
    predicted: Option<u64>,
}

#[derive(Debug)]
pub struct LinkedCores {
    /// The cores, by number. With a cycle model use [`LinkedCores::place`] to place data.
    pub cores: Vec<NdpCore>,
    /// One cable for two cores without a bridge, otherwise one for each, from the core to the bridge.
    pub cables: Vec<Cable>,
    bridge: Option<Bridge>,
    feeds: Vec<Feed>,
    cycle: u64,
    prediction: Option<LinkedPrediction>,
    /// The last `retrain` of the bridge.
    retrained: u64,
}

impl LinkedCores {
    pub fn pair(config: &DesignConfig, options: &CoreOptions) -> ndp_files::Result<Self> {
        let cable = Cable::new(["DIMM 0".into(), "DIMM 1".into()], config.link(), options.seed);
        let core = rtl(config, NdpCore::BLOCK)?;
        Self::new(&[&core; 2], vec![cable], None, config, options)
    }

    /// Two cores on one cable from different Verilog, such as mutants.
    pub fn unequal(
        cores: [&Rtl; 2],
        config: &DesignConfig,
        options: &CoreOptions,
    ) -> ndp_files::Result<Self> {
        let cable = Cable::new(["DIMM 0".into(), "DIMM 1".into()], config.link(), options.seed);
        Self::new(&cores, vec![cable], None, config, options)
    }

    pub fn star(config: &DesignConfig, options: &CoreOptions) -> ndp_files::Result<Self> {
        let count = config.link().bridge_ports();
        let bridge = Bridge::open(config, options.seed)?;
        let cable = |n: u32| {
            let names = [format!("DIMM {n}"), format!("link {n} of the bridge")];
            Cable::new(names, config.link(), options.seed * 64 + u64::from(n))
        };
        let core = rtl(config, NdpCore::BLOCK)?;
        let cables = (0..count).map(cable).collect();
        Self::new(&vec![&core; count as usize], cables, Some(bridge), config, options)
    }

    fn new(
        designs: &[&Rtl],
        mut cables: Vec<Cable>,
        bridge: Option<Bridge>,
        config: &DesignConfig,
        options: &CoreOptions,
    ) -> ndp_files::Result<Self> {
        let mut cores = Vec::new();
        for (node, design) in (0..).zip(designs) {
            let seed = options.seed + u64::from(node);
            // The model is one of the whole system.
            let options = CoreOptions { seed, predict: false, ..options.clone() };
            let mut core = NdpCore::of_rtl(design, config, &options)?;
            core.set_node(node);
            cores.push(core);
        }
        let feeds = cores.iter().map(|_| Feed::default()).collect();
        let prediction = options.predict.then(|| {
            cables.iter_mut().flat_map(|cable| &mut cable.channels).for_each(Channel::record);
            let topology = if bridge.is_some() { Topology::Star } else { Topology::Pair };
            LinkedPrediction::new(config, &cores, topology)
        });
        Ok(Self { cores, cables, bridge, feeds, cycle: 0, prediction, retrained: 0 })
    }

    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    pub fn bridge(&mut self) -> Option<&mut Bridge> {
        self.bridge.as_mut()
    }

    /// The lanes that each core receives in this cycle.
    fn carry(&mut self, silent: Option<usize>) -> ndp_files::Result<Vec<Lanes>> {
        if let (Some(bridge), Some(prediction)) = (&self.bridge, &mut self.prediction)
            && bridge.retrained() != self.retrained
        {
            self.retrained = bridge.retrained();
            prediction.run(self.cycle, &self.cores, &mut self.cables);
            prediction.set_bridge_retrain(self.retrained as u32);
        }
        self.cycle += 1;
        let mut sent: Vec<Lanes> = self.cores.iter().map(NdpCore::link_lanes).collect();
        if let Some(core) = silent {
            sent[core] = Lanes::default();
        }
        Ok(match &mut self.bridge {
            None => self.cables[0].step(self.cycle, [sent[0], sent[1]])?.to_vec(),
            Some(bridge) => {
                let mut heard = Vec::new();
                for (n, cable) in self.cables.iter_mut().enumerate() {
                    let [to_core, to_bridge] = cable.step(self.cycle, [sent[n], bridge.lanes(n)])?;
                    bridge.drive(n, &to_bridge);
                    heard.push(to_core);
                }
                bridge.tick();
                heard
            }
        })
    }

    /// # Errors
    /// Errors of [`NdpCore::step`]; if a core breaks a rule of the link.
    pub fn step(&mut self) -> ndp_files::Result<()> {
        let heard = self.carry(None)?;
        for (n, (core, lanes)) in self.cores.iter_mut().zip(&heard).enumerate() {
            core.drive_link(lanes);
            core.step()?;
            if let Some(prediction) = &mut self.prediction {
                prediction.host(n, core.port());
            }
        }
        Ok(())
    }

    /// Runs the cycle model up to the present: before data are placed that a running program may read as a list.
    pub fn predict(&mut self) {
        if let Some(prediction) = &mut self.prediction {
            prediction.run(self.cycle, &self.cores, &mut self.cables);
        }
    }

    pub fn place(&mut self, index: usize, program: &Program) -> ndp_files::Result<()> {
        self.predict();
        self.cores[index].place(program)
    }

    /// Resets one core at any time while the others continue. Drops its program.
    pub fn reset(&mut self, index: usize) -> ndp_files::Result<()> {
        self.predict();
        self.cores[index].reset()?;
        if let Some(prediction) = &mut self.prediction {
            prediction.reset(index, RESET_CYCLES, &self.cores[index]);
        }
        self.feeds[index] = Feed::default();
        let (cable, end) = if self.bridge.is_some() { (index, 0) } else { (0, index) };
        self.cables[cable].probes[end].forget(true);
        self.cables[cable].probes[1 - end].forget(false);
        for _ in 0..RESET_CYCLES {
            for n in (0..self.cores.len()).filter(|n| *n != index) {
                self.note_end(n);
                self.predict_end(n)?;
            }
            let heard = self.carry(Some(index))?;
            for (n, lanes) in heard.iter().enumerate().filter(|(n, _)| *n != index) {
                self.cores[n].drive_link(lanes);
                self.cores[n].step()?;
                if let Some(prediction) = &mut self.prediction {
                    prediction.host(n, self.cores[n].port());
                }
            }
        }
        // What watchers saw of the last flits before the reset is past now.
        self.cables[cable].probes[end].forget(true);
        Ok(())
    }

    /// Gives a core a program, which [`LinkedCores::advance`] sends.
    pub fn start(&mut self, index: usize, words: Vec<u128>) {
        self.feeds[index] = Feed { words, ..Feed::default() };
    }

    /// The cycle in which a core's program ended, if it has.
    pub fn ended(&self, index: usize) -> Option<u64> {
        self.feeds[index].end
    }

    /// Like [`Self::ended`], by the cycle model, with [`CoreOptions::predict`].
    pub fn predicted(&self, index: usize) -> Option<u64> {
        self.feeds[index].predicted
    }

    pub fn prediction(&self) -> Option<&LinkedPrediction> {
        self.prediction.as_ref()
    }

    /// One cycle, in which programs are sent. `answers` gets the hosts' other answers.
    pub fn advance(&mut self, answers: &mut impl FnMut(usize, Answer)) -> ndp_files::Result<()> {
        for index in 0..self.cores.len() {
            self.feed(index, answers);
            self.predict_end(index)?;
        }
        self.step()
    }

    fn predict_end(&mut self, index: usize) -> ndp_files::Result<()> {
        let feed = &mut self.feeds[index];
        if let Some(prediction) = self.prediction.as_mut().filter(|_| feed.end == Some(self.cycle)) {
            feed.predicted = Some(prediction.end(index, self.cycle, &self.cores, &mut self.cables)?);
        }
        Ok(())
    }

    /// Records the end of a core that was sent all of its program.
    fn note_end(&mut self, index: usize) {
        let (core, feed) = (&self.cores[index], &mut self.feeds[index]);
        let sent = !feed.words.is_empty() && feed.next >= feed.words.len();
        if sent && feed.end.is_none() && core.registers_answered() && !core.is_busy() {
            feed.end = Some(self.cycle);
        }
    }

    fn feed(&mut self, index: usize, answers: &mut impl FnMut(usize, Answer)) {
        let (core, feed, cycle) = (&mut self.cores[index], &mut self.feeds[index], self.cycle);
        let queue = 1 << core.config().dimm_burst_bits();
        let entries = core.config().core().queue_entries();
        while let Some(answer) = core.take_answer() {
            let status = answer.response.read.filter(|_| answer.request.address == queue && feed.asked);
            match status {
                Some(burst) => {
                    let taken = ndp_isa::Status::of(&burst).taken;
                    feed.taken = taken.wrapping_sub(*feed.origin.get_or_insert(taken));
                    (feed.asked, feed.look) = (false, cycle + POLL_CYCLES);
                }
                None if answer.request.address == queue => {}
                None => answers(index, answer),
            }
        }
        if feed.next >= feed.words.len() {
            self.note_end(index);
            return;
        }
        let sent = (feed.next / BURST_INSTRUCTIONS * BURST_INSTRUCTIONS) as u32;
        let room = sent - feed.taken + 2 * BURST_INSTRUCTIONS as u32 <= entries;
        if feed.origin.is_some() && room {
            let mut data = Burst::default();
            let words = feed.words[feed.next..].iter().take(BURST_INSTRUCTIONS);
            for (place, word) in words.enumerate() {
                (data[2 * place], data[2 * place + 1]) = (*word as u64, (*word >> 64) as u64);
            }
            core.submit(queue, Some(data));
            feed.next += BURST_INSTRUCTIONS;
        } else if !feed.asked && cycle >= feed.look {
            core.submit(queue, None);
            feed.asked = true;
        }
    }

    /// Runs a program on each core to its end. `between` is called for each core before every cycle, `answers` for its
    /// host's answers. Returns the cycle of each end, counted from the beginning.
    ///
    /// # Errors
    /// Errors of [`LinkedCores::step`]; no end after `limit` cycles.
    pub fn run(
        &mut self,
        programs: Vec<Vec<u128>>,
        limit: u64,
        mut between: impl FnMut(usize, &mut NdpCore),
        mut answers: impl FnMut(usize, Answer),
    ) -> ndp_files::Result<Vec<u64>> {
        let begin = self.cycle;
        for (index, words) in programs.into_iter().enumerate() {
            self.start(index, words);
        }
        let done = |feed: &Feed| feed.words.is_empty() || feed.end.is_some();
        while !self.feeds.iter().all(done) {
            (0..self.cores.len()).for_each(|index| between(index, &mut self.cores[index]));
            self.advance(&mut answers)?;
            if self.cycle - begin > limit {
                let busy: Vec<bool> = self.cores.iter().map(NdpCore::is_busy).collect();
                let links =
                    (0..busy.len()).map(|index| self.link_status(index)).collect::<Result<Vec<_>, _>>()?;
                return Err(fault!(
                    "cycle {}: programs of linked cores do not end after {limit} cycles, busy {busy:?}, links {links:x?}",
                    self.cycle
                ));
            }
        }
        Ok(self.feeds.iter().map(|feed| feed.end.unwrap_or(begin) - begin).collect())
    }

    /// Steps until a condition holds; `false` if it does not within `cycles`.
    pub fn run_until(
        &mut self,
        cycles: u64,
        mut condition: impl FnMut(&mut Self) -> bool,
    ) -> ndp_files::Result<bool> {
        for _ in 0..cycles {
            if condition(self) {
                return Ok(true);
            }
            self.step()?;
        }
        Ok(condition(self))
    }

    /// Reads a register of a core while all of them run.
    ///
    /// # Errors
    /// Errors of [`LinkedCores::step`]; if no answer comes.
    pub fn register(&mut self, index: usize, number: u64) -> ndp_files::Result<Burst> {
        let address = 1 << self.cores[index].config().dimm_burst_bits() | number;
        self.cores[index].submit(address, None);
        let begin = self.cycle;
        loop {
            self.step()?;
            while let Some(answer) = self.cores[index].take_answer() {
                if let Some(burst) = answer.response.read.filter(|_| answer.request.address == address) {
                    return Ok(burst);
                }
            }
            if self.cycle - begin > 100_000 {
                return Err(fault!(
                    "cycle {}: no answer to a read of register {number} of core {index}",
                    self.cycle
                ));
            }
        }
    }

    pub fn link_status(&mut self, index: usize) -> ndp_files::Result<ndp_sim::core::LinkStatus> {
        Ok(ndp_sim::core::LinkStatus::of(&self.register(index, ndp_sim::core::LinkStatus::REGISTER)?))
    }

    /// Makes a core's link continue after a fault (bit 0), or clear failures (bit 1).
    pub fn control(&mut self, index: usize, bits: u64) {
        let address = 1 << self.cores[index].config().dimm_burst_bits() | ndp_sim::core::LinkStatus::REGISTER;
        self.cores[index].submit(address, Some([bits, 0, 0, 0, 0, 0, 0, 0]));
    }
}
