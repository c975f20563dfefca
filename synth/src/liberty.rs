//! Reads the flow's data from a Liberty file: library name, units, cell areas, and the cells that store a bit.
//!
//! A scanner over groups and attributes: delay tables are skipped (ABC and OpenSTA read those). It can leave cells out
//! of the tools' copy, because Yosys 0.23 has no `-dont_use`.

use ndp_files::{Error, NameRule, Result, refusal};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Area in the library's unit, um2 by convention.
    pub area_um2: f64,
    pub sequential: bool,
    /// Bytes of its group in the file.
    range: Range<usize>,
}

#[derive(Clone, Debug)]
pub struct Liberty {
    /// Name in the `library (...)` header.
    pub name: String,
    pub time_unit_ps: f64,
    pub cap_unit_ff: f64,
    pub cells: BTreeMap<String, Cell>,
    text: String,
}

/// Libraries with known drivers, loads and cells to avoid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// ASAP7 7.5-track, 7 nm predictive.
    Asap7,
    /// SkyWater 130 nm.
    Sky130,
    /// Other libraries: no driving cell, no load.
    Other,
}

/// Verilog of a module `clock_gate` that passes `clk_i` to `clk_o` in cycles at whose beginning `en_i` is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockGate {
    /// The module, in the library's cells.
    pub verilog: String,
    /// Has an input `test_enable_i`, which passes the clock as `en_i` does.
    pub test_enable: bool,
}

impl Family {
    /// Cell that drives every input, and load of every output in fF. ASAP7: a small buffer and the input capacitance of
    /// about three gates; sky130: the values of its open flows.
    pub fn boundary(self) -> Option<(&'static str, f64)> {
        match self {
            Self::Asap7 => Some(("BUFx2_ASAP7_75t_R", 2.0)),
            Self::Sky130 => Some(("sky130_fd_sc_hd__inv_2", 33.442)),
            Self::Other => None,
        }
    }

    /// The enable is held while the clock is up; a test enable joins it before.
    pub fn clock_gate(self, test_enable: bool) -> Option<ClockGate> {
        let (or, gate) = match self {
            // The library has neither latches nor clock gates: a flip-flop takes the enable when the clock falls.
            Self::Asap7 => (
                "OR2x2_ASAP7_75t_R either(.A(en_i), .B(test_enable_i), .Y(enable))",
                "wire off, on;\n    \
                 DFFLQNx1_ASAP7_75t_R hold(.CLK(clk_i), .D(enable), .QN(off));\n    \
                 INVx1_ASAP7_75t_R invert(.A(off), .Y(on));\n    \
                 AND2x2_ASAP7_75t_R pass(.A(clk_i), .B(on), .Y(clk_o));",
            ),
            Self::Sky130 => (
                "sky130_fd_sc_hd__or2_1 either(.A(en_i), .B(test_enable_i), .X(enable))",
                "wire on;\n    \
                 sky130_fd_sc_hd__dlxtn_1 hold(.GATE_N(clk_i), .D(enable), .Q(on));\n    \
                 sky130_fd_sc_hd__and2_1 pass(.A(clk_i), .B(on), .X(clk_o));",
            ),
            Self::Other => return None,
        };
        let (port, enable) = match test_enable {
            true => (", input test_enable_i", or),
            false => ("", "assign enable = en_i"),
        };
        let verilog = format!(
            "module clock_gate(input clk_i, input en_i{port}, output clk_o);\n    wire enable;\n    {enable};\n    {gate}\nendmodule\n"
        );
        Some(ClockGate { verilog, test_enable })
    }

    /// Parts of names of cells that are not ordinary logic: level shifters, isolation cells, probes.
    pub fn avoided(self) -> &'static [&'static str] {
        match self {
            Self::Sky130 => &["__lpflow_", "__probe"],
            Self::Asap7 | Self::Other => &[],
        }
    }
}

/// Bound on a library's size; libraries of foundries have some hundred megabytes.
const MAX_BYTES: u64 = 1 << 30;

