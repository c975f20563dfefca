//! The Yosys script of one module, with the ABC recipes to choose from. It works on Yosys 0.23 and on current versions,
//! with relative paths (the WebAssembly build opens no others).

use crate::source::Unit;
use std::fmt::Write;

/// Name of the combinational library in a module's working folder.
pub const COMB_LIB: &str = "comb.lib";
/// Name of the library with the flip-flop.
pub const SEQ_LIB: &str = "seq.lib";
/// Name of ABC's constraint file.
pub const CONSTRAINTS: &str = "abc.sdc";

/// Share of the period for ABC, which does not see clock-to-Q and setup.
pub const ABC_SHARE: f64 = 0.9;

ndp_config::named! {
    /// ABC's optimisation and mapping.
    ///
    /// Measured on a multiplier unit (eight lanes, aligner, 4 x 26-bit accumulator; ASAP7, Yosys 0.23): Yosys' own script
    /// 454 um2 / 919 ps, balanced 438 um2 / 734 ps, area 435 um2 / 1114 ps, speed 468 um2 / 608 ps. ABC's `dc2`, part of
    /// Yosys' script, undoes the logarithmic carry trees that Yosys builds; leaving it out is most of the gain.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Recipe {
        /// Structural choices and area-oriented mapping, no restructuring of adders. The default.
        Balanced = "balanced",
        /// Restructures first: smaller where there is slack.
        Area = "area",
        /// Delay-oriented mapping.
        Speed = "speed",
        /// The script that Yosys uses by itself.
        Yosys = "yosys",
    }
}

impl Recipe {
    /// ABC commands in Yosys' notation; `{D}` becomes the target delay.
    fn commands(self) -> &'static str {
        match self {
            Self::Balanced => {
                "strash;ifraig;scorr;dch;amap,-m;topo;buffer,-c;topo;upsize,{D};dnsize,{D};stime,-p,-d"
            }
            Self::Area => {
                "strash;ifraig;scorr;dc2;dc2;strash;dch,-f;amap,-m;topo;buffer,-c;topo;upsize,{D};dnsize,{D};stime,-p,-d"
            }
            Self::Speed => {
                "strash;ifraig;scorr;&get,-n;&dch,-f;&nf,{D};&put;topo;buffer,-c;topo;upsize,{D};dnsize,{D};stime,-p,-d"
            }
            Self::Yosys => {
                "strash;&get,-n;&fraig,-x;&put;scorr;dc2;dretime;retime,-o,{D};strash;&get,-n;&dch,-f;&nf,{D};&put;buffer;upsize,{D};dnsize,{D};stime,-p,-d"
            }
        }
    }
}

/// The module with its children's stubs.
pub const VERILOG: &str = "module.v";
pub const SCRIPT: &str = "module.ys";
pub const LOG: &str = "yosys.log";
pub const GENERIC_STAT: &str = "generic.json";
/// Written by ABC's `stime -d`, a line per recipe: name, inputs, outputs, nodes, area, delay in ps.
pub const ABC_STATS: &str = "stats.txt";

pub fn mapped_stat(recipe: Recipe) -> String {
    format!("{}.json", recipe.name())
}

pub fn abc_log(recipe: Recipe) -> String {
    format!("{}_abc.log", recipe.name())
}

/// File of the netlist with its names, for [`crate::power`].
pub fn named_netlist(recipe: Recipe) -> String {
    format!("{}_net.json", recipe.name())
}

/// The named netlist of the chosen recipe.
pub const CHOSEN_NETLIST: &str = "netlist.json";

pub fn netlist(recipe: Recipe) -> String {
    format!("{}_net.v", recipe.name())
}

/// File with the clock gate's cells.
pub const CLOCK_GATE: &str = "clock_gate.v";
/// File with the clock gate as a black box.
pub const GATED: &str = "clock_gate_stub.v";
pub const GATED_MAP: &str = "gated_registers.v";
/// Narrower registers keep their clock: a gate's flip-flop takes as much as one of theirs.
const GATED_BITS: u32 = 8;

/// Input of clock gates, and of all modules with a clock, by which a scan chain's shift clocks every register.
pub const TEST_ENABLE: &str = "test_enable_i";

pub fn clock_gate_stub(test_enable: bool) -> String {
    let port = if test_enable { format!(", input {TEST_ENABLE}") } else { String::new() };
    format!("(* blackbox *) module clock_gate(input clk_i, input en_i{port}, output clk_o); endmodule\n")
}

/// Maps registers with an enable to registers with a clock gate. A reset beside the enable also opens the gate.
pub fn gated_registers() -> String {
    let map = |kind: &str, reset: bool, enable: &str| {
        let (inputs, parameters, plain, given, connected) = match reset {
            false => ("", "", "dff", "", ""),
            true => (
                ", SRST",
                "parameter SRST_POLARITY = 1; parameter SRST_VALUE = 0;",
                "sdff",
                ", .SRST_POLARITY(SRST_POLARITY), .SRST_VALUE(SRST_VALUE)",
                ", .SRST(SRST)",
            ),
        };
        format!(
            "(* techmap_celltype = \"${kind}\" *)\nmodule gated_{kind}(CLK, EN{inputs}, D, Q);\n\
             parameter WIDTH = 1; parameter CLK_POLARITY = 1; parameter EN_POLARITY = 1; {parameters}\n\
             input CLK, EN{inputs}; input [WIDTH-1:0] D; output [WIDTH-1:0] Q; wire gated;\n\
             wire _TECHMAP_FAIL_ = WIDTH < {GATED_BITS} || !CLK_POLARITY;\n\
             clock_gate gate(.clk_i(CLK), .en_i({enable}), .clk_o(gated));\n\
             \\${plain} #(.WIDTH(WIDTH), .CLK_POLARITY(1){given}) _TECHMAP_REPLACE_ (.CLK(gated){connected}, .D(D), .Q(Q));\n\
             endmodule\n"
        )
    };
    let enabled = "EN == EN_POLARITY";
    map("dffe", false, enabled)
        + &map("sdffce", true, enabled)
        + &map("sdffe", true, "EN == EN_POLARITY || SRST == SRST_POLARITY")
}

