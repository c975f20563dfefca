//! DIMMs that are linked in RTL: what one has and another needs goes over their links, and neurons change places by it.
//!
//! Parcels ([`crate::gemv`]) carry partial sums, Q, K and V, and the weights of neurons, as the messages of `send` and `receive`. One
//! core sends one message at a time and receives one (docs/isa.md, *Transfers*); a plan of rounds sees to that. A message that
//! fails is repeated after the links have been told to go on; one that fails again and again is an error that names the link.
//!
//! Which neurons move is the scheduler's decision ([`Places`]). Where a neuron is computed changes only when all of its weights have
//! arrived, and at the end of a layer, so that no product sees half of a move: [`Residence`].

use super::figures::{LinkCounters, LinkFigures};
use super::place::Place;
use super::residence::{Flight, Residence};
use crate::cluster::lockstep::{LaneFault, Lockstep};
use crate::core::{Burst, LinkStatus};
use crate::error::SimError;
use crate::gemv::{GemvUnit, ProgramFigures};
use ndp_config::DesignConfig;
use ndp_isa::Instruction;
use ndp_model::Model;

/// How often a message is sent before its link is given up.
const TRIES: u32 = 3;
/// Numbers of messages; those of neurons have the uppermost bit.
const SLOTS: u32 = 1 << 15;

/// Something that goes wrong with a link while text is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFault {
    /// The cycle, from the beginning.
    pub cycle: u64,
    /// The DIMM whose link it is.
    pub dimm: usize,
    /// What happens.
    pub kind: FaultKind,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The lanes.
    Lanes(LaneFault),
    /// The DIMM does not take what comes for so many cycles, so that the queues of the link are full.
    Full(u64),
}

impl LinkFault {
    /// Latest cycle and longest time: days of simulation.
    pub const MOST_CYCLES: u64 = 1_000_000_000;

    /// Kinds with what their number means and what it is if it is not given.
    const KINDS: [(&'static str, u64); 4] =
        [("cut", 10_000), ("burst", 64), ("dead-lane", 0), ("full", 20_000)];
}

/// As `KIND@CYCLE:DIMM=NUMBER`.
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

/// Links and what is wrong with them.
#[derive(Clone, Debug, Default)]
pub struct LinkOptions {
    /// Bit error rate of all lanes.
    pub ber: f64,
    /// What happens when.
    pub faults: Vec<LinkFault>,
    /// Seed of errors and skew.
    pub seed: u64,
}

/// What goes from one DIMM to another.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub from: usize,
    pub to: usize,
    pub parcel: Vec<Burst>,
}

/// A message that has arrived.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub parcel: Vec<Burst>,
    /// One after the other, the last of them successful.
    pub tries: Vec<Try>,
}

/// A message that was sent, whether it arrived or not: the programs of sender and receiver, which begin together.
#[derive(Clone, Debug)]
pub(super) struct Try {
    pub programs: [(usize, ProgramFigures); 2],
}

impl Try {
    /// Cycles up to the end of the later program.
    pub fn cycles(&self) -> u64 {
        self.programs.iter().map(|(_, figures)| figures.cycles).max().unwrap_or(0)
    }
}

impl Delivery {
    /// Cycles of all tries.
    pub fn cycles(&self) -> u64 {
        self.tries.iter().map(Try::cycles).sum()
    }
}

/// One side of a message.
enum Side {
    Send { to: u32, slot: u32, parcel: Vec<Burst> },
    Receive { from: u32, slot: u32, bursts: usize, late: u64 },
}

/// Linked DIMMs.
#[derive(Debug)]
pub(super) struct Links {
    lockstep: Lockstep,
    pub residence: Residence,
    slot: u32,
    /// Cycle and DIMM: what comes is taken late, by so many cycles.
    full: Vec<(u64, usize, u64)>,
    /// What happens to the lanes.
    planned: Vec<LinkFault>,
    pub figures: LinkFigures,
    threads: usize,
}

