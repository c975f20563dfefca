//! Lowers a checked module to rust-hdl's AST and lets rust-hdl print it.
//!
//! Declarations, operators and assignments go through `rust_hdl_core`. Its AST lacks concatenation, ternary, a
//! part-select that every tool accepts, clocked blocks, memories and explicit instances; this file writes those as
//! text, which enters the AST as placeholder signals that are replaced after printing.

use crate::bits::{BinaryOp, Node, UnaryOp};
use crate::body::{Declaration, Inner, InstanceBody, Kind, PropertyBody, PropertyKind};
use crate::domain::implicit_names;
use crate::simplify::simplified;
use crate::split::Split;
use crate::{Bits, Direction, Port};
use rust_hdl_core::ast::{
    Verilog, VerilogExpression, VerilogLiteral, VerilogOp, VerilogOpUnary, VerilogStatement,
};
use rust_hdl_core::prelude::{
    Atom, AtomKind, Block, Logic, PinConstraint, Probe, TypeDescriptor, TypeKind, VCDValue,
};
use rust_hdl_core::verilog_gen::verilog_combinatorial;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

pub(crate) fn lower(inner: &Inner, ports: &[Port]) -> String {
    let inner = &simplified(inner);
    let mut printer = Printer { taken: names(inner), split: Split::of(inner), ..Printer::default() };
    let body = printer.body(inner);
    let is_driven = |id: usize| inner.drives.iter().any(|(driven, _)| *driven == id);
    let nets = inner.declarations.iter().enumerate().filter_map(|(id, declaration)| {
        let kind = match declaration.kind {
            // rust-hdl declares stub outputs as wires and local signals as regs.
            Kind::InstanceOutput => AtomKind::StubOutputSignal,
            Kind::Wire if !is_driven(id) => AtomKind::StubOutputSignal,
            Kind::Reg => AtomKind::LocalSignal,
            // The header declares ports; the others are declared where they are emitted.
            Kind::Input { .. } | Kind::Output { .. } | Kind::Wire | Kind::Ghost | Kind::Free { .. } => {
                return None;
            }
        };
        Some(Net::new(&declaration.name, declaration.width, kind))
    });
    let module = Printable { nets: nets.collect(), body };
    let mut defines = rust_hdl_core::module_defines::ModuleDefines::default();
    module.accept(inner.name(), &mut defines);
    let text = defines.defines();
    finish_text(inner, ports, &text)
}

/// The number of the active mutant, a plus argument of the simulation, in a module that has mutants.
const NUMBER: &str = "integer mutant;\ninitial if (!$value$plusargs(\"mutant=%d\", mutant)) mutant = 0;\n";

/// Keeps Verilator from inlining a module.
const MODULE_PRAGMA: &str = "    /* verilator no_inline_module */\n";
/// Keeps Verilator from replacing an input by its driver.
const PORT_PRAGMA: &str = " /* verilator public_flat_rd */";

pub(crate) fn without_pragmas(text: &str) -> String {
    text.replace(MODULE_PRAGMA, "").replace(PORT_PRAGMA, "")
}

/// Adds the module's heading and ports, and tidies the output of rust-hdl's printer.
fn finish_text(inner: &Inner, ports: &[Port], printed: &str) -> String {
    let mut text: String = wrap(&inner.doc, 100).iter().map(|line| format!("// {line}\n")).collect();
    for line in printed.lines() {
        let line = line.trim_end().replace("wire  ", "wire ").replace("reg  ", "reg ");
        let heading =
            ["// Module arguments", "// Stub signals", "// Local signals", "// Update code (custom)"];
        if line.is_empty() || heading.contains(&line.trim_start()) {
            continue;
        }
        if line.starts_with("module ") {
            let pragma = |port: &Port| {
                inner.shares_code && port.direction == Direction::Input && !is_clock(inner, &port.name)
            };
            text += &header(inner.name(), ports, |port| if pragma(port) { PORT_PRAGMA } else { "" });
            if inner.shares_code {
                text += MODULE_PRAGMA;
            }
            continue;
        }
        if line.starts_with("endmodule") {
            text += "endmodule\n";
            continue;
        }
        if inner.synchroniser && line.starts_with("    reg ") {
            text += "    (* ASYNC_REG = \"TRUE\", keep = \"true\" *)\n";
        }
        if ["    reg ", "    wire "].iter().any(|kind| line.starts_with(kind)) {
            let name = line.trim_end_matches(';').rsplit(' ').next().unwrap_or_default();
            let declaration = inner.declarations.iter().find(|declaration| declaration.name == name);
            text += &indent(&comment(declaration.map_or("", |declaration| &declaration.about)), 1);
        }
        text += &line;
        text.push('\n');
    }
    text
}

