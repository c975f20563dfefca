//! Verilog whose registers and memories begin with the contents of a native model.
//!
//! Verilator's own random contents follow from the order in which it constructs variables. So each module gets an
//! `initial` block that asks for the words of each register by its hierarchical name. The class of the model (`shims`)
//! answers with a function of `sim/ffi/model.hpp` that the native model shares.

use std::fmt::Write;

/// Functions that the blocks call: the place of a name, and a word at a place.
const IMPORTS: &str = "import \"DPI-C\" function longint contents_place(input string name);
import \"DPI-C\" function int contents_word(input longint place, input int at);
";

struct Declaration<'a> {
    name: &'a str,
    width: u32,
    depth: Option<u32>,
}

/// `reg name;`, `reg [7:0] name;` or `reg [7:0] name [0:3];`, as the language prints them.
fn declaration(line: &str) -> Option<Declaration<'_>> {
    let mut words = line.trim().strip_prefix("reg ")?.strip_suffix(';')?.split(' ');
    let mut word = words.next()?;
    let mut width = 1;
    if let Some(range) = word.strip_prefix('[') {
        width = range.strip_suffix(":0]")?.parse::<u32>().ok()? + 1;
        word = words.next()?;
    }
    let range = words.next().map(|range| range.strip_prefix("[0:")?.strip_suffix(']')?.parse::<u32>().ok());
    let depth = match range {
        Some(last) => Some(last? + 1),
        None => None,
    };
    Some(Declaration { name: word, width, depth })
}

pub fn given(verilog: &str) -> String {
    let (mut text, mut block) = (IMPORTS.to_owned(), String::new());
    for line in verilog.lines() {
        if let Some(Declaration { name, width, depth }) = declaration(line) {
            let limbs = width.div_ceil(32);
            let words = |first: &str| {
                let words = (0..limbs).rev().map(|limb| format!("contents_word(contents_at, {first}{limb})"));
                words.collect::<Vec<_>>().join(", ")
            };
            let _ = writeln!(block, "        contents_at = contents_place($sformatf(\"%m.{name}\"));");
            let _ = match depth {
                None => writeln!(block, "        {name} = {{{}}};", words("")),
                Some(depth) => writeln!(
                    block,
                    "        for (contents_i = 0; contents_i < {depth}; contents_i = contents_i + 1)\n            {name}[contents_i] = {{{}}};",
                    words(&format!("{limbs} * contents_i + "))
                ),
            };
        }
        if line == "endmodule" && !block.is_empty() {
            let _ = writeln!(
                text,
                "    longint contents_at;\n    int contents_i;\n    initial begin\n{}    end",
                std::mem::take(&mut block)
            );
        }
        text += line;
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_register_and_memory_is_given_contents() {
        let text = given(
            "module a (\n);\n    wire w;\n    reg b_q;\n    reg [39:0] c_q;\n    reg [32:0] m [0:3];\nendmodule\n",
        );
        for line in [
            "        contents_at = contents_place($sformatf(\"%m.b_q\"));",
            "        b_q = {contents_word(contents_at, 0)};",
            "        c_q = {contents_word(contents_at, 1), contents_word(contents_at, 0)};",
            "        for (contents_i = 0; contents_i < 4; contents_i = contents_i + 1)",
            "            m[contents_i] = {contents_word(contents_at, 2 * contents_i + 1), contents_word(contents_at, 2 * contents_i + 0)};",
        ] {
            assert_eq!(text.lines().filter(|other| *other == line).count(), 1, "{line} in\n{text}");
        }
        assert_eq!(given("module a (\n);\nendmodule\n"), format!("{IMPORTS}module a (\n);\nendmodule\n"));
    }
}
