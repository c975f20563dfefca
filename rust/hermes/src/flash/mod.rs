//! MLP neurons in memory, others on SSD ("LLM in a flash", Alizadeh et al., arXiv:2312.11514v1, section 3).
//!
//! An SSD has all neurons as **bundles**: the row of the first matrix, the row of the gate if any, and the column of
//! the last matrix (*row-column bundling*). Memory has **slots** for some. For each token, a [`Window`] says which
//! bundles are read into which slot, which leave, and which change slots. `ndp_config::Ssd` has the times.

mod window;

pub use window::{Change, Counts, Manager, Window};
