//! OpenSTA's commands for one mapped netlist, and its results in ps.
//!
//! Every path between registers, ports and pins of black boxes has one clock period; wires have no delay and the clock
//! is ideal.

use crate::parse;
use std::fmt::Write;

pub const SCRIPT: &str = "sta.tcl";
pub const LOG: &str = "sta.log";

/// Section of the log with the worst path.
const WORST: &str = "worst";
/// Section with the worst path between registers.
const REGISTERS: &str = "registers";
/// Section with the number of registers.
const FOUND: &str = "found";

#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub module: &'a str,
    pub libraries: &'a [&'a str],
    /// Mapped netlist in the working folder.
    pub netlist: &'a str,
    /// Clock ports, taken for one clock: paths between domains have a period too, which is stricter than any needs.
    pub clocks: &'a [String],
    pub registers: bool,
    pub period_ps: f64,
    pub time_unit_ps: f64,
    /// Driving cell and output load in the library's capacitance unit.
    pub boundary: Option<(&'a str, f64)>,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Path {
    /// Register or port at the begin.
    pub from: String,
    /// Register or port at the end.
    pub to: String,
    /// Arrival after the clock edge, with clock-to-Q.
    pub arrival_ps: f64,
    /// Available part of the period, minus arrival and setup.
    pub slack_ps: f64,
    /// Shortest period without negative slack on this path.
    pub min_period_ps: f64,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Timing {
    pub worst: Option<Path>,
    /// Worst path between registers.
    pub registers: Option<Path>,
}

pub fn script(request: &Request) -> String {
    let period = request.period_ps / request.time_unit_ps;
    let source = match request.clocks {
        [] => String::new(),
        [clock] => format!(" [get_ports {clock}]"),
        clocks => format!(" [get_ports {{{}}}]", clocks.join(" ")),
    };
    let mut text: String = request.libraries.iter().map(|file| format!("read_liberty {file}\n")).collect();
    let _ = write!(
        text,
        "read_verilog {}\nlink_design {}\n\
         create_clock -name clk -period {period}{source}\n\
         # Clock pins of black boxes became outputs; they carry no data.\n\
         proc data_of {{ports}} {{\n    set data {{}}\n    foreach port $ports {{\n        \
         if {{![string match *clk_i [get_property $port full_name]]}} {{ lappend data $port }}\n    }}\n    \
         return $data\n}}\n\
         set inputs [data_of [all_inputs]]\nset outputs [data_of [all_outputs]]\n\
         if {{[llength $inputs] > 0}} {{ set_input_delay 0 -clock clk $inputs }}\n\
         if {{[llength $outputs] > 0}} {{ set_output_delay 0 -clock clk $outputs }}\n",
        request.netlist, request.module
    );
    if let Some((cell, load)) = request.boundary {
        let _ =
            writeln!(text, "if {{[llength $inputs] > 0}} {{ set_driving_cell -lib_cell {cell} $inputs }}");
        let _ = writeln!(text, "if {{[llength $outputs] > 0}} {{ set_load {load} $outputs }}");
    }
    let report = "report_checks -path_delay max -format full -digits 5";
    let _ = writeln!(text, "puts \"## {WORST}\"\n{report}\nputs \"## {REGISTERS}\"");
    if request.registers {
        let ends = "-from [all_registers -clock_pins] -to [all_registers -data_pins]";
        let _ = writeln!(text, "{report} {ends}\nputs \"## {FOUND}\"\nputs [llength [all_registers -cells]]");
    } else {
        text += "puts \"No paths found.\"\n";
    }
    text += "puts \"## end\"\n";
    text
}

/// Reads the log of [`script`].
///
/// # Errors
/// OpenSTA's error, or the name of the missing part.
pub fn timing(log: &str, request: &Request) -> Result<Timing, String> {
    if !log.contains("## end") {
        return Err("the script did not run to its end".into());
    }
    let found = log.split_once(&format!("## {FOUND}\n")).and_then(|(_, rest)| rest.lines().next());
    // Without registers, the paths of the gates between them would be taken for all paths.
    if request.registers && found.and_then(|found| found.trim().parse().ok()).unwrap_or(0_u64) == 0 {
        return Err("it finds no registers, and the netlist has flip-flops; does the library describe them (ff, timing)?".into());
    }
    let path = |section| {
        let found = parse::sta_path(log, section)?;
        Ok::<_, String>(found.map(|path| {
            let slack_ps = path.slack * request.time_unit_ps;
            let share = path.available * request.time_unit_ps / request.period_ps;
            Path {
                from: path.from,
                to: path.to,
                arrival_ps: path.arrival * request.time_unit_ps,
                slack_ps,
                min_period_ps: request.period_ps - slack_ps / share,
            }
        }))
    };
    Ok(Timing { worst: path(WORST)?, registers: path(REGISTERS)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    static CLOCK: OnceLock<Vec<String>> = OnceLock::new();

    fn request(time_unit_ps: f64) -> Request<'static> {
        Request {
            module: "top",
            libraries: &["comb.lib"],
            netlist: "net.v",
            clocks: CLOCK.get_or_init(|| vec!["clk_i".into()]),
            registers: true,
            period_ps: 1000.0,
            time_unit_ps,
            boundary: Some(("BUF", 2.0)),
        }
    }

    #[test]
    fn the_period_is_given_in_the_library_unit() {
        assert!(script(&request(1.0)).contains("-period 1000 [get_ports clk_i]"));
        assert!(script(&request(1000.0)).contains("-period 1 [get_ports clk_i]"));
        let virtual_clock = Request { clocks: &[], registers: false, ..request(1.0) };
        assert!(script(&virtual_clock).contains("-period 1000\n"));
    }

    #[test]
    fn times_come_back_in_ps() {
        let log = include_str!("../tests/logs/sta_2.0.17.log");
        let found = timing(log, &request(1.0)).unwrap();
        let worst = found.worst.unwrap();
        assert_eq!((worst.arrival_ps, worst.slack_ps), (421.69, 557.98));
        assert!((worst.min_period_ps - 442.02).abs() < 1e-9);
        assert_eq!(found.registers, None);
        let scaled = timing(log, &request(1000.0)).unwrap().worst.unwrap();
        assert!((scaled.arrival_ps - 421_690.0).abs() < 1e-6);
    }

    #[test]
    fn the_worst_path_of_gated_clocks_is_that_of_all_groups_and_may_have_half_a_period() {
        let log = include_str!("../tests/logs/sta_2.0.17_gated.log");
        let found = timing(log, &request(1.0)).unwrap();
        let (worst, registers) = (found.worst.unwrap(), found.registers.unwrap());
        // The check of a clock gate, which comes first, has a slack of 440.89 ps.
        assert_eq!((worst.from.as_str(), worst.to.as_str()), ("separate_i", "_3026_"));
        assert_eq!((worst.arrival_ps, worst.slack_ps), (617.21741, -127.12065));
        // From a rising edge to the falling one: each missing picosecond costs two of the period.
        assert!((worst.min_period_ps - (1000.0 + 2.0 * 127.12065)).abs() < 1e-9, "{worst:?}");
        assert_eq!((registers.slack_ps, registers.arrival_ps), (263.01233, 716.86938));
        assert!((registers.min_period_ps - (1000.0 - 263.01233)).abs() < 1e-9, "{registers:?}");
    }

    #[test]
    fn a_log_without_registers_is_an_error_if_there_are_some() {
        let log = include_str!("../tests/logs/sta_2.0.17.log");
        for without in [log.replace("## found\n2\n", "## found\n0\n"), log.replace("## found\n2\n", "")] {
            assert!(timing(&without, &request(1.0)).unwrap_err().contains("it finds no registers"));
            assert!(timing(&without, &Request { registers: false, ..request(1.0) }).is_ok());
        }
    }

    #[test]
    fn a_script_that_stopped_early_is_an_error() {
        let log = include_str!("../tests/logs/sta_2.0.17.log").replace("## end", "");
        assert!(timing(&log, &request(1.0)).is_err());
    }
}
