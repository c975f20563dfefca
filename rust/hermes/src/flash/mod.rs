//! Which neurons of an MLP stay in memory if the others are on an SSD ("LLM in a flash", Alizadeh et al., arXiv:2312.11514v1, section 3).
//!
//! An SSD has all neurons as **bundles**: the row of the first matrix, that of the gate if there is one, and the column of the last, one after
//! the other (*row-column bundling*). Memory has **slots** for some. A [`Window`] says, token after token, which bundles are read into which slot,
//! which leave, and which change slots. How long an SSD takes says `ndp_config::Ssd`.

mod window;

pub use window::{Change, Counts, Manager, Window};
