//! Is each command that the state of the banks forbids refused with a status of its own, and does it change nothing?

use std::collections::BTreeMap;

use crate::support::DISTANCES;
use crate::support::hbm::{hbm_configs, is_row};
use ndp_config::{HbmCommandSet, HbmConfig, HbmRefresh};
use ndp_dram::hbm::HbmCommand::{self, *};
use ndp_dram::hbm::{Answer, HbmPlace, HbmStorage, PseudoChannel, decode_column, decode_row};
use ndp_dram::{CommandSet, DramError, Rule};

const APART: u64 = 130;

fn word_pair(command: HbmCommand) -> [u32; 2] {
    if is_row(command) { [command.encode(), 0] } else { [0, command.encode()] }
}

/// Gives a command and lets [`APART`] clocks pass, with data for a WR or GBW.
fn give(device: &mut PseudoChannel, command: HbmCommand) -> Answer {
    let [row, column] = word_pair(command);
    let mut status = Answer::OK;
    let t_cwl = u64::from(device.config().t_cwl());
    for after in 0..APART {
        let [row, column] = if after == 0 { [row, column] } else { [0, 0] };
        let writes = matches!(command, Write { .. } | BufferWrite { .. });
        let write = (writes && status.is_ok() && (t_cwl..t_cwl + 2).contains(&after)).then_some([7; 2]);
        let outputs = device.clock(row, column, write);
        if after == 0 {
            status = outputs.row_status.max(outputs.column_status);
        }
    }
    status
}

fn act(bank_group: u8, bank: u8, partition: u8, row: u32) -> HbmCommand {
    Activate { bank_group, bank, partition, row }
}

fn rd(bank_group: u8, bank: u8, partition: u8) -> HbmCommand {
    Read { bank_group, bank, partition, column: 0, auto_precharge: false }
}

fn wr(bank_group: u8, bank: u8, partition: u8) -> HbmCommand {
    Write { bank_group, bank, partition, column: 0, auto_precharge: false }
}

fn slice(boundary: u32) -> HbmCommand {
    Slice { bank_group: 0, bank: 0, boundary: boundary as u16 }
}

const GBW: HbmCommand = BufferWrite { slot: 0 };
const MAC: HbmCommand = Mac { column: 0, slot: 0, first: false };

fn compute(c: &HbmConfig) -> Vec<HbmCommand> {
    let row = c.rows() - 1;
    (0..c.bank_groups() as u8).map(|bank_group| PimActivate { bank_group, row }).collect()
}

/// After `before`, `command` is refused because of `rule`, and the device goes on as if it had not come.
fn refused(c: &HbmConfig, before: &[HbmCommand], command: HbmCommand, rule: Rule) {
    let mut device = PseudoChannel::with_storage(c, HbmStorage::pattern(3)).unwrap();
    for &command in before {
        assert_eq!(give(&mut device, command), Answer::OK, "{command} of {before:?}");
    }
    let mut untouched = device.clone();
    let status = give(&mut device, command);
    assert_eq!(status, Answer::of(rule), "{command} after {before:?}: {:?}", device.violations());
    assert_eq!(device.violations().iter().map(|v| v.rule).collect::<Vec<_>>(), [rule]);
    (0..APART).for_each(|_| assert_eq!(untouched.clock(0, 0, None).read, None));
    assert_eq!(device.storage(), untouched.storage());
    assert_eq!(device.pim(), untouched.pim());
    assert_eq!(format!("{:?}", device.partitions()), format!("{:?}", untouched.partitions()));
    let mut statistics = device.statistics();
    assert_eq!(statistics.commands.refused, 1);
    statistics.commands.refused = 0;
    assert_eq!(statistics, untouched.statistics());
}

#[test]
fn two_rows_of_one_partition_are_refused() {
    for c in hbm_configs() {
        let rule = Rule::ActivateOpenPartition;
        refused(&c, &[act(0, 0, 0, 0)], act(0, 0, 0, 1), rule);
        refused(&c, &[act(0, 0, 0, 0)], act(0, 0, 0, 0), rule);
        refused(&c, &[act(0, 1, 0, 0)], PimActivate { bank_group: 0, row: 0 }, rule);
        refused(&c, &compute(&c), act(0, 0, 0, 1), rule);
        refused(&c, &compute(&c), PimActivate { bank_group: 0, row: 0 }, rule);
        if c.slicing() {
            let top = c.rows() - 1;
            refused(&c, &[slice(1), act(0, 0, 0, 0), act(0, 0, 1, top)], act(0, 0, 1, top - 1), rule);
            refused(&c, &[slice(1), act(0, 0, 0, 0), act(0, 0, 1, top)], act(0, 0, 0, 1), rule);
        }
    }
}

