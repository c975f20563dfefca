//! Are the quantities that energy depends on counted as they are defined? The test counts them again from the stream of
//! commands, clock by clock.

use crate::support::hbm::{Oracle, hbm_configs, is_row};
use crate::support::hbm_traffic::{HbmTraffic, Step};
use ndp_config::{HbmCommandSet, HbmConfig};
use ndp_dram::hbm::HbmCommand::{self, *};
use ndp_dram::hbm::{HbmActivity, HbmBankCounts, PseudoChannel};

/// Gives a stream to a channel, with data for its writes, and runs it to `end`.
fn play(c: &HbmConfig, steps: &[Step], end: u64) -> PseudoChannel {
    let mut device = PseudoChannel::new(c).unwrap();
    let (mut next, mut due) = (0, Vec::new());
    for cycle in 0..end {
        let mut words = [0; 2];
        while next < steps.len() && steps[next].at == cycle {
            let command = steps[next].command;
            words[usize::from(!is_row(command))] = command.encode();
            if matches!(command, Write { .. } | BufferWrite { .. }) {
                due.extend([0, 1].map(|beat| cycle + u64::from(c.t_cwl()) + beat));
            }
            next += 1;
        }
        let outputs = device.clock(words[0], words[1], due.contains(&cycle).then_some([7; 2]));
        due.retain(|&at| at > cycle);
        assert!(outputs.row_status.is_ok() && outputs.column_status.is_ok(), "{:?}", device.violations());
    }
    device
}

/// An open row buffer: since when, and when a precharge would have been legal.
#[derive(Clone, Copy)]
struct Open {
    since: u64,
    precharge: u64,
}

/// Clocks in which a row buffer holds a row, marked from the command that opens it to the one that closes it.
fn open_clocks(c: &HbmConfig, steps: &[Step], end: u64) -> Vec<bool> {
    let mut clocks = vec![false; end as usize];
    let mut oracle = Oracle::new(c);
    let mut open: Vec<[Option<Open>; 2]> = vec![[None; 2]; c.banks() as usize];
    for &Step { at, command, .. } in steps {
        let later = |cycles: u32| at + u64::from(cycles);
        let place = |group: u8, bank: u8, partition: u8| (oracle.bank(group, bank), usize::from(partition));
        let used: Vec<((usize, usize), u64)> = match command {
            Read { bank_group, bank, partition, .. } | ReadToBuffer { bank_group, bank, partition, .. } => {
                vec![(place(bank_group, bank, partition), later(c.t_rtp()))]
            }
            Write { bank_group, bank, partition, .. } => {
                vec![(place(bank_group, bank, partition), later(c.t_cwl() + 2 + c.t_wr()))]
            }
            Mac { .. } => (0..open.len()).map(|b| ((b, oracle.pim_part(b)), later(c.t_rtp()))).collect(),
            _ => Vec::new(),
        };
        for ((bank, part), legal) in used {
            let row = open[bank][part].as_mut().unwrap();
            row.precharge = row.precharge.max(legal);
        }
        oracle.apply(at, command);
        for (bank, parts) in open.iter_mut().enumerate() {
            for (part, row) in parts.iter_mut().enumerate() {
                match (*row, oracle.open[bank][part]) {
                    (None, Some(_)) => *row = Some(Open { since: at, precharge: later(c.t_ras()) }),
                    (Some(was), None) => {
                        let closed = if command.auto_precharge() { was.precharge } else { at };
                        (was.since..closed.min(end)).for_each(|clock| clocks[clock as usize] = true);
                        *row = None;
                    }
                    _ => {}
                }
            }
        }
    }
    for row in open.iter().flatten().flatten() {
        (row.since..end).for_each(|clock| clocks[clock as usize] = true);
    }
    clocks
}

