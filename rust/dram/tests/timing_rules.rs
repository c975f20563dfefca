//! Does every timing rule begin exactly where it should? Each is tried one clock too early and in time.

use crate::support::*;
use ndp_config::DramConfig;
use ndp_dram::{Command, Rule};

/// Late enough for everything that came in the first clocks.
const LATER: u64 = 400;

/// `command` breaks exactly `rules` in the clock before `first_legal`, and none in `first_legal`.
fn expect_from(
    config: &DramConfig,
    before: &[(u64, Command)],
    command: Command,
    first_legal: u64,
    rules: &[Rule],
) {
    let early = violations_of(config, before, first_legal - 1, command);
    let mut found: Vec<Rule> = early.iter().map(|v| v.rule).collect();
    found.sort();
    let mut expected = rules.to_vec();
    expected.sort();
    assert_eq!(found, expected, "{command} at {} after {before:?} with {config:?}", first_legal - 1);
    assert_eq!(
        rules_of(config, before, first_legal, command),
        [],
        "{command} at {first_legal} after {before:?} with {config:?}"
    );
    let of_first = early.iter().find(|v| v.rule == rules[0]).unwrap();
    let (earlier, _) = of_first.earlier.unwrap();
    assert_eq!((of_first.cycle, of_first.command), (first_legal - 1, command));
    assert_eq!((of_first.required, of_first.actual), (first_legal - earlier, first_legal - 1 - earlier));
}

/// Open rows in bank 0 of both groups and in bank 1 of group 0, all ready for anything at [`LATER`].
fn open_banks() -> Vec<(u64, Command)> {
    vec![(0, act(0, 0)), (50, act(1, 0)), (100, act(0, 1))]
}

fn after_open_banks(cycle: u64, command: Command) -> Vec<(u64, Command)> {
    let mut before = open_banks();
    before.push((cycle, command));
    before
}

/// `rule`, and the collision if two bursts at `distance - 1` share clocks of the bus.
fn with_collision(rule: Rule, distance: u32) -> Vec<Rule> {
    let collides = distance - 1 < DramConfig::T_BL;
    if collides { vec![rule, Rule::BusCollision] } else { vec![rule] }
}

#[test]
fn t_rc_separates_activations_of_a_bank() {
    for c in configs() {
        let t_rc = u64::from(c.t_rc());
        // With tRC = tRAS + tRP the PRE has to be too early for tRC to be the only rule in the way.
        let before = [(0, act(0, 0)), (t_rc - u64::from(c.t_rp()) - 1, pre(0, 0))];
        expect_from(&c, &before, act(0, 0), t_rc, &[Rule::Rc]);
    }
}

#[test]
fn t_ras_separates_activation_and_precharge() {
    for c in configs() {
        for command in [pre(0, 1), PREA] {
            expect_from(&c, &[(7, act(0, 1))], command, 7 + u64::from(c.t_ras()), &[Rule::Ras]);
        }
        assert_eq!(rules_of(&c, &[(7, act(0, 1))], 8, pre(1, 1)), [], "another bank");
    }
}

#[test]
fn t_rcd_separates_activation_and_access() {
    for c in configs() {
        for command in [rd(1, 2), wr(1, 2), rda(1, 2), wra(1, 2)] {
            expect_from(&c, &[(7, act(1, 2))], command, 7 + u64::from(c.t_rcd()), &[Rule::Rcd]);
        }
    }
}

#[test]
fn t_rp_separates_precharge_and_activation() {
    for c in configs() {
        for closing in [pre(0, 0), PREA] {
            let before = after_open_banks(LATER, closing);
            expect_from(&c, &before, act(0, 0), LATER + u64::from(c.t_rp()), &[Rule::Rp]);
        }
        let before = after_open_banks(LATER, pre(0, 0));
        assert_eq!(rules_of(&c, &before, LATER + 1, act(0, 2)), [], "another bank");
    }
}

#[test]
fn t_rp_separates_precharge_and_refresh() {
    for c in configs() {
        let t_rp = u64::from(c.t_rp());
        expect_from(&c, &after_open_banks(LATER, PREA), REF, LATER + t_rp, &[Rule::Rp]);
        let before = [(0, act(1, 3)), (LATER, pre(1, 3))];
        expect_from(&c, &before, REF, LATER + t_rp, &[Rule::Rp]);
    }
}

