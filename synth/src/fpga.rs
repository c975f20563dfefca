//! A block in an FPGA of Lattice's ECP5 family: Yosys maps it, nextpnr places and routes it.
//!
//! The core has more pins than any package, so the block is placed out of context: its ports are ends of nets without
//! I/O cells. Paths from and to ports are not timed. RAMs become block RAM (`NDP_RAM_FPGA`).

use crate::files::{read, write};
use crate::parse;
use crate::tools::Tool;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_files::{Result, bail, failure, refusal};
use ndp_hdl::designs::{HBM_BLOCKS, build, build_hbm};
use ndp_hdl::package::{Source, files};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Name, nextpnr's flag and a package. Those of 12 and 25 thousand LUTs are the same chip.
const DEVICES: [(&str, &str, &str); 3] =
    [("ecp5-25k", "--25k", "CABGA381"), ("ecp5-45k", "--45k", "CABGA554"), ("ecp5-85k", "--85k", "CABGA756")];

/// nextpnr's name, and the report's.
const RESOURCES: [(&str, &str); 4] = [
    ("TRELLIS_COMB", "LUTs"),
    ("TRELLIS_FF", "flip-flops"),
    ("DP16KD", "block RAMs (18 Kbit)"),
    ("MULT18X18D", "multipliers (18x18)"),
];

pub fn devices() -> Vec<&'static str> {
    DEVICES.iter().map(|device| device.0).collect()
}

#[derive(Debug)]
pub struct Fpga {
    pub yosys: Tool,
    /// nextpnr for ECP5; `None` only maps the block.
    pub nextpnr: Option<Tool>,
    pub device: String,
    /// Target frequency of every clock.
    pub mhz: f64,
    pub seed: u32,
    pub limit: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub resource: &'static str,
    pub used: u64,
    pub available: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clock {
    pub clock: String,
    /// Highest frequency.
    pub mhz: f64,
    pub target_mhz: f64,
    /// Cells of the longest path, with their ns.
    pub path: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// `clk-to-q`, `logic`, `routing` or `setup`.
    pub kind: String,
    /// Cell at the end of the step.
    pub to: String,
    pub ns: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub config: String,
    pub block: String,
    pub device: String,
    pub yosys: String,
    /// Version of nextpnr, if it ran.
    pub nextpnr: Option<String>,
    /// Number of cells of the mapped netlist, by type.
    pub cells: BTreeMap<String, u64>,
    /// Resources used; empty without nextpnr.
    pub usage: Vec<Usage>,
    pub clocks: Vec<Clock>,
}

/// A block with RAMs of all technologies, and the configuration's name. The top is `<block>_top`.
fn verilog(config: &str, block: &str) -> Result<(String, String)> {
    let error = |e: &dyn std::fmt::Display| refusal!("cannot build block '{block}': {e:#}");
    let (source, design) = if HBM_BLOCKS.contains(&block) {
        let memory = HbmConfig::load(config)?;
        (Source::memory(&memory, config, block, ""), build_hbm(&memory, block))
    } else {
        let core = DesignConfig::load(config)?;
        (Source::core(&core, config, block, ""), build(&core, block))
    };
    let (source, design) = (source.map_err(|e| error(&e))?, design.map_err(|e| error(&e))?);
    let files = files(&source, &design).map_err(|e| error(&e))?;
    let modules = files.iter().filter(|(name, _)| name.ends_with(".v"));
    Ok((source.config, modules.map(|(_, text)| text.as_str()).collect()))
}

impl Fpga {
    /// Maps, places and routes in `folder`, which gets the mapped netlist `netlist.v` and the tools' logs.
    ///
    /// # Errors
    /// A configuration or block that cannot be built; a tool that fails; a block that does not fit.
    pub fn run(&self, config: &str, block: &str, folder: &Path) -> Result<Report> {
        let (_, flag, package) = *self.device()?;
        let (name, text) = verilog(config, block)?;
        let top = format!("{block}_top");
        write(&folder.join("design.v"), &text)?;
        // Without the last step, which takes longer than all others to name cells.
        let script = format!(
            "read_verilog -DNDP_RAM_FPGA design.v; synth_ecp5 -top {top} -run begin:check; hierarchy -check; check; blackbox =A:whitebox; \
             write_json netlist.json; write_verilog -noattr netlist.v; tee -q -o stat.json stat -json"
        );
        let arguments = ["-q", "-l", "yosys.log", "-p", &script];
        self.yosys.run("Yosys", (block, folder), &arguments, "yosys.out", self.limit)?;
        let stat = read(&folder.join("stat.json"))?;
        let wrong =
            |tool, reason| failure!("cannot read the output of {tool} for module '{block}': {reason}");
        let cells = parse::stat_json(&stat, &top).map_err(|reason| wrong("Yosys", reason))?;
        let mut report = Report {
            config: name,
            block: block.to_owned(),
            device: self.device.clone(),
            yosys: self.yosys.version.clone(),
            nextpnr: self.nextpnr.as_ref().map(|tool| tool.version.clone()),
            cells,
            usage: Vec::new(),
            clocks: Vec::new(),
        };
        let Some(nextpnr) = &self.nextpnr else { return Ok(report) };
        let (mhz, seed) = (self.mhz.to_string(), self.seed.to_string());
        let arguments = [
            flag,
            "--package",
            package,
            "--json",
            "netlist.json",
            "--out-of-context",
            "--freq",
            &mhz,
            "--seed",
            &seed,
            "--timing-allow-fail",
            "--report",
            "report.json",
        ];
        let ran = nextpnr.run("nextpnr", (block, folder), &arguments, "nextpnr.log", self.limit);
        let log = read(&folder.join("nextpnr.log"))?;
        if let Some(over) = utilisation(&log).into_iter().find(|usage| usage.used > usage.available) {
            let Usage { resource, used, available } = over;
            let (block, device) = (block.to_owned(), self.device.clone());
            bail!(
                "block '{block}' does not fit {device}: {used} {resource}, of which the device has {available}"
            );
        }
        ran?;
        let text = read(&folder.join("report.json"))?;
        let found: Value =
            serde_json::from_str(&text).map_err(|e| wrong("nextpnr", format!("report: {e}")))?;
        report.usage = usage(&found).ok_or_else(|| wrong("nextpnr", "report: no utilization".to_owned()))?;
        report.clocks = clocks(&found).ok_or_else(|| wrong("nextpnr", "report: no fmax".to_owned()))?;
        Ok(report)
    }