#[test]
fn rows_and_accesses_across_the_boundary_are_refused() {
    for c in hbm_configs().iter().filter(|c| c.slicing()) {
        let first = 2 * c.subarray_rows();
        let before = [slice(2)];
        refused(c, &before, act(0, 0, 0, first), Rule::RowOutsidePartition);
        refused(c, &before, act(0, 0, 1, first - 1), Rule::RowOutsidePartition);
        refused(c, &before, PimActivate { bank_group: 0, row: first - 1 }, Rule::RowOutsidePartition);
        // The last row below and the first above are legal, and so is an access to each.
        let mut device = PseudoChannel::new(c).unwrap();
        for command in
            [slice(2), act(0, 0, 0, first - 1), act(0, 0, 1, first), rd(0, 0, 0), rd(0, 0, 1), wr(0, 0, 1)]
        {
            assert_eq!(give(&mut device, command), Answer::OK, "{command}");
        }
        assert_eq!(device.read_column(HbmPlace { bank: 0, row: first, column: 0 }), [7; 4]);
        assert_eq!(device.read_column(HbmPlace { bank: 0, row: first - 1, column: 0 }), [0; 4]);
        // An access of the partition whose row is not open does not reach the other one's.
        let before = [slice(2), act(0, 0, 0, 0)];
        for command in [rd(0, 0, 1), wr(0, 0, 1)] {
            refused(c, &before, command, Rule::AccessClosedBank);
        }
    }
    for c in hbm_configs() {
        refused(&c, &[], act(0, 0, 1, c.rows() - 1), Rule::PartitionAbsent);
        refused(&c, &[], Precharge { bank_group: 0, bank: 0, partition: 1 }, Rule::PartitionAbsent);
        for command in [rd(0, 0, 1), wr(0, 0, 1)] {
            refused(&c, &[act(0, 0, 0, 0)], command, Rule::PartitionAbsent);
        }
    }
}

#[test]
fn a_boundary_moves_in_a_closed_bank_and_to_where_it_can_be() {
    for c in hbm_configs() {
        if !c.slicing() {
            refused(&c, &[], slice(1), Rule::SlicingAbsent);
            continue;
        }
        refused(&c, &[], slice(c.subarrays()), Rule::Boundary);
        refused(&c, &[act(0, 0, 0, 0)], slice(1), Rule::SliceOpenBank);
        for open in [act(0, 0, 0, 0), act(0, 0, 1, c.rows() - 1)] {
            refused(&c, &[slice(1), open], slice(2), Rule::SliceOpenBank);
            refused(&c, &[slice(1), open], slice(0), Rule::SliceOpenBank);
        }
        let mut device = PseudoChannel::new(&c).unwrap();
        for boundary in [1, c.subarrays() - 1, 0] {
            assert_eq!(give(&mut device, slice(boundary)), Answer::OK);
            assert_eq!(u32::from(device.partitions().boundary(0)), boundary);
        }
        assert_eq!(give(&mut device, act(0, 0, 0, c.rows() - 1)), Answer::OK);
    }
}

#[test]
fn without_slicing_reads_and_computing_exclude_each_other() {
    for c in hbm_configs() {
        let rdg = ReadToBuffer { bank_group: 0, bank: 0, partition: 0, column: 0, slot: 0 };
        for command in [rd(0, 0, 0), wr(0, 0, 0), rdg] {
            let absent = command == rdg && c.command_set() == HbmCommandSet::Aim;
            let rule = if absent { Rule::CommandAbsent } else { Rule::AccessDuringPim };
            refused(&c, &compute(&c), command, rule);
        }
        let mut before = compute(&c)[1..].to_vec();
        before.push(GBW);
        refused(&c, &before, MAC, Rule::MacClosedRow);
        before.extend((0..c.banks_per_group() as u8).map(|bank| act(0, bank, 0, 0)));
        refused(&c, &before, MAC, Rule::MacHostRow);
    }
}

