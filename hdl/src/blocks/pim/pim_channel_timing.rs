//! Rules between the banks of a PIM channel: distances between groups, the activation window, the turns of the data
//! bus. One timer for each rule and place, loaded by commands that are carried out; [`super::pim_bank_state`] has the
//! rules of a bank's own rows. In a clock the row command comes first, so a REF binds the column command beside it.

use super::prelude::*;

/// Objections to a row command, from bit 0.
pub(super) fn row_flags(config: &HbmConfig) -> Vec<&'static str> {
    let of_bank = (config.refresh() == HbmRefresh::Bank).then_some("rrefd");
    let one = one_at_a_time(config).then_some("cmd");
    ["rrd_s", "rrd_l", "rfc", "bus", "faw"].into_iter().chain(of_bank).chain(one).collect()
}
/// Objections to a column command, from bit 0.
pub(super) fn column_flags(config: &HbmConfig) -> Vec<&'static str> {
    let all = ["ccd_s", "ccd_l", "wtr_s", "wtr_l", "rtw", "rfc", "mac", "collision"];
    all.into_iter().chain(one_at_a_time(config).then_some("cmd")).collect()
}
pub(super) fn one_at_a_time(config: &HbmConfig) -> bool {
    config.command_set() == HbmCommandSet::Aim
}
/// Rows that may be activated in a window of tFAW.
const WINDOW: u32 = 4;

#[derive(Clone, Copy)]
pub(super) struct Commands {
    pub rows: RowOps,
    pub row_place: Place,
    pub row: Bits,
    pub row_go: Bits,
    pub columns: ColumnOps,
    pub column_place: Place,
    pub column_go: Bits,
    pub boundary: Bits,
}

impl Commands {
    pub fn rules(
        &self,
        m: &ModuleBuilder,
        c: &HbmConfig,
        view: View,
    ) -> Result<pim_channel_timing::Out, HdlError> {
        let inputs = pim_channel_timing::In {
            row_ops: self.rows,
            row_group: self.row_place.group,
            row_go: self.row_go,
            column_ops: self.columns,
            column_group: self.column_place.group,
            column_go: self.column_go,
        };
        Ok(inputs.part(m, "timing", &pim_channel_timing(c, view)?))
    }

    /// The part of them that is for a bank.
    pub fn of_bank(&self, c: &HbmConfig, bank: u32) -> BankCommand {
        let RowOps { act, pre, prea, r#ref, slice, pact, pacta, ppre, refb } = self.rows;
        let ColumnOps { rd, wr, rdg, mac, .. } = self.columns;
        let (named, addressed) = (self.row_place.bank.bit(bank), self.column_place.bank.bit(bank));
        let group = self.row_place.group.bit(bank / c.banks_per_group());
        BankCommand {
            act: act & named,
            pre: pre & named,
            prea,
            r#ref,
            slice: slice & named,
            pact: (pact & group) | pacta,
            ppre,
            refb: refb.map(|refb| refb & named),
            row_partition: self.row_place.partition,
            row: self.row,
            row_go: self.row_go,
            rd: (rd | rdg) & addressed,
            wr: wr & addressed,
            mac,
            column_partition: self.column_place.partition,
            column_go: self.column_go,
            boundary: c.slicing().then_some(self.boundary),
        }
    }
}

/// Timers of a bank group: of accesses in another one, and in the same one.
struct Distances {
    other: Vec<Bits>,
    same: Vec<Bits>,
}

impl Distances {
    /// Whether a command in one of `groups` comes too early after one in another group, and after one in the same.
    fn broken(&self, groups: &[Bits]) -> [Bits; 2] {
        let each = |timers: &[Bits], there: &dyn Fn(usize) -> Bits| {
            let early: Vec<Bits> = timers.iter().enumerate().map(|(g, left)| left.any() & there(g)).collect();
            any_or_none(&early)
        };
        [each(&self.other, &|g| !groups[g]), each(&self.same, &|g| groups[g])]
    }

