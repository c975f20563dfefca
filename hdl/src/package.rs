//! Texts of a folder of generated Verilog: a file for each module, a wrapper with a stable name, the list of files, the
//! parameters in three forms and the port tables. No text depends on where the folder is; `gen-rtl` writes it.

use crate::blocks::front_end::axi_subordinate::axi_shape;
use crate::diagram;
use crate::ip::{self, MANIFEST, Manager};
use crate::ram::{self, with_technologies};
use crate::sdc;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl_language::{Design, Direction, Module, Pragmas};
use serde_json::json;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// File with the resolved configuration, every key of it; a configuration for `--config` itself.
const RESOLVED: &str = "params.toml";

const DIAGRAM: &str = "diagram.svg";

/// Origin of a design.
#[derive(Clone, Debug)]
pub struct Source {
    pub config: String,
    /// The preset given to `--config`; otherwise the folder's own `params.toml` is named for regeneration.
    pub preset: Option<String>,
    pub block: String,
    /// Prefix of each module's name.
    pub prefix: String,
    /// Whether to print Verilator's pragmas, for simulation.
    pub sim: bool,
    pub manager: Option<Manager>,
    /// The configuration, every key of it.
    pub keys: Table,
    /// Derived numbers, by name.
    pub derived: Vec<(&'static str, u64)>,
    /// Periods in ps: of the core's clock, or the memory's, and of the DRAM's.
    pub periods_ps: [u64; 2],
}

impl Source {
    /// The source of a block of a core. `argument` is the value of `--config`.
    ///
    /// # Errors
    /// If the configuration cannot be written as TOML.
    pub fn core(
        config: &DesignConfig,
        argument: &str,
        block: &str,
        prefix: &str,
    ) -> Result<Self, toml::ser::Error> {
        let gemv = config.gemv();
        let derived = [
            ("dimm_burst_bits", config.dimm_burst_bits()),
            ("rank_burst_bits", config.dram().burst_bits()),
            ("host_addr_bits", config.dimm_burst_bits() + 1),
            ("axi_addr_bits", axi_shape(config).addr_bits()),
            ("link_word_bits", if config.core().link() { config.link().word_bits() } else { 0 }),
            ("dram_t_rtw", config.dram().t_rtw()),
            ("units_per_rank", gemv.units_per_rank()),
            ("stripe_elems", gemv.stripe_elems()),
            ("beats_per_stripe", gemv.beats_per_stripe()),
            ("slice_words", gemv.slice_words()),
            ("window_cycles", gemv.window_cycles()),
            ("digit_bits", gemv.digit_bits()),
            ("max_cols", gemv.max_cols()),
            ("max_rows", gemv.max_rows()),
            ("max_heads", gemv.max_heads()),
        ];
        let derived = derived.map(|(name, value)| (name, u64::from(value))).into();
        let periods_ps = [config.core().clock_ps(), config.dram().clock_ps()];
        Ok(Self {
            derived,
            periods_ps,
            ..Self::new(config.name(), Table::try_from(config)?, argument, block, prefix)
        })
    }

    /// # Errors
    /// If the configuration cannot be written as TOML.
    pub fn memory(
        config: &HbmConfig,
        argument: &str,
        block: &str,
        prefix: &str,
    ) -> Result<Self, toml::ser::Error> {
        Ok(Self::new(config.name(), Table::try_from(config)?, argument, block, prefix))
    }

    fn new(name: &str, keys: Table, argument: &str, block: &str, prefix: &str) -> Self {
        let preset = (!argument.ends_with(".toml")).then(|| argument.to_owned());
        Self {
            config: name.to_owned(),
            preset,
            block: block.to_owned(),
            prefix: prefix.to_owned(),
            sim: false,
            manager: None,
            keys,
            derived: Vec::new(),
            // tCK of HBM2.
            periods_ps: [1000; 2],
        }
    }

