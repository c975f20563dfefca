//! DIMMs linked in RTL: partial results and moving neurons go over their links.
//!
//! Partial sums, Q, K, V and weights are messages of `send` and `receive`; the host copies nothing. A core sends to one
//! other at a time and receives from one (docs/isa.md, *Transfers*), so messages are planned in rounds. Failed messages
//! are repeated after the links are retrained; repeated failure is an error that names the link.
//!
//! The scheduler decides which neurons move ([`super::NeuronMap`]). They move during the GPU's projection, and are
//! computed at the new place only after all their weights have arrived ([`SlotTable`]).

use super::figures::{LinkCounters, LinkFigures};
use super::resource::Resource;
use super::slot_table::{Flight, Neuron, SlotTable};
use crate::cluster::lockstep::{LaneFault, Lockstep};
use crate::core::{Backend, LinkStatus};
use crate::error::waits;
use crate::gemv::{GemvUnit, Outcome, ProgramFigures};
use ndp_config::DesignConfig;
use ndp_files::{Error, Result, bail, ensure, fault};
use ndp_isa::Transfer;
use ndp_isa::layout::{MatrixLayout, RowRange};
use ndp_numerics::f16;
use std::collections::HashMap;

/// Attempts at a message before the cores stop using its link.
const TRIES: u32 = 3;
const SLOTS: u32 = 1 << 16;

/// A fault of a link during generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFault {
    /// Cycle of the fault, from the beginning.
    pub cycle: u64,
    pub dimm: usize,
    pub kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    Lanes(LaneFault),
    /// The DIMM takes nothing for this number of cycles, so that the queues of the link fill up.
    Full(u64),
}

impl LinkFault {
    /// Bound on cycle and duration: days of simulation.
    pub const MOST_CYCLES: u64 = 1_000_000_000;

    /// Kinds with the default of their number.
    const KINDS: [(&'static str, u64); 4] =
        [("cut", 10_000), ("burst", 64), ("dead-lane", 0), ("full", 20_000)];
}

/// Format `KIND@CYCLE:DIMM=NUMBER`.
impl std::fmt::Display for LinkFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, number) = match self.kind {
            FaultKind::Lanes(LaneFault::Cut(cycles)) => ("cut", cycles),
            FaultKind::Lanes(LaneFault::Burst(cycles, _)) => ("burst", cycles),
            FaultKind::Lanes(LaneFault::DeadLane(lane)) => ("dead-lane", lane.into()),
            FaultKind::Full(cycles) => ("full", cycles),
        };
        write!(f, "{kind}@{}:{}={number}", self.cycle, self.dimm)
    }
}

impl std::str::FromStr for LinkFault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no fault; expected KIND@CYCLE:DIMM or KIND@CYCLE:DIMM=NUMBER with cut (cycles), burst (cycles), \
                 dead-lane (lane 0 to 7) or full (cycles) as KIND, such as cut@30000:1=10000"
            )
        };
        let (kind, rest) = text.split_once('@').ok_or_else(wrong)?;
        let (cycle, rest) = rest.split_once(':').ok_or_else(wrong)?;
        let (dimm, number) = rest.split_once('=').map_or((rest, None), |(dimm, number)| (dimm, Some(number)));
        let default = Self::KINDS.iter().find(|(name, _)| *name == kind).ok_or_else(wrong)?.1;
        let number = number.map_or(Ok(default), str::parse).map_err(|_| wrong())?;
        let cycle: u64 = cycle.parse().map_err(|_| wrong())?;
        let most = Self::MOST_CYCLES;
        if cycle > most || number > most {
            return Err(format!("CYCLE and NUMBER of `{text}` must be at most {most}"));
        }
        let kind = match kind {
            "cut" => FaultKind::Lanes(LaneFault::Cut(number)),
            "burst" => FaultKind::Lanes(LaneFault::Burst(number, u32::MAX)),
            "dead-lane" if number < 8 => FaultKind::Lanes(LaneFault::DeadLane(number as u32)),
            "full" => FaultKind::Full(number),
            _ => return Err(wrong()),
        };
        Ok(Self { cycle, dimm: dimm.parse().map_err(|_| wrong())?, kind })
    }
}