impl Links {
    /// Links the cores, and waits until all links are up.
    pub fn open(
        config: &DesignConfig,
        cores: &mut [GemvUnit],
        options: &LinkOptions,
        (model, threads): (&Model, usize),
    ) -> Result<Self, SimError> {
        let mut lockstep = Lockstep::open(config, cores.len(), options.ber, options.seed)?;
        let (mut full, mut planned) = (Vec::new(), Vec::new());
        if cores[0].core().is_predicted() {
            lockstep.predict(config, cores[0].core())?;
        }
        for (node, core) in cores.iter_mut().enumerate() {
            core.connect(lockstep.exchange(node), node as u32)?;
        }
        for fault in &options.faults {
            if fault.dimm >= cores.len() {
                let (key, value, max) = ("DIMM of a fault", fault.dimm as u64, cores.len() as u64 - 1);
                return Err(SimError::Range { key, value, min: 0, max });
            }
            if let FaultKind::Lanes(LaneFault::DeadLane(lane)) = fault.kind
                && lane >= config.link().lanes()
            {
                let (key, value, max) =
                    ("lane of a fault", lane.into(), u64::from(config.link().lanes()) - 1);
                return Err(SimError::Range { key, value, min: 0, max });
            }
            match fault.kind {
                FaultKind::Lanes(kind) => {
                    lockstep.plan_fault(fault.cycle, fault.dimm, kind);
                    planned.push(*fault);
                }
                FaultKind::Full(cycles) => full.push((fault.cycle, fault.dimm, cycles)),
            }
        }
        let mut links = Self {
            lockstep,
            residence: Residence::new(model, cores.len()),
            slot: 0,
            full,
            planned,
            figures: LinkFigures::default(),
            threads,
        };
        let status = links.wait_until_up(cores, config.link().fault_cycles().into())?;
        match status.iter().position(|status| !status.up) {
            None => Ok(links),
            Some(dimm) => Err(failed(dimm, &status[dimm], "does not come up", links.lockstep.cycle())),
        }
    }

    pub fn lockstep(&mut self) -> &mut Lockstep {
        &mut self.lockstep
    }

