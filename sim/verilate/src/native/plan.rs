//! In which order the nodes of a netlist are computed.
//!
//! A plan is for one edge of a clock, or for the outputs. First come nodes that more than one place needs: scalars, and
//! vectors whose scalars are taken, in turns; then registers and memories without lanes, then those with lanes, array
//! by array. Nodes that only registers with one enable need are computed where it is set. A register read after it was
//! written would give its new value: such reads move to the front.
//!
//! The registers of one instance without an enable are a region. If neither its inputs nor its own values have changed
//! since it was last computed, it would get the same values again: nothing is computed.

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

/// The code in which a node is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Root,
    Block(usize),
    /// Before anything is written, if that block, which is one of an array, will do something.
    Feed(usize),
}

/// Nodes and targets under one condition.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// `None` for a region.
    pub enable: Option<Id>,
    /// Inputs that wake a region: everything it reads except its own registers.
    pub inputs: Vec<Id>,
    pub nodes: Vec<Id>,
    pub targets: Vec<Target>,
}

/// New contents of everything without lanes, or of an array.
#[derive(Clone, Debug, Default)]
pub struct Update {
    pub group: Option<u32>,
    /// Computed in any case; without lanes part of the first steps.
    pub nodes: Vec<Id>,
    pub blocks: Vec<Block>,
    /// Written in any case, after the blocks.
    pub targets: Vec<Target>,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// Scalars, and vectors that are gathered from them.
    Scalars(Vec<Id>),
    Vectors(u32, Vec<Id>),
}

#[derive(Debug)]
pub struct Plan {
    /// Computed first.
    pub steps: Vec<Step>,
    /// Needed only by blocks of arrays, under their conditions.
    pub feeds: Vec<Block>,
    /// Vectors for which the plan asks whether any lane is set.
    pub tested: BTreeSet<Id>,
    /// Written afterwards, things without lanes first.
    pub updates: Vec<Update>,
    /// Vectors kept until the plan's end because others take lanes or load them.
    pub kept: BTreeSet<Id>,
}

/// Array and instance whose registers without an enable are a region.
type Region<'a> = (Option<u32>, &'a str);

/// Least ratio of nodes to inputs of a region: the saving has to outweigh the check of the inputs.
const NODES_PER_INPUT: usize = 4;

/// Blocks before their nodes are known: targets, and the region of each block.
struct Blocks<'a> {
    updates: Vec<Update>,
    regions: Vec<Option<Region<'a>>>,
}

struct Planner<'a> {
    netlist: &'a Netlist,
    needed: Vec<bool>,
    early: Vec<bool>,
    turn: Vec<u32>,
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

fn group_of(netlist: &Netlist, target: Target) -> Option<u32> {
    match target {
        Target::Register(number) => netlist.registers[number as usize].group,
        Target::Memory(number) => netlist.memories[number as usize].group,
        Target::Output(_) => None,
        Target::Check(number) => netlist.checks[number as usize].group,
    }
}

impl Plan {
    pub fn new(netlist: &Netlist, event: &Event) -> Self {
        let targets = targets(netlist, event);
        let nodes = &netlist.graph.nodes;
        let mut planner = Planner {
            netlist,
            needed: vec![false; nodes.len()],
            early: vec![false; nodes.len()],
            turn: vec![0; nodes.len()],
        };
        planner.mark(&targets);
        planner.take_turns();
        planner.plan(&targets)
    }
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

    fn group(&self, id: Id) -> Option<u32> {
        self.netlist.graph.nodes[id as usize].group
    }

    fn constant(&self, id: Id) -> bool {
        matches!(self.op(id), Op::Word(_) | Op::Bit(_) | Op::Table(_))
    }

    fn mark(&mut self, targets: &[Target]) {
        for target in targets {
            let (nodes, enable) = inputs_of(self.netlist, *target);
            for id in nodes.into_iter().chain(enable) {
                self.needed[id as usize] = true;
            }
            if let Some(enable) = enable
                && self.group(enable).is_some()
            {
                self.early[enable as usize] = true;
            }
        }
        for id in (0..self.needed.len()).rev() {
            if !self.needed[id] {
                continue;
            }
            let (id, early) = (id as Id, self.early[id]);
            let lane = matches!(self.op(id), Op::Lane(..));
            for operand in self.op(id).operands() {
                self.needed[operand as usize] = true;
                if self.group(operand).is_some() && (lane || early) {
                    self.early[operand as usize] = true;
                }
            }
        }
    }

