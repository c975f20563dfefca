//! Are the rules that are not distances checked: bank states, the data bus, the pins?

use crate::support::*;
use ndp_config::DramConfig;
use ndp_dram::{Checker, Command, CommandPins, DramError, Rank, Rule, RuleSet};

const LATER: u64 = 1000;

/// Runs `commands`, with `data` driven by the controller, and returns the data that the rank drove in each clock.
fn run(
    rank: &mut Rank,
    cycles: u64,
    commands: &[(u64, Command)],
    data: impl Fn(u64) -> Option<[u64; 2]>,
) -> Vec<Option<[u64; 2]>> {
    let mut commands = commands.iter().peekable();
    (0..cycles)
        .map(|cycle| {
            let pins = match commands.next_if(|(at, _)| *at == cycle) {
                Some((_, command)) => command.encode(),
                None => CommandPins::DESELECT,
            };
            rank.clock(&pins, data(cycle))
        })
        .collect()
}

fn rules(rank: &Rank) -> Vec<(u64, Rule)> {
    rank.violations().iter().map(|v| (v.cycle, v.rule)).collect()
}

#[test]
fn activate_of_an_open_bank_is_rejected() {
    for c in configs() {
        let before = [(0, act(0, 0))];
        assert_eq!(rules_of(&c, &before, LATER, act(0, 0)), [Rule::ActivateOpenBank]);
        assert_eq!(rules_of(&c, &before, LATER, act(1, 0)), []);
        assert_eq!(rules_of(&c, &before, LATER, act(0, 1)), []);
        assert_eq!(rules_of(&c, &[(0, act(0, 0)), (500, pre(0, 0))], LATER, act(0, 0)), []);
    }
}

#[test]
fn access_before_activate_is_rejected() {
    for c in configs() {
        for access in [rd(1, 1), wr(1, 1), rda(1, 1), wra(1, 1)] {
            assert_eq!(rules_of(&c, &[], LATER, access), [Rule::AccessClosedBank]);
            assert_eq!(rules_of(&c, &[(0, act(1, 1))], LATER, access), []);
            assert_eq!(
                rules_of(&c, &[(0, act(1, 2)), (20, act(0, 1))], LATER, access),
                [Rule::AccessClosedBank]
            );
            for closing in [pre(1, 1), PREA, rda(1, 1), wra(1, 1)] {
                let before = [(0, act(1, 1)), (500, closing)];
                assert_eq!(rules_of(&c, &before, LATER, access), [Rule::AccessClosedBank]);
            }
        }
    }
}

#[test]
fn refresh_with_an_open_bank_is_rejected() {
    for c in configs() {
        let before = [(0, act(0, 0)), (50, act(1, 3)), (400, pre(0, 0))];
        assert_eq!(rules_of(&c, &before, LATER, REF), [Rule::RefreshOpenBank]);
        let mut closed = before.to_vec();
        closed.push((500, pre(1, 3)));
        assert_eq!(rules_of(&c, &closed, LATER, REF), []);
    }
}

#[test]
fn precharge_of_a_closed_bank_is_allowed() {
    for c in configs() {
        for command in [pre(0, 0), PREA] {
            assert_eq!(rules_of(&c, &[], 0, command), []);
            assert_eq!(rules_of(&c, &[(0, act(0, 0)), (500, pre(0, 0))], 501, command), []);
        }
    }
}

#[test]
fn bank_states_are_visible() {
    let mut checker = Checker::new(RuleSet::ddr4(&config("")));
    checker.command(0, act(1, 2));
    assert!(checker.is_open(1, 2) && !checker.is_open(0, 2) && !checker.is_open(1, 1));
    checker.command(LATER, rda(1, 2));
    assert!(!checker.is_open(1, 2));
    assert_eq!(checker.precharge_cycle(1, 2), Some(LATER + 12));
    assert_eq!(checker.precharge_cycle(0, 0), None);
}

