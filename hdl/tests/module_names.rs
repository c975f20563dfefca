//! Names of modules: two modules of one name have one body, whatever configurations they come from, so that designs of
//! several configurations can be in one simulation or netlist.

use crate::common;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl::designs::{build, build_hbm, hbm_blocks};
use ndp_hdl_language::Design;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The modules of a text by name: what lies between `module` and `endmodule`, comments included.
fn modules(verilog: &str) -> Vec<(String, String)> {
    let chunks = verilog.split_inclusive("\nendmodule\n").filter(|chunk| !chunk.trim().is_empty());
    let name = |chunk: &str| {
        let line = chunk.lines().find_map(|line| line.strip_prefix("module ")).unwrap();
        line.split(' ').next().unwrap().to_owned()
    };
    chunks.map(|chunk| (name(chunk), chunk.trim_start().to_owned())).collect()
}

/// Texts by name, and which configuration each was seen in first.
#[derive(Default)]
struct Names {
    seen: BTreeMap<String, (String, String)>,
    clashes: Vec<String>,
}

impl Names {
    fn add(&mut self, verilog: &str, variant: &str) {
        for (name, text) in modules(verilog) {
            match self.seen.get(&name) {
                None => drop(self.seen.insert(name, (text, variant.to_owned()))),
                Some((known, _)) if *known == text => {}
                Some((_, first)) => self.clashes.push(format!("{name}: {first} / {variant}")),
            }
        }
    }
}

/// Up to `count` legal tables that differ from `base` in the value at `path` only, with the new value.
fn variants(
    base: &Table,
    path: &[&str],
    count: usize,
    legal: impl Fn(&Table) -> bool,
) -> Vec<(String, Table)> {
    let changed = |value: Value| {
        let mut table = base.clone();
        let (last, folders) = path.split_last().unwrap();
        let folder = folders.iter().fold(&mut table, |table, key| table[*key].as_table_mut().unwrap());
        folder.insert((*last).to_owned(), value);
        table
    };
    let old = path.iter().skip(1).fold(&base[path[0]], |value, key| &value[*key]);
    let candidates: Vec<Value> = match old {
        Value::Integer(n) => [n * 2, n / 2, n + 1, n - 1, n * 4, n / 4, n + 4, n - 4, n + 2, n - 2, 2400]
            .map(Value::Integer)
            .into(),
        Value::Boolean(b) => vec![Value::Boolean(!b)],
        // The keys that are a name.
        Value::String(_) => {
            let names = ["fp16", "all", "bank", "shared", "shared-parallel"];
            names.map(|name| Value::String(name.to_owned())).into()
        }
        other => panic!("{path:?} = {other}: no other value is known"),
    };
    let candidates =
        candidates.into_iter().filter(|value| value != old).map(|value| (value.to_string(), changed(value)));
    candidates.filter(|(_, table)| legal(table)).take(count).collect()
}

/// All keys but the name, as paths.
fn keys(table: &Table) -> Vec<Vec<&str>> {
    let mut keys = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| *key != "name") {
        match value {
            Value::Table(below) => keys.extend(below.keys().map(|inner| vec![key.as_str(), inner.as_str()])),
            _ => keys.push(vec![key.as_str()]),
        }
    }
    keys
}

#[test]
fn modules_of_one_name_have_one_body_whatever_key_differs() {
    let parse = |table: &Table| DesignConfig::from_toml(&toml::to_string(table).unwrap());
    let mut names = Names::default();
    let mut add = |variant: &str, table: &Table, blocks: &[&str]| {
        for block in blocks {
            names.add(&build(&parse(table).unwrap(), block).unwrap().verilog(), variant);
        }
    };
    let mut base = Table::try_from(DesignConfig::preset("tiny").unwrap()).unwrap();
    // More numbers of segments divide 120 than divide 104; two or four bank groups can have rows of 16 bits; any times.
    base["gemv"].as_table_mut().unwrap().insert("acc_bits".into(), Value::Integer(120));
    base["dram"].as_table_mut().unwrap().insert("row_bits".into(), Value::Integer(16));
    base["dram"].as_table_mut().unwrap().insert("jedec".into(), Value::Boolean(false));
    // What is not about links changes nothing of a bridge.
    let (core, all) = (["ndp_core"], ["ndp_core", "link_bridge"]);
    add("tiny", &base, &all);
    let keys = keys(&base);
    assert!(keys.len() > 30, "{keys:?}");
    for key in keys {
        let variants = variants(&base, &key, 1, |table| parse(table).is_ok());
        assert!(!variants.is_empty(), "{key:?} has no other value");
        for (value, table) in variants {
            let blocks = if key[0] == "link" { &all[..] } else { &core[..] };
            add(&format!("{} = {value}", key.join(".")), &table, blocks);
        }
    }
    assert!(names.clashes.is_empty(), "{:#?}", names.clashes);
}