    fn take_turns(&mut self) {
        for id in 0..self.needed.len() {
            let node = &self.netlist.graph.nodes[id];
            let scalar = node.group.is_none() || matches!(node.op, Op::Gather(_));
            let after = |operand: &Id| {
                let vector = self.group(*operand).is_some() && !matches!(self.op(*operand), Op::Gather(_));
                let state = matches!(self.op(*operand), Op::State { .. });
                self.turn[*operand as usize] + u32::from(scalar && vector && !state)
            };
            self.turn[id] = node.op.operands().iter().map(after).max().unwrap_or(0);
        }
    }

    fn plan(&self, targets: &[Target]) -> Plan {
        let mut regions: BTreeSet<Region<'_>> =
            targets.iter().filter_map(|target| self.region(*target)).collect();
        let blocks = self.blocks(targets, &regions);
        let places = self.places(&blocks);
        for block in self.regions(&blocks, &places) {
            if block.nodes.len() < NODES_PER_INPUT * block.inputs.len().max(1) {
                regions.remove(&self.region(block.targets[0]).unwrap_or_default());
            }
        }
        let blocks = self.blocks(targets, &regions);
        let mut places = self.places(&blocks);
        let enables = blocks.updates.iter().flat_map(|update| &update.blocks).map(|block| block.enable);
        let feeds = enables.map(|enable| Block { enable, ..Block::default() }).collect();
        let mut updates = blocks.updates;
        let mut base = 0;
        for update in &mut updates {
            self.order(update, base, &mut places);
            base += update.blocks.len();
        }
        for block in updates.iter_mut().flat_map(|update| &mut update.blocks) {
            if block.enable.is_none() {
                block.inputs = self.inputs(block);
            }
        }
        self.collect(updates, feeds, &places)
    }