#[test]
fn bursts_of_both_directions_collide_where_their_data_overlap() {
    for c in configs() {
        let open = [(0, act(0, 0)), (50, act(1, 0)), (LATER, rd(0, 0))];
        let lead = u64::from(c.t_cl() - c.t_cwl());
        for distance in 1..lead + 10 {
            let found = rules_of(&c, &open, LATER + distance, wr(1, 0));
            assert_eq!(
                found.contains(&Rule::BusCollision),
                lead.abs_diff(distance) < 4,
                "distance {distance}"
            );
            assert!(!found.contains(&Rule::BusCollision) || found.contains(&Rule::Rtw));
        }
        let collision = violations_of(&c, &open, LATER + lead + 3, wr(1, 0));
        let collision = collision.iter().find(|v| v.rule == Rule::BusCollision).unwrap();
        assert_eq!((collision.required, collision.actual), (lead + 4, lead + 3));
    }
}

#[test]
fn a_collision_with_a_burst_that_is_not_the_last_is_found() {
    let c = config("");
    // Data of the reads at 24..28 and 40..44, of the write at 23..27.
    let before = [(0, act(0, 0)), (50, act(1, 0)), (LATER, rd(0, 0)), (LATER + 6, rd(1, 0))];
    let found = violations_of(&c, &before, LATER + 7, wr(0, 0));
    let collision = found.iter().find(|v| v.rule == Rule::BusCollision).unwrap();
    assert_eq!(collision.earlier, Some((LATER, rd(0, 0))));
}

/// A bank opened in clock 0 and written in `tRCD`; the first clock of the data.
fn write_commands(c: &DramConfig) -> ([(u64, Command); 2], u64) {
    let t_rcd = u64::from(c.t_rcd());
    ([(0, act(0, 0)), (t_rcd, wr(0, 0))], t_rcd + u64::from(c.t_cwl()))
}

#[test]
fn write_data_are_due_exactly_after_t_cwl() {
    for c in configs() {
        let (commands, start) = write_commands(&c);
        let burst = act_location().burst(&c);
        for shift in -5..=5i64 {
            let from = (start as i64 + shift) as u64;
            let mut rank = Rank::new(&c);
            let out =
                run(&mut rank, 200, &commands, |t| (from..from + 4).contains(&t).then_some([t, t + 1000]));
            assert!(out.iter().all(Option::is_none));
            let mut expected = Vec::new();
            for t in start.min(from)..start.max(from) + 4 {
                let (due, driven) = ((start..start + 4).contains(&t), (from..from + 4).contains(&t));
                match (due, driven) {
                    (true, false) => expected.push((t, Rule::WriteDataMissing)),
                    (false, true) => expected.push((t, Rule::WriteDataUnexpected)),
                    _ => {}
                }
            }
            assert_eq!(rules(&rank), expected, "shift {shift}");
            // Data that came in time are stored in their place.
            let words = rank.read_burst(burst);
            for beat in 0..4 {
                let t = start + beat;
                let expected = if (from..from + 4).contains(&t) { [t, t + 1000] } else { [0, 0] };
                assert_eq!(words[2 * beat as usize..][..2], expected);
            }
        }
    }
}

fn act_location() -> ndp_dram::Location {
    ndp_dram::Location { bank_group: 0, bank: 0, row: 3, column_burst: 5 }
}

#[test]
fn data_without_any_write_are_reported() {
    let mut rank = Rank::new(&config(""));
    run(&mut rank, 20, &[], |t| (t == 11).then_some([1, 2]));
    assert_eq!(rules(&rank), [(11, Rule::WriteDataUnexpected)]);
    assert!(rank.violations()[0].to_string().starts_with("cycle 11: write data without WR"));
    assert_eq!(rank.allocated_rows(), 0);
}

#[test]
fn undefined_pins_are_reported_and_ignored() {
    let mut rank = Rank::new(&config("row_bits = 9"));
    let mrs = CommandPins { cs_n: false, act_n: true, bank_group: 0, bank: 0, address: 0 };
    rank.clock(&mrs, None);
    rank.clock(&Command::Activate { bank_group: 0, bank: 0, row: 512 }.encode(), None);
    rank.clock(&Command::Activate { bank_group: 0, bank: 0, row: 511 }.encode(), None);
    let unknown = DramError::UnknownCommand { ras_n: 0, cas_n: 0, we_n: 0 };
    let row = DramError::Row { row: 512, rows: 512 };
    assert_eq!(rules(&rank), [(0, Rule::Undefined(unknown)), (1, Rule::Undefined(row))]);
    assert_eq!(rank.statistics().commands.undefined, 2);
    assert!(rank.violations()[1].to_string().contains("row = 0x200 must be below 0x200"));
}