#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    pub ber: f64,
    pub faults: Vec<LinkFault>,
    pub seed: u64,
}

/// Ranges of a DIMM's DRAM for ranges of another's, one message each.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub from: usize,
    pub to: usize,
    pub ranges: Vec<(RowRange, RowRange)>,
}

impl Message {
    fn bytes(&self) -> u64 {
        let bursts = |(range, _): &(RowRange, RowRange)| u64::from(range.count * range.ranks.count_ones());
        64 * self.ranges.iter().map(bursts).sum::<u64>()
    }
}

/// Concurrent messages: no core sends or receives more than one.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub messages: Vec<usize>,
    /// Programs of the cores, which begin together, for each attempt.
    pub tries: Vec<Programs>,
}

impl Round {
    /// Sum of the longest programs of all attempts.
    pub fn cycles(&self) -> u64 {
        let longest = |programs: &Programs| programs.iter().map(|(_, of)| of.cycles).max();
        self.tries.iter().filter_map(longest).sum()
    }
}

/// Result of moving neurons.
#[derive(Debug, Default)]
pub(super) struct MovedNeurons {
    pub programs: Programs,
    /// Links that were used, with bytes.
    pub ways: Vec<(Resource, u64)>,
    pub arrived: Vec<Neuron>,
    /// Some neurons did not arrive.
    pub failed: bool,
}

/// A core's sends and receives in a round, and the cycles by which it begins late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Sides {
    sends: Vec<Transfer>,
    receives: Vec<Transfer>,
    late: u64,
}

/// Programs by core.
type Programs = Vec<(usize, ProgramFigures)>;

#[derive(Debug)]
pub(super) struct Links {
    lockstep: Lockstep,
    slot: u32,
    /// Cycle and DIMM of a late receiver, and the delay in cycles.
    full: Vec<(u64, usize, u64)>,
    planned: Vec<LinkFault>,
    pub figures: LinkFigures,
    threads: usize,
    /// Programs of earlier rounds by their ranges, to be reused; none if all rounds run.
    known: Option<HashMap<Vec<Sides>, Programs>>,
}

impl Links {
    /// Links the cores, and waits until all links are up.
    pub fn open(
        config: &DesignConfig,
        cores: &mut [GemvUnit],
        options: &LinkOptions,
        threads: usize,
    ) -> Result<Self> {
        let dimms = cores.len();
        let modelled = cores.first().is_some_and(|core| core.core().backend() == Backend::Cycles);
        let estimates = cores.first().is_some_and(|core| core.estimated().is_some());
        if modelled && (options.ber > 0.0 || !options.faults.is_empty()) {
            bail!("a link with errors needs a core in RTL: backend `rtl` instead of `cycles`");
        }
        let mut lockstep = match cores.first() {
            Some(first) if modelled => Lockstep::modelled(config, first.core(), dimms, options.seed)?,
            _ => Lockstep::open(config, dimms, options.ber, options.seed)?,
        };
        let (mut full, mut planned) = (Vec::new(), Vec::new());
        if cores[0].core().is_predicted() {
            lockstep.predict(config, cores[0].core())?;
        }
        for (node, core) in cores.iter_mut().enumerate() {
            core.connect(&lockstep, node as u32, dimms)?;
        }
        for fault in &options.faults {
            ensure!(
                fault.dimm < cores.len(),
                "DIMM of a fault = {} must be in 0..={}",
                fault.dimm,
                cores.len() - 1
            );
            if let FaultKind::Lanes(LaneFault::DeadLane(lane)) = fault.kind
                && lane >= config.link().lanes()
            {
                bail!("lane of a fault = {lane} must be in 0..={}", config.link().lanes() - 1);
            }
            match fault.kind {
                FaultKind::Lanes(kind) => {
                    lockstep.plan_fault(fault.cycle, fault.dimm, kind);
                    planned.push(*fault);
                }
                FaultKind::Full(cycles) => full.push((fault.cycle, fault.dimm, cycles)),
            }
        }
        let mut links =
            Self { lockstep, slot: 0, full, planned, figures: LinkFigures::default(), threads, known: None };
        links.known = estimates.then(HashMap::new);
        let status = links.wait_until_up(cores, config.link().fault_cycles().into())?;
        match status.iter().position(|status| !status.up) {
            None => Ok(links),
            Some(dimm) => Err(failed(dimm, &status[dimm], "does not come up", links.lockstep.cycle())),
        }
    }