    /// The region that a register may be part of.
    fn region(&self, target: Target) -> Option<Region<'_>> {
        let Target::Register(number) = target else { return None };
        let register = &self.netlist.registers[number as usize];
        let instance = register.name.rsplit_once('.').map_or("", |(instance, _)| instance);
        register.enable.is_none().then_some((register.group, instance))
    }

    fn blocks<'b>(&'b self, targets: &[Target], regions: &BTreeSet<Region<'b>>) -> Blocks<'b> {
        let groups: BTreeSet<Option<u32>> =
            targets.iter().map(|target| group_of(self.netlist, *target)).collect();
        let (mut updates, mut regions_of) = (Vec::new(), Vec::new());
        for group in groups {
            let mut enabled: BTreeMap<Id, Block> = BTreeMap::new();
            let mut resting: BTreeMap<Region<'_>, Block> = BTreeMap::new();
            let mut always = Vec::new();
            for target in targets.iter().filter(|target| group_of(self.netlist, **target) == group) {
                let region = self.region(*target).filter(|region| regions.contains(region));
                match (inputs_of(self.netlist, *target).1, region) {
                    (Some(enable), _) => {
                        let block = enabled.entry(enable).or_default();
                        block.enable = Some(enable);
                        block.targets.push(*target);
                    }
                    (None, Some(region)) => resting.entry(region).or_default().targets.push(*target),
                    (None, None) => always.push(*target),
                }
            }
            regions_of
                .extend(enabled.values().map(|_| None).chain(resting.keys().map(|region| Some(*region))));
            let blocks = enabled.into_values().chain(resting.into_values()).collect();
            updates.push(Update { group, nodes: Vec::new(), blocks, targets: always });
        }
        Blocks { updates, regions: regions_of }
    }

    /// Blocks are numbered through all updates.
    fn places(&self, blocks: &Blocks<'_>) -> Vec<Place> {
        let mut places = vec![Place::Nowhere; self.needed.len()];
        let mut number = 0;
        for update in &blocks.updates {
            for block in &update.blocks {
                for target in &block.targets {
                    for id in inputs_of(self.netlist, *target).0 {
                        self.use_at(&mut places, &blocks.regions, id, update.group, Place::Block(number));
                    }
                }
                if let Some(enable) = block.enable {
                    self.use_at(&mut places, &blocks.regions, enable, update.group, Place::Root);
                }
                number += 1;
            }
            for target in &update.targets {
                for id in inputs_of(self.netlist, *target).0 {
                    self.use_at(&mut places, &blocks.regions, id, update.group, Place::Root);
                }
            }
        }
        self.sink(&mut places, &blocks.regions);
        places
    }

    fn regions(&self, blocks: &Blocks<'_>, places: &[Place]) -> Vec<Block> {
        let mut of_number: Vec<Block> =
            blocks.updates.iter().flat_map(|update| update.blocks.iter().cloned()).collect();
        for (id, place) in places.iter().enumerate() {
            if let Place::Block(number) = *place
                && self.needed[id]
                && !self.constant(id as Id)
            {
                of_number[number].nodes.push(id as Id);
            }
        }
        let regions = of_number.into_iter().filter(|block| block.enable.is_none());
        regions.map(|block| Block { inputs: self.inputs(&block), ..block }).collect()
    }

    fn inputs(&self, block: &Block) -> Vec<Id> {
        let nodes: BTreeSet<Id> = block.nodes.iter().copied().collect();
        let next = block.targets.iter().flat_map(|target| inputs_of(self.netlist, *target).0);
        let read: BTreeSet<Id> = nodes.iter().flat_map(|id| self.op(*id).operands()).chain(next).collect();
        let own = |id: Id| match self.op(id) {
            Op::State { register, .. } => block.targets.contains(&Target::Register(*register)),
            _ => self.constant(id) || nodes.contains(&id),
        };
        read.into_iter().filter(|id| !own(*id)).collect()
    }

    /// Whether a node's value may change while its operands, and the registers of this region, do not.
    fn changes_by_itself(&self, id: Id, region: Option<Region<'_>>) -> bool {
        match self.op(id) {
            Op::State { register, .. } => self.region(Target::Register(*register)) != region,
            Op::Read { .. } | Op::Input { .. } | Op::Lane(..) | Op::Gather(_) => true,
            _ => false,
        }
    }

    fn use_at(
        &self,
        places: &mut [Place],
        regions: &[Option<Region<'_>>],
        id: Id,
        group: Option<u32>,
        place: Place,
    ) {
        // Inputs of an array from outside are ready before.
        let gathered = matches!(self.op(id), Op::Gather(_));
        let place = match place {
            // Such a node is an input of a region, which compares its value.
            Place::Block(number)
                if regions[number].is_some()
                    && (self.group(id) != group || self.changes_by_itself(id, regions[number])) =>
            {
                Place::Root
            }
            Place::Block(number) if group.is_some() && (gathered || self.group(id).is_none()) => {
                Place::Feed(number)
            }
            place if gathered || self.group(id) == group => place,
            _ => Place::Root,
        };
        let vector = self.group(id).is_some() && !gathered;
        let place = if vector && self.early[id as usize] { Place::Root } else { place };
        let known = &mut places[id as usize];
        *known = match *known {
            Place::Nowhere => place,
            same if same == place => same,
            _ => Place::Root,
        };
    }

    fn sink(&self, places: &mut [Place], regions: &[Option<Region<'_>>]) {
        for id in (0..places.len()).rev() {
            if !self.needed[id] {
                continue;
            }
            let place = places[id];
            let gathered = matches!(self.op(id as Id), Op::Gather(_));
            let group = if gathered { None } else { self.group(id as Id) };
            for operand in self.op(id as Id).operands() {
                self.use_at(places, regions, operand, group, place);
            }
        }
    }

    /// Contents that a node reads.
    fn reads(&self, id: Id) -> Option<Target> {
        match self.op(id) {
            Op::State { register, .. } => Some(Target::Register(*register)),
            Op::Read { memory, .. } => Some(Target::Memory(*memory)),
            // Arrays whose lanes are taken are written after everything else.
            _ => None,
        }
    }

    /// Puts blocks that read before blocks that write; where that is impossible, the reads move to the front.
    fn order(&self, update: &mut Update, base: usize, places: &mut [Place]) {
        let count = update.blocks.len();
        let mut writers: BTreeMap<Target, Vec<usize>> = BTreeMap::new();
        for (number, block) in update.blocks.iter().enumerate() {
            block.targets.iter().for_each(|target| writers.entry(*target).or_default().push(number));
        }
        let mut reading: Vec<(usize, Id, Target)> = Vec::new();
        for (id, place) in places.iter().enumerate() {
            if let Place::Block(number) = *place
                && self.needed[id]
                && (base..base + count).contains(&number)
                && let Some(target) = self.reads(id as Id)
            {
                reading.push((number - base, id as Id, target));
            }
        }
        let mut before: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
        for (reader, _, target) in &reading {
            for writer in writers.get(target).into_iter().flatten().filter(|writer| *writer != reader) {
                before[*writer].insert(*reader);
            }
        }
        let mut order = Vec::new();
        let mut left: Vec<usize> = (0..count).collect();
        let mut done = vec![false; count];
        while !left.is_empty() {
            let free = left.iter().position(|block| before[*block].iter().all(|other| done[*other]));
            let block = left.remove(free.unwrap_or(0));
            done[block] = true;
            order.push(block);
        }
        let mut rank = vec![0; count];
        for (position, block) in order.iter().enumerate() {
            rank[*block] = position;
        }
        for (reader, id, target) in reading {
            let late = writers.get(&target).into_iter().flatten().any(|writer| rank[*writer] < rank[reader]);
            if late {
                self.lift(places, id);
            }
        }
        for (id, place) in places.iter().enumerate() {
            if let Place::Block(number) = *place
                && let Some(block) = number.checked_sub(base).and_then(|number| update.blocks.get_mut(number))
                && self.needed[id]
                && !self.constant(id as Id)
            {
                block.nodes.push(id as Id);
            }
        }
        let mut blocks: Vec<Option<Block>> =
            std::mem::take(&mut update.blocks).into_iter().map(Some).collect();
        update.blocks = order.into_iter().filter_map(|number| blocks[number].take()).collect();
    }

    fn lift(&self, places: &mut [Place], id: Id) {
        if places[id as usize] != Place::Root {
            places[id as usize] = Place::Root;
            self.op(id).operands().into_iter().for_each(|operand| self.lift(places, operand));
        }
    }

    fn collect(&self, mut updates: Vec<Update>, mut feeds: Vec<Block>, places: &[Place]) -> Plan {
        let mut scalars: BTreeMap<u32, Vec<Id>> = BTreeMap::new();
        let mut vectors: BTreeMap<(u32, u32), Vec<Id>> = BTreeMap::new();
        let mut kept = BTreeSet::new();
        for id in 0..self.needed.len() as Id {
            let index = id as usize;
            if !self.needed[index] || self.constant(id) {
                continue;
            }
            let turn = self.turn[index];
            if let Place::Feed(number) = places[index] {
                feeds[number].nodes.push(id);
                if matches!(self.op(id), Op::Gather(_)) {
                    kept.insert(id);
                }
                continue;
            }
            match self.op(id) {
                Op::Gather(_) => {
                    scalars.entry(turn).or_default().push(id);
                    kept.insert(id);
                }
                op => match self.group(id) {
                    None if places[index] == Place::Root => scalars.entry(turn).or_default().push(id),
                    None => {}
                    Some(group) if self.early[index] && !matches!(op, Op::State { .. }) => {
                        vectors.entry((turn, group)).or_default().push(id);
                        kept.insert(id);
                    }
                    Some(group) if places[index] == Place::Root => {
                        if let Some(update) = updates.iter_mut().find(|update| update.group == Some(group)) {
                            update.nodes.push(id);
                        }
                    }
                    Some(_) => {}
                },
            }
        }
        let last = scalars.keys().chain(vectors.keys().map(|(turn, _)| turn)).max().copied().unwrap_or(0);
        let mut steps = Vec::new();
        for turn in 0..=last {
            steps.extend(scalars.remove(&turn).map(Step::Scalars));
            let of_turn = vectors.range((turn, 0)..=(turn, u32::MAX));
            steps.extend(of_turn.map(|((_, group), nodes)| Step::Vectors(*group, nodes.clone())));
        }
        feeds.retain(|feed| !feed.nodes.is_empty());
        let conditions = feeds.iter().filter_map(|feed| feed.enable);
        let tested = conditions.filter(|id| self.group(*id).is_some()).collect();
        Plan { steps, feeds, tested, updates, kept }
    }
}
