//! Tests of the PIM host: rates, texts, offloading.

mod common;
mod offloading;
mod rates;
mod texts;
mod timing_only;