#[test]
fn the_rest_of_the_states_has_statuses_too() {
    for c in hbm_configs() {
        refused(&c, &[], rd(1, 0, 0), Rule::AccessClosedBank);
        refused(&c, &[], wr(1, 0, 0), Rule::AccessClosedBank);
        let refb = |bank_group, bank| RefreshBank { bank_group, bank };
        if c.refresh() == HbmRefresh::All {
            refused(&c, &[act(1, 1, 0, 0)], Refresh, Rule::RefreshOpenBank);
            refused(&c, &[PimActivate { bank_group: 0, row: 0 }], Refresh, Rule::RefreshOpenBank);
            refused(&c, &[], refb(0, 0), Rule::RefreshAbsent);
        } else {
            refused(&c, &[act(0, 0, 0, 0)], refb(0, 0), Rule::RefreshOpenBank);
            refused(&c, &[PimActivate { bank_group: 0, row: 0 }], refb(0, 0), Rule::RefreshOpenBank);
            refused(&c, &[refb(0, 0)], refb(0, 0), Rule::RefreshTurn);
            refused(&c, &[], refb(0, 1), Rule::RefreshTurn);
            refused(&c, &[], Refresh, Rule::RefreshAbsent);
            if c.slicing() {
                refused(&c, &[slice(1), act(0, 0, 1, c.rows() - 1)], refb(0, 0), Rule::RefreshOpenBank);
            }
        }
        refused(&c, &compute(&c), MAC, Rule::BufferEmpty);
        if !c.all_bank_activate() {
            refused(&c, &[], PimActivateAll { row: 0 }, Rule::AllBankActivateAbsent);
        }
    }
    let tiny = HbmConfig::preset("librapim-tiny").unwrap();
    let width = |pins, value, max| Rule::Undefined(DramError::Width { pins, value, max });
    refused(&tiny, &[], act(2, 0, 0, 0), width("bank group", 2, 1));
    refused(&tiny, &[], rd(0, 3, 0), width("bank", 3, 1));
    refused(&tiny, &[], BufferWrite { slot: 8 }, width("slot", 8, 7));
    refused(&tiny, &[], act(0, 0, 0, 64), Rule::Undefined(DramError::Row { row: 64, rows: 64 }));
}

/// Newton and GDDR6-AiM lack commands; their others are sent one at a time, whichever bus they are on.
#[test]
fn a_smaller_command_set_takes_a_command_at_a_time() {
    let c = HbmConfig::preset("aim").unwrap();
    let access = |column| Read { bank_group: 0, bank: 0, partition: 0, column, auto_precharge: true };
    let write = Write { bank_group: 0, bank: 0, partition: 0, column: 0, auto_precharge: true };
    let rdg = ReadToBuffer { bank_group: 0, bank: 0, partition: 0, column: 0, slot: 0 };
    for command in [access(0), write, rdg, ReadSum { bank_group: 0, bank: 0 }] {
        refused(&c, &[act(0, 0, 0, 0)], command, Rule::CommandAbsent);
    }
    for (t_cmd, aim) in [(1, c.clone()), (3, c.with_t_cmd(3).unwrap())] {
        let mut device = PseudoChannel::new(&aim).unwrap();
        assert_eq!(give(&mut device, act(0, 0, 0, 0)), Answer::OK);
        let both = device.clock(act(1, 0, 0, 0).encode(), rd(0, 0, 0).encode(), None);
        assert_eq!((both.row_status, both.column_status), (Answer::OK, Answer::of(Rule::CommandBus)));
        for after in 1..=t_cmd {
            let out = device.clock(0, rd(0, 0, 0).encode(), None);
            assert_eq!(out.column_status.is_ok(), after == t_cmd, "{after} clocks behind");
        }
    }
}