impl Liberty {
    /// # Errors
    /// A file that cannot be read or is no cell library, with the path.
    pub fn load(path: &Path) -> Result<Self> {
        let refuse = |reason: String| refusal!("'{}' is not a usable Liberty file: {reason}", path.display());
        let text = ndp_files::read_any_text(path, MAX_BYTES).map_err(|reason| match reason.kind() {
            ErrorKind::InvalidData => refuse(reason.to_string()),
            _ => Error::new(reason).context(format!("cannot read '{}'", path.display())),
        })?;
        Self::scan(text).map_err(refuse)
    }

    /// # Errors
    /// A message that names the missing part.
    pub fn scan(text: String) -> Result<Self, String> {
        let mut scan = Scan::default();
        scan.run(&text)?;
        let name = scan.name.ok_or("no 'library (...)' group")?;
        let time = scan.time_unit.ok_or("no time_unit")?;
        let cap = scan.cap_unit.ok_or("no capacitive_load_unit")?;
        let time_unit_ps = unit(&time, &[("fs", 1e-3), ("ps", 1.0), ("ns", 1e3), ("us", 1e6)])
            .ok_or(format!("time_unit '{time}'"))?;
        if name.is_empty() {
            return Err("its library has no name".into());
        }
        let cap_unit_ff =
            unit(&cap, &[("ff", 1.0), ("pf", 1e3)]).ok_or(format!("capacitive_load_unit '{cap}'"))?;
        if scan.cells.is_empty() {
            return Err("no cells".into());
        }
        for name in [&name].into_iter().chain(scan.cells.keys()) {
            NameRule::Foreign.check(name).map_err(|error| format!("the name {error}"))?;
        }
        Ok(Self { name, time_unit_ps, cap_unit_ff, cells: scan.cells, text })
    }

    /// Family by the names of the cells.
    pub fn family(&self) -> Family {
        let holds = |mark: &str| self.cells.keys().any(|name| name.contains(mark));
        match () {
            () if holds("_ASAP7_75t_") => Family::Asap7,
            () if holds("sky130_fd_sc_") => Family::Sky130,
            () => Family::Other,
        }
    }

    /// Text of a cell's group, with its header.
    pub fn cell_text(&self, name: &str) -> Option<&str> {
        self.cells.get(name).map(|cell| &self.text[cell.range.clone()])
    }

    /// Text before the first cell: units, voltages, templates.
    pub fn header(&self) -> &str {
        let first = self.cells.values().map(|cell| cell.range.start).min().unwrap_or(self.text.len());
        &self.text[..first]
    }

    /// Leaves out cells whose name contains one of `avoided`.
    pub fn text_without(&self, avoided: &[String]) -> String {
        let mut dropped: Vec<&Range<usize>> = self
            .cells
            .iter()
            .filter(|(name, _)| avoided.iter().any(|part| name.contains(part.as_str())))
            .map(|(_, cell)| &cell.range)
            .collect();
        dropped.sort_by_key(|range| range.start);
        let (mut text, mut from) = (String::with_capacity(self.text.len()), 0);
        for range in dropped {
            text += &self.text[from..range.start];
            from = range.end;
        }
        text + &self.text[from..]
    }
}

/// `1ps`, `1,ff`, `1.0000,"pf"`: a number and a unit.
pub(crate) fn unit(text: &str, known: &[(&str, f64)]) -> Option<f64> {
    let clean: String = text.chars().filter(|c| !"\", ()".contains(*c)).collect::<String>().to_lowercase();
    let (suffix, factor) = known.iter().find(|(suffix, _)| clean.ends_with(suffix))?;
    let count: f64 = clean.strip_suffix(suffix)?.parse().ok()?;
    (count > 0.0).then_some(count * factor)
}

#[derive(Default)]
struct Scan {
    name: Option<String>,
    time_unit: Option<String>,
    cap_unit: Option<String>,
    cells: BTreeMap<String, Cell>,
    /// The cell being read; its area is NaN until seen.
    open: Option<(String, Cell)>,
}