/// Counts everything again, by definition.
fn count(c: &HbmConfig, steps: &[Step], end: u64) -> HbmActivity {
    let number = |kind: fn(&HbmCommand) -> bool| {
        steps.iter().filter(|step| step.at < end && kind(&step.command)).count() as u64
    };
    let banks = (0..c.banks()).map(|index| {
        let place = ((index / c.banks_per_group()) as u8, (index % c.banks_per_group()) as u8);
        let own = |kind: fn(&HbmCommand) -> bool| {
            let of_bank = steps.iter().filter(|step| step.at < end && step.command.bank() == Some(place));
            of_bank.filter(|step| kind(&step.command)).count() as u64
        };
        let of_group = steps.iter().filter(
            |step| matches!(step.command, PimActivate { bank_group, .. } if step.at < end && bank_group == place.0),
        );
        HbmBankCounts {
            activates: own(|command| matches!(command, Activate { .. }))
                + of_group.count() as u64
                + number(|command| matches!(command, PimActivateAll { .. })),
            reads: own(|command| matches!(command, Read { .. })),
            buffer_reads: own(|command| matches!(command, ReadToBuffer { .. })),
            writes: own(|command| matches!(command, Write { .. })),
            sums: own(|command| matches!(command, ReadSum { .. })),
        }
    });
    HbmActivity {
        cycles: end,
        active_cycles: open_clocks(c, steps, end).into_iter().filter(|open| *open).count() as u64,
        refreshes: number(|command| *command == Refresh),
        bank_refreshes: number(|command| matches!(command, RefreshBank { .. })),
        buffer_writes: number(|command| matches!(command, BufferWrite { .. })),
        macs: number(|command| matches!(command, Mac { .. })),
        results: number(|command| *command == ReadResults),
        banks: banks.collect(),
    }
}

#[test]
fn commands_banks_and_open_clocks_are_counted_as_defined() {
    for (seed, c) in hbm_configs().iter().enumerate() {
        let mut traffic = HbmTraffic::new(c, 170 + seed as u64);
        let steps: Vec<Step> = (0..8000).map(|_| traffic.next()).collect();
        let end = steps.last().unwrap().at + 50;
        let found = play(c, &steps, end).activity();
        assert_eq!(found, count(c, &steps, end), "{}", c.name());
        assert!(found.active_cycles > end / 4 && found.active_cycles < end, "{found:?}");
        assert!(
            found.refreshes + found.bank_refreshes > 0
                && found.buffer_writes > 0
                && found.macs > 0
                && found.results > 0
        );
        for bank in &found.banks {
            let HbmBankCounts { activates, reads, buffer_reads, writes, sums } = *bank;
            assert!(activates.min(reads).min(writes) > 0, "{bank:?}");
            let all = c.command_set() == HbmCommandSet::LibraPim;
            assert_eq!((buffer_reads > 0, sums > 0), (all, all), "{bank:?}");
        }
        // Wherever the run is cut, the sum of both parts is the whole.
        let middle = steps[1700].at;
        let before = play(c, &steps[..1700], middle).activity();
        assert_eq!(before, count(c, &steps[..1700], middle), "{} in the middle", c.name());
        let HbmActivity { cycles, active_cycles, macs, .. } = found.since(&before);
        assert_eq!((cycles + middle, macs + before.macs), (end, found.macs));
        assert_eq!(active_cycles + before.active_cycles, found.active_cycles);
    }
}

#[test]
fn a_row_is_open_up_to_the_precharge_that_its_last_read_begins() {
    let c = HbmConfig::preset("librapim").unwrap();
    let at = |at, command| Step { at, command, tight: false };
    let read = |auto_precharge| Read { bank_group: 1, bank: 2, partition: 0, column: 3, auto_precharge };
    let steps = [
        at(10, Activate { bank_group: 1, bank: 2, partition: 0, row: 7 }),
        at(24, read(false)),
        // The precharge waits for tRAS: 34 clocks after the ACT.
        at(30, read(true)),
    ];
    let open = |end| play(&c, &steps, end).activity().active_cycles;
    assert_eq!([open(10), open(11), open(43), open(44), open(45), open(99)], [0, 1, 33, 34, 34, 34]);
}

#[test]
fn what_is_refused_is_not_counted() {
    let c = HbmConfig::preset("librapim").unwrap();
    let mut device = PseudoChannel::new(&c).unwrap();
    let act = Activate { bank_group: 0, bank: 0, partition: 0, row: 7 };
    device.clock(act.encode(), 0, None);
    let once = device.activity();
    assert!(
        !device
            .clock(act.encode(), Mac { column: 0, slot: 0, first: true }.encode(), None)
            .row_status
            .is_ok()
    );
    let HbmActivity { cycles, active_cycles, .. } = device.activity();
    assert_eq!((cycles, active_cycles), (2, 2));
    assert_eq!(HbmActivity { cycles: 1, active_cycles: 1, ..device.activity() }, once);
}