#[test]
fn data_that_are_missing_or_not_due_change_nothing() {
    let c = HbmConfig::preset("librapim-tiny").unwrap();
    let mut device = PseudoChannel::new(&c).unwrap();
    give(&mut device, act(0, 0, 0, 0));
    device.clock(0, wr(0, 0, 0).encode(), None);
    (0..20).for_each(|_| assert_eq!(device.clock(0, 0, None).read, None));
    device.clock(0, 0, Some([1, 2]));
    let rules: Vec<Rule> = device.violations().iter().map(|v| v.rule).collect();
    assert_eq!(rules, [Rule::WriteDataMissing, Rule::WriteDataMissing, Rule::WriteDataUnexpected]);
    assert_eq!(device.storage().allocated_rows(), 0);
}

#[test]
fn every_rule_has_a_status_of_its_own() {
    let rules = [
        Rule::Undefined(DramError::UnalignedColumn { column: 1 }),
        Rule::ActivateOpenPartition,
        Rule::AccessClosedBank,
        Rule::RefreshOpenBank,
        Rule::PartitionAbsent,
        Rule::RowOutsidePartition,
        Rule::AccessDuringPim,
        Rule::MacClosedRow,
        Rule::MacHostRow,
        Rule::BufferEmpty,
        Rule::SliceOpenBank,
        Rule::Boundary,
        Rule::SlicingAbsent,
        Rule::AllBankActivateAbsent,
        Rule::RowBus,
        Rule::SliceRecovery,
        Rule::MacLatency,
        Rule::RfcBank,
        Rule::RrefD,
        Rule::RefreshAbsent,
        Rule::RefreshTurn,
        Rule::CommandAbsent,
        Rule::BusTaken,
        Rule::CommandBus,
        Rule::BufferNotReady,
        Rule::BusCollision,
        Rule::Refi,
        Rule::WriteDataMissing,
        Rule::WriteDataUnexpected,
    ];
    let rules: Vec<Rule> = rules.into_iter().chain(DISTANCES).collect();
    let codes: BTreeMap<u8, Rule> = rules.iter().map(|&rule| (Answer::of(rule).code(), rule)).collect();
    assert_eq!(codes.len(), rules.len());
    assert!(!codes.contains_key(&Answer::OK.code()));
    let page = include_str!("../../../docs/hbm-pim.md");
    for (code, rule) in codes {
        let line = format!("| {code} | {} |", rule.to_string().split(" (").next().unwrap());
        assert!(page.contains(&line), "docs/hbm-pim.md lacks '{line}'");
    }
}

#[test]
fn every_command_survives_its_word() {
    let mut count = 0;
    for low in 0..1 << 9 {
        for high in [0, 1, 2, 0x15, 0x1F, 0x3FFF, 0x4000, 0x7FFF] {
            let word = low | high << 9;
            for decoded in [decode_row(word), decode_column(word)].into_iter().flatten() {
                count += 1;
                assert!(decoded.kind().is_some() || word == 0);
                assert_eq!(decoded.encode(), word, "{decoded}");
            }
        }
    }
    assert_eq!(
        decode_column(5 | 31 << 9 | 1 << 14 | 31 << 15),
        Ok(Mac { column: 31, slot: 31, first: true })
    );
    assert_eq!(decode_row(1 | 1 << 4 | 2 << 5 | 3 << 7 | 0x7FFF << 9), Ok(act(3, 2, 1, 0x7FFF)));
    assert!(count > 500, "{count}");
}

#[test]
fn words_that_are_no_command_are_refused_with_their_bits() {
    let opcode = DramError::Opcode { bus: "row", opcode: 10, opcodes: 10 };
    assert_eq!(decode_row(10), Err(opcode));
    assert_eq!(decode_column(8), Err(DramError::Opcode { bus: "column", opcode: 8, opcodes: 8 }));
    let unused = DramError::UnusedBits { bus: "row", word: 3 | 1 << 4, bits: 1 << 4 };
    assert_eq!(decode_row(3 | 1 << 4), Err(unused));
    assert_eq!(
        decode_column(6 | 1 << 20),
        Err(DramError::UnusedBits { bus: "column", word: 6 | 1 << 20, bits: 1 << 20 })
    );
    let c = HbmConfig::preset("librapim").unwrap();
    let mut device = PseudoChannel::new(&c).unwrap();
    let outputs = device.clock(10, 1 << 31, None);
    assert_eq!(outputs.row_status.code(), 1);
    assert_eq!(outputs.column_status.code(), 1);
}
