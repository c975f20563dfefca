//! The constraints that `gen-rtl` writes, read by OpenSTA on a netlist of a FIFO between two clocks.

use crate::common;
use ndp_config::DesignConfig;
use ndp_hdl::package::{Source, files};
use std::path::Path;
use std::process::Command;

fn run(variable: &str, program: &str, arguments: &[&str], folder: &Path) -> String {
    let program = std::env::var(variable).unwrap_or_else(|_| program.to_owned());
    let output = Command::new(&program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{program} {arguments:?}: {}", text.concat());
    text.concat()
}

/// OpenSTA's log: constraints changed by `change`, then the worst path between the clocks, both ways.
fn timed(change: impl FnOnce(String) -> String) -> String {
    let config = DesignConfig::preset("tiny").unwrap();
    let design = ndp_hdl::designs::build(&config, "async_fifo").unwrap();
    let files = files(&Source::core(&config, "tiny", "async_fifo", "").unwrap(), &design).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    files.iter().for_each(|(name, text)| write(name, text));
    write("few.lib", &common::liberty());
    write("constraints.sdc", &change(files["async_fifo_top.sdc"].clone()));
    let map = "read_verilog *.v; synth -top async_fifo_top; dfflibmap -liberty few.lib; abc -liberty few.lib; opt_clean; \
        write_verilog -noattr net.v";
    run("YOSYS", "yosys", &["-q", "-p", map], folder.path());
    write(
        "sta.tcl",
        "read_liberty few.lib\nread_verilog net.v\nlink_design async_fifo_top\nset_cmd_units -time ns\n\
         read_sdc constraints.sdc\nputs {## read}\n\
         foreach {from to} {write_clk_i read_clk_i read_clk_i write_clk_i} {\n    \
         report_checks -from [get_clocks $from] -to [get_clocks $to] -path_delay max -format full -digits 3\n    \
         puts {## next}\n}\nexit\n",
    );
    run("STA", "sta", &["-no_splash", "-exit", "sta.tcl"], folder.path())
}

#[test]
fn opensta_takes_the_constraints_and_times_the_pointers_alone() {
    let log = timed(|sdc| sdc);
    let (before, after) = log.split_once("## read").unwrap();
    assert!(!before.to_lowercase().contains("warn") && !before.to_lowercase().contains("error"), "{log}");
    let paths: Vec<&str> = after.split("## next").take(2).collect();
    for path in paths {
        // From a Gray pointer straight into a synchroniser, within a period of the faster clock.
        assert!(path.contains("max_delay") && path.contains("0.625"), "{log}");
        assert_eq!(path.matches("slack (MET)").count(), 1, "{log}");
    }
}

#[test]
fn a_crossing_without_its_constraint_and_a_pin_that_is_not_there_are_seen() {
    // Words that are stable when read would have to cross within one edge.
    let log = timed(|sdc| {
        sdc.lines().filter(|line| !line.contains("storage")).map(|line| format!("{line}\n")).collect()
    });
    assert!(log.contains("cells") && log.contains("storage"), "{log}");
    let log = timed(|sdc| sdc.replace("/reader_i[*]", "/redaer_i[*]"));
    let read = log.split("## read").next().unwrap();
    assert!(read.to_lowercase().contains("warning") && read.contains("redaer_i"), "{log}");
}
