//! The C++ of a native model: one structure with its whole state, and functions over it.
//!
//! Each event has sets of bits: `live` for tasks that have to be computed, `later` for tasks that have to be computed at
//! its next edge, `late` for writes after the tasks. Values between tasks are `t`, vectors `g`. Contents that wait to be
//! written are `x`; `v` has the pins at the last event.

mod expressions;
mod writes;

use super::plan::{Block, Event, Plan, Source, Target};
use ndp_hdl_language::{Id, Netlist, Node, Op, Port, limbs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use writes::{Moved, set};

/// Bounds on the instances that are computed together.
const MOST_LANES: u32 = 16;
const FEWEST_LANES: u32 = 4;

/// Bytes of functions that are compiled together.
const PIECE_BYTES: usize = 600_000;

pub(super) struct Text<'a> {
    netlist: &'a Netlist,
    /// Events by the names of their functions.
    plans: Vec<(String, Plan)>,
    /// Numbers of the event and the task that are being written.
    event: usize,
    task: usize,
    /// Number of things that each event may write late.
    late: Vec<usize>,
    /// Text and declaration of each function.
    functions: Vec<(String, String)>,
    timed: u32,
    counted: u32,
    /// Operations of a timed function, or of a counted block in it, by modules: rows of the profile's table.
    shares: String,
}

impl<'a> Text<'a> {
    pub fn new(netlist: &'a Netlist) -> Self {
        let events = std::iter::once(("settle".to_owned(), Event::Settle));
        let edges = clocks(netlist)
            .into_iter()
            .map(|clock| (format!("edge_{clock}_"), Event::Edge(clock.to_owned())));
        let plans = events.chain(edges).map(|(name, event)| (name, Plan::new(netlist, &event))).collect();
        let mut text = Self {
            netlist,
            plans,
            event: 0,
            task: 0,
            late: Vec::new(),
            functions: Vec::new(),
            timed: 0,
            counted: 0,
            shares: String::new(),
        };
        for (event, clock) in std::iter::once(None).chain(clocks(netlist).into_iter().map(Some)).enumerate() {
            text.event = event;
            text.event(clock);
        }
        // All tasks are computed.
        text.define("void wake(State& s)".into(), &text.wake());
        text.define("void randomise(State& s, uint64_t seed)".into(), &text.fill());
        text
    }

    fn stride(&self, group: u32) -> u32 {
        self.netlist.graph.lanes[group as usize].next_multiple_of(self.vector_lanes(group))
    }

    fn vector_lanes(&self, group: u32) -> u32 {
        self.netlist.graph.lanes[group as usize].next_power_of_two().clamp(FEWEST_LANES, MOST_LANES)
    }

    fn node(&self, id: Id) -> &Node {
        &self.netlist.graph.nodes[id as usize]
    }

    /// Whether a node belongs to another task than the current one.
    fn outside(&self, id: Id) -> bool {
        self.plans[self.event].1.homes.get(&id).is_some_and(|home| *home != self.task)
    }

    fn event(&mut self, clock: Option<&str>) {
        let name = self.plans[self.event].0.clone();
        let mut calls = self.pins();
        let mut late = Vec::new();
        let count = self.plans[self.event].1.tasks.len();
        let mut tests = Vec::new();
        for number in 0..count {
            self.task = number;
            self.task(&format!("{name}{number}"), &mut late);
            tests.push(format!("NDP_TIME({}, {name}{number}(s))", self.timed));
            self.timed += 1;
        }
        calls += &dispatch(&format!("live{}", self.event), &tests);
        let tests: Vec<String> = (0..late.len()).map(|number| format!("{name}late{number}(s)")).collect();
        for (number, (group, targets)) in late.iter().enumerate() {
            let mut moved = Moved::default();
            let body: String = targets.iter().map(|target| self.late(*target, &mut moved)).collect();
            self.function(&format!("{name}late{number}"), *group, &body, &moved);
        }
        calls += &dispatch(&format!("late{}", self.event), &tests);
        self.late.push(late.len());
        let Some(clock) = clock else {
            self.define(format!("void {name}(State& s)"), &calls);
            return;
        };
        let (event, resets) = (self.event, self.resets(clock));
        // It returns whether another edge would change anything.
        let moves = format!("    bool moves = next(s.live{event}, s.later{event});\n");
        self.define(format!("bool {name}(State& s)"), &format!("{calls}{moves}{resets}    return moves;\n"));
    }