    pub fn lockstep(&mut self) -> &mut Lockstep {
        &mut self.lockstep
    }

    /// Lets at most `limit` cycles pass until all links work.
    fn wait_until_up(&mut self, cores: &mut [GemvUnit], limit: u64) -> Result<Vec<LinkStatus>> {
        let end = self.lockstep.cycle() + limit;
        loop {
            let jobs = cores.iter().map(|_| Some(())).collect();
            let status = self.lockstep.run(cores, jobs, self.threads, &async |core: &mut GemvUnit, ()| {
                Ok(core.outcome_async().await?.status)
            })?;
            let status: Vec<LinkStatus> = status.into_iter().flatten().collect();
            if self.lockstep.cycle() >= end || status.iter().all(|s| s.up && !s.fault && !s.peer_fault) {
                return Ok(status);
            }
        }
    }

    /// Delivers messages; those without a common core go at the same time. Returns the rounds.
    pub fn deliver(&mut self, cores: &mut [GemvUnit], messages: &[Message]) -> Result<Vec<Round>> {
        let mut waiting: Vec<usize> = (0..messages.len()).collect();
        let mut rounds = Vec::new();
        while !waiting.is_empty() {
            let (mut sends, mut receives) = (vec![false; cores.len()], vec![false; cores.len()]);
            let (round, rest) = waiting.into_iter().partition(|number| {
                let message: &Message = &messages[*number];
                let free = !sends[message.from] && !receives[message.to];
                if free {
                    (sends[message.from], receives[message.to]) = (true, true);
                }
                free
            });
            waiting = rest;
            rounds.push(self.round(cores, messages, round)?);
        }
        Ok(rounds)
    }