#[test]
fn a_bank_group_that_the_rank_does_not_have_is_reported() {
    let commands = [2, 3].map(|group| act(group, 0).encode());
    let mut two = Rank::new(&config(""));
    let mut four = Rank::new(&config("bank_groups = 4\nrow_bits = 16"));
    for (cycle, pins) in (0..100).map(|cycle| (cycle, commands.get(cycle / 50).filter(|_| cycle % 50 == 0))) {
        let pins = pins.copied().unwrap_or(CommandPins::DESELECT);
        two.clock(&pins, None);
        four.clock(&pins, None);
        assert!(two.violation_count() as usize <= cycle / 50 + 1);
    }
    let width = |value| Rule::Undefined(DramError::Width { pins: "bank group", value, max: 1 });
    assert_eq!(rules(&two), [(0, width(2)), (50, width(3))]);
    assert_eq!(rules(&four), []);
}

#[test]
fn illegal_accesses_have_defined_results() {
    let c = config("");
    let burst = act_location().burst(&c);
    // A RD of a closed bank reads ones, a WR of one writes nothing.
    let mut rank = Rank::new(&c);
    rank.write_burst(burst, &[7; 8]);
    let out =
        run(&mut rank, 100, &[(0, wr(0, 0)), (30, rd(0, 0))], |t| (16..20).contains(&t).then_some([9, 9]));
    assert_eq!(out[54..58], [Some([u64::MAX; 2]); 4]);
    assert_eq!(rank.read_burst(burst), [7; 8]);
    assert_eq!(rank.violation_count(), 3, "closed twice, and tWTR_L");
    // A RD that is too early reads the stored data.
    let mut rank = Rank::new(&c);
    rank.write_burst(burst, &[7; 8]);
    let out = run(&mut rank, 100, &[(0, act(0, 0)), (1, rd(0, 0))], |_| None);
    assert_eq!(out[25..29], [Some([7; 2]); 4]);
    // Where two bursts overlap, the later one has the bus.
    let mut rank = Rank::new(&c);
    rank.write_burst(burst, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let out = run(&mut rank, 100, &[(0, act(0, 0)), (24, rd(0, 0)), (26, rd(0, 0))], |_| None);
    let expected = [[1, 2], [3, 4], [1, 2], [3, 4], [5, 6], [7, 8]].map(Some);
    assert_eq!(out[48..54], expected);
}

#[test]
fn a_corrupted_bit_is_read() {
    let c = config("");
    let mut rank = Rank::new(&c);
    let burst = act_location().burst(&c);
    rank.write_burst(burst, &[0x55; 8]);
    let mut words = rank.read_burst(burst);
    words[3] ^= 1 << 1;
    rank.write_burst(burst, &words);
    let out = run(&mut rank, 60, &[(0, act(0, 0)), (24, rd(0, 0))], |_| None);
    assert_eq!(out[48..52], [[0x55, 0x55], [0x55, 0x57], [0x55, 0x55], [0x55, 0x55]].map(Some));
    assert_eq!(rank.violation_count(), 0);
}

#[test]
#[should_panic(expected = "burst = 524288 must be below 524288")]
fn a_burst_beyond_the_rank_is_refused() {
    Rank::new(&config("row_bits = 9")).read_burst(1 << 19);
}

#[test]
fn the_trace_records_commands_only_when_asked() {
    let mut rank = Rank::new(&config(""));
    run(&mut rank, 30, &[(3, act(0, 0))], |_| None);
    assert_eq!(rank.trace(), []);
    rank.record_commands();
    rank.clock(&rd(0, 0).encode(), None);
    rank.clock(&CommandPins::DESELECT, None);
    assert_eq!(rank.trace(), [(30, rd(0, 0))]);
}