#[test]
fn t_rp_counts_from_the_last_precharge_of_a_closed_bank() {
    for c in configs() {
        for (first, last) in [(pre(0, 0), pre(0, 0)), (pre(0, 0), PREA), (PREA, pre(0, 0))] {
            let before = [(0, act(0, 0)), (LATER, first), (LATER + 3, last)];
            expect_from(&c, &before, act(0, 0), LATER + 3 + u64::from(c.t_rp()), &[Rule::Rp]);
        }
    }
}

#[test]
fn t_rrd_separates_activations_of_different_banks() {
    for c in configs() {
        expect_from(&c, &[(7, act(0, 0))], act(1, 0), 7 + u64::from(c.t_rrd_s()), &[Rule::RrdS]);
        expect_from(&c, &[(7, act(0, 0))], act(0, 3), 7 + u64::from(c.t_rrd_l()), &[Rule::RrdL]);
        expect_from(&c, &[(7, act(1, 2))], act(1, 1), 7 + u64::from(c.t_rrd_l()), &[Rule::RrdL]);
    }
}

#[test]
fn bank_groups_are_told_apart_by_all_bits_of_their_number() {
    let c = config("bank_groups = 4\nrow_bits = 16\nt_rrd_s = 5\nt_rrd_l = 8\nt_ccd_s = 5\nt_ccd_l = 8");
    let end = u64::from(c.t_cwl()) + 4;
    for (g, h) in (0..16).map(|pair| (pair / 4, pair % 4)) {
        let class = |s: (Rule, u32), l: (Rule, u32)| if g == h { l } else { s };
        let (rule, distance) = class((Rule::RrdS, c.t_rrd_s()), (Rule::RrdL, c.t_rrd_l()));
        expect_from(&c, &[(7, act(g, 0))], act(h, 1), 7 + u64::from(distance), &[rule]);
        let mut open = vec![(0, act(g, 0)), (50, act(h, 1))];
        let (rule, distance) = class((Rule::CcdS, c.t_ccd_s()), (Rule::CcdL, c.t_ccd_l()));
        for (first, second) in [(rd(g, 0), rd(h, 1)), (wr(g, 0), wr(h, 1))] {
            open.push((LATER, first));
            expect_from(&c, &open, second, LATER + u64::from(distance), &[rule]);
            open.pop();
        }
        let (rule, distance) = class((Rule::WtrS, c.t_wtr_s()), (Rule::WtrL, c.t_wtr_l()));
        open.push((LATER, wr(g, 0)));
        expect_from(&c, &open, rd(h, 1), LATER + end + u64::from(distance), &[rule]);
    }
}

#[test]
fn t_faw_allows_four_activations() {
    for c in configs() {
        let [s, l] = [c.t_rrd_s(), c.t_rrd_l()].map(u64::from);
        let third = (2 * s).max(l);
        let before = [(7, act(0, 0)), (7 + s, act(1, 0)), (7 + third, act(0, 1)), (7 + third + s, act(1, 1))];
        expect_from(&c, &before, act(0, 2), 7 + u64::from(c.t_faw()), &[Rule::Faw]);
        assert_eq!(rules_of(&c, &before[..3], 7 + third + s, act(1, 1)), [], "the fourth");
        // The window moves on: the sixth counts from the second.
        let mut more = before.to_vec();
        more.push((7 + u64::from(c.t_faw()), act(0, 2)));
        let sixth = 7 + u64::from(c.t_faw()) + s;
        assert_eq!(rules_of(&c, &more, sixth, act(1, 2)), []);
        if sixth - 1 - (7 + u64::from(c.t_faw())) < s {
            assert_eq!(rules_of(&c, &more, sixth - 1, act(1, 2)), [Rule::RrdS, Rule::Faw]);
        }
    }
}