    /// Each core sends and receives at most one of these messages.
    fn round(&mut self, cores: &mut [GemvUnit], messages: &[Message], numbers: Vec<usize>) -> Result<Round> {
        let mut round = Round { messages: numbers.clone(), tries: Vec::new() };
        let (mut left, mut ends) = (numbers, Vec::new());
        for _ in 0..TRIES {
            let now = self.lockstep.cycle();
            let mut sides: Vec<Sides> = vec![Sides::default(); cores.len()];
            for Message { from, to, ranges } in left.iter().map(|number| &messages[*number]) {
                sides[*to].late += self.late(*to, now);
                self.enqueue(&mut sides, (*from, *to), ranges.iter().copied());
            }
            if let Some(programs) = self.known.as_ref().and_then(|known| known.get(&alike(&sides))) {
                let bursts = left.iter().map(|number| &messages[*number]);
                bursts.for_each(|message| {
                    self.figures.messages += message.ranges.len() as u64;
                    self.figures.bytes += message.bytes();
                });
                round.tries.push(programs.clone());
                self.figures.cycles += round.cycles();
                return Ok(round);
            }
            let shape = self.known.is_some().then(|| alike(&sides));
            let is_idle = |sides: &Sides| sides.sends.is_empty() && sides.receives.is_empty();
            let jobs = sides.into_iter().map(|sides| (!is_idle(&sides)).then_some(sides)).collect();
            let results = self.lockstep.run(cores, jobs, self.threads, &transfer)?;
            let mut failed = Vec::new();
            for number in left {
                let message = &messages[number];
                let (Some((_, out)), Some((_, into))) = (&results[message.from], &results[message.to]) else {
                    continue;
                };
                let all = message.ranges.len() as u32;
                if out.sent == all && into.received == all {
                    self.figures.messages += u64::from(all);
                    self.figures.bytes += message.bytes();
                } else {
                    ends = vec![(message.to, into.status), (message.from, out.status)];
                    failed.push(number);
                }
            }
            let programs = results.into_iter().enumerate();
            let programs: Vec<_> = programs.filter_map(|(core, done)| Some((core, done?.0))).collect();
            if let (Some(known), Some(shape)) = (&mut self.known, shape) {
                known.insert(shape, programs.clone());
            }
            round.tries.push(programs);
            left = failed;
            if left.is_empty() {
                self.figures.cycles += round.cycles();
                return Ok(round);
            }
            self.figures.repeated += left.len() as u64;
            self.go_on(cores)?;
        }
        let (from, to) = (messages[left[0]].from, messages[left[0]].to);
        let all = (1u32 << cores[from].config().link().lanes()) - 1;
        let sound = |s: &LinkStatus| s.up && !s.fault && !s.peer_fault && s.locked & all == all;
        let what = format!("does not carry a message from DIMM {from} to DIMM {to}, sent {TRIES} times");
        let cycle = self.lockstep.cycle();
        let worst = ends.iter().find(|(_, status)| !sound(status)).or(ends.first());
        Err(worst.map_or(waits(cycle), |(dimm, status)| failed(*dimm, status, &what, cycle)))
    }

    /// Retrains all faulty links, and waits for them a while.
    fn go_on(&mut self, cores: &mut [GemvUnit]) -> Result<()> {
        self.lockstep.retrain_bridge();
        let jobs = cores.iter().map(|_| Some(())).collect();
        self.lockstep
            .run(cores, jobs, self.threads, &async |core: &mut GemvUnit, ()| core.retrain_async().await)?;
        let limit = 2 * u64::from(cores[0].config().link().lock_cycles());
        self.wait_until_up(cores, limit).map(|_| ())
    }

    /// Adds ranges from one core to another, a message each.
    fn enqueue(
        &mut self,
        sides: &mut [Sides],
        (from, to): (usize, usize),
        ranges: impl Iterator<Item = (RowRange, RowRange)>,
    ) {
        for (away, back) in ranges {
            let slot = self.next_slot();
            let transfer = |range: RowRange, node: usize| {
                let RowRange { address, count, ranks } = range;
                Transfer { address, count, ranks, node: node as u32, slot }
            };
            sides[from].sends.push(transfer(away, to));
            sides[to].receives.push(transfer(back, from));
        }
    }

    /// A number that identifies a message at both sides.
    fn next_slot(&mut self) -> u32 {
        self.slot = (self.slot + 1) % SLOTS;
        self.slot
    }

    /// Cycles by which a DIMM receives late now.
    fn late(&mut self, dimm: usize, now: u64) -> u64 {
        let due = |fault: &(u64, usize, u64)| fault.0 <= now && fault.1 == dimm;
        self.full.iter().position(due).map_or(0, |at| self.full.swap_remove(at).2)
    }

