//! Windows of a multiplier unit without a pause between them, with any operands and noise beside them: when a digit is
//! read, the carries below it have arrived. Simulation compares the sum.

use super::configured;
use ndp_config::DesignConfig;
use ndp_hdl::blocks::arithmetic::multiplier_unit::multiplier_unit;
use ndp_hdl_language::{Direction, HdlError, Module, ModuleBuilder, cat, lit, zeros};
use std::rc::Rc;

/// The unit for this value of the key `multiplier`, without enables of registers.
pub(super) fn carries(multiplier: &str) -> Result<Rc<Module>, HdlError> {
    let text =
        format!("name = \"unit\"\n[gemv]\nmultiplier = \"{multiplier}\"\nserial_steps = 2\nacc_bits = 100\n");
    let config = configured(DesignConfig::from_toml(&text))?;
    let config = config.gemv();
    let unit = multiplier_unit(config)?;
    let m =
        ModuleBuilder::new("multiplier_unit_carries", "A multiplier unit, whose windows follow one another.");
    let window = config.window_cycles();
    let phase = m.reg("phase_q", window).reset(1);
    phase.next(cat([phase.low(window - 1), phase.msb()]));
    let mut instance = m.instance("unit", &unit).input("phase_i", phase);
    for port in unit.ports().iter().filter(|port| port.direction == Direction::Input) {
        let name = port.name.as_str();
        if name.contains("move") {
            instance = instance.input(name, !zeros(port.width));
        } else if ["separate_i", "import_i", "sum_i"].contains(&name) {
            instance = instance.input(name, zeros(port.width));
        } else if name != "phase_i" && !unit.is_clock_or_reset(name) {
            instance = instance.input(name, m.input(name, port.width, &port.doc));
        }
    }
    let sum = instance.output("sum_o");
    for name in ["digit_o", "flags_o"] {
        m.output(name, instance.output(name), "of the sum");
    }
    m.output("sum_o", sum, "the sum");
    // Contents from before the reset have left after two windows.
    let begun = m.ghost("begun_q", 2).reset(0).enable(phase.msb());
    begun.next(cat([begun.low(1), lit(1, 1)]));
    for k in 1..config.acc_segments() {
        let reads = phase.bit((config.lanes() + 1 + k) % window);
        let waits = cat([begun.msb(), reads, sum.bit(config.acc_bits() + k - 1)]).all();
        m.assert(format!("digit{k}_final"), !waits, "a digit is read when no carry is on its way to it");
    }
    m.finish()
}
