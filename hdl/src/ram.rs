//! The technology of RAMs: each module that stands for a RAM has three bodies, chosen by macros.
//!
//! | macro | body |
//! | --- | --- |
//! | none | what simulation and proofs have seen: registers and an array |
//! | `NDP_RAM_FPGA` | one array with a registered read, from which FPGA tools make block RAM |
//! | `NDP_RAM_MACRO` | an instance of `ndp_ram_1clk` or `ndp_ram_2clk`, which the integrator has to write around the macros of a library |

use ndp_hdl_language::{Design, Module};
use serde_json::{Value, json};

struct Ram<'a> {
    module: &'a Module,
    depth: u32,
    width: u32,
    lanes: u32,
    write_clock: &'static str,
    read_clock: &'static str,
}

impl<'a> Ram<'a> {
    /// The RAM that a module stands for, if it is one: other memories have other ports, and only their own body.
    fn of(module: &'a Module) -> Option<Self> {
        let info = module.memory()?;
        let port = |name: &str| module.ports().iter().find(|port| port.name == name);
        if !["raddr_i", "re_i", "waddr_i", "wdata_i", "rdata_o"].iter().all(|name| port(name).is_some()) {
            return None;
        }
        let lanes = port("we_i")?.width;
        let own = |clocks: [&'static str; 2]| port(clocks[0]).map(|_| clocks);
        let [write_clock, read_clock] = own(["clk_i"; 2]).or_else(|| own(["write_clk_i", "read_clk_i"]))?;
        Some(Self { module, depth: info.depth, width: info.width, lanes, write_clock, read_clock })
    }

    fn cell(&self) -> &'static str {
        if self.write_clock == self.read_clock { "ndp_ram_1clk" } else { "ndp_ram_2clk" }
    }

    fn instance(&self) -> String {
        let connections = self.module.ports().iter().filter(|port| !port.name.ends_with("rst_ni"));
        let connections: Vec<String> =
            connections.map(|port| format!("        .{0}({0})", port.name)).collect();
        let Self { depth, width, lanes, .. } = self;
        format!(
            "    {} #(.DEPTH({depth}), .WIDTH({width}), .LANES({lanes})) ram (\n{}\n    );\n",
            self.cell(),
            connections.join(",\n")
        )
    }

    fn inferable(&self) -> String {
        let Self { depth, width, lanes, write_clock, read_clock, .. } = self;
        let (last, bits) = (width - 1, width / lanes);
        let writes = (0..*lanes).map(|lane| match lanes {
            1 => "        if (we_i) words[waddr_i] <= wdata_i;\n".to_owned(),
            _ => {
                let part = format!("[{}:{}]", (lane + 1) * bits - 1, lane * bits);
                format!("        if (we_i[{lane}]) words[waddr_i]{part} <= wdata_i{part};\n")
            }
        });
        format!(
            "    (* ram_style = \"block\" *) reg [{last}:0] words [0:{}];\n    reg [{last}:0] rdata_q;\n    assign rdata_o = rdata_q;\n    \
             always @(posedge {write_clock}) begin\n{}    end\n    \
             always @(posedge {read_clock}) begin\n        if (re_i) rdata_q <= words[raddr_i];\n    end\n",
            depth - 1,
            writes.collect::<String>()
        )
    }
}

/// The text of a module with the bodies of all technologies, if it is a RAM; otherwise unchanged.
pub(crate) fn with_technologies(module: &Module, text: &str) -> String {
    let parts = text.strip_suffix("endmodule\n").and_then(|text| text.split_once("\n);\n"));
    let Some((ram, (head, body))) = Ram::of(module).zip(parts) else { return text.to_owned() };
    format!(
        "{head}\n);\n`ifdef NDP_RAM_MACRO\n{}`else\n`ifdef NDP_RAM_FPGA\n{}`else\n{body}`endif\n`endif\nendmodule\n",
        ram.instance(),
        ram.inferable()
    )
}

pub(crate) fn list(design: &Design) -> Value {
    let rams = design.instance_counts();
    let rams = rams.iter().filter_map(|(module, count)| {
        let ram = Ram::of(module)?;
        Some(json!({
            "module": module.name(), "cell": ram.cell(), "depth": ram.depth, "width": ram.width, "lanes": ram.lanes,
            "instances": count,
        }))
    });
    rams.collect()
}