    /// Moves neurons over links, and copies some to the GPU by the host's reads; none moves unless all weights arrive.
    pub fn move_neurons(
        &mut self,
        cores: &mut [GemvUnit],
        residence: &mut SlotTable,
    ) -> Result<MovedNeurons> {
        let flights = residence.next_flights();
        let mut all = MovedNeurons::default();
        if flights.is_empty() {
            return Ok(all);
        }
        let now = self.lockstep.cycle();
        let mut sides: Vec<Sides> = vec![Sides::default(); cores.len()];
        let mut uploads: Vec<Vec<Upload>> = vec![Vec::new(); cores.len()];
        for flight in &flights {
            match flight {
                Flight::Move { from, to, neurons } => {
                    sides[*to].late += self.late(*to, now);
                    let ranges = neurons.iter().flat_map(|(neuron, slot)| residence.ranges(*neuron, *slot));
                    self.enqueue(&mut sides, (*from, *to), ranges);
                }
                Flight::Upload { from, neurons } => {
                    let rows = |neuron: &Neuron| {
                        let rows = residence.rows_of(*neuron);
                        (*neuron, rows.map(|(layout, slot)| (layout.clone(), slot)).collect())
                    };
                    uploads[*from] = neurons.iter().map(rows).collect();
                }
            }
        }
        let jobs = sides.into_iter().zip(uploads).map(|(sides, uploads)| Moves { sides, uploads });
        let jobs: Vec<_> = jobs.map(|job| (!job.is_empty()).then_some(job)).collect();
        let asked: Vec<[u32; 2]> = jobs
            .iter()
            .map(|job| {
                job.as_ref()
                    .map_or([0; 2], |job| [&job.sides.sends, &job.sides.receives].map(|t| t.len() as u32))
            })
            .collect();
        let results = self.lockstep.run(cores, jobs, self.threads, &move_weights)?;
        let complete = |dimm: usize, way: usize| {
            let outcome = results[dimm].as_ref().map(|moved: &Moved| moved.outcome);
            outcome.is_some_and(|outcome| [outcome.sent, outcome.received][way] == asked[dimm][way])
        };
        for flight in flights {
            let (way, moved) = match flight {
                Flight::Move { from, to, neurons } => {
                    let arrived = complete(from, 0) && complete(to, 1);
                    all.failed |= !arrived;
                    let bytes: u64 = neurons.iter().map(|((block, _), _)| residence.bytes(*block)).sum();
                    self.figures.migration_bytes += bytes;
                    let count =
                        if arrived { &mut self.figures.migrations } else { &mut self.figures.failed_moves };
                    *count += neurons.len() as u64;
                    neurons.iter().for_each(|(neuron, slot)| residence.settle(*neuron, *slot, arrived));
                    all.arrived.extend(neurons.iter().filter(|_| arrived).map(|(neuron, _)| *neuron));
                    (Resource::LinkIn(to as u32), bytes)
                }
                Flight::Upload { from, neurons } => {
                    let bytes: u64 = neurons.iter().map(|(block, _)| residence.bytes(*block)).sum();
                    self.figures.upload_bytes += bytes;
                    self.figures.uploads += neurons.len() as u64;
                    let read = results[from].iter().flat_map(|moved| moved.read.iter().cloned());
                    read.for_each(|(neuron, weights)| residence.upload(neuron, weights));
                    (Resource::BusUp, bytes)
                }
            };
            match all.ways.iter_mut().find(|(other, _): &&mut (Resource, u64)| *other == way) {
                Some((_, sum)) => *sum += moved,
                None => all.ways.push((way, moved)),
            }
        }
        for (dimm, moved) in results.into_iter().enumerate() {
            all.programs.extend(moved.map(|moved| (dimm, moved.figures)));
        }
        if all.failed {
            self.go_on(cores)?;
        }
        Ok(all)
    }

    /// Faults that have not taken effect.
    pub fn pending_faults(&self) -> Vec<LinkFault> {
        let full = |&(cycle, dimm, cycles): &(u64, usize, u64)| LinkFault {
            cycle,
            dimm,
            kind: FaultKind::Full(cycles),
        };
        let late = self.planned.iter().filter(|fault| fault.cycle >= self.lockstep.cycle()).copied();
        self.full.iter().map(full).chain(late).collect()
    }

