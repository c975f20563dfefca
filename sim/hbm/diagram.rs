//! Timing diagrams of a channel, drawn from the commands that a controller gave: LibraPIM's Fig. 16.
//!
//! [`scenario`] runs the work of the figure on the Verilated controller: one run of MACs on a row of all banks with its result, and reads
//! of the host. [`draw`] makes a picture of any trace. Boxes are as wide as what they stand for takes: an activation two
//! clocks of its bus, a column two clocks of the data bus, a row from its opening to its closing.

use super::controller::{Access, Controlled, ControlledError, ControlledWaves, Operation, Request};
use ndp_config::HbmConfig;
use ndp_dram::hbm::HbmCommand;
use std::fmt::Write;

/// Units per clock, and of a lane.
const CLOCK: u64 = 3;
const LANE: u64 = 26;
const LEFT: u64 = 130;
const TOP: u64 = 54;
/// Columns that the host reads in the scenario.
const READS: u32 = 64;

/// Colours: the host, the multipliers, results, refresh and closing. They can be told apart with any colour vision.
const HOST: &str = "#0072b2";
const PIM: &str = "#d55e00";
const RESULT: &str = "#009e73";
const OTHER: &str = "#8c8c8c";

/// What a scenario did.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Commands by clock; clock 0 is that of the first one.
    pub commands: Vec<(u64, HbmCommand)>,
    /// Clocks from the first command to the last data on the bus.
    pub clocks: u64,
}

/// The work of the figure: 32 MACs on a row of all banks, their results, and 64 columns for the host; with banks cut in two (`cut`) or
/// joined.
///
/// # Errors
/// As [`Controlled::step`].
pub fn scenario(config: &HbmConfig, cut: bool) -> Result<Trace, ControlledError> {
    // At most the subarrays of a bank.
    let boundary = if cut { config.weight_subarrays() as u16 } else { 0 };
    let mut system = Controlled::open(config, boundary, false, 1, ControlledWaves::default())?;
    let slots = config.buffer_slots();
    system.operations.push_back(Operation::Load { slot: 0, columns: slots });
    system.loads.extend((0..slots).map(|slot| [u64::from(slot); 4]));
    system.drain()?;
    system.trace = Some(Vec::new());
    let row = config.rows() - 1;
    for column in (0..HbmConfig::COLUMNS).step_by(slots as usize) {
        let columns = slots.min(HbmConfig::COLUMNS - column);
        let (first, last) = (column == 0, column + columns == HbmConfig::COLUMNS);
        system.operations.push_back(Operation::Run {
            row,
            column,
            slot: 0,
            columns,
            first,
            last,
            take: false,
        });
    }
    system.operations.push_back(Operation::Results);
    // The run first: in a joined bank the host has to wait for it.
    (0..3).try_for_each(|_| system.step())?;
    let columns = READS.min(config.bank_groups() * HbmConfig::COLUMNS);
    system.requests.push_back(Request { access: Access::Read, bank: 0, row: 0, position: 0, columns });
    system.drain()?;
    let mut commands = system.trace.take().unwrap_or_default();
    let start = commands.first().map_or(0, |(clock, _)| *clock);
    commands.iter_mut().for_each(|(clock, _)| *clock -= start);
    let ends = commands
        .iter()
        .filter(|(_, command)| drives(command))
        .map(|(clock, _)| clock + u64::from(config.t_cl()) + 2);
    let clocks = ends.max().unwrap_or(0);
    Ok(Trace { commands, clocks })
}

/// Whether the channel drives the data bus for it.
fn drives(command: &HbmCommand) -> bool {
    use HbmCommand::{Read, ReadResults, ReadSum, ReadToBuffer};
    matches!(command, Read { .. } | ReadToBuffer { .. } | ReadResults | ReadSum { .. })
}

/// A box in a lane.
struct Mark {
    lane: usize,
    from: u64,
    to: u64,
    colour: &'static str,
    label: String,
    tip: String,
}

