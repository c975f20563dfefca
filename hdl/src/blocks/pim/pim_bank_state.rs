//! Row buffers of a computing bank: which rows are open and for whom, the boundary, and every rule that concerns one
//! bank.
//!
//! A sliced bank has a row buffer for each partition; a joined bank has one row buffer. In a joined bank partition 1
//! stands for the whole: its row buffer is the one with the multipliers, so that these need no path to the other one.
//! Distances then count for both partitions, so that none is lost when the boundary moves.
//!
//! Commands come decoded, and for this bank only. In a clock the row command comes first: the block checks the column
//! command against the state after it. [`super::pim_channel_timing`] has the rules between banks;
//! [`super::pim_channel`] answers. A controller keeps the same state of its channel ([`View::Record`]), but must check
//! a column command before the row command of the clock is known: a requested row command, given or not, holds up
//! column commands to the same row buffers.

use super::prelude::*;

const ROW_FLAGS: [&str; 10] =
    ["absent", "outside", "open", "rc", "ras", "rp", "rtp", "wr", "slice", "rfc_pb"];
/// Objections to a row command, from bit 0; the last one only with refreshes of single banks.
pub(super) fn row_flags(config: &HbmConfig) -> &'static [&'static str] {
    match config.refresh() {
        HbmRefresh::All => &ROW_FLAGS[..9],
        HbmRefresh::Bank => &ROW_FLAGS,
    }
}
/// Objections to a column command, from bit 0.
pub(super) const COLUMN_FLAGS: [&str; 4] = ["absent", "closed", "owner", "rcd"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The channel's: the column command is answered with the row command of its clock.
    Channel,
    /// A controller's: a row command for the same row buffers refuses the column command. No auto precharge.
    Record,
}

impl View {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Channel => "state",
            Self::Record => "record",
        }
    }
}

bundle! {
    /// The commands of a clock that a bank takes.
    pub(super) struct BankCommand(config: &HbmConfig) {
        act: 1, "ACT for this bank";
        pre: 1, "PRE for this bank";
        prea: 1, "PREA";
        r#ref: 1, "REF";
        slice: 1, "SLICE for this bank";
        pact: 1, "PACT of the bank's group, or PACTA";
        ppre: 1, "PPRE";
        refb: 1, "REFB for this bank", if config.refresh() == HbmRefresh::Bank;
        row_partition: 1, "partition of the row command";
        row: log2(config.rows()), "row";
        row_go: 1, "the row command is carried out";
        rd: 1, "RD or RDG for this bank";
        wr: 1, "WR for this bank";
        mac: 1, "MAC";
        column_partition: 1, "partition of the column command";
        column_go: 1, "the column command is carried out";
        boundary: bits_for(config.subarrays() - 1), "boundary of SLICE", if config.slicing();
    }
}

struct Partition {
    open: Bits,
    pim: Bits,
    row: Bits,
    rc: Bits,
    ras: Bits,
    rcd: Bits,
    rtp: Bits,
    wr: Bits,
    rp: Bits,
}

/// Answers are combinational; a command is carried out at the end of its clock if `*_go_i` is set.
#[block(m, "pim_bank_{}_{}", view.name(), suffix(config),
    "Tracks the row buffers of a bank: the open row of each path, and the rules that a command would break.")]