    /// Wakes the tasks that read pins which have changed.
    fn pins(&self) -> String {
        let mut text = String::new();
        for source in self.plans[self.event].1.readers.keys() {
            if let Source::Port(number) = source {
                let (event, name) = (self.event, &self.netlist.ports[*number as usize].name);
                let wake = set(&self.readers(*source));
                let _ = writeln!(text, "    if (changed(s.v{event}_{name}, s.p_{name})) {{{wake} }}");
            }
        }
        text
    }

    /// Writes the function of a task, and adds its late targets to `late`.
    fn task(&mut self, name: &str, late: &mut Vec<(Option<u32>, Vec<Target>)>) {
        let task = self.plans[self.event].1.tasks[self.task].clone();
        let turns = task.group.map_or(1, |group| self.stride(group) / self.vector_lanes(group));
        let own: Vec<Id> = task.nodes.iter().copied().filter(|id| !self.outside(*id)).collect();
        self.share(None, &own, turns);
        let mut moved = Moved::default();
        let mut known = BTreeSet::new();
        let mut body = String::new();
        for id in &task.nodes {
            body += &self.compute(*id, &mut known, &mut moved);
        }
        for id in task.outputs.iter().filter(|id| !matches!(self.node(**id).op, Op::Gather(_))) {
            let moved = moved.word(self.readers(Source::Node(*id)));
            let event = self.event;
            let (old, write) = match self.node(*id).group {
                None => (format!("s.t{event}_{id}"), format!("s.t{event}_{id} = n{id}")),
                Some(_) => {
                    let place = format!("s.g{event}_{id} + l");
                    (format!("load<V>({place})"), format!("store({place}, n{id})"))
                }
            };
            if let Some(moved) = moved {
                let _ = writeln!(body, "    {moved} |= n{id} ^ {old};");
            }
            let _ = writeln!(body, "    {write};");
        }
        for block in &task.blocks {
            let count = self.count(block);
            let vector = self.node(block.enable).group.is_some();
            let (load, condition) = self.lane_operand(block.enable, &mut known);
            let mut known = known.clone();
            let only = vector.then_some(condition.as_str());
            let mut inner = count;
            for id in &block.nodes {
                inner += &self.compute(*id, &mut known, &mut moved);
            }
            let (mut other, mut left) = (String::new(), Vec::new());
            for target in &block.targets {
                let is_late = task.late.contains(target);
                inner += &match task.group {
                    None => self.write(*target, is_late, &mut moved),
                    Some(_) => self.write_lanes(*target, only, is_late, &mut known, &mut moved),
                };
                if is_late {
                    left.push(*target);
                    other += &self.keep_lanes(*target);
                }
            }
            inner += &self.leave(task.group, left, late);
            let test = if vector { format!("any({condition})") } else { condition.clone() };
            let other =
                if vector && !other.is_empty() { format!(" else {{\n{other}    }}") } else { String::new() };
            let _ = writeln!(body, "{load}    if ({test}) {{\n{inner}    }}{other}");
        }
        let mut left = Vec::new();
        for target in &task.targets {
            let is_late = task.late.contains(target);
            body += &match task.group {
                None => self.write(*target, is_late, &mut moved),
                Some(_) => self.write_lanes(*target, None, is_late, &mut known, &mut moved),
            };
            left.extend(is_late.then_some(*target));
        }
        body += &self.leave(task.group, left, late);
        self.function(name, task.group, &body, &moved);
    }