    /// Lets cycles pass until all links work, so many at most.
    fn wait_until_up(&mut self, cores: &mut [GemvUnit], limit: u64) -> Result<Vec<LinkStatus>, SimError> {
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

    /// Takes messages to where they are for; those that do not need a common core at the same time. In the order of the messages.
    ///
    /// # Errors
    /// [`SimError::LinkFault`] if a link does not carry a message.
    pub fn deliver(
        &mut self,
        cores: &mut [GemvUnit],
        messages: Vec<Message>,
    ) -> Result<Vec<Delivery>, SimError> {
        let mut waiting: Vec<(usize, Message)> = messages.into_iter().enumerate().collect();
        let mut done = Vec::new();
        while !waiting.is_empty() {
            let (mut sends, mut receives) = (vec![false; cores.len()], vec![false; cores.len()]);
            let (round, rest) = waiting.into_iter().partition(|(_, message): &(usize, Message)| {
                let free = !sends[message.from] && !receives[message.to];
                (sends[message.from], receives[message.to]) = (true, true);
                free
            });
            waiting = rest;
            done.extend(self.round(cores, round)?);
        }
        done.sort_by_key(|(number, _)| *number);
        Ok(done.into_iter().map(|(_, delivery)| delivery).collect())
    }

    /// Messages of which each core sends and receives one at most.
    fn round(
        &mut self,
        cores: &mut [GemvUnit],
        mut messages: Vec<(usize, Message)>,
    ) -> Result<Vec<(usize, Delivery)>, SimError> {
        let mut done: Vec<(usize, Delivery)> = Vec::new();
        let mut earlier: Vec<(usize, Vec<Try>)> = Vec::new();
        let mut ends = Vec::new();
        for _ in 0..TRIES {
            let slot = self.next_slot(0);
            let now = self.lockstep.cycle();
            let mut jobs: Vec<Vec<Side>> = cores.iter().map(|_| Vec::new()).collect();
            for (_, Message { from, to, parcel }) in &messages {
                let late = self.late(*to, now);
                jobs[*from].push(Side::Send { to: *to as u32, slot, parcel: parcel.clone() });
                let bursts = parcel.len();
                jobs[*to].push(Side::Receive { from: *from as u32, slot, bursts, late });
            }
            let jobs = jobs.into_iter().map(|sides| (!sides.is_empty()).then_some(sides)).collect();
            let results = self.lockstep.run(cores, jobs, self.threads, &transfer)?;
            let mut failed = Vec::new();
            for (number, message) in messages {
                let (Some((sent, out)), Some((got, into))) = (&results[message.from], &results[message.to])
                else {
                    continue;
                };
                let mut tries = match earlier.iter().position(|(earlier, _)| *earlier == number) {
                    Some(at) => earlier.swap_remove(at).1,
                    None => Vec::new(),
                };
                tries.push(Try { programs: [(message.from, sent.clone()), (message.to, got.clone())] });
                if out.sent == 1 && into.received == 1 {
                    let parcel = cores[message.to].parcel(message.parcel.len())?;
                    self.figures.messages += 1;
                    self.figures.bytes += 64 * parcel.len() as u64;
                    let delivery = Delivery { parcel, tries };
                    self.figures.cycles += delivery.cycles();
                    done.push((number, delivery));
                } else {
                    ends = vec![(message.to, into.status), (message.from, out.status)];
                    earlier.push((number, tries));
                    failed.push((number, message));
                }
            }
            messages = failed;
            if messages.is_empty() {
                return Ok(done);
            }
            self.figures.repeated += messages.len() as u64;
            self.go_on(cores)?;
        }
        let (from, to) = (messages[0].1.from, messages[0].1.to);
        let all = (1u32 << cores[from].config().link().lanes()) - 1;
        let sound = |s: &LinkStatus| s.up && !s.fault && !s.peer_fault && s.locked & all == all;
        let what = format!("does not carry a message from DIMM {from} to DIMM {to}, sent {TRIES} times");
        let cycle = self.lockstep.cycle();
        let worst = ends.iter().find(|(_, status)| !sound(status)).or(ends.first());
        Err(worst.map_or(SimError::waits(cycle), |(dimm, status)| failed(*dimm, status, &what, cycle)))
    }

    /// Tells all links that are faulty to go on, and waits for them a while.
    fn go_on(&mut self, cores: &mut [GemvUnit]) -> Result<(), SimError> {
        self.lockstep.retrain_bridge();
        let jobs = cores.iter().map(|_| Some(())).collect();
        self.lockstep
            .run(cores, jobs, self.threads, &async |core: &mut GemvUnit, ()| core.retrain_async().await)?;
        let limit = 2 * u64::from(cores[0].config().link().lock_cycles());
        self.wait_until_up(cores, limit).map(|_| ())
    }

    /// A number that both sides of a message know it by.
    fn next_slot(&mut self, kind: u32) -> u32 {
        self.slot = (self.slot + 1) % SLOTS;
        kind * SLOTS + self.slot
    }

    /// By how many cycles a DIMM takes late what comes to it now.
    fn late(&mut self, dimm: usize, now: u64) -> u64 {
        let due = |fault: &(u64, usize, u64)| fault.0 <= now && fault.1 == dimm;
        self.full.iter().position(due).map_or(0, |at| self.full.swap_remove(at).2)
    }

    /// Neurons begin to move beside the cores' next programs, `lead` cycles before these; returns the cores that need a program. A neuron that
    /// no parcel holds stays where it is.
    ///
    /// # Errors
    /// [`SimError::Range`] for a core without a link.
    pub fn begin_moves(&mut self, cores: &mut [GemvUnit], lead: u64) -> Result<Vec<usize>, SimError> {
        let most = cores[0].parcel_bursts();
        let mut busy = vec![false; cores.len()];
        let mut beside: Vec<Vec<Instruction>> = vec![Vec::new(); cores.len()];
        for flight in self.residence.next_flights(cores.len(), most) {
            let parcel = self.residence.pack(&flight);
            let slot = self.next_slot(1);
            match flight {
                Flight::Move { from, to, .. } => {
                    let send = cores[from].stage(to as u32, slot, &parcel)?;
                    let receive = cores[to].await_parcel(from as u32, slot, parcel.len())?;
                    // A core that waits for a message sends its own first.
                    beside[from].insert(0, send);
                    beside[to].push(receive);
                    (busy[from], busy[to]) = (true, true);
                    self.figures.migration_bytes += 64 * parcel.len() as u64;
                }
                Flight::Upload { from, .. } => {
                    cores[from].upload_beside_next(&parcel, lead)?;
                    busy[from] = true;
                    self.figures.upload_bytes += 64 * parcel.len() as u64;
                }
            }
            self.residence.take_off(flight, parcel.len());
        }
        for (core, instructions) in cores.iter_mut().zip(beside).filter(|(_, i)| !i.is_empty()) {
            core.beside_next(instructions, lead);
        }
        Ok((0..cores.len()).filter(|core| busy[*core]).collect())
    }

    /// Looks which moves are complete. Neurons whose weights have not arrived stay where they are. Returns the ways that were taken, with bytes.
    ///
    /// # Errors
    /// As [`Lockstep::run`].
    pub fn end_moves(&mut self, cores: &mut [GemvUnit]) -> Result<Vec<(Place, u64)>, SimError> {
        let flights = self.residence.flying();
        if flights.is_empty() {
            return Ok(Vec::new());
        }
        let mut asked = vec![false; cores.len()];
        for (flight, _) in &flights {
            if let Flight::Move { from, to, .. } = flight {
                (asked[*from], asked[*to]) = (true, true);
            }
        }
        let jobs = asked.iter().map(|asked| asked.then_some(())).collect();
        let outcomes = self
            .lockstep
            .run(cores, jobs, self.threads, &async |core: &mut GemvUnit, ()| core.outcome_async().await)?;
        let (mut ways, mut any_failed) = (Vec::new(), false);
        for (flight, bursts) in flights {
            let (arrived, parcel) = match &flight {
                Flight::Move { from, to, .. } => {
                    let ok = outcomes[*from].is_some_and(|o| o.sent > 0)
                        && outcomes[*to].is_some_and(|o| o.received > 0);
                    (ok, cores[*to].parcel(bursts)?)
                }
                Flight::Upload { from, .. } => (true, cores[*from].uploaded()),
            };
            if arrived {
                self.residence.arrive(&flight, &parcel);
            } else {
                any_failed = true;
            }
            let way = match &flight {
                Flight::Move { to, .. } => Place::LinkIn(*to as u32),
                Flight::Upload { .. } => Place::BusUp,
            };
            let bytes = 64 * bursts as u64;
            match ways.iter_mut().find(|(other, _): &&mut (Place, u64)| *other == way) {
                Some((_, sum)) => *sum += bytes,
                None => ways.push((way, bytes)),
            }
            let moved = flight.neurons() as u64;
            match (flight, arrived) {
                (Flight::Move { .. }, true) => self.figures.migrations += moved,
                (Flight::Upload { .. }, true) => self.figures.uploads += moved,
                _ => self.figures.failed_moves += moved,
            }
        }
        if any_failed {
            self.go_on(cores)?;
        }
        Ok(ways)
    }

    /// The faults that have not come into effect.
    pub fn pending_faults(&self) -> Vec<LinkFault> {
        let full = |&(cycle, dimm, cycles): &(u64, usize, u64)| LinkFault {
            cycle,
            dimm,
            kind: FaultKind::Full(cycles),
        };
        let late = self.planned.iter().filter(|fault| fault.cycle >= self.lockstep.cycle()).copied();
        self.full.iter().map(full).chain(late).collect()
    }

    /// What the controllers of all links have counted.
    ///
    /// # Errors
    /// As [`Lockstep::run`].
    pub fn count(&mut self, cores: &mut [GemvUnit]) -> Result<(), SimError> {
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

/// A core's part of a round.
async fn transfer(
    core: &mut GemvUnit,
    sides: Vec<Side>,
) -> Result<(ProgramFigures, crate::gemv::Outcome), SimError> {
    let (mut instructions, mut waits) = (Vec::new(), 0);
    for side in sides {
        instructions.push(match side {
            Side::Send { to, slot, parcel } => core.stage(to, slot, &parcel)?,
            Side::Receive { from, slot, bursts, late } => {
                waits = late;
                core.await_parcel(from, slot, bursts)?
            }
        });
    }
    // What is sent must not wait for what comes.
    instructions.sort_by_key(|instruction| matches!(instruction, Instruction::Receive(_)));
    if waits > 0 {
        core.pass_async(waits).await?;
    }
    instructions.push(Instruction::Barrier);
    let figures = core.transfer_async(&instructions).await?;
    Ok((figures, core.outcome_async().await?))
}

/// The error for a link that does not work.
fn failed(dimm: usize, status: &LinkStatus, what: &str, cycle: u64) -> SimError {
    SimError::LinkFault {
        dimm,
        what: what.to_owned(),
        cycle,
        state: format!(
            "up {}, fault {}, fault of the other side {}, cause {:#04b}, lanes locked {:#010b}, failures {:#010b}",
            status.up, status.fault, status.peer_fault, status.cause, status.locked, status.failures
        ),
    }
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