pub fn pim_bank_state(config: &HbmConfig, view: View) -> Block {
    let (c, record) = (config, view == View::Record);
    let slicing = c.slicing();
    m.share_code();
    let command = BankCommand::inputs(&m, c);
    let BankCommand { act, pre, prea, r#ref: refresh, slice, pact, ppre, refb, row_partition, row, .. } =
        command;
    let BankCommand { row_go, rd, wr, mac, column_partition, column_go, .. } = command;
    // One more bit where a REFB has an effect.
    let and_refb = |kinds: &[&Bits]| any_of(kinds.iter().copied().chain(&refb).cloned());
    let auto = if record { zeros(1) } else { m.input(auto = 1, "RD or WR with auto precharge") };
    let count = if slicing { 2 } else { 1 };
    let last = count - 1;

    let moves = m.wire(row_go & slice);
    let (joined, joined_next, subarray, boundary) = if let Some(new) = command.boundary {
        let boundary_bits = new.width();
        let boundary = m.reg(boundary_bits).reset(0).enable(moves).next(new);
        let joined = m.wire(boundary.is_zero());
        let next = if record { joined } else { m.wire("joined_next", mux(moves, new.is_zero(), joined)) };
        let below = row.high(boundary_bits).lt(boundary);
        (joined, next, Some(below), Some(boundary.q()))
    } else {
        m.unused(moves, "there is no boundary");
        (lit(1, 1), lit(1, 1), None, None)
    };

    // Row command: partitions it concerns, and the one whose row it opens.
    let concerned = |partition: &Bits, joined: &Bits| -> (Vec<Bits>, Vec<Bits>) {
        if !slicing {
            return (vec![lit(1, 1)], vec![lit(1, 1)]);
        }
        let meant = [!partition, *partition];
        let touches = meant.iter().map(|is| joined | is).collect();
        let at = vec![!joined & meant[0], joined | meant[1]];
        (touches, at)
    };
    // Commands of the multipliers concern partition 0 only if the bank is joined.
    let of_pim = |joined: &Bits| each(count, |u| if u == last { lit(1, 1) } else { *joined });
    let (host_touches, host_at) = concerned(&row_partition, &joined);
    let pim_touches = of_pim(&joined);
    let activates = m.wire(act | pact);
    let precharges = m.wire(any!(pre, prea, ppre));
    let one_bank = m.wire(act | pre);
    let for_pim = m.wire(pact | ppre);
    let everything = m.wire(and_refb(&[&prea, &slice]));
    let touches = each(count, |u| {
        let parts = [one_bank & host_touches[u], for_pim & pim_touches[u], everything];
        m.wire(format!("touches{u}"), any_of(parts))
    });
    let opens = each(count, |u| {
        let opened = if u == last { (act & host_at[u]) | pact } else { act & host_at[u] };
        m.wire(format!("opens{u}"), row_go & opened)
    });
    let [activated, precharged] =
        [("activated", &activates), ("precharged", &precharges)].map(|(name, kind)| {
            let of = |u: usize| m.wire(format!("{name}{u}"), all!(row_go, kind, touches[u]));
            each(count, of)
        });

    /// Column command, after the row command.
    let host = m.wire(rd | wr);
    let (column_touches, column_at) = concerned(&column_partition, &joined_next);
    let mac_touches = of_pim(&joined_next);
    let access =
        each(count, |u| m.wire(format!("access{u}"), (host & column_touches[u]) | (mac & mac_touches[u])));
    let reads = m.wire(rd | mac);
    let of_column = |name: &str, kind: &Bits| {
        let of = |u: usize| m.wire(format!("{name}{u}"), all!(column_go, kind, access[u]));
        each(count, of)
    };
    let read = of_column("read", &reads);
    let written = of_column("written", &wr);
    let closed_after =
        if record { vec![zeros(1); count] } else { of_column("closes", &m.wire("closing", host & auto)) };

    let write_gap = c.t_cwl() + HbmConfig::T_BL + c.t_wr();
    let bound_bits = bits_for(c.t_ras().max(c.t_rtp()).max(write_gap));
    let rp_bits = bits_for(c.t_ras().max(c.t_rtp()).max(write_gap) + c.t_rp());
    let auto_left = if record { None } else { Some(m.forward("auto_left", rp_bits)) };
    let (mut partitions, mut owned) = (Vec::new(), Vec::new());
    for u in 0..count {
        let open = m.reg(format!("open{u}_q"), 1).reset(0);
        let open_next = m.wire(format!("open{u}_next"), opens[u] | (open & !precharged[u]));
        open.next(open_next & !closed_after[u]);
        let pim = m.hold(format!("pim{u}_q"), pact, opens[u]);
        owned.push(open & pim);
        let (open_then, pim_then) = if record {
            (open.q(), pim)
        } else {
            (open_next, m.wire(format!("pim{u}_next"), mux(opens[u], pact, pim)))
        };
        let open_row = m.hold(format!("row{u}_q"), row, opens[u]);
        let counter = |name: &str, load: &Bits, gap: u32| timer(&m, &format!("{name}{u}"), load, gap);
        let rp = match &auto_left {
            None => counter("rp", &precharged[u], c.t_rp()),
            Some(auto_left) => {
                /// A precharge of an access begins as soon as a PRE would be legal.
                let rp = m.reg(format!("rp{u}_q"), rp_bits).reset(0);
                let after_pre = mux(precharged[u], lit((c.t_rp() - 1).into(), rp_bits), counted(&rp));
                rp.next(mux(closed_after[u], auto_left, after_pre));
                rp.q()
            }
        };
        let was_open = open.q();
        partitions.push((
            was_open,
            Partition {
                open: open_then,
                pim: pim_then,
                row: open_row,
                rc: counter("rc", &activated[u], c.t_rc()),
                ras: counter("ras", &activated[u], c.t_ras()),
                rcd: counter("rcd", &activated[u], c.t_rcd()),
                rtp: counter("rtp", &read[u], c.t_rtp()),
                wr: counter("wr", &written[u], write_gap),
                rp,
            },
        ));
    }
    let refreshing_left = refb.as_ref().map(|refb| timer(&m, "rfc_pb", &(refb & row_go), c.t_rfc_pb()));
    let slicing_left = if slicing { Some(timer(&m, "slice", &moves, c.t_slice())) } else { None };

    if let Some(auto_left) = auto_left {
        // Where the precharge of RDA or WRA begins, and ends.
        let bounds: Vec<Bits> = partitions
            .iter()
            .zip(0..)
            .map(|((_, p), u)| {
                let [ras, rtp, wr] = [&p.ras, &p.rtp, &p.wr].map(|left| left.zext(bound_bits));
                let first = m.wire(format!("bound_ras{u}"), larger(&ras, &rtp));
                m.wire(format!("bound{u}"), larger(&first, &wr))
            })
            .collect();
        let bound = match bounds.as_slice() {
            [zero, one] => {
                let both = larger(zero, one);
                mux(joined_next, both, mux(column_partition, one, zero))
            }
            _ => bounds[0],
        };
        let bound = m.wire(bound);
        let own = mux(wr, lit(write_gap.into(), bound_bits), lit(c.t_rtp().into(), bound_bits));
        let own = m.wire("own_bound", own);
        auto_left.drive(larger(&bound, &own).zext(rp_bits) + lit((c.t_rp() - 1).into(), rp_bits));
    }

    // Objections to the row command.
    let any_open = any_of(partitions.iter().map(|(open, _)| *open));
    let opening = each(count, |u| {
        let here = if u == last { (act & host_at[u]) | pact } else { act & host_at[u] };
        here & partitions[u].0
    });
    let early = |left: &dyn Fn(&Partition) -> Bits| {
        let of = |u: usize| left(&partitions[u].1).any() & touches[u];
        any_of((0..count).map(of))
    };
    let any_rp = any_of(partitions.iter().map(|(_, p)| p.rp.any()));
    let absent = if slicing { all!(joined, one_bank, row_partition) } else { one_bank & row_partition };
    let outside = match &subarray {
        Some(below) => {
            let wrong = mux(pact, below, below.eq(row_partition));
            all!(activates, !joined, wrong)
        }
        None => lit(0, 1),
    };
    let moving = match &slicing_left {
        Some(left) => and_refb(&[&activates, &slice, &refresh]) & left.any(),
        None => lit(0, 1),
    };
    let mut flags = vec![
        absent,
        outside,
        any_of(&opening) | (and_refb(&[&slice, &refresh]) & any_open),
        and_refb(&[&activates]) & early(&|p| p.rc),
        precharges & early(&|p| p.ras),
        (and_refb(&[&activates, &slice]) & early(&|p| p.rp)) | (refresh & any_rp),
        precharges & early(&|p| p.rtp),
        precharges & early(&|p| p.wr),
        moving,
    ];
    flags.extend(refreshing_left.map(|left| and_refb(&[&activates, &slice]) & left.any()));
    m.output(row_flags = bus(&flags), row_flags(c).join(", ") + ", from bit 0: wrong with the row command");

    // Objections to the column command.
    let open_at = each(count, |u| column_at[u] & partitions[u].1.open);
    let pim_at = each(count, |u| open_at[u] & partitions[u].1.pim);
    let computing = &partitions[last].1;
    let closed = (host & !any_of(&open_at)) | (mac & !computing.open);
    let of_other = (host & any_of(&pim_at)) | all!(mac, computing.open, !computing.pim);
    // A row command beside it: the channel considers its effect, the record its presence.
    let beside = if record { &touches } else { &activated };
    let rcd = each(count, |u| (partitions[u].1.rcd.any() | beside[u]) & access[u]);
    let absent = if slicing { all!(joined_next, host, column_partition) } else { host & column_partition };
    let column_flags = [absent, closed, of_other, any_of(&rcd)];
    m.output(
        column_flags = bus(&column_flags),
        COLUMN_FLAGS.join(", ") + ", from bit 0: wrong with the column command",
    );
    let opened: Vec<Bits> = partitions.iter().map(|(open, _)| *open).collect();
    if let (Some(boundary), [(first, low), (second, high)]) = (&boundary, partitions.as_slice()) {
        let below = |row: &Bits| row.high(boundary.width()).lt(boundary);
        let apart = below(&low.row) & !below(&high.row);
        m.assert(
            "other_subarrays",
            !(first & second) | (apart & !joined),
            "the rows of two open partitions lie on their sides of the boundary",
        );
    }
    m.output(open = bus(&opened), "partitions with an open row, from bit 0, before the row command");
    m.output(pim = bus(&owned), "partitions opened for computing");
    for (u, (_, p)) in partitions.iter().enumerate() {
        m.output(format!("row{u}_o"), p.row, format!("open row of partition {u}"));
    }
    if slicing {
        m.output(path = column_at[1], "the host's access goes through partition 1");
    }
}
