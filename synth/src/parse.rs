//! Reads the tools' output: Yosys' statistics, ABC's delay, OpenSTA's path reports.
//!
//! Statistics are JSON because cell counts have the same form in Yosys 0.23 and in current versions, while the text
//! differs. Areas are summed from the library, not taken from Yosys, so that an unknown cell cannot pass as 0.

use std::collections::BTreeMap;

/// Number of cells by type, with black boxes.
pub type CellCounts = BTreeMap<String, u64>;

/// Reads `stat -json`.
///
/// # Errors
/// A message that names the missing part.
pub fn stat_json(text: &str, module: &str) -> Result<CellCounts, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| format!("stat -json: {e}"))?;
    let found = value
        .pointer("/modules")
        .and_then(|modules| modules.get(format!("\\{module}")))
        .ok_or(format!("stat -json: no module '{module}'"))?;
    let counts = found
        .get("num_cells_by_type")
        .and_then(|counts| counts.as_object())
        .ok_or("stat -json: no num_cells_by_type")?;
    let mut cells = CellCounts::new();
    for (name, count) in counts {
        // With a library, current versions print an object with count and area.
        let number = count.as_u64().or_else(|| count.get("count").and_then(|c| c.as_u64()));
        cells.insert(
            name.trim_start_matches('\\').to_owned(),
            number.ok_or(format!("stat -json: count of '{name}'"))?,
        );
    }
    let total: u64 = cells.values().sum();
    match found.get("num_cells").and_then(|n| n.as_u64()) {
        // Current versions count black boxes apart.
        Some(n) if n == total || found.get("num_submodules").is_some() => Ok(cells),
        Some(n) => Err(format!("stat -json: {n} cells, but the types sum to {total}")),
        None => Err("stat -json: no num_cells".into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AbcDelay {
    /// Longest combinational path.
    Ps(f64),
    NoLogic,
}

/// The delay that ABC's `stime` found: from its log, or, where Yosys does not pass that on (the WebAssembly build),
/// from the line (whole ps) that `stime -d` adds to a file.
///
/// # Errors
/// Neither a delay nor the message that there was nothing to map.
pub fn abc_delay(log: &str, stats_line: Option<&str>) -> Result<AbcDelay, String> {
    let delay = |line: &str| {
        let rest = line.split_once("Delay =")?.1.trim_start();
        let (value, unit) = rest.split_once(char::is_whitespace)?;
        // ABC converts every library to ps.
        if unit.trim_start().starts_with("ps") { value.parse().ok() } else { None }
    };
    let logged = log.lines().filter(|line| line.starts_with("ABC:")).filter_map(delay).next_back();
    let dumped = || stats_line.and_then(|line| line.split_whitespace().nth(5)?.parse().ok());
    if let Some(ps) = logged.or_else(dumped) {
        return Ok(AbcDelay::Ps(ps));
    }
    if log.contains("nothing to map") {
        return Ok(AbcDelay::NoLogic);
    }
    Err("neither 'Delay = ... ps' in ABC's log nor a line of 'stime -d'".into())
}

/// As Yosys' `stat -tech cmos` counts them; `None` for other cells.
pub fn transistors(cell: &str) -> Option<u64> {
    Some(match cell {
        "$_BUF_" => 1,
        "$_NOT_" => 2,
        "$_NAND_" | "$_NOR_" => 4,
        "$_AND_" | "$_OR_" | "$_ANDNOT_" | "$_ORNOT_" | "$_AOI3_" | "$_OAI3_" => 6,
        "$_AOI4_" | "$_OAI4_" => 8,
        "$_NMUX_" => 10,
        "$_MUX_" | "$_XOR_" | "$_XNOR_" => 12,
        "$_DFF_P_" => 16,
        // A flip-flop and an AND gate.
        "clock_gate" => 22,
        _ => return None,
    })
}

/// A path, in the library's time unit.
#[derive(Clone, Debug, PartialEq)]
pub struct StaPath {
    pub from: String,
    pub to: String,
    /// Arrival after the clock edge, with clock-to-Q.
    pub arrival: f64,
    /// `available` minus arrival and setup.
    pub slack: f64,
    /// Time between the launching and the capturing edge: a period, or half of one before or after a clock gate.
    pub available: f64,
}

/// The worst path in a section of [`crate::sta::script`]'s output; `None` if it reports no paths. OpenSTA reports the
/// worst path of each group, and checks of clock gates are a group.
///
/// # Errors
/// An error of OpenSTA; an incomplete section.
pub fn sta_path(log: &str, section: &str) -> Result<Option<StaPath>, String> {
    if let Some(error) = log.lines().find(|line| line.starts_with("Error")) {
        return Err(error.to_owned());
    }
    let marker = format!("## {section}\n");
    let text = log.split_once(&marker).ok_or(format!("no section '{section}'"))?.1;
    let text = text.split("\n## ").next().unwrap_or(text);
    if text.contains("No paths found") {
        return Ok(None);
    }
    let paths = text.split("Startpoint:").skip(1).map(|text| one_path(text, section));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let worst = paths.into_iter().min_by(|a, b| a.slack.total_cmp(&b.slack));
    worst.map(Some).ok_or(format!("{section}: no 'Startpoint:'"))
}

/// Reads a path from the text after `Startpoint:`.
fn one_path(text: &str, section: &str) -> Result<StaPath, String> {
    let missing = |key: &str| format!("{section}: no '{key}'");
    let column = |line: &str, column| line.split_whitespace().nth(column).and_then(|word| word.parse().ok());
    let number = |key: &str| {
        text.lines().find(|line| line.contains(key)).and_then(|line| column(line, 0)).ok_or(missing(key))
    };
    const EDGE: &str = "clock clk (";
    let mut edges = text.lines().filter(|line| line.contains(EDGE)).map(|line| column(line, 1));
    let mut edge = || edges.next().flatten().ok_or(missing(EDGE));
    let (launched, taken): (f64, f64) = (edge()?, edge()?);
    let end = text.lines().find_map(|line| line.strip_prefix("Endpoint:")).ok_or(missing("Endpoint:"))?;
    Ok(StaPath {
        from: point_name(text.lines().next().unwrap_or_default().trim()),
        to: point_name(end.trim()),
        arrival: number("data arrival time")? - launched,
        slack: number("slack")?,
        available: taken - launched,
    })
}

/// `\lane.acc_q[3]$_DFFE_PP_ (rising ...)` -> `lane.acc_q[3]`.
fn point_name(text: &str) -> String {
    let name = text.split(" (").next().unwrap_or(text);
    let name = name.split("$_").next().filter(|part| !part.is_empty()).unwrap_or(name);
    name.replace('\\', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT_023: &str = include_str!("../tests/logs/stat_0.23.json");
    const STAT_070: &str = include_str!("../tests/logs/stat_0.70.json");
    const ABC_023: &str = include_str!("../tests/logs/abc_0.23.log");
    const ABC_070: &str = include_str!("../tests/logs/abc_0.70.log");
    const STA: &str = include_str!("../tests/logs/sta_2.0.17.log");

    #[test]
    fn statistics_of_both_yosys_versions_are_read() {
        for text in [STAT_023, STAT_070] {
            let cells = stat_json(text, "top").unwrap();
            assert_eq!(cells["DFFHQNx1_ASAP7_75t_R"], 41);
            assert_eq!(cells["child"], 1);
        }
        assert_eq!(stat_json(STAT_023, "top").unwrap()["INVx1_ASAP7_75t_R"], 57);
        assert_eq!(stat_json(STAT_070, "top").unwrap()["INVx1_ASAP7_75t_R"], 55);
    }

    #[test]
    fn statistics_that_lack_something_are_refused() {
        assert!(stat_json(STAT_023, "other").unwrap_err().contains("no module 'other'"));
        assert!(stat_json("{", "top").is_err());
        let injected = STAT_023.replace("\"INVx1_ASAP7_75t_R\": 57", "\"INVx1_ASAP7_75t_R\": 56");
        assert!(stat_json(&injected, "top").unwrap_err().contains("sum to"));
    }

    #[test]
    fn the_delay_is_read_from_the_log_or_the_dump() {
        assert_eq!(abc_delay(ABC_023, Some("netlist 81 75 179 16 332")), Ok(AbcDelay::Ps(332.94)));
        assert_eq!(abc_delay(ABC_070, Some("netlist 81 75 177 16 329")), Ok(AbcDelay::Ps(329.0)));
    }

    #[test]
    fn a_module_without_logic_has_no_delay_but_a_missing_delay_is_an_error() {
        assert_eq!(abc_delay("Don't call ABC as there is nothing to map.\n", None), Ok(AbcDelay::NoLogic));
        assert!(abc_delay(&ABC_023.replace("Delay =", "Dly ="), None).is_err());
        assert!(abc_delay(ABC_070, Some("netlist 81 75")).is_err());
    }

    #[test]
    fn sta_paths_are_read_with_readable_endpoints() {
        let path = sta_path(STA, "worst").unwrap().unwrap();
        assert_eq!((path.from.as_str(), path.to.as_str()), ("l0.acc_q[0]", "l0.acc_q[21]"));
        assert_eq!((path.arrival, path.slack), (421.69, 557.98));
        assert_eq!(sta_path(STA, "registers"), Ok(None));
    }

    #[test]
    fn sta_errors_are_not_passed_over() {
        assert!(sta_path(&format!("{STA}\nError: x.tcl, 9 invalid command"), "worst").is_err());
        assert!(sta_path(&STA.replace("slack (MET)", ""), "worst").unwrap_err().contains("slack"));
        assert!(sta_path("", "worst").is_err());
    }

    #[test]
    fn transistors_follow_yosys_table() {
        assert_eq!(transistors("$_NAND_"), Some(4));
        assert_eq!(transistors("$_DFF_P_"), Some(16));
        assert_eq!(transistors("$_DFFE_PP_"), None);
    }
}
