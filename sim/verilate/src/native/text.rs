//! The C++ of a native model: one structure with its whole state, and functions over it.

mod regions;

use super::plan::{Block, Event, Plan, Step, Target, Update, inputs_of};
use ndp_hdl_language::{Binary, Check, Id, Netlist, Node, Op, Port, limbs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Bounds on the instances that are computed together.
const MOST_LANES: u32 = 16;
const FEWEST_LANES: u32 = 4;
/// Operations per function; more are compiled ever more slowly.
const FUNCTION_NODES: usize = 2000;

enum Piece {
    Scalars(Vec<Id>),
    Vectors(u32, Vec<Id>),
    Feed(Block),
    Block(Block),
    Targets(Vec<Target>),
    Update(Update),
}

impl Piece {
    fn weight(&self) -> usize {
        match self {
            Self::Scalars(nodes) | Self::Vectors(_, nodes) => nodes.len(),
            Self::Block(block) | Self::Feed(block) => block.nodes.len() + block.targets.len(),
            Self::Targets(targets) => targets.len(),
            Self::Update(_) => FUNCTION_NODES,
        }
    }

    /// The array, if the piece is of one; it then has a function of its own.
    fn group(&self) -> Option<u32> {
        match self {
            Self::Vectors(group, _) => Some(*group),
            Self::Update(update) => update.group,
            _ => None,
        }
    }

    fn of_array(&self) -> bool {
        self.group().is_some()
    }

    fn blocks(&self) -> Vec<&Block> {
        match self {
            Self::Block(block) => vec![block],
            Self::Update(update) => update.blocks.iter().collect(),
            _ => Vec::new(),
        }
    }

    fn nodes(&self) -> &[Id] {
        match self {
            Self::Scalars(nodes) | Self::Vectors(_, nodes) => nodes,
            Self::Update(update) => &update.nodes,
            Self::Feed(block) => &block.nodes,
            Self::Block(_) | Self::Targets(_) => &[],
        }
    }

    fn targets(&self) -> &[Target] {
        match self {
            Self::Targets(targets) => targets,
            Self::Update(update) => &update.targets,
            _ => &[],
        }
    }
}

pub(super) struct Text<'a> {
    netlist: &'a Netlist,
    /// Scalars that cross functions.
    passed: BTreeSet<Id>,
    kept: BTreeSet<Id>,
    tested: BTreeSet<Id>,
    /// First register, array and number of inputs of each region.
    regions: Vec<(u32, Option<u32>, usize)>,
    functions: String,
    timed: u32,
    counted: u32,
    /// Operations of a timed function, or of a counted block in it, by modules: rows of the profile's table.
    shares: String,
}

