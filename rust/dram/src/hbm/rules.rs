//! The rules of HBM2 with computing banks as a table for the checker.
//!
//! `docs/hbm-pim.md` has the same table with the source of each number. RDG is a RD. RES, SUM and GBW have no bank; for
//! the data bus they count as accesses in another bank group. RD and MAC of different partitions have no distance to
//! keep.

use ndp_config::{HbmCommandSet, HbmConfig, HbmRefresh};

use crate::hbm::command::{HbmCommand, HbmKind};
use crate::rules::{Rule, RuleSet, Scope, TimingRule, WindowRule};

impl RuleSet<HbmCommand> {
    /// The rules of a channel with the numbers of `config`.
    ///
    /// Rules from a WR or GBW count from the end of its data, `tCWL + tBL` after the command. Up to eight REFs, or
    /// eight REFBs of each bank, may be postponed, and up to eight may be issued ahead of time.
    pub fn hbm2(config: &HbmConfig) -> Self {
        use HbmKind::{
            Activate, BufferWrite, Mac, PimActivate, PimActivateAll, Precharge, Read, Refresh, RefreshBank,
            ResultRead, Slice, Write,
        };
        use Scope::{OtherGroup, Rank, SameBank, SameGroup};

        let c = config;
        let end_of_write = c.t_cwl() + HbmConfig::T_BL;
        let activations = [Activate, PimActivate, PimActivateAll];
        let mut table = vec![
            (Rule::Rcd, Activate, Read, SameBank, c.t_rcd()),
            (Rule::Rcd, Activate, Write, SameBank, c.t_rcd()),
            (Rule::Rcd, PimActivate, Mac, SameBank, c.t_rcd()),
            (Rule::Rcd, PimActivateAll, Mac, SameBank, c.t_rcd()),
            (Rule::Rp, Precharge, Refresh, Rank, c.t_rp()),
            (Rule::Rp, Precharge, Slice, SameBank, c.t_rp()),
            (Rule::CcdS, Read, Read, OtherGroup, c.t_ccd_s()),
            (Rule::CcdL, Read, Read, SameGroup, c.t_ccd_l()),
            (Rule::CcdS, Write, Write, OtherGroup, c.t_ccd_s()),
            (Rule::CcdL, Write, Write, SameGroup, c.t_ccd_l()),
            (Rule::CcdL, Mac, Mac, SameBank, c.t_ccd_l()),
            (Rule::CcdS, Read, ResultRead, Rank, c.t_ccd_s()),
            (Rule::CcdS, ResultRead, Read, Rank, c.t_ccd_s()),
            (Rule::CcdS, ResultRead, ResultRead, Rank, c.t_ccd_s()),
            (Rule::CcdS, Write, BufferWrite, Rank, c.t_ccd_s()),
            (Rule::CcdS, BufferWrite, Write, Rank, c.t_ccd_s()),
            (Rule::CcdS, BufferWrite, BufferWrite, Rank, c.t_ccd_s()),
            (Rule::Rtw, Read, Write, Rank, c.t_rtw()),
            (Rule::Rtw, Read, BufferWrite, Rank, c.t_rtw()),
            (Rule::Rtw, ResultRead, Write, Rank, c.t_rtw()),
            (Rule::Rtw, ResultRead, BufferWrite, Rank, c.t_rtw()),
            (Rule::WtrS, Write, Read, OtherGroup, end_of_write + c.t_wtr_s()),
            (Rule::WtrL, Write, Read, SameGroup, end_of_write + c.t_wtr_l()),
            (Rule::WtrS, Write, ResultRead, Rank, end_of_write + c.t_wtr_s()),
            (Rule::WtrS, BufferWrite, Read, Rank, end_of_write + c.t_wtr_s()),
            (Rule::WtrS, BufferWrite, ResultRead, Rank, end_of_write + c.t_wtr_s()),
            (Rule::Rtp, Read, Precharge, SameBank, c.t_rtp()),
            (Rule::Rtp, Mac, Precharge, SameBank, c.t_rtp()),
            (Rule::Wr, Write, Precharge, SameBank, end_of_write + c.t_wr()),
            (Rule::MacLatency, Mac, ResultRead, Rank, c.t_mac()),
            (Rule::SliceRecovery, Slice, Slice, SameBank, c.t_slice()),
            (Rule::SliceRecovery, Slice, Refresh, Rank, c.t_slice()),
        ];
        for earlier in activations {
            table.push((Rule::Ras, earlier, Precharge, SameBank, c.t_ras()));
            for later in activations {
                table.push((Rule::Rc, earlier, later, SameBank, c.t_rc()));
                // An activation of all banks has no other group.
                if later != PimActivateAll {
                    table.push((Rule::RrdS, earlier, later, OtherGroup, c.t_rrd_s()));
                }
                table.push((Rule::RrdL, earlier, later, SameGroup, c.t_rrd_l()));
            }
            // tRRD keeps it away from other activations.
            for later in [Precharge, Refresh, Slice] {
                table.push((Rule::RowBus, earlier, later, Rank, HbmConfig::ACTIVATE_CLOCKS));
            }
        }
        for later in activations {
            table.push((Rule::Rp, Precharge, later, SameBank, c.t_rp()));
            table.push((Rule::SliceRecovery, Slice, later, SameBank, c.t_slice()));
        }
        table.extend(HbmKind::ALL.map(|later| (Rule::Rfc, Refresh, later, Rank, c.t_rfc())));
        table.push((Rule::Rp, Precharge, RefreshBank, SameBank, c.t_rp()));
        table.push((Rule::SliceRecovery, Slice, RefreshBank, SameBank, c.t_slice()));
        table.push((Rule::RfcBank, RefreshBank, Slice, SameBank, c.t_rfc_pb()));
        for earlier in activations {
            table.push((Rule::Rc, earlier, RefreshBank, SameBank, c.t_rc()));
            table.push((Rule::RrdS, earlier, RefreshBank, OtherGroup, c.t_rrd_s()));
            table.push((Rule::RrdL, earlier, RefreshBank, SameGroup, c.t_rrd_l()));
        }
        for later in activations.into_iter().chain([RefreshBank]) {
            table.push((Rule::RfcBank, RefreshBank, later, SameBank, c.t_rfc_pb()));
            table.push((Rule::RrefD, RefreshBank, later, Rank, c.t_rrefd()));
        }
        if c.command_set() == HbmCommandSet::Aim {
            let pairs =
                HbmKind::ALL.into_iter().flat_map(|earlier| HbmKind::ALL.map(|later| (earlier, later)));
            table.extend(pairs.map(|(earlier, later)| (Rule::CommandBus, earlier, later, Rank, c.t_cmd())));
        }
        Self {
            bank_groups: c.bank_groups() as usize,
            banks_per_group: c.banks_per_group() as usize,
            partitions: HbmConfig::PARTITIONS as usize,
            timing: table.into_iter().map(TimingRule::from).collect(),
            windows: vec![WindowRule {
                rule: Rule::Faw,
                kinds: vec![(Activate, 1), (PimActivate, c.banks_per_group() as usize)],
                commands: 4,
                cycles: c.t_faw().into(),
            }],
            read_latency: c.t_cl().into(),
            write_latency: c.t_cwl().into(),
            burst_cycles: HbmConfig::T_BL.into(),
            refresh_interval: c.refresh_interval().into(),
            refresh_postponed: match c.refresh() {
                HbmRefresh::All => 8,
                HbmRefresh::Bank => 8 * u64::from(c.banks()),
            },
            features: c.clone(),
        }
    }
}