/// A line with a comment after it, or before it if the line would be too long.
fn commented(line: &str, about: &str) -> String {
    // A quoted name would be a macro's in Verilog.
    let about = one_line(about).replace('`', "");
    if line.len() + about.len() < 120 {
        return format!("{line} // {about}\n");
    }
    let depth = (line.len() - line.trim_start().len()) / 4;
    format!("{}{line}\n", indent(&comment(&about), depth))
}

fn comment(about: &str) -> Vec<String> {
    wrap(&about.replace('`', ""), 110).iter().map(|line| format!("// {line}")).collect()
}

fn is_clock(inner: &Inner, port: &str) -> bool {
    port == "clk_i" || inner.domains.iter().any(|domain| implicit_names(domain)[0] == port)
}

/// This many ports get a heading if their meanings begin with the same words before a colon.
const GROUP: usize = 3;

/// The beginning of a module: its ports in groups. A meaning `host: a request is offered` puts a port in the group
/// `host`.
pub(crate) fn header<'a>(name: &str, ports: &'a [Port], pragma: impl Fn(&'a Port) -> &'static str) -> String {
    let group = |port: &'a Port| {
        let (begin, rest) = port.doc.split_once(": ")?;
        let alike = ports
            .iter()
            .filter(|other| other.doc.strip_prefix(begin).is_some_and(|rest| rest.starts_with(": ")));
        (alike.count() >= GROUP).then_some((begin, rest))
    };
    let mut headings: Vec<&str> = Vec::new();
    let heading = |port: &'a Port| match (group(port), port.direction) {
        (Some((begin, _)), _) => begin,
        (None, _) if port.name.ends_with("clk_i") || port.name.ends_with("rst_ni") => "clocks and resets",
        (None, Direction::Input) => "inputs",
        (None, Direction::Output) => "outputs",
    };
    ports.iter().map(heading).for_each(|new| {
        if !headings.contains(&new) {
            headings.push(new);
        }
    });
    let mut text = format!("module {name} (\n");
    let mut left = ports.len();
    for own in headings {
        text += &format!("    // {own}\n");
        for port in ports.iter().filter(|port| heading(port) == own) {
            left -= 1;
            let direction = if port.direction == Direction::Input { "input" } else { "output" };
            let end = if left == 0 { "" } else { "," };
            let (range, pragma) = (range(port.width), pragma(port));
            let about = group(port).map_or(&*port.doc, |(_, rest)| rest);
            text += &commented(&format!("    {direction} wire {range}{}{pragma}{end}", port.name), about);
        }
    }
    text + ");\n"
}

pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::from_iter((!text.is_empty()).then(String::new));
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + word.len() >= width {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last] += word;
        }
    }
    lines
}

fn names(inner: &Inner) -> BTreeSet<String> {
    let names = inner.declarations.iter().map(|d| &d.name).chain(inner.memories.iter().map(|m| &m.name));
    names.chain(inner.instances.iter().map(|i| &i.name)).cloned().collect()
}

#[derive(Default)]
pub(crate) struct Printer {
    /// Names in use, including helper wires.
    taken: BTreeSet<String>,
    /// Texts for the placeholders of the expression being printed.
    pieces: Vec<String>,
    /// Helper wires: name, width, text.
    hoisted: Vec<(String, u32, String)>,
    /// Names of helper wires by text: a text that is hoisted twice has one wire.
    names_of: BTreeMap<String, String>,
    emitted: usize,
    /// Tables of constants: name, and text of the function.
    roms: Vec<(String, String)>,
    /// Names with bits that are read.
    sliced: BTreeSet<String>,
    /// Signal being driven, for the names of helper wires.
    pub target: String,
    /// Facts about expressions from [`split`](crate::split).
    pub(crate) split: Split,
}

