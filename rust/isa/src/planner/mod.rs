//! How products and attention are cut into instructions of the NDP core, from DRAM to DRAM.
//!
//! No data is moved here: operands get places, and instructions are listed for RTL or cycle model. Reading order:
//! [`image`] (weights of a model), [`product`], [`kept`] (two chained products), [`predicted`] (the core finds the
//! rows), [`series`] (independent products), [`partial`] (a product on several cores), [`rotary`], [`attention`].

pub mod attention;
pub mod image;
pub mod kept;
pub mod partial;
pub mod predicted;
pub mod product;
pub mod rotary;
pub mod series;

pub use attention::{
    AttentionPart, AttentionUnit, HeadCut, ScoreStep, SlotWords, attention_program, slot_words,
};
pub use image::{Home, ModelImage, Slots, Tile, Weight, WeightMatrix};
pub use kept::KeptOutputs;
pub use partial::{
    PartPlace, export_program, meeting_program, place_sums, rounding_program, rounds_beside_sums,
};
pub use predicted::Prediction;
pub use product::{Ending, Epilogue, Mode, Piece, Plan, Sizes, can_share_scales};
pub use rotary::{RotaryPiece, rotary_program};
pub use series::{Member, Series};