    /// Whether a command without a bank comes too early: it counts as one in another group.
    fn broken_anywhere(&self) -> Bits {
        any_of(self.other.iter().map(Bits::any))
    }
}

/// Answers are combinational; commands are carried out at the end of their clock if `*_go_i` is set.
#[block(m, "pim_channel_{}_{}", if view == View::Channel { "timing" } else { "record" }, suffix(config),
    "Checks the timing rules between the banks of a PIM channel.")]
pub fn pim_channel_timing(config: &HbmConfig, view: View) -> Block {
    let c = config;
    let groups = c.bank_groups();
    m.share_code();
    let row_ops = RowOps::inputs(&m, c);
    let RowOps { act, pre, prea, r#ref: refresh, slice, pact, pacta, ppre, refb } = row_ops;
    let row_group = m.input(groups, "bank group of the row command, one-hot");
    let row_go = m.input(1, "the row command is carried out");
    let column_ops = ColumnOps::inputs(&m, ());
    let ColumnOps { rd, wr, rdg, gbw, mac, res, sum } = column_ops;
    let column_group = m.input(groups, "bank group of the column command, one-hot");
    let column_go = m.input(1, "the column command is carried out");

    let distances = |name: &str, kind: &Bits, of: &[Bits], gaps: [u32; 2]| {
        let timers = |place: &str, gap: u32| {
            let of_group = |(g, here): (usize, &Bits)| {
                let load = m.wire(format!("{name}_{place}{g}_load"), kind & here);
                timer(&m, &format!("{name}_{place}{g}"), &load, gap)
            };
            of.iter().enumerate().map(of_group).collect::<Vec<_>>()
        };
        Distances { other: timers("s", gaps[0]), same: timers("l", gaps[1]) }
    };
    let activates = m.wire(any!(act, pact, pacta));
    let activated = m.wire(activates & row_go);
    let row_groups = each(groups, |g| m.wire(format!("row_group{g}"), row_group.bit(g) | pacta));
    let rrd = distances("rrd", &activated, &row_groups, [c.t_rrd_s(), c.t_rrd_l()]);
    let [rrd_s, rrd_l] = rrd.broken(&row_groups);
    let opens = match refb {
        Some(refb) => m.wire("opens", activates | refb),
        None => activates,
    };
    let rrefd = refb.map(|refb| timer(&m, "rrefd", &(refb & row_go), c.t_rrefd()).any());

    // The window: the last four activations, newest first. PACT counts once per bank, PACTA not at all.
    let weight = c.banks_per_group();
    let counts = m.wire((act | pact) & row_go);
    let mut window: Vec<Bits> = Vec::new();
    let bits = bits_for(c.t_faw() - 1);
    let full = lit((c.t_faw() - 1).into(), bits);
    let slots = each(WINDOW, |i| m.reg(format!("window{i}_q"), bits).reset(0));
    for (i, slot) in slots.iter().enumerate() {
        let aged = |i: usize| super::pim_timer::counted(&slots[i]);
        let after = |weight: u32| match i.checked_sub(weight as usize) {
            Some(older) => aged(older),
            None => full,
        };
        let shifted = mux(act, after(1), after(weight));
        slot.next(mux(counts, shifted, aged(i)));
        window.push(slot.q());
    }
    let binding = |weight: u32| window[(WINDOW - weight) as usize].any();
    let faw = (act & binding(1)) | (pact & binding(weight));

    let given = one_at_a_time(c).then(|| {
        let given = m.wire(row_go | column_go);
        timer(&m, "cmd", &given, c.t_cmd()).any()
    });
    let row_bus = timer(&m, "row_bus", &activated, HbmConfig::ACTIVATE_CLOCKS).any();
    let narrow = any_of([pre, prea, ppre, refresh, slice]);
    let refreshes = m.wire(refresh & row_go);
    let rfc = timer(&m, "rfc", &refreshes, c.t_rfc()).any();
    let any_row = any_of(row_ops.values());
    let mut flags = vec![opens & rrd_s, opens & rrd_l, any_row & rfc, narrow & row_bus, faw];
    flags.extend(rrefd.map(|early| opens & early));
    flags.extend(given.as_ref().map(|early| any_row & early));
    m.output(row_flags = bus(&flags), row_flags(c).join(", ") + ", from bit 0: wrong with the row command");

    let groups_of = each(groups, |g| column_group.bit(g));
    let reads = m.wire(rd | rdg);
    let results = m.wire(res | sum);
    let done = |name: &str, kind: &Bits| m.wire(name, kind & column_go);
    let [was_read, was_write] = [done("was_read", &reads), done("was_write", &wr)];
    let [was_result, was_fill] = [done("was_result", &results), done("was_fill", &gbw)];
    let was_mac = done("was_mac", &mac);
    let ccd = [c.t_ccd_s(), c.t_ccd_l()];
    let end = c.t_cwl() + HbmConfig::T_BL;
    let read_ccd = distances("read", &was_read, &groups_of, ccd);
    let write_ccd = distances("write", &was_write, &groups_of, ccd);
    let wtr = distances("wtr", &was_write, &groups_of, [end + c.t_wtr_s(), end + c.t_wtr_l()]);
    let after_result = timer(&m, "result_ccd", &was_result, c.t_ccd_s()).any();
    let after_fill = timer(&m, "fill_ccd", &was_fill, c.t_ccd_s()).any();
    let after_fill_read = timer(&m, "fill_wtr", &was_fill, end + c.t_wtr_s()).any();
    let out = m.wire("was_out", was_read | was_result);
    let rtw = timer(&m, "rtw", &out, c.t_rtw()).any();
    let mac_ccd = timer(&m, "mac_ccd", &was_mac, c.t_ccd_l()).any();
    let mac_left = timer(&m, "mac", &was_mac, c.t_mac()).any();
    let [read_s, read_l] = read_ccd.broken(&groups_of);
    let [write_s, write_l] = write_ccd.broken(&groups_of);
    let [wtr_s, wtr_l] = wtr.broken(&groups_of);
    let ins = m.wire(wr | gbw);
    let ccd_s = any!(
        reads & (read_s | after_result),
        results & (read_ccd.broken_anywhere() | after_result),
        wr & (write_s | after_fill),
        gbw & (write_ccd.broken_anywhere() | after_fill)
    );
    let ccd_l = any!(reads & read_l, wr & write_l, mac & mac_ccd);
    let wtr_s = any!(reads & (wtr_s | after_fill_read), results & (wtr.broken_anywhere() | after_fill_read));
    let any_column = any_of(column_ops.values());

    // Clocks of the data bus that are taken, from the present one. The distances already keep bursts apart.
    let length = c.t_cl().max(c.t_cwl()) + HbmConfig::T_BL;
    let taken = m.reg(length).reset(0);
    let moves_out = m.wire(reads | results);
    let burst = |latency: u32| -> Vec<Bits> {
        (0..length).map(|at| lit(u128::from(at >= latency && at < latency + HbmConfig::T_BL), 1)).collect()
    };
    let at = |latency: u32| taken.slice(latency, HbmConfig::T_BL).any();
    let collision = (moves_out & at(c.t_cl())) | (ins & at(c.t_cwl()));
    let (out_mask, in_mask) = (bus(&burst(c.t_cl())), bus(&burst(c.t_cwl())));
    let going = out_mask.gated(moves_out & column_go) | in_mask.gated(ins & column_go);
    let occupied = m.wire(taken | going);
    m.unused(occupied.bit(0), "the present clock is over then");
    taken.next(cat!(zeros(1), occupied.high(length - 1)));

    let mut flags = vec![
        ccd_s,
        ccd_l,
        wtr_s,
        reads & wtr_l,
        ins & rtw,
        any_column & (rfc | if view == View::Record { refresh } else { refreshes }),
        results & mac_left,
        collision,
    ];
    flags.extend(given.map(|early| any_column & (early | row_go)));
    m.output(
        column_flags = bus(&flags),
        column_flags(c).join(", ") + ", from bit 0: wrong with the column command",
    );
}