impl Printer {
    fn body(&mut self, inner: &Inner) -> String {
        let mut text = String::new();
        if inner.has_mutants {
            text += NUMBER;
        }
        for memory in &inner.memories {
            let line = format!("reg {}{} [0:{}];", range(memory.width), memory.name, memory.depth - 1);
            text += &format!("{}{line}\n", indent(&comment(&memory.about), 0));
        }
        let mut wires = String::new();
        for (id, value) in in_order(inner) {
            let Declaration { name, width, about, kind, .. } = &inner.declarations[id];
            let range = range(*width);
            let start = match kind {
                Kind::Wire => format!("wire {range}{name} = "),
                _ => format!("assign {name} = "),
            };
            let value = self.line(name, start.len(), value);
            wires += &self.parts();
            wires += &indent(&comment(about), 0);
            let _ = writeln!(wires, "{start}{value};");
        }
        let mut rest = String::new();
        for instance in &inner.instances {
            let instance = self.instance(inner, instance);
            rest += &self.parts();
            rest += &instance;
        }
        let clocked = self.registers(inner, false) + &self.memories(inner);
        let unused = self.unused(inner);
        rest += &self.parts();
        let properties = self.properties(inner);
        let appendix = inner.prover.as_ref().map_or("", |prover| &prover.appendix);
        let roms: String = self.roms.iter().map(|(_, function)| &**function).collect();
        text + &roms + &wires + &rest + &clocked + &unused + &properties + appendix
    }

    fn parts(&mut self) -> String {
        let mut text = String::new();
        for (name, width, value) in &self.hoisted[self.emitted..] {
            let _ = writeln!(text, "wire {}{name} = {value};", range(*width));
        }
        self.emitted = self.hoisted.len();
        text
    }

    /// Properties with their ghosts. Needs `NDP_PROPERTIES` defined, and either `FORMAL` or `NDP_ASSERT`, a macro that
    /// takes the text to report, such as `$error`.
    fn properties(&mut self, inner: &Inner) -> String {
        if inner.properties.is_empty() {
            return String::new();
        }
        let wires = std::mem::take(&mut self.hoisted);
        let ghosts = self.registers(inner, true);
        let cycle = match &inner.prover {
            Some(prover) if prover.one_clock => "always @*",
            _ => "always @(posedge clk_i)",
        };
        let (mut holds, mut formal, mut simulated) = (String::new(), String::new(), String::new());
        for PropertyBody { name, kind, holds: value, why } in &inner.properties {
            let value = self.line(name, "    always @* if (rst_ni) : cover ();".len() + name.len(), value);
            if *kind == PropertyKind::Cover {
                let _ = writeln!(formal, "{cycle} if (rst_ni) {name}: cover ({value});");
                continue;
            }
            let stem = format!("{name}_holds");
            let wire = if self.taken.insert(stem.clone()) { stem } else { self.free_name(&stem, 0) };
            let _ = writeln!(holds, "wire {wire} = {value};");
            let statement = if *kind == PropertyKind::Assert { "assert" } else { "assume" };
            let _ = writeln!(formal, "{cycle} if (rst_ni) {name}: {statement} ({wire});");
            let _ = writeln!(
                simulated,
                "always @(posedge clk_i) if (rst_ni && !{wire}) `NDP_ASSERT(\"%m.{name}: {}\");",
                one_line(why)
            );
        }
        let mut text = "`ifdef NDP_PROPERTIES\n".to_owned();
        let mut chosen = [String::new(), String::new()];
        for Declaration { name, width, kind, .. } in &inner.declarations {
            let range = range(*width);
            match kind {
                Kind::Ghost => text += &format!("reg {range}{name};\n"),
                Kind::Free { constant } => {
                    let choice = match (constant, &inner.prover) {
                        (true, _) => "(* anyconst *) ",
                        (false, None) => "(* anyseq *) ",
                        (false, Some(_)) => "",
                    };
                    chosen[0] += &format!("{choice}wire {range}{name};\n");
                    chosen[1] += &format!("wire {range}{name} = {width}'h0;\n");
                }
                _ => {}
            }
        }
        if let [formal, simulated] = chosen
            && !formal.is_empty()
        {
            text += &format!("`ifdef FORMAL\n{formal}`else\n{simulated}`endif\n");
        }
        self.emitted = wires.len();
        for (name, width, value) in std::mem::replace(&mut self.hoisted, wires) {
            let _ = writeln!(text, "wire {}{name} = {value};", range(width));
        }
        format!("{text}{holds}{ghosts}`ifdef FORMAL\n{formal}`else\n{simulated}`endif\n`endif\n")
    }

