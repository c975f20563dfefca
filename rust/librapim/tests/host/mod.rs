//! Tests of the PIM host: rates, texts, models, offloading.

mod common;
mod models;
mod offloading;
mod rates;
mod texts;
mod timing_only;
