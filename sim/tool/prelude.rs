//! Names that nearly every command uses.

pub use crate::output::{Asked, Shown, write};
pub use crate::tools::{Tools, load_model, set_thresholds, workspace_path};
pub use anyhow::{Context, Result};
pub use itertools::{Itertools, iproduct};
pub use ndp_config::{DesignConfig, HbmConfig, LlmShape, SystemConfig};
pub use ndp_files::{FileSet, OutputFile, Progress};
pub use ndp_report::{Chart, ChartKind, Level, Report, Values, fields, figures, grouped, rows};
pub use std::path::{Path, PathBuf};
