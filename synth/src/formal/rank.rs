//! Rules of DDR4 for its controller (JESD79-4), as properties of the controller's pins.
//!
//! Pairs of commands and their distances in clocks are written from the standard, without the controller's slots,
//! roundings and states. The proof remembers an arbitrary command with its age, so a single counter covers all pairs.

use super::configured;
use ndp_config::{DesignConfig, DramConfig};
use ndp_files::Result;
use ndp_hdl::blocks::memory::rank_controller::rank_controller;
use ndp_hdl::blocks::memory::rank_intake::{RankPorts, rank_intake};
use ndp_hdl::blocks::memory::rank_refresh::rank_refresh;
use ndp_hdl_language::{Bits, Direction, HdlError, Module, ModuleBuilder, any_of, cat, lit, mux, zeros};
use std::rc::Rc;

/// Commands in the order of their bits.
#[derive(Clone, Copy)]
enum Command {
    Activate,
    Precharge,
    PrechargeAll,
    Read,
    Write,
    Refresh,
}

use Command::{Activate, Precharge, PrechargeAll, Read, Refresh, Write};

const COMMANDS: usize = 6;

/// Bank of the later command relative to the earlier one's.
#[derive(Clone, Copy)]
enum Banks {
    Any,
    Same,
    /// Another bank of the same group.
    SameGroup,
    OtherGroup,
}

use Banks::{Any, OtherGroup, Same, SameGroup};

/// Least distances in clocks from one command to a later one.
fn distances(dram: &DramConfig) -> Vec<(Command, Command, Banks, u32)> {
    let written = dram.t_cwl() + DramConfig::T_BL;
    let mut rules = vec![
        (Activate, Activate, Same, dram.t_rc()),
        (Activate, Activate, SameGroup, dram.t_rrd_l()),
        (Activate, Activate, OtherGroup, dram.t_rrd_s()),
        (Precharge, Activate, Same, dram.t_rp()),
        (PrechargeAll, Activate, Any, dram.t_rp()),
        (Precharge, Refresh, Any, dram.t_rp()),
        (PrechargeAll, Refresh, Any, dram.t_rp()),
        (Read, Write, Any, dram.t_rtw()),
    ];
    for column in [Read, Write] {
        rules.push((Activate, column, Same, dram.t_rcd()));
        rules.push((column, column, OtherGroup, dram.t_ccd_s()));
        rules.extend([Same, SameGroup].map(|banks| (column, column, banks, dram.t_ccd_l())));
    }
    for (later, banks) in [(Precharge, Same), (PrechargeAll, Any)] {
        rules.push((Activate, later, banks, dram.t_ras()));
        rules.push((Read, later, banks, dram.t_rtp()));
        rules.push((Write, later, banks, written + dram.t_wr()));
    }
    rules.push((Write, Read, OtherGroup, written + dram.t_wtr_s()));
    rules.extend([Same, SameGroup].map(|banks| (Write, Read, banks, written + dram.t_wtr_l())));
    let all = [Activate, Precharge, PrechargeAll, Read, Write, Refresh];
    rules.extend(all.map(|later| (Refresh, later, Any, dram.t_rfc())));
    rules
}

/// Short times, so that few slots lie between commands, and all different where the limits allow.
fn short() -> Result<DesignConfig> {
    DesignConfig::from_toml(
        "name = \"short\"\n[dram]\njedec = false\nrow_bits = 8\nt_rc = 15\nt_rcd = 5\nt_cl = 8\nt_rp = 5\nt_ccd_s = 4\nt_ccd_l = 5\n\
         t_rrd_s = 4\nt_rrd_l = 6\nt_faw = 22\nt_ras = 9\nt_cwl = 8\nt_wr = 4\nt_wtr_s = 1\nt_wtr_l = 5\nt_rtp = 4\nt_rfc = 16\nt_refi = 512\n",
    )
}

pub(super) const PORTS: RankPorts =
    RankPorts { segment_tag_bits: 1, request_tag_bits: 1, beats: 16, responses: 2 };

pub(super) fn config() -> Result<DesignConfig, HdlError> {
    configured(short())
}

/// Chooses the next entry of a controller.
pub(super) fn intake() -> Result<Rc<Module>, HdlError> {
    rank_intake(config()?.dram(), &PORTS)
}

struct Pins {
    now: [Bits; COMMANDS],
    selected: Bits,
    group: Bits,
    bank: Bits,
}