    fn instance(&mut self, inner: &Inner, body: &InstanceBody) -> String {
        let mut connections = Vec::new();
        for port in body.module.ports() {
            let value = if let Some(clock_or_reset) = body.clock_or_reset(inner, &port.name) {
                clock_or_reset
            } else if port.direction == Direction::Input {
                let found = body.inputs.iter().find(|(name, _)| *name == port.name);
                found
                    .map(|(_, v)| self.line(&body.name, "        .(),".len() + port.name.len(), v))
                    .unwrap_or_default()
            } else {
                let found = body.outputs.iter().find(|(name, _)| *name == port.name);
                found.map(|(_, id)| inner.declarations[*id].name.clone()).unwrap_or_default()
            };
            connections.push(format!("    .{}({value})", port.name));
        }
        let reasons = body.crossings.iter().map(|(port, _, reason)| {
            format!("// {port} comes from another clock domain: {}\n", one_line(reason))
        });
        let reasons: String = reasons.collect();
        let about = indent(&comment(&body.about), 0);
        format!("{about}{reasons}{} {} (\n{}\n);\n", body.module.name(), body.name, connections.join(",\n"))
    }

    /// Registers that share enable and reset share an `always` block: simulators then skip them together.
    fn registers(&mut self, inner: &Inner, ghosts: bool) -> String {
        let mut groups: BTreeMap<(usize, Option<String>, bool), Vec<String>> = BTreeMap::new();
        let mut resets: BTreeMap<(usize, Option<String>, bool), Vec<String>> = BTreeMap::new();
        let mut order: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for reg in inner.regs.iter().filter(|reg| inner.is_ghost(reg.id) == ghosts) {
            let declaration = &inner.declarations[reg.id];
            let enable = reg.enable.first().map(|e| {
                self.line(&format!("{}_enable", declaration.name), "    end else if () begin".len(), e)
            });
            let count = order.len();
            let position = *order.entry(enable.clone()).or_insert(count);
            let key = (position, enable, reg.reset.is_some());
            for next in &reg.next {
                let rest = "            <= ;".len() + declaration.name.len();
                let value = self.line(&declaration.name, rest, next);
                groups.entry(key.clone()).or_default().push(format!("{} <= {value};", declaration.name));
            }
            if let Some(value) = reg.reset {
                let width = declaration.width;
                let value =
                    reg.other_resets.iter().fold(format!("{width}'h{value:x}"), |value, (number, other)| {
                        format!("(mutant == {number}) ? {width}'h{other:x} : {value}")
                    });
                let line = format!("{} <= {value};", declaration.name);
                resets.entry(key).or_default().push(line);
            }
        }
        let mut text = String::new();
        for (key, updates) in &groups {
            let updates = indent(updates, 2);
            let guard = key.1.as_ref().map(|enable| format!("if ({}) ", strip_parens(enable)));
            let _ = match (resets.get(key), guard) {
                (Some(resets), guard) => writeln!(
                    text,
                    "always @(posedge clk_i) begin\n    if (!rst_ni) begin\n{}    end else {}begin\n{updates}    end\nend",
                    indent(resets, 2),
                    guard.unwrap_or_default()
                ),
                (None, Some(guard)) => {
                    writeln!(text, "always @(posedge clk_i) begin\n    {guard}begin\n{updates}    end\nend")
                }
                (None, None) => {
                    let updates = updates.replace("\n        ", "\n    ");
                    writeln!(text, "always @(posedge clk_i) begin\n{}end", &updates[4..])
                }
            };
        }
        text
    }

    fn memories(&mut self, inner: &Inner) -> String {
        let mut text = String::new();
        for memory in &inner.memories {
            for (enable, addr, data) in &memory.writes {
                let lane_bits = memory.width / enable.width();
                text += "always @(posedge clk_i) begin\n";
                for lane in 0..enable.width() {
                    let low = lane * lane_bits;
                    let part = match lane_bits == memory.width {
                        true => String::new(),
                        false => format!("[{}:{low}]", low + lane_bits - 1),
                    };
                    let rest = "        if () [] <= ;".len() + memory.name.len() + part.len();
                    let written = [&enable.bit(lane), addr, &data.slice(low, lane_bits)];
                    let [enable, addr, data] = self.line_of(&memory.name, rest, written);
                    let enable = strip_parens(&enable);
                    let _ = writeln!(text, "    if ({enable}) {}[{addr}]{part} <= {data};", memory.name);
                }
                text += "end\n";
            }
        }
        text
    }

