//! Charts as SVG, reports as one HTML file without scripts or anything from outside, and timelines for Perfetto.
//!
//! Equal numbers give equal bytes. Written by hand: needed are lines, bars and a legend, readable in light and dark,
//! with a tooltip on every mark, which plotting libraries' SVG back ends (plotters) do not write.
//!
//! Reading order: [`LineChart`], [`BarChart`], [`Rows`], [`Gantt`], [`Page`], [`Timeline`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod axis;
mod bars;
mod gantt;
mod line;
mod page;
mod ranked;
mod render;
mod svg;
mod text;
mod timeline;
mod value;
mod values;

pub use bars::BarChart;
pub use gantt::Gantt;
pub use line::{Dot, LineChart, Series};
pub use page::Page;
pub use ranked::Rows;
pub use render::csv_of;
pub use text::{Screen, Terminal, WIDTH};
pub use timeline::{Timeline, Track};

pub use value::{
    Chart, ChartKind, Field, Fold, Folds, Level, Report, Unit, concise, counted, decimal, field, grouped,
    lasting, significant,
};
pub use values::{Values, optional};

use thiserror::Error;

#[derive(Debug, Error, PartialEq)]
pub enum ReportError {
    /// A number without a place on an axis.
    #[error("value {index} of '{series}' is {value}; charts take finite numbers")]
    NotFinite { series: String, index: usize, value: f64 },
    /// A value that cannot be written, or that no field describes.
    #[error("the report of {command}: {fault}")]
    Incomplete { command: &'static str, fault: String },
    /// Series of different lengths.
    #[error("'{series}' has {found} values for {expected} labels")]
    Length { series: String, found: usize, expected: usize },
}

/// Error for the first value that is not finite.
fn check_finite(series: &str, values: impl IntoIterator<Item = f64>) -> Result<(), ReportError> {
    match values.into_iter().enumerate().find(|(_, value)| !value.is_finite()) {
        Some((index, value)) => Err(ReportError::NotFinite { series: series.to_owned(), index, value }),
        None => Ok(()),
    }
}
