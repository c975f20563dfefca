//! Power of a lane: its mapped netlist is replayed with waves of its RTL, which it has to repeat in every cycle. An
//! idle lane takes a small part of the power of a working one, if its clocks are gated.
//!
//! `synth/tests/power.rs` compares the counts of a replay with other simulators.

use crate::cells;
use crate::program::json;
use ndp_config::DesignConfig;
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Model, OpenOptions, WaveOptions, rtl};
use ndp_synth::flow::{Flow, Library};
use ndp_synth::liberty::{ClockGate, Liberty};
use ndp_synth::power::report::WindowReport;
use ndp_synth::power::{self, Activity, Request, Window};
use ndp_synth::script::Recipe;
use ndp_synth::{source, tools};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(7200);
const GATE: &str = "module clock_gate(input clk_i, input en_i, output clk_o); wire on;\n\
    LATN hold(.G(clk_i), .D(en_i), .Q(on)); AND2 pass(.A(clk_i), .B(on), .Y(clk_o)); endmodule\n";

/// 330 cycles of work, then 330 of rest, with operands that change all the time.
fn waves(file: &Path) -> Result<(), Box<dyn Error>> {
    let options = OpenOptions { waves: Some(WaveOptions::new(file)), ..OpenOptions::default() };
    let mut model = Model::open(&rtl(&DesignConfig::preset("tiny")?, "serial_lane")?, &options)?;
    let (load, moves) = (model.input("load_i")?, model.input("move_i")?);
    let operands = [model.input("sig_w_i")?, model.input("sig_x_i")?];
    let mut random = SplitMix64::new(0x706f_7765);
    for cycle in 0..660 {
        let works = cycle < 330;
        model.set(load, (works && cycle % 11 == 0).into());
        model.set(moves, works.into());
        for operand in operands {
            model.set(operand, random.next_u64() & 0x7ff);
        }
        model.tick();
    }
    Ok(model.close_waves()?)
}

fn library() -> Result<Library, Box<dyn Error>> {
    Ok(Library { comb: Liberty::scan(cells::liberty())?, seq: None, avoided: Vec::new() })
}

fn counted(
    clock_gate: Option<&str>,
    folder: &Path,
    waves: &Path,
    load_ff: f64,
) -> Result<Vec<Activity>, Box<dyn Error>> {
    let flow = Flow {
        yosys: tools::yosys(None, LIMIT)?,
        sta: None,
        library: Some(library()?),
        recipes: vec![Recipe::Balanced],
        fallback: Vec::new(),
        clock_gate: clock_gate.map(|gate| ClockGate { verilog: gate.into(), test_enable: false }),
        period_ps: 1000.0,
        jobs: 1,
        limit: LIMIT,
    };
    flow.run(&source::block("tiny", "serial_lane")?.1, folder, &|_| ())?;
    let window = |name: &str, start, stop, work| Window { name: name.into(), start, stop: Some(stop), work };
    Ok(power::run(&Request {
        netlists: folder,
        library: &library()?,
        waves,
        windows: &[window("work", 22, 330, Some((28, "product".into()))), window("rest", 340, 650, None)],
        slew_ps: 20.0,
        load_ff,
        jobs: 1,
    })?)
}

fn lane(clock_gate: Option<&str>, waves: &Path) -> Result<[f64; 2], Box<dyn Error>> {
    let found = counted(clock_gate, tempfile::tempdir()?.path(), waves, 2.0)?;
    Ok([0, 1].map(|window| found[window].modules[0].power_mw.dynamic()))
}

#[test]
fn a_lane_that_stands_still_takes_less_and_with_gated_clocks_a_quarter() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    for file in ["lane.vcd", "lane.fst"].map(|name| folder.path().join(name)) {
        waves(&file)?;
        let [work, rest] = lane(None, &file)?;
        let [gated_work, gated_rest] = lane(Some(GATE), &file)?;
        assert!(rest < work && gated_work < work, "{work} {rest} {gated_work} {gated_rest} mW");
        assert!(4.0 * gated_rest < rest, "{rest} {gated_rest} mW");
    }
    Ok(())
}

#[test]
fn the_tool_reports_what_is_counted() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let [netlists, liberty, file] = ["nets", "cells.lib", "lane.vcd"].map(|name| folder.path().join(name));
    std::fs::create_dir(&netlists)?;
    std::fs::write(&liberty, cells::liberty())?;
    waves(&file)?;
    let found = counted(None, &netlists, &file, library()?.boundary().map_or(0.0, |(_, load_ff)| load_ff))?;
    let report = json(&format!(
        "synth power --netlists {} --liberty {} --waves {} --window work=22..330/28:product --window rest=340..650 \
         --sram-pj-per-bit 0.25 --json",
        netlists.display(),
        liberty.display(),
        file.display()
    ))?;
    let (sums, modules) = (&report["windows"], &report["modules"]);
    for (index, activity) in found.into_iter().enumerate() {
        let window = WindowReport::new(activity, 0.25);
        let (total, module) = (window.total_mw.total(), &window.activity.modules[0]);
        assert_eq!(sums[index]["total_mw"].as_f64(), Some(total));
        assert_eq!(sums[index]["pj_per_work"].as_f64(), window.pj_per_work);
        assert_eq!(modules[index]["part"], *module.module);
        assert_eq!(modules[index]["share"].as_f64(), Some(module.power_mw.total() / total));
        assert_eq!(report["run"][index], serde_json::to_value(window)?);
    }
    assert_eq!((&report["library"], &report["sram_source"]), (&"few_cells".into(), &"as given".into()));
    assert_eq!((&report["slew_ps"], &report["sram_pj_per_bit"]), (&20.0.into(), &0.25.into()));
    Ok(())
}