#[test]
fn modules_of_a_pim_memory_do_so_too() {
    let parse = |table: &Table| HbmConfig::from_toml(&toml::to_string(table).unwrap());
    // Some legal times are faster than the blocks, which the generator says.
    let elaborate = |table: &Table| -> Option<Vec<Design>> {
        let config = parse(table).ok()?;
        let whole = ["pim_channel", "pim_controller", "pim_pair"];
        let blocks = hbm_blocks(&config).filter(|block| whole.contains(block));
        blocks.map(|block| build_hbm(&config, block).ok()).collect()
    };
    let mut names = Names::default();
    let mut base = Table::try_from(HbmConfig::preset("librapim-tiny").unwrap()).unwrap();
    // So that tCCD_S can be another one.
    base["timing"].as_table_mut().unwrap().insert("t_ccd_l".into(), Value::Integer(4));
    // And so that single banks can be refreshed.
    base["timing"].as_table_mut().unwrap().insert("t_rfc_pb".into(), Value::Integer(30));
    let mut aim = base.clone();
    for (key, value) in [
        ("slicing", Value::Boolean(false)),
        ("all_bank_activate", Value::Boolean(false)),
        ("command_set", Value::String("aim".into())),
    ] {
        aim["device"].as_table_mut().unwrap().insert(key.into(), value);
    }
    let mut all = vec![("librapim-tiny".to_owned(), base.clone()), ("aim".to_owned(), aim)];
    for key in keys(&base).into_iter().filter(|key| key[1] != "command_set") {
        let variants = variants(&base, &key, 1, |table| elaborate(table).is_some());
        assert!(!variants.is_empty(), "{key:?} has no other value");
        all.extend(
            variants.into_iter().map(|(value, table)| (format!("{} = {value}", key.join(".")), table)),
        );
    }
    for (variant, table) in &all {
        elaborate(table).iter().flatten().for_each(|design| names.add(&design.verilog(), variant));
    }
    assert!(names.clashes.is_empty(), "{:#?}", names.clashes);
}

/// The name of the last module, which is the top.
fn top(verilog: &str) -> String {
    modules(verilog).pop().unwrap().0
}

/// A bench that reads the status of both cores and prints the free places of their queues.
const TWO_CORES: &str = r#"
`timescale 1ns/1ps
module bench;
    reg clk = 0, dram_clk = 0, rst_n = 0;
    always #0.5 clk = !clk;
    always #0.3125 dram_clk = !dram_clk;
    reg ask = 0;
    wire [ADDRESS - 1:0] status = {1'b1, {ADDRESS - 1{1'b0}}};
    wire [511:0] data_a, data_b;
    wire valid_a, valid_b;
    FIRST a (
        .clk_i(clk), .rst_ni(rst_n), .dram_clk_i(dram_clk), .dram_rst_ni(rst_n),
        .host_valid_i(ask), .host_write_i(1'b0), .host_addr_i(status), .host_tag_i(8'd0), .host_data_i(512'd0),
        .response_ready_i(1'b0), .r0_dq_i(128'd0), .r1_dq_i(128'd0),
        .response_valid_o(valid_a), .response_data_o(data_a)
    );
    SECOND b (
        .clk_i(clk), .rst_ni(rst_n), .dram_clk_i(dram_clk), .dram_rst_ni(rst_n),
        .host_valid_i(ask), .host_write_i(1'b0), .host_addr_i(status), .host_tag_i(8'd0), .host_data_i(512'd0),
        .response_ready_i(1'b0), .r0_dq_i(128'd0), .r1_dq_i(128'd0),
        .response_valid_o(valid_b), .response_data_o(data_b)
    );
    initial begin
        repeat (16) @(negedge clk);
        rst_n = 1;
        repeat (16) @(negedge clk);
        ask = 1;
        @(negedge clk);
        ask = 0;
        while (!(valid_a && valid_b)) @(negedge clk);
        $display("free %0d %0d", data_a[63:32], data_b[63:32]);
        $finish;
    end
    initial #100000 $display("no answer");
endmodule
"#;

#[test]
fn two_configurations_are_simulated_side_by_side() {
    let config = |queue: u32, list: u32| {
        let base = Table::try_from(DesignConfig::preset("tiny").unwrap()).unwrap();
        let mut table = base;
        let core = table["core"].as_table_mut().unwrap();
        core.insert("link".into(), Value::Boolean(false));
        core.insert("queue_entries".into(), Value::Integer(queue.into()));
        core.insert("list_entries".into(), Value::Integer(list.into()));
        DesignConfig::from_toml(&toml::to_string(&table).unwrap()).unwrap()
    };
    let configs = [config(16, 64), config(32, 256)];
    let texts = configs.each_ref().map(|config| build(config, "ndp_core").unwrap().verilog());
    let folder = tempfile::tempdir().unwrap();
    // As a library has it: a file for each name.
    for (name, text) in texts.iter().flat_map(|text| modules(text)) {
        std::fs::write(folder.path().join(format!("{name}.v")), text).unwrap();
    }
    let bench = TWO_CORES
        .replace("FIRST", &top(&texts[0]))
        .replace("SECOND", &top(&texts[1]))
        .replace("ADDRESS", &(configs[0].dimm_burst_bits() + 1).to_string());
    std::fs::write(folder.path().join("bench.v"), bench).unwrap();
    let compile = ["-g2005", "-y", ".", "-s", "bench", "-o", "bench.vvp", "bench.v"];
    common::run("iverilog", "iverilog", &compile, folder.path());
    let printed = common::run("vvp", "iverilog", &["-n", "bench.vvp"], folder.path());
    assert_eq!(printed.lines().next(), Some("free 16 32"), "{printed}");
}
