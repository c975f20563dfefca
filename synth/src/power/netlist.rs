//! A module's mapped netlist from Yosys, in an order for evaluation.

use super::cells::CellPower;
use crate::script::TEST_ENABLE;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

#[derive(Deserialize)]
struct File {
    modules: BTreeMap<String, RawModule>,
}

#[derive(Deserialize)]
struct RawModule {
    #[serde(default)]
    attributes: BTreeMap<String, serde_json::Value>,
    ports: BTreeMap<String, RawPort>,
    cells: BTreeMap<String, RawCell>,
}

#[derive(Deserialize)]
struct RawPort {
    direction: String,
    bits: Vec<Bit>,
}

#[derive(Deserialize)]
struct RawCell {
    r#type: String,
    connections: BTreeMap<String, Vec<Bit>>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Bit {
    Net(usize),
    Constant(String),
}

pub struct RawNetlist {
    name: String,
    module: RawModule,
    boxes: BTreeMap<String, RawModule>,
}

impl RawNetlist {
    /// # Errors
    /// A message that names the missing or wrong part.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = serde_json::from_str(text).map_err(|error| format!("is no netlist: {error}"))?;
        let (boxes, own): (BTreeMap<_, _>, Vec<_>) = {
            let (boxes, own): (Vec<_>, Vec<_>) =
                file.modules.into_iter().partition(|(_, module)| module.attributes.contains_key("blackbox"));
            (boxes.into_iter().collect(), own)
        };
        let own: [_; 1] = own
            .try_into()
            .map_err(|all: Vec<_>| format!("has {} modules with a body, expected 1", all.len()))?;
        let [(name, module)] = own;
        Ok(Self { name, module, boxes })
    }

    /// Names of cells other than black boxes, perhaps repeated.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        let all = self.module.cells.values().map(|cell| cell.r#type.as_str());
        all.filter(|name| !self.boxes.contains_key(*name))
    }
}

/// Number of the constant-0 net; the next one is constant 1. Yosys numbers the others from 2.
pub const ZERO: usize = 0;

impl Bit {
    fn net(&self) -> usize {
        match self {
            Self::Net(net) => *net,
            Self::Constant(value) => ZERO + usize::from(value == "1"),
        }
    }
}

/// Port of a module or of a black box: a net for each bit.
#[derive(Clone, Debug)]
pub struct Port {
    pub name: String,
    pub output: bool,
    /// Nets from bit 0.
    pub nets: Vec<usize>,
}

#[derive(Clone, Debug)]
pub struct Gate {
    /// For a flip-flop it begins with the name of the register's bit.
    pub name: String,
    /// Index in [`Netlist::kinds`].
    pub kind: usize,
    /// Net at each pin of the kind.
    pub nets: Vec<Option<usize>>,
}

#[derive(Clone, Debug)]
pub struct Child {
    pub name: String,
    pub module: String,
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug)]
pub struct Netlist {
    pub name: String,
    /// Ports, without a test enable, whose net stays 0.
    pub ports: Vec<Port>,
    pub kinds: Vec<String>,
    pub registers: Vec<Gate>,
    /// All other cells, including clock gates; drivers come first.
    pub gates: Vec<Gate>,
    pub children: Vec<Child>,
    /// Number of nets, with the constants.
    pub nets: usize,
}

impl Netlist {
    /// # Errors
    /// A message that names the missing or wrong part.
    pub fn compile(raw: RawNetlist, cells: &HashMap<String, CellPower>) -> Result<Self, String> {
        let RawNetlist { name, module, boxes } = raw;
        let port = |(name, port): (&String, &RawPort)| Port {
            name: name.clone(),
            output: port.direction == "output",
            nets: port.bits.iter().map(Bit::net).collect(),
        };
        let mut all = Self {
            name,
            ports: module.ports.iter().filter(|(name, _)| *name != TEST_ENABLE).map(port).collect(),
            kinds: Vec::new(),
            registers: Vec::new(),
            gates: Vec::new(),
            children: Vec::new(),
            nets: 2,
        };
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut powers = Vec::new();
        for (name, raw) in &module.cells {
            if let Some(child) = boxes.get(&raw.r#type) {
                let ports = raw.connections.iter().map(|(port, bits)| {
                    let output = child.ports.get(port).is_some_and(|known| known.direction == "output");
                    Port { name: port.clone(), output, nets: bits.iter().map(Bit::net).collect() }
                });
                all.children.push(Child {
                    name: name.clone(),
                    module: raw.r#type.clone(),
                    ports: ports.collect(),
                });
                continue;
            }
            let power =
                cells.get(&raw.r#type).ok_or_else(|| format!("no cell '{}' in the library", raw.r#type))?;
            let kind = *known.entry(&raw.r#type).or_insert_with(|| {
                all.kinds.push(raw.r#type.clone());
                powers.push(power);
                powers.len() - 1
            });
            let net = |pin: &str| raw.connections.get(pin).and_then(|bits| bits.first()).map(Bit::net);
            let nets = power.pins.iter().map(|pin| net(&pin.name)).collect();
            let gate = Gate { name: name.clone(), kind, nets };
            if power.register.is_some_and(|register| !register.low) {
                all.registers.push(gate)
            } else {
                all.gates.push(gate)
            }
        }
        let used = all.registers.iter().chain(&all.gates).flat_map(|gate| gate.nets.iter().flatten());
        let of_ports = all.ports.iter().chain(all.children.iter().flat_map(|child| &child.ports));
        let last = used.chain(of_ports.flat_map(|port| &port.nets)).max();
        all.nets = last.map_or(2, |last| (last + 1).max(2));
        all.gates = ordered(std::mem::take(&mut all.gates), &powers, all.nets)?;
        Ok(all)
    }

    /// Input ports named as clocks.
    pub fn clocks(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().filter(|port| !port.output && port.name.ends_with("clk_i"))
    }
}

/// Sorts gates so that each comes after its drivers.
fn ordered(gates: Vec<Gate>, kinds: &[&CellPower], nets: usize) -> Result<Vec<Gate>, String> {
    let is_output = |gate: &Gate, pin: usize| kinds[gate.kind].pins[pin].function.is_some();
    let mut driver = vec![usize::MAX; nets];
    for (index, gate) in gates.iter().enumerate() {
        for (pin, net) in gate.nets.iter().enumerate() {
            if let Some(net) = net.filter(|_| is_output(gate, pin)) {
                driver[net] = index;
            }
        }
    }
    // Depth first without recursion: chains of gates are long.
    let (mut state, mut order) = (vec![0_u8; gates.len()], Vec::with_capacity(gates.len()));
    for root in 0..gates.len() {
        let mut path = vec![root];
        while let Some(&at) = path.last() {
            if state[at] == 0 {
                state[at] = 1;
                let inputs =
                    gates[at].nets.iter().enumerate().filter(|(pin, _)| !is_output(&gates[at], *pin));
                for from in
                    inputs.filter_map(|(_, net)| Some(driver[(*net)?])).filter(|from| *from != usize::MAX)
                {
                    match state[from] {
                        0 => path.push(from),
                        1 => return Err(format!("a loop of gates at '{}'", gates[from].name)),
                        _ => {}
                    }
                }
            } else {
                path.pop();
                if state[at] == 1 {
                    state[at] = 2;
                    order.push(at);
                }
            }
        }
    }
    let mut gates: Vec<Option<Gate>> = gates.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|index| gates[index].take()).collect())
}