impl<'a> Text<'a> {
    pub fn new(netlist: &'a Netlist) -> Self {
        Self {
            netlist,
            passed: BTreeSet::new(),
            kept: BTreeSet::new(),
            tested: BTreeSet::new(),
            regions: Vec::new(),
            functions: String::new(),
            timed: 0,
            counted: 0,
            shares: String::new(),
        }
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

    pub fn event(&mut self, name: &str, event: &Event) {
        let plan = Plan::new(self.netlist, event);
        self.kept.extend(&plan.kept);
        self.tested.extend(&plan.tested);
        let mut parts: Vec<Vec<Piece>> = Vec::new();
        let mut weight = FUNCTION_NODES;
        for piece in pieces(plan) {
            let full = weight + piece.weight() > FUNCTION_NODES
                || parts.last().and_then(|part| part.last()).is_none_or(Piece::of_array);
            if full || piece.of_array() {
                parts.push(Vec::new());
                weight = 0;
            }
            weight += piece.weight();
            if let Some(part) = parts.last_mut() {
                part.push(piece);
            }
        }
        let mut home: BTreeMap<Id, usize> = BTreeMap::new();
        for (number, part) in parts.iter().enumerate() {
            for id in part.iter().filter(|piece| !piece.of_array()).flat_map(Piece::nodes) {
                home.insert(*id, number);
            }
        }
        let needed: Vec<BTreeSet<Id>> = parts
            .iter()
            .enumerate()
            .map(|(number, part)| {
                let mut used = BTreeSet::new();
                part.iter().for_each(|piece| self.used(piece, &mut used));
                used.retain(|id| home.get(id).is_some_and(|home| *home != number));
                used
            })
            .collect();
        let passed: BTreeSet<Id> = needed.iter().flatten().copied().collect();
        let mut calls = String::new();
        for (number, part) in parts.iter().enumerate() {
            // Compilers spend minutes on loops around such long code: the loop is in another function.
            let group = part.first().and_then(Piece::group);
            let parameters = if group.is_some() { "State& s, unsigned l" } else { "State& s" };
            let _ = writeln!(self.functions, "NDP_ALONE void {name}{number}({parameters}) {{");
            if let Some(group) = group {
                let lanes = self.vector_lanes(group);
                let _ = writeln!(self.functions, "    using V = Lanes<{lanes}>::Words;");
            }
            for id in &needed[number] {
                let kind = if self.node(*id).bit { "bool" } else { "Word" };
                let _ = writeln!(self.functions, "    const {kind} n{id} = s.t{id};");
            }
            let turns = group.map_or(1, |group| self.stride(group) / self.vector_lanes(group));
            for piece in part {
                if !matches!(piece, Piece::Feed(_)) {
                    self.share(None, piece.nodes(), turns);
                }
                self.piece(piece, &passed);
            }
            self.functions += "}\n\n";
            let timed = self.timed;
            self.timed += 1;
            let _ = match group {
                None => writeln!(calls, "    NDP_TIME({timed}, {name}{number}(s));"),
                Some(group) => {
                    let (stride, step) = (self.stride(group), self.vector_lanes(group));
                    writeln!(
                        calls,
                        "    NDP_TIME({timed}, for (unsigned l = 0; l != {stride}; l += {step}) {name}{number}(s, l));"
                    )
                }
            };
        }
        if let Event::Edge(clock) = event {
            calls += &self.resets(clock);
        }
        let _ = writeln!(self.functions, "void {name}(State& s) {{\n{calls}}}\n");
        self.passed.extend(passed);
    }

    /// Notes that the current function, or a counted block of it, computes `nodes` `turns` times.
    fn share(&mut self, counter: Option<u32>, nodes: &[Id], turns: u32) {
        let mut modules: BTreeMap<u32, u32> = BTreeMap::new();
        for id in nodes {
            *modules.entry(self.node(*id).module).or_default() += turns;
        }
        for (module, nodes) in modules {
            let (function, title) = (self.timed, &self.netlist.modules[module as usize]);
            let counter = counter.map_or(-1, i64::from);
            let _ = writeln!(self.shares, "    {{{function}, {counter}, \"{title}\", {nodes}}},");
        }
    }

    fn count(&mut self, block: &Block) -> String {
        let number = self.counted;
        self.counted += 1;
        self.share(Some(number), &block.nodes, 1);
        format!("    NDP_COUNT({number});\n")
    }

    fn used(&self, piece: &Piece, used: &mut BTreeSet<Id>) {
        let nodes = piece.nodes().iter().chain(piece.blocks().into_iter().flat_map(|block| &block.nodes));
        for id in nodes {
            used.extend(self.node(*id).op.operands());
        }
        for block in piece.blocks() {
            used.extend(block.enable);
        }
        if let Piece::Feed(block) = piece {
            used.extend(block.enable);
        }
        let in_blocks = piece.blocks().into_iter().flat_map(|block| &block.targets);
        for target in piece.targets().iter().chain(in_blocks) {
            used.extend(inputs_of(self.netlist, *target).0);
        }
        used.retain(|id| self.node(*id).group.is_none());
    }

    fn piece(&mut self, piece: &Piece, passed: &BTreeSet<Id>) {
        let compute = |nodes: &[Id]| {
            let line = |id: &Id| {
                let pass =
                    if passed.contains(id) { format!("    s.t{id} = n{id};\n") } else { String::new() };
                self.scalar(*id) + &pass
            };
            nodes.iter().map(line).collect::<String>()
        };
        match piece {
            Piece::Scalars(nodes) => self.functions += &compute(nodes),
            Piece::Feed(block) => {
                let Some(id) = block.enable else { return };
                let condition = match (self.node(id).group, &self.node(id).op) {
                    (None, _) => self.operand(id),
                    (_, Op::Table(_)) => "true".to_owned(),
                    (_, Op::Gather(_) | Op::State { .. }) => {
                        format!("any(&{}, {})", self.element(id, 0), self.words(id))
                    }
                    _ => format!("s.a{id}"),
                };
                let body = compute(&block.nodes);
                let body = self.count(block) + &body;
                let _ = writeln!(self.functions, "    if ({condition}) {{\n{body}    }}");
            }
            Piece::Vectors(_, nodes) => {
                let mut known = BTreeSet::new();
                let mut body = String::new();
                for id in nodes {
                    body += &self.vector(*id, &mut known);
                    let _ = writeln!(body, "    store(s.g{id} + l, n{id});");
                    if self.tested.contains(id) {
                        let _ = writeln!(body, "    s.a{id} = (l != 0 && s.a{id}) || any(n{id});");
                    }
                }
                self.functions += &body;
            }
            Piece::Block(block) => {
                let mut body = self.count(block);
                for id in &block.nodes {
                    body += &self.scalar(*id);
                }
                let Some(enable) = block.enable else {
                    let text = self.scalar_region(block, &body);
                    self.functions += &text;
                    return;
                };
                for target in &block.targets {
                    body += &self.write(*target);
                }
                let condition = self.operand(enable);
                let _ = writeln!(self.functions, "    if ({condition}) {{\n{body}    }}");
            }
            Piece::Targets(targets) => {
                for target in targets {
                    let line = self.write(*target);
                    self.functions += &line;
                }
            }
            Piece::Update(update) => self.update(update),
        }
    }

    fn update(&mut self, update: &Update) {
        let mut known = BTreeSet::new();
        let mut body = String::new();
        for id in &update.nodes {
            body += &self.vector(*id, &mut known);
        }
        for block in &update.blocks {
            let mut inner_known = known.clone();
            let mut inner = self.count(block);
            for id in &block.nodes {
                inner += &self.vector(*id, &mut inner_known);
            }
            let Some(enable) = block.enable else {
                body += &self.vector_region(block, update.group, &inner, &mut known, inner_known);
                continue;
            };
            let vector = self.node(enable).group.is_some();
            let (load, condition) = self.lane_operand(enable, &mut known);
            body += &load;
            inner_known.insert(enable);
            for target in &block.targets {
                inner += &self.write_lanes(*target, vector.then_some(condition.as_str()), &mut inner_known);
            }
            let test = if vector { format!("any({condition})") } else { condition };
            let _ = writeln!(body, "    if ({test}) {{\n{inner}    }}");
        }
        for target in &update.targets {
            body += &self.write_lanes(*target, None, &mut known);
        }
        self.functions += &body;
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
            .map(|(reset, text)| format!("    if (!s.p_{reset}) {{\n        wake(s);\n{text}    }}\n"))
            .collect()
    }

    fn operand(&self, id: Id) -> String {
        match self.node(id).op {
            Op::Word(value) => format!("{value:#x}u"),
            Op::Bit(value) => value.to_string(),
            _ => format!("n{id}"),
        }
    }

    fn element(&self, vector: Id, lane: u32) -> String {
        let node = self.node(vector);
        match (&node.op, node.group) {
            (Op::State { register, limb }, Some(group)) => {
                format!("s.r{register}[{}]", limb * self.stride(group) + lane)
            }
            _ => format!("s.g{vector}[{lane}]"),
        }
    }

    /// The line that computes a node without lanes, or gathers a vector.
    fn scalar(&self, id: Id) -> String {
        let node = self.node(id);
        let of = |id: &Id| self.operand(*id);
        let value = match &node.op {
            Op::Word(_) | Op::Bit(_) | Op::Table(_) => return String::new(),
            Op::Gather(parts) => return self.gather(id, parts),
            Op::Mutant(number) => format!("s.mutant == {number}"),
            Op::Input { port, limb } => {
                let Port { name, width, .. } = &self.netlist.ports[*port as usize];
                match width {
                    1..=32 => format!("s.p_{name}"),
                    33..=64 => format!("static_cast<Word>(s.p_{name} >> {})", 32 * limb),
                    _ => format!("s.p_{name}[{limb}]"),
                }
            }
            Op::State { register, limb } => format!("s.r{register}[{limb}]"),
            Op::Read { memory, limb, addr } => {
                let depth = self.netlist.memories[*memory as usize].depth;
                let addr = of(addr);
                format!("{addr} < {depth} ? s.m{memory}[{addr}][{limb}] : 0")
            }
            Op::Lane(vector, lane) => self.element(*vector, *lane),
            Op::Not(a) => format!("!{}", of(a)),
            Op::Flag(a) => of(a),
            Op::Mask(a) => format!("0u - {}", of(a)),
            Op::Test(a, bit) => format!("{} >> {bit} & 1", of(a)),
            Op::Parity(a) => format!("__builtin_parity({})", of(a)),
            Op::Binary(op, a, b) => {
                let (a, b) = (of(a), of(b));
                match op {
                    Binary::MulHigh => format!("mul_high({a}, {b})"),
                    Binary::And => format!("{a} & {b}"),
                    Binary::Or => format!("{a} | {b}"),
                    Binary::Xor => format!("{a} ^ {b}"),
                    Binary::Add => format!("{a} + {b}"),
                    Binary::Sub => format!("{a} - {b}"),
                    Binary::Mul => format!("{a} * {b}"),
                    Binary::Shl => format!("{a} << {b}"),
                    Binary::Shr => format!("{a} >> {b}"),
                    Binary::Eq => format!("{a} == {b}"),
                    Binary::Lt => format!("{a} < {b}"),
                }
            }
            Op::Select(c, a, b) => format!("{} ? {} : {}", of(c), of(a), of(b)),
        };
        let kind = if node.bit { "bool" } else { "Word" };
        format!("    const {kind} n{id} = {value};\n")
    }

    /// Whether a gathered vector is the same in all loads.
    fn periodic(&self, id: Id) -> bool {
        let node = self.node(id);
        let (Op::Gather(parts), Some(group)) = (&node.op, node.group) else { return false };
        let lanes = self.vector_lanes(group) as usize;
        parts.len().is_multiple_of(lanes) && parts[lanes..].iter().eq(&parts[..parts.len() - lanes])
    }

    fn words(&self, id: Id) -> u32 {
        let group = self.node(id).group.unwrap_or_default();
        if self.periodic(id) { self.vector_lanes(group) } else { self.stride(group) }
    }

    fn gather(&self, id: Id, parts: &[Id]) -> String {
        let parts = &parts[..parts.len().min(self.words(id) as usize)];
        let bit = self.node(id).bit;
        let mut text = String::new();
        let source = |part: Id| match self.node(part).op {
            Op::Lane(vector, lane) => Some((vector, lane)),
            _ => None,
        };
        let mut at = 0;
        while at < parts.len() {
            if let Some((vector, first)) = source(parts[at])
                && let Some((_, second)) = parts.get(at + 1).and_then(|part| source(*part))
                && second > first
            {
                let step = second - first;
                let follows =
                    |(index, part): &(u32, &Id)| source(**part) == Some((vector, first + step * index));
                let count = (0..).zip(&parts[at..]).take_while(follows).count();
                if count > 2 {
                    let base = self.element(vector, first);
                    let _ = writeln!(text, "    spread<{count}, {step}>(s.g{id} + {at}, &{base});");
                    at += count;
                    continue;
                }
            }
            let value = match source(parts[at]) {
                Some((vector, lane)) => self.element(vector, lane),
                None if bit => format!("0u - {}", self.operand(parts[at])),
                None => self.operand(parts[at]),
            };
            let _ = writeln!(text, "    s.g{id}[{at}] = {value};");
            at += 1;
        }
        text
    }

    /// An operand in a loop over lanes, and the line that makes it a vector unless `known` has it.
    fn lane_operand(&self, id: Id, known: &mut BTreeSet<Id>) -> (String, String) {
        let node = self.node(id);
        let kept = match (&node.op, node.group) {
            (Op::Word(_) | Op::Bit(_), _) | (_, None) => return (String::new(), self.operand(id)),
            (Op::Table(values), Some(group)) => {
                let stride = self.stride(group) as usize;
                let values: Vec<String> = values
                    .iter()
                    .chain(std::iter::repeat(&0))
                    .take(stride)
                    .map(|value| format!("{value:#x}u"))
                    .collect();
                let values = values.join(", ");
                format!(
                    "    alignas(64) static const Word c{id}[] = {{{values}}};\n    const V n{id} = load<V>(c{id} + l);\n"
                )
            }
            (Op::State { register, limb }, Some(group)) if !known.contains(&id) => {
                let offset = limb * self.stride(group);
                format!("    const V n{id} = load<V>(s.r{register} + {offset} + l);\n")
            }
            _ if self.kept.contains(&id) && !known.contains(&id) => {
                let at = if self.periodic(id) { "" } else { " + l" };
                format!("    const V n{id} = load<V>(s.g{id}{at});\n")
            }
            _ => String::new(),
        };
        let load = if known.insert(id) { kept } else { String::new() };
        (load, format!("n{id}"))
    }

    /// Like [`Self::lane_operand`], always a vector.
    fn spread(&self, id: Id, known: &mut BTreeSet<Id>) -> (String, String) {
        let node = self.node(id);
        let (load, operand) = self.lane_operand(id, known);
        let operand = match (node.group, node.bit) {
            (Some(_), _) => operand,
            (None, true) => format!("all<V>(0u - {operand})"),
            (None, false) => format!("all<V>({operand})"),
        };
        (load, operand)
    }

    fn vector(&self, id: Id, known: &mut BTreeSet<Id>) -> String {
        let node = self.node(id);
        let Some(group) = node.group else { return String::new() };
        let stride = self.stride(group);
        let mut text = String::new();
        let mut of = |id: &Id, text: &mut String| {
            let (load, operand) = self.spread(*id, known);
            *text += &load;
            operand
        };
        let value = match &node.op {
            Op::Word(_)
            | Op::Bit(_)
            | Op::Mutant(_)
            | Op::Table(_)
            | Op::Gather(_)
            | Op::Input { .. }
            | Op::Lane(..) => {
                return String::new();
            }
            Op::State { register, limb } => format!("load<V>(s.r{register} + {} + l)", limb * stride),
            Op::Read { memory, limb, addr } => {
                let depth = self.netlist.memories[*memory as usize].depth;
                if self.node(*addr).group.is_none() {
                    let addr = self.operand(*addr);
                    format!(
                        "{addr} < {depth} ? load<V>(s.m{memory}[{addr}] + {} + l) : all<V>(0)",
                        limb * stride
                    )
                } else {
                    let addr = of(addr, &mut text);
                    let _ = writeln!(
                        text,
                        "    V x{id} = all<V>(0);\n    for (unsigned k = 0; k != {}; ++k)\n        if ({addr}[k] < {depth}) x{id}[k] = s.m{memory}[{addr}[k]][{} + l + k];",
                        self.vector_lanes(group),
                        limb * stride
                    );
                    format!("x{id}")
                }
            }
            Op::Not(a) => format!("~{}", of(a, &mut text)),
            Op::Flag(a) => format!("{} & all<V>(1)", of(a, &mut text)),
            Op::Mask(a) => of(a, &mut text),
            Op::Test(a, bit) => format!("test({}, {:#x}u)", of(a, &mut text), 1_u32 << bit),
            Op::Parity(a) => format!("parity({})", of(a, &mut text)),
            Op::Binary(op, a, b) => {
                let (a, b) = (of(a, &mut text), of(b, &mut text));
                match op {
                    Binary::MulHigh => format!("mul_high({a}, {b})"),
                    Binary::Eq => format!("equal({a}, {b})"),
                    Binary::Lt => format!("less({a}, {b})"),
                    Binary::And => format!("{a} & {b}"),
                    Binary::Or => format!("{a} | {b}"),
                    Binary::Xor => format!("{a} ^ {b}"),
                    Binary::Add => format!("{a} + {b}"),
                    Binary::Sub => format!("{a} - {b}"),
                    Binary::Mul => format!("{a} * {b}"),
                    Binary::Shl => format!("{a} << {b}"),
                    Binary::Shr => format!("{a} >> {b}"),
                }
            }
            Op::Select(c, a, b) => {
                let (then, other) = (of(a, &mut text), of(b, &mut text));
                if self.node(*c).group.is_none() {
                    format!("{} ? {then} : {other}", self.operand(*c))
                } else {
                    format!("select({}, {then}, {other})", of(c, &mut text))
                }
            }
        };
        known.insert(id);
        let _ = writeln!(text, "    const V n{id} = {value};");
        text
    }

    fn write(&self, target: Target) -> String {
        let mut text = String::new();
        match target {
            Target::Register(number) => {
                for (limb, word) in self.netlist.registers[number as usize].next.iter().enumerate() {
                    let _ = writeln!(text, "    s.r{number}[{limb}] = {};", self.operand(*word));
                }
            }
            Target::Memory(number) => {
                let memory = &self.netlist.memories[number as usize];
                let addr = self.operand(memory.addr);
                let _ = writeln!(text, "    if ({addr} < {}) {{", memory.depth);
                for (limb, word) in memory.data.iter().enumerate() {
                    let (place, word) = (format!("s.m{number}[{addr}][{limb}]"), self.operand(*word));
                    let _ = if memory.whole {
                        writeln!(text, "        {place} = {word};")
                    } else {
                        let mask = self.operand(memory.written[limb]);
                        writeln!(text, "        {place} = ({place} & ~{mask}) | ({word} & {mask});")
                    };
                }
                text += "    }\n";
            }
            Target::Output(number) => {
                let (port, words) = &self.netlist.outputs[number];
                let Port { name, width, .. } = &self.netlist.ports[*port as usize];
                let words: Vec<String> = words.iter().map(|word| self.operand(*word)).collect();
                let _ = match (width, &words[..]) {
                    (1..=32, [word]) => writeln!(text, "    s.p_{name} = {word};"),
                    (33..=64, [low, high]) => {
                        writeln!(text, "    s.p_{name} = uint64_t{{{high}}} << 32 | {low};")
                    }
                    _ => words
                        .iter()
                        .enumerate()
                        .try_for_each(|(limb, word)| writeln!(text, "    s.p_{name}[{limb}] = {word};")),
                };
            }
            Target::Check(number) => {
                let Check { name, why, reset, holds, .. } = &self.netlist.checks[number as usize];
                let holds = self.operand(*holds);
                let _ = writeln!(
                    text,
                    "    if (!{holds} && s.p_{reset}) s.model->fail(\"\", \"{name}: {why}\");"
                );
            }
        }
        text
    }

    /// Writes an array's target in the lanes of `only`.
    fn write_lanes(&self, target: Target, only: Option<&str>, known: &mut BTreeSet<Id>) -> String {
        let mut text = String::new();
        match target {
            Target::Register(number) => {
                let register = &self.netlist.registers[number as usize];
                let stride = self.stride(register.group.unwrap_or_default());
                for (limb, word) in (0..).zip(&register.next) {
                    let (load, word) = self.spread(*word, known);
                    let place = format!("s.r{number} + {} + l", limb * stride);
                    let value = match only {
                        Some(only) => format!("select({only}, {word}, load<V>({place}))"),
                        None => word,
                    };
                    let _ = writeln!(text, "{load}    store({place}, {value});");
                }
            }
            Target::Memory(number) => {
                let memory = &self.netlist.memories[number as usize];
                let stride = self.stride(memory.group.unwrap_or_default());
                let same = self.node(memory.addr).group.is_none();
                for (limb, word) in (0..).zip(&memory.data) {
                    let (load, word) = self.spread(*word, known);
                    text += &load;
                    let offset = limb * stride;
                    let masked = (!memory.whole || only.is_some()).then(|| {
                        let (load, mask) = self.spread(memory.written[limb as usize], known);
                        text += &load;
                        mask
                    });
                    let (load, addr) = self.lane_operand(memory.addr, known);
                    text += &load;
                    let mask = masked.unwrap_or_else(|| "all<V>(~0u)".into());
                    let _ = if same {
                        let place = format!("s.m{number}[{addr}] + {offset} + l");
                        writeln!(
                            text,
                            "    if ({addr} < {}) store({place}, select({mask}, {word}, load<V>({place})));",
                            memory.depth
                        )
                    } else {
                        writeln!(
                            text,
                            "    {{\n        const V a = {addr}, d = {word}, w = {mask};\n        for (unsigned k = 0; k != {}; ++k)\n            if (a[k] < {}) {{\n                Word& place = s.m{number}[a[k]][{offset} + l + k];\n                place = (place & ~w[k]) | (d[k] & w[k]);\n            }}\n    }}",
                            self.vector_lanes(memory.group.unwrap_or_default()),
                            memory.depth
                        )
                    };
                }
            }
            Target::Check(number) => {
                let Check { name, why, reset, holds, group, .. } = &self.netlist.checks[number as usize];
                let (load, holds) = self.spread(*holds, known);
                let (instances, own) = self.place(*group, name);
                let lanes = self.extent(*group).0;
                let _ = writeln!(
                    text,
                    "{load}    if (any(~{holds}) && s.p_{reset}) failed(s.model, {holds}, {instances} + l, {lanes} - l, \"{own}: {why}\");"
                );
            }
            Target::Output(_) => {}
        }
        text
    }

    /// All of the source except its head and the class.
    pub fn source(&self) -> String {
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
        let mut fill = String::new();
        for (number, register) in self.netlist.registers.iter().enumerate() {
            let words = limbs(register.width);
            let (lanes, stride) = self.extent(register.group);
            let align = if register.group.is_some() { "alignas(64) " } else { "" };
            let name = &register.name;
            let _ = writeln!(text, "    {align}Word r{number}[{}]; // {name}", words * stride);
            let mask = register.width == 1 && register.group.is_some();
            let (width, (instances, own)) = (register.width, self.place(register.group, name));
            let _ = writeln!(
                fill,
                "    random.fill(s.r{number}, 1, {width}, {lanes}, {stride}, {mask}, {instances}, \"{own}\");"
            );
        }
        for (number, memory) in self.netlist.memories.iter().enumerate() {
            let (words, depth) = (limbs(memory.width), memory.depth);
            let (lanes, stride) = self.extent(memory.group);
            let name = &memory.name;
            let _ = writeln!(text, "    alignas(64) Word m{number}[{depth}][{}]; // {name}", words * stride);
            let (width, (instances, own)) = (memory.width, self.place(memory.group, name));
            let _ = writeln!(
                fill,
                "    random.fill(s.m{number}[0], {depth}, {width}, {lanes}, {stride}, false, {instances}, \"{own}\");"
            );
        }
        for id in &self.kept {
            let words = self.words(*id);
            let _ = writeln!(text, "    alignas(64) Word g{id}[{words}];");
        }
        for id in &self.tested {
            let _ = writeln!(text, "    bool a{id};");
        }
        let mut wake = String::new();
        for (number, group, inputs) in &self.regions {
            let (_, stride) = self.extent(*group);
            let align = if group.is_some() { "alignas(64) " } else { "" };
            let inputs = (*inputs as u32).max(1) * stride;
            let _ = match group {
                None => writeln!(text, "    Word q{number}, i{number}[{inputs}];"),
                Some(_) => writeln!(
                    text,
                    "    {align}Word q{number}[{stride}];\n    {align}Word i{number}[{inputs}];"
                ),
            };
            let place = if group.is_some() { format!("s.q{number}") } else { format!("&s.q{number}") };
            let _ = writeln!(wake, "    fill({place}, {stride}, ~0u);");
        }
        for id in &self.passed {
            let kind = if self.node(*id).bit { "bool" } else { "Word" };
            let _ = writeln!(text, "    {kind} t{id};");
        }
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
        let _ =
            writeln!(text, "\n// Regions compute, whatever they read.\nvoid wake(State& s) {{\n{wake}}}\n");
        text += &self.functions;
        let _ = writeln!(text, "\nvoid randomise(State& s, Random random) {{\n{fill}}}\n");
        text
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

fn pieces(plan: Plan) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for step in plan.steps {
        match step {
            Step::Scalars(nodes) => {
                pieces.extend(nodes.chunks(FUNCTION_NODES / 4).map(|nodes| Piece::Scalars(nodes.to_vec())));
            }
            Step::Vectors(group, nodes) => pieces.push(Piece::Vectors(group, nodes)),
        }
    }
    pieces.extend(plan.feeds.into_iter().map(Piece::Feed));
    for update in plan.updates {
        if update.group.is_some() {
            pieces.push(Piece::Update(update));
        } else {
            pieces.extend(update.blocks.into_iter().map(Piece::Block));
            pieces.push(Piece::Targets(update.targets));
        }
    }
    pieces
}

pub(super) fn clocks(netlist: &Netlist) -> BTreeSet<&str> {
    let registers = netlist.registers.iter().map(|register| register.clock.as_str());
    registers.chain(netlist.memories.iter().map(|memory| memory.clock.as_str())).collect()
}