    fn compute(&self, id: Id, known: &mut BTreeSet<Id>, moved: &mut Moved) -> String {
        let node = self.node(id);
        match (&node.op, node.group) {
            (Op::Gather(_), _) if self.outside(id) => String::new(),
            (Op::Gather(_), _) => {
                let word = moved.word(self.readers(Source::Node(id))).unwrap_or_default();
                self.gather(id, &word)
            }
            (_, None) => self.scalar(id),
            (Op::State { .. }, _) => self.lane_operand(id, known).0,
            _ if self.outside(id) => self.lane_operand(id, known).0,
            _ => self.vector(id, known),
        }
    }

    fn leave(
        &self,
        group: Option<u32>,
        targets: Vec<Target>,
        late: &mut Vec<(Option<u32>, Vec<Target>)>,
    ) -> String {
        if targets.is_empty() {
            return String::new();
        }
        let number = late.len();
        late.push((group, targets));
        format!("    s.late{}[{}] |= {:#x}u;\n", self.event, number / 64, 1_u64 << (number % 64))
    }

    /// Writes a function that wakes the readers of everything that `body` has changed.
    fn function(&mut self, name: &str, group: Option<u32>, body: &str, moved: &Moved) {
        let numbers = 0..moved.marks.len();
        let wake = |condition: &dyn Fn(usize) -> String| {
            let line = |(number, marks)| format!("    if ({}) {{{} }}\n", condition(number), set(marks));
            moved.marks.iter().enumerate().map(line).collect::<String>()
        };
        let Some(group) = group else {
            let words: String = numbers.map(|number| format!("    Word m{number} = 0;\n")).collect();
            let wake = wake(&|number| format!("m{number}"));
            self.define(format!("NDP_ALONE void {name}(State& s)"), &(words + body + &wake));
            return;
        };
        let (lanes, stride) = (self.vector_lanes(group), self.stride(group));
        let words: String = numbers.clone().map(|number| format!("    V m{number} = all<V>(0);\n")).collect();
        let bits: String =
            numbers.map(|number| format!(" | uint64_t{{any(m{number})}} << {number}")).collect();
        let wake = wake(&|number| format!("moved >> {number} & 1"));
        // Compilers spend minutes on loops around such long code: the loop is in another function.
        self.define(
            format!("NDP_ALONE uint64_t {name}lanes(State& s, unsigned l)"),
            &format!("    using V = Lanes<{lanes}>::Words;\n{words}{body}    return 0{bits};\n"),
        );
        let turns = format!("for (unsigned l = 0; l != {stride}; l += {lanes}) moved |= {name}lanes(s, l)");
        self.define(
            format!("NDP_ALONE void {name}(State& s)"),
            &format!("    uint64_t moved = 0;\n    {turns};\n{wake}"),
        );
    }

    fn define(&mut self, head: String, body: &str) {
        self.functions.push((format!("{head} {{\n{body}}}\n\n"), head));
    }

    /// Notes that the current function, or a counted block of it, computes `nodes` `turns` times.
    fn share(&mut self, counter: Option<u32>, nodes: &[Id], turns: u32) {
        let mut modules: BTreeMap<&str, u32> = BTreeMap::new();
        for id in nodes {
            *modules.entry(&self.netlist.scopes[self.node(*id).scope as usize].module).or_default() += turns;
        }
        for (title, nodes) in modules {
            let function = self.timed;
            let counter = counter.map_or(-1, i64::from);
            let _ = writeln!(self.shares, "    {{{function}, {counter}, \"{title}\", {nodes}}},");
        }
    }

    fn count(&mut self, block: &Block) -> String {
        let number = self.counted;
        self.counted += 1;
        let own: Vec<Id> = block.nodes.iter().copied().filter(|id| !self.outside(*id)).collect();
        self.share(Some(number), &own, 1);
        format!("    NDP_COUNT({number});\n")
    }

