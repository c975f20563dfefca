//! The pins of a rank's controller as a DFI port (DDR PHY Interface, DFI 4.0, one phase, matched frequency), and the
//! device's initialisation (JESD79-4, 3.3.1).
//!
//! Commands are delayed by a constant, so that write data precede them as a PHY requires; distances between commands
//! stay. Read data wait in a queue until the controller looks at its bus, so a PHY may give them at any time up to its
//! latest one. The port owns the command bus until the device is ready; the controller's reset has to last as long.
//!
//! Every handshake follows from its command only, and the port counts from there: a controller that is reset after a WR
//! or RD ends neither the enables nor the transfer. A write gets zeros in place of words that the controller no longer
//! drives; read data leave the queue when they are due in any case.

use super::dfi_sequencer::dfi_sequencer;
use super::prelude::*;

const BURST: u32 = DramConfig::T_BL;
/// Clocks in which ODT is high, starting at WR: ODTH8 of JESD79-4.
const ODT: u32 = 6;

/// # Errors
/// [`HdlError`] for the reasons of [`dfi_sequencer`].
#[block(m)]
pub fn dfi_port(dfi: &DfiConfig, dram: &DramConfig) -> Block {
    let sequencer = dfi_sequencer(dfi, dram)?;
    let m = ModuleBuilder::new(
        sequencer.name().replace("dfi_sequencer", "dfi_port"),
        "Connects the pins of a rank's controller to a DFI port.",
    );
    let cs_n = m.input(1, "controller: chip select, active low");
    let act_n = m.input(1, "controller: ACT, active low");
    let group_bits = dram.bank_groups().trailing_zeros();
    let bg = m.input(group_bits, "controller: bank group");
    let ba = m.input(2, "controller: bank");
    let a = m.input(ADDRESS_PINS, "controller: address pins");
    let data = m.input(dq = BUS_BITS, "controller: data bus, two transfers");
    let dq_oe = m.input(1, "controller: the data bus is driven");
    let complete = m.input("dfi_init_complete", 1, "the PHY can be used");
    let rddata = m.input("dfi_rddata", BUS_BITS, "read data, the earlier transfer in the lower half");
    let valid = m.input("dfi_rddata_valid", 1, "the read data are valid");

    // A value some clocks later; chip select is high after reset.
    let later = |name: &str, value: &Bits, clocks: u32, reset: Option<u128>| {
        (0..clocks).fold(*value, |value, clock| {
            let reg = m.reg(format!("{name}{clock}_q"), value.width());
            let reg = if let Some(reset) = reset { reg.reset(reset) } else { reg };
            reg.next(value);
            reg.q()
        })
    };
    let steps = dfi_sequencer::In { complete }.part(&m, "steps", &sequencer);
    let ready = steps.ready.q();
    let delay = dfi.command_delay();
    let pins = cat!(act_n, bg, ba, a);
    let (cs_late, pins_late) =
        (later("cs_n", &cs_n, delay - 1, Some(1)), later("pins", &pins, delay - 1, None));
    let mode = steps.mode.q();
    let owned = cat!(lit(1, 1), mode.high(1).zext(group_bits), mode.low(2), steps.a);
    let select = m.reg("select_n_q", 1).reset(1).next(mux(ready, cs_late, steps.cs_n));
    let command = m.delay(mux(ready, pins_late, owned));

    // The controller's commands, with their age in clocks; at the port after `delay` of them.
    let code = |write_n: bool| {
        let kind = a.slice(14, 3);
        all!(!cs_n, act_n, kind.bit(2), !kind.bit(1), if write_n { kind.bit(0) } else { !kind.bit(0) })
    };
    let ages = |name: &str, value: Bits, clocks: u32| -> Vec<Bits> {
        let mut all = vec![m.wire(name, value)];
        for age in 1..=clocks {
            let reg = m.flag(format!("{name}_age{age}_q"), all[age as usize - 1]);
            all.push(reg);
        }
        all
    };
    let span =
        |ages: &[Bits], first: u32, clocks: u32| any_of(&ages[first as usize..(first + clocks) as usize]);
    let enable = delay + dfi.t_rddata_en(dram);
    let due = dram.t_cl();
    let reads = ages("reads", code(true), due + BURST - 1);
    let drives = dram.t_cwl();
    let writes = ages("writes", code(false), (delay + ODT - 2).max(drives + BURST - 1));
    let strobe = |name: &str, value: Bits| m.flag(name, value);
    let odt = strobe("odt_q", span(&writes, delay - 1, ODT));
    let rddata_en = strobe("rddata_en_q", span(&reads, enable - 1, BURST));
    let wrdata_en = strobe("wrdata_en_q", span(&writes, drives, BURST));
    let wrdata = later("wrdata", &data.gated(dq_oe), 1 + dfi.t_phy_wrdata(), None);

    // Read data wait for the clock in which the controller looks.
    let places = (dfi.t_phy_rdlat() + BURST + 2).next_power_of_two();
    let wanted = m.wire(span(&reads, due, BURST));
    let queue = fifo_of(&m, "queue", places, valid, rddata, wanted)?;
    let (there, room) = (queue.valid.q(), queue.ready.q());
    m.unused(room, "a PHY returns only data that were requested");
    let late = m.reg(1).reset(0);
    late.next(any!(late, wanted & !there));
    m.assume("in_time", !wanted | there, "a PHY gives data within t_phy_rdlat");
    m.assume("room", !valid | room, "and only those that were read");
    m.assume("waits", ready | cs_n, "the controller issues no command before the device is ready");
    m.output(dq = queue.data, "controller: data bus");
    m.output(ready, "the device can be used: the controller's reset may end");
    m.output(late, "read data were missing when due; stays until reset");
    m.output("dfi_reset_n", steps.reset_n, "reset of the device, active low");
    m.output("dfi_cke", steps.cke, "clock enable");
    m.output("dfi_cs_n", select, "chip select, active low");
    m.output("dfi_odt", odt, "on-die termination: six clocks from each WR");
    let pins = command;
    m.output("dfi_act_n", pins.msb(), "ACT, active low");
    m.output("dfi_bg", pins.slice(ADDRESS_PINS + 2, group_bits), "bank group");
    m.output("dfi_bank", pins.slice(ADDRESS_PINS, 2), "bank");
    m.output("dfi_address", pins.low(ADDRESS_PINS), "address; for ACT the row");
    for (pin, name) in [(16, "dfi_ras_n"), (15, "dfi_cas_n"), (14, "dfi_we_n")] {
        m.output(name, pins.bit(pin), format!("the same as bit {pin} of the address"));
    }
    m.output("dfi_wrdata", wrdata, "data to write, the earlier transfer in the lower half");
    m.output("dfi_wrdata_en", wrdata_en, "the data to write come in t_phy_wrdata clocks");
    m.output("dfi_wrdata_mask", zeros(BUS_BITS / 8), "no byte is masked");
    m.output("dfi_rddata_en", rddata_en, "read data are expected");
    m.finish()
}
