//! How products and attention are cut into instructions of the NDP core, from DRAM to DRAM.
//!
//! Between who has something to compute (the co-simulation's host, the time model of whole systems) and who runs programs (the
//! RTL, the cycle model): operands get places in DRAM and buffer, and the instructions are listed. No data is moved here.
//! Reading order: [`image`] (where the weights of a model lie), [`product`], [`kept`] (two
//! products with nothing between them), [`predicted`] (the core finds the rows itself), [`series`] (several that do not need each other), [`partial`] (a product on several cores), [`rotary`], [`attention`].

pub mod attention;
pub mod image;
pub mod kept;
pub mod partial;
pub mod predicted;
pub mod product;
pub mod rotary;
pub mod series;

pub use attention::{AttentionUnit, HeadCut, attention_program, slot_words};
pub use image::{Home, ModelImage, Slots, Tile, Weight, WeightMatrix};
pub use kept::KeptOutputs;
pub use partial::{
    PartPlace, export_program, meeting_program, place_sums, rounding_program, rounds_beside_sums,
};
pub use predicted::Prediction;
pub use product::{Ending, Epilogue, Mode, Piece, Plan, Sizes};
pub use rotary::{RotaryPiece, rotary_program};
pub use series::{Member, Series};