    fn device(&self) -> Result<&'static (&'static str, &'static str, &'static str)> {
        DEVICES.iter().find(|device| device.0 == self.device).ok_or_else(|| {
            refusal!("unknown device '{}'; expected one of {}", self.device, devices().join(", "))
        })
    }
}

/// nextpnr's lines before placement: `Info: \t DP16KD:  45/  208  21%`.
fn utilisation(log: &str) -> Vec<Usage> {
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("Info:")?.trim().split_once(':')?;
        let resource = RESOURCES.iter().find(|(known, _)| *known == name)?.1;
        let (used, rest) = rest.split_once('/')?;
        let available = rest.split_whitespace().next()?;
        Some(Usage { resource, used: used.trim().parse().ok()?, available: available.parse().ok()? })
    };
    log.lines().filter_map(line).collect()
}

fn usage(report: &Value) -> Option<Vec<Usage>> {
    let found = report.get("utilization")?;
    let of = |(name, resource): &(&str, &'static str)| {
        let number = |what: &str| found.get(name)?.get(what)?.as_u64();
        Some(Usage { resource, used: number("used")?, available: number("available")? })
    };
    RESOURCES.iter().map(of).collect()
}

fn clocks(report: &Value) -> Option<Vec<Clock>> {
    let paths = report.get("critical_paths")?.as_array()?;
    let steps = |clock: &str| {
        let edge = format!("posedge {clock}");
        let of = |path: &&Value| ["from", "to"].iter().all(|end| path[*end].as_str() == Some(edge.as_str()));
        let path = paths.iter().find(of)?.get("path")?.as_array()?;
        let step = |step: &Value| {
            Some(Step {
                kind: step.get("type")?.as_str()?.to_owned(),
                to: step.get("to")?.get("cell")?.as_str()?.to_owned(),
                ns: step.get("delay")?.as_f64()?,
            })
        };
        path.iter().map(step).collect::<Option<Vec<_>>>()
    };
    let clock = |(clock, found): (&String, &Value)| {
        Some(Clock {
            clock: clock.clone(),
            mhz: found.get("achieved")?.as_f64()?,
            target_mhz: found.get("constraint")?.as_f64()?,
            path: steps(clock).unwrap_or_default(),
        })
    };
    let by_name: BTreeMap<&String, &Value> = report.get("fmax")?.as_object()?.iter().collect();
    by_name.into_iter().map(clock).collect()
}

impl Report {
    pub fn meets(&self) -> bool {
        self.clocks.iter().all(|clock| clock.mhz >= clock.target_mhz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_the_device_is_read_from_the_log() {
        let log = "Info: Device utilisation:\nInfo: \t        TRELLIS_COMB:100000/83640   119%\n\
                   Info: \t              DP16KD:    45/  208    21%\nInfo: \t   DCCA:  0/   56     0%\n";
        let of = |resource, used, available| Usage { resource, used, available };
        let expected = [of("LUTs", 100_000, 83_640), of("block RAMs (18 Kbit)", 45, 208)];
        assert_eq!(utilisation(log), expected);
    }

    #[test]
    fn clocks_come_with_their_longest_path_and_none_is_invented() {
        let text = r#"{"fmax": {"clk_i": {"achieved": 49.5, "constraint": 50}}, "critical_paths": [
            {"from": "async", "to": "posedge clk_i", "path": []},
            {"from": "posedge clk_i", "to": "posedge clk_i", "path": [{"type": "setup", "delay": 0.25, "to": {"cell": "a"}}]}]}"#;
        let found = clocks(&serde_json::from_str(text).unwrap()).unwrap();
        let path = vec![Step { kind: "setup".into(), to: "a".into(), ns: 0.25 }];
        assert_eq!(found, [Clock { clock: "clk_i".into(), mhz: 49.5, target_mhz: 50.0, path }]);
        assert_eq!(clocks(&serde_json::from_str(r#"{"fmax": {}}"#).unwrap()), None);
        assert_eq!(usage(&serde_json::from_str(r#"{"utilization": {}}"#).unwrap()), None);
    }
}