    /// Reads deliberately unread signals into a wire whose name tells linters so.
    fn unused(&mut self, inner: &Inner) -> String {
        let mut text = String::new();
        for (index, (value, reason)) in inner.unused.iter().enumerate() {
            let reason = one_line(reason);
            let value =
                self.line("unused", "    wire unused_00 = &{1'b0, }; // ".len() + reason.len(), value);
            let name = self.free_name("unused_", index);
            let _ = writeln!(text, "wire {name} = &{{1'b0, {value}}}; // {reason}");
        }
        let sliced = self.hoisted.iter().map(|(name, ..)| name).filter(|name| self.sliced.contains(*name));
        for parts in wrap(&sliced.map(String::as_str).collect::<Vec<_>>().join(", "), 70) {
            let name = self.free_name("unused_", inner.unused.len());
            let parts = parts.trim_end_matches(',');
            let _ = writeln!(text, "wire {name} = &{{1'b0, {parts}}}; // slices leave bits out");
        }
        text
    }

    pub fn text(&mut self, expression: &Bits) -> String {
        let outer = std::mem::take(&mut self.pieces);
        let lowered = self.expression(expression);
        let target = VerilogExpression::Signal("t".into());
        let printed = verilog_combinatorial(&vec![VerilogStatement::Assignment(target, lowered)]);
        let from = printed.find("t = ").map_or(0, |at| at + 4);
        let to = printed.rfind(';').unwrap_or(printed.len());
        let pieces = std::mem::replace(&mut self.pieces, outer);
        let mut parts = printed[from..to].split('@');
        let mut text = parts.next().unwrap_or_default().to_owned();
        // Placeholders are `@<index>@`, so every second part is an index.
        while let (Some(index), Some(rest)) = (parts.next(), parts.next()) {
            text += index.parse().ok().and_then(|i: usize| pieces.get(i)).map_or("", String::as_str);
            text += rest;
        }
        text
    }

    fn piece(&mut self, text: String) -> VerilogExpression {
        self.pieces.push(text);
        VerilogExpression::Signal(format!("@{}@", self.pieces.len() - 1))
    }

