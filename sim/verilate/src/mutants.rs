//! Verilog with errors that tests have to find. The mutants of one block are one text: each expression that a mutation changes becomes a choice
//! between what it is and what it would be, by a number that is a plus argument of the model. So they are Verilated and compiled once.

use std::fmt::Write;

/// An error in the Verilog that a test has to find: each occurrence of a text is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// Name of the mutant, in place of the configuration's.
    pub name: &'static str,
    /// What is replaced.
    pub from: &'static str,
    /// By what.
    pub to: &'static str,
}

impl Mutation {
    /// A mutation.
    pub const fn new(name: &'static str, from: &'static str, to: &'static str) -> Self {
        Self { name, from, to }
    }
}

/// The register that has the number of the mutation at work, in each module that is changed.
const NUMBER: &str =
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
pub(crate) fn all(verilog: &str, mutations: &[Mutation]) -> Result<String, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "module a (\n    input b_i\n);\n    assign c = b_i & d;\n    always @(posedge clk_i) begin\n        if (b_i)\n            e_q <= c;\n    end\n    f g (\n        .h_i(c),\n        .i_o(j)\n    );\nendmodule\n";

    #[test]
    fn each_changed_expression_is_a_choice() {
        let mutations = [
            Mutation::new("and", "& d", "| d"),
            Mutation::new("b", "(b_i)", "(1'h1)"),
            Mutation::new("c", "= c;", "= d;"),
            Mutation::new("both", "b_i & d", "d"),
        ];
        let text = all(MODULE, &mutations).unwrap();
        for line in [
            "    assign c = (mutant == 4) ? (d) : ((mutant == 1) ? (b_i | d) : (b_i & d));",
            "        if ((mutant == 2) ? (1'h1) : (b_i))",
            "            e_q <= (mutant == 3) ? (d) : (c);",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
        assert!(text.starts_with(&format!("module a (\n    input b_i\n);\n{NUMBER}    assign c")), "{text}");
        assert_eq!(all(MODULE, &[]).unwrap(), MODULE);
    }

    #[test]
    fn what_cannot_be_changed_is_named() {
        let refused = |from| all(MODULE, &[Mutation::new("wrong", from, "x")]).unwrap_err();
        assert_eq!(refused("e_q <="), "`e_q <=` of wrong is not in one expression of `e_q <= c;`");
        assert_eq!(refused("nowhere"), "no `nowhere`, which wrong replaces");
    }
}