#[test]
fn t_ccd_separates_accesses_of_one_direction() {
    for c in configs() {
        let [s, l] = [c.t_ccd_s(), c.t_ccd_l()];
        for (first, other_group, same_group, same_bank) in
            [(rd(0, 0), rd(1, 0), rd(0, 1), rd(0, 0)), (wr(0, 0), wr(1, 0), wr(0, 1), wr(0, 0))]
        {
            let before = after_open_banks(LATER, first);
            expect_from(&c, &before, other_group, LATER + u64::from(s), &with_collision(Rule::CcdS, s));
            for command in [same_group, same_bank] {
                expect_from(&c, &before, command, LATER + u64::from(l), &with_collision(Rule::CcdL, l));
            }
        }
    }
}

#[test]
fn t_rtp_separates_read_and_precharge() {
    for c in configs() {
        for command in [pre(0, 0), PREA] {
            let before = after_open_banks(LATER, rd(0, 0));
            expect_from(&c, &before, command, LATER + u64::from(c.t_rtp()), &[Rule::Rtp]);
        }
        assert_eq!(rules_of(&c, &after_open_banks(LATER, rd(0, 0)), LATER + 1, pre(0, 1)), []);
    }
}

#[test]
fn t_wr_separates_the_end_of_a_write_and_precharge() {
    for c in configs() {
        let t_wr = u64::from(c.t_cwl() + 4 + c.t_wr());
        for command in [pre(0, 0), PREA] {
            expect_from(&c, &after_open_banks(LATER, wr(0, 0)), command, LATER + t_wr, &[Rule::Wr]);
        }
        assert_eq!(rules_of(&c, &after_open_banks(LATER, wr(0, 0)), LATER + 1, pre(0, 1)), []);
    }
}

#[test]
fn t_wtr_separates_the_end_of_a_write_and_read() {
    for c in configs() {
        let before = after_open_banks(LATER, wr(0, 0));
        let end = LATER + u64::from(c.t_cwl()) + 4;
        expect_from(&c, &before, rd(1, 0), end + u64::from(c.t_wtr_s()), &[Rule::WtrS]);
        for command in [rd(0, 0), rd(0, 1)] {
            expect_from(&c, &before, command, end + u64::from(c.t_wtr_l()), &[Rule::WtrL]);
        }
    }
}

#[test]
fn t_rtw_separates_read_and_write() {
    for c in configs() {
        let t_rtw = u64::from(c.t_cl() - c.t_cwl() + 4 + 2);
        for command in [wr(0, 0), wr(0, 1), wr(1, 0)] {
            let before = after_open_banks(LATER, rd(0, 0));
            expect_from(&c, &before, command, LATER + t_rtw, &[Rule::Rtw]);
        }
    }
}

#[test]
fn t_rfc_keeps_everything_away_from_a_refresh() {
    for c in configs() {
        let over = 7 + u64::from(c.t_rfc());
        for command in [act(0, 0), pre(1, 0), PREA, REF] {
            expect_from(&c, &[(7, REF)], command, over, &[Rule::Rfc]);
        }
        for command in [rd(0, 0), wr(0, 0)] {
            assert_eq!(rules_of(&c, &[(7, REF)], over - 1, command), [Rule::Rfc, Rule::AccessClosedBank]);
            assert_eq!(rules_of(&c, &[(7, REF)], over, command), [Rule::AccessClosedBank]);
        }
    }
}

#[test]
fn auto_precharge_begins_after_t_rtp_or_t_wr() {
    for c in configs() {
        let t_wr = c.t_cwl() + 4 + c.t_wr();
        for (access, recovery) in [(rda(0, 0), c.t_rtp()), (wra(0, 0), t_wr)] {
            let before = [(0, act(0, 0)), (LATER, access)];
            let ready = LATER + u64::from(recovery + c.t_rp());
            expect_from(&c, &before, act(0, 0), ready, &[Rule::Rp]);
            expect_from(&c, &before, REF, ready, &[Rule::Rp]);
        }
    }
}

#[test]
fn auto_precharge_waits_for_t_ras_and_for_earlier_writes() {
    for c in configs() {
        let t_rcd = u64::from(c.t_rcd());
        let begin = u64::from(c.t_ras()).max(t_rcd + u64::from(c.t_rtp()));
        let before = [(0, act(0, 0)), (t_rcd, rda(0, 0))];
        expect_from(&c, &before, REF, begin + u64::from(c.t_rp()), &[Rule::Rp]);

        let read = LATER + u64::from(c.t_cwl() + 4 + c.t_wtr_l());
        let begin = (read + u64::from(c.t_rtp())).max(LATER + u64::from(c.t_cwl() + 4 + c.t_wr()));
        let before = [(0, act(0, 0)), (LATER, wr(0, 0)), (read, rda(0, 0))];
        expect_from(&c, &before, act(0, 0), begin + u64::from(c.t_rp()), &[Rule::Rp]);
    }
}

