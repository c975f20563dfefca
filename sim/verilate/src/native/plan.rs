//! Divides the nodes of a netlist into tasks, orders the tasks, and lists the sources of each.
//!
//! A plan is for one edge of a clock, or for the outputs. A task consists of nodes and targets of one instance, or of one
//! instance of an array for all its lanes; small instances count as parts of their parents. If nothing that a task reads
//! has changed since it was last computed, it would compute and write the same again, and is left out. Between tasks,
//! values only go to a higher level, so the levels give an order.
//!
//! Nodes that only registers with one enable need are computed where it is set. Contents that a task writes and a later
//! task reads are `late`: they are written after all tasks.

use ndp_hdl_language::{Id, MemoryArray, Netlist, Op, Register};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An edge of the clock of that name.
    Edge(String),
    Settle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    Register(u32),
    Memory(u32),
    /// An output, by its number among them.
    Output(usize),
    Check(u32),
}

/// Values that a task reads, besides its own nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Register(u32),
    Memory(u32),
    Port(u32),
    /// A node of another task.
    Node(Id),
}

/// Nodes and targets under one condition.
#[derive(Clone, Debug)]
pub struct Block {
    pub enable: Id,
    pub nodes: Vec<Id>,
    pub targets: Vec<Target>,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub group: Option<u32>,
    /// Computed in any case, or loaded if they belong to another task.
    pub nodes: Vec<Id>,
    /// Its own nodes that other tasks read.
    pub outputs: Vec<Id>,
    pub blocks: Vec<Block>,
    /// Written in any case.
    pub targets: Vec<Target>,
    pub reads: BTreeSet<Source>,
    pub late: BTreeSet<Target>,
}

#[derive(Debug)]
pub struct Plan {
    pub tasks: Vec<Task>,
    /// Numbers of the tasks that read a source.
    pub readers: BTreeMap<Source, Vec<usize>>,
    /// The task of each node that belongs to one.
    pub homes: BTreeMap<Id, usize>,
}

/// Fewest nodes of an instance whose nodes are tasks of their own.
const FEWEST_NODES: u32 = 24;

/// Fewest nodes and targets that are a task of their own.
const FEWEST_PARTS: usize = 48;

/// Where a node is computed; tasks have different spots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    level: u32,
    group: Option<u32>,
    scope: u32,
    /// Nodes and targets of one level of an instance that have nothing in common are apart.
    part: u32,
}

/// The users of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need<T> {
    One(T),
    Many,
}

impl<T: PartialEq> Need<T> {
    fn add(known: &mut Option<Self>, by: T) {
        *known = match known.take() {
            None => Some(Self::One(by)),
            Some(Self::One(same)) if same == by => Some(Self::One(same)),
            Some(_) => Some(Self::Many),
        };
    }
}

struct Planner<'a> {
    netlist: &'a Netlist,
    needed: Vec<bool>,
    /// Nodes that each task computes or loads for itself.
    free: Vec<bool>,
    /// The instance that stands for each.
    scopes: Vec<u32>,
    spots: Vec<Option<Spot>>,
}

pub fn inputs_of(netlist: &Netlist, target: Target) -> (Vec<Id>, Option<Id>) {
    match target {
        Target::Register(number) => {
            let Register { next, enable, .. } = &netlist.registers[number as usize];
            (next.clone(), *enable)
        }
        Target::Memory(number) => {
            let MemoryArray { addr, data, written, whole, enable, group, .. } =
                &netlist.memories[number as usize];
            let mut nodes = data.clone();
            nodes.push(*addr);
            // The mask is only read if there is more than one case.
            let lanes = group.is_some() && netlist.graph.nodes[*enable as usize].group.is_some();
            if !*whole || lanes {
                nodes.extend(written);
            }
            (nodes, Some(*enable))
        }
        Target::Output(number) => (netlist.outputs[number].1.clone(), None),
        Target::Check(number) => (vec![netlist.checks[number as usize].holds], None),
    }
}

impl Plan {
    pub fn new(netlist: &Netlist, event: &Event) -> Self {
        let count = netlist.graph.nodes.len();
        let mut planner = Planner {
            netlist,
            needed: vec![false; count],
            free: vec![false; count],
            scopes: Vec::new(),
            spots: vec![None; count],
        };
        let targets = targets(netlist, event);
        planner.mark(&targets);
        planner.join_scopes();
        let targets = planner.take_spots(&targets);
        let targets = planner.separate(targets);
        planner.plan(&targets)
    }
}