    fn expression(&mut self, expression: &Bits) -> VerilogExpression {
        match expression.node() {
            Node::Signal(signal) => VerilogExpression::Signal(signal.name.clone()),
            Node::Literal(value) => VerilogExpression::Signal(format!("{}'h{value:x}", expression.width())),
            Node::Mutant(number) => self.piece(format!("(mutant == {number})")),
            Node::Unary(op, a) => {
                let op = match op {
                    UnaryOp::Not => VerilogOpUnary::Not,
                    UnaryOp::All => VerilogOpUnary::All,
                    UnaryOp::Any => VerilogOpUnary::Any,
                };
                let operand = match self.operand(a) {
                    // Verilog's grammar takes a primary after a unary operator: no `&~a`, no `~~a`.
                    unary @ VerilogExpression::Unary(..) => VerilogExpression::Paren(Box::new(unary)),
                    other => other,
                };
                let unary = VerilogExpression::Unary(op.clone(), Box::new(operand));
                if matches!(op, VerilogOpUnary::Not) {
                    return unary;
                }
                VerilogExpression::Paren(Box::new(unary))
            }
            Node::Binary(op, a, b) => {
                let op = match op {
                    BinaryOp::And => VerilogOp::BitAnd,
                    BinaryOp::Or => VerilogOp::BitOr,
                    BinaryOp::Xor => VerilogOp::BitXor,
                    BinaryOp::Add => VerilogOp::Add,
                    BinaryOp::Sub => VerilogOp::Sub,
                    BinaryOp::Mul => VerilogOp::Mul,
                    BinaryOp::Eq => VerilogOp::Eq,
                    BinaryOp::Ne => VerilogOp::Ne,
                    BinaryOp::Lt => VerilogOp::Lt,
                    BinaryOp::Ge => VerilogOp::Ge,
                    BinaryOp::Shl => VerilogOp::Shl,
                    BinaryOp::Shr => VerilogOp::Shr,
                };
                if let Some((sign, leaves)) = reduction(expression) {
                    let leaves: Vec<String> = leaves.iter().map(|leaf| self.text(leaf)).collect();
                    return self.piece(format!("({sign}{{{}}})", leaves.join(", ")));
                }
                let [first, second] = chains(expression);
                let mut part = |chains, part| if chains { self.expression(part) } else { self.operand(part) };
                let first = part(first, a);
                VerilogExpression::Binary(Box::new(first), op, Box::new(part(second, b)))
            }
            Node::Mux(select, a, b) => {
                if let Some((index, values)) = self.split.rom(expression) {
                    let (index, name) =
                        (self.text(&index), self.function(&index, &values, expression.width()));
                    return self.piece(format!("{name}({index})"));
                }
                let [select, a, b] = [select, a, b].map(|e| self.text(e));
                self.piece(format!("({select} ? {a} : {b})"))
            }
            Node::Cat(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.text(part)).collect();
                self.piece(format!("{{{}}}", parts.join(", ")))
            }
            Node::Repeat(count, part) => {
                let part = self.text(part);
                self.piece(format!("{{{count}{{{part}}}}}"))
            }
            Node::Slice { base, low } => {
                let name = match base.node() {
                    Node::Signal(signal) => signal.name.clone(),
                    // Verilog slices only names.
                    _ => self.hoist(base),
                };
                self.sliced.insert(name.clone());
                let high = low + expression.width() - 1;
                self.piece(if high == *low {
                    format!("{name}[{low}]")
                } else {
                    format!("{name}[{high}:{low}]")
                })
            }
            Node::MemoryRead { memory, addr, .. } => {
                let addr = self.text(addr);
                self.piece(format!("{memory}[{addr}]"))
            }
            // `check` has refused these.
            Node::Mismatch { .. } | Node::Invalid(_) | Node::Later(_) => {
                VerilogExpression::Signal("invalid".into())
            }
        }
    }

    fn operand(&mut self, expression: &Bits) -> VerilogExpression {
        let lowered = self.expression(expression);
        match lowered {
            VerilogExpression::Binary(..) => VerilogExpression::Paren(Box::new(lowered)),
            _ => lowered,
        }
    }

    /// `<stem><number>`, or with the next unused number.
    fn free_name(&mut self, stem: &str, mut number: usize) -> String {
        loop {
            let name = format!("{stem}{number}");
            if self.taken.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }

    pub fn function(&mut self, index: &Bits, values: &[u128], width: u32) -> String {
        let digits = values.len().ilog2().div_ceil(4) as usize;
        let cases = values
            .iter()
            .enumerate()
            .map(|(at, value)| format!("{}'h{at:0digits$x}: NAME = {width}'h{value:x};", index.width()));
        // As many as fit in a line.
        let mut body = String::new();
        let mut column = usize::MAX;
        for case in cases {
            let fits = column.saturating_add(case.len()) < 100;
            body += if fits { " " } else { "\n        " };
            column = case.len() + 1 + if fits { column } else { 8 };
            body += &case;
        }
        let [result, argument] = [width, index.width()].map(range);
        let text = format!(
            "function {result}NAME(input {argument}index);\n    case (index){body}\n        \
             default: NAME = {{{width}{{1'bx}}}};\n    endcase\nendfunction\n"
        );
        let known = self.roms.iter().find(|(name, function)| *function == text.replace("NAME", name));
        if let Some((name, _)) = known {
            return name.clone();
        }
        let stem = format!("{}_rom", self.target);
        let name = if self.taken.insert(stem.clone()) { stem } else { self.free_name(&stem, 1) };
        self.roms.push((name.clone(), text.replace("NAME", &name)));
        name
    }

    pub fn wire(&mut self, width: u32, text: String) -> String {
        if let Some(name) = self.names_of.get(&text) {
            return name.clone();
        }
        let name = self.free_name(&format!("{}_part", self.target), self.hoisted.len());
        self.names_of.insert(text.clone(), name.clone());
        self.hoisted.push((name.clone(), width, text));
        name
    }
}

/// A bit that one operator makes of several others, as a reduction: the operator and its operands.
pub(crate) fn reduction(expression: &Bits) -> Option<(&'static str, Vec<Bits>)> {
    const MORE: usize = 3;
    let Node::Binary(op @ (BinaryOp::And | BinaryOp::Or | BinaryOp::Xor), ..) = expression.node() else {
        return None;
    };
    fn leaves(op: BinaryOp, bits: &Bits, found: &mut Vec<Bits>) {
        match bits.node() {
            Node::Binary(own, ..) if *own == op => bits.children().for_each(|part| leaves(op, part, found)),
            _ => found.push(*bits),
        }
    }
    let mut found = Vec::new();
    (expression.width() == 1).then(|| leaves(*op, expression, &mut found));
    (found.len() > MORE).then(|| (op.text(), found))
}

