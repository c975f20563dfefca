//! Internal energies, leakage, pin capacitances and functions of cells, from a library's Liberty text.
//!
//! Energies of ground pins are left out: the same charge has come through the supply pins, whose tables count.

use super::group::{Group, numbers};
use super::logic::Logic;
use crate::liberty::{Liberty, unit};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Units {
    pub volts: f64,
    leakage_nw: f64,
    time_ps: f64,
    cap_ff: f64,
    /// Voltages by the names that supply pins refer to.
    rails: BTreeMap<String, f64>,
}

/// A table over the input's transition time and, for outputs, the load.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    slews_ps: Vec<f64>,
    loads_ff: Vec<f64>,
    /// A row for each transition time, in fJ.
    values: Vec<f64>,
}

#[derive(Clone, Debug)]
pub struct Arc {
    pub pin: usize,
    /// For outputs, the input that causes the transition.
    pub related: Option<usize>,
    /// State of the pins in which it applies.
    pub when: Option<Logic>,
    rise: Option<Table>,
    fall: Option<Table>,
}

/// Most pins of a cell, without supply pins.
pub const MAX_PINS: usize = 16;

#[derive(Clone, Debug)]
pub struct Pin {
    pub name: String,
    /// Capacitance of an input.
    pub cap_ff: f64,
    /// Function of an output; for a register's output it uses the data pin for the state.
    pub function: Option<Logic>,
}

/// Pins of a flip-flop or latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Pin whose rising edge takes the data.
    pub clock: usize,
    pub data: usize,
    /// The register takes the data while, or when, the clock goes down, as in a clock gate; its output changes at the
    /// next rising edge.
    pub low: bool,
}

#[derive(Clone, Debug)]
pub struct CellPower {
    /// Pins except supply pins.
    pub pins: Vec<Pin>,
    pub register: Option<Register>,
    pub arcs: Vec<Arc>,
    /// In nW by state; entries without a state apply to all states not listed.
    pub leakage: Vec<(Option<Logic>, f64)>,
}

impl Units {
    /// # Errors
    /// A message that names the missing part.
    pub fn of(library: &Liberty) -> Result<Self, String> {
        // The header ends before the first cell, so its group is not closed.
        let head = Group::parse(&format!("{}\n}}", library.header()))?;
        let volts = head.attribute("nom_voltage").and_then(|text| text.parse().ok());
        let leakage = head.attribute("leakage_power_unit").ok_or("no leakage_power_unit")?;
        let known = [("pw", 1e-3), ("nw", 1.0), ("uw", 1e3), ("mw", 1e6)];
        let leakage_nw = unit(leakage, &known).ok_or(format!("leakage_power_unit '{leakage}'"))?;
        let maps = head.attributes.iter().filter(|(key, _)| key == "voltage_map");
        let rails = maps.filter_map(|(_, value)| {
            let (name, volts) = value.split_once(',')?;
            Some((name.trim().to_owned(), volts.trim().parse().ok()?))
        });
        Ok(Self {
            volts: volts.ok_or("no nom_voltage")?,
            leakage_nw,
            time_ps: library.time_unit_ps,
            cap_ff: library.cap_unit_ff,
            rails: rails.collect(),
        })
    }
}

impl CellPower {
    /// # Errors
    /// A message that names the unusable part.
    pub fn parse(text: &str, units: &Units) -> Result<Self, String> {
        let cell = Group::parse(text)?;
        let names: Vec<&str> = cell.of_kind("pin").map(|pin| pin.argument.as_str()).collect();
        if names.len() > MAX_PINS {
            return Err(format!("a cell with {} pins cannot be replayed, at most {MAX_PINS}", names.len()));
        }
        let place = |name: &str| names.iter().position(|pin| *pin == name);
        let volts = |pin: &str| {
            let pins = cell.of_kind("pg_pin").find(|group| group.argument == pin);
            pins.and_then(|group| units.rails.get(group.attribute("voltage_name")?)).copied()
        };
        let counted = |group: &Group| {
            group.attribute("related_pg_pin").and_then(volts).is_none_or(|volts| volts != 0.0)
        };
        let when = |group: &Group| group.attribute("when").map(|text| Logic::parse(text, &place)).transpose();

        let (register, state) = register(&cell, &place)?;
        let count = names.len();
        let inside = |name: &str| match &state {
            Some((names, _)) => {
                place(name).or_else(|| names.iter().position(|own| own == name).map(|n| count + n))
            }
            None => place(name),
        };
        let (mut pins, mut arcs) = (Vec::new(), Vec::new());
        for (index, group) in cell.of_kind("pin").enumerate() {
            let mut function = None;
            if let Some(text) =
                group.attribute("function").filter(|_| group.attribute("direction") == Some("output"))
            {
                let mut logic = Logic::parse(text, &inside)?;
                if let Some((_, next)) = &state {
                    logic = logic.with(count, next).with(count + 1, &Logic::Not(Box::new(next.clone())));
                }
                function = Some(logic);
            }
            let cap = group.attribute("capacitance").filter(|_| function.is_none());
            let cap =
                cap.map_or(Ok(0.0), |text| text.parse::<f64>().map_err(|_| format!("capacitance '{text}'")))?;
            pins.push(Pin { name: names[index].to_owned(), cap_ff: cap * units.cap_ff, function });
            for power in group.of_kind("internal_power").filter(|power| counted(power)) {
                let table = |kind: &str| {
                    power.of_kind(kind).next().map(|table| Table::parse(table, units)).transpose()
                };
                let related = power.attribute("related_pin");
                let related =
                    related.map(|name| place(name).ok_or_else(|| format!("no pin '{name}'"))).transpose()?;
                arcs.push(Arc {
                    pin: index,
                    related,
                    when: when(power)?,
                    rise: table("rise_power")?,
                    fall: table("fall_power")?,
                });
            }
        }
        let mut leakage = Vec::new();
        for group in cell.of_kind("leakage_power").filter(|group| counted(group)) {
            let value: f64 = group
                .attribute("value")
                .and_then(|text| text.parse().ok())
                .ok_or("leakage without a value")?;
            leakage.push((when(group)?, value * units.leakage_nw));
        }
        if let Some(value) = cell.attribute("cell_leakage_power").and_then(|text| text.parse::<f64>().ok())
            && leakage.iter().all(|(when, _)| when.is_some())
        {
            leakage.push((None, value * units.leakage_nw));
        }
        Ok(Self { pins, register, arcs, leakage })
    }