fn readers_of(tasks: &[Task]) -> BTreeMap<Source, Vec<usize>> {
    let mut readers: BTreeMap<Source, Vec<usize>> = BTreeMap::new();
    for (number, task) in tasks.iter().enumerate() {
        task.reads.iter().for_each(|source| readers.entry(*source).or_default().push(number));
    }
    readers
}

/// Registers and memories that a task writes.
fn written(task: &Task) -> impl Iterator<Item = (Target, Source)> {
    let targets = task.targets.iter().chain(task.blocks.iter().flat_map(|block| &block.targets));
    targets.filter_map(|target| match target {
        Target::Register(number) => Some((*target, Source::Register(*number))),
        Target::Memory(number) => Some((*target, Source::Memory(*number))),
        Target::Output(_) | Target::Check(_) => None,
    })
}

/// Orders tasks: each after those whose nodes it reads, and if possible after the readers of its targets.
fn order(tasks: &[Task], readers: &BTreeMap<Source, Vec<usize>>, homes: &BTreeMap<Id, usize>) -> Vec<usize> {
    let mut after: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); tasks.len()];
    let mut writers: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    // Nodes to wait for, and tasks that should come first.
    let (mut waits, mut unread) = (vec![0; tasks.len()], vec![0; tasks.len()]);
    for (number, task) in tasks.iter().enumerate() {
        for source in &task.reads {
            if let Source::Node(id) = source
                && after[homes[id]].insert(number)
            {
                waits[number] += 1;
            }
        }
        for (_, source) in written(task) {
            for reader in readers.get(&source).into_iter().flatten().filter(|reader| **reader != number) {
                writers[*reader].push(number);
                unread[number] += 1;
            }
        }
    }
    let mut ready: BTreeSet<(usize, usize)> =
        (0..tasks.len()).filter(|task| waits[*task] == 0).map(|task| (unread[task], task)).collect();
    let mut order = Vec::new();
    while let Some((_, task)) = ready.pop_first() {
        order.push(task);
        for writer in &writers[task] {
            let was = ready.remove(&(unread[*writer], *writer));
            unread[*writer] -= 1;
            if was {
                ready.insert((unread[*writer], *writer));
            }
        }
        for next in &after[task] {
            waits[*next] -= 1;
            if waits[*next] == 0 {
                ready.insert((unread[*next], *next));
            }
        }
    }
    order
}

fn targets(netlist: &Netlist, event: &Event) -> Vec<Target> {
    match event {
        Event::Settle => (0..netlist.outputs.len()).map(Target::Output).collect(),
        Event::Edge(clock) => {
            let registers = (0..).zip(&netlist.registers).filter(|(_, register)| register.clock == *clock);
            let memories = (0..).zip(&netlist.memories).filter(|(_, memory)| memory.clock == *clock);
            let checks = (0..).zip(&netlist.checks).filter(|(_, check)| check.clock == *clock);
            let registers = registers.map(|(number, _)| Target::Register(number));
            let checks = checks.map(|(number, _)| Target::Check(number));
            registers.chain(memories.map(|(number, _)| Target::Memory(number))).chain(checks).collect()
        }
    }
}

