//! Files for hardware package managers besides the Verilog: FuseSoC's core file or Bender's manifest, the licence, and
//! for the core of `tiny` a self-checking bench.
//!
//! The bench and its data come from `examples/icarus`: inputs and expected outputs of a program, made by the functional
//! model. They fit one configuration, so other packages have no simulation target. Packages of several configurations
//! can be in one design: all module names of a package begin with the package's.

use crate::package::Source;
use ndp_config::DesignConfig;
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::Table;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// A core file of CAPI2 with the targets `lint`, `synth` and perhaps `sim`.
    Fusesoc,
    /// `Bender.yml`; the bench has the target `test`.
    Bender,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
pub(crate) const MANIFEST: &str = "Bender.yml";
const BENCH: &str = "tb";
/// The bench: Verilog, and its data in the folder in which it runs.
const BENCH_FILES: [(&str, &str); 5] = [
    ("ddr4_rank.v", include_str!("../../examples/icarus/ddr4_rank.v")),
    ("bench.v", include_str!("../../examples/icarus/bench.v")),
    ("data.hex", include_str!("../../examples/icarus/data.hex")),
    ("program.hex", include_str!("../../examples/icarus/program.hex")),
    ("expected.hex", include_str!("../../examples/icarus/expected.hex")),
];

/// Whether the bench is for this design: the core of `tiny`, under any name.
fn has_bench(source: &Source) -> bool {
    let without_name = |mut keys: Table| {
        keys.remove("name");
        keys
    };
    let tiny = DesignConfig::preset("tiny").ok().and_then(|config| Table::try_from(config).ok());
    source.block == "ndp_core" && tiny.map(without_name) == Some(without_name(source.keys.clone()))
}

/// Name of the package for dependents: the wrapper's with the configuration's.
pub(crate) fn package_name(source: &Source) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let config: String = source.config.chars().map(legal).collect();
    format!("{}{}_{config}", source.prefix, source.block)
}

/// The files that turn Verilog files into a package. `files` lists children first, the wrapper last; `constraints` is
/// also a file.
pub(crate) fn files(
    manager: Manager,
    source: &Source,
    verilog: &[String],
    constraints: &str,
) -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([("LICENSE".to_owned(), include_str!("../../LICENSE").to_owned())]);
    let bench = has_bench(source);
    for (name, text) in BENCH_FILES.iter().filter(|_| bench) {
        let text = text.replace("ndp_core_top", &source.wrapper_name());
        files.insert(format!("{BENCH}/{name}"), text);
    }
    match manager {
        Manager::Fusesoc => {
            let text = core_file(source, verilog, constraints, bench);
            files.insert(format!("{}.core", package_name(source)), text);
        }
        Manager::Bender => {
            files.insert(MANIFEST.to_owned(), manifest(source, verilog, bench));
        }
    }
    files
}

fn core_file(source: &Source, verilog: &[String], constraints: &str, bench: bool) -> String {
    let (name, top) = (package_name(source), source.wrapper_name());
    let mut text = format!(
        "CAPI=2:\n{}name: ndp:ip:{name}:{VERSION}\ndescription: {} of the configuration {}; its parameters are in params.toml\n\n\
         filesets:\n  rtl:\n    files:\n",
        source.head("#"),
        source.block,
        source.config
    );
    for file in verilog {
        let _ = writeln!(text, "      - {file}");
    }
    let _ = write!(
        text,
        "    file_type: verilogSource-2005\n  constraints:\n    files:\n      - {constraints}\n    file_type: SDC\n"
    );
    if bench {
        text += "  bench:\n    files:\n      - params.vh: {is_include_file: true}\n";
        for (file, _) in BENCH_FILES {
            let how = if file.ends_with(".hex") {
                format!(": {{file_type: user, copyto: {file}}}")
            } else {
                String::new()
            };
            let _ = writeln!(text, "      - {BENCH}/{file}{how}");
        }
        text += "    file_type: verilogSource-2005\n";
    }
    let target = |name: &str, filesets: &str, top: &str, flow: &str, options: &str| {
        format!(
            "  {name}:\n    filesets: [{filesets}]\n    toplevel: {top}\n    flow: {flow}\n    flow_options: {{{options}}}\n"
        )
    };
    text += "\ntargets:\n  default:\n    filesets: [rtl]\n";
    text += &target(
        "lint",
        "rtl",
        &top,
        "lint",
        "tool: verilator, verilator_options: [-Wall, -Wno-DECLFILENAME]",
    );
    text +=
        &target("synth", "rtl, constraints", &top, "generic", "tool: yosys, arch: ecp5, output_format: json");
    if bench {
        text += &target("sim", "rtl, bench", "bench", "sim", "tool: icarus, iverilog_options: [-g2005]");
    }
    text
}

fn manifest(source: &Source, verilog: &[String], bench: bool) -> String {
    let mut text = format!(
        "{}package:\n  name: {}\n  authors: []\n\nsources:\n  - files:\n",
        source.head("#"),
        package_name(source)
    );
    for file in verilog {
        let _ = writeln!(text, "      - {file}");
    }
    if bench {
        let sources = BENCH_FILES.iter().filter(|(file, _)| file.ends_with(".v"));
        let sources: Vec<String> = sources.map(|(file, _)| format!("{BENCH}/{file}")).collect();
        let _ = write!(
            text,
            "  - target: test\n    include_dirs:\n      - .\n    files:\n      - {}\n",
            sources.join("\n      - ")
        );
    }
    text
}