    fn resets(&self, clock: &str) -> String {
        let mut lines: BTreeMap<&str, String> = BTreeMap::new();
        for (number, register) in self.netlist.registers.iter().enumerate() {
            let Some((reset, words)) = register.reset.as_ref().filter(|_| register.clock == clock) else {
                continue;
            };
            let text = lines.entry(reset).or_default();
            for (limb, word) in words.iter().enumerate() {
                let lanes = register.group.is_some() && register.width == 1;
                let literal =
                    |word: u32| format!("{:#x}u", if lanes { 0_u32.wrapping_sub(word) } else { word });
                let others = register.other_resets.iter();
                let word = others.fold(literal(*word), |value, (mutant, other)| {
                    format!("s.mutant == {mutant} ? {} : {value}", literal(other[limb]))
                });
                let _ = match register.group {
                    None => writeln!(text, "        s.r{number}[{limb}] = {word};"),
                    Some(group) => {
                        let stride = self.stride(group);
                        writeln!(
                            text,
                            "        fill(s.r{number} + {}, {stride}, {word});",
                            limb as u32 * stride
                        )
                    }
                };
            }
        }
        lines
            .iter()
            .map(|(reset, text)| {
                format!("    if (!s.p_{reset}) {{\n        wake(s);\n        moves = true;\n{text}    }}\n")
            })
            .collect()
    }

    /// The state, and declarations of all functions.
    pub fn header(&self) -> String {
        let mut text = String::from("struct State {\n    NdpModel* model;\n");
        if self.netlist.has_mutants() {
            text += "    uint32_t mutant;\n";
        }
        for port in &self.netlist.ports {
            let Port { name, width, .. } = port;
            let _ = match width {
                1..=8 => writeln!(text, "    uint8_t p_{name};"),
                9..=16 => writeln!(text, "    uint16_t p_{name};"),
                17..=32 => writeln!(text, "    uint32_t p_{name};"),
                33..=64 => writeln!(text, "    uint64_t p_{name};"),
                _ => writeln!(text, "    Word p_{name}[{}];", limbs(*width)),
            };
        }
        for (number, register) in self.netlist.registers.iter().enumerate() {
            let words = limbs(register.width) * self.extent(register.group).1;
            let align = if register.group.is_some() { "alignas(64) " } else { "" };
            let _ = writeln!(text, "    {align}Word r{number}[{words}]; // {}", register.name);
        }
        for (number, memory) in self.netlist.memories.iter().enumerate() {
            let words = limbs(memory.width) * self.extent(memory.group).1;
            let _ = writeln!(
                text,
                "    alignas(64) Word m{number}[{}][{words}]; // {}",
                memory.depth, memory.name
            );
        }
        text += &self.declarations();
        let _ = writeln!(
            text,
            "#ifdef NDP_PROFILE\n    uint64_t ticks[{}], calls[{}], counts[{}];\n#endif\n}};\n\n#ifdef NDP_PROFILE\nconst Share SHARES[] = {{\n{}    {{0, -1, \"\", 0}},\n}};\n#endif\n",
            self.timed.max(1),
            self.timed.max(1),
            self.counted.max(1),
            self.shares
        );
        for (group, instances) in self.netlist.instances.iter().enumerate() {
            let _ = writeln!(text, "const char* const I{group}[] = {{\"{}\"}};", instances.join("\", \""));
        }
        for (_, head) in &self.functions {
            let _ = writeln!(text, "{head};");
        }
        text
    }

    /// The functions, in pieces that are compiled in parallel.
    pub fn pieces(&self) -> Vec<String> {
        let mut pieces = vec![String::new()];
        for (function, _) in &self.functions {
            match pieces.last_mut() {
                Some(piece) if piece.len() < PIECE_BYTES => *piece += function,
                _ => pieces.push(function.clone()),
            }
        }
        pieces
    }

    /// Random contents of registers and memories.
    fn fill(&self) -> String {
        let mut text = String::from("    Random random{seed};\n");
        for (number, register) in self.netlist.registers.iter().enumerate() {
            let (lanes, stride) = self.extent(register.group);
            let mask = register.width == 1 && register.group.is_some();
            let (width, (instances, own)) = (register.width, self.place(register.group, &register.name));
            let _ = writeln!(
                text,
                "    random.fill(s.r{number}, 1, {width}, {lanes}, {stride}, {mask}, {instances}, \"{own}\");"
            );
        }
        for (number, memory) in self.netlist.memories.iter().enumerate() {
            let (lanes, stride) = self.extent(memory.group);
            let (width, (instances, own)) = (memory.width, self.place(memory.group, &memory.name));
            let _ = writeln!(
                text,
                "    random.fill(s.m{number}[0], {}, {width}, {lanes}, {stride}, false, {instances}, \"{own}\");",
                memory.depth
            );
        }
        text
    }