impl Planner<'_> {
    fn op(&self, id: Id) -> &Op {
        &self.netlist.graph.nodes[id as usize].op
    }

    /// The array in whose lanes a node is computed. Vectors are gathered outside.
    fn group(&self, id: Id) -> Option<u32> {
        let node = &self.netlist.graph.nodes[id as usize];
        if matches!(node.op, Op::Gather(_)) { None } else { node.group }
    }

    /// Array and instance of a target.
    fn place(&self, target: Target) -> (Option<u32>, u32) {
        let (group, scope) = match target {
            Target::Register(number) => {
                let register = &self.netlist.registers[number as usize];
                (register.group, register.scope)
            }
            Target::Memory(number) => {
                let memory = &self.netlist.memories[number as usize];
                (memory.group, memory.scope)
            }
            Target::Output(_) => (None, 0),
            Target::Check(number) => {
                let check = &self.netlist.checks[number as usize];
                (check.group, check.scope)
            }
        };
        (group, self.scopes[scope as usize])
    }

    fn inputs(&self, target: Target) -> Vec<Id> {
        let (mut nodes, enable) = inputs_of(self.netlist, target);
        nodes.extend(enable);
        nodes
    }

    /// Finds the nodes that are needed, and those that are free.
    fn mark(&mut self, targets: &[Target]) {
        for target in targets {
            self.inputs(*target).into_iter().for_each(|id| self.needed[id as usize] = true);
        }
        // Vectors whose lanes are taken, and scalars that are used in lanes.
        let mut shared = vec![false; self.needed.len()];
        for id in (0..self.needed.len()).rev() {
            if self.needed[id] {
                let op = self.op(id as Id).clone();
                let takes = matches!(op, Op::Lane(..) | Op::Gather(_));
                let inner = self.group(id as Id).is_some() || shared[id];
                for operand in op.operands() {
                    let vector = self.netlist.graph.nodes[operand as usize].group.is_some();
                    self.needed[operand as usize] = true;
                    shared[operand as usize] |= if vector { takes } else { inner };
                }
            }
        }
        for (id, shared) in shared.into_iter().enumerate() {
            self.free[id] = match self.op(id as Id) {
                Op::Word(_) | Op::Bit(_) | Op::Table(_) | Op::Mutant(_) => true,
                Op::Input { .. } | Op::State { .. } => true,
                // A lane must not be taken while lanes are computed.
                Op::Lane(..) => !shared,
                Op::Not(a) | Op::Flag(a) | Op::Mask(a) | Op::Test(a, _) => {
                    self.free[*a as usize] && !(shared && self.group(id as Id).is_some())
                }
                _ => false,
            };
        }
    }

    fn join_scopes(&mut self) {
        let mut weights = vec![0; self.netlist.scopes.len()];
        for (node, needed) in self.netlist.graph.nodes.iter().zip(&self.needed) {
            weights[node.scope as usize] += u32::from(*needed);
        }
        self.scopes = (0..weights.len() as u32).collect();
        for scope in (0..weights.len()).rev() {
            if let Some(parent) = self.netlist.scopes[scope].parent
                && weights[scope] < FEWEST_NODES
            {
                self.scopes[scope] = parent;
                weights[parent as usize] += weights[scope];
            }
        }
        for scope in 0..weights.len() {
            self.scopes[scope] = self.scopes[self.scopes[scope] as usize];
        }
    }

    /// The nodes of tasks that a node follows from.
    fn needs(&self, id: Id) -> Vec<Id> {
        if self.free[id as usize] {
            self.op(id).operands().into_iter().flat_map(|operand| self.needs(operand)).collect()
        } else {
            vec![id]
        }
    }

    fn needs_of(&self, ids: impl IntoIterator<Item = Id>) -> Vec<Id> {
        ids.into_iter().flat_map(|id| self.needs(id)).collect()
    }

    fn spot(&self, group: Option<u32>, scope: u32, needs: &[Id]) -> Spot {
        let level = needs
            .iter()
            .filter_map(|id| self.spots[*id as usize])
            .map(|spot| spot.level + u32::from((spot.group, spot.scope) != (group, scope)));
        Spot { level: level.max().unwrap_or(0), group, scope, part: 0 }
    }

    fn take_spots(&mut self, targets: &[Target]) -> BTreeMap<Target, Spot> {
        for id in 0..self.needed.len() {
            if self.needed[id] && !self.free[id] {
                let needs = self.needs_of(self.op(id as Id).operands());
                let scope = self.scopes[self.netlist.graph.nodes[id].scope as usize];
                self.spots[id] = Some(self.spot(self.group(id as Id), scope, &needs));
            }
        }
        let mut users: Vec<Option<Need<Spot>>> = vec![None; self.needed.len()];
        let mut spots = BTreeMap::new();
        for target in targets {
            let needs = self.needs_of(self.inputs(*target));
            let (group, scope) = self.place(*target);
            let mut all = needs.iter().filter_map(|id| self.spots[*id as usize]);
            let spot = match all.next() {
                Some(spot) if spot.group == group && all.all(|other| other == spot) => spot,
                _ => self.spot(group, scope, &needs),
            };
            needs.iter().for_each(|id| Need::add(&mut users[*id as usize], spot));
            spots.insert(*target, spot);
        }
        // A node that only one task uses becomes part of it.
        for id in (0..self.needed.len()).rev() {
            let Some(mut spot) = self.spots[id] else { continue };
            if let Some(Need::One(user)) = users[id]
                && user.group == spot.group
            {
                spot = user;
                self.spots[id] = Some(user);
            }
            let needs = self.needs_of(self.op(id as Id).operands());
            needs.iter().for_each(|id| Need::add(&mut users[*id as usize], spot));
        }
        spots
    }

    /// Gives each set of nodes and targets that no node connects a part of its own; small sets share one.
    fn separate(&mut self, mut targets: BTreeMap<Target, Spot>) -> BTreeMap<Target, Spot> {
        let nodes = self.spots.len();
        // Nodes, then targets; each leads to the first of its set.
        let mut leaders: Vec<usize> = (0..nodes + targets.len()).collect();
        fn first(leaders: &mut [usize], mut of: usize) -> usize {
            while leaders[of] != of {
                leaders[of] = leaders[leaders[of]];
                of = leaders[of];
            }
            of
        }
        let links = (0..nodes).filter_map(|id| Some((id, self.spots[id]?, self.op(id as Id).operands())));
        let others = (nodes..).zip(&targets).map(|(at, (target, spot))| (at, *spot, self.inputs(*target)));
        for (at, spot, operands) in links.chain(others) {
            for need in self.needs_of(operands) {
                if self.spots[need as usize] == Some(spot) {
                    let (a, b) = (first(&mut leaders, at), first(&mut leaders, need as usize));
                    leaders[a.max(b)] = a.min(b);
                }
            }
        }
        let leaders: Vec<usize> = (0..leaders.len()).map(|at| first(&mut leaders, at)).collect();
        let mut sizes = vec![0; leaders.len()];
        let members = (0..nodes).filter(|id| self.spots[*id].is_some()).chain(nodes..leaders.len());
        members.for_each(|at| sizes[leaders[at]] += 1);
        let part = |at: usize| if sizes[leaders[at]] < FEWEST_PARTS { 0 } else { 1 + leaders[at] as u32 };
        for (id, spot) in self.spots.iter_mut().enumerate() {
            spot.iter_mut().for_each(|spot| spot.part = part(id));
        }
        (nodes..).zip(targets.values_mut()).for_each(|(at, spot)| spot.part = part(at));
        targets
    }

    fn plan(&self, targets: &BTreeMap<Target, Spot>) -> Plan {
        let mut members: BTreeMap<Spot, (Vec<Id>, Vec<Target>)> = BTreeMap::new();
        let mut outputs = BTreeSet::new();
        let mut leaves = |spot: Spot, needs: Vec<Id>| {
            outputs.extend(needs.into_iter().filter(|id| self.spots[*id as usize] != Some(spot)));
        };
        for (id, spot) in self.spots.iter().enumerate() {
            if let Some(spot) = spot {
                members.entry(*spot).or_default().0.push(id as Id);
                leaves(*spot, self.needs_of(self.op(id as Id).operands()));
            }
        }
        for (target, spot) in targets {
            members.entry(*spot).or_default().1.push(*target);
            leaves(*spot, self.needs_of(self.inputs(*target)));
        }
        let tasks: Vec<Task> = members
            .iter()
            .map(|(spot, (nodes, targets))| {
                let outputs = nodes.iter().copied().filter(|id| outputs.contains(id)).collect();
                self.task(*spot, outputs, targets)
            })
            .collect();
        let numbers: BTreeMap<Spot, usize> = members.keys().copied().zip(0..).collect();
        let home = |(id, spot): (usize, &Option<Spot>)| spot.map(|spot| (id as Id, numbers[&spot]));
        let mut homes: BTreeMap<Id, usize> = self.spots.iter().enumerate().filter_map(home).collect();
        let order = order(&tasks, &readers_of(&tasks), &homes);
        let mut places = vec![0; tasks.len()];
        order.iter().enumerate().for_each(|(place, number)| places[*number] = place);
        homes.values_mut().for_each(|home| *home = places[*home]);
        let mut tasks: Vec<Task> = order.into_iter().map(|number| tasks[number].clone()).collect();
        let readers = readers_of(&tasks);
        for (number, task) in tasks.iter_mut().enumerate() {
            let last = |source| readers.get(&source).and_then(|readers| readers.last());
            let late = written(task).filter(|(_, source)| last(*source).is_some_and(|last| *last > number));
            task.late = late.map(|(target, _)| target).collect();
        }
        Plan { tasks, readers, homes }
    }

    fn task(&self, spot: Spot, outputs: Vec<Id>, targets: &[Target]) -> Task {
        let mut blocks: BTreeMap<Id, Vec<Target>> = BTreeMap::new();
        let mut always = Vec::new();
        for target in targets {
            match inputs_of(self.netlist, *target).1 {
                Some(enable) => blocks.entry(enable).or_default().push(*target),
                None => always.push(*target),
            }
        }
        let mut blocks: Vec<Block> = blocks
            .into_iter()
            .map(|(enable, targets)| Block { enable, nodes: Vec::new(), targets })
            .collect();
        // The block that needs a node; no block, if it is needed in any case.
        let mut uses: BTreeMap<Id, Need<usize>> = BTreeMap::new();
        let add = |uses: &mut BTreeMap<Id, Need<usize>>, id: Id, by: Need<usize>| {
            let known = uses.entry(id).or_insert(by);
            if *known != by {
                *known = Need::Many;
            }
        };
        outputs.iter().for_each(|id| add(&mut uses, *id, Need::Many));
        let mut writers: BTreeMap<Target, Need<usize>> = BTreeMap::new();
        let in_blocks = blocks.iter().enumerate().flat_map(|(number, block)| {
            add(&mut uses, block.enable, Need::Many);
            block.targets.iter().map(move |target| (*target, Need::One(number)))
        });
        for (target, by) in
            in_blocks.collect::<Vec<_>>().into_iter().chain(always.iter().map(|target| (*target, Need::Many)))
        {
            writers.insert(target, by);
            inputs_of(self.netlist, target).0.into_iter().for_each(|id| add(&mut uses, id, by));
        }
        let mut reads = BTreeSet::new();
        for target in &always {
            if let Target::Check(number) = target {
                let reset = &self.netlist.checks[*number as usize].reset;
                let port = self.netlist.ports.iter().position(|port| port.name == *reset);
                reads.extend(port.map(|port| Source::Port(port as u32)));
            }
        }
        let mut nodes = Vec::new();
        while let Some((id, mut by)) = uses.pop_last() {
            let op = self.op(id);
            if matches!(op, Op::Word(_) | Op::Bit(_) | Op::Table(_)) {
                continue;
            }
            // Other blocks must read contents before one block writes them.
            let written = match op {
                Op::State { register, .. } => writers.get(&Target::Register(*register)),
                Op::Read { memory, .. } => writers.get(&Target::Memory(*memory)),
                _ => None,
            };
            if written.is_some_and(|writer| *writer != by) {
                by = Need::Many;
            }
            match by {
                Need::One(block) => blocks[block].nodes.push(id),
                Need::Many => nodes.push(id),
            }
            let outside = !self.free[id as usize] && self.spots[id as usize] != Some(spot);
            match op {
                _ if outside => drop(reads.insert(Source::Node(id))),
                Op::State { register, .. } => drop(reads.insert(Source::Register(*register))),
                Op::Input { port, .. } => drop(reads.insert(Source::Port(*port))),
                Op::Lane(vector, _) => drop(reads.insert(self.vector(*vector))),
                op => {
                    if let Op::Read { memory, .. } = op {
                        reads.insert(Source::Memory(*memory));
                    }
                    let gather = matches!(op, Op::Gather(_));
                    for operand in op.operands() {
                        match self.op(operand) {
                            Op::Lane(vector, _) if gather => drop(reads.insert(self.vector(*vector))),
                            _ => add(&mut uses, operand, by),
                        }
                    }
                }
            }
        }
        nodes.reverse();
        blocks.iter_mut().for_each(|block| block.nodes.reverse());
        Task { group: spot.group, nodes, outputs, blocks, targets: always, reads, late: BTreeSet::new() }
    }

    /// A vector whose lanes are taken.
    fn vector(&self, id: Id) -> Source {
        match self.op(id) {
            Op::State { register, .. } => Source::Register(*register),
            _ => Source::Node(id),
        }
    }
}