    pub fn pin(&self, name: &str) -> Option<usize> {
        self.pins.iter().position(|pin| pin.name == name)
    }
}

/// The two internal names of a flip-flop, and its state after an edge by the data pin.
type State = ([String; 2], Logic);

fn register(
    cell: &Group,
    place: &dyn Fn(&str) -> Option<usize>,
) -> Result<(Option<Register>, Option<State>), String> {
    let Some(group) = cell.of_kind("ff").chain(cell.of_kind("latch")).next() else { return Ok((None, None)) };
    if group.attribute("clear").is_some() || group.attribute("preset").is_some() {
        return Err("a flip-flop with asynchronous inputs cannot be replayed".into());
    }
    let names = group.argument.split_once(',').ok_or("a flip-flop without two states")?;
    let logic =
        |key: &str| Logic::parse(group.attribute(key).ok_or(format!("a flip-flop without {key}"))?, place);
    let is_latch = group.kind == "latch";
    let (clock, next) = if is_latch { ("enable", "data_in") } else { ("clocked_on", "next_state") };
    let (clock, next) = (logic(clock)?, logic(next)?);
    let (clock, low) = match clock {
        Logic::Pin(clock) if !is_latch => (clock, false),
        Logic::Not(clock) => match *clock {
            Logic::Pin(clock) => (clock, true),
            _ => return Err("a flip-flop whose clock is a function cannot be replayed".into()),
        },
        _ => return Err("a latch that is open while its clock is up cannot be replayed".into()),
    };
    let data: Vec<usize> = (0..cell.of_kind("pin").count()).filter(|pin| next.has(*pin)).collect();
    let [data] = data[..] else {
        return Err(format!("a flip-flop with {} data pins cannot be replayed", data.len()));
    };
    let names = [names.0.trim().to_owned(), names.1.trim().to_owned()];
    Ok((Some(Register { clock, data, low }), Some((names, next))))
}

impl Arc {
    /// Energies in fJ, of a rising and a falling transition.
    pub fn energies(&self, slew_ps: f64, load_ff: f64) -> [f64; 2] {
        [&self.rise, &self.fall].map(|table| table.as_ref().map_or(0.0, |table| table.at(slew_ps, load_ff)))
    }
}

impl Table {
    fn parse(group: &Group, units: &Units) -> Result<Self, String> {
        let list = |key: &str| group.attribute(key).map_or(Ok(Vec::new()), numbers);
        let (mut slews_ps, mut loads_ff, mut values) = (list("index_1")?, list("index_2")?, list("values")?);
        let size = slews_ps.len().max(1) * loads_ff.len().max(1);
        if values.len() != size {
            return Err(format!("a table '{}' of {} values, expected {size}", group.kind, values.len()));
        }
        slews_ps.iter_mut().for_each(|slew| *slew *= units.time_ps);
        loads_ff.iter_mut().for_each(|load| *load *= units.cap_ff);
        // The unit of energy is the unit of capacitance times V2.
        values.iter_mut().for_each(|value| *value *= units.cap_ff);
        Ok(Self { slews_ps, loads_ff, values })
    }

    /// Linear between entries; constant beyond the ends.
    fn at(&self, slew_ps: f64, load_ff: f64) -> f64 {
        let ((row, down), (column, right)) =
            (between(&self.slews_ps, slew_ps), between(&self.loads_ff, load_ff));
        let columns = self.loads_ff.len().max(1);
        let value = |row: usize, column: usize| self.values[row * columns + column];
        let along = |row: usize| match right > 0.0 {
            true => value(row, column) * (1.0 - right) + value(row, column + 1) * right,
            false => value(row, column),
        };
        if down > 0.0 { along(row) * (1.0 - down) + along(row + 1) * down } else { along(row) }
    }
}

