//! Timing constraints of a design, from its clocks and the crossings that its modules declare.
//!
//! Two clocks without a crossing are asynchronous groups. Where something crosses there is no group, because it would
//! hide an exception, and an undeclared path: each declared crossing is an exception, and any other path between the
//! clocks is timed.

use crate::package::Source;
use ndp_hdl_language::{ClockCrossing, Crossing, Design, Direction, Module};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

struct Path {
    /// Pin at which the signal is read, from the top, with hierarchy separators.
    pin: String,
    kind: Crossing,
    from: Option<String>,
    to: String,
    /// The module is missing if a RAM of another technology is used.
    in_ram: bool,
}

/// Goes down the instances with the top's clock for each clock of the module.
fn collect(
    module: &Module,
    path: &str,
    clocks: &BTreeMap<String, String>,
    in_ram: bool,
    found: &mut Vec<Path>,
) {
    let in_ram = in_ram || module.memory().is_some();
    for ClockCrossing { instance, port, kind, from, to } in module.crossings() {
        let child = module.instances().iter().find(|(name, _)| name == instance).map(|(_, child)| child);
        let wide = child.is_some_and(|c| c.ports().iter().any(|p| p.name == *port && p.width > 1));
        let from = from.as_ref().and_then(|from| clocks.get(from).cloned());
        let Some(to) = to.as_ref().and_then(|to| clocks.get(to)) else { continue };
        if from.as_ref() != Some(to) {
            let pin = format!("{path}/{instance}/{port}{}", if wide { "[*]" } else { "" });
            found.push(Path { pin, kind: *kind, from, to: to.clone(), in_ram });
        }
    }
    for (name, child) in module.instances() {
        let of = |port: &str| module.clock_of(name, port).and_then(|clock| clocks.get(&clock).cloned());
        let below = clock_ports(child).filter_map(|port| Some((port.to_owned(), of(port)?)));
        collect(child, &format!("{path}/{name}"), &below.collect(), in_ram, found);
    }
}

fn clock_ports(module: &Module) -> impl Iterator<Item = &str> {
    let inputs = module.ports().iter().filter(|port| port.direction == Direction::Input);
    inputs
        .map(|port| port.name.as_str())
        .filter(|name| name.ends_with("clk_i") && module.is_clock_or_reset(name))
}

/// The constraints of the wrapper, in which the block is the instance `inner`. `period_ps` has the period of each
/// clock.
pub(crate) fn text(source: &Source, design: &Design, period_ps: impl Fn(&str) -> u64) -> String {
    let top = design.top();
    let clocks: Vec<&str> = clock_ports(top).collect();
    let ns = |clock: &str| {
        let period = period_ps(clock);
        format!("{}.{:03}", period / 1000, period % 1000)
    };
    let mut text = format!(
        "{}# Times in ns. Pins are those of a netlist that keeps its hierarchy. Delays of ports, loads and margins are the integrator's.\n",
        source.head("#")
    );
    for clock in &clocks {
        let _ = writeln!(text, "create_clock -name {clock} -period {} [get_ports {clock}]", ns(clock));
    }
    let mut paths = Vec::new();
    let own = clocks.iter().map(|clock| ((*clock).to_owned(), (*clock).to_owned())).collect();
    collect(top, "inner", &own, false, &mut paths);
    let crossed: BTreeSet<[&str; 2]> = paths
        .iter()
        .filter_map(|path| {
            let mut pair = [path.from.as_deref()?, &path.to];
            pair.sort_unstable();
            Some(pair)
        })
        .collect();
    for (at, first) in clocks.iter().enumerate() {
        for second in &clocks[at + 1..] {
            let mut pair = [*first, *second];
            pair.sort_unstable();
            if !crossed.contains(&pair) {
                let _ = writeln!(text, "set_clock_groups -asynchronous -group {first} -group {second}");
            }
        }
    }
    for Path { pin, kind, from, to, in_ram } in paths {
        let clock = |option: &str, name: &str| format!(" -{option} [get_clocks {name}]");
        let from_clock = from.as_deref().map(|from| clock("from", from)).unwrap_or_default();
        let ends = format!("{from_clock} -through [get_pins {{{pin}}}]{}", clock("to", &to));
        let exception = match kind {
            // The bits have to come in the order in which they were sent: within a period of the sender's clock.
            Crossing::Gray => format!(
                "set_max_delay {}{ends}\nset_false_path -hold{ends}\n",
                ns(from.as_deref().unwrap_or(&to))
            ),
            Crossing::Stable => format!("set_false_path{ends}\n"),
        };
        // A RAM of another technology has no such pin.
        text += &match in_ram {
            true => {
                format!("if {{[llength [get_pins -quiet {{{pin}}}]] > 0}} {{ {} }}\n", exception.trim_end())
            }
            false => exception,
        };
    }
    text
}
