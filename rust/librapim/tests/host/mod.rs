//! Tests of the PIM host: rates, texts, offloading.

mod common;
mod offloading;
mod outlines;
mod rates;
mod texts;