/// Draws `trace`, with room for `clocks` clocks.
pub fn draw(trace: &Trace, config: &HbmConfig, title: &str, clocks: u64) -> String {
    let groups = config.bank_groups();
    let mut lanes = vec!["row commands".to_owned(), "column commands".to_owned()];
    lanes.extend((0..groups).map(|g| format!("group {g}, host's row")));
    lanes.extend((0..groups).map(|g| format!("group {g}, PIM row")));
    lanes.extend(["multipliers".to_owned(), "data bus".to_owned()]);
    let marks = marks(trace, config, lanes.len());
    let (width, height) = (LEFT + CLOCK * clocks + 20, TOP + LANE * lanes.len() as u64 + 50);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>text{{font:11px system-ui,sans-serif;fill:currentColor}}.in{{fill:#fff;text-anchor:middle;font-size:9px}}\
         .grid{{stroke:currentColor;opacity:.15}}.lane{{stroke:currentColor;opacity:.4}}</style>\n\
         <text x=\"{LEFT}\" y=\"18\">{title}: {} clocks</text>\n",
        trace.clocks
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"34\"><tspan fill=\"{HOST}\">host</tspan>, <tspan fill=\"{PIM}\">multipliers</tspan>, \
         <tspan fill=\"{RESULT}\">results</tspan>, <tspan fill=\"{OTHER}\">closing</tspan>; a clock is 1 ns</text>"
    );
    let bottom = TOP + LANE * lanes.len() as u64;
    for clock in (0..=clocks).step_by(20) {
        let x = LEFT + CLOCK * clock;
        let _ = writeln!(text, "<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\" class=\"grid\"/>");
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{clock}</text>", bottom + 16);
    }
    for (lane, name) in lanes.iter().enumerate() {
        let y = TOP + LANE * (lane as u64 + 1);
        let right = LEFT + CLOCK * clocks;
        let _ = writeln!(text, "<text x=\"8\" y=\"{}\">{name}</text>", y - 8);
        let _ = writeln!(text, "<line x1=\"{LEFT}\" y1=\"{y}\" x2=\"{right}\" y2=\"{y}\" class=\"lane\"/>");
    }
    for Mark { lane, from, to, colour, label, tip } in marks {
        let (x, y) = (LEFT + CLOCK * from, TOP + LANE * lane as u64 + 5);
        let width = CLOCK * (to.min(clocks) - from.min(clocks));
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{colour}\" stroke=\"#fff\" \
             stroke-width=\".6\"><title>{tip}</title></rect>",
            LANE - 6
        );
        if !label.is_empty() {
            let _ =
                writeln!(text, "<text x=\"{}\" y=\"{}\" class=\"in\">{label}</text>", x + width / 2, y + 14);
        }
    }
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"{}\">clock</text>", bottom + 34);
    text + "</svg>\n"
}

/// Everything in the picture.
fn marks(trace: &Trace, config: &HbmConfig, lanes: usize) -> Vec<Mark> {
    use HbmCommand::{Activate, Mac, PimActivate, PimActivateAll, PimPrecharge, Precharge, PrechargeAll};
    let groups = config.bank_groups() as usize;
    let (multipliers, data) = (lanes - 2, lanes - 1);
    let mut marks = Vec::new();
    // Rows that are open, host's and PIM's: from when.
    let mut open: Vec<Option<(u64, String)>> = vec![None; 2 * groups];
    let close = |marks: &mut Vec<Mark>, open: &mut Vec<Option<(u64, String)>>, which: usize, at: u64| {
        if let Some((from, tip)) = open[which].take() {
            let colour = if which < groups { HOST } else { PIM };
            marks.push(Mark { lane: 2 + which, from, to: at, colour, label: "open".into(), tip });
        }
    };
    for (clock, command) in &trace.commands {
        let clock = *clock;
        let tip = format!("{clock}: {command}");
        let is_row = ndp_dram::CommandSet::kind(command).is_some_and(ndp_dram::hbm::HbmKind::is_row);
        let colour = match command {
            PimActivate { .. } | PimActivateAll { .. } | Mac { .. } => PIM,
            Activate { .. } | HbmCommand::Read { .. } => HOST,
            HbmCommand::ReadResults | HbmCommand::ReadSum { .. } => RESULT,
            _ => OTHER,
        };
        let length = if matches!(command, Activate { .. } | PimActivate { .. } | PimActivateAll { .. }) {
            2
        } else {
            1
        };
        let lane = usize::from(!is_row);
        marks.push(Mark {
            lane,
            from: clock,
            to: clock + length,
            colour,
            label: String::new(),
            tip: tip.clone(),
        });
        match command {
            Activate { bank_group, .. } => open[usize::from(*bank_group)] = Some((clock, tip.clone())),
            PimActivate { bank_group, .. } => {
                open[groups + usize::from(*bank_group)] = Some((clock, tip.clone()))
            }
            PimActivateAll { .. } => open[groups..].fill(Some((clock, tip.clone()))),
            // Joined banks have one row buffer.
            PimPrecharge => (groups..2 * groups).for_each(|which| close(&mut marks, &mut open, which, clock)),
            Precharge { bank_group, .. } => {
                let group = usize::from(*bank_group);
                let which = if open[group].is_some() { group } else { groups + group };
                close(&mut marks, &mut open, which, clock);
            }
            PrechargeAll => (0..2 * groups).for_each(|which| close(&mut marks, &mut open, which, clock)),
            Mac { .. } => {
                let to = clock + u64::from(config.t_ccd_l());
                marks.push(Mark {
                    lane: multipliers,
                    from: clock,
                    to,
                    colour,
                    label: String::new(),
                    tip: tip.clone(),
                });
            }
            _ => {}
        }
        if drives(command) {
            let from = clock + u64::from(config.t_cl());
            marks.push(Mark { lane: data, from, to: from + 2, colour, label: String::new(), tip });
        }
    }
    (0..2 * groups).for_each(|which| close(&mut marks, &mut open, which, trace.clocks));
    marks
}