    fn period_ps(&self, clock: &str) -> u64 {
        let [own, dram] = self.periods_ps;
        match clock {
            "dram_clk_i" => dram,
            "clk_i" if ["rank_controller", "dfi_port", "dfi_sequencer"].contains(&&*self.block) => dram,
            "clk_i" => own,
            // In a single FIFO either side may be the faster one.
            _ => own.min(dram),
        }
    }

    pub(crate) fn words(&self) -> String {
        format!("configuration {}, block {}", self.config, self.block)
    }

    /// The command that writes the folder again, `DIR` being the folder.
    fn command(&self) -> String {
        let config = self.preset.clone().unwrap_or_else(|| format!("DIR/{RESOLVED}"));
        let prefix =
            if self.prefix.is_empty() { String::new() } else { format!(" --prefix {}", self.prefix) };
        let sim = if self.sim { " --sim" } else { "" };
        let package = match self.manager {
            None => "",
            Some(Manager::Fusesoc) => " --package fusesoc",
            Some(Manager::Bender) => " --package bender",
        };
        let block = &self.block;
        format!(
            "cargo run --bin gen-rtl -- --config {config} --block {block}{prefix}{sim}{package} --out DIR"
        )
    }

    pub(crate) fn head(&self, comment: &str) -> String {
        let (words, command) = (self.words(), self.command());
        format!("{comment} Generated from {words}. Do not edit; regenerate with\n{comment}   {command}\n")
    }

    /// The same for every configuration, except in a package, as several can be in one design.
    pub(crate) fn wrapper_name(&self) -> String {
        match self.manager {
            None => format!("{}{}_top", self.prefix, self.block),
            Some(_) => format!("{}_top", ip::package_name(self)),
        }
    }

    /// Every key as `SECTION_KEY`, then derived numbers. Truth values are 0 and 1; names are left out.
    fn numbers(&self) -> Vec<(String, u64)> {
        let number = |value: &Value| match value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Boolean(is) => Some(u64::from(*is)),
            _ => None,
        };
        let mut numbers = Vec::new();
        for (section, value) in &self.keys {
            for (key, value) in value.as_table().into_iter().flatten() {
                numbers.extend(number(value).map(|n| (format!("{section}_{key}").to_uppercase(), n)));
            }
        }
        numbers.extend(self.derived.iter().map(|(name, value)| (name.to_uppercase(), *value)));
        numbers
    }
}

/// All contents of the folder, by file name.
///
/// # Errors
/// If the parameters cannot be written as TOML.
pub fn files(source: &Source, design: &Design) -> Result<BTreeMap<String, String>, toml::ser::Error> {
    let mut files = BTreeMap::new();
    let modules = design.names(&ip::package_name(source));
    let mut names: Vec<String> = modules.iter().map(|name| format!("{name}.v")).collect();
    let top = modules.last().map_or("", String::as_str);
    let pragmas = if source.sim { Pragmas::Verilator } else { Pragmas::None };
    let texts = design.renamed(pragmas, &modules);
    for ((name, text), module) in names.iter().zip(texts).zip(design.modules()) {
        let text = with_technologies(module, &text);
        files.insert(name.clone(), verilog(source, &format!("// Described in {}.\n{text}", module.source())));
    }
    let wrapper = format!("{}.v", source.wrapper_name());
    names.push(wrapper.clone());
    files.insert(wrapper, verilog(source, &wrapper_text(source, top, design.top())));
    let constraints = format!("{}.sdc", source.wrapper_name());
    files.insert(constraints.clone(), sdc::text(source, design, |clock| source.period_ps(clock)));
    if let Some(manager) = source.manager {
        files.extend(ip::files(manager, source, &names, &constraints));
    }
    files.insert("files.f".into(), file_list_head(source) + &names.join("\n") + "\n");
    files.insert(DIAGRAM.into(), diagram::svg(source, design.top()));
    files.insert("ports.md".into(), port_tables(source, design));
    files.insert("params.vh".into(), header_text(source));
    files.insert("params.json".into(), json_text(source, top, design));
    files.insert(RESOLVED.into(), source.head("#") + "\n" + &toml::to_string(&source.keys)?);
    Ok(files)
}

