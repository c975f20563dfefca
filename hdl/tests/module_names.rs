//! Names of modules: all names in a package begin with the package's name, so that several configurations can be in one
//! simulation or netlist.

use crate::common;
use ndp_config::DesignConfig;
use ndp_hdl::designs::build;
use ndp_hdl_language::{Design, Module, Pragmas};
use std::rc::Rc;
use toml::{Table, Value};

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
        let mut table = Table::try_from(DesignConfig::preset("tiny").unwrap()).unwrap();
        let core = table["core"].as_table_mut().unwrap();
        core.insert("link".into(), Value::Boolean(false));
        core.insert("queue_entries".into(), Value::Integer(queue.into()));
        core.insert("list_entries".into(), Value::Integer(list.into()));
        DesignConfig::from_toml(&toml::to_string(&table).unwrap()).unwrap()
    };
    let configs = [config(16, 64), config(32, 256)];
    let folder = tempfile::tempdir().unwrap();
    // As in a library: a file for each name.
    for (config, prefix) in configs.iter().zip(["first", "second"]) {
        let design = build(config, "ndp_core").unwrap();
        let names = design.names(prefix);
        for (name, text) in names.iter().zip(design.renamed(Pragmas::None, &names)) {
            std::fs::write(folder.path().join(format!("{name}.v")), text).unwrap();
        }
    }
    let bench = TWO_CORES
        .replace("FIRST", "first")
        .replace("SECOND", "second")
        .replace("ADDRESS", &(configs[0].dimm_burst_bits() + 1).to_string());
    std::fs::write(folder.path().join("bench.v"), bench).unwrap();
    let compile = ["-g2005", "-y", ".", "-s", "bench", "-o", "bench.vvp", "bench.v"];
    common::run("iverilog", "iverilog", &compile, folder.path());
    let printed = common::run("vvp", "iverilog", &["-n", "bench.vvp"], folder.path());
    assert_eq!(printed.lines().next(), Some("free 16 32"), "{printed}");
}

/// A lane of the activation unit has an instance `exponential` of a module of that name, and comments with the word.
#[test]
fn only_modules_get_new_names() {
    let design = build(&DesignConfig::preset("tiny").unwrap(), "ndp_core").unwrap();
    let names = design.names("package");
    let name_of =
        |module: &str| &names[design.modules().iter().position(|other| other.name() == module).unwrap()];
    for (module, text) in design.modules().iter().zip(design.renamed(Pragmas::None, &names)) {
        let lines = module.verilog().lines().zip(text.lines());
        let changed = Vec::from_iter(lines.filter(|(before, after)| before != after));
        let mut expected = vec![format!("module {} (", name_of(module.name()))];
        let instance = |(instance, child): &(String, Rc<Module>)| {
            format!("    {} {instance} (", name_of(Module::name(child)))
        };
        expected.extend(module.instances().iter().map(instance));
        assert!(changed.iter().map(|(_, after)| *after).eq(&expected), "{changed:?}");
    }
}

#[test]
fn a_name_has_parameters_where_they_tell_modules_apart() {
    let names = |design: &Design| design.names("package");
    let names = names(&build(&DesignConfig::preset("tiny").unwrap(), "ndp_core").unwrap());
    assert_eq!(names.last().map(String::as_str), Some("package"));
    for name in ["package_gemv_unit", "package_fp16_adder", "package_fifo_16x1", "package_phase_ring_4"] {
        assert!(names.iter().any(|other| other == name), "{name} is not in {names:?}");
    }
    assert!(names.iter().all(|name| !name.ends_with("_fifo")), "{names:?}");
}