    /// The parts of the state besides pins and contents.
    fn declarations(&self) -> String {
        let mut text = String::new();
        for (event, (_, plan)) in self.plans.iter().enumerate() {
            let (tasks, late) = (plan.tasks.len().div_ceil(64).max(1), self.late[event].div_ceil(64).max(1));
            let _ = writeln!(
                text,
                "    uint64_t live{event}[{tasks}], later{event}[{tasks}], late{event}[{late}];"
            );
            for source in plan.readers.keys() {
                let _ = match source {
                    Source::Port(number) => {
                        let name = &self.netlist.ports[*number as usize].name;
                        writeln!(text, "    decltype(p_{name}) v{event}_{name};")
                    }
                    Source::Node(id) => match (self.node(*id).group, self.node(*id).bit) {
                        (Some(_), _) => {
                            writeln!(text, "    alignas(64) Word g{event}_{id}[{}];", self.words(*id))
                        }
                        (None, true) => writeln!(text, "    bool t{event}_{id};"),
                        (None, false) => writeln!(text, "    Word t{event}_{id};"),
                    },
                    Source::Register(_) | Source::Memory(_) => Ok(()),
                };
            }
            for target in plan.tasks.iter().flat_map(|task| &task.late) {
                let _ = match target {
                    Target::Register(number) => {
                        let register = &self.netlist.registers[*number as usize];
                        let words = limbs(register.width) * self.extent(register.group).1;
                        writeln!(text, "    alignas(64) Word x{number}[{words}];")
                    }
                    Target::Memory(number) => {
                        let memory = &self.netlist.memories[*number as usize];
                        let stride = self.extent(memory.group).1;
                        let words = limbs(memory.width) * stride;
                        writeln!(
                            text,
                            "    alignas(64) Word xa{number}[{stride}], xd{number}[{words}], xw{number}[{words}];"
                        )
                    }
                    Target::Output(_) | Target::Check(_) => Ok(()),
                };
            }
        }
        text
    }

    fn wake(&self) -> String {
        let live = |event| format!("    std::memset(s.live{event}, ~0, sizeof s.live{event});\n");
        (0..self.plans.len()).map(live).collect()
    }

    /// The instances that contain `name`, and its name in them.
    fn place<'n>(&self, group: Option<u32>, name: &'n str) -> (String, &'n str) {
        let Some(group) = group else { return ("ALONE".to_owned(), name) };
        let first = &self.netlist.instances[group as usize][0];
        (format!("I{group}"), name.strip_prefix(first.as_str()).unwrap_or(name))
    }

    /// Lanes and their distance in words.
    fn extent(&self, group: Option<u32>) -> (u32, u32) {
        group.map_or((1, 1), |group| (self.netlist.graph.lanes[group as usize], self.stride(group)))
    }
}

/// Calls for the bits that are set in words of the state.
fn dispatch(words: &str, calls: &[String]) -> String {
    let mut text = String::new();
    for (word, calls) in calls.chunks(64).enumerate() {
        let _ = writeln!(text, "    if (s.{words}[{word}]) {{");
        for (few, calls) in calls.chunks(8).enumerate() {
            let _ = writeln!(text, "        if (s.{words}[{word}] >> {} & 0xff) {{", 8 * few);
            for (bit, call) in calls.iter().enumerate() {
                let _ = writeln!(text, "            if (s.{words}[{word}] >> {} & 1) {call};", 8 * few + bit);
            }
            text += "        }\n";
        }
        let _ = writeln!(text, "        s.{words}[{word}] = 0;\n    }}");
    }
    text
}

pub(super) fn clocks(netlist: &Netlist) -> BTreeSet<&str> {
    let registers = netlist.registers.iter().map(|register| register.clock.as_str());
    registers.chain(netlist.memories.iter().map(|memory| memory.clock.as_str())).collect()
}