/// A file of Verilog: no net is declared by its first use, and other files are read as they would be without this one.
fn verilog(source: &Source, text: &str) -> String {
    format!("{}`default_nettype none\n{text}`default_nettype wire\n", source.head("//"))
}

/// Whether [`files`] wrote a file of that name and text.
pub fn is_generated(name: &str, text: &str) -> bool {
    let heads = [
        "// Generated from",
        "# Generated",
        "# Ports",
        "{\n  \"generated\"",
        "CAPI=2:\n# Generated",
        "<!-- Generated",
    ];
    has_generated_name(name) && heads.iter().any(|head| text.starts_with(head))
}

/// Whether [`files`] may write a file of that name.
pub fn has_generated_name(name: &str) -> bool {
    [".v", ".sdc", ".core"].iter().any(|end| name.ends_with(end))
        || ["files.f", "ports.md", "params.vh", "params.json", DIAGRAM, RESOLVED, MANIFEST].contains(&name)
}

fn file_list_head(source: &Source) -> String {
    let (words, top) = (source.words(), source.wrapper_name());
    format!(
        "# Generated: {words}; children first.\n\
         #\n\
         # -f takes these names from the folder in which a tool is called. From any other one, DIR being this folder:\n\
         #   iverilog -g2005 -y DIR -s {top} -o {top}.vvp DIR/{top}.v\n\
         #   verilator --lint-only -y DIR --top-module {top} DIR/{top}.v\n\
         #   verilator --lint-only --top-module {top} -F DIR/files.f\n\
         #   yosys -q -p 'read_verilog DIR/*.v; hierarchy -check -top {top}'\n"
    )
}

fn port_tables(source: &Source, design: &Design) -> String {
    let (words, command) = (source.words(), source.command());
    let mut text = format!(
        "# Ports: {words}\n\nGenerated by `{command}`. In Verilog, names begin with `{}`, and include parameters only where \
         two modules differ in them.\nThe wrapper `{}` has the ports of the last module.\n",
        ip::package_name(source),
        source.wrapper_name()
    );
    for module in design.modules() {
        text += &format!("\n{}", module.port_table());
    }
    text
}

/// A module with a stable name and the ports of the block.
fn wrapper_text(source: &Source, top: &str, module: &Module) -> String {
    let ports = module.ports();
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    let depends =
        if source.manager.is_some() { "of the package" } else { "that does not depend on the configuration" };
    let text = format!("// {} by a name {depends}.\n{}", source.block, module.header(&source.wrapper_name()));
    let connections: Vec<String> = names.iter().map(|name| format!("    .{name}({name})")).collect();
    text + &format!("{top} inner (\n{}\n);\nendmodule\n", connections.join(",\n"))
}

/// The numbers for Verilog, to be included inside a module.
fn header_text(source: &Source) -> String {
    let lines = source.numbers().into_iter().map(|(name, value)| format!("localparam {name} = {value};\n"));
    source.head("//") + &lines.collect::<String>()
}

fn json_text(source: &Source, top: &str, design: &Design) -> String {
    let rams = ram::list(design);
    let ports = design.top().ports().iter().map(|port| {
        let direction = if port.direction == Direction::Input { "in" } else { "out" };
        json!({ "name": port.name, "direction": direction, "bits": port.width })
    });
    let derived: BTreeMap<&str, u64> = source.derived.iter().copied().collect();
    let value = json!({
        "block": source.block,
        "module": top,
        "wrapper": source.wrapper_name(),
        "configuration": source.keys,
        "derived": derived,
        "ports": ports.collect::<Vec<_>>(),
        "rams": rams,
    });
    // The mark of a generated file comes first, as in the others.
    let rest = serde_json::to_string_pretty(&value).unwrap_or_default();
    let head = json!(source.command());
    format!("{{\n  \"generated\": {head},\n{}\n", rest.trim_start_matches("{\n"))
}