#[test]
fn eight_refreshes_may_be_postponed() {
    for c in configs() {
        let t_refi = u64::from(c.t_refi());
        for command in [act(0, 0), PREA, REF] {
            assert_eq!(rules_of(&c, &[], 9 * t_refi, command), []);
            assert_eq!(rules_of(&c, &[], 9 * t_refi + 1, command), [Rule::Refi]);
        }
        // The interval counts from REF to REF, even if REFs were done ahead of time.
        let ahead: Vec<_> = (0..8).map(|i| (i * u64::from(c.t_rfc()), REF)).collect();
        let last = ahead[7].0;
        assert_eq!(rules_of(&c, &ahead, last + 9 * t_refi, PREA), []);
        let late = violations_of(&c, &ahead, last + 9 * t_refi + 1, PREA);
        assert_eq!(late.len(), 1);
        assert_eq!((late[0].rule, late[0].earlier), (Rule::Refi, Some((last, REF))));
        assert_eq!((late[0].required, late[0].actual), (9 * t_refi, 9 * t_refi + 1));
    }
}

#[test]
fn postponed_refreshes_have_to_be_made_up_for() {
    for c in configs() {
        let t_refi = u64::from(c.t_refi());
        // One REF after the longest interval leaves eight postponed: the next is due one interval later.
        let before = [(9 * t_refi, REF)];
        assert_eq!(rules_of(&c, &before, 10 * t_refi, REF), []);
        assert_eq!(rules_of(&c, &before, 10 * t_refi + 1, REF), [Rule::Refi]);
        // Made up for: nine intervals again.
        let made_up: Vec<_> = (0..9).map(|i| (9 * t_refi + i * u64::from(c.t_rfc()), REF)).collect();
        let last = made_up[8].0;
        let limit = (last + 9 * t_refi).min(18 * t_refi);
        assert_eq!(rules_of(&c, &made_up, limit, PREA), []);
        assert_eq!(rules_of(&c, &made_up, limit + 1, PREA), [Rule::Refi]);
    }
}

#[test]
fn more_than_eight_refreshes_ahead_of_time_do_not_count() {
    for c in configs() {
        let [t_refi, t_rfc] = [c.t_refi(), c.t_rfc()].map(u64::from);
        // Ten in the first interval count as eight. Then one in every fourth interval is too few: the sixth passes
        // `(8 + k + 9) tREFI` for the k-th of them, at `4 k tREFI`.
        assert!(10 * t_rfc < 9 * t_refi);
        let mut before: Vec<_> = (0..10).map(|i| (i * t_rfc, REF)).collect();
        let credited = before.iter().fold(0, |credited: u64, (t, _)| (credited + 1).min(t / t_refi + 8));
        before.extend((1..=5).map(|k| (4 * k * t_refi, REF)));
        let deadline = (credited + 5 + 9) * t_refi;
        assert_eq!(rules_of(&c, &before, deadline, REF), []);
        assert_eq!(rules_of(&c, &before, deadline + 1, REF), [Rule::Refi]);
    }
}

#[test]
fn an_overdue_refresh_is_reported_once_and_at_the_end() {
    for c in configs() {
        let t_refi = u64::from(c.t_refi());
        let late = 9 * t_refi + 1;
        assert_eq!(rules_of(&c, &[(late, PREA)], late + 1, PREA), []);
        let mut checker = ndp_dram::Checker::new(ndp_dram::RuleSet::ddr4(&c));
        checker.finish(9 * t_refi);
        assert_eq!(checker.violation_count(), 0);
        checker.finish(late);
        checker.finish(late + 1);
        assert_eq!(checker.violation_count(), 1);
        let line = format!(
            "cycle {late}: tREFI: DES, {late} cycles after the start, at most {} allowed",
            9 * t_refi
        );
        assert_eq!(checker.violations()[0].to_string(), line);
    }
}
