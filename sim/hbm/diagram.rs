//! Timing diagrams of a channel, drawn from the commands that a controller gave: LibraPIM's Fig. 16.
//!
//! [`scenario`] runs the work of the figure on the Verilated controller, [`draw`] makes a picture of any scenario.
//! Boxes are as wide as their time: an activation two clocks of its bus, a column two clocks of the data bus, a row
//! from opening to closing.

use super::controller::{Access, Controlled, ControlledWaves, Operation, Request};
use ndp_config::HbmConfig;
use ndp_dram::hbm::HbmCommand;
use ndp_files::Result;
use ndp_report::{Gantt, ReportError};

const READS: u32 = 64;

/// Kinds of bars, in the order of their colours.
const KINDS: [&str; 4] = [HOST, PIM, RESULT, OTHER];
const HOST: &str = "host";
const PIM: &str = "multipliers";
const RESULT: &str = "results";
const OTHER: &str = "closing and refresh";

#[derive(Clone, Debug)]
pub struct Scenario {
    /// Clock 0 is the first command's.
    pub commands: Vec<(u64, HbmCommand)>,
    /// From the first command to the last data on the bus.
    pub clocks: u64,
}

/// 32 MACs on a row of all banks, their results, and 64 columns for the host; banks are cut in two (`cut`) or joined.
pub fn scenario(config: &HbmConfig, cut: bool) -> Result<Scenario> {
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
    system.requests.push_back(Request { transfer: Access::Read, bank: 0, row: 0, position: 0, columns });
    system.drain()?;
    let mut commands = system.trace.take().unwrap_or_default();
    let start = commands.first().map_or(0, |(clock, _)| *clock);
    commands.iter_mut().for_each(|(clock, _)| *clock -= start);
    let ends = commands
        .iter()
        .filter(|(_, command)| drives(command))
        .map(|(clock, _)| clock + u64::from(config.t_cl()) + 2);
    let clocks = ends.max().unwrap_or(0);
    Ok(Scenario { commands, clocks })
}

/// Whether the channel drives the data bus.
fn drives(command: &HbmCommand) -> bool {
    use HbmCommand::{Read, ReadResults, ReadSum, ReadToBuffer};
    matches!(command, Read { .. } | ReadToBuffer { .. } | ReadResults | ReadSum { .. })
}

/// `clocks` is the width of the diagram.
///
/// # Errors
/// Never in practice: the numbers of the chart are finite.
pub fn draw(
    scenario: &Scenario,
    config: &HbmConfig,
    title: &str,
    clocks: u64,
) -> Result<String, ReportError> {
    let groups = config.bank_groups();
    let mut lanes = vec!["row commands".to_owned(), "column commands".to_owned()];
    lanes.extend((0..groups).map(|g| format!("group {g}, host's row")));
    lanes.extend((0..groups).map(|g| format!("group {g}, PIM row")));
    lanes.extend(["multipliers".to_owned(), "data bus".to_owned()]);
    let title = format!("{title}: {} clocks", scenario.clocks);
    let chart = Gantt::new(&title, "clock (1 ns)", &lanes).kinds(KINDS).until(clocks as f64).with_heading();
    let bars = bars(scenario, config, lanes.len());
    let chart = bars.into_iter().fold(chart, |chart, Bar { lane, from, to, kind, tip }| {
        chart.bar(lane, kind, (from as f64, to.min(clocks) as f64), &tip)
    });
    chart.draw()
}

struct Bar {
    lane: usize,
    from: u64,
    to: u64,
    kind: &'static str,
    tip: String,
}

fn bars(scenario: &Scenario, config: &HbmConfig, lanes: usize) -> Vec<Bar> {
    use HbmCommand::{Activate, Mac, PimActivate, PimActivateAll, PimPrecharge, Precharge, PrechargeAll};
    let groups = config.bank_groups() as usize;
    let (multipliers, data) = (lanes - 2, lanes - 1);
    let mut bars = Vec::new();
    // Open rows with their begin: the host's and PIM's.
    let mut open: Vec<Option<(u64, String)>> = vec![None; 2 * groups];
    let close = |bars: &mut Vec<Bar>, open: &mut Vec<Option<(u64, String)>>, which: usize, at: u64| {
        if let Some((from, tip)) = open[which].take() {
            let kind = if which < groups { HOST } else { PIM };
            bars.push(Bar { lane: 2 + which, from, to: at, kind, tip });
        }
    };
    for (clock, command) in &scenario.commands {
        let clock = *clock;
        let tip = format!("{clock}: {command}");
        let is_row = ndp_dram::CommandSet::kind(command).is_some_and(ndp_dram::hbm::HbmKind::is_row);
        let kind = match command {
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
        bars.push(Bar { lane, from: clock, to: clock + length, kind, tip: tip.clone() });
        match command {
            Activate { bank_group, .. } => open[usize::from(*bank_group)] = Some((clock, tip.clone())),
            PimActivate { bank_group, .. } => {
                open[groups + usize::from(*bank_group)] = Some((clock, tip.clone()))
            }
            PimActivateAll { .. } => open[groups..].fill(Some((clock, tip.clone()))),
            // Joined banks have one row buffer.
            PimPrecharge => (groups..2 * groups).for_each(|which| close(&mut bars, &mut open, which, clock)),
            Precharge { bank_group, .. } => {
                let group = usize::from(*bank_group);
                let which = if open[group].is_some() { group } else { groups + group };
                close(&mut bars, &mut open, which, clock);
            }
            PrechargeAll => (0..2 * groups).for_each(|which| close(&mut bars, &mut open, which, clock)),
            Mac { .. } => {
                let to = clock + u64::from(config.t_ccd_l());
                bars.push(Bar { lane: multipliers, from: clock, to, kind, tip: tip.clone() });
            }
            _ => {}
        }
        if drives(command) {
            let from = clock + u64::from(config.t_cl());
            bars.push(Bar { lane: data, from, to: from + 2, kind, tip });
        }
    }
    (0..2 * groups).for_each(|which| close(&mut bars, &mut open, which, scenario.clocks));
    bars
}