#[derive(Clone, Debug)]
pub struct Mapping {
    pub recipes: Vec<Recipe>,
    pub target_ps: f64,
    /// Registers with an enable get a gated clock.
    pub clock_gating: bool,
    /// Gates have a test enable, from an input of the module; so have its children.
    pub test_enable: bool,
}

/// Yosys script; without `mapping` it maps to generic gates only.
pub fn yosys_script(unit: &Unit, mapping: Option<&Mapping>) -> String {
    let (top, gated) = (&unit.name, mapping.is_some_and(|mapping| mapping.clock_gating));
    let synth = "synth -flatten -noabc -nordff";
    let mut text = format!("read_verilog {VERILOG}\n");
    if gated {
        // Registers are words with enables after the first steps of `fine`; registers with one enable share a gate.
        let _ = write!(
            text,
            "read_verilog {GATED}\n{synth} -top {top} -run begin:fine\nopt -fast -full\nmemory_map\nopt -full\n\
             techmap -map {GATED_MAP}\nopt_merge\nopt_merge -share_all t:clock_gate\nopt_clean\n"
        );
        if mapping.is_some_and(|mapping| mapping.test_enable) && unit.has_registers() {
            // As `.*` in an instance: an unconnected port takes the net of its name.
            let boxes: String = unit.children.keys().map(|name| format!(" t:{name}")).collect();
            let _ = write!(
                text,
                "add -input {TEST_ENABLE} 1\nsetattr -set wildcard_port_conns 1 t:clock_gate{boxes}\nhierarchy\n"
            );
        }
        let _ = writeln!(text, "{synth} -run fine:");
    } else {
        let _ = writeln!(text, "{synth} -top {top}");
    }
    // Flip-flops are named after their nets, so that timing reports can be read.
    text += "rename -wire t:$_*DFF*\nopt\ndesign -save mapped_from_here\n";
    // Enables and resets become gates, as in a library whose only flip-flop is a plain one.
    text += "dfflegalize -cell $_DFF_P_ x\nopt -nodffe -nosdff\nabc -g cmos\nopt_clean -purge\n";
    let _ = writeln!(text, "tee -q -o {} stat -json", GENERIC_STAT);
    let Some(mapping) = mapping else { return text };
    let _ =
        writeln!(text, "design -load mapped_from_here\ndfflibmap -liberty {SEQ_LIB}\nopt\ndesign -save map");
    for recipe in &mapping.recipes {
        let commands = recipe.commands();
        let _ = writeln!(text, "design -load map");
        let _ = writeln!(
            text,
            "tee -o {} abc -D {:.0} -constr {CONSTRAINTS} -liberty {COMB_LIB} -script +{commands}",
            abc_log(*recipe),
            mapping.target_ps
        );
        if gated {
            let _ = writeln!(text, "techmap -map {CLOCK_GATE}");
        }
        let _ = writeln!(text, "opt_clean -purge\ntee -q -o {} stat -json", mapped_stat(*recipe));
        let _ = writeln!(text, "write_json {}", named_netlist(*recipe));
        // Pins of black boxes become ports, so that paths to and from them are timed.
        if !unit.children.is_empty() {
            let boxes: Vec<String> = unit.children.keys().map(|name| format!("t:{name}")).collect();
            let _ = writeln!(text, "expose -evert {}", boxes.join(" "));
        }
        // If cells or assignments use a part of a net, it would become a concatenation on the left, which OpenSTA
        // refuses.
        text += "splitnets -ports\nopt_clean -purge\n";
        let _ = writeln!(text, "write_verilog -noattr -noexpr -nohex -nodec {}", netlist(*recipe));
    }
    text
}

/// Driver of the inputs, and load of the outputs (fF, whatever the library's unit).
pub fn constraints(boundary: Option<(&str, f64)>) -> String {
    boundary.map_or(String::new(), |(cell, load_ff)| {
        format!("set_driving_cell {cell}\nset_load {load_ff} [all_outputs]\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn unit(children: &[&str]) -> Unit {
        Unit {
            name: "top".into(),
            verilog: String::new(),
            stub: String::new(),
            children: children.iter().map(|c| (c.to_string(), 1)).collect::<BTreeMap<_, _>>(),
            instances: 1,
            memory: None,
            clocks: vec!["clk_i".into()],
        }
    }

    #[test]
    fn paths_are_relative_and_every_recipe_has_its_own_files() {
        let mapping = Mapping {
            recipes: Recipe::ALL.to_vec(),
            target_ps: 900.0,
            clock_gating: false,
            test_enable: false,
        };
        let text = yosys_script(&unit(&["a", "b"]), Some(&mapping));
        assert!(!text.contains(" /"), "{text}");
        assert_eq!(text.matches("abc -D 900 ").count(), 4);
        assert_eq!(text.matches("expose -evert t:a t:b\n").count(), 4);
        for recipe in Recipe::ALL {
            assert!(text.contains(&format!("{}_net.v", recipe.name())));
        }
    }

    #[test]
    fn without_a_library_nothing_is_mapped() {
        let text = yosys_script(&unit(&[]), None);
        assert!(
            !text.contains("liberty") && !text.contains("expose") && text.contains("abc -g cmos"),
            "{text}"
        );
    }
}
