//! Whether a mutant is the same hardware as the original, in all runs.
//!
//! Both get the same inputs. Registers without a reset begin with 0, the first cycle is a reset, and the module's
//! assumptions hold. Equivalent means that all outputs are equal before each edge.

use super::{Outcome, Prover, Verdict};
use ndp_files::{Result, refusal};
use ndp_hdl_language::{Design, Direction, HdlError, Module, Pragmas};
use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;

/// Cycles of the first search.
const CYCLES: u32 = 40;

impl Prover {
    /// Proved if equivalent, refuted if a run tells them apart, open if neither is found within the limit or the module
    /// has several clocks.
    pub fn equivalent(&self, original: &Rc<Module>, mutant: &Rc<Module>, folder: &Path) -> Result<Outcome> {
        if !original.domains().is_empty() {
            return Ok(Outcome { verdict: Verdict::Open, properties: Vec::new(), seconds: 0.0 });
        }
        let error = |e: HdlError| refusal!("cannot build block '{}': {e}", original.name());
        let mut verilog = String::new();
        for (module, prefix) in [(original, "original"), (mutant, "mutant")] {
            let design = Design::new(module).map_err(error)?;
            let names: Vec<String> =
                design.modules().iter().map(|module| format!("{prefix}_{}", module.name())).collect();
            verilog += &design.renamed(Pragmas::None, &names).concat();
        }
        verilog += &comparison(original);
        let seconds = self.limit.as_secs().saturating_sub(2).max(2);
        let search = format!(
            "read_aiger model.aig; fold; strash; scorr; bmc3 -T {} -F {CYCLES}; pdr -T {}",
            seconds / 4 + 1,
            seconds / 2 + 1
        );
        let script = script(original.name());
        self.searched(original.name(), (&verilog, &script, &search), folder, |text| {
            if text.contains("was asserted in frame") {
                Ok((Verdict::Refuted, Vec::new()))
            } else if text.contains("Property proved") {
                Ok((Verdict::Proved, Vec::new()))
            } else {
                Ok((Verdict::Open, Vec::new()))
            }
        })
    }
}

/// The module around both, with an assertion for each output.
fn comparison(module: &Module) -> String {
    let mut ports = vec!["    input wire clk_i".to_owned()];
    let (mut wires, mut checks) = (String::new(), String::new());
    let mut connected = [String::new(), String::new()];
    for port in module.ports() {
        let (name, range) = (&port.name, format!("[{}:0]", port.width - 1));
        let [first, second] = match port.direction {
            Direction::Input => {
                if name != "clk_i" {
                    ports.push(format!("    input wire {range} {name}"));
                }
                [name.clone(), name.clone()]
            }
            Direction::Output => {
                let _ = writeln!(wires, "    wire {range} original_{name}, mutant_{name};");
                let _ = writeln!(
                    checks,
                    "    always @(posedge clk_i) same_{name}: assert (original_{name} == mutant_{name});"
                );
                [format!("original_{name}"), format!("mutant_{name}")]
            }
        };
        for (list, value) in connected.iter_mut().zip([first, second]) {
            let comma = if list.is_empty() { "" } else { ", " };
            let _ = write!(list, "{comma}.{name}({value})");
        }
    }
    let reset = if module.ports().iter().any(|port| port.name == "rst_ni") {
        "    reg proof_started = 1'b0;\n    always @(posedge clk_i) proof_started <= 1'b1;\n    \
         always @* assume (proof_started | ~rst_ni);\n"
    } else {
        ""
    };
    let [first, second] = connected;
    let title = module.name();
    format!(
        "module comparison (\n{}\n);\n{wires}    original_{title} original ({first});\n    mutant_{title} mutant ({second});\n{reset}{checks}endmodule\n",
        ports.join(",\n")
    )
}

/// Keeps only the comparison and the original's assumptions on its inputs.
fn script(title: &str) -> String {
    format!(
        "read_verilog -formal -DNDP_PROPERTIES design.v\n\
         prep -top comparison -nordff\n\
         chformal -assert -remove * comparison %d\n\
         chformal -assume -remove * comparison original_{title} %u %d\n\
         chformal -cover -remove\n{}",
        // Else the two would begin with contents of their own.
        super::to_aiger("setundef -init -zero\n", "")
    )
}