pub(crate) fn is_infix(expression: &Bits) -> bool {
    matches!(expression.node(), Node::Binary(..)) && reduction(expression).is_none()
}

/// Which operands need no parentheses since they have the same operator. Verilog applies it from the left; for three
/// operands the grouping does not matter.
pub(crate) fn chains(expression: &Bits) -> [bool; 2] {
    use BinaryOp::{Add, And, Or, Sub, Xor};
    let Node::Binary(op, first, second) = expression.node() else { return [false; 2] };
    let is_same = |part: &Bits| matches!(part.node(), Node::Binary(other, ..) if other == op);
    let is_pair = |part: &Bits| is_same(part) && !part.children().any(is_same);
    match op {
        And | Or | Xor => [is_same(first), !is_same(first) && is_pair(second)],
        Add | Sub => [is_same(first), false],
        _ => [false; 2],
    }
}

/// A line break would end a comment.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn range(width: u32) -> String {
    if width == 1 { String::new() } else { format!("[{}:0] ", width - 1) }
}

fn indent(lines: &[String], depth: usize) -> String {
    let before = "    ".repeat(depth);
    lines.iter().map(|line| format!("{before}{}\n", line.replace('\n', &format!("\n{before}")))).collect()
}

/// All drivers, each wire after those that it reads, outputs last.
fn in_order(inner: &Inner) -> Vec<(usize, &Bits)> {
    let of_wire = |id: usize| inner.drives.iter().find(|(driven, _)| *driven == id);
    let is_wire = |id: &usize| matches!(inner.declarations.get(*id).map(|d| &d.kind), Some(Kind::Wire));
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    let (wires, outputs): (Vec<_>, Vec<_>) =
        inner.drives.iter().map(|(id, value)| (*id, value)).partition(|(id, _)| is_wire(id));
    for (id, _) in wires {
        let mut todo = vec![(id, false)];
        while let Some((id, is_done)) = todo.pop() {
            let Some((_, value)) = of_wire(id) else { continue };
            if is_done {
                order.push((id, value));
            } else if seen.insert(id) {
                todo.push((id, true));
                todo.extend(value.signals().into_iter().rev().filter(is_wire).map(|read| (read, false)));
            }
        }
    }
    order.extend(outputs);
    order
}

fn strip_parens(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) else { return text };
    let mut depth = 0;
    for c in inner.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth < 0 {
            return text;
        }
    }
    inner
}

struct Printable {
    nets: Vec<Net>,
    body: String,
}

impl Logic for Printable {
    fn update(&mut self) {}

    fn hdl(&self) -> Verilog {
        Verilog::Custom(self.body.clone())
    }
}

impl Block for Printable {
    fn connect_all(&mut self) {}

    fn update_all(&mut self) {}

    fn has_changed(&self) -> bool {
        false
    }

    fn accept(&self, name: &str, probe: &mut dyn Probe) {
        probe.visit_start_scope(name, self);
        for net in &self.nets {
            probe.visit_atom(&net.name, net);
        }
        probe.visit_end_scope(name, self);
    }
}

struct Net {
    name: String,
    width: u32,
    kind: AtomKind,
    id: usize,
}

impl Net {
    fn new(name: &str, width: u32, kind: AtomKind) -> Self {
        Self { name: name.to_owned(), width, kind, id: rust_hdl_core::signal::get_signal_id() }
    }
}

impl Atom for Net {
    fn bits(&self) -> usize {
        self.width as usize
    }

    fn connected(&self) -> bool {
        true
    }

    fn changed(&self) -> bool {
        false
    }

    fn kind(&self) -> AtomKind {
        self.kind
    }

    fn descriptor(&self) -> TypeDescriptor {
        TypeDescriptor { name: self.name.clone(), kind: TypeKind::Bits(self.bits()) }
    }

    fn vcd(&self) -> VCDValue {
        // rust-hdl's own simulator is not used.
        VCDValue::String(String::new())
    }

    fn id(&self) -> usize {
        self.id
    }

    fn verilog(&self) -> VerilogLiteral {
        VerilogLiteral::from(0_u32)
    }

    fn constraints(&self) -> Vec<PinConstraint> {
        Vec::new()
    }
}
