//! A decode step: mode, layout of requests, and result.

use crate::offloading::algorithm::Choice;
use crate::offloading::time::Picos;
use crate::offloading::timeline::{Device, Timeline, Work};
use serde::{Deserialize, Serialize};

ndp_config::named! {
    /// Ways in which NPU and memory work together.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[derive(clap::ValueEnum)]
    #[serde(rename_all = "lowercase")]
    pub enum Mode {
        /// NPU+AiM: one group of requests, the devices take turns
        #[value(alias = "npu-aim")]
        Serial = "serial",
        /// AttAcc: one group; attention of some heads while Q, K, V and projection of others are computed, FFNs shared
        #[value(name = "attacc")]
        AttAcc = "attacc",
        /// Two groups, banks not sliced: rows are open for reads or for MACs
        Pipelined = "pipelined",
        /// NeuPIMs: two groups, two row buffers
        #[value(name = "neupims")]
        NeuPims = "neupims",
        /// Two groups, sliced banks: reads and MACs at the same time
        Dex = "dex",
        /// As dex+dbo on banks that are not sliced
        Dbo = "dbo",
        /// LibraPIM: sliced banks; one group or two, and shares of FFN or attention on the other device
        #[value(name = "dex+dbo", alias = "librapim")]
        #[serde(rename = "dex+dbo")]
        DexDbo = "dex+dbo",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Attention follows the matrices.
    OneGroup,
    /// Two groups that swap places.
    TwoGroups,
    /// Two groups, one wholly in memory.
    WholeGroup,
}

impl Mode {
    /// The paper's system of this mode.
    pub fn system(self) -> &'static str {
        match self {
            Self::Serial => "NPU+AiM",
            Self::AttAcc => "AttAcc",
            Self::Pipelined => "pipelined",
            Self::NeuPims => "NeuPIMs",
            Self::Dex => "DEX alone",
            Self::Dbo => "DBO alone",
            Self::DexDbo => "LibraPIM",
        }
    }

    pub fn sliced(self) -> bool {
        matches!(self, Self::Dex | Self::DexDbo)
    }

    pub fn offloads(self) -> bool {
        matches!(self, Self::Dbo | Self::DexDbo)
    }
}

/// A piece of work without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// Matrices with vectors of `npu` requests on the NPU and `pim` in memory, whose banks get the weights on their
    /// way.
    Matrix {
        work: Work,
        /// Requests on the NPU.
        npu: u32,
        pim: u32,
    },
    /// An FFN whose weights both devices divide, each with all vectors.
    Coprocessed {
        /// Requests, whose vectors both devices have.
        requests: u32,
        npu_macs: u64,
        pim_macs: u64,
    },
    Attention {
        device: Device,
        /// Tokens in K and V of each request.
        contexts: Vec<u32>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    pub mode: Mode,
    pub layout: Layout,
    /// Decision in a middle layer, while the first group is on the NPU; with one group, attention's if the FFN stays.
    /// `None` without DBO, for a whole group, or for one layer.
    pub choice: Option<Choice>,
    pub npu_macs: u64,
    pub pim_macs: u64,
    /// Pieces of work, and how often each occurs.
    #[serde(skip)]
    pub jobs: Vec<(Job, u64)>,
    pub timeline: Timeline,
}

impl Step {
    /// A step of one group with a given span, without MACs or events.
    pub fn alone(mode: Mode, span: Picos, jobs: Vec<(Job, u64)>) -> Self {
        let timeline = Timeline { span, events: Vec::new() };
        Self { mode, layout: Layout::OneGroup, choice: None, npu_macs: 0, pim_macs: 0, jobs, timeline }
    }
}
