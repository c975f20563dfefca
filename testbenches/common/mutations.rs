//! Verilog with errors that tests have to find. The mutants of one block are one text: each expression that a mutation changes becomes a choice
//! between what it is and what it would be, by a number that is a plus argument of the model. So they are Verilated and compiled once.

use ndp_files::failure;
use ndp_sim::ffi::{Hardware, Rtl, unchanged};
use std::fmt::Write;

/// An error in the Verilog that a test has to find: each occurrence of a text is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// Name of the mutant, in place of the configuration's.
    pub name: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}

impl Mutation {
    pub const fn new(name: &'static str, from: &'static str, to: &'static str) -> Self {
        Self { name, from, to }
    }
}

/// The register that has the number of the mutation at work, in each module that is changed.
pub const NUMBER: &str =
    "    integer mutant;\n    initial if (!$value$plusargs(\"mutant=%d\", mutant)) mutant = 0;\n";

/// A line before its expression, the expression, and what is behind it: `assign x = E;`, `x <= E;`, `if (E)`, or `.port(E),`, as the
/// language prints them.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let text = line.trim_start();
    let (first, last) = match text {
        _ if text.starts_with("if (") => (line.find('(')? + 1, line.rfind(')')?),
        _ if text.starts_with('.') => (line.find('(')? + 1, line.rfind(')')?),
        _ if text.starts_with("assign ") => (line.find(" = ")? + 3, line.rfind(';')?),
        _ => (line.find(" <= ")? + 4, line.rfind(';')?),
    };
    Some((line.get(..first)?, line.get(first..last)?, line.get(last..)?))
}

/// Emitted modules with all mutations; each number is one more than the index.
///
/// # Errors
/// A text that is replaced and is not in the Verilog, or not in an expression.
pub fn all(verilog: &str, mutations: &[Mutation]) -> Result<String, String> {
    let mut found = vec![false; mutations.len()];
    let (mut text, mut module, mut changed) = (String::new(), String::new(), false);
    for line in verilog.lines() {
        let mut present = line.to_owned();
        for (index, Mutation { name, from, to }) in mutations.iter().enumerate() {
            if !line.contains(from) {
                continue;
            }
            let mutated = line.replace(from, to);
            let (there, other) = (parts(line), parts(&mutated));
            let both = there.zip(other).filter(|(there, other)| there.0 == other.0 && there.2 == other.2);
            let Some(((before, _, behind), (_, expression, _))) = both else {
                return Err(format!("`{from}` of {name} is not in one expression of `{}`", line.trim()));
            };
            let (_, rest, _) = parts(&present).unwrap_or((before, "", behind));
            present = format!("{before}(mutant == {}) ? ({expression}) : ({rest}){behind}", index + 1);
            (found[index], changed) = (true, true);
        }
        let _ = writeln!(module, "{present}");
        if line == "endmodule" {
            if std::mem::take(&mut changed) {
                let ports = module.find("\n);\n").ok_or("a module without ports")? + 4;
                module.insert_str(ports, NUMBER);
            }
            text += &std::mem::take(&mut module);
        }
    }
    text += &module;
    match mutations.iter().zip(found).find(|(_, found)| !found) {
        Some((Mutation { name, from, .. }, _)) => Err(format!("no `{from}`, which {name} replaces")),
        None => Ok(text),
    }
}

/// That of mutants, which run until the error is found.
const MUTANT_OPT_LEVEL: u32 = 0;

/// A block with an error that a test has to find: the one of these mutations that has this name.
///
/// # Errors
/// As [`unchanged`], and what [`all`] says of the mutations.
pub fn mutant(
    hardware: &impl Hardware,
    block: &str,
    mutations: &[Mutation],
    name: &str,
) -> ndp_files::Result<Rtl> {
    let mut rtl = unchanged(hardware, block)?;
    let failed = |reason: String| failure!("the model of `{name}` cannot be built: {reason}");
    let chosen = mutations.iter().position(|mutation| mutation.name == name);
    let chosen = chosen.ok_or_else(|| failed(format!("no mutant of {} is called {name}", rtl.name)))?;
    rtl.verilog = all(&rtl.verilog, mutations)
        .map_err(|error| failed(format!("the Verilog of {}: {error}", rtl.name)))?;
    rtl.name = format!("{name}/{}", rtl.block);
    rtl.native = None;
    rtl.opt_level = MUTANT_OPT_LEVEL;
    rtl.mutant = chosen as u32 + 1;
    Ok(rtl)
}