    /// Reads the counters of all link controllers.
    pub fn count(&mut self, cores: &mut [GemvUnit]) -> Result<()> {
        let jobs = cores.iter().map(|_| Some(())).collect();
        let counted = self.lockstep.run(cores, jobs, self.threads, &async |core: &mut GemvUnit, ()| {
            core.link_counters_async().await
        })?;
        self.figures.counters = counted.into_iter().flatten().map(LinkCounters::of).collect();
        self.figures.wrong_bits =
            self.lockstep.cables().iter().flat_map(|c| &c.channels).map(|c| c.flipped()).sum();
        self.figures.all_cycles = self.lockstep.cycle();
        self.figures.pending_faults = self.pending_faults().iter().map(LinkFault::to_string).collect();
        Ok(())
    }
}

/// Ranges of the same lengths in the same ranks take the same time, except for the DRAM's state at the moment.
fn alike(sides: &[Sides]) -> Vec<Sides> {
    let shape = |transfers: &[Transfer]| {
        transfers.iter().map(|transfer| Transfer { address: 0, slot: 0, ..*transfer }).collect()
    };
    let of = |Sides { sends, receives, late }: &Sides| Sides {
        sends: shape(sends),
        receives: shape(receives),
        late: *late,
    };
    sides.iter().map(of).collect()
}

async fn transfer(core: &mut GemvUnit, sides: Sides) -> Result<(ProgramFigures, Outcome)> {
    if sides.late > 0 {
        core.pass_async(sides.late).await?;
    }
    let figures = core.transfer_async(&sides.sends, &sides.receives).await?;
    Ok((figures, core.outcome_async().await?))
}

/// A neuron for the GPU, with the rows of its weights.
type Upload = (Neuron, Vec<(MatrixLayout, u32)>);

/// A core's part in moving neurons.
#[derive(Clone, Debug, Default)]
struct Moves {
    sides: Sides,
    uploads: Vec<Upload>,
}

impl Moves {
    fn is_empty(&self) -> bool {
        self.sides.sends.is_empty() && self.sides.receives.is_empty() && self.uploads.is_empty()
    }
}

struct Moved {
    figures: ProgramFigures,
    outcome: Outcome,
    read: Vec<(Neuron, Vec<f16>)>,
}

/// Runs the transfers, then the host's reads.
async fn move_weights(core: &mut GemvUnit, moves: Moves) -> Result<Moved> {
    let (figures, outcome) = transfer(core, moves.sides).await?;
    let mut read = Vec::with_capacity(moves.uploads.len());
    for (neuron, rows) in moves.uploads {
        let mut weights = Vec::new();
        for (layout, slot) in rows {
            weights.extend(core.row(&layout, slot).await?.into_iter().map(f16::from_bits));
        }
        if core.core().is_timing_only() {
            weights.clear();
        }
        read.push((neuron, weights));
    }
    Ok(Moved { figures, outcome, read })
}

fn failed(dimm: usize, status: &LinkStatus, what: &str, cycle: u64) -> Error {
    fault!(
        "the link of DIMM {dimm} {what}, in cycle {cycle} of all cores: up {}, fault {}, fault of the other side {}, cause {:#04b}, lanes locked {:#010b}, failures {:#010b}",
        status.up,
        status.fault,
        status.peer_fault,
        status.cause,
        status.locked,
        status.failures
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_what_their_text_says() {
        for text in ["cut@30000:1=10000", "burst@5:0=64", "dead-lane@7:2=3", "full@0:7=20000"] {
            assert_eq!(text.parse::<LinkFault>().map(|fault| fault.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("cut@9:1".parse::<LinkFault>().unwrap().kind, FaultKind::Lanes(LaneFault::Cut(10_000)));
        for text in ["cut", "cut@x:1", "cut@1", "cut@1:2=x", "dead-lane@1:0=8", "fire@1:1"] {
            let error = text.parse::<LinkFault>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")) && error.contains("cut@30000:1=10000"), "{error}");
        }
    }
}