impl Scan {
    fn run(&mut self, text: &str) -> Result<(), String> {
        let bytes = text.as_bytes();
        let (mut depth, mut start, mut at) = (0_usize, 0, 0);
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at += bytes[at + 1..].iter().position(|b| *b == b'"').map_or(0, |n| n + 1),
                b'/' if bytes.get(at + 1) == Some(&b'*') => {
                    at += text[at..].find("*/").ok_or("unterminated comment")? + 1;
                    // Text before a comment is white space in practice; a statement never spans one.
                    start = at + 1;
                }
                b'{' => {
                    self.enter(depth, &text[start..at], start);
                    depth += 1;
                    start = at + 1;
                }
                b';' => {
                    self.attributes(depth, &text[start..at]);
                    start = at + 1;
                }
                b'}' => {
                    self.attributes(depth, &text[start..at]);
                    depth = depth.checked_sub(1).ok_or("unbalanced '}'")?;
                    start = at + 1;
                    if depth == 1 {
                        self.leave(start)?;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        if depth == 0 { Ok(()) } else { Err("unbalanced '{' (truncated file?)".into()) }
    }

    fn enter(&mut self, depth: usize, text: &str, start: usize) {
        // Attributes without a semicolon may precede the header.
        self.attributes(depth, text);
        let header = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
        let (kind, rest) = header.split_once('(').unwrap_or((header, ""));
        let argument = rest.trim_end_matches(')').trim().trim_matches('"').to_owned();
        match (depth, kind.trim()) {
            (0, "library") => self.name = Some(argument),
            (1, "cell") => {
                let start = start + text.rfind(header).unwrap_or(0);
                self.open =
                    Some((argument, Cell { area_um2: f64::NAN, sequential: false, range: start..start }));
            }
            (2, "ff" | "latch" | "ff_bank" | "latch_bank" | "statetable") => {
                if let Some((_, cell)) = &mut self.open {
                    cell.sequential = true;
                }
            }
            _ => {}
        }
    }

    fn attributes(&mut self, depth: usize, text: &str) {
        if !matches!(depth, 1 | 2) {
            return;
        }
        for line in text.lines().map(str::trim) {
            let value = |key: &str| {
                let rest = line.strip_prefix(key)?.trim_start();
                rest.strip_prefix(':').map(|v| v.trim().trim_matches('"').to_owned())
            };
            if depth == 2 {
                if let (Some((_, cell)), Some(area)) = (&mut self.open, value("area")) {
                    cell.area_um2 = area.parse().unwrap_or(f64::NAN);
                }
            } else if let Some(unit) = value("time_unit") {
                self.time_unit = Some(unit);
            } else if let Some(rest) = line.strip_prefix("capacitive_load_unit") {
                self.cap_unit = Some(rest.trim().to_owned());
            }
        }
    }

    fn leave(&mut self, end: usize) -> Result<(), String> {
        let Some((name, mut cell)) = self.open.take() else { return Ok(()) };
        if cell.area_um2.is_nan() {
            return Err(format!("cell '{name}' has no area"));
        }
        cell.range.end = end;
        self.cells.insert(name, cell);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASAP7: &str = r#"/* head */
library (asap7_rvt_tt) {
  capacitive_load_unit (1,ff);
  time_unit : "1ps";
  lu_table_template (t) { variable_1 : related_pin_transition; }
  cell (INVx1_ASAP7_75t_R) {
    area : 0.04374;
    pin (Y) { timing () { cell_rise (t) { values ("1, 2", \
      "3, 4"); } } area_like : 7; }
  }
  cell (DFFHQNx1_ASAP7_75t_R) { area : 0.2916; ff (IQN,IQNN) { clocked_on : "CLK"; } }
}
"#;
    const SKY130: &str = r#"
library ("sky130_fd_sc_hd__tt_025C_1v80") {
    time_unit : "1ns";
    capacitive_load_unit(1.0000000000, "pf");
    cell ("sky130_fd_sc_hd__inv_2") {
        leakage_power () { value : 0.1; }
        area : 3.7536000000;
    }
    cell ("sky130_fd_sc_hd__lpflow_inputiso1p_1")
    {
        area : 6.25
    }
}
"#;

    #[test]
    fn units_of_asap7_are_ps_and_ff() {
        let lib = Liberty::scan(ASAP7.into()).unwrap();
        assert_eq!((lib.name.as_str(), lib.time_unit_ps, lib.cap_unit_ff), ("asap7_rvt_tt", 1.0, 1.0));
        assert_eq!(lib.family(), Family::Asap7);
        assert_eq!(lib.cells["INVx1_ASAP7_75t_R"].area_um2, 0.04374);
        assert!(!lib.cells["INVx1_ASAP7_75t_R"].sequential);
        assert!(lib.cells["DFFHQNx1_ASAP7_75t_R"].sequential);
    }

    #[test]
    fn units_of_sky130_are_ns_and_pf() {
        let lib = Liberty::scan(SKY130.into()).unwrap();
        assert_eq!((lib.time_unit_ps, lib.cap_unit_ff), (1000.0, 1000.0));
        assert_eq!(lib.family(), Family::Sky130);
        assert_eq!(lib.cells["sky130_fd_sc_hd__lpflow_inputiso1p_1"].area_um2, 6.25);
    }

    #[test]
    fn avoided_cells_are_left_out_and_the_rest_stays_a_library() {
        let lib = Liberty::scan(SKY130.into()).unwrap();
        let text = lib.text_without(&["__lpflow_".into()]);
        let rest = Liberty::scan(text).unwrap();
        assert_eq!(rest.cells.keys().collect::<Vec<_>>(), ["sky130_fd_sc_hd__inv_2"]);
        assert_eq!(lib.text_without(&[]), SKY130);
    }

    #[test]
    fn scaled_units_are_understood_and_unknown_ones_refused() {
        let scan = |from: &str, to: &str| Liberty::scan(ASAP7.replace(from, to));
        assert_eq!(scan("1ps", "10ps").unwrap().time_unit_ps, 10.0);
        assert!(scan("1ps", "1 parsec").unwrap_err().contains("time_unit"));
        assert!(scan("time_unit", "tme_unit").unwrap_err().contains("no time_unit"));
        assert!(scan("area : 0.2916;", "").unwrap_err().contains("has no area"));
    }

    #[test]
    fn comments_may_be_in_any_encoding() {
        let path = std::env::temp_dir().join(format!("ndp-liberty-{}.lib", std::process::id()));
        let mark = "\u{FEFF}".as_bytes();
        for start in [mark, b"/* \xb5m */\r\n"] {
            std::fs::write(&path, [start, ASAP7.as_bytes()].concat()).unwrap();
            let library = Liberty::load(&path).unwrap();
            assert_eq!((library.name.as_str(), library.cells.len()), ("asap7_rvt_tt", 2));
            // The rest of the flow gets this text.
            assert!(!library.text_without(&[]).contains('\u{FEFF}'));
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn text_that_is_no_library_is_refused() {
        assert!(Liberty::scan("hello".into()).unwrap_err().contains("library"));
        for name in ["library (asap7", "cell (INVx1"] {
            assert!(ASAP7.contains(name), "{name}");
            let error = Liberty::scan(ASAP7.replacen(name, &format!("{name}\u{1b}[2J"), 1)).unwrap_err();
            assert!(error.contains(r"\u001b[2J") && error.contains("no control characters"), "{error}");
        }
        let truncated = &ASAP7[..ASAP7.len() - 4];
        assert!(Liberty::scan(truncated.into()).unwrap_err().contains("unbalanced"));
        let error = Liberty::load(Path::new("no/such.lib")).unwrap_err().to_string();
        assert!(error.contains("no/such.lib"), "{error}");
    }
}