/// The controller in the module `m`, with any inputs that keep its assumptions.
fn controller(m: &ModuleBuilder, dram: &DramConfig) -> Result<Pins, HdlError> {
    let controller = rank_controller(dram, &PORTS)?;
    let mut instance = m.instance("controller", &controller);
    // Results are taken at any time after they have come.
    let takers = ["beat", "rsp"].map(|name| {
        let takes = m.input(format!("{name}_takes_i"), 1, "one is taken if one is there");
        (name, m.forward(format!("{name}_pushed"), 1), takes)
    });
    for (name, pushed, takes) in &takers {
        let port = format!("{name}_taken_i");
        let bits = controller.ports().iter().find(|other| other.name == port).map_or(1, |port| port.width);
        let [came, went] = ["came", "went"].map(|what| m.reg(format!("{name}_{what}_q"), bits).reset(0));
        came.next(came.q() + pushed.zext(bits));
        went.next(went.q() + (takes & came.ne(went.q())).zext(bits));
        instance = instance.input(port, went);
    }
    let mut offered = [Vec::new(), Vec::new()];
    for port in controller.ports().iter().filter(|port| port.direction == Direction::Input) {
        if !controller.is_clock_or_reset(&port.name) && !port.name.ends_with("_taken_i") {
            let value = m.input(&port.name, port.width, &port.doc);
            for (source, parts) in ["seg_", "req_"].iter().zip(&mut offered) {
                if port.name.starts_with(source) {
                    parts.push((port.name.clone(), value));
                }
            }
            instance = instance.input(&port.name, value);
        }
    }
    for (source, parts) in ["seg", "req"].iter().zip(&offered) {
        let pop = instance.output(&format!("{source}_pop_o"));
        let valid = parts.iter().find(|(name, _)| name.ends_with("valid_i"));
        let payload: Vec<&Bits> = parts.iter().map(|(_, value)| value).collect();
        m.assume_held(source, valid.map_or(&pop, |(_, valid)| valid), &pop, &payload);
        m.output(format!("{source}_pop_o"), pop, "it is taken");
    }
    const PINS: [&str; 5] = ["cs_n_o", "act_n_o", "bg_o", "ba_o", "a_o"];
    let pins = PINS.map(|port| instance.output(port));
    for (name, pushed, _) in &takers {
        pushed.drive(instance.output(&format!("{name}_push_o")));
    }
    for port in controller.ports().iter().filter(|port| port.direction == Direction::Output) {
        if !PINS.contains(&port.name.as_str())
            && !port.name.ends_with("_push_o")
            && !["seg_pop_o", "req_pop_o"].contains(&port.name.as_str())
        {
            instance = instance.ignore(&port.name, "no command");
        }
    }
    let [cs_n, act_n, group, bank, address] = pins;
    m.output("command_o", cat([cs_n, act_n, group, bank, address]), "the command bus");

    // While ACT_n is high, A16, A15 and A14 are RAS_n, CAS_n and WE_n. A10 of a PRE closes all banks.
    let selected = !cs_n;
    let other = selected & act_n;
    let code = |bits: u128| other & address.slice(14, 3).eq_lit(bits);
    let closes = code(0b010);
    let now: [Bits; COMMANDS] = [
        selected & !&act_n,
        closes & !address.bit(10),
        closes & address.bit(10),
        code(0b101),
        code(0b100),
        code(0b001),
    ];
    m.assert("known", !&selected | any_of(now), "a command is one that is known");
    Ok(Pins { now, selected, group, bank })
}

pub(super) fn timing() -> Result<Rc<Module>, HdlError> {
    let config = config()?;
    let dram = config.dram();
    let m = ModuleBuilder::new("rank_timing", "A rank controller and what a device wants of it.");
    let Pins { now, selected, group, bank } = controller(&m, dram)?;

    // An arbitrary command of the run with its age; the counter saturates.
    let longest = distances(dram).iter().map(|rule| rule.3).max().unwrap_or(0).max(dram.t_faw());
    let age_bits = 32 - longest.leading_zeros();
    let begins = m.any_sequence("chosen", 1) & selected;
    let age = m.ghost("age_q", age_bits).reset(0);
    let first = m.ghost("first_q", COMMANDS as u32).reset(0);
    let ended = age.all();
    age.next(mux(begins, lit(1, age_bits), mux(ended, age, age.plus_one())));
    first.next(mux(begins, cat(now.iter().rev().cloned()), first));
    let place = m.ghost("place_q", group.width() + bank.width());
    let here = cat([group, bank]);
    place.next(mux(begins, here, place));
    let same = place.q().eq(here);
    let same_group = place.q().high(group.width()).eq(group);
    for (number, (earlier, later, banks, clocks)) in distances(dram).into_iter().enumerate() {
        let concerned = match banks {
            Any => lit(1, 1),
            Same => same,
            SameGroup => same_group & !&same,
            OtherGroup => !&same_group,
        };
        let early = age.q().lt(lit(clocks.into(), age_bits));
        let broken = cat([first.bit(earlier as u32), now[later as usize], concerned, early]).all();
        m.assert(format!("distance{number}"), !broken, "commands keep the distances of JESD79-4");
    }
    // At most four ACTs in tFAW: this is the fourth after the remembered one.
    let acts = m.ghost("acts_q", 3).reset(0);
    let counts = now[Activate as usize] & !acts.q().eq_lit(4);
    acts.next(mux(begins, zeros(3), mux(counts, acts.plus_one(), acts)));
    let fifth = cat([first.bit(Activate as u32), now[Activate as usize], acts.q().eq_lit(3)]).all();
    m.assert(
        "four_acts",
        !fifth | age.q().ge(lit(dram.t_faw().into(), age_bits)),
        "at most four ACTs in tFAW",
    );

    // An arbitrary bank: commands fit its state, which is unknown after a reset until it is closed.
    let watched = m.any_constant("watched", here.width());
    let mine = here.eq(watched);
    let [known, open] = ["known_q", "open_q"].map(|name| m.ghost(name, 1).reset(0));
    let opens = now[Activate as usize] & mine;
    let shuts = any_of([now[Precharge as usize] & mine, now[PrechargeAll as usize]]);
    known.next(any_of([known.q(), shuts]));
    open.next(any_of([opens, open.q() & !&shuts]));
    let closed = known.q() & !open.q();
    m.assert("opens_closed", !opens | closed, "ACT opens a bank that is closed");
    m.assert("refreshes_closed", !&now[Refresh as usize] | closed, "REF comes when all banks are closed");
    let column = any_of([now[Read as usize], now[Write as usize]]) & mine;
    m.assert("uses_open", !column | (known.q() & open.q()), "RD and WR are for a bank that is open");
    m.finish()
}

/// The block that decides when a refresh comes.
pub(super) fn refresh() -> Result<Rc<Module>, HdlError> {
    rank_refresh(config()?.dram(), "short")
}