/// Index of the last entry up to a value, and the fraction of the way to the next.
fn between(index: &[f64], value: f64) -> (usize, f64) {
    let after = index.partition_point(|entry| *entry <= value);
    match after {
        0 => (0, 0.0),
        after if after == index.len() => (after - 1, 0.0),
        after => (after - 1, (value - index[after - 1]) / (index[after] - index[after - 1])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub const LIBRARY: &str = r#"library (l) {
  capacitive_load_unit (1,pf); time_unit : "1ns"; leakage_power_unit : "1nW"; nom_voltage : 0.5;
  voltage_map (VDD, 0.5); voltage_map (VSS, 0);
  cell (NAND) { area : 1;
    pg_pin (VDD) { voltage_name : "VDD"; } pg_pin (VSS) { voltage_name : "VSS"; }
    leakage_power () { value : 3; when : "A * B"; related_pg_pin : VDD; }
    leakage_power () { value : 1; related_pg_pin : VDD; }
    leakage_power () { value : 9; related_pg_pin : VSS; }
    pin (A) { direction : input; capacitance : 0.002; }
    pin (B) { direction : input; capacitance : 0.001;
      internal_power () { when : "!A * Y"; rise_power (p) { index_1 ("1, 3"); values ("2, 4"); } } }
    pin (Y) { direction : output; function : "!(A * B)";
      internal_power () { related_pin : "A"; related_pg_pin : VDD;
        rise_power (p) { index_1 ("1, 2"); index_2 ("0.1, 0.3"); values ("1, 2", "3, 4"); }
        fall_power (scalar) { values ("0.5"); } }
      internal_power () { related_pin : "A"; related_pg_pin : VSS; rise_power (scalar) { values ("7"); } } } }
  cell (FF) { area : 2; ff (IQN, IQNN) { clocked_on : "CK"; next_state : "!D"; }
    pin (CK) { direction : input; capacitance : 0.001; } pin (D) { direction : input; capacitance : 0.001; }
    pin (QN) { direction : output; function : "IQN"; } }
}"#;

    fn cell(name: &str, text: &str) -> Result<CellPower, String> {
        let library = Liberty::scan(text.into()).unwrap();
        CellPower::parse(library.cell_text(name).unwrap(), &Units::of(&library)?)
    }

    #[test]
    fn tables_are_interpolated_in_ff_and_fj() {
        let nand = cell("NAND", LIBRARY).unwrap();
        assert_eq!(nand.pins[0].cap_ff, 2.0);
        // The other arc of Y belongs to the ground.
        assert_eq!(nand.arcs.len(), 2);
        let arc = nand.arcs.iter().find(|arc| arc.related == Some(0)).unwrap();
        assert_eq!(arc.energies(1000.0, 100.0), [1000.0, 500.0]);
        assert_eq!(arc.energies(1500.0, 200.0), [2500.0, 500.0]);
        assert_eq!(arc.energies(9999.0, 9999.0), [4000.0, 500.0]);
        let passive = nand.arcs.iter().find(|arc| arc.related.is_none()).unwrap();
        assert_eq!(passive.energies(2000.0, 0.0), [3000.0, 0.0]);
        assert_eq!(nand.leakage.iter().map(|(_, nw)| *nw).collect::<Vec<_>>(), [3.0, 1.0]);
    }

    #[test]
    fn a_flip_flop_says_what_its_output_is_of_the_value_it_holds() {
        let ff = cell("FF", LIBRARY).unwrap();
        assert_eq!(ff.register, Some(Register { clock: 0, data: 1, low: false }));
        let output = ff.pins[2].function.as_ref().unwrap();
        assert_eq!(output.evaluate(&[0b10; 3]) & 3, 0b01);
    }

    #[test]
    fn what_takes_data_while_the_clock_is_down_is_told_from_flip_flops() {
        let low = cell("FF", &LIBRARY.replace("clocked_on : \"CK\"", "clocked_on : \"!CK\"")).unwrap();
        let latch = LIBRARY.replace(
            "ff (IQN, IQNN) { clocked_on : \"CK\"; next_state",
            "latch (IQN, IQNN) { enable : \"!CK\"; data_in",
        );
        for cell in [low, cell("FF", &latch).unwrap()] {
            assert_eq!(cell.register, Some(Register { clock: 0, data: 1, low: true }));
        }
    }

    #[test]
    fn what_cannot_be_replayed_is_refused() {
        let error = |from: &str, to: &str| cell("FF", &LIBRARY.replace(from, to)).unwrap_err();
        assert!(error("next_state : \"!D\"", "next_state : \"!D\"; clear : \"D\"").contains("asynchronous"));
        assert!(error("clocked_on : \"CK\"", "clocked_on : \"CK * D\"").contains("latch"));
        assert!(error("\"!D\"", "\"D * CK\"").contains("2 data pins"));
        let table = LIBRARY.replace("values (\"2, 4\")", "values (\"2\")");
        assert!(cell("NAND", &table).unwrap_err().contains("expected 2"));
        assert!(cell("NAND", &LIBRARY.replace("nom_voltage", "volts")).unwrap_err().contains("nom_voltage"));
    }
}
