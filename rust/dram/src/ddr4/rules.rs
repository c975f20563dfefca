//! The timing rules of DDR4.

use super::pins::{Command, CommandKind};
use crate::rules::{Rule, RuleSet, Scope, TimingRule, WindowRule};
use ndp_config::DramConfig;

impl RuleSet<Command> {
    /// The rules of DDR4 (JESD79-4) with the numbers of `config`.
    ///
    /// Rules from a WR count from the end of its data, `tCWL + tBL` after the command. Up to eight REFs may be
    /// postponed, and up to eight may be issued ahead of time. The table lacks the rule of at most 16 REFs within 2
    /// tREFI, which only a controller that refreshes for no reason could break.
    pub fn ddr4(config: &DramConfig) -> Self {
        use CommandKind::{Activate, Precharge, Read, Refresh, Write};
        use Scope::{OtherGroup, Rank, SameBank, SameGroup};

        let end_of_write = config.t_cwl() + DramConfig::T_BL;
        let mut table = vec![
            (Rule::Rc, Activate, Activate, SameBank, config.t_rc()),
            (Rule::Ras, Activate, Precharge, SameBank, config.t_ras()),
            (Rule::Rcd, Activate, Read, SameBank, config.t_rcd()),
            (Rule::Rcd, Activate, Write, SameBank, config.t_rcd()),
            (Rule::Rp, Precharge, Activate, SameBank, config.t_rp()),
            (Rule::Rp, Precharge, Refresh, Rank, config.t_rp()),
            (Rule::RrdS, Activate, Activate, OtherGroup, config.t_rrd_s()),
            (Rule::RrdL, Activate, Activate, SameGroup, config.t_rrd_l()),
            (Rule::CcdS, Read, Read, OtherGroup, config.t_ccd_s()),
            (Rule::CcdL, Read, Read, SameGroup, config.t_ccd_l()),
            (Rule::CcdS, Write, Write, OtherGroup, config.t_ccd_s()),
            (Rule::CcdL, Write, Write, SameGroup, config.t_ccd_l()),
            (Rule::Rtp, Read, Precharge, SameBank, config.t_rtp()),
            (Rule::Wr, Write, Precharge, SameBank, end_of_write + config.t_wr()),
            (Rule::WtrS, Write, Read, OtherGroup, end_of_write + config.t_wtr_s()),
            (Rule::WtrL, Write, Read, SameGroup, end_of_write + config.t_wtr_l()),
            (Rule::Rtw, Read, Write, Rank, config.t_rtw()),
        ];
        table.extend(CommandKind::ALL.map(|later| (Rule::Rfc, Refresh, later, Rank, config.t_rfc())));
        Self {
            bank_groups: config.bank_groups() as usize,
            banks_per_group: DramConfig::BANKS_PER_GROUP as usize,
            partitions: 1,
            timing: table.into_iter().map(TimingRule::from).collect(),
            windows: vec![WindowRule {
                rule: Rule::Faw,
                kinds: vec![(Activate, 1)],
                commands: 4,
                cycles: config.t_faw().into(),
            }],
            read_latency: config.t_cl().into(),
            write_latency: config.t_cwl().into(),
            burst_cycles: DramConfig::T_BL.into(),
            refresh_interval: config.t_refi().into(),
            refresh_postponed: 8,
            features: (),
        }
    }
}
